//! The dense feed-forward: `down(silu(gate(x)) ⊙ up(x))`.

use super::{linear::Linear, spec::DenseSpec};
use crate::load::{LoadError, Weights};
use mlx_rs::{Array, error::Exception};

#[derive(Debug)]
pub(super) struct Dense {
    gate_up: GateUp,
    down: Linear,
}

#[derive(Debug)]
enum GateUp {
    Joined(Linear),
    /// Stored differently.
    Split(Linear, Linear),
}

impl Dense {
    pub(super) fn build(spec: &DenseSpec, weights: &mut Weights<'_>) -> Result<Self, LoadError> {
        let (gate, up) = (weights.linear(&spec.gate)?, weights.linear(&spec.up)?);
        let gate_up = match Linear::join(&[&gate, &up])? {
            Some(joined) => GateUp::Joined(joined),
            None => GateUp::Split(gate, up),
        };
        let dense = Self {
            gate_up,
            down: weights.linear(&spec.down)?,
        };
        for array in dense.arrays() {
            array.eval()?;
        }
        Ok(dense)
    }

    /// The residual stream `x` plus what the layer makes of its norm.
    pub(super) fn forward(&self, x: &Array, norm: &Array, eps: f32) -> Result<Array, Exception> {
        match &self.gate_up {
            GateUp::Joined(joined) => self.down.of_swiglu(&joined.of_norm(x, norm, eps)?, x),
            GateUp::Split(gate, up) => {
                let normed = mlx_cpu::rms_norm(x, Some(norm), eps)?;
                self.down
                    .plus(&mlx_cpu::swiglu2(&gate.forward(&normed)?, &up.forward(&normed)?)?, x)
            }
        }
    }

    pub(super) fn arrays(&self) -> Vec<&Array> {
        let mut arrays = match &self.gate_up {
            GateUp::Joined(joined) => joined.arrays(),
            GateUp::Split(gate, up) => [gate.arrays(), up.arrays()].concat(),
        };
        arrays.extend(self.down.arrays());
        arrays
    }
}
