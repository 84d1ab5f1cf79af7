//! The drafter's side of a sequence: the context that it holds of what the target has committed.

use crate::drafters::{Context, Drafter, DrafterError};
use mlx_rs::{Array, error::Exception, ops::concatenate};

/// Rows that plain steps may leave unprojected before the drafter takes them in: projecting many at once costs little
/// more than projecting one.
const PENDING: usize = 32;

/// A drafter with its context of one sequence. The context, with the rows that are still pending, always covers exactly
/// the tokens that the target's cache holds.
pub(crate) struct Companion<'a> {
    pub(crate) drafter: &'a Drafter,
    context: Context,
    pending: Vec<Array>,
    pending_rows: usize,
}

impl<'a> Companion<'a> {
    pub(crate) fn new(drafter: &'a Drafter, context: Context) -> Self {
        Self {
            drafter,
            context,
            pending: Vec::new(),
            pending_rows: 0,
        }
    }

    /// Layers whose outputs it reads.
    pub(crate) fn taps(&self) -> &'a [usize] {
        &self.drafter.spec().taps
    }

    /// Takes in the features of committed rows, `[1, T, taps · H]`; they are projected when the drafter is next asked,
    /// or when they are many.
    pub(crate) fn take(&mut self, features: Array) -> Result<(), Exception> {
        self.pending_rows += features.dim(1) as usize;
        self.pending.push(features);
        if self.pending_rows >= PENDING { self.flush() } else { Ok(()) }
    }

    /// Projects what is pending.
    pub(crate) fn flush(&mut self) -> Result<(), Exception> {
        let pending = std::mem::take(&mut self.pending);
        self.pending_rows = 0;
        let features = match &pending[..] {
            [] => return Ok(()),
            [one] => one.clone(),
            _ => concatenate(&pending, 1)?,
        };
        self.drafter.commit(&features, &mut self.context).map_err(failed)
    }

    /// The context for a draft, with nothing pending.
    pub(crate) fn context(&mut self) -> Result<&mut Context, Exception> {
        self.flush()?;
        Ok(&mut self.context)
    }

    /// Of the context, with nothing pending. See [`Context::checkpoint`].
    pub(crate) fn checkpoint(&mut self) -> Result<Context, Exception> {
        self.flush()?;
        Ok(self.context.checkpoint())
    }

    /// Forgets every row after the first `len`.
    pub(crate) fn rewind_to(&mut self, len: usize) -> Result<(), Exception> {
        self.flush()?;
        self.context.trim(self.context.len().saturating_sub(len))
    }

    /// Arrays to evaluate: the context's, and what is pending.
    pub(crate) fn arrays(&self) -> Vec<&Array> {
        self.context.arrays().into_iter().chain(&self.pending).collect()
    }

    /// Ends the sequence: the context, to be kept beside the target's cache.
    pub(crate) fn into_context(mut self) -> Option<Context> {
        self.flush().ok()?;
        Some(self.context)
    }
}

pub(crate) fn failed(error: DrafterError) -> Exception {
    match error {
        DrafterError::Compute(exception) => exception,
        other => Exception::custom(other.to_string()),
    }
}
