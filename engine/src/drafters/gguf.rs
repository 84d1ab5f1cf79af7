//! PrismML's drafters: one GGUF of architecture `dspark` with unpacked tensors. Source: `spec/drafters.md` §3.9.

use super::{DrafterError, Result, files::Stored};
use crate::{
    hub::gguf::{DType, GgufFile, TensorInfo},
    load::LoadError,
};
use half::{bf16, f16};
use mlx_rs::Array;
use serde_json::{Map, Value, json};
use std::{
    collections::{BTreeMap, HashMap},
    fs::File,
    io::{Read, Seek, SeekFrom},
    path::{Path, PathBuf},
};

const TOP: [(&str, &str); 10] = [
    ("token_embd.weight", "embed_tokens.weight"),
    ("output.weight", "lm_head.weight"),
    ("output_norm.weight", "norm.weight"),
    ("dspark.fc.weight", "fc.weight"),
    ("dspark.hidden_norm.weight", "hidden_norm.weight"),
    ("dspark.markov_head_a.weight", "markov_head.markov_w1.weight"),
    ("dspark.markov_head_b.weight", "markov_head.markov_w2.weight"),
    ("dspark.confidence_head", "confidence_head.proj"),
    ("dspark.log_snr_fc1", "log_snr_embed.fc1"),
    ("dspark.log_snr_fc2", "log_snr_embed.fc2"),
];

const LAYER: [(&str, &str); 11] = [
    ("attn_norm", "input_layernorm"),
    ("ffn_norm", "post_attention_layernorm"),
    ("attn_q", "self_attn.q_proj"),
    ("attn_k", "self_attn.k_proj"),
    ("attn_v", "self_attn.v_proj"),
    ("attn_output", "self_attn.o_proj"),
    ("attn_q_norm", "self_attn.q_norm"),
    ("attn_k_norm", "self_attn.k_norm"),
    ("ffn_gate", "mlp.gate_proj"),
    ("ffn_up", "mlp.up_proj"),
    ("ffn_down", "mlp.down_proj"),
];

/// By our names.
type Headers = BTreeMap<String, Stored>;

/// Where the tensors of an opened file are.
pub(super) struct Opened {
    path: PathBuf,
    /// By our names.
    tensors: BTreeMap<String, TensorInfo>,
}

/// The GGUF of a folder, where it holds just one.
pub(super) fn find(dir: &Path) -> Result<Option<PathBuf>> {
    let entries = std::fs::read_dir(dir).map_err(|error| LoadError::file(dir, &error))?;
    let mut found = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|ext| ext.eq_ignore_ascii_case("gguf")));
    match (found.next(), found.next()) {
        (Some(_), Some(_)) => Err(DrafterError::NotADrafter {
            path: dir.to_owned(),
            reason: "it holds several GGUF files: name the one to use".into(),
        }),
        (one, _) => Ok(one),
    }
}

/// Our name of a tensor.
fn ours(name: &str) -> Option<String> {
    for (theirs, ours) in TOP {
        if name == theirs {
            return Some(ours.to_owned());
        }
        // Those with a bias beside the weight.
        if let Some(part) = name.strip_prefix(theirs)
            && [".weight", ".bias"].contains(&part)
        {
            return Some(format!("{ours}{part}"));
        }
    }
    let (layer, rest) = name.strip_prefix("blk.")?.split_once('.')?;
    let layer: usize = layer.parse().ok()?;
    let (stem, part) = rest.rsplit_once('.')?;
    let ours = LAYER.iter().find(|(theirs, _)| *theirs == stem)?.1;
    ["weight", "bias"].contains(&part).then(|| format!("layers.{layer}.{ours}.{part}"))
}

/// The configuration in DeepSpec's fields, the headers, and what is needed to read the tensors.
pub(super) fn open(path: &Path) -> Result<(Map<String, Value>, Headers, Opened)> {
    let file = GgufFile::open(path)?;
    let meta = &file.metadata;
    let architecture = meta.str("general.architecture").unwrap_or("(none)");
    if architecture != "dspark" {
        return Err(DrafterError::Unsupported(format!(
            "it is a GGUF of the architecture `{architecture}`; drafters are `dspark`"
        )));
    }
    let mut tensors = BTreeMap::new();
    let mut stored = BTreeMap::new();
    for tensor in &file.tensors {
        let Some(name) = ours(&tensor.name) else {
            return Err(DrafterError::Unsupported(format!("its tensor `{}` is unknown", tensor.name)));
        };
        let dtype = match tensor.dtype {
            DType::F32 => "F32",
            DType::F16 => "F16",
            DType::BF16 => "BF16",
            other => {
                return Err(DrafterError::Unsupported(format!(
                    "its tensor `{}` is packed as {}: use the bf16 file of the same drafter",
                    tensor.name,
                    other.name()
                )));
            }
        };
        let header = Stored {
            dtype: dtype.to_owned(),
            shape: tensor.shape.iter().map(|&n| n as usize).collect(),
        };
        stored.insert(name.clone(), header);
        tensors.insert(name, tensor.clone());
    }
    let config = config(&file, &stored);
    let path = path.to_owned();
    Ok((config, stored, Opened { path, tensors }))
}

fn config(file: &GgufFile, stored: &Headers) -> Map<String, Value> {
    let meta = &file.metadata;
    let mut config = Map::new();
    let mut put = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            config.insert(key.to_owned(), value);
        }
    };
    put("model_type", Some(json!("qwen3")));
    put("converted_from_gguf", Some(json!(true)));
    for (key, name) in [
        ("hidden_size", "dspark.embedding_length"),
        ("intermediate_size", "dspark.feed_forward_length"),
        ("num_hidden_layers", "dspark.block_count"),
        ("num_attention_heads", "dspark.attention.head_count"),
        ("num_key_value_heads", "dspark.attention.head_count_kv"),
        ("head_dim", "dspark.attention.key_length"),
        ("block_size", "dspark.dspark.block_size"),
        ("mask_token_id", "dspark.dspark.mask_token_id"),
        ("markov_rank", "dspark.dspark.markov_rank"),
    ] {
        put(key, meta.uint(name).map(|n| json!(n)));
    }
    for (key, name) in [
        ("rms_norm_eps", "dspark.attention.layer_norm_rms_epsilon"),
        ("rope_theta", "dspark.rope.freq_base"),
        ("min_log_snr", "dspark.dspark.min_log_snr"),
        ("max_log_snr", "dspark.dspark.max_log_snr"),
    ] {
        put(key, meta.float(name).map(|x| json!(x)));
    }
    put(
        "log_snr_conditioning",
        meta.bool("dspark.dspark.log_snr_conditioning").map(|on| json!(on)),
    );
    put(
        "target_layer_ids",
        meta.integers("dspark.dspark.target_layers").map(|ids| json!(ids)),
    );
    put(
        "vocab_size",
        stored
            .get("embed_tokens.weight")
            .and_then(|table| table.shape.first())
            .map(|n| json!(n)),
    );
    config
}

impl Opened {
    pub(super) fn arrays(&self) -> Result<HashMap<String, Array>> {
        let failed = |error: &std::io::Error| LoadError::file(&self.path, error);
        let mut file = File::open(&self.path).map_err(|error| failed(&error))?;
        let mut arrays = HashMap::new();
        for (name, tensor) in &self.tensors {
            let mut bytes = vec![0; tensor.bytes as usize];
            file.seek(SeekFrom::Start(tensor.offset)).map_err(|error| failed(&error))?;
            file.read_exact(&mut bytes).map_err(|error| failed(&error))?;
            let shape: Vec<i32> = tensor.shape.iter().map(|&n| n as i32).collect();
            let halves = || bytes.as_chunks::<2>().0.iter().copied();
            let array = match tensor.dtype {
                DType::F16 => Array::from_slice(&halves().map(f16::from_le_bytes).collect::<Vec<_>>(), &shape),
                DType::BF16 => Array::from_slice(&halves().map(bf16::from_le_bytes).collect::<Vec<_>>(), &shape),
                _ => Array::from_slice(
                    &bytes.as_chunks::<4>().0.iter().copied().map(f32::from_le_bytes).collect::<Vec<_>>(),
                    &shape,
                ),
            };
            arrays.insert(name.clone(), array);
        }
        Ok(arrays)
    }
}
