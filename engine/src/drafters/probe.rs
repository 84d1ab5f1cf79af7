//! The acceptance probe: draft, verify in one forward, keep the longest agreeing prefix, and afterwards score the emitted
//! text again one token at a time. A plain loop without a controller: it measures a drafter, it does not serve.

use super::{Drafter, Result};
use crate::{
    speculate::forcing::force,
    target::{Logits, Rows, Target},
};
pub use dspark_protocol::{Divergence, PositionCount, Verdict};
use mlx_rs::{
    Array, Dtype,
    error::Exception,
    ops::indexing::{TryIndexOp, argmax_axis},
    transforms::eval,
};
use std::time::{Duration, Instant};

/// Prompt tokens of one forward.
const CHUNK: usize = 256;

/// Choices of a probe.
#[derive(Debug, Clone, PartialEq)]
pub struct ProbeOptions {
    /// Tokens to generate for each prompt, at most.
    pub max_new: usize,
    /// Drafts of a round, at most; `None`: all that the drafter gives.
    pub cap: Option<usize>,
    /// Token ids that end a text.
    pub eos: Vec<u32>,
    /// A divergence by less than this, in logits, is a near tie. `None`: 0.02 for logits of f32, else 4 units in the
    /// last place.
    pub near_tie: Option<f32>,
}

impl Default for ProbeOptions {
    fn default() -> Self {
        Self {
            max_new: 128,
            cap: None,
            eos: Vec::new(),
            near_tie: None,
        }
    }
}

/// One prompt's outcome.
#[derive(Debug, Clone, PartialEq)]
pub struct PromptProbe {
    pub tokens: Vec<u32>,
    pub rounds: usize,
    pub drafted: usize,
    pub accepted: usize,
    /// By position in the block.
    pub positions: Vec<PositionCount>,
    pub divergences: Vec<Divergence>,
    pub verdict: Verdict,
    /// Of the rounds, without the prompt.
    pub speculating: Duration,
    /// Of the same tokens one by one, without the prompt.
    pub plain: Duration,
}

impl PromptProbe {
    /// Tokens committed by a round, the target's own included. The first token comes from the prompt and is not counted.
    pub fn mean_accepted(&self) -> f64 {
        mean(self.tokens.len().saturating_sub(1), self.rounds)
    }
}

fn mean(tokens: usize, rounds: usize) -> f64 {
    if rounds == 0 { 0.0 } else { tokens as f64 / rounds as f64 }
}

/// The prompts' outcomes, in order.
#[derive(Debug, Clone, PartialEq)]
pub struct ProbeReport {
    pub prompts: Vec<PromptProbe>,
}

impl ProbeReport {
    pub fn rounds(&self) -> usize {
        self.prompts.iter().map(|prompt| prompt.rounds).sum()
    }

    /// Tokens committed by a round, over all prompts.
    pub fn mean_accepted(&self) -> f64 {
        let tokens = self.prompts.iter().map(|prompt| prompt.tokens.len().saturating_sub(1));
        mean(tokens.sum(), self.rounds())
    }

    /// The worst of the prompts'.
    pub fn verdict(&self) -> Verdict {
        let any = |verdict| self.prompts.iter().any(|prompt| prompt.verdict == verdict);
        if any(Verdict::Defect) {
            Verdict::Defect
        } else if any(Verdict::NearTie) {
            Verdict::NearTie
        } else {
            Verdict::Identical
        }
    }

    /// By position in the block, over all prompts.
    pub fn positions(&self) -> Vec<PositionCount> {
        let mut sum = Vec::new();
        for prompt in &self.prompts {
            add(&mut sum, &prompt.positions);
        }
        sum
    }
}

fn add(sum: &mut Vec<PositionCount>, more: &[PositionCount]) {
    if sum.len() < more.len() {
        sum.resize(more.len(), PositionCount::default());
    }
    for (sum, more) in sum.iter_mut().zip(more) {
        sum.offered += more.offered;
        sum.accepted += more.accepted;
    }
}

/// Generates greedily after each of `prompts` (token ids) with a bound `drafter`, and checks the texts. `done` hears
/// each prompt's outcome.
///
/// # Errors
/// [`super::DrafterError::Unbound`], or when a computation fails.
pub fn probe(
    target: &dyn Target,
    drafter: &Drafter,
    prompts: &[Vec<u32>],
    options: &ProbeOptions,
    done: &mut dyn FnMut(usize, &PromptProbe),
) -> Result<ProbeReport> {
    let mut report = ProbeReport { prompts: Vec::new() };
    for (at, prompt) in prompts.iter().enumerate() {
        let mut outcome = speculate(target, drafter, prompt, options)?;
        let forced = force(target, prompt, &outcome.tokens, options.near_tie, &mut || true)?;
        outcome.verdict = forced.verdict();
        outcome.plain = Duration::from_secs_f64(forced.seconds);
        outcome.divergences = forced.divergences;
        done(at, &outcome);
        report.prompts.push(outcome);
    }
    Ok(report)
}

fn ids(tokens: &[u32]) -> Array {
    Array::from_slice(tokens, &[1, tokens.len() as i32])
}

fn read(tokens: &Array) -> std::result::Result<Vec<u32>, Exception> {
    let read = tokens.as_dtype(Dtype::Uint32)?.reshape(&[-1])?.to_vec_cast::<u32>();
    read.map_err(|error| Exception::custom(error.to_string()))
}

fn speculate(target: &dyn Target, drafter: &Drafter, prompt: &[u32], options: &ProbeOptions) -> Result<PromptProbe> {
    let taps = &drafter.spec().taps;
    let (mut cache, mut context) = (target.new_cache(), drafter.new_context());
    let mut anchor = 0;
    let last = prompt.len().div_ceil(CHUNK);
    for (chunk, tokens) in prompt.chunks(CHUNK).enumerate() {
        let tokens = ids(tokens);
        let rows = Rows {
            taps,
            ..Rows::chain(&tokens, if chunk + 1 == last { Logits::Last } else { Logits::None })
        };
        let output = target.forward(&rows, &mut *cache)?;
        commit(drafter, output.features.as_ref(), None, &mut context)?;
        eval(context.arrays().into_iter().chain(cache.arrays()))?;
        if let Some(logits) = output.logits {
            anchor = read(&argmax_axis(&logits, -1, false)?)?.pop().unwrap_or(0);
        }
    }
    let started = Instant::now();
    let mut outcome = PromptProbe {
        tokens: vec![anchor],
        rounds: 0,
        drafted: 0,
        accepted: 0,
        positions: Vec::new(),
        divergences: Vec::new(),
        verdict: Verdict::Identical,
        speculating: Duration::ZERO,
        plain: Duration::ZERO,
    };
    let room = target.max_context().saturating_sub(prompt.len() + 1);
    let most = options.max_new.min(room);
    while outcome.tokens.len() < most && !options.eos.contains(&anchor) {
        // The round commits one more than it accepts.
        let cap = options
            .cap
            .unwrap_or(usize::MAX)
            .min(drafter.spec().max_draft())
            .min(most - outcome.tokens.len());
        let anchor_row = Array::from_slice(&[anchor], &[1]);
        let drafts = drafter.draft(&anchor_row, cap, &mut context)?;
        let drafts = read(&drafts)?;
        let block: Vec<u32> = std::iter::once(anchor).chain(drafts.iter().copied()).collect();
        let tokens = ids(&block);
        let rows = Rows {
            taps,
            ..Rows::chain(&tokens, Logits::All)
        };
        let output = target.forward(&rows, &mut *cache)?;
        let logits = output.logits.ok_or_else(|| Exception::custom("a verify gave no logits"))?;
        let best = read(&argmax_axis(&logits, -1, false)?)?;
        let accepted = drafts.iter().zip(&best).take_while(|(draft, best)| draft == best).count();
        cache.trim(drafts.len() - accepted)?;
        commit(drafter, output.features.as_ref(), Some(accepted + 1), &mut context)?;
        anchor = best[accepted];
        let counts: Vec<PositionCount> = (0..drafts.len())
            .map(|position| PositionCount {
                offered: 1,
                accepted: usize::from(position < accepted),
            })
            .collect();
        add(&mut outcome.positions, &counts);
        outcome.rounds += 1;
        outcome.drafted += drafts.len();
        outcome.accepted += accepted;
        for &token in &best[..=accepted] {
            outcome.tokens.push(token);
            if outcome.tokens.len() == most || options.eos.contains(&token) {
                anchor = token;
                break;
            }
        }
    }
    outcome.speculating = started.elapsed();
    Ok(outcome)
}

/// Appends the features of the first `rows` rows of a forward.
fn commit(drafter: &Drafter, features: Option<&Array>, rows: Option<usize>, context: &mut super::Context) -> Result<()> {
    let features = features.ok_or_else(|| Exception::custom("the target gave no features for the drafter's taps"))?;
    match rows {
        Some(rows) if (rows as i32) < features.dim(1) => drafter.commit(&features.try_index((.., ..rows as i32, ..))?, context),
        _ => drafter.commit(features, context),
    }
}
