//! Opens the window and keeps it until the person quits.

use super::{Window, window::Request};
use crate::{
    bridge::{Bridge, Catalog, MachineSource, NoMachine, ServerControl},
    settings::Settings,
    state::{ChatMsg, Clock, Msg, State},
    tray::Tray,
};
use anyhow::anyhow;
use dspark_agents::Places;
use dspark_desktop::{Desktop, NoDesktop};
use dspark_protocol::{EngineHandle, EngineState};
use dspark_sessions::{Recovery, Store};
use dspark_strings::{Language, t};
use egui::{Context, ViewportCommand};
use std::{
    cell::Cell,
    collections::VecDeque,
    path::PathBuf,
    rc::Rc,
    sync::{Arc, mpsc::Sender},
    time::Duration,
};

/// A panel that is not there by then does not come.
const HOST_AT_LOGIN: Duration = Duration::from_secs(15);

/// A model to load as soon as the window is there.
#[derive(Debug, Clone)]
pub struct StartModel {
    pub name: String,
    pub path: PathBuf,
}

/// What the window is given.
pub struct AppOptions {
    pub engine: EngineHandle,
    /// Chats are kept here.
    pub data_dir: PathBuf,
    /// A TOML file; made when it is missing.
    pub settings_path: PathBuf,
    /// Without one, the last loaded model comes back if the settings say so.
    pub model: Option<StartModel>,
    pub catalog: Arc<dyn Catalog>,
    pub server: Arc<dyn ServerControl>,
    pub machine: Arc<dyn MachineSource>,
    pub desktop: Arc<dyn Desktop>,
    /// What measurements are stamped with.
    pub version: String,
    /// Where other programs keep their settings; without, none can be set up from here.
    pub agents: Option<Places>,
    /// Starts with the window closed, where a tray brings it back.
    pub hidden: bool,
    /// Width and height in points.
    pub size: [f32; 2],
    /// Carried out as soon as the engine has said how it is (scripts and tests).
    pub opening: Vec<Msg>,
    /// Gets the processor time of every frame: state, layout, tessellation and painting commands (measurements).
    pub frames: Option<Sender<Duration>>,
}

impl AppOptions {
    /// The window at its usual size.
    pub fn new(
        engine: EngineHandle,
        data_dir: PathBuf,
        settings_path: PathBuf,
        catalog: Arc<dyn Catalog>,
        server: Arc<dyn ServerControl>,
    ) -> Self {
        Self {
            engine,
            data_dir,
            settings_path,
            model: None,
            catalog,
            server,
            machine: Arc::new(NoMachine),
            desktop: Arc::new(NoDesktop),
            version: env!("CARGO_PKG_VERSION").into(),
            agents: None,
            hidden: false,
            size: [1280.0, 800.0],
            opening: Vec::new(),
            frames: None,
        }
    }
}

/// No window came up: there is no display, or it does not answer.
#[derive(Debug, thiserror::Error)]
#[error("the window cannot be opened: {reason}; check that a display is running and that DISPLAY or WAYLAND_DISPLAY names it")]
pub struct NoWindow {
    reason: String,
}

impl NoWindow {
    fn new(error: &eframe::Error) -> Self {
        let text = error.to_string();
        // The toolkit's errors begin with the place in its source, which helps nobody here.
        let reason = text
            .rsplit_once(".rs:")
            .and_then(|(_, rest)| rest.split_once(": "))
            .map_or(text.as_str(), |(_, reason)| reason);
        Self { reason: reason.to_owned() }
    }
}

/// Opens the window; returns when the app ends.
///
/// # Errors
/// [`NoWindow`] when none can be opened; otherwise the chats are open in another process, or the window broke down.
pub fn run(options: AppOptions) -> anyhow::Result<()> {
    // What goes wrong with the settings is told too.
    dspark_strings::set(Language::of_system());
    let (settings, note) = Settings::load(&options.settings_path);
    dspark_strings::set(settings.appearance.language.language(Language::of_system()));
    let (opened, unkept) = match Store::open(&options.data_dir) {
        Ok(opened) => (opened, None),
        // Another start, or a window that opened in between: it comes forward instead.
        Err(dspark_sessions::Error::InUse(_)) if super::focus_running(&options.data_dir, options.model.as_ref()) => return Ok(()),
        Err(error @ dspark_sessions::Error::InUse(_)) => return Err(error.into()),
        // Whoever started it from an icon reads no terminal: the window comes up and says it.
        Err(error) => {
            let folder = std::env::temp_dir().join(format!("mlx-dspark-{}", std::process::id()));
            let opened = Store::open(&folder).map_err(|_| anyhow!("{error}"))?;
            (opened, Some(t!(not_kept_on_close, error = error.to_string())))
        }
    };
    if options.hidden {
        // Before there is a window that could wait for it.
        crate::tray::wait_for_host(HOST_AT_LOGIN);
    }
    let native = eframe::NativeOptions {
        viewport: viewport(options.size),
        // Only our own settings are kept, never egui's memory.
        persist_window: false,
        ..eframe::NativeOptions::default()
    };
    let opened_once = Rc::new(Cell::new(false));
    let up = opened_once.clone();
    let create: eframe::AppCreator<'_> = Box::new(move |creation| {
        up.set(true);
        let faults = faults(unkept, &opened.recovery);
        let app = App::new(
            &creation.egui_ctx,
            options,
            settings,
            notes(note, &opened.recovery),
            faults,
            opened.store,
        );
        Ok(Box::new(app))
    });
    eframe::run_native("mlx-dspark", native, create).map_err(|error| {
        let failure = NoWindow::new(&error);
        if opened_once.get() {
            anyhow!("the window broke down: {}; start the app again, chats are kept", failure.reason)
        } else {
            failure.into()
        }
    })
}

fn viewport(size: [f32; 2]) -> egui::ViewportBuilder {
    let builder = egui::ViewportBuilder::default()
        .with_title("mlx-dspark")
        .with_app_id("mlx-dspark")
        .with_icon(crate::tray::icon::window())
        .with_inner_size(size)
        .with_min_inner_size([900.0, 640.0])
        .with_drag_and_drop(true);
    if cfg!(target_os = "macos") {
        builder
            .with_fullsize_content_view(true)
            .with_titlebar_shown(false)
            .with_title_shown(false)
    } else {
        builder
    }
}

struct App {
    window: Window,
    opening: VecDeque<Msg>,
    frames: Option<Sender<Duration>>,
    tray: Option<Tray>,
    /// Closes the window as soon as it is there: the toolkit shows every window once, after its first frame.
    hide: bool,
    /// The person has quit; the window may close.
    quitting: bool,
    closed: bool,
}

impl App {
    fn new(ctx: &Context, options: AppOptions, settings: Settings, notes: Vec<Note>, faults: Vec<Note>, store: Store) -> Self {
        let start = options.model.clone().or_else(|| {
            let last = settings
                .models
                .last
                .as_ref()
                .filter(|last| settings.general.load_last_model && last.path.is_dir())?;
            Some(StartModel {
                name: last.name.clone(),
                path: last.path.clone(),
            })
        });
        let data_dir = options.data_dir.clone();
        let mut state = State::new(settings, options.data_dir, store.next_ids(), Clock::now());
        state.version = options.version;
        state.system_language = Language::of_system();
        let draft = store.draft(0).unwrap_or_default();
        let bridge = Bridge::new(options.engine, Some(store), options.catalog, options.server, options.settings_path)
            .on_machine(options.machine)
            .on_desktop(options.desktop)
            .among(options.agents);
        let mut window = Window::new(ctx, state, bridge);
        super::instance::listen(&data_dir, window.inbox());
        let tray = Tray::new(window.inbox());
        window.state.tray = tray.as_ref().is_some_and(Tray::is_shown);
        let hide = options.hidden && window.state.tray;
        if let Some(StartModel { name, path }) = start {
            window.load(ctx, name, path);
        }
        window.start_server(ctx);
        window.dispatch(ctx, Msg::Chat(ChatMsg::Draft(draft)));
        for (title, body) in notes {
            window.dispatch(ctx, Msg::Notice { title, body });
        }
        for (title, body) in faults {
            window.dispatch(ctx, Msg::Fault { title, body });
        }
        Self {
            window,
            opening: options.opening.into(),
            frames: options.frames,
            tray,
            hide,
            quitting: false,
            closed: false,
        }
    }

    fn close(&mut self) {
        if !self.closed {
            self.closed = true;
            self.window.close();
        }
    }
}

/// Title and body.
type Note = (String, String);

/// What a person must have read.
fn faults(unkept: Option<String>, recovery: &Recovery) -> Vec<Note> {
    let mut faults = Vec::new();
    if let Some(body) = unkept {
        faults.push((t!(chats_cannot_be_kept).into(), body));
    }
    if let Some(path) = &recovery.quarantined {
        let (sessions, messages) = recovery.rescued;
        let body = t!(read_back, sessions = sessions, messages = messages, path = path.display());
        faults.push((t!(database_damaged).into(), body));
    }
    faults
}

fn notes(settings: Option<String>, recovery: &Recovery) -> Vec<Note> {
    let mut notes = Vec::new();
    if let Some(body) = settings {
        notes.push((t!(settings_reset).into(), body));
    }
    if recovery.interrupted > 0 {
        let body = t!(kept_continue).into();
        notes.push((t!(reply_cut_off).into(), body));
    }
    notes
}

impl eframe::App for App {
    fn logic(&mut self, ctx: &Context, _: &mut eframe::Frame) {
        self.window.logic(ctx);
        // One at a time: each may wait for what the one before asked from disk.
        let state = &self.window.state;
        if state.engine.state != EngineState::Starting
            && state.chat.opening.is_none()
            && let Some(message) = self.opening.pop_front()
        {
            self.window.dispatch(ctx, message);
            ctx.request_repaint_after(Duration::from_millis(50));
        }
        if ctx.input(|input| input.viewport().close_requested()) && !self.quitting {
            self.window.dispatch(ctx, Msg::CloseWindow);
            let hides_or_asks = !self.window.state.window_visible || self.window.state.confirm_quit.is_some();
            if hides_or_asks {
                ctx.send_viewport_cmd(ViewportCommand::CancelClose);
            }
        }
        if self.hide {
            if self.window.frames == 0 {
                ctx.request_repaint();
            } else {
                self.hide = false;
                self.window.hide();
            }
        }
        if let Some(tray) = &mut self.tray
            && let Some(again) = tray.update(&self.window.state)
        {
            ctx.request_repaint_after(again);
        }
        for request in self.window.take_requests() {
            match request {
                Request::Show => {
                    crate::tray::show_in_dock(true);
                    ctx.send_viewport_cmd(ViewportCommand::Visible(true));
                    ctx.send_viewport_cmd(ViewportCommand::Minimized(false));
                    ctx.send_viewport_cmd(ViewportCommand::Focus);
                }
                Request::Hide => {
                    ctx.send_viewport_cmd(ViewportCommand::Visible(false));
                    crate::tray::show_in_dock(false);
                }
                Request::Quit => {
                    self.quitting = true;
                    self.close();
                    ctx.send_viewport_cmd(ViewportCommand::Close);
                }
            }
        }
    }

    fn ui(&mut self, ui: &mut egui::Ui, frame: &mut eframe::Frame) {
        self.window.ui(ui);
        if let (Some(frames), Some(seconds)) = (&self.frames, frame.info().cpu_usage) {
            // Of the frame before this one. Whoever measured may have left.
            let _ = frames.send(Duration::from_secs_f32(seconds));
        }
        // What this frame asked for should not wait for the next one.
        let ctx = ui.ctx().clone();
        if !self.window.is_quiet() {
            self.logic(&ctx, frame);
        }
    }

    #[cfg(not(target_os = "macos"))]
    fn on_exit(&mut self, _: Option<&eframe::glow::Context>) {
        self.close();
    }

    #[cfg(target_os = "macos")]
    fn on_exit(&mut self) {
        self.close();
    }

    fn clear_color(&self, visuals: &egui::Visuals) -> [f32; 4] {
        visuals.panel_fill.to_normalized_gamma_f32()
    }
}
