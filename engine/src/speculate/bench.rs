//! What a plain step, a verify of several rows, a draft and a whole round take on this machine. Source:
//! `spec/speculation.md` §9.1.

use super::{
    companion::{Companion, failed},
    guess::Guess,
    round::{self, Terms},
};
use crate::{
    drafters::Drafter,
    sample::{Place, Sampler},
    target::Target,
    worker::step::{Sequence, ids},
};
use dspark_protocol::Sampling;
use mlx_rs::{
    Array,
    error::Exception,
    ops::indexing,
    transforms::{self, eval},
};
use std::time::{Duration, Instant};

/// The token that everything is fed with.
const TOKEN: u32 = 7;
/// Prompt tokens of one forward.
const CHUNK: usize = 256;
/// Plain steps of one timing: they run one ahead, as in a generation.
const STEPS: usize = 4;

/// A sequence of nonsense to take times with. Every timing leaves it as it was.
pub(crate) struct Bench<'a> {
    sequence: Sequence<'a>,
    sampler: Sampler,
    token: u32,
}

impl<'a> Bench<'a> {
    /// With `context` tokens in the cache.
    pub(crate) fn new(target: &'a dyn Target, drafter: Option<&'a Drafter>, context: usize) -> Result<Self, Exception> {
        let token = TOKEN.min(target.vocab().saturating_sub(1) as u32);
        let sampler = Sampler::new(&Sampling::default(), &[], target.vocab(), Place::current())
            .map_err(|error| Exception::custom(error.to_string()))?;
        let companion = drafter.map(|drafter| Companion::new(drafter, drafter.new_context()));
        let mut sequence = Sequence::new(target, target.new_cache(), companion, Vec::new(), false);
        for chunk in vec![token; context.max(1)].chunks(CHUNK) {
            sequence.prefill(chunk)?;
        }
        Ok(Self { sequence, sampler, token })
    }

    /// The same with `deep` tokens, of which all after the first `context` are empty: as dear to attend to, and not
    /// computed.
    pub(crate) fn deep(target: &'a dyn Target, context: usize, deep: usize) -> Result<Self, Exception> {
        let mut bench = Self::new(target, None, context)?;
        bench.sequence.cache.pretend(deep.saturating_sub(context))?;
        transforms::eval(bench.sequence.arrays())?;
        Ok(bench)
    }

    /// A plain step, one of several that run one ahead.
    pub(crate) fn plain(&mut self) -> Result<Duration, Exception> {
        let before = self.sequence.cache.len();
        let mut drawn = self.sequence.step_known(self.token, &self.sampler, None)?;
        drawn.read()?;
        let begun = Instant::now();
        for _ in 0..STEPS {
            let next = self.sequence.step(&drawn, &self.sampler)?;
            drawn.read()?;
            drawn = next;
        }
        drawn.read()?;
        let took = begun.elapsed() / STEPS as u32;
        self.sequence.rewind_to(before)?;
        Ok(took)
    }

    /// A forward over `rows` rows and the choice of a token for each; of a tree whose nodes all hang on the first row, if
    /// so wished.
    pub(crate) fn verify(&mut self, rows: usize, tree: bool) -> Result<Duration, Exception> {
        let begun = Instant::now();
        let parents: Vec<i32> = (0..rows).map(|row| if row == 0 { -1 } else { 0 }).collect();
        let output = self.sequence.verify(&ids(&vec![self.token; rows]), tree.then_some(&parents[..]))?;
        let logits = output.logits.ok_or_else(|| Exception::custom("a verify gave no logits"))?;
        eval([&indexing::argmax_axis(&logits, -1, false)?].into_iter().chain(&output.features))?;
        let took = begun.elapsed();
        self.sequence.cache.trim(rows)?;
        Ok(took)
    }

    /// `cap` drafts, to the tokens on the host.
    pub(crate) fn draft(&mut self, cap: usize) -> Result<Duration, Exception> {
        let Some(companion) = &mut self.sequence.companion else {
            return Ok(Duration::ZERO);
        };
        let begun = Instant::now();
        let anchor = Array::from_slice(&[self.token], &[1]);
        let drafter = companion.drafter;
        let drafts = drafter.draft(&anchor, cap, companion.context()?).map_err(failed)?;
        eval([&drafts])?;
        Ok(begun.elapsed())
    }

    /// A whole round of `cap` drafts, whatever is accepted, with the drafter's context brought up to date.
    pub(crate) fn round(&mut self, cap: usize) -> Result<Duration, Exception> {
        let terms = Terms {
            confidence: 0.0,
            logprobs: None,
        };
        let begun = Instant::now();
        let before = self.sequence.cache.len();
        round::run(&mut self.sequence, &mut self.sampler, self.token, &Guess::Chain(cap), &terms, None)?;
        if let Some(companion) = &mut self.sequence.companion {
            companion.flush()?;
        }
        transforms::eval(self.sequence.arrays())?;
        let took = begun.elapsed();
        self.sequence.rewind_to(before)?;
        Ok(took)
    }
}
