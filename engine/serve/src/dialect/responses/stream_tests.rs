use super::*;
use crate::{
    dialect::{responses::response_reply, tools::Alias},
    testing::{argue, meta, outcome, readable, start, transcript, turn},
};
use dspark_protocol::EngineError;

fn about(summary: bool) -> ResponseMeta {
    let aliases = [
        ("apply_patch".to_owned(), Alias::Custom),
        (
            "mcp__fs__read".to_owned(),
            Alias::Member {
                namespace: "mcp__fs".into(),
                name: "read".into(),
            },
        ),
    ];
    ResponseMeta {
        meta: meta("resp_1"),
        summary,
        aliases: aliases.into(),
        ..ResponseMeta::default()
    }
}

fn stream(pieces: Vec<Piece>, end: Result<Finish, EngineError>) -> String {
    transcript(ResponseFrames::new(about(false)), pieces, end)
}

fn events(text: &str) -> Vec<Value> {
    text.lines()
        .filter_map(|line| serde_json::from_str(line.strip_prefix("data: ")?).ok())
        .collect()
}

fn names(text: &str) -> Vec<&str> {
    text.lines().filter_map(|line| line.strip_prefix("event: ")).collect()
}

#[test]
fn stream_that_thinks_speaks_and_calls_twice() {
    insta::assert_snapshot!(stream(turn(), Ok(Finish::Calls)));
}

#[test]
fn stream_that_fails_half_way() {
    insta::assert_snapshot!(stream(
        vec![Piece::Text("Op".into())],
        Err(EngineError::Compute("out of memory".into()))
    ));
}

/// Case ag-008.
#[test]
fn plain_text_has_the_ladder_that_clients_know() {
    let text = stream(vec![Piece::Text("o".into()), Piece::Text("k".into())], Ok(Finish::Stop));
    let wanted = [
        "response.created",
        "response.in_progress",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ];
    assert_eq!(names(&text), wanted);
    let events = events(&text);
    for (index, event) in events.iter().enumerate() {
        assert_eq!(event["sequence_number"], index);
        if event["type"].as_str().unwrap().rsplit('.').next() == Some("delta") {
            assert!(
                ["item_id", "output_index", "content_index"]
                    .iter()
                    .all(|name| !event[name].is_null()),
                "{event}"
            );
        }
    }
    let last = &events.last().unwrap()["response"];
    assert_eq!(last["output"][0]["content"][0]["text"], "ok");
    assert_eq!(last["usage"]["input_tokens_details"]["cached_tokens"], 768);
}

#[test]
fn summaries_go_with_the_reasoning_where_they_are_wanted() {
    let text = transcript(
        ResponseFrames::new(about(true)),
        vec![Piece::Reasoning("hm".into())],
        Ok(Finish::Stop),
    );
    for name in [
        "reasoning_summary_part.added",
        "reasoning_summary_text.delta",
        "reasoning_summary_text.done",
        "reasoning_text.delta",
    ] {
        assert!(names(&text).contains(&format!("response.{name}").as_str()), "{name}: {text}");
    }
    let last = events(&text).pop().unwrap();
    assert_eq!(last["response"]["output"][0]["summary"][0]["text"], "hm");
}

#[test]
fn freeform_tools_and_members_come_back_under_their_own_names() {
    let pieces = vec![
        start(0, "apply_patch"),
        argue(0, "{\"input\":\"*** Begin"),
        argue(0, "\\n\"}"),
        Piece::ToolEnd { index: 0 },
        start(1, "mcp__fs__read"),
        argue(1, "{\"path\":\"a\"}"),
        Piece::ToolEnd { index: 1 },
    ];
    let text = stream(pieces.clone(), Ok(Finish::Calls));
    let last = events(&text).pop().unwrap();
    let [patch, read] = last["response"]["output"].as_array().unwrap().as_slice() else {
        panic!()
    };
    assert_eq!(
        (&patch["type"], &patch["input"]),
        (&json!("custom_tool_call"), &json!("*** Begin\n"))
    );
    assert_eq!(
        (&read["type"], &read["namespace"], &read["name"], &read["arguments"]),
        (
            &json!("function_call"),
            &json!("mcp__fs"),
            &json!("read"),
            &json!("{\"path\":\"a\"}")
        )
    );
    assert!(names(&text).contains(&"response.custom_tool_call_input.done"));
    let whole = response_reply(&about(false), Some(&outcome(pieces, Finish::Calls)));
    assert_eq!(whole["output"][0]["input"], "*** Begin\n");
}

/// Codex runs what an `output_item.done` names: a call that broke off must have none.
#[test]
fn a_call_that_broke_off_is_never_done() {
    let pieces = vec![
        Piece::Text("So".into()),
        start(0, "f"),
        argue(0, "{\"a"),
        Piece::ToolAborted { index: 0 },
    ];
    let text = stream(pieces, Ok(Finish::Length));
    let events = events(&text);
    let done = events.iter().filter(|event| event["type"] == "response.output_item.done");
    assert!(done.clone().count() == 1 && done.clone().all(|event| event["item"]["type"] == "message"));
    let last = events.last().unwrap();
    assert_eq!(
        (&last["type"], &last["response"]["status"]),
        (&json!("response.incomplete"), &json!("incomplete"))
    );
    assert_eq!(last["response"]["incomplete_details"]["reason"], "max_output_tokens");
    assert_eq!(last["response"]["output"].as_array().unwrap().len(), 1);
}

#[test]
fn overflow_is_told_in_the_stream_by_the_code_that_compacts() {
    let error = ApiError::from(EngineError::ContextOverflow {
        prompt: 9000,
        window: 8192,
    });
    let text = ResponseFrames::new(about(false)).refused(&error);
    assert_eq!(names(&text), ["response.created", "response.failed"]);
    assert_eq!(events(&text)[1]["response"]["error"]["code"], "context_length_exceeded");
}

/// Case ag-010.
#[test]
fn an_empty_question_completes() {
    let text = ResponseFrames::new(about(false)).nothing();
    assert_eq!(names(&text), ["response.created", "response.in_progress", "response.completed"]);
    assert_eq!(response_reply(&about(false), None)["status"], "completed");
}

#[test]
fn whole_reply() {
    let reply = response_reply(&about(false), Some(&outcome(turn(), Finish::Calls)));
    insta::assert_snapshot!(readable(&serde_json::to_string_pretty(&reply).unwrap()));
}
