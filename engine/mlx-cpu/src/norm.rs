//! Root-mean-square norm and the gated activation of a feed-forward block.

use crate::Result;
use mlx_rs::{fast, nn, ops, Array};

/// `x / sqrt(mean(x²) + eps) * w` over the last axis. `x`: `[.., K]`, `w`: `[K]`; the result has the shape and dtype of `x`.
///
/// Models that store `w - 1` (Gemma) add the one when they load.
pub fn rms_norm(x: &Array, w: Option<&Array>, eps: f32) -> Result<Array> {
    let y = fast::rms_norm(x, w, eps)?;
    if y.dtype() == x.dtype() { Ok(y) } else { y.as_dtype(x.dtype()) }
}

/// `silu(gate) * up` where `gate_up`: `[.., 2H]` holds the gate in its first half. The result is `[.., H]`.
pub fn swiglu(gate_up: &Array) -> Result<Array> {
    let parts = gate_up.split_at_indices(&[gate_up.dim(-1) / 2], -1)?;
    swiglu2(&parts[0], &parts[1])
}

/// `silu(gate) * up`, both `[.., H]`.
pub fn swiglu2(gate: &Array, up: &Array) -> Result<Array> {
    ops::multiply(nn::silu(gate)?, up)
}
