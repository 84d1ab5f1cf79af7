//! Drafters: small networks that read the target's residual stream and propose the next tokens. One canonical
//! [`DrafterSpec`], whatever the packaging; one forward. Source: `spec/drafters.md`.
//!
//! | file | owns |
//! |---|---|
//! | `detect`, `fields`, `speculators` | packaging → spec; pure |
//! | `spec`, `modules` | what a drafter is, and which tensors it must have |
//! | `files`, `gguf`, `nvfp4`, `reader` | tensors on disk, as stored; decoding; quantizing at load |
//! | `context` | keys and values of the committed text |
//! | `layer`, `conv`, `injection` | one backbone layer, and what DSpine adds after each |
//! | `drafter`, `chain`, `selector`, `tree` | block forward, and from hidden rows to proposed tokens |
//! | `bind` | what a drafter borrows of its target |
//! | `probe` | what is accepted, measured and proved on real prompts |

mod bind;
mod chain;
mod context;
mod conv;
mod detect;
mod drafter;
mod error;
mod fields;
mod files;
mod gguf;
mod injection;
mod layer;
mod modules;
mod nvfp4;
mod probe;
mod reader;
mod selector;
mod spec;
mod speculators;
mod tree;

pub use bind::Ends;
pub use chain::{Chain, Proposal, Step};
pub use context::Context;
pub use detect::detect;
pub use drafter::{Drafter, DrafterOptions, inspect};
pub use error::DrafterError;
pub use files::{Stored, Tensors};
pub use nvfp4::{E2M1, e4m3};
pub use probe::{Divergence, PositionCount, ProbeOptions, ProbeReport, PromptProbe, Verdict, probe};
pub use selector::{Lattice, Walk};
pub use spec::{BlockMask, Class, ConvSpec, DrafterSpec, Family, InjectionSpec, MarkovKind, MarkovSpec, Packaging, RopeSpec, SelectorSpec};

type Result<T> = std::result::Result<T, DrafterError>;
