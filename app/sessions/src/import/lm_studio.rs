//! LM Studio's `*.conversation.json`: a list of messages, each with versions of which one is selected.

use super::{ImportedChat, Raw, Said, arranged, role, text, time};
use serde_json::Value;

pub(super) fn fits(chat: &Value) -> bool {
    let mut messages = chat["messages"].as_array().into_iter().flatten();
    chat["messages"].is_array() && messages.all(|message| message["versions"].is_array())
}

pub(super) fn chat(chat: &Value) -> Option<ImportedChat> {
    let created_at = time(&chat["createdAt"]).unwrap_or_else(crate::now);
    let model = ["identifier", "indexedModelIdentifier"]
        .iter()
        .find_map(|key| chat["lastUsedModel"][*key].as_str());
    let mut raws = Vec::new();
    let mut above: Option<String> = None;
    let system = text(&chat["systemPrompt"]).trim();
    if !system.is_empty() {
        above = Some("system".into());
        raws.push(Raw {
            id: "system".into(),
            parent: None,
            said: Some(Said {
                role: role("system")?,
                text: system.into(),
                model: None,
                at: None,
            }),
            thoughts: String::new(),
        });
    }
    for (at, message) in chat["messages"].as_array()?.iter().enumerate() {
        let versions = message["versions"].as_array()?;
        let selected = message["currentlySelected"].as_u64().unwrap_or(0) as usize;
        for (number, version) in versions.iter().enumerate() {
            raws.push(raw(format!("{at}.{number}"), above.clone(), version, model));
        }
        above = Some(format!("{at}.{}", selected.min(versions.len().saturating_sub(1))));
    }
    Some(ImportedChat {
        title: text(&chat["name"]).trim().into(),
        created_at,
        messages: arranged(&raws, above.as_deref(), created_at),
    })
}

fn raw(id: String, parent: Option<String>, version: &Value, model: Option<&str>) -> Raw {
    let (mut words, mut thoughts) = (Vec::new(), Vec::new());
    // A message of a person is one step; an answer has several: thoughts, calls of tools, text.
    let steps = version["steps"].as_array().map_or(std::slice::from_ref(version), Vec::as_slice);
    for step in steps {
        let thinking = text(&step["style"]["type"]) == "thinking";
        for block in step["content"].as_array().into_iter().flatten() {
            match text(&block["type"]) {
                "text" if thinking => thoughts.push(text(&block["text"])),
                "text" => words.push(text(&block["text"])),
                "file" => words.push("[attachment]"),
                _ => {}
            }
        }
    }
    let words = words.concat();
    let said = role(text(&version["role"])).filter(|_| !words.trim().is_empty());
    let sender = version["senderInfo"]["senderName"].as_str().or(model);
    Raw {
        id,
        parent,
        said: said.map(|role| Said {
            role,
            text: words,
            model: sender.filter(|_| role == crate::Role::Assistant).map(str::to_owned),
            at: None,
        }),
        thoughts: thoughts.concat(),
    }
}
