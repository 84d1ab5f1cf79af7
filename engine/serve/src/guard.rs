//! What stands before every route: request ids, Host and Origin checks, CORS, authentication, and the one place where
//! an error gets its dialect.
//!
//! A local server is reachable by every web page the user visits. The Host check defeats DNS rebinding, the Origin check
//! defeats cross-site requests, and a browser's body must be declared as JSON, which forces a preflight.

use crate::{App, ServeConfig, dialect::Dialect, error::ApiError, generate::Asker, ids, registry};
use axum::{
    extract::{Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use std::{net::IpAddr, time::Instant};

/// The path as the client wrote it; routing sees it without `/v1` and trailing slashes.
#[derive(Debug, Clone)]
pub(crate) struct OriginalPath(pub(crate) String);

/// Errors travel as extensions until [`guard`] knows who must read them.
impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = self.status.into_response();
        response.extensions_mut().insert(self);
        response
    }
}

pub(crate) async fn guard(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let started = Instant::now();
    let dialect = Dialect::of(request.uri().path());
    let method = request.method().clone();
    let canonical = request.uri().path().to_owned();
    let path = request
        .extensions()
        .get::<OriginalPath>()
        .map_or_else(String::new, |path| path.0.clone());
    let asker = Asker {
        request_id: ids::request_id(),
        client: registry::client_name(request.headers().get(header::USER_AGENT).and_then(|agent| agent.to_str().ok())),
    };
    request.extensions_mut().insert(asker.clone());
    let (cors, allowed) = match place(&app, &request) {
        Ok(cors) => (cors, credentials(&app, &request)),
        Err(error) => (None, Err(error)),
    };
    let asked = CorsAsk::of(request.headers());
    let mut response = match (allowed, &method) {
        (Err(error), _) => error.into_response(),
        (Ok(()), &Method::HEAD) => (StatusCode::OK, [(header::CONTENT_LENGTH, "0")]).into_response(),
        (Ok(()), &Method::OPTIONS) => StatusCode::NO_CONTENT.into_response(),
        (Ok(()), _) => next.run(request).await,
    };
    if let Some(error) = response.extensions_mut().remove::<ApiError>() {
        if is_worth_a_note(&canonical, error.status) {
            let (id, client, status) = (&asker.request_id, &asker.client, error.status.as_u16());
            app.registry
                .refused(id, client, &format!("{method} {path}"), status, &error.message);
        }
        response = render(&error, dialect, &asker.request_id, response.headers());
    }
    decorate(&mut response, cors, asked, &asker.request_id, dialect);
    log(&app, &method, &path, &response, &asker, started);
    response
}

/// What a person should see when a client does not work: what generates, and what is locked or not offered. Pages that
/// probe and the app's own routes are not told.
fn is_worth_a_note(path: &str, status: StatusCode) -> bool {
    const GENERATES: [&str; 4] = ["/chat/completions", "/completions", "/messages", "/responses"];
    let locked = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::NOT_IMPLEMENTED);
    GENERATES.contains(&path) || (locked && !path.starts_with("/admin"))
}

/// Never bodies, never keys, never the query (some clients put keys there).
fn log(app: &App, method: &Method, path: &str, response: &Response, asker: &Asker, started: Instant) {
    let (status, ms) = (response.status().as_u16(), started.elapsed().as_millis() as u64);
    let Asker { request_id, client } = asker;
    if app.config.log_requests {
        tracing::info!(%method, path, status, ms, client, request_id, "request");
    } else {
        tracing::debug!(%method, path, status, ms, client, request_id, "request");
    }
}

fn render(error: &ApiError, dialect: Dialect, request_id: &str, headers: &HeaderMap) -> Response {
    let mut response = (error.status, axum::Json(dialect.error(error, request_id))).into_response();
    if let Some(allow) = headers.get(header::ALLOW) {
        response.headers_mut().insert(header::ALLOW, allow.clone());
    }
    if let Some(seconds) = error.retry_after {
        response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
    }
    if error.status == StatusCode::UNAUTHORIZED {
        response
            .headers_mut()
            .insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}

/// Where the request comes from: what `Access-Control-Allow-Origin` may say, or why it goes no further.
fn place(app: &App, request: &Request) -> Result<Option<HeaderValue>, ApiError> {
    let config = &app.config;
    let host = host(request)?;
    if !host_allowed(&host, app.exposed, config) {
        return Err(forbidden(
            "forbidden_host",
            format!(
                "the Host `{host}` is not one this server answers to: use localhost or 127.0.0.1, or allow it (`--allowed-host {host}`)"
            ),
        ));
    }
    // The settings open the inference routes; what changes the server stays closed to pages that are not its own.
    let admin = is_admin(request.uri().path());
    let any_page = config.any_origin && !admin;
    match request.headers().get(header::ORIGIN) {
        None => Ok(any_page.then(|| HeaderValue::from_static("*"))),
        Some(_) if any_page => Ok(Some(HeaderValue::from_static("*"))),
        Some(value) => {
            let text = value.to_str().unwrap_or_default();
            let authority = request
                .headers()
                .get(header::HOST)
                .and_then(|host| host.to_str().ok())
                .unwrap_or_default();
            if admin && !own_origin(text, authority) {
                return Err(forbidden(
                    "forbidden_origin",
                    format!("pages from `{text}` may not use `/admin`: only this server's own may, and programs, which send no Origin"),
                ));
            }
            if !admin && !origin_allowed(text, authority, config) {
                return Err(forbidden(
                    "forbidden_origin",
                    format!("pages from `{text}` may not use this server: allow the origin (`--cors-origin {text}`) if you trust it"),
                ));
            }
            Ok(Some(value.clone()))
        }
    }
}

/// Whether it may do what it asks: the key, and a browser's declared content type.
fn credentials(app: &App, request: &Request) -> Result<(), ApiError> {
    let probe = matches!(*request.method(), Method::HEAD | Method::OPTIONS);
    let open = probe || (request.method() == Method::GET && request.uri().path() == "/health");
    if let Some(key) = app.config.api_key.as_ref().filter(|_| !open)
        && !key.allows(request.headers())
    {
        let error = ApiError::new(
            StatusCode::UNAUTHORIZED,
            "authentication_error",
            "a valid API key is required: send it as `Authorization: Bearer <key>` or `x-api-key: <key>`",
        );
        return Err(error.code("invalid_api_key"));
    }
    // What a page may send without asking first is never JSON: demanding it forces a preflight. What changes the server
    // demands it of everyone.
    let admin = is_admin(request.uri().path());
    if request.method() == Method::POST && (admin || from_browser(request.headers())) && !is_json(request.headers()) {
        return Err(ApiError::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "invalid_request_error",
            if admin {
                "`/admin` takes `Content-Type: application/json` only"
            } else {
                "a web page must send `Content-Type: application/json`"
            },
        ));
    }
    Ok(())
}

fn forbidden(kind: &'static str, message: String) -> ApiError {
    ApiError::new(StatusCode::FORBIDDEN, kind, message).code(kind)
}

/// The host the request was sent to, without its port.
fn host(request: &Request) -> Result<String, ApiError> {
    let mut hosts = request.headers().get_all(header::HOST).iter();
    let header = hosts.next().and_then(|host| host.to_str().ok());
    // A target in absolute form names the host as well, and must not name another.
    let target = request.uri().authority().map(axum::http::uri::Authority::as_str);
    match (target, header, hosts.next()) {
        (Some(target), Some(header), None) if !target.eq_ignore_ascii_case(header) => None,
        (target, header, None) => target.or(header).and_then(host_name),
        _ => None,
    }
    .ok_or_else(|| ApiError::bad_body("the request needs exactly one valid Host header"))
}

/// The name or address of `host[:port]`, lower case, IPv6 without brackets.
fn host_name(authority: &str) -> Option<String> {
    let (name, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (address, port) = rest.split_once(']')?;
            address.parse::<std::net::Ipv6Addr>().ok()?;
            (address, port.strip_prefix(':').or(port.is_empty().then_some(""))?)
        }
        None => authority.split_once(':').unwrap_or((authority, "")),
    };
    let named = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_:".contains(&byte));
    let name = name.strip_suffix('.').unwrap_or(name);
    (named && !name.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit())).then(|| name.to_ascii_lowercase())
}

/// A page of an attacker's can only make a browser send the attacker's own *name*, so addresses prove no rebinding:
/// a server that is meant to be reached from elsewhere takes any (its own, or a router's in front of a container).
fn host_allowed(host: &str, exposed: bool, config: &ServeConfig) -> bool {
    let loopback = host == "localhost" || host.ends_with(".localhost") || host == "host.docker.internal";
    let address = host.parse::<IpAddr>().ok();
    let own = || {
        let node = rustix::system::uname().nodename().to_string_lossy().to_ascii_lowercase();
        let short = node.split('.').next().unwrap_or_default();
        !short.is_empty()
            && [node.as_str(), short]
                .iter()
                .any(|name| host == *name || host.strip_suffix(".local") == Some(name))
    };
    loopback
        || address.is_some_and(|address| exposed || address.is_loopback())
        || config
            .allowed_hosts
            .iter()
            .any(|allowed| host_name(allowed).as_deref() == Some(host))
        || (exposed && own())
}

/// Schemes of applications and browser extensions. A web page cannot have them.
const APP_SCHEMES: [&str; 7] = [
    "app",
    "tauri",
    "capacitor",
    "vscode-webview",
    "chrome-extension",
    "moz-extension",
    "safari-web-extension",
];

/// `authority` is the request's Host header: a page that this server itself served may call it.
fn origin_allowed(origin: &str, authority: &str, config: &ServeConfig) -> bool {
    let listed = config.allowed_origins.iter().any(|allowed| {
        if allowed.ends_with("://") {
            return origin
                .get(..allowed.len())
                .is_some_and(|scheme| scheme.eq_ignore_ascii_case(allowed));
        }
        allowed.trim_end_matches('/').eq_ignore_ascii_case(origin)
    });
    let Some((scheme, rest)) = origin.split_once("://") else {
        return listed;
    };
    let web = scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https");
    let loopback = host_name(rest).is_some_and(|host| is_loopback(&host));
    listed
        || APP_SCHEMES.iter().any(|app| scheme.eq_ignore_ascii_case(app))
        || (web && (loopback || (!rest.is_empty() && rest.eq_ignore_ascii_case(authority))))
}

/// What changes the server or tells of its insides.
fn is_admin(path: &str) -> bool {
    path == "/admin" || path.starts_with("/admin/")
}

/// A page that this very server handed out, over loopback: the same name and port, as the Host header has them.
fn own_origin(origin: &str, authority: &str) -> bool {
    let Some(("http" | "https", rest)) = origin.split_once("://") else {
        return false;
    };
    !rest.is_empty() && rest.eq_ignore_ascii_case(authority) && host_name(rest).is_some_and(|host| is_loopback(&host))
}

fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.ends_with(".localhost") || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Browsers mark what a page sends; nothing else does.
fn from_browser(headers: &HeaderMap) -> bool {
    headers.contains_key(header::ORIGIN) || headers.contains_key("sec-fetch-site")
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers
        .get(header::CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok())
        .unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    kind == "application/json" || (kind.starts_with("application/") && kind.ends_with("+json"))
}

/// What a preflight asks to be allowed.
struct CorsAsk {
    headers: Option<HeaderValue>,
    private_network: bool,
}

impl CorsAsk {
    fn of(headers: &HeaderMap) -> Self {
        Self {
            headers: headers.get(header::ACCESS_CONTROL_REQUEST_HEADERS).cloned(),
            private_network: headers
                .get("access-control-request-private-network")
                .is_some_and(|value| value == "true"),
        }
    }
}

fn decorate(response: &mut Response, cors: Option<HeaderValue>, asked: CorsAsk, request_id: &str, dialect: Dialect) {
    let headers = response.headers_mut();
    headers.insert(header::SERVER, HeaderValue::from_static("mlx-dspark"));
    if let Ok(id) = HeaderValue::from_str(request_id) {
        if dialect == Dialect::Anthropic {
            headers.insert(HeaderName::from_static("request-id"), id.clone());
        }
        headers.insert(HeaderName::from_static("x-request-id"), id);
    }
    headers.append(header::VARY, HeaderValue::from_static("Origin"));
    let Some(origin) = cors else { return };
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST, OPTIONS"));
    let allowed = asked
        .headers
        .unwrap_or_else(|| HeaderValue::from_static("Authorization, Content-Type"));
    headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, allowed);
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static("x-request-id"));
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    if asked.private_network {
        headers.insert(
            HeaderName::from_static("access-control-allow-private-network"),
            HeaderValue::from_static("true"),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Case se-001.
    #[test]
    fn loopback_servers_answer_to_loopback_names() {
        let config = ServeConfig::default();
        let allowed = |authority: &str, exposed| host_name(authority).is_some_and(|host| host_allowed(&host, exposed, &config));
        for host in [
            "localhost:8080",
            "127.0.0.1:8080",
            "[::1]:8080",
            "LOCALHOST",
            "my.localhost",
            "localhost.",
            "host.docker.internal:8080",
        ] {
            assert!(allowed(host, false), "{host}");
        }
        for host in [
            "evil.example:8080",
            "127.0.0.1.evil.example",
            "localhost.evil.example:8080",
            "notlocalhost",
            "192.168.1.5",
            "0.0.0.0:8080",
            "[::1",
            "[::1]x",
            "",
            ":8080",
            "localhost@evil.example",
            "localhost/evil",
        ] {
            assert!(!allowed(host, false), "{host}");
        }
        assert!(allowed("192.168.1.5:8080", true));
        assert!(!allowed("evil.example", true));
    }

    #[test]
    fn the_user_may_add_hosts_and_origins() {
        let config = ServeConfig {
            allowed_hosts: vec!["Box.example:9".into()],
            allowed_origins: vec!["https://chat.example/".into(), "myapp://".into(), "null".into()],
            ..ServeConfig::default()
        };
        assert!(host_allowed("box.example", false, &config));
        assert!(!host_allowed("other.example", false, &config));
        for origin in ["https://chat.example", "HTTPS://Chat.Example", "myapp://index", "null"] {
            assert!(origin_allowed(origin, "localhost:1", &config), "{origin}");
        }
        for origin in [
            "https://chat.example.evil",
            "http://chat.example",
            "https://chat.example:8443",
            "myapp:",
        ] {
            assert!(!origin_allowed(origin, "localhost:1", &config), "{origin}");
        }
    }

    #[test]
    fn pages_from_elsewhere_stay_out() {
        let config = ServeConfig::default();
        for origin in [
            "http://localhost:3000",
            "https://127.0.0.1",
            "http://[::1]:5173",
            "vscode-webview://abc",
            "tauri://localhost",
            "chrome-extension://id",
            "app://obsidian.md",
            "http://box.local:8080",
        ] {
            assert!(origin_allowed(origin, "box.local:8080", &config), "{origin}");
        }
        for origin in [
            "https://evil.example",
            "null",
            "file://",
            "http://localhost.evil.example",
            "http://localhost@evil.example",
            "http://box.local:9090",
            "http://",
            "",
            "javascript:alert(1)",
        ] {
            assert!(!origin_allowed(origin, "box.local:8080", &config), "{origin}");
        }
    }

    #[test]
    fn admin_is_for_its_own_pages() {
        for (origin, authority) in [
            ("http://localhost:8080", "localhost:8080"),
            ("http://127.0.0.1:8080", "127.0.0.1:8080"),
            ("http://[::1]:8080", "[::1]:8080"),
        ] {
            assert!(own_origin(origin, authority), "{origin}");
        }
        for (origin, authority) in [
            ("http://localhost:3000", "localhost:8080"),
            ("http://localhost:8080", "127.0.0.1:8080"),
            ("http://box.local:8080", "box.local:8080"),
            ("tauri://localhost", "localhost"),
            ("chrome-extension://localhost:8080", "localhost:8080"),
            ("null", "localhost:8080"),
            ("", ""),
            ("http://", ""),
        ] {
            assert!(!own_origin(origin, authority), "{origin}");
        }
    }

    #[test]
    fn only_json_types_count_as_json() {
        for (kind, json) in [
            ("application/json", true),
            ("Application/JSON; charset=utf-8", true),
            ("application/vnd.api+json", true),
            ("text/plain", false),
            ("application/x-www-form-urlencoded", false),
            ("multipart/form-data; boundary=application/json", false),
        ] {
            let headers = HeaderMap::from_iter([(header::CONTENT_TYPE, kind.parse().unwrap())]);
            assert_eq!(is_json(&headers), json, "{kind}");
        }
    }

    use proptest::prelude::*;

    proptest! {
        /// No spelling of a foreign name passes, and nothing panics.
        #[test]
        fn no_foreign_authority_is_loopback(text in ".{0,24}", label in "[a-z0-9-]{1,12}", port in proptest::option::of(0u16..)) {
            let config = ServeConfig::default();
            let _ = host_name(&text).map(|host| host_allowed(&host, false, &config));
            let _ = origin_allowed(&text, &text, &config);
            let port = port.map_or(String::new(), |port| format!(":{port}"));
            for name in [format!("{label}.example{port}"), format!("localhost.{label}.test{port}"), format!("127.0.0.1.{label}.test{port}")] {
                prop_assert!(!host_name(&name).is_some_and(|host| host_allowed(&host, false, &config)));
                let origin = format!("http://{name}");
                prop_assert!(!origin_allowed(&origin, "localhost:8080", &config));
            }
        }
    }
}
