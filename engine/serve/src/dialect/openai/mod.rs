//! OpenAI's chat completions and the older text completions.

mod legacy;
mod legacy_reply;
mod logprobs;
mod messages;
mod reply;
mod request;

pub(crate) use legacy::{TextAsk, fill_in, text};
pub(crate) use legacy_reply::{TextFrames, bill, text_reply};
pub(crate) use reply::{ChatFrames, chat_reply};
pub(crate) use request::{chat, demand};

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
