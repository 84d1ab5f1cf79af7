//! Where a client stands: installed or not, set up or not, and what has come between.

use crate::{
    Serving,
    clients::{Client, Places},
    disk,
    found::{self, Found},
    plan::{self, Plan, Record, State},
};
use std::path::PathBuf;

/// Whether what was there before can come back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Undo {
    /// Nothing was written from here.
    #[default]
    Nothing,
    Ready,
    /// Somebody has changed the file since.
    Changed,
}

/// A client on this machine, read from the disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    pub client: &'static Client,
    pub found: Option<Found>,
    /// Its settings file, whether or not it is there.
    pub file: Option<PathBuf>,
    pub state: State,
    /// Our entry is there and was changed by somebody else since it was written.
    pub edited: bool,
    /// Why it is out of date: `it points at port 8081`.
    pub reasons: Vec<String>,
    /// What else on this machine keeps it from working.
    pub conflict: Option<String>,
    pub undo: Undo,
    /// What setting it up would change; `None` without a server to set it up for, or where the file cannot be merged.
    pub plan: Option<Plan>,
}

impl Standing {
    /// In a few words, for a list.
    pub fn words(&self) -> String {
        match (&self.state, self.edited) {
            (State::Stale, true) => "changed by hand since".into(),
            (State::Stale, false) if !self.reasons.is_empty() => format!("{}: {}", self.state.word(), self.reasons.join(", ")),
            _ => self.state.word().to_owned(),
        }
    }
}

/// Looks at a client's file. Without `serving` (no model is loaded) it cannot be said whether the file is up to date.
pub fn look(client: &'static Client, serving: Option<&Serving>, places: &Places) -> Standing {
    let mut standing = Standing {
        client,
        found: found::find(client, places),
        file: client.path(places),
        state: State::ByHand,
        edited: false,
        reasons: Vec::new(),
        conflict: conflict(client, places),
        undo: Undo::Nothing,
        plan: None,
    };
    let Some(file) = client.file else { return standing };
    let record = plan::record(client, places);
    // A record is of one file; the project's own is another one in another project.
    let record = record.filter(|record| standing.file.as_ref() == Some(&record.path));
    let now = match standing.file.as_ref().map(|path| disk::read(path)) {
        Some(Ok(now)) => now,
        Some(Err(error)) => {
            standing.state = State::Unreadable(format!("it cannot be read: {error}"));
            return standing;
        }
        None => None,
    };
    standing.undo = undo(record.as_ref(), now.as_deref());
    let entry = now.as_deref().and_then(|now| file.entry(now));
    let written = record.as_ref().and_then(|record| file.entry(&record.after));
    let by_hand = entry.is_some() && written.is_some() && entry != written;
    let Some(serving) = serving else {
        standing.state = match file.merged(now.as_deref(), &Serving::default()) {
            Err(reason) => State::Unreadable(reason),
            Ok(_) if entry.is_some() => State::SetUp,
            Ok(_) => State::NotSetUp,
        };
        standing.edited = by_hand;
        return standing;
    };
    match plan::plan(client, serving, places) {
        Err(plan::AgentError::Unreadable { reason, .. }) => standing.state = State::Unreadable(reason),
        Err(error) => standing.state = State::Unreadable(error.to_string()),
        Ok(plan) => {
            standing.state = match &entry {
                _ if !plan.changes() => State::Current,
                Some(_) => State::Stale,
                None => State::NotSetUp,
            };
            if let (State::Stale, Some(entry), Some(wanted)) = (&standing.state, &entry, file.entry(&plan.after)) {
                standing.reasons = reasons(entry, &wanted, serving);
                standing.edited = by_hand;
                if standing.reasons.is_empty() {
                    let reason = if by_hand {
                        "it was changed by hand since it was set up"
                    } else {
                        "it says something else than would be written now"
                    };
                    standing.reasons.push(reason.into());
                }
            }
            standing.plan = Some(plan);
        }
    }
    standing
}

fn undo(record: Option<&Record>, now: Option<&str>) -> Undo {
    match record {
        None => Undo::Nothing,
        Some(record) if now == Some(record.after.as_str()) => Undo::Ready,
        // Somebody has put it back already.
        Some(record) if now == record.before.as_deref() => Undo::Nothing,
        Some(_) => Undo::Changed,
    }
}

/// What of the wanted entry the present one does not say, in words.
fn reasons(now: &str, wanted: &str, serving: &Serving) -> Vec<String> {
    let lacks = |text: &str| !text.is_empty() && has(wanted, text) && !has(now, text);
    let mut reasons = Vec::new();
    let base = serving.base_url.trim_end_matches('/');
    if lacks(base) {
        reasons.push(elsewhere(now, base));
    }
    if lacks(&serving.model) {
        reasons.push(format!("it is for another model than {}", serving.model));
    }
    // Never the key itself.
    if lacks(serving.key_or_word()) || has(wanted, "MLX_DSPARK_KEY") != has(now, "MLX_DSPARK_KEY") {
        reasons.push("the key is another one".into());
    }
    if reasons.is_empty() && lacks(&serving.context_window.to_string()) {
        reasons.push(format!("the context window is {} tokens now", serving.context_window));
    }
    reasons
}

/// `text` stands in `all` as a whole word: `Qwen3-8B` is not in `Qwen3-8B-8bit`.
fn has(all: &str, text: &str) -> bool {
    let inside = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
    all.match_indices(text).any(|(at, _)| {
        let before = all[..at].chars().next_back();
        let after = all[at + text.len()..].chars().next();
        !before.is_some_and(inside) && !after.is_some_and(inside)
    })
}

/// Where the present entry points instead of at `base`.
fn elsewhere(now: &str, base: &str) -> String {
    let found = ["http://", "https://"].iter().find_map(|scheme| now.find(scheme));
    let address = found.map(|at| {
        let rest = &now[at..];
        let end = rest.find(['"', '\'', ' ', '\n', ',', '}']).unwrap_or(rest.len());
        &rest[..end]
    });
    let authority = |url: &str| {
        url.split_once("://")
            .map(|(_, rest)| rest.split('/').next().unwrap_or_default().to_owned())
    };
    let there = address.and_then(authority);
    let here = authority(base);
    let port = |authority: &Option<String>| authority.as_ref().and_then(|text| Some(text.rsplit_once(':')?.1.to_owned()));
    let host = |authority: &Option<String>| {
        authority
            .as_ref()
            .map(|text| text.rsplit_once(':').map_or(text.clone(), |(host, _)| host.to_owned()))
    };
    match (port(&there), there) {
        (Some(port), there) if host(&there) == host(&here) => format!("it points at port {port}"),
        (_, Some(there)) => format!("it points at {there}"),
        (_, None) => "it points elsewhere".into(),
    }
}

/// What else is in the way. Source: `spec/app.md` §6.
fn conflict(client: &Client, places: &Places) -> Option<String> {
    match client.id {
        "codex" => {
            let text = disk::read(&places.codex.join("config.toml")).ok()??;
            let tables: toml::Table = toml::from_str(&text).ok()?;
            tables
                .contains_key("profiles")
                .then(|| "config.toml has [profiles] tables, with which newer versions do not start".into())
        }
        "claude" => places
            .variables
            .iter()
            .any(|name| name == "ANTHROPIC_API_KEY")
            .then(|| "ANTHROPIC_API_KEY is set: it beats a settings file, not `mlx-dspark claude`".into()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_name_what_moved() {
        let serving = Serving {
            base_url: "http://127.0.0.1:8080".into(),
            model: "Qwen3-8B".into(),
            context_window: 40_960,
            ..Serving::default()
        };
        let wanted = r#"{"url":"http://127.0.0.1:8080/v1","key":"mlx-dspark","model":"Qwen3-8B","window":40960}"#;
        let why = |now: &str| reasons(now, wanted, &serving);
        assert_eq!(why(&wanted.replace("8080", "8081")), ["it points at port 8081"]);
        assert_eq!(why(&wanted.replace("8080", "80801")), ["it points at port 80801"]);
        assert_eq!(why(&wanted.replace("127.0.0.1:8080", "box.local/api")), ["it points at box.local"]);
        assert_eq!(
            why(&wanted.replace("Qwen3-8B", "Qwen3-8B-8bit")),
            ["it is for another model than Qwen3-8B"]
        );
        assert_eq!(why(&wanted.replace("\"mlx-dspark\"", "\"sk-1\"")), ["the key is another one"]);
        assert_eq!(why(&wanted.replace("40960", "8192")), ["the context window is 40960 tokens now"]);
        assert_eq!(why(wanted), [] as [&str; 0]);
    }
}
