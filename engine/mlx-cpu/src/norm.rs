//! Root-mean-square norm and the gated activation of a feed-forward block.

use crate::{
    Result,
    host::{self, ours},
    kernel::elementwise as kernel,
    stock::float,
};
use mlx_rs::{Array, error::Exception, fast, nn, ops};

/// `x / sqrt(mean(x²) + eps) * w` over the last axis. `x`: `[.., K]`, `w`: `[K]`; the result has the shape and dtype of `x`.
///
/// Models that store `w - 1` (Gemma) add the one when they load.
pub fn rms_norm(x: &Array, w: Option<&Array>, eps: f32) -> Result<Array> {
    if ours() && float(x) && w.is_none_or(float) && x.ndim() <= 6 {
        let inputs: Vec<_> = [x].into_iter().chain(w).collect();
        return host::op1(
            c"CpuRmsNorm",
            kernel::norm,
            &inputs,
            x.shape(),
            x.dtype(),
            &[i64::from(eps.to_bits())],
        );
    }
    let y = fast::rms_norm(x, w, eps)?;
    if y.dtype() == x.dtype() { Ok(y) } else { y.as_dtype(x.dtype()) }
}

/// `silu(gate) * up` where `gate_up`: `[.., 2H]` holds the gate in its first half. The result is `[.., H]`.
pub fn swiglu(gate_up: &Array) -> Result<Array> {
    if gate_up.ndim() == 0 || gate_up.dim(-1) % 2 != 0 {
        return Err(Exception::custom(format!(
            "swiglu: {:?} is not a gate and as much beside it",
            gate_up.shape()
        )));
    }
    if ours() && float(gate_up) && gate_up.ndim() <= 6 {
        let mut shape = gate_up.shape().to_vec();
        if let Some(last) = shape.last_mut() {
            *last /= 2;
        }
        return host::op1(c"CpuSwiglu", kernel::swiglu, &[gate_up], &shape, gate_up.dtype(), &[]);
    }
    let parts = gate_up.split_at_indices(&[gate_up.dim(-1) / 2], -1)?;
    swiglu2(&parts[0], &parts[1])
}

/// `silu(gate) * up`, both `[.., H]`.
pub fn swiglu2(gate: &Array, up: &Array) -> Result<Array> {
    if ours() && float(gate) && gate.dtype() == up.dtype() && gate.shape() == up.shape() && (1..=6).contains(&gate.ndim()) {
        return host::op1(c"CpuSwiglu", kernel::swiglu, &[gate, up], gate.shape(), gate.dtype(), &[]);
    }
    ops::multiply(nn::silu(gate)?, up)
}
