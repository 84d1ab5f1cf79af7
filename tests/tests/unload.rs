//! An unloaded model gives its memory back. Alone in its process, because MLX counts for all threads.
#![allow(clippy::unwrap_used)]

use dspark_engine::{
    device,
    load::{LoadOptions, load},
    target::{Logits, Rows, Target},
};
use mlx_rs::{Array, memory::active_memory, ops::ones};
use serde_json::json;
use std::path::Path;
use tokio_util::sync::CancellationToken;

const HIDDEN: i32 = 512;
const INNER: i32 = 2048;
const VOCAB: i32 = 16_384;
const LAYERS: usize = 4;

fn write_model(dir: &Path) -> usize {
    let mut tensors = vec![
        ("model.embed_tokens.weight".to_owned(), vec![VOCAB, HIDDEN]),
        ("model.norm.weight".to_owned(), vec![HIDDEN]),
    ];
    for layer in 0..LAYERS {
        let mut add = |name: &str, shape: Vec<i32>| tensors.push((format!("model.layers.{layer}.{name}.weight"), shape));
        for name in ["q", "k", "v", "o"] {
            add(&format!("self_attn.{name}_proj"), vec![HIDDEN, HIDDEN]);
        }
        add("mlp.gate_proj", vec![INNER, HIDDEN]);
        add("mlp.up_proj", vec![INNER, HIDDEN]);
        add("mlp.down_proj", vec![HIDDEN, INNER]);
        add("input_layernorm", vec![HIDDEN]);
        add("post_attention_layernorm", vec![HIDDEN]);
    }
    let arrays: Vec<_> = tensors
        .into_iter()
        .map(|(name, shape)| (name, ones::<f32>(&shape).unwrap()))
        .collect();
    Array::save_safetensors(
        arrays.iter().map(|(name, array)| (name.as_str(), array)),
        None,
        dir.join("model.safetensors"),
    )
    .unwrap();
    let config = json!({
        "model_type": "llama", "hidden_size": HIDDEN, "intermediate_size": INNER, "num_hidden_layers": LAYERS,
        "num_attention_heads": 8, "rms_norm_eps": 1e-5, "vocab_size": VOCAB, "max_position_embeddings": 512,
    });
    std::fs::write(dir.join("config.json"), config.to_string()).unwrap();
    arrays.iter().map(|(_, array)| array.nbytes()).sum()
}

/// Resident bytes of this process.
#[cfg(target_os = "linux")]
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

#[test]
fn memory_comes_back() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = write_model(dir.path());
    device::release().unwrap();
    let before = active_memory().unwrap();
    #[cfg(target_os = "linux")]
    let before_resident = resident();

    let model = load(dir.path(), &LoadOptions::default(), &mut |_, _| (), &CancellationToken::new()).unwrap();
    let mut cache = model.decoder.new_cache();
    let tokens = Array::from_slice(&[1_u32, 2, 3], &[1, 3]);
    let output = model.decoder.forward(&Rows::chain(&tokens, Logits::Last), &mut *cache).unwrap();
    output.logits.unwrap().eval().unwrap();
    assert_eq!(model.facts.weight_bytes, bytes as u64);
    // Joining projections leaves no second copy behind.
    let held = active_memory().unwrap() - before;
    assert!(held >= bytes && held < bytes + bytes / 4, "{held} bytes for a model of {bytes}");

    drop((model, cache));
    device::release().unwrap();
    let left = active_memory().unwrap().saturating_sub(before);
    assert!(left < 1 << 20, "{left} bytes are still held");
    #[cfg(target_os = "linux")]
    assert!(
        resident() < before_resident + bytes / 4,
        "{} bytes more are resident",
        resident() - before_resident
    );
}
