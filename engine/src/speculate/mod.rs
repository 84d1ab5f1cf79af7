//! Speculation on the device: propose, verify in one forward, accept, commit; and the proof that nothing but speed comes
//! of it. What is decided without a device lives in `dspark-speculate`.
//!
//! | file | owns |
//! |---|---|
//! | `pair` | the loaded model's side: modes, caps, what is shown |
//! | `session` | one request's side: the plan of the next round |
//! | `companion` | the drafter's context beside the target's cache |
//! | `guess` | what a round offers, and what it was drawn from |
//! | `round`, `branches` | a round over a chain, over a tree |
//! | `bench`, `calibrate` | what rounds take on this machine |
//! | `forcing` | the proof by feeding the text again |

mod bench;
mod branches;
pub(crate) mod calibrate;
mod companion;
pub mod forcing;
mod guess;
mod pair;
pub(crate) mod round;
mod session;

pub(crate) use companion::Companion;
pub(crate) use pair::Pair;
pub(crate) use session::{Plan, Session};

pub use dspark_speculate::calibration::median;

use dspark_protocol::Mode;

/// As people write it.
pub fn name(mode: Mode) -> &'static str {
    mode.name()
}
