//! The canonical description of a drafter. No arrays here.

/// How the checkpoint was published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packaging {
    /// DeepSpec's own layout, and the DFlash-lineage heads that share it.
    DeepSpec,
    /// vLLM's "speculators".
    Speculators,
    /// SpecForge / SGLang: a plain backbone config with `dflash_config.projector_type = "dspark"`.
    SpecForge,
    /// `Lfm2DSparkDraftModel`.
    Lfm2,
    /// z-lab DFlash.
    DFlash,
    DFlash2,
    /// Tencent's DSpine, as SpecForge trains it.
    DSpine,
    /// A GGUF of architecture `dspark`.
    Gguf,
}

impl Packaging {
    pub fn name(self) -> &'static str {
        match self {
            Self::DeepSpec => "DeepSpec DSpark",
            Self::Speculators => "vLLM speculators",
            Self::SpecForge => "SpecForge DSpark",
            Self::Lfm2 => "LFM2 DSpark",
            Self::DFlash => "DFlash",
            Self::DFlash2 => "DFlash 2",
            Self::DSpine => "DSpine",
            Self::Gguf => "DSpark GGUF",
        }
    }
}

/// How tokens of one block depend on each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Each slot's logits get a term of the token before it.
    DSpark,
    /// Slots are independent.
    DFlash,
    /// A lattice over the best candidates of neighbouring slots.
    DFlash2,
    /// Rows hear of the row before them after each layer; a lattice as DFlash 2's.
    DSpine,
}

impl Class {
    /// In lower case: `dspark`, `dflash`, `dflash2`, `dspine`.
    pub fn name(self) -> &'static str {
        match self {
            Self::DSpark => "dspark",
            Self::DFlash => "dflash",
            Self::DFlash2 => "dflash2",
            Self::DSpine => "dspine",
        }
    }
}

/// Shape of a backbone layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// Two norms, norms on query and key heads, silu.
    Qwen3,
    /// The same without head norms.
    Llama,
    /// Four norms, values from keys, gelu, a scalar per layer.
    Gemma4,
}

/// What row `i` of the block, at position `n + i`, sees. Context rows are at positions before `n`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockMask {
    /// The whole context and the whole block.
    Full,
    /// The context, and the block up to itself.
    Causal,
    /// Causal, and the last W positions, its own included.
    Sliding(usize),
    /// Both ways, positions less than W away.
    BothWays(usize),
}

impl BlockMask {
    pub fn window(self) -> Option<usize> {
        match self {
            Self::Sliding(window) | Self::BothWays(window) => Some(window),
            Self::Full | Self::Causal => None,
        }
    }

    /// Rows of the block do not see later ones, so it may be cut short.
    pub fn is_causal(self) -> bool {
        matches!(self, Self::Causal | Self::Sliding(_))
    }
}

/// Rotation of the first `2 · frequencies.len()` elements of a head.
#[derive(Debug, Clone, PartialEq)]
pub struct RopeSpec {
    /// Radians a position, for each pair.
    pub frequencies: Vec<f32>,
    /// Pairs are neighbours instead of halves.
    pub interleaved: bool,
    /// Factor on the rotated elements of queries and keys.
    pub scale: f32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MarkovKind {
    /// `W2 W1[prev]`.
    Vanilla,
    /// `W2 (σ(Wg [h ‖ W1[prev]]) ⊙ W1[prev])`.
    Gated,
    /// A state over the block: `W2 tanh(o)`.
    Rnn,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MarkovSpec {
    pub rank: usize,
    pub kind: MarkovKind,
}

/// DFlash 2's choice among candidates.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SelectorSpec {
    pub rank: usize,
    pub top_k: usize,
    /// On the target's logits, before the softcap.
    pub multiplier: f32,
}

/// DFlash 2's convolutions over the rows of the block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConvSpec {
    pub taps: usize,
    /// Channels that share dynamic coefficients.
    pub group: usize,
}

/// DSpine's injections between neighbouring rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InjectionSpec {
    /// Of a row's feature and of a token's code.
    pub rank: usize,
    pub message: usize,
    /// Candidates of a slot.
    pub top_k: usize,
}

/// A drafter, whatever its packaging. Sizes in elements, ids in tokens or layers.
#[derive(Debug, Clone, PartialEq)]
pub struct DrafterSpec {
    pub packaging: Packaging,
    pub class: Class,
    pub family: Family,
    /// Matrices are stored as ModelOpt NVFP4.
    pub nvfp4: bool,
    pub hidden: usize,
    /// Of the target.
    pub vocab: usize,
    /// Rows of the head where it is reduced.
    pub draft_vocab: Option<usize>,
    pub inner: usize,
    pub heads: usize,
    pub kv_heads: usize,
    pub head_dim: usize,
    pub eps: f32,
    /// Factor of the attention scores.
    pub scale: f32,
    pub rope: RopeSpec,
    /// One a layer.
    pub masks: Vec<BlockMask>,
    /// Each head has a learned logit that takes part in the softmax and carries no value.
    pub sinks: bool,
    /// Each query head comes with a gate on its output.
    pub gated_q: bool,
    /// Norm weights are stored less one.
    pub offset_norms: bool,
    /// Slots of a block, the anchor's included.
    pub block_size: usize,
    /// First slot that predicts: 0 or 1.
    pub first_slot: usize,
    pub mask_token: u32,
    /// Target layers whose output it reads, ascending.
    pub taps: Vec<usize>,
    pub markov: Option<MarkovSpec>,
    /// `Some(true)`: its input holds the Markov embedding of the token before.
    pub confidence: Option<bool>,
    pub softcap: Option<f32>,
    /// On rows of its own embedding.
    pub embed_scale: f32,
    pub own_embed: bool,
    pub own_head: bool,
    /// Bounds of the log signal-to-noise ratio that its block embeddings are conditioned on.
    pub log_snr: Option<(f32, f32)>,
    pub selector: Option<SelectorSpec>,
    pub conv: Option<ConvSpec>,
    pub injection: Option<InjectionSpec>,
}

impl DrafterSpec {
    pub fn layers(&self) -> usize {
        self.masks.len()
    }

    /// Most tokens of a round.
    pub fn max_draft(&self) -> usize {
        self.block_size - self.first_slot
    }

    /// Rows that a block needs for `cap` drafts: all, unless every layer is causal.
    pub fn width(&self, cap: usize) -> usize {
        if self.masks.iter().all(|mask| mask.is_causal()) {
            self.block_size.min(self.first_slot + cap.max(1))
        } else {
            self.block_size
        }
    }

    /// Whether a bound on the context rows that it attends to is meaningful: not where it was trained with a window or
    /// with a causal block.
    pub fn takes_context_window(&self) -> bool {
        self.masks.iter().all(|mask| *mask == BlockMask::Full) && self.class == Class::DSpark
    }

    /// Rows of the head.
    pub fn head_rows(&self) -> usize {
        self.draft_vocab.unwrap_or(self.vocab)
    }
}
