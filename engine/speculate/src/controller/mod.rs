//! The cap of the next round, from what the last ones did. One controller per loaded pair; it lives on from request to
//! request. Lookup rounds are not its business: they are neither planned nor recorded here.
//!
//! Source: `spec/speculation.md` §9.3. What differs from it, and why:
//!
//! * Every mode may park, not only `auto`: a derived cap steps aside where plain decoding is faster. Pinned caps stay.
//! * A cap is priced by its expected yield over its measured TIME. The reference averages milliseconds per committed
//!   token, round by round; the mean of such ratios exceeds the ratio of the means (a round that commits 1 and one that
//!   commits 5 in 10 ms each make 6 ms a token instead of 3.3) and its noise is far above the 3 % margin.
//! * Measured times fade into the corrected model instead of expiring at once, and the plain step's time is measured
//!   too wherever the decision is close.
//! * Parking needs 24 observations, or fewer that already rule speculation out by one and a half standard errors: at
//!   no acceptance a round can cost two plain steps, and 24 of those are a tenth of a short answer.
//! * Drafting resumes when probes speak for it by a standard error; otherwise two lucky ones in three would do.
//! * A parked controller probes at a fixed distance that follows from what a probe costs, so that probing costs about
//!   1 % (at distance 8, a probe of 1.5 plain steps would cost 6 %), between every 8th and every 128th round. A probe
//!   that succeeds is followed by another at once, so easy text is noticed within about two distances; a request starts
//!   with a probe. Simulated on four machines: at most 2 % slower than plain decoding in the long run whatever the
//!   text, and 300 tokens until a change of the text is followed.

mod estimate;

use crate::cost::{CostModel, MARGIN, PRIOR, expected};
use dspark_protocol::{Cap, CapOrigin};
use estimate::{Acceptance, Times};
use std::{collections::BTreeMap, fmt};

/// Rounds between choices.
const REPICK_EVERY: usize = 4;
/// Drafts that `auto` starts with.
const START: usize = 2;
/// Share of the time that probing may cost while parked.
const PROBE_BUDGET: f64 = 0.01;
/// Parked rounds between probes.
const PROBE_NEAREST: usize = 8;
const PROBE_FARTHEST: usize = 128;
/// Draft survival that no text exceeds for long: where even this does not pay, nothing will.
const BEST_TEXT: f64 = 0.95;
/// From this on, it is not the text that keeps drafts from paying.
const GOOD_TEXT: f64 = 0.7;
/// Below this, no text is that hard: the drafter does not fit.
const WRONG_DRAFTER: f64 = 0.12;
/// Plain steps that tell what a plain step takes, and the gain below which it is worth knowing.
const AUDIT_STEPS: usize = 4;
const AUDIT_BELOW: f64 = 1.25;

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// Drafts to ask for, at most; 0 is a plain step.
    pub cap: usize,
    /// The round serves the estimate: a try at drafting while parked, or plain steps to time them.
    pub probe: bool,
    /// Speculation has stepped aside.
    pub parked: bool,
    /// Rounds for which this holds without asking again, at least 1: plain steps may be pipelined that far. Each is
    /// recorded all the same.
    pub rounds: usize,
}

/// How a round went.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Round {
    /// Drafts asked for: the plan's cap, or fewer where the text may not get that long. 0 for a plain step.
    pub cap: usize,
    /// Drafts verified: fewer than asked for where confidence cuts; of a tree, its depth.
    pub drafted: usize,
    pub accepted: usize,
    /// Wall-clock time, where it is that of a round of this cap: not of a first round that compiles kernels, nor of a
    /// chain that was cut.
    pub ms: Option<f64>,
    /// Tokens in the target's cache before it.
    pub depth: usize,
}

/// Why speculation stands aside.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Parked {
    /// No acceptance would pay on this machine.
    Machine,
    /// Too few of the drafts are taken; the estimated chance.
    Acceptance(f64),
}

impl fmt::Display for Parked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Machine => write!(f, "verifying drafts costs this machine more than they can save"),
            Self::Acceptance(p) if *p < WRONG_DRAFTER => write!(
                f,
                "hardly any draft is taken ({:.0} %); the drafter may belong to another model",
                100.0 * p
            ),
            Self::Acceptance(p) if *p >= GOOD_TEXT => write!(
                f,
                "verifying drafts takes this machine longer than they save, though {:.0} % are taken",
                100.0 * p
            ),
            Self::Acceptance(p) => write!(
                f,
                "too few drafts are taken on this text ({:.0} %) to be faster than plain decoding",
                100.0 * p
            ),
        }
    }
}

/// Decides round by round.
#[derive(Debug, Clone)]
pub struct Controller {
    cost: Option<CostModel>,
    asked: Cap,
    max: usize,
    unmeasured: usize,
    /// The cap that the curves give at the depth of the current prompt, before parking; of a pinned cap, itself.
    resting: usize,
    cap: usize,
    acceptance: Acceptance,
    times: Times,
    plan: Plan,
    since_pick: usize,
    /// Rounds until the next probe while parked.
    until_probe: usize,
    depth: usize,
    recorded: usize,
}

impl Controller {
    /// `max` is what the drafter gives at most. Without curves a cap that is not pinned is `unmeasured`, and nothing
    /// parks.
    pub fn new(cost: Option<CostModel>, asked: Cap, max: usize, unmeasured: usize) -> Self {
        let depth = cost.as_ref().map_or(0, |cost| cost.curves().context);
        let mut controller = Self {
            cost,
            asked,
            max: max.max(1),
            unmeasured,
            resting: 0,
            cap: 0,
            acceptance: Acceptance::default(),
            times: Times::default(),
            plan: Plan {
                cap: 0,
                probe: false,
                parked: false,
                rounds: 1,
            },
            since_pick: 0,
            until_probe: PROBE_FARTHEST,
            depth,
            recorded: 0,
        };
        controller.begin(depth);
        controller.cap = controller.first();
        controller.settle();
        controller
    }

    /// A request starts with this many tokens of prompt: derived caps follow the depth, and new text may be easier.
    pub fn begin(&mut self, depth: usize) {
        self.depth = depth;
        self.resting = self.rested();
        if self.cap != 0 && self.asked == Cap::Derived {
            self.cap = self.resting;
        }
        self.acceptance.doubt();
        if self.hopeless() {
            self.until_probe = self.until_probe.clamp(1, PROBE_FARTHEST);
        } else {
            self.until_probe = 0;
        }
        self.settle();
    }

    /// The cap before anything is known of the text.
    fn rested(&self) -> usize {
        match (self.asked, &self.cost) {
            (Cap::Fixed(cap), _) => cap.clamp(1, self.max),
            (Cap::Full, _) => self.max,
            (Cap::Auto | Cap::Derived, None) => self.unmeasured.clamp(1, self.max),
            (Cap::Auto, Some(_)) => START.min(self.max),
            (Cap::Derived, Some(cost)) => cost.cap_at_depth(cost.derived_cap(self.max), self.max, self.depth),
        }
    }

    /// The next round.
    pub fn plan(&self) -> Plan {
        self.plan
    }

    /// Draft survival as estimated: the chance that a draft is taken given that those before it were.
    pub fn acceptance(&self) -> f64 {
        self.acceptance.mean()
    }

    /// Rounds taken note of so far.
    pub fn recorded(&self) -> usize {
        self.recorded
    }

    /// Drafts of a round; 0 while parked.
    pub fn cap(&self) -> usize {
        self.cap
    }

    pub fn origin(&self) -> CapOrigin {
        match self.asked {
            Cap::Derived => CapOrigin::Derived,
            Cap::Auto => CapOrigin::Auto,
            Cap::Fixed(_) | Cap::Full => CapOrigin::Pinned,
        }
    }

    /// Why it stands aside now; for a pinned cap, why it should.
    pub fn parked(&self) -> Option<Parked> {
        let pinned = self.origin() == CapOrigin::Pinned;
        let losing = pinned && self.acceptance.believed() && self.rate(self.cap) * MARGIN < self.rate(0);
        let hopeless = self.hopeless();
        (self.cap == 0 || losing).then(|| {
            if hopeless {
                Parked::Machine
            } else {
                Parked::Acceptance(self.acceptance())
            }
        })
    }

    /// Tokens a second by cap, 0 being plain decoding, as estimated now. Empty without curves.
    pub fn predicted(&self) -> BTreeMap<usize, f64> {
        let caps = if self.cost.is_some() { 0..self.max + 1 } else { 0..0 };
        caps.map(|cap| (cap, self.rate(cap))).collect()
    }

    /// Takes note of a round that was planned here.
    pub fn record(&mut self, round: &Round) {
        self.depth = round.depth;
        self.recorded += 1;
        self.acceptance.observe(round.cap, round.drafted, round.accepted, self.cap == 0);
        if let (Some(cost), Some(ms)) = (&self.cost, round.ms.filter(|ms| ms.is_finite() && *ms > 0.0)) {
            self.times.observe(round.cap, ms, cost.round_ms(round.cap, round.depth));
        }
        self.times.age(round.cap);
        self.until_probe = self.until_probe.saturating_sub(1);
        self.since_pick += 1;
        let probed = self.cap == 0 && round.cap > 0;
        if self.since_pick >= REPICK_EVERY || probed {
            self.pick();
        } else if !self.acceptance.believed() {
            // At first every round may settle that nothing is to be gained.
            self.park_if_slower();
        }
        if self.cap == 0 && probed {
            let again = round.accepted > 0 && !self.hopeless();
            self.until_probe = if again { 0 } else { self.probe_distance() };
        }
        self.settle();
    }

    /// The cap before any round was seen.
    fn first(&self) -> usize {
        if self.origin() == CapOrigin::Pinned {
            return self.resting;
        }
        let Some(cost) = &self.cost else { return self.resting };
        let unfit = match self.asked {
            Cap::Derived => !cost.wins(self.resting, PRIOR, self.depth),
            _ => self.hopeless(),
        };
        if unfit { 0 } else { self.resting }
    }

    /// Whether no text could make drafting pay.
    fn hopeless(&self) -> bool {
        self.cost.is_some() && self.candidates().all(|cap| self.rate_at(cap, BEST_TEXT) < MARGIN * self.rate(0))
    }

    /// What may be chosen beside plain steps.
    fn candidates(&self) -> std::ops::RangeInclusive<usize> {
        match self.asked {
            Cap::Auto => 1..=self.max,
            _ => self.resting..=self.resting,
        }
    }

    fn fixed(&self) -> bool {
        self.origin() == CapOrigin::Pinned || self.cost.is_none()
    }

    /// The fastest of what may be chosen, at this survival; the smaller where equal.
    fn best(&self, p: f64) -> usize {
        let faster = |a: &usize, b: &usize| self.rate_at(*a, p).total_cmp(&self.rate_at(*b, p)).then(b.cmp(a));
        self.candidates().max_by(faster).unwrap_or(self.resting)
    }

    fn pick(&mut self) {
        self.since_pick = 0;
        if self.fixed() || self.park_if_slower() {
            return;
        }
        let best = self.best(self.acceptance.mean());
        if self.cap == 0 {
            if self.rate_at(best, self.acceptance.at_worst()) > MARGIN * self.rate(0) {
                self.cap = best;
                self.acceptance.doubt();
            }
        } else if self.rate(best) > MARGIN * self.rate(self.cap) {
            self.cap = best;
        }
    }

    /// Steps aside where even the most that is likely loses against plain steps.
    fn park_if_slower(&mut self) -> bool {
        let p = self.acceptance.at_best();
        let slower = self.cap != 0 && !self.fixed() && self.rate_at(self.best(p), p) < self.rate(0);
        if slower {
            self.cap = 0;
            self.until_probe = self.probe_distance();
        }
        slower
    }

    /// Tokens a second at this cap as estimated; 1 without curves.
    fn rate(&self, cap: usize) -> f64 {
        self.rate_at(cap, self.acceptance.mean())
    }

    fn rate_at(&self, cap: usize, p: f64) -> f64 {
        self.cost
            .as_ref()
            .map_or(1.0, |cost| 1e3 * self.acceptance.expected(p, cap) / self.ms(cap, cost))
    }

    fn ms(&self, cap: usize, cost: &CostModel) -> f64 {
        cost.round_ms(cap, self.depth) * self.times.factor(cap)
    }

    /// Parked rounds between probes, so that what they lose against plain steps stays within the budget. Probes come
    /// in runs: each success brings another.
    fn probe_distance(&self) -> usize {
        let Some(cost) = &self.cost else { return PROBE_NEAREST };
        if self.hopeless() {
            return PROBE_FARTHEST;
        }
        let p = self.acceptance.mean();
        let plain = self.ms(0, cost);
        let loss = self.ms(1, cost) - expected(p, 1) * plain;
        let run = 1.0 / (1.0 - p).max(0.1);
        let distance = (loss * run / (PROBE_BUDGET * plain)).ceil().max(0.0) as usize;
        distance.clamp(PROBE_NEAREST, PROBE_FARTHEST)
    }

    fn settle(&mut self) {
        let parked = self.cap == 0;
        let doubt = !parked
            && self.cost.is_some()
            && self.origin() != CapOrigin::Pinned
            && self.acceptance.believed()
            && self.times.seen(0) < AUDIT_STEPS
            && self.rate(self.cap) < AUDIT_BELOW * self.rate(0);
        self.plan = if doubt {
            Plan {
                cap: 0,
                probe: true,
                parked,
                rounds: AUDIT_STEPS - self.times.seen(0),
            }
        } else if parked && self.until_probe == 0 {
            Plan {
                cap: 1,
                probe: true,
                parked,
                rounds: 1,
            }
        } else {
            Plan {
                cap: self.cap,
                probe: false,
                parked,
                rounds: if parked { self.until_probe } else { 1 },
            }
        };
    }
}

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
