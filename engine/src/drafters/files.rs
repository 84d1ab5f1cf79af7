//! What a drafter's folder holds: configuration and tensor headers. Nothing is read into memory yet.

use super::{
    DrafterError, Result,
    detect::is_dspine,
    gguf,
    modules::{CODES, RENAMES},
};
use crate::load::{Shard, find_beside, find_shards, read_json};
use mlx_rs::{Array, Stream, with_stream};
use serde_json::{Map, Value};
use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
};

/// A tensor's header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// `BF16`, `U32`, …
    pub dtype: String,
    pub shape: Vec<usize>,
}

/// The headers of a folder, by name.
#[derive(Debug, Clone, Default)]
pub struct Tensors {
    all: BTreeMap<String, Stored>,
    /// Bits of packed matrices, where config.json tells.
    bits: Option<usize>,
}

impl Tensors {
    /// `config` tells how many bits packed matrices have.
    pub fn new(all: BTreeMap<String, Stored>, config: &Map<String, Value>) -> Self {
        let packing = config.get("quantization").or_else(|| config.get("quantization_config"));
        let bits = packing.and_then(|packing| packing.get("bits")?.as_u64());
        Self {
            all,
            bits: bits.map(|bits| bits as usize),
        }
    }

    pub fn get(&self, name: &str) -> Option<&Stored> {
        self.all.get(name)
    }

    pub fn has(&self, name: &str) -> bool {
        self.all.contains_key(name)
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.all.keys().map(String::as_str)
    }

    /// Inputs of the matrix at `path`, unpacked.
    pub fn columns(&self, path: &str) -> Option<usize> {
        let weight = self.get(&format!("{path}.weight"))?;
        let stored = *weight.shape.last()?;
        if self.has(&format!("{path}.weight_scale")) {
            return Some(stored * 2);
        }
        match self.bits {
            Some(bits) if self.has(&format!("{path}.scales")) => Some(stored * 32 / bits.max(1)),
            _ => Some(stored),
        }
    }
}

/// An opened folder or GGUF file.
pub(super) struct Files {
    pub(super) config: Map<String, Value>,
    pub(super) hf_quant: Option<Value>,
    pub(super) tensors: Tensors,
    source: Source,
}

enum Source {
    Shards(Vec<Shard>),
    Gguf(gguf::Opened),
}

impl Files {
    /// A folder with `config.json` and safetensors, a GGUF file, or a folder with one.
    pub(super) fn open(path: &Path) -> Result<Self> {
        if path.is_file() {
            return Self::of_gguf(path);
        }
        let not = |reason: &str| DrafterError::NotADrafter {
            path: path.to_owned(),
            reason: reason.to_owned(),
        };
        if !path.is_dir() {
            return Err(not("there is no such folder or file"));
        }
        let config = match read_json(&path.join("config.json"))? {
            Some(Value::Object(config)) => config,
            Some(_) => return Err(not("the top level of its config.json is not an object")),
            None => {
                let file = gguf::find(path)?;
                return file.map_or_else(
                    || Err(not("it has neither config.json nor a GGUF file")),
                    |file| Self::of_gguf(&file),
                );
            }
        };
        let mut shards = find_shards(path)?;
        if is_dspine(&config) {
            // The token codes may come in a file of their own.
            shards.extend(find_beside(path, &shards, &[CODES, "transfer_codes"])?);
        }
        let mut all = BTreeMap::new();
        for (name, tensor) in shards.iter().flat_map(|shard| &shard.tensors) {
            let stored = Stored {
                dtype: tensor.dtype.clone(),
                shape: tensor.shape.iter().map(|&n| n as usize).collect(),
            };
            all.insert(renamed(name), stored);
        }
        Ok(Self {
            hf_quant: read_json(&path.join("hf_quant_config.json"))?,
            tensors: Tensors::new(all, &config),
            config,
            source: Source::Shards(shards),
        })
    }

    fn of_gguf(path: &Path) -> Result<Self> {
        let (config, all, opened) = gguf::open(path)?;
        Ok(Self {
            hf_quant: None,
            tensors: Tensors::new(all, &config),
            config,
            source: Source::Gguf(opened),
        })
    }

    /// The tensors; lazy where the format allows.
    pub(super) fn arrays(&self) -> Result<HashMap<String, Array>> {
        match &self.source {
            Source::Gguf(opened) => opened.arrays(),
            Source::Shards(shards) => {
                let mut arrays = HashMap::new();
                for shard in shards {
                    let read = with_stream(&Stream::cpu(), || Array::load_safetensors(&shard.path));
                    let read = read.map_err(|error| DrafterError::NotADrafter {
                        path: shard.path.clone(),
                        reason: format!("its weights cannot be read: {error}"),
                    })?;
                    arrays.extend(read.into_iter().map(|(name, array)| (renamed(&name), array)));
                }
                Ok(arrays)
            }
        }
    }
}

/// One spelling for tensors that are published under two.
fn renamed(name: &str) -> String {
    for (published, ours) in RENAMES {
        if name == published {
            return ours.to_owned();
        }
    }
    name.to_owned()
}
