//! Reading a request's body: bounded in size and in silence.

use crate::{App, error::ApiError};
use axum::{
    body::Body,
    extract::Request,
    http::{StatusCode, header},
};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use serde_json::Value;
use std::time::Duration;

/// Bodies above this are parsed off the async threads.
const LARGE: usize = 256 << 10;

/// How long a refused upload is read on, so that its sender sees the answer instead of a reset.
const LINGER: Duration = Duration::from_secs(2);

/// # Errors
/// 413 above the limit, 408 after silence, 400 for what is not JSON.
pub(crate) async fn json(app: &App, request: Request) -> Result<Value, ApiError> {
    let declared = request
        .headers()
        .get(header::CONTENT_LENGTH)
        .and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    let bytes = read(app, request.into_body(), declared).await?;
    let parse = move || serde_json::from_slice(&bytes).map_err(|error| not_json(&error, bytes.is_empty()));
    if declared.unwrap_or(u64::MAX) <= LARGE as u64 {
        return parse();
    }
    tokio::task::spawn_blocking(parse)
        .await
        .unwrap_or_else(|_| Err(ApiError::bad_body("the body could not be parsed")))
}

/// The same where no body means no wishes.
///
/// # Errors
/// As [`json`].
pub(crate) async fn optional(app: &App, request: Request) -> Result<Value, ApiError> {
    let bytes = read(app, request.into_body(), None).await?;
    if bytes.trim_ascii().is_empty() {
        return Ok(Value::Null);
    }
    serde_json::from_slice(&bytes).map_err(|error| not_json(&error, false))
}

fn not_json(error: &serde_json::Error, empty: bool) -> ApiError {
    if empty {
        return ApiError::bad_body("the body is empty: send a JSON object with `messages`");
    }
    ApiError::bad_body(format!("the body is not valid JSON: {error}"))
}

async fn read(app: &App, mut body: Body, declared: Option<u64>) -> Result<Bytes, ApiError> {
    let limit = app.config.body_limit;
    let too_large = || {
        let message = format!("the body is larger than {limit} bytes: shorten the conversation");
        ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "invalid_request_error", message).code("request_too_large")
    };
    if declared.is_some_and(|length| length > limit as u64) {
        linger(body).await;
        return Err(too_large());
    }
    // A promise is not a body: only what arrives takes more than this.
    let mut bytes = BytesMut::with_capacity(declared.map_or(0, |length| length.min(1 << 20) as usize));
    loop {
        let frame = tokio::time::timeout(app.config.read_timeout, body.frame()).await.map_err(|_| {
            ApiError::new(
                StatusCode::REQUEST_TIMEOUT,
                "invalid_request_error",
                "the body stopped arriving: the connection is closed",
            )
        })?;
        let Some(frame) = frame else { return Ok(bytes.freeze()) };
        let frame = frame.map_err(|error| ApiError::bad_body(format!("the body could not be read: {error}")))?;
        let Ok(data) = frame.into_data() else { continue };
        if bytes.len() + data.len() > limit {
            linger(body).await;
            return Err(too_large());
        }
        bytes.extend_from_slice(&data);
    }
}

async fn linger(mut body: Body) {
    let drain = async { while let Some(Ok(_)) = body.frame().await {} };
    let _ = tokio::time::timeout(LINGER, drain).await;
}
