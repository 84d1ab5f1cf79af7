//! Drawing a token inside the lazy graph of the CPU: the rule of `shape` in plain Rust as one operation on MLX's CPU
//! stream, so that step t+1 can be scheduled before token t is known. MLX's own sorts and generator take several
//! milliseconds for a row on the CPU; this takes a fraction of one.

use super::shape::{Distribution, Shape};
use mlx_rs::{Array, Dtype, Stream, error::Exception};
use std::{panic::catch_unwind, slice};

/// Draws at `u` from one row of logits: `[.., V]` f32 in, `[1, 1]` u32 out.
///
/// # Errors
/// Here, or when the result is evaluated: more than one row, or logits that are not numbers.
#[allow(unsafe_code)]
pub fn draw(logits: &Array, shape: &Shape, u: f64) -> Result<Array, Exception> {
    let vocab = logits.shape().last().copied().unwrap_or(0);
    if vocab <= 0 || logits.size() != vocab as usize || logits.dtype() != Dtype::Float32 {
        return Err(Exception::custom(format!(
            "sampling takes one f32 row, not {:?} {:?}",
            logits.dtype(),
            logits.shape()
        )));
    }
    let row = logits.reshape(&[vocab])?;
    let params = [
        u.to_bits() as i64,
        i64::from(shape.temperature.to_bits()),
        i64::from(shape.top_p.to_bits()),
        i64::from(shape.top_k),
        i64::from(shape.min_p.to_bits()),
        0,
        0,
        0,
    ];
    let inputs = [row.as_ptr()];
    let dims = [1, 1];
    let stream = Stream::thread_local_or_default();
    // SAFETY: `inputs`, `dims` and `params` outlive the call, which copies them; `params` has the eight values the
    // header asks for; `kernel` has the declared signature and does not unwind; the new array is owned by `out`
    // from the moment it exists.
    unsafe {
        let mut out = mlx_sys::mlx_array_new();
        let status = mlx_sys::mlx_host_op(
            &raw mut out,
            inputs.as_ptr(),
            inputs.len(),
            dims.as_ptr(),
            dims.len(),
            Dtype::Uint32.into(),
            Some(kernel),
            params.as_ptr(),
            c"Sample".as_ptr(),
            -1,
            stream.as_ptr(),
        );
        let out = Array::from_ptr(out);
        if status == 0 {
            Ok(out)
        } else {
            Err(Exception::custom("the sampling operation was not accepted"))
        }
    }
}

#[allow(unsafe_code)]
unsafe extern "C" fn kernel(
    inputs: *const mlx_sys::mlx_host_view,
    _count: usize,
    output: *const mlx_sys::mlx_host_view,
    params: *const i64,
) -> i32 {
    let outcome = catch_unwind(|| {
        // SAFETY: MLX calls this with the one input, the output and the eight parameters that `draw` gave; the input
        // is one dimension of f32 with any stride, the output one u32, and both are alive during the call.
        let (row, out, params) = unsafe { (&*inputs, &*output, slice::from_raw_parts(params, 8)) };
        let (n, stride) = (row.shape[0] as usize, row.strides[0] as usize);
        let logits: &[f32];
        let gathered: Vec<f32>;
        if stride == 1 {
            // SAFETY: as above.
            logits = unsafe { slice::from_raw_parts(row.data.cast::<f32>(), n) };
        } else {
            // SAFETY: as above; element i lies `i * stride` elements on.
            gathered = (0..n).map(|i| unsafe { *row.data.cast::<f32>().add(i * stride) }).collect();
            logits = &gathered;
        }
        let shape = Shape {
            temperature: f32::from_bits(params[1] as u32),
            top_p: f32::from_bits(params[2] as u32),
            top_k: params[3] as u32,
            min_p: f32::from_bits(params[4] as u32),
        };
        let Some(distribution) = Distribution::of_logits(logits, &shape) else {
            return 1;
        };
        let token = distribution.draw(f64::from_bits(params[0] as u64));
        // SAFETY: as above.
        unsafe { *out.data.cast::<u32>() = token };
        0
    });
    outcome.unwrap_or(2)
}
