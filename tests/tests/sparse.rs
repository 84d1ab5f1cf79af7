//! A checkpoint of any size, made of holes, loads and unloads within its weights and a tenth. Alone in its process, because
//! resident memory counts for all threads. `MLX_DSPARK_SPARSE_GB` sets the size: the default is small.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use dspark_engine::{
    device,
    load::{LoadOptions, load},
};
use serde_json::{Map, json};
use std::{fs::File, io::Write, path::Path};
use tokio_util::sync::CancellationToken;

const HIDDEN: u64 = 1024;
const INNER: u64 = 2816;
const VOCAB: u64 = 8192;

/// Llama in bf16 in files of at most 4 GB: headers, and holes for what they tell of. Returns bytes of weights.
fn write(dir: &Path, wanted: u64) -> u64 {
    let layer = 2 * (4 * HIDDEN * HIDDEN + 3 * HIDDEN * INNER + 2 * HIDDEN);
    let layers = (wanted / layer).max(2);
    let mut tensors = vec![
        ("model.embed_tokens.weight".to_owned(), vec![VOCAB, HIDDEN]),
        ("model.norm.weight".to_owned(), vec![HIDDEN]),
    ];
    for layer in 0..layers {
        let mut add = |name: &str, shape: &[u64]| tensors.push((format!("model.layers.{layer}.{name}.weight"), shape.to_vec()));
        for name in ["q", "k", "v", "o"] {
            add(&format!("self_attn.{name}_proj"), &[HIDDEN, HIDDEN]);
        }
        for (name, shape) in [("gate", [INNER, HIDDEN]), ("up", [INNER, HIDDEN]), ("down", [HIDDEN, INNER])] {
            add(&format!("mlp.{name}_proj"), &shape);
        }
        add("input_layernorm", &[HIDDEN]);
        add("post_attention_layernorm", &[HIDDEN]);
    }
    let (mut total, mut file, mut map) = (0, 0, Map::new());
    let mut rest = &tensors[..];
    while !rest.is_empty() {
        file += 1;
        let (mut header, mut end, mut taken) = (Map::new(), 0, 0);
        for (name, shape) in rest {
            let bytes = 2 * shape.iter().product::<u64>();
            if end > 0 && end + bytes > 4_000_000_000 {
                break;
            }
            header.insert(
                name.clone(),
                json!({"dtype": "BF16", "shape": shape, "data_offsets": [end, end + bytes]}),
            );
            map.insert(name.clone(), json!(format!("model-{file:05}.safetensors")));
            (end, taken) = (end + bytes, taken + 1);
        }
        rest = &rest[taken..];
        total += end;
        let header = serde_json::to_vec(&header).unwrap();
        let mut out = File::create(dir.join(format!("model-{file:05}.safetensors"))).unwrap();
        out.write_all(&(header.len() as u64).to_le_bytes()).unwrap();
        out.write_all(&header).unwrap();
        out.set_len(8 + header.len() as u64 + end).unwrap();
    }
    let index = json!({"metadata": {"total_size": total}, "weight_map": map});
    std::fs::write(dir.join("model.safetensors.index.json"), index.to_string()).unwrap();
    let config = json!({
        "model_type": "llama", "hidden_size": HIDDEN, "intermediate_size": INNER, "num_hidden_layers": layers,
        "num_attention_heads": 16, "rms_norm_eps": 1e-5, "vocab_size": VOCAB, "max_position_embeddings": 4096,
    });
    std::fs::write(dir.join("config.json"), config.to_string()).unwrap();
    total
}

/// A line of the kernel's account of this process, bytes.
fn status(key: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find(|line| line.starts_with(key)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

#[test]
fn a_load_holds_the_weights_and_little_more() {
    let gigabytes = std::env::var("MLX_DSPARK_SPARSE_GB").ok().and_then(|text| text.parse::<f64>().ok());
    let dir = tempfile::tempdir().unwrap();
    let weights = write(dir.path(), (gigabytes.unwrap_or(0.4) * 1e9) as u64);
    device::release().unwrap();
    let before = status("VmRSS");
    // The highest mark starts anew.
    std::fs::write("/proc/self/clear_refs", "5").unwrap();

    let (mut steps, mut last) = (0, 0);
    let mut progress = |done: u64, total: u64| {
        assert!(done > last && total == weights);
        (steps, last) = (steps + 1, done);
    };
    let model = load(dir.path(), &LoadOptions::default(), &mut progress, &CancellationToken::new()).unwrap();
    let (held, peak) = (status("VmRSS") - before, status("VmHWM") - before);
    assert!(steps > 20 && last == weights);
    // Norms are held in f32.
    let loaded = model.facts.weight_bytes;
    assert!(loaded >= weights && loaded < weights + weights / 100, "{loaded} bytes of {weights}");
    let share = |bytes: u64| bytes as f64 / weights as f64;
    println!(
        "{:.2} GB: {:.1} % resident, {:.1} % at most, {:.1} s",
        weights as f64 / 1e9,
        100.0 * share(held),
        100.0 * share(peak),
        model.facts.load_seconds
    );
    assert!(share(peak) < 1.1, "{peak} bytes at most for {weights} of weights");

    drop(model);
    device::release().unwrap();
    let left = status("VmRSS").saturating_sub(before);
    println!("{:.1} % after unloading", 100.0 * share(left));
    assert!(share(left) < 0.1, "{left} bytes are still held");
}
