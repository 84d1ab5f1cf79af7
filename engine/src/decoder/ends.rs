//! The ends of a decoder: what becomes of token ids before the first block, and of the last block's stream.

use super::{
    linear::Linear,
    norm::Norm,
    spec::{DecoderSpec, EmbeddingSpec, HeadSpec, LayerInputsSpec},
};
use crate::load::{LoadError, Weights};
use mlx_rs::{
    Array, Dtype,
    error::Exception,
    ops::{add, divide, multiply, tanh},
};

type Result<T> = std::result::Result<T, Exception>;
type Loaded<T> = std::result::Result<T, LoadError>;

/// `factor · x`, without an operation where it is 1.
pub(super) fn scaled(x: Array, factor: f32) -> Result<Array> {
    if factor == 1.0 {
        return Ok(x);
    }
    multiply(&x, Array::from_f32(factor).as_dtype(x.dtype())?)
}

/// Token ids to the stream that enters the first block.
#[derive(Debug)]
pub(super) struct Embedding {
    pub(super) table: Linear,
    pub(super) becomes: EmbeddingSpec,
    /// Of activations.
    dtype: Dtype,
    inputs: Option<LayerInputs>,
}

/// Per-layer inputs (Gemma-4 2B and 4B).
#[derive(Debug)]
struct LayerInputs {
    table: Linear,
    project: Linear,
    norm: Norm,
    width: i32,
    hidden: usize,
}

impl Embedding {
    pub(super) fn build(spec: &DecoderSpec, weights: &mut Weights<'_>) -> Loaded<Self> {
        Ok(Self {
            table: weights.matrix(&spec.embedding, spec.hidden, None)?,
            becomes: spec.embedded,
            dtype: weights.precision().activations,
            inputs: spec
                .layer_inputs
                .as_ref()
                .map(|inputs| LayerInputs::build(inputs, spec.hidden, weights))
                .transpose()?,
        })
    }

    /// Factor on the rows that a drafter borrows: the family's scale, and not a norm, which is the target's own.
    pub(super) fn scale(&self) -> f32 {
        match self.becomes {
            EmbeddingSpec::Scaled(factor) => factor,
            EmbeddingSpec::Plain | EmbeddingSpec::Normed(_) => 1.0,
        }
    }

    /// The stream, `[1, T, H]`, and an input for each block, `[1, T, width]` (none for families without).
    pub(super) fn forward(&self, tokens: &Array) -> Result<(Array, Vec<Array>)> {
        let rows = self.table.embed(tokens, self.dtype)?;
        let x = match self.becomes {
            EmbeddingSpec::Plain => rows,
            EmbeddingSpec::Scaled(factor) => scaled(rows, factor)?,
            EmbeddingSpec::Normed(eps) => mlx_cpu::rms_norm(&rows, None, eps)?,
        };
        let inputs = match &self.inputs {
            Some(inputs) => inputs.forward(tokens, &x)?,
            None => Vec::new(),
        };
        Ok((x, inputs))
    }

    pub(super) fn arrays(&self) -> Vec<&Array> {
        let mut arrays = self.table.arrays();
        if let Some(inputs) = &self.inputs {
            arrays.extend([inputs.table.arrays(), inputs.project.arrays(), vec![&inputs.norm.weight]].concat());
        }
        arrays
    }
}

impl LayerInputs {
    fn build(spec: &LayerInputsSpec, hidden: usize, weights: &mut Weights<'_>) -> Loaded<Self> {
        Ok(Self {
            table: weights.matrix(&spec.table.path, spec.table.columns, None)?,
            project: weights.linear(&spec.project)?,
            norm: Norm::build(&spec.norm, weights)?,
            width: spec.width as i32,
            hidden,
        })
    }

    fn forward(&self, tokens: &Array, x: &Array) -> Result<Vec<Array>> {
        let &[batch, rows, _] = x.shape() else {
            return Err(Exception::custom("the stream is [B, T, H]"));
        };
        let shape = [batch, rows, -1, self.width];
        let looked_up = scaled(self.table.embed(tokens, x.dtype())?, (self.width as f32).sqrt())?;
        let projected = scaled(self.project.forward(x)?, (self.hidden as f32).powf(-0.5))?;
        let projected = self.norm.of(&projected.reshape(&shape)?)?;
        let all = scaled(add(&projected, looked_up.reshape(&shape)?)?, 0.5_f32.sqrt())?;
        let blocks = all.dim(2);
        all.split_equal(blocks, 2)?.iter().map(|one| one.squeeze_axes(&[2])).collect()
    }
}

/// The stream to logits.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) norm: Norm,
    /// `None`: the embedding, transposed.
    pub(super) own: Option<Linear>,
    multiplier: f32,
    softcap: Option<f32>,
}

impl Head {
    pub(super) fn build(spec: &DecoderSpec, weights: &mut Weights<'_>) -> Loaded<Self> {
        Ok(Self {
            norm: Norm::build(&spec.norm, weights)?,
            own: match &spec.head {
                HeadSpec::Tied => None,
                HeadSpec::Own(head) => Some(weights.linear(head)?),
            },
            multiplier: spec.multiplier,
            softcap: spec.softcap,
        })
    }

    /// `[1, T, H]` before the final norm to `[1, T, V]`.
    pub(super) fn logits(&self, x: &Array, table: &Linear) -> Result<Array> {
        let logits = scaled(self.norm.then(self.own.as_ref().unwrap_or(table), x)?, self.multiplier)?;
        let Some(cap) = self.softcap else { return Ok(logits) };
        let cap = Array::from_f32(cap).as_dtype(logits.dtype())?;
        multiply(tanh(divide(&logits, &cap)?)?, &cap)
    }

    pub(super) fn arrays(&self) -> Vec<&Array> {
        let own = self.own.iter().flat_map(Linear::arrays);
        [&self.norm.weight].into_iter().chain(own).collect()
    }
}
