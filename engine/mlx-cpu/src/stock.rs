//! The same operations composed of MLX's own: for Metal and CUDA, and wherever a kernel does not apply.

use crate::{Backend, Mask, Result, backend, host};
use mlx_rs::{
    Array, Dtype,
    error::Exception,
    fast::{self, ScaledDotProductAttentionMask},
    ops::{self, indexing::TryIndexOp},
};

pub(crate) fn four(a: &Array) -> Result<[i32; 4]> {
    a.shape()
        .try_into()
        .map_err(|_| Exception::custom(format!("expected [B, H, L, D], not {:?}", a.shape())))
}

/// Of a type that kernels read.
pub(crate) fn float(a: &Array) -> bool {
    matches!(a.dtype(), Dtype::Float32 | Dtype::Float16 | Dtype::Bfloat16)
}

/// A value a row, `[B * L]`, from `[L]` or `[B * L]`.
pub(crate) fn per_row(each: &[i32], b: i32, l: i32) -> Result<Vec<i32>> {
    if each.len() == (b * l) as usize {
        Ok(each.to_vec())
    } else if each.len() == l as usize {
        Ok(each.repeat(b as usize))
    } else {
        Err(Exception::custom(format!("{} entries for {b} sequences of {l} rows", each.len())))
    }
}

pub(crate) fn zeros(shape: &[i32], dtype: Dtype) -> Result<Array> {
    ops::zeros_dtype(shape, dtype)
}

/// Positions `from..to` of `[B, H, positions, D]`.
pub(crate) fn positions(a: &Array, from: i32, to: i32) -> Result<Array> {
    if from == 0 && to == a.shape()[2] {
        Ok(a.clone())
    } else {
        a.try_index((.., .., from..to))
    }
}

/// The first `len` positions in an array with room for `capacity`.
pub(crate) fn grow(a: &Array, len: i32, capacity: i32) -> Result<Array> {
    let [b, h, _, d] = four(a)?;
    let wide = zeros(&[b, h, capacity, d], a.dtype())?;
    if len == 0 {
        Ok(wide)
    } else {
        write(wide, &positions(a, 0, len)?, 0, len)
    }
}

/// `rows` at positions `from..to`. The array is taken by value, so its buffer can be handed on.
pub(crate) fn write(a: Array, rows: &Array, from: i32, to: i32) -> Result<Array> {
    let [b, h, _, d] = four(&a)?;
    if rows.shape() != [b, h, to - from, d] {
        return Err(Exception::custom(format!("KvCache: rows {:?} for {:?}", rows.shape(), a.shape())));
    }
    let rows = if rows.dtype() == a.dtype() {
        rows.clone()
    } else {
        rows.as_dtype(a.dtype())?
    };
    host::slice_update(&a, &rows, &[0, 0, from, 0], &[b, h, to, d])
}

/// Rows `base + path[i]` moved to `base + i`.
pub(crate) fn gather(a: Array, base: i32, path: &[i32]) -> Result<Array> {
    let from: Vec<i32> = path.iter().map(|p| base + p).collect();
    let rows = a.take_axis(Array::from_slice(&from, &[from.len() as i32]), 2)?;
    write(a, &rows, base, base + path.len() as i32)
}

/// Depth of each node below the context: 0 for its children.
pub(crate) fn depths(parents: &[i32]) -> Result<Vec<i32>> {
    let mut depths = Vec::with_capacity(parents.len());
    for (i, &parent) in parents.iter().enumerate() {
        if parent >= i as i32 || parent < -1 {
            return Err(Exception::custom(format!(
                "Mask::Tree: node {i} has parent {parent}; parents come before their children"
            )));
        }
        depths.push(if parent < 0 { 0 } else { depths[parent as usize] + 1 });
    }
    Ok(depths)
}

/// Which of `total` keys each of the last `l` rows sees: `[L, total]`, row-major.
fn visible(mask: Mask, l: i32, total: i32) -> Result<Vec<bool>> {
    let offset = total - l;
    let mut seen = vec![false; (l * total) as usize];
    let rows = seen.chunks_exact_mut(total as usize);
    match mask {
        Mask::Full => seen.fill(true),
        Mask::Causal | Mask::Sliding(_) => {
            let window = if let Mask::Sliding(window) = mask { window } else { i32::MAX };
            for (i, row) in rows.enumerate() {
                let at = offset + i as i32;
                (0..=at).filter(|t| at - t < window).for_each(|t| row[t as usize] = true);
            }
        }
        Mask::Tree { parents, window } => {
            let (depths, window) = (depths(parents)?, window.unwrap_or(i32::MAX));
            for (i, row) in rows.enumerate() {
                let at = offset + depths[i];
                (0..offset).filter(|t| at - t < window).for_each(|t| row[t as usize] = true);
                let mut node = i as i32;
                while node >= 0 {
                    row[(offset + node) as usize] = depths[i] - depths[node as usize] < window;
                    node = parents[node as usize];
                }
            }
        }
    }
    Ok(seen)
}

/// Query rows that MLX's vector kernel on CUDA takes at once, and those for which calls of so many are faster than its general path,
/// which is a dozen kernels.
const VECTOR_ROWS: i32 = 3;
const VECTOR_MOST: i32 = 9;

fn threes(rows: i32) -> bool {
    (VECTOR_ROWS + 1..=VECTOR_MOST).contains(&rows) && backend() == Backend::Cuda
}

/// Causal attention of a few rows, three at a time, each three over the keys that they see.
fn in_threes(q: &Array, k: &Array, v: &Array, scale: f32, sinks: Option<&Array>) -> Result<Array> {
    let (l, total) = (q.shape()[2], k.shape()[2]);
    let parts = (0..l)
        .step_by(VECTOR_ROWS as usize)
        .map(|from| {
            let to = (from + VECTOR_ROWS).min(l);
            let seen = total - l + to;
            let rows = q.try_index((.., .., from..to, ..))?;
            let (k, v) = (k.try_index((.., .., ..seen, ..))?, v.try_index((.., .., ..seen, ..))?);
            let mask = (to - from > 1).then_some(ScaledDotProductAttentionMask::Causal);
            fast::scaled_dot_product_attention(&rows, &k, &v, scale, mask, sinks)
        })
        .collect::<Result<Vec<_>>>()?;
    ops::concatenate(&parts, 2)
}

pub(crate) fn attend(q: &Array, k: &Array, v: &Array, mask: Mask, scale: f32, sinks: Option<&Array>) -> Result<Array> {
    let ([b, _, l, _], total) = (four(q)?, k.shape()[2]);
    let cast = |a: &Array| {
        if a.dtype() == q.dtype() {
            Ok(a.clone())
        } else {
            a.as_dtype(q.dtype())
        }
    };
    let (k, v, sinks) = (cast(k)?, cast(v)?, sinks.map(cast).transpose()?);
    let sinks = sinks.as_ref();
    let whole = match mask {
        Mask::Full => true,
        Mask::Causal => l == 1,
        Mask::Sliding(window) => l == 1 && window >= total,
        Mask::Tree { .. } => false,
    };
    if whole {
        return fast::scaled_dot_product_attention(q, &k, &v, scale, None, sinks);
    }
    let array = match mask {
        Mask::Causal if threes(l) => return in_threes(q, &k, &v, scale, sinks),
        Mask::Causal => return fast::scaled_dot_product_attention(q, &k, &v, scale, ScaledDotProductAttentionMask::Causal, sinks),
        Mask::Sliding(window) if window >= total && threes(l) => return in_threes(q, &k, &v, scale, sinks),
        Mask::Tree { parents, window } => {
            let parents = per_row(parents, b, l)?;
            let mut all = Vec::with_capacity((b * l * total) as usize);
            for parents in parents.chunks_exact(l as usize) {
                all.extend(visible(Mask::Tree { parents, window }, l, total)?);
            }
            Array::from_slice(&all, &[b, 1, l, total])
        }
        _ => Array::from_slice(&visible(mask, l, total)?, &[1, 1, l, total]),
    };
    fast::scaled_dot_product_attention(q, &k, &v, scale, &array, sinks)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use mlx_rs::random;

    /// What runs on CUDA, on whatever this is.
    #[test]
    fn three_rows_at_a_time_see_what_all_would() {
        let normal = |shape: &[i32], key: u64| random::normal::<f32>(shape, None, None, &random::key(key).unwrap()).unwrap();
        let (k, v) = (normal(&[1, 2, 20, 32], 2), normal(&[1, 2, 20, 32], 3));
        for l in 2..=9 {
            let q = normal(&[1, 4, l, 32], 1);
            let whole = fast::scaled_dot_product_attention(&q, &k, &v, 0.2, ScaledDotProductAttentionMask::Causal, None).unwrap();
            let parts = in_threes(&q, &k, &v, 0.2, None).unwrap();
            assert_eq!(parts.shape(), whole.shape());
            let off = ops::max(ops::abs(&parts - &whole).unwrap(), None).unwrap().item_cast::<f32>();
            assert!(off < 1e-5, "{l} rows: {off}");
        }
    }
}
