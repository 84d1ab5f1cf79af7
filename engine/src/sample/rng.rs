//! Lives in `dspark-speculate`.

pub use dspark_speculate::sample::rng::*;
