//! Draft trees: second guesses beside the chain, likeliest paths first. Source: `spec/speculation.md` §8.1.
//!
//! A lattice (DFlash 2, DSpine) has all it takes: a candidate's children are the next slot's candidates by the log-softmax
//! of its row. A Markov head is made one: candidates are the best tokens of each row of its greedy chain, and a candidate
//! off the chain scores them by the slot's base logits and its own Markov term. The greedy chain's rows are exact; what
//! the others give to tokens beyond the candidates is taken from the chain's row.

use super::{
    Context, Drafter, Result,
    chain::Chain,
    selector::{best, predecessors},
};
use dspark_speculate::tree::{DraftTree, best_first};
use mlx_rs::{
    Array, Dtype,
    error::Exception,
    ops::{add, concatenate, indexing::argmax_axis, logsumexp_axis},
    transforms::eval,
    with_stream,
};
use std::convert::Infallible;

/// Candidates of a slot of a Markov head.
const CANDIDATES: i32 = 8;

/// What a tree is chosen from. Lazy.
struct Choices {
    /// `[cap, K]` u32 ids of the target, best first.
    candidates: Array,
    /// `[cap, K, K]` f32: slot, candidate of the slot before, candidate.
    scores: Array,
    /// `[cap]` f32, where candidates are not all there is: log-sum-exp of the chain's whole row.
    whole: Option<Array>,
}

impl Drafter {
    /// Why it has no trees to offer; `None` where it does.
    pub fn tree_refusal(&self) -> Option<&'static str> {
        if self.has_lattice() || self.markov.is_some() {
            None
        } else {
            Some("the slots of this drafter do not depend on each other, so it knows no second guesses")
        }
    }

    /// The `nodes` likeliest drafts after `anchor`, `[1]` u32, with their ancestors; one read of the device. Where the greedy
    /// chain has all the probability it is a chain.
    ///
    /// # Errors
    /// Where [`Self::tree_refusal`] says so, or when a computation fails.
    pub fn tree(&self, anchor: &Array, nodes: usize, context: &mut Context) -> Result<DraftTree> {
        if let Some(reason) = self.tree_refusal() {
            return Err(super::DrafterError::Unsupported(reason.into()));
        }
        if nodes == 0 {
            return Ok(DraftTree::default());
        }
        // No path is longer than the tree is large.
        let cap = nodes.min(self.spec.max_draft());
        let choices = if self.has_lattice() {
            let lattice = self.lattice(anchor, cap, context)?;
            Choices {
                candidates: lattice.candidates,
                scores: lattice.scores,
                whole: None,
            }
        } else {
            let chain = self.chain(anchor, cap, context)?;
            with_stream(&self.stream, || chain.choices(anchor))?
        };
        Ok(Read::of(&choices)?.tree(nodes))
    }
}

impl Chain<'_> {
    /// The lattice of a Markov head around its greedy chain.
    fn choices(mut self, anchor: &Array) -> std::result::Result<Choices, Exception> {
        let (base, hidden) = (self.base.clone(), self.hidden.clone());
        let mut previous = anchor.reshape(&[1])?;
        let (mut rows, mut states) = (Vec::new(), Vec::new());
        for _ in 0..self.len() {
            states.extend(self.state(&hidden)?);
            let logits = self.step(&previous)?.logits;
            previous = self.to_target(&argmax_axis(&logits, -1, false)?)?;
            rows.push(logits);
        }
        let rows = concatenate(&rows, 0)?;
        let columns = best(&rows, CANDIDATES.min(rows.dim(1)))?;
        let candidates = self.to_target(&columns)?;
        let states = if states.is_empty() { None } else { Some(concatenate(&states, 0)?) };
        let terms = self.terms(&predecessors(&candidates, anchor)?, &columns, &hidden, states.as_ref())?;
        let base = base.take_along_axis(&columns, -1)?.as_dtype(Dtype::Float32)?;
        Ok(Choices {
            candidates,
            scores: add(&terms, &base.expand_dims(1)?)?,
            whole: Some(logsumexp_axis(&rows.as_dtype(Dtype::Float32)?, -1, false)?),
        })
    }
}

/// Choices on the host.
struct Read {
    k: usize,
    candidates: Vec<u32>,
    scores: Vec<f32>,
    whole: Option<Vec<f32>>,
}

impl Read {
    fn of(choices: &Choices) -> std::result::Result<Self, Exception> {
        eval([&choices.candidates, &choices.scores].into_iter().chain(&choices.whole))?;
        let floats = |array: &Array| array.to_vec_cast::<f32>().map_err(|error| Exception::custom(error.to_string()));
        let candidates = choices.candidates.to_vec_cast::<u32>();
        Ok(Self {
            k: choices.candidates.dim(1) as usize,
            candidates: candidates.map_err(|error| Exception::custom(error.to_string()))?,
            scores: floats(&choices.scores)?,
            whole: choices.whole.as_ref().map(floats).transpose()?,
        })
    }

    fn slots(&self) -> usize {
        self.candidates.len() / self.k
    }

    fn row(&self, slot: usize, predecessor: usize) -> &[f32] {
        &self.scores[(slot * self.k + predecessor) * self.k..][..self.k]
    }

    /// The candidates of `slot` with their log-probabilities after the predecessor of that index.
    fn children(&self, slot: usize, predecessor: usize) -> Vec<(u32, f32)> {
        let row = self.row(slot, predecessor);
        let largest = row
            .iter()
            .copied()
            .fold(f32::NEG_INFINITY, f32::max)
            .max(self.whole.as_ref().map_or(f32::NEG_INFINITY, |w| w[slot]));
        let mass = |row: &[f32]| row.iter().map(|score| f64::from(score - largest).exp()).sum::<f64>();
        let beyond = self.whole.as_ref().map_or(0.0, |whole| {
            // The best predecessor is the chain's own.
            (f64::from(whole[slot] - largest).exp() - mass(self.row(slot, 0))).max(0.0)
        });
        let log = (mass(row) + beyond).ln() as f32 + largest;
        let tokens = &self.candidates[slot * self.k..][..self.k];
        tokens.iter().zip(row).map(|(token, score)| (*token, score - log)).collect()
    }

    fn tree(&self, nodes: usize) -> DraftTree {
        let expand = |path: &[u32]| -> std::result::Result<Vec<(u32, f32)>, Infallible> {
            let slot = path.len() - 1;
            let tokens = &self.candidates[slot * self.k..][..self.k];
            let index = tokens.iter().position(|token| *token == path[slot]);
            Ok(index.map_or_else(Vec::new, |index| self.children(slot + 1, index)))
        };
        let Ok(tree) = best_first(nodes, self.slots(), &self.children(0, 0), expand);
        tree
    }
}
