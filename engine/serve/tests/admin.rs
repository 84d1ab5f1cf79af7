//! Loading, unloading and looking over HTTP, without a socket.

#![allow(clippy::unwrap_used)]

mod common;

use common::{chat, engine, eventually, get, hi, read, request, send};
use dspark_protocol::{LoadRequest, Snapshot, double::Script};
use dspark_serve::{ApiKey, App, Download, Gauges, Host, HostError, LoadWish, Report, ServeConfig, Serving};
use serde_json::{Value, json};
use std::{
    net::{IpAddr, Ipv4Addr},
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio_util::sync::CancellationToken;

/// Knows every model but `missing`; `slow` takes a while to fetch.
#[derive(Default)]
struct Shelf {
    wishes: Mutex<Vec<LoadWish>>,
}

impl Host for Shelf {
    fn resolve(&self, wish: &LoadWish, report: Report, cancel: &CancellationToken) -> Result<LoadRequest, HostError> {
        self.wishes.lock().unwrap().push(wish.clone());
        if wish.model == "missing" {
            return Err(HostError::Refused("`missing` is not here: fetch it first".into()));
        }
        if wish.model == "slow" {
            report(Download {
                repo: "slow".into(),
                bytes_done: 1,
                bytes_total: 2,
            });
            while !cancel.is_cancelled() {
                std::thread::sleep(Duration::from_millis(2));
            }
            return Err(HostError::Cancelled);
        }
        Ok(LoadRequest {
            name: wish.model.clone(),
            ..LoadRequest::default()
        })
    }

    fn models(&self) -> Value {
        json!({"installed": []})
    }

    fn gauges(&self, snapshot: &Snapshot) -> Gauges {
        let loaded = snapshot.model.as_ref().map(|model| &model.name);
        Gauges {
            chip: json!({"name": "abacus"}),
            memory: json!({"total_bytes": 1000, "available_bytes": 600, "pressure": "normal", "pressure_level": 1}),
            verdict: json!({"level": "info", "headline": loaded}),
            ..Gauges::default()
        }
    }

    fn doctor(&self) -> Value {
        json!({"ok": true})
    }

    fn integrations(&self, serving: &Serving) -> Value {
        json!([{"id": "x", "url": serving.base_url, "key": serving.key}])
    }
}

fn hosted(config: ServeConfig) -> (App, Arc<Shelf>) {
    let shelf = Arc::new(Shelf::default());
    let engine = engine(Script::saying("Hello there."));
    let app = App::with_host(config, engine, IpAddr::V4(Ipv4Addr::LOCALHOST), Some(shelf.clone()));
    (app, shelf)
}

async fn post(app: &App, path: &str, body: Value) -> (u16, Value) {
    let headers = [("content-type", "application/json")];
    read(send(app, request("POST", path, &headers, body.to_string())).await).await
}

#[tokio::test]
async fn a_load_swaps_the_model_and_what_sticks_sticks() {
    let (app, shelf) = hosted(ServeConfig::default());
    let body = json!({"model": "other", "context_window": 4096, "max_draft": 3, "enable_thinking": false});
    let (status, reply) = post(&app, "/admin/load", body).await;
    assert_eq!(
        (status, &reply["ready"], &reply["model"], &reply["error"]),
        (200, &json!(true), &json!("other"), &Value::Null)
    );
    let (_, health) = get(&app, "/health").await;
    assert_eq!((&health["model"], &health["thinking_default"]), (&json!("other"), &json!("off")));
    post(&app, "/admin/load", json!({"model": "third"})).await;
    let wishes = shelf.wishes.lock().unwrap().clone();
    assert_eq!((wishes[0].context_window, wishes[1].context_window), (Some(4096), Some(4096)));
    assert_ne!(wishes[0].speculation.cap, wishes[1].speculation.cap, "the cap is of one load only");
}

/// Conformance test 14, and better: what was served before is served still.
#[tokio::test]
async fn a_load_that_fails_says_why_and_leaves_the_model_in_place() {
    let (app, _) = hosted(ServeConfig::default());
    let (status, error) = post(&app, "/admin/load", json!({"model": "missing"})).await;
    assert_eq!((status, &error["error"]["param"]), (400, &json!("model")));
    let (_, now) = get(&app, "/admin/status").await;
    assert_eq!((&now["ready"], &now["model"]), (&json!(true), &json!("double")));
    assert!(now["error"].as_str().unwrap().contains("`missing`"), "{now}");
    let (status, health) = get(&app, "/health").await;
    assert_eq!((status, &health["status"]), (200, &json!("ok")));
    assert!(health["error"].as_str().unwrap().contains("`missing`"));
    assert_eq!(chat(&app, hi()).await.0, 200);
    post(&app, "/admin/load", json!({"model": "fine"})).await;
    assert_eq!(get(&app, "/admin/status").await.1["error"], Value::Null);
}

/// What is given up takes the story of its failed successor with it.
#[tokio::test]
async fn unloading_ends_the_story_of_a_failed_load() {
    let (app, shelf) = hosted(ServeConfig::default());
    // What did not come to be sticks to nothing.
    post(&app, "/admin/load", json!({"model": "missing", "context_window": 9_000_000})).await;
    assert!(get(&app, "/admin/status").await.1["error"].is_string());
    let (status, now) = post(&app, "/admin/unload", json!({})).await;
    assert_eq!((status, &now["error"], &now["ready"]), (200, &Value::Null, &json!(false)));
    assert_eq!(get(&app, "/admin/status").await.1["error"], Value::Null);
    assert_eq!(post(&app, "/admin/load", json!({"model": "fine"})).await.0, 200);
    let windows: Vec<_> = shelf.wishes.lock().unwrap().iter().map(|wish| wish.context_window).collect();
    assert_eq!(windows, [Some(9_000_000), None]);
}

/// The events of a race: names and data.
async fn race(app: &App, body: Value) -> Vec<(String, Value)> {
    let headers = [("content-type", "application/json")];
    let response = send(app, request("POST", "/admin/race", &headers, body.to_string())).await;
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let text = common::text(response).await;
    let frames = text.split("\n\n").filter(|frame| !frame.is_empty());
    frames
        .map(|frame| {
            let (name, data) = frame.split_once('\n').unwrap();
            (
                name.strip_prefix("event: ").unwrap().to_owned(),
                serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap(),
            )
        })
        .collect()
}

#[tokio::test]
async fn a_race_runs_its_arms_in_turn_and_compares_them() {
    let (app, _) = hosted(ServeConfig::default());
    let told = race(
        &app,
        json!({"prompt": "hi", "arms": ["lookup", "baseline", {"mode": "dspark", "cap": 3}], "max_tokens": 20}),
    )
    .await;
    let names: Vec<&str> = told.iter().map(|(name, _)| name.as_str()).filter(|name| *name != "token").collect();
    let arm = ["arm_start", "arm_done"];
    assert_eq!(names, [&["start"][..], &arm, &arm, &arm, &["verdict", "done"]].concat());
    assert_eq!(told[0].1["arms"], json!(["lookup", "baseline", "dspark cap 3"]));
    let tokens: String = told
        .iter()
        .filter(|(name, event)| name == "token" && event["index"] == 1)
        .map(|(_, event)| event["text"].as_str().unwrap())
        .collect();
    assert_eq!(tokens, "Hello there.");
    let done = &told.iter().find(|(name, _)| name == "arm_done").unwrap().1;
    for key in [
        "index",
        "label",
        "mode",
        "cap",
        "tokens",
        "seconds",
        "tokens_per_sec",
        "accept_len",
        "target_forwards",
        "lookup_rounds",
    ] {
        assert!(done.get(key).is_some(), "{key}: {done}");
    }
    let verdict = &told[told.len() - 2].1;
    assert_eq!((&verdict["identical"], &verdict["reference"]), (&json!(true), &json!("baseline")));
}

/// Arms that say different things, and one that stops early.
#[tokio::test]
async fn a_race_tells_a_difference_from_a_shorter_answer() {
    let answer = Arc::new(|request: &dspark_protocol::Request| {
        Ok(match request.mode {
            dspark_protocol::Mode::Baseline => "one two three four".to_owned(),
            dspark_protocol::Mode::Lookup => "one two".to_owned(),
            _ => "one two five four".to_owned(),
        })
    });
    let engine = engine(Script {
        answer,
        ..Script::saying("")
    });
    let app = App::new(ServeConfig::default(), engine, IpAddr::V4(Ipv4Addr::LOCALHOST));
    let told = race(&app, json!({"prompt": "hi", "arms": ["baseline", "lookup"]})).await;
    let verdict = &told[told.len() - 2].1;
    assert_eq!(
        (&verdict["identical"], &verdict["identical_where_overlapping"]),
        (&json!(false), &json!(true))
    );
    assert_eq!(
        (&verdict["divergences"][0]["length_only"], &verdict["divergences"][0]["first_diff"]),
        (&json!(true), &json!(2))
    );
    // Refusals come as a status, and only where the prompt or the arms are at fault.
    let (status, error) = post(&app, "/admin/race", json!({"prompt": "hi", "arms": ["baseline"]})).await;
    assert_eq!((status, &error["error"]["param"]), (400, &json!("arms")));
}

#[tokio::test]
async fn a_race_ends_when_its_reader_leaves() {
    let engine = engine(Script::saying("word ".repeat(5000)).at(50.0));
    let app = App::new(ServeConfig::default(), engine.clone(), IpAddr::V4(Ipv4Addr::LOCALHOST));
    let headers = [("content-type", "application/json")];
    let body = json!({"prompt": "hi", "max_tokens": 4000}).to_string();
    let response = send(&app, request("POST", "/admin/race", &headers, body)).await;
    eventually(|| !engine.snapshot().requests.is_empty()).await;
    drop(response);
    eventually(|| engine.snapshot().requests.is_empty() && engine.snapshot().totals.cancelled == 1).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(engine.snapshot().totals.requests, 1, "the second arm never ran");
}

#[tokio::test]
async fn a_load_in_the_background_is_watched_and_cancelled() {
    let (app, _) = hosted(ServeConfig::default());
    let (_, idle) = post(&app, "/admin/load/cancel", json!({})).await;
    assert_eq!(idle["cancelled"], false);
    let (status, _) = post(&app, "/admin/load", json!({"model": "slow", "async": true})).await;
    assert_eq!(status, 202);
    for _ in 0..5000 {
        if !get(&app, "/admin/status").await.1["download"].is_null() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let (_, now) = get(&app, "/admin/status").await;
    assert_eq!(
        (&now["loading"], &now["download"]),
        (&json!(true), &json!({"repo": "slow", "bytes_done": 1, "bytes_total": 2}))
    );
    assert_eq!(
        post(&app, "/admin/load/cancel", json!({})).await.1,
        json!({"cancelled": true, "repo": "slow", "cleanup": false})
    );
    for _ in 0..5000 {
        if get(&app, "/admin/status").await.1["loading"] == false {
            break;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let (_, now) = get(&app, "/admin/status").await;
    assert_eq!(
        (&now["loading"], &now["download"], &now["model"]),
        (&json!(false), &Value::Null, &json!("double"))
    );
}

#[tokio::test]
async fn unloading_twice_is_unloading() {
    let (app, _) = hosted(ServeConfig::default());
    for _ in 0..2 {
        let (status, reply) = post(&app, "/admin/unload", json!({})).await;
        assert_eq!((status, &reply["ready"], &reply["model"]), (200, &json!(false), &Value::Null));
    }
    assert_eq!(get(&app, "/health").await.1["status"], "no_model");
    let (status, _) = get(&app, "/admin/integrations").await;
    assert_eq!(status, 503);
}

#[tokio::test]
async fn running_requests_are_listed_and_stopped_by_id() {
    let script = Script::saying("word ".repeat(1000)).at(50.0);
    let app = common::app(ServeConfig::default(), script);
    let asking = tokio::spawn({
        let app = app.clone();
        async move { chat(&app, hi()).await }
    });
    eventually(|| app.live().first().is_some_and(|live| live.generated > 0)).await;
    let (_, listed) = get(&app, "/admin/requests").await;
    let id = listed["requests"][0]["request_id"].as_str().unwrap().to_owned();
    assert_eq!(listed["requests"][0]["phase"], "generating");
    assert_eq!(post(&app, "/admin/cancel", json!({"request_id": "req_none"})).await.0, 404);
    assert_eq!(
        post(&app, "/admin/cancel", json!({"request_id": id})).await.1,
        json!({"cancelled": [id]})
    );
    let (status, reply) = asking.await.unwrap();
    assert_eq!(
        (status, &reply["x_mlx_dspark"]["stop_reason_detail"]["type"]),
        (200, &json!("cancelled"))
    );
    // Over, it is listed with the receipt of its reply; what was turned away with why.
    assert_eq!(chat(&app, json!({"messages": []})).await.0, 400);
    let (_, listed) = get(&app, "/admin/requests").await;
    let (refused, stopped) = (&listed["recent"][0], &listed["recent"][1]);
    assert_eq!((&listed["requests"], &stopped["request_id"]), (&json!([]), &json!(id)));
    assert_eq!(
        (&stopped["outcome"], &stopped["cache"]),
        (&json!("cancelled"), &reply["x_mlx_dspark"]["cache"])
    );
    assert_eq!((&refused["outcome"], &refused["cache"]), (&json!("refused"), &Value::Null));
    assert!(refused["error"].as_str().unwrap().contains("messages"), "{refused}");
    assert_eq!(
        (&listed["clients"][0]["requests"], &listed["clients"][0]["failed"]),
        (&json!(1), &json!(1))
    );
}

#[tokio::test]
async fn without_a_program_around_it_there_is_nothing_to_load() {
    let app = common::app(ServeConfig::default(), Script::saying("Hi"));
    for path in ["/admin/models", "/doctor", "/admin/integrations"] {
        assert_eq!(get(&app, path).await.0, 501, "{path}");
    }
    assert_eq!(post(&app, "/admin/load", json!({"model": "m"})).await.0, 501);
    assert_eq!(post(&app, "/admin/load", json!({"model": "m", "async": true})).await.0, 501);
}

/// Hardening 3: what changes the server takes JSON only, from anyone.
#[tokio::test]
async fn admin_posts_are_json_only() {
    let (app, shelf) = hosted(ServeConfig::default());
    for kind in [None, Some("text/plain"), Some("application/x-www-form-urlencoded")] {
        let headers: Vec<_> = kind.map(|kind| ("content-type", kind)).into_iter().collect();
        let response = send(&app, request("POST", "/admin/load", &headers, "{\"model\":\"m\"}")).await;
        assert_eq!(response.status().as_u16(), 415, "{kind:?}");
    }
    let page = [("content-type", "application/json"), ("origin", "https://evil.example")];
    let open = App::with_host(
        ServeConfig {
            any_origin: true,
            ..ServeConfig::default()
        },
        engine(Script::saying("Hi")),
        IpAddr::V4(Ipv4Addr::LOCALHOST),
        None,
    );
    for app in [&app, &open] {
        assert_eq!(
            send(app, request("POST", "/admin/load", &page, "{\"model\":\"m\"}"))
                .await
                .status()
                .as_u16(),
            403
        );
    }
    assert!(shelf.wishes.lock().unwrap().is_empty());
}

/// Case se-003: the reply that holds the key needs the key.
#[tokio::test]
async fn integrations_hold_the_key_and_need_it() {
    let config = ServeConfig {
        api_key: ApiKey::new("K"),
        ..ServeConfig::default()
    };
    let (app, _) = hosted(config);
    for path in ["/admin/integrations", "/metrics", "/machine", "/admin/status", "/admin/requests"] {
        assert_eq!(get(&app, path).await.0, 401, "{path}");
    }
    let key = [("x-api-key", "K")];
    let (status, body) = read(send(&app, request("GET", "/admin/integrations", &key, "")).await).await;
    assert_eq!((status, &body["integrations"][0]["key"]), (200, &json!("K")));
    assert_eq!(
        (&body["base_url"], &body["model"]),
        (&json!("http://127.0.0.1:8080"), &json!("double"))
    );
}

#[tokio::test]
async fn metrics_count_and_prometheus_reads_them() {
    let (app, _) = hosted(ServeConfig::default());
    chat(&app, hi()).await;
    let (_, metrics) = get(&app, "/metrics").await;
    assert_eq!((&metrics["requests"], &metrics["completion_tokens"]), (&json!(1), &json!(2)));
    let (_, machine) = get(&app, "/machine").await;
    assert_eq!(
        (&machine["chip"]["name"], &machine["model"]["target"]),
        (&json!("abacus"), &json!("double"))
    );
    for (at, system) in [("machine", &machine["memory"]), ("metrics", &metrics["system"])] {
        assert_eq!(
            (&system["total_bytes"], &system["pressure_level"]),
            (&json!(1000), &json!(1)),
            "{at}"
        );
        assert!(system["allocator"]["active_bytes"].is_u64(), "{at}: {system}");
    }
    assert_eq!(
        (&metrics["verdict"]["headline"], &machine["verdict"]),
        (&json!("double"), &metrics["verdict"])
    );
    assert_eq!(machine["guard"], metrics["memory_guard"]);
    for (path, headers) in [
        ("/metrics?format=prometheus", vec![]),
        ("/metrics", vec![("accept", "text/plain;version=0.0.4")]),
    ] {
        let text = common::text(send(&app, request("GET", path, &headers, "")).await).await;
        assert!(text.contains("\nmlx_dspark_completion_tokens_total 2\n"), "{text}");
        assert!(text.contains("\nmlx_dspark_system_memory_available_bytes 600\n"), "{text}");
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        assert!(
            lines.clone().count() > 10 && lines.clone().all(|line| line.split(' ').count() == 2),
            "{text}"
        );
    }
}
