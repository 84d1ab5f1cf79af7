//! `GET /health`: never authenticated, answers whatever the engine is doing.

use crate::{
    App,
    state::{Status, phase},
};
use axum::{
    Json,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use dspark_protocol::{EngineState, ModelInfo, Pressure, Snapshot};
use serde_json::{Value, json};
use std::time::{SystemTime, UNIX_EPOCH};

/// Changes when a field here changes its meaning.
const API_VERSION: u32 = 1;

/// Seconds for which memory that was given back is worth a warning.
const SHED_SHOWN: u64 = 600;

/// 200, but for a stalled engine: 503, so that a supervisor that looks only at the status notices.
pub(crate) async fn health(State(app): State<App>) -> Response {
    let snapshot = app.engine.snapshot();
    let status = app.status(&snapshot);
    let code = match status {
        Status::Stalled(_) => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::OK,
    };
    (code, Json(report(&app, &snapshot, &status))).into_response()
}

fn report(app: &App, snapshot: &Snapshot, status: &Status) -> Value {
    let live = app.registry.live();
    let waiting = live.iter().filter(|live| live.phase == crate::Phase::Waiting).count();
    let error = match status {
        Status::Error(reason) => Some(reason.clone()),
        Status::Stalled(silence) => Some(format!("a running generation has delivered nothing for {} s", silence.as_secs())),
        _ => app.admin.error(),
    };
    let (loading, load_phase, progress) = match &snapshot.state {
        EngineState::Loading { stage, done, total } => (true, Some(phase(*stage)), json!({"stage": stage, "done": done, "total": total})),
        EngineState::Starting => (true, None, Value::Null),
        _ => (false, None, Value::Null),
    };
    let mut report = json!({
        "status": status.word(),
        "model": snapshot.model.as_ref().map(|model| &model.name),
        "loading": loading,
        "phase": load_phase,
        "progress": progress,
        "download": app.admin.download(),
        "error": error,
        "warnings": warnings(snapshot),
        "memory_guard": super::metrics::guard(snapshot),
        "state": snapshot.state,
        "version": app.config.version,
        "api_version": API_VERSION,
        "pid": std::process::id(),
        "uptime_seconds": snapshot.started.elapsed().as_secs(),
        "busy": !live.is_empty() || snapshot.requests.iter().any(|request| !request.waiting),
        "queue": {
            "running": live.len() - waiting,
            "waiting": waiting,
            "limit": app.config.max_queue,
            "engine": snapshot.requests.len(),
        },
        "beat_seconds": round(snapshot.beat.elapsed().as_secs_f64()),
        "last_decode_tokens_per_sec": snapshot.last_decode_rate.map(round),
        "memory": snapshot.memory,
        "machine": snapshot.machine.as_ref(),
        "max_output_tokens": app.config.max_tokens_cap,
        "thinking_default": match app.enable_thinking() {
            Some(false) => "off",
            _ => "on",
        },
        "reasoning_effort": app.reasoning_effort(),
        "endpoints": [
            "/v1/chat/completions", "/v1/completions", "/v1/messages", "/v1/responses", "/v1/models",
            "/rounds", "/events", "/calibration", "/metrics",
        ],
    });
    if let (Some(model), Some(fields)) = (&snapshot.model, report.as_object_mut()) {
        fields.extend(describe(app, model));
        if let Some(state) = &snapshot.speculation {
            fields.extend(crate::dialect::extension::health(state));
        }
    }
    report
}

/// Rows `{code, level, message, action}`: what a person should know now.
fn warnings(snapshot: &Snapshot) -> Vec<Value> {
    let notes = snapshot.model.iter().flat_map(|model| &model.notes);
    let mut rows: Vec<Value> = notes
        .map(|note| json!({"code": "load_note", "level": "info", "message": note, "action": null}))
        .collect();
    let free = "close other programs, or load a smaller model";
    let pressure = match snapshot.guard.level {
        Pressure::Normal => None,
        Pressure::Warning => Some(("attention", "memory is running short")),
        Pressure::Critical => Some(("problem", "memory is critically short")),
    };
    if let Some((level, message)) = pressure {
        rows.push(json!({"code": "memory_pressure", "level": level, "message": message, "action": free}));
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    if let Some(shed) = snapshot.guard.last_shed.filter(|shed| now.saturating_sub(shed.at) < SHED_SHOWN) {
        let what = if shed.prompts_dropped {
            "the kept prompts were dropped: the next turns are computed anew"
        } else {
            "copies within kept prompts were dropped"
        };
        let message = format!(
            "memory ran short {} s ago, so {what} ({} bytes freed)",
            now.saturating_sub(shed.at),
            shed.freed_bytes
        );
        rows.push(json!({"code": "memory_guard", "level": "attention", "message": message, "action": free}));
    }
    rows
}

/// What holds for the loaded model. Features that do not exist yet have no key: a key is a promise to clients.
fn describe(app: &App, model: &std::sync::Arc<ModelInfo>) -> serde_json::Map<String, Value> {
    // A local path tells a stranger about the machine; with a key set, strangers are expected.
    let place = if app.config.api_key.is_some() || app.exposed {
        model.path.file_name().map(|name| name.to_string_lossy().into_owned())
    } else {
        Some(model.path.display().to_string())
    };
    let effort = crate::dialect::effort::levels_now(&app.engine, &app.efforts, model).is_some_and(|levels| levels.supported);
    let fields = json!({
        "mode": model.mode,
        "effective_mode": app.effective_mode(model),
        "target": place,
        "drafter": model.drafter,
        "context_window": model.context_window,
        "max_context": model.max_context,
        "kv_bits": 0,
        "quantization": model.quantization,
        "model_type": model.model_type,
        "parameters": model.parameters,
        "weight_bytes": model.weight_bytes,
        "kv_bytes_per_token": model.kv_bytes_per_token,
        "max_output_tokens": app.config.max_tokens_cap.min(model.context_window.max(1)),
        "supports_thinking": model.supports_thinking,
        "supports_tools": model.supports_tools,
        "supports_reasoning_effort": effort,
        "loaded_at": model.loaded_at,
        "load_seconds": round(model.load_seconds),
    });
    match fields {
        Value::Object(map) => map,
        _ => serde_json::Map::new(),
    }
}

fn round(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}
