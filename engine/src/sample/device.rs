//! The rule of `shape` in MLX, for any number of rows: thresholds on the device, then a Gumbel draw with a key of
//! the request's own. Nothing here waits for the device.

use super::shape::Shape;
use mlx_rs::{Array, Dtype, error::Exception, ops, ops::indexing, random};

/// Rows above this length are searched for their top k in groups instead of sorted whole.
const GROUPED_ABOVE: i32 = 8192;
const GROUPS: i32 = 256;

/// `[.., V]` logits to log-weights of the truncated distribution: the tempered logit, or -inf where cut.
pub fn truncated(logits: &Array, shape: &Shape) -> Result<Array, Exception> {
    let tempered = logits
        .as_dtype(Dtype::Float32)?
        .divide(Array::from_f32(shape.temperature.max(1e-5)))?;
    if !shape.truncates() {
        return Ok(tempered);
    }
    let p = ops::softmax_axis(&tempered, -1, true)?;
    let vocab = p.dim(-1);
    let mut cut = Array::from_f32(0.0);
    let k = i32::try_from(shape.top_k).unwrap_or(i32::MAX);
    let best = (k > 0 && k < vocab).then(|| top_k(&p, k)).transpose()?;
    if let Some(best) = &best {
        cut = best.min_axis(-1, true)?;
    }
    if shape.top_p < 1.0 {
        // Below the k best values only ties of the k-th remain, and they share its fate.
        let ascending = ops::sort_axis(best.as_ref().unwrap_or(&p), -1)?;
        let before = ascending.cumsum(-1, true, false)?;
        let inside = before.lt(Array::from_f32(shape.top_p))?;
        let floor = ops::select(&inside, &ascending, Array::from_f32(f32::INFINITY))?.min_axis(-1, true)?;
        // With top_p 0 nothing is inside: the best always stays.
        let floor = ops::minimum(&floor, p.max_axis(-1, true)?)?;
        cut = ops::maximum(&cut, &floor)?;
    }
    if shape.min_p > 0.0 {
        let floor = p.max_axis(-1, true)?.multiply(Array::from_f32(shape.min_p))?;
        cut = ops::maximum(&cut, &floor)?;
    }
    ops::select(p.ge(&cut)?, &tempered, Array::from_f32(f32::NEG_INFINITY))
}

/// `[.., V]` logits to probabilities: the rows that lossless acceptance compares.
pub fn probabilities(logits: &Array, shape: &Shape) -> Result<Array, Exception> {
    ops::softmax_axis(truncated(logits, shape)?, -1, true)
}

/// One token id per row, `[..]` u32, by Gumbel-max with this key.
pub fn draw(logits: &Array, shape: &Shape, key: [u32; 2]) -> Result<Array, Exception> {
    let key = Array::from_slice(&key, &[2]);
    random::categorical(truncated(logits, shape)?, -1, None, &key)?.as_dtype(Dtype::Uint32)
}

/// The `k` largest values of each row, in any order. Equal to sorting the row, without sorting all of it.
fn top_k(p: &Array, k: i32) -> Result<Array, Exception> {
    let vocab = p.dim(-1);
    let mut groups = GROUPS;
    // A group must hold k values and the candidates must be few, or nothing is saved.
    while groups > 1 && vocab / groups < 2 * k {
        groups /= 2;
    }
    if vocab <= GROUPED_ABOVE || groups == 1 || groups * k > vocab / 4 {
        return indexing::topk_axis(p, k, -1);
    }
    let width = (vocab + groups - 1) / groups;
    let mut shape = p.shape().to_vec();
    let axes = shape.len();
    let mut padding = vec![(0, 0); axes];
    padding[axes - 1] = (0, width * groups - vocab);
    let padded = ops::pad(p, &padding[..], None, None)?;
    shape.truncate(axes - 1);
    let grouped = padded.reshape(&[&shape[..], &[groups, width]].concat())?;
    let candidates = indexing::topk_axis(&grouped, k, -1)?.reshape(&[&shape[..], &[groups * k]].concat())?;
    indexing::topk_axis(&candidates, k, -1)
}
