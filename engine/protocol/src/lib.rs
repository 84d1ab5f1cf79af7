//! The engine's door: what goes in ([`Request`], [`LoadRequest`]), what comes out ([`Event`], [`LoadEvent`],
//! [`Snapshot`]) and the [`EngineHandle`] between. There is no MLX here, so faces (window, CLI, HTTP) build and
//! test without it; [`double`] stands in for the engine behind the same handle.
//!
//! Three channels and no more: bounded commands into the worker; one event stream per generation, whose drop
//! cancels; the latest snapshot, beside the ring of recent rounds.

mod constraint;
pub mod double;
mod error;
mod event;
mod guard;
mod handle;
mod message;
mod output;
mod request;
mod snapshot;
mod speculation;
mod totals;

pub use constraint::{AnswerRule, CallRule, Constraint, ToolRule};
pub use error::{EngineError, Result};
pub use event::{Event, FinishReason, LoadEvent, LoadStage, Source, Summary, TextDelta, Timings, TokenInfo, TopToken, Usage};
pub use guard::{MemoryGuard, Pressure, Shed};
pub use handle::{Command, EngineHandle, ForceCommand, GenerateCommand, Generation, LoadCommand, Loading, PromptCodec, Worker, channel};
pub use message::{Message, Role, ToolCall};
pub use output::{OutputSyntax, ReasoningSyntax, ToolSyntax};
pub use request::{LoadRequest, Mode, Prompt, Request, Sampling, SamplingDefaults, TemplateOptions};
pub use snapshot::{
    ActiveRequest, Bandwidth, EngineState, MachineInfo, Memory, ModelInfo, PrefixDisk, PrefixSlot, PrefixState, RoundRecord, RoundRing,
    Snapshot,
};
pub use speculation::{
    Cap, CapOrigin, Curves, Divergence, DrafterInfo, ForcingReport, PositionCount, RoundStats, SpeculationOptions, SpeculationState,
    SpeculationSummary, TreeSetting, Verdict,
};
pub use totals::{LastReply, Totals};
