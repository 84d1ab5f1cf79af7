//! The route table. Paths are matched without `/v1`, so that every route also answers at `/X`, `/v1/X` and `/v1/v1/X`
//! (people paste `…/v1` into clients that add it themselves).

mod admin;
mod answer;
mod body;
mod calibration;
mod chat;
mod events;
mod health;
mod messages;
mod metrics;
mod models;
mod names;
mod race;
mod responses;
mod rounds;
mod tokenize;

use crate::{
    App,
    error::ApiError,
    guard::{OriginalPath, guard},
};
use axum::{
    Router,
    extract::Request,
    http::{Method, StatusCode, Uri},
    middleware,
    response::Response,
    routing::{any, get, post},
};
use std::convert::Infallible;
use tower::{Service, ServiceExt};

/// What is asked for elsewhere and has no place on a text model's server.
const UNSUPPORTED: [&str; 6] = [
    "/embeddings",
    "/images/{*rest}",
    "/audio/{*rest}",
    "/moderations",
    "/rerank",
    "/realtime/{*rest}",
];

/// Every route over one engine, ready to be served or called in a test.
pub fn service(app: App) -> impl Service<Request, Response = Response, Error = Infallible, Future: Send> + Clone + Send + Sync + 'static {
    let mut router = Router::new()
        .route("/health", get(health::health))
        .route("/calibration", get(calibration::calibration))
        .route("/events", get(events::events))
        .route("/rounds", get(rounds::rounds))
        .route("/models", get(models::list))
        .route("/models/{*id}", get(models::one))
        .route("/chat/completions", post(chat::chat))
        .route("/completions", post(chat::text))
        .route("/messages", post(messages::create))
        .route("/messages/count_tokens", post(messages::count))
        .route("/responses", post(responses::create))
        .route("/responses/{*id}", any(responses::kept_nowhere))
        .route("/tokenize", post(tokenize::tokenize))
        .route("/metrics", get(metrics::metrics))
        .route("/machine", get(admin::machine))
        .route("/doctor", get(admin::doctor))
        .route("/admin/status", get(admin::status))
        .route("/admin/models", get(admin::models))
        .route("/admin/integrations", get(admin::integrations))
        .route("/admin/requests", get(admin::requests))
        .route("/admin/load", post(admin::load))
        .route("/admin/load/cancel", post(admin::cancel_load))
        .route("/admin/unload", post(admin::unload))
        .route("/admin/cancel", post(admin::cancel))
        .route("/admin/race", post(race::race));
    for path in UNSUPPORTED {
        router = router.route(path, any(unsupported));
    }
    router
        .fallback(not_found)
        .method_not_allowed_fallback(wrong_method)
        .layer(middleware::from_fn_with_state(app.clone(), guard))
        .with_state(app)
        .map_request(normalise as fn(Request) -> Request)
}

/// Removes empty segments and leading `/v1` segments; keeps the query.
fn normalise(mut request: Request) -> Request {
    let original = request.uri().path().to_owned();
    let path = canonical(&original);
    if path != original {
        let mut parts = request.uri().clone().into_parts();
        let target = match request.uri().query() {
            Some(query) => format!("{path}?{query}"),
            None => path,
        };
        parts.path_and_query = target.parse().ok();
        if let Ok(uri) = Uri::from_parts(parts) {
            *request.uri_mut() = uri;
        }
    }
    request.extensions_mut().insert(OriginalPath(original));
    request
}

/// Empty segments come from a base URL that ends in `/` with a path that begins with one.
fn canonical(path: &str) -> String {
    let mut segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
    let versions = segments.iter().take(2).take_while(|segment| **segment == "v1").count();
    segments.drain(..versions);
    format!("/{}", segments.join("/"))
}

const ROUTES: &str = "GET /health, GET /v1/models, GET /v1/models/{id}, POST /v1/chat/completions, POST /v1/completions, \
                      POST /v1/messages, POST /v1/messages/count_tokens, POST /v1/responses, POST /tokenize, \
                      GET /rounds, GET /events, GET /calibration, GET /metrics, GET /machine, GET /doctor, \
                      /admin/{status, models, integrations, requests, load, load/cancel, unload, cancel, race}";

async fn not_found(method: Method, axum::Extension(path): axum::Extension<OriginalPath>) -> ApiError {
    let path: String = path.0.chars().take(120).collect();
    ApiError::new(
        StatusCode::NOT_FOUND,
        "not_found",
        format!("there is no `{method} {path}` here. This server answers: {ROUTES}"),
    )
}

async fn wrong_method(method: Method, axum::Extension(path): axum::Extension<OriginalPath>) -> ApiError {
    let path: String = path.0.chars().take(120).collect();
    ApiError::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "invalid_request_error",
        format!("`{path}` does not take {method}. This server answers: {ROUTES}"),
    )
}

async fn unsupported(axum::Extension(path): axum::Extension<OriginalPath>) -> ApiError {
    ApiError::new(
        StatusCode::NOT_IMPLEMENTED,
        "unsupported_endpoint",
        format!(
            "`{}` is not supported: the engine generates text only. It answers: {ROUTES}",
            path.0
        ),
    )
    .code("unsupported_endpoint")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_and_slashes_do_not_matter() {
        for (path, route) in [
            ("/v1/chat/completions", "/chat/completions"),
            ("/v1/v1/chat/completions//", "/chat/completions"),
            ("//v1//models", "/models"),
            ("/v1//v1/models//owner//name", "/models/owner/name"),
            ("/chat/completions", "/chat/completions"),
            ("/v1/models/owner/name", "/models/owner/name"),
            ("/v1", "/"),
            ("/v1models", "/v1models"),
            ("/v1/v1/v1/x", "/v1/x"),
            ("///", "/"),
            ("", "/"),
        ] {
            assert_eq!(canonical(path), route, "{path}");
        }
    }
}
