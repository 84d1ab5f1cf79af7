//! The device's side of a generation: chunked prefill, then steps that are scheduled before they are read.

use crate::{
    sample::{
        Sampler,
        logprobs::{self, Logprobs},
    },
    target::{Cache, Logits, Rows, Target},
};
use mlx_rs::{Array, Dtype, error::Exception, memory, transforms};

/// Prompt tokens after which MLX's spare buffers are given back; small chunks reuse them until then.
const RELEASE_EVERY: usize = 2048;

/// A drawn token that the device may still be computing.
pub(crate) struct Drawn {
    /// `[1, 1]` u32.
    token: Array,
    /// The raw f32 row it was drawn from, when log-probabilities are wanted.
    logits: Option<Array>,
}

impl Drawn {
    /// Waits for the device.
    pub(crate) fn read(&self) -> Result<u32, Exception> {
        self.token.try_item_exact().map_err(|error| Exception::custom(error.to_string()))
    }

    /// Of the token just read, with this many best alternatives.
    pub(crate) fn logprobs(&self, chosen: u32, top: usize) -> Result<Option<Logprobs>, Exception> {
        let Some(logits) = &self.logits else { return Ok(None) };
        let row = logits.to_vec_exact::<f32>().map_err(|error| Exception::custom(error.to_string()))?;
        Ok(Some(logprobs::of_row(&row, chosen, top)))
    }
}

/// One sequence on its way through the target.
pub(crate) struct Sequence<'a> {
    target: &'a dyn Target,
    pub(crate) cache: Box<dyn Cache>,
    /// The tokens that the cache holds, in order.
    pub(crate) fed: Vec<u32>,
    keep_logits: bool,
    /// Generated tokens drawn so far.
    drawn: u64,
}

impl<'a> Sequence<'a> {
    /// A sequence whose cache already holds `fed`.
    pub(crate) fn new(target: &'a dyn Target, cache: Box<dyn Cache>, fed: Vec<u32>, keep_logits: bool) -> Self {
        Self {
            target,
            cache,
            fed,
            keep_logits,
            drawn: 0,
        }
    }

    /// Feeds tokens whose logits nobody needs, and waits: memory stays bounded and others get a turn.
    pub(crate) fn prefill(&mut self, tokens: &[u32]) -> Result<(), Exception> {
        self.forward(&ids(tokens), Logits::None)?;
        transforms::eval(self.cache.arrays())?;
        let before = self.fed.len() / RELEASE_EVERY;
        self.fed.extend(tokens);
        if self.fed.len() / RELEASE_EVERY > before {
            memory::clear_cache()?;
        }
        Ok(())
    }

    /// Feeds the last tokens of the prompt and schedules the draw of the first token.
    pub(crate) fn first(&mut self, tokens: &[u32], sampler: &Sampler) -> Result<Drawn, Exception> {
        let logits = self.forward(&ids(tokens), Logits::Last)?;
        self.fed.extend(tokens);
        self.draw(logits, sampler)
    }

    /// Feeds the token drawn last, known or not, and schedules the draw of the next. The caller reports the fed
    /// token with [`Self::was_fed`] once it is known.
    pub(crate) fn step(&mut self, previous: &Drawn, sampler: &Sampler) -> Result<Drawn, Exception> {
        let logits = self.forward(&previous.token, Logits::All)?;
        self.draw(logits, sampler)
    }

    /// Names a token that [`Self::step`] has fed.
    pub(crate) fn was_fed(&mut self, token: u32) {
        self.fed.push(token);
    }

    fn forward(&mut self, tokens: &Array, logits: Logits) -> Result<Option<Array>, Exception> {
        Ok(self.target.forward(&Rows::chain(tokens, logits), &mut *self.cache)?.logits)
    }

    fn draw(&mut self, logits: Option<Array>, sampler: &Sampler) -> Result<Drawn, Exception> {
        let logits = logits
            .ok_or_else(|| Exception::custom("the decoder gave no logits"))?
            .as_dtype(Dtype::Float32)?;
        let token = sampler.draw(&logits, self.drawn)?;
        self.drawn += 1;
        let drawn = Drawn {
            token,
            logits: self.keep_logits.then_some(logits),
        };
        transforms::async_eval([&drawn.token].into_iter().chain(&drawn.logits))?;
        Ok(drawn)
    }
}

fn ids(tokens: &[u32]) -> Array {
    Array::from_slice(tokens, &[1, tokens.len() as i32])
}
