use std::path::PathBuf;

/// What the engine answers when it cannot do as asked: what happened, the likely cause, what to do.
#[derive(Debug, Clone, thiserror::Error, PartialEq, Eq)]
pub enum EngineError {
    #[error("no model is loaded: load one first (`mlx-dspark starter` fetches a small one)")]
    NoModel,
    /// The request itself is wrong; the text says which field and why.
    #[error("{0}")]
    BadRequest(String),
    #[error("the prompt has {prompt} tokens, but the context window holds {window}: shorten the conversation or load with a larger window")]
    ContextOverflow { prompt: usize, window: usize },
    /// The chat template refused the conversation, in its own words.
    #[error("the chat template refused this conversation: {0}")]
    Template(String),
    #[error("the engine is busy: {queued} requests are waiting, at most {limit} may; try again in {retry_after_s} s")]
    Busy { queued: usize, limit: usize, retry_after_s: u64 },
    #[error("{feature} is not supported: {hint}")]
    Unsupported { feature: String, hint: String },
    #[error("cannot load `{model}`: {reason}")]
    Load { model: String, reason: String },
    /// Could be read, and is not: what it asks for is not done here.
    #[error("`{model}` is refused: {reason}")]
    Refused { model: String, reason: String },
    #[error("cannot read {}: {reason}", path.display())]
    File { path: PathBuf, reason: String },
    /// The computation failed or panicked; other requests are not affected.
    #[error("the computation failed: {0}; the engine goes on, try the request again")]
    Compute(String),
    #[error("cancelled")]
    Cancelled,
    #[error("the engine has stopped: restart the application")]
    Stopped,
}

pub type Result<T, E = EngineError> = std::result::Result<T, E>;
