//! Everything the window shows, and how it changes: a pure function from a state and a message to the next state and
//! a list of effects. Nothing here draws, waits, or touches the engine; [`crate::bridge`] carries the effects out and
//! sends back messages.

mod agents;
mod bench;
mod chat;
mod data;
mod decoding;
mod desktop;
mod downloads;
mod events;
mod export;
mod files;
mod first_run;
pub(crate) mod hub;
mod lab;
mod machine;
mod message;
mod models;
mod options;
mod palette;
mod quit;
mod race;
mod reasoning;
mod replay;
mod report;
mod settings;
mod shelf;
mod sidebar;
mod sources;
mod status;
mod toast;
mod token;

pub use agents::{Agents, AgentsMsg, AgentsView, Looked, Sheet, SheetPage};
pub use bench::{BENCH_ARMS, BenchAs, BenchLab, BenchMsg, Extent, Measuring};
pub use chat::{Chat, ChatMsg, Draft, Edit, Live, Phase};
pub use data::{DataMsg, DataState, Exported, Report};
pub use decoding::DecodingMsg;
pub use desktop::{DesktopAsk, DesktopMsg, DesktopState, Purpose};
pub(crate) use downloads::short;
pub use downloads::{DownloadMsg, Downloads, Fetching, Held, Then};
pub use export::ExportChat;
pub(crate) use export::chat_as_json;
pub use files::{FilesMsg, Intake, LONG_PASTE};
pub use first_run::{FirstRun, FirstRunMsg, Step, Truth};
pub use hub::{HubMsg, HubSearch, Preview};
pub use lab::{Asker, Depth, ExportAs, Lab, LabMsg, LabView};
pub use machine::{MachineLab, MachineMsg, Measured, Reply};
pub use message::{Effect, Focus, Msg, StoreWrite};
pub use models::{Choice, LoadFailure, Loading, Models, ModelsMsg, ModelsTab, OpenRow, Question};
pub use options::Fill;
pub use palette::{Palette, PaletteMsg};
pub use race::{Comparing, LANES, Live as LiveLane, PRESETS, RACE_TOKENS, RaceLab, RaceMsg, Running, ShareAs};
pub use reasoning::{Parts, split as split_reasoning};
pub use replay::{Moment, Replay, moment};
pub use report::{Gathered, scrubbed};
pub(crate) use settings::serve;
pub use settings::{ServerState, SettingsMsg, SettingsPage};
pub use shelf::{Checking, Known, Resident, Shelf, ShelfMsg, Used};
pub use sidebar::{Rename, Sidebar, SidebarMsg};
pub use sources::{Sources, Tint};
pub use status::{Status, status, tray_title};
pub use toast::{Toast, ToastAction, ToastTone, Toasts};
pub use token::{Secret, TokenAsk, TokenMsg};

use crate::{bridge::ServerConfig, settings::Settings};
use dspark_protocol::{EngineState, Mode, Snapshot};
use dspark_sessions::Millis;
use dspark_strings::{Language, t};
use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Instant};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Screen {
    #[default]
    Chat,
    Lab,
    Models,
    Agents,
    Settings,
}

/// The time, handed in so that the reducer stays pure.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    pub instant: Instant,
    pub millis: Millis,
}

impl Clock {
    pub fn now() -> Self {
        Self {
            instant: Instant::now(),
            millis: dspark_sessions::now(),
        }
    }
}

/// Rows are named here, so that a message has its id at once.
#[derive(Debug, Clone, Copy)]
pub struct Ids {
    pub session: i64,
    pub message: i64,
}

pub struct State {
    pub clock: Clock,
    pub screen: Screen,
    pub engine: Arc<Snapshot>,
    pub settings: Settings,
    pub settings_page: SettingsPage,
    pub data_dir: PathBuf,
    /// Where the settings are kept; empty where they are not.
    pub settings_file: PathBuf,
    /// Of the program, for what is measured.
    pub version: String,
    pub sidebar: Sidebar,
    pub chat: Chat,
    /// The new chat's text while another one is open.
    pub(crate) unsent: String,
    /// Answers under way, by message.
    pub lives: BTreeMap<i64, Live>,
    pub models: Models,
    pub first_run: FirstRun,
    pub lab: Lab,
    pub agents: Agents,
    pub desktop: DesktopState,
    pub data: DataState,
    /// Decoding settings that wait for a reload of the model.
    pub decoding: Option<crate::settings::Decoding>,
    /// The command palette, while it is open.
    pub palette: Option<Palette>,
    pub server: ServerState,
    pub toasts: Toasts,
    /// A question that stands before the app ends.
    pub confirm_quit: Option<String>,
    pub window_visible: bool,
    /// What the system asks for, where the settings leave it to that.
    pub system_language: Language,
    /// A tray icon is there to bring the window back.
    pub tray: bool,
    pub(crate) ids: Ids,
}

impl State {
    pub fn new(settings: Settings, data_dir: PathBuf, ids: (i64, i64), clock: Clock) -> Self {
        let first_run = FirstRun {
            step: if settings.general.welcomed { Step::Pick } else { Step::Check },
            ..FirstRun::default()
        };
        Self {
            first_run,
            clock,
            screen: Screen::Chat,
            engine: Arc::default(),
            settings,
            settings_page: SettingsPage::default(),
            data_dir,
            settings_file: PathBuf::new(),
            version: env!("CARGO_PKG_VERSION").into(),
            sidebar: Sidebar::default(),
            chat: Chat::default(),
            unsent: String::new(),
            lives: BTreeMap::new(),
            models: Models::default(),
            lab: Lab::default(),
            agents: Agents::default(),
            desktop: DesktopState::default(),
            data: DataState::default(),
            decoding: None,
            palette: None,
            server: ServerState::default(),
            toasts: Toasts::default(),
            confirm_quit: None,
            window_visible: true,
            system_language: Language::default(),
            tray: false,
            ids: Ids {
                session: ids.0,
                message: ids.1,
            },
        }
    }

    /// The answer under way in the open session.
    pub fn live(&self) -> Option<&Live> {
        let session = self.chat.session?;
        self.lives.values().find(|live| live.session == session)
    }

    /// No model and nothing written, or asked for: the pages that lead to the first chat.
    pub fn is_first_run(&self) -> bool {
        let due = self.engine.model.is_none() || self.first_run.again || self.first_run.trial;
        due && self.chat.tree.is_empty() && self.chat.session.is_none() && !self.models.skipped
    }

    /// Tokens a second of plain decoding that the calibration predicts for this pair.
    pub fn plain_rate(&self) -> Option<f64> {
        let speculation = self.engine.speculation.as_ref()?;
        // Measured while the machine did something else, it would say anything.
        let steady = !speculation.curves.as_ref().is_some_and(|curves| curves.unsteady);
        speculation.predicted.get(&0).copied().filter(|rate| steady && *rate > 0.0)
    }

    /// Times plain decoding, while a reply is being drafted.
    pub fn multiple(&self) -> Option<f64> {
        let speculation = self.engine.speculation.as_ref()?;
        match self.engine.state {
            EngineState::Generating { tokens_per_sec } if speculation.mode != Mode::Baseline => {
                self.plain_rate().map(|plain| tokens_per_sec / plain)
            }
            _ => None,
        }
    }

    pub fn has_model(&self) -> bool {
        self.engine.model.is_some()
    }

    pub(crate) fn next_message_id(&mut self) -> i64 {
        self.ids.message += 1;
        self.ids.message - 1
    }

    pub(crate) fn next_session_id(&mut self) -> i64 {
        self.ids.session += 1;
        self.ids.session - 1
    }

    pub fn server_config(&self) -> ServerConfig {
        let server = &self.settings.server;
        ServerConfig {
            port: server.port,
            api_key: Some(server.api_key.clone()).filter(|key| !key.is_empty()),
        }
    }
}

/// Copies, and says so: nothing else on the screen would.
fn copy(state: &mut State, text: String, out: &mut Vec<Effect>) {
    out.push(Effect::Copy(text));
    state.toasts.push(Toast::good(t!(copied), ""));
}

/// A file was written where a person asked for it.
fn saved(state: &mut State, result: Result<PathBuf, String>) {
    let toast = match result {
        Ok(path) => {
            let name = path
                .file_name()
                .map_or_else(String::new, |name| name.to_string_lossy().into_owned());
            let folder = path.parent().map_or_else(String::new, |folder| folder.display().to_string());
            let copy = vec![Msg::Copy(path.display().to_string())];
            Toast::good(t!(saved_name, name = name), folder).action(t!(copy_path), copy)
        }
        Err(reason) => Toast::error(t!(file_not_saved), reason),
    };
    state.toasts.push(toast);
}

/// The next state and what is to be done.
pub fn update(state: &mut State, message: Msg) -> Vec<Effect> {
    let mut effects = Vec::new();
    let out = &mut effects;
    match message {
        Msg::Show(screen) => {
            state.screen = screen;
            if screen == Screen::Lab {
                lab::opened(state, out);
            }
            if screen == Screen::Settings {
                // A person may have switched it in the system's own settings.
                out.push(Effect::Desktop(DesktopAsk::LookAtLogin));
            }
            if screen == Screen::Agents {
                // Other programs may have changed their files since.
                out.extend(update(state, AgentsMsg::Look.into()));
            }
        }
        Msg::Snapshot(snapshot) => models::snapshot(state, snapshot, out),
        Msg::Chat(message) => chat::update(state, message, out),
        Msg::Sidebar(message) => sidebar::update(state, message, out),
        Msg::Models(message) => models::update(state, message, out),
        Msg::Downloads(message) => downloads::update(state, message, out),
        Msg::Hub(message) => hub::update(state, message, out),
        Msg::Shelf(message) => shelf::update(state, message, out),
        Msg::FirstRun(message) => first_run::update(state, message, out),
        Msg::Lab(message) => lab::update(state, message, out),
        Msg::Files(message) => files::update(state, message, out),
        Msg::Machine(message) => machine::update(state, message, out),
        Msg::Race(message) => race::update(state, message, out),
        Msg::Bench(message) => bench::update(state, message, out),
        Msg::Agents(message) => agents::update(state, message, out),
        Msg::Data(message) => data::update(state, message, out),
        Msg::Desktop(message) => desktop::update(state, message, out),
        Msg::Palette(message) => palette::update(state, message, out),
        Msg::Decoding(message) => decoding::update(state, message, out),
        Msg::Saved(result) => saved(state, result),
        Msg::Token(message) => token::update(state, message, out),
        Msg::Settings(message) => settings::update(state, message, out),
        Msg::ToastAction(id) => {
            if let Some(action) = state.toasts.take_action(id) {
                for message in action.into_messages() {
                    effects.extend(update(state, message));
                }
            }
        }
        Msg::Notice { title, body } => state.toasts.push(Toast::warning(title, body)),
        Msg::Fault { title, body } => state.toasts.push(Toast::error(title, body)),
        Msg::Open(url) => out.push(Effect::OpenUrl(url)),
        Msg::Copy(text) => copy(state, text, out),
        Msg::StopEverything => {
            for live in state.lives.values_mut() {
                live.cancelled = true;
            }
            out.push(Effect::CancelAll);
        }
        Msg::CloseWindow => {
            if state.settings.general.keep_running && state.tray {
                state.window_visible = false;
                out.push(Effect::HideWindow);
            } else {
                effects.extend(update(state, Msg::Quit));
            }
        }
        Msg::ShowWindow => {
            state.window_visible = true;
            out.push(Effect::ShowWindow);
        }
        Msg::Quit => match state.losses() {
            lost if !lost.is_empty() => {
                state.confirm_quit = Some(lost.join("\n"));
                if !state.window_visible {
                    state.window_visible = true;
                    out.push(Effect::ShowWindow);
                }
            }
            _ => out.push(Effect::Quit),
        },
        Msg::QuitConfirmed => out.push(Effect::Quit),
        Msg::QuitCancelled => state.confirm_quit = None,
    }
    agents::follow(state, &mut effects);
    desktop::follow(state, &mut effects);
    effects
}
