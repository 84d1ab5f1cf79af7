use crate::{EngineError, Mode, ModelInfo, SpeculationSummary};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Where a token came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// The target's own next token.
    Target,
    /// Guessed by the drafter and confirmed.
    Draft,
    /// Guessed from earlier text and confirmed.
    Lookup,
    /// The target's token in place of a rejected guess.
    Corrected,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TopToken {
    pub id: u32,
    pub text: String,
    pub bytes: Vec<u8>,
    /// Natural logarithm, from the raw logits in f32.
    pub logprob: f32,
}

/// One emitted token.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TokenInfo {
    pub id: u32,
    /// The token alone, as far as it is text.
    pub text: String,
    pub bytes: Vec<u8>,
    pub source: Source,
    /// Present when the request asked for log-probabilities.
    pub logprob: Option<f32>,
    pub top: Vec<TopToken>,
}

/// New text. Never splits a character; stop strings never appear in it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TextDelta {
    pub text: String,
    /// The tokens decoded since the last delta. Text may lag behind them (held-back bytes and stop strings).
    pub tokens: Vec<TokenInfo>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// End of sequence, or the stop string named here.
    Stop {
        matched: Option<String>,
    },
    /// `max_tokens` or the context window is used up.
    Length,
    Cancelled,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Usage {
    pub prompt_tokens: usize,
    /// Prompt tokens taken from the cache instead of computed.
    pub cached_tokens: usize,
    /// Every generated token; the end-of-sequence token is not counted.
    pub completion_tokens: usize,
    pub reasoning_tokens: usize,
}

/// Seconds of wall time.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Timings {
    pub queue: f64,
    /// From admission to the first token.
    pub ttft: f64,
    pub prefill: f64,
    pub decode: f64,
}

impl Timings {
    /// Generated tokens a second of decoding (the first token belongs to prefill).
    pub fn decode_rate(&self, usage: &Usage) -> f64 {
        if self.decode > 0.0 {
            usage.completion_tokens.saturating_sub(1) as f64 / self.decode
        } else {
            0.0
        }
    }

    /// Generated tokens a second from admission to the last token.
    pub fn end_to_end_rate(&self, usage: &Usage) -> f64 {
        let total = self.prefill + self.decode;
        if total > 0.0 { usage.completion_tokens as f64 / total } else { 0.0 }
    }

    /// Computed (not cached) prompt tokens a second; `None` under 16 tokens, where it says nothing.
    pub fn prefill_rate(&self, usage: &Usage) -> Option<f64> {
        let fresh = usage.prompt_tokens.saturating_sub(usage.cached_tokens);
        (fresh >= 16 && self.prefill > 0.0).then(|| fresh as f64 / self.prefill)
    }
}

/// How a generation ended. The text is in the deltas before it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    pub finish: FinishReason,
    pub usage: Usage,
    pub timings: Timings,
    /// What was asked for.
    pub mode: Mode,
    /// What ran.
    pub effective_mode: Mode,
    /// Why the two differ.
    pub mode_reason: Option<String>,
    /// Tokens committed per target forward after prefill; 1 when plain.
    pub accept_len: f64,
    pub target_forwards: usize,
    /// `None` where nothing was drafted or could have been.
    pub speculation: Option<Box<SpeculationSummary>>,
    /// The seed that gives this text again: the one of the request, or the one that was drawn for it. `None` where drafts were taken by
    /// chance of their own, as they are without a seed of the request.
    pub seed: Option<u64>,
    pub warnings: Vec<String>,
    /// All emitted ids, when the request asked for them.
    pub token_ids: Vec<u32>,
}

/// What a generation yields, in this order: `Queued`*, `Started`, `Prefill`*, `Delta`*, then exactly one of
/// `Finished` and `Failed`.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// Others come first; 1 is next in line.
    Queued {
        position: usize,
    },
    Started {
        prompt_tokens: usize,
        cached_tokens: usize,
    },
    /// Absolute prompt positions.
    Prefill {
        processed: usize,
        total: usize,
    },
    Delta(TextDelta),
    Finished(Box<Summary>),
    Failed(EngineError),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LoadStage {
    Checking,
    Reading,
    Preparing,
    Calibrating,
    WarmingUp,
}

/// What a load yields: `Stage`*, then exactly one of `Ready` and `Failed`. After `Failed` the model that was
/// loaded before is still in place.
#[derive(Debug, Clone)]
pub enum LoadEvent {
    /// Bytes where the stage reads, else (0, 0).
    Stage {
        stage: LoadStage,
        done: u64,
        total: u64,
    },
    Ready(Arc<ModelInfo>),
    Failed(EngineError),
}
