//! `GET /rounds`: the last decode rounds and their sums. Source: `spec/http-api.md` §13.4.

use crate::{App, error::ApiError};
use axum::{
    Json,
    extract::{Query, State},
};
use dspark_protocol::{RoundRecord, RoundRing, RoundStats, Source};
use serde_json::{Map, Value, json};
use std::collections::HashMap;

/// Rounds without a `limit`.
const DEFAULT: usize = 128;

pub(crate) async fn rounds(State(app): State<App>, Query(query): Query<HashMap<String, String>>) -> Result<Json<Value>, ApiError> {
    app.ready(&app.engine.snapshot())?;
    let limit = match query.get("limit") {
        None => DEFAULT,
        Some(text) => text.parse().map_err(|_| {
            ApiError::invalid(
                "limit",
                format!("`limit` is `{text}`: give a number from 0 to {}", RoundRing::CAPACITY),
            )
        })?,
    };
    let all = app.engine.rounds().since(None);
    let stats = stats(&RoundStats::of(&all));
    let shown = &all[all.len().saturating_sub(limit)..];
    Ok(Json(json!({
        "rounds": shown.iter().map(round).collect::<Vec<Value>>(),
        "stats": stats,
    })))
}

/// One round as clients read it.
pub(super) fn round(round: &RoundRecord) -> Value {
    let mut event = json!({
        "seq": round.seq,
        "t": rounded(round.t_ms, 1),
        "req": request_id(round.request),
        "mode": round.mode,
        "i": round.index,
        "drafted": round.drafted,
        "accepted": round.accepted,
        "committed": round.committed,
        "cap": round.cap,
        "source": match round.source {
            Source::Draft => "drafter",
            Source::Lookup => "lookup",
            Source::Target | Source::Corrected => "plain",
        },
        "ms": rounded(f64::from(round.ms), 3),
    });
    if round.tree_depth > 0 {
        event["tree_depth"] = json!(round.tree_depth);
    }
    event
}

/// Requests are named by eight hexadecimal digits.
pub(super) fn request_id(id: u64) -> String {
    format!("{:08x}", id & 0xFFFF_FFFF)
}

/// Sums over rounds; `position_acceptance[i]` is over the rounds that drafted at least i + 1 tokens.
pub(crate) fn stats(stats: &RoundStats) -> Value {
    let share = |accepted: usize, offered: usize| {
        let share = if offered > 0 { accepted as f64 / offered as f64 } else { 0.0 };
        rounded(share, 4)
    };
    let histogram: Map<String, Value> = stats
        .histogram
        .iter()
        .map(|(tokens, rounds)| (tokens.to_string(), json!(rounds)))
        .collect();
    json!({
        "rounds": stats.rounds,
        "committed_tokens": stats.committed,
        "mean_accept_len": rounded(stats.mean_accept_len(), 3),
        "drafted_tokens": stats.drafted,
        "accepted_tokens": stats.accepted,
        "draft_acceptance": rounded(stats.draft_acceptance(), 4),
        "drafter_rounds": stats.drafter_rounds,
        "lookup_rounds": stats.lookup_rounds,
        "plain_rounds": stats.plain_rounds,
        "position_acceptance": stats.positions.iter().map(|at| share(at.accepted, at.offered)).collect::<Vec<Value>>(),
        "position_offered": stats.positions.iter().map(|at| at.offered).collect::<Vec<usize>>(),
        "accept_histogram": histogram,
    })
}

pub(super) fn rounded(value: f64, decimals: i32) -> Value {
    let scale = 10f64.powi(decimals);
    json!((value * scale).round() / scale)
}
