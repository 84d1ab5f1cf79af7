//! LFM2 and its mixture of experts: short convolutions and attention. Source: `spec/checkpoints.md` §4.1; oracle: mlx-lm
//! `lfm2.py`, `lfm2_moe.py`.

use super::{Family, llama, qwen3_moe};
use crate::{
    decoder::{
        rope::Rope,
        spec::{
            Activation, AttentionSpec, BlockSpec, ConvSpec, DecoderSpec, DenseSpec, FfnSpec, HeadNormSpec, HeadSpec, KvSpec, LinearSpec,
            MixerSpec, MoeSpec, NormSpec, Part, RouterSpec, Scoring, ShortConvSpec, VectorSpec,
        },
    },
    load::{Config, LoadError, Place},
};

pub(super) const FAMILY: Family = Family {
    model_types: &["lfm2", "lfm2_moe"],
    spec,
    place,
    adapt: None,
};

fn spec(config: &Config) -> Result<DecoderSpec, LoadError> {
    let layers = super::layers(config)?;
    let hidden = config.usize("hidden_size")?;
    let vocab = config.usize("vocab_size")?;
    let eps = config.f64("norm_eps")? as f32;
    let max_context = config.usize("max_position_embeddings")?;
    let attends = attends(config, layers)?;
    let feed = Feed::read(config, hidden)?;
    let mut blocks = Vec::with_capacity(layers);
    for (layer, attends) in attends.into_iter().enumerate() {
        let path = format!("model.layers.{layer}");
        let norm = |name: &str| NormSpec::new(format!("{path}.{name}"), hidden, eps);
        let mixer = if attends {
            attention(config, &format!("{path}.self_attn"), hidden, eps, max_context)?
        } else {
            short_conv(config, &format!("{path}.conv"), hidden)?
        };
        let ffn = feed.spec(&format!("{path}.feed_forward"), layer, hidden);
        blocks.push(BlockSpec::new(
            Part::new(norm("operator_norm"), mixer),
            Part::new(norm("ffn_norm"), ffn),
        ));
    }
    let norm = NormSpec::new("model.embedding_norm", hidden, eps);
    let mut spec = DecoderSpec::new(hidden, vocab, max_context, "model.embed_tokens", norm, HeadSpec::Tied);
    spec.blocks = blocks;
    Ok(spec)
}

/// Which layers attend: `full_attn_idxs`, else `layer_types`.
fn attends(config: &Config, layers: usize) -> Result<Vec<bool>, LoadError> {
    if let Some(indices) = config.numbers("full_attn_idxs")? {
        return Ok((0..layers).map(|layer| indices.contains(&(layer as f64))).collect());
    }
    let types = super::layer_types(config, layers)?;
    let types = types.ok_or_else(|| LoadError::Config("neither `full_attn_idxs` nor `layer_types` says which layers attend".into()))?;
    let attends = |kind: &str| match kind {
        "full_attention" => Ok(true),
        "conv" => Ok(false),
        other => Err(super::unknown_layer(other)),
    };
    types.into_iter().map(attends).collect()
}

fn attention(config: &Config, path: &str, hidden: usize, eps: f32, max_context: usize) -> Result<MixerSpec, LoadError> {
    let heads = config.usize("num_attention_heads")?;
    let kv_heads = config.usize_opt("num_key_value_heads")?.unwrap_or(heads);
    super::even_heads(heads, kv_heads)?;
    let head_dim = hidden / heads;
    let theta = match config.object("rope_parameters").and_then(|rope| rope.get("rope_theta")) {
        Some(theta) => crate::load::float(theta),
        None => config.f64_opt("rope_theta")?,
    };
    let linear = |name: &str, inputs, outputs| LinearSpec::new(format!("{path}.{name}"), inputs, outputs);
    let norm = |name: &str| HeadNormSpec::Weight(NormSpec::new(format!("{path}.{name}"), head_dim, eps));
    Ok(MixerSpec::Attention(AttentionSpec {
        heads,
        kv_heads,
        head_dim,
        scale: (head_dim as f32).powf(-0.5),
        q: linear("q_proj", hidden, heads * head_dim),
        kv: KvSpec::Own {
            k: linear("k_proj", hidden, kv_heads * head_dim),
            v: Some(linear("v_proj", hidden, kv_heads * head_dim)),
            v_norm: None,
        },
        o: linear("out_proj", heads * head_dim, hidden),
        q_norm: norm("q_layernorm"),
        k_norm: norm("k_layernorm"),
        rope: Some(Rope::new(head_dim, theta.unwrap_or(1e6), false, None, max_context)?),
        window: None,
        gate: None,
    }))
}

fn short_conv(config: &Config, path: &str, hidden: usize) -> Result<MixerSpec, LoadError> {
    let bias = config.bool_or("conv_bias", false)?;
    let linear = |name: &str, outputs| LinearSpec::new(format!("{path}.{name}"), hidden, outputs).with_bias(bias);
    Ok(MixerSpec::ShortConv(ShortConvSpec {
        input: linear("in_proj", 3 * hidden),
        conv: ConvSpec {
            path: format!("{path}.conv"),
            channels: hidden,
            kernel: config.usize("conv_L_cache")?,
            bias,
        },
        output: linear("out_proj", hidden),
    }))
}

/// The feed-forwards of a model.
struct Feed {
    inner: usize,
    /// Names of gate, up and down.
    names: [&'static str; 3],
    moe: Option<Moe>,
}

struct Moe {
    /// Layers before this one are dense.
    from: usize,
    count: usize,
    top_k: usize,
    inner: usize,
    normalize: bool,
    bias: bool,
    factor: f32,
}

impl Feed {
    fn read(config: &Config, hidden: usize) -> Result<Self, LoadError> {
        if config.model_type()? != "lfm2_moe" {
            return Ok(Self {
                inner: width(config, hidden)?,
                names: ["w1", "w3", "w2"],
                moe: None,
            });
        }
        let count = config.usize("num_experts")?;
        Ok(Self {
            inner: config.usize("intermediate_size")?,
            names: ["gate_proj", "up_proj", "down_proj"],
            moe: Some(Moe {
                from: config.count_or("num_dense_layers", 0)?,
                count,
                top_k: super::top_k(config, "num_experts_per_tok", count)?,
                inner: config.usize("moe_intermediate_size")?,
                normalize: config.bool_or("norm_topk_prob", true)?,
                bias: config.bool_or("use_expert_bias", true)?,
                factor: config.f64_opt("routed_scaling_factor")?.unwrap_or(1.0) as f32,
            }),
        })
    }

    fn spec(&self, path: &str, layer: usize, hidden: usize) -> FfnSpec {
        if let Some(moe) = self.moe.as_ref().filter(|moe| layer >= moe.from) {
            return FfnSpec::Moe(Box::new(moe.spec(path, hidden)));
        }
        let linear = |name: &str, inputs, outputs| LinearSpec::new(format!("{path}.{name}"), inputs, outputs);
        let [gate, up, down] = self.names;
        FfnSpec::Dense(DenseSpec {
            gate: Some(linear(gate, hidden, self.inner)),
            up: linear(up, hidden, self.inner),
            down: linear(down, self.inner, hidden),
            activation: Activation::Silu,
        })
    }
}

impl Moe {
    fn spec(&self, path: &str, hidden: usize) -> MoeSpec {
        let normalize = self.normalize.then_some(1e-6);
        let usual = qwen3_moe::moe(path, hidden, self.inner, self.count, self.top_k, normalize);
        MoeSpec {
            router: RouterSpec {
                scoring: Scoring::Sigmoid,
                bias: self.bias.then(|| VectorSpec::new(format!("{path}.expert_bias"), self.count)),
                factor: self.factor,
                ..usual.router
            },
            ..usual
        }
    }
}

/// The inner width of the dense model: two thirds of what is written, times a factor, rounded up.
fn width(config: &Config, hidden: usize) -> Result<usize, LoadError> {
    let written = match config.usize_opt("block_ff_dim")? {
        Some(width) => width,
        None => config.usize_opt("intermediate_size")?.unwrap_or(4 * hidden),
    };
    if !config.bool_or("block_auto_adjust_ff_dim", true)? {
        return Ok(written);
    }
    let factor = config.f64_opt("block_ffn_dim_multiplier")?.unwrap_or(1.0);
    let scaled = (factor * (2 * written / 3) as f64) as usize;
    let multiple = config.usize_opt("block_multiple_of")?.unwrap_or(256);
    Ok(scaled.div_ceil(multiple) * multiple)
}

/// The mixture's weights have other names on Hugging Face, and each expert is stored on its own.
fn place(spec: &DecoderSpec, name: &str) -> Place {
    if let Place::Drop = llama::place(spec, name) {
        return Place::Drop;
    }
    let mixture = spec
        .blocks
        .iter()
        .any(|block| matches!(block.ffn.as_ref().map(|part| &part.inner), Some(FfnSpec::Moe(_))));
    if !mixture {
        return Place::At(name.to_owned());
    }
    let renamed = [(".w1.", ".gate_proj."), (".w2.", ".down_proj."), (".w3.", ".up_proj.")]
        .iter()
        .fold(name.to_owned(), |name, (from, to)| name.replace(from, to));
    match super::expert(&renamed) {
        Some((prefix, index, rest)) => Place::Expert {
            of: format!("{prefix}.switch_mlp.{rest}"),
            index,
        },
        None => Place::At(renamed),
    }
}
