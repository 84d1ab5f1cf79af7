//! The state of a recurrent layer (short convolution, gated delta rule, Mamba-2): the last inputs of its convolution and,
//! but for the short convolution, a matrix a head. Every position changes it, so nothing can be taken back from it.
//!
//! Therefore the rows of the last forward stay outside: the state is that *before* them, and what they would do to it is
//! kept beside it, a few rows of inputs. Dropping rows, or keeping those of a path through a draft tree, is choosing among
//! these; the next forward begins by replaying the rows that are left, in the same pass over the state that its own rows
//! make. So a verify and its commit read and write the state once. Source: `spec/speculation.md` §5.2.

use crate::target::Parts;
use mlx_rs::{
    Array, Dtype,
    error::Exception,
    ops::{concatenate, indexing::TryIndexOp, zeros_dtype},
};

type Result<T> = std::result::Result<T, Exception>;

/// Shapes here have a leading axis of one sequence.
#[derive(Debug, Clone)]
pub struct Recurrent {
    /// `[1, kernel - 1, channels]`, before the pending rows. `None`: zeros, nothing has been seen.
    window: Option<Array>,
    /// What the family's recurrence carries, before the pending rows.
    state: Option<Array>,
    pending: Option<Pending>,
    /// Tokens seen, the pending ones included.
    len: usize,
    /// Forwards of more rows than this are taken into the state at once.
    widest: usize,
}

/// Rows that have been computed and may yet be dropped.
#[derive(Debug, Clone)]
struct Pending {
    rows: usize,
    /// Inputs of the convolution, `[1, rows, channels]`, then those of the recurrence, `[1, rows, ..]` each.
    inputs: Vec<Array>,
}

/// What a forward leaves behind.
pub(crate) struct Left {
    /// Left context of the convolution before these rows.
    pub(crate) window: Array,
    /// The state before these rows.
    pub(crate) state: Option<Array>,
    /// As [`Pending::inputs`].
    pub(crate) inputs: Vec<Array>,
}

impl Recurrent {
    pub(super) fn new(widest: usize) -> Self {
        Self {
            window: None,
            state: None,
            pending: None,
            len: 0,
            widest,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Whether a forward of so many rows stays outside the state.
    pub(crate) fn waits(&self, rows: usize) -> bool {
        rows <= self.widest
    }

    /// The state before the pending rows; `None` when nothing has been seen.
    pub(crate) fn state(&self) -> Option<&Array> {
        self.state.as_ref()
    }

    /// Inputs of the recurrence for the pending rows, to be replayed first.
    pub(crate) fn pending(&self) -> Option<&[Array]> {
        self.pending.as_ref().map(|pending| &pending.inputs[1..])
    }

    /// Left context of the next rows' convolution, `[1, kernel - 1, channels]`.
    pub(crate) fn window(&self, kernel: usize, channels: usize, dtype: Dtype) -> Result<Array> {
        let keep = kernel as i32 - 1;
        let before = match &self.window {
            Some(window) => window.clone(),
            None => zeros_dtype(&[1, keep, channels as i32], dtype)?,
        };
        match &self.pending {
            Some(pending) => last(&concatenate(&[&before, &pending.inputs[0]], 1)?, keep),
            None => Ok(before),
        }
    }

    /// After a forward of `rows` rows that [waits](Self::waits).
    pub(crate) fn hold(&mut self, rows: usize, left: Left) {
        self.window = Some(left.window);
        self.state = left.state;
        self.pending = Some(Pending { rows, inputs: left.inputs });
        self.len += rows;
    }

    /// After a forward of `rows` rows: `window` and `state` are those behind them.
    pub(crate) fn take_in(&mut self, rows: usize, window: Array, state: Option<Array>) {
        self.window = Some(window);
        self.state = state;
        self.pending = None;
        self.len += rows;
    }

    /// As if `rows` more had gone by; the state is of fixed size, so its cost is the same.
    pub(super) fn pretend(&mut self, rows: usize) {
        self.pending = None;
        self.len += rows;
    }

    fn held(&self) -> usize {
        self.pending.as_ref().map_or(0, |pending| pending.rows)
    }

    /// Only rows of the last forward can be dropped.
    pub(super) fn trimmable(&self) -> usize {
        self.held()
    }

    pub(super) fn trim(&mut self, n: usize) -> Result<()> {
        let held = self.held();
        let Some(keep) = held.checked_sub(n) else {
            return Err(Exception::custom(format!(
                "cannot drop {n} rows of a recurrent state: it knows the last {held} alone"
            )));
        };
        if n == 0 {
            return Ok(());
        }
        self.len -= n;
        self.keep(keep, |array| array.try_index((.., ..keep as i32)))
    }

    /// Of the last `rows` rows keeps those of `path`.
    pub(super) fn commit(&mut self, rows: usize, path: &[i32]) -> Result<()> {
        let held = self.held();
        if rows != held {
            return Err(Exception::custom(format!(
                "cannot choose among {rows} rows of a recurrent state: it knows the last {held} alone"
            )));
        }
        self.len -= rows - path.len();
        let path = Array::from_slice(path, &[path.len() as i32]);
        self.keep(path.dim(0) as usize, |array| array.take_axis(&path, 1))
    }

    fn keep(&mut self, rows: usize, of: impl Fn(&Array) -> Result<Array>) -> Result<()> {
        self.pending = match self.pending.take() {
            Some(pending) if rows > 0 => Some(Pending {
                rows,
                inputs: pending.inputs.iter().map(of).collect::<Result<_>>()?,
            }),
            _ => None,
        };
        Ok(())
    }

    pub(super) fn export(&self, name: &str, parts: &mut Parts) {
        parts.numbers.insert(format!("{name}.len"), self.len);
        let whole = [("window", &self.window), ("state", &self.state)];
        for (what, array) in whole.into_iter().filter_map(|(what, array)| Some((what, array.as_ref()?))) {
            parts.arrays.insert(format!("{name}.{what}"), array.clone());
        }
        if let Some(pending) = &self.pending {
            parts.numbers.insert(format!("{name}.rows"), pending.rows);
            let inputs = pending.inputs.iter().enumerate();
            parts
                .arrays
                .extend(inputs.map(|(index, input)| (format!("{name}.input{index}"), input.clone())));
        }
    }

    pub(super) fn import(&mut self, name: &str, parts: &mut Parts) -> Result<()> {
        self.len = parts.number(&format!("{name}.len"))?;
        self.window = parts.array(&format!("{name}.window"));
        self.state = parts.array(&format!("{name}.state"));
        let rows = parts.numbers.get(&format!("{name}.rows")).copied();
        self.pending = rows.map(|rows| Pending {
            rows,
            inputs: (0..).map_while(|index| parts.array(&format!("{name}.input{index}"))).collect(),
        });
        if self.pending.as_ref().is_some_and(|pending| pending.inputs.is_empty()) {
            return Err(Exception::custom("a kept recurrent state lacks its last rows"));
        }
        Ok(())
    }

    pub(super) fn arrays(&self) -> Vec<&Array> {
        let pending = self.pending.iter().flat_map(|pending| &pending.inputs);
        self.window.iter().chain(&self.state).chain(pending).collect()
    }
}

/// The last `n` rows, `[1, n, ..]`.
pub(crate) fn last(rows: &Array, n: i32) -> Result<Array> {
    let from = rows.dim(1) - n;
    if from == 0 {
        return Ok(rows.clone());
    }
    rows.try_index((.., from..))
}
