//! One generation: admit, prefill in chunks, decode in rounds, say how it ended.

use super::{
    Model, Options, Shop,
    chunk::Chunks,
    decode::{Decoded, Decoding, End, compute},
    encode::Encoded,
    inbox::{active, waited},
    outlet::{self, deliver, gone},
    panic_text,
    step::Sequence,
    text::TextOut,
};
use crate::{
    drafters::Drafter,
    grammar::Held,
    machine::swap_used,
    prefix::{self, Kept, Rung},
    sample::{Place, Sampler},
    speculate::Companion,
    telemetry::Rate,
};
use dspark_grammar::Matcher;
use dspark_protocol::{
    EngineError, EngineState, Event, FinishReason, GenerateCommand, LastReply, Mode, Result, Sampling, Summary, TextDelta, Timings, Usage,
};
use mlx_rs::memory;
use std::{
    borrow::Cow,
    panic::{AssertUnwindSafe, catch_unwind},
    rc::Rc,
    sync::Arc,
    time::Instant,
};

/// Most alternatives that log-probabilities may list.
const MOST_LOGPROBS: u8 = 20;

/// Runs a request up to its last event, which is returned. Whatever goes wrong ends this request alone. `encoded` is its
/// prompt, where that was encoded beforehand.
pub(super) fn generate(
    command: &GenerateCommand,
    encoded: Option<Result<Encoded>>,
    model: Option<&mut Model>,
    shop: &mut Shop,
    options: &Options,
) -> Event {
    let (started, swap) = (Instant::now(), swap_used());
    shop.board.active = Some(active(command, false));
    let warm = model.as_ref().is_some_and(|model| model.request.warm_up);
    let outcome = if gone(command) {
        Err(EngineError::Cancelled)
    } else {
        model.map_or(Err(EngineError::NoModel), |model| attempt(command, encoded, model, shop, options))
    };
    shop.board.active = None;
    shop.inbox.paced(started.elapsed());
    let totals = &mut shop.board.now.totals;
    match outcome {
        Ok(summary) => {
            totals.add(&summary);
            if summary.usage.completion_tokens > 1 {
                let growth = swap.zip(swap_used()).map(|(before, after)| after.saturating_sub(before));
                let reply = last_reply(&summary, !warm && shop.board.now.last_reply.is_none(), growth);
                shop.board.now.last_decode_rate = Some(reply.rate);
                shop.board.now.last_reply = Some(reply);
            }
            Event::Finished(Box::new(summary))
        }
        Err(error) => {
            if error == EngineError::Cancelled {
                totals.cancelled += 1;
            } else {
                totals.failed += 1;
                // Whoever asked is told; only what the engine itself did wrong is news to its operator.
                if matches!(error, EngineError::Compute(_)) {
                    tracing::warn!(request = command.id, %error, "generation failed");
                } else {
                    tracing::debug!(request = command.id, %error, "generation refused");
                }
            }
            Event::Failed(error)
        }
    }
}

fn last_reply(summary: &Summary, cold: bool, swap_growth: Option<u64>) -> LastReply {
    let speculation = summary.speculation.as_ref();
    LastReply {
        context: summary.usage.prompt_tokens + summary.usage.completion_tokens,
        rate: summary.timings.decode_rate(&summary.usage),
        accept: speculation.map(|_| summary.accept_len),
        decay: speculation.and_then(|speculation| speculation.decay),
        cold,
        swap_growth,
    }
}

/// One try, whose panics are errors.
fn attempt(
    command: &GenerateCommand,
    encoded: Option<Result<Encoded>>,
    model: &mut Model,
    shop: &mut Shop,
    options: &Options,
) -> Result<Summary> {
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        admit(command, encoded, model, shop, options)?.run(command, model, shop)
    }))
    .unwrap_or_else(|panic| Err(EngineError::Compute(panic_text(&*panic))));
    if matches!(outcome, Err(EngineError::Compute(_))) {
        // Memory is the likely cause, and what was kept from before may share it: the next request starts afresh.
        model.prefix.clear();
        let _ = memory::clear_cache();
    }
    outcome
}

/// What the prefill works with.
struct Prefill<'a> {
    command: &'a GenerateCommand,
    shop: &'a mut Shop,
    chunks: &'a mut Chunks,
    /// Where to pause, ascending.
    marks: &'a [usize],
    rungs: &'a mut Vec<Rc<Rung>>,
}

/// A request that is known to be honourable.
struct Admitted {
    prompt: Vec<u32>,
    sampler: Sampler,
    text: TextOut,
    matcher: Option<Matcher>,
    /// Most tokens to generate: the request's bound, or what the window leaves.
    budget: usize,
    queue_seconds: f64,
    warnings: Vec<String>,
}

fn admit(
    command: &GenerateCommand,
    encoded: Option<Result<Encoded>>,
    model: &Model,
    shop: &mut Shop,
    options: &Options,
) -> Result<Admitted> {
    let request = &command.request;
    let queue_seconds = waited(command);
    if let Some(n) = request.logprobs.filter(|n| *n > MOST_LOGPROBS) {
        return Err(EngineError::BadRequest(format!(
            "logprobs asks for {n} alternatives; at most {MOST_LOGPROBS} can be had"
        )));
    }
    let vocab = model.loaded.target.vocab();
    let Encoded {
        ids: prompt,
        mut warnings,
        continuing,
        held,
    } = encoded.unwrap_or_else(|| {
        let encoder = model.encoder();
        encoder.encode(&request.prompt, request.constraint.as_deref(), &command.cancel)
    })?;
    if prompt.is_empty() {
        return Err(EngineError::BadRequest(
            "the prompt is empty: send at least one token of text".into(),
        ));
    }
    if let Some(id) = prompt.iter().find(|id| **id as usize >= vocab) {
        return Err(EngineError::BadRequest(format!(
            "the prompt holds token {id}, but the vocabulary ends at {}",
            vocab - 1
        )));
    }
    let window = model.info.context_window;
    if prompt.len() >= window {
        return Err(EngineError::ContextOverflow {
            prompt: prompt.len(),
            window,
        });
    }
    if let Some(active) = &mut shop.board.active {
        active.prompt_tokens = prompt.len();
    }
    let (sampling, foreign) = known_biases(&request.sampling, vocab);
    warnings.extend(foreign);
    let matcher = held.as_ref().and_then(Held::matcher);
    warnings.extend(held.into_iter().flat_map(|held| held.warnings));
    warnings.extend(matcher.iter().filter_map(Matcher::warning).map(str::to_owned));
    if matcher.is_some() && request.ignore_eos {
        warnings.push("`ignore_eos` was ignored: an answer that follows a schema ends where that does".into());
    }
    Ok(Admitted {
        sampler: Sampler::new(&sampling, &prompt, vocab, options.place.unwrap_or_else(Place::current))?,
        text: TextOut::new(&model.loaded.tokenizer, continuing, &request.stop),
        budget: request.max_tokens.min(window - prompt.len()),
        prompt,
        matcher,
        queue_seconds,
        warnings,
    })
}

/// Without biases of tokens that the model does not have, and a warning where there were any: a client made for another
/// model sends such, and `logit_bias` never fails a request. Source: `spec/http-api.md` §2.
fn known_biases(sampling: &Sampling, vocab: usize) -> (Cow<'_, Sampling>, Option<String>) {
    let mut foreign = sampling.logit_bias.keys().filter(|id| **id as usize >= vocab);
    let Some(first) = foreign.next() else {
        return (Cow::Borrowed(sampling), None);
    };
    let more = foreign.count();
    let others = if more == 0 { String::new() } else { format!(" and {more} more") };
    let warning = format!(
        "`logit_bias` names token {first}{others}, but the model's vocabulary ends at {}; ignored",
        vocab.saturating_sub(1)
    );
    let mut known = sampling.clone();
    known.logit_bias.retain(|id, _| (*id as usize) < vocab);
    (Cow::Owned(known), Some(warning))
}

impl Admitted {
    fn run(mut self, command: &GenerateCommand, model: &mut Model, shop: &mut Shop) -> Result<Summary> {
        let request = &command.request;
        let began = Instant::now();
        let total = self.prompt.len();
        let Model {
            loaded,
            prefix,
            chunks,
            speculation,
            tails,
            ..
        } = &mut *model;
        let mut session = speculation.session(request, total);
        let new_cache = || loaded.target.new_cache();
        let shared = prefix.shared(&self.prompt);
        let empty = loaded.drafter.as_ref().map(Drafter::new_context);
        let found = (!request.fresh)
            .then(|| prefix.acquire(&self.prompt, &new_cache, empty.as_ref()))
            .flatten();
        let (cache, kept, cached, mut rungs) = match found {
            Some(reused) => (reused.cache, reused.context, reused.tokens, reused.rungs),
            None => (new_cache(), None, 0, Vec::new()),
        };
        let marks = if cache.rigid() && !request.fresh {
            prefix::marks(total, cached, shared, tails.unstable(&self.prompt))
        } else {
            Vec::new()
        };
        let companion = loaded.drafter.as_ref().filter(|_| session.drafts()).map(|drafter| {
            let context = kept.unwrap_or_else(|| {
                let mut context = drafter.new_context();
                context.skip(cached);
                context
            });
            Companion::new(drafter, context)
        });
        let mut usage = Usage {
            prompt_tokens: total,
            cached_tokens: cached,
            ..Usage::default()
        };
        shop.board.now.context_tokens = cached;
        shop.board.enter(EngineState::Prefilling { processed: cached, total });
        let hello = Event::Started {
            prompt_tokens: total,
            cached_tokens: cached,
        };
        let fed = self.prompt[..cached].to_vec();
        let mut sequence = Sequence::new(&*loaded.target, cache, companion, fed, request.logprobs.is_some());
        let mut end = match deliver(command, hello, &mut shop.inbox, &mut shop.board) {
            Ok(()) => {
                let mut prefill = Prefill {
                    command,
                    shop,
                    chunks,
                    marks: &marks,
                    rungs: &mut rungs,
                };
                self.prefill(&mut sequence, &mut prefill)?
            }
            Err(outlet::Gone) => Some(End::Gone),
        };
        let mut prefill = began.elapsed();
        let mut decoded = Decoded::default();
        if end.is_none() {
            let decoding = Decoding {
                command,
                sequence: &mut sequence,
                session: &mut session,
                sampler: &mut self.sampler,
                text: &mut self.text,
                budget: self.budget,
                eos: &loaded.eos,
                prefix,
                shop,
                rate: Rate::default(),
                matcher: self.matcher.as_mut(),
            };
            end = Some(decoding.run(&self.prompt, &mut decoded)?);
            if let Some(first) = decoded.first {
                prefill = first.duration_since(began);
            }
        }
        let finish = self.ending(end.unwrap_or(End::Length), command, shop);
        decoded.report(command.id);
        let timings = Timings {
            queue: self.queue_seconds,
            ttft: prefill.as_secs_f64(),
            prefill: prefill.as_secs_f64(),
            decode: decoded.seconds,
        };
        usage.completion_tokens = decoded.ids.len();

        let Sequence { cache, companion, fed, .. } = sequence;
        shop.board.now.context_tokens = fed.len();
        let context = companion.and_then(Companion::into_context);
        let kept = Kept {
            tokens: fed,
            cache,
            context,
            rungs,
            side: prefix::is_side_call(request),
        };
        if !request.fresh
            && let Err(error) = prefix.store(kept)
        {
            tracing::warn!(request = command.id, %error, "the cache of a finished generation could not be kept");
        }
        let told = session.finish(&timings, usage.completion_tokens);
        shop.board.now.speculation = Some(Arc::new(speculation.state()));
        // Drafts of a drafter are taken by chance of their own, unless the seed was given or nothing is drawn.
        let (seed, given) = (
            Some(self.sampler.seed()),
            request.sampling.seed.is_some() || self.sampler.shape().is_none(),
        );
        Ok(Summary {
            finish,
            usage,
            timings,
            mode: request.mode,
            effective_mode: told.mode,
            mode_reason: told.reason,
            accept_len: told.accept_len,
            target_forwards: decoded.forwards,
            speculation: told.summary,
            seed: seed.filter(|_| given || matches!(told.mode, Mode::Baseline | Mode::Lookup)),
            warnings: self.warnings,
            token_ids: if request.return_token_ids { decoded.ids } else { Vec::new() },
        })
    }

    /// Feeds all but the last chunk, or everything when nothing is to be generated. An end, if it comes to one here.
    /// Pauses at the marks for a copy of what cannot be cut.
    fn prefill(&self, sequence: &mut Sequence<'_>, work: &mut Prefill<'_>) -> Result<Option<End>> {
        let total = self.prompt.len();
        let Prefill {
            command,
            shop,
            chunks,
            marks,
            rungs,
        } = work;
        loop {
            shop.inbox.drain(&mut shop.board);
            if gone(command) || shop.inbox.stopped() {
                return Ok(Some(End::Gone));
            }
            let done = sequence.fed.len();
            let mark = marks.iter().copied().find(|mark| *mark > done);
            let chunk = chunks.next().min(mark.map_or(usize::MAX, |mark| mark - done));
            let last = total - done <= chunk;
            if last && self.budget > 0 {
                return Ok(None);
            }
            let began = Instant::now();
            sequence.prefill(&self.prompt[done..total.min(done + chunk)]).map_err(compute)?;
            let processed = sequence.fed.len();
            chunks.took(processed - done, began.elapsed());
            if mark == Some(processed) {
                rungs.extend(sequence.rung().map_err(compute)?.map(Rc::new));
            }
            shop.board.now.context_tokens = processed;
            shop.board.progress(EngineState::Prefilling { processed, total });
            if deliver(command, Event::Prefill { processed, total }, &mut shop.inbox, &mut shop.board).is_err() {
                return Ok(Some(End::Gone));
            }
            if last {
                return Ok(Some(End::Length));
            }
        }
    }

    /// Lets out what was held back, and names the end.
    fn ending(&mut self, end: End, command: &GenerateCommand, shop: &mut Shop) -> FinishReason {
        let finish = match end {
            End::Stop(matched) => return FinishReason::Stop { matched: Some(matched) },
            End::Eos => FinishReason::Stop { matched: None },
            End::Length => FinishReason::Length,
            End::Gone => FinishReason::Cancelled,
        };
        let (text, matched) = self.text.finish();
        if !text.is_empty() {
            let tail = Event::Delta(TextDelta { text, tokens: Vec::new() });
            let _ = deliver(command, tail, &mut shop.inbox, &mut shop.board);
        }
        match matched {
            Some(_) => FinishReason::Stop { matched },
            None => finish,
        }
    }
}
