//! From MLX's views to a kernel's arguments.
use super::linear::{product, Affine, Bf16, Float, Product, F16, F32};
use mlx_sys::mlx_host_view as View;
use std::panic::catch_unwind;

fn float(view: &View) -> Option<Float> {
    Some(match view.dtype as u32 {
        d if d == mlx_sys::mlx_dtype__MLX_FLOAT32 => Float::F32,
        d if d == mlx_sys::mlx_dtype__MLX_FLOAT16 => Float::F16,
        d if d == mlx_sys::mlx_dtype__MLX_BFLOAT16 => Float::Bf16,
        _ => return None,
    })
}

fn dense(view: &View) -> bool {
    let mut step = 1;
    (0..view.ndim as usize).rev().all(|d| {
        let fits = view.shape[d] == 1 || view.strides[d] == step;
        step *= view.shape[d];
        fits
    })
}

pub(crate) unsafe extern "C" fn linear(inputs: *const View, count: usize, out: *const View, params: *const i64) -> i32 {
    catch_unwind(|| {
        let (ins, out, params) = (std::slice::from_raw_parts(inputs, count), &*out, std::slice::from_raw_parts(params, 8));
        run_linear(ins, out, params)
    })
    .ok()
    .flatten()
    .map_or(1, |()| 0)
}

unsafe fn run_linear(ins: &[View], out: &View, params: &[i64]) -> Option<()> {
    let (x, w) = (&ins[0], &ins[1]);
    let last = x.ndim as usize - 1;
    let m = x.shape[..last].iter().product::<i64>() as usize;
    let x_row = |mut row: usize| {
        let mut at = 0;
        for d in (0..last).rev() {
            at += (row % x.shape[d] as usize) as isize * x.strides[d] as isize;
            row /= x.shape[d] as usize;
        }
        at
    };
    let (k, n) = (x.shape[last] as usize, w.shape[0] as usize);
    if !ins[1..].iter().all(dense) || k % 16 != 0 {
        return None;
    }
    let (bits, group) = (params[0] as usize, params[1] as usize);
    let mut p = Product {
        m, n, k,
        x: x.data.cast(), x_type: float(x)?, x_row: &x_row, x_col: x.strides[last] as isize,
        w: w.data.cast(), pitch: 0,
        scales: std::ptr::null(), biases: std::ptr::null(), scale_type: Float::F32, groups: 0,
        y: out.data.cast(), residual: std::ptr::null(),
    };
    let ins = if params[2] == 1 {
        let (last, rest) = ins.split_last()?;
        if last.dtype != x.dtype {
            return None;
        }
        p.residual = last.data.cast();
        rest
    } else {
        ins
    };
    if ins.len() == 4 {
        p.pitch = k * bits / 8;
        p.scales = ins[2].data.cast();
        p.biases = ins[3].data.cast();
        p.scale_type = float(&ins[2])?;
        p.groups = k / group;
        if p.pitch % 32 != 0 || k % group != 0 {
            return None;
        }
        match (bits, group) {
            (2, 32) => product::<Affine<2, 32>>(&p),
            (2, 64) => product::<Affine<2, 64>>(&p),
            (2, 128) => product::<Affine<2, 128>>(&p),
            (4, 32) => product::<Affine<4, 32>>(&p),
            (4, 64) => product::<Affine<4, 64>>(&p),
            (4, 128) => product::<Affine<4, 128>>(&p),
            (8, 32) => product::<Affine<8, 32>>(&p),
            (8, 64) => product::<Affine<8, 64>>(&p),
            (8, 128) => product::<Affine<8, 128>>(&p),
            _ => return None,
        }
    } else {
        let kind = float(w)?;
        p.pitch = k * kind.size();
        match kind {
            Float::F32 => product::<F32>(&p),
            Float::F16 => product::<F16>(&p),
            Float::Bf16 => product::<Bf16>(&p),
        }
    }
    Some(())
}
