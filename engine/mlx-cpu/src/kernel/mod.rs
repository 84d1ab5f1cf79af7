//! What runs on the stream's thread.
#![allow(unsafe_code, clippy::pedantic)]

pub(crate) mod entry;
pub(crate) mod linear;
pub(crate) mod pool;
pub(crate) mod simd;
