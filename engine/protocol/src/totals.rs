//! Sums over replies, and the last one.

use crate::{FinishReason, Summary};
use serde::Serialize;

/// Since the engine started.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Totals {
    pub requests: u64,
    /// Ended with an answer, whole or cancelled.
    pub finished: u64,
    pub failed: u64,
    pub cancelled: u64,
    pub prompt_tokens: u64,
    pub cached_tokens: u64,
    pub completion_tokens: u64,
    pub decode_seconds: f64,
    /// From admission to the last token.
    pub seconds: f64,
    /// Tokens generated, each weighed by the tokens a round of its reply: over `completion_tokens`, the mean accept length.
    pub accept_weight: f64,
}

impl Totals {
    /// A reply that has ended, whatever ended it.
    pub fn add(&mut self, summary: &Summary) {
        let (usage, timings) = (&summary.usage, &summary.timings);
        self.finished += 1;
        self.cancelled += u64::from(summary.finish == FinishReason::Cancelled);
        self.prompt_tokens += usage.prompt_tokens as u64;
        self.cached_tokens += usage.cached_tokens as u64;
        self.completion_tokens += usage.completion_tokens as u64;
        self.decode_seconds += timings.decode;
        self.seconds += timings.prefill + timings.decode;
        self.accept_weight += summary.accept_len * usage.completion_tokens as f64;
    }
}

/// The last finished generation of the loaded model.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct LastReply {
    /// Prompt and answer, tokens.
    pub context: usize,
    /// Decoded tokens a second.
    pub rate: f64,
    /// Tokens a round, where something was drafted.
    pub accept: Option<f64>,
    /// Rate of the last rounds over that of the first: see [`crate::SpeculationSummary::decay`].
    pub decay: Option<f64>,
    /// The first since the model was loaded, and nothing warmed it up before.
    pub cold: bool,
    /// Bytes that swap grew by meanwhile; `None` where the system does not tell.
    pub swap_growth: Option<u64>,
}
