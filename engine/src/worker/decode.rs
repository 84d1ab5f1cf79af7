//! The rounds of one generation: plan, compute, turn into text, deliver.

use super::{
    Shop,
    outlet::{deliver, gone},
    step::{Drawn, Sequence},
    text::TextOut,
};
use crate::{
    grammar::failed,
    prefix::PrefixStore,
    sample::Sampler,
    speculate::{
        Plan, Session,
        round::{self, Committed, Outcome, Terms},
    },
    telemetry::Rate,
};
use dspark_grammar::Matcher;
use dspark_protocol::{EngineError, EngineState, Event, GenerateCommand, Result, Source, TextDelta};
use mlx_rs::error::Exception;
use std::time::{Duration, Instant};

/// Why decoding ended.
pub(super) enum End {
    Eos,
    Stop(String),
    Length,
    /// The reader left or cancelled, or the engine stops.
    Gone,
}

/// What decoding leaves behind.
#[derive(Default)]
pub(super) struct Decoded {
    pub(super) ids: Vec<u32>,
    /// Forwards whose tokens were read, after the prefill.
    pub(super) forwards: usize,
    /// When the first token was there.
    pub(super) first: Option<Instant>,
    /// From the first token to the last.
    pub(super) seconds: f64,
    /// Building and scheduling graphs of plain steps.
    graph: Duration,
    /// Waiting for the device, in plain steps; rounds of speculation count as a whole.
    wait: Duration,
}

impl Decoded {
    /// Where the time of a round goes, on average, in microseconds; `host` is what MLX has no part in.
    pub(super) fn report(&self, request: u64) {
        let per_round = |seconds: f64| seconds * 1e6 / self.forwards.max(1) as f64;
        let (graph, wait) = (self.graph.as_secs_f64(), self.wait.as_secs_f64());
        let host = (self.seconds - graph - wait).max(0.0);
        tracing::debug!(
            target: "dspark_engine::rounds",
            request,
            rounds = self.forwards,
            host_us = per_round(host),
            graph_us = per_round(graph),
            wait_us = per_round(wait),
        );
    }
}

/// What the rounds work on.
pub(super) struct Decoding<'a, 'm> {
    pub(super) command: &'a GenerateCommand,
    pub(super) sequence: &'a mut Sequence<'m>,
    pub(super) session: &'a mut Session<'m>,
    pub(super) sampler: &'a mut Sampler,
    pub(super) text: &'a mut TextOut,
    /// Most tokens to generate; at least one.
    pub(super) budget: usize,
    pub(super) eos: &'a [u32],
    pub(super) prefix: &'a mut PrefixStore,
    pub(super) shop: &'a mut Shop,
    pub(super) rate: Rate,
    /// What the answer is held to.
    pub(super) matcher: Option<&'a mut Matcher>,
}

impl Decoding<'_, '_> {
    /// Computes the rest of `prompt` and decodes to an end. Plain steps run one ahead: step t+1 is scheduled before
    /// token t is read, unless its logits depend on t's counts or on a grammar, or a draft is due after t.
    pub(super) fn run(mut self, prompt: &[u32], decoded: &mut Decoded) -> Result<End> {
        let top = self.command.request.logprobs.map(usize::from);
        let done = self.sequence.fed.len();
        let drawn = self
            .sequence
            .first(&prompt[done..], self.sampler, self.matcher.as_deref_mut())
            .map_err(compute)?;
        // The first token settles here, so that prefill and decode times are each their own.
        let mut newest = drawn.read().map_err(compute)?;
        let first = Instant::now();
        decoded.first = Some(first);
        let computed = Event::Prefill {
            processed: prompt.len(),
            total: prompt.len(),
        };
        if deliver(self.command, computed, &mut self.shop.inbox, &mut self.shop.board).is_err() {
            return Ok(End::Gone);
        }
        self.session.begin(prompt, &[newest]);
        let own = plain(newest, &drawn, top)?;
        if let Some(end) = self.emit(own, decoded, first)? {
            return Ok(end);
        }
        let terms = Terms {
            confidence: self.session.confidence(),
            logprobs: top,
        };
        let pipelined = !self.sampler.sequential() && self.matcher.is_none();
        let mut round = first;
        // The step that feeds the newest token, when it was scheduled before that was read.
        let mut ahead: Option<Drawn> = None;
        loop {
            let left = self.budget - decoded.ids.len();
            let plan = if ahead.is_some() { Plan::Plain } else { self.session.plan(left) };
            let outcome = match &plan {
                Plan::Plain => self.plain_step(&mut ahead, newest, pipelined && left > 1, top, decoded)?,
                Plan::Guess(guess) => {
                    let outcome =
                        round::run(self.sequence, self.sampler, newest, guess, &terms, self.matcher.as_deref_mut()).map_err(compute)?;
                    self.sequence.schedule().map_err(compute)?;
                    outcome
                }
            };
            decoded.forwards += 1;
            let now = Instant::now();
            let took = now.duration_since(round);
            round = now;
            let ids: Vec<u32> = outcome.committed.iter().map(|committed| committed.id).collect();
            let record = self.session.done(&plan, &outcome, &ids, took, self.sequence.fed.len());
            self.shop.board.round(self.command.id, record);
            newest = ids.last().copied().unwrap_or(newest);
            if let Some(end) = self.emit(outcome.committed, decoded, now)? {
                return Ok(end);
            }
        }
    }

    /// One token by the target alone.
    fn plain_step(
        &mut self,
        ahead: &mut Option<Drawn>,
        newest: u32,
        run_ahead: bool,
        top: Option<usize>,
        decoded: &mut Decoded,
    ) -> Result<Outcome> {
        let Self {
            sequence,
            sampler,
            session,
            matcher,
            ..
        } = self;
        let drawn = match ahead.take() {
            Some(drawn) => drawn,
            None => timed(&mut decoded.graph, || sequence.step_known(newest, sampler, matcher.as_deref_mut())).map_err(compute)?,
        };
        if run_ahead && !session.draft_is_due() {
            *ahead = Some(timed(&mut decoded.graph, || sequence.step(&drawn, sampler)).map_err(compute)?);
        }
        let id = timed(&mut decoded.wait, || drawn.read()).map_err(compute)?;
        if ahead.is_some() {
            sequence.was_fed(id);
        }
        Ok(Outcome {
            committed: plain(id, &drawn, top)?,
            drafted: 0,
            tree_depth: 0,
            accepted: 0,
        })
    }

    /// Adds committed tokens to the text and delivers it. An end, if it comes to one among them.
    fn emit(&mut self, committed: Vec<Committed>, decoded: &mut Decoded, at: Instant) -> Result<Option<End>> {
        let request = &self.command.request;
        let mut delta = TextDelta::default();
        let mut end = None;
        for Committed { id, source, logprobs } in committed {
            // With a grammar there is nothing behind the end.
            if (!request.ignore_eos || self.matcher.is_some()) && self.eos.contains(&id) {
                end = Some(End::Eos);
                break;
            }
            decoded.ids.push(id);
            self.rate.token(at);
            let (new, stop) = self.text.push(id, logprobs, source);
            delta.text.push_str(&new.text);
            delta.tokens.extend(new.tokens);
            if let Some(stop) = stop {
                end = Some(End::Stop(stop));
                break;
            }
            if let Some(matcher) = &mut self.matcher {
                matcher.accept(id).map_err(|error| compute(failed(error)))?;
                if matcher.is_complete() {
                    end = Some(End::Eos);
                    break;
                }
            }
            if decoded.ids.len() >= self.budget {
                end = Some(End::Length);
                break;
            }
            self.sampler.observe(id);
        }
        decoded.seconds = decoded.first.map_or(0.0, |first| at.duration_since(first).as_secs_f64());
        self.shop
            .show_token(decoded.ids.len(), self.sequence.fed.len(), self.rate.per_second());
        self.shop.relieve_pressure(self.prefix);
        self.shop.inbox.drain(&mut self.shop.board);
        let delivered = if delta.tokens.is_empty() {
            Ok(())
        } else {
            deliver(self.command, Event::Delta(delta), &mut self.shop.inbox, &mut self.shop.board)
        };
        if end.is_none() && (delivered.is_err() || gone(self.command) || self.shop.inbox.stopped()) {
            end = Some(End::Gone);
        }
        Ok(end)
    }
}

/// The target's own token, as a round's outcome.
fn plain(id: u32, drawn: &Drawn, top: Option<usize>) -> Result<Vec<Committed>> {
    let logprobs = match top {
        Some(top) => drawn.logprobs(id, top).map_err(compute)?,
        None => None,
    };
    Ok(vec![Committed {
        id,
        source: Source::Target,
        logprobs,
    }])
}

impl Shop {
    fn show_token(&mut self, generated: usize, context: usize, tokens_per_sec: f64) {
        if let Some(active) = &mut self.board.active {
            active.generated = generated;
        }
        self.board.now.context_tokens = context;
        self.board.progress(EngineState::Generating { tokens_per_sec });
    }
}

/// Runs something and adds how long it took.
fn timed<T>(total: &mut Duration, work: impl FnOnce() -> T) -> T {
    let begun = Instant::now();
    let done = work();
    *total += begun.elapsed();
    done
}

pub(super) fn compute(error: Exception) -> EngineError {
    EngineError::Compute(error.what().to_owned())
}
