//! `POST /v1/chat/completions` and `POST /v1/completions`.

use super::answer::Job;
use crate::{
    App,
    dialect::openai::{self, ChatFrames, TextAsk, TextFrames, bill, chat_reply, text_reply},
    error::ApiError,
    generate::{Asker, Outcome},
};
use axum::{
    Extension, Json,
    extract::{Request, State},
    response::{IntoResponse, Response},
};
use dspark_protocol::{EngineError, Prompt};

pub(crate) async fn chat(State(app): State<App>, Extension(asker): Extension<Asker>, request: Request) -> Result<Response, ApiError> {
    let (job, body) = Job::begin(app, asker, "POST /v1/chat/completions", request).await?;
    let mut ask = openai::chat(&body, &job.defaults())?;
    drop(body);
    job.fit(&mut ask, false)?;
    let meta = job.meta(&ask, "chatcmpl-", 16);
    if ask.stream {
        let usage = ask.include_usage.then_some(job.app.config.usage_chunk);
        return job.stream(&ask, ChatFrames::new(meta, usage)).await;
    }
    let outcomes = job.whole(&ask).await?;
    Ok(Json(chat_reply(&meta, &outcomes, ask.n)).into_response())
}

pub(crate) async fn text(State(app): State<App>, Extension(asker): Extension<Asker>, request: Request) -> Result<Response, ApiError> {
    let (job, body) = Job::begin(app, asker, "POST /v1/completions", request).await?;
    let mut text = openai::text(&body, &job.defaults())?;
    drop(body);
    job.fit(&mut text.ask, false)?;
    let echoes = echoes(&job, &text)?;
    fill_in(&job, &mut text)?;
    let meta = job.meta(&text.ask, "cmpl-", 16);
    text.ask.request.prompt = text.prompts[0].clone();
    if text.ask.stream {
        let usage = text.ask.include_usage.then_some(job.app.config.usage_chunk);
        let echo = echoes.into_iter().next().unwrap_or_default();
        return job.stream(&text.ask, TextFrames::new(meta, usage, echo)).await;
    }
    let mut groups = Vec::with_capacity(text.prompts.len());
    for prompt in &text.prompts {
        text.ask.request.prompt = prompt.clone();
        groups.push(job.whole(&text.ask).await?);
    }
    // A greedy request's choices are one text.
    let repeat = if text.ask.greedy() { text.ask.n } else { 1 };
    let answers: Vec<(&str, &Outcome)> = groups
        .iter()
        .zip(&echoes)
        .flat_map(|(group, echo)| {
            group
                .iter()
                .flat_map(move |outcome| std::iter::repeat_n((echo.as_str(), outcome), repeat))
        })
        .collect();
    let mut reply = text_reply(&meta, &answers);
    bill(&mut reply, &meta, &groups);
    Ok(Json(reply).into_response())
}

/// What is put before each answer.
fn echoes(job: &Job, text: &TextAsk) -> Result<Vec<String>, ApiError> {
    let codec = job.app.engine.codec()?;
    let echo = |prompt: &Prompt| match prompt {
        Prompt::Text(text) => text.clone(),
        Prompt::Tokens(ids) => codec.decode(ids),
        Prompt::Chat { .. } => String::new(),
    };
    Ok(text
        .prompts
        .iter()
        .map(|prompt| if text.echo { echo(prompt) } else { String::new() })
        .collect())
}

/// Rewrites prompts with a suffix into those that have the model fill in between.
fn fill_in(job: &Job, text: &mut TextAsk) -> Result<(), ApiError> {
    let Some(suffix) = text.suffix.take() else { return Ok(()) };
    let codec = job.app.engine.codec()?;
    let count = |text: &str| codec.encode(&Prompt::Text(text.to_owned())).ok().map(|ids| ids.len());
    for prompt in &mut text.prompts {
        if let Prompt::Text(prefix) = prompt {
            *prefix = openai::fill_in(prefix, &suffix, count).ok_or_else(|| {
                ApiError::from(EngineError::Unsupported {
                    feature: "`suffix`".into(),
                    hint: format!("`{}` has no marks for filling in between; send the prompt alone", job.model.name),
                })
                .param("suffix")
            })?;
        }
    }
    Ok(())
}
