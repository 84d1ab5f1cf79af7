//! What the engine says about an answer, from the first place in the queue to its figures.

use super::{
    ChatMsg, Effect, MachineMsg, Msg, Phase, Reply, State, StoreWrite, Toast, chat::count_tokens, machine, shelf, split_reasoning,
};
use dspark_protocol::{EngineError, Event, FinishReason, Mode, Summary};
use dspark_sessions::{Finish, MessageState, Meta, Usage};
use dspark_strings::t;

pub(super) fn event(state: &mut State, message: i64, event: Event, out: &mut Vec<Effect>) {
    let now = state.clock.instant;
    let Some(live) = state.lives.get_mut(&message) else { return };
    match event {
        Event::Queued { position } => live.phase = Phase::Queued(position),
        Event::Started {
            prompt_tokens,
            cached_tokens,
        } => {
            live.prompt = (prompt_tokens, cached_tokens);
            live.phase = Phase::Prefilling {
                processed: cached_tokens,
                total: prompt_tokens,
            };
        }
        Event::Prefill { processed, total } => live.phase = Phase::Prefilling { processed, total },
        Event::Delta(delta) => {
            live.phase = Phase::Generating;
            live.tokens += delta.tokens.len();
            live.sources.note(&delta);
            live.first_token.get_or_insert(now - live.since);
            if delta.text.is_empty() {
                return;
            }
            live.text.push_str(&delta.text);
            if live.thought.is_none() {
                let parts = split_reasoning(&live.text);
                if parts.reasoning.is_some() && parts.closed {
                    live.thought = Some(now - live.since);
                    live.thought_tokens = live.tokens;
                }
            }
            if state.chat.session == Some(live.session)
                && let Some(message) = state.chat.tree.get_mut(message)
            {
                message.text.push_str(&delta.text);
            }
        }
        Event::Finished(summary) => {
            let finished = match summary.finish {
                FinishReason::Cancelled => MessageState::Stopped,
                FinishReason::Stop { .. } | FinishReason::Length => MessageState::Done,
            };
            if let Some(reply) = reply(&summary) {
                machine::update(state, MachineMsg::Replied(reply), out);
                shelf::replied(state, reply, out);
            }
            end(state, message, finished, |meta| record(meta, &summary), out);
        }
        Event::Failed(EngineError::Cancelled) => {
            end(
                state,
                message,
                MessageState::Stopped,
                |meta| meta.finish = Some(Finish::Cancelled),
                out,
            );
        }
        Event::Failed(error) => {
            end(
                state,
                message,
                MessageState::Failed,
                |meta| meta.error = Some(error.to_string()),
                out,
            );
        }
    }
}

fn end(state: &mut State, id: i64, how: MessageState, fill: impl FnOnce(&mut Meta), out: &mut Vec<Effect>) {
    let Some(live) = state.lives.remove(&id) else { return };
    let mut meta = live.meta;
    meta.sources = live.sources.written();
    fill(&mut meta);
    if let Some(thought) = live.thought {
        meta.reasoning_seconds = Some(thought.as_secs_f64());
        if let Some(usage) = meta.usage.as_mut().filter(|usage| usage.reasoning == 0) {
            usage.reasoning = live.thought_tokens;
        }
    }
    if state.chat.session == Some(live.session)
        && let Some(message) = state.chat.tree.get_mut(id)
    {
        message.state = how;
        message.meta = meta.clone();
    }
    state.sidebar.touch(live.session, state.clock.millis);
    if how == MessageState::Failed && state.chat.session != Some(live.session) {
        let title = state.sidebar.head(live.session).map_or(t!(a_chat), |head| head.title.as_str());
        let toast = Toast::error(t!(reply_failed_in, title = title), meta.error.clone().unwrap_or_default())
            .action(t!(open), vec![Msg::Chat(ChatMsg::Open(live.session))]);
        state.toasts.push(toast);
    }
    out.push(Effect::Store(StoreWrite::Finish {
        message: id,
        state: how,
        meta: Box::new(meta),
    }));
    count_tokens(state, out);
}

/// For the Lab; a few tokens have no rate worth showing.
fn reply(summary: &Summary) -> Option<Reply> {
    let usage = &summary.usage;
    let rate = summary.timings.decode_rate(usage);
    (usage.completion_tokens >= 8 && rate.is_finite() && rate > 0.0).then(|| Reply {
        context: usage.prompt_tokens + usage.completion_tokens,
        rate,
        accept: (summary.effective_mode != Mode::Baseline).then_some(summary.accept_len),
    })
}

fn record(meta: &mut Meta, summary: &Summary) {
    let usage = &summary.usage;
    meta.usage = Some(Usage {
        prompt: usage.prompt_tokens,
        cached: usage.cached_tokens,
        completion: usage.completion_tokens,
        reasoning: usage.reasoning_tokens,
    });
    meta.ttft = Some(summary.timings.ttft);
    let rate = |rate: f64| Some(rate).filter(|rate| rate.is_finite() && *rate > 0.0);
    meta.decode_rate = rate(summary.timings.decode_rate(usage));
    meta.end_to_end_rate = rate(summary.timings.end_to_end_rate(usage));
    meta.accept = (summary.effective_mode != Mode::Baseline).then_some(summary.accept_len);
    meta.mode = Some(format!("{:?}", summary.effective_mode).to_lowercase());
    meta.seed = summary.seed;
    meta.finish = Some(match summary.finish {
        FinishReason::Stop { .. } => Finish::Stop,
        FinishReason::Length => Finish::Length,
        FinishReason::Cancelled => Finish::Cancelled,
    });
    meta.warnings.clone_from(&summary.warnings);
    meta.mode_reason.clone_from(&summary.mode_reason);
    if let Some(speculation) = &summary.speculation {
        meta.cap = Some(speculation.cap);
        meta.multiple = speculation.multiple.filter(|multiple| multiple.is_finite() && *multiple > 0.0);
    }
}
