//! Scripted content: an engine, models, a server and chats that look like a day's work.
#![allow(dead_code, unused_imports, unreachable_pub, clippy::format_collect)]

mod catalog;
mod chats;
mod engine;

pub use catalog::{ScriptedCatalog, ScriptedServer};
pub use engine::Actor;

use dspark_protocol::EngineHandle;
use dspark_window::{
    settings::{Settings, ThemeChoice},
    state::{ChatMsg, ModelsMsg, Msg, Screen, SettingsMsg, SettingsPage},
};
use std::{error::Error, path::Path};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scene {
    /// Answers whatever is asked, for playing.
    Play,
    /// In the middle of a reply.
    Chat,
    /// A finished reply with its figures.
    Reply,
    Empty,
    FirstRun,
    Models,
    Settings,
    Picker,
}

impl Scene {
    pub fn new(name: &str) -> Option<Self> {
        Some(match name {
            "play" => Self::Play,
            "chat" => Self::Chat,
            "reply" => Self::Reply,
            "empty" => Self::Empty,
            "first-run" => Self::FirstRun,
            "models" => Self::Models,
            "settings" => Self::Settings,
            "picker" => Self::Picker,
            _ => return None,
        })
    }

    /// Writes settings and chats into `data`.
    pub fn prepare(self, data: &Path, theme: Option<&str>) -> Result<(), Box<dyn Error + Send + Sync>> {
        std::fs::create_dir_all(data)?;
        let mut settings = Settings::default();
        settings.appearance.theme = match theme {
            Some("light") => ThemeChoice::Light,
            Some("dark") => ThemeChoice::Dark,
            _ => ThemeChoice::Auto,
        };
        settings.general.load_last_model = false;
        settings.save(&data.join("settings.toml"))?;
        if !matches!(self, Self::FirstRun | Self::Play) {
            chats::write(data)?;
        }
        Ok(())
    }

    pub fn engine(self) -> EngineHandle {
        let actor = match self {
            Self::FirstRun => Actor {
                loaded: false,
                ..Actor::default()
            },
            Self::Chat => Actor {
                pause_at: Some(chats::PAUSE_AT),
                answer: chats::ANSWER.into(),
                rate: 0.0,
                think: true,
                ..Actor::default()
            },
            _ => Actor::default(),
        };
        actor.start()
    }

    /// What a person would have done to get here.
    pub fn opening(self) -> Vec<Msg> {
        match self {
            Self::Play | Self::FirstRun | Self::Empty => Vec::new(),
            Self::Chat => vec![Msg::Chat(ChatMsg::Open(chats::FIRST)), Msg::Chat(ChatMsg::RegenerateLast)],
            Self::Reply => vec![Msg::Chat(ChatMsg::Open(chats::FIRST))],
            Self::Models => vec![Msg::Chat(ChatMsg::Open(chats::FIRST)), Msg::Show(Screen::Models)],
            Self::Settings => vec![Msg::Settings(SettingsMsg::Page(SettingsPage::General)), Msg::Show(Screen::Settings)],
            Self::Picker => vec![Msg::Chat(ChatMsg::Open(chats::FIRST)), Msg::Models(ModelsMsg::Picker(true))],
        }
    }
}
