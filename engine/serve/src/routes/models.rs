//! `GET /v1/models`: OpenAI's list, with the fields that Anthropic's, vLLM's and Codex's readers look for.

use super::names;
use crate::{App, error::ApiError};
use axum::{
    Json,
    extract::{Path, State},
};
use dspark_protocol::ModelInfo;
use serde_json::{Value, json};

/// 200 with an empty list when nothing is loaded: clients take anything else for a dead connection.
pub(crate) async fn list(State(app): State<App>) -> Json<Value> {
    let data: Vec<Value> = app.engine.snapshot().model.iter().map(|model| entry(&app, model)).collect();
    let id = |entry: Option<&Value>| entry.map_or(Value::Null, |entry| entry["id"].clone());
    Json(json!({
        "object": "list",
        "first_id": id(data.first()),
        "last_id": id(data.last()),
        "has_more": false,
        "data": data,
        // Codex looks for this key; entries would replace its own system prompt.
        "models": [],
    }))
}

pub(crate) async fn one(State(app): State<App>, Path(id): Path<String>) -> Result<Json<Value>, ApiError> {
    let snapshot = app.engine.snapshot();
    match &snapshot.model {
        Some(model) if names::is(model, &id) => Ok(Json(entry(&app, model))),
        other => Err(names::not_found(&id, other.as_deref())),
    }
}

fn entry(app: &App, model: &ModelInfo) -> Value {
    let mut capabilities = vec!["completion"];
    capabilities.extend(model.supports_tools.then_some("tool_use"));
    capabilities.extend(model.supports_thinking.then_some("reasoning"));
    json!({
        "id": model.name,
        "object": "model",
        "type": "model",
        "created": app.started,
        "created_at": rfc3339(app.started),
        "owned_by": "mlx-dspark",
        "display_name": format!("{} (mlx-dspark {})", model.name, mode(model)),
        "context_length": model.context_window,
        "max_model_len": model.context_window,
        "max_context_length": model.max_context,
        "loaded_context_length": model.context_window,
        "max_output_tokens": app.config.max_tokens_cap.min(model.context_window),
        "capabilities": capabilities,
        "x_mlx_dspark": {
            "mode": mode(model),
            "target": model.path.file_name().map(|name| name.to_string_lossy()),
            "drafter": model.drafter,
            "quantization": model.quantization,
            "model_type": model.model_type,
        },
    })
}

fn mode(model: &ModelInfo) -> String {
    let mode = serde_json::to_value(model.mode).ok();
    mode.as_ref().and_then(Value::as_str).unwrap_or("auto").to_owned()
}

/// `2026-11-30T06:50:54Z`. Days to a date: Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms".
fn rfc3339(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let z = days + 719_468;
    let (era, day_of_era) = (z / 146_097, z % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::rfc3339;

    #[test]
    fn dates() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_764_500_000, "2025-11-30T10:53:20Z"),
            (4_102_444_799, "2099-12-31T23:59:59Z"),
        ] {
            assert_eq!(rfc3339(seconds), text);
        }
    }
}
