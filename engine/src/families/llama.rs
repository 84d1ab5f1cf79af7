//! Llama and what is shaped like it (Mistral, MiniCPM5). Source: `spec/checkpoints.md` §2.2; oracle: mlx-lm `llama.py`.

use super::Family;
use crate::{
    decoder::{
        rope::Rope,
        spec::{
            Activation, AttentionSpec, BlockSpec, DecoderSpec, DenseSpec, FfnSpec, HeadNormSpec, HeadSpec, KvSpec, LinearSpec, MixerSpec,
            NormSpec, Part,
        },
    },
    load::{Config, LoadError, Place},
};

pub(super) const FAMILY: Family = Family {
    model_types: &["llama", "mistral", "xverse", "iquestcoder"],
    spec,
    place,
    adapt: None,
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

/// The window of each layer: where `layer_types` says sliding.
fn windows(config: &Config) -> Result<Vec<Option<usize>>, LoadError> {
    let layers = super::layers(config)?;
    let Some(types) = super::layer_types(config, layers)? else {
        return Ok(vec![None; layers]);
    };
    let window = |kind: &str| match kind {
        "full_attention" => Ok(None),
        "sliding_attention" => config.usize("sliding_window").map(Some),
        other => Err(super::unknown_layer(other)),
    };
    types.into_iter().map(window).collect()
}

impl Dense {
    pub(super) fn spec(self, config: &Config) -> Result<DecoderSpec, LoadError> {
        super::even_heads(self.heads, self.kv_heads)?;
        let hidden = config.usize("hidden_size")?;
        let inner = config.usize("intermediate_size")?;
        let vocab = config.usize("vocab_size")?;
        let eps = config.f64("rms_norm_eps")? as f32;
        let block = |(layer, window): (usize, &Option<usize>)| {
            let path = |name: &str| format!("model.layers.{layer}.{name}");
            let norm = |name: &str, size: usize| NormSpec::new(path(name), size, eps);
            let attention = |name: &str, inputs, outputs| {
                LinearSpec::new(path(&format!("self_attn.{name}_proj")), inputs, outputs).with_bias(self.attention_bias)
            };
            let head_norm = |name: &str| {
                if self.head_norm {
                    HeadNormSpec::Weight(norm(&format!("self_attn.{name}_norm"), self.head_dim))
                } else {
                    HeadNormSpec::None
                }
            };
            let (queries, keys) = (self.heads * self.head_dim, self.kv_heads * self.head_dim);
            let mixer = MixerSpec::Attention(AttentionSpec {
                heads: self.heads,
                kv_heads: self.kv_heads,
                head_dim: self.head_dim,
                scale: (self.head_dim as f32).powf(-0.5),
                q: attention("q", hidden, queries),
                kv: KvSpec::Own {
                    k: attention("k", hidden, keys),
                    v: Some(attention("v", hidden, keys)),
                    v_norm: None,
                },
                o: attention("o", queries, hidden),
                q_norm: head_norm("q"),
                k_norm: head_norm("k"),
                rope: Some(self.rope.clone()),
                window: *window,
                gate: None,
            });
            let ffn = FfnSpec::Dense(swiglu(&path("mlp"), hidden, inner, self.mlp_bias));
            BlockSpec::new(
                Part::new(norm("input_layernorm", hidden), mixer),
                Part::new(norm("post_attention_layernorm", hidden), ffn),
            )
        };
        let norm = NormSpec::new("model.norm", hidden, eps);
        let head = head(self.tied, "lm_head", hidden, vocab);
        let mut spec = DecoderSpec::new(hidden, vocab, self.max_context, "model.embed_tokens", norm, head);
        spec.blocks = self.windows.iter().enumerate().map(block).collect();
        Ok(spec)
    }
}

/// The usual feed-forward at `path`.
pub(super) fn swiglu(path: &str, hidden: usize, inner: usize, bias: bool) -> DenseSpec {
    let linear = |name: &str, inputs, outputs| LinearSpec::new(format!("{path}.{name}_proj"), inputs, outputs).with_bias(bias);
    DenseSpec {
        gate: Some(linear("gate", hidden, inner)),
        up: linear("up", hidden, inner),
        down: linear("down", inner, hidden),
        activation: Activation::Silu,
    }
}

pub(super) fn head(tied: bool, path: &str, hidden: usize, vocab: usize) -> HeadSpec {
    if tied {
        HeadSpec::Tied
    } else {
        HeadSpec::Own(LinearSpec::new(path, hidden, vocab))
    }
}

/// Drops what old converters stored beside the weights, and the head of a tied model.
pub(super) fn place(spec: &DecoderSpec, name: &str) -> Place {
    let tied = spec.head == HeadSpec::Tied && name.starts_with("lm_head.");
    if tied || name.ends_with("self_attn.rotary_emb.inv_freq") {
        Place::Drop
    } else {
        Place::At(name.to_owned())
    }
}
