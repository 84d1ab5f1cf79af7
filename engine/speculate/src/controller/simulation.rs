//! A machine and a text to try the controller on: times by cap with noise, drafts that survive with a chance that may
//! depend on their place and on where in the text they stand.

use super::*;
use crate::cost::FALLBACK_CAP;
use crate::sample::rng::{Lane, uniform};
use dspark_protocol::Curves;

pub(super) struct Machine {
    /// Milliseconds of a round by cap as they really are; index 0 is a plain step.
    pub(super) ms: Vec<f64>,
    /// Relative spread of a round's time.
    pub(super) noise: f64,
    pub(super) curves: Curves,
}

impl Machine {
    /// Verify by rows and drafter by cap, measured rightly.
    pub(super) fn new(verify: &[f64], drafter: &[f64]) -> Self {
        let curves = Curves {
            verify: (1..).zip(verify.iter().copied()).collect(),
            drafter: (1..).zip(drafter.iter().copied()).collect(),
            context: 512,
            ..Curves::default()
        };
        let model = CostModel::new(curves.clone()).unwrap();
        Self {
            ms: (0..verify.len()).map(|cap| model.round_ms(cap, 512)).collect(),
            noise: 0.05,
            curves,
        }
    }

    pub(super) fn max(&self) -> usize {
        self.ms.len() - 1
    }

    pub(super) fn controller(&self, asked: Cap) -> Controller {
        Controller::new(CostModel::new(self.curves.clone()), asked, self.max(), FALLBACK_CAP)
    }

    /// Tokens per millisecond of a fixed cap.
    pub(super) fn rate(&self, cap: usize, survival: impl Fn(usize) -> f64) -> f64 {
        let mut reach = 1.0;
        let yielded: f64 = 1.0
            + (0..cap)
                .map(|place| {
                    reach *= survival(place);
                    reach
                })
                .sum::<f64>();
        yielded / self.ms[cap]
    }

    /// The best fixed cap, plain included.
    pub(super) fn best(&self, survival: impl Fn(usize) -> f64 + Copy) -> usize {
        (0..=self.max())
            .max_by(|&a, &b| self.rate(a, survival).total_cmp(&self.rate(b, survival)))
            .unwrap()
    }
}

/// What the rounds that something else disturbs cost.
pub(super) const HICCUPS: f64 = 1.02;

#[derive(Debug, Default)]
pub(super) struct Run {
    pub(super) tokens: usize,
    pub(super) ms: f64,
    pub(super) rounds: usize,
    /// Cap of every round.
    pub(super) caps: Vec<usize>,
    /// Tokens and milliseconds of every round.
    pub(super) took: Vec<usize>,
    pub(super) times: Vec<f64>,
    /// Whether speculation stood aside, after every round.
    pub(super) parked: Vec<bool>,
    pub(super) switches: usize,
}

impl Run {
    pub(super) fn first_parked(&self) -> Option<usize> {
        self.parked.iter().position(|&parked| parked)
    }

    pub(super) fn parked_share(&self) -> f64 {
        self.parked.iter().filter(|&&parked| parked).count() as f64 / self.parked.len() as f64
    }
}

/// Generates so many tokens. `survival(token, place)` is the chance that the draft at that place of the round is
/// taken, the round starting at that token of the text.
pub(super) fn run(machine: &Machine, controller: &mut Controller, tokens: usize, seed: u64, survival: impl Fn(usize, usize) -> f64) -> Run {
    let mut run = Run::default();
    let mut number = 0;
    let mut u = || {
        number += 1;
        uniform(seed, number, Lane::Draft)
    };
    controller.begin(512);
    while run.tokens < tokens {
        let plan = controller.plan();
        let accepted = (0..plan.cap).take_while(|&place| u() < survival(run.tokens, place)).count();
        // Nearly normal, and once in a hundred rounds something else runs.
        let spread: f64 = (0..4).map(|_| u() - 0.5).sum::<f64>() * 1.73 * machine.noise;
        let hiccup = if u() < 0.01 { 3.0 } else { 1.0 };
        let ms = machine.ms[plan.cap] * (1.0 + spread).max(0.5) * hiccup;
        let cap = controller.cap();
        controller.record(&Round {
            cap: plan.cap,
            drafted: plan.cap,
            accepted,
            ms: Some(ms),
            depth: 512,
        });
        run.switches += usize::from(controller.cap() != cap);
        run.tokens += accepted + 1;
        run.ms += ms;
        run.rounds += 1;
        run.caps.push(plan.cap);
        run.took.push(accepted + 1);
        run.times.push(ms);
        run.parked.push(controller.cap() == 0);
    }
    run
}
