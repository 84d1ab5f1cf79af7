//! What a family file writes down: the shape of a decoder and where its tensors are called what. No arrays here.
//!
//! A block is a mixer and a feed-forward, each between norms: `x += post(f(norm(x)))`. Families differ in what they put
//! there, in which of the two a block has, and in what happens before the first and after the last block.

mod ffn;
mod mixer;
mod modules;

pub use ffn::{Activation, DenseSpec, ExpertsSpec, FfnSpec, Groups, MoeSpec, ParallelSpec, RouterSpec, Scoring, SharedSpec};
pub use mixer::{AttentionSpec, ConvSpec, GateSpec, GatedDeltaSpec, HeadNormSpec, KvSpec, MambaSpec, MixerSpec, ShortConvSpec};
pub use modules::Module;

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

/// `x / sqrt(mean(x²) + eps) ⊙ (w + shift)` with `w` `[size]` at `<path>.weight`.
#[derive(Debug, Clone, PartialEq)]
pub struct NormSpec {
    pub path: String,
    pub size: usize,
    pub eps: f32,
    /// 1 where the weights are stored around zero.
    pub shift: f32,
}

impl NormSpec {
    pub fn new(path: impl Into<String>, size: usize, eps: f32) -> Self {
        Self {
            path: path.into(),
            size,
            eps,
            shift: 0.0,
        }
    }

    /// Stored as `w - 1`.
    #[must_use]
    pub fn centered(mut self) -> Self {
        self.shift = 1.0;
        self
    }
}

/// A list of numbers, kept in f32: `[size]` at `name`.
#[derive(Debug, Clone, PartialEq)]
pub struct VectorSpec {
    pub name: String,
    pub size: usize,
}

impl VectorSpec {
    pub fn new(name: impl Into<String>, size: usize) -> Self {
        Self { name: name.into(), size }
    }
}

/// A table of rows, `[rows, columns]` at `<path>.weight`.
#[derive(Debug, Clone, PartialEq)]
pub struct TableSpec {
    pub path: String,
    pub rows: usize,
    pub columns: usize,
}

/// `f` between its norms: `x += post(f(norm(x)))`.
#[derive(Debug, Clone, PartialEq)]
pub struct Part<T> {
    pub norm: NormSpec,
    pub inner: T,
    pub post: Option<NormSpec>,
}

impl<T> Part<T> {
    /// Without a norm behind it.
    pub fn new(norm: NormSpec, inner: T) -> Self {
        Self { norm, inner, post: None }
    }
}

/// One layer: the unit that taps count.
#[derive(Debug, Clone, PartialEq)]
pub struct BlockSpec {
    pub mixer: Option<Part<MixerSpec>>,
    pub ffn: Option<Part<FfnSpec>>,
    /// `x += norm(project(gelu(gate(x)) ⊙ its per-layer input))`.
    pub input: Option<LayerInputSpec>,
    /// `[1]`, a factor on the block's result.
    pub scalar: Option<VectorSpec>,
}

impl BlockSpec {
    /// `x += mixer(norm(x)); x += ffn(norm(x))`.
    pub fn new(mixer: Part<MixerSpec>, ffn: Part<FfnSpec>) -> Self {
        Self {
            mixer: Some(mixer),
            ffn: Some(ffn),
            input: None,
            scalar: None,
        }
    }
}

/// What a block does with its per-layer input (Gemma-4 2B and 4B).
#[derive(Debug, Clone, PartialEq)]
pub struct LayerInputSpec {
    /// `[width, hidden]`.
    pub gate: LinearSpec,
    /// `[hidden, width]`.
    pub project: LinearSpec,
    pub norm: NormSpec,
}

/// Where the per-layer inputs come from: `(norm(project(x) · hidden^-½) + table[id] · width^½) · 2^-½`, `width` numbers a
/// block.
#[derive(Debug, Clone, PartialEq)]
pub struct LayerInputsSpec {
    pub table: TableSpec,
    /// `[blocks · width, hidden]`.
    pub project: LinearSpec,
    pub norm: NormSpec,
    pub width: usize,
}

/// What becomes of an embedding row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum EmbeddingSpec {
    Plain,
    /// Times a factor.
    Scaled(f32),
    /// Divided by its root mean square, with this eps.
    Normed(f32),
}

/// The stack applied several times with shared weights (Nanbeige). Every pass has caches of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PassesSpec {
    pub count: usize,
    /// The final norm ends every pass, not the last alone.
    pub norm_between: bool,
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
    pub embedded: EmbeddingSpec,
    pub layer_inputs: Option<LayerInputsSpec>,
    pub blocks: Vec<BlockSpec>,
    pub passes: PassesSpec,
    pub norm: NormSpec,
    pub head: HeadSpec,
    /// Factor on the logits, before the cap.
    pub multiplier: f32,
    /// `c · tanh(logits / c)`.
    pub softcap: Option<f32>,
}

impl DecoderSpec {
    /// One pass over `blocks`, plain embedding, logits as they come.
    pub fn new(hidden: usize, vocab: usize, max_context: usize, embedding: impl Into<String>, norm: NormSpec, head: HeadSpec) -> Self {
        Self {
            hidden,
            vocab,
            max_context,
            embedding: embedding.into(),
            embedded: EmbeddingSpec::Plain,
            layer_inputs: None,
            blocks: Vec::new(),
            passes: PassesSpec {
                count: 1,
                norm_between: false,
            },
            norm,
            head,
            multiplier: 1.0,
            softcap: None,
        }
    }

    /// Blocks as a text passes through them: what taps and a drafter's target layers count.
    pub fn layers(&self) -> usize {
        self.blocks.len() * self.passes.count
    }

    /// Elements of keys and values that a token adds for good: layers with full attention only, the others are
    /// bounded.
    pub fn kv_elements_per_token(&self) -> u64 {
        let per_block = |block: &BlockSpec| match block.mixer.as_ref().map(|part| &part.inner) {
            Some(MixerSpec::Attention(attention)) => match (&attention.kv, attention.window) {
                (KvSpec::Own { .. }, None) => 2 * attention.kv_heads * attention.head_dim,
                _ => 0,
            },
            _ => 0,
        };
        let one: u64 = self.blocks.iter().map(|block| per_block(block) as u64).sum();
        one * self.passes.count as u64
    }
}
