//! Pure translators between a wire format and the engine's own words. A dialect is: a request parser (JSON → a
//! [`dspark_protocol::Request`]), a reply (events → one body), [`crate::sse::Frames`] (events → chunks) and its error
//! shape. New dialects are files beside [`openai`]; nothing else learns of them but their route.

pub(crate) mod effort;
pub(crate) mod extension;
pub(crate) mod fields;
pub(crate) mod openai;

use crate::error::ApiError;
use serde_json::{Value, json};

/// Who must be able to read an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    OpenAi,
    Anthropic,
}

impl Dialect {
    /// The dialect spoken at a path (`/v1` removed), known or not.
    pub(crate) fn of(path: &str) -> Self {
        if path.split('/').any(|part| part == "messages") {
            Self::Anthropic
        } else {
            Self::OpenAi
        }
    }

    pub(crate) fn error(self, error: &ApiError, request_id: &str) -> Value {
        match self {
            Self::OpenAi => openai::error(error),
            Self::Anthropic => json!({
                "type": "error",
                "error": {
                    "type": anthropic_kind(error.status.as_u16()),
                    "message": error.anthropic_message.as_deref().unwrap_or(&error.message),
                },
                "request_id": request_id,
            }),
        }
    }
}

fn anthropic_kind(status: u16) -> &'static str {
    match status {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        503 | 529 => "overloaded_error",
        500..=599 => "api_error",
        _ => "invalid_request_error",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::StatusCode;

    #[test]
    fn the_path_names_the_dialect() {
        for (path, dialect) in [
            ("/messages", Dialect::Anthropic),
            ("/messages/count_tokens", Dialect::Anthropic),
            ("/chat/completions", Dialect::OpenAi),
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
