//! One block: a mixer and a feed-forward, each between its norms.

use super::{
    attention::{Attention, Place},
    dense::Dense,
    gated_delta::GatedDelta,
    linear::Linear,
    mamba::Mamba,
    moe::Moe,
    norm::Norm,
    short_conv::ShortConv,
    spec::{Activation, BlockSpec, FfnSpec, LayerInputSpec, MixerSpec, ParallelSpec, Part},
};
use crate::{
    cache::LayerCache,
    load::{LoadError, Weights},
};
use mlx_rs::{
    Array,
    error::Exception,
    ops::{add, multiply},
};

type Result<T> = std::result::Result<T, Exception>;
type Loaded<T> = std::result::Result<T, LoadError>;

#[derive(Debug)]
pub(super) struct Block {
    mixer: Option<Around<Mixer>>,
    ffn: Option<Around<Ffn>>,
    input: Option<LayerInput>,
    scalar: Option<Array>,
}

/// `x += post(inner(norm(x)))`.
#[derive(Debug)]
struct Around<T> {
    norm: Norm,
    inner: T,
    post: Option<Norm>,
}

#[derive(Debug)]
enum Mixer {
    Attention(Box<Attention>),
    ShortConv(Box<ShortConv>),
    GatedDelta(Box<GatedDelta>),
    Mamba(Box<Mamba>),
}

#[derive(Debug)]
enum Ffn {
    Dense(Dense),
    Moe(Box<Moe>),
    Parallel(Box<Parallel>),
}

#[derive(Debug)]
struct Parallel {
    dense: Dense,
    dense_post: Norm,
    moe_norm: Norm,
    moe: Moe,
    moe_post: Norm,
}

#[derive(Debug)]
struct LayerInput {
    gate: Linear,
    project: Linear,
    norm: Norm,
}

impl<T> Around<T> {
    fn build<S>(part: &Part<S>, weights: &mut Weights<'_>, inner: impl FnOnce(&S, &mut Weights<'_>) -> Loaded<T>) -> Loaded<Self> {
        Ok(Self {
            norm: Norm::build(&part.norm, weights)?,
            inner: inner(&part.inner, weights)?,
            post: part.post.as_ref().map(|post| Norm::build(post, weights)).transpose()?,
        })
    }

    fn norms(&self) -> impl Iterator<Item = &Array> {
        [&self.norm].into_iter().chain(&self.post).map(|norm| &norm.weight)
    }
}

impl Block {
    pub(super) fn build(spec: &BlockSpec, weights: &mut Weights<'_>) -> Loaded<Self> {
        let mixer = spec.mixer.as_ref().map(|part| Around::build(part, weights, Mixer::build));
        let mixer = mixer.transpose()?;
        let ffn = spec.ffn.as_ref().map(|part| Around::build(part, weights, Ffn::build));
        Ok(Self {
            mixer,
            ffn: ffn.transpose()?,
            input: spec.input.as_ref().map(|input| LayerInput::build(input, weights)).transpose()?,
            scalar: match &spec.scalar {
                Some(scalar) => {
                    let scalar = weights.vector(scalar)?.as_dtype(weights.precision().activations)?;
                    scalar.eval()?;
                    Some(scalar)
                }
                None => None,
            },
        })
    }

    /// `x`: `[1, T, H]`; `input`: `[1, T, width]` for a family that has such; `cache`: the block's own, or the one it shares.
    pub(super) fn forward(&self, x: &Array, input: Option<&Array>, place: Place<'_>, cache: Option<&mut LayerCache>) -> Result<Array> {
        let mut x = x.clone();
        if let Some(around) = &self.mixer {
            let cache = cache.ok_or_else(|| Exception::custom("this block mixes positions and was given no cache"))?;
            x = around.mix(&x, place, cache)?;
        }
        if let Some(around) = &self.ffn {
            x = around.feed(&x)?;
        }
        if let (Some(layer), Some(input)) = (&self.input, input) {
            x = layer.add_to(&x, input)?;
        }
        match &self.scalar {
            Some(scalar) => multiply(&x, scalar),
            None => Ok(x),
        }
    }

    pub(super) fn arrays(&self) -> Vec<&Array> {
        let mut arrays: Vec<&Array> = self.scalar.iter().collect();
        if let Some(around) = &self.mixer {
            arrays.extend(around.norms());
            arrays.extend(around.inner.arrays());
        }
        if let Some(around) = &self.ffn {
            arrays.extend(around.norms());
            arrays.extend(around.inner.arrays());
        }
        if let Some(input) = &self.input {
            arrays.extend([input.gate.arrays(), input.project.arrays(), vec![&input.norm.weight]].concat());
        }
        arrays
    }
}

impl Mixer {
    fn build(spec: &MixerSpec, weights: &mut Weights<'_>) -> Loaded<Self> {
        Ok(match spec {
            MixerSpec::Attention(spec) => Self::Attention(Box::new(Attention::build(spec, weights)?)),
            MixerSpec::ShortConv(spec) => Self::ShortConv(Box::new(ShortConv::build(spec, weights)?)),
            MixerSpec::GatedDelta(spec) => Self::GatedDelta(Box::new(GatedDelta::build(spec, weights)?)),
            MixerSpec::Mamba(spec) => Self::Mamba(Box::new(Mamba::build(spec, weights)?)),
        })
    }

    fn arrays(&self) -> Vec<&Array> {
        match self {
            Self::Attention(mixer) => mixer.arrays(),
            Self::ShortConv(mixer) => mixer.arrays(),
            Self::GatedDelta(mixer) => mixer.arrays(),
            Self::Mamba(mixer) => mixer.arrays(),
        }
    }
}

impl Around<Mixer> {
    fn mix(&self, x: &Array, place: Place<'_>, cache: &mut LayerCache) -> Result<Array> {
        let (mixed, output) = match &self.inner {
            Mixer::Attention(mixer) => (mixer.mix(x, &self.norm, place, cache)?, mixer.output()),
            Mixer::ShortConv(mixer) => (mixer.mix(x, &self.norm, place, cache)?, mixer.output()),
            Mixer::GatedDelta(mixer) => (mixer.mix(x, &self.norm, place, cache)?, mixer.output()),
            Mixer::Mamba(mixer) => (mixer.mix(x, &self.norm, place, cache)?, mixer.output()),
        };
        match &self.post {
            None => output.plus(&mixed, x),
            Some(post) => add(x, post.of(&output.forward(&mixed)?)?),
        }
    }
}

impl Ffn {
    fn build(spec: &FfnSpec, weights: &mut Weights<'_>) -> Loaded<Self> {
        Ok(match spec {
            FfnSpec::Dense(spec) => Self::Dense(Dense::build(spec, weights)?),
            FfnSpec::Moe(spec) => Self::Moe(Box::new(Moe::build(spec, weights)?)),
            FfnSpec::Parallel(spec) => Self::Parallel(Box::new(Parallel::build(spec, weights)?)),
        })
    }

    /// `x` has been through the norm; `stream` is what it was before.
    fn forward(&self, x: &Array, stream: &Array) -> Result<Array> {
        match self {
            Self::Dense(dense) => dense.forward(x),
            Self::Moe(moe) => moe.forward(x, stream),
            Self::Parallel(parallel) => {
                let dense = parallel.dense_post.of(&parallel.dense.forward(x)?)?;
                let chosen = parallel.moe.forward(&parallel.moe_norm.of(stream)?, stream)?;
                add(&dense, parallel.moe_post.of(&chosen)?)
            }
        }
    }

    fn arrays(&self) -> Vec<&Array> {
        match self {
            Self::Dense(dense) => dense.arrays(),
            Self::Moe(moe) => moe.arrays(),
            Self::Parallel(parallel) => {
                let norms = [&parallel.dense_post, &parallel.moe_norm, &parallel.moe_post].map(|norm| &norm.weight);
                [parallel.dense.arrays(), parallel.moe.arrays(), norms.to_vec()].concat()
            }
        }
    }
}

impl Around<Ffn> {
    fn feed(&self, x: &Array) -> Result<Array> {
        if let (Ffn::Dense(dense), None) = (&self.inner, &self.post) {
            return dense.add_to(x, &self.norm);
        }
        let y = self.inner.forward(&self.norm.of(x)?, x)?;
        match &self.post {
            Some(post) => add(x, post.of(&y)?),
            None => add(x, &y),
        }
    }
}

impl Parallel {
    fn build(spec: &ParallelSpec, weights: &mut Weights<'_>) -> Loaded<Self> {
        Ok(Self {
            dense: Dense::build(&spec.dense, weights)?,
            dense_post: Norm::build(&spec.dense_post, weights)?,
            moe_norm: Norm::build(&spec.moe_norm, weights)?,
            moe: Moe::build(&spec.moe, weights)?,
            moe_post: Norm::build(&spec.moe_post, weights)?,
        })
    }
}

impl LayerInput {
    fn build(spec: &LayerInputSpec, weights: &mut Weights<'_>) -> Loaded<Self> {
        Ok(Self {
            gate: weights.linear(&spec.gate)?,
            project: weights.linear(&spec.project)?,
            norm: Norm::build(&spec.norm, weights)?,
        })
    }

    fn add_to(&self, x: &Array, input: &Array) -> Result<Array> {
        let gated = Activation::Gelu.gated(&self.gate.forward(x)?, input)?;
        add(x, self.norm.of(&self.project.forward(&gated)?)?)
    }
}
