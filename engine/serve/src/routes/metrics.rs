//! `GET /metrics`: counters since the start, as JSON or as Prometheus reads them.

mod prometheus;

use super::{
    admin::blocking,
    calibration,
    rounds::{self, rounded},
};
use crate::{App, Gauges, error::ApiError};
use axum::{
    Json,
    extract::{Request, State},
    http::header,
    response::{IntoResponse, Response},
};
use dspark_protocol::{CapOrigin, Mode, RoundStats, Snapshot, Totals};
use dspark_speculate::cost::knee;
use serde_json::{Value, json};
use std::sync::Arc;

pub(crate) async fn metrics(State(app): State<App>, request: Request) -> Response {
    let snapshot = app.engine.snapshot();
    let gauges = match gauges(&app, &snapshot).await {
        Ok(gauges) => gauges,
        Err(error) => return error.into_response(),
    };
    let stats = RoundStats::of(&app.engine.rounds().since(None));
    let accept = request
        .headers()
        .get(header::ACCEPT)
        .and_then(|accept| accept.to_str().ok())
        .unwrap_or_default();
    let query = request.uri().query().unwrap_or_default();
    if query.split('&').any(|pair| pair == "format=prometheus") || wants_text(accept) {
        let text = prometheus::exposition(&app, &snapshot, &stats, &gauges);
        return ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response();
    }
    Json(report(&app, &snapshot, &stats, &gauges)).into_response()
}

/// Prometheus asks for OpenMetrics first and takes its own text format; whoever names neither, or JSON before them, gets JSON.
fn wants_text(accept: &str) -> bool {
    let mut kinds = accept.split(',').map(|kind| kind.split(';').next().unwrap_or_default().trim());
    let of_text = ["text/plain", "application/openmetrics-text"];
    kinds.find(|kind| of_text.contains(kind) || *kind == "application/json") != Some("application/json")
        && accept
            .split(',')
            .any(|kind| of_text.iter().any(|text| kind.trim().starts_with(text)))
}

/// What the program around the server knows of the machine; nothing without one. Read beside the runtime's threads: it may
/// look at files.
pub(super) async fn gauges(app: &App, snapshot: &Arc<Snapshot>) -> Result<Gauges, ApiError> {
    match app.host.clone() {
        Some(host) => {
            let snapshot = snapshot.clone();
            blocking(move || host.gauges(&snapshot)).await
        }
        None => Ok(Gauges::default()),
    }
}

/// Source: `spec/http-api.md` §13.2.
fn report(app: &App, snapshot: &Snapshot, stats: &RoundStats, gauges: &Gauges) -> Value {
    let totals = &snapshot.totals;
    let mut system = gauges.memory.clone();
    if system.is_object() {
        system["allocator"] = allocator(snapshot);
    }
    json!({
        "model": snapshot.model.as_ref().map(|model| &model.name),
        "mode": snapshot.model.as_ref().map(|model| model.mode),
        "requests": totals.requests,
        "failed": totals.failed,
        "cancelled": totals.cancelled,
        "prompt_tokens": totals.prompt_tokens,
        "cached_tokens": totals.cached_tokens,
        "completion_tokens": totals.completion_tokens,
        "decode_seconds": totals.decode_seconds,
        "mean_accept_len": rounded(mean_accept_len(totals), 3),
        "mean_tokens_per_sec": rate(totals.completion_tokens, totals.seconds),
        "mean_decode_tokens_per_sec": rate(totals.completion_tokens, totals.decode_seconds),
        "prefix_cache": prefix(snapshot),
        "auto_cap": auto_cap(snapshot),
        "rounds": rounds::stats(stats),
        "batching": batching(snapshot),
        "memory": allocator(snapshot),
        "system": system,
        "verdict": gauges.verdict,
        "memory_guard": guard(snapshot),
        "queue": {"running": running(app), "limit": app.config.max_queue},
    })
}

/// Of all replies, each token weighing the same.
pub(super) fn mean_accept_len(totals: &Totals) -> f64 {
    match totals.completion_tokens {
        0 => 0.0,
        tokens => totals.accept_weight / tokens as f64,
    }
}

/// What MLX holds, bytes.
pub(super) fn allocator(snapshot: &Snapshot) -> Value {
    let memory = &snapshot.memory;
    json!({
        "available": !snapshot.machine.backend.is_empty(),
        "active_bytes": memory.active,
        "peak_bytes": memory.peak,
        "cache_bytes": memory.cache,
        "limit_bytes": memory.limit,
    })
}

/// What the cap was chosen by; `null` where it is pinned, or nothing is drafted.
fn auto_cap(snapshot: &Snapshot) -> Value {
    let Some(state) = &snapshot.speculation else {
        return Value::Null;
    };
    if state.cap_origin == CapOrigin::Pinned || state.mode == Mode::Baseline {
        return Value::Null;
    }
    json!({
        "cap": state.cap,
        "origin": state.cap_origin,
        "p": rounded(state.acceptance, 4),
        "rounds": state.rounds,
        "knee_width": state.curves.as_ref().map(|curves| knee(&curves.verify)),
        "predicted_rates": calibration::curve(&state.predicted, 1),
    })
}

/// The engine runs one generation at a time; what was asked for meanwhile waited its turn.
fn batching(snapshot: &Snapshot) -> Value {
    let finished = snapshot.totals.finished;
    json!({
        "max_batch": 1,
        "batched_requests": 0,
        "batches": 0,
        "max_batch_seen": finished.min(1),
        "serial_requests": finished,
    })
}

/// Nothing is ever pending: memory is given back at the round boundary that follows the look. Source: `spec/http-api.md` §13.1.
pub(super) fn guard(snapshot: &Snapshot) -> Value {
    let guard = &snapshot.guard;
    json!({
        "enabled": true,
        "level": guard.level,
        "pending": Value::Null,
        "last_shed": guard.last_shed,
        "sheds": guard.sheds,
        "rearm_s": guard.rearm_s,
        "defer_s": 0,
    })
}

fn prefix(snapshot: &Snapshot) -> Value {
    let kept = &*snapshot.prefix;
    let slots: Vec<Value> = kept
        .slots
        .iter()
        .map(|slot| {
            json!({
                "tokens": slot.tokens,
                "bytes": slot.bytes,
                "kind": if slot.rungs.is_empty() { "trim" } else { "checkpoint" },
                "rungs": slot.rungs,
                "aside": slot.aside,
                "spilled": slot.saved,
            })
        })
        .collect();
    json!({
        "enabled": kept.limit > 0,
        "mode": if kept.slots.iter().any(|slot| !slot.rungs.is_empty()) { "checkpoint" } else { "trim" },
        "cached_tokens": kept.slots.iter().map(|slot| slot.tokens).sum::<usize>(),
        "context_tokens": snapshot.context_tokens,
        "slots": slots,
        "hits": kept.hits,
        "partial_hits": kept.partial_hits,
        "misses": kept.misses,
        "reused_tokens": kept.reused_tokens,
        "l2": kept.disk.as_ref().map(|disk| json!({
            "entries": disk.entries, "bytes": disk.bytes, "limit_bytes": disk.limit, "stopped": disk.stopped, "reads": kept.disk_reads,
        })),
    })
}

fn running(app: &App) -> usize {
    app.registry.live().len()
}

fn rate(tokens: u64, seconds: f64) -> f64 {
    if seconds > 0.0 {
        (tokens as f64 / seconds * 10.0).round() / 10.0
    } else {
        0.0
    }
}
