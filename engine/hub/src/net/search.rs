//! Looking for models by name: one page of the hub's list, with enough of each to say whether it can be loaded.

use super::Network;
use crate::{HubError, Job, Result};
use serde::Serialize;
use serde_json::Value;

/// Rows of each of the two questions.
const PAGE: usize = 30;
const FIELDS: [&str; 7] = [
    "config",
    "safetensors",
    "gated",
    "downloads",
    "tags",
    "library_name",
    "lastModified",
];

/// A repository, as the hub lists it. What the hub leaves out is not known, and not guessed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Found {
    /// `owner/name`
    pub repo: String,
    /// `model_type` of its configuration.
    pub model_type: Option<String>,
    /// Bits and group size of MLX's quantization.
    pub quantization: Option<(u64, u64)>,
    /// Who packed it otherwise: `gptq`, `awq`, `bitsandbytes`.
    pub packing: Option<String>,
    /// Bytes of its safetensors files, summed over their number formats.
    pub weight_bytes: Option<u64>,
    /// Its licence must be accepted on its page first.
    pub gated: bool,
    /// It holds GGUF files.
    pub gguf: bool,
    /// Downloads of the last month.
    pub downloads: u64,
}

impl Found {
    /// Why the engine cannot load it, where that is known. `families` are the `model_type`s that it has.
    pub fn problem(&self, families: &[&str]) -> Option<String> {
        if self.weight_bytes.is_none() && self.gguf {
            return Some("GGUF files only: look for its MLX build".into());
        }
        if let Some(packing) = &self.packing {
            return Some(format!("packed by {packing}: look for its MLX build"));
        }
        match &self.model_type {
            Some(kind) if !families.contains(&kind.as_str()) => Some(format!("the architecture `{kind}` is not implemented")),
            Some(_) if self.quantization.is_some_and(|(bits, _)| bits < 2) => Some("1-bit weights are not supported".into()),
            Some(_) if self.weight_bytes.is_none() => Some("it has no safetensors weights".into()),
            Some(_) => None,
            None => Some("it does not say which architecture it is".into()),
        }
    }

    fn read(row: &Value) -> Option<Self> {
        let repo = row["id"].as_str()?;
        repo.parse::<super::RepoId>().ok()?;
        let config = &row["config"];
        let packed = &config["quantization_config"];
        let own = if config["quantization"].is_object() {
            &config["quantization"]
        } else {
            packed
        };
        let tag = |name: &str| row["tags"].as_array().is_some_and(|tags| tags.iter().any(|tag| tag == name));
        Some(Self {
            repo: repo.to_owned(),
            model_type: config["model_type"].as_str().map(str::to_owned),
            quantization: own["bits"].as_u64().zip(own["group_size"].as_u64().or(Some(64))),
            packing: packed["quant_method"].as_str().filter(|method| *method != "mlx").map(str::to_owned),
            weight_bytes: weight_bytes(&row["safetensors"]),
            gated: row["gated"].as_bool().unwrap_or(row["gated"].is_string()),
            gguf: tag("gguf") || row["library_name"] == "gguf",
            downloads: row["downloads"].as_u64().unwrap_or(0),
        })
    }
}

/// `{"parameters": {"BF16": 12, "U32": 3}}`: numbers of each format.
fn weight_bytes(safetensors: &Value) -> Option<u64> {
    let formats = safetensors["parameters"].as_object()?;
    let bytes = formats.iter().filter_map(|(format, count)| {
        let width = match format.as_str() {
            "F64" | "I64" | "U64" => 8,
            "F32" | "I32" | "U32" => 4,
            "F16" | "BF16" | "I16" | "U16" => 2,
            _ => 1,
        };
        count.as_u64()?.checked_mul(width)
    });
    Some(bytes.fold(0, u64::saturating_add)).filter(|bytes| *bytes > 0)
}

impl Network {
    pub(crate) async fn search(&self, words: &str, job: &Job) -> Result<Vec<Found>> {
        if self.offline {
            return Err(HubError::Offline {
                what: format!("the search for `{words}`"),
            });
        }
        // Builds for MLX first: most of what is popular is packed for other programs.
        let mut found = self.list(words, Some("mlx"), job).await?;
        for row in self.list(words, None, job).await? {
            if !found.iter().any(|known| known.repo == row.repo) {
                found.push(row);
            }
        }
        Ok(found)
    }

    async fn list(&self, words: &str, filter: Option<&str>, job: &Job) -> Result<Vec<Found>> {
        let fields = FIELDS.join("&expand[]=");
        let filter = filter.map_or_else(String::new, |filter| format!("&filter={filter}"));
        let words_escaped = super::repo::escape(words);
        let url = format!(
            "{}/api/models?search={words_escaped}{filter}&sort=downloads&direction=-1&limit={PAGE}&expand[]={fields}",
            self.endpoint
        );
        let response = self.get(&url, words, "main", job).await?;
        let reply = job.race(async { response.bytes().await.map_err(|e| self.unreachable(&e)) }).await?;
        let rows: Vec<Value> = serde_json::from_slice(&reply).map_err(|_| HubError::BadReply {
            repo: words.to_owned(),
            reason: "it is not a list; a login page of the network, perhaps".into(),
        })?;
        Ok(rows.iter().filter_map(Found::read).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_row_says_what_it_is_and_why_it_cannot_be_loaded() {
        let row = |value: Value| Found::read(&value).unwrap();
        let mlx = row(json!({
            "id": "mlx-community/Qwen3-4B-4bit",
            "config": {"model_type": "qwen3", "quantization_config": {"bits": 4, "group_size": 64}},
            "safetensors": {"parameters": {"U32": 500_000_000, "BF16": 126_000_000}, "total": 626_000_000},
            "gated": false, "downloads": 7, "tags": ["mlx"],
        }));
        assert_eq!((mlx.weight_bytes, mlx.quantization), (Some(2_252_000_000), Some((4, 64))));
        let families = ["qwen3", "llama"];
        assert_eq!(mlx.problem(&families), None);
        assert!(mlx.problem(&["llama"]).unwrap().contains("`qwen3`"));
        let awq = row(json!({
            "id": "a/b", "config": {"model_type": "qwen3", "quantization_config": {"quant_method": "awq", "bits": 4}},
            "safetensors": {"parameters": {"I32": 5}}, "gated": "manual",
        }));
        assert!(awq.gated && awq.problem(&families).unwrap().contains("awq"));
        let gguf = row(json!({"id": "a/c", "config": {"model_type": "llama"}, "tags": ["gguf"]}));
        assert!(gguf.problem(&families).unwrap().contains("GGUF"));
        assert!(row(json!({"id": "a/d"})).problem(&families).unwrap().contains("does not say"));
        let packed = row(json!({
            "id": "a/e", "config": {"model_type": "llama", "quantization": {"bits": 1, "group_size": 128}},
            "safetensors": {"parameters": {"U32": 5}},
        }));
        assert!(packed.problem(&families).unwrap().contains("1-bit"));
        for hostile in [json!({}), json!({"id": 5}), json!({"id": "../x/y"}), json!(null)] {
            assert_eq!(Found::read(&hostile), None);
        }
    }
}
