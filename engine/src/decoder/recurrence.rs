//! What the recurrent mixers have in common: the pending rows first, then the new ones, then what is left for the next
//! forward. See [`crate::cache::Recurrent`].

use super::{attention::Place, conv::Conv};
use crate::cache::{Left, Recurrent};
use mlx_cpu::{Scan, Steps};
use mlx_rs::{
    Array, Dtype,
    error::Exception,
    ops::{add, exp, log1p, maximum, negative, zeros_dtype},
};

type Result<T> = std::result::Result<T, Exception>;

/// Leaves the rows of this forward, `[1, T, C]`, beside the state before them, or takes them in where they are too many to wait:
/// `state` is then the one behind them.
pub(super) fn leave(
    cache: &mut Recurrent,
    conv: &Conv,
    place: Place<'_>,
    [window, rows]: [Array; 2],
    state: Option<Array>,
    mut inputs: Vec<Array>,
) -> Result<()> {
    if cache.waits(place.rows) {
        inputs.insert(0, rows);
        cache.hold(place.rows, Left { window, state, inputs });
        return Ok(());
    }
    if place.tree.is_some() {
        return Err(Exception::custom(format!(
            "a draft tree of {} rows is more than a recurrent state can take back",
            place.rows
        )));
    }
    let window = conv.next_window(&window, &rows)?;
    cache.take_in(place.rows, window, state);
    Ok(())
}

/// `ln(1 + e^x)` in f32.
pub(super) fn softplus(x: &Array) -> Result<Array> {
    let x = x.as_dtype(Dtype::Float32)?;
    let tail = log1p(exp(negative(x.abs()?)?)?)?;
    add(maximum(&x, Array::from_f32(0.0))?, &tail)
}

fn steps(inputs: &[Array]) -> Result<Steps<'_>> {
    match inputs {
        [keys, values, log_kept, rest @ ..] => Ok(Steps {
            keys,
            values,
            log_kept,
            corrected: rest.first(),
        }),
        _ => Err(Exception::custom("a recurrence has at least three inputs")),
    }
}

/// The recurrence over the pending rows and these, `inputs` being keys, values, logarithms of what is kept and, for the delta
/// rule, shares: those of [`mlx_cpu::Steps`]; `rows` are those of the convolution and `window` what stands before them. Gives the results, `[1, T, H, P]`, and leaves this forward in `cache`.
pub(super) fn recur(
    cache: &mut Recurrent,
    conv: &Conv,
    place: Place<'_>,
    [window, rows]: [Array; 2],
    states: [i32; 4],
    queries: &Array,
    inputs: Vec<Array>,
) -> Result<Array> {
    let behind = !cache.waits(place.rows);
    let scan = Scan {
        pending: cache.pending().map(steps).transpose()?,
        rows: steps(&inputs)?,
        queries,
        parents: place.tree.map(|tree| tree.parents),
        behind,
    };
    let state = match cache.state() {
        Some(state) => state.clone(),
        None => zeros_dtype(&states, Dtype::Float32)?,
    };
    let (results, state) = mlx_cpu::scan(state, &scan)?;
    leave(cache, conv, place, [window, rows], Some(state), inputs)?;
    Ok(results)
}
