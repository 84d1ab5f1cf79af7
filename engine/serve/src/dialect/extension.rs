//! The `x_mlx_dspark` block: what this engine can say about an answer beyond any dialect.

use crate::generate::Closing;
use dspark_protocol::{CapOrigin, FinishReason, SpeculationState, SpeculationSummary, Summary, Usage};
use serde_json::{Map, Value, json};

pub(crate) const KEY: &str = "x_mlx_dspark";

/// Rates to one decimal, the rest to three.
fn rounded(value: f64, decimals: i32) -> Value {
    let scale = 10f64.powi(decimals);
    json!((value * scale).round() / scale)
}

pub(crate) fn block(closing: &Closing, request_id: &str) -> Value {
    let usage = &closing.end.usage;
    let served = [("request_id", json!(request_id)), ("cache", closing.receipt.report(usage))];
    Value::Object(summarized(&closing.summary, usage, served, &closing.warnings))
}

/// What the engine says of an answer, with what a server adds. `usage` has its reasoning counted.
pub(crate) fn summarized(
    summary: &Summary,
    usage: &Usage,
    served: impl IntoIterator<Item = (&'static str, Value)>,
    warnings: &[String],
) -> Map<String, Value> {
    let (timings, finish) = (&summary.timings, &summary.finish);
    let mut block = Map::new();
    let mut set = |key: &str, value: Value| {
        block.insert(key.into(), value);
    };
    set("mode", json!(summary.effective_mode));
    if summary.mode != summary.effective_mode {
        set("requested_mode", json!(summary.mode));
    }
    if let Some(reason) = &summary.mode_reason {
        set("mode_reason", json!(reason));
    }
    set("accept_len", rounded(summary.accept_len, 3));
    set("tokens_per_sec", rounded(timings.end_to_end_rate(usage), 1));
    set("decode_tokens_per_sec", rounded(timings.decode_rate(usage), 1));
    set("target_forwards", json!(summary.target_forwards));
    set("prompt_tokens", json!(usage.prompt_tokens));
    set("cached_tokens", json!(usage.cached_tokens));
    set("completion_tokens", json!(usage.completion_tokens));
    set("context_tokens", json!(usage.prompt_tokens + usage.completion_tokens));
    set("prefill_seconds", rounded(timings.prefill, 3));
    set("decode_seconds", rounded(timings.decode, 3));
    set("ttft_seconds", rounded(timings.ttft, 3));
    set("queue_seconds", rounded(timings.queue, 3));
    if let Some(rate) = timings.prefill_rate(usage) {
        set("prefill_tokens_per_sec", rounded(rate, 1));
    }
    if let Some(speculation) = &summary.speculation {
        speculated(speculation, &mut set);
    }
    set("stop_reason_detail", detail(finish));
    set("seed", json!(summary.seed));
    served.into_iter().for_each(|(key, value)| set(key, value));
    if !warnings.is_empty() {
        set("warnings", json!(warnings));
    }
    if !summary.token_ids.is_empty() {
        set("token_ids", json!(summary.token_ids));
    }
    block
}

/// What drafting did for one answer. Keys that would say nothing are left out.
fn speculated(summary: &SpeculationSummary, set: &mut impl FnMut(&str, Value)) {
    let stats = &summary.stats;
    set("cap", json!(summary.cap));
    set("rounds", json!(stats.rounds));
    set("drafted_tokens", json!(stats.drafted));
    set("accepted_tokens", json!(stats.accepted));
    if stats.lookup_rounds > 0 {
        set("lookup_rounds", json!(stats.lookup_rounds));
    }
    if summary.tree_nodes > 0 {
        set("tree_nodes", json!(summary.tree_nodes));
    }
    if let Some(multiple) = summary.multiple {
        set("plain_multiple", rounded(multiple, 2));
    }
    if let Some(decay) = summary.decay {
        set("decay_ratio", rounded(decay, 3));
    }
}

/// How the loaded model speculates now, in `/health`. Keys are there whatever the state: their presence is a promise.
pub(crate) fn health(state: &SpeculationState) -> Map<String, Value> {
    let drafter = state.drafter.as_ref();
    let fields = json!({
        "effective_mode": state.mode,
        "mode_reason": state.reason,
        "drafter": drafter.map(|drafter| &drafter.name),
        "drafter_kind": drafter.map(|drafter| &drafter.kind),
        "max_draft": match (state.cap_origin, drafter) {
            (CapOrigin::Auto, _) => json!("auto"),
            _ => json!(state.cap.to_string()),
        },
        "cap": state.cap,
        "cap_origin": state.cap_origin,
        "parked": drafter.is_some() && state.cap == 0,
        "lookup_drafts": state.lookup,
        "tree": if state.tree.is_empty() { "off" } else { &state.tree },
        "draft_acceptance": rounded(state.acceptance, 4),
    });
    match fields {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

/// Finer than any dialect's stop reason.
fn detail(finish: &FinishReason) -> Value {
    match finish {
        FinishReason::Stop { matched: None } => json!({"type": "eos"}),
        FinishReason::Stop { matched: Some(text) } => json!({"type": "stop_string", "matched": text}),
        FinishReason::Length => json!({"type": "length"}),
        FinishReason::Cancelled => json!({"type": "cancelled"}),
    }
}
