//! Which tensors a drafter must have, by name and shape: exactly these, so that a part nobody reads cannot hide.

use super::{
    DrafterError, Result,
    files::Tensors,
    spec::{Class, DrafterSpec, Family, MarkovKind},
};
use crate::load::Packing;
use std::collections::BTreeMap;

/// DSpine's token codes in a file of their own.
pub(super) const CODES: &str = "codes";

/// Spellings of the same tensor: published, ours.
pub(super) const RENAMES: [(&str, &str); 3] = [
    (CODES, "transfer_codes"),
    (
        "candidate_selector.predecessor_codebook.weight",
        "candidate_selector.predecessor_codebook",
    ),
    (
        "candidate_selector.successor_codebook.weight",
        "candidate_selector.successor_codebook",
    ),
];

/// Read apart from the network, or by nobody.
const ASIDE: [&str; 3] = ["d2t", "t2d", "transfer_ready"];

/// One module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Part {
    /// At `<path>.weight`, maybe packed, maybe with a bias where `true`.
    Matrix { rows: usize, columns: usize, bias: bool },
    /// At `<path>.weight`.
    Norm(usize),
    /// Under its own name.
    Raw(Vec<usize>),
}

pub(super) fn parts(spec: &DrafterSpec) -> BTreeMap<String, Part> {
    let (hidden, dim) = (spec.hidden, spec.head_dim);
    let mut parts = BTreeMap::new();
    let matrix = |rows, columns| Part::Matrix { rows, columns, bias: true };
    let mut add = |path: &str, part: Part| {
        parts.insert(path.to_owned(), part);
    };
    add("fc", matrix(hidden, hidden * spec.taps.len()));
    add("hidden_norm", Part::Norm(hidden));
    add("norm", Part::Norm(hidden));
    if spec.own_embed {
        add("embed_tokens", matrix(spec.vocab, hidden));
    }
    if spec.own_head {
        add("lm_head", matrix(spec.head_rows(), hidden));
    }
    if let Some(markov) = spec.markov {
        let rank = markov.rank;
        add("markov_head.markov_w1", matrix(spec.vocab, rank));
        add("markov_head.markov_w2", matrix(spec.head_rows(), rank));
        match markov.kind {
            MarkovKind::Vanilla => {}
            MarkovKind::Gated => add("markov_head.gate_proj", matrix(rank, hidden + rank)),
            MarkovKind::Rnn => add("markov_head.joint_proj", matrix(3 * rank, 2 * rank + hidden)),
        }
    }
    if let Some(with_markov) = spec.confidence {
        let rank = spec.markov.filter(|_| with_markov).map_or(0, |markov| markov.rank);
        add("confidence_head.proj", matrix(1, hidden + rank));
    }
    if spec.log_snr.is_some() {
        add("log_snr_embed.fc1", matrix(hidden, super::drafter::SNR_FEATURES));
        add("log_snr_embed.fc2", matrix(hidden, hidden));
    }
    if let Some(selector) = spec.selector {
        let table = vec![spec.vocab, selector.rank];
        add("candidate_selector.predecessor_codebook", Part::Raw(table.clone()));
        add("candidate_selector.successor_codebook", Part::Raw(table));
        add("candidate_selector.hidden_projection", matrix(selector.rank, hidden));
    }
    if let Some(injection) = spec.injection {
        let (rank, message) = (injection.rank, injection.message);
        for name in ["message", "receiver_gate", "predecessor_gate"] {
            add(
                &format!("injection.{name}"),
                Part::Matrix {
                    rows: message,
                    columns: rank,
                    bias: false,
                },
            );
        }
        add("injection.bias", Part::Raw(vec![message]));
        add("transfer_codes", Part::Raw(vec![spec.vocab, rank]));
        for layer in 0..spec.layers() {
            let (read, write) = (format!("injection.readouts.{layer}"), format!("injection.writes.{layer}"));
            add(
                &read,
                Part::Matrix {
                    rows: rank,
                    columns: hidden,
                    bias: false,
                },
            );
            add(
                &write,
                Part::Matrix {
                    rows: hidden,
                    columns: message,
                    bias: false,
                },
            );
        }
    }
    for layer in 0..spec.layers() {
        let mut add = |name: &str, part: Part| add(&format!("layers.{layer}.{name}"), part);
        let queries = spec.heads * dim;
        add("input_layernorm", Part::Norm(hidden));
        add("post_attention_layernorm", Part::Norm(hidden));
        add("self_attn.q_proj", matrix(if spec.gated_q { 2 * queries } else { queries }, hidden));
        add("self_attn.k_proj", matrix(spec.kv_heads * dim, hidden));
        add("self_attn.o_proj", matrix(hidden, queries));
        if spec.family != Family::Llama {
            add("self_attn.q_norm", Part::Norm(dim));
            add("self_attn.k_norm", Part::Norm(dim));
        }
        if spec.family == Family::Gemma4 {
            add("pre_feedforward_layernorm", Part::Norm(hidden));
            add("post_feedforward_layernorm", Part::Norm(hidden));
            add("layer_scalar", Part::Raw(vec![1]));
        } else {
            add("self_attn.v_proj", matrix(spec.kv_heads * dim, hidden));
        }
        if spec.sinks {
            add("self_attn.attention_sink_bias", Part::Raw(vec![spec.heads]));
        }
        add("mlp.gate_proj", matrix(spec.inner, hidden));
        add("mlp.up_proj", matrix(spec.inner, hidden));
        add("mlp.down_proj", matrix(hidden, spec.inner));
        if let (Class::DFlash2, Some(conv)) = (spec.class, spec.conv) {
            for name in ["attention_conv", "mlp_conv"] {
                add(&format!("{name}.base_kernel"), Part::Raw(vec![2, conv.taps, hidden]));
                let coefficients = 2 * conv.taps * (hidden / conv.group);
                add(&format!("{name}.kernel_projection"), matrix(coefficients, hidden));
            }
        }
    }
    parts
}

/// Names and shapes against those of the spec. Without `strict`, tensors nobody reads are returned for a note.
pub(super) fn check(spec: &DrafterSpec, tensors: &Tensors, strict: bool) -> Result<Vec<String>> {
    let mut expected: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (path, part) in parts(spec) {
        match part {
            Part::Norm(size) => {
                expected.insert(format!("{path}.weight"), vec![size]);
            }
            Part::Raw(shape) => {
                expected.insert(path, shape);
            }
            Part::Matrix { rows, columns, bias } => expected.extend(matrix(tensors, &path, rows, columns, bias)?),
        }
    }
    let missing: Vec<String> = expected.keys().filter(|name| !tensors.has(name)).cloned().collect();
    let known = |name: &str| expected.contains_key(name) || ASIDE.contains(&name) || name.ends_with("rotary_emb.inv_freq");
    let unexpected: Vec<String> = tensors.names().filter(|name| !known(name)).map(str::to_owned).collect();
    if !missing.is_empty() || (strict && !unexpected.is_empty()) {
        return Err(DrafterError::Tensors { missing, unexpected });
    }
    for (name, shape) in expected {
        let Some(found) = tensors.get(&name).filter(|found| found.shape != shape) else {
            continue;
        };
        return Err(DrafterError::tensor(
            &name,
            format!("has shape {:?}, config.json asks for {shape:?}", found.shape),
        ));
    }
    Ok(unexpected)
}

/// Names and shapes of a matrix as stored.
fn matrix(tensors: &Tensors, path: &str, rows: usize, columns: usize, bias: bool) -> Result<Vec<(String, Vec<usize>)>> {
    let name = |part: &str| format!("{path}.{part}");
    let weight = name("weight");
    let mut names = Vec::new();
    if let Some(scales) = tensors.get(&name("scales")) {
        let last = |shape: &[usize]| shape.last().copied().unwrap_or(0);
        let packed = tensors.get(&weight).map_or(0, |stored| last(&stored.shape));
        let packing = Packing::infer(path, columns, packed, last(&scales.shape), scales.dtype == "U8")?;
        let groups = vec![rows, columns / packing.group as usize];
        names.push((weight, vec![rows, columns * packing.bits as usize / 32]));
        names.push((name("biases"), groups.clone()));
        names.push((name("scales"), groups));
    } else if tensors.has(&name("weight_scale")) {
        names.push((weight, vec![rows, columns / 2]));
        names.push((name("weight_scale"), vec![rows, columns / super::nvfp4::GROUP]));
        if let Some(scale) = tensors.get(&name("weight_scale_2")) {
            names.push((name("weight_scale_2"), scale.shape.clone()));
        } else {
            names.push((name("weight_scale_2"), Vec::new()));
        }
        if let Some(scale) = tensors.get(&name("input_scale")) {
            names.push((name("input_scale"), scale.shape.clone()));
        }
    } else {
        names.push((weight, vec![rows, columns]));
    }
    if bias && tensors.has(&name("bias")) {
        names.push((name("bias"), vec![rows]));
    }
    Ok(names)
}
