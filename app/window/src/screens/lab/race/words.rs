//! Verdicts in words. Green only where every id matches, red never for a tie. Source: `spec/app.md` §5.4.

use crate::screens::lab::words::{arm, arm_line};
use dspark_compare::{Difference, Race, Verdict};
use dspark_look::{Icon, Tone};
use dspark_strings::t;

/// One word or two for a lane.
pub(crate) fn chip(verdict: &Verdict) -> (String, Tone, Icon) {
    match verdict {
        Verdict::Identical => (t!(identical).into(), Tone::Ok, Icon::SealCheck),
        Verdict::Shorter { at } => (t!(same_for, at = at), Tone::Neutral, Icon::Minus),
        Verdict::NearTie(at) => (t!(near_tie_at, at = at.at + 1), Tone::Neutral, Icon::Info),
        Verdict::Differs(at) => (t!(differs_at, at = at.at + 1), Tone::Bad, Icon::WarningOctagonFill),
    }
}

/// A token so that it can be seen: spaces and line ends too.
fn token(text: &str, id: u32) -> String {
    if text.is_empty() {
        return t!(token_id, id = id);
    }
    let shown: String = text.chars().map(|letter| if letter == '\n' { '⏎' } else { letter }).collect();
    t!(quoted_token, shown = shown)
}

fn apart(at: &Difference) -> String {
    if at.logits.is_none() {
        return t!(one_by_one_agrees).into();
    }
    t!(logits_apart, ulps = format!("{:.1}", at.ulps), margin = format!("{:.4}", at.margin))
}

/// What a lane's text is beside that of plain decoding.
pub(crate) fn explain(verdict: &Verdict) -> String {
    let both = |at: &Difference| {
        t!(
            wrote_where_plain,
            at = at.at + 1,
            own = token(&at.text, at.token),
            plain = token(&at.reference_text, at.reference_token)
        )
    };
    match verdict {
        Verdict::Identical => t!(every_token_same).into(),
        Verdict::Shorter { at } => t!(same_as_far, at = at),
        Verdict::NearTie(at) => t!(near_tie_explain, both = both(at), apart = apart(at)),
        Verdict::Differs(at) => t!(differs_explain, both = both(at), apart = apart(at)),
    }
}

/// What differs in few words, for the card.
pub(crate) fn brief(race: &Race) -> String {
    let parts = race.lanes.iter().filter_map(|lane| {
        let name = arm_line(&lane.arm);
        let tokens = |at: &Difference| {
            let (own, plain) = (token(&at.text, at.token), token(&at.reference_text, at.reference_token));
            t!(brief_tokens, name = name, own = own, plain = plain, at = at.at + 1)
        };
        match lane.verdict.as_ref()? {
            Verdict::Identical => None,
            Verdict::Shorter { at } => Some(t!(brief_shorter, name = name, at = at)),
            Verdict::NearTie(at) => Some(t!(brief_tie, tokens = tokens(at), ulps = format!("{:.1}", at.ulps))),
            Verdict::Differs(at) => Some(t!(brief_differs, tokens = tokens(at), ulps = format!("{:.1}", at.ulps))),
        }
    });
    let parts: Vec<String> = parts.collect();
    if parts.is_empty() {
        judgement(race).lines.into_iter().next().unwrap_or_default()
    } else {
        parts.join("; ")
    }
}

/// What a race comes to: title, lines under it, and how it is meant.
pub(crate) struct Judgement {
    pub(crate) title: String,
    pub(crate) lines: Vec<String>,
    pub(crate) tone: Tone,
    pub(crate) icon: Icon,
}

/// `2.67× faster`, `at 0.91× the rate of plain decoding`.
fn speed(race: &Race) -> String {
    let drafting = race.lanes.iter().filter(|lane| !lane.arm.is_plain());
    let best = drafting
        .filter_map(|lane| Some((lane, race.multiple(lane)?)))
        .max_by(|a, b| a.1.total_cmp(&b.1));
    match best {
        Some((lane, times)) if race.lanes.len() > 2 => {
            let times_words = format!("{times:.2}");
            match (lane.arm.options, arm(&lane.arm).0) {
                _ if times < 1.0 => t!(speed_at_most, times = times_words),
                (None, _) => t!(speed_as_in_chat, times = times_words),
                (Some(_), name) => t!(speed_with, times = times_words, name = name),
            }
        }
        Some((_, times)) if times >= 1.0 => t!(speed_faster, times = format!("{times:.2}")),
        Some((_, times)) => t!(speed_slower, times = format!("{times:.2}")),
        None => String::new(),
    }
}

pub(crate) fn judgement(race: &Race) -> Judgement {
    let judged: Vec<(String, &Verdict)> = race
        .lanes
        .iter()
        .filter_map(|lane| Some((arm_line(&lane.arm), lane.verdict.as_ref()?)))
        .collect();
    let mut lines = Vec::new();
    let several = judged.len() > 1;
    for (name, verdict) in judged.iter().filter(|(_, verdict)| !verdict.is_identical()) {
        let explained = explain(verdict);
        lines.push(if several {
            format!("{name}: {explained}")
        } else {
            sentence(&explained)
        });
    }
    let all = |matches: fn(&Verdict) -> bool| judged.iter().all(|(_, verdict)| matches(verdict));
    let (verdict, tone, icon) = if judged.is_empty() {
        (t!(not_compared).to_owned(), Tone::Neutral, Icon::Info)
    } else if all(Verdict::is_identical) {
        let tokens = race.reference().map_or(0, |lane| lane.tokens);
        lines.push(if several {
            t!(all_ids_match_lanes, tokens = tokens)
        } else {
            t!(all_ids_match, tokens = tokens)
        });
        (t!(identical_output).to_owned(), Tone::Ok, Icon::SealCheckFill)
    } else if all(|verdict| verdict.difference().is_none()) {
        (t!(identical_overlap).to_owned(), Tone::Neutral, Icon::Info)
    } else if all(|verdict| !matches!(verdict, Verdict::Differs(_))) {
        (t!(equal_near_tie).to_owned(), Tone::Neutral, Icon::Info)
    } else {
        (t!(another_text_than_plain).to_owned(), Tone::Bad, Icon::WarningOctagonFill)
    };
    if let Some(stopped) = &race.stopped {
        let done = t!(lanes_done_before, done = race.lanes.len(), stopped = stopped);
        lines.insert(0, done);
    }
    for lane in &race.lanes {
        if let Some(reason) = &lane.reason {
            lines.push(format!("{}: {}.", arm_line(&lane.arm), reason.trim_end_matches('.')));
        }
    }
    if !race.beside.is_empty() {
        lines.push(t!(answered_meanwhile, who = race.beside.join(", ")));
    }
    let title = if race.stopped.is_some() {
        t!(ended_early).to_owned()
    } else {
        let speed = speed(race);
        if speed.is_empty() {
            verdict
        } else {
            t!(verdict_speed, verdict = verdict, speed = speed)
        }
    };
    let icon = if race.stopped.is_some() { Icon::StopFill } else { icon };
    Judgement { title, lines, tone, icon }
}

/// With a capital letter.
pub(crate) fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    letters
        .next()
        .map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// One line for the list of races.
pub(crate) fn outcome(race: &Race) -> String {
    let Judgement { title, .. } = judgement(race);
    title
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use dspark_compare::{Arm, Lane, Piece, Stamp, ways};
    use dspark_protocol::{Mode, double::speculation::drafting};

    fn difference() -> Difference {
        Difference {
            at: 36,
            reference_token: 5,
            token: 6,
            reference_text: " a".into(),
            text: "\n".into(),
            margin: 0.0625,
            ulps: 0.5,
            logits: Some((20.0, 19.9375)),
        }
    }

    fn lane(arm: Arm, rate: f64, verdict: Option<Verdict>) -> Lane {
        Lane {
            arm,
            name: arm.name(),
            effective_mode: Mode::Dspark,
            reason: None,
            cap: Some(4),
            tokens: 200,
            seconds: 200.0 / rate,
            prefill_seconds: 0.1,
            tok_s: rate,
            decode_tok_s: rate,
            accept: 3.0,
            target_forwards: 66,
            lookup_rounds: 0,
            verdict,
            ids: Vec::new(),
            pieces: vec![Piece {
                at: 200.0 / rate,
                tokens: 200,
                text: "text".into(),
            }],
        }
    }

    fn race(verdicts: &[Verdict]) -> Race {
        let state = drafting();
        let offered = ways(Some(&state));
        let mut lanes: Vec<Lane> = verdicts
            .iter()
            .zip(&offered)
            .map(|(verdict, way)| lane(way.arm, 50.0, Some(verdict.clone())))
            .collect();
        lanes.push(lane(Arm::plain(), 25.0, None));
        Race {
            stamp: Stamp::default(),
            prompt: String::new(),
            max_tokens: 200,
            thinking: None,
            beside: Vec::new(),
            stopped: None,
            lanes,
        }
    }

    #[test]
    fn three_states_and_their_margins() {
        let same = judgement(&race(&[Verdict::Identical]));
        assert_eq!(same.title, "Identical output, 2.00× faster");
        assert_eq!((same.tone, same.lines.len()), (Tone::Ok, 1));
        let tie = judgement(&race(&[Verdict::NearTie(difference())]));
        assert_eq!(
            (tie.title.as_str(), tie.tone),
            ("Equal up to a near tie, 2.00× faster", Tone::Neutral)
        );
        assert!(
            tie.lines[0].starts_with("At token 37 it wrote “⏎” where plain decoding wrote “ a”"),
            "{}",
            tie.lines[0]
        );
        assert!(tie.lines[0].contains("0.5 ulps apart (0.0625)"), "{}", tie.lines[0]);
        let card = brief(&race(&[Verdict::Identical, Verdict::NearTie(difference())]));
        assert_eq!(card, "DSpark, best cap: “⏎” for “ a” at token 37, 0.5 ulps apart: a tie");
        let other = judgement(&race(&[Verdict::Identical, Verdict::Differs(difference())]));
        assert_eq!(other.tone, Tone::Bad);
        assert!(other.lines[0].starts_with("DSpark, best cap: at token 37"), "{}", other.lines[0]);
        let shorter = judgement(&race(&[Verdict::Shorter { at: 12 }]));
        assert!(shorter.title.starts_with("Identical where they overlap") && shorter.tone == Tone::Neutral);
    }

    #[test]
    fn what_ended_early_or_ran_beside_others_says_so() {
        let mut early = race(&[Verdict::Identical]);
        early.lanes.truncate(1);
        early.lanes[0].verdict = None;
        early.stopped = Some("cancelled".into());
        assert!(brief(&early).starts_with("1 of its lanes"), "{}", brief(&early));
        let said = judgement(&early);
        assert_eq!(said.title, "Ended early");
        assert_eq!(said.lines[0], "1 of its lanes were done before it ended: cancelled.");
        let mut busy = race(&[Verdict::Identical]);
        busy.beside = vec!["opencode".into()];
        busy.lanes[0].reason = Some("no tree.".into());
        let said = judgement(&busy);
        assert!(said.lines.iter().any(|line| line.starts_with("opencode was")), "{:?}", said.lines);
        assert!(said.lines.contains(&"As in chat: no tree.".to_owned()), "{:?}", said.lines);
    }

    #[test]
    fn slower_is_not_called_faster() {
        let mut slow = race(&[Verdict::Identical]);
        slow.lanes[0].decode_tok_s = 20.0;
        assert_eq!(judgement(&slow).title, "Identical output, 0.80× the rate of plain decoding");
    }
}
