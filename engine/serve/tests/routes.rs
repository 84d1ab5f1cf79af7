//! Routes and dialects through the router, without a socket.

#![allow(clippy::unwrap_used)]

mod common;

use axum::http::Response;
use common::{app, chat, frames, get, held, hi, read, request, send, text};
use dspark_protocol::{EngineError, EngineState, LoadStage, Prompt, Role, Snapshot, double::Script};
use dspark_serve::ServeConfig;
use serde_json::{Value, json};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

fn plain() -> dspark_serve::App {
    app(ServeConfig::default(), Script::saying("Hello there, friend."))
}

fn failing(error: EngineError) -> dspark_serve::App {
    let script = Script {
        answer: Arc::new(move |_| Err(error.clone())),
        ..Script::saying("")
    };
    app(ServeConfig::default(), script)
}

fn header<'a>(response: &'a Response<axum::body::Body>, name: &str) -> Option<&'a str> {
    response.headers().get(name).map(|value| value.to_str().unwrap())
}

#[tokio::test]
async fn health_describes_the_model_the_queue_and_the_engine() {
    let (status, health) = get(&plain(), "/health").await;
    assert_eq!(status, 200);
    assert_eq!(health["status"], "ok");
    assert_eq!(health["model"], "double");
    assert_eq!(
        (&health["mode"], &health["effective_mode"]),
        (&json!("baseline"), &json!("baseline"))
    );
    assert_eq!(health["queue"], json!({"running": 0, "waiting": 0, "limit": 32, "engine": 0}));
    assert_eq!(health["context_window"], 8192);
    assert_eq!(health["pid"], std::process::id());
    for key in [
        "version",
        "api_version",
        "busy",
        "warnings",
        "memory",
        "machine",
        "kv_bits",
        "max_output_tokens",
        "thinking_default",
    ] {
        assert!(!health[key].is_null(), "{key}");
    }
}

#[tokio::test]
async fn without_a_model_health_models_and_chat_say_so() {
    let script = Script {
        loaded: false,
        ..Script::saying("")
    };
    let app = app(ServeConfig::default(), script);
    let (status, health) = get(&app, "/health").await;
    assert_eq!(
        (status, &health["status"], &health["model"]),
        (200, &json!("no_model"), &Value::Null)
    );
    let (status, models) = get(&app, "/v1/models").await;
    assert_eq!((status, &models["data"], &models["models"]), (200, &json!([]), &json!([])));
    let (status, error) = chat(&app, hi()).await;
    assert_eq!((status, &error["error"]["code"]), (503, &json!("no_model")));
    assert_eq!(error["error"]["type"], "service_unavailable");
}

/// Case ag-022: both readers find their fields.
#[tokio::test]
async fn models_serve_openai_and_anthropic_readers() {
    let app = plain();
    let (status, models) = get(&app, "/v1/models").await;
    assert_eq!((status, &models["object"]), (200, &json!("list")));
    let entry = &models["data"][0];
    assert_eq!(
        (&entry["id"], &entry["object"], &entry["type"]),
        (&json!("double"), &json!("model"), &json!("model"))
    );
    assert_eq!(
        (&models["has_more"], &models["first_id"], &models["last_id"]),
        (&json!(false), &json!("double"), &json!("double"))
    );
    assert_eq!(models["models"], json!([]));
    for path in [
        "/v1/models/double",
        "/models/double/",
        "/v1/v1/models/owner/double",
        "/v1/models/double?x=1",
    ] {
        assert_eq!(get(&app, path).await, (200, entry.clone()), "{path}");
    }
    let (status, error) = get(&app, "/v1/models/owner/other").await;
    assert_eq!((status, &error["error"]["code"]), (404, &json!("model_not_found")));
}

#[tokio::test]
async fn unknown_routes_and_methods_answer_in_dialect() {
    let app = plain();
    let (status, body) = get(&app, "/v2/chat").await;
    assert_eq!((status, &body["error"]["type"]), (404, &json!("not_found")));
    assert!(body["error"]["message"].as_str().unwrap().contains("/v2/chat"));
    let response = send(&app, request("POST", "/v1/messages/batches", &[], "{}")).await;
    let id = header(&response, "x-request-id").unwrap().to_owned();
    assert_eq!(header(&response, "request-id"), Some(id.as_str()));
    let (status, body) = read(response).await;
    assert_eq!(
        (status, &body["error"]["type"], &body["request_id"]),
        (404, &json!("not_found_error"), &json!(id))
    );
    let response = send(&app, request("GET", "/v1/chat/completions", &[], "")).await;
    assert_eq!((response.status().as_u16(), header(&response, "allow")), (405, Some("POST")));
    let (status, body) = read(send(&app, request("POST", "/v1/embeddings", &[], "{}")).await).await;
    assert_eq!((status, &body["error"]["type"]), (501, &json!("unsupported_endpoint")));
    let response = send(&app, request("HEAD", "/no/such", &[], "")).await;
    assert_eq!((response.status().as_u16(), header(&response, "content-length")), (200, Some("0")));
    assert_eq!(header(&response, "server"), Some("mlx-dspark"));
}

#[tokio::test]
async fn a_whole_reply_has_every_field_clients_read() {
    let mut body = hi();
    body["model"] = json!("my/double");
    let (status, reply) = chat(&plain(), body).await;
    assert_eq!(status, 200);
    assert_eq!(
        (&reply["object"], &reply["model"]),
        (&json!("chat.completion"), &json!("my/double"))
    );
    assert!(reply["id"].as_str().unwrap().starts_with("chatcmpl-"));
    assert_eq!(reply["choices"][0]["message"]["content"], "Hello there, friend.");
    assert_eq!(reply["choices"][0]["finish_reason"], "stop");
    assert_eq!(reply["usage"]["completion_tokens"], 3);
    assert_eq!(
        reply["usage"]["total_tokens"],
        reply["usage"]["prompt_tokens"].as_u64().unwrap() + 3
    );
    assert_eq!(reply["x_mlx_dspark"]["mode"], "baseline");
    assert_eq!(
        reply["system_fingerprint"],
        format!("mlx-dspark-{}-baseline", env!("CARGO_PKG_VERSION"))
    );
}

#[tokio::test]
async fn a_stream_is_role_text_finish_usage_done() {
    let mut body = hi();
    body["stream"] = json!(true);
    body["stream_options"] = json!({"include_usage": true});
    let response = send(&plain(), request("POST", "/v1/chat/completions", &[], body.to_string())).await;
    for (name, value) in [
        ("content-type", "text/event-stream"),
        ("cache-control", "no-cache"),
        ("x-accel-buffering", "no"),
    ] {
        assert_eq!(header(&response, name), Some(value));
    }
    let chunks = frames(&text(response).await);
    let said: String = chunks
        .iter()
        .filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str())
        .collect();
    assert_eq!(said, "Hello there, friend.");
    assert_eq!(chunks[0]["choices"][0]["delta"], json!({"role": "assistant", "content": ""}));
    let [finish, usage] = &chunks[chunks.len() - 2..] else { panic!() };
    assert_eq!(
        (&finish["choices"][0]["finish_reason"], &finish["usage"]),
        (&json!("stop"), &Value::Null)
    );
    assert_eq!((&usage["choices"], &usage["usage"]["completion_tokens"]), (&json!([]), &json!(3)));
    for chunk in &chunks {
        assert_eq!((&chunk["id"], &chunk["created"]), (&chunks[0]["id"], &chunks[0]["created"]));
        for choice in chunk["choices"].as_array().unwrap() {
            assert!(choice.as_object().unwrap().contains_key("finish_reason"));
        }
    }
}

#[tokio::test]
async fn stops_limits_and_logprobs_reach_the_engine_and_come_back() {
    let app = plain();
    let ask = |more: Value| {
        let mut body = hi();
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        chat(&app, body)
    };
    let (_, reply) = ask(json!({"stop": ["there"]})).await;
    assert_eq!(reply["choices"][0]["message"]["content"], "Hello ");
    assert_eq!(
        reply["x_mlx_dspark"]["stop_reason_detail"],
        json!({"type": "stop_string", "matched": "there"})
    );
    let (_, reply) = ask(json!({"max_tokens": 2})).await;
    assert_eq!(
        (&reply["choices"][0]["finish_reason"], &reply["usage"]["completion_tokens"]),
        (&json!("length"), &json!(2))
    );
    let (_, reply) = ask(json!({"logprobs": true, "return_token_ids": true})).await;
    let tokens = reply["choices"][0]["logprobs"]["content"].as_array().unwrap();
    assert_eq!(
        (tokens.len(), &tokens[0]["token"], &tokens[0]["logprob"]),
        (3, &json!("Hello "), &json!(-0.5))
    );
    assert_eq!(reply["x_mlx_dspark"]["token_ids"], json!([0, 1, 2]));
    let (_, reply) = ask(json!({"n": 3})).await;
    assert_eq!(
        (reply["choices"].as_array().unwrap().len(), &reply["usage"]["completion_tokens"]),
        (3, &json!(3))
    );
    let (_, reply) = ask(json!({"n": 3, "temperature": 1})).await;
    assert_eq!(
        (&reply["choices"][2]["index"], &reply["usage"]["completion_tokens"]),
        (&json!(2), &json!(9))
    );
    let (_, reply) = ask(json!({"model": "gpt-4o", "max_tokens": 9000, "novel_field": 1})).await;
    let warnings = reply["x_mlx_dspark"]["warnings"].to_string();
    for word in ["gpt-4o", "max_tokens 9000", "novel_field"] {
        assert!(warnings.contains(word), "{word}: {warnings}");
    }
}

/// Case ag-004, and the setting that refuses every other name.
#[tokio::test]
async fn another_models_id_is_a_404_and_downloads_nothing() {
    let mut body = hi();
    body["model"] = json!("someone/never-downloaded");
    let (status, error) = chat(&plain(), body.clone()).await;
    assert_eq!(
        (status, &error["error"]["code"], &error["error"]["param"]),
        (404, &json!("model_not_found"), &json!("model"))
    );
    let config = ServeConfig {
        strict_model_names: true,
        ..ServeConfig::default()
    };
    body["model"] = json!("gpt-4o");
    let (status, _) = chat(&app(config, Script::saying("Hi")), body).await;
    assert_eq!(status, 404);
}

/// Case ag-016 as far as the engine's door: roles and order that reach the template.
#[tokio::test]
async fn a_developer_message_reaches_the_template_as_system() {
    let seen = Arc::new(Mutex::new(None));
    let note = seen.clone();
    let script = Script {
        answer: Arc::new(move |request| {
            *note.lock().unwrap() = Some(request.clone());
            Ok("Hi".into())
        }),
        ..Script::saying("")
    };
    let body = json!({
        "messages": [{"role": "developer", "content": "D"}, {"role": "user", "content": "hi"}],
        "store": false, "max_completion_tokens": 8, "stream_options": {"include_usage": true}, "stream": true,
    });
    let agent = [("user-agent", "OpenAI/Python 2.8.1")];
    let response = send(
        &app(ServeConfig::default(), script),
        request("POST", "/v1/chat/completions", &agent, body.to_string()),
    )
    .await;
    assert_eq!(response.status().as_u16(), 200);
    frames(&text(response).await);
    let request = seen.lock().unwrap().take().unwrap();
    let Prompt::Chat { messages, .. } = &request.prompt else { panic!() };
    assert_eq!((messages[0].role, messages[0].content.as_str()), (Role::System, "D"));
    assert_eq!((request.max_tokens, request.client.as_str()), (8, "OpenAI/Python"));
}

#[tokio::test]
async fn engine_errors_become_statuses_streamed_or_not() {
    for (error, status, code) in [
        (
            EngineError::ContextOverflow {
                prompt: 9000,
                window: 8192,
            },
            400,
            "context_length_exceeded",
        ),
        (EngineError::Template("roles must alternate".into()), 400, "template_error"),
        (
            EngineError::Unsupported {
                feature: "x".into(),
                hint: "y".into(),
            },
            400,
            "unsupported_parameter",
        ),
        (EngineError::Compute("boom".into()), 500, "engine_error"),
        (EngineError::NoModel, 503, "no_model"),
        (
            EngineError::Busy {
                queued: 3,
                limit: 3,
                retry_after_s: 4,
            },
            429,
            "rate_limit_exceeded",
        ),
    ] {
        for stream in [false, true] {
            let mut body = hi();
            body["stream"] = json!(stream);
            let (got, reply) = chat(&failing(error.clone()), body).await;
            assert_eq!((got, &reply["error"]["code"]), (status, &json!(code)), "{error} stream={stream}");
            assert_eq!(reply["error"]["status"], status);
        }
    }
}

#[tokio::test]
async fn bad_bodies_are_400_with_the_field() {
    let app = plain();
    for (body, param) in [
        ("", None),
        ("{", None),
        ("[]", None),
        ("\u{feff}{}", None),
        ("{\"messages\": []}", Some("messages")),
        (
            "{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}], \"temperature\": {}}",
            Some("temperature"),
        ),
    ] {
        let (status, reply) = read(send(&app, request("POST", "/v1/chat/completions", &[], body.to_owned())).await).await;
        assert_eq!((status, reply["error"]["param"].as_str()), (400, param), "{body}");
        assert_eq!(reply["error"]["type"], "invalid_request_error");
    }
    let invalid = request("POST", "/v1/chat/completions", &[], b"{\"messages\": \"\xff\"}".to_vec());
    assert_eq!(send(&app, invalid).await.status().as_u16(), 400);
    let deep = "[".repeat(100_000);
    assert_eq!(
        send(&app, request("POST", "/v1/chat/completions", &[], deep))
            .await
            .status()
            .as_u16(),
        400
    );
}

#[tokio::test]
async fn a_body_over_the_limit_is_413() {
    let config = ServeConfig {
        body_limit: 1000,
        ..ServeConfig::default()
    };
    let app = app(config, Script::saying("Hi"));
    let (status, reply) = chat(&app, json!({"messages": [{"role": "user", "content": "x".repeat(2000)}]})).await;
    assert_eq!((status, &reply["error"]["code"]), (413, &json!("request_too_large")));
    let chunked = axum::body::Body::from_stream(futures_util::stream::iter(
        (0..30).map(|_| Ok::<_, std::convert::Infallible>(bytes::Bytes::from("x".repeat(100)))),
    ));
    assert_eq!(
        send(&app, request("POST", "/v1/chat/completions", &[], chunked))
            .await
            .status()
            .as_u16(),
        413
    );
}

/// Case cc-004, with the status of the HTTP contract: 429 and when to come back.
#[tokio::test]
async fn a_full_queue_answers_429_with_retry_after() {
    let config = ServeConfig {
        max_queue: 1,
        ..ServeConfig::default()
    };
    let script = Script {
        prefill: Duration::from_millis(400),
        ..Script::saying("Hi")
    };
    let app = app(config, script);
    let first = tokio::spawn({
        let app = app.clone();
        async move { chat(&app, hi()).await }
    });
    common::eventually(|| app.live().first().is_some_and(|live| live.phase == dspark_serve::Phase::Prefilling)).await;
    let second = tokio::spawn({
        let app = app.clone();
        async move { chat(&app, hi()).await }
    });
    common::eventually(|| app.live().len() == 2).await;
    let (_, health) = get(&app, "/health").await;
    assert_eq!(
        (&health["queue"]["running"], &health["queue"]["waiting"], &health["busy"]),
        (&json!(1), &json!(1), &json!(true))
    );
    let response = send(&app, request("POST", "/v1/chat/completions", &[], hi().to_string())).await;
    assert_eq!(header(&response, "retry-after"), Some("2"));
    let (status, body) = read(response).await;
    assert_eq!((status, &body["error"]["type"]), (429, &json!("rate_limit_error")));
    assert_eq!((first.await.unwrap().0, second.await.unwrap().0), (200, 200));
    assert!(app.live().is_empty());
    assert_eq!(app.clients()[0].requests, 2);
}

/// Case cc-003: nothing delivered for too long is a stall, whatever the thread does.
#[tokio::test]
async fn a_generation_that_delivers_nothing_is_a_stall() {
    let config = ServeConfig {
        stall_after: Duration::from_millis(150),
        ..ServeConfig::default()
    };
    let script = Script {
        prefill: Duration::from_millis(600),
        ..Script::saying("Hi")
    };
    let app = app(config, script);
    let running = tokio::spawn({
        let app = app.clone();
        async move { chat(&app, hi()).await }
    });
    tokio::time::sleep(Duration::from_millis(400)).await;
    let (status, health) = get(&app, "/health").await;
    assert_eq!((status, &health["status"]), (503, &json!("stalled")));
    assert_eq!(running.await.unwrap().0, 200);
    let (status, health) = get(&app, "/health").await;
    assert_eq!((status, &health["status"]), (200, &json!("ok")));
}

#[tokio::test]
async fn loading_starting_and_broken_engines_are_told_apart() {
    let loading = EngineState::Loading {
        stage: LoadStage::Reading,
        done: 25,
        total: 100,
    };
    let broken = EngineState::Error {
        reason: "the self-test failed".into(),
    };
    for (state, word, code, message, retry) in [
        (loading, "loading", "loading", "25 %", Some("2")),
        (EngineState::Starting, "loading", "loading", "starting", Some("2")),
        (EngineState::NoModel, "no_model", "no_model", "no model is loaded", None),
        (EngineState::Unloading, "no_model", "no_model", "no model is loaded", None),
        (broken, "error", "engine_error", "self-test", None),
        (EngineState::Stopped, "stopping", "server_stopping", "shutting down", Some("5")),
    ] {
        let (app, _worker) = held(state, |_| {});
        let (status, health) = get(&app, "/health").await;
        assert_eq!((status, health["status"].as_str()), (200, Some(word)));
        let response = send(&app, request("POST", "/v1/chat/completions", &[], hi().to_string())).await;
        assert_eq!(header(&response, "retry-after"), retry, "{word}");
        let (status, reply) = read(response).await;
        assert_eq!((status, reply["error"]["code"].as_str()), (503, Some(code)));
        assert!(reply["error"]["message"].as_str().unwrap().contains(message), "{reply}");
    }
}

/// The window's own chat stalls the same engine, and no request of ours is running.
#[tokio::test]
async fn a_stall_of_a_generation_that_is_not_ours_shows() {
    let (app, _worker) = held(EngineState::Generating { tokens_per_sec: 9.0 }, |snapshot| {
        snapshot.requests = vec![dspark_protocol::ActiveRequest {
            id: 1,
            client: "chat".into(),
            prompt_tokens: 5,
            generated: 3,
            waiting: false,
        }];
        snapshot.beat = std::time::Instant::now().checked_sub(Duration::from_secs(121)).unwrap();
    });
    let (status, health) = get(&app, "/health").await;
    assert_eq!((status, &health["status"]), (503, &json!("stalled")));
}

#[tokio::test]
async fn an_engine_that_went_away_is_a_503() {
    let (engine, worker) = dspark_protocol::channel();
    let snapshot = Snapshot {
        state: EngineState::Ready,
        model: common::engine(Script::saying("")).snapshot().model.clone(),
        ..Snapshot::default()
    };
    worker.snapshot.send_replace(Arc::new(snapshot));
    drop(worker);
    let gone = dspark_serve::App::new(ServeConfig::default(), engine, std::net::Ipv4Addr::LOCALHOST.into());
    let (status, reply) = chat(&gone, hi()).await;
    assert_eq!((status, reply["error"]["code"].as_str()), (503, Some("engine_stopped")));
}
