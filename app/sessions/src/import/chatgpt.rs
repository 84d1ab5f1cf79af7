//! ChatGPT's `conversations.json`: each chat a `mapping` of nodes with parents, `current_node` the end of what is shown.

use super::{ImportedChat, Raw, Said, arranged, role, text, time};
use serde_json::Value;

pub(super) fn fits(chat: &Value) -> bool {
    chat["mapping"].is_object()
}

pub(super) fn chat(chat: &Value) -> Option<ImportedChat> {
    let created_at = time(&chat["create_time"]).unwrap_or_else(crate::now);
    let raws: Vec<Raw> = chat["mapping"].as_object()?.iter().map(|(id, node)| raw(id, node)).collect();
    Some(ImportedChat {
        title: text(&chat["title"]).trim().into(),
        created_at,
        messages: arranged(&raws, chat["current_node"].as_str(), created_at),
    })
}

fn raw(id: &str, node: &Value) -> Raw {
    let message = &node["message"];
    let content = &message["content"];
    let kind = text(&content["content_type"]);
    let mut raw = Raw {
        id: id.into(),
        parent: node["parent"].as_str().map(str::to_owned),
        said: None,
        thoughts: String::new(),
    };
    if kind == "thoughts" {
        let thoughts = content["thoughts"].as_array().into_iter().flatten();
        let words = thoughts.map(|thought| [text(&thought["summary"]), text(&thought["content"])].join("\n"));
        raw.thoughts = words.collect::<Vec<_>>().join("\n\n").trim().into();
        return raw;
    }
    let hidden = message["metadata"]["is_visually_hidden_from_conversation"] == true;
    // To a tool rather than to the person.
    let aside = !matches!(text(&message["recipient"]), "" | "all");
    let words = words(content);
    if hidden || aside || words.trim().is_empty() || !matches!(kind, "text" | "multimodal_text" | "code") {
        return raw;
    }
    raw.said = role(text(&message["author"]["role"])).map(|role| Said {
        role,
        text: words,
        model: message["metadata"]["model_slug"].as_str().map(str::to_owned),
        at: time(&message["create_time"]),
    });
    raw
}

fn words(content: &Value) -> String {
    if let Some(text) = content["text"].as_str() {
        let language = text_language(content);
        return format!("```{language}\n{text}\n```");
    }
    let parts = content["parts"].as_array().into_iter().flatten();
    let parts = parts.filter_map(|part| match part {
        Value::String(text) => Some(text.clone()),
        Value::Object(_) => Some(match text(&part["content_type"]) {
            "image_asset_pointer" => "[picture]".into(),
            "audio_transcription" => text(&part["text"]).to_owned(),
            _ => "[attachment]".into(),
        }),
        _ => None,
    });
    parts.collect::<Vec<_>>().join("\n\n")
}

/// The language of a code message; `unknown` is what stands there for most.
fn text_language(content: &Value) -> &str {
    Some(text(&content["language"]))
        .filter(|language| *language != "unknown")
        .unwrap_or_default()
}
