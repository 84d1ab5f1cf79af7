//! Mamba-2, as in Nemotron-H: a matrix a head that fades and takes in each position's outer product. Source:
//! `spec/checkpoints.md` §4.2.

use super::{
    attention::Place,
    conv::Conv,
    linear::Linear,
    norm::Norm,
    recurrence::{recur, softplus},
    spec::MambaSpec,
};
use crate::{
    cache::LayerCache,
    load::{LoadError, Weights},
};
use mlx_rs::{
    Array, Dtype,
    error::Exception,
    ops::{add, exp, maximum, minimum, multiply, negative},
};

type Result<T> = std::result::Result<T, Exception>;

#[derive(Debug)]
pub(super) struct Mamba {
    input: Linear,
    conv: Conv,
    /// `-exp(A_log)`, `[H]`.
    decay: Array,
    dt_bias: Array,
    /// `[H, 1]`.
    skip: Array,
    dt_limit: (f32, f32),
    norm: Norm,
    output: Linear,
    shape: Shape,
}

#[derive(Debug, Clone, Copy)]
struct Shape {
    heads: i32,
    dim: i32,
    groups: i32,
    state: i32,
}

impl Mamba {
    pub(super) fn build(spec: &MambaSpec, weights: &mut Weights<'_>) -> std::result::Result<Self, LoadError> {
        let mixer = Self {
            input: weights.linear(&spec.input)?,
            conv: Conv::build(&spec.conv, weights)?,
            decay: negative(exp(weights.vector(&spec.a_log)?)?)?,
            dt_bias: weights.vector(&spec.dt_bias)?,
            skip: weights.vector(&spec.d)?.expand_dims(-1)?,
            dt_limit: spec.dt_limit,
            norm: Norm::build(&spec.norm, weights)?,
            output: weights.linear(&spec.output)?,
            shape: Shape {
                heads: spec.heads as i32,
                dim: spec.head_dim as i32,
                groups: spec.groups as i32,
                state: spec.state as i32,
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
        let own = vec![&self.decay, &self.dt_bias, &self.skip, &self.norm.weight];
        [self.input.arrays(), self.conv.arrays(), own, self.output.arrays()].concat()
    }

    /// What goes into the output projection, `[1, T, H · P]`.
    pub(super) fn mix(&self, x: &Array, norm: &Norm, place: Place<'_>, cache: &mut LayerCache) -> Result<Array> {
        let Shape {
            heads,
            dim,
            groups,
            state: n,
        } = self.shape;
        let inner = heads * dim;
        let projected = norm.then(&self.input, x)?;
        let (batch, length) = (projected.dim(0), projected.dim(1));
        let parts = projected.split_at_indices(&[inner, 2 * inner + 2 * groups * n], -1)?;
        let [gate, rows, dt] = &parts[..] else {
            return Err(Exception::custom("three projections are expected"));
        };
        let cache = cache.recurrent()?;
        let window = self.conv.window(cache, rows.dtype())?;
        let mixed = mlx_rs::nn::silu(self.conv.forward(&window, rows, place)?)?.as_dtype(Dtype::Float32)?;
        let parts = mixed.split_at_indices(&[inner, inner + groups * n], -1)?;
        let of_groups = |part: &Array| part.reshape(&[batch, length, groups, n]);
        let (b, c) = (of_groups(&parts[1])?, of_groups(&parts[2])?);
        let values = parts[0].reshape(&[batch, length, heads, dim])?;
        let step = softplus(&add(dt.as_dtype(Dtype::Float32)?, &self.dt_bias)?)?;
        let (low, high) = self.dt_limit;
        let step = minimum(maximum(&step, Array::from_f32(low))?, Array::from_f32(high))?;
        let inputs = vec![b, multiply(&values, step.expand_dims(-1)?)?, multiply(&step, &self.decay)?];
        let y = recur(cache, &self.conv, place, [window, rows.clone()], [1, heads, dim, n], &c, inputs)?;
        let y = add(&y, multiply(&values, &self.skip)?)?.reshape(&[batch, length, inner])?;
        let gated = mlx_cpu::swiglu2(gate, &y.as_dtype(x.dtype())?)?;
        // A norm over each group, then one weight for each element.
        let grouped = gated.reshape(&[batch, length, groups, inner / groups])?;
        let normed = mlx_cpu::rms_norm(&grouped, None, self.norm.eps)?.reshape(&[batch, length, inner])?;
        multiply(&normed, &self.norm.weight)
    }
}
