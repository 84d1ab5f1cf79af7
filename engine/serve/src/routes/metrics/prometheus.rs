//! The same as Prometheus reads it: text, one counter or gauge each.

use super::{mean_accept_len, running};
use crate::{App, Gauges};
use dspark_protocol::{RoundStats, Snapshot};
use serde_json::Value;
use std::fmt::Write;

const COUNTER: &str = "counter";
const GAUGE: &str = "gauge";

pub(super) fn exposition(app: &App, snapshot: &Snapshot, stats: &RoundStats, gauges: &Gauges) -> String {
    let (totals, memory, kept) = (&snapshot.totals, &snapshot.memory, &snapshot.prefix);
    let mut text = String::new();
    let mut metric = |kind: &str, name: &str, help: &str, value: f64| {
        let _ = write!(
            text,
            "# HELP mlx_dspark_{name} {help}\n# TYPE mlx_dspark_{name} {kind}\nmlx_dspark_{name} {value}\n"
        );
    };
    for (name, help, value) in [
        ("requests_total", "Generations asked for.", totals.requests),
        ("requests_failed_total", "Generations that failed.", totals.failed),
        ("requests_cancelled_total", "Generations that were cancelled.", totals.cancelled),
        ("prompt_tokens_total", "Prompt tokens read.", totals.prompt_tokens),
        ("cached_tokens_total", "Prompt tokens taken from the cache.", totals.cached_tokens),
        ("completion_tokens_total", "Tokens generated.", totals.completion_tokens),
        (
            "prefix_hits_total",
            "Prompts that a kept text covered as far as could be.",
            kept.hits,
        ),
        (
            "prefix_partial_hits_total",
            "Prompts that a kept text covered in part.",
            kept.partial_hits,
        ),
        ("prefix_misses_total", "Prompts that no kept text covered.", kept.misses),
        (
            "memory_guard_sheds_total",
            "Times memory was given back under pressure.",
            snapshot.guard.sheds,
        ),
    ] {
        metric(COUNTER, name, help, value as f64);
    }
    metric(COUNTER, "decode_seconds_total", "Seconds of decoding.", totals.decode_seconds);
    for (name, help, value) in [
        ("context_tokens", "Tokens in the KV cache.", snapshot.context_tokens as u64),
        ("memory_active_bytes", "Memory that MLX holds.", memory.active),
        ("memory_cache_bytes", "Memory that MLX keeps for reuse.", memory.cache),
        ("memory_peak_bytes", "Most memory that MLX has held.", memory.peak),
        ("requests_in_flight", "Requests running or waiting.", running(app) as u64),
        ("model_loaded", "1 while a model is loaded.", u64::from(snapshot.model.is_some())),
    ] {
        metric(GAUGE, name, help, value as f64);
    }
    let recent = "over the recent rounds.";
    metric(
        GAUGE,
        "accept_length",
        &format!("Tokens committed per round, {recent}"),
        stats.mean_accept_len(),
    );
    metric(
        GAUGE,
        "draft_acceptance",
        &format!("Share of drafted tokens accepted, {recent}"),
        stats.draft_acceptance(),
    );
    metric(
        GAUGE,
        "mean_accept_length",
        "Tokens committed per round, over all replies.",
        mean_accept_len(totals),
    );
    if let Some(state) = snapshot.speculation.as_ref().filter(|state| state.drafter.is_some()) {
        metric(GAUGE, "draft_cap", "Drafts of a round; 0 while parked.", state.cap as f64);
    }
    for (name, help, key) in [
        (
            "system_memory_available_bytes",
            "Memory that programs could still get without swapping.",
            "available_bytes",
        ),
        ("system_memory_total_bytes", "Memory of this machine.", "total_bytes"),
        ("system_memory_pressure", "1 normal, 2 warning, 4 critical.", "pressure_level"),
        ("system_swap_used_bytes", "Swap in use.", "swap_used_bytes"),
    ] {
        if let Some(value) = gauges.memory.get(key).and_then(Value::as_f64) {
            metric(GAUGE, name, help, value);
        }
    }
    text
}
