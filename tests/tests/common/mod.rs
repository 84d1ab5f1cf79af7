//! What several tests need.
#![allow(clippy::unwrap_used, dead_code)]

use dspark_engine::hub::{self, Hub, Job};
use mlx_rs::{Array, Dtype};
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};

/// A recorded prompt of the starter model, with what it wrote greedily.
pub(crate) struct Prompt {
    pub(crate) ids: Vec<u32>,
    pub(crate) kind: String,
    pub(crate) recorded: Vec<u32>,
    pub(crate) margins: Vec<f64>,
}

pub(crate) fn ids(value: &Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect()
}

/// The twelve prompts of `golden-exact.json`.
pub(crate) fn prompts() -> Vec<Prompt> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/models/golden-exact.json");
    let golden: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let prompt = |prompt: &Value| Prompt {
        ids: ids(&prompt["prompt_ids"]),
        kind: prompt["cat"].as_str().unwrap().to_owned(),
        recorded: ids(&prompt["ids"]),
        margins: prompt["margins"].as_array().unwrap().iter().map(|m| m.as_f64().unwrap()).collect(),
    };
    golden["prompts"].as_array().unwrap().iter().map(prompt).collect()
}

/// The folder of the starter model, fetched and converted at the first call.
pub(crate) fn folder() -> PathBuf {
    let found = hub::block_on(Hub::from_env().starter(&Job::silent())).unwrap();
    found
        .unwrap_or_else(|error| panic!("these tests need the starter model: {error}"))
        .path
}

/// The conversion that `golden.json` was made from: every matrix to bf16, then to 8 bit in groups of 64.
pub(crate) fn requantized(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    let tensors = Array::load_safetensors(from.join("model.safetensors")).unwrap();
    let mut config: Map<String, Value> = serde_json::from_slice(&std::fs::read(from.join("config.json")).unwrap()).unwrap();
    let quantization = config["quantization"].as_object().unwrap().clone();
    let packing = |path: &str, key: &str| {
        let own = quantization.get(path).and_then(|own| own.get(key)).or(quantization.get(key));
        own.and_then(Value::as_i64).unwrap() as i32
    };
    let mut out: Vec<(String, Array)> = Vec::new();
    for (name, array) in &tensors {
        let Some(path) = name.strip_suffix(".weight") else { continue };
        let Some(scales) = tensors.get(&format!("{path}.scales")) else {
            out.push((name.clone(), array.as_dtype(Dtype::Bfloat16).unwrap()));
            continue;
        };
        let float = |array: &Array| array.as_dtype(Dtype::Float32).unwrap();
        let biases = float(&tensors[&format!("{path}.biases")]);
        let dense = mlx_rs::ops::dequantize(array, float(scales), &biases, packing(path, "group_size"), packing(path, "bits")).unwrap();
        let (weight, scales, biases) = mlx_rs::ops::quantize(dense.as_dtype(Dtype::Bfloat16).unwrap(), 64, 8).unwrap();
        out.extend([
            (name.clone(), weight),
            (format!("{path}.scales"), scales),
            (format!("{path}.biases"), biases),
        ]);
    }
    Array::save_safetensors(
        out.iter().map(|(name, array)| (name.as_str(), array)),
        None,
        to.join("model.safetensors"),
    )
    .unwrap();
    let packing = json!({"group_size": 64, "bits": 8});
    config.insert("quantization".into(), packing.clone());
    config.insert("quantization_config".into(), packing);
    std::fs::write(to.join("config.json"), serde_json::to_vec(&config).unwrap()).unwrap();
}
