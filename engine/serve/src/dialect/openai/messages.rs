//! The `messages` of a chat request as turns a template accepts.

use crate::{
    dialect::{fields::wrong, prompt},
    error::ApiError,
};
use base64::{Engine, prelude::BASE64_STANDARD};
use dspark_protocol::{Message, Role, ToolCall};
use serde_json::Value;

/// Parses, then puts system messages where templates accept them.
///
/// # Errors
/// A 400 naming the message and field.
pub(crate) fn parse(value: &Value, ignore_attachments: bool, warnings: &mut Vec<String>) -> Result<Vec<Message>, ApiError> {
    let items = value.as_array().ok_or_else(|| wrong("messages", "an array of messages", value))?;
    if items.is_empty() {
        return Err(ApiError::invalid("messages", "`messages` is empty: send at least one message"));
    }
    let mut content = Content {
        ignore_attachments,
        warnings,
    };
    let messages = items
        .iter()
        .enumerate()
        .map(|(index, item)| message(item, &format!("messages[{index}]"), &mut content))
        .collect::<Result<_, _>>()?;
    Ok(prompt::place_system(messages))
}

fn message(item: &Value, at: &str, content: &mut Content<'_>) -> Result<Message, ApiError> {
    let fields = item
        .as_object()
        .ok_or_else(|| wrong(at, "an object with `role` and `content`", item))?;
    let text = |name: &str| fields.get(name).and_then(Value::as_str).map(str::to_owned);
    let role = match fields.get("role").and_then(Value::as_str) {
        Some("system" | "developer") => Role::System,
        Some("user") => Role::User,
        Some("assistant") => Role::Assistant,
        Some("tool" | "function") => Role::Tool,
        other => {
            let said = other.map_or_else(|| "it is missing".into(), |other| format!("`{other}` is none of them"));
            return Err(ApiError::invalid(
                &format!("{at}.role"),
                format!("`{at}.role` must be `system`, `developer`, `user`, `assistant` or `tool`: {said}"),
            ));
        }
    };
    let tool_calls = match fields.get("tool_calls") {
        Some(Value::Array(calls)) => calls.iter().enumerate().map(|(index, call)| tool_call(call, index)).collect(),
        _ => Vec::new(),
    };
    Ok(Message {
        role,
        content: content.read(fields.get("content"), &format!("{at}.content"))?,
        reasoning: text("reasoning_content")
            .or_else(|| text("reasoning"))
            .filter(|text| !text.is_empty()),
        tool_calls,
        tool_call_id: text("tool_call_id"),
        name: text("name"),
    })
}

fn tool_call(call: &Value, index: usize) -> ToolCall {
    let function = call.get("function").unwrap_or(call);
    let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
    ToolCall {
        id: call
            .get("id")
            .and_then(Value::as_str)
            .map_or_else(|| format!("call_{index}"), str::to_owned),
        name: text(function.get("name")),
        arguments: prompt::arguments(function.get("arguments")),
    }
}

struct Content<'a> {
    ignore_attachments: bool,
    warnings: &'a mut Vec<String>,
}

impl Content<'_> {
    fn read(&mut self, value: Option<&Value>, at: &str) -> Result<String, ApiError> {
        match value {
            None | Some(Value::Null) => Ok(String::new()),
            Some(Value::String(text)) => Ok(text.clone()),
            Some(Value::Array(parts)) => {
                let mut texts = Vec::with_capacity(parts.len());
                for (index, part) in parts.iter().enumerate() {
                    texts.extend(self.part(part, &format!("{at}[{index}]"))?);
                }
                Ok(texts.join("\n"))
            }
            Some(other) => Err(wrong(at, "a string or an array of parts", other)),
        }
    }

    fn part(&mut self, part: &Value, at: &str) -> Result<Option<String>, ApiError> {
        if let Some(text) = part.as_str() {
            return Ok(Some(text.to_owned()));
        }
        let Some(fields) = part.as_object() else {
            return Err(wrong(at, "a string or an object with `type` and `text`", part));
        };
        let kind = fields.get("type").and_then(Value::as_str).unwrap_or("text");
        let text = ["text", "refusal"].into_iter().find_map(|name| fields.get(name)?.as_str());
        match (kind, text) {
            (kind, Some(text)) if !is_attachment(kind) => Ok(Some(text.to_owned())),
            ("file" | "input_file", _) if text_file(part).is_some() => Ok(text_file(part)),
            (kind, _) if is_attachment(kind) => self.attachment(kind, at),
            ("thinking" | "redacted_thinking" | "reasoning", _) => Ok(None),
            (kind, _) => Err(unsupported(kind, at)),
        }
    }

    fn attachment(&mut self, kind: &str, at: &str) -> Result<Option<String>, ApiError> {
        if self.ignore_attachments {
            self.warnings
                .push(format!("`{at}` of type `{kind}` was left out: this model reads text only"));
            return Ok(None);
        }
        Err(unsupported(kind, at))
    }
}

fn is_attachment(kind: &str) -> bool {
    ["image", "audio", "video", "file"].iter().any(|word| kind.contains(word))
}

fn unsupported(kind: &str, at: &str) -> ApiError {
    ApiError::invalid(
        at,
        format!(
            "`{at}` is a part of type `{kind}`, and this server reads text only: remove it, or turn on \"Ignore attachments\" (`serve --ignore-attachments`) to have such \
             parts left out"
        ),
    )
    .code("unsupported_content")
}

/// The text of a `file` part whose data says it is text.
fn text_file(part: &Value) -> Option<String> {
    let file = part.get("file").unwrap_or(part);
    let data = file.get("file_data")?.as_str()?;
    let (head, body) = data.strip_prefix("data:")?.split_once(',')?;
    if !head.starts_with("text/") {
        return None;
    }
    let text = if head.ends_with(";base64") {
        String::from_utf8(BASE64_STANDARD.decode(body.trim()).ok()?).ok()?
    } else {
        body.to_owned()
    };
    Some(match file.get("filename").and_then(Value::as_str) {
        Some(name) => format!("{name}:\n{text}"),
        None => text,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(value: Value) -> Result<Vec<Message>, ApiError> {
        parse(&value, false, &mut Vec::new())
    }

    fn said(value: Value) -> Vec<(Role, String)> {
        read(value)
            .unwrap()
            .into_iter()
            .map(|message| (message.role, message.content))
            .collect()
    }

    #[test]
    fn parts_null_and_strings_become_text() {
        assert_eq!(
            said(json!([
                {"role": "user", "content": ["a", {"type": "text", "text": "b"}, {"type": "input_text", "text": "c"}]},
                {"role": "assistant", "content": null},
                {"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]},
                {"role": "user"},
            ])),
            [
                (Role::User, "a\nb\nc".into()),
                (Role::Assistant, String::new()),
                (Role::Assistant, "no".into()),
                (Role::User, String::new()),
            ]
        );
    }

    /// Case ag-016: `developer` is a system message.
    #[test]
    fn developer_leads_as_system() {
        assert_eq!(
            said(json!([{"role": "developer", "content": "D"}, {"role": "user", "content": "hi"}])),
            [(Role::System, "D".into()), (Role::User, "hi".into())]
        );
    }

    /// Case ag-002: kept in place, never hoisted.
    #[test]
    fn later_system_messages_keep_their_place() {
        let talk = said(json!([
            {"role": "system", "content": "S"}, {"role": "developer", "content": "T"},
            {"role": "user", "content": "hi"}, {"role": "system", "content": "brief"}, {"role": "user", "content": "go"},
        ]));
        assert_eq!(talk[0], (Role::System, "S\n\nT".into()));
        assert_eq!(talk[1].1, "hi\n\n<system-reminder>\nbrief\n</system-reminder>");
        assert_eq!(talk[2], (Role::User, "go".into()));
    }

    #[test]
    fn a_system_message_after_the_assistant_joins_the_next_user_turn() {
        let talk = said(json!([
            {"role": "user", "content": "a"}, {"role": "assistant", "content": "b"},
            {"role": "system", "content": "x"}, {"role": "system", "content": "y"}, {"role": "user", "content": "c"},
        ]));
        // The first turns stay as they were: a cached prefix goes on being one.
        assert_eq!(talk[0].1, "a");
        assert_eq!(
            talk[2].1,
            "<system-reminder>\nx\n</system-reminder>\n\n<system-reminder>\ny\n</system-reminder>\n\nc"
        );
    }

    #[test]
    fn a_system_message_with_no_user_turn_becomes_one() {
        let talk = said(json!([{"role": "assistant", "content": "b"}, {"role": "system", "content": "x"}]));
        assert_eq!(talk[1], (Role::User, "<system-reminder>\nx\n</system-reminder>".into()));
    }

    #[test]
    fn pictures_are_refused_by_name_or_left_out_with_a_warning() {
        let talk = json!([{"role": "user", "content": [
            {"type": "text", "text": "what is this?"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}]}]);
        let error = read(talk.clone()).unwrap_err();
        assert_eq!(
            (error.code, error.param.as_deref()),
            (Some("unsupported_content"), Some("messages[0].content[1]"))
        );
        assert!(error.message.contains("`image_url`"));
        let mut warnings = Vec::new();
        let kept = parse(&talk, true, &mut warnings).unwrap();
        assert_eq!(kept[0].content, "what is this?");
        assert!(warnings[0].contains("image_url"));
    }

    #[test]
    fn text_files_are_read() {
        let talk = json!([{"role": "user", "content": [
            {"type": "file", "file": {"filename": "a.txt", "file_data": "data:text/plain;base64,aGVsbG8="}}]}]);
        assert_eq!(said(talk)[0].1, "a.txt:\nhello");
        let pdf = json!([{"role": "user", "content": [{"type": "file", "file": {"file_data": "data:application/pdf;base64,AA=="}}]}]);
        assert_eq!(read(pdf).unwrap_err().code, Some("unsupported_content"));
    }

    #[test]
    fn calls_of_earlier_turns_get_their_arguments_as_objects() {
        let talk = read(
            json!([{"role": "assistant", "content": null, "reasoning_content": "hm", "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{\"x\": 1}"}},
            {"id": "c2", "type": "function", "function": {"name": "g", "arguments": "{broken"}}]},
            {"role": "tool", "tool_call_id": "unmatched", "content": "r"}]),
        )
        .unwrap();
        assert_eq!(talk[0].tool_calls[0].arguments, json!({"x": 1}));
        assert_eq!(talk[0].tool_calls[1].arguments, json!("{broken"));
        assert_eq!(talk[0].reasoning.as_deref(), Some("hm"));
        assert_eq!(talk[1].tool_call_id.as_deref(), Some("unmatched"));
    }

    #[test]
    fn errors_name_the_place() {
        for (value, param) in [
            (json!("hi"), "messages"),
            (json!([]), "messages"),
            (json!(["hi"]), "messages[0]"),
            (json!([{"role": "user", "content": "x"}, {"content": "x"}]), "messages[1].role"),
            (json!([{"role": "wizard", "content": "x"}]), "messages[0].role"),
            (json!([{"role": "user", "content": 5}]), "messages[0].content"),
            (json!([{"role": "user", "content": [5]}]), "messages[0].content[0]"),
        ] {
            assert_eq!(read(value).unwrap_err().param.as_deref(), Some(param));
        }
    }
}
