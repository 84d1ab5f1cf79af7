//! Nemotron-H: one mixer or feed-forward a block, Mamba-2, attention without positions, plain or mixed feed-forwards.
//! Source: `spec/checkpoints.md` §4.2; oracle: mlx-lm `nemotron_h.py`.

use super::Family;
use crate::{
    decoder::spec::{
        Activation, AttentionSpec, BlockSpec, ConvSpec, DecoderSpec, DenseSpec, ExpertsSpec, FfnSpec, Groups, HeadNormSpec, HeadSpec,
        KvSpec, LinearSpec, MambaSpec, MixerSpec, MoeSpec, NormSpec, Part, RouterSpec, Scoring, SharedSpec, VectorSpec,
    },
    load::{Config, LoadError, Place},
};
use serde_json::Value;

pub(super) const FAMILY: Family = Family {
    model_types: &["nemotron_h"],
    spec,
    place,
    adapt: None,
};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Mamba,
    Attention,
    Moe,
    Mlp,
}

fn spec(config: &Config) -> Result<DecoderSpec, LoadError> {
    let hidden = config.usize("hidden_size")?;
    let vocab = config.usize("vocab_size")?;
    let eps = config.f64("layer_norm_epsilon")? as f32;
    let kinds = pattern(config)?;
    let mut blocks = Vec::with_capacity(kinds.len());
    for (layer, kind) in kinds.into_iter().enumerate() {
        let norm = NormSpec::new(format!("backbone.layers.{layer}.norm"), hidden, eps);
        let path = format!("backbone.layers.{layer}.mixer");
        let (mut mixer, mut ffn) = (None, None);
        match kind {
            Kind::Mamba => mixer = Some(MixerSpec::Mamba(mamba(config, &path, hidden, eps)?)),
            Kind::Attention => mixer = Some(MixerSpec::Attention(attention(config, &path, hidden)?)),
            Kind::Mlp => ffn = Some(FfnSpec::Dense(mlp(config, &path, hidden, config.usize("intermediate_size")?)?)),
            Kind::Moe => ffn = Some(FfnSpec::Moe(Box::new(moe(config, &path, hidden)?))),
        }
        blocks.push(BlockSpec {
            mixer: mixer.map(|mixer| Part::new(norm.clone(), mixer)),
            ffn: ffn.map(|ffn| Part::new(norm, ffn)),
            input: None,
            scalar: None,
        });
    }
    let max_context = config.usize("max_position_embeddings")?;
    let norm = NormSpec::new("backbone.norm_f", hidden, eps);
    let head = HeadSpec::Own(LinearSpec::new("lm_head", hidden, vocab));
    let mut spec = DecoderSpec::new(hidden, vocab, max_context, "backbone.embeddings", norm, head);
    spec.blocks = blocks;
    Ok(spec)
}

/// A letter or a word for each block.
fn pattern(config: &Config) -> Result<Vec<Kind>, LoadError> {
    let letters: Vec<String> = match config.field("hybrid_override_pattern") {
        Some(Value::String(letters)) => letters.chars().map(String::from).collect(),
        Some(_) => config
            .words("hybrid_override_pattern")?
            .unwrap_or_default()
            .iter()
            .map(ToString::to_string)
            .collect(),
        None => {
            let words = match config.words("layers_block_type")? {
                Some(words) => Some(words),
                None => config.words("layer_types")?,
            };
            let words = words.ok_or_else(|| {
                LoadError::Config("neither `hybrid_override_pattern` nor `layers_block_type` describes the layers".into())
            })?;
            words.iter().map(ToString::to_string).collect()
        }
    };
    if letters.is_empty() || letters.len() > 10_000 {
        return Err(LoadError::Config(format!("{} layers are not a model", letters.len())));
    }
    let kind = |name: &String| match name.as_str() {
        "M" | "linear_attention" | "mamba" | "conv" => Ok(Kind::Mamba),
        "*" | "full_attention" | "attention" => Ok(Kind::Attention),
        "E" | "moe" => Ok(Kind::Moe),
        "-" | "mlp" => Ok(Kind::Mlp),
        other => Err(super::unknown_layer(other)),
    };
    letters.iter().map(kind).collect()
}

fn mamba(config: &Config, path: &str, hidden: usize, eps: f32) -> Result<MambaSpec, LoadError> {
    let (heads, head_dim) = (config.usize("mamba_num_heads")?, config.usize("mamba_head_dim")?);
    let (groups, state) = (config.usize("n_groups")?, config.usize("ssm_state_size")?);
    super::even_heads(heads, groups)?;
    let bias = config.bool_or("mamba_proj_bias", false)?;
    let inner = heads * head_dim;
    let channels = inner + 2 * groups * state;
    let dt_limit = match config.numbers("time_step_limit")?.as_deref() {
        None => (0.0, f32::INFINITY),
        Some(&[low, high]) => (low as f32, high as f32),
        Some(other) => {
            return Err(LoadError::Config(format!(
                "`time_step_limit` has {} numbers, two are its bounds",
                other.len()
            )));
        }
    };
    let vector = |name: &str| VectorSpec::new(format!("{path}.{name}"), heads);
    Ok(MambaSpec {
        heads,
        head_dim,
        groups,
        state,
        input: LinearSpec::new(format!("{path}.in_proj"), hidden, inner + channels + heads).with_bias(bias),
        conv: ConvSpec {
            path: format!("{path}.conv1d"),
            channels,
            kernel: config.usize("conv_kernel")?,
            bias: config.bool_or("use_conv_bias", true)?,
        },
        a_log: vector("A_log"),
        dt_bias: vector("dt_bias"),
        d: vector("D"),
        dt_limit,
        norm: NormSpec::new(format!("{path}.norm"), inner, eps),
        output: LinearSpec::new(format!("{path}.out_proj"), inner, hidden).with_bias(bias),
    })
}

/// Without positions.
fn attention(config: &Config, path: &str, hidden: usize) -> Result<AttentionSpec, LoadError> {
    let (heads, kv_heads) = (config.usize("num_attention_heads")?, config.usize("num_key_value_heads")?);
    super::even_heads(heads, kv_heads)?;
    let head_dim = config.usize_opt("head_dim")?.unwrap_or(hidden / heads);
    let bias = config.bool_or("attention_bias", false)?;
    let linear = |name: &str, inputs, outputs| LinearSpec::new(format!("{path}.{name}_proj"), inputs, outputs).with_bias(bias);
    let (queries, keys) = (heads * head_dim, kv_heads * head_dim);
    Ok(AttentionSpec {
        heads,
        kv_heads,
        head_dim,
        scale: (head_dim as f32).powf(-0.5),
        q: linear("q", hidden, queries),
        kv: KvSpec::Own {
            k: linear("k", hidden, keys),
            v: Some(linear("v", hidden, keys)),
            v_norm: None,
        },
        o: linear("o", queries, hidden),
        q_norm: HeadNormSpec::None,
        k_norm: HeadNormSpec::None,
        rope: None,
        window: None,
        gate: None,
    })
}

fn mlp(config: &Config, path: &str, hidden: usize, inner: usize) -> Result<DenseSpec, LoadError> {
    let bias = config.bool_or("mlp_bias", false)?;
    Ok(DenseSpec {
        gate: None,
        up: LinearSpec::new(format!("{path}.up_proj"), hidden, inner).with_bias(bias),
        down: LinearSpec::new(format!("{path}.down_proj"), inner, hidden).with_bias(bias),
        activation: Activation::Relu2,
    })
}

fn moe(config: &Config, path: &str, hidden: usize) -> Result<MoeSpec, LoadError> {
    let count = config.usize("n_routed_experts")?;
    let top_k = super::top_k(config, "num_experts_per_tok", count)?;
    let inner = config.usize("moe_intermediate_size")?;
    let latent = config.usize_opt("moe_latent_size")?;
    let width = latent.unwrap_or(hidden);
    let bias = config.bool_or("mlp_bias", false)?;
    let normalize = top_k > 1 && config.bool_or("norm_topk_prob", true)?;
    let shared = match config.usize_opt("n_shared_experts")? {
        Some(_) => {
            let inner = config.usize("moe_shared_expert_intermediate_size")?;
            Some(SharedSpec {
                dense: mlp(config, &format!("{path}.shared_experts"), hidden, inner)?,
                gate: None,
            })
        }
        None => None,
    };
    Ok(MoeSpec {
        router: RouterSpec {
            gate: LinearSpec::new(format!("{path}.gate"), hidden, count),
            norm: None,
            scoring: Scoring::Sigmoid,
            top_k,
            bias: Some(VectorSpec::new(format!("{path}.gate.e_score_correction_bias"), count)),
            groups: groups(config, count)?,
            normalize: normalize.then_some(1e-20),
            factor: config.f64_opt("routed_scaling_factor")?.unwrap_or(1.0) as f32,
            per_expert: None,
        },
        experts: ExpertsSpec {
            count,
            each: DenseSpec {
                gate: None,
                up: LinearSpec::new(format!("{path}.switch_mlp.fc1"), width, inner),
                down: LinearSpec::new(format!("{path}.switch_mlp.fc2"), inner, width),
                activation: Activation::Relu2,
            },
        },
        latent: latent.map(|latent| {
            (
                LinearSpec::new(format!("{path}.fc1_latent_proj"), hidden, latent).with_bias(bias),
                LinearSpec::new(format!("{path}.fc2_latent_proj"), latent, hidden).with_bias(bias),
            )
        }),
        shared,
    })
}

fn groups(config: &Config, experts: usize) -> Result<Option<Groups>, LoadError> {
    let count = config.usize_opt("n_group")?.unwrap_or(1);
    if count == 1 {
        return Ok(None);
    }
    let keep = config.usize("topk_group")?;
    // Each group is judged by its two best.
    if !experts.is_multiple_of(count) || experts / count < 2 || keep > count {
        return Err(LoadError::Config(format!(
            "{keep} of {count} groups cannot be chosen from {experts} experts"
        )));
    }
    Ok(Some(Groups { count, keep }))
}

/// Hugging Face stores each expert on its own.
fn place(_: &DecoderSpec, name: &str) -> Place {
    if name.starts_with("mtp.") {
        return Place::Drop;
    }
    let Some((prefix, index, rest)) = super::expert(name) else {
        return Place::At(name.to_owned());
    };
    let rest = rest.replace("up_proj.", "fc1.").replace("down_proj.", "fc2.");
    Place::Expert {
        of: format!("{prefix}.switch_mlp.{rest}"),
        index,
    }
}
