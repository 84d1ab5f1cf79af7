//! Penalties and biases: what is added to the raw logits before a distribution is made of them.
//!
//! Order: repetition penalty on the raw logit, then presence and frequency, then the bias. Repetition looks at prompt
//! and output, presence and frequency at the output alone. Source: `spec/speculation.md` §4.

use dspark_protocol::{EngineError, Sampling};
use mlx_rs::{Array, error::Exception, ops};
use std::collections::BTreeMap;

/// The penalties of one generation with the counts they need.
#[derive(Debug, Clone)]
pub struct Penalties {
    repetition: f32,
    presence: f32,
    frequency: f32,
    /// Every token whose logit may change, with what is known of it.
    tokens: BTreeMap<u32, Seen>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    /// In the prompt, where repetition counts it.
    prompted: bool,
    /// Times in the output.
    generated: u32,
    bias: f32,
}

impl Penalties {
    /// `None` when the request changes no logit.
    ///
    /// # Errors
    /// [`EngineError::BadRequest`] for a value that is not finite or an id outside the vocabulary.
    pub fn of(sampling: &Sampling, prompt: &[u32], vocab: usize) -> Result<Option<Self>, EngineError> {
        let Sampling {
            repetition_penalty: repetition,
            presence_penalty: presence,
            frequency_penalty: frequency,
            ..
        } = *sampling;
        if !(repetition.is_finite() && repetition > 0.0) {
            return Err(EngineError::BadRequest(format!(
                "repetition_penalty is {repetition}; it must be above 0 (1 is off)"
            )));
        }
        for (name, value) in [("presence_penalty", presence), ("frequency_penalty", frequency)] {
            if !value.is_finite() {
                return Err(EngineError::BadRequest(format!(
                    "{name} is {value}; it must be a number (0 is off)"
                )));
            }
        }
        let mut tokens = BTreeMap::<u32, Seen>::new();
        for (&id, &bias) in &sampling.logit_bias {
            if id as usize >= vocab {
                return Err(EngineError::BadRequest(format!(
                    "logit_bias names token {id}, but the model's vocabulary ends at {}",
                    vocab.saturating_sub(1)
                )));
            }
            if !bias.is_finite() {
                return Err(EngineError::BadRequest(format!(
                    "logit_bias of token {id} is {bias}; it must be a number"
                )));
            }
            tokens.entry(id).or_default().bias = bias;
        }
        if repetition != 1.0 {
            for &id in prompt {
                tokens.entry(id).or_default().prompted = true;
            }
        }
        let penalties = Self {
            repetition,
            presence,
            frequency,
            tokens,
        };
        Ok((penalties.counts() || !penalties.tokens.is_empty()).then_some(penalties))
    }

    /// Whether a logit depends on the tokens generated before it, so that step t+1 needs token t on the host.
    pub fn counts(&self) -> bool {
        self.repetition != 1.0 || self.presence != 0.0 || self.frequency != 0.0
    }

    /// Takes note of a generated token.
    pub fn observe(&mut self, token: u32) {
        if self.counts() {
            self.tokens.entry(token).or_default().generated += 1;
        }
    }

    /// Takes back one [`Self::observe`]: a draft that was looked at and is not (yet) part of the text.
    pub fn retract(&mut self, token: u32) {
        if let Some(seen) = self.tokens.get_mut(&token) {
            seen.generated = seen.generated.saturating_sub(1);
        }
    }

    /// The changed row, in plain Rust.
    pub fn apply(&self, logits: &mut [f32]) {
        for (&id, seen) in &self.tokens {
            let logit = &mut logits[id as usize];
            *logit = *logit * self.factor(*seen, *logit >= 0.0) + self.offset(*seen);
        }
    }

    /// The changed rows, lazily: `[1, T, V]` f32 in, the same out.
    pub fn apply_device(&self, logits: &Array) -> Result<Array, Exception> {
        if self.tokens.is_empty() {
            return Ok(logits.clone());
        }
        let n = self.tokens.len() as i32;
        let column = |values: Vec<f32>| Array::from_slice(&values, &[1, 1, n]);
        let ids: Vec<u32> = self.tokens.keys().copied().collect();
        let rows = logits.shape()[1];
        let ids = ops::broadcast_to(Array::from_slice(&ids, &[1, 1, n]), &[1, rows, n])?;
        let above = column(self.tokens.values().map(|&seen| self.factor(seen, true)).collect());
        let below = column(self.tokens.values().map(|&seen| self.factor(seen, false)).collect());
        let offset = column(self.tokens.values().map(|&seen| self.offset(seen)).collect());

        let picked = logits.take_along_axis(&ids, -1)?;
        let positive = picked.ge(Array::from_f32(0.0))?;
        let scaled = picked.multiply(ops::select(&positive, &above, &below)?)?;
        logits.put_along_axis(&ids, scaled.add(&offset)?, -1)
    }

    fn factor(&self, seen: Seen, positive: bool) -> f32 {
        match (seen.prompted || seen.generated > 0, positive) {
            (false, _) => 1.0,
            (true, true) => 1.0 / self.repetition,
            (true, false) => self.repetition,
        }
    }

    fn offset(&self, seen: Seen) -> f32 {
        let presence = if seen.generated > 0 { self.presence } else { 0.0 };
        seen.bias - presence - self.frequency * seen.generated as f32
    }
}
