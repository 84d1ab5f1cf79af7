//! Llama and what is shaped like it. Source: `spec/checkpoints.md` §2.2; oracle: mlx-lm `llama.py`.

use super::Family;
use crate::{
    decoder::{
        rope::Rope,
        spec::{AttentionSpec, BlockSpec, DecoderSpec, DenseSpec, FfnSpec, HeadSpec, LinearSpec, MixerSpec, NormSpec},
    },
    load::{Config, LoadError},
};

pub(super) const FAMILY: Family = Family {
    model_types: &["llama", "mistral", "xverse", "iquestcoder"],
    spec,
    rename,
};

/// What differs between the members of the dense family.
pub(super) struct Dense {
    pub(super) heads: usize,
    pub(super) kv_heads: usize,
    pub(super) head_dim: usize,
    pub(super) attention_bias: bool,
    pub(super) mlp_bias: bool,
    /// RMS norm of each query and key head.
    pub(super) head_norm: bool,
    pub(super) tied: bool,
    pub(super) rope: Rope,
    /// For each layer.
    pub(super) windows: Vec<Option<usize>>,
    pub(super) max_context: usize,
}

fn spec(config: &Config) -> Result<DecoderSpec, LoadError> {
    let heads = config.usize("num_attention_heads")?;
    let hidden = config.usize("hidden_size")?;
    let head_dim = config.usize_opt("head_dim")?.unwrap_or(hidden / heads);
    let (theta, scaling) = config.rope()?;
    let max_context = config.usize_opt("max_position_embeddings")?.unwrap_or(2048);
    let traditional = config.bool_or("rope_traditional", false)?;
    let dense = Dense {
        heads,
        kv_heads: config.usize_opt("num_key_value_heads")?.unwrap_or(heads),
        head_dim,
        attention_bias: config.bool_or("attention_bias", false)?,
        mlp_bias: config.bool_or("mlp_bias", false)?,
        head_norm: false,
        tied: config.bool_or("tie_word_embeddings", true)?,
        rope: Rope::new(head_dim, theta.unwrap_or(10_000.0), traditional, scaling, max_context)?,
        windows: windows(config)?,
        max_context,
    };
    dense.spec(config)
}

/// The number of layers; a misprint must not fill memory before the tensors are compared.
pub(super) fn layers(config: &Config) -> Result<usize, LoadError> {
    let layers = config.usize("num_hidden_layers")?;
    let sensible = (layers <= 10_000).then_some(layers);
    sensible.ok_or_else(|| LoadError::Config(format!("{layers} layers are too many")))
}

/// The window of each layer: where `layer_types` says sliding.
fn windows(config: &Config) -> Result<Vec<Option<usize>>, LoadError> {
    let layers = layers(config)?;
    let Some(types) = config.words("layer_types")? else {
        return Ok(vec![None; layers]);
    };
    if types.len() != layers {
        return Err(LoadError::Config(format!("`layer_types` names {} of {layers} layers", types.len())));
    }
    let window = |kind: &str| match kind {
        "full_attention" => Ok(None),
        "sliding_attention" => config.usize("sliding_window").map(Some),
        other => Err(LoadError::Config(format!("the layer type `{other}` is not known to this family"))),
    };
    types.into_iter().map(window).collect()
}

impl Dense {
    pub(super) fn spec(self, config: &Config) -> Result<DecoderSpec, LoadError> {
        if !self.heads.is_multiple_of(self.kv_heads) {
            return Err(LoadError::Config(format!(
                "{} heads do not share {} KV heads evenly",
                self.heads, self.kv_heads
            )));
        }
        let hidden = config.usize("hidden_size")?;
        let inner = config.usize("intermediate_size")?;
        let vocab = config.usize("vocab_size")?;
        let eps = config.f64("rms_norm_eps")? as f32;
        let norm = |path: String, size: usize| NormSpec { path, size, eps };
        let block = |(layer, window): (usize, &Option<usize>)| {
            let path = |name: &str| format!("model.layers.{layer}.{name}");
            let attention = |name: &str, inputs, outputs| {
                LinearSpec::new(path(&format!("self_attn.{name}_proj")), inputs, outputs).with_bias(self.attention_bias)
            };
            let mlp =
                |name: &str, inputs, outputs| LinearSpec::new(path(&format!("mlp.{name}_proj")), inputs, outputs).with_bias(self.mlp_bias);
            let head_norm = |name: &str| self.head_norm.then(|| norm(path(&format!("self_attn.{name}_norm")), self.head_dim));
            let (queries, keys) = (self.heads * self.head_dim, self.kv_heads * self.head_dim);
            BlockSpec {
                mixer_norm: norm(path("input_layernorm"), hidden),
                mixer: MixerSpec::Attention(AttentionSpec {
                    heads: self.heads,
                    kv_heads: self.kv_heads,
                    head_dim: self.head_dim,
                    scale: (self.head_dim as f32).powf(-0.5),
                    q: attention("q", hidden, queries),
                    k: attention("k", hidden, keys),
                    v: attention("v", hidden, keys),
                    o: attention("o", queries, hidden),
                    q_norm: head_norm("q"),
                    k_norm: head_norm("k"),
                    rope: self.rope.clone(),
                    window: *window,
                }),
                ffn_norm: norm(path("post_attention_layernorm"), hidden),
                ffn: FfnSpec::Dense(DenseSpec {
                    gate: mlp("gate", hidden, inner),
                    up: mlp("up", hidden, inner),
                    down: mlp("down", inner, hidden),
                }),
            }
        };
        Ok(DecoderSpec {
            hidden,
            vocab,
            max_context: self.max_context,
            embedding: "model.embed_tokens".into(),
            blocks: self.windows.iter().enumerate().map(block).collect(),
            norm: norm("model.norm".into(), hidden),
            head: if self.tied {
                HeadSpec::Tied
            } else {
                HeadSpec::Own(LinearSpec::new("lm_head", hidden, vocab))
            },
        })
    }
}

/// Drops what old converters stored beside the weights, and the head of a tied model.
pub(super) fn rename(spec: &DecoderSpec, name: &str) -> Option<String> {
    let tied = spec.head == HeadSpec::Tied && name.starts_with("lm_head.");
    (!tied && !name.ends_with("self_attn.rotary_emb.inv_freq")).then(|| name.to_owned())
}
