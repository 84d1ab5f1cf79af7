//! An answer as a chat completion, whole or in chunks.

use super::logprobs::{Logprobs, logprobs};
use crate::{
    UsageChunk,
    dialect::{Meta, extension},
    error::ApiError,
    generate::{Closing, Opening, Outcome},
    ids,
    reader::{Call, Finish},
    sse::{Frames, data},
};
use dspark_protocol::{Mode, TokenInfo, Usage};
use dspark_text::output::Piece;
use serde::Serialize;
use serde_json::{Value, json};

pub(super) fn fingerprint(meta: &Meta, mode: Mode) -> String {
    let mode = serde_json::to_value(mode).ok();
    let mode = mode.as_ref().and_then(Value::as_str).unwrap_or("auto");
    format!("mlx-dspark-{}-{mode}", meta.version)
}

/// `legacy`: the call goes into the old `function_call` field.
fn finish_reason(finish: &Finish, legacy: bool) -> &'static str {
    match finish {
        Finish::Length => "length",
        Finish::Calls if legacy => "function_call",
        Finish::Calls => "tool_calls",
        // A generation that someone stopped has said what it has said; the detail is in the extension.
        Finish::Stop | Finish::StopString(_) => "stop",
    }
}

pub(super) fn usage(usage: &Usage) -> Value {
    json!({
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    })
}

/// The prompt counts once, what was generated counts for every generation.
pub(super) fn total(outcomes: &[Outcome]) -> Usage {
    let mut total = Usage::default();
    for (index, outcome) in outcomes.iter().enumerate() {
        let one = outcome.closing.end.usage;
        if index == 0 {
            (total.prompt_tokens, total.cached_tokens) = (one.prompt_tokens, one.cached_tokens);
        }
        total.completion_tokens += one.completion_tokens;
        total.reasoning_tokens += one.reasoning_tokens;
    }
    total
}

fn call_id() -> String {
    format!("call_{}", ids::hex(12))
}

fn message(meta: &Meta, outcome: &Outcome) -> Value {
    let answer = &outcome.answer;
    let prose = answer.prose();
    let content = (answer.calls.is_empty() || !prose.is_empty()).then_some(prose);
    let mut message = json!({"role": "assistant", "content": content, "refusal": null});
    if !answer.reasoning.is_empty() {
        message["reasoning_content"] = json!(answer.reasoning.trim());
    }
    if let Some(first) = answer.calls.first().filter(|_| meta.legacy_calls) {
        message["function_call"] = json!({"name": first.name, "arguments": first.arguments});
    } else if !answer.calls.is_empty() {
        let call = |Call { name, arguments }: &Call| json!({"id": call_id(), "type": "function", "function": {"name": name, "arguments": arguments}});
        message["tool_calls"] = answer.calls.iter().map(call).collect();
    }
    message
}

/// The whole reply. One outcome is repeated `n` times (a greedy request's choices are one text); several are one each.
pub(crate) fn chat_reply(meta: &Meta, outcomes: &[Outcome], n: usize) -> Value {
    let choice = |index: usize, outcome: &Outcome| {
        json!({
            "index": index,
            "message": message(meta, outcome),
            "logprobs": meta.logprobs.then(|| logprobs(&outcome.answer.tokens)),
            "finish_reason": finish_reason(&outcome.closing.end.finish, meta.legacy_calls),
        })
    };
    let choices: Vec<Value> = match outcomes {
        [only] => (0..n).map(|index| choice(index, only)).collect(),
        several => several.iter().enumerate().map(|(index, outcome)| choice(index, outcome)).collect(),
    };
    let mut reply = json!({
        "id": meta.id,
        "object": "chat.completion",
        "created": meta.created,
        "model": meta.model,
        "choices": choices,
        "usage": usage(&total(outcomes)),
    });
    if let Some(first) = outcomes.first() {
        reply["system_fingerprint"] = json!(fingerprint(meta, first.closing.summary.effective_mode));
        reply[extension::KEY] = extension::block(&first.closing, &meta.request_id);
    }
    reply
}

#[derive(Serialize)]
struct Chunk<'a> {
    id: &'a str,
    object: &'static str,
    created: u64,
    model: &'a str,
    choices: &'a [Choice<'a>],
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    x_mlx_dspark: Option<&'a Value>,
}

#[derive(Serialize)]
struct Choice<'a> {
    index: usize,
    delta: Delta<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    logprobs: Option<Logprobs<'a>>,
    finish_reason: Option<&'static str>,
}

#[derive(Serialize, Default)]
struct Delta<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_calls: Option<[ToolDelta<'a>; 1]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    function_call: Option<FunctionDelta<'a>>,
}

/// Every first delta of a call has an index, an id and a name; later ones have the index and more arguments. Clients
/// break on any other shape.
#[derive(Serialize)]
struct ToolDelta<'a> {
    index: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    function: FunctionDelta<'a>,
}

#[derive(Serialize)]
struct FunctionDelta<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    arguments: &'a str,
}

/// A chat completion as server-sent chunks: role, reasoning…, text…, calls…, finish, usage when asked for, `[DONE]`.
pub(crate) struct ChatFrames {
    meta: Meta,
    usage: Option<UsageChunk>,
    /// Their log-probabilities go with the next chunk.
    tokens: Vec<TokenInfo>,
}

impl ChatFrames {
    /// `usage` is where to put it, or `None` where the client did not ask.
    pub(crate) fn new(meta: Meta, usage: Option<UsageChunk>) -> Self {
        Self {
            meta,
            usage,
            tokens: Vec::new(),
        }
    }

    fn chunk(&self, out: &mut String, choices: &[Choice<'_>], usage: Option<&Value>, extension: Option<&Value>) {
        data(
            out,
            &Chunk {
                id: &self.meta.id,
                object: "chat.completion.chunk",
                created: self.meta.created,
                model: &self.meta.model,
                choices,
                usage,
                x_mlx_dspark: extension,
            },
        );
    }

    fn delta(&mut self, out: &mut String, delta: Delta<'_>) {
        let tokens = std::mem::take(&mut self.tokens);
        let choice = Choice {
            index: 0,
            delta,
            logprobs: (!tokens.is_empty()).then(|| logprobs(&tokens)),
            finish_reason: None,
        };
        self.chunk(out, &[choice], None, None);
    }

    fn call(&mut self, out: &mut String, index: usize, name: Option<&str>, arguments: &str) {
        let function = FunctionDelta { name, arguments };
        let delta = if self.meta.legacy_calls {
            Delta {
                function_call: Some(function),
                ..Delta::default()
            }
        } else {
            let call = ToolDelta {
                index,
                id: name.map(|_| call_id()),
                kind: name.map(|_| "function"),
                function,
            };
            Delta {
                tool_calls: Some([call]),
                ..Delta::default()
            }
        };
        self.delta(out, delta);
    }
}

impl Frames for ChatFrames {
    fn open(&mut self, _: Opening, out: &mut String) {
        let role = Delta {
            role: Some("assistant"),
            content: Some(""),
            ..Delta::default()
        };
        self.delta(out, role);
    }

    fn tokens(&mut self, tokens: &[TokenInfo]) {
        if self.meta.logprobs {
            self.tokens.extend_from_slice(tokens);
        }
    }

    fn piece(&mut self, piece: Piece, out: &mut String) {
        match piece {
            Piece::Text(text) | Piece::Unfinished(text) => {
                let content = Delta {
                    content: Some(&text),
                    ..Delta::default()
                };
                self.delta(out, content);
            }
            Piece::Reasoning(text) => {
                let thought = Delta {
                    reasoning_content: Some(&text),
                    ..Delta::default()
                };
                self.delta(out, thought);
            }
            Piece::ToolStart { index, name, .. } => self.call(out, index, Some(&name), ""),
            Piece::ToolArguments { index, fragment } => self.call(out, index, None, &fragment),
            Piece::ToolEnd { .. } | Piece::ToolAborted { .. } => {}
        }
    }

    /// Tokens whose text is held back still tell their log-probabilities.
    fn settle(&mut self, out: &mut String) {
        if !self.tokens.is_empty() {
            let nothing = Delta {
                content: Some(""),
                ..Delta::default()
            };
            self.delta(out, nothing);
        }
    }

    fn finish(&mut self, closing: &Closing, out: &mut String) {
        let extension = extension::block(closing, &self.meta.request_id);
        let usage = usage(&closing.end.usage);
        let choice = Choice {
            index: 0,
            delta: Delta::default(),
            logprobs: None,
            finish_reason: Some(finish_reason(&closing.end.finish, self.meta.legacy_calls)),
        };
        match self.usage {
            None => self.chunk(out, &[choice], None, Some(&extension)),
            Some(UsageChunk::Merged) => self.chunk(out, &[choice], Some(&usage), Some(&extension)),
            Some(UsageChunk::Separate) => {
                self.chunk(out, &[choice], None, None);
                self.chunk(out, &[], Some(&usage), Some(&extension));
            }
        }
        out.push_str("data: [DONE]\n\n");
    }

    fn keep_alive(&mut self, out: &mut String) {
        self.delta(out, Delta::default());
    }

    fn fail(&mut self, error: &ApiError, out: &mut String) {
        data(out, &super::error(error));
        out.push_str("data: [DONE]\n\n");
    }
}

#[cfg(test)]
#[path = "reply_tests.rs"]
mod tests;
