//! A mixture of experts: a router chooses a few feed-forwards for each position.

use super::{
    dense::{Dense, activated},
    experts::Experts,
    linear::Linear,
    spec::{Activation, ExpertsSpec, Groups, MoeSpec, RouterSpec, Scoring},
};
use crate::load::{LoadError, Weights};
use mlx_rs::{
    Array, Dtype,
    error::Exception,
    ops::{
        add, argpartition_axis, argsort, divide, floor_divide,
        indexing::{TryIndexOp, put_along_axis, topk_axis},
        multiply, negative, sigmoid, softmax_axis, sum_axis,
    },
};

/// From this many chosen experts on, rows are brought into the order of experts, so that each is read once.
const SORT: i32 = 64;

type Result<T> = std::result::Result<T, Exception>;

#[derive(Debug)]
pub(super) struct Moe {
    router: Router,
    switch: Switch,
    /// Into the experts' narrower stream and out of it.
    latent: Option<(Linear, Linear)>,
    shared: Option<(Dense, Option<Linear>)>,
}

#[derive(Debug)]
struct Router {
    gate: Linear,
    /// Weights and eps of a norm over the raw stream.
    norm: Option<(Array, f32)>,
    bias: Option<Array>,
    per_expert: Option<Array>,
    scoring: Scoring,
    top_k: i32,
    groups: Option<Groups>,
    normalize: Option<f32>,
    factor: f32,
}

/// The feed-forwards of all experts.
#[derive(Debug)]
struct Switch {
    up: Up,
    down: Experts,
    activation: Activation,
}

#[derive(Debug)]
enum Up {
    /// Gate first.
    Joined(Experts),
    Split(Experts, Experts),
    /// No gate.
    Alone(Experts),
}

impl Moe {
    pub(super) fn build(spec: &MoeSpec, weights: &mut Weights<'_>) -> std::result::Result<Self, LoadError> {
        let moe = Self {
            router: Router::build(&spec.router, weights)?,
            switch: Switch::build(&spec.experts, weights)?,
            latent: match &spec.latent {
                Some((into, out)) => Some((weights.linear(into)?, weights.linear(out)?)),
                None => None,
            },
            shared: match &spec.shared {
                Some(shared) => {
                    let gate = shared.gate.as_ref().map(|gate| weights.linear(gate)).transpose()?;
                    Some((Dense::build(&shared.dense, weights)?, gate))
                }
                None => None,
            },
        };
        for array in moe.arrays() {
            array.eval()?;
        }
        Ok(moe)
    }

    /// `x`, `[1, T, H]`, has been through the norm; `stream` is the residual stream before it.
    pub(super) fn forward(&self, x: &Array, stream: &Array) -> Result<Array> {
        let (experts, scores) = self.router.choose(x, stream)?;
        let narrow = match &self.latent {
            Some((into, _)) => &into.forward(x)?,
            None => x,
        };
        let each = self.switch.forward(narrow, &experts)?;
        let mut y = sum_axis(&multiply(&each, scores.as_dtype(each.dtype())?.expand_dims(-1)?)?, -2, false)?;
        if let Some((_, out)) = &self.latent {
            y = out.forward(&y)?;
        }
        let Some((dense, gate)) = &self.shared else { return Ok(y) };
        let mut shared = dense.forward(x)?;
        if let Some(gate) = gate {
            shared = multiply(sigmoid(gate.forward(x)?)?, &shared)?;
        }
        add(&y, &shared)
    }

    pub(super) fn arrays(&self) -> Vec<&Array> {
        let mut arrays = self.router.gate.arrays();
        arrays.extend(self.router.norm.iter().map(|(weight, _)| weight));
        arrays.extend([&self.router.bias, &self.router.per_expert].into_iter().flatten());
        arrays.extend(self.switch.arrays());
        if let Some((into, out)) = &self.latent {
            arrays.extend([into.arrays(), out.arrays()].concat());
        }
        if let Some((dense, gate)) = &self.shared {
            arrays.extend(dense.arrays());
            arrays.extend(gate.iter().flat_map(Linear::arrays));
        }
        arrays
    }
}

impl Router {
    fn build(spec: &RouterSpec, weights: &mut Weights<'_>) -> std::result::Result<Self, LoadError> {
        let norm = match &spec.norm {
            Some((scale, factor, eps)) => {
                let scale = multiply(weights.vector(scale)?, Array::from_f32(*factor))?;
                Some((scale.as_dtype(weights.precision().activations)?, *eps))
            }
            None => None,
        };
        let mut vector = |spec: &Option<_>| spec.as_ref().map(|spec| weights.vector(spec)).transpose();
        Ok(Self {
            norm,
            bias: vector(&spec.bias)?,
            per_expert: vector(&spec.per_expert)?,
            gate: weights.linear(&spec.gate)?,
            scoring: spec.scoring,
            top_k: spec.top_k as i32,
            groups: spec.groups,
            normalize: spec.normalize,
            factor: spec.factor,
        })
    }

    /// Experts, `[1, T, k]` u32, in no order, and their weights, f32.
    fn choose(&self, x: &Array, stream: &Array) -> Result<(Array, Array)> {
        let logits = match &self.norm {
            Some((weight, eps)) => self.gate.forward(&mlx_cpu::rms_norm(stream, Some(weight), *eps)?)?,
            None => self.gate.forward(x)?,
        };
        let logits = logits.as_dtype(Dtype::Float32)?;
        let scores = match self.scoring {
            Scoring::Softmax => softmax_axis(&logits, -1, true)?,
            Scoring::Sigmoid => sigmoid(&logits)?,
            Scoring::SoftmaxOfChosen => logits,
        };
        let mut ranked = match &self.bias {
            Some(bias) => add(&scores, bias)?,
            None => scores.clone(),
        };
        if let Some(groups) = self.groups {
            ranked = within_groups(&ranked, groups)?;
        }
        let chosen = argpartition_axis(negative(&ranked)?, self.top_k - 1, -1)?.try_index((.., .., ..self.top_k))?;
        let mut weights = scores.take_along_axis(&chosen, -1)?;
        if self.scoring == Scoring::SoftmaxOfChosen {
            weights = softmax_axis(&weights, -1, true)?;
        }
        if let Some(eps) = self.normalize {
            let total = add(sum_axis(&weights, -1, true)?, Array::from_f32(eps))?;
            weights = divide(&weights, &total)?;
        }
        if self.factor != 1.0 {
            weights = multiply(&weights, Array::from_f32(self.factor))?;
        }
        if let Some(per_expert) = &self.per_expert {
            weights = multiply(&weights, per_expert.take_axis(&chosen, 0)?)?;
        }
        Ok((chosen, weights))
    }
}

/// Zeroes the scores outside the best groups. (Zero and not minus infinity: a negative biased score can still lose to it,
/// in the reference too.)
fn within_groups(scores: &Array, groups: Groups) -> Result<Array> {
    let drop = (groups.count - groups.keep) as i32;
    if drop <= 0 {
        return Ok(scores.clone());
    }
    let &[batch, rows, experts] = scores.shape() else {
        return Err(Exception::custom("router scores are [B, T, E]"));
    };
    let grouped = scores.reshape(&[batch, rows, groups.count as i32, experts / groups.count as i32])?;
    let two = sum_axis(topk_axis(&grouped, 2, -1)?, -1, true)?;
    let worst = argpartition_axis(&two, drop - 1, -2)?.try_index((.., .., ..drop, ..))?;
    let zeroed = put_along_axis(&grouped, &worst, Array::from_f32(0.0), -2)?;
    zeroed.reshape(&[batch, rows, experts])
}

impl Switch {
    fn build(spec: &ExpertsSpec, weights: &mut Weights<'_>) -> std::result::Result<Self, LoadError> {
        let each = &spec.each;
        let up = match &each.gate {
            Some(gate) => {
                let (gate, up) = (weights.experts(gate)?, weights.experts(&each.up)?);
                match Experts::join(&gate, &up)? {
                    Some(joined) => Up::Joined(joined),
                    None => Up::Split(gate, up),
                }
            }
            None => Up::Alone(weights.experts(&each.up)?),
        };
        Ok(Self {
            up,
            down: weights.experts(&each.down)?,
            activation: each.activation,
        })
    }

    /// `x`: `[1, T, K]`, `experts`: `[1, T, k]`; gives `[1, T, k, H]`.
    fn forward(&self, x: &Array, experts: &Array) -> Result<Array> {
        let &[batch, rows, k] = experts.shape() else {
            return Err(Exception::custom("chosen experts are [B, T, k]"));
        };
        let width = x.dim(-1);
        if batch * rows * k < SORT {
            let x = x.reshape(&[batch, rows, 1, 1, width])?;
            return self.each(&x, experts, false)?.squeeze_axes(&[-2]);
        }
        let flat = experts.reshape(&[-1])?;
        let order = argsort(&flat)?;
        let back = argsort(&order)?;
        let row = floor_divide(&order, Array::from_slice(&[k as u32], &[1]))?;
        let x = x.reshape(&[batch * rows, 1, width])?.take_axis(&row, 0)?;
        let y = self.each(&x, &flat.take_axis(&order, 0)?, true)?;
        y.take_axis(&back, 0)?.reshape(&[batch, rows, k, -1])
    }

    fn each(&self, x: &Array, experts: &Array, sorted: bool) -> Result<Array> {
        let inner = match &self.up {
            Up::Joined(joined) => activated(&joined.forward(x, experts, sorted)?, self.activation)?,
            Up::Split(gate, up) => {
                let (gate, up) = (gate.forward(x, experts, sorted)?, up.forward(x, experts, sorted)?);
                self.activation.gated(&gate, &up)?
            }
            Up::Alone(up) => self.activation.of(&up.forward(x, experts, sorted)?)?,
        };
        self.down.forward(&inner, experts, sorted)
    }

    fn arrays(&self) -> Vec<&Array> {
        let mut arrays = match &self.up {
            Up::Joined(up) | Up::Alone(up) => up.arrays(),
            Up::Split(gate, up) => [gate.arrays(), up.arrays()].concat(),
        };
        arrays.extend(self.down.arrays());
        arrays
    }
}
