//! What a round offers to the target, and what each token was drawn from.

use super::companion::{Companion, failed};
use crate::{
    drafters::Chain,
    sample::{
        Sampler,
        shape::{Distribution, Shape},
    },
};
use mlx_rs::{
    Array, Dtype,
    error::Exception,
    ops::{concatenate, indexing::TryIndexOp},
    transforms::{async_eval, eval},
};

/// What the plan of a round asks for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Guess {
    /// Tokens that followed the same words earlier in the text.
    Lookup(Vec<u32>),
    /// This many tokens by the drafter, one after the other.
    Chain(usize),
    /// This many by the drafter, with side branches.
    Tree(usize),
}

/// A chain of drafts. Lazy, but for what is known.
pub(super) struct Drafts {
    /// `[m]` u32.
    pub(super) tokens: Array,
    /// The same where the host knows them already.
    pub(super) known: Option<Vec<u32>>,
    pub(super) from: From,
}

/// What drafts were drawn from.
pub(super) enum From {
    /// Each was certain.
    Point,
    /// Rows of logits over the draft vocabulary, `[m, Vd]`.
    Rows(Array),
    /// Probabilities over candidates of the target's vocabulary, `[m, K]` each.
    Candidates { ids: Array, q: Array },
}

impl Drafts {
    pub(super) fn of_known(tokens: Vec<u32>) -> Self {
        Self {
            tokens: Array::from_slice(&tokens, &[tokens.len() as i32]),
            known: Some(tokens),
            from: From::Point,
        }
    }

    /// The drafter's best tokens after `anchor`, on their way to the device when this returns. With a `threshold`, only
    /// as many as are likely to survive together by the drafter's own estimate, which costs a wait for the device.
    pub(super) fn greedy(companion: &mut Companion<'_>, anchor: u32, cap: usize, threshold: f32) -> Result<Self, Exception> {
        let drafter = companion.drafter;
        let anchor = Array::from_slice(&[anchor], &[1]);
        let context = companion.context()?;
        if threshold > 0.0 && drafter.spec().confidence.is_some() {
            let proposal = drafter.propose(&anchor, cap, context).map_err(failed)?;
            if let Some(confidence) = &proposal.confidence {
                eval([&proposal.tokens, confidence])?;
                let mut tokens = read(&proposal.tokens)?;
                tokens.truncate(dspark_speculate::confidence::keep(&floats(confidence)?, threshold));
                return Ok(Self::of_known(tokens));
            }
        }
        let tokens = drafter.draft(&anchor, cap, context).map_err(failed)?;
        async_eval([&tokens])?;
        Ok(Self {
            tokens,
            known: None,
            from: From::Point,
        })
    }

    /// Drafts drawn by the temperature and truncation of `sampler`; `position` is that of the first. A `threshold` cuts
    /// them as in [`Self::greedy`]: a confidence speaks of a draft by the tokens before it, so that where to cut does not
    /// depend on what is cut off, and the distribution of the text is the same.
    pub(super) fn sampled(
        companion: &mut Companion<'_>,
        anchor: u32,
        cap: usize,
        threshold: f32,
        sampler: &Sampler,
        position: u64,
    ) -> Result<Self, Exception> {
        let drafter = companion.drafter;
        let anchor = Array::from_slice(&[anchor], &[1]);
        let temperature = sampler.shape().map_or(0.0, |shape| shape.temperature);
        let context = companion.context()?;
        if drafter.has_lattice() {
            let lattice = drafter.lattice(&anchor, cap, context).map_err(failed)?;
            let uniforms: Vec<f32> = (0..cap as u64).map(|at| sampler.draft_uniform(position + at) as f32).collect();
            let walk = lattice.sampled(&uniforms, temperature)?;
            async_eval([&walk.tokens, &walk.q])?;
            return Ok(Self {
                tokens: walk.tokens,
                known: None,
                from: From::Candidates {
                    ids: lattice.candidates,
                    q: walk.q,
                },
            });
        }
        let mut chain: Chain<'_> = drafter.chain(&anchor, cap, context).map_err(failed)?;
        let (mut previous, mut tokens, mut rows, mut confidences) = (anchor, Vec::new(), Vec::new(), Vec::new());
        for at in 0..cap as u64 {
            let step = chain.step(&previous)?;
            previous = drafter.to_target(&sampler.draw_draft(&step.logits, position + at)?)?;
            tokens.push(previous.clone());
            rows.push(step.logits);
            if threshold > 0.0 {
                confidences.extend(step.confidence);
            }
        }
        let (mut tokens, mut rows) = (concatenate(&tokens, 0)?, concatenate(&rows, 0)?);
        if !confidences.is_empty() {
            let confidence = concatenate(&confidences, 0)?;
            eval([&tokens, &rows, &confidence])?;
            let kept = dspark_speculate::confidence::keep(&floats(&confidence)?, threshold) as i32;
            (tokens, rows) = (tokens.try_index(..kept)?, rows.try_index((..kept, ..))?);
        }
        async_eval([&tokens, &rows])?;
        Ok(Self {
            tokens,
            known: None,
            from: From::Rows(rows),
        })
    }

    /// Arrays that the host wants beside the tokens.
    pub(super) fn arrays(&self) -> Vec<&Array> {
        match &self.from {
            From::Point => vec![&self.tokens],
            From::Rows(rows) => vec![&self.tokens, rows],
            From::Candidates { ids, q } => vec![&self.tokens, ids, q],
        }
    }

    /// The tokens; waits where they are not known yet.
    pub(super) fn read(&self) -> Result<Vec<u32>, Exception> {
        match &self.known {
            Some(tokens) => Ok(tokens.clone()),
            None => read(&self.tokens),
        }
    }

    /// What each of `tokens` was drawn from, over the target's vocabulary; `None` where all were certain. One from a row
    /// that is not of numbers counts as certain, whatever it is: it does not depend on the target's own draw, which is all
    /// that acceptance asks for.
    pub(super) fn distributions(
        &self,
        tokens: &[u32],
        companion: Option<&Companion<'_>>,
        shape: &Shape,
    ) -> Result<Option<Vec<Distribution>>, Exception> {
        let of: Box<dyn Fn(usize) -> Option<Distribution>> = match (&self.from, companion) {
            (From::Rows(rows), Some(companion)) => {
                let width = rows.dim(-1) as usize;
                let rows = floats(rows)?;
                let table = companion.drafter.target_table();
                Box::new(move |at| {
                    let q = Distribution::of_logits(&rows[at * width..][..width], shape)?;
                    Some(match &table {
                        Some(table) => sorted(q.ids.iter().map(|&id| table[id as usize]).zip(q.p)),
                        None => q,
                    })
                })
            }
            (From::Candidates { ids, q }, _) => {
                let width = ids.dim(-1) as usize;
                let (ids, q) = (read(ids)?, floats(q)?);
                Box::new(move |at| {
                    let row = at * width..(at + 1) * width;
                    let pairs = ids[row.clone()].iter().copied().zip(q[row].iter().map(|&q| f64::from(q)));
                    Some(sorted(pairs)).filter(|q| !q.ids.is_empty())
                })
            }
            _ => return Ok(None),
        };
        let certain = |id: u32| Distribution {
            ids: vec![id],
            p: vec![1.0],
        };
        let rows = tokens.iter().enumerate();
        Ok(Some(rows.map(|(at, &id)| of(at).unwrap_or_else(|| certain(id))).collect()))
    }
}

fn sorted(pairs: impl Iterator<Item = (u32, f64)>) -> Distribution {
    let mut pairs: Vec<(u32, f64)> = pairs.filter(|(_, p)| *p > 0.0).collect();
    pairs.sort_unstable_by_key(|(id, _)| *id);
    let (ids, p) = pairs.into_iter().unzip();
    Distribution { ids, p }
}

/// Ids of any shape.
pub(super) fn read(tokens: &Array) -> Result<Vec<u32>, Exception> {
    let flat = tokens.as_dtype(Dtype::Uint32)?.reshape(&[-1])?;
    flat.to_vec_cast::<u32>().map_err(|error| Exception::custom(error.to_string()))
}

/// Numbers of any shape.
pub(super) fn floats(values: &Array) -> Result<Vec<f32>, Exception> {
    let flat = values.as_dtype(Dtype::Float32)?.reshape(&[-1])?;
    flat.to_vec_cast::<f32>().map_err(|error| Exception::custom(error.to_string()))
}
