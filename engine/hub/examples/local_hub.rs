//! A model hub on this machine that offers one model folder under any name, for trying searches and downloads without a
//! network: `cargo run -p dspark-hub --example local_hub -- FOLDER [ADDRESS] [MILLISECONDS A PIECE]`, then start the program
//! with `HF_ENDPOINT=http://ADDRESS`. Pieces are 16 KiB. Names with `gated` in them are refused so.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

#[allow(dead_code, reason = "the tests use the rest")]
#[path = "../tests/common/fake_hub.rs"]
mod fake_hub;

use serde_json::{Value, json};
use std::{path::Path, time::Duration};

#[tokio::main]
async fn main() {
    let mut words = std::env::args().skip(1);
    let folder = words.next().expect("the folder of a model");
    let address = words.next().unwrap_or_else(|| "127.0.0.1:8999".into());
    let pace = words.next().map_or(0, |pace| pace.parse().expect("milliseconds"));
    let folder = Path::new(&folder);
    let files: Vec<(String, Vec<u8>)> = std::fs::read_dir(folder)
        .expect("a folder that can be read")
        .flatten()
        .filter(|entry| entry.path().is_file())
        .map(|entry| (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap()))
        .collect();
    let config: Value = serde_json::from_slice(&files.iter().find(|(name, _)| name == "config.json").expect("a config.json").1).unwrap();
    let weights: usize = files
        .iter()
        .filter(|(name, _)| name.ends_with(".safetensors"))
        .map(|(_, bytes)| bytes.len())
        .sum();
    let named: Vec<(&str, Vec<u8>)> = files.iter().map(|(name, bytes)| (name.as_str(), bytes.clone())).collect();
    let hub = fake_hub::FakeHub::start_at(&address, &named).await;
    let name = folder.canonicalize().unwrap().file_name().unwrap().to_string_lossy().into_owned();
    let row = |id: String, config: Value, tags: Value, gated: Value, downloads: u64| {
        json!({"id": id, "config": config, "tags": tags, "gated": gated, "downloads": downloads,
               "safetensors": {"parameters": {"U32": weights / 4}}})
    };
    hub.edit(|repo| {
        repo.refused = vec![("gated".into(), (403, "GatedRepo", "Access is restricted"))];
        repo.pace = Duration::from_millis(pace);
        repo.found = vec![
            row(
                format!("mlx-community/{name}"),
                config.clone(),
                json!(["mlx"]),
                json!(false),
                41_200,
            ),
            row(format!("somebody/{name}-copy"), config.clone(), json!(["mlx"]), json!(false), 310),
            row(format!("vendor/{name}-gated"), config.clone(), json!([]), json!("manual"), 90_100),
            row(
                format!("vendor/{name}-Vision"),
                json!({"model_type": "pixel_vl"}),
                json!([]),
                json!(false),
                800,
            ),
            row(
                format!("vendor/{name}-AWQ"),
                json!({"model_type": config["model_type"], "quantization_config": {"quant_method": "awq", "bits": 4}}),
                json!([]),
                json!(false),
                120,
            ),
            json!({"id": format!("vendor/{name}-GGUF"), "config": {"model_type": config["model_type"]}, "tags": ["gguf"], "downloads": 5}),
        ];
    });
    println!("HF_ENDPOINT=http://{}", hub.address);
    std::future::pending::<()>().await;
}
