//! Speculation in words.

use super::figures::Doing;
use crate::shell::text::ordinal;
use dspark_compare::Arm;
use dspark_look::{Icon, Tone};
use dspark_protocol::{Cap, CapOrigin, Mode, SpeculationState, TreeSetting};
use dspark_speculate::cost::{CostModel, expected};

/// Names as people write them.
pub(crate) fn mode(mode: Mode) -> &'static str {
    match mode {
        Mode::Auto => "Auto",
        Mode::Baseline => "Plain",
        Mode::Lookup => "Lookup",
        Mode::Dspark => "DSpark",
        Mode::Dflash => "DFlash",
    }
}

/// A way to decode: its name, and how it differs from others of the name.
pub(crate) fn arm(arm: &Arm) -> (&'static str, String) {
    let Some(options) = arm.options else {
        return ("As in chat", "what the settings say".into());
    };
    let note = match (arm.mode, options.cap) {
        (Mode::Baseline, _) => return (mode(arm.mode), "one token a pass".into()),
        (_, Cap::Fixed(cap)) => format!("cap {cap}"),
        (_, Cap::Auto) => "cap follows the text".into(),
        (_, Cap::Full) => "all it gives".into(),
        (Mode::Lookup, Cap::Derived) => "repeated text".into(),
        (_, Cap::Derived) => "best cap".into(),
    };
    let mut parts = vec![note];
    if options.lookup == Some(true) {
        parts.push("with lookup".into());
    }
    if matches!(options.tree, TreeSetting::On | TreeSetting::Nodes(_)) {
        parts.push("as a tree".into());
    }
    if options.confidence > 0.0 {
        parts.push(format!("from {:.0} % confidence", 100.0 * options.confidence));
    }
    (mode(arm.mode), parts.join(", "))
}

/// The same on one line, in the middle of a sentence or a table.
pub(crate) fn arm_line(one: &Arm) -> String {
    let (name, note) = arm(one);
    if one.is_plain() || one.options.is_none() {
        name.into()
    } else {
        format!("{name}, {note}")
    }
}

/// The same for a mode that was stored as a word.
pub(crate) fn mode_named(name: &str) -> &str {
    match name {
        "auto" => "Auto",
        "baseline" => "Plain",
        "lookup" => "Lookup",
        "dspark" => "DSpark",
        "dflash" => "DFlash",
        "dflash2" => "DFlash 2",
        "dspine" => "DSpine",
        other => other,
    }
}

pub(super) fn chip(doing: Doing) -> (&'static str, Tone, Icon) {
    match doing {
        Doing::Drafting => ("Drafting", Tone::Accent, Icon::Lightning),
        Doing::Parked => ("Parked", Tone::Warn, Icon::Pause),
        Doing::Probing => ("Probing", Tone::Warn, Icon::MagnifyingGlass),
        Doing::Plain => ("Plain", Tone::Neutral, Icon::Minus),
    }
}

/// One or two sentences on what is done and why.
pub(super) fn state(state: &SpeculationState, doing: Doing) -> String {
    let because = state
        .reason
        .as_deref()
        .map(|reason| format!(": {}", reason.trim_end_matches('.')))
        .unwrap_or_default();
    match doing {
        Doing::Plain => format!("One token a step{because}."),
        Doing::Parked => format!("Plain steps for now{because}. Every 8th round tries one draft, and drafting resumes as soon as it pays."),
        Doing::Probing => "One draft on trial. Drafting resumes as soon as it pays; until then plain steps.".into(),
        Doing::Drafting => drafting(state),
    }
}

fn drafting(state: &SpeculationState) -> String {
    let lookup = if state.lookup { " Text that repeats is looked up." } else { "" };
    if state.mode == Mode::Lookup {
        return "Text that repeats is guessed from what stands above, and checked in one pass.".into();
    }
    let tokens = if state.cap == 1 {
        "1 token".to_owned()
    } else {
        format!("{} tokens", state.cap)
    };
    let origin = match state.cap_origin {
        CapOrigin::Derived => "the fastest for this machine and pair",
        CapOrigin::Auto => "following how often drafts are taken here",
        CapOrigin::Pinned => "as set",
    };
    let tree = match state.tree.as_str() {
        "" | "off" => String::new(),
        "on" => ", with side branches".into(),
        nodes => format!(", as a tree of {nodes} nodes"),
    };
    format!("Up to {tokens} drafted a round{tree}: {origin}.{lookup}")
}

/// Why this cap and not one more.
pub(super) fn cap(state: &SpeculationState, cost: &CostModel, depth: usize) -> String {
    let most = state.drafter.as_ref().map_or(state.cap, |drafter| drafter.max_draft);
    if state.cap == 0 {
        let best = state
            .predicted
            .iter()
            .filter(|(cap, _)| **cap > 0)
            .max_by(|a, b| a.1.total_cmp(b.1));
        return match (state.predicted.get(&0), best) {
            (Some(plain), Some((cap, rate))) => format!(
                "Parked: at {:.0} % acceptance the best of drafting ({cap}) gives {rate:.1} tok/s, plain steps {plain:.1}.",
                100.0 * state.acceptance
            ),
            _ => "Parked: plain steps are faster here.".into(),
        };
    }
    if state.cap_origin == CapOrigin::Pinned {
        return "Set by hand in the settings; it stays as it is.".into();
    }
    if state.cap >= most {
        return "All that the drafter gives: each further draft still pays.".into();
    }
    let more = cost.round_ms(state.cap + 1, depth) - cost.round_ms(state.cap, depth);
    let tokens = expected(state.acceptance, state.cap + 1) - expected(state.acceptance, state.cap);
    let nth = ordinal(state.cap + 1);
    let knee = if cost.knee() == state.cap + 2 {
        "would push verify past the knee: "
    } else {
        "would cost "
    };
    format!("A {nth} draft {knee}{more:.1} ms more for {tokens:.2} extra tokens.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use dspark_protocol::double::speculation::{curves, drafting, parked, plain};

    fn cost() -> CostModel {
        CostModel::new(curves()).expect("curves with prices")
    }

    #[test]
    fn every_way_has_a_line_of_its_own() {
        let mut lines: Vec<String> = dspark_compare::ways(Some(&drafting()))
            .iter()
            .map(|way| arm_line(&way.arm))
            .collect();
        assert_eq!(
            lines,
            [
                "As in chat",
                "DSpark, best cap",
                "DSpark, best cap, with lookup",
                "DSpark, cap follows the text",
                "DSpark, cap 2",
                "DSpark, cap 4",
                "DSpark, cap 7",
                "DSpark, best cap, as a tree",
                "DSpark, best cap, from 50 % confidence",
                "DFlash, best cap",
                "Lookup, repeated text"
            ]
        );
        assert_eq!(arm_line(&Arm::plain()), "Plain");
        lines.dedup();
        assert_eq!(lines.len(), 11);
    }

    #[test]
    fn every_state_says_what_and_why() {
        assert_eq!(
            state(&drafting(), Doing::Drafting),
            "Up to 4 tokens drafted a round: the fastest for this machine and pair. Text that repeats is looked up."
        );
        assert!(state(&parked(), Doing::Parked).contains("too seldom"));
        assert_eq!(
            state(&plain(), Doing::Plain),
            "One token a step: no drafter is known for this model."
        );
        let tree = SpeculationState {
            tree: "12".into(),
            cap_origin: CapOrigin::Auto,
            lookup: false,
            ..drafting()
        };
        assert_eq!(
            state(&tree, Doing::Drafting),
            "Up to 4 tokens drafted a round, as a tree of 12 nodes: following how often drafts are taken here."
        );
    }

    #[test]
    fn the_cap_is_explained_by_the_next_draft() {
        // One more: 51.8 − 40.6 + 13.5 − 12.5 ms for 0.7⁵ tokens.
        assert_eq!(
            cap(&drafting(), &cost(), 512),
            "A 5th draft would push verify past the knee: 12.2 ms more for 0.17 extra tokens."
        );
        assert!(cap(&parked(), &cost(), 512).starts_with("Parked: at 18 % acceptance"));
        let full = SpeculationState { cap: 7, ..drafting() };
        assert!(cap(&full, &cost(), 512).starts_with("All that the drafter gives"));
    }
}
