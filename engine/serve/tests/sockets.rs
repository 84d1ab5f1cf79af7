//! What only a real socket shows: disconnects, keep-alive, slow and silent peers, stopping, and the port.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Live, eventually, frames, hi, live, read_until};
use dspark_protocol::double::Script;
use dspark_serve::{ApiKey, BindError, Phase, PortHolder, ServeConfig, Server};
use serde_json::{Value, json};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const WAIT: Duration = Duration::from_secs(10);

fn streaming() -> Value {
    let mut body = hi();
    body["stream"] = json!(true);
    body
}

/// 25 words a second for two minutes: long enough that nothing ends by itself.
fn endless() -> Script {
    Script::saying("word ".repeat(3000)).at(25.0)
}

/// A whole answer without sockets' details: status line and body of a `Connection: close` request.
async fn exchange(live: &Live, head: &str, body: &[u8]) -> (u16, String) {
    let mut stream = live.connect().await;
    let head = format!(
        "{head} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        live.control.address(),
        body.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    // A server that refuses early may close before everything is written.
    let _ = stream.write_all(body).await;
    let mut reply = Vec::new();
    tokio::time::timeout(WAIT, stream.read_to_end(&mut reply)).await.unwrap().unwrap();
    let reply = String::from_utf8(reply).unwrap();
    let (head, body) = reply.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

async fn health(live: &Live) -> Value {
    let (_, body) = exchange(live, "GET /health", b"").await;
    serde_json::from_str(&body).unwrap()
}

/// The engine has noticed within a round (40 ms here) and a scheduling delay.
async fn cancelled_within(live: &Live, limit: Duration) {
    let begin = Instant::now();
    eventually(|| live.engine.snapshot().totals.cancelled == 1).await;
    assert!(begin.elapsed() < limit, "took {:?}", begin.elapsed());
    eventually(|| live.control.live().is_empty()).await;
}

#[tokio::test]
async fn a_reader_that_leaves_a_stream_stops_the_engine() {
    let live = live(ServeConfig::default(), endless()).await;
    let mut stream = live.post(&streaming()).await;
    read_until(&mut stream, "\"content\":\"word ").await;
    let before = live.engine.snapshot().totals.completion_tokens;
    drop(stream);
    cancelled_within(&live, Duration::from_secs(1)).await;
    assert!(live.engine.snapshot().totals.completion_tokens - before < 30);
    // And the next one is served.
    let mut next = live.post(&streaming()).await;
    read_until(&mut next, "\"content\":\"word ").await;
}

#[tokio::test]
async fn a_client_that_leaves_a_whole_reply_stops_the_engine() {
    let live = live(ServeConfig::default(), endless()).await;
    let stream = live.post(&hi()).await;
    eventually(|| live.control.live().iter().any(|request| request.phase == Phase::Generating)).await;
    drop(stream);
    cancelled_within(&live, Duration::from_secs(1)).await;
}

/// The end of a client's stream is the only sign of its leaving while a whole reply is being made, so a client that
/// closes its sending half counts as gone.
#[tokio::test]
async fn a_half_closed_client_counts_as_gone() {
    let live = live(ServeConfig::default(), endless()).await;
    let mut stream = live.post(&hi()).await;
    eventually(|| live.control.live().iter().any(|request| request.phase == Phase::Generating)).await;
    stream.shutdown().await.unwrap();
    cancelled_within(&live, Duration::from_secs(1)).await;
}

#[tokio::test]
async fn a_client_that_leaves_during_prefill_stops_the_engine_before_its_first_token() {
    let script = Script {
        prefill: Duration::from_millis(500),
        ..endless()
    };
    let live = live(ServeConfig::default(), script).await;
    let mut stream = live.post(&streaming()).await;
    read_until(&mut stream, "\"role\":\"assistant\"").await;
    drop(stream);
    eventually(|| live.engine.snapshot().totals.cancelled == 1).await;
    assert_eq!(live.engine.snapshot().totals.completion_tokens, 0);
}

#[tokio::test]
async fn a_queued_client_that_leaves_is_never_answered() {
    let live = live(ServeConfig::default(), endless()).await;
    let mut first = live.post(&streaming()).await;
    read_until(&mut first, "\"content\":\"word ").await;
    let mut second = live.post(&streaming()).await;
    // Its headers and role are there although the engine is busy with another.
    read_until(&mut second, "\"role\":\"assistant\"").await;
    drop(second);
    eventually(|| live.control.live().iter().any(|request| request.phase == Phase::Stopping)).await;
    drop(first);
    eventually(|| live.control.live().is_empty()).await;
    assert_eq!(live.engine.snapshot().totals.cancelled, 2);
    let generated: u64 = live.control.clients().iter().map(|client| client.completion_tokens).sum();
    assert_eq!(generated, live.engine.snapshot().totals.completion_tokens);
}

/// Case ag-019, scaled: real events, not comments, while the prompt is being read.
#[tokio::test]
async fn silence_is_filled_with_empty_deltas() {
    let config = ServeConfig {
        keep_alive: Duration::from_millis(50),
        ..ServeConfig::default()
    };
    let script = Script {
        prefill: Duration::from_millis(400),
        ..Script::saying("Hi")
    };
    let live = live(config, script).await;
    let mut stream = live.post(&streaming()).await;
    let reply = read_until(&mut stream, "[DONE]").await;
    let body = dechunk(reply.split_once("\r\n\r\n").unwrap().1);
    let chunks = frames(&body);
    let first_text = chunks
        .iter()
        .position(|chunk| chunk["choices"][0]["delta"]["content"] == "Hi")
        .unwrap();
    let idle = &chunks[1..first_text];
    assert!((3..=8).contains(&idle.len()), "{}", idle.len());
    for chunk in idle {
        assert_eq!(chunk["choices"][0]["delta"], json!({}));
        assert_eq!(chunk["choices"][0]["finish_reason"], Value::Null);
    }
}

/// The payload of a chunked transfer.
fn dechunk(mut body: &str) -> String {
    let mut text = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let Ok(size) = usize::from_str_radix(size, 16) else { break };
        text.push_str(&rest[..size.min(rest.len())]);
        body = rest.get(size + 2..).unwrap_or("");
    }
    text
}

#[tokio::test]
async fn an_engine_that_fails_after_the_headers_fails_in_the_stream() {
    let script = Script {
        answer: Arc::new(|_| {
            std::thread::sleep(Duration::from_millis(600));
            Err(dspark_protocol::EngineError::Compute("boom".into()))
        }),
        ..Script::saying("")
    };
    let live = live(ServeConfig::default(), script).await;
    let mut stream = live.post(&streaming()).await;
    let reply = read_until(&mut stream, "[DONE]").await;
    assert!(reply.starts_with("HTTP/1.1 200"));
    let chunks = frames(&dechunk(reply.split_once("\r\n\r\n").unwrap().1));
    assert_eq!(chunks.last().unwrap()["error"]["code"], "engine_error");
}

/// While another generation runs, a prompt that cannot fit is still a status code, at once.
#[tokio::test]
async fn overflow_is_a_400_even_behind_a_busy_engine() {
    let live = live(ServeConfig::default(), endless()).await;
    let mut first = live.post(&streaming()).await;
    read_until(&mut first, "\"content\":\"word ").await;
    for stream in [true, false] {
        let body = json!({"messages": [{"role": "user", "content": "w ".repeat(9000)}], "stream": stream});
        let (status, reply) = exchange(&live, "POST /v1/chat/completions", body.to_string().as_bytes()).await;
        assert_eq!(status, 400);
        assert!(reply.contains("maximum context length is 8192 tokens"), "{reply}");
    }
}

#[tokio::test]
async fn half_a_request_does_not_hold_a_connection() {
    let config = ServeConfig {
        read_timeout: Duration::from_millis(200),
        ..ServeConfig::default()
    };
    let live = live(config, Script::saying("Hi")).await;
    let mut silent = live.connect().await;
    silent
        .write_all(b"POST /v1/chat/completions HTTP/1.1\r\nHost: local")
        .await
        .unwrap();
    let mut reply = Vec::new();
    tokio::time::timeout(WAIT, silent.read_to_end(&mut reply)).await.unwrap().unwrap();

    let mut stuck = live.connect().await;
    stuck
        .write_all(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 500\r\n\r\n{\"messages\":")
        .await
        .unwrap();
    read_until(&mut stuck, "HTTP/1.1 408").await;
}

#[tokio::test]
async fn a_client_that_closes_in_the_middle_of_its_body_changes_nothing() {
    let live = live(ServeConfig::default(), Script::saying("Hi")).await;
    let mut stream = live.connect().await;
    stream
        .write_all(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 500\r\n\r\n{\"messages\":")
        .await
        .unwrap();
    drop(stream);
    assert_eq!(health(&live).await["status"], "ok");
    assert_eq!(live.engine.snapshot().totals.requests, 0);
}

#[tokio::test]
async fn an_upload_over_the_limit_gets_its_answer() {
    let config = ServeConfig {
        body_limit: 10_000,
        ..ServeConfig::default()
    };
    let live = live(config, Script::saying("Hi")).await;
    let (status, body) = exchange(&live, "POST /v1/chat/completions", &vec![b' '; 20 << 20]).await;
    assert_eq!(status, 413);
    assert!(body.contains("request_too_large"), "{body}");
}

#[tokio::test]
async fn malformed_and_oversized_heads_are_refused_and_forgotten() {
    let live = live(ServeConfig::default(), Script::saying("Hi")).await;
    let long = format!("GET /health HTTP/1.1\r\nHost: localhost\r\nX-Long: {}\r\n\r\n", "x".repeat(200_000));
    let many = format!("GET /health HTTP/1.1\r\nHost: localhost\r\n{}\r\n", "X-A: b\r\n".repeat(500));
    let split = "GET /health HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello";
    for (bytes, status) in [
        ("\u{16}\u{3}\u{1}\u{2}\u{0}tls hello\r\n\r\n", "400"),
        ("NOT HTTP AT ALL\r\n\r\n", "400"),
        (split, "400"),
        (long.as_str(), "431"),
        (many.as_str(), "431"),
    ] {
        let mut stream = live.connect().await;
        let _ = stream.write_all(bytes.as_bytes()).await;
        let mut reply = Vec::new();
        let _ = tokio::time::timeout(WAIT, stream.read_to_end(&mut reply)).await.unwrap();
        let reply = String::from_utf8_lossy(&reply);
        // What is refused before it is read may be lost to a reset; a short head is read whole.
        let lost = bytes.len() > 1000 && reply.is_empty();
        assert!(lost || reply.starts_with(&format!("HTTP/1.1 {status}")), "{status}: {reply}");
    }
    assert_eq!(health(&live).await["status"], "ok");
}

#[tokio::test]
async fn one_connection_carries_many_requests_and_chunked_bodies() {
    let live = live(ServeConfig::default(), Script::saying("Hi")).await;
    let mut stream = live.connect().await;
    for _ in 0..2 {
        let body = hi().to_string();
        let (a, b) = body.split_at(10);
        let request = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{a}\r\n{:x}\r\n{b}\r\n0\r\n\r\n",
            a.len(),
            b.len()
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let reply = read_until(&mut stream, "x_mlx_dspark").await;
        assert!(reply.starts_with("HTTP/1.1 200"));
        read_until_closed_brace(&mut stream, &reply).await;
    }
}

/// Reads the rest of a body whose length its head told.
async fn read_until_closed_brace(stream: &mut tokio::net::TcpStream, seen: &str) {
    let (head, body) = seen.split_once("\r\n\r\n").unwrap();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "))
        .unwrap()
        .parse::<usize>()
        .unwrap();
    let mut rest = vec![0; length - body.len()];
    stream.read_exact(&mut rest).await.unwrap();
}

/// A peer that never reads must neither hold the engine nor fill the memory.
#[tokio::test]
async fn a_reader_that_never_reads_is_cut_off() {
    let config = ServeConfig {
        max_tokens_cap: 1_000_000,
        ..ServeConfig::default()
    };
    // 200 MB of chunks: more than every buffer on the way.
    let live = live(config, Script::saying("word ".repeat(1_000_000))).await;
    let mut body = streaming();
    body["max_tokens"] = json!(-1);
    let stream = live.post(&body).await;
    eventually(|| live.engine.snapshot().totals.cancelled == 1).await;
    assert!(live.engine.snapshot().totals.completion_tokens < 900_000);
    eventually(|| live.control.live().is_empty()).await;
    drop(stream);
    assert_eq!(health(&live).await["busy"], false);
}

#[tokio::test]
async fn stopping_ends_streams_with_an_error_within_five_seconds() {
    let live = live(ServeConfig::default(), endless()).await;
    let mut stream = live.post(&streaming()).await;
    read_until(&mut stream, "\"content\":\"word ").await;
    let idle = live.connect().await;
    let begin = Instant::now();
    live.control.shutdown();
    let reply = read_until(&mut stream, "[DONE]").await;
    assert!(reply.contains("server_stopping"), "{reply}");
    tokio::time::timeout(Duration::from_secs(5), live.task).await.unwrap().unwrap();
    assert!(begin.elapsed() < Duration::from_secs(5));
    // The engine hears of it with its next token, which may come after the server has gone.
    let mut snapshots = live.engine.subscribe();
    let cancelled = snapshots.wait_for(|snapshot| snapshot.totals.cancelled == 1);
    tokio::time::timeout(Duration::from_secs(5), cancelled).await.unwrap().unwrap();
    // Nobody listens any more.
    assert!(tokio::net::TcpStream::connect(live.control.address()).await.is_err());
    drop(idle);
}

#[tokio::test]
async fn stopping_answers_whole_replies_with_503() {
    let live = live(ServeConfig::default(), endless()).await;
    let mut stream = live.post(&hi()).await;
    eventually(|| live.control.live().iter().any(|request| request.phase == Phase::Generating)).await;
    live.control.shutdown();
    let reply = read_until(&mut stream, "server_stopping").await;
    assert!(reply.starts_with("HTTP/1.1 503"), "{reply}");
}

#[tokio::test]
async fn pausing_refuses_new_work_and_lets_the_running_finish() {
    let live = live(ServeConfig::default(), Script::saying("one two three four five six").at(20.0)).await;
    let mut running = live.post(&streaming()).await;
    read_until(&mut running, "\"content\":\"one ").await;
    live.control.pause();
    let (status, body) = exchange(&live, "POST /v1/chat/completions", hi().to_string().as_bytes()).await;
    assert_eq!(status, 503);
    assert!(body.contains("\"paused\""), "{body}");
    assert_eq!(health(&live).await["status"], "paused");
    read_until(&mut running, "[DONE]").await;
    live.control.resume();
    let (status, _) = exchange(&live, "POST /v1/chat/completions", hi().to_string().as_bytes()).await;
    assert_eq!(status, 200);
}

/// A generation that the app stops ends as a finished reply, with the reason beside it.
#[tokio::test]
async fn a_generation_stopped_on_the_server_says_so() {
    let live = live(ServeConfig::default(), endless()).await;
    let mut stream = live.post(&streaming()).await;
    read_until(&mut stream, "\"content\":\"word ").await;
    let id = live.control.live()[0].generation;
    assert!(live.engine.cancel(id));
    let reply = read_until(&mut stream, "[DONE]").await;
    assert!(
        reply.contains("\"finish_reason\":\"stop\"") && reply.contains("{\"type\":\"cancelled\"}"),
        "{reply}"
    );
}

#[tokio::test]
async fn a_taken_port_says_by_whom() {
    let live = live(ServeConfig::default(), Script::saying("Hi")).await;
    let port = live.control.address().port();
    let config = ServeConfig {
        port,
        ..ServeConfig::default()
    };
    let error = Server::bind(config, live.engine.clone()).await.err().unwrap();
    let Some(PortHolder::Ours { model, pid, status, .. }) = error.already_running() else {
        panic!("{error}")
    };
    assert_eq!(
        (model.as_deref(), *pid, status.as_str()),
        (Some("double"), Some(u64::from(std::process::id())), "ok")
    );
    assert!(error.to_string().contains("already running"), "{error}");

    let stranger = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let config = ServeConfig {
        port: stranger.local_addr().unwrap().port(),
        ..ServeConfig::default()
    };
    let error = Server::bind(config, live.engine.clone()).await.err().unwrap();
    assert!(error.already_running().is_none());
    assert!(
        matches!(&error, BindError::PortTaken { holder: PortHolder::Other { process: Some(process), .. }, .. }
        if process.contains(&std::process::id().to_string())),
        "{error}"
    );
    assert!(error.to_string().contains("--port 0"), "{error}");
}

/// Case se-004.
#[tokio::test]
async fn an_open_address_needs_a_key_and_then_takes_other_hosts() {
    let engine = common::engine(Script::saying("Hi"));
    let open = ServeConfig {
        host: "0.0.0.0".into(),
        port: 0,
        ..ServeConfig::default()
    };
    let error = Server::bind(open.clone(), engine.clone()).await.err().unwrap();
    assert!(error.to_string().contains("--insecure-no-key"), "{error}");
    let keyed = ServeConfig {
        api_key: ApiKey::new("K"),
        ..open
    };
    let server = Server::bind(keyed, engine).await.unwrap();
    assert!(server.url().starts_with("http://127.0.0.1:"));
    assert!(server.banner().contains("the network, with the API key"));
    let nowhere = ServeConfig {
        host: "no-such-host.invalid".into(),
        ..ServeConfig::default()
    };
    let error = Server::bind(nowhere, common::engine(Script::saying(""))).await.err().unwrap();
    assert!(matches!(error, BindError::Host { .. }), "{error}");
}

#[tokio::test]
async fn the_ready_file_appears_with_the_model_and_goes_with_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ready.json");
    let live = live(
        ServeConfig::default(),
        Script {
            loaded: false,
            ..Script::saying("")
        },
    )
    .await;
    let (url, engine) = (live.control.url(), live.engine.clone());
    let writing = tokio::spawn({
        let path = path.clone();
        async move { dspark_serve::write_ready_file(&path, &url, &engine, true).await.unwrap() }
    });
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(!path.exists());
    live.engine
        .load(dspark_protocol::LoadRequest {
            name: "M".into(),
            ..dspark_protocol::LoadRequest::default()
        })
        .unwrap();
    let ready = writing.await.unwrap();
    let content: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    assert_eq!(content, json!({"url": live.control.url(), "pid": std::process::id(), "model": "M"}));
    drop(ready);
    assert!(!path.exists());
}

#[tokio::test]
async fn without_a_model_to_wait_for_the_ready_file_comes_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ready.json");
    let engine = common::engine(Script {
        loaded: false,
        ..Script::saying("")
    });
    let _ready = dspark_serve::write_ready_file(&path, "http://127.0.0.1:1", &engine, false)
        .await
        .unwrap();
    let content: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    assert_eq!(content["model"], Value::Null);
    assert!(dspark_serve::check_ready_file(&folder.path().join("missing/ready.json")).is_err());
    assert!(dspark_serve::check_ready_file(folder.path()).is_err());
}
