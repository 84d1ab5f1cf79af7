use super::{Array, GgufFile, Value, naming::Architecture};
use crate::{HubError, Result};
use serde_json::{Map, json};

/// The model's dimensions, from the header.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Dims {
    pub(super) architecture: Architecture,
    pub(super) layers: u64,
    pub(super) hidden: u64,
    pub(super) intermediate: u64,
    pub(super) heads: u64,
    pub(super) kv_heads: u64,
    pub(super) head_dim: u64,
    pub(super) vocab: u64,
    pub(super) context: u64,
    pub(super) eps: f64,
    pub(super) rope_theta: f64,
    pub(super) rope_scaling: Option<serde_json::Value>,
    pub(super) tied: bool,
}

/// Above any published model; keeps every product of two dimensions far from overflow.
const MAX_DIM: u64 = 1 << 24;

impl Dims {
    pub(super) fn read(file: &GgufFile) -> Result<Self> {
        let meta = &file.metadata;
        let bad = |reason: String| HubError::BadGguf {
            path: file.path.clone(),
            reason,
        };
        let name = meta
            .str("general.architecture")
            .ok_or_else(|| bad("it names no architecture".into()))?;
        let architecture =
            Architecture::from_name(name).ok_or_else(|| unsupported(format!("architecture `{}`", super::reader::short(name))))?;
        let key = |suffix: &str| format!("{}.{suffix}", architecture.name());
        let uint = |suffix: &str| match meta.uint(&key(suffix)) {
            Some(n) if (1..=MAX_DIM).contains(&n) => Ok(n),
            Some(n) => Err(bad(format!("`{}` is {n}", key(suffix)))),
            None if meta
                .get(&key(suffix))
                .is_some_and(|v| matches!(v, Value::Array(Array::Integers(_)))) =>
            {
                Err(unsupported(format!("a different `{}` in each layer", key(suffix))))
            }
            None => Err(bad(format!("`{}` is missing", key(suffix)))),
        };
        if meta.uint(&key("expert_count")).is_some_and(|n| n > 0) {
            return Err(unsupported("a mixture of experts".into()));
        }

        let (hidden, heads) = (uint("embedding_length")?, uint("attention.head_count")?);
        let kv_heads = if meta.get(&key("attention.head_count_kv")).is_some() {
            uint("attention.head_count_kv")?
        } else {
            heads
        };
        let head_dim = if meta.get(&key("attention.key_length")).is_some() {
            uint("attention.key_length")?
        } else {
            hidden / heads
        };
        if head_dim == 0 || head_dim % 2 != 0 || heads % kv_heads != 0 {
            return Err(bad(format!(
                "{heads} heads, {kv_heads} KV heads and head size {head_dim} do not fit together"
            )));
        }
        if meta.uint(&key("attention.value_length")).is_some_and(|n| n != head_dim) {
            return Err(unsupported("value heads of another size than key heads".into()));
        }
        if meta.uint(&key("rope.dimension_count")).is_some_and(|n| n != head_dim) {
            return Err(unsupported("rotary embedding on a part of each head".into()));
        }
        if meta.uint(&key("attention.sliding_window")).is_some_and(|n| n > 0) {
            return Err(unsupported("sliding-window attention".into()));
        }
        let embedding = file
            .tensor("token_embd.weight")
            .ok_or_else(|| bad("tensor `token_embd.weight` is missing".into()))?;
        let vocab = embedding.shape[0];
        if embedding.shape.len() != 2 || vocab == 0 || vocab > MAX_DIM {
            return Err(bad(format!("the embedding has shape {:?}", embedding.shape)));
        }

        Ok(Self {
            architecture,
            layers: uint("block_count")?,
            hidden,
            intermediate: uint("feed_forward_length")?,
            heads,
            kv_heads,
            head_dim,
            vocab,
            context: uint("context_length")?,
            eps: float(
                meta.float(&key("attention.layer_norm_rms_epsilon"))
                    .ok_or_else(|| bad("the norm epsilon is missing".into()))?,
            ),
            rope_theta: float(meta.float(&key("rope.freq_base")).unwrap_or(10_000.0)),
            rope_scaling: rope_scaling(file, architecture)?,
            tied: file.tensor("output.weight").is_none(),
        })
    }

    /// The shape a parameter of this model has; none where the name is not one of its parameters.
    pub(super) fn shape(&self, module: &str, kind: &str) -> Option<Vec<u64>> {
        let (q, kv) = (self.heads * self.head_dim, self.kv_heads * self.head_dim);
        let matrix = |rows, columns| if kind == "bias" { vec![rows] } else { vec![rows, columns] };
        Some(match module.rsplit('.').next()? {
            "embed_tokens" | "lm_head" => vec![self.vocab, self.hidden],
            "q_proj" => matrix(q, self.hidden),
            "k_proj" | "v_proj" => matrix(kv, self.hidden),
            "o_proj" => matrix(self.hidden, q),
            "gate_proj" | "up_proj" => matrix(self.intermediate, self.hidden),
            "down_proj" => matrix(self.hidden, self.intermediate),
            "q_norm" | "k_norm" => vec![self.head_dim],
            "norm" | "input_layernorm" | "post_attention_layernorm" => vec![self.hidden],
            _ => return None,
        })
    }

    /// config.json without its quantization block.
    pub(super) fn config(&self, has_bias: impl Fn(&str) -> bool) -> Map<String, serde_json::Value> {
        let value = json!({
            "architectures": [self.architecture.class()],
            "model_type": self.architecture.name(),
            "hidden_size": self.hidden,
            "num_hidden_layers": self.layers,
            "intermediate_size": self.intermediate,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads,
            "head_dim": self.head_dim,
            "rms_norm_eps": self.eps,
            "vocab_size": self.vocab,
            "max_position_embeddings": self.context,
            "rope_theta": self.rope_theta,
            "rope_scaling": self.rope_scaling,
            "hidden_act": "silu",
            "attention_bias": has_bias("self_attn"),
            "mlp_bias": has_bias("mlp"),
            "tie_word_embeddings": self.tied,
        });
        match value {
            serde_json::Value::Object(map) => map,
            _ => Map::new(),
        }
    }
}

pub(super) fn unsupported(what: String) -> HubError {
    HubError::UnsupportedGguf {
        what,
        hint: "llama and qwen3 models with F32, F16, BF16, Q4_0, Q4_1 or Q8_0 tensors can; look for an MLX build of this one".into(),
    }
}

/// Metadata floats are f32; their shortest decimal is what the model's author wrote (1e-5, not 9.999999747e-6).
fn float(value: f64) -> f64 {
    (value as f32).to_string().parse().unwrap_or(value)
}

fn rope_scaling(file: &GgufFile, architecture: Architecture) -> Result<Option<serde_json::Value>> {
    let meta = &file.metadata;
    let key = |suffix: &str| format!("{}.rope.scaling.{suffix}", architecture.name());
    let factor = meta.float(&key("factor")).map(float);
    let from_metadata = match (meta.str(&key("type")), factor) {
        (None | Some("none"), _) => None,
        (Some("linear"), Some(factor)) => Some(json!({"rope_type": "linear", "factor": factor})),
        (Some("yarn"), Some(factor)) => {
            let original = meta.uint(&key("original_context_length")).ok_or_else(|| HubError::BadGguf {
                path: file.path.clone(),
                reason: format!("`{}` is missing", key("original_context_length")),
            })?;
            Some(json!({"rope_type": "yarn", "factor": factor, "original_max_position_embeddings": original}))
        }
        (Some(kind), _) => return Err(unsupported(format!("rope scaling `{}`", super::reader::short(kind)))),
    };
    match (file.tensor("rope_freqs.weight"), from_metadata) {
        (None, scaling) => Ok(scaling),
        (Some(_), Some(_)) => Err(unsupported("rope scaling together with rope frequency factors".into())),
        (Some(tensor), None) => {
            let theta = float(meta.float(&format!("{}.rope.freq_base", architecture.name())).unwrap_or(10_000.0));
            let factors = super::convert::read_f32(file, tensor)?;
            llama3(&factors, theta)
                .map(Some)
                .ok_or_else(|| unsupported("rope frequency factors that are not Llama 3's".into()))
        }
    }
}

/// llama.cpp stores Llama 3's banded rope as plain divisors; the config entry they came from is recognised by
/// computing the divisors of the published parameters and comparing. Factor 8 is Llama 3.1's and 32 is 3.2's.
fn llama3(factors: &[f32], theta: f64) -> Option<serde_json::Value> {
    let dims = factors.len() * 2;
    let (low, high, original) = (1.0_f64, 4.0_f64, 8192.0_f64);
    let factor = f64::from(factors.iter().copied().fold(1.0_f32, f32::max));
    let matches = factors.iter().enumerate().all(|(i, got)| {
        let wavelength = std::f64::consts::TAU * theta.powf(2.0 * i as f64 / dims as f64);
        let want = if wavelength < original / high {
            1.0
        } else if wavelength > original / low {
            factor
        } else {
            let smooth = (original / wavelength - low) / (high - low);
            1.0 / ((1.0 - smooth) / factor + smooth)
        };
        (f64::from(*got) - want).abs() <= 1e-4 * want
    });
    (matches && factor > 1.0).then(|| {
        json!({
            "rope_type": "llama3",
            "factor": factor,
            "low_freq_factor": low,
            "high_freq_factor": high,
            "original_max_position_embeddings": original as u64,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn llama3_factors_are_recognised_and_others_refused() {
        // Llama 3.2 1B: head size 64, theta 500000, factor 32; divisors by the definition in the Llama 3.1 release.
        let factors: Vec<f32> = (0..32)
            .map(|i| {
                let frequency = 500_000_f64.powf(-f64::from(i) / 32.0);
                let wavelength = std::f64::consts::TAU / frequency;
                let scaled = if wavelength < 2048.0 {
                    frequency
                } else if wavelength > 8192.0 {
                    frequency / 32.0
                } else {
                    let smooth = (8192.0 / wavelength - 1.0) / 3.0;
                    (1.0 - smooth) * frequency / 32.0 + smooth * frequency
                };
                (frequency / scaled) as f32
            })
            .collect();
        let scaling = llama3(&factors, 500_000.0).unwrap();
        assert_eq!(scaling["factor"], 32.0);
        assert_eq!(scaling["original_max_position_embeddings"], 8192);
        assert_eq!(llama3(&factors, 10_000.0), None);
        assert_eq!(llama3(&[1.0; 32], 500_000.0), None);
        assert_eq!(float(f64::from(1e-5_f32)), 1e-5);
    }
}
