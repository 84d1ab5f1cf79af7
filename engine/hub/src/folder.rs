use crate::{HubError, Result, disk, tensors::Header};
use serde::Serialize;
use serde_json::Value;
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

/// What a folder holds, as far as loading is concerned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum FolderState {
    Complete,
    /// Weight files that the index or their own names promise are not there.
    Incomplete {
        missing: Vec<String>,
    },
    Corrupt {
        file: String,
        reason: String,
    },
    /// Only GGUF weights; llama.cpp programs use such folders.
    Gguf,
    NotAModel {
        reason: String,
    },
}

impl FolderState {
    /// The sentence behind "not usable", none for a complete folder.
    pub fn problem(&self) -> Option<String> {
        match self {
            Self::Complete => None,
            Self::Incomplete { missing } => Some(format!("incomplete, {} missing: download it again to resume", missing.join(", "))),
            Self::Corrupt { file, reason } => Some(format!("`{file}` is damaged: {reason}")),
            Self::Gguf => Some("not usable (GGUF): get the MLX build of the model".into()),
            Self::NotAModel { reason } => Some(reason.clone()),
        }
    }
}

/// A whole language model, or a drafter for one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    Model,
    Drafter,
}

/// A model folder's facts, without its weights being read.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Folder {
    pub path: PathBuf,
    #[serde(flatten)]
    pub state: FolderState,
    pub kind: Kind,
    pub model_type: Option<String>,
    /// `4-bit g32`, `bf16`; none where config.json does not say.
    pub quantization: Option<String>,
    pub weight_files: Vec<String>,
    pub weight_bytes: u64,
    /// Bytes of all files, links followed.
    pub size_bytes: u64,
    /// config.json; null where there is none.
    #[serde(skip)]
    pub config: Value,
}

impl Folder {
    /// A quick look: names and sizes.
    pub fn look(path: &Path) -> Self {
        let files = list(path);
        let config = disk::read_json(&path.join("config.json")).unwrap_or(Value::Null);
        let weights = weights(path, &files);
        let (state, present) = match &weights {
            Ok(present) => (FolderState::Complete, present.clone()),
            Err(state) => (
                state.clone(),
                files.iter().filter(|f| is_weight(&f.name)).map(|f| f.name.clone()).collect(),
            ),
        };
        let size = |name: &String| files.iter().find(|f| f.name == *name).and_then(|f| f.size).unwrap_or(0);
        Self {
            kind: kind(&config),
            model_type: config["model_type"].as_str().map(str::to_owned),
            quantization: quantization(&config),
            weight_bytes: present.iter().map(size).sum(),
            weight_files: present,
            size_bytes: files.iter().filter_map(|f| f.size).sum(),
            path: path.to_owned(),
            state,
            config,
        }
    }

    /// As [`Folder::look`], and every weight file is as long as its header declares.
    pub fn check(path: &Path) -> Self {
        let mut folder = Self::look(path);
        if folder.state == FolderState::Complete {
            let broken = folder.weight_files.iter().find_map(|name| match Header::read(&path.join(name)) {
                Err(HubError::Corrupt { reason, .. }) => Some((name.clone(), reason)),
                Err(e) => Some((name.clone(), e.to_string())),
                Ok(_) => None,
            });
            if let Some((file, reason)) = broken {
                folder.state = FolderState::Corrupt { file, reason };
            }
        }
        folder
    }

    /// # Errors
    /// Why the folder cannot be loaded.
    pub fn require_complete(&self) -> Result<()> {
        let path = self.path.clone();
        Err(match &self.state {
            FolderState::Complete => return Ok(()),
            FolderState::Incomplete { missing } => HubError::Incomplete {
                path,
                missing: missing.clone(),
            },
            FolderState::Corrupt { file, reason } => HubError::Corrupt {
                path: path.join(file),
                reason: reason.clone(),
            },
            state => HubError::NotAModel {
                path,
                reason: state.problem().unwrap_or_default(),
            },
        })
    }
}

struct Entry {
    name: String,
    /// None where a link leads nowhere.
    size: Option<u64>,
}

fn list(path: &Path) -> Vec<Entry> {
    let mut files: Vec<Entry> = std::fs::read_dir(path)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            match std::fs::metadata(entry.path()) {
                Ok(meta) if meta.is_file() => Some(Entry {
                    name,
                    size: Some(meta.len()),
                }),
                Ok(_) => None,
                Err(_) => Some(Entry { name, size: None }),
            }
        })
        .collect();
    files.sort_by(|a, b| a.name.cmp(&b.name));
    files
}

fn is_weight(name: &str) -> bool {
    name.ends_with(".safetensors")
}

/// The weight files of an MLX folder, or what is wrong with it.
fn weights(path: &Path, files: &[Entry]) -> Result<Vec<String>, FolderState> {
    let there = |name: &str| files.iter().any(|f| f.name == name && f.size.is_some());
    let found: Vec<String> = files.iter().filter(|f| is_weight(&f.name)).map(|f| f.name.clone()).collect();
    let index = files
        .iter()
        .find(|f| f.name.ends_with(".safetensors.index.json"))
        .and_then(|f| disk::read_json(&path.join(&f.name)));
    let promised: BTreeSet<String> = match index.as_ref().and_then(|index| index["weight_map"].as_object()) {
        Some(map) => map.values().filter_map(|file| file.as_str().map(str::to_owned)).collect(),
        None => found.iter().flat_map(|name| shards(name)).collect(),
    };
    if promised.is_empty() {
        let ends = |suffix: &str| files.iter().any(|f| f.name.ends_with(suffix));
        return Err(if ends(".gguf") {
            FolderState::Gguf
        } else if there("config.json") && (ends(".bin") || ends(".pt") || ends(".pth")) {
            FolderState::NotAModel {
                reason: "its weights are pickles, which can run code; get a safetensors build".into(),
            }
        } else {
            FolderState::NotAModel {
                reason: "it holds no safetensors weights".into(),
            }
        });
    }
    let missing: Vec<String> = promised.iter().filter(|name| !there(name)).cloned().collect();
    if !missing.is_empty() {
        return Err(FolderState::Incomplete { missing });
    }
    if !there("config.json") {
        // A config that is a link to nowhere is a download in mid-way.
        return Err(if files.iter().any(|f| f.name == "config.json") {
            FolderState::Incomplete {
                missing: vec!["config.json".into()],
            }
        } else {
            FolderState::NotAModel {
                reason: "it has no config.json".into(),
            }
        });
    }
    Ok(promised.into_iter().collect())
}

/// `x-00001-of-00003.safetensors` promises all three, any other name itself alone.
fn shards(name: &str) -> Vec<String> {
    let parse = || {
        let stem = name.strip_suffix(".safetensors")?;
        let (rest, count) = stem.rsplit_once("-of-")?;
        let (prefix, number) = rest.rsplit_once('-')?;
        let total: usize = count.parse().ok().filter(|n| (1..=9999).contains(n))?;
        let number: usize = number.parse().ok()?;
        (count.len() == 5 && (1..=total).contains(&number))
            .then(|| (1..=total).map(|n| format!("{prefix}-{n:05}-of-{total:05}.safetensors")).collect())
    };
    parse().unwrap_or_else(|| vec![name.to_owned()])
}

/// Drafters say so in their configuration (`spec/drafters.md` §2).
fn kind(config: &Value) -> Kind {
    let named = config["architectures"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .any(|name| {
            ["DSpark", "DFlash", "DSpine", "Eagle", "Speculator"]
                .iter()
                .any(|mark| name.contains(mark))
        });
    let keyed = [
        "dflash_config",
        "dspine_config",
        "markov_rank",
        "speculators_config",
        "speculators_model_type",
    ]
    .iter()
    .any(|key| !config[*key].is_null());
    if named || keyed { Kind::Drafter } else { Kind::Model }
}

fn quantization(config: &Value) -> Option<String> {
    let block = [
        &config["quantization"],
        &config["text_config"]["quantization"],
        &config["quantization_config"],
    ]
    .into_iter()
    .find(|block| block["bits"].is_u64());
    if let Some(block) = block {
        let group = block["group_size"].as_u64().map(|g| format!(" g{g}")).unwrap_or_default();
        let mode = block["mode"]
            .as_str()
            .filter(|mode| *mode != "affine")
            .map(|mode| format!(" {mode}"))
            .unwrap_or_default();
        return Some(format!("{}-bit{group}{mode}", block["bits"]));
    }
    let dtype = ["torch_dtype", "dtype"]
        .iter()
        .find_map(|key| config[*key].as_str().or_else(|| config["text_config"][*key].as_str()))?;
    Some(match dtype {
        "bfloat16" => "bf16".into(),
        "float16" => "f16".into(),
        "float32" => "f32".into(),
        other => other.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn folder(files: &[&str]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for file in files {
            std::fs::write(dir.path().join(file), "{}").unwrap();
        }
        dir
    }

    /// dl-001
    #[test]
    fn a_missing_shard_is_named() {
        let (a, b, c) = (
            "model-00001-of-00003.safetensors",
            "model-00002-of-00003.safetensors",
            "model-00003-of-00003.safetensors",
        );
        let dir = folder(&["config.json", "tokenizer.json", a, c]);
        let missing = FolderState::Incomplete { missing: vec![b.into()] };
        assert_eq!(Folder::look(dir.path()).state, missing, "without an index, by the names");
        let index = json!({"weight_map": {"x": a, "y": b, "z": c}}).to_string();
        std::fs::write(dir.path().join("model.safetensors.index.json"), index).unwrap();
        let folder = Folder::look(dir.path());
        assert_eq!(folder.state, missing);
        assert!(folder.require_complete().unwrap_err().to_string().contains("resume"));
    }

    /// dl-002
    #[test]
    fn any_safetensors_names_will_do_without_an_index() {
        let dir = folder(&["config.json", "tokenizer.json", "a.safetensors", "b.safetensors"]);
        let folder = Folder::look(dir.path());
        assert_eq!(folder.state, FolderState::Complete);
        assert_eq!(folder.weight_files, ["a.safetensors", "b.safetensors"]);
    }

    /// dl-003: a file of 1000 bytes whose header declares 1200.
    #[test]
    fn a_truncated_shard_is_told_with_both_sizes() {
        let dir = folder(&["config.json"]);
        let header = json!({"w": {"dtype": "U8", "shape": [1000], "data_offsets": [0, 1000]}}).to_string();
        let header = format!("{header:192}");
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend(header.as_bytes());
        bytes.resize(1000, 0);
        std::fs::write(dir.path().join("model.safetensors"), bytes).unwrap();
        let message = Folder::check(dir.path()).require_complete().unwrap_err().to_string();
        assert!(["truncated", "1000", "1200"].iter().all(|part| message.contains(part)), "{message}");
    }

    #[test]
    fn kinds_and_widths() {
        assert_eq!(kind(&json!({"architectures": ["Qwen3DSparkModel"]})), Kind::Drafter);
        assert_eq!(kind(&json!({"architectures": ["LlamaForCausalLM"]})), Kind::Model);
        assert_eq!(
            quantization(&json!({"quantization": {"bits": 4, "group_size": 32}})).as_deref(),
            Some("4-bit g32")
        );
        assert_eq!(
            quantization(&json!({"text_config": {"dtype": "bfloat16"}})).as_deref(),
            Some("bf16")
        );
        assert_eq!(shards("model-00007-of-00003.safetensors"), ["model-00007-of-00003.safetensors"]);
        let pickle = folder(&["config.json", "pytorch_model.bin"]);
        assert!(Folder::look(pickle.path()).state.problem().unwrap().contains("pickles"));
    }
}
