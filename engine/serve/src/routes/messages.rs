//! `POST /v1/messages` and `POST /v1/messages/count_tokens`.

use super::answer::Job;
use crate::{
    App,
    dialect::anthropic::{self, MessageFrames, message_reply},
    error::ApiError,
    generate::Asker,
};
use axum::{
    Extension, Json,
    extract::{Request, State},
    response::{IntoResponse, Response},
};
use dspark_protocol::EngineError;
use serde_json::{Value, json};

pub(crate) async fn create(State(app): State<App>, Extension(asker): Extension<Asker>, request: Request) -> Result<Response, ApiError> {
    let (job, body) = Job::begin(app, asker, "POST /v1/messages", request).await?;
    let mut ask = anthropic::message(&body, &job.defaults())?;
    drop(body);
    job.fit(&mut ask, true)?;
    let meta = job.meta(&ask, "msg_", 12);
    if ask.stream {
        return job.stream(&ask, MessageFrames::new(meta)).await;
    }
    let outcomes = job.whole(&ask).await?;
    let [outcome] = outcomes.as_slice() else {
        return Err(EngineError::Compute("the generation gave no answer".into()).into());
    };
    Ok(Json(message_reply(&meta, outcome)).into_response())
}

/// Counted beside the engine: it does not wait for a generation.
pub(crate) async fn count(State(app): State<App>, Extension(asker): Extension<Asker>, request: Request) -> Result<Json<Value>, ApiError> {
    let (job, body) = Job::begin(app, asker, "POST /v1/messages/count_tokens", request).await?;
    let mut ask = anthropic::count(&body, &job.defaults())?;
    job.fit(&mut ask, true)?;
    let codec = job.app.engine.codec()?;
    let count = tokio::task::spawn_blocking(move || codec.encode(&ask.request.prompt).map(|ids| ids.len()))
        .await
        .map_err(|_| ApiError::from(EngineError::Compute("the prompt could not be tokenized".into())))??;
    Ok(Json(json!({ "input_tokens": count })))
}
