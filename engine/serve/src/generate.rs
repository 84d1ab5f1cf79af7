//! One generation's way from admission to its last event, the same for every dialect.

use crate::{
    App,
    error::ApiError,
    reader::{Answer, End, Reader},
    receipt::Receipt,
    registry::{Ending, LiveRequest, Outcome as Ended, Phase, QueueFull, Ticket},
    state,
};
use dspark_protocol::{EngineError, Event, FinishReason, Generation, Request, Summary};
use std::time::{Duration, Instant};

/// A request that the engine has not started within this gets its headers, so that the client sees bytes.
const FIRST_EVENT: Duration = Duration::from_millis(250);

/// An engine that has not stopped a cancelled generation by then is worth a line in the log.
const BOUNDARY: Duration = Duration::from_secs(30);

/// Who asks, and under which name.
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
    /// What was wanted is here: the engine's cancellation is no one's wish to stop.
    satisfied: bool,
    /// Told with the answer.
    pub(crate) warnings: Vec<String>,
    /// How the prompt compares with those before it.
    receipt: Receipt,
}

/// What a generation said as a whole.
pub(crate) struct Outcome {
    pub(crate) answer: Answer,
    pub(crate) closing: Closing,
}

/// How a generation ended, and what is told about it.
pub(crate) struct Closing {
    pub(crate) end: End,
    pub(crate) summary: Box<Summary>,
    /// The engine's, the request's and the reader's.
    pub(crate) warnings: Vec<String>,
    pub(crate) receipt: Receipt,
}

impl Closing {
    pub(crate) fn new(summary: Box<Summary>, reader: &Reader, running: &mut Running) -> Self {
        let end = reader.end(&summary);
        let mut warnings = summary.warnings.clone();
        for warning in running.warnings.drain(..).chain(end.warnings.iter().cloned()) {
            if !warnings.contains(&warning) {
                warnings.push(warning);
            }
        }
        Self {
            end,
            summary,
            warnings,
            receipt: std::mem::take(&mut running.receipt),
        }
    }
}

/// Known when an answer begins.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Opening {
    pub(crate) prompt_tokens: usize,
    pub(crate) cached_tokens: usize,
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
        receipt: Receipt,
    ) -> Result<Self, ApiError> {
        let now = Instant::now();
        let place = LiveRequest {
            request_id: asker.request_id.clone(),
            generation: 0,
            client: asker.client.clone(),
            route,
            phase: Phase::Waiting,
            prompt_tokens: 0,
            prefilled: 0,
            cached_tokens: 0,
            generated: 0,
            since: now,
            delivered: now,
            first_token: None,
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
            satisfied: false,
            warnings,
            receipt,
        })
    }

    /// Waits briefly for the engine to start, so that what is wrong with a request can still be a status code, and its
    /// prompt's tokens are known when the answer begins.
    pub(crate) async fn settle(&mut self) -> Result<(), ApiError> {
        let deadline = tokio::time::Instant::now() + FIRST_EVENT;
        while let Ok(event) = tokio::time::timeout_at(deadline, self.next()).await {
            match event? {
                Event::Queued { .. } => {}
                event => {
                    self.peeked = Some(event);
                    break;
                }
            }
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
                self.finished(&summary);
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
                self.fail(&error);
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
                self.fail(&EngineError::Stopped);
                Err(EngineError::Stopped.into())
            }
        }
    }

    /// What the first event said of the prompt, where it has said something. `counted` is the tokens of a prompt that
    /// still waits.
    pub(crate) fn opening(&self, counted: usize) -> Opening {
        match self.peeked {
            Some(Event::Started {
                prompt_tokens,
                cached_tokens,
            }) => Opening {
                prompt_tokens,
                cached_tokens,
            },
            _ => Opening {
                prompt_tokens: counted,
                cached_tokens: 0,
            },
        }
    }

    /// Ends the generation at its next round: what was wanted of it is here. Its `Finished` still comes.
    pub(crate) fn enough(&mut self) {
        self.satisfied = true;
        if let Some(generation) = &self.generation {
            generation.cancel();
        }
    }

    /// Everything until the end.
    pub(crate) async fn collect(mut self, mut reader: Reader, keep_tokens: bool) -> Result<Outcome, ApiError> {
        let (mut answer, mut text) = (Answer::default(), String::new());
        loop {
            match self.next().await? {
                Event::Delta(delta) => {
                    reader.read(&delta);
                    text.push_str(&delta.text);
                    if keep_tokens {
                        answer.tokens.extend(delta.tokens);
                    }
                    if reader.is_done() {
                        self.enough();
                    }
                }
                Event::Finished(summary) => {
                    reader.whole(&text, &summary.finish).into_iter().for_each(|piece| answer.add(piece));
                    let closing = Closing::new(summary, &reader, &mut self);
                    return Ok(Outcome { answer, closing });
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
                Some(Event::Started {
                    prompt_tokens,
                    cached_tokens,
                }) => {
                    live.phase = Phase::Prefilling;
                    live.prompt_tokens = *prompt_tokens;
                    live.cached_tokens = *cached_tokens;
                    live.prefilled = *cached_tokens;
                }
                Some(Event::Prefill { processed, .. }) => live.prefilled = *processed,
                Some(Event::Delta(delta)) => {
                    live.phase = Phase::Generating;
                    live.prefilled = live.prompt_tokens;
                    live.first_token.get_or_insert_with(Instant::now);
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

    fn finished(&mut self, summary: &Summary) {
        let outcome = match summary.finish {
            FinishReason::Cancelled if !self.satisfied => Ended::Cancelled,
            FinishReason::Length => Ended::Length,
            _ => Ended::Done,
        };
        let ending = Ending {
            outcome,
            receipt: Some(self.receipt.told(&summary.usage)),
            prefill_rate: summary.timings.prefill_rate(&summary.usage),
            decode_rate: Some(summary.timings.decode_rate(&summary.usage)).filter(|rate| *rate > 0.0),
        };
        if let Some(ticket) = &mut self.ticket {
            ticket.ends(ending);
        }
    }

    fn fail(&mut self, error: &EngineError) {
        if let Some(ticket) = &mut self.ticket {
            ticket.ends(match error {
                EngineError::Cancelled => Ended::Cancelled,
                error => Ended::Failed(error.to_string()),
            });
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
