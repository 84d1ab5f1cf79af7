//! Drawing a token inside the lazy graph of the CPU: the rule of `shape` in plain Rust as one operation on MLX's CPU
//! stream, so that step t+1 can be scheduled before token t is known. MLX's own sorts and generator take several
//! milliseconds for a row on the CPU; this takes a fraction of one.

use super::shape::{self, Shape};
use mlx_rs::{Array, Dtype, Stream, error::Exception};
use std::{ffi::c_char, panic::catch_unwind, slice};

/// Draws at `u` from one row of logits: `[.., V]` f32 in, `[1, 1]` u32 out.
///
/// # Errors
/// Here, or when the result is evaluated: more than one row, or logits that are not numbers.
pub fn draw(logits: &Array, shape: &Shape, u: f64) -> Result<Array, Exception> {
    drawn(logits, shape, u, false)
}

/// The same for a guess, where logits that are not numbers are no error: they give id 0.
///
/// # Errors
/// More than one row.
pub fn draw_guess(logits: &Array, shape: &Shape, u: f64) -> Result<Array, Exception> {
    drawn(logits, shape, u, true)
}

#[allow(unsafe_code)]
fn drawn(logits: &Array, shape: &Shape, u: f64, guess: bool) -> Result<Array, Exception> {
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
        i64::from(guess),
    ];
    let inputs = [row.as_ptr()];
    let dims = [1, 1];
    let output = mlx_sys::mlx_host_output {
        shape: dims.as_ptr(),
        ndim: dims.len(),
        dtype: Dtype::Uint32 as _,
        donor: -1,
    };
    let stream = Stream::thread_local_or_default();
    // SAFETY: `inputs`, `dims`, `output` and `params` outlive the call, which copies them; `kernel` has the declared
    // signature and does not unwind; name and kernel are static; the new array is owned by `out` from the moment it
    // exists.
    unsafe {
        let mut out = mlx_sys::mlx_array_new();
        let status = mlx_sys::mlx_host_op(
            &raw mut out,
            &raw const output,
            1,
            inputs.as_ptr(),
            inputs.len(),
            Some(kernel),
            params.as_ptr(),
            params.len(),
            c"Sample".as_ptr(),
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
    _input_count: usize,
    outputs: *const mlx_sys::mlx_host_view,
    _output_count: usize,
    params: *const i64,
    count: usize,
    error: *mut c_char,
    error_size: usize,
) -> i32 {
    let outcome = catch_unwind(|| -> Result<(), &'static str> {
        // SAFETY: MLX calls this with the one input, the one output and the parameters that `draw` gave; the input is
        // one dimension of f32 with any stride, the output one u32, and all are alive during the call.
        let (row, out, params) = unsafe { (&*inputs, &*outputs, slice::from_raw_parts(params, count)) };
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
        let u = f64::from_bits(params[0] as u64);
        let token = match shape::draw(logits, &shape, u) {
            None if params[5] == 0 => return Err("the logits are not numbers, so no token can be drawn"),
            token => token.unwrap_or(0),
        };
        // SAFETY: as above.
        unsafe { *out.data.cast::<u32>() = token };
        Ok(())
    });
    let text = match outcome {
        Ok(Ok(())) => return 0,
        Ok(Err(text)) => text,
        Err(_) => "sampling panicked",
    };
    let n = text.len().min(error_size.saturating_sub(1));
    if error_size > 0 {
        // SAFETY: `error` has room for `error_size` bytes, of which this writes `n + 1`.
        unsafe {
            error.copy_from_nonoverlapping(text.as_ptr().cast(), n);
            *error.add(n) = 0;
        }
    }
    1
}
