//! The seam between the engine thread and a decoder: one forward for a chain, a tree and a batch.

use crate::drafters::Ends;
use mlx_rs::{Array, error::Exception};
use std::collections::BTreeMap;

/// Which rows of the vocabulary projection a forward computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Logits {
    /// No projection: inner chunks of a prefill.
    None,
    /// The last row only: the end of a prefill.
    Last,
    /// Every row: a step or a verify.
    All,
}

/// The rows of one forward. A chain is a tree with one child per node: `parents` is then `None`.
#[derive(Debug, Clone)]
pub struct Rows<'a> {
    /// Token ids, `[1, T]`, u32; may be lazy.
    pub tokens: &'a Array,
    /// For a tree: the index of each row's parent among these rows, or -1 for a child of the cache's end. Row
    /// `i`'s position is the cache length plus its depth; it sees the cache and its ancestors.
    pub parents: Option<&'a [i32]>,
    pub logits: Logits,
    /// Layers whose residual stream (after the layer, before the final norm) to return, ascending.
    pub taps: &'a [usize],
}

impl<'a> Rows<'a> {
    /// A chain without taps.
    pub fn chain(tokens: &'a Array, logits: Logits) -> Self {
        Self {
            tokens,
            parents: None,
            logits,
            taps: &[],
        }
    }
}

/// What a forward gives back; all lazy.
#[derive(Debug)]
pub struct Output {
    /// `[1, T, V]` f32-convertible final logits (after multiplier and softcap), `[1, 1, V]`, or `None`.
    pub logits: Option<Array>,
    /// `[1, T, taps·H]` in tap order; `None` without taps.
    pub features: Option<Array>,
}

/// A cache taken apart, to be kept outside memory: arrays and numbers by name.
#[derive(Debug, Default)]
pub struct Parts {
    pub arrays: BTreeMap<String, Array>,
    pub numbers: BTreeMap<String, usize>,
}

impl Parts {
    pub(crate) fn array(&mut self, name: &str) -> Option<Array> {
        self.arrays.remove(name)
    }

    /// # Errors
    /// There is none of this name.
    pub(crate) fn number(&self, name: &str) -> Result<usize, Exception> {
        let missing = || Exception::custom(format!("a kept cache lacks `{name}`"));
        self.numbers.get(name).copied().ok_or_else(missing)
    }
}

/// The per-layer state of one sequence.
pub trait Cache: std::any::Any {
    /// Tokens it holds.
    fn len(&self) -> usize;
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Drops the last `n` tokens. Exact for every kind of layer.
    ///
    /// # Errors
    /// When the rows to drop are no longer known (a recurrent state without capture, a window that has moved on).
    fn trim(&mut self, n: usize) -> Result<(), Exception>;
    /// After a tree forward of `rows` rows: keep this path (row indices, root first), drop the other rows.
    fn commit(&mut self, rows: usize, path: &[usize]) -> Result<(), Exception>;
    /// Whether `trim` works for any number of tokens, so that prefixes can be reused.
    fn trimmable(&self) -> bool;
    /// Appends `rows` empty positions, as if they had been computed: for timing a long context without filling it.
    ///
    /// # Errors
    /// Where this kind of state cannot be made up.
    fn pretend(&mut self, rows: usize) -> Result<(), Exception> {
        Err(Exception::custom(format!(
            "{rows} empty positions cannot be made up for this kind of cache"
        )))
    }
    /// A copy to go back to, cheap until either is appended to; `None` where there is none.
    fn snapshot(&self) -> Option<Box<dyn Cache>> {
        None
    }
    /// How many tokens [`Self::trim`] can drop now.
    fn droppable(&self) -> usize {
        if self.trimmable() { self.len() } else { 0 }
    }
    /// Whether some layer cannot go back to any earlier position, so that checkpoints are worth taking.
    fn rigid(&self) -> bool {
        false
    }
    /// What of the present state trimming cannot bring back: layers with a window or a recurrent state. `None` where
    /// there is nothing of the kind. Small, whatever the length.
    fn checkpoint(&self) -> Option<Box<dyn Cache>> {
        None
    }
    /// Goes back to where a checkpoint of this sequence, or of one that begins alike, was taken.
    ///
    /// # Errors
    /// When it is of another kind of cache, or of a longer text.
    fn restore(&mut self, checkpoint: &dyn Cache) -> Result<(), Exception> {
        let _ = checkpoint;
        Err(Exception::custom("this kind of cache knows no checkpoints"))
    }
    /// Lets go of buffers that are shared with the cache this was copied from, but for what it holds itself.
    fn detach(&mut self) -> Result<(), Exception> {
        Ok(())
    }
    /// Takes it apart under names that begin with `name`; false where it cannot be.
    fn export(&self, name: &str, parts: &mut Parts) -> Result<bool, Exception> {
        let _ = (name, parts);
        Ok(false)
    }
    /// Puts what [`Self::export`] took apart into a new, empty cache of the same model.
    ///
    /// # Errors
    /// When a part is missing.
    fn import(&mut self, name: &str, parts: &mut Parts) -> Result<(), Exception> {
        let _ = (name, parts);
        Err(Exception::custom("this kind of cache cannot be put together from parts"))
    }
    /// Arrays to evaluate between prefill chunks.
    fn arrays(&self) -> Vec<&Array>;
    /// Bytes held.
    fn bytes(&self) -> usize;
}

/// A loaded decoder. Lives on the engine thread.
pub trait Target {
    fn vocab(&self) -> usize;
    /// Tokens its positions allow.
    fn max_context(&self) -> usize;
    fn layers(&self) -> usize;
    fn new_cache(&self) -> Box<dyn Cache>;
    /// Appends the rows to the cache and computes their outputs, lazily.
    fn forward(&self, rows: &Rows<'_>, cache: &mut dyn Cache) -> Result<Output, Exception>;
    /// Its raw embedding and head, for a drafter to borrow; `None` when it lends none.
    fn ends(&self) -> Option<Ends> {
        None
    }
}
