//! Scripted content: an engine, models, a server and chats that look like a day's work.
#![allow(dead_code, unused_imports, unreachable_pub, clippy::format_collect)]

mod agents;
mod catalog;
mod chats;
mod engine;
pub mod race;

pub use agents::{Desk, ended, live, totals};
pub use catalog::{ScriptedCatalog, ScriptedMachine};
pub use engine::{Actor, Pair};

use dspark_protocol::EngineHandle;
use dspark_window::{
    bridge::Offer,
    settings::{Settings, ThemeChoice},
    state::{
        AgentsMsg, AgentsView, Asker, BenchMsg, ChatMsg, Choice, DataMsg, DecodingMsg, FirstRunMsg, HubMsg, Known, LabMsg, LabView,
        MachineMsg, Measured, ModelsMsg, ModelsTab, Msg, PaletteMsg, RaceMsg, Reply, Screen, SettingsMsg, SettingsPage, ShelfMsg, Used,
    },
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
    /// The choice of a model.
    FirstRun,
    /// The look at the machine before it.
    FirstRunCheck,
    /// The chosen model on its way.
    FirstRunGo,
    /// What it was worth.
    FirstRunDone,
    Models,
    /// Those on this machine, one of them open.
    ModelsHere,
    /// What the hub has.
    ModelsSearch,
    /// One runs, one waits, one failed.
    ModelsDownloads,
    Settings,
    SettingsModels,
    SettingsData,
    /// What a report would say.
    SettingsReport,
    SettingsAbout,
    Picker,
    /// Rounds of two replies.
    Live,
    /// The same while it is parked.
    LiveParked,
    /// A model that drafts nothing.
    LivePlain,
    /// Before the first round.
    LiveEmpty,
    Curves,
    CurvesParked,
    /// A pair that nobody has measured.
    CurvesEmpty,
    /// Settings of decoding with changes that wait.
    Decoding,
    Palette,
    /// This machine with replies against its ceiling.
    Machine,
    /// The same before there is a model.
    MachineEmpty,
    /// The Lab before there is a model.
    LabNoModel,
    /// In the middle of a replay.
    Race,
    /// Four lanes at the end of theirs.
    RaceFour,
    /// A lane that is being run.
    RaceRunning,
    /// Races of other days.
    RaceEarlier,
    RaceEmpty,
    /// Two benchmarks of the pair, one beside the other.
    Benchmark,
    BenchmarkEmpty,
    /// Programs in every state.
    Agents,
    /// What would be written for one of them.
    AgentsChange,
    /// The same after somebody else has changed the file.
    AgentsChanged,
    /// How to set one up by hand.
    AgentsSteps,
    /// The same with the server off and nothing installed.
    AgentsOff,
    /// Requests of other programs.
    Connections,
    /// Before the first one.
    ConnectionsEmpty,
    /// A long reply at 400 tokens a second.
    Stream,
    /// The same at the end of a chat of 200,000 tokens, beside ten thousand others.
    Heavy,
}

impl Scene {
    pub fn new(name: &str) -> Option<Self> {
        Some(match name {
            "play" => Self::Play,
            "chat" => Self::Chat,
            "reply" => Self::Reply,
            "empty" => Self::Empty,
            "first-run" => Self::FirstRun,
            "first-run-check" => Self::FirstRunCheck,
            "first-run-go" => Self::FirstRunGo,
            "first-run-done" => Self::FirstRunDone,
            "models" => Self::Models,
            "models-here" => Self::ModelsHere,
            "models-search" => Self::ModelsSearch,
            "models-downloads" => Self::ModelsDownloads,
            "settings" => Self::Settings,
            "settings-models" => Self::SettingsModels,
            "settings-data" => Self::SettingsData,
            "settings-report" => Self::SettingsReport,
            "settings-about" => Self::SettingsAbout,
            "picker" => Self::Picker,
            "live" => Self::Live,
            "live-parked" => Self::LiveParked,
            "live-plain" => Self::LivePlain,
            "live-empty" => Self::LiveEmpty,
            "curves" => Self::Curves,
            "curves-parked" => Self::CurvesParked,
            "curves-empty" => Self::CurvesEmpty,
            "decoding" => Self::Decoding,
            "palette" => Self::Palette,
            "machine" => Self::Machine,
            "machine-empty" => Self::MachineEmpty,
            "lab-no-model" => Self::LabNoModel,
            "race" => Self::Race,
            "race-four" => Self::RaceFour,
            "race-running" => Self::RaceRunning,
            "race-earlier" => Self::RaceEarlier,
            "race-empty" => Self::RaceEmpty,
            "benchmark" => Self::Benchmark,
            "benchmark-empty" => Self::BenchmarkEmpty,
            "agents" => Self::Agents,
            "agents-change" => Self::AgentsChange,
            "agents-changed" => Self::AgentsChanged,
            "agents-steps" => Self::AgentsSteps,
            "agents-off" => Self::AgentsOff,
            "connections" => Self::Connections,
            "connections-empty" => Self::ConnectionsEmpty,
            "stream" => Self::Stream,
            "heavy" => Self::Heavy,
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
        settings.chat.show_sources = matches!(self, Self::Chat | Self::Reply);
        settings.server.enabled = self != Self::AgentsOff;
        if matches!(self, Self::Stream | Self::Heavy) {
            // Long enough for any measurement.
            settings.chat.max_tokens = 1 << 20;
        }
        settings.save(&data.join("settings.toml"))?;
        if matches!(self, Self::Agents | Self::AgentsChange | Self::AgentsChanged | Self::AgentsSteps) {
            agents::install(data)?;
        }
        let fresh = [
            Self::FirstRun,
            Self::FirstRunCheck,
            Self::FirstRunGo,
            Self::FirstRunDone,
            Self::Play,
        ];
        if !fresh.contains(&self) {
            chats::write(data)?;
        }
        if self == Self::Heavy {
            chats::write_many(data)?;
        }
        Ok(())
    }

    pub fn engine(self) -> EngineHandle {
        let actor = match self {
            Self::FirstRun | Self::FirstRunCheck | Self::FirstRunDone | Self::LabNoModel | Self::MachineEmpty => Actor {
                loaded: false,
                ..Actor::default()
            },
            Self::FirstRunGo => Actor {
                loaded: false,
                calibrates: true,
                ..Actor::default()
            },

            Self::Chat => Actor {
                pause_at: Some(chats::PAUSE_AT),
                answer: chats::ANSWER.into(),
                rate: 0.0,
                think: true,
                ..Actor::default()
            },
            // Held in the middle of the first reply, which another program has asked for.
            Self::Connections => return agents::busy(),
            Self::Stream | Self::Heavy => Actor {
                answer: chats::PLAY.repeat(2000),
                rate: 400.0,
                ..Actor::default()
            },
            Self::Live | Self::Curves => Actor {
                past: 400,
                ..Actor::default()
            },
            Self::RaceRunning => Actor {
                pause_at: Some(190),
                answer: race::CODE.into(),
                rate: 0.0,
                ..Actor::default()
            },
            Self::LiveParked | Self::CurvesParked => Actor {
                past: 200,
                pair: Pair::Parked,
                ..Actor::default()
            },
            Self::LivePlain => Actor {
                past: 200,
                pair: Pair::Plain,
                ..Actor::default()
            },
            Self::CurvesEmpty => Actor {
                pair: Pair::Unmeasured,
                ..Actor::default()
            },
            _ => Actor::default(),
        };
        actor.start()
    }

    /// It shows other programs.
    pub fn of_agents(self) -> bool {
        matches!(
            self,
            Self::Agents
                | Self::AgentsChange
                | Self::AgentsChanged
                | Self::AgentsSteps
                | Self::AgentsOff
                | Self::Connections
                | Self::ConnectionsEmpty
        )
    }

    /// The server, and who has asked it.
    pub fn server(self) -> Desk {
        match self {
            Self::Connections => Desk::busy(),
            Self::Agents | Self::AgentsChange | Self::AgentsChanged | Self::AgentsSteps => Desk::used(),
            _ => Desk::default(),
        }
    }

    /// Where programs keep their settings here.
    pub fn places(data: &Path) -> dspark_agents::Places {
        agents::places(data)
    }

    /// What a person would have done to get here.
    pub fn opening(self) -> Vec<Msg> {
        match self {
            Self::Play | Self::FirstRunCheck | Self::Empty => Vec::new(),
            Self::FirstRun => vec![FirstRunMsg::Next.into()],
            Self::FirstRunGo | Self::FirstRunDone => {
                let here = Choice::Installed("/models/Qwen3-8B-8bit".into());
                vec![
                    FirstRunMsg::Next.into(),
                    Msg::Models(ModelsMsg::Choose(here)),
                    Msg::Models(ModelsMsg::Start),
                ]
            }
            Self::Chat | Self::Stream => vec![Msg::Chat(ChatMsg::Open(chats::FIRST)), Msg::Chat(ChatMsg::RegenerateLast)],
            Self::Heavy => vec![Msg::Chat(ChatMsg::Open(chats::LONG)), Msg::Chat(ChatMsg::RegenerateLast)],
            Self::Reply => vec![Msg::Chat(ChatMsg::Open(chats::FIRST))],
            Self::Models => {
                let mut messages = models();
                messages.push(Msg::Models(ModelsMsg::Open("qwen3.8-27b-4bit".into())));
                messages.push(Msg::Models(ModelsMsg::Context(131_072)));
                messages
            }
            Self::ModelsHere => {
                let mut messages = models();
                messages.push(Msg::Models(ModelsMsg::Tab(ModelsTab::Here)));
                messages.push(Msg::Models(ModelsMsg::Open("/models/MiniCPM5-2B-4bit".into())));
                messages
            }
            Self::ModelsSearch => {
                let mut messages = models();
                messages.push(Msg::Models(ModelsMsg::Tab(ModelsTab::Search)));
                messages.push(HubMsg::Query("qwen3 8b".into()).into());
                messages.push(HubMsg::Go.into());
                messages.push(HubMsg::All(true).into());
                messages
            }
            Self::ModelsDownloads => {
                let mut messages = models();
                messages.extend(downloads());
                messages
            }
            Self::Settings => settings(SettingsPage::General),
            Self::SettingsModels => settings(SettingsPage::Models),
            Self::SettingsData => settings(SettingsPage::Data),
            Self::SettingsReport => {
                let mut messages = settings(SettingsPage::Data);
                messages.push(DataMsg::Report.into());
                messages
            }
            Self::SettingsAbout => settings(SettingsPage::About),
            Self::Machine => {
                let reply = |(context, rate)| Reply {
                    context,
                    rate,
                    accept: Some(3.06),
                };
                let past = [
                    (27_100, 40.7),
                    (21_000, 46.4),
                    (16_400, 47.9),
                    (12_100, 57.5),
                    (9600, 57.3),
                    (6800, 61.8),
                    (5000, 62.4),
                ];
                let near = [(3400, 62.2), (2500, 65.9), (1900, 65.6), (1184, 66.2)];
                let replies = past.into_iter().chain(near).map(|at| MachineMsg::Replied(reply(at)).into());
                let swap = |begins| MachineMsg::Swap { begins, used: 0 }.into();
                let look = vec![
                    swap(true),
                    swap(false),
                    Msg::Show(Screen::Lab),
                    Msg::Lab(LabMsg::View(LabView::Machine)),
                ];
                std::iter::once(measured()).chain(replies).chain(look).collect()
            }
            Self::MachineEmpty => vec![measured(), Msg::Show(Screen::Lab), Msg::Lab(LabMsg::View(LabView::Machine))],
            Self::LiveEmpty | Self::LabNoModel => vec![Msg::Show(Screen::Lab)],
            Self::Live | Self::LiveParked | Self::LivePlain => {
                // Who asked for the rounds that are there already.
                let asked = |request, client: &str, prompt_tokens| {
                    let asker = Asker {
                        client: client.into(),
                        prompt_tokens,
                    };
                    Msg::Lab(LabMsg::Asked { request, asker })
                };
                vec![asked(900, "opencode", 1840), asked(901, "Chat", 726), Msg::Show(Screen::Lab)]
            }
            Self::Curves | Self::CurvesParked | Self::CurvesEmpty => vec![Msg::Show(Screen::Lab), Msg::Lab(LabMsg::View(LabView::Curves))],
            Self::Race | Self::RaceFour | Self::RaceRunning | Self::RaceEarlier | Self::RaceEmpty => {
                let mut opening = vec![Msg::Lab(LabMsg::View(LabView::Race)), Msg::Show(Screen::Lab)];
                let prompt = RaceMsg::Prompt(race::PROMPT.into());
                opening.push(prompt.into());
                let then: Vec<RaceMsg> = match self {
                    Self::Race => vec![RaceMsg::Show(race::two().into()), RaceMsg::Pause, RaceMsg::Seek(3.37)],
                    Self::RaceFour => vec![RaceMsg::Show(race::four().into()), RaceMsg::Skip],
                    Self::RaceRunning => vec![RaceMsg::Start],
                    Self::RaceEarlier => vec![RaceMsg::Known(vec![race::four(), race::two()])],
                    _ => Vec::new(),
                };
                opening.extend(then.into_iter().map(Msg::from));
                opening
            }
            Self::Benchmark => vec![
                Msg::Lab(LabMsg::View(LabView::Benchmark)),
                Msg::Show(Screen::Lab),
                BenchMsg::Known(race::benches()).into(),
            ],
            Self::BenchmarkEmpty => vec![Msg::Lab(LabMsg::View(LabView::Benchmark)), Msg::Show(Screen::Lab)],
            Self::Palette => vec![
                Msg::Chat(ChatMsg::Open(chats::FIRST)),
                Msg::Palette(PaletteMsg::Open(true)),
                Msg::Palette(PaletteMsg::Query("la".into())),
            ],
            Self::Decoding => {
                let edited = dspark_window::settings::Decoding {
                    cap: dspark_protocol::Cap::Auto,
                    lookup: Some(true),
                    ..dspark_window::settings::Decoding::default()
                };
                vec![
                    Msg::Settings(SettingsMsg::Page(SettingsPage::Decoding)),
                    Msg::Show(Screen::Settings),
                    Msg::Decoding(DecodingMsg::Edit(Box::new(edited))),
                ]
            }
            Self::Agents | Self::AgentsOff => vec![Msg::Show(Screen::Agents)],
            Self::AgentsChange => vec![Msg::Show(Screen::Agents), AgentsMsg::Change("codex").into()],
            Self::AgentsChanged => vec![Msg::Show(Screen::Agents), AgentsMsg::Undo("crush").into()],
            Self::AgentsSteps => vec![Msg::Show(Screen::Agents), AgentsMsg::Steps("cline").into()],
            Self::Connections | Self::ConnectionsEmpty => {
                let view = AgentsMsg::View(AgentsView::Connections).into();
                vec![view, AgentsMsg::Unfold("req_5d1".into()).into(), Msg::Show(Screen::Agents)]
            }
            Self::Picker => vec![Msg::Chat(ChatMsg::Open(chats::FIRST)), Msg::Models(ModelsMsg::Picker(true))],
        }
    }
}

fn settings(page: SettingsPage) -> Vec<Msg> {
    vec![Msg::Settings(SettingsMsg::Page(page)), Msg::Show(Screen::Settings)]
}

/// A machine that is known, and a model that has been used on it.
fn models() -> Vec<Msg> {
    let used = |at, rate, times| Used { at, rate, times };
    let known = [
        ("/models/Qwen3-8B-8bit", used(0, Some(66.2), Some(2.4))),
        ("/models/MiniCPM5-2B-4bit", used(0, Some(171.0), None)),
    ];
    let known = known.into_iter().map(|(path, used)| (path.into(), used)).collect();
    vec![
        measured(),
        ShelfMsg::Known(Known(known)).into(),
        Msg::Chat(ChatMsg::Open(chats::FIRST)),
        Msg::Show(Screen::Models),
    ]
}

fn downloads() -> Vec<Msg> {
    let offer = |id: &str, name: &str, bytes| {
        Msg::Models(ModelsMsg::Fetch(Offer {
            id: id.into(),
            name: name.into(),
            bytes,
            ..Offer::default()
        }))
    };
    vec![
        // Its licence was not accepted: it fails at once, and the next one begins.
        offer("gemma-4-12b-8bit", "Gemma-4-12B-8bit", 12_600_000_000),
        Msg::Models(ModelsMsg::Tab(ModelsTab::Downloads)),
        offer("qwen3.8-27b-4bit", "Qwen3.8-27B-4bit", 15_300_000_000),
        offer("qwen3-4b-4bit", "Qwen3-4B-4bit", 2_300_000_000),
    ]
}

/// As two days ago.
fn measured() -> Msg {
    let bandwidth = dspark_protocol::Bandwidth {
        gigabytes_per_second: 226.0,
        bytes: 512 << 20,
        samples: 10,
        method: "512 MiB matvec, median of 10".into(),
    };
    let known = Measured {
        device: "Apple M4 Pro".into(),
        mlx_version: "0.32.2".into(),
        at: 1_795_874_520,
        degraded: false,
        bandwidth,
    };
    MachineMsg::Known(known).into()
}
