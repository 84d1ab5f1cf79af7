//! Speculation without a device: what is decided and what is computed about drafts, as plain Rust over plain numbers.
//! The engine brings rows and clocks; nothing here knows MLX.
//!
//! | module | owns |
//! |---|---|
//! | `sample` | rows to distributions, draws, random numbers |
//! | `accept` | which drafts are taken: greedy, lossless sampling, chains and trees |
//! | `tree` | draft trees: best-first choice of nodes, rows, paths |
//! | `lookup` | drafts from text that repeats |
//! | `confidence` | where a chain is cut by the drafter's own estimate |
//! | `cost` | what a round costs and yields; the cap that follows |
//! | `controller` | the cap of the next round from what the last ones did |
//! | `calibration` | what to measure, how to reduce it, and the file it is kept in |
//! | `statistics` | the chi-square test (tests only) |
//!
//! Source: `spec/speculation.md` §3, §4, §6–§9.

pub mod accept;
pub mod calibration;
pub mod confidence;
pub mod controller;
pub mod cost;
pub mod lookup;
pub mod sample;
#[cfg(any(test, feature = "statistics"))]
pub mod statistics;
pub mod tree;
