//! What a round costs and yields, and the cap that follows. Times in milliseconds, rates in tokens a second.
//!
//! Source: `spec/speculation.md` §9.2, §9.4.

use dspark_protocol::Curves;
use std::collections::BTreeMap;

/// Chance that a draft is taken, where nothing is known of the text; fitted by the reference on eight machines' curves.
pub const PRIOR: f64 = 0.70;
/// A rate must beat another by this factor to be worth a change.
pub const MARGIN: f64 = 1.03;
/// Where nothing was measured: drafts of a round of a DSpark head. (A DFlash block is used whole.)
pub const FALLBACK_CAP: usize = 2;
/// Share of a verify forward below which what depth adds to it is noise.
const DEPTH_MATTERS: f64 = 0.15;

/// Tokens that a round commits on average when each of its `cap` drafts survives with chance `p`: `Σ p^i`, i = 0..=cap.
pub fn expected(p: f64, cap: usize) -> f64 {
    let (mut sum, mut power) = (1.0, 1.0);
    for _ in 0..cap {
        power *= p;
        sum += power;
    }
    sum
}

/// Linear between the points, constant below the first, along the last segment above the last. `None` without points.
pub fn interpolate(curve: &BTreeMap<usize, f64>, x: usize) -> Option<f64> {
    let below = curve.range(..=x).next_back();
    let above = curve.range(x..).next();
    let line = |(x0, y0): (&usize, &f64), (x1, y1): (&usize, &f64)| {
        let slope = (y1 - y0) / (*x1 as f64 - *x0 as f64);
        y0 + slope * (x as f64 - *x0 as f64)
    };
    match (below, above) {
        (Some(a), Some(b)) if a.0 == b.0 => Some(*a.1),
        (Some(a), Some(b)) => Some(line(a, b)),
        (None, Some(first)) => Some(*first.1),
        (Some(last), None) => Some(curve.range(..last.0).next_back().map_or(*last.1, |before| line(before, last))),
        (None, None) => None,
    }
}

/// Measured curves that can be reckoned with.
#[derive(Debug, Clone, PartialEq)]
pub struct CostModel {
    curves: Curves,
}

impl CostModel {
    /// `None` where the curves tell no price: no verify width, or a time that is not a positive number.
    pub fn new(curves: Curves) -> Option<Self> {
        let sane = |curve: &BTreeMap<usize, f64>| curve.values().all(|ms| ms.is_finite() && *ms >= 0.0);
        let priced = curves.verify.values().all(|&ms| ms > 0.0) && !curves.verify.is_empty();
        let rest = curves.overhead.is_finite() && curves.overhead >= 0.0;
        (priced && rest && sane(&curves.verify) && sane(&curves.drafter) && sane(&curves.slope)).then_some(Self { curves })
    }

    pub fn curves(&self) -> &Curves {
        &self.curves
    }

    /// A verify forward of this many rows with `depth` tokens of context.
    pub fn verify_ms(&self, rows: usize, depth: usize) -> f64 {
        interpolate(&self.curves.verify, rows).unwrap_or(0.0) + self.depth_ms(rows, depth)
    }

    fn depth_ms(&self, rows: usize, depth: usize) -> f64 {
        let deeper = depth.saturating_sub(self.curves.context) as f64;
        interpolate(&self.curves.slope, rows).unwrap_or(0.0) * deeper
    }

    /// A round of `cap` drafts; cap 0 is a plain step.
    pub fn round_ms(&self, cap: usize, depth: usize) -> f64 {
        if cap == 0 {
            return self.verify_ms(1, depth);
        }
        interpolate(&self.curves.drafter, cap).unwrap_or(0.0) + self.verify_ms(cap + 1, depth) + self.curves.overhead
    }

    /// Tokens a second at this cap, draft survival and depth.
    pub fn rate(&self, cap: usize, p: f64, depth: usize) -> f64 {
        1e3 * expected(p, cap) / self.round_ms(cap, depth)
    }

    /// [`Self::rate`] of every cap from plain decoding (0) to `max`.
    pub fn predicted(&self, p: f64, depth: usize, max: usize) -> BTreeMap<usize, f64> {
        (0..=max).map(|cap| (cap, self.rate(cap, p, depth))).collect()
    }

    /// The fastest cap from 1 to `max`; the smaller where equal. 0 only when `max` is.
    pub fn best_cap(&self, p: f64, depth: usize, max: usize) -> usize {
        (1..=max)
            .max_by(|&a, &b| self.rate(a, p, depth).total_cmp(&self.rate(b, p, depth)).then(b.cmp(&a)))
            .unwrap_or(0)
    }

    /// Whether a round at this cap beats a plain step by the margin.
    pub fn wins(&self, cap: usize, p: f64, depth: usize) -> bool {
        cap > 0 && self.rate(cap, p, depth) >= MARGIN * self.rate(0, p, depth)
    }

    /// The cap for text of which nothing is known: the fastest at the usual survival. Whether it pays at all is for
    /// [`Self::wins`] to say.
    pub fn derived_cap(&self, max: usize) -> usize {
        self.best_cap(PRIOR, self.curves.context, max)
    }

    /// A derived cap for a prompt of `depth` tokens: unchanged while depth adds little to its verify forward, else no
    /// larger than the best at that depth.
    pub fn cap_at_depth(&self, cap: usize, max: usize, depth: usize) -> usize {
        let flat = interpolate(&self.curves.verify, cap + 1).unwrap_or(0.0);
        if self.depth_ms(cap + 1, depth) < DEPTH_MATTERS * flat {
            cap
        } else {
            cap.min(self.best_cap(PRIOR, depth, max))
        }
    }

    /// The first width where verifying turns dear, for reports; the widest measured where it never does.
    pub fn knee(&self) -> usize {
        knee(&self.curves.verify)
    }
}

/// The first width whose marginal cost exceeds both 1.8 times the mean of the cheaper steps before it and 15 % of one
/// row's; the first step is held against the mean of those after it. 0 without points.
pub fn knee(verify: &BTreeMap<usize, f64>) -> usize {
    const JUMP: f64 = 1.8;
    const NOISE: f64 = 0.15;
    let points: Vec<(usize, f64)> = verify.iter().map(|(&width, &ms)| (width, ms)).collect();
    let widest = points.last().map_or(0, |point| point.0);
    if points.len() < 3 {
        return widest;
    }
    let noise = NOISE * points[0].1;
    let steps: Vec<(usize, f64)> = points.windows(2).map(|pair| (pair[1].0, pair[1].1 - pair[0].1)).collect();
    let mean = |steps: &[(usize, f64)]| steps.iter().map(|step| step.1).sum::<f64>() / steps.len() as f64;
    if steps[0].1 > noise.max(JUMP * mean(&steps[1..])) {
        return steps[0].0;
    }
    (1..steps.len())
        .find(|&i| steps[i].1 > noise.max(JUMP * mean(&steps[..i])))
        .map_or(widest, |i| steps[i].0)
}

#[cfg(test)]
mod tests;
