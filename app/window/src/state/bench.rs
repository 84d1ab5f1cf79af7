//! Benchmarks in the Lab: what is measured, how far it is, and those before, one beside another.

use super::{Effect, Msg, State, race::toggled};
use dspark_compare::{Arm, Bench, Plan, Progress, Skipped};
use std::{sync::Arc, time::Instant};

/// How much is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Extent {
    /// One prompt of each kind, once.
    #[default]
    Quick,
    /// What the command line measures: every prompt, three turns.
    Full,
}

/// A benchmark under way.
#[derive(Debug, Clone, PartialEq)]
pub struct Measuring {
    /// Generations of the whole plan.
    pub of: usize,
    pub at: Option<Progress>,
    pub since: Instant,
    pub stopping: bool,
}

impl Measuring {
    /// Seconds that are left, by those that are done; `None` before there are enough.
    pub fn left(&self, now: Instant) -> Option<f64> {
        let done = self.at.as_ref().map(|at| at.done).filter(|done| *done >= 3)?;
        let spent = now.saturating_duration_since(self.since).as_secs_f64();
        Some(spent / done as f64 * self.of.saturating_sub(done) as f64)
    }
}

#[derive(Debug, Clone, Default)]
pub struct BenchLab {
    /// Beside plain decoding.
    pub arms: Vec<Arm>,
    pub extent: Extent,
    pub running: Option<Measuring>,
    /// Newest first.
    pub all: Vec<Arc<Bench>>,
    pub shown: Option<Arc<Bench>>,
    /// What the shown one stands beside.
    pub against: Option<Arc<Bench>>,
    pub failure: Option<String>,
    pub cancelled: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BenchAs {
    Csv,
    Json,
}

#[derive(Debug, Clone)]
pub enum BenchMsg {
    Toggle(Arm),
    Extent(Extent),
    Start,
    Cancel,
    Progress(Progress),
    Ended(Result<Box<Bench>, String>),
    Cancelled,
    /// From disk, newest first.
    Known(Vec<Bench>),
    Show(Arc<Bench>),
    Against(Option<Arc<Bench>>),
    Export(BenchAs),
}

impl From<BenchMsg> for Msg {
    fn from(message: BenchMsg) -> Self {
        Self::Bench(message)
    }
}

/// Ways that one benchmark measures beside plain decoding, at most.
pub const BENCH_ARMS: usize = 6;
/// As the command line does.
const TOKENS: usize = 200;
const TURNS: usize = 3;

pub(super) fn update(state: &mut State, message: BenchMsg, out: &mut Vec<Effect>) {
    let lab = &mut state.lab.bench;
    match message {
        BenchMsg::Toggle(arm) => state.lab.bench.arms = toggled(state.bench_arms(), arm, BENCH_ARMS),
        BenchMsg::Extent(extent) => lab.extent = extent,
        BenchMsg::Start => start(state, out),
        BenchMsg::Cancel => {
            if let Some(running) = &mut lab.running {
                running.stopping = true;
                out.push(Effect::CancelComparison);
            }
        }
        BenchMsg::Progress(at) => {
            if let Some(running) = &mut lab.running {
                running.at = Some(at);
            }
        }
        BenchMsg::Ended(result) => ended(state, result, out),
        BenchMsg::Cancelled => {
            lab.running = None;
            lab.cancelled = true;
        }
        BenchMsg::Known(known) => {
            lab.all.extend(known.into_iter().map(Arc::new));
            if lab.shown.is_none() {
                lab.shown = lab.all.first().cloned();
                lab.against = before(lab);
            }
        }
        BenchMsg::Show(bench) => {
            if lab.against.as_ref() == Some(&bench) {
                lab.against = None;
            }
            lab.shown = Some(bench);
            lab.cancelled = false;
        }
        BenchMsg::Against(bench) => lab.against = bench.filter(|bench| lab.shown.as_ref() != Some(bench)),
        BenchMsg::Export(kind) => export(state, kind, out),
    }
}

fn start(state: &mut State, out: &mut Vec<Effect>) {
    if state.comparing().is_some() || !state.has_model() || state.models.loading.is_some() {
        return;
    }
    let all = dspark_compare::texts(&[], None).unwrap_or_default();
    let extent = state.lab.bench.extent;
    let plan = Plan {
        arms: state.bench_arms(),
        texts: if extent == Extent::Quick { dspark_compare::few(&all) } else { all },
        max_tokens: TOKENS,
        trials: if extent == Extent::Quick { 1 } else { TURNS },
        version: state.version.clone(),
    };
    let since = state.clock.instant;
    let lab = &mut state.lab.bench;
    lab.running = Some(Measuring {
        of: plan.generations(),
        at: None,
        since,
        stopping: false,
    });
    lab.failure = None;
    lab.cancelled = false;
    out.push(Effect::Bench(Box::new(plan)));
}

fn ended(state: &mut State, result: Result<Box<Bench>, String>, out: &mut Vec<Effect>) {
    let skipped = state.ways().into_iter().filter_map(|way| {
        Some(Skipped {
            run: way.arm.name(),
            reason: way.unfit?,
        })
    });
    let skipped = skipped.collect();
    let lab = &mut state.lab.bench;
    lab.running = None;
    match result {
        Ok(bench) => {
            let bench = Arc::new(Bench { skipped, ..*bench });
            lab.all.insert(0, bench.clone());
            lab.shown = Some(bench.clone());
            // Beside the last one of the same pair and machine: has anything become slower?
            lab.against = before(lab);
            out.push(Effect::KeepBench {
                folder: state.data_dir.clone(),
                bench,
            });
        }
        Err(reason) => lab.failure = Some(reason),
    }
}

/// The newest one that the shown one may be set against.
fn before(lab: &BenchLab) -> Option<Arc<Bench>> {
    let shown = lab.shown.as_ref()?;
    let at = lab.all.iter().position(|bench| bench == shown)?;
    lab.all[at + 1..].iter().find(|bench| bench.stamp.is_alike(&shown.stamp)).cloned()
}

fn export(state: &State, kind: BenchAs, out: &mut Vec<Effect>) {
    let lab = &state.lab.bench;
    let Some(shown) = &lab.shown else { return };
    let chosen: Vec<Bench> = std::iter::once(shown)
        .chain(&lab.against)
        .map(|bench| Bench::clone(bench))
        .collect();
    let (name, text) = match kind {
        BenchAs::Csv => ("mlx-dspark-benchmark.csv", dspark_compare::csv(&chosen)),
        BenchAs::Json => (
            "mlx-dspark-benchmark.json",
            serde_json::to_string_pretty(&serde_json::json!({"benchmarks": chosen})).unwrap_or_default(),
        ),
    };
    out.push(Effect::SaveFile { name: name.into(), text });
}

impl State {
    /// What would be measured beside plain decoding.
    pub fn bench_arms(&self) -> Vec<Arm> {
        self.fitting(&self.lab.bench.arms)
    }
}
