//! What a machine can do and how it fares, as pure functions.

pub mod chips;
pub mod limits;
pub mod roofline;
pub mod verdict;
