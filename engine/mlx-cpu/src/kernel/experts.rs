//! Products of a mixture of experts: each row of x with the weights of the expert that it has chosen. Rows of one expert go
//! together, so that its weights are read once.

use super::{
    entry::{Call, Outcome, Rows, dense, entry, float, shape},
    format::{Bf16, F16, F32},
    linear::{Product, product},
    product::affine,
    simd::{Float, Isa},
};
use mlx_sys::mlx_host_view as View;

entry!(experts, run);

/// Bytes from expert to expert and from row to row of `[E, N, K]`.
fn steps(view: &View, size: usize) -> Result<(usize, usize), String> {
    let (&[experts, n, k], strides) = (shape(view), view.strides) else {
        return Err(format!("weights of shape {:?} are not a matrix for each expert", shape(view)));
    };
    let gaps = (k > 1 && strides[2] != 1) || (n > 1 && strides[1] < k) || (experts > 1 && strides[0] < n * k);
    if gaps {
        return Err(format!("weights of strides {:?} have gaps", &strides[..3]));
    }
    Ok((strides[0] as usize * size, strides[1] as usize * size))
}

/// Element `at` of a view of u32, in row-major order.
unsafe fn element(view: &View, mut at: usize) -> usize {
    let mut place = 0;
    for d in (0..view.ndim as usize).rev() {
        let n = view.shape[d] as usize;
        place += (at % n) as i64 * view.strides[d];
        at /= n;
    }
    view.data.cast::<u32>().offset(place as isize).read() as usize
}

/// Inputs x `[.., K]`, the choices `[..]` u32, w `[E, N, ..]`, and for packed weights scales and biases `[E, N, ..]`; params:
/// bits (0: dense), group. Each row of x has as many choices as there are of them for each row. Output: a row for each choice.
unsafe fn run(call: &Call) -> Outcome {
    let isa = Isa::detect();
    let (&[bits, group], [x, choices, w, packed @ ..]) = (call.params, call.inputs) else {
        return Err("inputs are missing".into());
    };
    let (x, y) = (Rows::new(x)?, &call.outputs[0]);
    let pairs: usize = shape(choices).iter().product::<i64>() as usize;
    if choices.dtype as u32 != mlx_sys::mlx_dtype__MLX_UINT32 || x.count == 0 || !pairs.is_multiple_of(x.count) || !dense(y) {
        return Err(format!("{pairs} choices of type {} for {} rows", choices.dtype, x.count));
    }
    let share = pairs / x.count;
    let (n, k) = (w.shape[1] as usize, x.width);
    let y_type = float(y)?;
    let kind = if bits > 0 { Float::F32 } else { float(w)? };
    let (w_step, pitch) = steps(w, if bits > 0 { 4 } else { kind.size() })?;
    let mut scaling = None;
    if bits > 0 {
        let [scales, biases] = packed else {
            return Err("packed weights have scales and biases".into());
        };
        let size = float(scales)?.size();
        let found = steps(scales, size)?;
        if scales.dtype != biases.dtype || steps(biases, size)? != found || shape(scales) != shape(biases) {
            return Err("scales and biases differ".into());
        }
        if w.shape[2] * 32 != k as i64 * bits || scales.shape[2] * group != k as i64 || scales.shape[..2] != w.shape[..2] {
            return Err("scales or x do not fit the weights".into());
        }
        scaling = Some((scales, biases, found));
    } else if w.shape[2] != k as i64 {
        return Err(format!("weights of shape {:?} for rows of {k}", shape(w)));
    }

    let mut order: Vec<(usize, usize)> = (0..pairs).map(|pair| (element(choices, pair), pair)).collect();
    order.sort_unstable();
    let row_bytes = n * y_type.size();
    let mut scratch: Vec<u8> = Vec::new();
    for together in order.chunk_by(|a, b| a.0 == b.0) {
        let (expert, first) = together[0];
        if expert >= w.shape[0] as usize {
            return Err(format!("expert {expert} of {}", w.shape[0]));
        }
        let row = |m: usize, buffer: *mut f32| x.floats(together[m].1 / share, buffer);
        // Neighbours are written where they belong.
        let in_place = together.iter().enumerate().all(|(m, (_, pair))| *pair == first + m);
        if !in_place {
            scratch.resize(together.len() * row_bytes, 0);
        }
        let out = y.data.cast::<u8>();
        let mut p = Product {
            m: together.len(),
            n,
            k,
            x_row: &row,
            x_room: k,
            w: w.data.cast::<u8>().add(expert * w_step),
            pitch,
            scales: std::ptr::null(),
            biases: std::ptr::null(),
            scale_type: Float::F32,
            scale_pitch: 0,
            bias: std::ptr::null(),
            y: if in_place {
                out.add(first * row_bytes)
            } else {
                scratch.as_mut_ptr()
            },
            y_type,
            residual: std::ptr::null(),
        };
        if let Some((scales, biases, (step, pitch))) = scaling {
            p.scale_type = float(scales)?;
            p.scale_pitch = pitch;
            p.scales = scales.data.cast::<u8>().add(expert * step);
            p.biases = biases.data.cast::<u8>().add(expert * step);
            affine(isa, &p, bits, group)?;
        } else {
            match kind {
                Float::F32 => product::<F32>(isa, isa, &p),
                Float::F16 => product::<F16>(isa, isa, &p),
                Float::Bf16 => product::<Bf16>(isa, isa, &p),
            }
        }
        if !in_place {
            for (m, (_, pair)) in together.iter().enumerate() {
                let from = scratch.as_ptr().add(m * row_bytes);
                from.copy_to_nonoverlapping(out.add(pair * row_bytes), row_bytes);
            }
        }
    }
    Ok(())
}
