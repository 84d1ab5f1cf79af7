use crate::Millis;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    System,
    User,
    Assistant,
}

impl Role {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }

    pub(crate) fn parse(text: &str) -> Self {
        match text {
            "system" => Self::System,
            "assistant" => Self::Assistant,
            _ => Self::User,
        }
    }
}

/// How a message stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MessageState {
    Done,
    /// Being written now. After a crash such a message becomes [`MessageState::Interrupted`].
    Streaming,
    /// The person pressed Stop; the text so far is kept.
    Stopped,
    /// The app ended while it was being written.
    Interrupted,
    /// The engine failed; [`Meta::error`] says why, the text so far is kept.
    Failed,
}

impl MessageState {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Streaming => "streaming",
            Self::Stopped => "stopped",
            Self::Interrupted => "interrupted",
            Self::Failed => "failed",
        }
    }

    pub(crate) fn parse(text: &str) -> Self {
        match text {
            "streaming" => Self::Streaming,
            "stopped" => Self::Stopped,
            "interrupted" => Self::Interrupted,
            "failed" => Self::Failed,
            _ => Self::Done,
        }
    }
}

/// One line of the sidebar.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionHead {
    pub id: i64,
    pub title: String,
    pub pinned: bool,
    pub updated_at: Millis,
}

/// One node of a session's tree. Siblings (same parent) are alternatives of each other.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    pub id: i64,
    pub session: i64,
    /// `None` for the first message of a conversation.
    pub parent: Option<i64>,
    pub role: Role,
    pub text: String,
    pub state: MessageState,
    pub meta: Meta,
    pub created_at: Millis,
    /// Which child the conversation goes on with; `None` takes the newest.
    pub active_child: Option<i64>,
}

/// A message to be added.
#[derive(Debug, Clone, PartialEq)]
pub struct NewMessage {
    pub session: i64,
    pub parent: Option<i64>,
    pub role: Role,
    pub text: String,
    pub state: MessageState,
    pub meta: Meta,
}

impl NewMessage {
    /// A finished message without figures.
    pub fn new(session: i64, parent: Option<i64>, role: Role, text: impl Into<String>) -> Self {
        Self {
            session,
            parent,
            role,
            text: text.into(),
            state: MessageState::Done,
            meta: Meta::default(),
        }
    }
}

/// Counts of one answer, in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    pub prompt: usize,
    /// Prompt tokens taken from the cache instead of computed.
    pub cached: usize,
    pub completion: usize,
    pub reasoning: usize,
}

/// Why an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Finish {
    Stop,
    Length,
    Cancelled,
}

/// How an answer came to be. Stored as JSON: older and newer versions read each other's.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Meta {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quantization: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub engine_version: Option<String>,
    /// The sampling settings as they were sent.
    #[serde(skip_serializing_if = "serde_json::Value::is_null")]
    pub sampling: serde_json::Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Seconds from admission to the first token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttft: Option<f64>,
    /// Decoded tokens a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decode_rate: Option<f64>,
    /// Tokens a second from admission to the last token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end_to_end_rate: Option<f64>,
    /// Tokens committed per target forward.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accept: Option<f64>,
    /// Times plain decoding on the same machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub multiple: Option<f64>,
    /// Drafts of a round at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cap: Option<usize>,
    /// How it was decoded: `dspark`, `baseline`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// Why it was not decoded as asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode_reason: Option<String>,
    /// Where the text came from, run by run: `d12t3` is 12 bytes from the drafter, then 3 of the target's own.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub sources: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finish: Option<Finish>,
    /// Seconds of reasoning before the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_seconds: Option<f64>,
    /// Why the message failed, in words for a person.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}
