//! What the HTTP server is asked for, in the window's words.

use dspark_strings::t;
use std::time::SystemTime;

/// How far a request is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum CallState {
    Waiting,
    /// Tokens of the prompt that are there, of all.
    Prefilling {
        done: usize,
        total: usize,
    },
    /// Tokens a second, once it is known.
    Generating {
        rate: Option<f64>,
    },
    /// Cancelled, or its client has gone; the engine comes to the end of its round.
    Stopping,
}

/// A request under way.
#[derive(Debug, Clone, PartialEq)]
pub struct LiveCall {
    /// What [`super::ServerControl::cancel`] takes.
    pub id: String,
    /// The engine's number for it.
    pub generation: u64,
    /// From its User-Agent.
    pub client: String,
    /// `POST /v1/messages`.
    pub route: String,
    pub state: CallState,
    pub prompt_tokens: usize,
    pub cached_tokens: usize,
    pub generated: usize,
    /// Since it came.
    pub seconds: f64,
}

/// How a request ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallEnd {
    Done,
    /// At its limit of tokens.
    Length,
    Cancelled,
    /// Its client hung up.
    Left,
    Failed(String),
    /// Turned away with this status.
    Refused {
        status: u16,
        reason: String,
    },
}

impl CallEnd {
    /// What went wrong.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Failed(reason) | Self::Refused { reason, .. } => Some(reason),
            _ => None,
        }
    }
}

/// What of a prompt was reused, and why not more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    /// Tokens.
    pub reused: usize,
    pub recomputed: usize,
    pub why: String,
    /// The first text that differs from the nearest earlier prompt: where, what it was, what it is.
    pub difference: Option<Difference>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    pub place: String,
    pub before: String,
    pub now: String,
}

/// A request that is over.
#[derive(Debug, Clone, PartialEq)]
pub struct EndedCall {
    pub id: String,
    pub client: String,
    pub route: String,
    pub end: CallEnd,
    pub prompt_tokens: usize,
    pub generated: usize,
    pub receipt: Option<Receipt>,
    /// From its coming to its end.
    pub seconds: f64,
    /// From its coming to its first token.
    pub first_token: Option<f64>,
    /// Computed prompt tokens a second.
    pub prefill_rate: Option<f64>,
    /// Generated tokens a second.
    pub decode_rate: Option<f64>,
    pub at: SystemTime,
    /// The same refusal this many times in a row.
    pub times: u32,
}

/// All that one client has asked for since the app started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientTotals {
    pub client: String,
    pub requests: u64,
    pub failed: u64,
    pub prompt_tokens: u64,
    pub cached_tokens: u64,
    pub completion_tokens: u64,
    pub last_error: Option<String>,
    pub last_seen: SystemTime,
}

impl ClientTotals {
    /// Percent of the prompts' tokens that were not computed again; `None` before there was a prompt.
    pub fn reused(&self) -> Option<f64> {
        (self.prompt_tokens > 0).then(|| 100.0 * self.cached_tokens as f64 / self.prompt_tokens as f64)
    }
}

/// Who asks for what.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Activity {
    /// In the order in which they came.
    pub live: Vec<LiveCall>,
    /// The newest first.
    pub ended: Vec<EndedCall>,
    /// The last seen first.
    pub clients: Vec<ClientTotals>,
}

impl Activity {
    pub fn is_empty(&self) -> bool {
        self.live.is_empty() && self.ended.is_empty() && self.clients.is_empty()
    }
}

/// A route in the words of who uses it.
pub fn dialect(route: &str) -> &'static str {
    let path = route.split_once(' ').map_or(route, |(_, path)| path);
    let mut path = path.trim_end_matches('/');
    while let Some(rest) = path.strip_prefix("/v1") {
        path = rest;
    }
    match path {
        "/chat/completions" => "OpenAI chat",
        "/completions" => "OpenAI completions",
        "/messages" | "/messages/count_tokens" => "Anthropic",
        "/responses" => "OpenAI responses",
        "/admin/race" => t!(race),
        _ => "HTTP",
    }
}

#[cfg(test)]
mod tests {
    use super::dialect;

    #[test]
    fn routes_are_named() {
        for (route, name) in [
            ("POST /v1/chat/completions", "OpenAI chat"),
            ("POST /messages", "Anthropic"),
            ("POST /v1/v1/responses/", "OpenAI responses"),
            ("POST /v1/embeddings", "HTTP"),
        ] {
            assert_eq!(dialect(route), name);
        }
    }
}
