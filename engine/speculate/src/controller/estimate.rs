//! Running estimates: how many drafts survive, and how long rounds take against the model.

use crate::cost::expected;
use std::collections::BTreeMap;

/// Chance of survival assumed before anything is seen, and the number of observations that it counts for.
const PRIOR: f64 = 0.65;
const PRIOR_WEIGHT: f64 = 2.0;
/// The weight of a new observation never falls below this; while parked, where observations are rare, below that.
const ALPHA: f64 = 0.02;
const ALPHA_PARKED: f64 = 0.15;
/// Observations that an estimate counts for at most when drafting resumes on the word of a few probes, and when
/// another text begins.
const CARRIED: f64 = 12.0;
/// Observations after which the estimate is believed; before, a decision waits until it leaves no doubt.
const ENOUGH: usize = 24;
/// Weight of a new round's reach.
const REACH_ALPHA: f64 = 0.05;
/// Standard errors of a doubt.
const DOUBT: f64 = 1.5;
const DOUBT_PARKED: f64 = 1.0;

/// The chance that a draft is taken given that those before it were.
#[derive(Debug, Clone)]
pub(super) struct Acceptance {
    p: f64,
    /// Observations that `p` counts for.
    weight: f64,
    seen: usize,
    /// Levels beyond the first that a round offers, as a share of its cap's: less than 1 for trees, whose nodes share
    /// levels, and where confidence cuts.
    reach: f64,
}

impl Default for Acceptance {
    fn default() -> Self {
        Self {
            p: PRIOR,
            weight: PRIOR_WEIGHT,
            seen: 0,
            reach: 1.0,
        }
    }
}

impl Acceptance {
    pub(super) fn mean(&self) -> f64 {
        self.p
    }

    pub(super) fn believed(&self) -> bool {
        self.seen >= ENOUGH
    }

    /// What to hold against speculation: the mean once enough was seen, else the most that is likely.
    pub(super) fn at_best(&self) -> f64 {
        if self.believed() {
            self.p
        } else {
            (self.p + DOUBT * self.error()).min(1.0)
        }
    }

    /// What probes speak for at the least.
    pub(super) fn at_worst(&self) -> f64 {
        (self.p - DOUBT_PARKED * self.error()).max(0.0)
    }

    /// Tokens that a round of this cap commits on average at this survival.
    pub(super) fn expected(&self, p: f64, cap: usize) -> f64 {
        let levels = cap.min(1) as f64 + cap.saturating_sub(1) as f64 * self.reach;
        let whole = levels as usize;
        expected(p, whole) + levels.fract() * p.powi(whole as i32 + 1)
    }

    fn error(&self) -> f64 {
        (self.p * (1.0 - self.p) / (self.weight + 1.0)).sqrt()
    }

    /// Each accepted draft is a success; the first rejected one a failure. Where all were taken, what would have come
    /// next is unknown, so nothing is counted for it.
    pub(super) fn observe(&mut self, cap: usize, drafted: usize, accepted: usize, parked: bool) {
        if cap > 1 && drafted > 0 {
            let reach = (drafted - 1) as f64 / (cap - 1) as f64;
            self.reach += REACH_ALPHA * (reach.min(1.0) - self.reach);
        }
        let alpha = if parked { ALPHA_PARKED } else { ALPHA };
        let failures = usize::from(accepted < drafted);
        let outcomes = std::iter::repeat_n(1.0, accepted.min(drafted)).chain(std::iter::repeat_n(0.0, failures));
        for outcome in outcomes {
            self.seen += 1;
            // A mean with exponential forgetting of rate alpha counts for 2 / alpha - 1 observations.
            self.weight = (self.weight + 1.0).min(2.0 / alpha - 1.0);
            self.p += (outcome - self.p) * alpha.max(1.0 / self.weight);
        }
    }

    /// What was seen says less about what comes.
    pub(super) fn doubt(&mut self) {
        self.weight = self.weight.min(CARRIED);
    }
}

/// Weight of a new time against the mean of earlier ones at the same cap, and in the correction of all caps.
const TIME_ALPHA: f64 = 0.1;
const CORRECTION_ALPHA: f64 = 0.05;
/// Observations of a cap fade over about so many rounds without another.
const FADE: f64 = 32.0;
/// Observations that the corrected model counts for.
const MODEL_WEIGHT: f64 = 2.0;
/// A time counts for this many times the usual at most: now and then something else runs.
const OUTLIER: f64 = 1.3;

#[derive(Debug, Clone, Copy, Default)]
struct Observed {
    /// Measured over modelled.
    factor: f64,
    weight: f64,
    seen: usize,
}

/// Measured over modelled time, by cap.
#[derive(Debug, Clone)]
pub(super) struct Times {
    caps: BTreeMap<usize, Observed>,
    /// Of rounds that draft, whatever their cap.
    correction: f64,
    corrections: f64,
    /// Of plain steps, relative to `correction`, so that a machine that slows down or recovers slows both.
    plain: Option<f64>,
}

impl Default for Times {
    fn default() -> Self {
        Self {
            caps: BTreeMap::new(),
            correction: 1.0,
            corrections: 0.0,
            plain: None,
        }
    }
}

impl Times {
    pub(super) fn observe(&mut self, cap: usize, ms: f64, modelled: f64) {
        let usual = self.factor(cap);
        let factor = (ms / modelled).min(OUTLIER * usual);
        let observed = self.caps.entry(cap).or_default();
        observed.seen += 1;
        observed.weight += 1.0;
        let alpha = TIME_ALPHA.max(1.0 / observed.weight.max(1.0));
        observed.factor += alpha * (factor - observed.factor);
        if cap == 0 {
            if observed.weight >= MODEL_WEIGHT {
                self.plain = Some(observed.factor / self.correction);
            }
        } else {
            self.corrections += 1.0;
            let alpha = CORRECTION_ALPHA.max(1.0 / (self.corrections + 1.0));
            self.correction += alpha * (factor - self.correction);
        }
    }

    /// One round went by, at this cap.
    pub(super) fn age(&mut self, cap: usize) {
        for (&other, observed) in &mut self.caps {
            if other != cap {
                observed.weight *= 1.0 - 1.0 / FADE;
            }
        }
    }

    /// By what the modelled time of this cap is to be multiplied.
    pub(super) fn factor(&self, cap: usize) -> f64 {
        let base = if cap == 0 {
            self.plain.map_or(1.0, |plain| plain * self.correction)
        } else {
            self.correction
        };
        self.caps.get(&cap).map_or(base, |observed| {
            (observed.weight * observed.factor + MODEL_WEIGHT * base) / (observed.weight + MODEL_WEIGHT)
        })
    }

    /// Times seen at this cap.
    pub(super) fn seen(&self, cap: usize) -> usize {
        self.caps.get(&cap).map_or(0, |observed| observed.seen)
    }
}
