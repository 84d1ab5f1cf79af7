//! What went wrong, before any dialect has put it into its own words.

use axum::http::StatusCode;
use dspark_protocol::EngineError;

/// An answer that is not the one asked for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ApiError {
    pub(crate) status: StatusCode,
    /// The broad class, in OpenAI's words; dialects map it.
    pub(crate) kind: &'static str,
    /// The exact class, for programs.
    pub(crate) code: Option<&'static str>,
    /// The request field at fault.
    pub(crate) param: Option<Box<str>>,
    pub(crate) message: Box<str>,
    /// Seconds, where trying again makes sense.
    pub(crate) retry_after: Option<u32>,
    /// What Anthropic's clients match on, where their wording is contractual.
    pub(crate) anthropic_message: Option<Box<str>>,
}

impl ApiError {
    pub(crate) fn new(status: StatusCode, kind: &'static str, message: impl Into<Box<str>>) -> Self {
        Self {
            status,
            kind,
            code: None,
            param: None,
            message: message.into(),
            retry_after: None,
            anthropic_message: None,
        }
    }

    /// A 400 about one field.
    pub(crate) fn invalid(param: &str, message: impl Into<Box<str>>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid_request_error", message).param(param)
    }

    /// A 400 about a body that is not a request at all.
    pub(crate) fn bad_body(message: impl Into<Box<str>>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid_request_error", message)
    }

    /// A 400 about a field that other servers honour and this one does not.
    pub(crate) fn unsupported(param: &str, message: impl Into<Box<str>>) -> Self {
        Self::invalid(param, message).code("unsupported_parameter")
    }

    pub(crate) fn unavailable(code: &'static str, message: impl Into<Box<str>>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "service_unavailable", message).code(code)
    }

    pub(crate) fn code(mut self, code: &'static str) -> Self {
        self.code = Some(code);
        self
    }

    pub(crate) fn param(mut self, param: &str) -> Self {
        self.param = Some(param.into());
        self
    }

    pub(crate) fn retry_after(mut self, seconds: u32) -> Self {
        self.retry_after = Some(seconds);
        self
    }
}

impl From<EngineError> for ApiError {
    fn from(error: EngineError) -> Self {
        let message = error.to_string();
        match error {
            EngineError::NoModel => Self::unavailable("no_model", message),
            EngineError::BadRequest(_) => Self::bad_body(message),
            // Each phrase is one that some client matches in order to compact or shorten: `maximum context length is
            // … tokens` (OpenAI-style agents), `prompt is too long: … tokens > … maximum` (Anthropic-style ones).
            EngineError::ContextOverflow { prompt, window } => {
                let anthropic = format!("prompt is too long: {prompt} tokens > {window} maximum");
                Self {
                    anthropic_message: Some(anthropic.as_str().into()),
                    ..Self::invalid(
                        "messages",
                        format!(
                            "{anthropic}. This model's maximum context length is {window} tokens, and the messages resulted in {prompt} \
                             tokens. Shorten the conversation, or load the model with a larger context window."
                        ),
                    )
                    .code("context_length_exceeded")
                }
            }
            EngineError::Template(_) => Self::invalid("messages", message).code("template_error"),
            EngineError::Busy { retry_after_s, .. } => Self::new(StatusCode::TOO_MANY_REQUESTS, "rate_limit_error", message)
                .code("rate_limit_exceeded")
                .retry_after(u32::try_from(retry_after_s).unwrap_or(u32::MAX).max(1)),
            EngineError::Unsupported { .. } => Self::bad_body(message).code("unsupported_parameter"),
            EngineError::Refused { .. } => Self::invalid("model", message).code("model_refused"),
            EngineError::Load { .. } | EngineError::File { .. } => {
                Self::new(StatusCode::INTERNAL_SERVER_ERROR, "server_error", message).code("model_load_failed")
            }
            EngineError::Compute(_) => Self::new(StatusCode::INTERNAL_SERVER_ERROR, "server_error", message).code("engine_error"),
            EngineError::Cancelled => Self::unavailable("cancelled", "the generation was cancelled on the server"),
            EngineError::Stopped => Self::unavailable("engine_stopped", message),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overflow_carries_every_phrase_that_clients_match() {
        let error = ApiError::from(EngineError::ContextOverflow {
            prompt: 32_799,
            window: 32_768,
        });
        for phrase in ["prompt is too long", "maximum context length is 32768 tokens", "32799 tokens"] {
            assert!(error.message.contains(phrase), "{phrase}");
        }
        assert_eq!((error.status.as_u16(), error.code), (400, Some("context_length_exceeded")));
        assert_eq!(
            error.anthropic_message.as_deref(),
            Some("prompt is too long: 32799 tokens > 32768 maximum")
        );
    }

    #[test]
    fn a_full_engine_says_when_to_come_back() {
        let error = ApiError::from(EngineError::Busy {
            queued: 64,
            limit: 64,
            retry_after_s: 0,
        });
        assert_eq!((error.status.as_u16(), error.retry_after), (429, Some(1)));
    }
}
