//! GGUF → MLX on synthetic models: every weight, hostile files, refusals by name.

#![allow(clippy::unwrap_used)]

mod common;

use common::*;
use dspark_hub::{HubError, Job, gguf};
use half::{bf16, f16};
use proptest::prelude::*;
use safetensors::{Dtype, SafeTensors};
use serde_json::Value as Json;
use std::path::Path;

fn convert(model: &Model, dir: &Path) -> dspark_hub::Result<gguf::Conversion> {
    let file = dir.join("in.gguf");
    std::fs::write(&file, model.bytes()).unwrap();
    gguf::convert(&file, &dir.join("out"), "test", &Job::silent())
}

fn json(path: &Path) -> Json {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// Weights of a parameter of the MLX folder, by MLX's definition of affine quantization, and the bits it has.
fn mlx(tensors: &SafeTensors, config: &Json, module: &str) -> (Vec<f64>, Option<u64>) {
    let number = |view: &safetensors::tensor::TensorView| -> Vec<f64> {
        let bytes = view.data();
        match view.dtype() {
            Dtype::F32 => bytes
                .chunks(4)
                .map(|b| f64::from(f32::from_le_bytes(b.try_into().unwrap())))
                .collect(),
            Dtype::F16 => bytes
                .chunks(2)
                .map(|b| f64::from(f16::from_le_bytes(b.try_into().unwrap())))
                .collect(),
            Dtype::BF16 => bytes
                .chunks(2)
                .map(|b| f64::from(bf16::from_le_bytes(b.try_into().unwrap())))
                .collect(),
            other => panic!("{other:?}"),
        }
    };
    let weight = tensors.tensor(&format!("{module}.weight")).unwrap();
    let Ok(scales) = tensors.tensor(&format!("{module}.scales")) else {
        return (number(&weight), None);
    };
    let biases = tensors.tensor(&format!("{module}.biases")).unwrap();
    let quantization = &config["quantization"];
    let own = &quantization[module];
    let own = if own.is_object() { own } else { quantization };
    let (bits, group) = (own["bits"].as_u64().unwrap(), own["group_size"].as_u64().unwrap());
    assert_eq!(weight.dtype(), Dtype::U32);
    let columns = weight.shape()[1] as u64 * 32 / bits;
    assert_eq!(scales.shape()[1] as u64, columns / group);
    let words: Vec<u32> = weight.data().chunks(4).map(|b| u32::from_le_bytes(b.try_into().unwrap())).collect();
    let (scales, biases) = (number(&scales), number(&biases));
    let total = words.len() as u64 * 32 / bits;
    let weights = (0..total)
        .map(|i| {
            let q = words[(i * bits / 32) as usize] >> (i * bits % 32) & ((1 << bits) - 1);
            scales[(i / group) as usize] * f64::from(q) + biases[(i / group) as usize]
        })
        .collect();
    (weights, Some(bits))
}

/// llama.cpp's own direction: Hugging Face row r of a head goes to this row of the file.
fn interleaved(row: u64) -> u64 {
    let (head, within) = (row / HEAD_DIM, row % HEAD_DIM);
    let (half, pair) = (within / (HEAD_DIM / 2), within % (HEAD_DIM / 2));
    head * HEAD_DIM + pair * 2 + half
}

fn check(model: &Model, llama: bool) {
    let dir = tempfile::tempdir().unwrap();
    let done = convert(model, dir.path()).unwrap();
    let config = json(&done.path.join("config.json"));
    let bytes = std::fs::read(done.path.join("model.safetensors")).unwrap();
    let tensors = SafeTensors::deserialize(&bytes).unwrap();
    let mut seen = 0;
    for tensor in &model.tensors {
        let parts: Vec<&str> = tensor.name.split('.').collect();
        let module = match parts.as_slice() {
            ["token_embd", _] => "model.embed_tokens".to_owned(),
            ["output_norm", _] => "model.norm".to_owned(),
            ["output", _] => "lm_head".to_owned(),
            ["blk", layer, part, _] => {
                let name = match *part {
                    "attn_norm" => "input_layernorm",
                    "ffn_norm" => "post_attention_layernorm",
                    "attn_q" => "self_attn.q_proj",
                    "attn_k" => "self_attn.k_proj",
                    "attn_v" => "self_attn.v_proj",
                    "attn_output" => "self_attn.o_proj",
                    "attn_q_norm" => "self_attn.q_norm",
                    "attn_k_norm" => "self_attn.k_norm",
                    "ffn_gate" => "mlp.gate_proj",
                    "ffn_up" => "mlp.up_proj",
                    _ => "mlp.down_proj",
                };
                format!("model.layers.{layer}.{name}")
            }
            other => panic!("{other:?}"),
        };
        let (got, bits) = mlx(&tensors, &config, &module);
        let want = weights(tensor);
        assert_eq!(
            bits,
            [None, Some(4), Some(8)][usize::from(matches!(tensor.kind, Q4_0 | Q4_1)) + 2 * usize::from(tensor.kind == Q8_0)]
        );
        assert_eq!(got.len(), want.len(), "{module}");
        let columns = *tensor.shape.last().unwrap() as usize;
        let permuted = llama && (module.ends_with("q_proj") || module.ends_with("k_proj"));
        for (row, got) in got.chunks(columns).enumerate() {
            let from = if permuted { interleaved(row as u64) as usize } else { row };
            assert_eq!(got, &want[from * columns..][..columns], "{module} row {row}");
        }
        seen += 1 + 2 * usize::from(bits.is_some());
    }
    assert_eq!(seen, tensors.len(), "nothing but the model's tensors");
    assert_eq!(
        config["tie_word_embeddings"],
        model.tensors.iter().all(|t| t.name != "output.weight")
    );
}

#[test]
fn every_weight_of_every_type_is_kept() {
    check(&model("llama", &[Q4_1, Q8_0], true), true);
    check(&model("llama", &[Q4_0, F16, BF16, F32], false), true);
    check(&model("qwen3", &[Q8_0, Q4_0, Q4_1], false), false);
    check(&model("qwen3", &[BF16], true), false);
}

#[test]
fn a_scale_too_large_for_an_f16_bias_is_kept_in_f32() {
    let mut tiny = model("llama", &[Q8_0], true);
    let huge = tiny.tensors.iter_mut().find(|t| t.name == "blk.1.ffn_up.weight").unwrap();
    huge.data[..2].copy_from_slice(&f16::from_f32(60_000.0).to_le_bytes());
    check(&tiny, true);
}

#[test]
fn tokenizer_and_config_come_from_the_metadata() {
    let dir = tempfile::tempdir().unwrap();
    let mut tiny = model("llama", &[Q4_1], true);
    tiny.keys.insert("tokenizer.ggml.eot_token_id".into(), Value::U32(259));
    let out = convert(&tiny, dir.path()).unwrap().path;
    let config = json(&out.join("config.json"));
    assert_eq!(config["rms_norm_eps"], 1e-5);
    assert_eq!(config["eos_token_id"], serde_json::json!([258, 259]));
    assert_eq!(
        json(&out.join("generation_config.json"))["eos_token_id"],
        serde_json::json!([258, 259])
    );
    assert_eq!(
        json(&out.join("tokenizer_config.json"))["chat_template"],
        "{{ messages[0].content }}"
    );
    assert_eq!(json(&out.join("tokenizer_config.json"))["eos_token"], "<|im_end|>");

    let tokenizer = tokenizers::Tokenizer::from_file(out.join("tokenizer.json")).unwrap();
    let encoding = tokenizer.encode("<|im_start|>hi 123<|im_end|><think>", false).unwrap();
    let hi = 256;
    let ids = encoding.get_ids();
    assert_eq!(&ids[..2], [257, hi]);
    assert_eq!(ids.len(), 2 + 4 + 2, "each digit alone: {ids:?}");
    assert_eq!(&ids[6..], [258, 259]);
    assert_eq!(tokenizer.decode(ids, true).unwrap(), "hi 123<think>");
    assert_eq!(tokenizer.token_to_id("[PAD0]"), None);
}

#[test]
fn what_cannot_be_exact_is_refused_by_name() {
    let refuse = |change: &dyn Fn(&mut Model)| {
        let dir = tempfile::tempdir().unwrap();
        let mut tiny = model("llama", &[Q4_1], true);
        change(&mut tiny);
        let error = convert(&tiny, dir.path()).unwrap_err().to_string();
        let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().flatten().map(|e| e.file_name()).collect();
        assert!(!left.iter().any(|name| name == "out"), "{left:?}");
        error
    };
    let set = |key: &'static str, value: Value| move |m: &mut Model| drop(m.keys.insert(key.into(), value.clone()));
    assert!(refuse(&set("general.architecture", "gemma3".into())).contains("`gemma3`"));
    assert!(refuse(&set("tokenizer.ggml.model", "llama".into())).contains("tokenizer `llama`"));
    assert!(refuse(&set("tokenizer.ggml.pre", "tekken".into())).contains("`tekken`"));
    assert!(refuse(&set("llama.expert_count", Value::U32(8))).contains("mixture of experts"));
    assert!(refuse(&set("llama.rope.scaling.type", "longrope".into())).contains("`longrope`"));
    assert!(
        refuse(&|m| {
            let t = &mut m.tensors[2];
            (t.kind, t.data) = (14, vec![0; 210 * 64]);
        })
        .contains("Q6_K")
    );
    assert!(refuse(&|m| drop(m.tensors.remove(5))).contains("missing"));
    assert!(refuse(&|m| m.tensors[2].name = "blk.0.attn_sinks.weight".into()).contains("attn_sinks"));
    assert!(
        refuse(&|m| {
            let t = &mut m.tensors[2];
            t.data[..2].copy_from_slice(&f16::NAN.to_le_bytes());
        })
        .contains("not a number")
    );
}

#[test]
fn cancelling_leaves_nothing_behind_that_looks_finished() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("in.gguf");
    std::fs::write(&file, model("llama", &[Q4_1], true).bytes()).unwrap();
    let token = tokio_util::sync::CancellationToken::new();
    let stop = token.clone();
    let job = Job::new(token, move |_| stop.cancel());
    let out = dir.path().join("out");
    assert!(matches!(gguf::convert(&file, &out, "test", &job), Err(HubError::Cancelled)));
    assert!(!out.exists());
    // The same folder converts afterwards, whatever the stopped attempt left.
    gguf::convert(&file, &out, "test", &Job::silent()).unwrap();
    assert!(out.join("config.json").exists());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Damaged in any byte or cut anywhere, a file is refused or converted; nothing panics or allocates beyond the file.
    #[test]
    fn damaged_files_never_panic(edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4), cut in any::<prop::sample::Index>(), keep in any::<bool>()) {
        thread_local!(static BYTES: Vec<u8> = model("llama", &[Q4_1, F16], true).bytes());
        let mut bytes = BYTES.with(Clone::clone);
        // Damage the header: most of the file is weights, where any byte is legal.
        let header = bytes.len().min(9000);
        for (index, byte) in edits {
            bytes[index.index(header)] = byte;
        }
        if !keep {
            let length = cut.index(bytes.len());
            bytes.truncate(length);
        }
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("in.gguf");
        std::fs::write(&file, &bytes).unwrap();
        let _ = gguf::convert(&file, &dir.path().join("out"), "test", &Job::silent());
    }

    #[test]
    fn noise_never_panics(noise in prop::collection::vec(any::<u8>(), 0..400), counts in any::<(u64, u64)>()) {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("in.gguf");
        let mut bytes = [b"GGUF".as_slice(), &3_u32.to_le_bytes(), &(counts.0 % 40).to_le_bytes(), &(counts.1 % 40).to_le_bytes()].concat();
        bytes.extend(noise);
        std::fs::write(&file, bytes).unwrap();
        prop_assert!(gguf::GgufFile::open(&file).is_err() || counts.1 % 40 < 40);
    }
}
