//! Shared by the server's tests: a scripted engine behind a router, or behind a real socket.
#![allow(clippy::unwrap_used, dead_code, unreachable_pub, reason = "each test binary uses its own part")]

use axum::{
    body::Body,
    http::{Request, Response, header},
};
use dspark_protocol::{
    EngineHandle, EngineState, Snapshot, Worker, channel,
    double::{Script, start},
};
use dspark_serve::{App, ServeConfig, Server, ServerControl, service};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use std::{
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinHandle,
};
use tower::ServiceExt;

pub fn app(config: ServeConfig, script: Script) -> App {
    App::new(config, engine(script), IpAddr::V4(Ipv4Addr::LOCALHOST))
}

/// A started double. Its first snapshot is awaited: before it, every server says "loading".
pub fn engine(script: Script) -> EngineHandle {
    let loaded = script.loaded;
    let engine = start(script);
    wait_until(|| {
        let snapshot = engine.snapshot();
        snapshot.model.is_some() == loaded && snapshot.state != dspark_protocol::EngineState::Starting
    });
    engine
}

pub fn wait_until(mut done: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !done() {
        assert!(begin.elapsed() < Duration::from_secs(10), "waited 10 s in vain");
        std::thread::sleep(Duration::from_millis(2));
    }
}

pub async fn eventually(mut done: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !done() {
        assert!(begin.elapsed() < Duration::from_secs(10), "waited 10 s in vain");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// A request with a good Host header unless it brings its own.
pub fn request(method: &str, path: &str, headers: &[(&str, &str)], body: impl Into<Body>) -> Request<Body> {
    let mut builder = Request::builder().method(method).uri(path);
    if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
        builder = builder.header(header::HOST, "127.0.0.1:8080");
    }
    for (name, value) in headers {
        builder = builder.header(*name, *value);
    }
    builder.body(body.into()).unwrap()
}

pub async fn send(app: &App, request: Request<Body>) -> Response<Body> {
    service(app.clone()).oneshot(request).await.unwrap()
}

pub async fn get(app: &App, path: &str) -> (u16, Value) {
    read(send(app, request("GET", path, &[], "")).await).await
}

pub async fn chat(app: &App, body: Value) -> (u16, Value) {
    let request = request(
        "POST",
        "/v1/chat/completions",
        &[("content-type", "application/json")],
        body.to_string(),
    );
    read(send(app, request).await).await
}

pub async fn text(response: Response<Body>) -> String {
    String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
}

/// A hand-held worker: states that the double does not pass through slowly enough to be seen.
pub fn held(state: EngineState, change: impl FnOnce(&mut Snapshot)) -> (App, Worker) {
    let (engine, worker) = channel();
    let mut snapshot = Snapshot {
        state,
        ..Snapshot::default()
    };
    change(&mut snapshot);
    worker.snapshot.send_replace(Arc::new(snapshot));
    let app = App::new(ServeConfig::default(), engine, Ipv4Addr::LOCALHOST.into());
    (app, worker)
}

/// Status and JSON body.
pub async fn read(response: Response<Body>) -> (u16, Value) {
    let status = response.status().as_u16();
    let text = text(response).await;
    (status, serde_json::from_str(&text).unwrap_or_else(|_| panic!("not JSON: {text}")))
}

pub fn hi() -> Value {
    json!({"messages": [{"role": "user", "content": "hi"}]})
}

/// The JSON of every `data:` frame before `[DONE]`, which must come last.
pub fn frames(stream: &str) -> Vec<Value> {
    let mut frames: Vec<&str> = stream
        .split("\n\n")
        .filter(|frame| !frame.is_empty())
        .map(|frame| frame.strip_prefix("data: ").unwrap_or_else(|| panic!("not a data frame: {frame}")))
        .collect();
    assert_eq!(frames.pop(), Some("[DONE]"));
    frames.into_iter().map(|frame| serde_json::from_str(frame).unwrap()).collect()
}

/// A server on a free port.
pub struct Live {
    pub control: ServerControl,
    pub engine: EngineHandle,
    pub task: JoinHandle<()>,
}

pub async fn live(config: ServeConfig, script: Script) -> Live {
    let engine = engine(script);
    let config = ServeConfig { port: 0, ..config };
    let server = Server::bind(config, engine.clone()).await.unwrap();
    let control = server.control();
    let task = tokio::spawn(server.serve(std::future::pending()));
    Live { control, engine, task }
}

impl Live {
    pub async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.control.address()).await.unwrap()
    }

    /// Sends one request's bytes, as a client would.
    pub async fn post(&self, body: &Value) -> TcpStream {
        let mut stream = self.connect().await;
        let body = body.to_string();
        let head = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            self.control.address(),
            body.len()
        );
        stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
        stream
    }
}

/// Reads until `needle` has arrived.
pub async fn read_until(stream: &mut TcpStream, needle: &str) -> String {
    let mut seen = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&seen);
        if text.contains(needle) {
            return text.into_owned();
        }
        let read = tokio::time::timeout(Duration::from_secs(10), stream.read(&mut buffer)).await;
        let count = read.unwrap_or_else(|_| panic!("no `{needle}` in 10 s: {text}")).unwrap();
        assert!(count > 0, "closed before `{needle}`: {text}");
        seen.extend_from_slice(&buffer[..count]);
    }
}
