//! From the rows of a block to proposed tokens: base logits, the Markov term along the chain, the confidence head, and
//! the map from a reduced vocabulary.

use super::{
    Result,
    reader::Reader,
    spec::{DrafterSpec, MarkovKind, MarkovSpec},
};
use crate::drafters::drafter::Drafter;
use mlx_cpu::Weight;
use mlx_rs::{
    Array, Dtype,
    error::Exception,
    ops::{
        add, concatenate,
        indexing::{TryIndexOp, argmax_axis},
        matmul, multiply, sigmoid, subtract, tanh, zeros_dtype,
    },
};

type Computed<T> = std::result::Result<T, Exception>;

/// Adds to a slot's logits what the token before it says.
#[derive(Debug)]
pub(super) struct Markov {
    spec: MarkovSpec,
    /// A table over the target's vocabulary, `[V, r]`.
    w1: Weight,
    /// `[Vd, r]`.
    w2: Weight,
    /// Of the gated and rnn kinds.
    projection: Option<Weight>,
}

impl Markov {
    pub(super) fn read(reader: &mut Reader, spec: MarkovSpec, hidden: usize) -> Result<Self> {
        let rank = spec.rank;
        Ok(Self {
            spec,
            w1: reader.matrix("markov_head.markov_w1", rank, true)?,
            w2: reader.matrix("markov_head.markov_w2", rank, true)?,
            projection: match spec.kind {
                MarkovKind::Vanilla => None,
                MarkovKind::Gated => Some(reader.matrix("markov_head.gate_proj", hidden + rank, true)?),
                MarkovKind::Rnn => Some(reader.matrix("markov_head.joint_proj", 2 * rank + hidden, true)?),
            },
        })
    }

    /// Leaves out what it says of all but the first `n` ids.
    pub(super) fn narrow(&mut self, n: i32) -> Computed<()> {
        self.w2 = self.w2.first(n)?;
        Ok(())
    }

    pub(super) fn bytes(&self) -> usize {
        [&self.w1, &self.w2].into_iter().chain(&self.projection).map(Weight::nbytes).sum()
    }

    /// `[1, r]` of a token `[1]`.
    fn embed(&self, previous: &Array, like: &Array) -> Computed<Array> {
        mlx_cpu::embed(previous, &self.w1, like.dtype())
    }

    /// What `w2` multiplies. `e`: the embedding of the token before, `h`: the slot's hidden row, both `[1, ..]`.
    fn input(&self, e: &Array, h: &Array, state: &mut Option<Array>) -> Computed<Array> {
        let Some(projection) = &self.projection else {
            return Ok(e.clone());
        };
        if self.spec.kind == MarkovKind::Gated {
            let gate = sigmoid(&mlx_cpu::linear(&concatenate(&[h, e], -1)?, projection)?)?;
            return multiply(&gate, e);
        }
        let rank = self.spec.rank as i32;
        let z = match state.take() {
            Some(z) => z,
            None => zeros_dtype(&[1, rank], h.dtype())?,
        };
        let parts = mlx_cpu::linear(&concatenate(&[&z, e, h], -1)?, projection)?.split_equal(3, -1)?;
        let (gate, candidate) = (sigmoid(&parts[0])?, tanh(&parts[1])?);
        // σ(g) z + (1 − σ(g)) tanh(c)
        *state = Some(add(&candidate, &multiply(&gate, &subtract(&z, &candidate)?)?)?);
        tanh(&parts[2])
    }
}

/// One block being turned into a chain of tokens, slot by slot. Everything is lazy.
pub struct Chain<'a> {
    drafter: &'a Drafter,
    /// `[cap, Vd]`: logits before the Markov term, after the drafter's softcap.
    pub base: Array,
    /// `[cap, H]`: normed hidden rows of the predicting slots.
    pub hidden: Array,
    cap: i32,
    next: i32,
    state: Option<Array>,
}

/// Row `slot` of a matrix, `[1, n]`.
fn row(of: &Array, slot: i32) -> Computed<Array> {
    of.try_index((slot..=slot, ..))
}

/// One slot's outcome.
#[derive(Debug, Clone)]
pub struct Step {
    /// `[1, Vd]`.
    pub logits: Array,
    /// `[1]`: the chance that the target takes this token, given that it took those before.
    pub confidence: Option<Array>,
}

/// A greedy chain.
#[derive(Debug, Clone)]
pub struct Proposal {
    /// `[cap]` u32, ids of the target.
    pub tokens: Array,
    /// `[cap]`; `None` without a confidence head.
    pub confidence: Option<Array>,
    /// `[cap, Vd]`: what the tokens were chosen from.
    pub logits: Array,
}

impl<'a> Chain<'a> {
    pub(super) fn new(drafter: &'a Drafter, base: Array, hidden: Array) -> Self {
        let cap = base.dim(0);
        Self {
            drafter,
            base,
            hidden,
            cap,
            next: 0,
            state: None,
        }
    }

    /// Slots.
    pub fn len(&self) -> usize {
        self.cap as usize
    }

    pub fn is_empty(&self) -> bool {
        self.cap == 0
    }

    /// Ids of the target for columns of a row.
    pub(super) fn to_target(&self, columns: &Array) -> Computed<Array> {
        self.drafter.to_target(columns)
    }

    /// The next slot, after the token `previous`, `[1]` u32 of the target's vocabulary: the anchor for the first.
    ///
    /// # Errors
    /// After the last slot.
    pub fn step(&mut self, previous: &Array) -> Computed<Step> {
        let slot = self.next;
        let (logits, e) = self.advance(previous)?;
        let confidence = if self.drafter.spec.confidence.is_some() {
            self.drafter.confidence_of(&row(&self.hidden, slot)?, e.as_ref())?
        } else {
            None
        };
        Ok(Step { logits, confidence })
    }

    /// The next slot's logits, and the Markov embedding of the token before.
    fn advance(&mut self, previous: &Array) -> Computed<(Array, Option<Array>)> {
        let slot = self.next;
        if slot >= self.cap {
            return Err(Exception::custom(format!("the chain has {} slots", self.cap)));
        }
        self.next += 1;
        let base = row(&self.base, slot)?;
        let Some(markov) = &self.drafter.markov else {
            return Ok((base, None));
        };
        let e = markov.embed(previous, &self.hidden)?;
        let input = match markov.spec.kind {
            MarkovKind::Vanilla => e.clone(),
            MarkovKind::Gated | MarkovKind::Rnn => markov.input(&e, &row(&self.hidden, slot)?, &mut self.state)?,
        };
        Ok((mlx_cpu::linear_plus(&input, &markov.w2, &base)?, Some(e)))
    }

    /// What an rnn head carries into the next slot, `[1, r]`; `None` of other heads.
    pub(super) fn state(&self, like: &Array) -> Computed<Option<Array>> {
        match &self.drafter.markov {
            Some(markov) if markov.spec.kind == MarkovKind::Rnn => match &self.state {
                Some(state) => Ok(Some(state.clone())),
                None => zeros_dtype(&[1, markov.spec.rank as i32], like.dtype()).map(Some),
            },
            _ => Ok(None),
        }
    }

    /// Markov terms of the tokens `previous`, `[cap, P]` ids of the target, on the columns `columns`, `[cap, K]`: `[cap, P, K]`
    /// f32. `states`: `[cap, r]`, those before each slot of an rnn head.
    pub(super) fn terms(&self, previous: &Array, columns: &Array, hidden: &Array, states: Option<&Array>) -> Computed<Array> {
        let Some(markov) = &self.drafter.markov else {
            return Err(Exception::custom("the drafter has no Markov head"));
        };
        let wide = |rows: &Array| {
            let shape = [previous.dim(0), previous.dim(1), rows.dim(1)];
            mlx_rs::ops::broadcast_to(&rows.expand_dims(1)?, &shape)
        };
        let e = mlx_cpu::embed(previous, &markov.w1, hidden.dtype())?;
        let mut state = states.map(wide).transpose()?;
        let input = match markov.spec.kind {
            MarkovKind::Vanilla => e,
            MarkovKind::Gated | MarkovKind::Rnn => markov.input(&e, &wide(hidden)?, &mut state)?,
        };
        let rows = mlx_cpu::embed(columns, &markov.w2, Dtype::Float32)?;
        let terms = matmul(&input.as_dtype(Dtype::Float32)?, &rows.transpose_axes(&[0, 2, 1])?)?;
        match markov.w2.bias() {
            Some(bias) => add(&terms, &bias.take_axis(columns, 0)?.as_dtype(Dtype::Float32)?.expand_dims(1)?),
            None => Ok(terms),
        }
    }

    /// The best token of every slot, `[cap]`, without the rest of [`Self::greedy`].
    pub(super) fn best(mut self, anchor: &Array) -> Computed<Array> {
        if self.drafter.markov.is_none() {
            return self.to_target(&argmax_axis(&self.base, -1, false)?);
        }
        let mut previous = anchor.reshape(&[1])?;
        let mut tokens = Vec::with_capacity(self.len());
        for _ in 0..self.cap {
            let (logits, _) = self.advance(&previous)?;
            previous = self.to_target(&argmax_axis(&logits, -1, false)?)?;
            tokens.push(previous.clone());
        }
        concatenate(&tokens, 0)
    }

    /// Takes the best token of every slot.
    pub fn greedy(mut self, anchor: &Array) -> Computed<Proposal> {
        if self.drafter.markov.is_none() {
            // Slots do not depend on each other.
            return Ok(Proposal {
                tokens: self.drafter.to_target(&argmax_axis(&self.base, -1, false)?)?,
                confidence: self.drafter.confidence_of(&self.hidden, None)?,
                logits: self.base,
            });
        }
        let mut previous = anchor.reshape(&[1])?;
        let (mut tokens, mut confidences, mut rows) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..self.cap {
            let step = self.step(&previous)?;
            previous = self.drafter.to_target(&argmax_axis(&step.logits, -1, false)?)?;
            tokens.push(previous.clone());
            confidences.extend(step.confidence);
            rows.push(step.logits);
        }
        Ok(Proposal {
            tokens: concatenate(&tokens, 0)?,
            confidence: if confidences.is_empty() {
                None
            } else {
                Some(concatenate(&confidences, 0)?)
            },
            logits: concatenate(&rows, 0)?,
        })
    }
}

/// Ids of the target for those of a reduced vocabulary, `[Vd]` u32: offsets on the draft ids. With the mask of the ids
/// that there are.
pub(super) fn target_ids(spec: &DrafterSpec, offsets: &[i64], mask: Option<&[i64]>) -> std::result::Result<Vec<u32>, String> {
    if Some(offsets.len()) != spec.draft_vocab {
        return Err(format!("has {} entries for a vocabulary of {:?}", offsets.len(), spec.draft_vocab));
    }
    let id = |(draft, offset): (usize, &i64)| {
        let id = draft as i64 + offset;
        let inside = usize::try_from(id).is_ok_and(|id| id < spec.vocab);
        let named = mask.is_none_or(|mask| usize::try_from(id).is_ok_and(|id| mask.get(id).is_some_and(|named| *named != 0)));
        match (inside, named) {
            (true, true) => Ok(id as u32),
            (false, _) => Err(format!("maps draft id {draft} to {id}, outside the vocabulary of {}", spec.vocab)),
            (true, false) => Err(format!(
                "maps draft id {draft} to {id}, which `t2d` does not name: these are no offsets"
            )),
        }
    };
    offsets.iter().enumerate().map(id).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::collections::BTreeMap;

    /// Offsets are no ids: taken as ids they leave the set that the mask names.
    #[test]
    fn offsets_map_into_the_mask() {
        let config = json!({
            "architectures": ["DFlashDraftModel"], "hidden_size": 64, "vocab_size": 10, "num_hidden_layers": 1, "intermediate_size": 96,
            "num_attention_heads": 4, "block_size": 8, "target_layer_ids": [1], "mask_token_id": 3
        });
        let config = config.as_object().unwrap();
        let tensors = crate::drafters::Tensors::new(BTreeMap::new(), config);
        let mut spec = crate::drafters::detect(config, None, &tensors).unwrap();
        spec.draft_vocab = Some(3);
        let mask = [0, 1, 0, 1, 0, 0, 0, 0, 0, 1];
        assert_eq!(target_ids(&spec, &[1, 2, 7], Some(&mask)).unwrap(), [1, 3, 9]);
        assert_eq!(target_ids(&spec, &[1, 2, 7], None).unwrap(), [1, 3, 9]);
        let refused = |offsets: &[i64]| target_ids(&spec, offsets, Some(&mask)).unwrap_err();
        assert!(refused(&[1, 3, 9]).contains("which `t2d` does not name"));
        assert!(refused(&[1, 2, 9]).contains("outside the vocabulary"));
        assert!(refused(&[1, 2]).contains("2 entries"));
    }
}
