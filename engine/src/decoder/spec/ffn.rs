//! What works on each position alone.

use super::{LinearSpec, NormSpec, VectorSpec};

#[derive(Debug, Clone, PartialEq)]
pub enum FfnSpec {
    Dense(DenseSpec),
    Moe(Box<MoeSpec>),
    Parallel(Box<ParallelSpec>),
}

/// What happens to the inner width.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activation {
    Silu,
    /// The tanh approximation.
    Gelu,
    /// `max(x, 0)²`.
    Relu2,
}

/// `down(act(gate(x)) ⊙ up(x))`, or `down(act(up(x)))` without a gate.
#[derive(Debug, Clone, PartialEq)]
pub struct DenseSpec {
    pub gate: Option<LinearSpec>,
    pub up: LinearSpec,
    pub down: LinearSpec,
    pub activation: Activation,
}

/// The dense feed-forward of many experts: tensors `[experts, outputs, inputs]` at each path.
#[derive(Debug, Clone, PartialEq)]
pub struct ExpertsSpec {
    pub count: usize,
    pub each: DenseSpec,
}

/// How the router's product becomes scores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scoring {
    /// Over all experts, in f32.
    Softmax,
    /// Of each expert alone, in f32.
    Sigmoid,
    /// Over the chosen ones.
    SoftmaxOfChosen,
}

/// Experts are chosen within the best groups: of `count`, `keep` stay, by the sum of their two best scores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Groups {
    pub count: usize,
    pub keep: usize,
}

/// Which experts see a position, and with which weights.
#[derive(Debug, Clone, PartialEq)]
pub struct RouterSpec {
    pub gate: LinearSpec,
    /// Of a norm of its own over the raw residual stream: weights, a factor on them, eps.
    pub norm: Option<(VectorSpec, f32, f32)>,
    pub scoring: Scoring,
    pub top_k: usize,
    /// `[experts]`, added for the choice only.
    pub bias: Option<VectorSpec>,
    pub groups: Option<Groups>,
    /// The weights are divided by their sum plus this.
    pub normalize: Option<f32>,
    pub factor: f32,
    /// `[experts]`, a factor on each weight.
    pub per_expert: Option<VectorSpec>,
}

/// An expert that every position sees.
#[derive(Debug, Clone, PartialEq)]
pub struct SharedSpec {
    pub dense: DenseSpec,
    /// `[1, hidden]`: its sigmoid is a factor.
    pub gate: Option<LinearSpec>,
}

/// A mixture of experts.
#[derive(Debug, Clone, PartialEq)]
pub struct MoeSpec {
    pub router: RouterSpec,
    pub experts: ExpertsSpec,
    /// The experts work on a narrower stream: projections into and out of it.
    pub latent: Option<(LinearSpec, LinearSpec)>,
    pub shared: Option<SharedSpec>,
}

/// A dense feed-forward and a mixture of experts side by side (Gemma-4 26B): `post1(dense(norm(x))) +
/// post2(moe(norm2(x)))`.
#[derive(Debug, Clone, PartialEq)]
pub struct ParallelSpec {
    pub dense: DenseSpec,
    pub dense_post: NormSpec,
    pub moe_norm: NormSpec,
    pub moe: MoeSpec,
    pub moe_post: NormSpec,
}
