//! From MLX's views to the arguments of a kernel, and from panics and misfits to text.

use super::simd::Float;
use mlx_sys::mlx_host_view as View;
use std::{
    ffi::c_char,
    panic::{AssertUnwindSafe, catch_unwind},
    slice,
};

/// Why a kernel refused, for the exception of the evaluation.
pub(crate) type Outcome = Result<(), String>;

/// What a kernel gets.
pub(crate) struct Call<'a> {
    pub(crate) inputs: &'a [View],
    pub(crate) outputs: &'a [View],
    pub(crate) params: &'a [i64],
}

/// Runs `kernel` on the C arguments; its error or panic is written to `error`.
///
/// # Safety
/// The arguments are those of a call by `mlx_host_op`.
#[allow(clippy::too_many_arguments)]
pub(crate) unsafe fn enter(
    inputs: *const View,
    n_inputs: usize,
    outputs: *const View,
    n_outputs: usize,
    params: *const i64,
    n_params: usize,
    error: *mut c_char,
    error_size: usize,
    kernel: unsafe fn(&Call) -> Outcome,
) -> i32 {
    fn all<'a, T>(p: *const T, n: usize) -> &'a [T] {
        // SAFETY: `n` of them, by the caller's promise; an empty vector's pointer may be null.
        if n == 0 { &[] } else { unsafe { slice::from_raw_parts(p, n) } }
    }
    let call = Call {
        inputs: all(inputs, n_inputs),
        outputs: all(outputs, n_outputs),
        params: all(params, n_params),
    };
    let outcome = catch_unwind(AssertUnwindSafe(|| kernel(&call))).unwrap_or_else(|panic| {
        let text = panic
            .downcast_ref::<&str>()
            .map(ToString::to_string)
            .or_else(|| panic.downcast_ref::<String>().cloned());
        Err(format!("the kernel panicked: {}", text.unwrap_or_default()))
    });
    let Err(text) = outcome else { return 0 };
    let len = text.len().min(error_size - 1);
    // SAFETY: `error` has room for `error_size` bytes.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr(), error.cast(), len);
        *error.add(len) = 0;
    }
    1
}

/// Defines the C function for a kernel.
macro_rules! entry {
    ($name:ident, $kernel:path) => {
        pub(crate) unsafe extern "C" fn $name(
            inputs: *const mlx_sys::mlx_host_view,
            n_inputs: usize,
            outputs: *const mlx_sys::mlx_host_view,
            n_outputs: usize,
            params: *const i64,
            n_params: usize,
            error: *mut std::ffi::c_char,
            error_size: usize,
        ) -> i32 {
            $crate::kernel::entry::enter(
                inputs, n_inputs, outputs, n_outputs, params, n_params, error, error_size, $kernel,
            )
        }
    };
}
pub(crate) use entry;

pub(crate) fn float(view: &View) -> Result<Float, String> {
    match view.dtype as u32 {
        d if d == mlx_sys::mlx_dtype__MLX_FLOAT32 => Ok(Float::F32),
        d if d == mlx_sys::mlx_dtype__MLX_FLOAT16 => Ok(Float::F16),
        d if d == mlx_sys::mlx_dtype__MLX_BFLOAT16 => Ok(Float::Bf16),
        d => Err(format!("values of type {d} are not floats of 16 or 32 bits")),
    }
}

pub(crate) fn shape(view: &View) -> &[i64] {
    &view.shape[..view.ndim as usize]
}

/// Every element in row-major order, without gaps.
pub(crate) fn dense(view: &View) -> bool {
    let mut step = 1;
    (0..view.ndim as usize).rev().all(|d| {
        let fits = view.shape[d] == 1 || view.strides[d] == step;
        step *= view.shape[d];
        fits
    })
}

/// A view whose last dimension is a row.
#[derive(Clone, Copy)]
pub(crate) struct Rows<'a> {
    view: &'a View,
    pub(crate) kind: Float,
    pub(crate) count: usize,
    pub(crate) width: usize,
}

// SAFETY: rows of inputs are only read; rows of outputs are written by one thread each.
unsafe impl Sync for Rows<'_> {}

impl<'a> Rows<'a> {
    pub(crate) fn new(view: &'a View) -> Result<Self, String> {
        let Some((last, leading)) = shape(view).split_last() else {
            return Err("a scalar has no rows".into());
        };
        Ok(Self {
            view,
            kind: float(view)?,
            count: leading.iter().product::<i64>() as usize,
            width: *last as usize,
        })
    }

    /// Start of row `row`, counted in row-major order.
    pub(crate) fn start(&self, mut row: usize) -> *const u8 {
        let mut at = 0;
        for d in (0..self.view.ndim as usize - 1).rev() {
            let n = self.view.shape[d] as usize;
            at += (row % n) as i64 * self.view.strides[d];
            row /= n;
        }
        self.view
            .data
            .cast::<u8>()
            .cast_const()
            .wrapping_offset(at as isize * self.kind.size() as isize)
    }

    /// Row `row` as f32: in place if it is that already, else copied to `buffer` (room for `width`).
    ///
    /// # Safety
    /// The view is of a live array.
    pub(crate) unsafe fn floats(&self, row: usize, buffer: *mut f32) -> *const f32 {
        let (start, step) = (self.start(row), self.view.strides[self.view.ndim as usize - 1] as isize);
        if self.kind == Float::F32 && (step == 1 || self.width == 1) && start.cast::<f32>().is_aligned() {
            return start.cast();
        }
        for i in 0..self.width {
            *buffer.add(i) = self.kind.get(start, i as isize * step);
        }
        buffer
    }
}
