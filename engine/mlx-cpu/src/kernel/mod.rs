//! What runs on the stream's thread.
//!
//! Kernels work on raw views that MLX keeps alive for the time of a call, so nearly all of it is unsafe: each `unsafe fn` says what
//! it needs, and the entry points check shapes, types and strides before any pointer is followed.
#![allow(
    unsafe_code,
    unsafe_op_in_unsafe_fn,
    clippy::missing_safety_doc,
    clippy::inline_always,
    clippy::wildcard_imports
)]
// Arrays of registers are indexed by the tile's own counters; pointers are cast to what their types say.
#![allow(
    clippy::needless_range_loop,
    clippy::cast_ptr_alignment,
    clippy::too_many_arguments,
    clippy::many_single_char_names
)]

mod attention;
pub(crate) mod elementwise;
pub(crate) mod entry;
pub(crate) mod experts;
mod format;
mod linear;
mod pool;
pub(crate) mod product;
#[cfg(not(target_arch = "aarch64"))]
mod quantized;
pub(crate) mod recurrence;
pub(crate) mod simd;
pub(crate) mod step;
mod tiles;

pub(crate) use pool::threads;

/// Quantized weights meet f32 activations, whatever else is set.
pub(crate) static EXACT: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);
