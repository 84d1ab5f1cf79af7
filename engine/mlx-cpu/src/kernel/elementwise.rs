//! Row functions: norm, gated activation, exponential. They treat a row alone, so it does not matter what rides along.

use super::{
    entry::{Call, Outcome, Rows, entry},
    pool,
    simd::{Isa, dispatch},
};
use std::cell::RefCell;

thread_local! { static BUFFERS: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) }; }

/// Room for `len` floats of this thread, for the time of `f`.
pub(crate) fn with_buffer<T>(len: usize, f: impl FnOnce(*mut f32) -> T) -> T {
    let mut buffer = BUFFERS.take();
    if buffer.len() < len {
        buffer.resize(len, 0.0);
    }
    let result = f(buffer.as_mut_ptr());
    BUFFERS.set(buffer);
    result
}

/// `e^x` to about a unit in the last place, without a branch; below 1e-37 where x < -86.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    // Added to a smaller number, it leaves the nearest whole one in the low bits: no conversion, which would check its range lane by lane.
    const MAGIC: f32 = 12_582_912.0;
    let x = x.clamp(-87.0, 88.0);
    let whole = x * std::f32::consts::LOG2_E + MAGIC;
    let n = whole - MAGIC;
    // ln 2 in two parts, the first with few enough bits for an exact product.
    let f = (x - n * 0.693_359_4) + n * 2.121_944_4e-4;
    let p = 0.5 + f * (0.166_666_66 + f * (0.041_665_796 + f * (8.333_452e-3 + f * (1.398_2e-3 + f * 1.987_569_2e-4))));
    let e = (p * f * f + f) + 1.0;
    e * f32::from_bits((whole.to_bits().wrapping_add(127)) << 23)
}

dispatch! {
    /// `y = x / sqrt(mean(x²) + eps) * w`; no `w` where null. `y` may be `x`.
    pub(crate) fn norm_row[](x: *const f32, w: *const f32, y: *mut f32, k: usize, eps: f32) {
        let (mut sum, mut i) = ([V::zero(); 4], 0);
        while i + V::LANES <= k {
            let v = V::load(x.add(i));
            let slot = i / V::LANES % 4;
            sum[slot] = V::fma(v, v, sum[slot]);
            i += V::LANES;
        }
        let sums = V::sum4(sum);
        let mut total = (sums[0] + sums[1]) + (sums[2] + sums[3]);
        while i < k {
            total += *x.add(i) * *x.add(i);
            i += 1;
        }
        let scale = 1.0 / (total / k as f32 + eps).sqrt();
        if w.is_null() {
            for i in 0..k {
                *y.add(i) = *x.add(i) * scale;
            }
        } else {
            for i in 0..k {
                *y.add(i) = *x.add(i) * scale * *w.add(i);
            }
        }
    }
}

dispatch! {
    /// `y = gate / (1 + e^-gate) * up`
    pub(crate) fn swiglu_row[](gate: *const f32, up: *const f32, y: *mut f32, k: usize) {
        for i in 0..k {
            let g = *gate.add(i);
            *y.add(i) = g / (1.0 + exp(-g)) * *up.add(i);
        }
    }
}

entry!(norm, run_norm);
entry!(swiglu, run_swiglu);

/// Rows worth a chunk of their own.
fn each_row(rows: usize, width: usize, work: impl Fn(usize) + Sync) {
    let chunk = (32_768 / width.max(1)).max(1);
    pool::each(rows.div_ceil(chunk), &|c| (c * chunk..rows.min((c + 1) * chunk)).for_each(&work));
}

/// Inputs x and perhaps w; parameters: the bits of eps.
unsafe fn run_norm(call: &Call) -> Outcome {
    let (x, y, isa) = (Rows::new(&call.inputs[0])?, Rows::new(&call.outputs[0])?, Isa::detect());
    let (k, eps) = (x.width, f32::from_bits(call.params[0] as u32));
    let mut weight = vec![0.0; k];
    let w = match call.inputs.get(1) {
        Some(view) => {
            let rows = Rows::new(view)?;
            if rows.width != k {
                return Err(format!("{} norm weights for rows of {k}", rows.width));
            }
            rows.floats(0, weight.as_mut_ptr())
        }
        None => std::ptr::null(),
    };
    let w = w as usize;
    each_row(x.count, k, |row| {
        with_buffer(2 * k, |buffer| {
            let from = x.floats(row, buffer);
            let to = y.start(row).cast_mut();
            if y.kind == super::simd::Float::F32 {
                norm_row(isa, from, w as *const f32, to.cast(), k, eps);
            } else {
                norm_row(isa, from, w as *const f32, buffer.add(k), k, eps);
                (0..k).for_each(|i| y.kind.put(to, i, *buffer.add(k + i)));
            }
        });
    });
    Ok(())
}

/// Input: gate and up side by side, or the two.
unsafe fn run_swiglu(call: &Call) -> Outcome {
    let (y, isa) = (Rows::new(&call.outputs[0])?, Isa::detect());
    let (gate, k) = (Rows::new(&call.inputs[0])?, y.width);
    let up = call.inputs.get(1).map(Rows::new).transpose()?;
    each_row(y.count, k, |row| {
        with_buffer(3 * k, |buffer| {
            let g = gate.floats(row, buffer);
            let u = match &up {
                Some(up) => up.floats(row, buffer.add(k)),
                None => g.add(k),
            };
            let to = y.start(row).cast_mut();
            if y.kind == super::simd::Float::F32 {
                swiglu_row(isa, g, u, to.cast(), k);
            } else {
                swiglu_row(isa, g, u, buffer.add(2 * k), k);
                (0..k).for_each(|i| y.kind.put(to, i, *buffer.add(2 * k + i)));
            }
        });
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn exp_is_close() {
        for i in -8_700..8_700 {
            let x = i as f32 * 0.01;
            let want = f64::from(x).exp();
            assert!(((f64::from(super::exp(x)) - want) / want).abs() < 3e-7, "{x}");
        }
        assert!(super::exp(-1e9) < 1e-37);
    }
}
