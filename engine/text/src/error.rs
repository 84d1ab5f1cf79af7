use dspark_protocol::EngineError;
use std::path::PathBuf;

/// What can go wrong with text: what happened, the likely cause, what to do.
#[derive(Debug, Clone, thiserror::Error, PartialEq, Eq)]
pub enum TextError {
    #[error("cannot read `{}`: {reason}; the model folder may be incomplete, download the model again", path.display())]
    File { path: PathBuf, reason: String },
    #[error("`{}` is not usable: {cause}; {fix}", path.display())]
    Invalid { path: PathBuf, cause: String, fix: &'static str },
    #[error("this model has no chat template: it is a base model, or its folder lacks `chat_template.jinja`; send plain text instead")]
    NoTemplate,
    /// The template refused the conversation; the text is the template's own.
    #[error("{0}")]
    Template(String),
    #[error(
        "rendering was stopped: the chat template needs more than {limit}; a template that does is broken or hostile, use another model"
    )]
    TemplateLimit { limit: String },
    #[error("there is no message to continue: `continue_final_message` needs an assistant message at the end of the conversation")]
    NothingToContinue,
    #[error("the text could not be tokenized: {0}; `tokenizer.json` may be damaged, download the model again")]
    Encode(String),
}

impl From<TextError> for EngineError {
    fn from(error: TextError) -> Self {
        match error {
            TextError::File { path, reason } => EngineError::File { path, reason },
            TextError::Template(words) => EngineError::Template(words),
            TextError::TemplateLimit { .. } => EngineError::Template(error.to_string()),
            TextError::NoTemplate | TextError::NothingToContinue => EngineError::BadRequest(error.to_string()),
            TextError::Invalid { .. } => EngineError::Load {
                model: "tokenizer".into(),
                reason: error.to_string(),
            },
            TextError::Encode(_) => EngineError::Compute(error.to_string()),
        }
    }
}

pub type Result<T, E = TextError> = std::result::Result<T, E>;
