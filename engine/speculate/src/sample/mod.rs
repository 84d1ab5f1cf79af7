//! From a row of logits to a drawn token, in plain Rust. The engine states the same rule in MLX.
//!
//! | file | owns |
//! |---|---|
//! | `shape` | temperature and truncation of one row; the distribution that results |
//! | `exp` | exponentials of a whole row |
//! | `rng` | counter-based random numbers, and which of them a token may use |

mod exp;
pub mod rng;
pub mod shape;
