//! The routes that show how decoding goes: `/rounds`, `/events`, `/calibration`, and what replies and `/health` say.

#![allow(clippy::unwrap_used)]

mod common;

use axum::body::{Body, BodyDataStream};
use common::{app, chat, get, hi, live, request, send, wait_until};
use dspark_protocol::{
    EngineState, RoundRecord, Snapshot, Source, channel,
    double::{
        Script,
        speculation::{drafting, parked},
    },
};
use dspark_serve::{App, ServeConfig};
use futures_util::StreamExt;
use serde_json::{Value, json};
use std::{net::Ipv4Addr, sync::Arc, time::Duration};

fn speculating() -> App {
    let words = "one two three four five six seven eight nine ten ".repeat(20);
    app(ServeConfig::default(), Script::saying(words).drafting())
}

/// The frames of an event stream, one by one: name and data; comments are named `:`.
struct Events(BodyDataStream, String);

impl Events {
    async fn open(app: &App) -> Self {
        let response = send(app, request("GET", "/events", &[], "")).await;
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self::of(response.into_body())
    }

    fn of(body: Body) -> Self {
        Self(body.into_data_stream(), String::new())
    }

    async fn next(&mut self) -> Option<(String, Value)> {
        loop {
            if let Some((frame, rest)) = self.1.split_once("\n\n") {
                let (frame, rest) = (frame.to_owned(), rest.to_owned());
                self.1 = rest;
                let Some(frame) = frame.strip_prefix("event: ") else {
                    return Some((":".into(), Value::Null));
                };
                let (event, data) = frame.split_once("\ndata: ").unwrap();
                return Some((event.into(), serde_json::from_str(data).unwrap()));
            }
            let bytes = tokio::time::timeout(Duration::from_secs(20), self.0.next())
                .await
                .expect("an event in time")?;
            self.1.push_str(std::str::from_utf8(&bytes.unwrap()).unwrap());
        }
    }

    /// The next of that name; others are passed over.
    async fn find(&mut self, name: &str) -> Option<Value> {
        loop {
            let (event, data) = self.next().await?;
            if event == name {
                return Some(data);
            }
        }
    }
}

#[tokio::test]
async fn rounds_come_with_their_sums() {
    let app = speculating();
    assert_eq!(get(&app, "/rounds").await.1["rounds"], json!([]));
    let (_, reply) = chat(&app, hi()).await;
    let (status, all) = get(&app, "/v1/rounds?limit=1000").await;
    assert_eq!(status, 200);
    let rounds = all["rounds"].as_array().unwrap();
    let forwards = reply["x_mlx_dspark"]["target_forwards"].as_u64().unwrap();
    assert_eq!(rounds.len() as u64, forwards);
    let sum = |key: &str| rounds.iter().map(|round| round[key].as_u64().unwrap()).sum::<u64>();
    let stats = &all["stats"];
    assert_eq!(stats["committed_tokens"], sum("committed"));
    assert_eq!(sum("committed"), reply["usage"]["completion_tokens"].as_u64().unwrap());
    assert_eq!(stats["rounds"], forwards);
    assert_eq!(stats["position_offered"][0], forwards);
    let histogram = stats["accept_histogram"].as_object().unwrap();
    assert_eq!(histogram.values().map(|n| n.as_u64().unwrap()).sum::<u64>(), forwards);
    let shares: Vec<f64> = stats["position_acceptance"]
        .as_array()
        .unwrap()
        .iter()
        .map(|v| v.as_f64().unwrap())
        .collect();
    assert!(shares.len() == 4 && shares.windows(2).all(|pair| pair[0] >= pair[1]), "{shares:?}");
    let first = &rounds[0];
    assert_eq!(
        (&first["i"], &first["mode"], &first["cap"]),
        (&json!(0), &json!("dspark"), &json!(4))
    );
    assert_eq!(first["req"].as_str().unwrap().len(), 8);
    assert!(rounds.iter().any(|round| round["source"] == "lookup") && rounds.iter().any(|round| round["source"] == "drafter"));

    assert_eq!(
        get(&app, "/rounds?limit=3").await.1["rounds"].as_array().unwrap()[..],
        rounds[rounds.len() - 3..]
    );
    let (status, error) = get(&app, "/rounds?limit=many").await;
    assert_eq!((status, &error["error"]["param"]), (400, &json!("limit")));
}

#[tokio::test]
async fn replies_say_what_drafting_did_and_why_it_did_not() {
    let (_, reply) = chat(&speculating(), hi()).await;
    let block = &reply["x_mlx_dspark"];
    assert_eq!(
        (&block["mode"], &block["requested_mode"], &block["cap"]),
        (&json!("dspark"), &json!("auto"), &json!(4))
    );
    let ratio = block["completion_tokens"].as_f64().unwrap() / block["rounds"].as_f64().unwrap();
    assert!(
        (block["accept_len"].as_f64().unwrap() - ratio).abs() < 0.001,
        "tokens per round: {block}"
    );
    assert!(block["plain_multiple"].as_f64().unwrap() > 1.0);
    assert!(block["lookup_rounds"].as_u64().unwrap() > 0 && block["decay_ratio"].is_f64());

    let (_, reply) = chat(&app(ServeConfig::default(), Script::saying("plain words")), hi()).await;
    let block = &reply["x_mlx_dspark"];
    assert_eq!((&block["mode"], &block["accept_len"]), (&json!("baseline"), &json!(1.0)));
    assert!(block.get("cap").is_none() && block.get("lookup_rounds").is_none());

    let script = Script {
        refuses: Some("log-probabilities of plain steps were asked for".into()),
        ..Script::saying("words").drafting()
    };
    let (_, reply) = chat(&app(ServeConfig::default(), script), hi()).await;
    let block = &reply["x_mlx_dspark"];
    assert_eq!((&block["mode"], &block["cap"]), (&json!("baseline"), &Value::Null));
    assert!(block["mode_reason"].as_str().unwrap().contains("log-probabilities"));
}

#[tokio::test]
async fn health_says_how_the_model_speculates() {
    let (_, health) = get(&speculating(), "/health").await;
    assert_eq!(
        [
            &health["effective_mode"],
            &health["max_draft"],
            &health["tree"],
            &health["lookup_drafts"],
            &health["drafter_kind"]
        ],
        [&json!("dspark"), &json!("4"), &json!("off"), &json!(true), &json!("dspark")]
    );
    let script = Script {
        speculation: parked(),
        ..Script::saying("")
    };
    let (_, health) = get(&app(ServeConfig::default(), script), "/health").await;
    assert_eq!(
        (&health["parked"], &health["max_draft"], &health["cap"]),
        (&json!(true), &json!("auto"), &json!(0))
    );
    assert!(health["mode_reason"].as_str().unwrap().contains("too seldom"));
    let (_, health) = get(&app(ServeConfig::default(), Script::saying("")), "/health").await;
    assert_eq!((&health["effective_mode"], &health["drafter"]), (&json!("baseline"), &Value::Null));
    assert!(health["mode_reason"].as_str().unwrap().contains("no drafter"));
}

#[tokio::test]
async fn calibration_shows_the_curves_and_what_follows() {
    let (status, found) = get(&speculating(), "/calibration").await;
    assert_eq!((status, &found["available"]), (200, &json!(true)));
    assert_eq!((&found["verify_ms"]["5"], &found["drafter_ms"]["4"]), (&json!(40.6), &json!(12.5)));
    assert_eq!(
        found["recommendation"],
        json!({"knee_width": 6, "dflash_full_block_viable": false, "recommend": 4})
    );
    let rates = found["controller"]["predicted_tokens_per_sec"].as_object().unwrap();
    let best = rates
        .iter()
        .max_by(|a, b| a.1.as_f64().unwrap().total_cmp(&b.1.as_f64().unwrap()))
        .unwrap();
    assert_eq!((best.0.as_str(), rates.len()), ("4", 8));

    let (status, none) = get(&app(ServeConfig::default(), Script::saying("")), "/calibration").await;
    assert_eq!((status, &none["available"]), (200, &json!(false)));
    assert!(none["reason"].as_str().unwrap().contains("no drafter"));
}

#[tokio::test]
async fn without_a_model_there_is_nothing_to_show() {
    let script = Script {
        loaded: false,
        ..Script::saying("")
    };
    let app = app(ServeConfig::default(), script);
    for path in ["/rounds", "/events", "/calibration"] {
        let (status, error) = get(&app, path).await;
        assert_eq!((status, &error["error"]["code"]), (503, &json!("no_model")), "{path}");
    }
}

/// Case se-003: with a key set, telemetry asks for it.
#[tokio::test]
async fn telemetry_asks_for_the_key() {
    let config = ServeConfig {
        api_key: dspark_serve::ApiKey::new("K"),
        ..ServeConfig::default()
    };
    let app = app(config, Script::saying("").drafting());
    for path in ["/rounds", "/events", "/calibration"] {
        assert_eq!(get(&app, path).await.0, 401, "{path}");
    }
    let with_key = request("GET", "/calibration", &[("authorization", "Bearer K")], "");
    assert_eq!(send(&app, with_key).await.status(), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn events_replay_then_go_on_live() {
    let app = speculating();
    chat(&app, hi()).await;
    let mut events = Events::open(&app).await;
    let mut replayed = Vec::new();
    let stats = loop {
        let (event, data) = events.next().await.unwrap();
        if event == "stats" {
            break data;
        }
        assert_eq!(event, "round");
        replayed.push(data["seq"].as_u64().unwrap());
    };
    assert_eq!(replayed.len(), 32, "the last rounds only");
    assert_eq!(
        stats["rounds"],
        json!(get(&app, "/rounds?limit=512").await.1["rounds"].as_array().unwrap().len())
    );
    let last = *replayed.last().unwrap();
    chat(&app, hi()).await;
    let mut expected = last;
    for _ in 0..40 {
        expected += 1;
        let round = events.find("round").await.unwrap();
        assert_eq!(round["seq"], expected, "every round, in order");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_being_read_is_told_and_its_end_too() {
    let app = app(
        ServeConfig::default(),
        Script {
            prefill: Duration::from_millis(300),
            ..Script::saying("a b c").drafting()
        },
    );
    let mut events = Events::open(&app).await;
    events.find("stats").await.unwrap();
    let asking = {
        let app = app.clone();
        tokio::spawn(async move { chat(&app, hi()).await })
    };
    let begin = events.find("prefill").await.unwrap();
    assert_eq!(
        (&begin["type"], &begin["processed"], begin.get("done")),
        (&json!("prefill"), &json!(0), None)
    );
    let end = events.find("prefill").await.unwrap();
    assert_eq!((&end["req"], &end["done"]), (&begin["req"], &json!(true)));
    assert_eq!(events.find("round").await.unwrap()["req"], begin["req"]);
    asking.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_stream_is_kept_alive_and_ends_with_the_model() {
    let server = live(ServeConfig::default(), Script::saying("hello there").drafting()).await;
    let app = App::new(ServeConfig::default(), server.engine.clone(), Ipv4Addr::LOCALHOST.into());
    let mut events = Events::open(&app).await;
    events.find("stats").await.unwrap();
    assert_eq!(events.next().await.unwrap().0, ":", "a comment after a second of silence");
    let mut loading = server
        .engine
        .load(dspark_protocol::LoadRequest {
            name: "another".into(),
            ..dspark_protocol::LoadRequest::default()
        })
        .unwrap();
    while loading.next().await.is_some() {}
    while events.next().await.is_some() {}
}

/// A reader that never reads is let go; the worker does not notice, and other readers lose nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_does_not_read_is_dropped() {
    let (engine, worker) = channel();
    let model = {
        let double = dspark_protocol::double::start(Script::saying("").drafting());
        wait_until(|| double.snapshot().model.is_some());
        double.snapshot().model.clone()
    };
    let publish = |seq: u64| {
        worker.snapshot.send_replace(Arc::new(Snapshot {
            state: EngineState::Generating {
                tokens_per_sec: seq as f64,
            },
            model: model.clone(),
            speculation: Some(Arc::new(drafting())),
            ..Snapshot::default()
        }));
    };
    publish(0);
    let app = App::new(ServeConfig::default(), engine, Ipv4Addr::LOCALHOST.into());
    let mut stalled = Events::open(&app).await;
    let mut reader = Events::open(&app).await;
    assert_eq!(reader.next().await.unwrap().0, "stats");
    let round = |seq: u64| RoundRecord {
        seq,
        t_ms: seq as f64,
        request: 1,
        mode: drafting().mode,
        index: seq as u32,
        drafted: 4,
        tree_depth: 0,
        accepted: 2,
        committed: 3,
        cap: Some(4),
        source: Source::Draft,
        ms: 20.0,
    };
    for seq in 1..=600 {
        worker.rounds.push(round(seq));
        publish(seq);
        assert_eq!(reader.find("round").await.unwrap()["seq"], seq);
    }
    // What was queued for it can still be read; then the stream ends, short of the newest.
    let mut last = 0;
    while let Some((event, data)) = stalled.next().await {
        if event == "round" {
            last = data["seq"].as_u64().unwrap();
        }
    }
    assert!((200..600).contains(&last), "{last}");
}
