//! Turns as templates accept them, whatever dialect they came in, and what a request's fields add to the prompt.

use dspark_protocol::{Message, Role};
use serde_json::{Value, json};

/// Templates take one system message, at the head. Leading ones are merged; a later one becomes part of the user turn
/// beside it, so that it keeps its place (hoisting it would change the prompt's head and lose the cached prefix).
pub(crate) fn place_system(messages: Vec<Message>) -> Vec<Message> {
    let mut placed: Vec<Message> = Vec::with_capacity(messages.len());
    let mut pending: Vec<String> = Vec::new();
    let mut messages = messages.into_iter().peekable();
    let head: Vec<String> = std::iter::from_fn(|| messages.next_if(|message| message.role == Role::System))
        .map(|message| message.content)
        .collect();
    if !head.is_empty() {
        placed.push(Message::system(head.join("\n\n")));
    }
    while let Some(mut message) = messages.next() {
        if message.role == Role::System {
            let reminder = format!("<system-reminder>\n{}\n</system-reminder>", message.content);
            let next_is_user = messages.peek().is_some_and(|next| matches!(next.role, Role::User | Role::System));
            match placed.last_mut() {
                Some(last) if last.role == Role::User => append(last, &reminder),
                _ if next_is_user => pending.push(reminder),
                _ => match placed.iter_mut().rfind(|message| message.role == Role::User) {
                    Some(earlier) => append(earlier, &reminder),
                    None => pending.push(reminder),
                },
            }
            continue;
        }
        if message.role == Role::User && !pending.is_empty() {
            pending.push(std::mem::take(&mut message.content));
            message.content = std::mem::take(&mut pending).join("\n\n");
        }
        placed.push(message);
    }
    if !pending.is_empty() {
        placed.push(Message::user(pending.join("\n\n")));
    }
    placed
}

fn append(message: &mut Message, text: &str) {
    if !message.content.is_empty() {
        message.content.push_str("\n\n");
    }
    message.content.push_str(text);
}

/// Adds a sentence to the last user turn: the head of the prompt, which caches keep, stays as it was.
pub(crate) fn instruct(messages: &mut Vec<Message>, text: &str) {
    match messages.iter_mut().rfind(|message| message.role == Role::User) {
        Some(user) => append(user, text),
        None => messages.push(Message::user(text)),
    }
}

/// For templates that know no tools: they are described in the system prompt, calls and results of earlier turns are
/// written out, and the model is asked to call the way Hermes models do, which the splitter reads.
pub(crate) fn teach(messages: &mut Vec<Message>, tools: &[Value]) {
    if tools.is_empty()
        && !messages
            .iter()
            .any(|message| message.role == Role::Tool || !message.tool_calls.is_empty())
    {
        return;
    }
    for message in messages.iter_mut() {
        for call in std::mem::take(&mut message.tool_calls) {
            let call = json!({"name": call.name, "arguments": call.arguments});
            append(message, &format!("<tool_call>\n{call}\n</tool_call>"));
        }
        if message.role == Role::Tool {
            message.role = Role::User;
            message.content = format!("<tool_response>\n{}\n</tool_response>", message.content);
            message.tool_call_id = None;
        }
    }
    // Templates that know no tools want user and assistant to take turns.
    messages.dedup_by(|later, earlier| {
        let both = later.role == Role::User && earlier.role == Role::User && later.content.starts_with("<tool_response>");
        if both {
            append(earlier, &later.content);
        }
        both
    });
    if tools.is_empty() {
        return;
    }
    let lines: Vec<String> = tools.iter().map(Value::to_string).collect();
    let text = format!(
        "You can call functions. They are described here, one a line:\n<tools>\n{}\n</tools>\nTo call one, write its name and its \
         arguments as JSON between these marks, and nothing after it:\n<tool_call>\n{{\"name\": …, \"arguments\": {{…}}}}\n</tool_call>",
        lines.join("\n")
    );
    match messages.first_mut().filter(|first| first.role == Role::System) {
        Some(system) => append(system, &text),
        None => messages.insert(0, Message::system(text)),
    }
}

/// What kind of JSON an answer shall be.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Format {
    Object,
    Schema(Value),
    /// No JSON at all: text that matches this.
    Regex(String),
}

impl Format {
    /// The sentence that asks for it: the output is held to it in any case, but what the model knows it writes better.
    pub(crate) fn demand(&self) -> Option<String> {
        match self {
            Self::Object => Some("Answer with one JSON object and nothing else.".into()),
            Self::Schema(schema) => Some(format!(
                "Answer with JSON that follows this JSON schema, and with nothing else:\n{schema}"
            )),
            Self::Regex(_) => None,
        }
    }
}

/// Reads `{type, json_schema: {schema}}` (chat) or `{type, schema}` (Responses, Anthropic).
///
/// # Errors
/// The unknown type.
pub(crate) fn format(value: &serde_json::Map<String, Value>) -> Result<Option<Format>, String> {
    match value.get("type").and_then(Value::as_str) {
        Some("text") => Ok(None),
        Some("json_object") => Ok(Some(Format::Object)),
        Some("json_schema") => {
            let schema = value
                .get("json_schema")
                .and_then(|inner| inner.get("schema"))
                .or_else(|| value.get("schema"));
            Ok(Some(schema.map_or(Format::Object, |schema| Format::Schema(schema.clone()))))
        }
        other => Err(other.unwrap_or("missing").chars().take(60).collect()),
    }
}

/// Arguments arrive as JSON text; templates want the object, and get the text where it does not parse.
pub(crate) fn arguments(value: Option<&Value>) -> Value {
    match value {
        Some(Value::String(text)) => serde_json::from_str(text)
            .ok()
            .filter(Value::is_object)
            .unwrap_or_else(|| Value::String(text.clone())),
        Some(other) => other.clone(),
        None => Value::Object(serde_json::Map::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dspark_protocol::ToolCall;

    #[test]
    fn templates_that_know_no_tools_are_taught_them() {
        let result = |text: &str| Message {
            role: Role::Tool,
            tool_call_id: Some("c".into()),
            ..Message::user(text)
        };
        let mut talk = vec![
            Message::system("Be brief."),
            Message::user("go"),
            Message {
                tool_calls: vec![ToolCall {
                    id: "c".into(),
                    name: "f".into(),
                    arguments: json!({"x": 1}),
                }],
                ..Message::assistant("Calling.")
            },
            result("one"),
            result("two"),
        ];
        teach(&mut talk, &[json!({"type": "function", "function": {"name": "f"}})]);
        let roles: Vec<Role> = talk.iter().map(|turn| turn.role).collect();
        assert_eq!(roles, [Role::System, Role::User, Role::Assistant, Role::User]);
        assert!(talk[0].content.starts_with("Be brief.\n\nYou can call functions.") && talk[0].content.contains("\"name\":\"f\""));
        assert!(
            talk[2]
                .content
                .contains("<tool_call>\n{\"name\":\"f\",\"arguments\":{\"x\":1}}\n</tool_call>"),
            "{}",
            talk[2].content
        );
        assert!(talk[3].content.contains("one") && talk[3].content.contains("two"));
        let mut plain = vec![Message::user("hi")];
        teach(&mut plain, &[]);
        assert_eq!(plain, [Message::user("hi")]);
    }
}
