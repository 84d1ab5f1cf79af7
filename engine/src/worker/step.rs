//! The device's side of a generation: chunked prefill, steps that are scheduled before they are read, and verifies of
//! several rows. The drafter's context, where there is one, follows the target's cache token by token.

use crate::{
    grammar::{self, failed},
    prefix::Rung,
    sample::{
        Sampler, logits_of,
        logprobs::{self, Logprobs},
        not_numbers,
    },
    speculate::Companion,
    target::{Cache, Logits, Output, Rows, Target},
};
use dspark_grammar::Matcher;
use mlx_rs::{Array, Dtype, error::Exception, memory, ops::indexing::TryIndexOp, transforms};

/// Prompt tokens after which MLX's spare buffers are given back; small chunks reuse them until then.
const RELEASE_EVERY: usize = 2048;

/// A drawn token that the device may still be computing.
pub(crate) struct Drawn {
    /// `[1, 1]` u32.
    token: Array,
    /// `[1, 1]` f32: its own.
    logit: Array,
    /// The raw f32 row it was drawn from, when log-probabilities are wanted.
    logits: Option<Array>,
}

impl Drawn {
    /// Waits for the device.
    ///
    /// # Errors
    /// When a computation failed, or gave no numbers.
    pub(crate) fn read(&self) -> Result<u32, Exception> {
        let token = self.token.try_item_exact().map_err(|error| Exception::custom(error.to_string()))?;
        let logit: f32 = self.logit.try_item_exact().map_err(|error| Exception::custom(error.to_string()))?;
        if logit.is_nan() { Err(not_numbers()) } else { Ok(token) }
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
    pub(crate) companion: Option<Companion<'a>>,
    /// The tokens that the cache holds, in order.
    pub(crate) fed: Vec<u32>,
    keep_logits: bool,
    /// Generated tokens drawn so far.
    pub(crate) drawn: u64,
}

impl<'a> Sequence<'a> {
    /// A sequence whose cache already holds `fed`, and its companion's context too.
    pub(crate) fn new(
        target: &'a dyn Target,
        cache: Box<dyn Cache>,
        companion: Option<Companion<'a>>,
        fed: Vec<u32>,
        keep_logits: bool,
    ) -> Self {
        Self {
            target,
            cache,
            companion,
            fed,
            keep_logits,
            drawn: 0,
        }
    }

    /// Feeds tokens whose logits nobody needs, and waits: memory stays bounded and others get a turn.
    pub(crate) fn prefill(&mut self, tokens: &[u32]) -> Result<(), Exception> {
        self.forward(&ids(tokens), Logits::None)?;
        if let Some(companion) = &mut self.companion {
            companion.flush()?;
        }
        transforms::eval(self.arrays())?;
        let before = self.fed.len() / RELEASE_EVERY;
        self.fed.extend(tokens);
        if self.fed.len() / RELEASE_EVERY > before {
            memory::clear_cache()?;
        }
        Ok(())
    }

    /// Feeds the last tokens of the prompt and schedules the draw of the first token.
    pub(crate) fn first(&mut self, tokens: &[u32], sampler: &Sampler, matcher: Option<&mut Matcher>) -> Result<Drawn, Exception> {
        let logits = self.forward(&ids(tokens), Logits::Last)?;
        self.fed.extend(tokens);
        self.draw(logits, sampler, matcher)
    }

    /// Feeds the token drawn last, known or not, and schedules the draw of the next. The caller reports the fed
    /// token with [`Self::was_fed`] once it is known.
    pub(crate) fn step(&mut self, previous: &Drawn, sampler: &Sampler) -> Result<Drawn, Exception> {
        let logits = self.forward(&previous.token, Logits::All)?;
        self.draw(logits, sampler, None)
    }

    /// Feeds a known token and schedules the draw of the next, among those that `matcher` allows.
    pub(crate) fn step_known(&mut self, token: u32, sampler: &Sampler, matcher: Option<&mut Matcher>) -> Result<Drawn, Exception> {
        let logits = self.forward(&ids(&[token]), Logits::All)?;
        self.fed.push(token);
        self.draw(logits, sampler, matcher)
    }

    /// Names a token that [`Self::step`] has fed.
    pub(crate) fn was_fed(&mut self, token: u32) {
        self.fed.push(token);
    }

    /// Feeds the rows of a round, `[1, w]`: the newest token and what is guessed to follow. Of a tree with `parents` as
    /// in [`Rows`]. Nothing is committed before [`Self::keep`] or [`Self::keep_path`].
    pub(crate) fn verify(&mut self, tokens: &Array, parents: Option<&[i32]>) -> Result<Output, Exception> {
        let rows = Rows {
            tokens,
            parents,
            logits: Logits::All,
            taps: self.taps(),
        };
        self.target.forward(&rows, &mut *self.cache)
    }

    /// Commits the first rows of a verify of `width` rows; `kept` are their tokens.
    pub(crate) fn keep(&mut self, kept: &[u32], width: usize, features: Option<Array>) -> Result<(), Exception> {
        self.cache.trim(width - kept.len())?;
        self.fed.extend(kept);
        let rows = kept.len() as i32;
        self.follow(features, |features| features.try_index((.., ..rows, ..)))
    }

    /// Commits the rows of a tree verify of `width` rows that `path` names, the root first.
    pub(crate) fn keep_path(&mut self, kept: &[u32], width: usize, path: &[usize], features: Option<Array>) -> Result<(), Exception> {
        self.cache.commit(width, path)?;
        self.fed.extend(kept);
        let rows: Vec<i32> = path.iter().map(|&row| row as i32).collect();
        self.follow(features, |features| {
            features.take_axis(Array::from_slice(&rows, &[rows.len() as i32]), 1)
        })
    }

    fn follow(&mut self, features: Option<Array>, cut: impl FnOnce(&Array) -> Result<Array, Exception>) -> Result<(), Exception> {
        match (&mut self.companion, features) {
            (Some(companion), Some(features)) => companion.take(cut(&features)?),
            (Some(_), None) => Err(Exception::custom("the target gave no features for the drafter's taps")),
            (None, _) => Ok(()),
        }
    }

    /// Lets the device take in what a round has committed, before the host turns to the text.
    pub(crate) fn schedule(&mut self) -> Result<(), Exception> {
        let Some(companion) = &mut self.companion else { return Ok(()) };
        companion.flush()?;
        transforms::async_eval(companion.arrays())
    }

    /// What is needed to come back here later; `None` where the cache can simply be cut.
    pub(crate) fn rung(&mut self) -> Result<Option<Rung>, Exception> {
        let Some(cache) = self.cache.checkpoint() else { return Ok(None) };
        let context = self.companion.as_mut().map(Companion::checkpoint).transpose()?;
        Ok(Some(Rung {
            len: self.fed.len(),
            cache,
            context,
        }))
    }

    /// Forgets every token after the first `len`.
    pub(crate) fn rewind_to(&mut self, len: usize) -> Result<(), Exception> {
        self.cache.trim(self.cache.len().saturating_sub(len))?;
        self.fed.truncate(len);
        match &mut self.companion {
            Some(companion) => companion.rewind_to(len),
            None => Ok(()),
        }
    }

    /// Everything that a pause in the work has to evaluate.
    pub(crate) fn arrays(&self) -> Vec<&Array> {
        let own = self.companion.iter().flat_map(Companion::arrays);
        self.cache.arrays().into_iter().chain(own).collect()
    }

    fn taps(&self) -> &'a [usize] {
        self.companion.as_ref().map_or(&[], Companion::taps)
    }

    fn forward(&mut self, tokens: &Array, logits: Logits) -> Result<Option<Array>, Exception> {
        let rows = Rows {
            taps: self.taps(),
            ..Rows::chain(tokens, logits)
        };
        let output = self.target.forward(&rows, &mut *self.cache)?;
        self.follow(output.features, |features| Ok(features.clone()))?;
        Ok(output.logits)
    }

    fn draw(&mut self, logits: Option<Array>, sampler: &Sampler, matcher: Option<&mut Matcher>) -> Result<Drawn, Exception> {
        let logits = logits
            .ok_or_else(|| Exception::custom("the decoder gave no logits"))?
            .as_dtype(Dtype::Float32)?;
        let mask = match matcher {
            Some(matcher) => {
                // The device computes while the grammar is looked at.
                transforms::async_eval([&logits])?;
                let mask = matcher.mask().map_err(failed)?;
                grammar::rows([&mask].into_iter(), self.target.vocab())
            }
            None => None,
        };
        let token = sampler.draw_masked(&logits, self.drawn, mask.as_ref())?;
        let logit = logits_of(&token, &logits)?;
        self.drawn += 1;
        let drawn = Drawn {
            token,
            logit,
            logits: self.keep_logits.then_some(logits),
        };
        transforms::async_eval([&drawn.token, &drawn.logit].into_iter().chain(&drawn.logits))?;
        Ok(drawn)
    }
}

/// `[1, T]`.
pub(crate) fn ids(tokens: &[u32]) -> Array {
    Array::from_slice(tokens, &[1, tokens.len() as i32])
}
