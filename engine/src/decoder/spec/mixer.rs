//! What mixes positions.

use super::{LinearSpec, NormSpec, VectorSpec};
use crate::decoder::rope::Rope;

#[derive(Debug, Clone, PartialEq)]
pub enum MixerSpec {
    Attention(AttentionSpec),
    ShortConv(ShortConvSpec),
    GatedDelta(GatedDeltaSpec),
    Mamba(MambaSpec),
}

/// Grouped-query attention: query head `h` reads KV head `h / (heads / kv_heads)`.
#[derive(Debug, Clone, PartialEq)]
pub struct AttentionSpec {
    pub heads: usize,
    pub kv_heads: usize,
    pub head_dim: usize,
    /// Factor of the scores before the softmax.
    pub scale: f32,
    /// With [`GateSpec::InQuery`] it gives each head's query, then each head's gate, `2 · head_dim` a head.
    pub q: LinearSpec,
    pub kv: KvSpec,
    pub o: LinearSpec,
    /// Per head, before the rotation.
    pub q_norm: HeadNormSpec,
    pub k_norm: HeadNormSpec,
    /// `None`: no positions.
    pub rope: Option<Rope>,
    /// A query sees this many positions, its own included; `None` sees all.
    pub window: Option<usize>,
    /// `o(heads ⊙ sigmoid(gate))`.
    pub gate: Option<GateSpec>,
}

/// Where keys and values come from.
#[derive(Debug, Clone, PartialEq)]
pub enum KvSpec {
    Own {
        k: LinearSpec,
        /// `None`: the raw keys.
        v: Option<LinearSpec>,
        /// Eps of a norm without weights over each value head.
        v_norm: Option<f32>,
    },
    /// Those of an earlier block, at its positions.
    Shared { block: usize },
}

/// The root mean square norm over a head.
#[derive(Debug, Clone, PartialEq)]
pub enum HeadNormSpec {
    None,
    Weight(NormSpec),
    /// The same factor for every dimension.
    Constant {
        dim: usize,
        factor: f32,
        eps: f32,
    },
}

/// Where the gate on the heads comes from.
#[derive(Debug, Clone, PartialEq)]
pub enum GateSpec {
    InQuery,
    Own(LinearSpec),
}

/// Depthwise causal convolution, weights `[channels, kernel]` in any of the layouts of `<path>.weight` (`[C, K, 1]`,
/// `[C, 1, K]`), bias `[channels]` at `<path>.bias`.
#[derive(Debug, Clone, PartialEq)]
pub struct ConvSpec {
    pub path: String,
    pub channels: usize,
    pub kernel: usize,
    pub bias: bool,
}

/// `out(c ⊙ conv(b ⊙ x))` with `b, c, x = in(x)` (LFM2).
#[derive(Debug, Clone, PartialEq)]
pub struct ShortConvSpec {
    /// Three times the hidden size, in the order b, c, x.
    pub input: LinearSpec,
    pub conv: ConvSpec,
    pub output: LinearSpec,
}

/// The gated delta rule (Qwen3.5). Source: `spec/checkpoints.md` §3.2.
#[derive(Debug, Clone, PartialEq)]
pub struct GatedDeltaSpec {
    pub key_heads: usize,
    pub value_heads: usize,
    pub key_dim: usize,
    pub value_dim: usize,
    pub qkv: LinearSpec,
    pub z: LinearSpec,
    pub b: LinearSpec,
    pub a: LinearSpec,
    pub conv: ConvSpec,
    /// `[value_heads]` each.
    pub a_log: VectorSpec,
    pub dt_bias: VectorSpec,
    /// Over each value head.
    pub norm: NormSpec,
    pub output: LinearSpec,
}

/// Mamba-2 (Nemotron-H). Source: `spec/checkpoints.md` §4.2.
#[derive(Debug, Clone, PartialEq)]
pub struct MambaSpec {
    pub heads: usize,
    pub head_dim: usize,
    /// Groups of heads that share `B` and `C`.
    pub groups: usize,
    pub state: usize,
    /// Gate, then what is convolved (x, B, C), then dt.
    pub input: LinearSpec,
    pub conv: ConvSpec,
    /// `[heads]` each.
    pub a_log: VectorSpec,
    pub dt_bias: VectorSpec,
    pub d: VectorSpec,
    /// Bounds of dt.
    pub dt_limit: (f32, f32),
    /// `[heads · head_dim]`, over each group.
    pub norm: NormSpec,
    pub output: LinearSpec,
}
