//! One test per case of `data/reports.jsonl`: what went wrong in other servers, with what should happen.

use super::{Output, call, pieces, read, split};
use dspark_text::output::{Piece, SplitterOptions, ToolSchema};
use serde_json::{Value, json};
use std::{fs, path::Path};

fn case(id: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/reports.jsonl");
    let lines = fs::read_to_string(path).unwrap();
    let mut cases = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    cases.find(|case| case["id"] == id).unwrap_or_else(|| panic!("no case {id}"))
}

fn options(case: &Value) -> SplitterOptions {
    let tools = case["given"]["tools"].as_array().into_iter().flatten().map(|tool| match tool {
        Value::String(name) => ToolSchema::new(name.as_str(), Value::Null),
        tool => ToolSchema::from_json(tool).unwrap(),
    });
    SplitterOptions {
        tools: tools.collect(),
        prompt: case["given"]["prompt_tail"].as_str().unwrap_or_default().into(),
        ..SplitterOptions::default()
    }
}

fn text<'a>(case: &'a Value, key: &str) -> &'a str {
    case["expect"][key].as_str().unwrap_or_default()
}

/// Cases with raw text and the calls expected of it.
#[test]
fn tp_raw_text() {
    for id in [
        "tp-001-hermes",
        "tp-003-xml-bad-int",
        "tp-005-xml-bad-array",
        "tp-006-xml-unwrapped",
        "tp-008-xml-newlines",
        "tp-012-gemma-plain-quotes",
        "tp-013-gemma-namespaced",
        "tp-015-fake-prose-call",
    ] {
        let case = case(id);
        let output = split(&options(&case), case["given"]["raw"].as_str().unwrap());
        let calls: Vec<(String, Value)> = case["expect"]["tool_calls"]
            .as_array()
            .unwrap()
            .iter()
            .map(|expected| call(expected["name"].as_str().unwrap(), expected["arguments"].clone()))
            .collect();
        let expected = Output {
            calls,
            text: text(&case, "content").into(),
            ..Output::default()
        };
        assert_eq!(output, expected, "{id}");
    }
}

#[test]
fn tp_010_a_truncated_call_is_none() {
    let case = case("tp-010-truncated");
    let raw = case["given"]["raw"].as_str().unwrap();
    for eager in [false, true] {
        let options = SplitterOptions { eager, ..options(&case) };
        let pieces = pieces(&options, &[raw]);
        assert!(!pieces.iter().any(|piece| matches!(piece, Piece::ToolEnd { .. } | Piece::Text(_))));
        assert_eq!(pieces.last(), Some(&Piece::Unfinished(raw.into())));
    }
}

#[test]
fn tp_016_the_last_characters_are_not_lost() {
    let case = case("tp-016-tail-20-chars");
    let chunks: Vec<&str> = case["given"]["chunks"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str)
        .collect();
    assert_eq!(read(pieces(&options(&case), &chunks)).text, text(&case, "text_concat"));
}

#[test]
fn tp_017_streamed_arguments_are_those_of_the_whole() {
    let case = case("tp-017-stream-args");
    let chunks: Vec<&str> = case["given"]["chunks"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str)
        .collect();
    for eager in [false, true] {
        let options = SplitterOptions { eager, ..options(&case) };
        let pieces = pieces(&options, &chunks);
        for piece in &pieces {
            assert!(!matches!(piece, Piece::ToolArguments { fragment, .. } if fragment.contains("</par")));
        }
        assert_eq!(
            read(pieces).calls,
            [call("w", case["expect"]["arguments_concat_parses_to"].clone())]
        );
    }
}

#[test]
fn rp_002_the_prompt_may_open_the_block() {
    let case = case("rp-002-dangling-close");
    let output = split(&options(&case), case["given"]["raw"].as_str().unwrap());
    assert_eq!(
        (output.reasoning.trim(), output.text.trim()),
        (text(&case, "reasoning_stripped"), text(&case, "content_stripped"))
    );
}

#[test]
fn rp_006_prose_about_tools_is_no_call() {
    let case = case("rp-006-prose-about-tools");
    let output = split(&options(&case), case["given"]["raw"].as_str().unwrap());
    assert_eq!((output.calls, output.text.as_str()), (vec![], text(&case, "content")));
    assert!(output.reasoning.contains(text(&case, "reasoning_contains")));
}

/// Three spellings of a tool, as clients send them.
#[test]
fn tools_are_read_in_every_dialect() {
    let schema = json!({"type": "object"});
    for tool in [
        json!({"type": "function", "function": {"name": "f", "parameters": schema}}),
        json!({"type": "function", "name": "f", "parameters": schema, "strict": false}),
        json!({"name": "f", "input_schema": schema}),
    ] {
        assert_eq!(ToolSchema::from_json(&tool), Some(ToolSchema::new("f", schema.clone())));
    }
    assert_eq!(ToolSchema::from_json(&json!({"type": "web_search"})), None);
}
