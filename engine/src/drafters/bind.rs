//! What a drafter borrows of its target.

use crate::decoder::linear::Linear;
use mlx_rs::{Array, Dtype, error::Exception};

/// The raw ends of a target: its embedding table and its head, without whatever the target does to their outputs. A
/// multiplier or softcap over the logits would drown the Markov term, a norm over the embedding is the target's own.
#[derive(Debug, Clone)]
pub struct Ends {
    pub(crate) embedding: Linear,
    /// `None`: the embedding, transposed.
    pub(crate) head: Option<Linear>,
    /// The family's factor on embedding rows.
    pub(crate) scale: f32,
    pub hidden: usize,
    pub vocab: usize,
    pub layers: usize,
}

impl Ends {
    /// From plain matrices `[V, H]`, without a target: for checks against recorded numbers. No head: tied.
    ///
    /// # Errors
    /// When the table is not a matrix.
    pub fn of_tables(embedding: Array, head: Option<Array>, scale: f32, layers: usize) -> Result<Self, Exception> {
        let &[vocab, hidden] = embedding.shape() else {
            return Err(Exception::custom(format!("an embedding is [V, H], not {:?}", embedding.shape())));
        };
        Ok(Self {
            embedding: Linear::dense(embedding, None),
            head: head.map(|head| Linear::dense(head, None)),
            scale,
            hidden: hidden as usize,
            vocab: vocab as usize,
            layers,
        })
    }

    /// Keeps of the head the first `n` ids alone.
    pub(super) fn keep_first(&mut self, n: i32) -> Result<(), Exception> {
        self.head = Some(self.head.as_ref().unwrap_or(&self.embedding).first(n)?);
        Ok(())
    }

    /// Scaled embedding rows, `[..]` ids to `[.., H]`.
    pub(super) fn embed(&self, ids: &Array, dtype: Dtype) -> Result<Array, Exception> {
        let rows = self.embedding.embed(ids, dtype)?;
        super::drafter::scaled(&rows, self.scale)
    }

    /// Rows of the head, `[..]` ids to `[.., H]`.
    pub(super) fn head_rows(&self, ids: &Array, dtype: Dtype) -> Result<Array, Exception> {
        self.head.as_ref().unwrap_or(&self.embedding).embed(ids, dtype)
    }

    /// Raw logits, `[.., H]` to `[.., V]`.
    pub(super) fn logits(&self, x: &Array) -> Result<Array, Exception> {
        self.head.as_ref().unwrap_or(&self.embedding).forward(x)
    }
}
