//! `POST /v1/responses`, and the routes beside it that would need a server that keeps responses.

use super::answer::{Job, events};
use crate::{
    App,
    dialect::responses::{self, ResponseFrames, ResponseMeta, response_reply},
    error::ApiError,
    generate::Asker,
};
use axum::{
    Extension, Json,
    extract::{Path, Request, State},
    http::StatusCode,
    response::{IntoResponse, Response},
};

pub(crate) async fn create(State(app): State<App>, Extension(asker): Extension<Asker>, request: Request) -> Result<Response, ApiError> {
    let (job, body) = Job::begin(app, asker, "POST /v1/responses", request).await?;
    let mut asked = responses::response(&body, &job.defaults())?;
    drop(body);
    job.fit(&mut asked.ask, true)?;
    let meta = ResponseMeta {
        meta: job.meta(&asked.ask, "resp_", 16),
        echo: asked.echo,
        aliases: asked.ask.tools.aliases.clone(),
        summary: asked.summary,
    };
    let (ask, empty) = (asked.ask, asked.empty);
    if ask.stream {
        if empty {
            return Ok(events(ResponseFrames::new(meta).nothing().into()));
        }
        // A refusal of the conversation itself is told in the stream, where Codex looks for its code.
        return match job.stream(&ask, ResponseFrames::new(meta.clone())).await {
            Err(error) if error.code == Some("context_length_exceeded") => Ok(events(ResponseFrames::new(meta).refused(&error).into())),
            answer => answer,
        };
    }
    if empty {
        return Ok(Json(response_reply(&meta, None)).into_response());
    }
    let outcomes = job.whole(&ask).await?;
    Ok(Json(response_reply(&meta, outcomes.first())).into_response())
}

pub(crate) async fn kept_nowhere(Path(id): Path<String>) -> ApiError {
    let id: String = id.chars().take(120).collect();
    ApiError::new(
        StatusCode::NOT_FOUND,
        "not_found",
        format!("there is no response `{id}`: this server keeps none, so that nothing of a conversation stays behind"),
    )
    .code("not_found")
}
