//! `y = x Wᵀ` for quantized weights in whole numbers.
//!
//! Each run of 32 activations becomes whole numbers of sixteen bits and a scale of its own; weights stay the bytes or parts of bytes that
//! they are. On x86 that multiplies twice as fast as f32, and rounds. Products are summed exactly within a run, then meet both scales in f32. So the result is that of the exact weights and of
//! activations rounded to `2^-16` of the largest in their run; f32 sums over runs follow, in one order, whatever rows ride along. A run
//! that holds something infinite or not a number makes its row's results not a number.

use super::{
    EXACT,
    linear::Product,
    pool,
    simd::{
        Isa,
        whole::{BLOCK, RUN, Whole, run, weight},
    },
    tiles::{Compiled, SCALED},
};
use std::{
    cell::RefCell,
    sync::{OnceLock, atomic::Ordering::Relaxed},
};

/// Whole numbers are used: where they are faster, unless f32's exactness was asked for.
pub(super) fn wanted(isa: Isa) -> bool {
    static ASKED: OnceLock<Option<bool>> = OnceLock::new();
    let asked = *ASKED.get_or_init(|| match std::env::var("MLX_CPU_ACTIVATIONS").as_deref() {
        Ok("i16") => Some(true),
        Ok("f32") => Some(false),
        _ => None,
    });
    !EXACT.load(Relaxed) && asked.unwrap_or(isa != Isa::Portable)
}

/// The largest whole number: its high and its low byte fit in seven bits and a sign.
const MOST: f32 = 32_639.0;

/// Activations smaller than this everywhere in a run are zeros.
const LEAST: f32 = 1e-30;

/// Bytes between what is read and what is asked for.
const AHEAD: usize = 4096;

/// Rows of W that all rows of x meet before the next ones.
const PANEL: usize = 12;

/// Bytes of arranged x kept at hand: half of a second-level cache.
const HELD: usize = 524_288;

/// Bytes of x for a part.
const PART: usize = 64;

thread_local! {
    static ARRANGED: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
    static SCRATCH: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
}

/// How a row of k weights is cut: blocks, then chunks of eight words, the last of them perhaps cut off.
#[derive(Clone, Copy)]
struct Cut {
    blocks: usize,
    chunks: usize,
    rest: bool,
    /// Weights in a group, and groups in a row.
    group: usize,
    groups: usize,
    runs: usize,
}

impl Cut {
    fn new(k: usize, bits: usize, group: usize) -> Self {
        let (left, chunk) = (k % BLOCK, BLOCK / bits);
        Self {
            blocks: k / BLOCK,
            chunks: left.div_ceil(chunk),
            rest: !left.is_multiple_of(chunk),
            group,
            groups: k / group,
            runs: k / RUN,
        }
    }

    /// Bytes of a row of x.
    fn bytes(&self, bits: usize) -> usize {
        PART * 8 * self.blocks + PART * 8 / bits * self.chunks
    }

    /// Scales of a row of x, one for each lane that a scale meets.
    fn scales(&self) -> usize {
        8 * (self.blocks + self.chunks)
    }
}

/// Rows `from..to` of x as whole numbers, part by part.
struct Ready {
    cut: Cut,
    from: usize,
    to: usize,
    x: *const u8,
    pitch: usize,
    scales: *const f32,
    scale_pitch: usize,
    /// Sums of x over each group, zeros after them.
    sums: *const f32,
    sum_pitch: usize,
}

// SAFETY: read only while it is shared.
unsafe impl Sync for Ready {}

/// A run as whole numbers, and what one of them stands for.
#[inline(always)]
unsafe fn round(x: *const f32, to: &mut [i32; RUN]) -> f32 {
    // Added to a smaller number, it leaves the nearest whole one in the low bits.
    const MAGIC: f32 = 12_582_912.0;
    let mut most = 0;
    for i in 0..RUN {
        most = most.max((*x.add(i)).to_bits() & 0x7fff_ffff);
    }
    let most = f32::from_bits(most);
    if most < LEAST || !most.is_finite() {
        *to = [0; RUN];
        return if most < LEAST { 0.0 } else { f32::NAN };
    }
    let inverse = MOST / most;
    for i in 0..RUN {
        to[i] = (*x.add(i) * inverse + MAGIC).to_bits() as i32 - MAGIC.to_bits() as i32;
    }
    most / MOST
}

/// Fills `ready` from the rows of x.
#[inline(always)]
unsafe fn arrange<V: Whole, const BITS: usize>(p: &Product, ready: &Ready, buffer: *mut f32) {
    let cut = ready.cut;
    for m in ready.from..ready.to {
        let (row, at) = ((p.x_row)(m, buffer), m - ready.from);
        let x = ready.x.add(at * ready.pitch).cast_mut();
        let scales = ready.scales.add(at * ready.scale_pitch).cast_mut();
        let sums = ready.sums.add(at * ready.sum_pitch).cast_mut();
        (0..ready.sum_pitch).for_each(|g| *sums.add(g) = 0.0);
        let mut numbers = [[0; RUN]; 8];
        for c in 0..cut.blocks {
            for lane in 0..8 {
                let r = c * 8 + run(BITS, lane);
                let scale = round(row.add(r * RUN), &mut numbers[lane]);
                *scales.add(c * 8 + lane) = scale;
                *sums.add(r * RUN / cut.group) += numbers[lane].iter().sum::<i32>() as f32 * scale;
            }
            let x = x.add(c * 8 * PART);
            for (lane, numbers) in numbers.iter().enumerate() {
                for i in 0..8 {
                    let planes = V::planes([0, 1, 2, 3].map(|byte| numbers[weight(BITS, i, byte)]));
                    x.add(i * PART).cast::<u32>().add(lane).write_unaligned(planes[0]);
                    x.add(i * PART).cast::<u32>().add(8 + lane).write_unaligned(planes[1]);
                }
            }
        }
        let (x, scales) = (x.add(cut.blocks * 8 * PART), scales.add(cut.blocks * 8));
        for c in 0..cut.chunks {
            // Word l of a chunk holds a part of run l / BITS.
            for lane in 0..8 {
                let (of, part) = (lane / BITS, lane % BITS * (32 / BITS));
                let r = cut.blocks * 8 + c * (8 / BITS) + of;
                let there = r * RUN < p.k;
                if part == 0 {
                    let scale = if there { round(row.add(r * RUN), &mut numbers[of]) } else { 0.0 };
                    if there {
                        *sums.add(r * RUN / cut.group) += numbers[of].iter().sum::<i32>() as f32 * scale;
                    } else {
                        numbers[of] = [0; RUN];
                    }
                    (0..BITS).for_each(|word| *scales.add(c * 8 + lane + word) = scale);
                }
                for i in 0..8 / BITS {
                    let planes = V::planes([0, 1, 2, 3].map(|byte| numbers[of][part + byte * (8 / BITS) + i]));
                    let x = x.add((c * (8 / BITS) + i) * PART).cast::<u32>();
                    x.add(lane).write_unaligned(planes[0]);
                    x.add(8 + lane).write_unaligned(planes[1]);
                }
            }
        }
    }
}

/// What rows of W have beside their fields, as f32: a scale for each run, a bias for each group, row after row.
#[derive(Clone, Copy)]
struct Scales {
    runs: *const f32,
    biases: *const f32,
}

impl Scales {
    /// Those from the row on that is `rows` further.
    #[inline(always)]
    fn of_row(self, ready: &Ready, rows: usize) -> Self {
        Self {
            runs: self.runs.wrapping_add(rows * ready.cut.runs),
            biases: self.biases.wrapping_add(rows * ready.cut.groups),
        }
    }

    /// Floats that [`Scales::read`] needs.
    fn room(cut: Cut) -> usize {
        SCALED * cut.runs + 16 + 2 * (SCALED * cut.groups + 16)
    }

    /// Those of rows `n..n + rows`, put into `scratch`.
    #[inline(always)]
    unsafe fn read<V: Set>(p: &Product, cut: Cut, n: usize, rows: usize, scratch: *mut f32) -> Self {
        let (groups, of) = (cut.groups, cut.group / RUN);
        let wide = if of == 1 { scratch } else { scratch.add(SCALED * cut.runs + 16) };
        V::widen(p, groups, n, rows, wide);
        if of > 1 {
            for group in 0..rows * groups {
                (0..of).for_each(|run| *scratch.add(group * of + run) = *wide.add(group));
            }
            // What follows the last row meets zeros; it only has to be finite.
            (0..8).for_each(|i| *scratch.add(rows * cut.runs + i) = 0.0);
        }
        Self {
            runs: scratch,
            biases: wide.add(SCALED * groups + 16),
        }
    }
}

/// Sums of A rows of x against two rows of W, the first at `w`, before the last step over the lanes. `scales` are the first row's.
/// `distance` is that between the rows: 0 takes one row twice.
#[inline(always)]
unsafe fn lanes<V: Whole, const BITS: usize, const A: usize>(
    p: &Product,
    ready: &Ready,
    at: usize,
    w: *const u8,
    scales: Scales,
    distance: usize,
) -> [V::Twin; A] {
    let (cut, pitch, runs, groups) = (
        ready.cut,
        distance * p.pitch,
        distance * ready.cut.runs,
        distance * ready.cut.groups,
    );
    let (scales, biases) = (scales.runs, scales.biases);
    let (mut x, mut x_scales) = (ready.x.add(at * ready.pitch), ready.scales.add(at * ready.scale_pitch));
    let mut acc = [V::twin([V::zero(); 2]); A];
    // Rows follow each other: a constant distance ahead, a cache line at a time.
    let mut ahead = w.wrapping_add(AHEAD);
    let bytes = 32 * BITS;
    for c in 0..cut.blocks {
        for line in (0..2 * bytes).step_by(64) {
            V::soon(ahead.wrapping_add(line));
        }
        ahead = ahead.wrapping_add(2 * bytes);
        let parts = V::block::<BITS>([w.add(c * bytes), w.add(pitch + c * bytes)]);
        let mut sums = [V::none(); A];
        for i in 0..8 {
            for a in 0..A {
                sums[a] = V::dot(sums[a], parts[i], V::x(x.add(a * ready.pitch + i * PART)));
            }
        }
        let of = |scales: *const f32| V::spread(scales, 1, c);
        let scale = V::order::<BITS>(V::twin([of(scales), of(scales.add(runs))]));
        for a in 0..A {
            acc[a] = V::scaled(sums[a], scale, x_scales.add(a * ready.scale_pitch), acc[a]);
        }
        (x, x_scales) = (x.add(8 * PART), x_scales.add(8));
    }
    let (mut words, left) = (
        [w.add(cut.blocks * bytes), w.add(pitch + cut.blocks * bytes)],
        scales.add(cut.blocks * 8),
    );
    let mut last = std::mem::MaybeUninit::<[[u8; 32]; 2]>::uninit();
    for c in 0..cut.chunks {
        V::soon(ahead.wrapping_add(64 * c));
        if cut.rest && c + 1 == cut.chunks {
            // Zeros after it.
            last.write([[0; 32]; 2]);
            let (used, to) = (p.k % BLOCK * BITS / 8 - 32 * c, last.as_mut_ptr().cast::<u8>());
            words[0].copy_to_nonoverlapping(to, used);
            words[1].copy_to_nonoverlapping(to.add(32), used);
            words = [to.cast_const(), to.add(32).cast_const()];
        }
        let mut sums = [V::none(); A];
        for i in 0..8 / BITS {
            let part = V::chunk::<BITS>(words, i);
            for a in 0..A {
                sums[a] = V::dot(sums[a], part, V::x(x.add(a * ready.pitch + i * PART)));
            }
        }
        let of = |scales: *const f32| V::spread(scales, BITS, c);
        let scale = V::twin([of(left), of(left.add(runs))]);
        for a in 0..A {
            acc[a] = V::scaled(sums[a], scale, x_scales.add(a * ready.scale_pitch), acc[a]);
        }
        (x, x_scales) = (x.add(8 / BITS * PART), x_scales.add(8));
        words = [words[0].wrapping_add(32), words[1].wrapping_add(32)];
    }
    let sums = ready.sums.add(at * ready.sum_pitch);
    for g in (0..cut.groups).step_by(8) {
        let bias = V::twin([V::load(biases.add(g)), V::load(biases.add(groups + g))]);
        for a in 0..A {
            acc[a] = V::lifted(bias, sums.add(a * ready.sum_pitch + g), acc[a]);
        }
    }
    acc
}

/// A rows of x, from row m, against rows `from..to` of W; `scales` those of `from`.
#[inline(always)]
unsafe fn meet<V: Whole, const BITS: usize, const A: usize>(
    p: &Product,
    ready: &Ready,
    m: usize,
    (from, to): (usize, usize),
    mut scales: Scales,
) {
    let at = m - ready.from;
    let (mut n, mut w) = (from, p.w.add(from * p.pitch));
    while n + 4 <= to {
        let next = (n + SCALED) * p.scale_pitch;
        for line in (0..4 * p.scale_pitch).step_by(64) {
            V::soon(p.scales.wrapping_add(next + line));
            V::soon(p.biases.wrapping_add(next + line));
        }
        // Two at a time are what the registers hold; four end in one step over the lanes.
        let low = lanes::<V, BITS, A>(p, ready, at, w, scales, 1);
        let high = lanes::<V, BITS, A>(p, ready, at, w.add(2 * p.pitch), scales.of_row(ready, 2), 1);
        for a in 0..A {
            let ([first, second], [third, fourth]) = (V::rows(low[a]), V::rows(high[a]));
            p.put4(m + a, n, V::sum4([first, second, third, fourth]));
        }
        (n, w, scales) = (n + 4, w.wrapping_add(4 * p.pitch), scales.of_row(ready, 4));
    }
    while n < to {
        let one = lanes::<V, BITS, A>(p, ready, at, w, scales, 0);
        for a in 0..A {
            p.put(m + a, n, V::sum(V::rows(one[a])[0]));
        }
        (n, w, scales) = (n + 1, w.wrapping_add(p.pitch), scales.of_row(ready, 1));
    }
}

/// Columns `from..to` of y.
#[inline(always)]
unsafe fn columns<V: Set, const BITS: usize>(p: &Product, ready: &Ready, from: usize, to: usize, scratch: *mut f32) {
    // One tile of x reads W once; many have it come again while it is near.
    let panel = if ready.to - ready.from <= 4 { SCALED } else { PANEL };
    for first in (from..to).step_by(SCALED) {
        let last = to.min(first + SCALED);
        let scales = Scales::read::<V>(p, ready.cut, first, last - first, scratch);
        for n in (first..last).step_by(panel) {
            let (end, scales) = (last.min(n + panel), scales.of_row(ready, n - first));
            let mut m = ready.from;
            while m < ready.to {
                macro_rules! rows {
                    ($a:literal) => {{
                        V::meet::<BITS, $a>(p, ready, m, (n, end), scales);
                        m += $a;
                    }};
                }
                match ready.to - m {
                    1 => rows!(1),
                    2 => rows!(2),
                    3 | 5 | 6 => rows!(3),
                    _ => rows!(4),
                }
            }
        }
    }
}

/// Computes the product with `BITS` of 2, 4 or 8 in groups of 32, 64 or 128; a row has whole groups.
///
/// # Safety
/// This machine has `isa`; the pointers of `p` hold what its sizes say.
pub(crate) unsafe fn product<const BITS: usize>(isa: Isa, p: &Product, group: usize) {
    match isa {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => with_set::<super::simd::avx2::Avx512, BITS>(p, group),
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => with_set::<super::simd::avx2::Avx2, BITS>(p, group),
        _ => with_set::<super::simd::portable::Portable, BITS>(p, group),
    }
}

unsafe fn with_set<V: Set, const BITS: usize>(p: &Product, group: usize) {
    let cut = Cut::new(p.k, BITS, group);
    let (pitch, scale_pitch, sum_pitch) = (cut.bytes(BITS), cut.scales(), cut.groups.next_multiple_of(8));
    let floats = pitch / 4 + scale_pitch + sum_pitch;
    // No last block much smaller than the others.
    let most = (HELD / pitch.max(1) / 4 * 4).clamp(48, 512);
    let block = p.m.div_ceil(p.m.div_ceil(most)).next_multiple_of(4).min(p.m);
    ARRANGED.with_borrow_mut(|arranged| {
        // A load that crosses a cache line counts twice.
        let x = super::linear::room(arranged, block * floats + p.x_room + 16);
        let x = x.add(x.align_offset(64));
        let scales = x.add(block * pitch / 4);
        let sums = scales.add(block * scale_pitch);
        for from in (0..p.m).step_by(block) {
            let to = p.m.min(from + block);
            let ready = Ready {
                cut,
                from,
                to,
                x: x.cast_const().cast(),
                pitch,
                scales,
                scale_pitch,
                sums,
                sum_pitch,
            };
            V::arrange::<BITS>(p, &ready, sums.add(block * sum_pitch));
            // Chunks of at least some 32k weights, a few for each thread.
            let threads = pool::threads();
            let most = (p.n * p.k * (to - from).min(8) / 65_536).clamp(1, if threads == 1 { 1 } else { 4 * threads });
            let each = p.n.div_ceil(most).next_multiple_of(PANEL);
            pool::each(p.n.div_ceil(each), &|i| {
                SCRATCH.with_borrow_mut(|scratch| {
                    let scratch = super::linear::room(scratch, Scales::room(cut));
                    columns::<V, BITS>(p, &ready, i * each, p.n.min((i + 1) * each), scratch);
                });
            });
        }
    });
}

/// The loops above, each compiled by itself for an instruction set.
trait Set: Whole + Compiled {
    unsafe fn arrange<const BITS: usize>(p: &Product, ready: &Ready, buffer: *mut f32);
    unsafe fn meet<const BITS: usize, const A: usize>(p: &Product, ready: &Ready, m: usize, rows: (usize, usize), scales: Scales);
}

macro_rules! set {
    ($set:ty, $($feature:meta)?) => {
        impl Set for $set {
            $(#[$feature])?
            #[inline(never)]
            unsafe fn arrange<const BITS: usize>(p: &Product, ready: &Ready, buffer: *mut f32) {
                arrange::<Self, BITS>(p, ready, buffer);
            }
            $(#[$feature])?
            #[inline(never)]
            unsafe fn meet<const BITS: usize, const A: usize>(
                p: &Product,
                ready: &Ready,
                m: usize,
                rows: (usize, usize),
                scales: Scales,
            ) {
                meet::<Self, BITS, A>(p, ready, m, rows, scales);
            }
        }
    };
}
#[cfg(target_arch = "x86_64")]
set!(
    super::simd::avx2::Avx512,
    target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")
);
#[cfg(target_arch = "x86_64")]
set!(super::simd::avx2::Avx2, target_feature(enable = "avx2,fma,f16c"));
set!(super::simd::portable::Portable,);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::simd::Float;

    /// Numbered x against numbered fields: on every set of this machine, and in f64.
    fn on_all<const BITS: usize>(group: usize, m: usize, n: usize, k: usize) {
        let x: Vec<f32> = (0..m * k)
            .map(|i| (i as f32 * 0.37).sin() * 10f32.powi((i / k % 7) as i32 - 3))
            .collect();
        let row_bytes = k * BITS / 8;
        let w: Vec<u8> = (0..n * row_bytes).map(|i| (i * 37 % 251) as u8).collect();
        let groups = k / group;
        let scales: Vec<f32> = (0..n * groups).map(|i| 0.01 + (i % 7) as f32 * 0.003).collect();
        let biases: Vec<f32> = (0..n * groups).map(|i| (i % 5) as f32 * 0.01 - 0.02).collect();
        let exact = |m: usize, n: usize| -> (f64, f64) {
            let value = |i: usize| {
                let field = w[n * row_bytes + i * BITS / 8] >> (i * BITS % 8) & (255 >> (8 - BITS)) as u8;
                f64::from(scales[n * groups + i / group]) * f64::from(field) + f64::from(biases[n * groups + i / group])
            };
            let terms = || (0..k).map(|i| f64::from(x[m * k + i]) * value(i));
            (terms().sum(), terms().map(f64::abs).sum())
        };
        // SAFETY: the row is inside x.
        let x_row = |m: usize, _: *mut f32| unsafe { (x.as_ptr() as usize as *const f32).add(m * k) };
        let mut results: Vec<Vec<f32>> = vec![];
        for isa in Isa::all() {
            let mut y = vec![0.0f32; m * n];
            let p = Product {
                m,
                n,
                k,
                x_row: &x_row,
                x_room: 0,
                w: w.as_ptr(),
                pitch: row_bytes,
                scales: scales.as_ptr().cast(),
                biases: biases.as_ptr().cast(),
                scale_type: Float::F32,
                scale_pitch: groups * 4,
                bias: std::ptr::null(),
                y: y.as_mut_ptr().cast(),
                y_type: Float::F32,
                residual: std::ptr::null(),
            };
            // SAFETY: `all` lists what this machine has; the buffers hold what the sizes say.
            unsafe { product::<BITS>(isa, &p, group) };
            for (i, y) in y.iter().enumerate() {
                let (want, terms) = exact(i / n, i % n);
                // Half a step of 2^-15 of the largest activation in each run, and the sums in f32.
                assert!(
                    (f64::from(*y) - want).abs() < 3e-5 * terms,
                    "{isa:?} {BITS}/{group} {m}x{n}x{k} at {i}: {y}, not {want}"
                );
            }
            results.push(y);
        }
        let fused = results.len() - 1;
        for y in &results[..fused] {
            assert!(
                y.iter().zip(&results[0]).all(|(a, b)| a.to_bits() == b.to_bits()),
                "{BITS}/{group} {m}x{n}x{k}"
            );
        }
    }

    #[test]
    fn instruction_sets_agree_with_each_other_and_with_f64() {
        for m in [1, 2, 3, 4, 5, 9] {
            for n in [1, 4, 27, 51] {
                on_all::<4>(32, m, n, 288);
                on_all::<4>(64, m, n, 576);
                on_all::<4>(128, m, n, 640);
                on_all::<2>(32, m, n, 352);
                on_all::<2>(128, m, n, 896);
                on_all::<8>(32, m, n, 96);
                on_all::<8>(64, m, n, 320);
                on_all::<8>(128, m, n, 512);
            }
        }
    }

    #[test]
    fn runs_round_to_sixteen_bits() {
        let x: [f32; RUN] = std::array::from_fn(|i| (i as f32 * 1.7).cos() * 3.0);
        let mut whole = [0; RUN];
        // SAFETY: x holds a run.
        let scale = unsafe { round(x.as_ptr(), &mut whole) };
        let most = x.iter().fold(0.0f32, |most, v| most.max(v.abs()));
        assert!(
            whole
                .iter()
                .zip(x)
                .all(|(n, x)| (*n as f32 * scale - x).abs() <= most * 1.6e-5 && n.abs() <= 32_639)
        );
        for odd in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut x = x;
            x[5] = odd;
            // SAFETY: as above.
            assert!(unsafe { round(x.as_ptr(), &mut whole) }.is_nan());
        }
        // SAFETY: as above.
        assert!(unsafe { round([0.0f32; RUN].as_ptr(), &mut whole) } == 0.0 && whole == [0; RUN]);
    }
}
