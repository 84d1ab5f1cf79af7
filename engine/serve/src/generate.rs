//! One generation's way from admission to its last event, the same for every dialect.

use crate::{
    App,
    error::ApiError,
    registry::{LiveRequest, Phase, QueueFull, Ticket},
    state,
};
use dspark_protocol::{EngineError, Event, FinishReason, Generation, Request, Summary, TokenInfo};
use std::time::{Duration, Instant};

/// A request whose engine does not even say "queued" within this gets its headers, so that the client sees bytes.
const FIRST_EVENT: Duration = Duration::from_millis(250);

/// An engine that has not stopped a cancelled generation by then is worth a line in the log.
const BOUNDARY: Duration = Duration::from_secs(30);

/// Who asks, on which route, under which name.
#[derive(Debug, Clone)]
pub(crate) struct Asker {
    pub(crate) request_id: String,
    pub(crate) client: String,
}

pub(crate) struct Running {
    app: App,
    /// `None` once its last event is read.
    generation: Option<Generation>,
    ticket: Option<Ticket>,
    peeked: Option<Event>,
    route: &'static str,
    asked_max: Option<usize>,
    tokens: usize,
    stopped: bool,
    /// Told with the answer.
    pub(crate) warnings: Vec<String>,
}

/// What a generation said as a whole.
pub(crate) struct Outcome {
    pub(crate) text: String,
    /// Empty unless log-probabilities were asked for.
    pub(crate) tokens: Vec<TokenInfo>,
    pub(crate) summary: Box<Summary>,
    pub(crate) warnings: Vec<String>,
}

impl Running {
    /// Hands a request to the engine. `asked_max` is the client's own `max_tokens`, to say when the window cuts it.
    ///
    /// # Errors
    /// The queue is full, or the engine does not take commands.
    pub(crate) fn start(
        app: &App,
        asker: &Asker,
        route: &'static str,
        request: Request,
        asked_max: Option<usize>,
        warnings: Vec<String>,
    ) -> Result<Self, ApiError> {
        let now = Instant::now();
        let place = LiveRequest {
            request_id: asker.request_id.clone(),
            generation: 0,
            client: asker.client.clone(),
            route,
            phase: Phase::Waiting,
            prompt_tokens: 0,
            generated: 0,
            since: now,
            delivered: now,
        };
        let limit = app.config.max_queue;
        let ticket = app.registry.admit(&place, limit).map_err(|QueueFull(queued)| {
            ApiError::from(EngineError::Busy {
                queued,
                limit,
                retry_after_s: 2,
            })
        })?;
        let generation = app.engine.submit(request)?;
        ticket.update(|live| live.generation = generation.id);
        Ok(Self {
            app: app.clone(),
            generation: Some(generation),
            ticket: Some(ticket),
            peeked: None,
            route,
            asked_max,
            tokens: 0,
            stopped: false,
            warnings,
        })
    }

    /// Waits briefly for the first event, so that what is wrong with a request can still be a status code.
    pub(crate) async fn settle(&mut self) -> Result<(), ApiError> {
        if let Ok(event) = tokio::time::timeout(FIRST_EVENT, self.next()).await {
            self.peeked = Some(event?);
        }
        Ok(())
    }

    /// The next event; after `Finished` or an error there is none.
    ///
    /// # Errors
    /// What [`Event::Failed`] says; the server is stopping; the engine went away.
    pub(crate) async fn next(&mut self) -> Result<Event, ApiError> {
        if let Some(event) = self.peeked.take() {
            return Ok(event);
        }
        let Some(generation) = &mut self.generation else {
            return Err(EngineError::Stopped.into());
        };
        let event = tokio::select! {
            event = generation.next() => event,
            () = self.app.stopping.cancelled(), if !self.stopped => {
                self.stopped = true;
                generation.cancel();
                generation.next().await
            }
        };
        self.note(event.as_ref());
        match event {
            Some(Event::Finished(summary)) => {
                self.close();
                self.app.ran_in(summary.effective_mode);
                let (tokens, seconds) = (summary.usage.completion_tokens, summary.timings.prefill + summary.timings.decode);
                tracing::debug!(route = self.route, tokens, seconds, finish = ?summary.finish, "generation finished");
                if self.stopped && summary.finish == FinishReason::Cancelled {
                    return Err(state::stopping());
                }
                Ok(Event::Finished(summary))
            }
            Some(Event::Failed(error)) => {
                self.fail();
                // What the client did wrong is in its reply; the operator hears of what went wrong here.
                if matches!(error, EngineError::Compute(_) | EngineError::Stopped) {
                    tracing::warn!(route = self.route, %error, "generation failed");
                } else {
                    tracing::debug!(route = self.route, %error, "request refused");
                }
                Err(error.into())
            }
            Some(event) => Ok(event),
            None => {
                self.fail();
                Err(EngineError::Stopped.into())
            }
        }
    }

    /// Everything until the end.
    pub(crate) async fn collect(mut self, keep_tokens: bool) -> Result<Outcome, ApiError> {
        let (mut text, mut tokens) = (String::new(), Vec::new());
        loop {
            match self.next().await? {
                Event::Delta(delta) => {
                    text.push_str(&delta.text);
                    if keep_tokens {
                        tokens.extend(delta.tokens);
                    }
                }
                Event::Finished(summary) => {
                    return Ok(Outcome {
                        text,
                        tokens,
                        summary,
                        warnings: std::mem::take(&mut self.warnings),
                    });
                }
                _ => {}
            }
        }
    }

    /// Cancels: nobody waits for the rest.
    pub(crate) fn abandon(mut self, why: &str) {
        self.cancel(why);
    }

    fn note(&mut self, event: Option<&Event>) {
        let Some(ticket) = &self.ticket else { return };
        ticket.update(|live| {
            live.delivered = Instant::now();
            match event {
                Some(Event::Started { prompt_tokens, .. }) => {
                    live.phase = Phase::Prefilling;
                    live.prompt_tokens = *prompt_tokens;
                }
                Some(Event::Delta(delta)) => {
                    live.phase = Phase::Generating;
                    live.generated += delta.tokens.len();
                }
                _ => {}
            }
            self.tokens = live.generated;
        });
        if let (Some(Event::Started { prompt_tokens, .. }), Some(asked)) = (event, self.asked_max)
            && let Some(window) = self.app.engine.snapshot().model.as_ref().map(|model| model.context_window)
            && prompt_tokens.saturating_add(asked) > window
        {
            self.warnings.push(format!(
                "max_tokens {asked} does not fit: the prompt has {prompt_tokens} tokens of a context window of {window}, so at most {} can follow",
                window.saturating_sub(*prompt_tokens)
            ));
        }
    }

    fn close(&mut self) {
        self.generation = None;
        self.ticket = None;
    }

    fn fail(&mut self) {
        if let Some(ticket) = &self.ticket {
            ticket.failed();
        }
        self.close();
    }

    fn cancel(&mut self, why: &str) {
        let (Some(mut generation), Some(ticket)) = (self.generation.take(), self.ticket.take()) else {
            return;
        };
        generation.cancel();
        ticket.update(|live| live.phase = Phase::Stopping);
        tracing::info!(route = self.route, tokens = self.tokens, "{why}: generation cancelled");
        // The place in the queue stays taken until the engine has let go, so that the bound is true.
        let route = self.route;
        let watch = async move {
            let drained = async { while generation.next().await.is_some() {} };
            if tokio::time::timeout(BOUNDARY, drained).await.is_err() {
                tracing::warn!(route, "a cancelled generation has not reached a round boundary in 30 s");
            }
            drop(ticket);
        };
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(watch);
        }
    }
}

/// A handler that is dropped half-way had its client leave.
impl Drop for Running {
    fn drop(&mut self) {
        self.cancel("client disconnected");
    }
}
