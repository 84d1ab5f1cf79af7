//! The loops of a product: chunks of weights meet rows of x.

use super::{
    format::Format,
    linear::Product,
    simd::{Float, Simd},
};

/// Bytes between what is read and what is asked for.
const AHEAD: usize = 8192;

/// Rows of W whose scales are widened at a time.
pub(super) const SCALED: usize = 48;

/// Rows `from..to` of x in the order of the weights, the last chunk filled up with zeros.
pub(crate) struct Ready {
    pub(super) x: *const f32,
    /// Floats from row to row.
    pub(super) pitch: usize,
    /// Sums of x over each group, zeros after them.
    pub(super) sums: *const f32,
    pub(super) sums_pitch: usize,
    pub(super) from: usize,
    pub(super) to: usize,
    /// Whole chunks in a row, and whether a part of one follows.
    pub(super) whole: usize,
    pub(super) rest: bool,
    /// Groups in a row; 0 without scales.
    pub(super) groups: usize,
}

// SAFETY: read only while it is shared.
unsafe impl Sync for Ready {}

#[inline(always)]
pub(super) unsafe fn arrange<V: Simd, F: Format>(p: &Product, ready: &Ready, buffer: *mut f32) {
    let chunk = F::chunk::<V>();
    let (mut places, mut factors) = ([0; 128], [0.0; 128]);
    for i in 0..chunk {
        (places[i], factors[i]) = (F::place::<V>(i), F::factor(i / V::LANES));
    }
    for m in ready.from..ready.to {
        let (row, out) = ((p.x_row)(m, buffer), ready.x.add((m - ready.from) * ready.pitch).cast_mut());
        let whole = p.k / chunk * chunk;
        for c in (0..whole).step_by(chunk) {
            for i in 0..chunk {
                *out.add(c + i) = *row.add(c + *places.get_unchecked(i)) * *factors.get_unchecked(i);
            }
        }
        for i in whole..ready.pitch {
            let at = whole + places[i - whole];
            *out.add(i) = if at < p.k { *row.add(at) * factors[i - whole] } else { 0.0 };
        }
        let sums = ready.sums.add((m - ready.from) * ready.sums_pitch).cast_mut();
        for g in 0..ready.sums_pitch {
            let mut sum = [0.0; 8];
            if g < ready.groups {
                for i in (0..F::GROUP).step_by(8) {
                    for (j, sum) in sum.iter_mut().enumerate() {
                        *sum += *row.add(g * F::GROUP + i + j);
                    }
                }
            }
            *sums.add(g) = ((sum[0] + sum[4]) + (sum[1] + sum[5])) + ((sum[2] + sum[6]) + (sum[3] + sum[7]));
        }
    }
}

/// `count` values of a known type as f32.
#[inline(always)]
unsafe fn stretch<V: Simd>(kind: Float, from: *const u8, to: *mut f32, count: usize) {
    let mut g = 0;
    while g + 32 <= count {
        for i in [0, 8, 16, 24] {
            V::store(to.add(g + i), kind.vector::<V>(from, g + i));
        }
        g += 32;
    }
    while g + V::LANES <= count {
        V::store(to.add(g), kind.vector::<V>(from, g));
        g += V::LANES;
    }
    while g < count {
        *to.add(g) = kind.get(from, g as isize);
        g += 1;
    }
}

/// Scales, then biases, of rows `n..n + rows` as f32: `SCALED * groups + 16` floats of each, row after row.
#[inline(always)]
unsafe fn widen<V: Simd>(p: &Product, groups: usize, n: usize, rows: usize, to: *mut f32) {
    for (from, to) in [(p.scales, to), (p.biases, to.add(SCALED * groups + 16))] {
        let (from, size) = (from.add(n * p.scale_pitch), p.scale_type.size());
        let (runs, run) = if p.scale_pitch == groups * size {
            (1, rows * groups)
        } else {
            (rows, groups)
        };
        for r in 0..runs {
            let (from, to) = (from.add(r * p.scale_pitch), to.add(r * groups));
            match p.scale_type {
                Float::F32 => stretch::<V>(Float::F32, from, to, run),
                Float::F16 => stretch::<V>(Float::F16, from, to, run),
                Float::Bf16 => stretch::<V>(Float::Bf16, from, to, run),
            }
        }
        // What follows the last row meets zeros; it only has to be finite.
        V::store(to.add(rows * groups), V::zero());
        V::store(to.add(rows * groups + 8), V::zero());
    }
}

/// The part of a chunk at the end of a row, with zeros after it.
#[inline(always)]
unsafe fn last_raw<V: Simd, F: Format>(p: &Product, w: *const u8, whole: usize) -> F::Raw<V> {
    let (mut chunk, done) = ([0u8; 64], whole * F::bytes::<V>());
    let used = p.k * F::bytes::<V>() / F::chunk::<V>() - done;
    std::ptr::copy_nonoverlapping(w.add(done), chunk.as_mut_ptr(), used);
    F::raw::<V>(chunk.as_ptr())
}

/// A chunk of R rows of W against A rows of x. (Functions, not closures: a closure that is not inlined would be compiled without the
/// instruction set.)
#[inline(always)]
unsafe fn meet<V: Simd, F: Format, const A: usize, const R: usize>(
    acc: &mut [[V::F; R]; A],
    raw: [F::Raw<V>; R],
    x: *const f32,
    ready: &Ready,
    scales: *const f32,
    c: usize,
) {
    let x = x.add(c * F::chunk::<V>());
    // Fields are summed within the chunk, then scaled; weights go straight on.
    let mut sums = if F::GROUP > 0 { [[V::zero(); R]; A] } else { *acc };
    for s in 0..F::chunk::<V>() / V::LANES {
        let mut w = [V::zero(); R];
        for r in 0..R {
            w[r] = F::vector::<V>(raw[r], s);
        }
        for a in 0..A {
            let x = V::load(x.add(a * ready.pitch + s * V::LANES));
            for r in 0..R {
                sums[a][r] = V::fma(w[r], x, sums[a][r]);
            }
        }
    }
    if F::GROUP > 0 {
        for r in 0..R {
            let scale = F::scale::<V>(scales.add(r * ready.groups), c);
            for a in 0..A {
                acc[a][r] = V::fma(sums[a][r], scale, acc[a][r]);
            }
        }
    } else {
        *acc = sums;
    }
}

/// Adds what the biases of the groups make of B rows of W, to the sums of A rows of x.
#[inline(always)]
unsafe fn lift<V: Simd, const A: usize, const B: usize>(acc: &mut [[V::F; B]; A], ready: &Ready, m: usize, biases: *const f32) {
    for g in (0..ready.groups).step_by(V::LANES) {
        for b in 0..B {
            let bias = V::load(biases.add(b * ready.groups + g));
            for a in 0..A {
                let sum = V::load(ready.sums.add((m - ready.from + a) * ready.sums_pitch + g));
                acc[a][b] = V::fma(bias, sum, acc[a][b]);
            }
        }
    }
}

/// A rows of x, from row m, against R rows of W, from row n, as W is read.
#[inline(always)]
unsafe fn direct<V: Simd, F: Format, const A: usize, const R: usize>(p: &Product, ready: &Ready, m: usize, n: usize, scales: *const f32) {
    let mut w = [p.w; R];
    for r in 0..R {
        w[r] = p.w.add((n + r) * p.pitch);
    }
    if F::GROUP > 0 {
        // What will be widened next, a few lines at a time: more at once than the core can wait for would hold it up.
        let next = (n + SCALED) * p.scale_pitch;
        for line in (0..R * p.scale_pitch).step_by(64) {
            V::soon(p.scales.wrapping_add(next + line));
            V::soon(p.biases.wrapping_add(next + line));
        }
    }
    let mut acc = [[V::zero(); R]; A];
    let x = ready.x.add((m - ready.from) * ready.pitch);
    let bytes = F::bytes::<V>();
    for c in 0..ready.whole {
        // Rows follow each other: a constant distance ahead, a cache line at a time.
        for line in (0..bytes * R).step_by(64) {
            V::soon(w[0].wrapping_add(AHEAD + c * bytes * R + line));
        }
        let mut raw = [F::raw::<V>(w[0].add(c * bytes)); R];
        for r in 1..R {
            raw[r] = F::raw::<V>(w[r].add(c * bytes));
        }
        meet::<V, F, A, R>(&mut acc, raw, x, ready, scales, c);
    }
    if ready.rest {
        let mut raw = [last_raw::<V, F>(p, w[0], ready.whole); R];
        for r in 1..R {
            raw[r] = last_raw::<V, F>(p, w[r], ready.whole);
        }
        meet::<V, F, A, R>(&mut acc, raw, x, ready, scales, ready.whole);
    }
    lift::<V, A, R>(&mut acc, ready, m, scales.wrapping_add(SCALED * ready.groups + 16));
    for a in 0..A {
        if R == 4 {
            let sums = V::sum4([acc[a][0], acc[a][1 % R], acc[a][2 % R], acc[a][3 % R]]);
            for r in 0..R {
                p.put(m + a, n + r, sums[r]);
            }
        } else {
            for r in 0..R {
                p.put(m + a, n + r, V::sum(acc[a][r]));
            }
        }
    }
}

/// W unpacked: fields or weights as floats, the scale of every lane, the biases.
#[derive(Clone, Copy)]
pub(crate) struct Panel {
    pub(super) w: *mut f32,
    pub(super) scales: *mut f32,
    /// What [`widen`] made.
    pub(super) groups: *mut f32,
}

/// `rows` rows of W as floats, in the order of x.
#[inline(always)]
unsafe fn unpack<V: Simd, F: Format>(p: &Product, ready: &Ready, n: usize, rows: usize, panel: Panel) {
    if F::GROUP > 0 {
        widen::<V>(p, ready.groups, n, rows, panel.groups);
    }
    let chunks = ready.pitch / F::chunk::<V>();
    for r in 0..rows {
        let w = p.w.add((n + r) * p.pitch);
        let out = panel.w.add(r * ready.pitch);
        for c in 0..ready.whole {
            V::soon(w.wrapping_add(AHEAD + c * F::bytes::<V>()));
            spell::<V, F>(F::raw::<V>(w.add(c * F::bytes::<V>())), c, out);
        }
        if ready.rest {
            spell::<V, F>(last_raw::<V, F>(p, w, ready.whole), ready.whole, out);
        }
        if F::GROUP > 0 {
            for c in 0..chunks {
                V::store(
                    panel.scales.add((r * chunks + c) * V::LANES),
                    F::scale::<V>(panel.groups.add(r * ready.groups), c),
                );
            }
        }
    }
}

/// Chunk `c` of a row as floats.
#[inline(always)]
unsafe fn spell<V: Simd, F: Format>(raw: F::Raw<V>, c: usize, out: *mut f32) {
    for s in 0..F::chunk::<V>() / V::LANES {
        V::store(out.add(c * F::chunk::<V>() + s * V::LANES), F::vector::<V>(raw, s));
    }
}

/// A rows of x, from row m, times B rows of the panel, from row r, which is row n of W.
#[inline(always)]
unsafe fn tile<V: Simd, F: Format, const A: usize, const B: usize>(p: &Product, ready: &Ready, panel: Panel, m: usize, n: usize, r: usize) {
    let (x, w, pitch) = (
        ready.x.add((m - ready.from) * ready.pitch),
        panel.w.add(r * ready.pitch),
        ready.pitch,
    );
    let run = if F::GROUP > 0 { F::chunk::<V>() } else { pitch };
    let chunks = pitch / run;
    let mut acc = [[V::zero(); B]; A];
    for c in 0..chunks {
        let mut sums = [[V::zero(); B]; A];
        let mut i = c * run;
        while i < (c + 1) * run {
            // Sums, the fewer operands, and one of the others at a time have to fit in the registers.
            if A <= B {
                let mut rows = [V::zero(); A];
                for a in 0..A {
                    rows[a] = V::load(x.add(a * pitch + i));
                }
                for b in 0..B {
                    let w = V::load(w.add(b * pitch + i));
                    for a in 0..A {
                        sums[a][b] = V::fma(w, rows[a], sums[a][b]);
                    }
                }
            } else {
                let mut rows = [V::zero(); B];
                for b in 0..B {
                    rows[b] = V::load(w.add(b * pitch + i));
                }
                for a in 0..A {
                    let x = V::load(x.add(a * pitch + i));
                    for b in 0..B {
                        sums[a][b] = V::fma(rows[b], x, sums[a][b]);
                    }
                }
            }
            i += V::LANES;
        }
        if F::GROUP > 0 {
            for b in 0..B {
                let scale = V::load(panel.scales.add(((r + b) * chunks + c) * V::LANES));
                for a in 0..A {
                    acc[a][b] = V::fma(sums[a][b], scale, acc[a][b]);
                }
            }
        } else {
            acc = sums;
        }
    }
    lift::<V, A, B>(
        &mut acc,
        ready,
        m,
        panel.groups.wrapping_add(SCALED * ready.groups + 16 + r * ready.groups),
    );
    for b in 0..B {
        if A == 4 {
            let sums = V::sum4([acc[0][b], acc[1 % A][b], acc[2 % A][b], acc[3 % A][b]]);
            for a in 0..A {
                p.put(m + a, n + b, sums[a]);
            }
        } else {
            for a in 0..A {
                p.put(m + a, n + b, V::sum(acc[a][b]));
            }
        }
    }
}

/// The loops above, each compiled by itself for an instruction set: inlined into one function they would compete for its registers.
pub(crate) trait Compiled: Simd {
    unsafe fn direct<F: Format, const A: usize, const R: usize>(p: &Product, ready: &Ready, m: usize, n: usize, scales: *const f32);
    unsafe fn widen(p: &Product, groups: usize, n: usize, rows: usize, to: *mut f32);
    unsafe fn unpack<F: Format>(p: &Product, ready: &Ready, n: usize, rows: usize, panel: Panel);
    unsafe fn tile<F: Format, const A: usize, const B: usize>(p: &Product, ready: &Ready, panel: Panel, m: usize, n: usize, r: usize);
}

macro_rules! compiled {
    ($set:ty, $($feature:meta)?) => {
        impl Compiled for $set {
            $(#[$feature])?
            #[inline(never)]
            unsafe fn direct<F: Format, const A: usize, const R: usize>(p: &Product, ready: &Ready, m: usize, n: usize, scales: *const f32) {
                direct::<Self, F, A, R>(p, ready, m, n, scales);
            }
            $(#[$feature])?
            #[inline(never)]
            unsafe fn widen(p: &Product, groups: usize, n: usize, rows: usize, to: *mut f32) {
                widen::<Self>(p, groups, n, rows, to);
            }
            $(#[$feature])?
            #[inline(never)]
            unsafe fn unpack<F: Format>(p: &Product, ready: &Ready, n: usize, rows: usize, panel: Panel) {
                unpack::<Self, F>(p, ready, n, rows, panel);
            }
            $(#[$feature])?
            #[inline(never)]
            unsafe fn tile<F: Format, const A: usize, const B: usize>(p: &Product, ready: &Ready, panel: Panel, m: usize, n: usize, r: usize) {
                tile::<Self, F, A, B>(p, ready, panel, m, n, r);
            }
        }
    };
}
#[cfg(target_arch = "x86_64")]
compiled!(
    super::simd::avx2::Avx512,
    target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")
);
#[cfg(target_arch = "x86_64")]
compiled!(super::simd::avx2::Avx2, target_feature(enable = "avx2,fma,f16c"));
#[cfg(target_arch = "aarch64")]
compiled!(super::simd::neon::Neon,);
compiled!(super::simd::portable::Portable,);
