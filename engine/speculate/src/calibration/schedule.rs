use dspark_protocol::Curves;
use std::collections::BTreeMap;

/// Rounds whose fixed cost is measured as a whole: two drafts, all taken.
const WHOLE: usize = 2;
/// Untimed runs of everything, then timed ones.
const ITERATIONS: usize = 8;
/// Depth at which the slope is measured.
const DEEP: usize = 16384;
/// Share of the budget after which depth is left out.
const BEFORE_DEPTH: f64 = 0.6;

/// One thing to run once and to time, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Probe {
    /// A tapped verify forward of so many rows behind so many tokens, taken back afterwards.
    Verify { rows: usize, context: usize },
    /// The drafter's whole share of a round.
    Draft { cap: usize },
    /// A whole round with all drafts taken, as generation runs it.
    Round { cap: usize },
}

/// What to measure, and for how long.
#[derive(Debug, Clone, PartialEq)]
pub struct Schedule {
    /// Rows of verify forwards, most telling first.
    pub verify: Vec<usize>,
    /// Caps of the drafter, most telling first; one where its cost does not depend on the cap; none without a drafter.
    pub drafter: Vec<usize>,
    /// Whether what a round costs beyond both is measured.
    pub overhead: bool,
    /// Rows whose cost is measured deep in a text too.
    pub slope: Vec<usize>,
    pub context: usize,
    /// Tokens of the deep text.
    pub deep: usize,
    pub iterations: usize,
    /// Milliseconds of measured work, after which whatever is not yet measured is left to interpolation.
    pub budget: f64,
}

impl Schedule {
    /// For a head that drafts as far as it is asked to (DSpark), up to `max`.
    pub fn chain(max: usize, budget: f64) -> Self {
        let max = max.max(1);
        Self {
            verify: telling((1..=max + 1).collect()),
            drafter: telling((1..=max).collect()),
            overhead: true,
            ..Self::empty(max + 1, budget)
        }
    }

    /// For a drafter that always does its whole block of `max` drafts (DFlash).
    pub fn block(max: usize, budget: f64) -> Self {
        let max = max.max(1);
        let widths = [1, 2, 3, 4, 5, 7, 9, 12, max + 1];
        let verify = widths.into_iter().filter(|&rows| rows <= max + 1).collect();
        Self {
            verify: telling(verify),
            drafter: vec![max],
            overhead: false,
            ..Self::empty(max + 1, budget)
        }
    }

    /// For drafts from the text itself, up to `max`.
    pub fn lookup(max: usize, budget: f64) -> Self {
        Self {
            drafter: Vec::new(),
            ..Self::block(max, budget)
        }
    }

    fn empty(widest: usize, budget: f64) -> Self {
        Self {
            verify: Vec::new(),
            drafter: Vec::new(),
            overhead: false,
            slope: telling(vec![1, widest.div_ceil(2), widest]),
            context: 512,
            deep: DEEP,
            iterations: ITERATIONS,
            budget,
        }
    }

    /// For a model or a machine whose text ends earlier: the deep text is `tokens` long at most, and no slope is
    /// measured where that is not well beyond the shallow one.
    #[must_use]
    pub fn within(mut self, tokens: usize) -> Self {
        self.deep = self.deep.min(tokens);
        self.context = self.context.min(tokens);
        if self.deep < 2 * self.context {
            self.slope.clear();
        }
        self
    }
}

/// Ends first, then the middle of the widest gap: what is left out last matters least to interpolation. Two comes
/// third: the first step is where curves jump.
fn telling(mut points: Vec<usize>) -> Vec<usize> {
    points.sort_unstable();
    points.dedup();
    let (Some(&first), Some(&last)) = (points.first(), points.last()) else {
        return points;
    };
    let mut order = vec![first, last];
    order.extend(points.iter().copied().filter(|&point| point == 2));
    order.dedup();
    while let Some(&next) = points
        .iter()
        .rev()
        .filter(|point| !order.contains(point))
        .max_by_key(|point| order.iter().map(|taken| taken.abs_diff(**point)).min())
    {
        order.push(next);
    }
    let mut seen = std::collections::BTreeSet::new();
    order.retain(|point| seen.insert(*point));
    order
}

/// Runs the schedule. `run` does one probe once and tells how many milliseconds it took, with the device idle before
/// and after; setting up (a prefilled cache, a deep one when depth first comes up) is its own business and not timed.
///
/// First everything runs once untimed, in order of importance and only as far as half the budget reaches. Then the
/// points take turns, so that a machine that gets slower meanwhile slows all alike, until each was timed as often as
/// scheduled or the budget is spent; each is timed at least once. Medians count, made monotone.
///
/// # Errors
/// Those of `run`.
pub fn measure<E>(schedule: &Schedule, mut run: impl FnMut(Probe) -> Result<f64, E>) -> Result<Curves, E> {
    let context = schedule.context;
    let mut spent = 0.0;
    let verify = |rows: usize| Probe::Verify { rows, context };
    let mut wanted: Vec<Probe> = schedule.verify.iter().take(2).map(|&rows| verify(rows)).collect();
    wanted.extend(schedule.drafter.iter().take(2).map(|&cap| Probe::Draft { cap }));
    let needed = wanted.len();
    if schedule.overhead {
        wanted.push(Probe::Round { cap: WHOLE });
    }
    let rest = schedule.verify.len().max(schedule.drafter.len());
    for i in 2..rest {
        wanted.extend(schedule.verify.get(i).map(|&rows| verify(rows)));
        wanted.extend(schedule.drafter.get(i).map(|&cap| Probe::Draft { cap }));
    }
    let mut shallow = Turns::new(wanted);
    shallow.warm_up(&mut run, &mut spent, needed, 0.5 * schedule.budget)?;
    shallow.time(&mut run, &mut spent, schedule.iterations, schedule.budget)?;

    let mut curves = Curves {
        context,
        ..Curves::default()
    };
    for (probe, ms) in shallow.medians() {
        match probe {
            Probe::Verify { rows, .. } => drop(curves.verify.insert(rows, ms)),
            Probe::Draft { cap } => drop(curves.drafter.insert(cap, ms)),
            Probe::Round { .. } => curves.overhead = ms,
        }
    }
    monotone(&mut curves.verify);
    monotone(&mut curves.drafter);
    if schedule.overhead {
        let parts = [(&curves.drafter, WHOLE), (&curves.verify, WHOLE + 1)];
        let parts: f64 = parts.iter().filter_map(|(curve, x)| crate::cost::interpolate(curve, *x)).sum();
        curves.overhead = (curves.overhead - parts).max(0.0);
    }

    if spent < BEFORE_DEPTH * schedule.budget && !schedule.slope.is_empty() {
        let deep = schedule.deep;
        let probes = schedule.slope.iter().map(|&rows| Probe::Verify { rows, context: deep }).collect();
        let mut turns = Turns::new(probes);
        turns.warm_up(&mut run, &mut spent, 1, schedule.budget)?;
        turns.time(&mut run, &mut spent, schedule.iterations, schedule.budget)?;
        for (probe, ms) in turns.medians() {
            if let Probe::Verify { rows, .. } = probe {
                let flat = crate::cost::interpolate(&curves.verify, rows).unwrap_or(ms);
                curves.slope.insert(rows, ((ms - flat) / (deep - context) as f64).max(0.0));
            }
        }
        monotone(&mut curves.slope);
    }
    Ok(curves)
}

/// Probes that take turns.
struct Turns {
    probes: Vec<(Probe, Vec<f64>)>,
}

impl Turns {
    fn new(probes: Vec<Probe>) -> Self {
        Self {
            probes: probes.into_iter().map(|probe| (probe, Vec::new())).collect(),
        }
    }

    /// Runs each once, dropping what lies beyond `limit`, but not the first `needed`.
    fn warm_up<E>(&mut self, run: &mut impl FnMut(Probe) -> Result<f64, E>, spent: &mut f64, needed: usize, limit: f64) -> Result<(), E> {
        for i in 0..self.probes.len() {
            if i >= needed && *spent >= limit {
                self.probes.truncate(i);
                break;
            }
            *spent += run(self.probes[i].0)?;
        }
        Ok(())
    }

    fn time<E>(&mut self, run: &mut impl FnMut(Probe) -> Result<f64, E>, spent: &mut f64, iterations: usize, budget: f64) -> Result<(), E> {
        for iteration in 0..iterations.max(1) {
            for (probe, samples) in &mut self.probes {
                if iteration > 0 && *spent >= budget {
                    return Ok(());
                }
                let ms = run(*probe)?;
                *spent += ms;
                samples.push(ms);
            }
        }
        Ok(())
    }

    fn medians(self) -> impl Iterator<Item = (Probe, f64)> {
        (self.probes.into_iter()).filter_map(|(probe, samples)| Some((probe, median(&samples)?)))
    }
}

/// The median of what is a number; `None` of nothing. Interruptions only ever add time, so a mean would keep them.
pub fn median(samples: &[f64]) -> Option<f64> {
    let mut sorted: Vec<f64> = samples.iter().copied().filter(|sample| sample.is_finite()).collect();
    sorted.sort_unstable_by(f64::total_cmp);
    let n = sorted.len();
    (n > 0).then(|| f64::midpoint(sorted[(n - 1) / 2], sorted[n / 2]))
}

/// Whether timings of one thing, taken after it was measured as `before`, say that the machine was left alone meanwhile: they are close
/// to each other and to it. What a busy machine measures is good enough for now and not worth keeping.
pub fn steady(before: f64, again: &[f64]) -> bool {
    const NEAR: f64 = 1.3;
    let least = again.iter().copied().fold(f64::INFINITY, f64::min);
    median(again).is_some_and(|typical| typical <= NEAR * least && before <= NEAR * typical && typical <= NEAR * before)
}

/// The nearest curve (least squares) that never falls: pool adjacent violators. More rows can be no cheaper, since
/// fewer could be padded to as many; what falls is noise.
pub fn monotone(curve: &mut BTreeMap<usize, f64>) {
    // Blocks of (mean, points).
    let mut blocks: Vec<(f64, usize)> = Vec::new();
    for &y in curve.values() {
        blocks.push((y, 1));
        while let [.., a, b] = blocks[..] {
            if a.0 <= b.0 {
                break;
            }
            blocks.pop();
            let n = a.1 + b.1;
            let merged = (a.0 * a.1 as f64 + b.0 * b.1 as f64) / n as f64;
            if let Some(last) = blocks.last_mut() {
                *last = (merged, n);
            }
        }
    }
    let smooth = blocks.into_iter().flat_map(|(y, n)| std::iter::repeat_n(y, n));
    for (y, smooth) in curve.values_mut().zip(smooth) {
        *y = smooth;
    }
}

#[cfg(test)]
mod tests;
