//! Who asks what of the program's own server, as the window's Connections view is told: over real sockets, on a scripted
//! engine.
#![allow(clippy::unwrap_used)]

use dspark_protocol::double::{self, Script};
use dspark_window::bridge::{Activity, CallEnd, CallState, ServerConfig, ServerControl, dialect};
use mlx_dspark::{host::Kept, http::HttpServer};
use serde_json::{Value, json};
use std::{
    net::TcpListener,
    time::{Duration, Instant},
};
use tokio::runtime::Runtime;

struct Program {
    server: HttpServer,
    runtime: Runtime,
    url: String,
    _records: tempfile::TempDir,
}

fn free_port() -> u16 {
    TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port()
}

fn config(api_key: Option<&str>) -> ServerConfig {
    ServerConfig {
        port: free_port(),
        api_key: api_key.map(str::to_owned),
    }
}

impl Program {
    fn start(script: Script, api_key: Option<&str>) -> Self {
        let runtime = Runtime::new().unwrap();
        let engine = double::start(script);
        let records = tempfile::tempdir().unwrap();
        let kept = Kept::of(records.path(), &records.path().join("settings.toml"));
        let server = HttpServer::new(engine.clone(), runtime.handle().clone(), kept);
        let begin = Instant::now();
        while engine.snapshot().model.is_none() {
            assert!(begin.elapsed() < Duration::from_secs(10));
            std::thread::sleep(Duration::from_millis(2));
        }
        let url = server.start(&config(api_key)).unwrap();
        Self {
            server,
            runtime,
            url,
            _records: records,
        }
    }

    fn post(&self, path: &str, agent: &str, body: Value) -> tokio::task::JoinHandle<(u16, Value)> {
        let request = reqwest::Client::builder()
            .no_proxy()
            .build()
            .unwrap()
            .post(format!("{}{path}", self.url))
            .header("user-agent", agent)
            .json(&body);
        self.runtime.spawn(async move {
            let reply = request.send().await.unwrap();
            (reply.status().as_u16(), reply.json().await.unwrap_or_default())
        })
    }

    fn ask(&self, path: &str, agent: &str, body: Value) -> (u16, Value) {
        self.runtime.block_on(self.post(path, agent, body)).unwrap()
    }

    fn until(&self, what: &str, done: impl Fn(&Activity) -> bool) -> Activity {
        let begin = Instant::now();
        loop {
            let activity = self.server.activity();
            if done(&activity) {
                return activity;
            }
            assert!(begin.elapsed() < Duration::from_secs(20), "waited for {what}: {activity:?}");
            std::thread::sleep(Duration::from_millis(3));
        }
    }
}

fn talk(system: &str, words: &str) -> Value {
    json!({"max_tokens": 64, "messages": [{"role": "system", "content": system}, {"role": "user", "content": words}]})
}

#[test]
fn requests_of_every_dialect_are_told_with_their_receipts() {
    let program = Program::start(Script::saying("one two three"), None);
    assert!(program.server.activity().is_empty());
    assert_eq!(
        program
            .ask("/v1/chat/completions", "opencode/1.3", talk("Be brief.", "hello there"))
            .0,
        200
    );
    let anthropic = json!({"model": "m", "max_tokens": 64, "messages": [{"role": "user", "content": "hi"}]});
    assert_eq!(program.ask("/v1/messages", "claude-cli/2.1.36 (external)", anthropic).0, 200);
    assert_eq!(program.ask("/v1/responses", "codex_cli_rs/0.94", json!({"input": "hi"})).0, 200);
    // The same conversation under another system prompt.
    let (_, reply) = program.ask("/v1/chat/completions", "opencode/1.3", talk("Be brief. 09:42", "hello there"));

    let activity = program.until("four answers", |activity| activity.ended.len() == 4 && activity.live.is_empty());
    let told: Vec<(&str, &str)> = activity
        .ended
        .iter()
        .map(|call| (call.client.as_str(), dialect(&call.route)))
        .collect();
    assert_eq!(
        told,
        [
            ("opencode", "OpenAI chat"),
            ("codex_cli_rs", "OpenAI responses"),
            ("claude-cli", "Anthropic"),
            ("opencode", "OpenAI chat"),
        ],
        "the newest first"
    );
    let last = &activity.ended[0];
    assert_eq!((&last.end, last.generated, last.times), (&CallEnd::Done, 3, 1));
    assert!(last.prompt_tokens > 0 && last.seconds > 0.0);
    // The very receipt of the reply.
    let (receipt, cache) = (last.receipt.as_ref().unwrap(), &reply["x_mlx_dspark"]["cache"]);
    assert_eq!(
        (json!(receipt.reused), json!(receipt.recomputed), json!(receipt.why)),
        (cache["reused"].clone(), cache["recomputed"].clone(), cache["why"].clone())
    );
    assert_eq!(receipt.why, "the system prompt is not what it was");
    let difference = receipt.difference.as_ref().unwrap();
    assert_eq!(
        (difference.place.as_str(), difference.before.as_str(), difference.now.as_str()),
        ("the system prompt", "", " 09:42")
    );
    let opencode = activity.clients.iter().find(|client| client.client == "opencode").unwrap();
    assert_eq!((opencode.requests, opencode.failed, opencode.completion_tokens), (2, 0, 6));
    assert_eq!(activity.clients[0].client, "opencode", "the last seen first");
}

#[test]
fn a_running_request_is_followed_and_stopped_and_the_next_one_answered() {
    let program = Program::start(Script::saying("word ".repeat(2000)).at(60.0), None);
    let running = program.post("/v1/chat/completions", "curl/8", talk("a", "b"));
    let activity = program.until("tokens", |activity| activity.live.first().is_some_and(|call| call.generated > 3));
    let call = &activity.live[0];
    assert!(
        matches!(call.state, CallState::Generating { rate: Some(rate) } if rate > 0.0),
        "{:?}",
        call.state
    );
    assert!(call.prompt_tokens > 0 && call.seconds > 0.0);
    let waiting = program.post("/v1/chat/completions", "zed/1", talk("c", "d"));
    let both = program.until("the second", |activity| activity.live.len() == 2);
    assert_eq!((both.live[1].client.as_str(), both.live[1].state), ("zed", CallState::Waiting));

    assert!(program.server.cancel(&call.id));
    let (status, reply) = program.runtime.block_on(running).unwrap();
    assert_eq!(
        (status, &reply["x_mlx_dspark"]["stop_reason_detail"]["type"]),
        (200, &json!("cancelled"))
    );
    // One that waits can be stopped as well.
    let activity = program.until("the end of the first", |activity| activity.ended.len() == 1);
    assert_eq!(
        (&activity.ended[0].client, &activity.ended[0].end),
        (&"curl".to_owned(), &CallEnd::Cancelled)
    );
    assert!(program.server.cancel(&both.live[1].id));
    program.runtime.block_on(waiting).unwrap();
    program.until("the end of both", |activity| activity.live.is_empty() && activity.ended.len() == 2);
    assert!(!program.server.cancel(&call.id), "it is over");
}

#[test]
fn a_client_that_hangs_up_and_one_that_is_turned_away_are_told() {
    let program = Program::start(Script::saying("word ".repeat(2000)).at(60.0), Some("K"));
    let refused = program.ask("/v1/chat/completions", "curl/8", talk("a", "b"));
    assert_eq!(refused.0, 401);
    let activity = program.server.activity();
    let CallEnd::Refused { status: 401, reason } = &activity.ended[0].end else {
        panic!("{activity:?}")
    };
    assert!(reason.contains("key") && !reason.contains("\"K\""), "{reason}");
    assert!(activity.clients.is_empty(), "who was never let in is no client");

    let request = reqwest::Client::builder()
        .no_proxy()
        .build()
        .unwrap()
        .post(format!("{}/v1/chat/completions", program.url))
        .header("user-agent", "curl/8")
        .bearer_auth("K")
        .json(&talk("a", "b"));
    let hung = program.runtime.spawn(async move { request.send().await });
    program.until("tokens", |activity| activity.live.first().is_some_and(|call| call.generated > 0));
    hung.abort();
    let activity = program.until("the end", |activity| activity.live.is_empty());
    assert_eq!(activity.ended[0].end, CallEnd::Left);
}

#[test]
fn what_was_seen_outlives_a_restart_on_another_port() {
    let program = Program::start(Script::saying("ok"), None);
    program.ask("/v1/chat/completions", "curl/8", talk("a", "b"));
    program.until("the answer", |activity| activity.ended.len() == 1);
    program.server.stop();
    assert_eq!(program.server.activity().ended.len(), 1);
    program.server.start(&config(None)).unwrap();
    assert_eq!(program.server.activity().clients[0].requests, 1);
    program.server.stop();
}
