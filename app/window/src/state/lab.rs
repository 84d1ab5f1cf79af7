//! The Lab: the rounds as they come, and what is looked at.

use super::{BenchLab, Effect, MachineLab, RaceLab, State, Toast, machine, models};
use dspark_protocol::{RoundRecord, RoundRing, RoundStats, Snapshot, Source};
use dspark_strings::t;
use std::{
    collections::{BTreeMap, VecDeque},
    fmt::Write,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum LabView {
    #[default]
    Live,
    Curves,
    Machine,
    Race,
    Benchmark,
}

/// Context length that the curves are also shown for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Depth {
    #[default]
    None,
    Tokens8k,
    Tokens32k,
}

impl Depth {
    pub fn tokens(self) -> Option<usize> {
        match self {
            Self::None => None,
            Self::Tokens8k => Some(8 << 10),
            Self::Tokens32k => Some(32 << 10),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportAs {
    Csv,
    Json,
}

/// Who asked for what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asker {
    pub client: String,
    pub prompt_tokens: usize,
}

#[derive(Debug, Clone, Default)]
pub struct Lab {
    pub view: LabView,
    pub depth: Depth,
    /// Rounds of the loaded model, oldest first; as many as the engine's ring holds.
    pub rounds: VecDeque<RoundRecord>,
    /// The picture stands still; rounds are still taken in.
    pub paused: Option<VecDeque<RoundRecord>>,
    /// Only this client's rounds.
    pub client: Option<String>,
    /// By request; the newest ones.
    pub askers: BTreeMap<u64, Asker>,
    pub machine: MachineLab,
    pub race: RaceLab,
    pub bench: BenchLab,
    /// Races and benchmarks of earlier starts were asked for.
    history: bool,
    /// The last round taken in, or the last one of the model before.
    after: Option<u64>,
}

/// Requests whose client is remembered: more than the ring's rounds can belong to.
const ASKERS: usize = RoundRing::CAPACITY;

#[derive(Debug, Clone)]
pub enum LabMsg {
    View(LabView),
    Depth(Depth),
    /// New rounds, oldest first.
    Rounds(Vec<RoundRecord>),
    /// A request of this window has begun.
    Asked {
        request: u64,
        asker: Asker,
    },
    /// The model is another one; rounds up to this one are not its own.
    Forget(Option<u64>),
    Pause(bool),
    Client(Option<String>),
    Export(ExportAs),
    /// Load the model anew and measure its costs.
    Measure,
}

impl Lab {
    /// Where the next reading of the ring begins.
    pub fn after(&self) -> Option<u64> {
        self.after
    }

    /// The rounds to show: as they stood when paused, of the chosen client.
    pub fn shown(&self) -> impl DoubleEndedIterator<Item = &RoundRecord> {
        let rounds = self.paused.as_ref().unwrap_or(&self.rounds);
        rounds.iter().filter(|round| self.is_shown(round))
    }

    fn is_shown(&self, round: &RoundRecord) -> bool {
        let Some(client) = &self.client else { return true };
        self.askers.get(&round.request).is_some_and(|asker| asker.client == *client)
    }

    /// Clients of the rounds that are there, by name.
    pub fn clients(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self
            .rounds
            .iter()
            .filter_map(|round| self.askers.get(&round.request))
            .map(|asker| asker.client.as_str())
            .collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Who is asking, whether or not the Lab is open: a round knows only a number.
    pub(super) fn note(&mut self, snapshot: &Snapshot) {
        for request in &snapshot.requests {
            let asker = Asker {
                client: request.client.clone(),
                prompt_tokens: request.prompt_tokens,
            };
            self.askers.insert(request.id, asker);
        }
        while self.askers.len() > ASKERS {
            self.askers.pop_first();
        }
    }
}

pub(super) fn update(state: &mut State, message: LabMsg, out: &mut Vec<Effect>) {
    let lab = &mut state.lab;
    match message {
        LabMsg::View(view) => {
            lab.view = view;
            opened(state, out);
        }
        LabMsg::Depth(depth) => lab.depth = depth,
        LabMsg::Rounds(rounds) => {
            for round in rounds {
                if lab.after.is_some_and(|after| round.seq <= after) {
                    continue;
                }
                lab.after = Some(round.seq);
                if lab.rounds.len() == RoundRing::CAPACITY {
                    lab.rounds.pop_front();
                }
                lab.rounds.push_back(round);
            }
        }
        LabMsg::Asked { request, asker } => {
            lab.askers.insert(request, asker);
        }
        LabMsg::Forget(after) => {
            lab.rounds.clear();
            lab.paused = None;
            lab.client = None;
            lab.after = after;
            lab.machine.replies.clear();
            lab.machine.swap_growth = None;
            if lab.view == LabView::Machine {
                machine::look_at_model(state, out);
            }
        }
        LabMsg::Pause(true) => lab.paused = Some(lab.rounds.clone()),
        LabMsg::Pause(false) => lab.paused = None,
        LabMsg::Client(client) => lab.client = client,
        LabMsg::Export(kind) => {
            let rounds: Vec<&RoundRecord> = lab.shown().collect();
            let (name, text) = match kind {
                ExportAs::Csv => ("mlx-dspark-rounds.csv", csv(&rounds)),
                ExportAs::Json => ("mlx-dspark-rounds.json", json(&rounds)),
            };
            out.push(Effect::SaveFile { name: name.into(), text });
        }
        LabMsg::Measure => measure(state, out),
    }
}

/// The Lab is looked at: what its view needs is fetched.
pub(super) fn opened(state: &mut State, out: &mut Vec<Effect>) {
    match state.lab.view {
        LabView::Machine => machine::opened(state, out),
        LabView::Race | LabView::Benchmark if !state.lab.history => {
            state.lab.history = true;
            out.push(Effect::ReadHistory(state.data_dir.clone()));
        }
        LabView::Live | LabView::Curves | LabView::Race | LabView::Benchmark => {}
    }
}

fn measure(state: &mut State, out: &mut Vec<Effect>) {
    let Some(model) = state.engine.model.clone() else { return };
    if !state.engine.requests.is_empty() {
        let toast = Toast::warning(t!(reply_being_written_title), t!(measuring_whole_machine));
        state.toasts.push(toast);
        return;
    }
    models::load(state, model.name.clone(), model.path.clone(), true, out);
}

fn source(round: &RoundRecord) -> &'static str {
    match round.source {
        Source::Draft => "drafter",
        Source::Lookup => "lookup",
        Source::Target | Source::Corrected => "plain",
    }
}

/// One line a round, the names of `/rounds` on top.
fn csv(rounds: &[&RoundRecord]) -> String {
    let mut text = String::from("seq,t_ms,request,index,drafted,accepted,committed,cap,source,ms\n");
    for round in rounds {
        let cap = round.cap.map(|cap| cap.to_string()).unwrap_or_default();
        let _ = writeln!(
            text,
            "{},{:.1},{},{},{},{},{},{cap},{},{:.3}",
            round.seq,
            round.t_ms,
            round.request,
            round.index,
            round.drafted,
            round.accepted,
            round.committed,
            source(round),
            round.ms
        );
    }
    text
}

fn json(rounds: &[&RoundRecord]) -> String {
    let stats = RoundStats::of(rounds.iter().copied());
    let value = serde_json::json!({"rounds": rounds, "stats": stats});
    serde_json::to_string_pretty(&value).unwrap_or_default()
}
