//! What a family file writes down: the shape of a decoder and where its tensors are called what. No arrays here.
//!
//! `Block { norm, mixer, norm, ffn }` is the one shape; families differ in what they put into it. Mixers to come are
//! gated delta-net, Mamba-2 and short convolution beside attention, and a mixture of experts beside the dense
//! feed-forward; each is one more variant here, one file beside [`super::attention`], one cache kind.

use super::rope::Rope;

/// `y = x Wᵀ (+ b)` with `W` `[outputs, inputs]` at `<path>.weight`.
#[derive(Debug, Clone, PartialEq)]
pub struct LinearSpec {
    pub path: String,
    pub inputs: usize,
    pub outputs: usize,
    pub bias: bool,
}

impl LinearSpec {
    pub fn new(path: impl Into<String>, inputs: usize, outputs: usize) -> Self {
        Self {
            path: path.into(),
            inputs,
            outputs,
            bias: false,
        }
    }

    #[must_use]
    pub fn with_bias(mut self, bias: bool) -> Self {
        self.bias = bias;
        self
    }
}

/// `x / sqrt(mean(x²) + eps) ⊙ w` with `w` `[size]` at `<path>.weight`.
#[derive(Debug, Clone, PartialEq)]
pub struct NormSpec {
    pub path: String,
    pub size: usize,
    pub eps: f32,
}

/// Grouped-query attention: query head `h` reads KV head `h / (heads / kv_heads)`.
#[derive(Debug, Clone, PartialEq)]
pub struct AttentionSpec {
    pub heads: usize,
    pub kv_heads: usize,
    pub head_dim: usize,
    /// Factor of the scores before the softmax.
    pub scale: f32,
    pub q: LinearSpec,
    pub k: LinearSpec,
    pub v: LinearSpec,
    pub o: LinearSpec,
    /// Per head, before the rotation.
    pub q_norm: Option<NormSpec>,
    pub k_norm: Option<NormSpec>,
    pub rope: Rope,
    /// A query sees this many positions, its own included; `None` sees all.
    pub window: Option<usize>,
}

/// What mixes positions.
#[derive(Debug, Clone, PartialEq)]
pub enum MixerSpec {
    Attention(AttentionSpec),
}

/// `down(silu(gate(x)) ⊙ up(x))`.
#[derive(Debug, Clone, PartialEq)]
pub struct DenseSpec {
    pub gate: LinearSpec,
    pub up: LinearSpec,
    pub down: LinearSpec,
}

/// What works on each position alone.
#[derive(Debug, Clone, PartialEq)]
pub enum FfnSpec {
    Dense(DenseSpec),
}

/// `x += mixer(norm(x)); x += ffn(norm(x))`.
#[derive(Debug, Clone, PartialEq)]
pub struct BlockSpec {
    pub mixer_norm: NormSpec,
    pub mixer: MixerSpec,
    pub ffn_norm: NormSpec,
    pub ffn: FfnSpec,
}

/// Where the logits come from.
#[derive(Debug, Clone, PartialEq)]
pub enum HeadSpec {
    /// The embedding table, transposed.
    Tied,
    Own(LinearSpec),
}

/// A whole decoder.
#[derive(Debug, Clone, PartialEq)]
pub struct DecoderSpec {
    pub hidden: usize,
    pub vocab: usize,
    /// Tokens that the positions allow.
    pub max_context: usize,
    /// Table `[vocab, hidden]` at `<path>.weight`.
    pub embedding: String,
    pub blocks: Vec<BlockSpec>,
    pub norm: NormSpec,
    pub head: HeadSpec,
}

/// A module that owns tensors, for checks before anything is read.
#[derive(Debug, Clone, Copy)]
pub enum Module<'a> {
    Linear(&'a LinearSpec),
    /// Path, rows, columns.
    Table(&'a str, usize, usize),
    Norm(&'a NormSpec),
}

impl DecoderSpec {
    /// Every module, in order of use.
    pub fn modules(&self) -> Vec<Module<'_>> {
        let mut modules = vec![Module::Table(&self.embedding, self.vocab, self.hidden)];
        for block in &self.blocks {
            modules.push(Module::Norm(&block.mixer_norm));
            let MixerSpec::Attention(attention) = &block.mixer;
            modules.extend([&attention.q, &attention.k, &attention.v, &attention.o].map(Module::Linear));
            modules.extend([&attention.q_norm, &attention.k_norm].into_iter().flatten().map(Module::Norm));
            modules.push(Module::Norm(&block.ffn_norm));
            let FfnSpec::Dense(dense) = &block.ffn;
            modules.extend([&dense.gate, &dense.up, &dense.down].map(Module::Linear));
        }
        modules.push(Module::Norm(&self.norm));
        if let HeadSpec::Own(head) = &self.head {
            modules.push(Module::Linear(head));
        }
        modules
    }

    /// Parameters, each packed weight counted once.
    pub fn parameters(&self) -> u64 {
        let count = |module: &Module<'_>| match module {
            Module::Linear(linear) => linear.outputs * (linear.inputs + usize::from(linear.bias)),
            Module::Table(_, rows, columns) => rows * columns,
            Module::Norm(norm) => norm.size,
        };
        self.modules().iter().map(|module| count(module) as u64).sum()
    }

    /// Elements of keys and values that a token adds for good: layers with full attention only, the others are
    /// bounded.
    pub fn kv_elements_per_token(&self) -> u64 {
        let per_layer = |block: &BlockSpec| {
            let MixerSpec::Attention(attention) = &block.mixer;
            match attention.window {
                None => 2 * attention.kv_heads * attention.head_dim,
                Some(_) => 0,
            }
        };
        self.blocks.iter().map(|block| per_layer(block) as u64).sum()
    }
}
