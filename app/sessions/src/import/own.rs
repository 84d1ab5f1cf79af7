//! What this program's window exports as JSON.

use super::{ImportedChat, ImportedMessage, text};
use crate::{MessageState, Meta, Role};
use serde::Deserialize;
use serde_json::Value;
use std::collections::HashMap;

pub(super) fn fits(chat: &Value) -> bool {
    chat["format"] == "mlx-dspark-chat"
}

#[derive(Deserialize)]
struct Row {
    id: i64,
    #[serde(default)]
    parent: Option<i64>,
    #[serde(default)]
    shown: bool,
    role: Role,
    #[serde(default)]
    state: Option<MessageState>,
    #[serde(default)]
    created_at: Option<i64>,
    #[serde(default)]
    text: String,
    #[serde(default)]
    reasoning: Option<String>,
    #[serde(default)]
    meta: Meta,
}

pub(super) fn chat(chat: &Value) -> Option<ImportedChat> {
    let mut rows: Vec<Row> = Vec::deserialize(&chat["messages"]).ok()?;
    // Ids grow downwards; of siblings, the shown one comes last.
    rows.sort_by_key(|row| row.id);
    let created_at = rows.iter().find_map(|row| row.created_at).unwrap_or_else(crate::now);
    let depth: HashMap<i64, usize> = rows.iter().fold(HashMap::new(), |mut depth, row| {
        let above = row.parent.and_then(|parent| depth.get(&parent).copied());
        depth.insert(row.id, above.map_or(0, |above| above + 1));
        depth
    });
    rows.sort_by_key(|row| (depth[&row.id], row.shown, row.id));
    let index: HashMap<i64, usize> = rows.iter().enumerate().map(|(at, row)| (row.id, at)).collect();
    let messages = rows.iter().map(|row| ImportedMessage {
        parent: row.parent.and_then(|parent| index.get(&parent).copied()),
        role: row.role,
        text: match row.reasoning.as_deref().map(str::trim).filter(|thoughts| !thoughts.is_empty()) {
            Some(thoughts) => format!("<think>\n{thoughts}\n</think>\n\n{}", row.text),
            None => row.text.clone(),
        },
        state: match row.state {
            // Nobody is writing it any more.
            Some(MessageState::Streaming) => MessageState::Interrupted,
            state => state.unwrap_or(MessageState::Done),
        },
        meta: row.meta.clone(),
        created_at: row.created_at.unwrap_or(created_at),
    });
    Some(ImportedChat {
        title: text(&chat["title"]).trim().into(),
        created_at,
        messages: messages.collect(),
    })
}
