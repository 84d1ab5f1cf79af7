//! An answer as a message, whole or as events.

use crate::{
    dialect::{Meta, extension},
    error::ApiError,
    generate::{Closing, Opening, Outcome},
    ids,
    reader::{End, Finish},
    sse::{Frames, named},
};
use dspark_protocol::Usage;
use dspark_text::output::Piece;
use serde_json::{Value, json};

/// Clients send it back with the thinking; any constant will do.
const SIGNATURE: &str = "mlx-dspark";

fn call_id() -> String {
    format!("toolu_{}", ids::hex(12))
}

/// The stop reason, and the stop sequence where one matched.
fn stop(end: &End) -> (&'static str, Option<&str>) {
    match &end.finish {
        Finish::Stop => ("end_turn", None),
        Finish::StopString(text) => ("stop_sequence", Some(text)),
        Finish::Length => ("max_tokens", None),
        Finish::Calls => ("tool_use", None),
    }
}

/// Anthropic's `input_tokens` are those that were computed: clients add the cached ones themselves.
fn usage(usage: &Usage) -> Value {
    json!({
        "input_tokens": usage.prompt_tokens.saturating_sub(usage.cached_tokens),
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": usage.cached_tokens,
        "output_tokens": usage.completion_tokens,
    })
}

/// Arguments as an object: a client would choke on anything else.
fn input(arguments: &str) -> Value {
    serde_json::from_str(arguments)
        .ok()
        .filter(Value::is_object)
        .unwrap_or_else(|| json!({}))
}

pub(crate) fn message_reply(meta: &Meta, outcome: &Outcome) -> Value {
    let (answer, end) = (&outcome.answer, &outcome.closing.end);
    let mut content = Vec::new();
    let reasoning = answer.reasoning.trim();
    if !reasoning.is_empty() {
        content.push(json!({"type": "thinking", "thinking": reasoning, "signature": SIGNATURE}));
    }
    let prose = answer.prose();
    if !prose.is_empty() || answer.calls.is_empty() {
        content.push(json!({"type": "text", "text": prose}));
    }
    for call in &answer.calls {
        content.push(json!({"type": "tool_use", "id": call_id(), "name": call.name, "input": input(&call.arguments)}));
    }
    let (reason, sequence) = stop(end);
    let mut reply = json!({
        "id": meta.id,
        "type": "message",
        "role": "assistant",
        "model": meta.model,
        "content": content,
        "stop_reason": reason,
        "stop_sequence": sequence,
        "usage": usage(&end.usage),
    });
    reply[extension::KEY] = extension::block(&outcome.closing, &meta.request_id);
    reply
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Block {
    Text,
    Thinking,
    Tool,
}

/// A message as server-sent events: start, ping, blocks one after the other, delta, stop.
pub(crate) struct MessageFrames {
    meta: Meta,
    open: Option<Block>,
    /// Of the open block, or of the next.
    index: usize,
    /// Whether the open tool block has said anything.
    argued: bool,
}

impl MessageFrames {
    pub(crate) fn new(meta: Meta) -> Self {
        Self {
            meta,
            open: None,
            index: 0,
            argued: false,
        }
    }

    fn start(&mut self, block: Block, content: &Value, out: &mut String) {
        self.close(out);
        self.open = Some(block);
        let event = json!({"type": "content_block_start", "index": self.index, "content_block": content});
        named(out, "content_block_start", &event);
    }

    fn delta(&self, delta: &Value, out: &mut String) {
        let event = json!({"type": "content_block_delta", "index": self.index, "delta": delta});
        named(out, "content_block_delta", &event);
    }

    fn close(&mut self, out: &mut String) {
        let Some(block) = self.open.take() else { return };
        match block {
            Block::Thinking => self.delta(&json!({"type": "signature_delta", "signature": SIGNATURE}), out),
            // At least one delta, or clients take the input for missing.
            Block::Tool if !self.argued => self.delta(&json!({"type": "input_json_delta", "partial_json": ""}), out),
            Block::Tool | Block::Text => {}
        }
        named(
            out,
            "content_block_stop",
            &json!({"type": "content_block_stop", "index": self.index}),
        );
        self.index += 1;
    }
}

impl Frames for MessageFrames {
    fn open(&mut self, opening: Opening, out: &mut String) {
        let begun = Usage {
            prompt_tokens: opening.prompt_tokens,
            cached_tokens: opening.cached_tokens,
            ..Usage::default()
        };
        let message = json!({
            "id": self.meta.id,
            "type": "message",
            "role": "assistant",
            "model": self.meta.model,
            "content": [],
            "stop_reason": null,
            "stop_sequence": null,
            "usage": usage(&begun),
        });
        named(out, "message_start", &json!({"type": "message_start", "message": message}));
        self.keep_alive(out);
    }

    fn piece(&mut self, piece: Piece, out: &mut String) {
        match piece {
            Piece::Text(text) | Piece::Unfinished(text) => {
                if self.open != Some(Block::Text) {
                    self.start(Block::Text, &json!({"type": "text", "text": ""}), out);
                }
                self.delta(&json!({"type": "text_delta", "text": text}), out);
            }
            Piece::Reasoning(text) => {
                if self.open != Some(Block::Thinking) {
                    self.start(Block::Thinking, &json!({"type": "thinking", "thinking": "", "signature": ""}), out);
                }
                self.delta(&json!({"type": "thinking_delta", "thinking": text}), out);
            }
            Piece::ToolStart { name, .. } => {
                let block = json!({"type": "tool_use", "id": call_id(), "name": name, "input": {}});
                self.start(Block::Tool, &block, out);
                self.argued = false;
            }
            Piece::ToolArguments { fragment, .. } => {
                self.argued = true;
                self.delta(&json!({"type": "input_json_delta", "partial_json": fragment}), out);
            }
            Piece::ToolEnd { .. } | Piece::ToolAborted { .. } => self.close(out),
        }
    }

    fn finish(&mut self, closing: &Closing, out: &mut String) {
        if self.open.is_none() && self.index == 0 {
            self.start(Block::Text, &json!({"type": "text", "text": ""}), out);
        }
        self.close(out);
        let (reason, sequence) = stop(&closing.end);
        let mut event = json!({
            "type": "message_delta",
            "delta": {"stop_reason": reason, "stop_sequence": sequence},
            "usage": usage(&closing.end.usage),
        });
        event[extension::KEY] = extension::block(closing, &self.meta.request_id);
        named(out, "message_delta", &event);
        named(out, "message_stop", &json!({"type": "message_stop"}));
    }

    fn keep_alive(&mut self, out: &mut String) {
        named(out, "ping", &json!({"type": "ping"}));
    }

    /// No `message_stop`: the message did not end, it broke.
    fn fail(&mut self, error: &ApiError, out: &mut String) {
        named(out, "error", &super::error(error, &self.meta.request_id));
    }
}

#[cfg(test)]
#[path = "reply_tests.rs"]
mod tests;
