//! The race in the Lab: what is to run, how far it is, what came of it and of those before.

use super::{Effect, Msg, Replay, State, Toast};
use dspark_compare::{Arm, KEPT_RACES, Lane, News, Race, Way, Wish};
use dspark_protocol::TemplateOptions;
use dspark_strings::{Key, key, t};
use std::sync::{Arc, LazyLock};

/// Lanes of a race, plain decoding among them.
pub const LANES: usize = 4;
pub const RACE_TOKENS: [usize; 5] = [50, 100, 200, 400, 800];

/// Prompts that are offered, by kind.
pub static PRESETS: LazyLock<Vec<(Key, String)>> = LazyLock::new(|| {
    let shipped = dspark_compare::few(&dspark_compare::texts(&[], None).unwrap_or_default());
    let names = [("code", key!(kind_code)), ("chat", key!(chat)), ("list", key!(kind_list))];
    let found = names.into_iter().filter_map(|(kind, name)| {
        let text = shipped.iter().find(|text| text.kind == kind)?;
        Some((name, text.text.clone()))
    });
    found.collect()
});

/// A lane that is being run.
#[derive(Debug, Clone, PartialEq)]
pub struct Live {
    pub arm: Arm,
    pub text: String,
    pub tokens: usize,
    pub done: Option<Box<Lane>>,
}

/// A race under way.
#[derive(Debug, Clone, PartialEq)]
pub struct Running {
    pub lanes: Vec<Live>,
    /// Which of them runs.
    pub at: usize,
    pub judging: bool,
    /// It was told to stop.
    pub stopping: bool,
    pub max_tokens: usize,
}

/// What can be saved of a race.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShareAs {
    Picture,
    Data,
}

impl ShareAs {
    pub const ALL: [Self; 2] = [Self::Picture, Self::Data];

    pub fn name(self) -> &'static str {
        match self {
            Self::Picture => t!(picture_png),
            Self::Data => t!(all_figures_json),
        }
    }
}

#[derive(Debug, Clone)]
pub struct RaceLab {
    pub prompt: String,
    /// Beside plain decoding, in the order in which they were chosen.
    pub arms: Vec<Arm>,
    pub max_tokens: usize,
    /// The model may think first.
    pub thinking: bool,
    pub running: Option<Running>,
    /// Newest first.
    pub races: Vec<Arc<Race>>,
    pub shown: Option<Arc<Race>>,
    pub replay: Option<Replay>,
    pub failure: Option<String>,
    /// The last one was stopped before any lane was done.
    pub cancelled: bool,
}

impl Default for RaceLab {
    fn default() -> Self {
        Self {
            prompt: PRESETS.first().map(|(_, text)| text.clone()).unwrap_or_default(),
            arms: Vec::new(),
            max_tokens: 200,
            thinking: false,
            running: None,
            races: Vec::new(),
            shown: None,
            replay: None,
            failure: None,
            cancelled: false,
        }
    }
}

#[derive(Debug, Clone)]
pub enum RaceMsg {
    Prompt(String),
    Toggle(Arm),
    Tokens(usize),
    Thinking(bool),
    Start,
    Cancel,
    News(News),
    Ended(Result<Box<Race>, String>),
    Cancelled,
    /// From disk, newest first.
    Known(Vec<Race>),
    Show(Arc<Race>),
    Play,
    Pause,
    Restart,
    Skip,
    Seek(f64),
    Share(ShareAs),
}

impl From<RaceMsg> for Msg {
    fn from(message: RaceMsg) -> Self {
        Self::Race(message)
    }
}

pub(super) fn update(state: &mut State, message: RaceMsg, out: &mut Vec<Effect>) {
    let now = state.clock.instant;
    let lab = &mut state.lab.race;
    match message {
        RaceMsg::Prompt(text) => lab.prompt = text,
        RaceMsg::Toggle(arm) => state.lab.race.arms = toggled(state.race_arms(), arm, LANES - 1),
        RaceMsg::Tokens(tokens) => lab.max_tokens = tokens,
        RaceMsg::Thinking(on) => lab.thinking = on,
        RaceMsg::Start => start(state, out),
        RaceMsg::Cancel => {
            if let Some(running) = &mut lab.running {
                running.stopping = true;
                out.push(Effect::CancelComparison);
            }
        }
        RaceMsg::News(news) => heard(lab, news),
        RaceMsg::Ended(result) => ended(state, result, out),
        RaceMsg::Cancelled => {
            lab.running = None;
            lab.cancelled = true;
        }
        RaceMsg::Known(known) => lab.races.extend(known.into_iter().map(Arc::new)),
        RaceMsg::Show(race) => show(state, race),
        RaceMsg::Play => with(lab, |replay| replay.play(now)),
        RaceMsg::Pause => with(lab, |replay| replay.pause(now)),
        RaceMsg::Restart => with(lab, |replay| replay.restart(now)),
        RaceMsg::Skip => with(lab, Replay::skip),
        RaceMsg::Seek(to) => with(lab, |replay| replay.seek(to, now)),
        RaceMsg::Share(kind) => share(state, kind, out),
    }
}

fn with(lab: &mut RaceLab, change: impl FnOnce(&mut Replay)) {
    if let Some(replay) = &mut lab.replay {
        change(replay);
    }
}

/// `arms` with this one, or without it where it was among them: at least one, at most `most`.
pub(super) fn toggled(mut arms: Vec<Arm>, arm: Arm, most: usize) -> Vec<Arm> {
    match arms.iter().position(|known| *known == arm) {
        Some(at) if arms.len() > 1 => {
            arms.remove(at);
        }
        None if arms.len() < most => arms.push(arm),
        _ => {}
    }
    arms
}

fn start(state: &mut State, out: &mut Vec<Effect>) {
    if state.comparing().is_some() || state.lab.race.prompt.trim().is_empty() {
        return;
    }
    let Some(model) = state.engine.model.clone().filter(|_| state.models.loading.is_none()) else {
        return;
    };
    let mut arms = state.race_arms();
    arms.push(Arm::plain());
    let version = state.version.clone();
    let lab = &mut state.lab.race;
    let live = |arm: &Arm| Live {
        arm: *arm,
        text: String::new(),
        tokens: 0,
        done: None,
    };
    lab.running = Some(Running {
        lanes: arms.iter().map(live).collect(),
        at: 0,
        judging: false,
        stopping: false,
        max_tokens: lab.max_tokens,
    });
    lab.failure = None;
    lab.cancelled = false;
    lab.shown = None;
    lab.replay = None;
    out.push(Effect::Race(Box::new(Wish {
        prompt: lab.prompt.clone(),
        options: TemplateOptions {
            enable_thinking: model.supports_thinking.then_some(lab.thinking),
            ..TemplateOptions::default()
        },
        max_tokens: lab.max_tokens,
        arms,
        version,
    })));
}

fn heard(lab: &mut RaceLab, news: News) {
    let Some(running) = &mut lab.running else { return };
    match news {
        News::Begun(at) => running.at = at,
        News::Piece { lane, piece } => {
            if let Some(lane) = running.lanes.get_mut(lane) {
                lane.text.push_str(&piece.text);
                lane.tokens += piece.tokens;
            }
        }
        News::Done(done) => {
            if let Some(lane) = running.lanes.get_mut(running.at) {
                lane.done = Some(done);
            }
        }
        News::Judging => running.judging = true,
    }
}

fn ended(state: &mut State, result: Result<Box<Race>, String>, out: &mut Vec<Effect>) {
    let lab = &mut state.lab.race;
    lab.running = None;
    match result {
        Ok(race) => {
            let race = Arc::new(*race);
            lab.races.insert(0, race.clone());
            lab.races.truncate(KEPT_RACES);
            out.push(Effect::KeepRaces {
                folder: state.data_dir.clone(),
                races: lab.races.clone(),
            });
            show(state, race);
        }
        Err(reason) => lab.failure = Some(reason),
    }
}

fn show(state: &mut State, race: Arc<Race>) {
    let (now, length) = (state.clock.instant, race.length());
    let still = state.settings.appearance.reduce_motion || race.stopped.is_some();
    let lab = &mut state.lab.race;
    lab.replay = Some(if still { Replay::ended(length) } else { Replay::begun(length, now) });
    lab.shown = Some(race);
    lab.failure = None;
    lab.cancelled = false;
}

fn share(state: &mut State, kind: ShareAs, out: &mut Vec<Effect>) {
    let Some(race) = state.lab.race.shown.clone() else { return };
    match kind {
        ShareAs::Picture => out.push(Effect::SaveRaceCard(race)),
        ShareAs::Data => match serde_json::to_string_pretty(&*race) {
            Ok(text) => out.push(Effect::SaveFile {
                name: "mlx-dspark-race.json".into(),
                text,
            }),
            Err(error) => state.toasts.push(Toast::error(t!(race_not_saved), error.to_string())),
        },
    }
}

/// Work that sets ways of decoding side by side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparing {
    Race,
    Benchmark,
}

impl State {
    /// What runs now; never both.
    pub fn comparing(&self) -> Option<Comparing> {
        if self.lab.race.running.is_some() {
            Some(Comparing::Race)
        } else {
            self.lab.bench.running.as_ref().map(|_| Comparing::Benchmark)
        }
    }

    /// Ways to decode that the loaded pair has, and those that it has not.
    pub fn ways(&self) -> Vec<Way> {
        dspark_compare::ways(self.engine.speculation.as_deref())
    }

    /// The chosen ways that the pair has; the usual one where none of them is left.
    pub(super) fn fitting(&self, chosen: &[Arm]) -> Vec<Arm> {
        let ways = self.ways();
        let fits = |arm: &&Arm| ways.iter().any(|way| way.arm == **arm && way.unfit.is_none());
        let kept: Vec<Arm> = chosen.iter().filter(fits).copied().collect();
        if kept.is_empty() {
            ways.first().map(|way| way.arm).into_iter().collect()
        } else {
            kept
        }
    }

    /// What would race against plain decoding.
    pub fn race_arms(&self) -> Vec<Arm> {
        self.fitting(&self.lab.race.arms)
    }

    /// Who else is being answered, or waits.
    pub fn others(&self) -> Vec<&str> {
        let own = |client: &str| {
            matches!(
                (self.comparing(), client),
                (Some(Comparing::Race), "race") | (Some(Comparing::Benchmark), "benchmark")
            )
        };
        let mut names: Vec<&str> = self
            .engine
            .requests
            .iter()
            .map(|request| request.client.as_str())
            .filter(|name| !own(name))
            .collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}
