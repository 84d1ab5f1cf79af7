//! What every generating route does between a parsed request and its reply.

use super::{body, names};
use crate::{
    App,
    dialect::{
        Meta,
        ask::{Ask, Defaults},
        effort, prompt,
    },
    error::ApiError,
    generate::{Asker, Opening, Outcome, Running},
    ids,
    reader::{Plan, Reader},
    receipt::Receipt,
    sse::{self, Frames},
};
use axum::{
    body::Body,
    extract::Request,
    http::header,
    response::{IntoResponse, Response},
};
use dspark_protocol::{EngineError, ModelInfo, Prompt, SamplingDefaults};
use dspark_text::output::{SplitterOptions, ToolSchema};
use futures_util::future::try_join_all;
use serde_json::Value;
use std::{
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};
use tokio::sync::Semaphore;

/// Bytes of text that a token spells, about.
const BYTES_PER_TOKEN: usize = 4;

/// One request on its way.
pub(super) struct Job {
    pub(super) app: App,
    pub(super) asker: Asker,
    pub(super) route: &'static str,
    pub(super) model: Arc<ModelInfo>,
}

/// What is known of a prompt before the engine has seen it.
#[derive(Default)]
struct Look {
    /// Counted where the prompt is long enough to overflow.
    tokens: Option<usize>,
    /// The end of the rendered prompt, where an answer could begin inside a thought.
    text: String,
}

impl Job {
    /// Reads the body, once it is clear that it could be answered.
    pub(super) async fn begin(app: App, asker: Asker, route: &'static str, request: Request) -> Result<(Self, Value), ApiError> {
        // Before the body: nobody should upload a conversation to a server that cannot answer it.
        app.ready(&app.engine.snapshot())?;
        let body = body::json(&app, request).await?;
        let model = app.ready(&app.engine.snapshot())?;
        let job = Self { app, asker, route, model };
        Ok((job, body))
    }

    pub(super) fn defaults(&self) -> Defaults {
        let (app, config) = (&self.app, &self.app.config);
        let recommended = app
            .engine
            .codec()
            .map_or_else(|_| SamplingDefaults::default(), |codec| codec.recommended());
        Defaults {
            client: self.asker.client.clone(),
            max_tokens: config.default_max_tokens,
            max_tokens_cap: config.max_tokens_cap,
            sampling: [config.sampling, recommended],
            enable_thinking: app.enable_thinking(),
            reasoning_effort: app.reasoning_effort(),
            ignore_attachments: config.ignore_attachments,
            thinks: self.model.supports_thinking && app.enable_thinking() != Some(false),
            levels: effort::levels_now(&app.engine, &app.efforts, &self.model),
        }
    }

    /// Makes the request one for the loaded model: its name, and tools where its template knows none.
    pub(super) fn fit(&self, ask: &mut Ask, lenient: bool) -> Result<(), ApiError> {
        self.name(ask, lenient)?;
        if !self.model.supports_tools
            && let Prompt::Chat { messages, options } = &mut ask.request.prompt
        {
            let tools = std::mem::take(&mut options.tools);
            if !tools.is_empty() {
                ask.warnings
                    .push("this model's template knows no tools: they are described to it in the system prompt".into());
            }
            prompt::teach(messages, &tools);
        }
        Ok(())
    }

    /// Checks the name asked for. `lenient`: agents name models of their own services, and a 404 ends their turn.
    fn name(&self, ask: &mut Ask, lenient: bool) -> Result<(), ApiError> {
        let strict = self.app.config.strict_model_names;
        let asked = ask.model.as_deref();
        let asked = if lenient && !strict {
            asked.and_then(|asked| asked.rsplit('/').next())
        } else {
            asked
        };
        ask.warnings.extend(names::check(&self.model, asked, strict)?);
        Ok(())
    }

    pub(super) fn meta(&self, ask: &Ask, prefix: &str, bytes: usize) -> Meta {
        Meta {
            id: format!("{prefix}{}", ids::hex(bytes)),
            created: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
            model: ask.model.clone().unwrap_or_else(|| self.model.name.clone()),
            version: self.app.config.version.clone(),
            request_id: self.asker.request_id.clone(),
            logprobs: ask.request.logprobs.is_some(),
            legacy_calls: ask.tools.legacy,
        }
    }

    /// While the engine is busy its own verdict on a prompt comes late, perhaps after the headers: a prompt that cannot
    /// be served should be a 400 at once. Only prompts long enough to overflow are counted (a token is a byte at least),
    /// and one at a time: counting takes a processor from the generation that runs, and the engine judges the others.
    async fn look(&self, ask: &Ask) -> Result<Look, ApiError> {
        static COUNTING: Semaphore = Semaphore::const_new(1);
        let window = self.model.context_window;
        let long = window > 0 && ask.request.prompt.text_bytes() >= window;
        let turn = if long { COUNTING.try_acquire().ok() } else { None };
        let render = !ask.raw && self.model.supports_thinking;
        if turn.is_none() && !render {
            return Ok(Look::default());
        }
        let codec = self.app.engine.codec()?;
        let prompt = ask.request.prompt.clone();
        let look = move || -> Result<Look, EngineError> {
            let text = match &prompt {
                Prompt::Chat { messages, options } if render => tail(&codec.render(messages, options)?),
                _ => String::new(),
            };
            let tokens = if turn.is_some() { Some(codec.encode(&prompt)?.len()) } else { None };
            // Held to the end of the work, also when the client leaves.
            drop(turn);
            Ok(Look { tokens, text })
        };
        let look = tokio::task::spawn_blocking(look)
            .await
            .map_err(|_| ApiError::from(EngineError::Compute("the prompt could not be tokenized".into())))??;
        match look.tokens {
            Some(prompt) if prompt >= window => Err(EngineError::ContextOverflow { prompt, window }.into()),
            _ => Ok(look),
        }
    }

    fn reader(&self, ask: &Ask, look: &Look) -> Result<Reader, ApiError> {
        let demanded = ask.tools.live() && ask.tools.demand().is_some();
        let split = if ask.raw {
            None
        } else {
            let live = ask.tools.live();
            let told = if live { ask.tools.told() } else { Vec::new() };
            Some(SplitterOptions {
                syntax: self.app.engine.codec()?.output_syntax(),
                prompt: look.text.clone(),
                tools: told.iter().filter_map(ToolSchema::from_json).collect(),
                // As the services do whose clients these are: what is cut off ends as `length`, not as a call.
                eager: ask.stream,
                max_calls: (!ask.tools.parallel).then_some(1),
            })
        };
        Ok(Reader::new(Plan {
            split,
            calls: ask.tools.live(),
            hide_reasoning: ask.hide_reasoning,
            demanded,
        }))
    }

    fn start(&self, ask: &Ask, index: usize, receipt: Receipt) -> Result<Running, ApiError> {
        Running::start(
            &self.app,
            &self.asker,
            self.route,
            ask.choice(index),
            ask.asked_max,
            ask.warnings.clone(),
            receipt,
        )
    }

    /// Answers in a stream.
    pub(super) async fn stream(&self, ask: &Ask, frames: impl Frames) -> Result<Response, ApiError> {
        let (running, reader, opening) = self.launch(ask).await?;
        Ok(events(sse::stream(running, reader, frames, opening, self.app.config.keep_alive)))
    }

    async fn launch(&self, ask: &Ask) -> Result<(Running, Reader, Opening), ApiError> {
        let look = self.look(ask).await?;
        let reader = self.reader(ask, &look)?;
        let mut running = self.start(ask, 0, self.app.ledger.compare(&ask.request.prompt))?;
        running.settle().await?;
        // Where the engine has not said yet, a guess stands in until the end tells.
        let opening = running.opening(look.tokens.unwrap_or(ask.request.prompt.text_bytes() / BYTES_PER_TOKEN));
        Ok((running, reader, opening))
    }

    /// Answers as a whole. Greedy choices are one text; sampled ones run together, as far as the engine can.
    pub(super) async fn whole(&self, ask: &Ask) -> Result<Vec<Outcome>, ApiError> {
        let look = self.look(ask).await?;
        let generations = if ask.greedy() { 1 } else { ask.n };
        let receipt = self.app.ledger.compare(&ask.request.prompt);
        let keep = ask.request.logprobs.is_some();
        let running = (0..generations)
            .map(|index| Ok((self.start(ask, index, receipt.clone())?, self.reader(ask, &look)?)))
            .collect::<Result<Vec<_>, ApiError>>()?;
        try_join_all(running.into_iter().map(|(running, reader)| running.collect(reader, keep))).await
    }
}

/// The end of a prompt: enough to see what it leaves open.
fn tail(text: &str) -> String {
    let mut at = text.len().saturating_sub(256);
    while !text.is_char_boundary(at) {
        at += 1;
    }
    text[at..].to_owned()
}

/// A body of server-sent events.
pub(super) fn events(body: Body) -> Response {
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-cache"),
        (header::HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    (headers, body).into_response()
}
