//! `/metrics`, `/machine` and what `/health` warns of. Source: `spec/http-api.md` §13.1 to §13.3.

#![allow(clippy::unwrap_used)]

mod common;

use common::{app, chat, get, held, hi, request, send, text};
use dspark_protocol::{
    CapOrigin, EngineState, MemoryGuard, PrefixState, Pressure, Shed, SpeculationState,
    double::{
        Script,
        speculation::{drafting, parked},
    },
};
use dspark_serve::ServeConfig;
use serde_json::{Value, json};
use std::{
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

/// The keys of the specification's table, at every depth that it names.
#[tokio::test]
async fn every_row_of_the_table_is_there() {
    let app = app(ServeConfig::default(), Script::saying("one two three four").drafting());
    chat(&app, hi()).await;
    let (status, metrics) = get(&app, "/metrics").await;
    assert_eq!(status, 200);
    for path in [
        "/model",
        "/mode",
        "/requests",
        "/prompt_tokens",
        "/completion_tokens",
        "/mean_accept_len",
        "/mean_tokens_per_sec",
        "/mean_decode_tokens_per_sec",
        "/prefix_cache/enabled",
        "/prefix_cache/mode",
        "/prefix_cache/cached_tokens",
        "/prefix_cache/slots",
        "/prefix_cache/hits",
        "/prefix_cache/partial_hits",
        "/prefix_cache/reused_tokens",
        "/prefix_cache/l2",
        "/auto_cap/cap",
        "/auto_cap/p",
        "/auto_cap/rounds",
        "/auto_cap/knee_width",
        "/auto_cap/predicted_rates/4",
        "/rounds/rounds",
        "/rounds/committed_tokens",
        "/rounds/mean_accept_len",
        "/rounds/draft_acceptance",
        "/rounds/lookup_rounds",
        "/rounds/position_acceptance/0",
        "/rounds/position_offered/0",
        "/rounds/accept_histogram",
        "/batching/max_batch",
        "/batching/batched_requests",
        "/batching/batches",
        "/batching/max_batch_seen",
        "/batching/serial_requests",
        "/memory/available",
        "/memory/active_bytes",
        "/memory/peak_bytes",
        "/memory/cache_bytes",
        "/system",
        "/verdict",
        "/memory_guard/enabled",
        "/memory_guard/level",
        "/memory_guard/pending",
        "/memory_guard/last_shed",
        "/memory_guard/sheds",
        "/memory_guard/rearm_s",
        "/memory_guard/defer_s",
    ] {
        assert!(metrics.pointer(path).is_some(), "{path} is missing: {metrics:#}");
    }
    assert_eq!(metrics["batching"]["serial_requests"], 1);
}

/// Each token weighs the same, however many replies it takes.
#[tokio::test]
async fn the_mean_accept_length_is_of_tokens_not_of_replies() {
    let words = "one two three four five six seven eight nine ten ".repeat(20);
    let app = app(ServeConfig::default(), Script::saying(words).drafting());
    let mut weight = 0.0;
    let mut tokens = 0.0;
    for limit in [3, 90] {
        let body = json!({"messages": hi()["messages"], "max_tokens": limit});
        let block = chat(&app, body).await.1["x_mlx_dspark"].clone();
        let count = block["completion_tokens"].as_f64().unwrap();
        weight += block["accept_len"].as_f64().unwrap() * count;
        tokens += count;
    }
    let (_, metrics) = get(&app, "/metrics").await;
    let mean = metrics["mean_accept_len"].as_f64().unwrap();
    assert!((mean - weight / tokens).abs() < 0.002, "{mean} is not {}", weight / tokens);
    assert!(metrics["mean_tokens_per_sec"].as_f64().unwrap() <= metrics["mean_decode_tokens_per_sec"].as_f64().unwrap());
}

#[tokio::test]
async fn the_cap_that_chooses_itself_says_how() {
    let of = |speculation: SpeculationState| async move {
        let script = Script {
            speculation,
            ..Script::saying("")
        };
        get(&app(ServeConfig::default(), script), "/metrics").await.1["auto_cap"].clone()
    };
    let chosen = of(parked()).await;
    assert_eq!((&chosen["cap"], &chosen["origin"]), (&json!(0), &json!("auto")));
    assert_eq!(chosen["p"], json!(0.18));
    let rates = chosen["predicted_rates"].as_object().unwrap();
    assert!(rates["0"].as_f64() > rates["4"].as_f64(), "drafts do not pay here: {rates:?}");
    let pinned = SpeculationState {
        cap_origin: CapOrigin::Pinned,
        ..drafting()
    };
    assert_eq!(of(pinned).await, Value::Null);
    assert_eq!(of(dspark_protocol::double::speculation::plain()).await, Value::Null);
}

#[tokio::test]
async fn what_the_guard_did_shows_and_is_a_warning_for_ten_minutes() {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let shed = |at: u64| MemoryGuard {
        level: Pressure::Critical,
        sheds: 3,
        last_shed: Some(Shed {
            level: Pressure::Critical,
            at,
            allocator_before: 900,
            allocator_after: 500,
            freed_bytes: 400,
            prompts_dropped: true,
        }),
        rearm_s: 120,
    };
    let (app, _worker) = held(EngineState::NoModel, |snapshot| {
        snapshot.guard = shed(now - 5);
        snapshot.prefix = Arc::new(PrefixState {
            limit: 0,
            ..PrefixState::default()
        });
    });
    let (_, metrics) = get(&app, "/metrics").await;
    let guard = &metrics["memory_guard"];
    assert_eq!(
        (&guard["level"], &guard["sheds"], &guard["rearm_s"]),
        (&json!("critical"), &json!(3), &json!(120))
    );
    assert_eq!(
        (&guard["last_shed"]["freed_bytes"], &guard["last_shed"]["at"]),
        (&json!(400), &json!(now - 5))
    );
    assert_eq!(metrics["prefix_cache"]["enabled"], false, "no prompts are kept");
    let codes = |health: &Value| -> Vec<String> {
        let rows = health["warnings"].as_array().unwrap();
        for row in rows {
            assert!(row["message"].as_str().is_some_and(|words| !words.is_empty()), "{row}");
        }
        rows.iter().map(|row| row["code"].as_str().unwrap().to_owned()).collect()
    };
    let (_, health) = get(&app, "/health").await;
    assert_eq!(codes(&health), ["memory_pressure", "memory_guard"]);
    assert_eq!(
        (&health["warnings"][0]["level"], &health["memory_guard"]),
        (&json!("problem"), guard)
    );
    let (app, _worker) = held(EngineState::NoModel, |snapshot| {
        snapshot.guard = MemoryGuard {
            level: Pressure::Normal,
            ..shed(now - 601)
        };
    });
    assert!(codes(&get(&app, "/health").await.1).is_empty());
}

#[tokio::test]
async fn prometheus_reads_each_metric_once() {
    let app = app(ServeConfig::default(), Script::saying("a b").drafting());
    chat(&app, hi()).await;
    let lines = text(send(&app, request("GET", "/metrics?format=prometheus", &[], "")).await).await;
    let mut names: Vec<&str> = lines
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| {
            let (name, value) = line.split_once(' ').unwrap();
            assert!(value.parse::<f64>().is_ok(), "{line}");
            assert!(
                lines.contains(&format!("# TYPE {name} ")) && lines.contains(&format!("# HELP {name} ")),
                "{name}"
            );
            name
        })
        .collect();
    assert!(names.contains(&"mlx_dspark_draft_cap") && names.contains(&"mlx_dspark_memory_guard_sheds_total"));
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count, "a name is said twice");
}
