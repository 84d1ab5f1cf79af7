//! Speculation in words.

use super::figures::Doing;
use crate::shell::text::ordinal;
use dspark_compare::Arm;
use dspark_look::{Icon, Tone};
use dspark_protocol::{Cap, CapOrigin, Mode, SpeculationState, TreeSetting};
use dspark_speculate::cost::{CostModel, expected};
use dspark_strings::t;

/// Names as people write them.
pub(crate) fn mode(mode: Mode) -> &'static str {
    match mode {
        Mode::Auto => t!(auto),
        Mode::Baseline => t!(plain),
        Mode::Lookup => t!(lookup),
        Mode::Dspark => "DSpark",
        Mode::Dflash => "DFlash",
    }
}

/// A way to decode: its name, and how it differs from others of the name.
pub(crate) fn arm(arm: &Arm) -> (&'static str, String) {
    let Some(options) = arm.options else {
        return (t!(as_in_chat), t!(what_settings_say).into());
    };
    let note = match (arm.mode, options.cap) {
        (Mode::Baseline, _) => return (mode(arm.mode), t!(one_token_a_pass).into()),
        (_, Cap::Fixed(cap)) => t!(cap_n, cap = cap),
        (_, Cap::Auto) => t!(cap_follows_text).into(),
        (_, Cap::Full) => t!(all_it_gives).into(),
        (Mode::Lookup, Cap::Derived) => t!(repeated_text).into(),
        (_, Cap::Derived) => t!(best_cap).into(),
    };
    let mut parts = vec![note];
    if options.lookup == Some(true) {
        parts.push(t!(with_lookup).into());
    }
    if matches!(options.tree, TreeSetting::On | TreeSetting::Nodes(_)) {
        parts.push(t!(as_a_tree).into());
    }
    if options.confidence > 0.0 {
        parts.push(t!(from_confidence, part = format!("{:.0}", 100.0 * options.confidence)));
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
        "auto" => t!(auto),
        "baseline" => t!(plain),
        "lookup" => t!(lookup),
        "dspark" => "DSpark",
        "dflash" => "DFlash",
        "dflash2" => "DFlash 2",
        "dspine" => "DSpine",
        other => other,
    }
}

pub(super) fn chip(doing: Doing) -> (&'static str, Tone, Icon) {
    match doing {
        Doing::Drafting => (t!(drafting), Tone::Accent, Icon::Lightning),
        Doing::Parked => (t!(think_parked), Tone::Warn, Icon::Pause),
        Doing::Probing => (t!(probing), Tone::Warn, Icon::MagnifyingGlass),
        Doing::Plain => (t!(plain), Tone::Neutral, Icon::Minus),
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
        Doing::Plain => t!(state_plain, because = because),
        Doing::Parked => t!(state_parked, because = because),
        Doing::Probing => t!(state_probing).into(),
        Doing::Drafting => drafting(state),
    }
}

fn drafting(state: &SpeculationState) -> String {
    let lookup = if state.lookup { t!(lookup_sentence) } else { "" };
    if state.mode == Mode::Lookup {
        return t!(lookup_only).into();
    }
    let tokens = t!(drafted_tokens, n = state.cap);
    let origin = match state.cap_origin {
        CapOrigin::Derived => t!(origin_derived),
        CapOrigin::Auto => t!(origin_auto),
        CapOrigin::Pinned => t!(origin_pinned),
    };
    let tree = match state.tree.as_str() {
        "" | "off" => String::new(),
        "on" => t!(with_side_branches).into(),
        nodes => t!(as_tree_of, nodes = nodes),
    };
    t!(up_to_drafted_round, tokens = tokens, tree = tree, origin = origin, lookup = lookup)
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
            (Some(plain), Some((cap, rate))) => t!(
                parked_best,
                part = format!("{:.0}", 100.0 * state.acceptance),
                cap = cap,
                rate = format!("{rate:.1}"),
                plain = format!("{plain:.1}")
            ),
            _ => t!(parked_plain_faster).into(),
        };
    }
    if state.cap_origin == CapOrigin::Pinned {
        return t!(cap_pinned).into();
    }
    if state.cap >= most {
        return t!(cap_all).into();
    }
    let more = cost.round_ms(state.cap + 1, depth) - cost.round_ms(state.cap, depth);
    let tokens = expected(state.acceptance, state.cap + 1) - expected(state.acceptance, state.cap);
    let nth = ordinal(state.cap + 1);
    let (more, tokens) = (format!("{more:.1}"), format!("{tokens:.2}"));
    if cost.knee() == state.cap + 2 {
        t!(draft_past_knee, nth = nth, more = more, tokens = tokens)
    } else {
        t!(draft_would_cost, nth = nth, more = more, tokens = tokens)
    }
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
