//! Attention over a cache: scores of a few rows against every key they may see, softmax in f32, then values.
//!
//! A row is one query of one head. Tiles of rows share the keys and values they load; sums of a row run over dimensions, and over
//! positions counted from zero, in one order, so a row's result depends neither on its company nor on what it does not see.

use super::{
    elementwise::{exp, norm_row},
    entry::{Rows, float, shape},
    pool,
    simd::{Float, Isa, Simd, dispatch},
};
use mlx_sys::mlx_host_view as View;
use std::cell::RefCell;

/// What a row sees of the keys: positions `from..context`, and of those after, itself and what `tree` says.
#[derive(Clone, Copy)]
pub(crate) struct Sight<'a> {
    /// Keys before the rows of this call.
    pub(crate) context: usize,
    /// Rows of this call in a sequence.
    pub(crate) len: usize,
    pub(crate) window: Option<usize>,
    /// A row sees later rows as well.
    pub(crate) full: bool,
    /// For each row (of each sequence, or of all) its ancestors and itself, in bits of 64, `words` to a row; and its depth.
    pub(crate) tree: Option<Tree<'a>>,
}

#[derive(Clone, Copy)]
pub(crate) struct Tree<'a> {
    pub(crate) bits: &'a [i64],
    pub(crate) words: usize,
    pub(crate) depths: &'a [i64],
}

impl Sight<'_> {
    /// First and one past the last position that row `i` of sequence `b` sees.
    fn span(&self, b: usize, i: usize) -> (usize, usize) {
        let at = self.context + self.tree.map_or(i, |tree| tree.depths[b * self.len + i] as usize);
        let from = self.window.map_or(0, |window| (at + 1).saturating_sub(window));
        // In a tree the window counts depths, which the bits know; positions of the context count as they stand.
        let most = if self.tree.is_some() { self.context } else { self.context + i };
        (
            from.min(most),
            if self.full { self.context + self.len } else { self.context + i + 1 },
        )
    }

    /// Hides from the row, in its scores `p[t]`, what lies in its span and is not for it.
    unsafe fn hide(&self, b: usize, i: usize, p: *mut f32) {
        let Some(tree) = self.tree else { return };
        let (row, at) = (b * self.len + i, tree.depths[b * self.len + i]);
        for j in 0..i {
            let ancestor = tree.bits[row * tree.words + j / 64] >> (j % 64) & 1 != 0;
            let near = self.window.is_none_or(|window| at - tree.depths[b * self.len + j] < window as i64);
            if !(ancestor && near) {
                *p.add(self.context + j) = f32::NEG_INFINITY;
            }
        }
    }
}

/// Cosines and sines for every position of a table, and which dimensions they turn.
#[derive(Clone, Copy)]
pub(crate) struct Turn {
    /// `[positions, 2 * pairs]`: cosines, then sines; it holds every position that is asked for.
    pub(crate) table: *const f32,
    pub(crate) pairs: usize,
    pub(crate) traditional: bool,
}

impl Turn {
    /// Rotates the leading dimensions of a head in place.
    #[inline(always)]
    pub(crate) unsafe fn apply(&self, head: *mut f32, position: usize) {
        let cos = self.table.add(position * 2 * self.pairs);
        let sin = cos.add(self.pairs);
        for i in 0..self.pairs {
            let (a, b) = if self.traditional {
                (head.add(2 * i), head.add(2 * i + 1))
            } else {
                (head.add(i), head.add(i + self.pairs))
            };
            let (x, y, c, s) = (*a, *b, *cos.add(i), *sin.add(i));
            *a = x * c - y * s;
            *b = x * s + y * c;
        }
    }
}

/// Before a head is used: normed, turned, in that order.
#[derive(Clone, Copy)]
pub(crate) struct Head<'a> {
    pub(crate) dim: usize,
    pub(crate) norm: Option<(*const f32, f32)>,
    pub(crate) turn: Option<Turn>,
    pub(crate) positions: &'a [i64],
}

// SAFETY: what it points to is only read.
unsafe impl Sync for Head<'_> {}

dispatch! {
    /// `to = turn(norm(from))` for the head of row `row` (of all sequences).
    pub(crate) fn prepare[](head: &Head, from: *const f32, to: *mut f32, row: usize, isa: Isa) {
        match head.norm {
            Some((w, eps)) => norm_row(isa, from, w, to, head.dim, eps),
            None => std::ptr::copy_nonoverlapping(from, to, head.dim),
        }
        if let Some(turn) = head.turn {
            turn.apply(to, head.positions[row] as usize);
        }
        let _ = V::LANES;
    }
}

/// One attention.
pub(crate) struct Attend<'a> {
    /// Writes query `(b, head, i)` as `dim` floats.
    pub(crate) query: &'a (dyn Fn(usize, usize, usize, *mut f32) + Sync),
    /// Where the result of `(b, head, i)` goes, `dim` values without gaps.
    pub(crate) result: &'a (dyn Fn(usize, usize, usize) -> *mut u8 + Sync),
    pub(crate) result_type: Float,
    pub(crate) keys: &'a View,
    pub(crate) values: &'a View,
    pub(crate) batch: usize,
    pub(crate) heads: usize,
    pub(crate) kv_heads: usize,
    pub(crate) dim: usize,
    pub(crate) scale: f32,
    pub(crate) sinks: *const f32,
    pub(crate) sight: Sight<'a>,
}

// SAFETY: threads read the inputs and write results of different rows.
unsafe impl Sync for Attend<'_> {}

thread_local! { static SCRATCH: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) }; }

/// Floats of scores at a time: half of a second-level cache.
const SCORES: usize = 65_536;

/// `[batch, kv_heads, positions, dim]` whose last dimension has no gaps: bytes from position to position.
pub(crate) fn check(view: &View, kind: Float) -> Result<usize, String> {
    let rows = Rows::new(view)?;
    if shape(view).len() != 4 || rows.kind != kind || (view.strides[3] != 1 && view.shape[3] > 1) {
        return Err(format!(
            "keys or values of shape {:?} and strides {:?}",
            shape(view),
            &view.strides[..view.ndim as usize]
        ));
    }
    Ok(view.strides[2] as usize * kind.size())
}

/// # Safety
/// The views are of live arrays and hold what `sight` and the sizes say.
pub(crate) unsafe fn run(a: &Attend) -> Result<(), String> {
    let (isa, kind) = (Isa::detect(), float(a.keys)?);
    let pitches = (check(a.keys, kind)?, check(a.values, kind)?);
    let group = a.heads / a.kv_heads;
    let total = a.sight.context + a.sight.len;
    let rows = (SCORES / total.next_multiple_of(8) / group).clamp(1, 16).min(a.sight.len);
    let blocks = a.sight.len.div_ceil(rows);
    let chunks = a.batch * a.kv_heads * blocks;
    let chunk = |c: usize| {
        let (b, h, from) = (c / blocks / a.kv_heads, c / blocks % a.kv_heads, c % blocks * rows);
        SCRATCH.with_borrow_mut(|scratch| block(isa, a, kind, pitches, (b, h), (from, a.sight.len.min(from + rows)), scratch));
    };
    if chunks * total * rows < 2048 {
        (0..chunks).for_each(chunk);
    } else {
        pool::each(chunks, &chunk);
    }
    Ok(())
}

/// Scores of A rows, `dim` floats apart, against four keys, `stride` bytes apart, into `p`, rows `pitch` floats apart.
#[inline(always)]
unsafe fn scores<V: Simd, const A: usize>(
    kind: Float,
    q: *const f32,
    dim: usize,
    keys: *const u8,
    stride: usize,
    p: *mut f32,
    pitch: usize,
) {
    let mut acc = [[V::zero(); 4]; A];
    let mut i = 0;
    while i + V::LANES <= dim {
        let mut k = [V::zero(); 4];
        for t in 0..4 {
            k[t] = kind.vector::<V>(keys.add(t * stride), i);
        }
        for a in 0..A {
            let q = V::load(q.add(a * dim + i));
            for t in 0..4 {
                acc[a][t] = V::fma(k[t], q, acc[a][t]);
            }
        }
        i += V::LANES;
    }
    for a in 0..A {
        p.add(a * pitch).cast::<[f32; 4]>().write_unaligned(V::sum4(acc[a]));
    }
    if i < dim {
        for a in 0..A {
            for i in i..dim {
                for t in 0..4 {
                    *p.add(a * pitch + t) += *q.add(a * dim + i) * kind.get(keys.add(t * stride), i as isize);
                }
            }
        }
    }
}

/// `sum over t of p[t] * value[t]` for A rows and B vectors of dimensions.
#[inline(always)]
unsafe fn gather<V: Simd, const A: usize, const B: usize>(
    kind: Float,
    p: *const f32,
    pitch: usize,
    span: (usize, usize),
    values: *const u8,
    stride: usize,
    y: *mut f32,
    dim: usize,
) {
    let mut acc = [[V::zero(); B]; A];
    for t in span.0..span.1 {
        let mut v = [V::zero(); B];
        for b in 0..B {
            v[b] = kind.vector::<V>(values.add(t * stride), b * V::LANES);
        }
        for a in 0..A {
            let w = V::splat(*p.add(a * pitch + t));
            for b in 0..B {
                acc[a][b] = V::fma(w, v[b], acc[a][b]);
            }
        }
    }
    for a in 0..A {
        for b in 0..B {
            V::store(y.add(a * dim + b * V::LANES), acc[a][b]);
        }
    }
}

/// The tiles with the type of the cache known, so that it is not asked for each vector.
macro_rules! typed {
    ($kind:expr, $call:ident::<V, $($n:literal),+>($($arg:expr),*)) => {
        match $kind {
            Float::F32 => $call::<V, $($n),+>(Float::F32, $($arg),*),
            Float::F16 => $call::<V, $($n),+>(Float::F16, $($arg),*),
            Float::Bf16 => $call::<V, $($n),+>(Float::Bf16, $($arg),*),
        }
    };
}

dispatch! {
    /// Rows `span.0..span.1` of the heads that share key head `at.1`, in sequence `at.0`.
    fn block[](a: &Attend, kind: Float, pitches: (usize, usize), at: (usize, usize), rows: (usize, usize), scratch: &mut Vec<f32>) {
        let ((b, h), group, dim, sight) = (at, a.heads / a.kv_heads, a.dim, &a.sight);
        let (count, total) = ((rows.1 - rows.0) * group, sight.context + sight.len);
        let pitch = total.next_multiple_of(8) + 8;
        let needed = count * (2 * dim + pitch) + 8;
        if scratch.len() < needed {
            scratch.resize(needed, 0.0);
        }
        let q = scratch.as_mut_ptr();
        let (y, p) = (q.add(count * dim), q.add(2 * count * dim));
        let base = |view: &View| view.data.cast::<u8>().cast_const().offset((b as i64 * view.strides[0] + h as i64 * view.strides[1]) as isize * kind.size() as isize);
        let (keys, values) = (base(a.keys), base(a.values));
        // Row r is head r % group of position r / group: neighbours see nearly the same.
        let (mut first, mut last) = (total, 0);
        for r in 0..count {
            let i = rows.0 + r / group;
            (a.query)(b, h * group + r % group, i, q.add(r * dim));
            for d in 0..dim {
                *q.add(r * dim + d) *= a.scale;
            }
            let span = sight.span(b, i);
            (first, last) = (first.min(span.0), last.max(span.1));
        }
        let mut t = first;
        while t < last {
            // The last four reach back: a score is the same whoever stands beside it.
            let t4 = if t + 4 <= last { t } else { last.saturating_sub(4) };
            if last < 4 {
                for t in first..last {
                    for r in 0..count {
                        let mut one = [0.0; 4];
                        typed!(kind, scores::<V, 1>(q.add(r * dim), dim, keys.add(t * pitches.0), 0, one.as_mut_ptr(), 4));
                        *p.add(r * pitch + t) = one[0];
                    }
                }
                break;
            }
            let mut r = 0;
            while r < count {
                let (q, p, k) = (q.add(r * dim), p.add(r * pitch + t4), keys.add(t4 * pitches.0));
                match (count - r, V::WIDE) {
                    (1, _) => typed!(kind, scores::<V, 1>(q, dim, k, pitches.0, p, pitch)),
                    (2, _) => typed!(kind, scores::<V, 2>(q, dim, k, pitches.0, p, pitch)),
                    (6.., true) => typed!(kind, scores::<V, 6>(q, dim, k, pitches.0, p, pitch)),
                    _ => typed!(kind, scores::<V, 3>(q, dim, k, pitches.0, p, pitch)),
                }
                r += if V::WIDE && count - r >= 6 { 6 } else { 3.min(count - r) };
            }
            t += 4;
        }
        for r in 0..count {
            let (i, row) = (rows.0 + r / group, p.add(r * pitch));
            let (from, to) = sight.span(b, i);
            sight.hide(b, i, row);
            softmax(row, first, last, from, to, if a.sinks.is_null() { None } else { Some(*a.sinks.add(h * group + r % group)) });
        }
        let mut d = 0;
        while d < dim {
            let left = (dim - d) / V::LANES;
            if left == 0 {
                for r in 0..count {
                    for d in d..dim {
                        let mut sum = 0.0;
                        for t in first..last {
                            sum += *p.add(r * pitch + t) * kind.get(values.add(t * pitches.1), d as isize);
                        }
                        *y.add(r * dim + d) = sum;
                    }
                }
                break;
            }
            let mut r = 0;
            while r < count {
                let (p, v, y) = (p.add(r * pitch), values.add(t_bytes(d, kind)), y.add(r * dim + d));
                match (count - r, left) {
                    (6.., 4..) if V::WIDE => typed!(kind, gather::<V, 6, 4>(p, pitch, (first, last), v, pitches.1, y, dim)),
                    (1 | 2, 1..4) => typed!(kind, gather::<V, 1, 1>(p, pitch, (first, last), v, pitches.1, y, dim)),
                    (1 | 2, _) => typed!(kind, gather::<V, 1, 4>(p, pitch, (first, last), v, pitches.1, y, dim)),
                    (_, 1..4) => typed!(kind, gather::<V, 3, 1>(p, pitch, (first, last), v, pitches.1, y, dim)),
                    _ => typed!(kind, gather::<V, 3, 4>(p, pitch, (first, last), v, pitches.1, y, dim)),
                }
                r += match count - r {
                    6.. if V::WIDE && left >= 4 => 6,
                    3.. => 3,
                    _ => 1,
                };
            }
            d += V::LANES * if left >= 4 { 4 } else { 1 };
        }
        for r in 0..count {
            let to = (a.result)(b, h * group + r % group, rows.0 + r / group);
            if a.result_type == Float::F32 {
                std::ptr::copy_nonoverlapping(y.add(r * dim), to.cast(), dim);
            } else {
                (0..dim).for_each(|d| a.result_type.put(to, d, *y.add(r * dim + d)));
            }
        }
    }
}

#[inline(always)]
fn t_bytes(d: usize, kind: Float) -> usize {
    d * kind.size()
}

/// Turns the scores `from..to` of a row into weights that sum to one with the sink, and the rest of `first..last` into zeros. The sum is
/// taken in eight parts by position.
#[inline(always)]
unsafe fn softmax(row: *mut f32, first: usize, last: usize, from: usize, to: usize, sink: Option<f32>) {
    let larger = |a: f32, b: f32| if b > a { b } else { a };
    let (mut most, mut t) = ([f32::NEG_INFINITY; 8], from);
    while t + 8 <= to {
        let eight = row.add(t).cast::<[f32; 8]>().read_unaligned();
        for lane in 0..8 {
            most[lane] = larger(most[lane], eight[lane]);
        }
        t += 8;
    }
    while t < to {
        most[0] = larger(most[0], *row.add(t));
        t += 1;
    }
    let most = most
        .iter()
        .fold(sink.unwrap_or(f32::NEG_INFINITY), |m, &v| if v > m { v } else { m });
    for t in first..from {
        *row.add(t) = 0.0;
    }
    for t in to..last {
        *row.add(t) = 0.0;
    }
    for t in from..to {
        let v = *row.add(t);
        *row.add(t) = if v == f32::NEG_INFINITY { 0.0 } else { exp(v - most) };
    }
    let mut parts = [0.0; 8];
    let mut t = from;
    while t < to && !t.is_multiple_of(8) {
        parts[t % 8] += *row.add(t);
        t += 1;
    }
    while t + 8 <= to {
        for (lane, part) in parts.iter_mut().enumerate() {
            *part += *row.add(t + lane);
        }
        t += 8;
    }
    while t < to {
        parts[t % 8] += *row.add(t);
        t += 1;
    }
    let sum = ((parts[0] + parts[4]) + (parts[1] + parts[5])) + ((parts[2] + parts[6]) + (parts[3] + parts[7]));
    let scale = 1.0 / (sum + sink.map_or(0.0, |sink| exp(sink - most)));
    for t in from..to {
        *row.add(t) *= scale;
    }
}
