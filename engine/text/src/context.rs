//! The variables that a chat template sees.

use dspark_protocol::{Message, Role, TemplateOptions};
use minijinja::Value;
use std::collections::BTreeMap;

/// Whose words a text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// What the people in the conversation, and the model, have said.
    Dialogue,
    /// What came from elsewhere: tool results, tool descriptions, documents, template variables.
    Foreign,
}

/// Changes texts on their way into the template.
pub(crate) trait Paint {
    fn text(&self, text: &str, origin: Origin) -> String;
    /// Names and ids: what no template decides by.
    fn name(&self, text: &str) -> String;
    /// Keys and short values that a template may look at (`"type": "string"`).
    fn data(&self, text: &str) -> String;
    /// `bos_token` and the like.
    fn special(&self, token: &str) -> String;
}

/// Leaves everything as it is.
pub(crate) struct Plain;

impl Paint for Plain {
    fn text(&self, text: &str, _origin: Origin) -> String {
        text.to_owned()
    }

    fn name(&self, text: &str) -> String {
        text.to_owned()
    }

    fn data(&self, text: &str) -> String {
        text.to_owned()
    }

    fn special(&self, token: &str) -> String {
        token.to_owned()
    }
}

/// One conversation as the template will be asked to render it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Conversation<'a> {
    pub(crate) messages: &'a [Message],
    pub(crate) options: &'a TemplateOptions,
    pub(crate) generation_prompt: bool,
    /// `bos_token`, `eos_token`, ….
    pub(crate) specials: &'a BTreeMap<String, String>,
    /// Put behind the last message's content, to find its end again.
    pub(crate) end_mark: Option<char>,
}

/// Variables that `chat_template_kwargs` may not replace.
const RESERVED: [&str; 3] = ["messages", "tools", "add_generation_prompt"];

impl Conversation<'_> {
    pub(crate) fn context(&self, paint: &dyn Paint) -> Value {
        let options = self.options;
        let last = self.messages.len().saturating_sub(1);
        let mut context: Vec<(String, Value)> = self
            .specials
            .iter()
            .map(|(name, token)| (name.clone(), paint.special(token).into()))
            .collect();
        let messages = self.messages.iter().enumerate().map(|(at, message)| {
            let mark = self.end_mark.filter(|_| at == last);
            Self::message(message, mark, paint)
        });
        context.push(("messages".into(), messages.collect()));
        let tools: Value = if options.tools.is_empty() {
            Value::from(())
        } else {
            options.tools.iter().map(|tool| json(tool, paint)).collect()
        };
        context.push(("tools".into(), tools));
        context.push(("documents".into(), Value::from(())));
        context.push(("add_generation_prompt".into(), self.generation_prompt.into()));
        for (name, value) in &options.extra {
            if !RESERVED.contains(&name.as_str()) {
                context.push((name.clone(), json(value, paint)));
            }
        }
        if let Some(thinking) = options.enable_thinking {
            context.push(("enable_thinking".into(), thinking.into()));
        }
        if let Some(effort) = &options.reasoning_effort {
            context.push(("reasoning_effort".into(), effort.as_str().into()));
        }
        Value::from_pairs(context)
    }

    fn message(message: &Message, mark: Option<char>, paint: &dyn Paint) -> Value {
        let origin = if message.role == Role::Tool {
            Origin::Foreign
        } else {
            Origin::Dialogue
        };
        let mut content = paint.text(&message.content, origin);
        content.extend(mark);
        let mut fields: Vec<(&str, Value)> = vec![("role", role(message.role).into()), ("content", content.into())];
        if let Some(reasoning) = &message.reasoning {
            fields.push(("reasoning_content", paint.text(reasoning, Origin::Dialogue).into()));
        }
        if !message.tool_calls.is_empty() {
            let calls = message.tool_calls.iter().map(|call| {
                let function = [
                    ("name", Value::from(paint.name(&call.name))),
                    ("arguments", json(&call.arguments, paint)),
                ];
                Value::from_pairs([
                    ("id", Value::from(paint.name(&call.id))),
                    ("type", "function".into()),
                    ("function", Value::from_pairs(function)),
                ])
            });
            fields.push(("tool_calls", calls.collect()));
        }
        for (name, value) in [("tool_call_id", &message.tool_call_id), ("name", &message.name)] {
            if let Some(value) = value {
                fields.push((name, paint.name(value).into()));
            }
        }
        Value::from_pairs(fields)
    }

    /// Bytes of everything that was said or given.
    pub(crate) fn size(&self) -> usize {
        let messages: usize = self.messages.iter().map(message_size).sum();
        let tools: usize = self.options.tools.iter().map(json_size).sum();
        let extra: usize = self.options.extra.iter().map(|(name, value)| name.len() + json_size(value)).sum();
        messages + tools + extra
    }
}

fn message_size(message: &Message) -> usize {
    let calls: usize = message
        .tool_calls
        .iter()
        .map(|call| call.name.len() + call.id.len() + json_size(&call.arguments))
        .sum();
    64 + message.content.len() + message.reasoning.as_ref().map_or(0, String::len) + calls
}

fn json_size(value: &serde_json::Value) -> usize {
    match value {
        serde_json::Value::String(text) => text.len() + 8,
        serde_json::Value::Array(items) => 8 + items.iter().map(json_size).sum::<usize>(),
        serde_json::Value::Object(fields) => 8 + fields.iter().map(|(key, value)| key.len() + 8 + json_size(value)).sum::<usize>(),
        _ => 8,
    }
}

pub(crate) fn role(role: Role) -> &'static str {
    match role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    }
}

pub(crate) fn json(value: &serde_json::Value, paint: &dyn Paint) -> Value {
    match value {
        serde_json::Value::Null => Value::from(()),
        serde_json::Value::Bool(flag) => (*flag).into(),
        serde_json::Value::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
            (Some(integer), ..) => integer.into(),
            (_, Some(integer), _) => integer.into(),
            (.., float) => float.unwrap_or(f64::NAN).into(),
        },
        serde_json::Value::String(text) => paint.data(text).into(),
        serde_json::Value::Array(items) => items.iter().map(|item| json(item, paint)).collect(),
        serde_json::Value::Object(fields) => Value::from_pairs(fields.iter().map(|(key, value)| (paint.data(key), json(value, paint)))),
    }
}
