//! The root mean square norm with its weights.

use super::{linear::Linear, spec::NormSpec};
use crate::load::{LoadError, Weights};
use mlx_rs::{Array, error::Exception};

#[derive(Debug, Clone)]
pub(super) struct Norm {
    pub(super) weight: Array,
    pub(super) eps: f32,
}

impl Norm {
    pub(super) fn build(spec: &NormSpec, weights: &mut Weights<'_>) -> Result<Self, LoadError> {
        Ok(Self {
            weight: weights.norm(spec)?,
            eps: spec.eps,
        })
    }

    pub(super) fn of(&self, x: &Array) -> Result<Array, Exception> {
        mlx_cpu::rms_norm(x, Some(&self.weight), self.eps)
    }

    /// `linear(norm(x))`, in one pass where there is a kernel.
    pub(super) fn then(&self, linear: &Linear, x: &Array) -> Result<Array, Exception> {
        linear.of_norm(x, &self.weight, self.eps)
    }
}
