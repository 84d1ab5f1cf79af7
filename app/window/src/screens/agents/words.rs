//! How a client stands, in a word, an icon and a line.

use crate::{bridge::ClientTotals, state::State};
use dspark_agents::{Standing, State as Setting, Undo};
use dspark_look::{Icon, Tone};
use dspark_strings::t;

/// Requests from which on a prefill rate says something.
const LONG_PROMPT: usize = 256;

/// One line of state.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Line {
    pub(super) icon: Icon,
    pub(super) tone: Tone,
    /// Quieter than the neutral tone.
    pub(super) quiet: bool,
    pub(super) words: String,
}

fn line(icon: Icon, tone: Tone, words: impl Into<String>) -> Line {
    Line {
        icon,
        tone,
        quiet: false,
        words: words.into(),
    }
}

/// `12 s ago`.
pub(super) fn ago(seconds: f64) -> String {
    match seconds.max(0.0) {
        s if s < 1.0 => t!(just_now).into(),
        s if s < 90.0 => t!(seconds_ago, n = format!("{s:.0}")),
        s if s < 90.0 * 60.0 => t!(minutes_ago, n = format!("{:.0}", s / 60.0)),
        s if s < 36.0 * 3600.0 => t!(hours_ago, n = format!("{:.0}", s / 3600.0)),
        s => t!(days_ago, n = format!("{:.0}", s / 86_400.0)),
    }
}

/// Seconds since a moment, by the state's clock.
pub(super) fn since(state: &State, at: std::time::SystemTime) -> f64 {
    let at = at.duration_since(std::time::UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64());
    (state.clock.millis as f64 / 1e3 - at).max(0.0)
}

/// The one that has asked last under a name of this client.
pub(super) fn seen<'a>(state: &'a State, standing: &Standing) -> Option<&'a ClientTotals> {
    let all = state.agents.activity.clients.iter();
    all.filter(|totals| standing.client.is_agent(&totals.client))
        .max_by_key(|totals| totals.last_seen)
}

pub(super) fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters
        .next()
        .map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// Where the client stands.
pub(super) fn standing(state: &State, standing: &Standing) -> Line {
    let used = seen(state, standing);
    match &standing.state {
        Setting::Unreadable(_) => line(Icon::ProhibitFill, Tone::Bad, t!(file_is_left_alone)),
        Setting::Stale if standing.edited => line(Icon::WarningFill, Tone::Warn, t!(changed_by_hand)),
        Setting::Stale => {
            let why = standing.reasons.first().map_or_else(|| t!(out_of_date).into(), |why| capital(why));
            line(Icon::WarningFill, Tone::Warn, why)
        }
        _ if used.is_some() => {
            let used = used.map_or(0.0, |used| since(state, used.last_seen));
            line(Icon::CheckCircleFill, Tone::Ok, t!(last_request, ago = ago(used)))
        }
        Setting::Current => line(Icon::CheckCircleFill, Tone::Ok, t!(set_up_unused)),
        Setting::SetUp => line(Icon::CheckCircle, Tone::Neutral, t!(set_up_unknown)),
        Setting::NotSetUp | Setting::ByHand if standing.found.is_none() => Line {
            quiet: true,
            ..line(Icon::CircleDashed, Tone::Neutral, t!(not_found_here))
        },
        Setting::NotSetUp if standing.client.id == "claude" => line(Icon::Circle, Tone::Neutral, t!(found_starts)),
        Setting::NotSetUp => line(Icon::Circle, Tone::Neutral, t!(found_not_set_up)),
        Setting::ByHand => line(Icon::Circle, Tone::Neutral, t!(found_by_hand)),
    }
}

/// The line below: what is wrong, or what to expect.
pub(super) fn fact(state: &State, standing: &Standing) -> Line {
    let plain = |words: String| line(Icon::Info, Tone::Neutral, words);
    if let Setting::Unreadable(reason) = &standing.state {
        return plain(t!(nothing_written, reason = capital(reason.trim_end_matches('.'))));
    }
    if let Some(conflict) = &standing.conflict {
        return line(Icon::Warning, Tone::Warn, conflict.clone());
    }
    if standing.edited {
        return plain(t!(changes_say).into());
    }
    if let Some(rest) = standing.reasons.get(1..).filter(|rest| !rest.is_empty()) {
        return plain(capital(&rest.join(", ")));
    }
    if standing.state == Setting::Stale {
        return plain(t!(set_up_before).into());
    }
    if standing.client.first_turn > 0 {
        return plain(first_turn(state, standing.client.first_turn));
    }
    plain(standing.client.summary.trim_end_matches('.').to_owned())
}

/// How long the first turn takes, where this machine's pace is known.
fn first_turn(state: &State, tokens: usize) -> String {
    let about = if tokens < 10_000 {
        format!("{:.1}k", tokens as f64 / 1e3)
    } else {
        format!("{:.0}k", tokens as f64 / 1e3)
    };
    let ended = &state.agents.activity.ended;
    let rate = ended.iter().find_map(|call| {
        let fresh = call.receipt.as_ref()?.recomputed;
        call.prefill_rate.filter(|rate| fresh >= LONG_PROMPT && *rate > 0.0)
    });
    let expected = rate.map(|rate| t!(cold_here, time = whole_seconds(tokens as f64 / rate)));
    t!(first_turn, about = about, expected = expected.unwrap_or_default())
}

/// `38 s`, `4 min`.
fn whole_seconds(seconds: f64) -> String {
    if seconds < 90.0 {
        t!(seconds_short, n = format!("{:.0}", seconds.max(1.0)))
    } else {
        t!(minutes_short, n = format!("{:.0}", seconds / 60.0))
    }
}

/// What the undo button would do, if there is something to undo.
pub(super) fn undoes(standing: &Standing) -> bool {
    standing.undo != Undo::Nothing
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_rounded() {
        let said: Vec<String> = [0.2, 12.0, 600.0, 7200.0, 900_000.0].into_iter().map(ago).collect();
        assert_eq!(said, ["just now", "12 s ago", "10 min ago", "2 h ago", "10 days ago"]);
        assert_eq!([capital("it points"), capital("")], ["It points", ""]);
    }
}
