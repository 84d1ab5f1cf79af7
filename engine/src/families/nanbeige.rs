//! Nanbeige4.2: a Llama stack applied several times with shared weights. Source: `spec/checkpoints.md` §2.5; oracle: mlx-lm
//! `nanbeige.py`.

use super::{
    Family,
    llama::{Dense, place},
};
use crate::{
    decoder::{
        rope::Rope,
        spec::{DecoderSpec, PassesSpec},
    },
    load::{Config, LoadError},
};

pub(super) const FAMILY: Family = Family {
    model_types: &["nanbeige"],
    spec,
    place,
    adapt: None,
};

fn spec(config: &Config) -> Result<DecoderSpec, LoadError> {
    for key in ["enable_double_loop_split", "loop_share_kv", "enable_depth_attention"] {
        if config.bool_or(key, false)? {
            return Err(LoadError::Config(format!("`{key}` is not supported: use a checkpoint without it")));
        }
    }
    let (heads, hidden) = (config.usize("num_attention_heads")?, config.usize("hidden_size")?);
    let head_dim = config.usize_opt("head_dim")?.unwrap_or(hidden / heads);
    let (theta, scaling) = config.rope()?;
    let max_context = config.usize_opt("max_position_embeddings")?.unwrap_or(2048);
    let dense = Dense {
        heads,
        kv_heads: config.usize("num_key_value_heads")?,
        head_dim,
        attention_bias: config.bool_or("attention_bias", false)?,
        mlp_bias: config.bool_or("mlp_bias", false)?,
        head_norm: false,
        tied: config.bool_or("tie_word_embeddings", false)?,
        rope: Rope::new(head_dim, theta.unwrap_or(10_000.0), false, scaling, max_context)?,
        windows: vec![None; super::layers(config)?],
        max_context,
    };
    // One weight for the loss of every pass but the last.
    let losses = config.numbers("loop_loss_weights")?.unwrap_or_default().len();
    let count = match losses {
        0 => config.usize_opt("num_loops")?.unwrap_or(1),
        losses => losses + 1,
    };
    if count > 64 {
        return Err(LoadError::Config(format!("{count} passes over the layers are too many")));
    }
    let mut spec = dense.spec(config)?;
    spec.passes = PassesSpec {
        count,
        norm_between: !config.bool_or("skip_loop_final_norm", false)?,
    };
    Ok(spec)
}
