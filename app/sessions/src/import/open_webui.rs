//! Open WebUI's export: `chat.history.messages`, each with its parent, `currentId` the end of what is shown.

use super::{ImportedChat, Raw, Said, arranged, role, text, time};
use serde_json::Value;

pub(super) fn fits(entry: &Value) -> bool {
    entry["chat"]["history"]["messages"].is_object() || entry["chat"]["messages"].is_array()
}

pub(super) fn chat(entry: &Value) -> Option<ImportedChat> {
    let chat = &entry["chat"];
    let created_at = [&entry["created_at"], &chat["timestamp"]]
        .into_iter()
        .find_map(time)
        .unwrap_or_else(crate::now);
    let raws: Vec<Raw> = match chat["history"]["messages"].as_object() {
        Some(messages) => messages.iter().map(|(id, message)| raw(id, message)).collect(),
        // Old exports have the shown messages alone.
        None => chat["messages"]
            .as_array()?
            .iter()
            .map(|message| raw(text(&message["id"]), message))
            .collect(),
    };
    let last = raws.last().map(|raw| raw.id.as_str());
    let title = [&chat["title"], &entry["title"]]
        .into_iter()
        .map(text)
        .find(|title| !title.trim().is_empty());
    Some(ImportedChat {
        title: title.unwrap_or_default().trim().into(),
        created_at,
        messages: arranged(&raws, chat["history"]["currentId"].as_str().or(last), created_at),
    })
}

fn raw(id: &str, message: &Value) -> Raw {
    let content = match &message["content"] {
        Value::String(text) => text.clone(),
        parts => {
            let parts = parts.as_array().into_iter().flatten();
            parts
                .map(|part| part["text"].as_str().unwrap_or("[attachment]"))
                .collect::<Vec<_>>()
                .join("\n\n")
        }
    };
    let (thoughts, mut words) = apart(&content);
    if message["files"].as_array().is_some_and(|files| !files.is_empty()) {
        words = format!("[attachment]\n\n{words}");
    }
    let said = role(text(&message["role"])).filter(|_| !words.trim().is_empty());
    Raw {
        id: id.into(),
        parent: message["parentId"].as_str().map(str::to_owned),
        said: said.map(|role| Said {
            role,
            text: words,
            model: message["model"].as_str().map(str::to_owned),
            at: time(&message["timestamp"]),
        }),
        thoughts,
    }
}

/// Thoughts stand in the text as a folded block of HTML, quoted line by line; calls of tools likewise.
fn apart(content: &str) -> (String, String) {
    const OPEN: &str = "<details type=\"";
    const CLOSE: &str = "</details>";
    let (mut thoughts, mut words, mut rest) = (Vec::new(), String::new(), content);
    while let Some((before, block)) = rest.split_once(OPEN) {
        // Without an end it is somebody's own HTML.
        let Some((block, after)) = block.split_once(CLOSE) else { break };
        words.push_str(before);
        if block.starts_with("reasoning") {
            let inside = block.split_once("</summary>").map_or(block, |(_, inside)| inside);
            let lines = inside
                .trim()
                .lines()
                .map(|line| line.strip_prefix("&gt;").or(line.strip_prefix('>')).unwrap_or(line).trim_start());
            thoughts.push(unescaped(&lines.collect::<Vec<_>>().join("\n")));
        }
        rest = after;
    }
    words.push_str(rest);
    (thoughts.join("\n\n"), words.trim().into())
}

fn unescaped(text: &str) -> String {
    text.replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"")
        .replace("&#x27;", "'")
        .replace("&amp;", "&")
}
