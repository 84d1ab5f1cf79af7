//! Qwen3, dense: Llama with a norm on each query and key head. Source: `spec/checkpoints.md` §2.1; oracle: mlx-lm
//! `qwen3.py`.

use super::{
    Family,
    llama::{Dense, place},
};
use crate::{
    decoder::{rope::Rope, spec::DecoderSpec},
    load::{Config, LoadError},
};

pub(super) const FAMILY: Family = Family {
    model_types: &["qwen3"],
    spec,
    place,
    adapt: None,
};

pub(super) fn spec(config: &Config) -> Result<DecoderSpec, LoadError> {
    let head_dim = config.usize("head_dim")?;
    let (theta, scaling) = config.rope()?;
    let theta = theta.ok_or_else(|| LoadError::Config("`rope_theta` is missing".into()))?;
    let max_context = config.usize("max_position_embeddings")?;
    let dense = Dense {
        heads: config.usize("num_attention_heads")?,
        kv_heads: config.usize("num_key_value_heads")?,
        head_dim,
        attention_bias: false,
        mlp_bias: false,
        head_norm: true,
        tied: config.bool_or("tie_word_embeddings", false)?,
        rope: Rope::new(head_dim, theta, false, scaling, max_context)?,
        windows: vec![None; super::layers(config)?],
        max_context,
    };
    dense.spec(config)
}
