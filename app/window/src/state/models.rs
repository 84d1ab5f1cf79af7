use super::{
    Downloads, Effect, Fetching, HubSearch, Msg, Screen, Shelf, State, Then, Toast, chat, downloads, first_run, hub, settings, shelf,
};
use crate::{
    bridge::{FetchError, FetchProgress, FitLevel, Leftover, ModelEntry, Offer, Survey, TokenState},
    settings::{Decoding, LastModel},
};
use dspark_protocol::{EngineError, EngineState, LoadEvent, LoadRequest, LoadStage, Snapshot};
use dspark_strings::t;
use std::{path::PathBuf, sync::Arc};

#[derive(Debug, Clone, Default)]
pub struct Models {
    /// `None` until the first look around.
    pub survey: Option<Survey>,
    pub surveying: bool,
    pub fetching: Option<Fetching>,
    pub loading: Option<Loading>,
    pub unloading: bool,
    pub failure: Option<LoadFailure>,
    /// What is marked on the first page.
    pub choice: Option<Choice>,
    /// "Skip for now" on the first pages.
    pub skipped: bool,
    pub picker_open: bool,
    /// A path typed into the picker.
    pub path: String,
    pub path_error: Option<String>,
    pub filter: String,
    pub tab: ModelsTab,
    /// Of the recommended ones, those that do not fit are shown too.
    pub any_size: bool,
    pub open: Option<OpenRow>,
    /// A question that stands before something that cannot be taken back.
    pub question: Option<Question>,
    pub downloads: Downloads,
    /// What `fetching` brings.
    pub under_way: Option<Offer>,
    pub hub: HubSearch,
    pub shelf: Shelf,
    /// Where the hub's access token comes from; `None` before the first look.
    pub token: Option<TokenState>,
}

/// The parts of the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ModelsTab {
    #[default]
    Recommended,
    Here,
    Search,
    Downloads,
}

/// The row that shows its sum.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenRow {
    /// A folder, or the id of an offer.
    pub key: String,
    /// Where a person has put the slider, tokens.
    pub context: Option<u64>,
    /// How it will decode, where that differs from the settings.
    pub decoding: Option<Box<Decoding>>,
    /// The sheet with those is open.
    pub sheet: bool,
}

/// Asked before something that cannot be taken back.
#[derive(Debug, Clone, PartialEq)]
pub enum Question {
    Delete(Box<ModelEntry>),
    /// It is too big for this machine.
    Load(Box<ModelEntry>, Option<Box<Decoding>>),
    /// Keep what the download has brought?
    Stop,
    Discard(Leftover),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice {
    Installed(PathBuf),
    Offer(String),
}

/// A load under way.
#[derive(Debug, Clone, PartialEq)]
pub struct Loading {
    pub name: String,
    pub path: PathBuf,
    pub stage: LoadStage,
    pub done: u64,
    pub total: u64,
    pub cancelled: bool,
}

impl Loading {
    /// 0 to 1, where the stage counts bytes.
    pub fn part(&self) -> Option<f32> {
        (self.total > 0).then(|| (self.done as f32 / self.total as f32).min(1.0))
    }
}

/// The last load or download that did not work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadFailure {
    pub name: String,
    pub reason: String,
    /// What to try again.
    pub retry: Choice,
    pub download: bool,
}

#[derive(Debug, Clone)]
pub enum ModelsMsg {
    Survey,
    Surveyed(Survey),
    Choose(Choice),
    /// Go on with what is marked: load it, or download and then load it.
    Start,
    Load(ModelEntry),
    /// With this window and these settings, for this load.
    LoadWith {
        entry: ModelEntry,
        decoding: Box<Decoding>,
    },
    /// Although it is too big.
    LoadAnyway {
        entry: ModelEntry,
        decoding: Option<Box<Decoding>>,
    },
    Tab(ModelsTab),
    AnySize(bool),
    /// Shows a row's sum, or hides it again.
    Open(String),
    /// The slider of the open row.
    Context(u64),
    /// The options of the open row; `None` goes back to the settings.
    Options(Option<Box<Decoding>>),
    Sheet(bool),
    Ask(Question),
    Dismiss,
    LoadPath(PathBuf),
    Inspected {
        path: PathBuf,
        found: Result<ModelEntry, String>,
    },
    LoadEvent(LoadEvent),
    CancelLoad,
    Unload,
    Unloaded(Result<(), String>),
    Fetch(Offer),
    Fetching(FetchProgress),
    Fetched(Result<ModelEntry, FetchError>),
    CancelFetch,
    DismissFailure,
    Retry,
    Picker(bool),
    PathText(String),
    Filter(String),
    AddFolder(PathBuf),
    RemoveFolder(PathBuf),
}

/// A new picture of the engine.
pub(super) fn snapshot(state: &mut State, snapshot: Arc<Snapshot>, out: &mut Vec<Effect>) {
    let had = state.engine.model.as_ref().map(|model| model.name.clone());
    let has = snapshot.model.as_ref().map(|model| model.name.clone());
    let failed = matches!(snapshot.state, EngineState::Error { .. } | EngineState::Stopped);
    state.lab.note(&snapshot);
    state.engine = snapshot;
    shelf::measured(state);
    if had != has {
        chat::model_changed(state, out);
    }
    if failed {
        state.models.loading = None;
    }
}

pub(super) fn update(state: &mut State, message: ModelsMsg, out: &mut Vec<Effect>) {
    match message {
        ModelsMsg::Survey => survey(state, out),
        ModelsMsg::Surveyed(survey) => {
            state.models.surveying = false;
            if state.models.choice.is_none() {
                state.models.choice = first_choice(&survey);
            }
            state.models.survey = Some(survey);
        }
        ModelsMsg::Choose(choice) => state.models.choice = Some(choice),
        ModelsMsg::Start => {
            if let Some(choice) = state.models.choice.clone() {
                first_run::going(state, matches!(choice, Choice::Offer(_)), out);
                start(state, &choice, out);
            }
        }
        ModelsMsg::Retry => {
            if let Some(failure) = state.models.failure.take() {
                first_run::going(state, failure.download, out);
                start(state, &failure.retry, out);
            }
        }
        ModelsMsg::DismissFailure => state.models.failure = None,
        ModelsMsg::Load(entry) => ask_or_load(state, entry, None, out),
        ModelsMsg::LoadWith { entry, decoding } => ask_or_load(state, entry, Some(decoding), out),
        ModelsMsg::LoadAnyway { entry, decoding } => {
            state.models.question = None;
            let decoding = decoding.map_or_else(|| state.settings.decoding.clone(), |decoding| *decoding);
            load_with(state, entry.name, entry.path, false, &decoding, out);
        }
        ModelsMsg::Tab(tab) => {
            if state.models.tab != tab {
                state.models.tab = tab;
                state.models.open = None;
            }
            if state.models.survey.is_none() && !state.models.surveying {
                survey(state, out);
            }
        }
        ModelsMsg::AnySize(any) => state.models.any_size = any,
        ModelsMsg::Open(key) => open(state, key, out),
        ModelsMsg::Context(context) => {
            if let Some(open) = &mut state.models.open {
                open.context = Some(context);
            }
        }
        ModelsMsg::Options(decoding) => {
            if let Some(open) = &mut state.models.open {
                open.decoding = decoding;
            }
        }
        ModelsMsg::Sheet(sheet) => {
            if let Some(open) = &mut state.models.open {
                open.sheet = sheet;
            }
        }
        ModelsMsg::Ask(question) => state.models.question = Some(question),
        ModelsMsg::Dismiss => state.models.question = None,
        ModelsMsg::LoadPath(path) => {
            state.models.path_error = None;
            out.push(Effect::Inspect(path));
        }
        ModelsMsg::Inspected { path, found } => match found {
            Ok(entry) => {
                state.models.path.clear();
                load(state, entry.name, entry.path, false, out);
            }
            Err(reason) => {
                if state.models.picker_open || state.screen == Screen::Models {
                    // Where the field is that the words stand under.
                    if !state.models.picker_open && state.models.tab != ModelsTab::Search {
                        state.models.tab = ModelsTab::Here;
                    }
                    state.models.path_error = Some(reason);
                } else {
                    let title = t!(not_a_model, path = path.display());
                    state.toasts.push(Toast::error(title, reason));
                }
            }
        },
        ModelsMsg::LoadEvent(event) => load_event(state, event, out),
        ModelsMsg::CancelLoad => {
            if let Some(loading) = &mut state.models.loading {
                loading.cancelled = true;
                out.push(Effect::CancelLoad);
            }
        }
        ModelsMsg::Unload => {
            state.models.unloading = true;
            out.push(Effect::Unload);
        }
        ModelsMsg::Unloaded(result) => {
            state.models.unloading = false;
            if let Err(reason) = result {
                state.toasts.push(Toast::error(t!(model_not_unloaded), reason));
            }
        }
        ModelsMsg::Fetch(offer) => downloads::fetch(state, &offer, out),
        ModelsMsg::Fetching(progress) => {
            if let Some(fetching) = &mut state.models.fetching {
                fetching.progress = progress;
            }
        }
        ModelsMsg::Fetched(result) => downloads::fetched(state, result, out),
        ModelsMsg::CancelFetch => downloads::stop(state, Then::Keep, out),
        ModelsMsg::Picker(open) => {
            state.models.picker_open = open;
            state.models.path_error = None;
            if open && !state.models.surveying {
                survey(state, out);
            }
        }
        ModelsMsg::PathText(path) => {
            state.models.path = path;
            state.models.path_error = None;
        }
        ModelsMsg::Filter(filter) => state.models.filter = filter,
        ModelsMsg::AddFolder(folder) => {
            if folder.as_os_str().is_empty() || state.settings.models.folders.contains(&folder) {
                return;
            }
            state.settings.models.folders.push(folder);
            settings::save(state, out);
            survey(state, out);
        }
        ModelsMsg::RemoveFolder(folder) => {
            state.settings.models.folders.retain(|known| *known != folder);
            settings::save(state, out);
            survey(state, out);
        }
    }
}

pub(super) fn survey(state: &mut State, out: &mut Vec<Effect>) {
    state.models.surveying = true;
    out.push(Effect::Survey {
        folders: state.settings.models.folders.clone(),
    });
}

/// What a newcomer most likely wants: something on disk that works, else the starter.
fn first_choice(survey: &Survey) -> Option<Choice> {
    let works = survey.installed.iter().find(|entry| entry.problem.is_none());
    let starter = survey.suggestions().find(|offer| offer.starter).or(survey.suggestions().next());
    works
        .map(|entry| Choice::Installed(entry.path.clone()))
        .or_else(|| starter.map(|offer| Choice::Offer(offer.id.clone())))
}

fn start(state: &mut State, choice: &Choice, out: &mut Vec<Effect>) {
    let Some(survey) = &state.models.survey else { return };
    match choice {
        Choice::Installed(path) => match survey.installed.iter().find(|entry| entry.path == *path).cloned() {
            Some(entry) => load(state, entry.name, entry.path, false, out),
            None => out.push(Effect::Inspect(path.clone())),
        },
        Choice::Offer(id) => {
            if let Some(offer) = survey.offers.iter().find(|offer| offer.id == *id).cloned() {
                downloads::fetch(state, &offer, out);
            }
        }
    }
}

pub(super) fn tab(tab: ModelsTab) -> Msg {
    Msg::Models(ModelsMsg::Tab(tab))
}

/// One row at a time. What is only on the hub is asked for its exact sizes.
fn open(state: &mut State, key: String, out: &mut Vec<Effect>) {
    if state.models.open.take().is_some_and(|open| open.key == key) {
        return;
    }
    let survey = state.models.survey.as_ref();
    let here = survey.is_some_and(|survey| survey.installed.iter().any(|entry| entry.path.as_os_str() == key.as_str()));
    let starter = survey.is_some_and(|survey| {
        survey
            .offers
            .iter()
            .any(|offer| offer.id == key && (offer.starter || offer.here.is_some()))
    });
    if !here && !starter {
        hub::preview(state, &key, out);
    }
    // What is free now is said beside what fits at all.
    out.push(Effect::ReadMachine);
    state.models.open = Some(OpenRow {
        key,
        context: None,
        decoding: None,
        sheet: false,
    });
}

/// What is too big is loaded only if a person insists: the machine may begin to swap.
fn ask_or_load(state: &mut State, entry: ModelEntry, decoding: Option<Box<Decoding>>, out: &mut Vec<Effect>) {
    state.models.question = None;
    if entry.fit.level() == FitLevel::TooBig && state.models.loading.is_none() {
        state.models.picker_open = false;
        state.models.question = Some(Question::Load(Box::new(entry), decoding));
        return;
    }
    let decoding = decoding.map_or_else(|| state.settings.decoding.clone(), |decoding| *decoding);
    load_with(state, entry.name, entry.path, false, &decoding, out);
}

/// Loads with the decoding settings in force. `recalibrate` measures the pair anew.
pub(super) fn load(state: &mut State, name: String, path: PathBuf, recalibrate: bool, out: &mut Vec<Effect>) {
    let decoding = state.settings.decoding.clone();
    load_with(state, name, path, recalibrate, &decoding, out);
}

fn load_with(state: &mut State, name: String, path: PathBuf, recalibrate: bool, decoding: &Decoding, out: &mut Vec<Effect>) {
    if state.models.loading.is_some() {
        let toast = Toast::warning(t!(model_being_loaded), t!(wait_or_cancel));
        state.toasts.push(toast);
        return;
    }
    state.models.failure = None;
    state.models.picker_open = false;
    state.models.loading = Some(Loading {
        name: name.clone(),
        path: path.clone(),
        stage: LoadStage::Checking,
        done: 0,
        total: 0,
        cancelled: false,
    });
    out.push(Effect::Load {
        request: Box::new(LoadRequest {
            name,
            path,
            mode: decoding.mode,
            speculation: decoding.options(),
            context_window: decoding.context_window,
            warm_up: true,
            recalibrate,
            // The window asks before it loads what is too big.
            force: true,
            ..LoadRequest::default()
        }),
        drafter: decoding.drafter.clone(),
    });
}

fn load_event(state: &mut State, event: LoadEvent, out: &mut Vec<Effect>) {
    match event {
        LoadEvent::Stage { stage, done, total } => {
            if let Some(loading) = &mut state.models.loading {
                (loading.stage, loading.done, loading.total) = (stage, done, total);
            }
        }
        LoadEvent::Ready(info) => {
            state.models.loading = None;
            state.models.choice = Some(Choice::Installed(info.path.clone()));
            // The snapshot says the same a moment later; what waits for a model need not.
            if state.engine.model.as_ref().is_none_or(|model| model.name != info.name) {
                let mut engine = (*state.engine).clone();
                engine.model = Some(info.clone());
                if matches!(
                    engine.state,
                    EngineState::NoModel | EngineState::Loading { .. } | EngineState::Starting
                ) {
                    engine.state = EngineState::Ready;
                }
                snapshot(state, Arc::new(engine), out);
            }
            state.settings.models.last = Some(LastModel {
                name: info.name.clone(),
                path: info.path.clone(),
            });
            settings::save(state, out);
            shelf::loaded(state, &info.path, out);
            let writes = state.chat.waiting;
            chat::model_ready(state, out);
            first_run::ready(state, writes, out);
        }
        LoadEvent::Failed(error) => {
            let Some(loading) = state.models.loading.take() else { return };
            first_run::stopped(state);
            state.chat.waiting = false;
            if loading.cancelled || error == EngineError::Cancelled {
                let toast = Toast::info(t!(loading_cancelled), kept_model(state));
                state.toasts.push(toast);
                return;
            }
            state.models.failure = Some(LoadFailure {
                name: loading.name.clone(),
                reason: format!("{error}. {}", kept_model(state)).trim().into(),
                retry: Choice::Installed(loading.path),
                download: false,
            });
            let title = t!(did_not_load, name = loading.name);
            let toast = Toast::error(title, error.to_string()).action(t!(models), vec![Msg::Show(Screen::Models)]);
            state.toasts.push(toast);
        }
    }
}

fn kept_model(state: &State) -> String {
    state
        .engine
        .model
        .as_ref()
        .map_or_else(String::new, |model| t!(is_still_loaded, name = model.name))
}
