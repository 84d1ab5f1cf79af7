//! Output taken apart: each syntax, each reported fault, and every cut.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod cases;
mod cuts;
mod detection;
mod samples;
mod slips;

use dspark_text::output::{OutputSyntax, Piece, ReasoningSyntax, Splitter, SplitterOptions, ToolSchema};
use serde_json::{Value, json};

/// What came out, joined.
#[derive(Debug, Clone, PartialEq, Default)]
struct Output {
    reasoning: String,
    text: String,
    calls: Vec<(String, Value)>,
    unfinished: String,
}

/// A call each, arguments as JSON.
fn call(name: &str, arguments: Value) -> (String, Value) {
    (name.to_owned(), arguments)
}

/// Pieces joined into as few as possible, without their ids.
fn joined(pieces: Vec<Piece>) -> Vec<Piece> {
    let mut out: Vec<Piece> = Vec::new();
    for piece in pieces {
        match (out.last_mut(), piece) {
            (Some(Piece::Text(last)), Piece::Text(text)) | (Some(Piece::Reasoning(last)), Piece::Reasoning(text)) => last.push_str(&text),
            (
                Some(Piece::ToolArguments {
                    index: last,
                    fragment: all,
                }),
                Piece::ToolArguments { index, fragment },
            ) if *last == index => {
                all.push_str(&fragment);
            }
            (_, Piece::ToolStart { index, name, declared, id }) => {
                assert!(id.starts_with("call_") && id.len() == 29, "{id}");
                out.push(Piece::ToolStart {
                    index,
                    name,
                    declared,
                    id: String::new(),
                });
            }
            (_, piece) => out.push(piece),
        }
    }
    out
}

/// Checks the order of the pieces of calls, and reads them.
fn read(pieces: Vec<Piece>) -> Output {
    let mut output = Output::default();
    let mut open: Option<(usize, String, String)> = None;
    let mut next = 0;
    for piece in pieces {
        match piece {
            Piece::Reasoning(text) => output.reasoning.push_str(&text),
            Piece::Text(text) => {
                assert!(open.is_none(), "text inside a call: {text}");
                output.text.push_str(&text);
            }
            Piece::ToolStart { index, name, .. } => {
                assert_eq!((index, open.take()), (next, None));
                open = Some((index, name, String::new()));
            }
            Piece::ToolArguments { index, fragment } => {
                let (at, _, arguments) = open.as_mut().unwrap();
                assert_eq!(*at, index);
                arguments.push_str(&fragment);
            }
            Piece::ToolEnd { index } => {
                let (at, name, arguments) = open.take().unwrap();
                assert_eq!(at, index);
                next += 1;
                let arguments: Value = serde_json::from_str(&arguments).unwrap();
                assert!(arguments.is_object());
                output.calls.push((name, arguments));
            }
            Piece::ToolAborted { index } => {
                assert_eq!(open.take().unwrap().0, index);
                next += 1;
            }
            Piece::Unfinished(text) => output.unfinished.push_str(&text),
        }
    }
    assert_eq!(open, None, "a call without an end");
    output
}

fn pieces(options: &SplitterOptions, chunks: &[&str]) -> Vec<Piece> {
    let mut splitter = Splitter::new(options.clone());
    let mut pieces: Vec<Piece> = chunks.iter().flat_map(|chunk| splitter.push(chunk)).collect();
    pieces.extend(splitter.finish());
    assert_eq!(splitter.finish(), [], "everything has gone out");
    pieces
}

fn split(options: &SplitterOptions, text: &str) -> Output {
    read(pieces(options, &[text]))
}

/// Tools of many shapes.
fn tools() -> Vec<ToolSchema> {
    let schema = |properties: Value| json!({"type": "object", "properties": properties});
    [
        (
            "get_weather",
            schema(json!({"city": {"type": "string"}, "days": {"type": "integer"}})),
        ),
        (
            "f",
            schema(json!({
                "when": {"type": "integer"}, "ratio": {"type": "number"}, "tags": {"type": "array", "items": {"type": "string"}},
                "on": {"type": "boolean"}, "id": {"type": "string"}, "maybe": {"type": ["string", "null"]},
                "either": {"anyOf": [{"type": "integer"}, {"type": "null"}]}, "unit": {"enum": ["c", "f"]},
                "todos": {"type": "array", "items": {"$ref": "#/$defs/todo"}},
            })),
        ),
        ("write", schema(json!({"path": {"type": "string"}, "content": {"type": "string"}}))),
        ("q", Value::Null),
        ("w", schema(json!({"content": {"type": "string"}}))),
        ("create-pdf-file", Value::Null),
        ("web_search", schema(json!({"query": {"type": "string"}}))),
    ]
    .into_iter()
    .map(|(name, mut schema)| {
        if name == "f" {
            schema["$defs"] = json!({"todo": {"type": "object", "properties": {"n": {"type": "integer"}, "done": {"type": "boolean"}}}});
        }
        ToolSchema::new(name, schema)
    })
    .collect()
}

fn with_tools() -> SplitterOptions {
    SplitterOptions {
        tools: tools(),
        ..SplitterOptions::default()
    }
}

fn reasoning(reasoning: ReasoningSyntax) -> SplitterOptions {
    SplitterOptions {
        syntax: OutputSyntax { reasoning, tools: None },
        ..with_tools()
    }
}
