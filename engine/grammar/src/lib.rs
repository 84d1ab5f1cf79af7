//! Answers held to a schema: which tokens may come next, along a chain or a tree of drafts. No MLX here; the engine asks
//! for masks and lays them over the target's rows.
//!
//! | module | owns |
//! |---|---|
//! | `vocabulary` | a model's tokens as bytes, built once and shared |
//! | `schema` | what is wrong with a JSON schema, and what of it cannot be enforced |
//! | `calls` | the forms in which models write calls of tools |
//! | `compile` | a [`Constraint`](dspark_protocol::Constraint) to a grammar |
//! | `gate` | where the grammar begins: after reasoning, or where a call is opened |
//! | `matcher` | one generation's state: masks, acceptance, rollback, drafts |
//! | `mask` | a set of tokens |
//!
//! Source: `spec/http-api.md` §14.2.

mod calls;
mod compile;
mod error;
mod gate;
mod mask;
mod matcher;
mod schema;
#[cfg(feature = "testing")]
pub mod testing;
mod vocabulary;

pub use compile::{Compiled, Start, compile};
pub use error::GrammarError;
pub use mask::Mask;
pub use matcher::{ChainMasks, Matcher, TreeMasks};
pub use schema::check;
pub use vocabulary::Vocabulary;
