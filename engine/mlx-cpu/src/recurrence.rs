//! The recurrences of linear attention: a matrix a head that fades and takes in each row's outer product, the gated delta rule
//! (Qwen3.5) after subtracting what it holds for the key already, Mamba-2 as it is.

mod stock;

use crate::{
    Result,
    host::{self, Output, ours},
    kernel::recurrence as kernel,
    stock::four,
};
use mlx_rs::{Array, Dtype, error::Exception};

/// Rows of a recurrence, f32, one sequence. Head `h` of `H` has the keys of group `h · G / H`.
#[derive(Debug, Clone, Copy)]
pub struct Steps<'a> {
    /// `[1, T, G, N]`.
    pub keys: &'a Array,
    /// `[1, T, H, P]`.
    pub values: &'a Array,
    /// Logarithm of the share of the state that a row keeps, `[1, T, H]`.
    pub log_kept: &'a Array,
    /// The delta rule: a row brings what the state gives for its key towards its value by this share, `[1, T, H]`. `None`: a row
    /// adds its value.
    pub corrected: Option<&'a Array>,
}

/// What [`scan`] runs over.
#[derive(Debug, Clone, Copy)]
pub struct Scan<'a> {
    /// Rows that come first and give no result: what an earlier call has left for this one.
    pub pending: Option<Steps<'a>>,
    pub rows: Steps<'a>,
    /// `[1, T, G, N]`.
    pub queries: &'a Array,
    /// For a draft tree the row of each row's parent, or -1 for a child of what the pending rows leave.
    pub parents: Option<&'a [i32]>,
    /// Which state is wanted: that behind the rows (of a chain), or that before them.
    pub behind: bool,
}

/// Each row, with `S` `[P, N]` a head: `S ← kept · S`, then `S ← S + (value or corrected · (value - S key)) keyᵀ`, then the result is
/// `S query`. `state`: `[1, H, P, N]`. Gives the results, `[1, T, H, P]`, and the state that is wanted. All f32.
///
/// On the CPU the state is read and written once, pending rows included, and a row's result does not depend on which of the rows
/// before it were pending.
pub fn scan(state: Array, scan: &Scan) -> Result<(Array, Array)> {
    let [batch, heads, dim, _] = four(&state)?;
    let (length, groups) = (scan.queries.dim(1), scan.queries.dim(2));
    if batch != 1 || groups <= 0 || heads % groups != 0 {
        return Err(Exception::custom(format!(
            "scan: states {:?} for queries {:?} of one sequence",
            state.shape(),
            scan.queries.shape()
        )));
    }
    if scan.parents.is_some_and(|parents| parents.len() != length as usize || scan.behind) {
        return Err(Exception::custom(
            "scan: a tree has a parent for each row, and no state behind them all",
        ));
    }
    if !(ours() && fits(&state, scan)) {
        return stock::scan(&state, scan);
    }
    let mut inputs = vec![&state, scan.queries];
    for steps in [Some(scan.rows), scan.pending].into_iter().flatten() {
        inputs.extend([steps.keys, steps.values, steps.log_kept]);
        inputs.extend(steps.corrected);
    }
    let flag = i64::from;
    let mut params = vec![
        flag(scan.pending.is_some()),
        flag(scan.rows.corrected.is_some()),
        flag(scan.behind),
        flag(scan.parents.is_some()),
    ];
    params.extend(scan.parents.unwrap_or_default().iter().map(|parent| i64::from(*parent)));
    let outputs = [
        Output {
            shape: &[1, length, heads, dim],
            dtype: Dtype::Float32,
            donor: None,
        },
        Output {
            shape: state.shape(),
            dtype: Dtype::Float32,
            donor: Some(0),
        },
    ];
    let [results, state] = host::op(c"CpuScan", kernel::scan, &inputs, outputs, &params)?;
    Ok((results, state))
}

/// There is a kernel for these.
fn fits(state: &Array, scan: &Scan) -> bool {
    let (dim, width) = (state.dim(2) as usize, state.dim(3) as usize);
    let steps = [Some(scan.rows), scan.pending].into_iter().flatten();
    let arrays = steps.flat_map(|steps| [Some(steps.keys), Some(steps.values), Some(steps.log_kept), steps.corrected]);
    let mut all = arrays.flatten().chain([state, scan.queries]);
    dim.is_multiple_of(kernel::BLOCK) && width.is_multiple_of(8) && all.all(|array| array.dtype() == Dtype::Float32 && array.size() > 0)
}
