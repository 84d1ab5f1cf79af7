//! The `input` of a response as turns a template accepts.

use crate::{
    dialect::{fields::wrong, prompt},
    error::ApiError,
};
use dspark_protocol::{Message, Role, ToolCall};
use serde_json::{Map, Value, json};

/// # Errors
/// A 400 naming the item.
pub(super) fn turns(
    input: &Value,
    instructions: Option<&str>,
    ignore_attachments: bool,
    warnings: &mut Vec<String>,
) -> Result<Vec<Message>, ApiError> {
    let mut reader = Reader {
        ignore_attachments,
        warnings,
        turns: instructions
            .filter(|text| !text.is_empty())
            .map(Message::system)
            .into_iter()
            .collect(),
        reasoning: None,
    };
    match input {
        Value::String(text) => reader.turns.push(Message::user(text.as_str())),
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                reader.item(item, &format!("input[{index}]"))?;
            }
        }
        other => return Err(wrong("input", "a string or an array of items", other)),
    }
    Ok(prompt::place_system(reader.turns))
}

struct Reader<'a> {
    ignore_attachments: bool,
    warnings: &'a mut Vec<String>,
    turns: Vec<Message>,
    /// Of the assistant turn that follows.
    reasoning: Option<String>,
}

impl Reader<'_> {
    fn item(&mut self, item: &Value, at: &str) -> Result<(), ApiError> {
        if let Some(text) = item.as_str() {
            self.turns.push(Message::user(text));
            return Ok(());
        }
        let fields = item.as_object().ok_or_else(|| wrong(at, "an object with `type`", item))?;
        let text = |name: &str| fields.get(name).and_then(Value::as_str);
        let id = text("call_id").or_else(|| text("id")).unwrap_or_default().to_owned();
        match text("type").unwrap_or("message") {
            "message" => self.message(fields, at)?,
            "function_call" => {
                let name = match text("namespace").filter(|namespace| !namespace.is_empty()) {
                    Some(namespace) => format!("{namespace}__{}", text("name").unwrap_or_default()),
                    None => text("name").unwrap_or_default().to_owned(),
                };
                self.call(id, name, prompt::arguments(fields.get("arguments")));
            }
            "custom_tool_call" => {
                let input = json!({"input": text("input").unwrap_or_default()});
                self.call(id, text("name").unwrap_or_default().to_owned(), input);
            }
            "local_shell_call" => {
                let action = fields.get("action").cloned().unwrap_or_else(|| json!({}));
                self.call(id, "local_shell".into(), action);
            }
            "function_call_output" | "custom_tool_call_output" | "local_shell_call_output" => {
                let content = Self::output(fields.get("output"));
                self.turns.push(Message {
                    role: Role::Tool,
                    content,
                    tool_call_id: Some(id),
                    ..Message::user("")
                });
            }
            "reasoning" => self.reasoning = reasoning(fields),
            // Other services' own, and what later versions add.
            _ => {}
        }
        Ok(())
    }

    fn message(&mut self, fields: &Map<String, Value>, at: &str) -> Result<(), ApiError> {
        let role = match fields.get("role").and_then(Value::as_str) {
            Some("system" | "developer") => Role::System,
            Some("user") => Role::User,
            Some("assistant") => Role::Assistant,
            Some("tool") => Role::Tool,
            other => {
                let said = other.map_or_else(|| "it is missing".into(), |other| format!("`{other}` is none of them"));
                return Err(ApiError::invalid(
                    &format!("{at}.role"),
                    format!("`{at}.role` must be `system`, `developer`, `user` or `assistant`: {said}"),
                ));
            }
        };
        let content = self.content(fields.get("content"), at)?;
        let mut turn = Message {
            role,
            content,
            ..Message::user("")
        };
        if role == Role::Assistant {
            turn.reasoning = self.reasoning.take();
        }
        self.turns.push(turn);
        Ok(())
    }

    fn content(&mut self, value: Option<&Value>, at: &str) -> Result<String, ApiError> {
        let parts = match value {
            None | Some(Value::Null) => return Ok(String::new()),
            Some(Value::String(text)) => return Ok(text.clone()),
            Some(Value::Array(parts)) => parts,
            Some(other) => return Err(wrong(&format!("{at}.content"), "a string or an array of parts", other)),
        };
        let mut texts = Vec::with_capacity(parts.len());
        for (index, part) in parts.iter().enumerate() {
            let at = format!("{at}.content[{index}]");
            match (part, part.get("type").and_then(Value::as_str).unwrap_or("text")) {
                (Value::String(text), _) => texts.push(text.clone()),
                (_, kind) if kind.contains("image") || kind.contains("audio") || kind.contains("file") => {
                    if !self.ignore_attachments {
                        return Err(ApiError::invalid(
                            &at,
                            format!(
                                "`{at}` is a part of type `{kind}`, and this server reads text only: remove it, or turn on \"Ignore \
                                 attachments\" (`serve --ignore-attachments`) to have such parts left out"
                            ),
                        )
                        .code("unsupported_content"));
                    }
                    self.warnings
                        .push(format!("`{at}` of type `{kind}` was left out: this model reads text only"));
                }
                (part, _) => {
                    let text = ["text", "refusal"].into_iter().find_map(|name| part.get(name)?.as_str());
                    texts.extend(text.map(str::to_owned));
                }
            }
        }
        Ok(texts.join("\n"))
    }

    /// Calls in a row, and the words before them, are one turn: templates refuse or misread several.
    fn call(&mut self, id: String, name: String, arguments: Value) {
        let call = ToolCall { id, name, arguments };
        match self.turns.last_mut() {
            Some(last) if last.role == Role::Assistant => last.tool_calls.push(call),
            _ => self.turns.push(Message {
                tool_calls: vec![call],
                reasoning: self.reasoning.take(),
                ..Message::assistant("")
            }),
        }
    }

    /// Text, or parts of it. A picture is noted, so that the result does not look empty.
    fn output(value: Option<&Value>) -> String {
        match value {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(Value::Array(parts)) => {
                let part = |part: &Value| match part {
                    Value::String(text) => Some(text.clone()),
                    part => {
                        if let Some(text) = part.get("text").and_then(Value::as_str) {
                            Some(text.to_owned())
                        } else {
                            let kind: String = part.get("type")?.as_str()?.chars().take(60).collect();
                            Some(format!("[{kind}: not shown, this model reads text only]"))
                        }
                    }
                };
                parts.iter().filter_map(part).collect::<Vec<_>>().join("\n")
            }
            Some(other) => other.to_string(),
        }
    }
}

/// What an earlier turn thought, where it was sent back in the open.
fn reasoning(item: &Map<String, Value>) -> Option<String> {
    let texts = |name: &str| {
        let parts = item.get(name)?.as_array()?;
        let texts: Vec<&str> = parts.iter().filter_map(|part| part.get("text")?.as_str()).collect();
        Some(texts.join("\n")).filter(|text| !text.is_empty())
    };
    texts("content").or_else(|| texts("summary"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(input: Value) -> Vec<Message> {
        turns(&input, None, false, &mut Vec::new()).unwrap()
    }

    /// Case ag-007: an output of parts.
    #[test]
    fn outputs_of_parts_are_joined_and_pictures_noted() {
        let talk = read(json!([
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "run ls"}]},
            {"type": "function_call", "call_id": "c1", "name": "shell", "arguments": "{\"cmd\":\"ls\"}"},
            {"type": "function_call_output", "call_id": "c1", "output": [
                {"type": "input_text", "text": "a.txt"}, {"type": "input_text", "text": "b.txt"},
                {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}]}]));
        assert_eq!(talk[1].tool_calls[0].arguments, json!({"cmd": "ls"}));
        assert_eq!(
            (talk[2].role, talk[2].content.as_str(), talk[2].tool_call_id.as_deref()),
            (
                Role::Tool,
                "a.txt\nb.txt\n[input_image: not shown, this model reads text only]",
                Some("c1")
            )
        );
    }

    #[test]
    fn calls_in_a_row_are_one_turn_with_the_words_and_thoughts_before_them() {
        let talk = read(json!([
            "go",
            {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "both"}], "encrypted_content": null},
            {"role": "assistant", "content": [{"type": "output_text", "text": "Looking."}]},
            {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"},
            {"type": "function_call", "call_id": "b", "namespace": "mcp__fs", "name": "read", "arguments": "{}"},
            {"type": "custom_tool_call", "call_id": "c", "name": "apply_patch", "input": "*** Begin"},
            {"type": "function_call_output", "call_id": "a", "output": "1"},
            {"type": "custom_tool_call_output", "call_id": "c", "output": "ok"},
            {"type": "web_search_call", "id": "x"}, {"type": "compaction"}, {"type": "item_reference", "id": "y"}]));
        let roles: Vec<Role> = talk.iter().map(|turn| turn.role).collect();
        assert_eq!(roles, [Role::User, Role::Assistant, Role::Tool, Role::Tool]);
        let names: Vec<&str> = talk[1].tool_calls.iter().map(|call| call.name.as_str()).collect();
        assert_eq!(names, ["f", "mcp__fs__read", "apply_patch"]);
        assert_eq!(talk[1].tool_calls[2].arguments, json!({"input": "*** Begin"}));
        assert_eq!((talk[1].content.as_str(), talk[1].reasoning.as_deref()), ("Looking.", Some("both")));
    }

    #[test]
    fn instructions_lead_and_developers_follow_in_place() {
        let input = json!([{"role": "developer", "content": "D"}, {"role": "user", "content": "hi"}]);
        let talk = turns(&input, Some("You are an agent."), false, &mut Vec::new()).unwrap();
        assert_eq!((talk[0].role, talk[0].content.as_str()), (Role::System, "You are an agent.\n\nD"));
        assert_eq!(
            turns(&json!("say ok"), None, false, &mut Vec::new()).unwrap(),
            [Message::user("say ok")]
        );
    }

    #[test]
    fn errors_name_the_place() {
        for (input, param) in [
            (json!(5), "input"),
            (json!([5]), "input[0]"),
            (json!([{"role": "wizard"}]), "input[0].role"),
            (json!([{"role": "user", "content": 5}]), "input[0].content"),
            (
                json!([{"role": "user", "content": [{"type": "input_image"}]}]),
                "input[0].content[0]",
            ),
        ] {
            let error = turns(&input, None, false, &mut Vec::new()).unwrap_err();
            assert_eq!(error.param.as_deref(), Some(param), "{input}");
        }
    }
}
