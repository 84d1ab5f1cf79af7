//! What the Live view shows, computed from the rounds: pure, so that tests can check it.

use crate::state::{Asker, Lab};
use dspark_look::plot::RibbonItem;
use dspark_protocol::{Mode, RoundRecord, RoundStats, Source, SpeculationState};
use std::collections::BTreeMap;

/// Rounds that a rate looks back over.
pub(super) const WINDOW: usize = 16;
/// A share over fewer rounds says nothing.
pub(super) const ENOUGH: usize = 20;
/// Positions and histogram bars that have room.
pub(super) const BARS: usize = 8;
/// Points left out of the line where another prompt was read.
const GAP: usize = 3;

#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Figures {
    pub(super) stats: RoundStats,
    /// Tokens a second over the last [`WINDOW`] rounds, at each round; `None` where a prompt was read.
    pub(super) rates: Vec<Option<f32>>,
    /// Of the newest rounds.
    pub(super) rate: Option<f64>,
    /// Mean milliseconds of a round, without the first of each reply, which has the prompt in it.
    pub(super) round_ms: Option<f64>,
    /// Seconds from the first round to the last.
    pub(super) span: f64,
    /// Tokens by source: drafter, lookup, target.
    pub(super) tokens: [usize; 3],
    pub(super) last: Option<RoundRecord>,
}

impl Figures {
    pub(super) fn of<'a>(rounds: impl Iterator<Item = &'a RoundRecord>) -> Self {
        let mut figures = Self::default();
        let mut window: Vec<&RoundRecord> = Vec::new();
        let (mut ms, mut timed) = (0.0, 0usize);
        let mut begin = None;
        for round in rounds {
            figures.stats.add(round);
            let accepted = usize::from(round.accepted.min(round.committed));
            match round.source {
                Source::Draft => figures.tokens[0] += accepted,
                Source::Lookup => figures.tokens[1] += accepted,
                Source::Target | Source::Corrected => figures.tokens[2] += accepted,
            }
            figures.tokens[2] += usize::from(round.committed) - accepted;
            let begin = *begin.get_or_insert(round.t_ms);
            figures.span = (round.t_ms - begin) / 1e3;
            if figures.last.is_some_and(|last| last.request != round.request) {
                window.clear();
                figures.rates.extend([None; GAP]);
            }
            figures.last = Some(*round);
            if round.index == 0 {
                continue;
            }
            ms += f64::from(round.ms);
            timed += 1;
            window.push(round);
            let from = window.len().saturating_sub(WINDOW);
            // A rate over a few rounds jumps; the line begins where it means something.
            let rate = (window.len() >= WINDOW / 4).then(|| rate(&window[from..])).flatten();
            figures.rates.push(rate.map(|rate| rate as f32));
            figures.rate = rate.or(figures.rate);
        }
        figures.round_ms = (timed > 0).then(|| ms / timed as f64);
        figures
    }

    /// Share of the drafts at each position that was taken, with how often one was offered; only where that is often
    /// enough to mean something.
    pub(super) fn positions(&self) -> Vec<(f64, usize)> {
        let enough = self.stats.positions.iter().take_while(|at| at.offered >= ENOUGH);
        enough
            .take(BARS)
            .map(|at| (at.accepted as f64 / at.offered as f64, at.offered))
            .collect()
    }

    /// Rounds by tokens, 1 up to [`BARS`]; what is longer counts into the last one.
    pub(super) fn histogram(&self) -> Vec<(usize, usize)> {
        let most = self.stats.histogram.keys().next_back().copied().unwrap_or(0).min(BARS);
        let mut bars: Vec<(usize, usize)> = (1..=most).map(|tokens| (tokens, 0)).collect();
        for (tokens, rounds) in &self.stats.histogram {
            if let Some(bar) = tokens.checked_sub(1).and_then(|at| bars.get_mut(at.min(BARS - 1))) {
                bar.1 += rounds;
            }
        }
        bars
    }
}

fn rate(rounds: &[&RoundRecord]) -> Option<f64> {
    let ms: f64 = rounds.iter().map(|round| f64::from(round.ms)).sum();
    let tokens: usize = rounds.iter().map(|round| usize::from(round.committed)).sum();
    (ms > 0.0).then(|| 1e3 * tokens as f64 / ms)
}

/// Columns of the ribbon, a slab where another prompt was read, and the cap that sets their unit.
pub(super) fn ribbon<'a>(rounds: impl Iterator<Item = &'a RoundRecord>, askers: &BTreeMap<u64, Asker>) -> (Vec<RibbonItem>, u8) {
    let mut items = Vec::new();
    let mut last = None;
    let mut cap = 1;
    for round in rounds {
        if last.is_some_and(|last| last != round.request) {
            let tokens = askers.get(&round.request).map_or(0, |asker| asker.prompt_tokens as u64);
            items.push(RibbonItem::Prefill { tokens });
        }
        last = Some(round.request);
        let drafted = round.depth().min(usize::from(u8::MAX)) as u8;
        cap = cap.max(drafted);
        items.push(RibbonItem::Round {
            accepted: round.accepted.min(u16::from(u8::MAX)) as u8,
            drafted,
            lookup: round.source == Source::Lookup,
        });
    }
    (items, cap)
}

/// Rate measured at the cap in use, where there are rounds enough.
pub(super) fn measured(lab: &Lab, cap: usize) -> Option<f64> {
    let rounds: Vec<&RoundRecord> = lab
        .rounds
        .iter()
        .filter(|round| round.index > 0 && round.cap.map(usize::from) == Some(cap))
        .collect();
    (rounds.len() >= ENOUGH).then(|| rate(&rounds)).flatten()
}

/// What speculation does at this moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Doing {
    Drafting,
    /// Plain steps, because drafts do not pay here.
    Parked,
    /// Parked, and trying one draft.
    Probing,
    /// No drafts in this mode.
    Plain,
}

pub(super) fn doing(state: Option<&SpeculationState>, last: Option<&RoundRecord>) -> Doing {
    match state {
        None => Doing::Plain,
        Some(state) if state.mode == Mode::Baseline => Doing::Plain,
        Some(state) if state.cap > 0 || state.mode == Mode::Lookup => Doing::Drafting,
        Some(_) if last.is_some_and(|round| round.drafted > 0) => Doing::Probing,
        Some(_) => Doing::Parked,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dspark_protocol::double::speculation::{Rounds, drafting, parked, plain, record};

    fn rounds(count: usize, request: u64) -> Vec<RoundRecord> {
        let state = drafting();
        let records = Rounds::new(&state).take(count).enumerate();
        records
            .map(|(index, round)| RoundRecord {
                seq: request * 1000 + index as u64,
                t_ms: 1e3 * request as f64 + 50.0 * index as f64,
                request,
                index: index as u32,
                ..record(&state, round, round.sources().count())
            })
            .collect()
    }

    #[test]
    fn rates_leave_out_the_prompt_and_have_a_gap_between_replies() {
        let mut all = rounds(40, 1);
        all[0].ms = 9000.0;
        all.extend(rounds(40, 2));
        let figures = Figures::of(all.iter());
        assert_eq!(figures.rates.len(), 2 * 39 + GAP);
        assert!(figures.rates[39..39 + GAP].iter().all(Option::is_none));
        // (1 + 0.7 + … + 0.7⁴) tokens in 53.4 ms.
        let rate = figures.rate.unwrap_or_default();
        assert!((35.0..75.0).contains(&rate), "{rate}");
        assert!(
            (figures.round_ms.unwrap_or_default() - 53.4).abs() < 0.1,
            "the prompt is not in it: {:?}",
            figures.round_ms
        );
        assert_eq!(figures.tokens.iter().sum::<usize>(), figures.stats.committed);
        assert!((figures.span - 2.95).abs() < 1e-6, "{}", figures.span);
    }

    #[test]
    fn shares_need_rounds_enough() {
        assert!(Figures::of(rounds(ENOUGH - 1, 1).iter()).positions().is_empty());
        let positions = Figures::of(rounds(200, 1).iter()).positions();
        assert_eq!(positions.len(), 4);
        assert!(positions.windows(2).all(|pair| pair[0].0 >= pair[1].0));
        let histogram = Figures::of(rounds(200, 1).iter()).histogram();
        assert_eq!(histogram.len(), 5);
        assert_eq!(histogram.iter().map(|bar| bar.1).sum::<usize>(), 200);
    }

    #[test]
    fn long_rounds_count_into_the_last_bar() {
        let mut all = rounds(2, 1);
        (all[0].committed, all[1].committed) = (16, 3);
        let histogram = Figures::of(all.iter()).histogram();
        assert_eq!((histogram.len(), histogram[2], histogram[BARS - 1]), (BARS, (3, 1), (BARS, 1)));
    }

    #[test]
    fn the_ribbon_shows_where_a_prompt_was_read() {
        let all = [rounds(3, 1), rounds(2, 2)].concat();
        let askers = BTreeMap::from([(
            2,
            Asker {
                client: "Chat".into(),
                prompt_tokens: 726,
            },
        )]);
        let (items, cap) = ribbon(all.iter(), &askers);
        assert_eq!((items.len(), cap), (6, 4));
        assert_eq!(items[3], RibbonItem::Prefill { tokens: 726 });
    }

    #[test]
    fn parked_and_probing_are_told_apart_by_the_last_round() {
        let mut last = rounds(1, 1)[0];
        assert_eq!(doing(Some(&drafting()), Some(&last)), Doing::Drafting);
        assert_eq!(doing(Some(&parked()), Some(&last)), Doing::Probing);
        last.drafted = 0;
        assert_eq!(doing(Some(&parked()), Some(&last)), Doing::Parked);
        assert_eq!(doing(Some(&plain()), Some(&last)), Doing::Plain);
        assert_eq!(doing(None, None), Doing::Plain);
    }
}
