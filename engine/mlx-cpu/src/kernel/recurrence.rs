//! The recurrences of linear attention. Rows of a head's state do not touch each other: a block of them goes through all
//! positions in a buffer of this thread, and the state is read and written once.

use super::{
    elementwise::{exp, with_buffer},
    entry::{Call, Outcome, Rows, entry, shape},
    pool,
    simd::{Float, Isa, dispatch},
};
use mlx_sys::mlx_host_view as View;

/// Rows of a state that share the loads of a key.
pub(crate) const BLOCK: usize = 4;

dispatch! {
    /// One position for a block of rows of a state, `n` wide each: they fade to `kept`, then take in `value` times `key`, or with
    /// `delta` the share `corrected` of what `value` differs from what they hold for `key`. `y` is their product with `query`,
    /// where it is not null.
    fn step[](s: *mut f32, key: *const f32, query: *const f32, value: *const f32, kept: f32, corrected: f32, delta: bool, y: *mut f32, n: usize) {
        let (g, none) = (V::splat(kept), V::zero());
        let mut taken = [0.0; BLOCK];
        if delta {
            let mut held = [none; BLOCK];
            for i in (0..n).step_by(V::LANES) {
                let k = V::load(key.add(i));
                for r in 0..BLOCK {
                    let faded = V::fma(V::load(s.add(r * n + i)), g, none);
                    held[r] = V::fma(faded, k, held[r]);
                }
            }
            let held = V::sum4(held);
            for r in 0..BLOCK {
                taken[r] = corrected * (*value.add(r) - held[r]);
            }
        } else {
            for r in 0..BLOCK {
                taken[r] = *value.add(r);
            }
        }
        let taken = [V::splat(taken[0]), V::splat(taken[1]), V::splat(taken[2]), V::splat(taken[3])];
        let mut sums = [none; BLOCK];
        for i in (0..n).step_by(V::LANES) {
            let k = V::load(key.add(i));
            let q = if y.is_null() { none } else { V::load(query.add(i)) };
            for r in 0..BLOCK {
                let at = s.add(r * n + i);
                let now = V::fma(taken[r], k, V::fma(V::load(at), g, none));
                V::store(at, now);
                sums[r] = V::fma(now, q, sums[r]);
            }
        }
        if !y.is_null() {
            let sums = V::sum4(sums);
            for r in 0..BLOCK {
                *y.add(r) = sums[r];
            }
        }
    }
}

entry!(scan, run_scan);

/// Rows of a recurrence, checked.
struct Steps<'a> {
    keys: Rows<'a>,
    values: Rows<'a>,
    kept: Rows<'a>,
    corrected: Option<Rows<'a>>,
    len: usize,
}

/// Rows of f32 without gaps.
fn rows(view: &View) -> Result<Rows<'_>, String> {
    let rows = Rows::new(view)?;
    if rows.kind != Float::F32 || !(rows.width == 1 || view.strides[view.ndim as usize - 1] == 1) {
        return Err(format!(
            "rows of f32 are expected, not type {} of shape {:?}",
            view.dtype,
            shape(view)
        ));
    }
    Ok(rows)
}

impl<'a> Steps<'a> {
    fn read(views: &mut impl Iterator<Item = &'a View>, delta: bool, [groups, heads, dim, n]: [usize; 4]) -> Result<Self, String> {
        let mut next = || rows(views.next().ok_or("scan: an input is missing")?);
        let (keys, values, kept) = (next()?, next()?, next()?);
        let corrected = if delta { Some(next()?) } else { None };
        let len = kept.count;
        let fits = (keys.count, keys.width, values.count, values.width, kept.width) == (len * groups, n, len * heads, dim, heads);
        if !fits || corrected.as_ref().is_some_and(|rows| (rows.count, rows.width) != (len, heads)) {
            return Err(format!(
                "scan: {len} rows with {} keys and {} values do not fit states of {heads} x {dim} x {n}",
                keys.count, values.count
            ));
        }
        Ok(Self {
            keys,
            values,
            kept,
            corrected,
            len,
        })
    }

    /// Key, value (from `dim` on), what is kept and what is corrected at position `t` for head `h` of group `g`.
    unsafe fn at(&self, t: usize, [groups, g, heads, h]: [usize; 4], dim: usize) -> (*const f32, *const f32, f32, f32) {
        let number = |rows: &Rows<'_>| *rows.start(t).cast::<f32>().add(h);
        (
            self.keys.start(t * groups + g).cast(),
            self.values.start(t * heads + h).cast::<f32>().add(dim),
            exp(number(&self.kept)),
            self.corrected.as_ref().map_or(0.0, number),
        )
    }
}

/// Inputs: state `[1, H, P, N]`, queries `[1, T, G, N]`, keys, values, logarithms and perhaps shares of the rows, then of the
/// pending ones. Parameters: whether there are pending rows, shares, whether the state behind the rows is wanted, whether parents
/// follow. Outputs: results `[1, T, H, P]` and the state.
unsafe fn run_scan(call: &Call) -> Outcome {
    let ([state, queries, rest @ ..], [y, wanted]) = (call.inputs, call.outputs) else {
        return Err("scan: an input is missing".into());
    };
    let &[pending, delta, behind, tree, ref parents @ ..] = call.params else {
        return Err("scan: the parameters are cut off".into());
    };
    let (&[_, heads, dim, n], &[_, len, groups, _]) = (shape(state), shape(queries)) else {
        return Err("scan: shapes".into());
    };
    let (heads, dim, n, len, groups) = (heads as usize, dim as usize, n as usize, len as usize, groups as usize);
    let (old, new, q, out) = (rows(state)?, rows(wanted)?, rows(queries)?, rows(y)?);
    let sizes = [groups, heads, dim, n];
    let mut views = rest.iter();
    let steps = Steps::read(&mut views, delta != 0, sizes)?;
    let first = if pending != 0 {
        Some(Steps::read(&mut views, delta != 0, sizes)?)
    } else {
        None
    };
    let fits = steps.len == len && q.width == n && old.count == new.count && out.count == len * heads && out.width == dim;
    if !fits || dim % BLOCK != 0 || n % 8 != 0 {
        return Err(format!("scan: {len} rows for states of {heads} x {dim} x {n}"));
    }
    let tree = (tree != 0).then_some(parents);
    if tree.is_some_and(|parents| parents.len() != len || (0..len).any(|i| parents[i] >= i as i64 || parents[i] < -1)) {
        return Err("scan: parents come before their children".into());
    }
    let (isa, size) = (Isa::detect(), BLOCK * n);
    // A tree keeps the state behind each of its rows.
    let kept = if tree.is_some() { len + 1 } else { 1 };
    pool::each(heads, &|h| {
        let g = h * groups / heads;
        with_buffer(kept * size, |buffer| {
            for d in (0..dim).step_by(BLOCK) {
                let all = |rows: &Rows<'_>, r: usize| rows.start(h * dim + d + r).cast_mut().cast::<f32>();
                for r in 0..BLOCK {
                    all(&old, r).copy_to_nonoverlapping(buffer.add(r * n), n);
                }
                let save = || {
                    for r in 0..BLOCK {
                        buffer.add(r * n).copy_to_nonoverlapping(all(&new, r), n);
                    }
                };
                for t in 0..first.as_ref().map_or(0, |first| first.len) {
                    let Some(first) = &first else { break };
                    let (key, value, kept, share) = first.at(t, [groups, g, heads, h], d);
                    step(
                        isa,
                        buffer,
                        key,
                        std::ptr::null(),
                        value,
                        kept,
                        share,
                        delta != 0,
                        std::ptr::null_mut(),
                        n,
                    );
                }
                if behind == 0 {
                    save();
                }
                for t in 0..len {
                    let now = match tree {
                        Some(parents) => {
                            let now = buffer.add((t + 1) * size);
                            buffer.add((parents[t] + 1) as usize * size).copy_to_nonoverlapping(now, size);
                            now
                        }
                        None => buffer,
                    };
                    let (key, value, kept, share) = steps.at(t, [groups, g, heads, h], d);
                    let query = q.start(t * groups + g).cast();
                    let to = out.start(t * heads + h).cast_mut().cast::<f32>().add(d);
                    step(isa, now, key, query, value, kept, share, delta != 0, to, n);
                }
                if behind != 0 {
                    save();
                }
            }
        });
    });
    Ok(())
}
