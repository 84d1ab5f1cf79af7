//! The dense feed-forward: `down(act(gate(x)) ⊙ up(x))`.

use super::{
    linear::Linear,
    norm::Norm,
    spec::{Activation, DenseSpec},
};
use crate::load::{LoadError, Weights};
use mlx_rs::{
    Array,
    error::Exception,
    ops::{maximum, multiply, square, tanh},
};

type Result<T> = std::result::Result<T, Exception>;

#[derive(Debug)]
pub(super) struct Dense {
    up: Up,
    down: Linear,
    activation: Activation,
}

#[derive(Debug)]
enum Up {
    /// Gate first.
    Joined(Linear),
    /// Gate and up, stored differently.
    Split(Linear, Linear),
    /// No gate.
    Alone(Linear),
}

impl Activation {
    pub(super) fn of(self, x: &Array) -> Result<Array> {
        let number = |value: f32| Array::from_f32(value).as_dtype(x.dtype());
        match self {
            Self::Silu => mlx_rs::nn::silu(x),
            // ½ x (1 + tanh(√(2/π) (x + 0.044715 x³)))
            Self::Gelu => {
                let inner = multiply(x, &(multiply(square(x)?, number(0.044_715)?)? + number(1.0)?))?;
                let turned = tanh(multiply(&inner, number((2.0 / std::f32::consts::PI).sqrt())?)?)?;
                multiply(multiply(x, number(0.5)?)?, &(turned + number(1.0)?))
            }
            Self::Relu2 => square(maximum(x, number(0.0)?)?),
        }
    }

    /// `act(gate) ⊙ up`.
    pub(super) fn gated(self, gate: &Array, up: &Array) -> Result<Array> {
        match self {
            Self::Silu => mlx_cpu::swiglu2(gate, up),
            _ => multiply(self.of(gate)?, up),
        }
    }
}

/// `act(gate) ⊙ up` where `gate_up` is `[.., 2H]`, the gate first.
pub(super) fn activated(gate_up: &Array, activation: Activation) -> Result<Array> {
    if activation == Activation::Silu {
        return mlx_cpu::swiglu(gate_up);
    }
    let parts = gate_up.split_at_indices(&[gate_up.dim(-1) / 2], -1)?;
    activation.gated(&parts[0], &parts[1])
}

impl Dense {
    pub(super) fn build(spec: &DenseSpec, weights: &mut Weights<'_>) -> std::result::Result<Self, LoadError> {
        let up = match &spec.gate {
            Some(gate) => {
                let (gate, up) = (weights.linear(gate)?, weights.linear(&spec.up)?);
                match Linear::join(&[&gate, &up])? {
                    Some(joined) => Up::Joined(joined),
                    None => Up::Split(gate, up),
                }
            }
            None => Up::Alone(weights.linear(&spec.up)?),
        };
        let dense = Self {
            up,
            down: weights.linear(&spec.down)?,
            activation: spec.activation,
        };
        for array in dense.arrays() {
            array.eval()?;
        }
        Ok(dense)
    }

    /// The residual stream `x` plus what the layer makes of its norm.
    pub(super) fn add_to(&self, x: &Array, norm: &Norm) -> Result<Array> {
        match &self.up {
            Up::Joined(joined) if self.activation == Activation::Silu => self.down.of_swiglu(&norm.then(joined, x)?, x),
            _ => self.down.plus(&self.inner(&norm.of(x)?)?, x),
        }
    }

    /// Of an input that has been through the norm.
    pub(super) fn forward(&self, x: &Array) -> Result<Array> {
        self.down.forward(&self.inner(x)?)
    }

    fn inner(&self, x: &Array) -> Result<Array> {
        match &self.up {
            Up::Joined(joined) => activated(&joined.forward(x)?, self.activation),
            Up::Split(gate, up) => self.activation.gated(&gate.forward(x)?, &up.forward(x)?),
            Up::Alone(up) => self.activation.of(&up.forward(x)?),
        }
    }

    pub(super) fn arrays(&self) -> Vec<&Array> {
        let mut arrays = match &self.up {
            Up::Joined(up) | Up::Alone(up) => up.arrays(),
            Up::Split(gate, up) => [gate.arrays(), up.arrays()].concat(),
        };
        arrays.extend(self.down.arrays());
        arrays
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn activations() {
        let x = Array::from_slice(&[-2.0_f32, -0.5, 0.0, 0.7, 3.0], &[5]);
        let of = |activation: Activation| activation.of(&x).unwrap().to_vec_cast::<f32>().unwrap();
        assert_eq!(of(Activation::Relu2), [0.0, 0.0, 0.0, 0.7 * 0.7, 9.0]);
        // torch.nn.functional.gelu(x, approximate="tanh")
        let expected = [-0.045_402_3, -0.154_286, 0.0, 0.530_573, 2.996_36];
        for (found, expected) in of(Activation::Gelu).iter().zip(expected) {
            assert!((found - expected).abs() < 2e-5, "{found} is not {expected}");
        }
    }
}
