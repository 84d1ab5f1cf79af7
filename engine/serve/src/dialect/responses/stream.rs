//! An answer as the events of a response. Every item is announced, filled and closed before the next one.

use super::{
    reply::{Place, ResponseMeta, freeform, id, message, part},
    stream_code,
};
use crate::{
    error::ApiError,
    generate::{Closing, Opening},
    reader::{Call, Finish},
    sse::{Frames, named},
};
use dspark_text::output::Piece;
use serde_json::{Value, json};

/// The item being filled.
enum Item {
    Thought { id: String, text: String },
    Message { id: String, text: String },
    Call { place: Place, call: Call },
}

pub(crate) struct ResponseFrames {
    meta: ResponseMeta,
    sequence: u64,
    open: Option<Item>,
    /// The finished items.
    output: Vec<Value>,
}

impl ResponseFrames {
    pub(crate) fn new(meta: ResponseMeta) -> Self {
        Self {
            meta,
            sequence: 0,
            open: None,
            output: Vec::new(),
        }
    }

    fn event(&mut self, name: &str, mut event: Value, out: &mut String) {
        event["type"] = json!(name);
        event["sequence_number"] = json!(self.sequence);
        self.sequence += 1;
        named(out, name, &event);
    }

    /// The index of the item being filled.
    fn index(&self) -> usize {
        self.output.len()
    }

    fn added(&mut self, item: &Value, out: &mut String) {
        let event = json!({"output_index": self.index(), "item": item});
        self.event("response.output_item.added", event, out);
    }

    fn done(&mut self, item: Value, out: &mut String) {
        let event = json!({"output_index": self.index(), "item": item});
        self.event("response.output_item.done", event, out);
        self.output.push(item);
    }

    /// An event about one part of the open item, with one more field.
    fn within(&mut self, name: &str, id: &str, index: &str, field: &str, value: Value, out: &mut String) {
        let mut event = json!({"item_id": id, "output_index": self.index()});
        event[index] = json!(0);
        event[field] = value;
        self.event(name, event, out);
    }

    fn text(&mut self, delta: &str, out: &mut String) {
        if !matches!(self.open, Some(Item::Message { .. })) {
            self.close(true, out);
            let id = id("msg");
            let item = json!({"id": id, "type": "message", "status": "in_progress", "role": "assistant", "content": []});
            self.added(&item, out);
            self.within("response.content_part.added", &id, "content_index", "part", part(""), out);
            let text = String::new();
            self.open = Some(Item::Message { id, text });
        }
        if let Some(Item::Message { id, text }) = &mut self.open {
            text.push_str(delta);
            let mut event = json!({"item_id": id, "output_index": self.output.len(), "content_index": 0, "delta": delta});
            event["logprobs"] = json!([]);
            self.event("response.output_text.delta", event, out);
        }
    }

    fn thought(&mut self, delta: &str, out: &mut String) {
        if !matches!(self.open, Some(Item::Thought { .. })) {
            self.close(true, out);
            let id = id("rs");
            let item = json!({"id": id, "type": "reasoning", "summary": [], "content": [], "status": "in_progress"});
            self.added(&item, out);
            if self.meta.summary {
                let part = json!({"type": "summary_text", "text": ""});
                self.within("response.reasoning_summary_part.added", &id, "summary_index", "part", part, out);
            }
            let text = String::new();
            self.open = Some(Item::Thought { id, text });
        }
        if let Some(Item::Thought { id, text }) = &mut self.open {
            text.push_str(delta);
            let id = id.clone();
            self.within("response.reasoning_text.delta", &id, "content_index", "delta", json!(delta), out);
            if self.meta.summary {
                self.within(
                    "response.reasoning_summary_text.delta",
                    &id,
                    "summary_index",
                    "delta",
                    json!(delta),
                    out,
                );
            }
        }
    }

    fn call(&mut self, name: String, out: &mut String) {
        self.close(true, out);
        let call = Call {
            name,
            arguments: String::new(),
        };
        let place = self.meta.place(&call.name);
        let item = self.meta.call(&place, &call, "in_progress");
        self.added(&item, out);
        self.open = Some(Item::Call { place, call });
    }

    fn argue(&mut self, fragment: &str, out: &mut String) {
        let Some(Item::Call { place, call }) = &mut self.open else { return };
        call.arguments.push_str(fragment);
        // A freeform tool's text is inside the arguments: it goes out when they are complete.
        if !self.meta.is_custom(&call.name) {
            let event = json!({"item_id": place.id, "output_index": self.output.len(), "delta": fragment});
            self.event("response.function_call_arguments.delta", event, out);
        }
    }

    /// Closes the open item. A call that is not `complete` is left unfinished: nobody may run it.
    fn close(&mut self, complete: bool, out: &mut String) {
        match self.open.take() {
            None => {}
            Some(Item::Thought { id, text }) => {
                self.within("response.reasoning_text.done", &id, "content_index", "text", json!(text), out);
                if self.meta.summary {
                    self.within(
                        "response.reasoning_summary_text.done",
                        &id,
                        "summary_index",
                        "text",
                        json!(text),
                        out,
                    );
                    let part = json!({"type": "summary_text", "text": text});
                    self.within("response.reasoning_summary_part.done", &id, "summary_index", "part", part, out);
                }
                self.done(self.meta.thought(&id, &text), out);
            }
            Some(Item::Message { id, text }) => {
                let mut event = json!({"item_id": id, "output_index": self.index(), "content_index": 0, "text": text});
                event["logprobs"] = json!([]);
                self.event("response.output_text.done", event, out);
                self.within("response.content_part.done", &id, "content_index", "part", part(&text), out);
                self.done(message(&id, &text, if complete { "completed" } else { "incomplete" }), out);
            }
            Some(Item::Call { .. }) if !complete => {}
            Some(Item::Call { place, call }) => {
                let mut event = json!({"item_id": place.id, "output_index": self.index()});
                if self.meta.is_custom(&call.name) {
                    let input = freeform(&call.arguments);
                    let mut delta = event.clone();
                    delta["delta"] = json!(input);
                    event["input"] = json!(input);
                    self.event("response.custom_tool_call_input.delta", delta, out);
                    self.event("response.custom_tool_call_input.done", event, out);
                } else {
                    event["name"] = json!(call.name);
                    event["arguments"] = json!(call.arguments);
                    self.event("response.function_call_arguments.done", event, out);
                }
                self.done(self.meta.call(&place, &call, "completed"), out);
            }
        }
    }

    fn progress(&mut self, name: &str, out: &mut String) {
        let response = self.meta.response("in_progress", &self.output);
        self.event(name, json!({ "response": response }), out);
    }

    /// An answer to nothing: created, and completed.
    pub(crate) fn nothing(mut self) -> String {
        let mut out = String::new();
        self.open(Opening::default(), &mut out);
        let response = super::response_reply(&self.meta, None);
        self.event("response.completed", json!({ "response": response }), &mut out);
        out
    }

    /// What goes wrong before there is anything to say is said in the stream: Codex acts on the code there.
    pub(crate) fn refused(mut self, error: &ApiError) -> String {
        let mut out = String::new();
        self.progress("response.created", &mut out);
        self.fail(error, &mut out);
        out
    }
}

impl Frames for ResponseFrames {
    fn open(&mut self, _: Opening, out: &mut String) {
        self.progress("response.created", out);
        self.progress("response.in_progress", out);
    }

    fn piece(&mut self, piece: Piece, out: &mut String) {
        match piece {
            Piece::Text(text) | Piece::Unfinished(text) => self.text(&text, out),
            Piece::Reasoning(text) => self.thought(&text, out),
            Piece::ToolStart { name, .. } => self.call(name, out),
            Piece::ToolArguments { fragment, .. } => self.argue(&fragment, out),
            Piece::ToolEnd { .. } => self.close(true, out),
            Piece::ToolAborted { .. } => self.close(false, out),
        }
    }

    fn finish(&mut self, closing: &Closing, out: &mut String) {
        let cut = closing.end.finish == Finish::Length;
        let broken = matches!(self.open, Some(Item::Call { .. }));
        self.close(!(cut || broken), out);
        if self.output.is_empty() && !cut {
            self.text("", out);
            self.close(true, out);
        }
        let response = self.meta.finished(closing, &self.output);
        let name = if cut { "response.incomplete" } else { "response.completed" };
        self.event(name, json!({ "response": response }), out);
    }

    /// An event, not a comment: Codex counts only those.
    fn keep_alive(&mut self, out: &mut String) {
        self.progress("response.in_progress", out);
    }

    fn fail(&mut self, error: &ApiError, out: &mut String) {
        let mut response = self.meta.response("failed", &self.output);
        response["error"] = json!({"code": stream_code(error), "message": error.message});
        self.event("response.failed", json!({ "response": response }), out);
    }
}

#[cfg(test)]
#[path = "stream_tests.rs"]
mod tests;
