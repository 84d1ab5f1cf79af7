//! Chats that other programs exported: ChatGPT (`conversations.json`), LM Studio (`*.conversation.json`), Open WebUI and
//! this program's own JSON, told apart by their shape. Nothing is written here: what is read comes back as trees of
//! messages, which the caller stores.
//!
//! Kept are the words of people and models, branches, thoughts, times and the model's name. Left out are hidden
//! messages, calls of tools and their results; pictures and files leave a note where they stood.

mod chatgpt;
mod lm_studio;
mod open_webui;
mod own;

use crate::{MessageState, Meta, Millis, Role};
use serde_json::Value;
use std::fmt;

/// Where a file came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    ChatGpt,
    LmStudio,
    OpenWebUi,
    Own,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ChatGpt => "ChatGPT",
            Self::LmStudio => "LM Studio",
            Self::OpenWebUi => "Open WebUI",
            Self::Own => "mlx-dspark",
        })
    }
}

impl Origin {
    fn fits(self, entry: &Value) -> bool {
        match self {
            Self::ChatGpt => chatgpt::fits(entry),
            Self::LmStudio => lm_studio::fits(entry),
            Self::OpenWebUi => open_webui::fits(entry),
            Self::Own => own::fits(entry),
        }
    }

    fn chat(self, entry: &Value) -> Option<ImportedChat> {
        match self {
            Self::ChatGpt => chatgpt::chat(entry),
            Self::LmStudio => lm_studio::chat(entry),
            Self::OpenWebUi => open_webui::chat(entry),
            Self::Own => own::chat(entry),
        }
    }
}

/// What a file holds.
#[derive(Debug, Clone, PartialEq)]
pub struct Import {
    pub origin: Origin,
    /// As they stand in the file; empty ones are left out.
    pub chats: Vec<ImportedChat>,
    /// Chats that could not be read, or held nothing.
    pub skipped: usize,
}

/// A chat as a tree.
#[derive(Debug, Clone, PartialEq)]
pub struct ImportedChat {
    /// Empty where the file has none.
    pub title: String,
    pub created_at: Millis,
    /// A parent stands before its children; of siblings, the one that is shown stands last.
    pub messages: Vec<ImportedMessage>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ImportedMessage {
    /// Index in [`ImportedChat::messages`].
    pub parent: Option<usize>,
    pub role: Role,
    /// Thoughts stand before the answer between `<think>` and `</think>`, as this program keeps its own.
    pub text: String,
    pub state: MessageState,
    pub meta: Meta,
    pub created_at: Millis,
}

/// Why a file cannot be imported.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImportError {
    #[error("this is no JSON ({0}): choose the JSON file of an export; where it came as an archive, unpack that first")]
    NotJson(String),
    #[error(
        "this JSON is no export that is known here: ChatGPT's `conversations.json`, LM Studio's `*.conversation.json`, Open WebUI's \
         export of chats and this program's own JSON are"
    )]
    Unknown,
}

/// Reads an export.
///
/// # Errors
/// [`ImportError`]; a chat that is broken among others is skipped and counted.
pub fn read(bytes: &[u8]) -> Result<Import, ImportError> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let value: Value = serde_json::from_slice(bytes).map_err(|error| ImportError::NotJson(error.to_string()))?;
    let whole = std::slice::from_ref(&value);
    // Exports of several chats are lists; that of one may be the chat itself.
    let entries = value.as_array().map_or(whole, Vec::as_slice);
    let origin = [Origin::Own, Origin::ChatGpt, Origin::OpenWebUi, Origin::LmStudio]
        .into_iter()
        .find(|origin| entries.iter().any(|entry| origin.fits(entry)))
        .ok_or(ImportError::Unknown)?;
    let chats: Vec<ImportedChat> = entries
        .iter()
        .filter_map(|entry| origin.chat(entry))
        .filter(|chat| !chat.messages.is_empty())
        .collect();
    Ok(Import {
        origin,
        skipped: entries.len() - chats.len(),
        chats,
    })
}

/// A message as a file has it, before it is put in order.
struct Raw {
    id: String,
    parent: Option<String>,
    /// `None`: not to be shown; its children hang on its own parent.
    said: Option<Said>,
    /// Thoughts that belong to the answer below.
    thoughts: String,
}

struct Said {
    role: Role,
    text: String,
    model: Option<String>,
    at: Option<Millis>,
}

/// Puts messages in order: parents before children, the path to `shown` last among siblings, hidden ones taken out.
fn arranged(raws: &[Raw], shown: Option<&str>, created_at: Millis) -> Vec<ImportedMessage> {
    use std::collections::{HashMap, HashSet};
    let index: HashMap<&str, usize> = raws.iter().enumerate().map(|(at, raw)| (raw.id.as_str(), at)).collect();
    let parent = |at: usize| {
        let id = raws[at].parent.as_deref()?;
        index.get(id).copied().filter(|parent| *parent != at)
    };
    let mut path = HashSet::new();
    let mut next = shown.and_then(|id| index.get(id).copied());
    while let Some(at) = next.filter(|at| path.insert(*at)) {
        next = parent(at);
    }
    let mut children: HashMap<Option<usize>, Vec<usize>> = HashMap::new();
    for at in 0..raws.len() {
        children.entry(parent(at)).or_default().push(at);
    }
    let mut out: Vec<ImportedMessage> = Vec::new();
    // Iteratively: a chat may be longer than a stack is deep. Each entry carries the kept message above, and thoughts.
    let roots = |under: Option<usize>| {
        let mut below = children.get(&under).cloned().unwrap_or_default();
        below.sort_by_key(|at| path.contains(at));
        below.reverse();
        below
    };
    let mut stack: Vec<(usize, Option<usize>, String)> = roots(None).into_iter().map(|at| (at, None, String::new())).collect();
    while let Some((at, above, mut thoughts)) = stack.pop() {
        let raw = &raws[at];
        if !raw.thoughts.is_empty() {
            thoughts = if thoughts.is_empty() {
                raw.thoughts.clone()
            } else {
                format!("{thoughts}\n\n{}", raw.thoughts)
            };
        }
        let mut kept = above;
        if let Some(said) = &raw.said {
            let thought = std::mem::take(&mut thoughts);
            let text = if said.role == Role::Assistant && !thought.is_empty() {
                format!("<think>\n{}\n</think>\n\n{}", thought.trim(), said.text)
            } else {
                said.text.clone()
            };
            let goes_on = above.filter(|above| {
                let siblings = out.iter().any(|message| message.parent == Some(*above));
                said.role == Role::Assistant && out[*above].role == Role::Assistant && !siblings
            });
            if let Some(above) = goes_on {
                // An answer in parts, between which a tool was at work.
                out[above].text = format!("{}\n\n{text}", out[above].text);
            } else {
                kept = Some(out.len());
                out.push(ImportedMessage {
                    parent: above,
                    role: said.role,
                    text,
                    state: MessageState::Done,
                    meta: Meta {
                        model: said.model.clone(),
                        ..Meta::default()
                    },
                    created_at: said.at.unwrap_or(created_at),
                });
            }
        }
        stack.extend(roots(Some(at)).into_iter().map(|below| (below, kept, thoughts.clone())));
    }
    out
}

/// Seconds (with a fraction) or milliseconds since 1970.
fn time(value: &Value) -> Option<Millis> {
    const YEAR_5138: f64 = 1e11;
    let number = value.as_f64().filter(|number| number.is_finite() && *number > 0.0)?;
    Some(if number < YEAR_5138 { number * 1000.0 } else { number } as Millis)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn role(name: &str) -> Option<Role> {
    match name {
        "system" => Some(Role::System),
        "user" => Some(Role::User),
        "assistant" => Some(Role::Assistant),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
