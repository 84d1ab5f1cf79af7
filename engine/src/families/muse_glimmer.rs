//! Muse-Glimmer, its text tower: gated attention, rotated in its sliding layers alone, between centered norms. Source:
//! `spec/checkpoints.md` §2.4; oracle: mlx-lm `muse_glimmer.py`.

use super::{Family, llama};
use crate::{
    decoder::{
        rope::Rope,
        spec::{
            AttentionSpec, BlockSpec, DecoderSpec, EmbeddingSpec, FfnSpec, GateSpec, HeadNormSpec, HeadSpec, KvSpec, LinearSpec, MixerSpec,
            NormSpec, Part,
        },
    },
    load::{Config, LoadError, Place},
};

pub(super) const FAMILY: Family = Family {
    model_types: &["muse_glimmer"],
    spec,
    place,
    adapt: None,
};

/// The published sizes, where the configuration leaves them out.
fn size(config: &Config, key: &str, published: usize) -> Result<usize, LoadError> {
    Ok(config.usize_opt(key)?.unwrap_or(published))
}

fn number(config: &Config, key: &str, published: f64) -> Result<f32, LoadError> {
    Ok(config.f64_opt(key)?.unwrap_or(published) as f32)
}

fn spec(config: &Config) -> Result<DecoderSpec, LoadError> {
    let layers = match config.field("num_hidden_layers") {
        Some(_) => super::layers(config)?,
        None => 52,
    };
    let hidden = size(config, "hidden_size", 6656)?;
    let (heads, kv_heads) = (size(config, "num_attention_heads", 32)?, size(config, "num_key_value_heads", 2)?);
    super::even_heads(heads, kv_heads)?;
    let (head_dim, inner) = (size(config, "head_dim", 128)?, size(config, "intermediate_size", 19_968)?);
    let vocab = size(config, "vocab_size", 202_048)?;
    let (eps, post_eps) = (number(config, "rms_norm_eps", 1e-5)?, number(config, "post_norm_eps", 1e-8)?);
    let window = size(config, "sliding_window", 2048)?;
    let factor = number(config, "qk_scale_factor", 3.87)?;
    let max_context = size(config, "max_position_embeddings", 131_072)?;
    let theta = config.rope()?.0.unwrap_or(500_000.0);
    let rope = Rope::new(head_dim, theta, false, None, max_context)?;
    // Three sliding layers, then a full one.
    let sliding: Vec<bool> = match super::layer_types(config, layers)? {
        Some(types) => {
            let slides = |kind: &str| match kind {
                "sliding_attention" => Ok(true),
                "full_attention" => Ok(false),
                other => Err(super::unknown_layer(other)),
            };
            types.into_iter().map(slides).collect::<Result<_, _>>()?
        }
        None => (0..layers).map(|layer| layer % 4 != 3).collect(),
    };
    let rotated: Vec<bool> = match config.numbers("layer_rope_theta")? {
        Some(thetas) if thetas.len() == layers => thetas.iter().map(|theta| *theta != 0.0).collect(),
        Some(thetas) => {
            return Err(LoadError::Config(format!(
                "`layer_rope_theta` names {} of {layers} layers",
                thetas.len()
            )));
        }
        None => sliding.clone(),
    };
    let block = |layer: usize| {
        let path = |name: &str| format!("model.layers.{layer}.{name}");
        let norm = |name: &str, eps: f32| NormSpec::new(path(name), hidden, eps).centered();
        let linear = |name: &str, inputs, outputs| LinearSpec::new(path(&format!("self_attn.{name}_proj")), inputs, outputs);
        let (queries, keys) = (heads * head_dim, kv_heads * head_dim);
        let constant = |factor: f32| HeadNormSpec::Constant {
            dim: head_dim,
            factor,
            eps,
        };
        let mixer = MixerSpec::Attention(AttentionSpec {
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
            q_norm: constant(factor),
            k_norm: constant(1.0),
            rope: rotated[layer].then(|| rope.clone()),
            window: sliding[layer].then_some(window),
            gate: Some(GateSpec::Own(linear("gate", hidden, queries))),
        });
        BlockSpec::new(
            Part {
                norm: norm("input_layernorm", eps),
                inner: mixer,
                post: Some(norm("post_attention_layernorm", post_eps)),
            },
            Part {
                norm: norm("pre_feedforward_layernorm", eps),
                inner: FfnSpec::Dense(llama::swiglu(&path("mlp"), hidden, inner, false)),
                post: Some(norm("post_feedforward_layernorm", post_eps)),
            },
        )
    };
    let head = llama::head(config.bool_or("tie_word_embeddings", false)?, "lm_head", hidden, vocab);
    let norm = NormSpec::new("model.norm", hidden, eps);
    let mut spec = DecoderSpec::new(hidden, vocab, max_context, "model.embed_tokens", norm, head);
    spec.embedded = EmbeddingSpec::Normed(eps);
    spec.blocks = (0..layers).map(block).collect();
    spec.multiplier = number(config, "output_multiplier", 0.196_116_135_138_184_04)?;
    spec.softcap = Some(number(config, "final_logit_softcapping", 20.0)?);
    Ok(spec)
}

/// Without the vision tower; the text tower may be nested.
fn place(spec: &DecoderSpec, name: &str) -> Place {
    if ["vision_tower", "vision_adapter", "vision_projection"]
        .iter()
        .any(|part| name.strip_prefix("model.").unwrap_or(name).starts_with(part))
    {
        return Place::Drop;
    }
    let inner = [
        ("language_model.model.", "model."),
        ("language_model.lm_head.", "lm_head."),
        ("model.language_model.", "model."),
    ]
    .iter()
    .find_map(|(from, to)| Some(format!("{to}{}", name.strip_prefix(from)?)));
    let name = inner.unwrap_or_else(|| name.to_owned());
    if spec.head == HeadSpec::Tied && name.starts_with("lm_head.") {
        return Place::Drop;
    }
    Place::At(name)
}
