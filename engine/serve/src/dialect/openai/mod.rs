//! OpenAI's chat completions.

mod messages;
mod reply;
mod request;

pub(crate) use reply::{ChatFrames, ReplyMeta, chat_reply};
pub(crate) use request::{ChatRequest, Defaults};

use crate::error::ApiError;
use serde_json::{Value, json};

/// `code` is a string or null, as OpenAI's own clients expect; the HTTP status is under `status`.
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
