//! OpenAI's Responses.

mod items;
mod reply;
mod request;
mod stream;

pub(crate) use reply::{ResponseMeta, response_reply};
pub(crate) use request::response;
pub(crate) use stream::ResponseFrames;

use crate::error::ApiError;
use serde_json::{Value, json};

pub(crate) fn error(error: &ApiError) -> Value {
    json!({
        "error": {
            "message": error.message,
            "type": error.kind,
            "param": error.param,
            "code": error.code,
            "status": error.status.as_u16(),
        }
    })
}

/// The codes that Codex acts upon; it tries again after any other.
fn stream_code(error: &ApiError) -> &'static str {
    match error.code {
        Some(code @ ("context_length_exceeded" | "rate_limit_exceeded")) => code,
        _ => match error.status.as_u16() {
            400..=428 => "invalid_prompt",
            429 => "rate_limit_exceeded",
            503 => "server_is_overloaded",
            _ => "server_error",
        },
    }
}
