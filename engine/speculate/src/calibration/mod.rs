//! Measuring what rounds cost, and keeping it.
//!
//! Source: `spec/speculation.md` §9.1.

mod file;
mod schedule;

pub use file::{CurveFile, CurveFileError, Key};
pub use schedule::{Probe, Schedule, measure, median, monotone, steady};
