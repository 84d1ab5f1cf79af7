//! From a folder to a decoder: configuration, trust, shards, strict checks, then one tensor after the other.
//! Source of the contract: `spec/checkpoints.md` §1.

mod config;
mod error;
mod layout;
mod quant;
mod shards;
mod trust;
mod weights;

pub use config::{Config, RopeFields, float, read_json};
pub use error::LoadError;
pub use layout::Place;
pub(crate) use layout::{Placed, Source, Tensors};
pub use quant::{Mode, Packing, Quantization};
pub use shards::{Shard, TensorInfo};
pub(crate) use shards::{find as find_shards, find_beside, link_root, stays_inside};
pub use trust::{Markers, markers};
pub(crate) use weights::{Precision, Watch, Weights};

use crate::{
    decoder::{Decoder, spec::DecoderSpec},
    families::{self, Family},
};
use mlx_rs::Dtype;
use serde_json::Value;
use std::{
    path::{Path, PathBuf},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

type Result<T> = std::result::Result<T, LoadError>;

/// Choices of a load.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LoadOptions {
    /// Of activations. By default f32 on the CPU, the checkpoint's own on a GPU.
    pub activations: Option<Dtype>,
    /// Of keys and values in the cache. By default the dtype of activations on a GPU; on the CPU f32 for a
    /// checkpoint of f32, else f16.
    pub kv: Option<Dtype>,
}

/// A folder that has been looked at: known to be loadable, as far as its headers tell. Nothing is in memory yet.
pub struct Checkpoint {
    pub path: PathBuf,
    pub config: Config,
    pub model_type: String,
    pub spec: DecoderSpec,
    pub quantization: Quantization,
    /// Token ids that end a text: of `generation_config.json`, else of `config.json`. The tokenizer may know more.
    pub eos: Vec<u32>,
    /// What a person should know, one sentence each.
    pub notes: Vec<String>,
    pub(crate) shards: Vec<Shard>,
    pub(crate) tensors: Tensors,
}

/// What a loaded model is, for the status line and for `/v1/models`.
#[derive(Debug, Clone, PartialEq)]
pub struct Facts {
    pub path: PathBuf,
    pub model_type: String,
    /// `4-bit g32`, `bf16`, `mxfp4`; with `, mixed` where modules differ.
    pub quantization: String,
    /// Parameters, counting packed weights unpacked.
    pub parameters: u64,
    /// Bytes of weights in memory.
    pub weight_bytes: u64,
    /// Bytes of KV cache that each token adds for good.
    pub kv_bytes_per_token: u64,
    /// Tokens.
    pub max_context: usize,
    pub layers: usize,
    pub hidden: usize,
    pub vocab: usize,
    /// See [`Checkpoint::eos`].
    pub eos: Vec<u32>,
    /// Dtype of activations.
    pub dtype: Dtype,
    pub kv_dtype: Dtype,
    pub notes: Vec<String>,
    pub load_seconds: f64,
}

/// A decoder and its facts. Stays on the thread that loaded it.
#[derive(Debug)]
pub struct LoadedModel {
    pub decoder: Decoder,
    pub facts: Facts,
}

/// Loads the MLX folder at `path`. `progress` hears (bytes read, bytes in all) after each tensor; `cancel` is looked
/// at before each.
///
/// # Errors
/// [`LoadError`], before any tensor is read where the headers tell; [`LoadError::Cancelled`] leaves nothing in memory.
pub fn load(path: &Path, options: &LoadOptions, progress: &mut dyn FnMut(u64, u64), cancel: &CancellationToken) -> Result<LoadedModel> {
    Checkpoint::open(path)?.load(options, progress, cancel)
}

impl Checkpoint {
    /// Reads configuration and headers and checks them.
    pub fn open(path: &Path) -> Result<Self> {
        if !path.is_dir() {
            return Err(LoadError::NotAModel {
                path: path.to_owned(),
                reason: "there is no such folder".into(),
            });
        }
        let config = Config::read(path)?;
        let model_type = config.model_type()?.to_owned();
        let (family, notes) = trusted_family(path, &model_type)?;
        let quantization = Quantization::read(&config, path)?;
        let mut spec = (family.spec)(&config)?;
        let shards = shards::find(path)?;
        let tensors = layout::arrange(&shards, &|name| (family.place)(&spec, name))?;
        if let Some(adapt) = family.adapt {
            adapt(&mut spec, &|name| tensors.get(name).map(|tensor| tensor.info.shape.clone()));
        }
        weights::check(&tensors, &quantization, &spec)?;
        let eos = eos(path, &config)?;
        Ok(Self {
            path: path.to_owned(),
            config,
            model_type,
            spec,
            quantization,
            eos,
            notes,
            shards,
            tensors,
        })
    }

    /// Bytes of the weight files' tensors.
    pub fn bytes(&self) -> u64 {
        self.shards.iter().map(Shard::bytes).sum()
    }

    /// Reads the weights into memory.
    pub fn load(self, options: &LoadOptions, progress: &mut dyn FnMut(u64, u64), cancel: &CancellationToken) -> Result<LoadedModel> {
        let started = Instant::now();
        for note in &self.notes {
            tracing::info!(model = %self.path.display(), "{note}");
        }
        let stored = stored_dtype(&self.tensors, &self.spec);
        let cpu = mlx_cpu::backend() == mlx_cpu::Backend::Cpu;
        let activations = options.activations.unwrap_or(if cpu { Dtype::Float32 } else { stored });
        let precision = Precision {
            activations,
            keep_stored: cpu,
        };
        let kv = options.kv.unwrap_or(match stored {
            Dtype::Float32 => Dtype::Float32,
            _ if cpu => Dtype::Float16,
            _ => activations,
        });
        let quantization = describe(&self.tensors, &self.quantization, stored);
        let watch = Watch { progress, cancel };
        let mut weights = Weights::open(&self.shards, &self.tensors, &self.quantization, precision, watch)?;
        let decoder = Decoder::build(&self.spec, &mut weights, kv)?;
        drop(weights);
        let huge = mlx_cpu::settle(decoder.arrays())?;
        tracing::debug!(bytes = huge, "weights on huge pages");
        let facts = Facts {
            path: self.path,
            model_type: self.model_type,
            quantization,
            parameters: self.spec.parameters(),
            weight_bytes: decoder.weight_bytes(),
            kv_bytes_per_token: self.spec.kv_elements_per_token() * bytes_of(kv),
            max_context: self.spec.max_context,
            layers: self.spec.layers(),
            hidden: self.spec.hidden,
            vocab: self.spec.vocab,
            eos: self.eos,
            dtype: activations,
            kv_dtype: kv,
            notes: self.notes,
            load_seconds: started.elapsed().as_secs_f64(),
        };
        Ok(LoadedModel { decoder, facts })
    }
}

/// The family of the model type, if the folder asks for no code of its own in its place.
fn trusted_family(path: &Path, model_type: &str) -> Result<(Family, Vec<String>)> {
    let found = markers(path);
    let Some(family) = families::find(model_type) else {
        return Err(LoadError::UnsupportedModel {
            model_type: model_type.to_owned(),
            markers: found.all(),
            suggestion: families::instead_of(model_type),
        });
    };
    if !found.model_file.is_empty() {
        return Err(LoadError::OwnCode {
            model_type: model_type.to_owned(),
            markers: found.all(),
        });
    }
    let code = found.all();
    let notes = if code.is_empty() {
        Vec::new()
    } else {
        vec![format!(
            "The checkpoint ships its own Python ({}); it is ignored, `{model_type}` is implemented natively.",
            code.join(", ")
        )]
    };
    Ok((family, notes))
}

/// `eos_token_id` of `generation_config.json`, else of `config.json`: one id or a list.
fn eos(path: &Path, config: &Config) -> Result<Vec<u32>> {
    let ids = |value: &Value| -> Vec<u32> {
        let one = |value: &Value| value.as_u64().and_then(|id| u32::try_from(id).ok());
        match value {
            Value::Array(items) => items.iter().filter_map(one).collect(),
            other => one(other).into_iter().collect(),
        }
    };
    let generation = read_json(&path.join("generation_config.json"))?;
    let preferred = generation
        .as_ref()
        .and_then(|json| json.get("eos_token_id"))
        .map(ids)
        .filter(|ids| !ids.is_empty());
    let mut eos = preferred.unwrap_or_else(|| config.field("eos_token_id").map(ids).unwrap_or_default());
    eos.sort_unstable();
    eos.dedup();
    Ok(eos)
}

/// The checkpoint's own float type: of the embedding, or of its scales; of the final norm where those are bytes.
fn stored_dtype(tensors: &Tensors, spec: &DecoderSpec) -> Dtype {
    let names = [
        format!("{}.scales", spec.embedding),
        format!("{}.weight", spec.embedding),
        format!("{}.weight", spec.norm.path),
    ];
    let float = |name: &String| match tensors.get(name)?.info.dtype.as_str() {
        "F32" => Some(Dtype::Float32),
        "F16" => Some(Dtype::Float16),
        "BF16" => Some(Dtype::Bfloat16),
        _ => None,
    };
    names.iter().find_map(float).unwrap_or(Dtype::Float32)
}

/// The packing that most weights have, or the float type.
fn describe(tensors: &Tensors, quantization: &Quantization, stored: Dtype) -> String {
    let packed = tensors.keys().filter(|name| name.ends_with(".scales")).count();
    let Some(default) = quantization.default.filter(|_| packed > 0) else {
        return match stored {
            Dtype::Float16 => "f16",
            Dtype::Bfloat16 => "bf16",
            _ => "f32",
        }
        .to_owned();
    };
    if quantization.is_mixed() {
        format!("{default}, mixed")
    } else {
        default.to_string()
    }
}

fn bytes_of(dtype: Dtype) -> u64 {
    if dtype == Dtype::Float32 { 4 } else { 2 }
}
