//! The gated delta rule of Qwen3.5: a matrix a head that forgets, and corrects what it holds for a key. Source:
//! `spec/checkpoints.md` §3.2.

use super::{
    attention::Place,
    conv::Conv,
    linear::Linear,
    norm::Norm,
    recurrence::{recur, softplus},
    spec::GatedDeltaSpec,
};
use crate::{
    cache::LayerCache,
    load::{LoadError, Weights},
};
use mlx_rs::{
    Array, Dtype,
    error::Exception,
    ops::{add, exp, multiply, negative, sigmoid},
};

type Result<T> = std::result::Result<T, Exception>;

#[derive(Debug)]
pub(super) struct GatedDelta {
    /// qkv, z, b, a.
    projections: Projections,
    widths: [i32; 4],
    conv: Conv,
    /// `-exp(A_log)`, `[Hv]`.
    decay: Array,
    dt_bias: Array,
    norm: Norm,
    output: Linear,
    shape: Shape,
}

#[derive(Debug)]
enum Projections {
    Joined(Linear),
    Split(Vec<Linear>),
}

#[derive(Debug, Clone, Copy)]
struct Shape {
    key_heads: i32,
    value_heads: i32,
    key_dim: i32,
    value_dim: i32,
}

impl Shape {
    fn states(self) -> [i32; 4] {
        [1, self.value_heads, self.value_dim, self.key_dim]
    }
}

impl GatedDelta {
    pub(super) fn build(spec: &GatedDeltaSpec, weights: &mut Weights<'_>) -> std::result::Result<Self, LoadError> {
        let of = [&spec.qkv, &spec.z, &spec.b, &spec.a];
        let widths = of.map(|linear| linear.outputs as i32);
        let parts = of.map(|linear| weights.linear(linear));
        let parts = parts.into_iter().collect::<std::result::Result<Vec<_>, _>>()?;
        let projections = match Linear::join(&parts.iter().collect::<Vec<_>>())? {
            Some(joined) => Projections::Joined(joined),
            None => Projections::Split(parts),
        };
        let mixer = Self {
            projections,
            widths,
            conv: Conv::build(&spec.conv, weights)?,
            decay: negative(exp(weights.vector(&spec.a_log)?)?)?,
            dt_bias: weights.vector(&spec.dt_bias)?,
            norm: Norm::build(&spec.norm, weights)?,
            output: weights.linear(&spec.output)?,
            shape: Shape {
                key_heads: spec.key_heads as i32,
                value_heads: spec.value_heads as i32,
                key_dim: spec.key_dim as i32,
                value_dim: spec.value_dim as i32,
            },
        };
        for array in mixer.arrays() {
            array.eval()?;
        }
        Ok(mixer)
    }

    pub(super) fn output(&self) -> &Linear {
        &self.output
    }

    pub(super) fn arrays(&self) -> Vec<&Array> {
        let mut arrays = match &self.projections {
            Projections::Joined(joined) => joined.arrays(),
            Projections::Split(parts) => parts.iter().flat_map(Linear::arrays).collect(),
        };
        arrays.extend([self.conv.arrays(), self.output.arrays()].concat());
        arrays.extend([&self.decay, &self.dt_bias, &self.norm.weight]);
        arrays
    }

    fn project(&self, x: &Array, norm: &Norm) -> Result<Vec<Array>> {
        match &self.projections {
            Projections::Joined(joined) => {
                let [qkv, z, b, _] = self.widths;
                norm.then(joined, x)?.split_at_indices(&[qkv, qkv + z, qkv + z + b], -1)
            }
            Projections::Split(parts) => {
                let normed = norm.of(x)?;
                parts.iter().map(|part| part.forward(&normed)).collect()
            }
        }
    }

    /// What goes into the output projection, `[1, T, Hv · Dv]`.
    pub(super) fn mix(&self, x: &Array, norm: &Norm, place: Place<'_>, cache: &mut LayerCache) -> Result<Array> {
        let parts = self.project(x, norm)?;
        let [rows, z, b, a] = &parts[..] else {
            return Err(Exception::custom("four projections are expected"));
        };
        let cache = cache.recurrent()?;
        let window = self.conv.window(cache, rows.dtype())?;
        let mixed = mlx_rs::nn::silu(self.conv.forward(&window, rows, place)?)?;
        let (q, inputs) = self.inputs(&mixed, a, b)?;
        let y = recur(cache, &self.conv, place, [window, rows.clone()], self.shape.states(), &q, inputs)?;
        let &[batch, length, width] = z.shape() else {
            return Err(Exception::custom("projections are [B, T, width]"));
        };
        let normed = self.norm.of(&y.as_dtype(x.dtype())?)?;
        let gate = mlx_rs::nn::silu(z.as_dtype(Dtype::Float32)?)?.reshape(y.shape())?;
        let out = multiply(&gate, normed.as_dtype(Dtype::Float32)?)?;
        out.as_dtype(x.dtype())?.reshape(&[batch, length, width])
    }

    /// Queries, `[1, T, Hk, Dk]` f32, and the recurrence's inputs: see [`recur`].
    fn inputs(&self, mixed: &Array, a: &Array, b: &Array) -> Result<(Array, Vec<Array>)> {
        let Shape {
            key_heads,
            value_heads,
            key_dim,
            value_dim,
        } = self.shape;
        let (batch, length) = (mixed.dim(0), mixed.dim(1));
        let parts = mixed.split_at_indices(&[key_heads * key_dim, 2 * key_heads * key_dim], -1)?;
        let unit = |part: &Array, factor: f32| {
            let heads = part.reshape(&[batch, length, key_heads, key_dim])?.as_dtype(Dtype::Float32)?;
            // Of length 1, the eps being on the sum of squares.
            let normed = mlx_cpu::rms_norm(&heads, None, 1e-6 / key_dim as f32)?;
            multiply(&normed, Array::from_f32(factor))
        };
        let root = (key_dim as f32).powf(-0.5);
        let (q, k) = (unit(&parts[0], root * root)?, unit(&parts[1], root)?);
        let v = parts[2]
            .reshape(&[batch, length, value_heads, value_dim])?
            .as_dtype(Dtype::Float32)?;
        let step = softplus(&add(a.as_dtype(Dtype::Float32)?, &self.dt_bias)?)?;
        let kept = multiply(&step, &self.decay)?;
        let corrected = sigmoid(b.as_dtype(Dtype::Float32)?)?;
        Ok((q, vec![k, v, kept, corrected]))
    }
}
