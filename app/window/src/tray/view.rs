use crate::{
    screens::lab::words::mode,
    state::{ServerState, State, Status, status, tray_title},
};
use dspark_protocol::Mode;

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
        .map_or_else(|| "No model".to_owned(), |model| model.name.clone());
    let paused = state.server == ServerState::Paused;
    let waiting = state.engine.requests.len();
    let queue = if waiting > 1 {
        format!(", {} waiting", waiting - 1)
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
            ServerState::On(url) => format!("Serving on {url}"),
            ServerState::Starting => "Server starting".into(),
            ServerState::Paused => "Server paused".into(),
            ServerState::Off => "Server off".into(),
            ServerState::Failed(_) => "Server failed".into(),
        },
        pause: match &state.server {
            ServerState::On(_) | ServerState::Starting => "Pause server".into(),
            ServerState::Paused => "Resume server".into(),
            ServerState::Off | ServerState::Failed(_) => "Start server".into(),
        },
        paused,
        can_stop: !state.lives.is_empty() || waiting > 0,
        can_unload: state.has_model() && waiting == 0,
    }
}

fn words(status: &Status) -> String {
    match status {
        Status::Stopped => "Stopped".into(),
        Status::Starting => "Starting".into(),
        Status::NoModel => "Ready to load a model".into(),
        Status::Downloading(Some(percent)) => format!("Downloading {percent} %"),
        Status::Downloading(None) => "Downloading".into(),
        Status::Loading(what, _) => format!("Loading {what}"),
        Status::Calibrating => "Calibrating".into(),
        Status::WarmingUp => "Warming up".into(),
        Status::Ready => "Ready".into(),
        Status::Prefilling { .. } => "Reading the prompt".into(),
        // The rate itself stands in the title; here it would make the tooltip flicker.
        Status::Generating(_) => "Generating".into(),
        Status::Unloading => "Unloading".into(),
        Status::Error(_) => "The engine cannot work".into(),
    }
}
