//! What would be lost by quitting now. Quitting asks only where something would, and says what.

use super::{Comparing, ServerState, State};
use dspark_strings::{Language, key, t};
use std::time::{Duration, UNIX_EPOCH};

/// A client that asked within this may be in the middle of its work, with tools that run between two requests.
const IN_TOUCH: Duration = Duration::from_mins(2);

/// The client that the window itself is, also where it asked before the language was changed.
fn is_own(client: &str) -> bool {
    Language::ALL.into_iter().any(|language| key!(chat).text_in(language) == client)
}

impl State {
    /// One line for each thing, in words; empty where nothing is lost.
    pub(super) fn losses(&self) -> Vec<String> {
        let mut lines = Vec::new();
        match self.lives.len() {
            0 => {}
            n => lines.push(t!(quit_replies, n = n)),
        }
        match self.comparing() {
            Some(Comparing::Race) => lines.push(t!(quit_race).into()),
            Some(Comparing::Benchmark) => lines.push(t!(quit_benchmark).into()),
            None => {}
        }
        let answered: Vec<&str> = self.others().into_iter().filter(|name| !is_own(name)).collect();
        match answered[..] {
            [] => {}
            [name] => lines.push(t!(quit_client, who = name)),
            _ => lines.push(t!(quit_clients, names = answered.join(t!(and_between)))),
        }
        lines.extend(self.in_touch(&answered));
        if let Some(fetching) = self.models.fetching.as_ref().filter(|fetching| !fetching.cancelled) {
            lines.push(t!(quit_download, name = fetching.name));
        }
        match self.models.downloads.queue.as_slice() {
            [] => {}
            [one] => lines.push(t!(quit_waiting, name = one.name)),
            more => lines.push(t!(quit_waiting_more, n = more.len())),
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
            [name] => Some(t!(quit_in_touch, name = name)),
            _ => Some(t!(quit_in_touch_more, names = names.join(t!(and_between)))),
        }
    }
}
