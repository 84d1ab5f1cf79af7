//! What belongs to a model beside its weights: configuration, tokenizer, templates, licence.

use super::{ConvertError, Result, plan::Plan, writer::write_json};
use crate::load::{Checkpoint, link_root, stays_inside};
use serde_json::{Map, Value, json};
use std::path::Path;

/// Files that are written anew, or told something about the old weights.
const OWN: [&str; 4] = ["config.json", "hf_quant_config.json", "conversion.json", "convert-journal.json"];
/// Larger files are no tokenizers.
const MOST: u64 = 256 << 20;

/// Copies what the new folder needs: tokenizer, chat templates, generation settings, licences. No code, no other weights.
pub(super) fn copy(from: &Path, to: &Path) -> Result<()> {
    let root = link_root(from);
    let entries = std::fs::read_dir(from).map_err(ConvertError::io("read", from))?;
    for entry in entries {
        let name = entry.map_err(ConvertError::io("read", from))?.file_name();
        let Some(name) = name.to_str() else { continue };
        let kind = Path::new(name).extension().and_then(|ext| ext.to_str());
        let licence = ["LICENSE", "LICENCE", "NOTICE", "COPYING"]
            .iter()
            .any(|word| name.starts_with(word));
        let wanted = licence || matches!(kind, Some("json" | "jinja" | "txt")) || name == "tokenizer.model";
        if !wanted || OWN.contains(&name) || name.ends_with(".index.json") {
            continue;
        }
        let path = from.join(name);
        let Ok(meta) = std::fs::metadata(&path) else { continue };
        if !meta.is_file() || meta.len() > MOST {
            continue;
        }
        stays_inside(&path, &root)?;
        std::fs::copy(&path, to.join(name)).map_err(ConvertError::io("copy", &path))?;
    }
    Ok(())
}

/// `config.json` with the new packings. What only describes other towers goes, as in mlx-lm's.
pub(super) fn config(checkpoint: &Checkpoint, plan: &Plan, to: &Path) -> Result<()> {
    let mut config = checkpoint.config.all().clone();
    for key in ["_name_or_path", "vision_config"] {
        config.remove(key);
    }
    if let Some(quantization) = plan.quantization() {
        config.insert("quantization".into(), quantization.clone());
        config.insert("quantization_config".into(), quantization);
    }
    // Sorted, as mlx-lm writes it.
    let sorted: std::collections::BTreeMap<String, Value> = config.into_iter().collect();
    write_json(&to.join("config.json"), &Value::Object(Map::from_iter(sorted)))
}

/// Where the folder came from, and the size of each of its files.
pub(super) fn record(dir: &Path, origin: &str, plan: &Plan) -> Result<()> {
    let mut files = Map::new();
    for entry in std::fs::read_dir(dir).map_err(ConvertError::io("read", dir))? {
        let entry = entry.map_err(ConvertError::io("read", dir))?;
        let size = entry.metadata().map_err(ConvertError::io("read", &entry.path()))?.len();
        files.insert(entry.file_name().to_string_lossy().into_owned(), json!(size));
    }
    let record = json!({"version": 1, "source": origin, "quantization": plan.quantization(), "files": files});
    write_json(&dir.join("conversion.json"), &record)
}
