//! Qwen3.5, 3.6 and 3.8, Ornith and Bonsai: gated delta rule in three of four layers, gated attention in the fourth; with a
//! mixture of experts in the MoE variant. Source: `spec/checkpoints.md` §3; oracle: mlx-lm `qwen3_5.py`.

use super::{Family, Shapes, llama, qwen3_moe};
use crate::{
    decoder::{
        rope::Rope,
        spec::{
            AttentionSpec, BlockSpec, ConvSpec, DecoderSpec, FfnSpec, GateSpec, GatedDeltaSpec, HeadNormSpec, HeadSpec, KvSpec, LinearSpec,
            MixerSpec, NormSpec, Part, SharedSpec, VectorSpec,
        },
    },
    load::{Config, LoadError, Place, float},
};

pub(super) const FAMILY: Family = Family {
    model_types: &["qwen3_5", "qwen3_5_moe"],
    spec,
    place,
    adapt: Some(adapt),
};

const MODEL: &str = "language_model.model";

fn spec(config: &Config) -> Result<DecoderSpec, LoadError> {
    let layers = super::layers(config)?;
    let hidden = config.usize("hidden_size")?;
    let vocab = config.usize("vocab_size")?;
    let eps = config.f64_opt("rms_norm_eps")?.unwrap_or(1e-6) as f32;
    let max_context = config.usize_opt("max_position_embeddings")?.unwrap_or(131_072);
    let every = config.usize_opt("full_attention_interval")?.unwrap_or(4);
    let full = attention(config, hidden, eps, max_context)?;
    let linear = gated_delta(config, hidden, eps)?;
    let feed = feed(config, hidden)?;
    let block = |layer: usize| {
        let path = format!("{MODEL}.layers.{layer}");
        let norm = |name: &str| NormSpec::new(format!("{path}.{name}"), hidden, eps);
        let mixer = if (layer + 1).is_multiple_of(every) {
            MixerSpec::Attention(full(&format!("{path}.self_attn")))
        } else {
            MixerSpec::GatedDelta(linear(&format!("{path}.linear_attn")))
        };
        BlockSpec::new(
            Part::new(norm("input_layernorm"), mixer),
            Part::new(norm("post_attention_layernorm"), feed(&format!("{path}.mlp"))),
        )
    };
    let tied = config.bool_or("tie_word_embeddings", false)?;
    let norm = NormSpec::new(format!("{MODEL}.norm"), hidden, eps);
    let head = llama::head(tied, "language_model.lm_head", hidden, vocab);
    let mut spec = DecoderSpec::new(hidden, vocab, max_context, format!("{MODEL}.embed_tokens"), norm, head);
    spec.blocks = (0..layers).map(block).collect();
    Ok(spec)
}

fn attention(config: &Config, hidden: usize, eps: f32, max_context: usize) -> Result<impl Fn(&str) -> AttentionSpec, LoadError> {
    let heads = config.usize("num_attention_heads")?;
    let kv_heads = config.usize("num_key_value_heads")?;
    super::even_heads(heads, kv_heads)?;
    let head_dim = config.usize_opt("head_dim")?.unwrap_or(hidden / heads);
    let bias = config.bool_or("attention_bias", false)?;
    // A quarter of each head turns unless the configuration says otherwise.
    let (theta, scaling) = config.rope()?;
    let mut scaling = scaling.cloned().unwrap_or_default();
    let turned = config.f64_opt("partial_rotary_factor")?.unwrap_or(0.25);
    if scaling.get("partial_rotary_factor").and_then(float).is_none() {
        scaling.insert("partial_rotary_factor".into(), turned.into());
    }
    let rope = Rope::new(head_dim, theta.unwrap_or(100_000.0), false, Some(&scaling), max_context)?;
    Ok(move |path: &str| {
        let linear = |name: &str, inputs, outputs| LinearSpec::new(format!("{path}.{name}_proj"), inputs, outputs).with_bias(bias);
        let norm = |name: &str| HeadNormSpec::Weight(NormSpec::new(format!("{path}.{name}_norm"), head_dim, eps));
        let (queries, keys) = (heads * head_dim, kv_heads * head_dim);
        AttentionSpec {
            heads,
            kv_heads,
            head_dim,
            scale: (head_dim as f32).powf(-0.5),
            q: linear("q", hidden, 2 * queries),
            kv: KvSpec::Own {
                k: linear("k", hidden, keys),
                v: Some(linear("v", hidden, keys)),
                v_norm: None,
            },
            o: linear("o", queries, hidden),
            q_norm: norm("q"),
            k_norm: norm("k"),
            rope: Some(rope.clone()),
            window: None,
            gate: Some(GateSpec::InQuery),
        }
    })
}

fn gated_delta(config: &Config, hidden: usize, eps: f32) -> Result<impl Fn(&str) -> GatedDeltaSpec, LoadError> {
    let (value_heads, key_heads) = (config.usize("linear_num_value_heads")?, config.usize("linear_num_key_heads")?);
    super::even_heads(value_heads, key_heads)?;
    let (key_dim, value_dim) = (config.usize("linear_key_head_dim")?, config.usize("linear_value_head_dim")?);
    let kernel = config.usize_opt("linear_conv_kernel_dim")?.unwrap_or(4);
    let channels = 2 * key_heads * key_dim + value_heads * value_dim;
    Ok(move |path: &str| {
        let linear = |name: &str, outputs| LinearSpec::new(format!("{path}.in_proj_{name}"), hidden, outputs);
        let vector = |name: &str| VectorSpec::new(format!("{path}.{name}"), value_heads);
        GatedDeltaSpec {
            key_heads,
            value_heads,
            key_dim,
            value_dim,
            qkv: linear("qkv", channels),
            z: linear("z", value_heads * value_dim),
            b: linear("b", value_heads),
            a: linear("a", value_heads),
            conv: ConvSpec {
                path: format!("{path}.conv1d"),
                channels,
                kernel,
                bias: false,
            },
            a_log: vector("A_log"),
            dt_bias: vector("dt_bias"),
            norm: NormSpec::new(format!("{path}.norm"), value_dim, eps),
            output: LinearSpec::new(format!("{path}.out_proj"), value_heads * value_dim, hidden),
        }
    })
}

fn feed(config: &Config, hidden: usize) -> Result<impl Fn(&str) -> FfnSpec, LoadError> {
    let count = config.count_or("num_experts", 0)?;
    let (mut inner, mut shared, mut top_k) = (0, 0, 0);
    if count == 0 {
        inner = config.usize("intermediate_size")?;
    } else {
        inner = config.usize_opt("moe_intermediate_size")?.unwrap_or(inner);
        shared = config.usize("shared_expert_intermediate_size")?;
        top_k = super::top_k(config, "num_experts_per_tok", count)?;
    }
    let normalize = config.bool_or("norm_topk_prob", true)?.then_some(0.0);
    Ok(move |path: &str| {
        if count == 0 {
            return FfnSpec::Dense(llama::swiglu(path, hidden, inner, false));
        }
        let mut moe = qwen3_moe::moe(path, hidden, inner, count, top_k, normalize);
        moe.shared = Some(SharedSpec {
            dense: llama::swiglu(&format!("{path}.shared_expert"), hidden, shared, false),
            gate: Some(LinearSpec::new(format!("{path}.shared_expert_gate"), hidden, 1)),
        });
        FfnSpec::Moe(Box::new(moe))
    })
}

/// Without the vision tower and the heads for several tokens at once.
fn place(spec: &DecoderSpec, stored: &str) -> Place {
    if stored.starts_with("vision_tower") || stored.starts_with("model.visual") || stored.contains("mtp.") {
        return Place::Drop;
    }
    let name = match stored.strip_prefix("model.language_model.") {
        Some(rest) => format!("{MODEL}.{rest}"),
        None if stored.starts_with("language_model.") => stored.to_owned(),
        None => format!("language_model.{stored}"),
    };
    if spec.head == HeadSpec::Tied && name.starts_with("language_model.lm_head.") {
        return Place::Drop;
    }
    if let Some(base) = name.strip_suffix(".experts.gate_up_proj") {
        let half = |part: &str| format!("{base}.switch_mlp.{part}_proj.weight");
        return Place::Halves(half("gate"), half("up"));
    }
    if let Some(base) = name.strip_suffix(".experts.down_proj") {
        return Place::At(format!("{base}.switch_mlp.down_proj.weight"));
    }
    match super::expert(&name) {
        Some((prefix, index, rest)) => Place::Expert {
            of: format!("{prefix}.switch_mlp.{rest}"),
            index,
        },
        None => Place::At(name),
    }
}

/// Hugging Face stores norms around zero; its convolutions, `[C, 1, K]`, tell that a checkpoint is one of its own. The norm
/// behind the recurrence is stored as it is in both.
fn adapt(spec: &mut DecoderSpec, shapes: Shapes<'_>) {
    let convolutions = spec.blocks.iter().filter_map(|block| match &block.mixer.as_ref()?.inner {
        MixerSpec::GatedDelta(mixer) => shapes(&format!("{}.weight", mixer.conv.path)),
        _ => None,
    });
    if !convolutions.into_iter().any(|shape| shape.last() != Some(&1)) {
        return;
    }
    spec.norm.shift = 1.0;
    for block in &mut spec.blocks {
        if let Some(part) = &mut block.mixer {
            part.norm.shift = 1.0;
            if let MixerSpec::Attention(attention) = &mut part.inner {
                for norm in [&mut attention.q_norm, &mut attention.k_norm] {
                    if let HeadNormSpec::Weight(norm) = norm {
                        norm.shift = 1.0;
                    }
                }
            }
        }
        if let Some(part) = &mut block.ffn {
            part.norm.shift = 1.0;
        }
    }
}
