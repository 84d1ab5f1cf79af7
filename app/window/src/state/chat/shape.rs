//! What a conversation holds, and what can happen to it.

use crate::state::Sources;
use dspark_protocol::Event;
use dspark_sessions::{Message, Meta, Tree};
use std::time::{Duration, Instant};

#[derive(Debug, Clone, Default)]
pub struct Chat {
    /// `None` is a chat that does not exist yet.
    pub session: Option<i64>,
    pub title: String,
    pub tree: Tree,
    pub draft: Draft,
    pub edit: Option<Edit>,
    /// Read from disk, not here yet.
    pub opening: Option<i64>,
    /// The text in the composer goes out as soon as a model is ready.
    pub waiting: bool,
    /// Scroll to this message (a search hit).
    pub reveal: Option<i64>,
    /// How this chat's replies are drawn; `None` as everywhere.
    pub options: Option<Box<crate::settings::Chat>>,
    /// Turns at its beginning that the model does not read.
    pub left_out: usize,
}

/// What stands in the composer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Draft {
    pub text: String,
    /// Go before the text when it is sent.
    pub files: Vec<dspark_attach::Attachment>,
    /// Goes up with every change, so that a late token count is known to be late.
    pub revision: u64,
    /// Tokens of the conversation with this text, template included.
    pub tokens: Option<usize>,
    /// The revision that `tokens` was counted for; it lags a moment behind while a person types.
    pub counted: u64,
}

impl Draft {
    /// What was kept of a draft, its files apart from its words again.
    pub fn of(kept: &str, revision: u64) -> Self {
        let (files, words) = dspark_attach::split(kept);
        Self {
            text: words.into(),
            files,
            revision,
            ..Self::default()
        }
    }

    /// What would be sent.
    pub fn message(&self) -> String {
        dspark_attach::message(&self.files, &self.text)
    }

    /// `tokens` is the count of what stands here now.
    pub fn is_counted(&self) -> bool {
        self.counted == self.revision
    }
}

/// A message being edited in place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edit {
    pub message: i64,
    /// Go along as they are.
    pub files: Vec<dspark_attach::Attachment>,
    /// The words.
    pub text: String,
}

/// An answer under way.
#[derive(Debug, Clone)]
pub struct Live {
    pub session: i64,
    pub message: i64,
    pub phase: Phase,
    /// Everything so far, also while another chat is open.
    pub text: String,
    pub tokens: usize,
    pub cancelled: bool,
    pub since: Instant,
    pub first_token: Option<Duration>,
    /// When the thoughts ended.
    pub thought: Option<Duration>,
    /// Tokens of them.
    pub thought_tokens: usize,
    pub prompt: (usize, usize),
    /// Where the text came from.
    pub sources: Sources,
    /// Figures of an answer that is being continued.
    pub(in crate::state) meta: Meta,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    Submitted,
    /// 1 is next in line.
    Queued(usize),
    Prefilling {
        processed: usize,
        total: usize,
    },
    Generating,
}

#[derive(Debug, Clone)]
pub enum ChatMsg {
    New,
    Open(i64),
    /// Open a chat at one of its messages.
    Reveal {
        session: i64,
        message: Option<i64>,
    },
    Revealed,
    Opened {
        session: i64,
        tree: Tree,
        draft: String,
        options: Option<Box<crate::settings::Chat>>,
    },
    /// This chat's own settings, or those of all chats again.
    Options(Option<Box<crate::settings::Chat>>),
    /// The model is not to read this many of the oldest turns.
    LeaveOut(usize),
    /// The new chat's unsent text, read at start.
    Draft(String),
    Compose(String),
    Tokens {
        revision: u64,
        tokens: Option<usize>,
    },
    Send,
    /// Do not send after all, once a model is ready.
    Unwait,
    Stop,
    Continue(i64),
    /// Another answer beside this one.
    Regenerate(i64),
    /// The same for the last answer.
    RegenerateLast,
    /// Show a neighbouring alternative.
    Alternative {
        message: i64,
        step: isize,
    },
    StartEdit(i64),
    EditLast,
    EditText(String),
    CancelEdit,
    SendEdit,
    Delete(i64),
    Undelete(Box<Message>),
    CopyMessage(i64),
    CopyAll,
    /// The open chat into a file.
    Export(crate::state::ExportChat),
    Event {
        message: i64,
        event: Event,
    },
}
