//! `GET /metrics`: counters since the start, as JSON or as Prometheus reads them.

use crate::App;
use axum::{
    Json,
    extract::{Request, State},
    http::header,
    response::{IntoResponse, Response},
};
use dspark_protocol::{RoundStats, Snapshot};
use serde_json::{Value, json};
use std::fmt::Write;

pub(crate) async fn metrics(State(app): State<App>, request: Request) -> Response {
    let snapshot = app.engine.snapshot();
    let stats = RoundStats::of(&app.engine.rounds().since(None));
    let accept = request
        .headers()
        .get(header::ACCEPT)
        .and_then(|accept| accept.to_str().ok())
        .unwrap_or_default();
    let query = request.uri().query().unwrap_or_default();
    if query.split('&').any(|pair| pair == "format=prometheus") || accept.starts_with("text/plain") {
        let text = exposition(&app, &snapshot, &stats);
        return ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response();
    }
    Json(report(&app, &snapshot, &stats)).into_response()
}

fn report(app: &App, snapshot: &Snapshot, stats: &RoundStats) -> Value {
    let totals = &snapshot.totals;
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
        "mean_decode_tokens_per_sec": rate(totals.completion_tokens, totals.decode_seconds),
        "mean_accept_len": stats.mean_accept_len(),
        "prefix_cache": prefix(snapshot),
        "rounds": {
            "rounds": stats.rounds,
            "committed_tokens": stats.committed,
            "drafted_tokens": stats.drafted,
            "accepted_tokens": stats.accepted,
            "draft_acceptance": stats.draft_acceptance(),
        },
        "memory": snapshot.memory,
        "queue": {"running": running(app), "limit": app.config.max_queue},
    })
}

/// Source: `spec/http-api.md` §13.2.
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
        "enabled": true,
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

fn exposition(app: &App, snapshot: &Snapshot, stats: &RoundStats) -> String {
    let totals = &snapshot.totals;
    let mut text = String::new();
    let mut metric = |name: &str, kind: &str, help: &str, value: f64| {
        let _ = write!(
            text,
            "# HELP mlx_dspark_{name} {help}\n# TYPE mlx_dspark_{name} {kind}\nmlx_dspark_{name} {value}\n"
        );
    };
    metric("requests_total", "counter", "Generations asked for.", totals.requests as f64);
    metric("requests_failed_total", "counter", "Generations that failed.", totals.failed as f64);
    metric(
        "requests_cancelled_total",
        "counter",
        "Generations that were cancelled.",
        totals.cancelled as f64,
    );
    metric("prompt_tokens_total", "counter", "Prompt tokens read.", totals.prompt_tokens as f64);
    metric(
        "cached_tokens_total",
        "counter",
        "Prompt tokens taken from the cache.",
        totals.cached_tokens as f64,
    );
    metric(
        "completion_tokens_total",
        "counter",
        "Tokens generated.",
        totals.completion_tokens as f64,
    );
    metric("decode_seconds_total", "counter", "Seconds of decoding.", totals.decode_seconds);
    metric(
        "accept_length",
        "gauge",
        "Tokens committed per round, over the recent rounds.",
        stats.mean_accept_len(),
    );
    metric(
        "draft_acceptance",
        "gauge",
        "Share of drafted tokens accepted, over the recent rounds.",
        stats.draft_acceptance(),
    );
    metric("requests_in_flight", "gauge", "Requests running or waiting.", running(app) as f64);
    metric("context_tokens", "gauge", "Tokens in the KV cache.", snapshot.context_tokens as f64);
    metric(
        "memory_active_bytes",
        "gauge",
        "Memory that MLX holds.",
        snapshot.memory.active as f64,
    );
    metric(
        "memory_cache_bytes",
        "gauge",
        "Memory that MLX keeps for reuse.",
        snapshot.memory.cache as f64,
    );
    metric(
        "memory_peak_bytes",
        "gauge",
        "Most memory that MLX has held.",
        snapshot.memory.peak as f64,
    );
    metric(
        "model_loaded",
        "gauge",
        "1 while a model is loaded.",
        f64::from(u8::from(snapshot.model.is_some())),
    );
    text
}
