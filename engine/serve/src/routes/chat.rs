//! `POST /v1/chat/completions`.

use super::{body, names};
use crate::{
    App,
    dialect::{
        effort,
        openai::{ChatFrames, ChatRequest, Defaults, ReplyMeta, chat_reply},
    },
    error::ApiError,
    generate::{Asker, Outcome, Running},
    ids, sse,
};
use axum::{
    Extension, Json,
    extract::{Request, State},
    http::header,
    response::{IntoResponse, Response},
};
use dspark_protocol::{EngineError, ModelInfo, Prompt, SamplingDefaults};
use futures_util::future::try_join_all;
use std::{
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};
use tokio::sync::Semaphore;

const ROUTE: &str = "POST /v1/chat/completions";

pub(crate) async fn complete(State(app): State<App>, Extension(asker): Extension<Asker>, request: Request) -> Result<Response, ApiError> {
    // Before the body: nobody should upload a conversation to a server that cannot answer it.
    app.ready(&app.engine.snapshot())?;
    let body = body::json(&app, request).await?;
    let model = app.ready(&app.engine.snapshot())?;
    let mut chat = ChatRequest::parse(&body, &defaults(&app, &asker, &model))?;
    drop(body);
    chat.warnings
        .extend(names::check(&model, chat.model.as_deref(), app.config.strict_model_names)?);
    precheck(&app, &model, &chat.request.prompt).await?;

    let meta = ReplyMeta {
        id: format!("chatcmpl-{}", ids::hex(16)),
        created: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
        model: chat.model.clone().unwrap_or_else(|| model.name.clone()),
        version: app.config.version.clone(),
        request_id: asker.request_id.clone(),
        logprobs: chat.request.logprobs.is_some(),
    };
    let start = |index| Running::start(&app, &asker, ROUTE, chat.choice(index), chat.asked_max, chat.warnings.clone());
    if chat.stream {
        let mut running = start(0)?;
        running.settle().await?;
        let usage = chat.include_usage.then_some(app.config.usage_chunk);
        let body = sse::stream(running, ChatFrames::new(meta, usage), app.config.keep_alive);
        let headers = [
            (header::CONTENT_TYPE, "text/event-stream"),
            (header::CACHE_CONTROL, "no-cache"),
            (header::HeaderName::from_static("x-accel-buffering"), "no"),
        ];
        return Ok((headers, body).into_response());
    }
    // Greedy choices are one text; sampled ones run together, as far as the engine can.
    let generations = if chat.greedy() { 1 } else { chat.n };
    let running = (0..generations).map(start).collect::<Result<Vec<_>, _>>()?;
    let outcomes: Vec<Outcome> = try_join_all(running.into_iter().map(|running| running.collect(meta.logprobs))).await?;
    Ok(Json(chat_reply(&meta, &outcomes, chat.n)).into_response())
}

fn defaults(app: &App, asker: &Asker, model: &Arc<ModelInfo>) -> Defaults {
    let config = &app.config;
    let recommended = app
        .engine
        .codec()
        .map_or_else(|_| SamplingDefaults::default(), |codec| codec.recommended());
    Defaults {
        client: asker.client.clone(),
        max_tokens: config.default_max_tokens,
        max_tokens_cap: config.max_tokens_cap,
        sampling: [config.sampling, recommended],
        enable_thinking: config.enable_thinking,
        reasoning_effort: config.reasoning_effort.clone(),
        ignore_attachments: config.ignore_attachments,
        thinks: model.supports_thinking && config.enable_thinking != Some(false),
        levels: effort::levels_now(&app.engine, &app.efforts, model),
    }
}

/// While the engine is busy its own verdict on a prompt comes late, perhaps after the headers: a prompt that cannot be
/// served should be a 400 at once. Only prompts long enough to overflow are counted (a token is a byte at least), and one
/// at a time: counting takes a processor from the generation that runs, and the engine judges the others.
async fn precheck(app: &App, model: &ModelInfo, prompt: &Prompt) -> Result<(), ApiError> {
    static COUNTING: Semaphore = Semaphore::const_new(1);
    let idle = app.registry.live().is_empty() && app.engine.snapshot().requests.is_empty();
    if idle || prompt.text_bytes() < model.context_window || model.context_window == 0 {
        return Ok(());
    }
    let Ok(turn) = COUNTING.try_acquire() else { return Ok(()) };
    let codec = app.engine.codec()?;
    let prompt = prompt.clone();
    let tokens = tokio::task::spawn_blocking(move || {
        // Held to the end of the work, also when the client leaves.
        let _turn = turn;
        codec.encode(&prompt).map(|ids| ids.len())
    })
    .await
    .map_err(|_| ApiError::from(EngineError::Compute("the prompt could not be tokenized".into())))??;
    if tokens >= model.context_window {
        return Err(EngineError::ContextOverflow {
            prompt: tokens,
            window: model.context_window,
        }
        .into());
    }
    Ok(())
}
