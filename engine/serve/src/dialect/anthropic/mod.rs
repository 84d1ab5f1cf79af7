//! Anthropic's messages.

mod content;
mod reply;
mod request;

pub(crate) use reply::{MessageFrames, message_reply};
pub(crate) use request::{count, message};

use crate::error::ApiError;
use serde_json::{Value, json};

/// The envelope. Overflow has its own wording, which clients match in order to compact.
pub(crate) fn error(error: &ApiError, request_id: &str) -> Value {
    json!({
        "type": "error",
        "error": {
            "type": kind(error.status.as_u16()),
            "message": error.anthropic_message.as_deref().unwrap_or(&error.message),
        },
        "request_id": request_id,
    })
}

fn kind(status: u16) -> &'static str {
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
