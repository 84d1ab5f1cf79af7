//! DFlash 2's selector: the best candidates of each slot, and a score for each pair of neighbours.

use super::{Result, reader::Reader, spec::SelectorSpec};
use mlx_cpu::Weight;
use mlx_rs::{
    Array, Dtype,
    error::Exception,
    ops::{
        add, argpartition_axis, argsort_axis, concatenate,
        indexing::{TryIndexOp, argmax_axis},
        le, matmul, minimum, multiply, softmax_axis, sort_axis,
    },
};

type Computed<T> = std::result::Result<T, Exception>;

#[derive(Debug)]
pub(super) struct Selector {
    spec: SelectorSpec,
    softcap: Option<f32>,
    /// `[V, r]` each.
    predecessor: Array,
    successor: Array,
    projection: Weight,
}

/// Candidates by slot and the scores between them. Lazy.
#[derive(Debug, Clone)]
pub struct Lattice {
    /// `[cap, K]` u32, by descending logit, lower id first on ties.
    pub candidates: Array,
    /// `[cap, K]` f32.
    pub unary: Array,
    /// `[cap, K, K]` f32: slot, candidate of the slot before, candidate. All rows of slot 0 are the anchor's.
    pub scores: Array,
}

/// A sampled path.
#[derive(Debug, Clone)]
pub struct Walk {
    /// `[cap]` u32.
    pub tokens: Array,
    /// `[cap, K]` f32: what each token was drawn from, over the candidates of its slot.
    pub q: Array,
}

impl Selector {
    pub(super) fn read(reader: &mut Reader, spec: SelectorSpec, softcap: Option<f32>, hidden: usize) -> Result<Self> {
        Ok(Self {
            spec,
            softcap,
            predecessor: reader.stored("candidate_selector.predecessor_codebook")?,
            successor: reader.stored("candidate_selector.successor_codebook")?,
            projection: reader.matrix("candidate_selector.hidden_projection", hidden, false)?,
        })
    }

    pub(super) fn bytes(&self) -> usize {
        self.predecessor.nbytes() + self.successor.nbytes() + self.projection.nbytes()
    }

    /// `logits`: `[cap, V]` raw rows of the target's head, `hidden`: `[cap, H]`, `anchor`: `[1]`.
    pub(super) fn lattice(&self, logits: &Array, hidden: &Array, anchor: &Array) -> Computed<Lattice> {
        let candidates = best(logits, self.spec.top_k as i32)?;
        let mut unary = logits.take_along_axis(&candidates, -1)?.as_dtype(Dtype::Float32)?;
        unary = super::drafter::scaled(&unary, self.spec.multiplier)?;
        if let Some(cap) = self.softcap {
            unary = super::drafter::capped(&unary, cap)?;
        }
        let f32s = |x: &Array| x.as_dtype(Dtype::Float32);
        let before = predecessors(&candidates, anchor)?;
        let turned = f32s(&mlx_cpu::linear(hidden, &self.projection)?)?.expand_dims(1)?;
        let left = multiply(&f32s(&self.predecessor.take_axis(&before, 0)?)?, &turned)?;
        let right = f32s(&self.successor.take_axis(&candidates, 0)?)?.transpose_axes(&[0, 2, 1])?;
        let scores = add(&matmul(&left, &right)?, &unary.expand_dims(1)?)?;
        Ok(Lattice { candidates, unary, scores })
    }
}

/// The tokens before each slot's candidates, `[cap, K]`: the anchor, then the candidates of the slot before.
pub(super) fn predecessors(candidates: &Array, anchor: &Array) -> Computed<Array> {
    let (cap, k) = (candidates.dim(0), candidates.dim(1));
    let anchor = anchor.reshape(&[1, 1])?.as_dtype(Dtype::Uint32)?;
    let first = mlx_rs::ops::broadcast_to(&anchor, &[1, k])?;
    if cap == 1 {
        return Ok(first);
    }
    concatenate(&[first, candidates.try_index((..cap - 1, ..))?], 0)
}

/// The `k` best ids of each row, best first, lower id first among equals.
pub(super) fn best(logits: &Array, k: i32) -> Computed<Array> {
    let negated = logits.negative()?;
    let ids = if k < logits.dim(-1) {
        argpartition_axis(&negated, k - 1, -1)?.try_index((.., ..k))?
    } else {
        argsort_axis(&negated, -1)?
    };
    // Ascending ids, then stable by logit.
    let ids = sort_axis(&ids.as_dtype(Dtype::Uint32)?, -1)?;
    let order = argsort_axis(&negated.take_along_axis(&ids, -1)?, -1)?;
    ids.take_along_axis(&order, -1)
}

impl Lattice {
    /// The best path slot by slot, each given the one before: `[cap]` u32.
    pub fn greedy(&self) -> Computed<Array> {
        let (mut previous, mut tokens) = (Array::from_slice(&[0_u32], &[1]), Vec::new());
        for slot in 0..self.scores.dim(0) {
            let row = self.scores.try_index((slot, .., ..))?.take_axis(&previous, 0)?;
            previous = argmax_axis(&row, -1, false)?.reshape(&[1])?;
            tokens.push(self.candidates.try_index((slot, ..))?.take_axis(&previous, 0)?);
        }
        concatenate(&tokens, 0)
    }

    /// A path drawn at `temperature` by one uniform a slot: the first candidate where the cumulative probability is
    /// above it.
    ///
    /// # Errors
    /// With fewer uniforms than slots.
    pub fn sampled(&self, uniforms: &[f32], temperature: f32) -> Computed<Walk> {
        let (slots, k) = (self.scores.dim(0), self.scores.dim(-1));
        if uniforms.len() < slots as usize {
            return Err(Exception::custom(format!("{} uniforms for {slots} slots", uniforms.len())));
        }
        let inverse = 1.0 / temperature.max(1e-5);
        let (mut previous, mut tokens, mut rows) = (Array::from_slice(&[0_u32], &[1]), Vec::new(), Vec::new());
        for (slot, uniform) in (0..slots).zip(uniforms) {
            let row = self.scores.try_index((slot, .., ..))?.take_axis(&previous, 0)?;
            let q = softmax_axis(&super::drafter::scaled(&row, inverse)?, -1, true)?;
            let below = le(&q.cumsum(-1, false, true)?, Array::from_slice(&[*uniform], &[1]))?;
            let count = below.as_dtype(Dtype::Uint32)?.sum_axis(-1, false)?;
            previous = minimum(&count, Array::from_slice(&[k as u32 - 1], &[1]))?
                .as_dtype(Dtype::Uint32)?
                .reshape(&[1])?;
            tokens.push(self.candidates.try_index((slot, ..))?.take_axis(&previous, 0)?);
            rows.push(q);
        }
        Ok(Walk {
            tokens: concatenate(&tokens, 0)?,
            q: concatenate(&rows, 0)?,
        })
    }
}
