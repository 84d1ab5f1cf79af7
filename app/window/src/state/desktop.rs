//! The desktop around the window: awake while there is work, a word when long work ends unseen, launch at login, and what
//! its file dialogs bring.

use super::{Comparing, Effect, Msg, State, Toast};
use dspark_desktop::{Awake, Choice, Event, Login, Note};
use dspark_strings::t;
use std::{
    collections::BTreeMap,
    path::PathBuf,
    time::{Duration, Instant},
};

/// Work that took less is no news.
const LONG: Duration = Duration::from_secs(20);

/// Two clicks within this are one.
const TWICE: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Default)]
pub struct DesktopState {
    /// `None` until it has been read.
    pub login: Option<Login>,
    pub awake: Awake,
    /// Why the last notification was not shown.
    pub mute: Option<String>,
    /// Why the last file dialog did not open; the fields for paths say it.
    pub no_dialog: Option<String>,
    /// The window has the keyboard.
    pub focused: bool,
    /// What the system is kept awake for.
    asked: Option<&'static str>,
    jobs: BTreeMap<Job, Running>,
    chose: Option<Instant>,
}

/// Work that may take long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Job {
    Download,
    Load,
    Race,
    Benchmark,
}

#[derive(Debug, Clone)]
struct Running {
    name: String,
    since: Instant,
    /// A person has stopped it.
    cancelled: bool,
}

/// What files are chosen for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    Attach,
    ModelFolder,
    Import,
}

/// What the desktop is asked for.
#[derive(Debug, Clone, PartialEq)]
pub enum DesktopAsk {
    LookAtLogin,
    SetLogin(bool),
    Awake(Option<&'static str>),
    Note(Note),
    Choose(Purpose),
}

#[derive(Debug, Clone)]
pub enum DesktopMsg {
    LookAtLogin,
    SetLogin(bool),
    Login(Result<Login, String>),
    Said(Event),
    /// Opens a file dialog.
    Choose(Purpose),
    Chosen {
        purpose: Purpose,
        choice: Choice,
    },
}

impl From<DesktopMsg> for Msg {
    fn from(message: DesktopMsg) -> Self {
        Self::Desktop(message)
    }
}

fn ask(ask: DesktopAsk) -> Effect {
    Effect::Desktop(ask)
}

pub(super) fn update(state: &mut State, message: DesktopMsg, out: &mut Vec<Effect>) {
    match message {
        DesktopMsg::LookAtLogin => out.push(ask(DesktopAsk::LookAtLogin)),
        DesktopMsg::SetLogin(on) => out.push(ask(DesktopAsk::SetLogin(on))),
        DesktopMsg::Login(Ok(login)) => state.desktop.login = Some(login),
        DesktopMsg::Login(Err(reason)) => {
            state.toasts.push(Toast::error(t!(login_not_changed), reason));
            // The switch shows what holds.
            out.push(ask(DesktopAsk::LookAtLogin));
        }
        DesktopMsg::Said(Event::Awake(awake)) => state.desktop.awake = awake,
        DesktopMsg::Said(Event::Noted(result)) => state.desktop.mute = result.err(),
        DesktopMsg::Said(Event::Clicked) => out.extend(super::update(state, Msg::ShowWindow)),
        DesktopMsg::Choose(purpose) => {
            let now = state.clock.instant;
            if state.desktop.chose.is_none_or(|before| now.duration_since(before) > TWICE) {
                state.desktop.chose = Some(now);
                out.push(ask(DesktopAsk::Choose(purpose)));
            }
        }
        DesktopMsg::Chosen { purpose, choice } => chosen(state, purpose, choice, out),
    }
}

fn chosen(state: &mut State, purpose: Purpose, choice: Choice, out: &mut Vec<Effect>) {
    state.desktop.chose = None;
    match choice {
        Choice::Chosen(paths) => {
            state.desktop.no_dialog = None;
            for message in brought(purpose, paths) {
                out.extend(super::update(state, message));
            }
        }
        Choice::Cancelled => state.desktop.no_dialog = None,
        Choice::Unavailable(reason) => {
            let instead = match purpose {
                Purpose::Attach => t!(attach_instead),
                Purpose::ModelFolder | Purpose::Import => t!(path_instead),
            };
            state.toasts.push(Toast::warning(
                t!(no_dialog),
                t!(reason_instead, reason = reason, instead = instead),
            ));
            state.desktop.no_dialog = Some(reason);
        }
    }
}

/// As if a person had dropped or typed it.
fn brought(purpose: Purpose, paths: Vec<PathBuf>) -> Vec<Msg> {
    match purpose {
        Purpose::Attach => vec![Msg::Files(super::FilesMsg::Dropped(paths))],
        Purpose::ModelFolder => paths
            .into_iter()
            .map(|path| Msg::Models(super::ModelsMsg::AddFolder(path)))
            .collect(),
        Purpose::Import => paths.into_iter().map(|path| Msg::Files(super::FilesMsg::Import(path))).collect(),
    }
}

/// After every message: what the desktop should know of it.
pub(super) fn follow(state: &mut State, out: &mut Vec<Effect>) {
    let why = state.work().filter(|_| state.settings.general.stay_awake);
    // The reason may change under way; the promise holds for all of them.
    if why.is_some() != state.desktop.asked.is_some() {
        out.push(ask(DesktopAsk::Awake(why)));
    }
    state.desktop.asked = why;
    for job in [Job::Download, Job::Load, Job::Race, Job::Benchmark] {
        let (known, now) = (state.desktop.jobs.get(&job), running(state, job));
        let same = match (known, now) {
            (Some(known), Some((name, cancelled))) => known.name == name && known.cancelled == cancelled,
            (None, None) => true,
            _ => false,
        };
        if same {
            continue;
        }
        let goes_on = known.filter(|known| now.is_some_and(|(name, _)| name == known.name));
        let began = now.map(|(name, cancelled)| Running {
            name: name.to_owned(),
            since: goes_on.map_or(state.clock.instant, |known| known.since),
            cancelled,
        });
        let ended = if goes_on.is_some() { None } else { known.cloned() };
        match began {
            Some(began) => state.desktop.jobs.insert(job, began),
            None => state.desktop.jobs.remove(&job),
        };
        if let Some(note) = ended.and_then(|ended| note(state, job, &ended)) {
            out.push(ask(DesktopAsk::Note(note)));
        }
    }
}

/// Name of the work that is under way, and whether a person has stopped it.
fn running(state: &State, job: Job) -> Option<(&str, bool)> {
    match job {
        Job::Download => state
            .models
            .fetching
            .as_ref()
            .map(|fetching| (fetching.name.as_str(), fetching.cancelled)),
        Job::Load => state
            .models
            .loading
            .as_ref()
            .map(|loading| (loading.name.as_str(), loading.cancelled)),
        Job::Race => state.lab.race.running.as_ref().map(|running| ("race", running.stopping)),
        Job::Benchmark => state.lab.bench.running.as_ref().map(|running| ("benchmark", running.stopping)),
    }
}

/// The word for work that has ended: none where a person saw it end, ended it, or asked for none.
fn note(state: &State, job: Job, ended: &Running) -> Option<Note> {
    let took = state.clock.instant.saturating_duration_since(ended.since);
    let away = !state.window_visible || !state.desktop.focused;
    if took < LONG || !away || ended.cancelled || !state.settings.general.notify {
        return None;
    }
    let name = &ended.name;
    let models = &state.models;
    let failed = models.failure.as_ref().filter(|failure| failure.name == *name);
    let (title, body) = match job {
        Job::Download => match failed.filter(|failure| failure.download) {
            Some(failure) => (t!(was_not_downloaded, name = name), failure.reason.clone()),
            None if models.loading.is_some() => (t!(is_downloaded, name = name), t!(is_loaded_now).into()),
            None => (t!(is_downloaded, name = name), t!(checked_can_load).into()),
        },
        Job::Load => match failed.filter(|failure| !failure.download) {
            Some(failure) => (t!(did_not_load, name = name), failure.reason.clone()),
            None if state.has_model() => (t!(is_loaded, name = name), t!(can_be_asked).into()),
            None => (t!(did_not_load, name = name), t!(engine_stopped_window).into()),
        },
        Job::Race => match &state.lab.race.failure {
            Some(reason) => (t!(race_broke_off).into(), reason.clone()),
            None => (t!(race_over).into(), t!(race_over_line).into()),
        },
        Job::Benchmark => match &state.lab.bench.failure {
            Some(reason) => (t!(benchmark_broke_off).into(), reason.clone()),
            None => (t!(benchmark_over).into(), t!(benchmark_over_line).into()),
        },
    };
    Some(Note { title, body })
}

impl State {
    /// Work for which the machine should not fall asleep, in words that go after "mlx-dspark:".
    fn work(&self) -> Option<&'static str> {
        if self.models.fetching.is_some() {
            Some(t!(work_download))
        } else if self.models.loading.is_some() {
            Some(t!(work_load))
        } else if let Some(comparing) = self.comparing() {
            Some(match comparing {
                Comparing::Race => t!(work_race),
                Comparing::Benchmark => t!(work_benchmark),
            })
        } else if !self.lives.is_empty() || !self.engine.requests.is_empty() {
            Some(t!(work_reply))
        } else {
            None
        }
    }
}
