//! One window: state, views, and the bridge, without eframe, so that tests can drive it.

use super::{fonts, header, keys, palette, sidebar, sidebar::SidebarView};
use crate::{
    bridge::{Bridge, FRAME, ModelEntry},
    screens::{
        agents,
        chat::{self, ChatView},
        lab, models,
        settings::{self, SettingsView},
    },
    settings::{Appearance, ThemeChoice},
    state::{
        self, AgentsMsg, Clock, DesktopMsg, Effect, FilesMsg, Focus, LabMsg, LabView, MachineMsg, ModelsMsg, Msg, Screen, State, ToastTone,
        TokenMsg,
    },
};
use dspark_look::{Answer, Density, Look, Toasts, confirm};
use dspark_protocol::{EngineState, ModelInfo};
use dspark_strings::t;
use egui::{Context, Frame, Panel, ThemePreference, Ui};
use std::path::PathBuf;

/// What is left for the surroundings (eframe and the tray) to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    Show,
    Hide,
    Quit,
}

/// Time between two looks at this machine.
const MACHINE_EVERY: std::time::Duration = std::time::Duration::from_secs(2);

/// Time between two looks at who asks, where nothing else wakes the window.
const ACTIVITY_EVERY: std::time::Duration = std::time::Duration::from_secs(1);

pub struct Window {
    pub state: State,
    bridge: Bridge,
    chat: ChatView,
    settings: SettingsView,
    lab: lab::LabPage,
    sidebar: SidebarView,
    toasts: Toasts,
    requests: Vec<Request>,
    /// When this machine was last read.
    machine_read: Option<std::time::Instant>,
    /// The language whose Han letters the system's fonts are asked for; `None` leaves it to the system.
    letters: Option<&'static str>,
    /// Frames drawn, for tests of idleness.
    pub frames: u64,
}

impl Window {
    pub fn new(ctx: &Context, state: State, bridge: Bridge) -> Self {
        dspark_look::fonts::install(ctx);
        let wake = ctx.clone();
        bridge.inbox.on_wake(move |delay| wake.request_repaint_after(delay));
        let system_language = state.system_language;
        let mut window = Self {
            state,
            bridge,
            chat: ChatView::default(),
            settings: SettingsView::default(),
            lab: lab::LabPage::default(),
            sidebar: SidebarView::default(),
            toasts: Toasts::default(),
            requests: Vec::new(),
            machine_read: None,
            letters: fonts::han(system_language),
            frames: 0,
        };
        window.state.settings_file = window.bridge.settings_path.clone();
        window.apply(ctx);
        window.dispatch(ctx, Msg::Models(ModelsMsg::Survey));
        window.dispatch(ctx, Msg::Sidebar(state::SidebarMsg::More));
        window.bridge.limit_downloads(window.state.settings.models.bytes_per_second());
        window.dispatch(ctx, DesktopMsg::LookAtLogin.into());
        window.dispatch(ctx, TokenMsg::Look.into());
        window.chat.focus_composer = true;
        window
    }

    pub fn inbox(&self) -> crate::bridge::Inbox {
        self.bridge.inbox.clone()
    }

    /// Loads a model as if a person had chosen it.
    pub fn load(&mut self, ctx: &Context, name: String, path: PathBuf) {
        let entry = ModelEntry {
            name,
            path,
            ..ModelEntry::default()
        };
        self.dispatch(ctx, Msg::Models(ModelsMsg::Load(entry)));
    }

    /// Starts the server if the settings say so.
    pub fn start_server(&mut self, ctx: &Context) {
        let mut effects = Vec::new();
        state::serve(&mut self.state, &mut effects);
        self.perform(ctx, effects);
    }

    /// Handles everything that came from other threads. Also called while the window is hidden.
    pub fn logic(&mut self, ctx: &Context) {
        self.state.desktop.focused = ctx.input(|input| input.focused);
        for message in self.bridge.inbox.drain() {
            self.dispatch(ctx, message);
        }
        self.read_rounds(ctx);
        self.read_activity(ctx);
    }

    /// Who asks for what, while somebody looks at it. The engine's news wake the window; what it does not see (a request
    /// that was turned away, the time since the last one) shows a second later.
    fn read_activity(&mut self, ctx: &Context) {
        if self.state.screen != Screen::Agents || !self.state.window_visible {
            return;
        }
        let activity = self.bridge.activity();
        if activity != self.state.agents.activity {
            self.dispatch(ctx, AgentsMsg::Activity(Box::new(activity)).into());
        }
        ctx.request_repaint_after(ACTIVITY_EVERY);
    }

    /// Takes in new rounds while somebody looks at them; otherwise they stay in the engine's ring.
    fn read_rounds(&mut self, ctx: &Context) {
        if self.state.screen != Screen::Lab || !self.state.window_visible {
            return;
        }
        let rounds = self.bridge.engine().rounds().since(self.state.lab.after());
        if !rounds.is_empty() {
            self.dispatch(ctx, Msg::Lab(LabMsg::Rounds(rounds)));
        }
        // The engine's figures come twice a second; its rounds are watched as they happen.
        if self.state.lab.view == LabView::Live && matches!(self.state.engine.state, EngineState::Generating { .. }) {
            ctx.request_repaint_after(FRAME);
        }
    }

    /// Every two seconds while somebody looks at it.
    fn read_machine(&mut self, ctx: &Context, out: &mut Vec<Msg>) {
        if self.state.screen != Screen::Lab || self.state.lab.view != LabView::Machine {
            self.machine_read = None;
            return;
        }
        let now = self.state.clock.instant;
        let due = self.machine_read.is_some_and(|read| now.duration_since(read) >= MACHINE_EVERY);
        if due {
            out.push(MachineMsg::Look.into());
        }
        if due || self.machine_read.is_none() {
            self.machine_read = Some(now);
        }
        ctx.request_repaint_after(MACHINE_EVERY);
    }

    pub fn dispatch(&mut self, ctx: &Context, message: Msg) {
        self.state.clock = Clock::now();
        if matches!(message, Msg::Quit | Msg::CloseWindow) {
            // Quitting asks about clients that are in touch.
            self.state.agents.activity = self.bridge.activity();
        }
        let before = self.state.engine.model.clone();
        let effects = state::update(&mut self.state, message);
        self.perform(ctx, effects);
        if is_other(before.as_deref(), self.state.engine.model.as_deref()) {
            // Rounds of another model say nothing about this one.
            let last = before.and_then(|_| self.bridge.engine().rounds().last_seq());
            self.dispatch(ctx, Msg::Lab(LabMsg::Forget(last)));
        }
    }

    pub fn take_requests(&mut self) -> Vec<Request> {
        std::mem::take(&mut self.requests)
    }

    /// As closing it does, whatever the settings say about that.
    pub fn hide(&mut self) {
        self.state.window_visible = false;
        self.requests.push(Request::Hide);
    }

    /// Nothing is left for the surroundings to do.
    pub fn is_quiet(&self) -> bool {
        self.requests.is_empty()
    }

    /// Saves what is not saved yet.
    pub fn close(&mut self) {
        self.bridge.close(&self.state.settings);
    }

    fn perform(&mut self, ctx: &Context, effects: Vec<Effect>) {
        for effect in effects {
            match self.bridge.perform(effect) {
                None => {}
                Some(Effect::Copy(text)) => ctx.copy_text(text),
                Some(Effect::OpenUrl(url)) => ctx.open_url(egui::OpenUrl::new_tab(url)),
                Some(Effect::ApplyAppearance) => self.apply(ctx),
                Some(Effect::Focus(Focus::Composer)) => self.chat.focus_composer = true,
                Some(Effect::Focus(Focus::Token)) => self.settings.focus_token = true,
                Some(Effect::Focus(Focus::Edit)) => self.chat.focus_edit = true,
                Some(Effect::Focus(Focus::Search)) => {
                    self.sidebar.search_focus = true;
                    self.state.sidebar.popover |= Density::of(ctx) == Density::Narrow;
                }
                // Without a sidebar the list is in its popover.
                Some(Effect::Focus(Focus::Rename)) => self.state.sidebar.popover |= Density::of(ctx) == Density::Narrow,
                Some(Effect::ScrollToEnd) => self.chat.to_end = true,
                Some(Effect::ShowWindow) => self.requests.push(Request::Show),
                Some(Effect::HideWindow) => self.requests.push(Request::Hide),
                Some(Effect::Quit) => self.requests.push(Request::Quit),
                Some(other) => tracing::error!("nobody carries out {other:?}"),
            }
        }
    }

    pub fn ui(&mut self, ui: &mut Ui) {
        self.frames += 1;
        let ctx = ui.ctx().clone();
        self.state.clock = Clock::now();
        let mut out = Vec::new();
        self.chat.free_keyboard = ctx.memory(|memory| memory.focused().is_none());
        keys::read(ui, &self.state, &mut out);
        drops(ui, &mut out);
        self.read_machine(&ctx, &mut out);
        if self.state.screen == Screen::Agents && ui.input(|input| input.raw.events.contains(&egui::Event::WindowFocused(true))) {
            // Coming back from the editor in which the file was changed.
            out.push(AgentsMsg::Look.into());
        }
        let density = Density::of(&ctx);
        Panel::left("sidebar")
            .exact_size(density.sidebar())
            .resizable(false)
            .show_separator_line(false)
            .frame(Frame::NONE)
            .show(ui, |ui| sidebar::show(ui, &self.state, &mut self.sidebar, density, &mut out));
        let base = dspark_look::Theme::of(ui).base;
        egui::CentralPanel::no_frame().frame(Frame::new().fill(base)).show(ui, |ui| {
            ui.spacing_mut().item_spacing.y = 0.0;
            header::show(ui, &self.state, &mut out);
            match self.state.screen {
                Screen::Chat => chat::show(ui, &self.state, &mut self.chat, &mut out),
                Screen::Lab => lab::show(ui, &self.state, &mut self.lab, &mut out),
                Screen::Models => models::show(ui, &self.state, &mut out),
                Screen::Agents => agents::show(ui, &self.state, &mut out),
                Screen::Settings => settings::show(ui, &self.state, &mut self.settings, &mut out),
            }
        });
        if self.state.sidebar.popover && density == Density::Narrow {
            sidebar::popover(ui, &self.state, &mut self.sidebar, &mut out);
        }
        palette::show(&ctx, &self.state, &mut out);
        agents::sheet(&ctx, &self.state, &mut out);
        settings::sheets(&ctx, &self.state, &mut out);
        if let Some(business) = &self.state.confirm_quit {
            match confirm(&ctx, t!(quit_question), business, t!(quit), t!(keep_running), true) {
                Some(Answer::Yes) => out.push(Msg::QuitConfirmed),
                Some(Answer::No) => out.push(Msg::QuitCancelled),
                None => {}
            }
        }
        self.show_toasts(&ctx, &mut out);
        for message in out {
            self.dispatch(&ctx, message);
        }
        if self.chat.to_end || self.chat.focus_composer || self.chat.focus_edit || self.sidebar.search_focus {
            ctx.request_repaint();
        }
    }

    /// Brings look and language to what the settings say.
    fn apply(&mut self, ctx: &Context) {
        let appearance = &self.state.settings.appearance;
        dspark_look::apply(ctx, look(appearance));
        let language = appearance.language.language(self.state.system_language);
        dspark_strings::set(language);
        let letters = fonts::han(language);
        if std::mem::replace(&mut self.letters, letters) != letters {
            ctx.set_font_providers(vec![fonts::system(letters)]);
        }
    }

    fn show_toasts(&mut self, ctx: &Context, out: &mut Vec<Msg>) {
        for toast in self.state.toasts.fresh() {
            let shown = match toast.tone {
                ToastTone::Good => dspark_look::Toast::done(toast.title),
                ToastTone::Info => dspark_look::Toast::info(toast.title),
                ToastTone::Warning => dspark_look::Toast::warning(toast.title),
                ToastTone::Error => dspark_look::Toast::error(toast.title),
            };
            let shown = shown.line(toast.body);
            self.toasts.push(match toast.action {
                Some(action) => shown.action(toast.id, action.label),
                None => shown,
            });
        }
        let floor = match self.state.screen {
            Screen::Chat => self.chat.top,
            Screen::Settings if self.state.decoding.is_some() => Some(ctx.content_rect().bottom() - dspark_look::space::RELOAD_BAR),
            _ => None,
        };
        if let Some(id) = self.toasts.show(ctx, floor) {
            out.push(Msg::ToastAction(id));
        }
    }
}

/// The same model loaded again is another one: its measurements may differ.
fn is_other(before: Option<&ModelInfo>, now: Option<&ModelInfo>) -> bool {
    let key = |model: &ModelInfo| {
        (
            model.path.clone(),
            model.name.clone(),
            model.loaded_at,
            model.load_seconds.to_bits(),
        )
    };
    before.map(key) != now.map(key)
}

fn look(appearance: &Appearance) -> Look {
    Look {
        preference: match appearance.theme {
            ThemeChoice::Auto => ThemePreference::System,
            ThemeChoice::Light => ThemePreference::Light,
            ThemeChoice::Dark => ThemePreference::Dark,
        },
        text_scale: appearance.text_scale as f32 / 100.0,
        increase_contrast: appearance.increase_contrast,
        reduced_motion: appearance.reduce_motion,
    }
}

/// A model to load, chats to import, or files for the message.
fn drops(ui: &Ui, out: &mut Vec<Msg>) {
    let dropped = ui.input(|input| input.raw.dropped_files.clone());
    if !dropped.is_empty() {
        let paths = dropped.iter().map(|file| file.path().to_path_buf()).collect();
        out.push(Msg::Files(FilesMsg::Dropped(paths)));
    }
}
