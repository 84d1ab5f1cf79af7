//! The recurrences from MLX's own operations: the delta rule row by row, the plain one in chunks where rows are a chain.

use super::{Scan, Steps};
use crate::Result;
use mlx_rs::{
    Array, Dtype,
    error::Exception,
    ops::{add, concatenate, exp, indexing::TryIndexOp, matmul, multiply, repeat_axis, select, stack, subtract, sum_axis, tri},
};

/// Rows that are taken at once: the products between them grow with the square.
const CHUNK: i32 = 64;

pub(super) fn scan(state: &Array, scan: &Scan) -> Result<(Array, Array)> {
    let heads = state.dim(1);
    let before = match scan.pending {
        Some(pending) if pending.corrected.is_some() => {
            let rows = rows(pending, heads)?;
            rows.iter().try_fold(state.clone(), |state, row| row.step(&state))?
        }
        Some(pending) => Chunk::new(pending, heads)?.behind(state)?,
        None => state.clone(),
    };
    if scan.rows.corrected.is_none() && scan.parents.is_none() {
        return chunked(before, scan, heads);
    }
    let mut states: Vec<Array> = Vec::new();
    let mut results = Vec::new();
    let queries = split(&spread(scan.queries, heads)?, &[-2])?;
    for (at, (row, query)) in rows(scan.rows, heads)?.iter().zip(&queries).enumerate() {
        let parent = match scan.parents {
            Some(parents) => usize::try_from(parents[at]).ok(),
            None => at.checked_sub(1),
        };
        let from = match parent {
            None => &before,
            Some(parent) => states
                .get(parent)
                .ok_or_else(|| Exception::custom("scan: parents come before their children"))?,
        };
        let behind = row.step(from)?;
        results.push(sum_axis(&multiply(&behind, query)?, -1, false)?);
        states.push(behind);
    }
    let wanted = if scan.behind { states.pop().unwrap_or(before) } else { before };
    Ok((stack(&results, 1)?, wanted))
}

/// Keys or queries for each head: `[1, T, G, N]` to `[1, T, H, N]`.
fn spread(keys: &Array, heads: i32) -> Result<Array> {
    match heads / keys.dim(2) {
        1 => Ok(keys.clone()),
        share => repeat_axis::<f32>(keys.clone(), share, 2),
    }
}

/// Row by row, `[1, ..]` each, with more axes.
fn split(rows: &Array, axes: &[i32]) -> Result<Vec<Array>> {
    let rows = rows.split_equal(rows.dim(1), 1)?;
    rows.iter().map(|row| row.squeeze_axes(&[1])?.expand_dims_axes(axes)).collect()
}

/// One position: key `[1, H, 1, N]`, value `[1, H, P, 1]`, and `[1, H, 1, 1]` each.
struct Row {
    key: Array,
    value: Array,
    kept: Array,
    corrected: Option<Array>,
}

fn rows(steps: Steps, heads: i32) -> Result<Vec<Row>> {
    let keys = split(&spread(steps.keys, heads)?, &[-2])?;
    let values = split(steps.values, &[-1])?;
    let kept = split(&exp(steps.log_kept)?, &[-1, -2])?;
    let corrected = steps.corrected.map(|corrected| split(corrected, &[-1, -2])).transpose()?;
    let rows = keys.into_iter().zip(values).zip(kept).enumerate();
    Ok(rows
        .map(|(at, ((key, value), kept))| Row {
            key,
            value,
            kept,
            corrected: corrected.as_ref().map(|all| all[at].clone()),
        })
        .collect())
}

impl Row {
    fn step(&self, state: &Array) -> Result<Array> {
        let faded = multiply(state, &self.kept)?;
        let taken = match &self.corrected {
            Some(corrected) => {
                let held = sum_axis(&multiply(&faded, &self.key)?, -1, true)?;
                multiply(corrected, subtract(&self.value, &held)?)?
            }
            None => self.value.clone(),
        };
        add(&faded, multiply(&taken, &self.key)?)
    }
}

fn chunked(mut state: Array, scan: &Scan, heads: i32) -> Result<(Array, Array)> {
    let (before, length) = (state.clone(), scan.queries.dim(1));
    let mut results = Vec::new();
    for from in (0..length).step_by(CHUNK as usize) {
        let to = length.min(from + CHUNK);
        let part = |array: &Array| array.try_index((.., from..to));
        let (keys, values, log_kept) = (part(scan.rows.keys)?, part(scan.rows.values)?, part(scan.rows.log_kept)?);
        let steps = Steps {
            keys: &keys,
            values: &values,
            log_kept: &log_kept,
            corrected: None,
        };
        let chunk = Chunk::new(steps, heads)?;
        results.push(chunk.results(&spread(&part(scan.queries)?, heads)?, &state)?);
        state = chunk.behind(&state)?;
    }
    let results = concatenate(&results, 1)?;
    Ok((results, if scan.behind { state } else { before }))
}

/// A few rows at once, heads first: what a row has of an earlier one is `query · key` times what is kept between them.
struct Chunk {
    /// `[1, H, T, N]`.
    keys: Array,
    /// `[1, H, T, P]`.
    values: Array,
    /// Sums of the logarithms up to each row, `[1, H, T]`.
    kept: Array,
}

impl Chunk {
    fn new(steps: Steps, heads: i32) -> Result<Self> {
        Ok(Self {
            keys: spread(steps.keys, heads)?.swap_axes(1, 2)?,
            values: steps.values.swap_axes(1, 2)?,
            kept: steps.log_kept.swap_axes(1, 2)?.cumsum(-1, false, true)?,
        })
    }

    /// `queries`: `[1, T, H, N]`; gives `[1, T, H, P]`.
    fn results(&self, queries: &Array, state: &Array) -> Result<Array> {
        let (queries, length) = (queries.swap_axes(1, 2)?, self.kept.dim(-1));
        let between = subtract(self.kept.expand_dims(-1)?, self.kept.expand_dims(-2)?)?;
        let seen = tri::<f32>(length, None, None)?.as_dtype(Dtype::Bool)?;
        let between = select(&seen, &between, Array::from_f32(f32::NEG_INFINITY))?;
        let weights = multiply(matmul(&queries, self.keys.swap_axes(-1, -2)?)?, exp(&between)?)?;
        let own = matmul(&weights, &self.values)?;
        let old = multiply(matmul(&queries, state.swap_axes(-1, -2)?)?, exp(&self.kept)?.expand_dims(-1)?)?;
        add(&own, &old)?.swap_axes(1, 2)
    }

    /// `[1, H, P, N]`.
    fn behind(&self, state: &Array) -> Result<Array> {
        let last = self.kept.try_index((.., .., -1..))?;
        let share = exp(subtract(&last, &self.kept)?)?.expand_dims(-1)?;
        let taken = matmul(multiply(&self.values, &share)?.swap_axes(-1, -2)?, &self.keys)?;
        add(&taken, multiply(state, exp(&last)?.expand_dims(-1)?)?)
    }
}
