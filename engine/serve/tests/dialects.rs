//! The same answers through every dialect: what a model writes, taken apart and told in each client's own words.

#![allow(clippy::unwrap_used)]

mod common;

use common::{app, get, read, request, send, text};
use dspark_protocol::{EngineError, Prompt, Request, Role, double::Script};
use dspark_serve::{App, ServeConfig};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};

const ANSWER: &str = "<think>Need the file.</think>\n\nOpening it.\n<tool_call>\n{\"name\": \"read\", \"arguments\": {\"path\": \"a.py\"}}\n\
                      </tool_call>\n<tool_call>\n{\"name\": \"list\", \"arguments\": {}}\n</tool_call>";

type Seen = Arc<Mutex<Option<Request>>>;

/// Says `answer`, and keeps what it was asked.
fn saying(answer: &str) -> (App, Seen) {
    let seen = Seen::default();
    let (note, answer) = (seen.clone(), answer.to_owned());
    let script = Script {
        answer: Arc::new(move |request| {
            *note.lock().unwrap() = Some(request.clone());
            Ok(answer.clone())
        }),
        ..Script::saying("")
    };
    (app(ServeConfig::default(), script), seen)
}

async fn post(app: &App, path: &str, body: &Value) -> (u16, Value) {
    read(send(app, request("POST", path, &[], body.to_string())).await).await
}

/// (event name, data) of every frame.
async fn stream(app: &App, path: &str, mut body: Value) -> Vec<(String, Value)> {
    body["stream"] = json!(true);
    let response = send(app, request("POST", path, &[], body.to_string())).await;
    assert_eq!(response.status().as_u16(), 200);
    let text = text(response).await;
    let frame = |frame: &str| {
        let field = |name: &str| frame.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
        let data = field("data: ").unwrap();
        (
            field("event: ").unwrap_or_default(),
            serde_json::from_str(&data).unwrap_or(Value::Null),
        )
    };
    text.split("\n\n").filter(|text| !text.is_empty()).map(frame).collect()
}

fn functions() -> Value {
    let schema = json!({"type": "object", "properties": {"path": {"type": "string"}}});
    json!([
        {"type": "function", "function": {"name": "read", "parameters": schema}},
        {"type": "function", "function": {"name": "list"}}])
}

fn flat() -> Value {
    let nested = functions();
    nested
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| {
            let mut flat = tool["function"].clone();
            flat["type"] = json!("function");
            flat
        })
        .collect()
}

fn inputs() -> Value {
    json!([{"name": "read", "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}}}, {"name": "list"}])
}

#[tokio::test]
async fn chat_tells_thoughts_prose_and_calls_apart() {
    let (app, seen) = saying(ANSWER);
    let body = json!({"messages": [{"role": "user", "content": "hi"}], "tools": functions()});
    let (status, reply) = post(&app, "/v1/chat/completions", &body).await;
    let message = &reply["choices"][0]["message"];
    assert_eq!(
        (status, &message["reasoning_content"], &message["content"]),
        (200, &json!("Need the file."), &json!("Opening it."))
    );
    let calls = message["tool_calls"].as_array().unwrap();
    assert_eq!(
        (calls.len(), &calls[0]["function"]["name"], &calls[1]["function"]["arguments"]),
        (2, &json!("read"), &json!("{}"))
    );
    let arguments: Value = serde_json::from_str(calls[0]["function"]["arguments"].as_str().unwrap()).unwrap();
    assert_eq!(arguments, json!({"path": "a.py"}));
    assert_eq!(reply["choices"][0]["finish_reason"], "tool_calls");
    assert!(reply["usage"]["completion_tokens_details"]["reasoning_tokens"].as_u64().unwrap() > 0);
    let Prompt::Chat { options, .. } = seen.lock().unwrap().take().unwrap().prompt else {
        panic!()
    };
    assert_eq!(options.tools.len(), 2);

    let chunks = stream(&app, "/v1/chat/completions", body).await;
    let deltas: Vec<&Value> = chunks.iter().map(|(_, chunk)| &chunk["choices"][0]["delta"]).collect();
    let join = |name: &str| deltas.iter().filter_map(|delta| delta[name].as_str()).collect::<String>();
    assert_eq!(
        (join("reasoning_content").trim(), join("content").trim()),
        ("Need the file.", "Opening it.")
    );
    let parts: Vec<&Value> = deltas.iter().filter_map(|delta| delta["tool_calls"].get(0)).collect();
    for index in 0..2 {
        let of: Vec<&&Value> = parts.iter().filter(|part| part["index"] == index).collect();
        assert!(of[0]["id"].as_str().unwrap().starts_with("call_") && of[0]["function"]["name"].is_string());
        assert!(
            of[1..]
                .iter()
                .all(|part| part.get("id").is_none() && part["function"].get("name").is_none())
        );
        let whole: String = of.iter().filter_map(|part| part["function"]["arguments"].as_str()).collect();
        assert!(serde_json::from_str::<Value>(&whole).unwrap().is_object(), "{whole}");
    }
    let finish: Vec<&Value> = chunks
        .iter()
        .map(|(_, chunk)| &chunk["choices"][0]["finish_reason"])
        .filter(|finish| finish.is_string())
        .collect();
    assert_eq!(finish, [&json!("tool_calls")]);
}

#[tokio::test]
async fn messages_tell_the_same_in_blocks() {
    let (app, _) = saying(ANSWER);
    let body = json!({"max_tokens": 500, "messages": [{"role": "user", "content": "hi"}], "tools": inputs()});
    let (status, reply) = post(&app, "/v1/messages?beta=true", &body).await;
    let kinds: Vec<&str> = reply["content"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|block| block["type"].as_str())
        .collect();
    assert_eq!((status, kinds), (200, vec!["thinking", "text", "tool_use", "tool_use"]));
    assert_eq!(
        (&reply["content"][2]["input"], &reply["stop_reason"]),
        (&json!({"path": "a.py"}), &json!("tool_use"))
    );
    assert!(reply["content"][2]["id"].as_str().unwrap().starts_with("toolu_"));

    let events = stream(&app, "/v1/messages/", body.clone()).await;
    assert!(events.iter().all(|(name, data)| data["type"] == *name), "{events:?}");
    let starts: Vec<&str> = events
        .iter()
        .filter_map(|(_, data)| data["content_block"]["type"].as_str())
        .collect();
    assert_eq!(starts, ["thinking", "text", "tool_use", "tool_use"]);
    assert_eq!(events[0].0, "message_start");
    assert!(events[0].1["message"]["usage"]["input_tokens"].is_u64());
    assert_eq!(events.last().unwrap().0, "message_stop");

    let mut quiet = body;
    quiet["thinking"] = json!({"type": "disabled"});
    let (_, reply) = post(&app, "/v1/messages", &quiet).await;
    assert_eq!(reply["content"][0]["type"], "text");
    let events = stream(&app, "/v1/messages", quiet).await;
    let first = events.iter().find(|(name, _)| name == "content_block_start").unwrap();
    assert_eq!((&first.1["index"], &first.1["content_block"]["type"]), (&json!(0), &json!("text")));
}

#[tokio::test]
async fn responses_tell_the_same_in_items() {
    let (app, _) = saying(ANSWER);
    let body = json!({"input": "hi", "instructions": "Be brief.", "tools": flat()});
    let (status, reply) = post(&app, "/v1/responses", &body).await;
    let kinds: Vec<&str> = reply["output"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|item| item["type"].as_str())
        .collect();
    assert_eq!(
        (status, kinds),
        (200, vec!["reasoning", "message", "function_call", "function_call"])
    );
    assert_eq!(
        (&reply["status"], &reply["instructions"]),
        (&json!("completed"), &json!("Be brief."))
    );

    let events = stream(&app, "/v1/responses", body).await;
    let done: Vec<&str> = events
        .iter()
        .filter(|(name, _)| name == "response.output_item.done")
        .filter_map(|(_, data)| data["item"]["type"].as_str())
        .collect();
    assert_eq!(done, ["reasoning", "message", "function_call", "function_call"]);
    let (last, data) = events.last().unwrap();
    assert_eq!(
        (last.as_str(), data["response"]["output"].as_array().unwrap().len()),
        ("response.completed", 4)
    );
    for (index, (_, data)) in events.iter().enumerate() {
        assert_eq!(data["sequence_number"], index);
    }
    for path in ["/v1/responses/resp_1", "/responses/resp_1/input_items"] {
        let (status, error) = get(&app, path).await;
        assert_eq!((status, &error["error"]["code"]), (404, &json!("not_found")));
    }
}

/// A turn with a call and its result goes into the template the same way from every dialect.
#[tokio::test]
async fn tool_rounds_reach_the_template_alike() {
    let chat = json!({"messages": [
        {"role": "user", "content": "run"},
        {"role": "assistant", "content": "", "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{\"path\":\"a\"}"}}]},
        {"role": "tool", "tool_call_id": "c1", "content": "text"}]});
    let messages = json!({"max_tokens": 9, "messages": [
        {"role": "user", "content": "run"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "read", "input": {"path": "a"}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "text"}]}]});
    let responses = json!({"input": [
        {"role": "user", "content": "run"},
        {"type": "function_call", "call_id": "c1", "name": "read", "arguments": "{\"path\":\"a\"}"},
        {"type": "function_call_output", "call_id": "c1", "output": "text"}]});
    let mut talks = Vec::new();
    for (path, body) in [
        ("/v1/chat/completions", chat),
        ("/v1/messages", messages),
        ("/v1/responses", responses),
    ] {
        let (app, seen) = saying("ok");
        assert_eq!(post(&app, path, &body).await.0, 200, "{path}");
        let Prompt::Chat { messages, .. } = seen.lock().unwrap().take().unwrap().prompt else {
            panic!()
        };
        talks.push(messages);
    }
    assert_eq!(
        talks[0].iter().map(|turn| turn.role).collect::<Vec<_>>(),
        [Role::User, Role::Assistant, Role::Tool]
    );
    assert!(talks.iter().all(|talk| *talk == talks[0]), "{talks:#?}");
}

#[tokio::test]
async fn one_call_at_a_time_stops_the_generation() {
    let (app, _) = saying(&format!("{ANSWER} {}", "and more ".repeat(200)));
    let body = json!({"messages": [{"role": "user", "content": "hi"}], "tools": functions(), "parallel_tool_calls": false});
    let (_, reply) = post(&app, "/v1/chat/completions", &body).await;
    assert_eq!(reply["choices"][0]["message"]["tool_calls"].as_array().unwrap().len(), 1);
    assert_eq!(reply["choices"][0]["finish_reason"], "tool_calls");
    let events = stream(
        &app,
        "/v1/messages",
        json!({"max_tokens": 900, "messages": [{"role": "user", "content": "hi"}], "tools": inputs(),
        "tool_choice": {"type": "auto", "disable_parallel_tool_use": true}}),
    )
    .await;
    let calls = events
        .iter()
        .filter(|(_, data)| data["content_block"]["type"] == "tool_use")
        .count();
    let stop = events.iter().find(|(name, _)| name == "message_delta").unwrap();
    assert_eq!((calls, &stop.1["delta"]["stop_reason"]), (1, &json!("tool_use")));
}

/// Case tp-010 on every route.
#[tokio::test]
async fn a_call_that_is_cut_off_ends_by_length() {
    let (app, _) = saying("<tool_call>\n{\"name\": \"read\", \"arguments\": {\"path\": \"one two three four five six seven eight");
    let chat = json!({"max_tokens": 6, "messages": [{"role": "user", "content": "hi"}], "tools": functions()});
    let (_, reply) = post(&app, "/v1/chat/completions", &chat).await;
    assert_eq!(
        (
            &reply["choices"][0]["finish_reason"],
            reply["choices"][0]["message"].get("tool_calls")
        ),
        (&json!("length"), None)
    );
    let messages = json!({"max_tokens": 6, "messages": [{"role": "user", "content": "hi"}], "tools": inputs()});
    let (_, reply) = post(&app, "/v1/messages", &messages).await;
    assert_eq!(
        (&reply["stop_reason"], &reply["content"][0]["type"]),
        (&json!("max_tokens"), &json!("text"))
    );
    let (_, reply) = post(
        &app,
        "/v1/responses",
        &json!({"input": "hi", "max_output_tokens": 6, "tools": flat()}),
    )
    .await;
    assert_eq!(
        (&reply["status"], &reply["incomplete_details"]["reason"]),
        (&json!("incomplete"), &json!("max_output_tokens"))
    );
    let events = stream(
        &app,
        "/v1/responses",
        json!({"input": "hi", "max_output_tokens": 6, "tools": flat()}),
    )
    .await;
    assert!(
        events
            .iter()
            .all(|(_, data)| data["item"]["type"] != "function_call" || data["type"] != "response.output_item.done")
    );
    assert_eq!(events.last().unwrap().0, "response.incomplete");
}

#[tokio::test]
async fn choices_none_and_named_reach_the_template() {
    let (app, seen) = saying(ANSWER);
    let told = |body: Value| {
        let (app, seen) = (app.clone(), seen.clone());
        async move {
            let (status, reply) = post(&app, "/v1/chat/completions", &body).await;
            assert_eq!(status, 200);
            let request = seen.lock().unwrap().take().unwrap();
            let Prompt::Chat { options, .. } = request.prompt else { panic!() };
            (options.tools.len(), request.constraint, reply)
        }
    };
    let ask = |choice: Value| json!({"messages": [{"role": "user", "content": "hi"}], "tools": functions(), "tool_choice": choice});
    let (count, constraint, reply) = told(ask(json!("none"))).await;
    assert_eq!((count, constraint), (0, None));
    assert!(
        reply["choices"][0]["message"]["content"].as_str().unwrap().contains("<tool_call>"),
        "markup is plain text then"
    );
    let (count, constraint, _) = told(ask(json!({"type": "function", "function": {"name": "read"}}))).await;
    assert_eq!(count, 1);
    // What the answer is held to reaches the engine: this function, and no other text.
    let constraint = constraint.unwrap();
    assert_eq!(constraint.answer, dspark_protocol::AnswerRule::Call);
    assert_eq!(constraint.calls.as_ref().unwrap().tools[0].name, "read");
}

#[tokio::test]
async fn text_completions_are_raw() {
    let (app, seen) = saying("<think>one</think> two three");
    let (status, reply) = post(&app, "/v1/completions", &json!({"prompt": "Once", "echo": true, "logprobs": 2})).await;
    assert_eq!((status, &reply["object"]), (200, &json!("text_completion")));
    assert_eq!(reply["choices"][0]["text"], "Once<think>one</think> two three");
    let logprobs = &reply["choices"][0]["logprobs"];
    assert_eq!(
        (&logprobs["tokens"][0], &logprobs["text_offset"][0]),
        (&json!("<think>one</think> "), &json!(4))
    );
    assert_eq!(seen.lock().unwrap().take().unwrap().prompt, Prompt::Text("Once".into()));
    let (_, reply) = post(&app, "/completions", &json!({"prompt": ["a", "b"], "n": 2})).await;
    assert_eq!(reply["choices"].as_array().unwrap().len(), 4);
    assert_eq!(reply["choices"][3]["index"], 3);
    let chunks = stream(
        &app,
        "/v1/completions",
        json!({"prompt": "x", "stream_options": {"include_usage": true}}),
    )
    .await;
    let said: String = chunks
        .iter()
        .filter_map(|(_, chunk)| chunk["choices"][0]["text"].as_str())
        .collect();
    assert_eq!(said, "<think>one</think> two three");
    // To the double every mark is one token, as it is to a model that was trained to fill in.
    let (status, _) = post(&app, "/v1/completions", &json!({"prompt": "x", "suffix": "y"})).await;
    assert_eq!(status, 200);
    let filled = Prompt::Text("<|fim_prefix|>x<|fim_suffix|>y<|fim_middle|>".into());
    assert_eq!(seen.lock().unwrap().take().unwrap().prompt, filled);
}

/// Case ag-013, and conformance test 11.
#[tokio::test]
async fn overflow_is_told_in_every_dialect() {
    let script = Script {
        answer: Arc::new(|_| {
            Err(EngineError::ContextOverflow {
                prompt: 32_799,
                window: 32_768,
            })
        }),
        ..Script::saying("")
    };
    let app = app(ServeConfig::default(), script);
    for streamed in [false, true] {
        let body = json!({"max_tokens": 9, "stream": streamed, "messages": [{"role": "user", "content": "hi"}]});
        let (status, error) = post(&app, "/v1/messages", &body).await;
        assert_eq!(status, 400);
        assert_eq!(
            (&error["type"], &error["error"]["type"], &error["error"]["message"]),
            (
                &json!("error"),
                &json!("invalid_request_error"),
                &json!("prompt is too long: 32799 tokens > 32768 maximum")
            )
        );
        let (status, error) = post(&app, "/v1/chat/completions", &body).await;
        assert_eq!((status, &error["error"]["code"]), (400, &json!("context_length_exceeded")));
    }
    let (status, error) = post(&app, "/v1/responses", &json!({"input": "hi"})).await;
    assert_eq!((status, &error["error"]["code"]), (400, &json!("context_length_exceeded")));
    let events = stream(&app, "/v1/responses", json!({"input": "hi"})).await;
    let names: Vec<&str> = events.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["response.created", "response.failed"]);
    assert_eq!(events[1].1["response"]["error"]["code"], "context_length_exceeded");
}

#[tokio::test]
async fn tokens_are_counted_beside_the_engine() {
    let script = Script {
        prefill: std::time::Duration::from_secs(2),
        ..Script::saying("Hi")
    };
    let app = app(ServeConfig::default(), script);
    let busy = tokio::spawn({
        let app = app.clone();
        async move { common::chat(&app, common::hi()).await }
    });
    common::eventually(|| !app.live().is_empty()).await;
    let body = json!({"system": "Be brief.", "messages": [{"role": "user", "content": "one two three"}], "model": "claude-x"});
    let begin = std::time::Instant::now();
    let (status, counted) = post(&app, "/v1/messages/count_tokens?beta=true", &body).await;
    // The double counts words: `System: Be brief. User: one two three`.
    assert_eq!((status, &counted), (200, &json!({"input_tokens": 7})));
    assert!(begin.elapsed() < std::time::Duration::from_secs(1));
    let (status, error) = post(&app, "/v1/messages/count_tokens", &json!({"messages": []})).await;
    assert_eq!((status, &error["error"]["type"]), (400, &json!("invalid_request_error")));
    let (_, tokens) = post(&app, "/tokenize", &json!({"content": "one two three"})).await;
    assert_eq!(tokens["count"], 3);
    busy.abort();
}

/// Agents name models of their own services: a 404 would end their turn.
#[tokio::test]
async fn agents_may_name_any_model() {
    let (app, _) = saying("ok");
    let named = json!({"model": "anthropic/claude-opus-9", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]});
    let (status, reply) = post(&app, "/v1/messages", &named).await;
    assert_eq!((status, &reply["model"]), (200, &json!("anthropic/claude-opus-9")));
    let (status, _) = post(&app, "/v1/responses", &json!({"model": "gpt-9-codex", "input": "hi"})).await;
    assert_eq!(status, 200);
    let (status, reply) = post(
        &app,
        "/v1/responses",
        &json!({"model": "local", "input": "", "max_output_tokens": 1}),
    )
    .await;
    assert_eq!((status, &reply["status"], &reply["output"]), (200, &json!("completed"), &json!([])));
}

/// Turn two of a conversation: the receipt says what is new; a changed beginning is shown.
#[tokio::test]
async fn receipts_name_what_changed() {
    let (app, _) = saying("ok");
    let ask = |system: &str, more: Value| {
        let mut messages = vec![json!({"role": "user", "content": "first"})];
        messages.extend(more.as_array().unwrap().clone());
        json!({"max_tokens": 9, "system": system, "messages": messages})
    };
    let (_, one) = post(&app, "/v1/messages", &ask("You are an agent.", json!([]))).await;
    assert!(one["x_mlx_dspark"]["cache"]["why"].as_str().unwrap().contains("nothing like this"));
    let next = json!([{"role": "assistant", "content": "ok"}, {"role": "user", "content": "more"}]);
    let (_, two) = post(&app, "/v1/messages", &ask("You are an agent.", next.clone())).await;
    // The double caches nothing, so what went on had to be computed again.
    assert!(
        two["x_mlx_dspark"]["cache"]["why"].as_str().unwrap().contains("no longer kept"),
        "{two}"
    );
    let (_, three) = post(&app, "/v1/messages", &ask("You are an agent. Today is Monday.", next)).await;
    let cache = &three["x_mlx_dspark"]["cache"];
    assert_eq!(cache["why"], "the system prompt is not what it was");
    assert_eq!(cache["first_difference"]["now"], " Today is Monday.");
}

/// A client that keeps a turn and asks again sends one whose last word is a call.
#[tokio::test]
async fn a_last_turn_of_calls_alone_is_answered() {
    let (app, _) = saying("Go on.");
    let function = json!({"name": "f", "arguments": "{}"});
    for (path, body) in [
        (
            "/v1/chat/completions",
            json!({"messages": [{"role": "user", "content": "hi"},
                {"role": "assistant", "content": null, "tool_calls": [{"id": "c1", "type": "function", "function": function}]}]}),
        ),
        (
            "/v1/messages",
            json!({"max_tokens": 9, "messages": [{"role": "user", "content": "hi"},
                {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "f", "input": {}}]}]}),
        ),
        (
            "/v1/responses",
            json!({"input": [{"role": "user", "content": "hi"}, {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}]}),
        ),
    ] {
        let (status, reply) = post(&app, path, &body).await;
        assert_eq!(status, 200, "{path}: {reply}");
        assert!(reply.to_string().contains("Go on."), "{path}: {reply}");
    }
}
