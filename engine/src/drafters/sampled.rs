//! Drafts that the caller draws: one call a slot with the row to draw from. The same for all drafters, so that accepting
//! them needs one rule: each token came from the distribution that the caller made of its row.

use super::{Context, Drafter, Result, chain::Chain, selector::Lattice};
use mlx_rs::{
    Array,
    error::Exception,
    ops::{concatenate, indexing::TryIndexOp},
    with_stream,
};

/// Draws from one row: the slot from 0 and its row `[1, W]`, to the column drawn, `[1]` u32.
pub type Draw<'a> = dyn FnMut(usize, &Array) -> std::result::Result<Array, Exception> + 'a;

/// Drafts with the rows they were drawn from. Lazy, as far as the draws were.
#[derive(Debug, Clone)]
pub struct SampledProposal {
    /// `[cap]` u32, ids of the target.
    pub tokens: Array,
    /// `[cap]` u32: the column of each token in its row.
    pub columns: Array,
    /// `[cap, W]`: what [`Draw`] was given. Logits over the drafter's vocabulary ([`Drafter::target_ids`] maps its ids), or
    /// scores of a slot's candidates.
    pub logits: Array,
    /// `[cap, W]` u32, where rows are over candidates: their ids of the target.
    pub candidates: Option<Array>,
    /// `[cap]`; `None` without a confidence head.
    pub confidence: Option<Array>,
}

impl Drafter {
    /// At most `cap` drafts after `anchor`, `[1]` u32, each drawn by `draw`. A Markov head and a lattice look at the token
    /// drawn before; slots of other drafters are independent.
    ///
    /// # Errors
    /// Of the drafter, and of `draw`.
    pub fn sampled(&self, anchor: &Array, cap: usize, context: &mut Context, draw: &mut Draw<'_>) -> Result<SampledProposal> {
        if self.has_lattice() {
            let lattice = self.lattice(anchor, cap, context)?;
            return with_stream(&self.stream, || Ok(lattice.drawn(draw)?));
        }
        let chain = self.chain(anchor, cap, context)?;
        with_stream(&self.stream, || Ok(chain.drawn(anchor, draw)?))
    }
}

impl Chain<'_> {
    fn drawn(mut self, anchor: &Array, draw: &mut Draw<'_>) -> std::result::Result<SampledProposal, Exception> {
        let mut previous = anchor.reshape(&[1])?;
        let mut drawn = Drawn::default();
        for slot in 0..self.len() {
            let step = self.step(&previous)?;
            let column = draw(slot, &step.logits)?.reshape(&[1])?;
            previous = self.to_target(&column)?;
            drawn.add(previous.clone(), column, step.logits);
            drawn.confidence.extend(step.confidence);
        }
        drawn.end(None)
    }
}

impl Lattice {
    fn drawn(&self, draw: &mut Draw<'_>) -> std::result::Result<SampledProposal, Exception> {
        let mut previous = Array::from_slice(&[0_u32], &[1]);
        let mut drawn = Drawn::default();
        for slot in 0..self.scores.dim(0) {
            let row = self.scores.try_index((slot, .., ..))?.take_axis(&previous, 0)?;
            previous = draw(slot as usize, &row)?.reshape(&[1])?;
            let token = self.candidates.try_index((slot, ..))?.take_axis(&previous, 0)?;
            drawn.add(token, previous.clone(), row);
        }
        drawn.end(Some(self.candidates.clone()))
    }
}

#[derive(Default)]
struct Drawn {
    tokens: Vec<Array>,
    columns: Vec<Array>,
    rows: Vec<Array>,
    confidence: Vec<Array>,
}

impl Drawn {
    fn add(&mut self, token: Array, column: Array, row: Array) {
        self.tokens.push(token);
        self.columns.push(column);
        self.rows.push(row);
    }

    fn end(self, candidates: Option<Array>) -> std::result::Result<SampledProposal, Exception> {
        let confidence = if self.confidence.is_empty() {
            None
        } else {
            Some(concatenate(&self.confidence, 0)?)
        };
        Ok(SampledProposal {
            tokens: concatenate(&self.tokens, 0)?,
            columns: concatenate(&self.columns, 0)?,
            logits: concatenate(&self.rows, 0)?,
            candidates,
            confidence,
        })
    }
}
