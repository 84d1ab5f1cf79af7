//! `POST /tokenize`: the tokens of a text or a conversation.

use super::answer::Job;
use crate::{App, dialect::openai, error::ApiError, generate::Asker};
use axum::{
    Extension, Json,
    extract::{Request, State},
};
use dspark_protocol::{EngineError, Prompt};
use serde_json::{Value, json};

/// `{content | prompt | messages}` → `{tokens, count}`.
pub(crate) async fn tokenize(
    State(app): State<App>,
    Extension(asker): Extension<Asker>,
    request: Request,
) -> Result<Json<Value>, ApiError> {
    let (job, body) = Job::begin(app, asker, "POST /tokenize", request).await?;
    let text = ["content", "prompt", "text"].into_iter().find_map(|name| body.get(name)?.as_str());
    let prompt = match text {
        Some(text) => Prompt::Text(text.to_owned()),
        None if body.get("messages").is_some() => openai::chat(&body, &job.defaults())?.request.prompt,
        None => {
            return Err(ApiError::invalid(
                "content",
                "`content` is required: a text, or `messages` for a conversation",
            ));
        }
    };
    let codec = job.app.engine.codec()?;
    let ids = tokio::task::spawn_blocking(move || codec.encode(&prompt))
        .await
        .map_err(|_| ApiError::from(EngineError::Compute("the text could not be tokenized".into())))??;
    Ok(Json(json!({ "count": ids.len(), "tokens": ids })))
}
