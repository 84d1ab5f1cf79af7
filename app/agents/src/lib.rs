//! Pointing coding agents and chat clients at the local server. Source: `spec/clients.md`.
//!
//! A client is set up by its environment, by fields that a person fills in, or by a file. Files are never overwritten:
//! they are parsed and merged, comments kept; the change is shown before it is made; and an undo record brings back what
//! was there, unless somebody has changed the file since. A file that does not parse is left alone.
//!
//! | module | owns |
//! |---|---|
//! | [`clients`] | every client: what it needs, and where its settings are |
//! | [`claude`] | the environment that Claude Code starts with |
//! | `entries` | what their settings say of this server |
//! | [`found`] | whether a client is installed, where, and which version |
//! | [`plan`] | what would change, whether it is up to date, doing it and undoing it |
//! | [`standing`] | all of it about one client, read from the disk |
//! | `merge` | one entry in a JSON file with comments |
//! | `disk` | writing in one step |

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod claude;
pub mod clients;
mod disk;
mod entries;
pub mod found;
mod merge;
pub mod plan;
pub mod standing;

pub use clients::{CLIENTS, Client, Places, Step, client};
pub use found::Found;
pub use plan::{AgentError, Plan, State, apply, inspect, keep, plan, since, undo, undo_changed, undoing};
pub use standing::{Standing, Undo, look};

/// The server that clients shall use, and the model behind it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Serving {
    /// Without `/v1`: `http://127.0.0.1:8080`.
    pub base_url: String,
    pub model: String,
    /// Tokens.
    pub context_window: usize,
    pub max_output_tokens: usize,
    /// The model reasons before it answers.
    pub thinks: bool,
    pub key: Option<String>,
}

impl Serving {
    /// For clients of OpenAI's kind.
    pub fn openai_url(&self) -> String {
        format!("{}/v1", self.base_url.trim_end_matches('/'))
    }

    /// The key, or a word in its place: several clients refuse an empty one.
    pub fn key_or_word(&self) -> &str {
        self.key.as_deref().unwrap_or("mlx-dspark")
    }

    /// What a client may ask for in one answer and still have room for a conversation.
    pub fn answer_tokens(&self) -> usize {
        let most = self.max_output_tokens.max(1);
        if self.context_window > 0 {
            most.min((self.context_window / 4).max(1))
        } else {
            most
        }
    }
}
