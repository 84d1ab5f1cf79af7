use super::{Effect, State, Toast, TokenAsk};
use crate::{bridge::ServerFailure, settings::Settings};
use dspark_strings::t;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum SettingsPage {
    #[default]
    General,
    Server,
    Models,
    Decoding,
    Chat,
    Data,
    About,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ServerState {
    #[default]
    Off,
    Starting,
    /// The base URL.
    On(String),
    /// Stopped from the tray; the setting stays on.
    Paused,
    Failed(ServerFailure),
}

#[derive(Debug, Clone)]
pub enum SettingsMsg {
    Page(SettingsPage),
    /// The whole, as edited.
    Changed(Box<Settings>),
    ServerAnswer(Result<String, ServerFailure>),
    /// Pause or go on, from the tray.
    TogglePause,
    UsePort(u16),
}

pub(super) fn update(state: &mut State, message: SettingsMsg, out: &mut Vec<Effect>) {
    match message {
        SettingsMsg::Page(page) => {
            state.settings_page = page;
            if page == SettingsPage::Models {
                out.push(Effect::Token(TokenAsk::Look));
            }
        }
        SettingsMsg::Changed(settings) => {
            let before = std::mem::replace(&mut state.settings, *settings);
            if before == state.settings {
                return;
            }
            if before.appearance != state.settings.appearance {
                out.push(Effect::ApplyAppearance);
            }
            if before.server != state.settings.server {
                serve(state, out);
            }
            if before.models.download_limit != state.settings.models.download_limit {
                out.push(Effect::LimitDownloads(state.settings.models.bytes_per_second()));
            }
            if before.chat != state.settings.chat {
                super::chat::count_tokens(state, out);
            }
            save(state, out);
        }
        SettingsMsg::ServerAnswer(answer) => {
            // An answer that arrives after the switch went off is about nothing.
            if state.server != ServerState::Starting {
                return;
            }
            state.server = match answer {
                Ok(url) => ServerState::On(url),
                Err(failure) => {
                    let port = state.settings.server.port;
                    let mut toast = Toast::warning(t!(port_taken, port = port), failure.reason.clone());
                    if let Some(free) = failure.next_free {
                        let message = super::Msg::Settings(SettingsMsg::UsePort(free));
                        toast = toast.action(t!(use_next_free), vec![message]);
                    }
                    state.toasts.push(toast);
                    ServerState::Failed(failure)
                }
            };
        }
        SettingsMsg::TogglePause => match state.server {
            ServerState::On(_) | ServerState::Starting => {
                state.server = ServerState::Paused;
                out.push(Effect::StopServer);
            }
            ServerState::Paused => serve(state, out),
            ServerState::Off | ServerState::Failed(_) => {
                state.settings.server.enabled = true;
                serve(state, out);
                save(state, out);
            }
        },
        SettingsMsg::UsePort(port) => {
            state.settings.server.port = port;
            serve(state, out);
            save(state, out);
        }
    }
}

/// Brings the server to what the settings say.
pub(crate) fn serve(state: &mut State, out: &mut Vec<Effect>) {
    if state.settings.server.enabled {
        state.server = ServerState::Starting;
        out.push(Effect::StartServer(state.server_config()));
    } else {
        state.server = ServerState::Off;
        out.push(Effect::StopServer);
    }
}

pub(super) fn save(state: &State, out: &mut Vec<Effect>) {
    out.push(Effect::SaveSettings(Box::new(state.settings.clone())));
}
