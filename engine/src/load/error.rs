use dspark_protocol::EngineError;
use mlx_rs::error::Exception;
use std::path::{Path, PathBuf};

/// Why a checkpoint was not loaded: what happened, the likely cause, what to do.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("`{}` is not an MLX model folder: {reason}", path.display())]
    NotAModel { path: PathBuf, reason: String },
    #[error("cannot read `{}`: {reason}", path.display())]
    File { path: PathBuf, reason: String },
    /// Files that the shard index names are not there.
    #[error("`{}` is incomplete: {} of its weight files are missing ({}): resume the download", path.display(), missing.len(), missing.join(", "))]
    Incomplete { path: PathBuf, missing: Vec<String> },
    #[error("`{}` is corrupt: {reason}: delete the file and download it again", path.display())]
    Corrupt { path: PathBuf, reason: String },
    /// Weights in a format that can run code when read.
    #[error(
        "`{}` holds its weights as pickle ({file}), a format that can run code when it is read: convert the model to safetensors",
        path.display()
    )]
    Pickle { path: PathBuf, file: String },
    #[error("the model type `{model_type}` is not supported{}: {suggestion}", needs_code(markers))]
    UnsupportedModel {
        model_type: String,
        /// What to take instead.
        suggestion: String,
        /// `file:key` of every sign of Python code in the folder.
        markers: Vec<String>,
    },
    /// The folder asks for its own architecture code instead of the named one.
    #[error(
        "the model type `{model_type}` needs its own code ({}), which this engine does not run: use a checkpoint without it",
        markers.join(", ")
    )]
    OwnCode { model_type: String, markers: Vec<String> },
    #[error("config.json: {0}")]
    Config(String),
    #[error("quantization: {0}")]
    Quantization(String),
    /// Tensor names do not match the model that config.json describes.
    #[error(
        "the tensors do not fit the model that config.json describes: {}; the checkpoint is incomplete or was made for another version",
        mismatch(*missing_count, missing, *unexpected_count, unexpected)
    )]
    Tensors {
        missing_count: usize,
        /// The first few.
        missing: Vec<String>,
        unexpected_count: usize,
        unexpected: Vec<String>,
    },
    #[error("tensor `{name}`: {reason}")]
    Tensor { name: String, reason: String },
    #[error("the computation failed while loading: {0}")]
    Compute(#[from] Exception),
    #[error("loading was cancelled")]
    Cancelled,
}

fn needs_code(markers: &[String]) -> String {
    if markers.is_empty() {
        String::new()
    } else {
        format!(" and needs its own code ({}), which this engine does not run", markers.join(", "))
    }
}

fn mismatch(missing_count: usize, missing: &[String], unexpected_count: usize, unexpected: &[String]) -> String {
    let part = |count: usize, names: &[String], what: &str| {
        let more = if count > names.len() { ", …" } else { "" };
        (count > 0).then(|| format!("{count} {what} ({}{more})", names.join(", ")))
    };
    let parts = [
        part(missing_count, missing, "missing"),
        part(unexpected_count, unexpected, "unexpected"),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" and ")
}

impl LoadError {
    pub(crate) fn file(path: &Path, error: &std::io::Error) -> Self {
        Self::File {
            path: path.to_owned(),
            reason: error.to_string(),
        }
    }

    pub(crate) fn tensor(name: &str, reason: impl Into<String>) -> Self {
        Self::Tensor {
            name: name.to_owned(),
            reason: reason.into(),
        }
    }

    /// Code of the checkpoint's own would have to run. Source: `spec/cli.md` "Remote-code refusal".
    fn is_refusal(&self) -> bool {
        match self {
            Self::OwnCode { .. } | Self::Pickle { .. } => true,
            Self::UnsupportedModel { markers, .. } => !markers.is_empty(),
            _ => false,
        }
    }

    /// In the words of the engine's door.
    pub fn into_engine(self, model: &str) -> EngineError {
        match self {
            Self::Cancelled => EngineError::Cancelled,
            Self::File { path, reason } => EngineError::File { path, reason },
            ref refused if refused.is_refusal() => EngineError::Refused {
                model: model.to_owned(),
                reason: self.to_string(),
            },
            other => EngineError::Load {
                model: model.to_owned(),
                reason: other.to_string(),
            },
        }
    }
}
