//! Anthropic's content blocks as turns a template accepts.

use crate::{
    dialect::{fields::wrong, prompt},
    error::ApiError,
};
use dspark_protocol::{Message, Role, ToolCall};
use serde_json::{Map, Value, json};

/// Claude Code puts a checksum of each request into its first system block; left in, no prompt would begin like the
/// one before it, and nothing could be reused.
const PER_REQUEST_HEADER: &str = "x-anthropic-billing-header:";

/// The system prompt: text, or blocks of it.
///
/// # Errors
/// A 400 for what is neither.
pub(super) fn system(value: Option<&Value>) -> Result<Option<String>, ApiError> {
    let text = match value {
        None => return Ok(None),
        Some(Value::String(text)) => without_header(text),
        Some(Value::Array(blocks)) => {
            let texts = blocks
                .iter()
                .filter_map(|block| block.as_str().or_else(|| block.get("text")?.as_str()));
            texts
                .map(without_header)
                .filter(|text| !text.is_empty())
                .collect::<Vec<_>>()
                .join("\n")
        }
        Some(other) => return Err(wrong("system", "a string or an array of text blocks", other)),
    };
    Ok((!text.is_empty()).then_some(text))
}

/// The header is a line of its own, in a block of its own or at the head of one.
fn without_header(text: &str) -> String {
    if !text.trim_start().starts_with(PER_REQUEST_HEADER) {
        return text.to_owned();
    }
    text.trim_start()
        .split_once('\n')
        .map_or(String::new(), |(_, rest)| rest.to_owned())
}

/// The turns, with the system prompt at the head.
///
/// # Errors
/// A 400 naming the message and block.
pub(super) fn messages(
    value: &Value,
    system: Option<String>,
    ignore_attachments: bool,
    warnings: &mut Vec<String>,
) -> Result<Vec<Message>, ApiError> {
    let items = value.as_array().ok_or_else(|| wrong("messages", "an array of messages", value))?;
    if items.is_empty() {
        return Err(ApiError::invalid("messages", "`messages` is empty: send at least one message"));
    }
    let mut reader = Reader {
        ignore_attachments,
        warnings,
        turns: system.map(Message::system).into_iter().collect(),
    };
    for (index, item) in items.iter().enumerate() {
        reader.message(item, &format!("messages[{index}]"))?;
    }
    Ok(prompt::place_system(reader.turns))
}

struct Reader<'a> {
    ignore_attachments: bool,
    warnings: &'a mut Vec<String>,
    turns: Vec<Message>,
}

impl Reader<'_> {
    fn message(&mut self, item: &Value, at: &str) -> Result<(), ApiError> {
        let fields = item
            .as_object()
            .ok_or_else(|| wrong(at, "an object with `role` and `content`", item))?;
        let role = match fields.get("role").and_then(Value::as_str) {
            Some("user") => Role::User,
            Some("assistant") => Role::Assistant,
            Some("system" | "developer") => Role::System,
            other => {
                let said = other.map_or_else(|| "it is missing".into(), |other| format!("`{other}` is none of them"));
                return Err(ApiError::invalid(
                    &format!("{at}.role"),
                    format!("`{at}.role` must be `user`, `assistant` or `system`: {said}"),
                ));
            }
        };
        let mut turn = Message { role, ..Message::user("") };
        let mut texts: Vec<String> = Vec::new();
        let mut results = Vec::new();
        match fields.get("content") {
            None | Some(Value::Null) => {}
            Some(Value::String(text)) => texts.push(text.clone()),
            Some(Value::Array(blocks)) => {
                for (index, block) in blocks.iter().enumerate() {
                    let at = format!("{at}.content[{index}]");
                    match block {
                        Value::String(text) => texts.push(text.clone()),
                        Value::Object(block) => self.block(block, &at, &mut texts, &mut turn, &mut results)?,
                        other => return Err(wrong(&at, "a string or a content block", other)),
                    }
                }
            }
            Some(other) => return Err(wrong(&format!("{at}.content"), "a string or an array of blocks", other)),
        }
        let answers_only = !results.is_empty() && texts.iter().all(|text| text.trim().is_empty());
        // What tools answered comes before what the user says to it.
        self.turns.extend(results);
        if answers_only {
            return Ok(());
        }
        turn.content = texts.join("\n");
        self.turns.push(turn);
        Ok(())
    }

    fn block(
        &mut self,
        block: &Map<String, Value>,
        at: &str,
        texts: &mut Vec<String>,
        turn: &mut Message,
        results: &mut Vec<Message>,
    ) -> Result<(), ApiError> {
        let text = |name: &str| block.get(name).and_then(Value::as_str);
        match text("type").unwrap_or("text") {
            "text" => texts.extend(text("text").map(str::to_owned)),
            "tool_use" => turn.tool_calls.push(ToolCall {
                id: text("id").unwrap_or_default().to_owned(),
                name: text("name").unwrap_or_default().to_owned(),
                arguments: prompt::arguments(block.get("input")),
            }),
            "tool_result" => {
                let said = result(block.get("content"));
                let failed = block.get("is_error") == Some(&json!(true));
                results.push(Message {
                    role: Role::Tool,
                    content: if failed { format!("Error: {said}") } else { said },
                    tool_call_id: text("tool_use_id").map(str::to_owned),
                    ..Message::user("")
                });
            }
            "document" if document(block).is_some() => texts.extend(document(block)),
            kind @ ("image" | "document") => {
                if !self.ignore_attachments {
                    return Err(ApiError::invalid(
                        at,
                        format!(
                            "`{at}` is a block of type `{kind}`, and this server reads text only: remove it, or turn on \"Ignore attachments\" \
                             (`serve --ignore-attachments`) to have such blocks left out"
                        ),
                    )
                    .code("unsupported_content"));
                }
                self.warnings
                    .push(format!("`{at}` of type `{kind}` was left out: this model reads text only"));
            }
            // The template decides what becomes of earlier reasoning; the rest are other services' own.
            _ => {}
        }
        Ok(())
    }
}

/// What a tool said. A picture it made is noted, so that the result does not look empty.
fn result(content: Option<&Value>) -> String {
    let one = |block: &Value| match block {
        Value::String(text) => Some(text.clone()),
        Value::Object(fields) => match fields.get("type").and_then(Value::as_str).unwrap_or("text") {
            "text" => fields.get("text").and_then(Value::as_str).map(str::to_owned),
            "document" if document(fields).is_some() => document(fields),
            kind @ ("image" | "document" | "search_result") => Some(note(kind, fields)),
            _ => None,
        },
        _ => None,
    };
    match content {
        Some(Value::Array(blocks)) => blocks.iter().filter_map(one).collect::<Vec<_>>().join("\n"),
        Some(block) => one(block).unwrap_or_default(),
        None => String::new(),
    }
}

/// `[image image/png, 3 bytes: not shown, this model reads text only]`
fn note(kind: &str, block: &Map<String, Value>) -> String {
    let source = block.get("source");
    let text = |name: &str| source.and_then(|source| source.get(name)).and_then(Value::as_str);
    let media = text("media_type").map_or(String::new(), |media| format!(" {}", media.chars().take(60).collect::<String>()));
    // Base64 holds three bytes in four characters.
    let size = text("data").map_or(String::new(), |data| {
        format!(", {} bytes", data.trim_end_matches('=').len() * 3 / 4)
    });
    format!("[{kind}{media}{size}: not shown, this model reads text only]")
}

/// The text of a document that is text.
fn document(block: &Map<String, Value>) -> Option<String> {
    let source = block.get("source")?;
    let text = match source.get("type")?.as_str()? {
        "text" => source.get("data")?.as_str()?.to_owned(),
        "content" => result(source.get("content")),
        _ => return None,
    };
    Some(match block.get("title").and_then(Value::as_str) {
        Some(title) => format!("{title}:\n{text}"),
        None => text,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(value: Value) -> Vec<(Role, String)> {
        let turns = messages(&value, None, false, &mut Vec::new()).unwrap();
        turns.into_iter().map(|turn| (turn.role, turn.content)).collect()
    }

    /// Case ag-001: only the checksum differs, so the prompts are the same.
    #[test]
    fn the_per_request_header_is_no_part_of_the_prompt() {
        let system = |sum: &str| {
            let header = format!("x-anthropic-billing-header: cc_version=2.1.36.abc; cc_entrypoint=cli; cch={sum};");
            system(Some(
                &json!([{"type": "text", "text": header}, {"type": "text", "text": "You are a coding assistant."}]),
            ))
            .unwrap()
        };
        assert_eq!(system("1a2b3").as_deref(), Some("You are a coding assistant."));
        assert_eq!(system("1a2b3"), system("9f8e7"));
        let one = super::system(Some(&json!("x-anthropic-billing-header: cch=1;\nBe brief."))).unwrap();
        assert_eq!(one.as_deref(), Some("Be brief."));
        assert_eq!(super::system(Some(&json!([]))).unwrap(), None);
        assert_eq!(super::system(Some(&json!(5))).unwrap_err().param.as_deref(), Some("system"));
    }

    /// Case ag-002.
    #[test]
    fn late_system_messages_keep_their_place() {
        let turns = messages(
            &json!([{"role": "user", "content": "hi"}, {"role": "system", "content": "MCP: be brief."}, {"role": "user", "content": "go"}]),
            Some("S".into()),
            false,
            &mut Vec::new(),
        )
        .unwrap();
        let all: Vec<&str> = turns.iter().map(|turn| turn.content.as_str()).collect();
        assert_eq!(all, ["S", "hi\n\n<system-reminder>\nMCP: be brief.\n</system-reminder>", "go"]);
    }

    #[test]
    fn tool_rounds_become_tool_turns_before_the_users_words() {
        let turns = messages(
            &json!([
                {"role": "assistant", "content": [
                    {"type": "thinking", "thinking": "look", "signature": "abc"}, {"type": "text", "text": "Reading."},
                    {"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {"file_path": "/a"}}]},
                {"role": "user", "content": [
                    {"type": "text", "text": "now this"},
                    {"type": "tool_result", "tool_use_id": "toolu_1", "is_error": true, "content": [
                        {"type": "text", "text": "no such file"},
                        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}]}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_2"}]},
            ]),
            None,
            false,
            &mut Vec::new(),
        )
        .unwrap();
        assert_eq!(turns[0].tool_calls[0].arguments, json!({"file_path": "/a"}));
        assert_eq!((turns[0].content.as_str(), turns[0].reasoning.as_deref()), ("Reading.", None));
        assert_eq!((turns[1].role, turns[1].tool_call_id.as_deref()), (Role::Tool, Some("toolu_1")));
        assert_eq!(
            turns[1].content,
            "Error: no such file\n[image image/png, 3 bytes: not shown, this model reads text only]"
        );
        assert_eq!((turns[2].role, turns[2].content.as_str()), (Role::User, "now this"));
        assert_eq!((turns[3].role, turns[3].content.as_str()), (Role::Tool, ""));
        assert_eq!(turns.len(), 4, "no empty user turn");
    }

    #[test]
    fn pictures_are_refused_text_documents_read_and_the_unknown_skipped() {
        let picture = json!([{"role": "user", "content": [{"type": "image", "source": {}}]}]);
        let error = messages(&picture, None, false, &mut Vec::new()).unwrap_err();
        assert_eq!(
            (error.code, error.param.as_deref()),
            (Some("unsupported_content"), Some("messages[0].content[0]"))
        );
        let mut warnings = Vec::new();
        assert_eq!(messages(&picture, None, true, &mut warnings).unwrap()[0].content, "");
        assert_eq!(warnings.len(), 1);
        let talk = json!([{"role": "user", "content": [
            {"type": "document", "title": "a.txt", "source": {"type": "text", "data": "hello"}},
            {"type": "server_tool_use", "id": "x"}, {"type": "container_upload"}, "bare"]}]);
        assert_eq!(read(talk), [(Role::User, "a.txt:\nhello\nbare".into())]);
    }

    #[test]
    fn errors_name_the_place() {
        for (value, param) in [
            (json!("hi"), "messages"),
            (json!([]), "messages"),
            (json!([5]), "messages[0]"),
            (json!([{"role": "wizard", "content": "x"}]), "messages[0].role"),
            (json!([{"role": "user", "content": 5}]), "messages[0].content"),
            (json!([{"role": "user", "content": [5]}]), "messages[0].content[0]"),
        ] {
            let error = messages(&value, None, false, &mut Vec::new()).unwrap_err();
            assert_eq!(error.param.as_deref(), Some(param), "{value}");
        }
    }
}
