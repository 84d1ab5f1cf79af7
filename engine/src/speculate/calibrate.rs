//! Measuring a pair once, and keeping what was measured. Source: `spec/speculation.md` §9.1.

use super::bench::Bench;
use crate::{
    drafters::{Class, Drafter},
    sample::Place,
    target::Target,
};
use dspark_protocol::{Curves, LoadRequest, MachineInfo};
use dspark_speculate::calibration::{CurveFile, Key, Probe, Schedule, measure, median, steady};
use mlx_rs::error::Exception;
use std::{
    path::PathBuf,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// Where what was measured is kept.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Calibration {
    /// Nothing is measured: caps rest on the prior alone.
    #[default]
    Off,
    /// Measured at each load.
    Fresh,
    /// Measured once and kept in this file.
    Kept(PathBuf),
}

/// Milliseconds of measured work.
const BUDGET_HOST: f64 = 2500.0;
const BUDGET_DEVICE: f64 = 5000.0;
/// Tokens of context and of the deep context on a CPU, where filling them takes time.
const CONTEXT_HOST: usize = 128;
const DEEP_HOST: usize = 2048;
/// Drafts of lookup alone that are priced.
const LOOKUP: usize = 15;
/// Rows at which a tree is compared with a chain, and timings of each.
const TREE_ROWS: usize = 8;
const TREE_TIMINGS: usize = 5;
/// Timings that show whether the machine was busy.
const STEADY_TIMINGS: usize = 9;

impl Calibration {
    /// The curves of a pair: kept ones, or measured now. `starting` hears that something will be measured. `None` where
    /// nothing is to be measured, or it failed, which the log tells: speculation does without.
    pub(crate) fn curves(
        &self,
        target: &dyn Target,
        drafter: Option<&Drafter>,
        request: &LoadRequest,
        machine: &MachineInfo,
        starting: impl FnOnce(),
    ) -> Option<Curves> {
        if *self == Self::Off {
            return None;
        }
        let schedule = schedule(target, drafter);
        let key = key(request, drafter, machine, schedule.context);
        let file = match self {
            Self::Kept(path) => Some(CurveFile::new(path)),
            _ => None,
        };
        let kept = file.as_ref().filter(|_| !request.recalibrate);
        if let Some(curves) = kept.and_then(|file| file.get(&key)) {
            return Some(curves);
        }
        starting();
        let curves = match run(target, drafter, &schedule) {
            Ok(curves) => curves,
            Err(error) => {
                tracing::warn!(error = error.what(), "this machine could not be measured for speculation");
                return None;
            }
        };
        if curves.unsteady {
            tracing::info!("the machine was busy while it was measured for speculation: the next load measures again");
        } else if let Some(Err(error)) = file.map(|file| file.put(&key, &curves)) {
            tracing::warn!(%error, "calibration");
        }
        Some(curves)
    }
}

fn schedule(target: &dyn Target, drafter: Option<&Drafter>) -> Schedule {
    let host = Place::current() == Place::Host;
    let budget = if host { BUDGET_HOST } else { BUDGET_DEVICE };
    let mut schedule = match drafter.map(Drafter::spec) {
        Some(spec) if spec.class == Class::DSpark => Schedule::chain(spec.max_draft(), budget),
        Some(spec) => Schedule::block(spec.max_draft(), budget),
        None => Schedule::lookup(LOOKUP, budget),
    };
    if host {
        schedule.context = CONTEXT_HOST;
        schedule.deep = DEEP_HOST;
    }
    schedule.within(target.max_context().saturating_sub(64))
}

fn key(request: &LoadRequest, drafter: Option<&Drafter>, machine: &MachineInfo, context: usize) -> Key {
    let drafter = drafter.and(request.drafter.as_ref());
    Key {
        device: machine.device.clone(),
        engine: env!("CARGO_PKG_VERSION").into(),
        mlx: machine.mlx_version.clone(),
        mode: if drafter.is_some() { "drafter" } else { "lookup" }.into(),
        target: request.path.to_string_lossy().into_owned(),
        drafter: drafter.map(|path| path.to_string_lossy().into_owned()),
        context,
        kv_bits: None,
        kernels: [format!("{}-{}-{}", machine.backend, mlx_cpu::kernels(), mlx_cpu::threads())].into(),
    }
}

fn run(target: &dyn Target, drafter: Option<&Drafter>, schedule: &Schedule) -> Result<Curves, Exception> {
    let mut shallow = Bench::new(target, drafter, schedule.context)?;
    let mut deep: Option<Bench<'_>> = None;
    let ms = |took: Duration| took.as_secs_f64() * 1e3;
    let mut curves = measure(schedule, |probe| match probe {
        Probe::Verify { rows, context } if context > schedule.context => {
            if deep.is_none() {
                deep = Some(Bench::deep(target, schedule.context, context)?);
            }
            let bench = deep.as_mut().unwrap_or(&mut shallow);
            Ok(ms(if rows == 1 { bench.plain()? } else { bench.verify(rows, false)? }))
        }
        // What speculation competes with is the plain loop, which runs one step ahead and reads no taps.
        Probe::Verify { rows: 1, .. } => shallow.plain().map(ms),
        Probe::Verify { rows, .. } => shallow.verify(rows, false).map(ms),
        Probe::Draft { cap } => shallow.draft(cap).map(ms),
        Probe::Round { cap } => shallow.round(cap).map(ms),
    })?;
    curves.tree = tree(&mut shallow).ok();
    curves.measured_at = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let again = (0..STEADY_TIMINGS)
        .map(|_| shallow.plain().map(ms))
        .collect::<Result<Vec<_>, _>>()?;
    curves.unsteady = !curves.verify.get(&1).is_some_and(|before| steady(*before, &again));
    Ok(curves)
}

/// What a tree costs, times a chain of as many rows; an error where this target takes none.
fn tree(bench: &mut Bench<'_>) -> Result<f64, Exception> {
    let (mut chains, mut trees) = (Vec::new(), Vec::new());
    for _ in 0..TREE_TIMINGS {
        chains.push(bench.verify(TREE_ROWS, false)?.as_secs_f64());
        trees.push(bench.verify(TREE_ROWS, true)?.as_secs_f64());
    }
    match (median(&chains), median(&trees)) {
        (Some(chain), Some(tree)) if chain > 0.0 => Ok(tree / chain),
        _ => Err(Exception::custom("nothing was timed")),
    }
}
