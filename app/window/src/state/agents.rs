//! Agents: which programs are pointed at the server, what would change for one, and who asks for what.

use super::{Effect, Msg, Screen, ServerState, State, Toast};
use crate::bridge::Activity;
use dspark_agents::{Plan, Serving, Standing};
use dspark_strings::t;
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

/// Tokens that the server lets one answer have at most: its `--max-tokens-cap` (`spec/http-api.md` §2).
const MOST_OUTPUT: usize = 32_768;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum AgentsView {
    #[default]
    SetUp,
    Connections,
}

/// What stands over the screen, about the client of this id.
#[derive(Debug, Clone, PartialEq)]
pub struct Sheet {
    pub id: &'static str,
    pub page: SheetPage,
    /// It is being written.
    pub busy: bool,
    pub error: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum SheetPage {
    /// What would be written.
    Change,
    /// What a person does by hand.
    Steps,
    /// The file was changed by others since: what they changed, and what undoing would bring back.
    Changed(Box<(Plan, Plan)>),
}

#[derive(Debug, Clone, Default)]
pub struct Agents {
    pub view: AgentsView,
    /// As the disk said last; `None` before the first look.
    pub standings: Option<Vec<Standing>>,
    pub looking: bool,
    /// Somebody has looked at all, and for this; `None` is no model.
    looked: bool,
    looked_for: Option<Serving>,
    /// The folder whose project settings are meant; empty is where the app was started.
    pub project: String,
    /// That folder as it was found.
    pub project_found: PathBuf,
    home: PathBuf,
    /// Why nothing can be read.
    pub failure: Option<String>,
    pub sheet: Option<Sheet>,
    pub activity: Activity,
    /// The request whose receipt is open.
    pub open_call: Option<String>,
    /// Requests that were asked to stop.
    pub stopping: BTreeSet<String>,
}

/// What was found on the disk.
#[derive(Debug, Clone)]
pub struct Looked {
    pub standings: Vec<Standing>,
    pub project: PathBuf,
    pub home: PathBuf,
    /// The programs have been asked for their versions.
    pub complete: bool,
}

#[derive(Debug, Clone)]
pub enum AgentsMsg {
    View(AgentsView),
    Look,
    Looked(Result<Box<Looked>, String>),
    /// The folder of a project, as typed.
    Project(String),
    /// What would be written for this client.
    Change(&'static str),
    /// What to do for it by hand.
    Steps(&'static str),
    Close,
    /// Make the change that is shown.
    Apply,
    Applied {
        id: &'static str,
        result: Result<PathBuf, String>,
    },
    Undo(&'static str),
    Undone {
        id: &'static str,
        result: Result<PathBuf, String>,
    },
    /// Others have changed the file, so it was not undone: what they did, and what undoing would bring back.
    Differences {
        id: &'static str,
        result: Result<Box<(Plan, Plan)>, String>,
    },
    /// Bring back what was there although others changed the file.
    UndoAnyway,
    /// Leave the file as others made it.
    Keep,
    Kept {
        id: &'static str,
        result: Result<PathBuf, String>,
    },
    Activity(Box<Activity>),
    /// Open or close a request's receipt.
    Unfold(String),
    /// Stop a request.
    Stop(String),
}

impl Agents {
    /// A path with `~` for the home folder.
    pub fn short(&self, path: &Path) -> String {
        match path.strip_prefix(&self.home) {
            Ok(rest) if !self.home.as_os_str().is_empty() => Path::new("~").join(rest).display().to_string(),
            _ => path.display().to_string(),
        }
    }

    pub fn standing(&self, id: &str) -> Option<&Standing> {
        self.standings.iter().flatten().find(|standing| standing.client.id == id)
    }
}

impl State {
    /// What clients are set up for; `None` without a model, whose name and window are written.
    pub fn serving(&self) -> Option<Serving> {
        let model = self.engine.model.as_ref()?;
        let key = &self.settings.server.api_key;
        Some(Serving {
            base_url: self.base_url(),
            model: model.name.clone(),
            context_window: model.context_window,
            max_output_tokens: MOST_OUTPUT.min(model.context_window.max(1)),
            thinks: model.supports_thinking,
            key: Some(key.clone()).filter(|key| !key.is_empty()),
        })
    }

    /// Where the server is, or will be once it runs; without `/v1`.
    pub fn base_url(&self) -> String {
        match &self.server {
            ServerState::On(url) => url.trim_end_matches('/').to_owned(),
            _ => format!("http://127.0.0.1:{}", self.settings.server.port),
        }
    }
}

/// Looks again where what clients are set up for has changed while somebody looks at it.
pub(super) fn follow(state: &mut State, out: &mut Vec<Effect>) {
    if state.screen != Screen::Agents || state.server == ServerState::Starting {
        return;
    }
    if !state.agents.looked || state.agents.looked_for != state.serving() {
        look(state, out);
    }
}

fn look(state: &mut State, out: &mut Vec<Effect>) {
    let serving = state.serving();
    state.agents.looking = true;
    state.agents.looked = true;
    state.agents.looked_for.clone_from(&serving);
    out.push(Effect::LookAtAgents {
        serving,
        project: state.agents.project.clone(),
    });
}

pub(super) fn update(state: &mut State, message: AgentsMsg, out: &mut Vec<Effect>) {
    match message {
        AgentsMsg::View(view) => state.agents.view = view,
        AgentsMsg::Look => look(state, out),
        AgentsMsg::Looked(Ok(looked)) => {
            state.agents.looking = !looked.complete;
            state.agents.standings = Some(looked.standings);
            state.agents.project_found = looked.project;
            state.agents.home = looked.home;
            state.agents.failure = None;
        }
        AgentsMsg::Looked(Err(reason)) => {
            state.agents.looking = false;
            state.agents.failure = Some(reason);
        }
        AgentsMsg::Project(folder) => {
            state.agents.project = folder;
            look(state, out);
        }
        AgentsMsg::Change(id) => open(state, id, SheetPage::Change),
        AgentsMsg::Steps(id) => open(state, id, SheetPage::Steps),
        AgentsMsg::Close => state.agents.sheet = None,
        AgentsMsg::Apply => apply(state, out),
        AgentsMsg::Applied { id, result } => applied(state, id, result, out),
        AgentsMsg::Undo(id) => out.push(Effect::UndoAgent { id, changed: false }),
        AgentsMsg::Undone { id, result } => undone(state, id, result, out),
        AgentsMsg::Differences { id, result } => differences(state, id, result),
        AgentsMsg::UndoAnyway => {
            let sheet = writing(state, |page| matches!(page, SheetPage::Changed(_)));
            out.extend(sheet.map(|sheet| Effect::UndoAgent {
                id: sheet.id,
                changed: true,
            }));
        }
        AgentsMsg::Keep => {
            let sheet = writing(state, |page| matches!(page, SheetPage::Changed(_)));
            out.extend(sheet.map(|sheet| Effect::KeepAgent(sheet.id)));
        }
        AgentsMsg::Kept { id, result } => {
            let done = |path: PathBuf| Toast::good(t!(file_stays), t!(before_kept_in, path = path.display()));
            finished(state, id, result.map(done), t!(undo_not_put_aside));
            look(state, out);
        }
        AgentsMsg::Activity(activity) => {
            let agents = &mut state.agents;
            agents.stopping.retain(|id| activity.live.iter().any(|call| call.id == *id));
            agents.activity = *activity;
        }
        AgentsMsg::Unfold(id) => {
            let open = &mut state.agents.open_call;
            *open = Some(id).filter(|id| open.as_ref() != Some(id));
        }
        AgentsMsg::Stop(id) => {
            if state.agents.stopping.insert(id.clone()) {
                out.push(Effect::CancelCall(id));
            }
        }
    }
}

fn open(state: &mut State, id: &'static str, page: SheetPage) {
    state.agents.sheet = Some(Sheet {
        id,
        page,
        busy: false,
        error: None,
    });
}

/// The open sheet, if it shows such a page and nothing is being written; from now on something is.
fn writing(state: &mut State, is_it: impl Fn(&SheetPage) -> bool) -> Option<&mut Sheet> {
    let sheet = state.agents.sheet.as_mut().filter(|sheet| !sheet.busy && is_it(&sheet.page))?;
    sheet.busy = true;
    sheet.error = None;
    Some(sheet)
}

fn apply(state: &mut State, out: &mut Vec<Effect>) {
    let Some(id) = state.agents.sheet.as_ref().map(|sheet| sheet.id) else {
        return;
    };
    let plan = state.agents.standing(id).and_then(|standing| standing.plan.clone());
    let Some(plan) = plan.filter(Plan::changes) else { return };
    if writing(state, |page| *page == SheetPage::Change).is_some() {
        out.push(Effect::ApplyAgent(Box::new(plan)));
    }
}

fn name_of(id: &str) -> &'static str {
    dspark_agents::client(id).map_or(t!(the_client), |client| client.name)
}

fn applied(state: &mut State, id: &'static str, result: Result<PathBuf, String>, out: &mut Vec<Effect>) {
    let undo = vec![Msg::Agents(AgentsMsg::Undo(id))];
    let result = result.map(|path| Toast::good(t!(is_set_up, name = name_of(id)), state.agents.short(&path)).action(t!(undo), undo));
    finished(state, id, result, t!(nothing_changed));
    look(state, out);
}

/// Closes the sheet and says so, or shows in it what went wrong.
fn finished(state: &mut State, id: &str, result: Result<Toast, String>, title: &str) {
    let sheet = state.agents.sheet.as_mut().filter(|sheet| sheet.id == id && sheet.busy);
    match (result, sheet) {
        (Ok(toast), sheet) => {
            if sheet.is_some() {
                state.agents.sheet = None;
            }
            state.toasts.push(toast);
        }
        (Err(reason), Some(sheet)) => {
            sheet.busy = false;
            sheet.error = Some(reason);
        }
        // The sheet was closed meanwhile.
        (Err(reason), None) => state.toasts.push(Toast::error(title, reason)),
    }
}

fn undone(state: &mut State, id: &'static str, result: Result<PathBuf, String>, out: &mut Vec<Effect>) {
    let result = result.map(|path| Toast::good(t!(as_it_was, name = name_of(id)), state.agents.short(&path)));
    finished(state, id, result, t!(not_undone));
    look(state, out);
}

fn differences(state: &mut State, id: &'static str, result: Result<Box<(Plan, Plan)>, String>) {
    match result {
        Ok(both) => open(state, id, SheetPage::Changed(both)),
        Err(reason) => state.toasts.push(Toast::error(t!(not_undone), reason)),
    }
}

impl From<AgentsMsg> for Msg {
    fn from(message: AgentsMsg) -> Self {
        Self::Agents(message)
    }
}
