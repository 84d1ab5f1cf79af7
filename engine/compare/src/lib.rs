//! Ways of decoding set side by side through an engine's handle: the same prompts, one arm after another, never two at
//! once. The window, the command line and the HTTP API share what is here; none of it computes.
//!
//! | file | owns |
//! |---|---|
//! | `arm` | a way to decode, its name, and which ways the loaded pair can run |
//! | `text` | fixed prompts by kind |
//! | `run` | one generation to its end, with what it cost |
//! | `verdict` | whether two texts are the same, and by how much they are not |
//! | `race` | one prompt by two to four arms, with the moment of every token |
//! | `bench` | many prompts by several arms in turns, as medians |
//! | `stamp` | what a measurement belongs to: model, machine, version |
//! | `history` | what is kept of races and benchmarks |

mod arm;
mod bench;
mod history;
mod race;
mod run;
mod stamp;
mod text;
mod verdict;

pub use arm::{Arm, Shape, Skipped, Way, arms, cap, fitting, shape, unfit, ways};
pub use bench::{Bench, Change, Figures, Plan, Progress, Run, csv, measure};
pub use history::{BENCHES, KEPT_RACES, RACES, append_bench, keep_races, read_benches, read_races};
pub use race::{Lane, News, Piece, Race, Wish, race};
pub use run::{Ran, run};
pub use stamp::Stamp;
pub use text::{Text, few, texts};
pub use verdict::{Difference, Verdict, judge};

/// To this many decimals: what is kept and shared says no more than was measured, and reads back as it was.
pub fn rounded(value: f64, places: i32) -> f64 {
    let scale = 10f64.powi(places);
    (value * scale).round() / scale
}
