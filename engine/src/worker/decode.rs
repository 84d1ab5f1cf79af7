//! The rounds of one generation: schedule, read, turn into text, deliver.

use super::{
    Shop,
    outlet::{deliver, gone},
    step::Sequence,
    text::TextOut,
};
use crate::{prefix::PrefixStore, sample::Sampler, telemetry::Rate};
use dspark_protocol::{EngineError, EngineState, Event, GenerateCommand, Result};
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
    /// Forwards whose token was read, after the prefill.
    pub(super) forwards: usize,
    /// When the first token was there.
    pub(super) first: Option<Instant>,
    /// From the first token to the last.
    pub(super) seconds: f64,
    /// Building and scheduling graphs.
    graph: Duration,
    /// Waiting for the device.
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
    pub(super) sampler: &'a mut Sampler,
    pub(super) text: &'a mut TextOut,
    /// Most tokens to generate; at least one.
    pub(super) budget: usize,
    pub(super) eos: &'a [u32],
    pub(super) prefix: &'a mut PrefixStore,
    pub(super) shop: &'a mut Shop,
}

impl Decoding<'_, '_> {
    /// Computes the rest of `prompt` and decodes to an end. Plain steps run one ahead: step t+1 is scheduled before
    /// token t is read, unless its logits depend on t's counts.
    pub(super) fn run(self, prompt: &[u32], decoded: &mut Decoded) -> Result<End> {
        let request = &self.command.request;
        let done = self.sequence.fed.len();
        let mut drawn = self.sequence.first(&prompt[done..], self.sampler).map_err(compute)?;
        // The first token settles here, so that prefill and decode times are each their own.
        let mut id = drawn.read().map_err(compute)?;
        let first = Instant::now();
        decoded.first = Some(first);
        let computed = Event::Prefill {
            processed: prompt.len(),
            total: prompt.len(),
        };
        if deliver(self.command, computed, &mut self.shop.inbox, &mut self.shop.board).is_err() {
            return Ok(End::Gone);
        }
        let pipelined = !self.sampler.sequential();
        let mut rate = Rate::default();
        let mut round = first;
        // The step that feeds `id`; scheduled before `id` is read, but for the first token.
        let mut ahead = None;
        loop {
            if !request.ignore_eos && self.eos.contains(&id) {
                return Ok(End::Eos);
            }
            let last = decoded.ids.len() + 1 >= self.budget;
            if pipelined && !last && ahead.is_none() {
                ahead = Some(timed(&mut decoded.graph, || self.sequence.step(&drawn, self.sampler)).map_err(compute)?);
                self.sequence.was_fed(id);
            }
            let logprobs = match request.logprobs {
                Some(top) => drawn.logprobs(id, usize::from(top)).map_err(compute)?,
                None => None,
            };
            decoded.ids.push(id);
            decoded.seconds = round.duration_since(first).as_secs_f64();
            rate.token(round);
            let (delta, stop) = self.text.push(id, logprobs);
            self.shop.show_token(decoded.ids.len(), self.sequence.fed.len(), rate.per_second());
            self.shop.relieve_pressure(self.prefix);
            self.shop.inbox.drain(&mut self.shop.board);
            let delivered = deliver(self.command, Event::Delta(delta), &mut self.shop.inbox, &mut self.shop.board);
            if let Some(stop) = stop {
                return Ok(End::Stop(stop));
            }
            if last {
                return Ok(End::Length);
            }
            if delivered.is_err() || gone(self.command) || self.shop.inbox.stopped() {
                return Ok(End::Gone);
            }
            self.sampler.observe(id);
            drawn = if let Some(next) = ahead.take() {
                next
            } else {
                let next = timed(&mut decoded.graph, || self.sequence.step(&drawn, self.sampler)).map_err(compute)?;
                self.sequence.was_fed(id);
                next
            };
            if pipelined && decoded.ids.len() + 1 < self.budget {
                ahead = Some(timed(&mut decoded.graph, || self.sequence.step(&drawn, self.sampler)).map_err(compute)?);
            }
            id = timed(&mut decoded.wait, || drawn.read()).map_err(compute)?;
            if ahead.is_some() {
                self.sequence.was_fed(id);
            }
            decoded.forwards += 1;
            let now = Instant::now();
            self.shop.board.plain_round(self.command.id, now.duration_since(round));
            round = now;
        }
    }
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
