//! One round: propose, verify in one forward, accept, commit. Source: `spec/speculation.md` §2–§4.
//!
//! A plainly greedy request lets the device choose the target's token of every row, so that a round waits once and reads
//! a few numbers. All others (temperature, penalties, log-probabilities) bring the rows to the host, where acceptance is
//! the pure function of `dspark-speculate`.

use super::guess::{Drafts, Guess, floats, read};
use crate::{
    grammar::{self, failed},
    sample::{
        Sampler, logits_of,
        logprobs::{self, Logprobs},
        not_numbers, rng,
        shape::Distribution,
    },
    worker::step::{Sequence, ids},
};
use dspark_grammar::{Mask, Matcher};
use dspark_protocol::Source;
use dspark_speculate::accept::{self, Proposal};
use mlx_rs::{Array, Dtype, error::Exception, ops::concatenate, transforms::eval};

/// A committed token.
#[derive(Debug, Clone)]
pub(crate) struct Committed {
    pub(crate) id: u32,
    pub(crate) source: Source,
    pub(crate) logprobs: Option<Logprobs>,
}

/// What a round came to. The last committed token has not been fed: it is the next round's anchor.
#[derive(Debug, Clone)]
pub(crate) struct Outcome {
    pub(crate) committed: Vec<Committed>,
    /// Nodes offered.
    pub(crate) drafted: usize,
    /// Of a tree: its longest path; 0 for a chain.
    pub(crate) tree_depth: usize,
    pub(crate) accepted: usize,
}

/// How a round is to be done.
pub(crate) struct Terms {
    /// Drafts are cut where their joint survival falls below; 0 keeps all.
    pub(crate) confidence: f32,
    /// Report log-probabilities with this many alternatives.
    pub(crate) logprobs: Option<usize>,
}

/// Runs a round after `anchor`, the newest token, which the cache does not hold yet.
///
/// # Errors
/// When a computation fails; the sequence is then of no further use.
pub(crate) fn run(
    sequence: &mut Sequence<'_>,
    sampler: &mut Sampler,
    anchor: u32,
    guess: &Guess,
    terms: &Terms,
    matcher: Option<&mut Matcher>,
) -> Result<Outcome, Exception> {
    if let (Guess::Tree(nodes), true) = (guess, sampler.plainly_greedy() && terms.logprobs.is_none()) {
        return super::branches::run(sequence, sampler, anchor, *nodes, matcher);
    }
    let position = sequence.drawn;
    let missing = || Exception::custom("a draft was planned without a drafter");
    let (mut drafts, source) = match guess {
        Guess::Lookup(tokens) => (Drafts::of_known(tokens.clone()), Source::Lookup),
        Guess::Chain(cap) | Guess::Tree(cap) => {
            let companion = sequence.companion.as_mut().ok_or_else(missing)?;
            let drafts = match sampler.shape() {
                Some(_) => Drafts::sampled(companion, anchor, *cap, terms.confidence, sampler, position)?,
                None => Drafts::greedy(companion, anchor, *cap, terms.confidence)?,
            };
            (drafts, Source::Draft)
        }
    };
    let mut offered = drafts.tokens.dim(0) as usize;
    let mut masks = Vec::new();
    if let Some(matcher) = matcher {
        let tokens = drafts.read()?;
        let chain = matcher.chain(&tokens).map_err(failed)?;
        masks = chain.rows;
        offered = chain.allowed;
        drafts.known = Some(tokens);
    }
    let width = offered + 1;
    let block = match &drafts.known {
        Some(tokens) => ids(&[&[anchor], &tokens[..offered]].concat()),
        None => concatenate(&[Array::from_slice(&[anchor], &[1]), drafts.tokens.clone()], 0)?.reshape(&[1, -1])?,
    };
    let output = sequence.verify(&block, None)?;
    let logits = output.logits.ok_or_else(|| Exception::custom("a verify gave no logits"))?;
    let (tokens, accepted, next, logprobs) = if sampler.plainly_greedy() && terms.logprobs.is_none() {
        let mask = grammar::rows(masks.iter(), logits.dim(-1) as usize);
        let best = sampler.best(&logits, mask.as_ref())?;
        let own = logits_of(&best, &logits)?;
        eval([&best, &own].into_iter().chain(drafts.arrays()))?;
        let (tokens, best) = (drafts.read()?, read(&best)?);
        let accepted = accept::greedy(&tokens[..offered], &best);
        if floats(&own)?[..=accepted].iter().any(|logit| logit.is_nan()) {
            return Err(not_numbers());
        }
        (tokens, accepted, best[accepted], None)
    } else {
        let rows = logits.as_dtype(Dtype::Float32)?;
        eval([&rows].into_iter().chain(drafts.arrays()))?;
        let tokens = drafts.read()?;
        let rows = Verified::read(&rows, masks)?;
        // A draft that the grammar does not allow has no row behind it, but it was drawn: it counts as one that is rejected.
        let judged = tokens.len().min(offered + usize::from(rows.is_masked()));
        let (accepted, next) = rows.accept(sequence, sampler, &tokens[..judged], &drafts, position)?;
        let logprobs = terms.logprobs.map(|top| {
            let chosen = tokens[..accepted].iter().copied().chain([next]);
            chosen
                .enumerate()
                .map(|(row, id)| logprobs::of_row(rows.row(row), id, top))
                .collect::<Vec<_>>()
        });
        (tokens, accepted, next, logprobs)
    };
    let kept: Vec<u32> = std::iter::once(anchor).chain(tokens[..accepted].iter().copied()).collect();
    sequence.keep(&kept, width, output.features)?;
    sequence.drawn += accepted as u64 + 1;
    Ok(Outcome {
        committed: committed(&tokens[..accepted], next, offered, source, logprobs),
        drafted: offered,
        tree_depth: 0,
        accepted,
    })
}

/// The accepted drafts, then the target's own token: in place of a rejected draft, or after the last.
pub(super) fn committed(accepted: &[u32], next: u32, offered: usize, source: Source, logprobs: Option<Vec<Logprobs>>) -> Vec<Committed> {
    let own = if accepted.len() < offered {
        Source::Corrected
    } else {
        Source::Target
    };
    let tokens = accepted.iter().map(|&id| (id, source)).chain([(next, own)]);
    let mut logprobs = logprobs.unwrap_or_default().into_iter();
    tokens
        .map(|(id, source)| Committed {
            id,
            source,
            logprobs: logprobs.next(),
        })
        .collect()
}

/// The raw rows of a verify, on the host.
struct Verified {
    rows: Vec<f32>,
    vocab: usize,
    /// What each row may choose; empty where everything is allowed.
    masks: Vec<Mask>,
}

impl Verified {
    fn read(rows: &Array, masks: Vec<Mask>) -> Result<Self, Exception> {
        Ok(Self {
            masks,
            vocab: rows.dim(-1) as usize,
            rows: floats(rows)?,
        })
    }

    fn row(&self, row: usize) -> &[f32] {
        &self.rows[row * self.vocab..(row + 1) * self.vocab]
    }

    fn is_masked(&self) -> bool {
        !self.masks.is_empty()
    }

    /// What the next token is drawn from: penalties, then the mask.
    fn weighed(&self, row: usize, sampler: &Sampler) -> Vec<f32> {
        let mut logits = self.row(row).to_vec();
        sampler.penalize(&mut logits);
        if let Some(mask) = self.masks.get(row) {
            mask.apply(&mut logits);
        }
        logits
    }

    /// How many drafts stand, and the target's token after them.
    fn accept(
        &self,
        sequence: &Sequence<'_>,
        sampler: &mut Sampler,
        tokens: &[u32],
        drafts: &Drafts,
        position: u64,
    ) -> Result<(usize, u32), Exception> {
        let Some(shape) = sampler.shape().copied() else {
            // Row by row: penalties of a row count the drafts before it.
            let mut accepted = 0;
            let next = loop {
                let row = self.weighed(accepted, sampler);
                let best = best(&row).ok_or_else(not_numbers)?;
                if tokens.get(accepted) != Some(&best) {
                    break best;
                }
                sampler.observe(best);
                accepted += 1;
            };
            tokens[..accepted].iter().for_each(|&token| sampler.retract(token));
            return Ok((accepted, next));
        };
        if sampler.pathwise() {
            let mut accepted = 0;
            let next = loop {
                let row = self.weighed(accepted, sampler);
                let token = sampler.draw_weighed(&row, position + accepted as u64)?.ok_or_else(not_numbers)?;
                if tokens.get(accepted) != Some(&token) {
                    break token;
                }
                sampler.observe(token);
                accepted += 1;
            };
            tokens[..accepted].iter().for_each(|&token| sampler.retract(token));
            return Ok((accepted, next));
        }
        let q = drafts.distributions(tokens, sequence.companion.as_ref(), &shape)?;
        let seed = sampler.seed();
        let mut observed = 0;
        let outcome = accept::chain(
            tokens,
            |at| q.as_ref().map_or(Proposal::Point, |q| Proposal::Drawn(&q[at])),
            |row| {
                while observed < row {
                    sampler.observe(tokens[observed]);
                    observed += 1;
                }
                Distribution::of_logits(&self.weighed(row, sampler), &shape).ok_or_else(not_numbers)
            },
            |at, lane| rng::uniform(seed, position + at as u64, lane),
        );
        tokens[..observed].iter().for_each(|&token| sampler.retract(token));
        let outcome = outcome?;
        Ok((outcome.accepted, outcome.token))
    }
}

/// The lowest id among the best; `None` when nothing is a number.
fn best(row: &[f32]) -> Option<u32> {
    let mut best: Option<(usize, f32)> = None;
    for (id, &logit) in row.iter().enumerate() {
        if logit.is_nan() {
            return None;
        }
        if best.is_none_or(|(_, most)| logit > most) {
            best = Some((id, logit));
        }
    }
    best.map(|(id, _)| id as u32)
}
