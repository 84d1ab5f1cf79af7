use crate::{
    screens::lab::words::mode,
    state::{ServerState, State, Status, status, tray_title},
};
use dspark_protocol::Mode;
use dspark_strings::t;

/// What the tray shows, as text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TrayView {
    /// Beside the icon: `42 t/s · 2.1×` while generating, empty when idle.
    pub title: String,
    pub tooltip: String,
    pub model: String,
    pub state: String,
    pub server: String,
    pub pause: String,
    pub paused: bool,
    pub can_stop: bool,
    pub can_unload: bool,
}

pub fn view(state: &State) -> TrayView {
    let status = status(state);
    let words = words(&status);
    let model = state
        .engine
        .model
        .as_ref()
        .map_or_else(|| t!(no_model).to_owned(), |model| model.name.clone());
    let paused = state.server == ServerState::Paused;
    let waiting = state.engine.requests.len();
    let queue = if waiting > 1 {
        t!(queue_waiting, n = waiting - 1)
    } else {
        String::new()
    };
    TrayView {
        title: tray_title(&status, state.multiple()),
        tooltip: format!("{model}: {words}"),
        model: match &state.engine.speculation {
            Some(speculation) if state.has_model() && speculation.mode != Mode::Baseline => format!("{model}, {}", mode(speculation.mode)),
            _ => model,
        },
        state: format!("{words}{queue}"),
        server: match &state.server {
            ServerState::On(url) => t!(serving_on, url = url),
            ServerState::Starting => t!(server_starting).into(),
            ServerState::Paused => t!(server_paused).into(),
            ServerState::Off => t!(server_off).into(),
            ServerState::Failed(_) => t!(server_failed).into(),
        },
        pause: match &state.server {
            ServerState::On(_) | ServerState::Starting => t!(pause_server).into(),
            ServerState::Paused => t!(resume_server).into(),
            ServerState::Off | ServerState::Failed(_) => t!(start_server).into(),
        },
        paused,
        can_stop: !state.lives.is_empty() || waiting > 0,
        can_unload: state.has_model() && waiting == 0,
    }
}

fn words(status: &Status) -> String {
    match status {
        Status::Stopped => t!(stopped).into(),
        Status::Starting => t!(starting).into(),
        Status::NoModel => t!(ready_to_load).into(),
        Status::Downloading(Some(percent)) => t!(downloading_percent, percent = percent),
        Status::Downloading(None) => t!(downloading).into(),
        Status::Loading(what, _) => t!(loading_what, what = what),
        Status::Calibrating => t!(calibrating).into(),
        Status::WarmingUp => t!(warming_up).into(),
        Status::Ready => t!(ready).into(),
        Status::Prefilling { .. } => t!(reading_prompt).into(),
        // The rate itself stands in the title; here it would make the tooltip flicker.
        Status::Generating(_) => t!(generating).into(),
        Status::Unloading => t!(unloading).into(),
        Status::Error(_) => t!(engine_cannot_work).into(),
    }
}
