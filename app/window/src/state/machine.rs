//! This machine in the Lab: what was read of its memory, how fast that is, and what replies made of it.

use super::{Effect, State, Toast};
use crate::{
    bridge::Reading,
    machine::{
        limits::Limits,
        roofline::Footprint,
        verdict::{Figures, Judgement, judge},
    },
};
use dspark_protocol::{Bandwidth, EngineState, MachineInfo, RoundRecord};
use dspark_strings::t;
use serde::{Deserialize, Serialize};
use std::{
    collections::VecDeque,
    path::{Path, PathBuf},
};

/// Replies that the picture shows.
const REPLIES: usize = 48;

/// A measurement with what it belongs to.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Measured {
    pub device: String,
    pub mlx_version: String,
    /// Seconds since the Unix epoch.
    pub at: u64,
    /// Memory was short while it was taken: it says little.
    pub degraded: bool,
    pub bandwidth: Bandwidth,
}

impl Measured {
    /// Where it is kept, beside the settings.
    pub fn file(settings: &Path) -> PathBuf {
        settings.with_file_name("bandwidth.json")
    }

    /// What was kept there; a file of another version is as good as none.
    pub fn read(file: &Path) -> Option<Self> {
        serde_json::from_slice(&std::fs::read(file).ok()?).ok()
    }

    /// Whether it is of this device and runtime.
    pub fn is_of(&self, machine: &MachineInfo) -> bool {
        self.device == machine.device && self.mlx_version == machine.mlx_version
    }
}

/// A reply of the loaded model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reply {
    /// Prompt and reply, tokens.
    pub context: usize,
    /// Decoded tokens a second.
    pub rate: f64,
    /// Tokens a round, where something was drafted.
    pub accept: Option<f64>,
}

#[derive(Debug, Clone, Default)]
pub struct MachineLab {
    pub reading: Option<Reading>,
    /// Weights of the model in this folder, or why they are not known.
    pub footprint: Option<(PathBuf, Result<Footprint, String>)>,
    pub measured: Option<Measured>,
    pub measuring: bool,
    pub failure: Option<String>,
    pub replies: VecDeque<Reply>,
    /// Swap in use when the last reply began, and what it grew by until its end.
    swap_before: Option<u64>,
    pub swap_growth: Option<u64>,
}

#[derive(Debug, Clone)]
pub enum MachineMsg {
    /// Look again.
    Look,
    Read(Reading),
    Footprint {
        path: PathBuf,
        footprint: Result<Footprint, String>,
    },
    /// From disk, of an earlier start.
    Known(Measured),
    Measure,
    Cancel,
    Measured(Result<Bandwidth, String>),
    /// A reply has ended.
    Replied(Reply),
    /// Swap in use as a reply begins, or ends.
    Swap {
        begins: bool,
        used: u64,
    },
}

pub(super) fn update(state: &mut State, message: MachineMsg, out: &mut Vec<Effect>) {
    let lab = &mut state.lab.machine;
    match message {
        MachineMsg::Look => out.push(Effect::ReadMachine),
        MachineMsg::Read(reading) => lab.reading = Some(reading),
        MachineMsg::Footprint { path, footprint } => lab.footprint = Some((path, footprint)),
        MachineMsg::Known(measured) => {
            if lab.measured.is_none() {
                lab.measured = Some(measured);
            }
        }
        MachineMsg::Measure => measure(state, out),
        MachineMsg::Cancel => {
            if lab.measuring {
                out.push(Effect::CancelBandwidth);
            }
        }
        MachineMsg::Measured(result) => measured(state, result, out),
        MachineMsg::Replied(reply) => replied(lab, reply),
        MachineMsg::Swap { begins: true, used } => lab.swap_before = Some(used),
        MachineMsg::Swap { begins: false, used } => lab.swap_growth = lab.swap_before.map(|before| used.saturating_sub(before)),
    }
}

fn measure(state: &mut State, out: &mut Vec<Effect>) {
    if state.lab.machine.measuring {
        return;
    }
    if !state.engine.requests.is_empty() || state.models.loading.is_some() {
        let toast = Toast::warning(t!(engine_busy), t!(memory_whole_machine));
        state.toasts.push(toast);
        return;
    }
    state.lab.machine.measuring = true;
    state.lab.machine.failure = None;
    out.push(Effect::MeasureBandwidth);
}

/// The view is opened: what is missing is fetched.
pub(super) fn opened(state: &mut State, out: &mut Vec<Effect>) {
    out.push(Effect::ReadMachine);
    look_at_model(state, out);
    let idle = matches!(state.engine.state, EngineState::Ready | EngineState::NoModel) && state.engine.requests.is_empty();
    if idle && state.models.loading.is_none() && state.bandwidth().is_none() && state.lab.machine.failure.is_none() {
        measure(state, out);
    }
}

/// Reads the weights' sizes of a model that is not known yet.
pub(super) fn look_at_model(state: &State, out: &mut Vec<Effect>) {
    let Some(model) = &state.engine.model else { return };
    let known = state.lab.machine.footprint.as_ref().is_some_and(|(path, _)| *path == model.path);
    if !known {
        out.push(Effect::ReadFootprint(model.path.clone()));
    }
}

fn measured(state: &mut State, result: Result<Bandwidth, String>, out: &mut Vec<Effect>) {
    if !std::mem::take(&mut state.lab.machine.measuring) {
        return;
    }
    match result {
        Ok(bandwidth) => {
            let pressed = state.lab.machine.reading.as_ref().is_some_and(Reading::is_pressed);
            let measured = Measured {
                device: state.engine.machine.device.clone(),
                mlx_version: state.engine.machine.mlx_version.clone(),
                at: (state.clock.millis / 1000).max(0) as u64,
                degraded: pressed,
                bandwidth,
            };
            out.push(Effect::SaveBandwidth(measured.clone()));
            state.lab.machine.measured = Some(measured);
        }
        Err(reason) => state.lab.machine.failure = Some(reason),
    }
}

fn replied(lab: &mut MachineLab, reply: Reply) {
    let replies = &mut lab.replies;
    if replies.len() == REPLIES {
        replies.pop_front();
    }
    replies.push_back(reply);
}

impl State {
    /// The measurement, if it is of this device and runtime.
    pub fn bandwidth(&self) -> Option<&Measured> {
        let measured = self.lab.machine.measured.as_ref();
        measured.filter(|known| known.is_of(&self.engine.machine))
    }

    /// Weights of the loaded model.
    pub fn footprint(&self) -> Option<Footprint> {
        let (model, (path, footprint)) = (self.engine.model.as_ref()?, self.lab.machine.footprint.as_ref()?);
        footprint.as_ref().ok().copied().filter(|_| *path == model.path)
    }

    /// Tokens a second that plain decoding of the loaded model cannot exceed at a context.
    pub fn ceiling(&self, context: usize) -> Option<f64> {
        self.limits().ceiling(context)
    }

    fn limits(&self) -> Limits<'_> {
        Limits {
            engine: &self.engine,
            footprint: self.footprint(),
            bandwidth: self.bandwidth().map(|measured| measured.bandwidth.gigabytes_per_second),
        }
    }

    /// GB a second that a plain step moves and its part of what memory gives, from the calibrated step.
    pub fn plain_step(&self) -> Option<(f64, f64)> {
        self.limits().plain_step()
    }

    /// What all of it says of this machine.
    pub fn judgement(&self) -> Judgement {
        let lab = &self.lab.machine;
        let last = lab.replies.back().filter(|_| self.engine.model.is_some());
        judge(&Figures {
            ratio: last.and_then(|reply| Some(reply.rate / self.ceiling(reply.context)?)),
            accept: last.and_then(|reply| reply.accept),
            rate: last.map(|reply| reply.rate),
            context: last
                .zip(self.engine.model.as_ref())
                .map(|(reply, model)| (reply.context, model.context_window)),
            pressure: lab.reading.as_ref().map(|reading| reading.pressure).unwrap_or_default(),
            slowed: lab.reading.as_ref().and_then(|reading| reading.slowed(&self.engine.machine.device)),
            swap_growth: lab.swap_growth.filter(|_| last.is_some()),
            decay: decay(self.lab.rounds.iter()),
            cold: lab.replies.len() == 1,
            ..self.limits().figures()
        })
    }
}

/// Rate of the last 16 rounds of the newest reply against its first 16; `None` under 32 rounds.
/// Source: `spec/fit-and-roofline.md` §9.
fn decay<'a>(rounds: impl DoubleEndedIterator<Item = &'a RoundRecord>) -> Option<f64> {
    let mut rounds = rounds.rev().peekable();
    let request = rounds.peek()?.request;
    let reply: Vec<&RoundRecord> = rounds
        .take_while(|round| round.request == request)
        .filter(|round| round.index > 0)
        .collect();
    if reply.len() < 32 {
        return None;
    }
    let rate = |rounds: &[&RoundRecord]| {
        let (tokens, ms) = rounds.iter().fold((0.0, 0.0), |(tokens, ms), round| {
            (tokens + f64::from(round.committed), ms + f64::from(round.ms))
        });
        if ms > 0.0 { tokens / ms } else { 0.0 }
    };
    // Newest first.
    let (last, first) = (rate(&reply[..16]), rate(&reply[reply.len() - 16..]));
    (first > 0.0).then(|| last / first)
}

impl From<MachineMsg> for super::Msg {
    fn from(message: MachineMsg) -> Self {
        Self::Machine(message)
    }
}
