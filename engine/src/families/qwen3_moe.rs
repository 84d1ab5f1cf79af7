//! Qwen3 with a mixture of experts in most layers. Oracle: mlx-lm `qwen3_moe.py`.

use super::{Family, llama, qwen3};
use crate::{
    decoder::spec::{DecoderSpec, ExpertsSpec, FfnSpec, LinearSpec, MoeSpec, RouterSpec, Scoring},
    load::{Config, LoadError, Place},
};

pub(super) const FAMILY: Family = Family {
    model_types: &["qwen3_moe"],
    spec,
    place,
    adapt: None,
};

fn spec(config: &Config) -> Result<DecoderSpec, LoadError> {
    let mut spec = qwen3::spec(config)?;
    let count = config.count_or("num_experts", 0)?;
    if count == 0 {
        return Ok(spec);
    }
    let every = config.usize_opt("decoder_sparse_step")?.unwrap_or(1);
    let dense = config.numbers("mlp_only_layers")?.unwrap_or_default();
    let normalize = config.bool_or("norm_topk_prob", false)?.then_some(0.0);
    let (inner, top_k) = (
        config.usize("moe_intermediate_size")?,
        super::top_k(config, "num_experts_per_tok", count)?,
    );
    for (layer, block) in spec.blocks.iter_mut().enumerate() {
        let sparse = (layer + 1).is_multiple_of(every) && !dense.contains(&(layer as f64));
        if let Some(ffn) = block.ffn.as_mut().filter(|_| sparse) {
            let path = format!("model.layers.{layer}.mlp");
            ffn.inner = FfnSpec::Moe(Box::new(moe(&path, spec.hidden, inner, count, top_k, normalize)));
        }
    }
    Ok(spec)
}

/// Qwen's mixture at `path`.
pub(super) fn moe(path: &str, hidden: usize, inner: usize, count: usize, top_k: usize, normalize: Option<f32>) -> MoeSpec {
    MoeSpec {
        router: RouterSpec {
            gate: LinearSpec::new(format!("{path}.gate"), hidden, count),
            norm: None,
            scoring: Scoring::Softmax,
            top_k,
            bias: None,
            groups: None,
            normalize,
            factor: 1.0,
            per_expert: None,
        },
        experts: ExpertsSpec {
            count,
            each: llama::swiglu(&format!("{path}.switch_mlp"), hidden, inner, false),
        },
        latent: None,
        shared: None,
    }
}

/// Hugging Face stores each expert on its own.
fn place(spec: &DecoderSpec, name: &str) -> Place {
    match super::expert(name) {
        Some((prefix, index, rest)) => Place::Expert {
            of: format!("{prefix}.switch_mlp.{rest}"),
            index,
        },
        None => llama::place(spec, name),
    }
}
