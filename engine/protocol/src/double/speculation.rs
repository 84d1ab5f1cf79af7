//! Scripted speculation: a pair with the curves of a real machine, and rounds that look like its own.

use crate::{CapOrigin, Curves, DrafterInfo, Mode, RoundRecord, Source, SpeculationState};
use std::collections::BTreeMap;

/// Rounds by a small repeatable sequence: same seed, same rounds.
#[derive(Debug, Clone)]
pub struct Rounds {
    seed: u32,
    acceptance: f64,
    cap: usize,
    /// Every so many rounds the drafts come from a lookup; 0 for never.
    lookup_every: u32,
    nth: u32,
}

/// What one round did: drafts, how many of them were taken, and where they came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Round {
    pub drafted: usize,
    pub accepted: usize,
    pub source: Source,
}

impl Round {
    /// Tokens of the round, and the source of each: the taken drafts, then the target's own.
    pub fn sources(self) -> impl Iterator<Item = Source> {
        let last = if self.accepted < self.drafted {
            Source::Corrected
        } else {
            Source::Target
        };
        std::iter::repeat_n(self.source, self.accepted).chain([last])
    }
}

impl Rounds {
    /// As the state says: its cap, its acceptance, with lookups where it has them.
    pub fn new(state: &SpeculationState) -> Self {
        Self {
            seed: 7,
            acceptance: state.acceptance,
            cap: state.cap,
            lookup_every: if state.lookup { 11 } else { 0 },
            nth: 0,
        }
    }

    fn chance(&mut self) -> f64 {
        self.seed = self.seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        f64::from(self.seed >> 8) / f64::from(1u32 << 24)
    }
}

impl Iterator for Rounds {
    type Item = Round;

    fn next(&mut self) -> Option<Round> {
        self.nth += 1;
        let lookup = self.lookup_every > 0 && self.nth.is_multiple_of(self.lookup_every);
        let mut accepted = 0;
        while accepted < self.cap && self.chance() < self.acceptance {
            accepted += 1;
        }
        Some(Round {
            drafted: self.cap,
            accepted,
            source: match (self.cap, lookup) {
                (0, _) => Source::Target,
                (_, true) => Source::Lookup,
                (_, false) => Source::Draft,
            },
        })
    }
}

/// What is written down of `round`. `ms` is what the curves say, so that figures do not depend on the test's machine.
pub fn record(state: &SpeculationState, round: Round, committed: usize) -> RoundRecord {
    let ms = state.curves.as_ref().and_then(|curves| round_ms(curves, round.drafted));
    RoundRecord {
        seq: 0,
        t_ms: 0.0,
        request: 0,
        mode: state.mode,
        index: 0,
        drafted: round.drafted as u16,
        tree_depth: 0,
        accepted: round.accepted.min(committed) as u16,
        committed: committed as u16,
        cap: (state.mode != Mode::Baseline).then_some(state.cap as u16),
        source: round.source,
        ms: ms.unwrap_or(1.0) as f32,
    }
}

/// The curves of an 8-bit model of nine billion weights on an M4 Pro (`spec/speculation.md` §9.2).
pub fn curves() -> Curves {
    let from_one = |values: &[f64]| values.iter().enumerate().map(|(i, ms)| (i + 1, *ms)).collect();
    Curves {
        verify: from_one(&[36.7, 37.0, 37.8, 38.5, 40.6, 51.8, 61.9, 62.7]),
        drafter: from_one(&[10.4, 10.8, 11.4, 12.5, 13.5, 14.9, 16.5]),
        overhead: 0.3,
        slope: [(1, 0.000_18), (4, 0.000_22), (8, 0.000_27)].into(),
        context: 512,
        measured_at: 1_795_866_000,
        ..Curves::default()
    }
}

/// A round with `cap` drafts, at widths that were measured.
pub fn round_ms(curves: &Curves, cap: usize) -> Option<f64> {
    let verify = curves.verify.get(&(cap + 1))?;
    let drafts = if cap == 0 {
        0.0
    } else {
        curves.drafter.get(&cap)? + curves.overhead
    };
    Some(verify + drafts)
}

/// Tokens a second by cap at this acceptance.
pub fn rates(curves: &Curves, acceptance: f64) -> BTreeMap<usize, f64> {
    let tokens = |cap: usize| (0..=cap).map(|position| acceptance.powi(position as i32)).sum::<f64>();
    (0..curves.verify.len())
        .filter_map(|cap| Some((cap, 1e3 * tokens(cap) / round_ms(curves, cap)?)))
        .collect()
}

/// A DSpark pair that drafts four tokens a round.
pub fn drafting() -> SpeculationState {
    let curves = curves();
    SpeculationState {
        mode: Mode::Dspark,
        reason: None,
        drafter: Some(DrafterInfo {
            name: "double-dspark".into(),
            path: "double-dspark".into(),
            kind: "dspark".into(),
            weight_bytes: 41_000_000,
            max_draft: 7,
        }),
        lookup: true,
        cap: 4,
        cap_origin: CapOrigin::Derived,
        tree: "off".into(),
        acceptance: 0.70,
        rounds: 96,
        predicted: rates(&curves, 0.70),
        curves: Some(curves),
    }
}

/// The same pair where drafts do not pay: plain steps, with a probe now and then.
pub fn parked() -> SpeculationState {
    SpeculationState {
        cap: 0,
        cap_origin: CapOrigin::Auto,
        acceptance: 0.18,
        reason: Some("drafts are taken too seldom here to pay for themselves".into()),
        predicted: rates(&curves(), 0.18),
        ..drafting()
    }
}

/// A model without a drafter.
pub fn plain() -> SpeculationState {
    SpeculationState {
        mode: Mode::Baseline,
        reason: Some("no drafter is known for this model".into()),
        tree: "off".into(),
        ..SpeculationState::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RoundStats;

    #[test]
    fn the_rounds_are_what_the_state_says() {
        let state = drafting();
        let rounds: Vec<RoundRecord> = Rounds::new(&state)
            .take(4000)
            .map(|round| record(&state, round, round.sources().count()))
            .collect();
        let stats = RoundStats::of(&rounds);
        let expected = 1.0 + 0.70 + 0.49 + 0.343 + 0.2401;
        assert!((stats.mean_accept_len() - expected).abs() < 0.1, "{}", stats.mean_accept_len());
        assert_eq!(stats.positions.len(), 4);
        assert!(stats.lookup_rounds > 300 && stats.drafter_rounds > 3000 && stats.plain_rounds == 0);
        assert_eq!(stats.committed, stats.accepted + stats.rounds);
        assert_eq!(Rounds::new(&parked()).next().map(|round| round.drafted), Some(0));
    }
}
