//! `/admin/*`: loading, unloading, and what is going on.

use super::{body, metrics};
use crate::{App, admin, error::ApiError, host::Serving};
use axum::{
    Json,
    extract::{Request, State},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use dspark_protocol::EngineError;
use serde_json::{Map, Value, json};

pub(crate) async fn status(State(app): State<App>) -> Json<Value> {
    Json(admin::status(&app))
}

pub(crate) async fn load(State(app): State<App>, request: Request) -> Result<Response, ApiError> {
    let wish = admin::parse(&body::json(&app, request).await?)?;
    let (later, warnings) = (wish.later, wish.warnings.clone());
    // On its own task: a client that hangs up half-way does not leave half a load behind.
    let task = tokio::spawn(admin::load(app.clone(), wish));
    if later {
        // What is wrong at once is told at once.
        if app.host.is_none() {
            task.await.unwrap_or_else(|_| Err(EngineError::Stopped.into()))?;
        }
        return Ok((StatusCode::ACCEPTED, Json(told(admin::status(&app), &warnings))).into_response());
    }
    task.await.unwrap_or_else(|_| Err(EngineError::Stopped.into()))?;
    // What the load itself has to say: a cap or a window that could not be had.
    let notes = app.engine.snapshot().model.as_ref().map(|model| model.notes.clone());
    let warnings: Vec<String> = warnings.into_iter().chain(notes.into_iter().flatten()).collect();
    Ok(Json(told(admin::status(&app), &warnings)).into_response())
}

fn told(mut status: Value, warnings: &[String]) -> Value {
    if !warnings.is_empty() {
        status["warnings"] = json!(warnings);
    }
    status
}

/// What has arrived of a download is kept: the next one goes on where it stopped.
pub(crate) async fn cancel_load(State(app): State<App>) -> Json<Value> {
    Json(match app.admin.cancel() {
        Some(repo) => json!({"cancelled": true, "repo": repo, "cleanup": false}),
        None => json!({"cancelled": false, "reason": "nothing is being loaded"}),
    })
}

pub(crate) async fn unload(State(app): State<App>) -> Result<Json<Value>, ApiError> {
    app.admin.cancel();
    let done = app.engine.unload()?;
    done.await.map_err(|_| ApiError::from(EngineError::Stopped))??;
    app.ledger.forget();
    app.admin.forget_error();
    Ok(Json(admin::status(&app)))
}

/// Stops one generation by its request's id, or all.
pub(crate) async fn cancel(State(app): State<App>, request: Request) -> Result<Json<Value>, ApiError> {
    let body = body::optional(&app, request).await?;
    let wanted = body.get("request_id").and_then(Value::as_str);
    let live = app.registry.live();
    let mut cancelled = Vec::new();
    for request in live.iter().filter(|live| wanted.is_none_or(|wanted| live.request_id == wanted)) {
        if app.engine.cancel(request.generation) {
            cancelled.push(request.request_id.clone());
        }
    }
    if let Some(wanted) = wanted.filter(|_| cancelled.is_empty()) {
        let wanted: String = wanted.chars().take(60).collect();
        return Err(ApiError::new(StatusCode::NOT_FOUND, "not_found", format!("no request `{wanted}` is running")).param("request_id"));
    }
    Ok(Json(json!({ "cancelled": cancelled })))
}

/// What is under way, what is over, and who asked.
pub(crate) async fn requests(State(app): State<App>) -> Json<Value> {
    Json(app.registry.report())
}

pub(crate) async fn models(State(app): State<App>) -> Result<Json<Value>, ApiError> {
    let host = admin::asked(&app)?;
    let mut models = blocking(move || host.models()).await?;
    models["loaded"] = json!(app.engine.snapshot().model.as_ref().map(|model| &model.name));
    Ok(Json(models))
}

pub(crate) async fn doctor(State(app): State<App>) -> Result<Json<Value>, ApiError> {
    let host = admin::asked(&app)?;
    Ok(Json(blocking(move || host.doctor()).await?))
}

pub(crate) async fn machine(State(app): State<App>) -> Result<Json<Value>, ApiError> {
    let snapshot = app.engine.snapshot();
    let gauges = metrics::gauges(&app, &snapshot).await?;
    let mut memory = gauges.memory;
    if memory.is_object() {
        memory["allocator"] = metrics::allocator(&snapshot);
    }
    let drafter = snapshot.speculation.as_ref().and_then(|state| state.drafter.as_ref());
    let model = snapshot.model.as_ref().map(|model| {
        json!({
            "target": model.name,
            "drafter": model.drafter,
            "mode": model.mode,
            "target_weights": model.weight_bytes,
            "drafter_weights": drafter.map(|drafter| drafter.weight_bytes),
            "kv_bytes_per_token": model.kv_bytes_per_token,
            "context_window": model.context_window,
        })
    });
    Ok(Json(json!({
        "chip": gauges.chip,
        "bandwidth": gauges.bandwidth,
        "memory": memory,
        "model": model,
        "roofline": gauges.roofline,
        "baseline": gauges.baseline,
        "verdict": gauges.verdict,
        "guard": metrics::guard(&snapshot),
        "engine": snapshot.machine.as_ref(),
        "allocator": snapshot.memory,
    })))
}

/// The settings of every known client for the address that this request was sent to. The one reply that holds the key.
pub(crate) async fn integrations(State(app): State<App>, request: Request) -> Result<Json<Value>, ApiError> {
    let host = admin::asked(&app)?;
    let model = app.ready(&app.engine.snapshot())?;
    let authority = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    let serving = Serving {
        base_url: format!("http://{}", authority.unwrap_or("127.0.0.1:8080")),
        model: model.name.clone(),
        context_window: model.context_window,
        max_output_tokens: app.config.max_tokens_cap.min(model.context_window.max(1)),
        thinks: model.supports_thinking,
        key: app.config.api_key.as_ref().map(|key| key.reveal().to_owned()),
    };
    let mut report = Map::new();
    report.insert("base_url".into(), json!(serving.base_url));
    report.insert("model".into(), json!(serving.model));
    report.insert("integrations".into(), blocking(move || host.integrations(&serving)).await?);
    Ok(Json(Value::Object(report)))
}

pub(super) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, ApiError> {
    tokio::task::spawn_blocking(work).await.map_err(|_| {
        ApiError::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "server_error",
            "looking that up failed unexpectedly; see the log",
        )
    })
}
