//! Parity with `transformers`: `tests/scripts/render_templates.py` wrote what it renders.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use super::{ChatTemplate, python::Clock};
use crate::{
    TextError,
    context::{Conversation, Plain, json},
};
use dspark_protocol::{Message, Role, TemplateOptions, ToolCall};
use minijinja::Value;
use serde_json::Value as Json;
use std::{collections::BTreeMap, fs, path::PathBuf, sync::Arc};

fn data(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

fn read(name: &str) -> Json {
    serde_json::from_str(&fs::read_to_string(data(name)).unwrap()).unwrap()
}

fn clock() -> Clock {
    Arc::new(|| "2026-03-07T23:30:00[UTC]".parse().unwrap())
}

/// The rendering, or the error in the words of the template.
fn outcome(template: Result<ChatTemplate, TextError>, context: Value) -> Result<String, String> {
    template
        .and_then(|template| template.render(context, 0))
        .map_err(|error| error.to_string())
}

fn message(case: &Json) -> Message {
    let text = |name: &str| case[name].as_str().map(str::to_owned);
    let calls = case["tool_calls"].as_array().into_iter().flatten().map(|call| ToolCall {
        id: call["id"].as_str().unwrap().to_owned(),
        name: call["function"]["name"].as_str().unwrap().to_owned(),
        arguments: call["function"]["arguments"].clone(),
    });
    Message {
        role: serde_json::from_value::<Role>(case["role"].clone()).unwrap(),
        content: text("content").unwrap(),
        reasoning: text("reasoning_content"),
        tool_calls: calls.collect(),
        tool_call_id: text("tool_call_id"),
        name: text("name"),
    }
}

#[test]
fn templates_render_as_in_transformers() {
    let specials = BTreeMap::from([
        ("bos_token".to_owned(), "<s>".to_owned()),
        ("eos_token".to_owned(), "</s>".to_owned()),
    ]);
    let cases = read("conversations.json");
    let mut checked = 0;
    for (name, expected) in read("rendered.json").as_object().unwrap() {
        let source = fs::read_to_string(data(&format!("templates/{name}.jinja"))).unwrap();
        for case in cases.as_array().unwrap() {
            let label = case["name"].as_str().unwrap();
            let messages: Vec<Message> = case["messages"].as_array().unwrap().iter().map(message).collect();
            let given = &case["options"];
            let options = TemplateOptions {
                enable_thinking: given["enable_thinking"].as_bool(),
                reasoning_effort: given["reasoning_effort"].as_str().map(str::to_owned),
                tools: case["tools"].as_array().cloned().unwrap_or_default(),
                extra: given["extra"].as_object().cloned().unwrap_or_default(),
                continue_final_message: false,
            };
            let conversation = Conversation {
                messages: &messages,
                options: &options,
                generation_prompt: given["add_generation_prompt"] != false,
                specials: &specials,
                end_mark: None,
            };
            let got = outcome(ChatTemplate::compile(&source, clock()), conversation.context(&Plain));
            match &expected[label] {
                Json::String(text) => assert_eq!(got.as_ref(), Ok(text), "{name}: {label}"),
                error => assert_eq!(got, Err(error["error"].as_str().unwrap().to_owned()), "{name}: {label}"),
            }
            checked += 1;
        }
    }
    assert!(checked >= 9 * 14);
}

#[test]
fn snippets_render_as_in_transformers() {
    let mut wrong = Vec::new();
    for snippet in read("snippets.json").as_array().unwrap() {
        let source = snippet["template"].as_str().unwrap();
        let context = json(&snippet.get("context").cloned().unwrap_or_else(|| serde_json::json!({})), &Plain);
        let got = outcome(ChatTemplate::compile(source, clock()), context);
        let same = match &snippet["expect"] {
            Json::String(text) => got.as_ref() == Ok(text),
            // Whether it is an error is what counts; only the template's own errors have words of their own.
            error => got
                .as_ref()
                .is_err_and(|got| !source.contains("raise_exception") || error["error"] == **got),
        };
        if !same {
            wrong.push(format!("{source}\n  want {}\n  got  {got:?}", snippet["expect"]));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The cases of `tests/data/reports.jsonl` that are a template with its variables.
#[test]
fn reported_templates_render_as_expected() {
    let mut checked = 0;
    for line in fs::read_to_string(data("reports.jsonl")).unwrap().lines() {
        let case: Json = serde_json::from_str(line).unwrap();
        let (Some(source), Some(variables), Some(expected)) = (
            case["given"]["template"].as_str(),
            case["given"].get("context"),
            case["expect"]["rendered"].as_str(),
        ) else {
            continue;
        };
        assert_eq!(
            outcome(ChatTemplate::compile(source, clock()), json(variables, &Plain)).as_deref(),
            Ok(expected),
            "{}",
            case["id"]
        );
        checked += 1;
    }
    assert_eq!(checked, 10);
}

/// More cases than this repository holds: `MLX_DSPARK_TEMPLATE_CASES` names a JSON file of `{name, template, context, expect}`,
/// where `expect` is what `transformers` renders, or `{"error": …}`. Without it nothing is checked.
#[test]
fn cases_from_elsewhere_render_as_in_transformers() {
    let Some(path) = std::env::var_os("MLX_DSPARK_TEMPLATE_CASES") else {
        return;
    };
    let cases: Json = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let mut wrong = Vec::new();
    for case in cases.as_array().unwrap() {
        let got = outcome(
            ChatTemplate::compile(case["template"].as_str().unwrap(), clock()),
            json(&case["context"], &Plain),
        );
        let same = match &case["expect"] {
            Json::String(text) => got.as_ref() == Ok(text),
            _ => got.is_err(),
        };
        if !same {
            let got = got.map_or_else(|error| serde_json::json!({"error": error}), Json::String);
            wrong.push(format!("{}\n  want {}\n  got  {got}", case["name"], case["expect"]));
        }
    }
    let total = cases.as_array().unwrap().len();
    assert!(wrong.is_empty(), "{} of {total} differ:\n{}", wrong.len(), wrong.join("\n"));
}
