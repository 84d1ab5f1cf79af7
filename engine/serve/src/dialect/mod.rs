//! Pure translators between a wire format and the engine's own words. A dialect is: a request parser (JSON → an
//! [`ask::Ask`]), a reply (an answer → one body), [`crate::sse::Frames`] (pieces of an answer → events) and its error
//! shape. What an answer is made of is found in one place for all of them, [`crate::reader`].

pub(crate) mod anthropic;
pub(crate) mod ask;
pub(crate) mod effort;
pub(crate) mod extension;
pub(crate) mod fields;
pub(crate) mod held;
pub(crate) mod openai;
pub(crate) mod params;
pub(crate) mod prompt;
pub(crate) mod responses;
pub(crate) mod tools;

use crate::error::ApiError;
use serde_json::Value;

/// Who must be able to read an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    OpenAi,
    Anthropic,
    Responses,
}

/// What every piece of one reply repeats.
#[derive(Debug, Clone, Default)]
pub(crate) struct Meta {
    pub(crate) id: String,
    /// Seconds since the Unix epoch.
    pub(crate) created: u64,
    /// The name the client used.
    pub(crate) model: String,
    pub(crate) version: String,
    pub(crate) request_id: String,
    pub(crate) logprobs: bool,
    /// OpenAI's older `function_call` instead of `tool_calls`.
    pub(crate) legacy_calls: bool,
}

impl Dialect {
    /// The dialect spoken at a path (`/v1` removed), known or not.
    pub(crate) fn of(path: &str) -> Self {
        let mut parts = path.split('/');
        if parts.clone().any(|part| part == "messages") {
            Self::Anthropic
        } else if parts.any(|part| part == "responses") {
            Self::Responses
        } else {
            Self::OpenAi
        }
    }

    pub(crate) fn error(self, error: &ApiError, request_id: &str) -> Value {
        match self {
            Self::OpenAi => openai::error(error),
            Self::Anthropic => anthropic::error(error, request_id),
            Self::Responses => responses::error(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::StatusCode;
    use serde_json::json;

    #[test]
    fn the_path_names_the_dialect() {
        for (path, dialect) in [
            ("/messages", Dialect::Anthropic),
            ("/messages/count_tokens", Dialect::Anthropic),
            ("/chat/completions", Dialect::OpenAi),
            ("/responses/resp_1", Dialect::Responses),
            ("/", Dialect::OpenAi),
        ] {
            assert_eq!(Dialect::of(path), dialect, "{path}");
        }
    }

    #[test]
    fn anthropic_errors_have_their_envelope() {
        let error = ApiError::new(StatusCode::NOT_FOUND, "not_found", "no such route");
        assert_eq!(
            Dialect::Anthropic.error(&error, "req_1"),
            json!({"type": "error", "error": {"type": "not_found_error", "message": "no such route"}, "request_id": "req_1"})
        );
    }
}
