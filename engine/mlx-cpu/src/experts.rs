//! The linear layers of a mixture of experts.

use crate::{
    Result,
    host::{self, ours},
    kernel::experts as kernel,
    stock::float,
};
use mlx_rs::{Array, Dtype};

/// Weights of one linear layer of all experts.
#[derive(Debug, Clone, Copy)]
pub struct ExpertWeights<'a> {
    /// `[E, N, K]` of f32, f16 or bf16; packed `[E, N, K * bits / 32]`, u32.
    pub w: &'a Array,
    /// Of MLX's affine quantization.
    pub affine: Option<ExpertScales<'a>>,
}

/// Scales and biases, `[E, N, K / group]` each.
#[derive(Debug, Clone, Copy)]
pub struct ExpertScales<'a> {
    pub scales: &'a Array,
    pub biases: &'a Array,
    pub group: i32,
    pub bits: i32,
}

/// Whether [`gather_linear`] has a kernel for weights of so many bits (0: dense): then they stay as they are stored.
pub fn gathers(bits: i32, group: i32) -> bool {
    ours() && (bits == 0 || [2, 4, 8].contains(&bits) && [32, 64, 128].contains(&group))
}

/// `y = x W[e]ᵀ` for every choice `e`. `choices`, u32, `[..]`: as many for each row of `x`, `[.., K]`. Gives `[choices.., 1, N]` of the
/// dtype of `x`; `None` where there is no kernel and MLX's gather products are to be taken.
pub fn gather_linear(x: &Array, choices: &Array, weights: &ExpertWeights) -> Result<Option<Array>> {
    let (bits, group) = weights.affine.map_or((0, 0), |affine| (affine.bits, affine.group));
    let floats = match weights.affine {
        None => float(weights.w),
        Some(affine) => float(affine.scales) && affine.scales.dtype() == affine.biases.dtype(),
    };
    let known = floats && weights.w.ndim() == 3 && float(x) && choices.dtype() == Dtype::Uint32 && choices.size() > 0;
    if !(known && gathers(bits, group)) || x.ndim() == 0 || x.ndim() > 6 || choices.ndim() > 6 {
        return Ok(None);
    }
    let shape = [choices.shape(), &[1, weights.w.dim(1)]].concat();
    let mut inputs = vec![x, choices, weights.w];
    inputs.extend(weights.affine.iter().flat_map(|affine| [affine.scales, affine.biases]));
    let params = [i64::from(bits), i64::from(group)];
    host::op1(c"CpuExperts", kernel::experts, &inputs, &shape, x.dtype(), &params).map(Some)
}
