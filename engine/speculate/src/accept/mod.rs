//! Acceptance: which drafts of a round are taken, and the token after them. Pure functions over rows, shared by every
//! drafter. Row i is what the target says after the anchor and the drafts before i; row `drafts.len()` follows them all.
//!
//! Source: `spec/speculation.md` §3, §4, §8.3.

mod tree;
pub use tree::{Walk, greedy_tree, sampled_tree};

use crate::sample::{rng::Lane, shape::Distribution};

/// Below this, what p leaves over q is rounding: the target's own row is drawn from instead.
const EMPTY: f64 = 1e-8;
/// A draft's q counts as at least this.
const LEAST_Q: f64 = 1e-9;

/// What a draft was drawn from.
#[derive(Debug, Clone, Copy)]
pub enum Proposal<'a> {
    /// Nothing: the draft was the only candidate (lookup, a drafter's argmax). Right for a drawn draft too, only less
    /// willing.
    Point,
    /// Exactly this, after its own temperature and truncation, in the target's ids.
    Drawn(&'a Distribution),
}

/// The end of a round: `accepted` drafts, then `token` in place of the next draft or after the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    pub accepted: usize,
    pub token: u32,
}

impl Outcome {
    /// The tokens the round adds, at least one.
    pub fn committed(self, drafts: &[u32]) -> Vec<u32> {
        drafts[..self.accepted].iter().copied().chain([self.token]).collect()
    }
}

/// How many drafts agree with the target's best token of the row before them. `best` holds one id a row, one row
/// more than drafts; the token to commit after them is `best[accepted]`.
pub fn greedy(drafts: &[u32], best: &[u32]) -> usize {
    drafts.iter().zip(best).take_while(|(draft, best)| draft == best).count()
}

/// Lossless acceptance of a chain: the committed tokens are distributed exactly as if each were drawn from its p row.
///
/// `q(i)` is what draft i was drawn from; `p(i)` the target's row i, asked for in order and only as far as the round
/// goes; `uniform(i, lane)` a number in [0, 1) of the position that draft i would take.
///
/// A drawn draft is taken with probability `min(1, p/q)`, else replaced from `norm(max(0, p - q))`. A point is compared
/// with a draw from p itself: the same law, and the same text as plain decoding with that seed.
///
/// # Errors
/// Those of `p`.
pub fn chain<'q, E>(
    drafts: &[u32],
    q: impl Fn(usize) -> Proposal<'q>,
    mut p: impl FnMut(usize) -> Result<Distribution, E>,
    mut uniform: impl FnMut(usize, Lane) -> f64,
) -> Result<Outcome, E> {
    for (i, &draft) in drafts.iter().enumerate() {
        let row = p(i)?;
        let rejected = match q(i) {
            Proposal::Point => Some(row.draw(uniform(i, Lane::Token))).filter(|&token| token != draft),
            Proposal::Drawn(q) => {
                let ratio = row.of(draft) / q.of(draft).max(LEAST_Q);
                (uniform(i, Lane::Accept) >= ratio).then(|| residual(&row, q).unwrap_or(row).draw(uniform(i, Lane::Residual)))
            }
        };
        if let Some(token) = rejected {
            return Ok(Outcome { accepted: i, token });
        }
    }
    let m = drafts.len();
    let token = p(m)?.draw(uniform(m, Lane::Token));
    Ok(Outcome { accepted: m, token })
}

/// `norm(max(0, p - q))`: what a rejected draft is replaced from; `None` where q covers p.
pub fn residual(p: &Distribution, q: &Distribution) -> Option<Distribution> {
    let mut behind = 0;
    let left: Vec<(u32, f64)> = (p.ids.iter().zip(&p.p))
        .map(|(&id, &p)| {
            while q.ids.get(behind).is_some_and(|&other| other < id) {
                behind += 1;
            }
            let q = if q.ids.get(behind) == Some(&id) { q.p[behind] } else { 0.0 };
            (id, (p - q).max(0.0))
        })
        .collect();
    let mass: f64 = left.iter().map(|&(_, left)| left).sum();
    if mass > EMPTY { Distribution::of_pairs(left) } else { None }
}

#[cfg(test)]
mod exactness;
#[cfg(test)]
mod tests;
