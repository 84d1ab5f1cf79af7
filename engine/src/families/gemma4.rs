//! Gemma-4, its text tower: sliding and full attention between sandwich norms; the last layers may share keys and values
//! (2B, 4B), values may be the raw keys (26B, 31B), a mixture of experts may stand beside the feed-forward (26B). Source:
//! `spec/checkpoints.md` §2.3; oracle: mlx-lm `gemma4_text.py`.

use super::{Family, llama};
use crate::{
    decoder::{
        rope::Rope,
        spec::{
            Activation, AttentionSpec, BlockSpec, DecoderSpec, DenseSpec, EmbeddingSpec, ExpertsSpec, FfnSpec, HeadNormSpec, HeadSpec,
            KvSpec, LayerInputSpec, LayerInputsSpec, LinearSpec, MixerSpec, MoeSpec, NormSpec, ParallelSpec, Part, RouterSpec, Scoring,
            TableSpec, VectorSpec,
        },
    },
    load::{Config, LoadError, Place},
};
use serde_json::{Map, Value, json};

pub(super) const FAMILY: Family = Family {
    model_types: &["gemma4", "gemma4_unified", "gemma4_text"],
    spec,
    place,
    adapt: None,
};

/// Both kinds of attention of a model.
struct Attend<'a> {
    config: &'a Config,
    hidden: usize,
    heads: usize,
    eps: f32,
    max_context: usize,
    /// Values are the raw keys, in full layers.
    raw_values: bool,
}

/// What a whole model says once.
struct Sizes {
    hidden: usize,
    inner: usize,
    eps: f32,
    /// Width of the per-layer inputs; 0 for none.
    per_layer: usize,
    moe: Option<Experts>,
}

struct Experts {
    count: usize,
    top_k: usize,
    inner: usize,
}

/// A number that may be null for none.
fn nullable(config: &Config, key: &str, default: usize) -> Result<usize, LoadError> {
    config.count_or(key, if config.is_null(key) { 0 } else { default })
}

fn spec(config: &Config) -> Result<DecoderSpec, LoadError> {
    let layers = super::layers(config)?;
    let hidden = config.usize("hidden_size")?;
    let vocab = match config.top("vocab_size") {
        Some(_) => config.top_usize("vocab_size")?,
        None => config.usize_opt("vocab_size")?.unwrap_or(262_144),
    };
    let eps = config.f64_opt("rms_norm_eps")?.unwrap_or(1e-6) as f32;
    let max_context = config.usize_opt("max_position_embeddings")?.unwrap_or(131_072);
    let sliding = sliding(config, layers)?;
    let own = layers.checked_sub(nullable(config, "num_kv_shared_layers", 20)?);
    let own = own.ok_or_else(|| LoadError::Config(format!("`num_kv_shared_layers` is more than the {layers} layers")))?;
    let experts = if config.bool_or("enable_moe_block", false)? {
        let count = config.usize("num_experts")?;
        Some(Experts {
            count,
            top_k: super::top_k(config, "top_k_experts", count)?,
            inner: config.usize("moe_intermediate_size")?,
        })
    } else {
        None
    };
    let sizes = Sizes {
        hidden,
        inner: config.usize("intermediate_size")?,
        eps,
        per_layer: nullable(config, "hidden_size_per_layer_input", 256)?,
        moe: experts,
    };
    let attend = Attend {
        config,
        hidden,
        heads: config.usize_opt("num_attention_heads")?.unwrap_or(8),
        eps,
        max_context,
        raw_values: config.bool_or("attention_k_eq_v", false)?,
    };
    let double = config.bool_or("use_double_wide_mlp", true)?;
    let root = if config.model_type()? == "gemma4_text" {
        String::new()
    } else {
        "language_model.".to_owned()
    };
    let model = format!("{root}model");
    let mut blocks = Vec::with_capacity(layers);
    for layer in 0..layers {
        let shared = layer >= own && own > 0;
        let from = (0..own).rev().find(|&from| sliding[from] == sliding[layer]);
        let shares = match (shared, from) {
            (false, _) => None,
            (true, Some(from)) => Some(from),
            (true, None) => {
                return Err(LoadError::Config(format!(
                    "layer {layer} shares keys and values, but no layer of its kind has any"
                )));
            }
        };
        let path = format!("{model}.layers.{layer}");
        let mixer = attend.spec(&path, sliding[layer], shares)?;
        let inner = sizes.inner * if double && shared { 2 } else { 1 };
        blocks.push(sizes.block(&path, mixer, inner));
    }
    let head = llama::head(
        config.bool_or("tie_word_embeddings", true)?,
        &format!("{root}lm_head"),
        hidden,
        vocab,
    );
    let norm = NormSpec::new(format!("{model}.norm"), hidden, eps);
    let mut spec = DecoderSpec::new(hidden, vocab, max_context, format!("{model}.embed_tokens"), norm, head);
    spec.embedded = EmbeddingSpec::Scaled((hidden as f32).sqrt());
    spec.blocks = blocks;
    spec.softcap = config
        .f64_opt("final_logit_softcapping")?
        .or((!config.is_null("final_logit_softcapping")).then_some(30.0))
        .map(|cap| cap as f32);
    if sizes.per_layer > 0 {
        let width = sizes.per_layer;
        spec.layer_inputs = Some(LayerInputsSpec {
            table: TableSpec {
                path: format!("{model}.embed_tokens_per_layer"),
                rows: config.usize_opt("vocab_size_per_layer_input")?.unwrap_or(262_144),
                columns: layers * width,
            },
            project: LinearSpec::new(format!("{model}.per_layer_model_projection"), hidden, layers * width),
            norm: NormSpec::new(format!("{model}.per_layer_projection_norm"), width, eps),
            width,
        });
    }
    Ok(spec)
}

/// Which layers slide: `layer_types`, else four of five.
fn sliding(config: &Config, layers: usize) -> Result<Vec<bool>, LoadError> {
    let Some(types) = super::layer_types(config, layers)? else {
        let every = config.usize_opt("sliding_window_pattern")?.unwrap_or(5);
        return Ok((0..layers).map(|layer| (layer + 1) % every != 0).collect());
    };
    let slides = |kind: &str| match kind {
        "sliding_attention" => Ok(true),
        "full_attention" => Ok(false),
        other => Err(super::unknown_layer(other)),
    };
    types.into_iter().map(slides).collect()
}

impl Attend<'_> {
    fn rope(&self, sliding: bool, head_dim: usize) -> Result<Rope, LoadError> {
        let (key, default) = if sliding {
            ("sliding_attention", json!({"rope_theta": 1e4, "rope_type": "default"}))
        } else {
            (
                "full_attention",
                json!({"rope_theta": 1e6, "rope_type": "proportional", "partial_rotary_factor": 0.25}),
            )
        };
        let found = self.config.object("rope_parameters").map(|all| all.get(key).cloned());
        let entry = match found {
            Some(entry) => entry.unwrap_or_else(|| Value::Object(Map::new())),
            None => default,
        };
        let entry = entry.as_object().cloned().unwrap_or_default();
        let theta = entry.get("rope_theta").and_then(crate::load::float).unwrap_or(1e4);
        let traditional = self.config.bool_or("rope_traditional", false)?;
        Rope::new(head_dim, theta, traditional, Some(&entry), self.max_context)
    }

    fn spec(&self, path: &str, sliding: bool, shares: Option<usize>) -> Result<MixerSpec, LoadError> {
        let config = self.config;
        let local = config.usize_opt("head_dim")?.unwrap_or(256);
        let head_dim = if sliding {
            local
        } else {
            nullable(config, "global_head_dim", 512).map(|dim| if dim == 0 { local } else { dim })?
        };
        let raw_values = self.raw_values && !sliding;
        let kv_heads = config.usize_opt("num_key_value_heads")?.unwrap_or(1);
        let kv_heads = match config.usize_opt("num_global_key_value_heads")? {
            Some(global) if raw_values => global,
            _ => kv_heads,
        };
        super::even_heads(self.heads, kv_heads)?;
        let linear = |name: &str, inputs, outputs| LinearSpec::new(format!("{path}.self_attn.{name}_proj"), inputs, outputs);
        let norm = |name: &str| HeadNormSpec::Weight(NormSpec::new(format!("{path}.self_attn.{name}_norm"), head_dim, self.eps));
        let (queries, keys) = (self.heads * head_dim, kv_heads * head_dim);
        let kv = match shares {
            Some(block) => KvSpec::Shared { block },
            None => KvSpec::Own {
                k: linear("k", self.hidden, keys),
                v: (!raw_values).then(|| linear("v", self.hidden, keys)),
                v_norm: Some(self.eps),
            },
        };
        let window = if sliding {
            Some(config.usize_opt("sliding_window")?.unwrap_or(512))
        } else {
            None
        };
        Ok(MixerSpec::Attention(AttentionSpec {
            heads: self.heads,
            kv_heads,
            head_dim,
            scale: 1.0,
            q: linear("q", self.hidden, queries),
            o: linear("o", queries, self.hidden),
            q_norm: norm("q"),
            k_norm: if shares.is_some() { HeadNormSpec::None } else { norm("k") },
            kv,
            rope: Some(self.rope(sliding, head_dim)?),
            window,
            gate: None,
        }))
    }
}

impl Sizes {
    fn block(&self, path: &str, mixer: MixerSpec, inner: usize) -> BlockSpec {
        let norm = |name: &str| NormSpec::new(format!("{path}.{name}"), self.hidden, self.eps);
        let dense = DenseSpec {
            activation: Activation::Gelu,
            ..llama::swiglu(&format!("{path}.mlp"), self.hidden, inner, false)
        };
        let ffn = match &self.moe {
            None => FfnSpec::Dense(dense),
            Some(experts) => FfnSpec::Parallel(Box::new(ParallelSpec {
                dense,
                dense_post: norm("post_feedforward_layernorm_1"),
                moe_norm: norm("pre_feedforward_layernorm_2"),
                moe: self.moe(path, experts),
                moe_post: norm("post_feedforward_layernorm_2"),
            })),
        };
        let around = |before: &str, after: &str| (norm(before), Some(norm(after)));
        let (mixer_norm, mixer_post) = around("input_layernorm", "post_attention_layernorm");
        let (ffn_norm, ffn_post) = around("pre_feedforward_layernorm", "post_feedforward_layernorm");
        let mut block = BlockSpec::new(
            Part {
                norm: mixer_norm,
                inner: mixer,
                post: mixer_post,
            },
            Part {
                norm: ffn_norm,
                inner: ffn,
                post: ffn_post,
            },
        );
        block.scalar = Some(VectorSpec::new(format!("{path}.layer_scalar"), 1));
        block.input = (self.per_layer > 0).then(|| LayerInputSpec {
            gate: LinearSpec::new(format!("{path}.per_layer_input_gate"), self.hidden, self.per_layer),
            project: LinearSpec::new(format!("{path}.per_layer_projection"), self.per_layer, self.hidden),
            norm: norm("post_per_layer_input_norm"),
        });
        block
    }

    fn moe(&self, path: &str, experts: &Experts) -> MoeSpec {
        let router = |name: &str| format!("{path}.router.{name}");
        MoeSpec {
            router: RouterSpec {
                gate: LinearSpec::new(router("proj"), self.hidden, experts.count),
                norm: Some((
                    VectorSpec::new(router("scale"), self.hidden),
                    (self.hidden as f32).powf(-0.5),
                    self.eps,
                )),
                scoring: Scoring::SoftmaxOfChosen,
                top_k: experts.top_k,
                bias: None,
                groups: None,
                normalize: None,
                factor: 1.0,
                per_expert: Some(VectorSpec::new(router("per_expert_scale"), experts.count)),
            },
            experts: ExpertsSpec {
                count: experts.count,
                each: DenseSpec {
                    activation: Activation::Gelu,
                    ..llama::swiglu(&format!("{path}.experts.switch_glu"), self.hidden, experts.inner, false)
                },
            },
            latent: None,
            shared: None,
        }
    }
}

const OTHER_TOWERS: [&str; 6] = [
    "vision_tower",
    "multi_modal_projector",
    "audio_tower",
    "embed_audio",
    "embed_vision",
    "vision_embedder",
];
const CALIBRATION: [&str; 5] = ["self_attn.rotary_emb", "input_max", "input_min", "output_max", "output_min"];

/// Hugging Face nests the text tower the other way round and joins the experts' gates.
fn place(spec: &DecoderSpec, stored: &str) -> Place {
    let nested = spec.embedding.starts_with("language_model.");
    let bare = stored.strip_prefix("model.").filter(|_| nested);
    let inner = bare.unwrap_or(stored);
    if OTHER_TOWERS.iter().any(|tower| inner.starts_with(tower)) || CALIBRATION.iter().any(|part| inner.contains(part)) {
        return Place::Drop;
    }
    let name = match bare {
        Some(bare) => bare.replacen("language_model.", "language_model.model.", 1),
        None if nested && stored.starts_with("lm_head.") => format!("language_model.{stored}"),
        None => stored.to_owned(),
    };
    let tied = spec.head == HeadSpec::Tied && name.contains("lm_head.");
    if tied || of_shared_keys(spec, &name) {
        return Place::Drop;
    }
    if let Some(base) = name.strip_suffix(".experts.gate_up_proj") {
        let half = |part: &str| format!("{base}.experts.switch_glu.{part}_proj.weight");
        return Place::Halves(half("gate"), half("up"));
    }
    match name.strip_suffix(".experts.down_proj") {
        Some(base) => Place::At(format!("{base}.experts.switch_glu.down_proj.weight")),
        None => Place::At(name),
    }
}

/// Layers that share keys and values are stored with projections of their own, which nothing uses.
fn of_shared_keys(spec: &DecoderSpec, name: &str) -> bool {
    let own = [".self_attn.k_proj", ".self_attn.v_proj", ".self_attn.k_norm"];
    if !own.iter().any(|part| name.contains(part)) {
        return false;
    }
    let layer = name
        .split_once("layers.")
        .and_then(|(_, rest)| rest.split('.').next()?.parse::<usize>().ok());
    let block = layer.and_then(|layer| spec.blocks.get(layer));
    let mixer = block.and_then(|block| block.mixer.as_ref()).map(|part| &part.inner);
    matches!(mixer, Some(MixerSpec::Attention(attention)) if matches!(attention.kv, KvSpec::Shared { .. }))
}
