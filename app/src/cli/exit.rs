//! Exit codes (`spec/cli.md` §0) and the failure that carries one.

use dspark_protocol::EngineError;

pub(super) const OK: u8 = 0;
pub(super) const FAILED: u8 = 1;
pub(super) const USAGE: u8 = 2;
pub(super) const REFUSED: u8 = 3;
pub(super) const NETWORK: u8 = 4;
pub(super) const LOAD: u8 = 5;
pub(super) const INTERRUPTED: u8 = 130;

/// Why a command ended badly: a text for people and a code for scripts.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) code: u8,
    pub(super) message: String,
}

pub(super) type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    pub(super) fn new(code: u8, message: impl ToString) -> Self {
        Self {
            code,
            message: message.to_string(),
        }
    }

    pub(super) fn usage(message: impl ToString) -> Self {
        Self::new(USAGE, message)
    }

    pub(super) fn interrupted() -> Self {
        Self::new(INTERRUPTED, "interrupted")
    }
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
        let code = match &error {
            EngineError::BadRequest(_) | EngineError::ContextOverflow { .. } | EngineError::Unsupported { .. } => USAGE,
            EngineError::Refused { .. } => REFUSED,
            EngineError::Load { .. } | EngineError::File { .. } => LOAD,
            EngineError::Cancelled => INTERRUPTED,
            _ => FAILED,
        };
        Self::new(code, error)
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::new(FAILED, error)
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::new(FAILED, format!("{error:#}"))
    }
}
