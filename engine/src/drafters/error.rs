use crate::{hub::HubError, load::LoadError};
use mlx_rs::error::Exception;
use std::path::PathBuf;

/// Why a drafter was not used: what happened, the likely cause, what to do.
#[derive(Debug, thiserror::Error)]
pub enum DrafterError {
    #[error("`{}` is not a drafter: {reason}", path.display())]
    NotADrafter { path: PathBuf, reason: String },
    /// A format or variant that this engine does not run.
    #[error("this drafter is not supported: {0}")]
    Unsupported(String),
    #[error("config.json of the drafter: {0}")]
    Config(String),
    /// Required fields that are not there.
    #[error("config.json of the drafter lacks {}: it is incomplete, or describes something else ({packaging})", fields.join(", "))]
    Missing { packaging: &'static str, fields: Vec<String> },
    /// Tensor names or shapes do not match what config.json describes.
    #[error(
        "the drafter's tensors do not fit its config.json: missing {}; unexpected {}; the download is incomplete, or this is another variant of the format",
        told(missing),
        told(unexpected)
    )]
    Tensors { missing: Vec<String>, unexpected: Vec<String> },
    #[error("tensor `{name}` of the drafter: {reason}")]
    Tensor { name: String, reason: String },
    /// Right in itself, and made for another target.
    #[error("the drafter does not fit this target: {0}; use the drafter that was trained for it")]
    Unfit(String),
    #[error("the drafter borrows its target's embedding or head and has not been bound to a target yet")]
    Unbound,
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error(transparent)]
    Gguf(#[from] HubError),
    #[error("the drafter's computation failed: {0}")]
    Compute(#[from] Exception),
}

/// Names told in a message.
const TOLD: usize = 8;

fn told(names: &[String]) -> String {
    match names.len() {
        0 => "none".to_owned(),
        n if n > TOLD => format!("{n} ({}, …)", names[..TOLD].join(", ")),
        n => format!("{n} ({})", names.join(", ")),
    }
}

impl DrafterError {
    pub(super) fn tensor(name: &str, reason: impl Into<String>) -> Self {
        Self::Tensor {
            name: name.to_owned(),
            reason: reason.into(),
        }
    }
}
