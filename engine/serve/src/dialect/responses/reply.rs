//! An answer as a whole response, and the items that both forms are made of.

use crate::{
    dialect::{Meta, extension, tools::Alias},
    generate::{Closing, Outcome},
    ids,
    reader::{Call, Finish},
};
use dspark_protocol::Usage;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// What a reply repeats.
#[derive(Debug, Clone, Default)]
pub(crate) struct ResponseMeta {
    pub(crate) meta: Meta,
    /// Fields that repeat the request's.
    pub(crate) echo: Map<String, Value>,
    pub(crate) aliases: BTreeMap<String, Alias>,
    /// Summaries of the reasoning are wanted.
    pub(crate) summary: bool,
}

pub(super) fn usage(usage: &Usage) -> Value {
    json!({
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    })
}

pub(super) fn id(prefix: &str) -> String {
    format!("{prefix}_{}", ids::hex(16))
}

impl ResponseMeta {
    /// The response around its items.
    pub(super) fn response(&self, status: &str, output: &[Value]) -> Value {
        let mut response = json!({
            "id": self.meta.id,
            "object": "response",
            "created_at": self.meta.created,
            "status": status,
            "error": null,
            "incomplete_details": null,
            "model": self.meta.model,
            "output": output,
            "usage": null,
        });
        if let Some(map) = response.as_object_mut() {
            map.extend(self.echo.clone());
        }
        response
    }

    /// The response once it has ended; (its status and) what it cost.
    pub(super) fn finished(&self, closing: &Closing, output: &[Value]) -> Value {
        let cut = closing.end.finish == Finish::Length;
        let mut response = self.response(if cut { "incomplete" } else { "completed" }, output);
        if cut {
            response["incomplete_details"] = json!({"reason": "max_output_tokens"});
        }
        response["usage"] = usage(&closing.end.usage);
        response[extension::KEY] = extension::block(closing, &self.meta.request_id);
        response
    }

    /// A call's item. Its arguments are `""` while it is in progress.
    pub(super) fn call(&self, item: &Place, call: &Call, status: &str) -> Value {
        match self.aliases.get(&call.name) {
            Some(Alias::Custom) => json!({
                "id": item.id, "type": "custom_tool_call", "status": status, "call_id": item.call_id, "name": call.name,
                "input": freeform(&call.arguments),
            }),
            Some(Alias::Member { namespace, name }) => json!({
                "id": item.id, "type": "function_call", "status": status, "call_id": item.call_id, "namespace": namespace, "name": name,
                "arguments": call.arguments,
            }),
            None => json!({
                "id": item.id, "type": "function_call", "status": status, "call_id": item.call_id, "name": call.name,
                "arguments": call.arguments,
            }),
        }
    }

    pub(super) fn is_custom(&self, name: &str) -> bool {
        self.aliases.get(name) == Some(&Alias::Custom)
    }

    /// The names of a call's item.
    pub(super) fn place(&self, name: &str) -> Place {
        Place {
            id: id(if self.is_custom(name) { "ctc" } else { "fc" }),
            call_id: format!("call_{}", ids::hex(12)),
        }
    }

    pub(super) fn thought(&self, id: &str, text: &str) -> Value {
        let summary = if self.summary {
            json!([{"type": "summary_text", "text": text}])
        } else {
            json!([])
        };
        json!({
            "id": id, "type": "reasoning", "summary": summary, "content": [{"type": "reasoning_text", "text": text}],
            "encrypted_content": null, "status": "completed",
        })
    }
}

/// The names of a call's item.
#[derive(Debug, Clone, Default)]
pub(super) struct Place {
    pub(super) id: String,
    pub(super) call_id: String,
}

/// The text of a freeform tool: its one argument, or whatever the model wrote in its stead.
pub(super) fn freeform(arguments: &str) -> String {
    let object = serde_json::from_str::<Value>(arguments).ok();
    let input = object.as_ref().and_then(|object| object.get("input")).and_then(Value::as_str);
    input.map_or_else(|| arguments.to_owned(), str::to_owned)
}

pub(super) fn part(text: &str) -> Value {
    json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []})
}

pub(super) fn message(id: &str, text: &str, status: &str) -> Value {
    json!({"id": id, "type": "message", "status": status, "role": "assistant", "content": [part(text)]})
}

/// The whole response; `None` is the answer to an empty question.
pub(crate) fn response_reply(meta: &ResponseMeta, outcome: Option<&Outcome>) -> Value {
    let Some(outcome) = outcome else {
        let mut response = meta.response("completed", &[]);
        response["usage"] = usage(&Usage::default());
        return response;
    };
    let answer = &outcome.answer;
    let mut output = Vec::new();
    let reasoning = answer.reasoning.trim();
    if !reasoning.is_empty() {
        output.push(meta.thought(&id("rs"), reasoning));
    }
    let prose = answer.prose();
    if !prose.is_empty() || (answer.calls.is_empty() && reasoning.is_empty()) {
        let cut = outcome.closing.end.finish == Finish::Length;
        output.push(message(&id("msg"), prose, if cut { "incomplete" } else { "completed" }));
    }
    for call in &answer.calls {
        output.push(meta.call(&meta.place(&call.name), call, "completed"));
    }
    meta.finished(&outcome.closing, &output)
}
