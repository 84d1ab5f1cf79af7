//! Rust kernels as operations of MLX's graph, and the few raw calls that mlx-rs does not wrap.
#![allow(unsafe_code)]

use crate::Result;
use mlx_rs::{Array, Device, DeviceType, Dtype, Stream, error::Exception};
use mlx_sys::mlx_host_view as View;
use std::{
    cell::OnceCell,
    ffi::{CStr, c_char},
    sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed},
};

/// Where MLX computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    /// The CPU, with this crate's kernels.
    Cpu,
    /// An NVIDIA GPU.
    Cuda,
    /// An Apple GPU.
    Metal,
}

/// The backend of MLX's default device, looked up once: choose the device (`Device::set_default`) before the first call.
pub fn backend() -> Backend {
    static KNOWN: AtomicU8 = AtomicU8::new(0);
    match KNOWN.load(Relaxed) {
        1 => Backend::Cpu,
        2 => Backend::Cuda,
        3 => Backend::Metal,
        _ => {
            // try_default also installs mlx-rs's error handler: without one, MLX's errors would abort.
            let gpu = Device::try_default()
                .and_then(|d| d.get_type())
                .is_ok_and(|kind| matches!(kind, DeviceType::Gpu));
            let mut cuda = false;
            // SAFETY: writes one bool.
            unsafe { mlx_sys::mlx_cuda_is_available(&raw mut cuda) };
            let found = if !gpu {
                Backend::Cpu
            } else if cuda {
                Backend::Cuda
            } else {
                Backend::Metal
            };
            KNOWN.store(
                [Backend::Cpu, Backend::Cuda, Backend::Metal]
                    .iter()
                    .position(|b| *b == found)
                    .map_or(0, |i| i as u8 + 1),
                Relaxed,
            );
            found
        }
    }
}

static STOCK: AtomicBool = AtomicBool::new(false);

/// Compute everything with MLX's stock operations, as on a GPU: for comparisons and for bisecting a doubt.
pub fn force_stock(stock: bool) {
    STOCK.store(stock, Relaxed);
}

/// Multiply quantized weights with activations in f32, instead of in whole numbers of sixteen bits where those are faster: for
/// comparisons with f32 references, and for bisecting a doubt. `MLX_CPU_ACTIVATIONS=f32` does the same for a whole process.
pub fn exact_products(exact: bool) {
    crate::kernel::EXACT.store(exact, Relaxed);
}

/// Kernels apply: a CPU device, and nobody forced the stock operations.
pub(crate) fn ours() -> bool {
    backend() == Backend::Cpu && !STOCK.load(Relaxed)
}

/// Calls `f` with this thread's default stream, without making a handle each time. (A `with_stream` scope of mlx-rs cannot be
/// seen from here; MLX orders the streams by their data.)
fn on_stream<T>(f: impl FnOnce(&Stream) -> T) -> T {
    thread_local! { static DEFAULT: OnceCell<Stream> = const { OnceCell::new() }; }
    DEFAULT.with(|stream| f(stream.get_or_init(Stream::new)))
}

/// A result of an operation. `donor`: the input whose buffer it takes over when that input's last handle is dropped before evaluation.
pub(crate) struct Output<'a> {
    pub(crate) shape: &'a [i32],
    pub(crate) dtype: Dtype,
    pub(crate) donor: Option<usize>,
}

pub(crate) type Kernel = unsafe extern "C" fn(*const View, usize, *const View, usize, *const i64, usize, *mut c_char, usize) -> i32;

/// An operation of MLX's graph that `kernel` computes, with as many results as `outputs`.
pub(crate) fn op<const N: usize>(
    name: &'static CStr,
    kernel: Kernel,
    inputs: &[&Array],
    outputs: [Output; N],
    params: &[i64],
) -> Result<[Array; N]> {
    let handles: Vec<_> = inputs.iter().map(|a| a.as_ptr()).collect();
    let outputs = outputs.map(|o| mlx_sys::mlx_host_output {
        shape: o.shape.as_ptr(),
        ndim: o.shape.len(),
        dtype: o.dtype as _,
        donor: o.donor.map_or(-1, |i| i as i32),
    });
    on_stream(|stream| {
        // SAFETY: the handles and slices live through the call, which copies what it keeps; `kernel` and `name` are static.
        unsafe {
            let mut made: [_; N] = std::array::from_fn(|_| mlx_sys::mlx_array_new());
            let status = mlx_sys::mlx_host_op(
                made.as_mut_ptr(),
                outputs.as_ptr(),
                N,
                handles.as_ptr(),
                handles.len(),
                Some(kernel),
                params.as_ptr(),
                params.len(),
                name.as_ptr(),
                stream.as_ptr(),
            );
            let made = made.map(|a| Array::from_ptr(a));
            if status == 0 {
                Ok(made)
            } else {
                Err(Exception::custom(format!("{}: MLX refused the operation", name.to_string_lossy())))
            }
        }
    })
}

/// [`op`] with one result.
pub(crate) fn op1(name: &'static CStr, kernel: Kernel, inputs: &[&Array], shape: &[i32], dtype: Dtype, params: &[i64]) -> Result<Array> {
    op(name, kernel, inputs, [Output { shape, dtype, donor: None }], params).map(|[out]| out)
}

/// `a` with `update` in `start..stop`.
pub(crate) fn slice_update(a: &Array, update: &Array, start: &[i32; 4], stop: &[i32; 4]) -> Result<Array> {
    on_stream(|stream| {
        // SAFETY: handles and slices live through the call.
        unsafe {
            let mut out = mlx_sys::mlx_array_new();
            let status = mlx_sys::mlx_slice_update(
                &raw mut out,
                a.as_ptr(),
                update.as_ptr(),
                start.as_ptr(),
                4,
                stop.as_ptr(),
                4,
                [1; 4].as_ptr(),
                4,
                stream.as_ptr(),
            );
            let out = Array::from_ptr(out);
            if status == 0 {
                Ok(out)
            } else {
                Err(Exception::custom(format!("cannot write {:?} into {:?}", update.shape(), a.shape())))
            }
        }
    })
}
