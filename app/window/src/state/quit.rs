//! What would be lost by quitting now. Quitting asks only where something would, and says what.

use super::{Comparing, ServerState, State};
use std::time::{Duration, UNIX_EPOCH};

/// A client that asked within this may be in the middle of its work, with tools that run between two requests.
const IN_TOUCH: Duration = Duration::from_mins(2);

/// The client that the window itself is.
const OWN: &str = "Chat";

impl State {
    /// One line for each thing, in words; empty where nothing is lost.
    pub(super) fn losses(&self) -> Vec<String> {
        let mut lines = Vec::new();
        match self.lives.len() {
            0 => {}
            1 => lines.push("A reply is still being written. It will be kept as far as it got.".into()),
            n => lines.push(format!(
                "{n} replies are still being written. They will be kept as far as they got."
            )),
        }
        match self.comparing() {
            Some(Comparing::Race) => lines.push("A race is being run. The lanes that are done will be lost with it.".into()),
            Some(Comparing::Benchmark) => lines.push("A benchmark is being run. Nothing is kept of half of one.".into()),
            None => {}
        }
        let answered: Vec<&str> = self.others().into_iter().filter(|name| *name != OWN).collect();
        match answered[..] {
            [] => {}
            [name] => lines.push(format!("{name} is being answered. Its reply will be cut off.")),
            _ => lines.push(format!(
                "{} are being answered. Their replies will be cut off.",
                answered.join(" and ")
            )),
        }
        lines.extend(self.in_touch(&answered));
        if let Some(fetching) = self.models.fetching.as_ref().filter(|fetching| !fetching.cancelled) {
            lines.push(format!(
                "{} is still downloading. The next start can go on from there.",
                fetching.name
            ));
        }
        match self.models.downloads.queue.as_slice() {
            [] => {}
            [one] => lines.push(format!("{} waits to be downloaded and will have to be asked for again.", one.name)),
            more => lines.push(format!(
                "{} more models wait to be downloaded and will have to be asked for again.",
                more.len()
            )),
        }
        lines
    }

    /// Programs that asked a moment ago and will find no server.
    fn in_touch(&self, answered: &[&str]) -> Option<String> {
        if !matches!(self.server, ServerState::On(_)) {
            return None;
        }
        let now = Duration::from_millis(self.clock.millis.max(0) as u64);
        let names: Vec<&str> = self
            .agents
            .activity
            .clients
            .iter()
            .filter(|client| {
                let seen = client.last_seen.duration_since(UNIX_EPOCH).unwrap_or_default();
                now.saturating_sub(seen) < IN_TOUCH && !answered.contains(&client.client.as_str())
            })
            .map(|client| client.client.as_str())
            .collect();
        match names[..] {
            [] => None,
            [name] => Some(format!("{name} is connected: it asked a moment ago and will find no server.")),
            _ => Some(format!(
                "{} are connected: they asked a moment ago and will find no server.",
                names.join(" and ")
            )),
        }
    }
}
