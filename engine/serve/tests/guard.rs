//! Keys, Host and Origin checks and CORS through the router, without a socket.

#![allow(clippy::unwrap_used)]

mod common;

use axum::http::Response;
use common::{app, get, hi, read, request, send};
use dspark_protocol::double::Script;
use dspark_serve::{ApiKey, ServeConfig};
use serde_json::json;

fn plain() -> dspark_serve::App {
    app(ServeConfig::default(), Script::saying("Hello there, friend."))
}

fn keyed() -> dspark_serve::App {
    let config = ServeConfig {
        api_key: ApiKey::new("K"),
        ..ServeConfig::default()
    };
    app(config, Script::saying("Hello there, friend."))
}

fn header<'a>(response: &'a Response<axum::body::Body>, name: &str) -> Option<&'a str> {
    response.headers().get(name).map(|value| value.to_str().unwrap())
}

/// Case se-003 and se-005.
#[tokio::test]
async fn a_key_guards_everything_but_health_and_probes() {
    let app = keyed();
    for (method, path, status) in [
        ("GET", "/health", 200),
        ("HEAD", "/", 200),
        ("HEAD", "/v1/models", 200),
        ("OPTIONS", "/v1/chat/completions", 204),
        ("GET", "/v1/models", 401),
        ("GET", "/admin/integrations", 401),
        ("GET", "/metrics", 401),
        ("GET", "/events", 401),
        ("POST", "/health", 401),
        ("POST", "/v1/chat/completions", 401),
        ("GET", "/nothing/here", 401),
    ] {
        let response = send(&app, request(method, path, &[], "")).await;
        assert_eq!(response.status().as_u16(), status, "{method} {path}");
    }
    for (headers, status) in [
        (&[("authorization", "Bearer K")][..], 200),
        (&[("x-api-key", "K")], 200),
        (&[("api-key", "K")], 200),
        (&[("authorization", "Bearer k")], 401),
        (&[], 401),
    ] {
        let (got, body) = read(send(&app, request("GET", "/v1/models", headers, "")).await).await;
        assert_eq!(got, status);
        if status == 401 {
            assert_eq!(
                (&body["error"]["type"], &body["error"]["code"]),
                (&json!("authentication_error"), &json!("invalid_api_key"))
            );
        }
    }
    let (_, body) = read(send(&app, request("POST", "/v1/messages?beta=true", &[], "{}")).await).await;
    assert_eq!(
        (&body["type"], &body["error"]["type"]),
        (&json!("error"), &json!("authentication_error"))
    );
}

#[tokio::test]
async fn with_a_key_health_keeps_local_paths_to_itself() {
    let (_, health) = get(&keyed(), "/health").await;
    assert!(!health["target"].as_str().unwrap().contains('/'));
    assert!(!health.to_string().contains("\"K\""));
}

/// Case se-001.
#[tokio::test]
async fn a_rebound_host_is_refused() {
    let app = plain();
    for (host, status) in [
        ("localhost:8080", 200),
        ("127.0.0.1:8080", 200),
        ("[::1]:8080", 200),
        ("LOCALHOST", 200),
        ("evil.example:8080", 403),
        ("127.0.0.1.evil.example", 403),
        ("localhost.evil.example:8080", 403),
    ] {
        for path in ["/health", "/v1/models"] {
            let response = send(&app, request("GET", path, &[("Host", host)], "")).await;
            assert_eq!(response.status().as_u16(), status, "{host} {path}");
        }
    }
    let mut missing = request("GET", "/health", &[], "");
    missing.headers_mut().remove("host");
    assert_eq!(send(&app, missing).await.status().as_u16(), 400);
    let mut twice = request("GET", "/health", &[], "");
    twice.headers_mut().append("host", "127.0.0.1".parse().unwrap());
    assert_eq!(send(&app, twice).await.status().as_u16(), 400);
    let absolute = request("GET", "http://evil.example/health", &[("Host", "127.0.0.1")], "");
    assert_eq!(send(&app, absolute).await.status().as_u16(), 400);
}

/// Case se-002: the page learns nothing and nothing is generated.
#[tokio::test]
async fn a_foreign_page_reaches_no_route() {
    let app = plain();
    let headers = [("Origin", "https://evil.example"), ("Content-Type", "text/plain")];
    let response = send(&app, request("POST", "/v1/chat/completions", &headers, hi().to_string())).await;
    assert_eq!(response.status().as_u16(), 403);
    assert_eq!(header(&response, "access-control-allow-origin"), None);
    let (_, body) = read(response).await;
    assert_eq!(body["error"]["type"], "forbidden_origin");
    assert_eq!(app.clients(), []);
    let preflight = request("OPTIONS", "/v1/chat/completions", &[("Origin", "https://evil.example")], "");
    let response = send(&app, preflight).await;
    assert_eq!(
        (response.status().as_u16(), header(&response, "access-control-allow-origin")),
        (403, None)
    );
}

#[tokio::test]
async fn a_local_page_may_call_and_must_say_json() {
    let app = plain();
    let origin = ("Origin", "http://localhost:3000");
    let ask = [
        origin,
        ("Access-Control-Request-Method", "POST"),
        ("Access-Control-Request-Headers", "x-stainless-lang, anthropic-version"),
        ("Access-Control-Request-Private-Network", "true"),
    ];
    let response = send(&app, request("OPTIONS", "/v1/chat/completions", &ask, "")).await;
    assert_eq!(response.status().as_u16(), 204);
    for (name, value) in [
        ("access-control-allow-origin", "http://localhost:3000"),
        ("access-control-allow-headers", "x-stainless-lang, anthropic-version"),
        ("access-control-allow-private-network", "true"),
        ("access-control-max-age", "600"),
        ("access-control-expose-headers", "x-request-id"),
        ("vary", "Origin"),
    ] {
        assert_eq!(header(&response, name), Some(value), "{name}");
    }
    for (kind, status) in [("text/plain", 415), ("application/json; charset=utf-8", 200)] {
        let response = send(
            &app,
            request("POST", "/v1/chat/completions", &[origin, ("Content-Type", kind)], hi().to_string()),
        )
        .await;
        assert_eq!(response.status().as_u16(), status, "{kind}");
        assert_eq!(header(&response, "access-control-allow-origin"), Some("http://localhost:3000"));
    }
    // curl sends a form type for JSON by habit; it is no browser.
    let form = [("Content-Type", "application/x-www-form-urlencoded")];
    let response = send(&app, request("POST", "/v1/chat/completions", &form, hi().to_string())).await;
    assert_eq!(response.status().as_u16(), 200);
    let page = [("Sec-Fetch-Site", "cross-site"), ("Content-Type", "text/plain")];
    let response = send(&app, request("POST", "/v1/chat/completions", &page, hi().to_string())).await;
    assert_eq!(response.status().as_u16(), 415);
}

/// What changes the server is for programs and its own pages: not for other pages on this machine, applications' pages,
/// extensions, or those that were let in to generate.
#[tokio::test]
async fn admin_answers_no_page_but_its_own() {
    let config = ServeConfig {
        allowed_origins: vec!["https://chat.example".into(), "myapp://".into()],
        ..ServeConfig::default()
    };
    let app = app(config, Script::saying("Hi"));
    for origin in [
        "http://localhost:3000",
        "http://127.0.0.1:8081",
        "tauri://localhost",
        "vscode-webview://abc",
        "chrome-extension://abcdef",
        "https://chat.example",
        "myapp://index",
        "null",
    ] {
        let headers = [("Host", "127.0.0.1:8080"), ("Origin", origin), ("Content-Type", "application/json")];
        for (method, path) in [
            ("GET", "/admin/status"),
            ("POST", "/v1/admin/unload"),
            ("POST", "/admin/load"),
            ("OPTIONS", "/admin/load"),
        ] {
            let response = send(&app, request(method, path, &headers, "{}")).await;
            assert_eq!(response.status().as_u16(), 403, "{method} {path} from {origin}");
            assert_eq!(header(&response, "access-control-allow-origin"), None);
        }
        if origin != "null" {
            let response = send(&app, request("POST", "/v1/chat/completions", &headers, hi().to_string())).await;
            assert_eq!(response.status().as_u16(), 200, "{origin}");
        }
    }
    for headers in [
        &[("Host", "127.0.0.1:8080"), ("Origin", "http://127.0.0.1:8080")][..],
        &[("Host", "localhost:8080"), ("Origin", "http://localhost:8080")],
        &[],
    ] {
        let response = send(&app, request("GET", "/admin/status", headers, "")).await;
        assert_eq!(response.status().as_u16(), 200, "{headers:?}");
    }
}

#[tokio::test]
async fn the_user_may_open_it_to_every_page() {
    let config = ServeConfig {
        any_origin: true,
        ..ServeConfig::default()
    };
    let app = app(config, Script::saying("Hi"));
    let headers = [("Origin", "https://chat.example"), ("Content-Type", "application/json")];
    let response = send(&app, request("POST", "/v1/chat/completions", &headers, hi().to_string())).await;
    assert_eq!(
        (response.status().as_u16(), header(&response, "access-control-allow-origin")),
        (200, Some("*"))
    );
}
