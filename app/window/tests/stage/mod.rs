//! The whole window on a scripted engine, to be steered as a person would.
#![allow(clippy::unwrap_used, dead_code, unreachable_pub, reason = "each test binary uses its own part")]

#[path = "../../examples/scene/mod.rs"]
pub mod scene;

use dspark_protocol::double::{self, Script};
use dspark_sessions::{MessageState, Store};
use dspark_window::{
    bridge::{Bridge, NoServer, ServerControl},
    settings::{Settings, ThemeChoice},
    shell::Window,
    state::{Clock, State},
};
use egui::{Key, vec2};
use egui_kittest::{Harness, kittest::Queryable};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

pub type Setup = Box<dyn FnOnce(&egui::Context) -> Window>;

pub struct Stage {
    pub window: Option<Window>,
    setup: Option<Setup>,
    /// What the desktop was asked for.
    pub desktop: Arc<dspark_desktop::Recorded>,
    /// Kept until the end of the test.
    pub folder: tempfile::TempDir,
}

pub type Test = Harness<'static, Stage>;

pub fn window(test: &Test) -> &Window {
    test.state().window.as_ref().unwrap()
}

pub fn open_with(engine: dspark_protocol::EngineHandle, folder: tempfile::TempDir, size: [f32; 2], settings: Settings) -> Test {
    open_served(engine, folder, size, settings, None)
}

/// With a server that is started, and a home of its own for other programs' settings.
pub fn open_served(
    engine: dspark_protocol::EngineHandle,
    folder: tempfile::TempDir,
    size: [f32; 2],
    settings: Settings,
    desk: Option<scene::Desk>,
) -> Test {
    let store = Store::open(folder.path()).unwrap().store;
    let data = folder.path().to_path_buf();
    let desktop = Arc::new(dspark_desktop::Recorded::default());
    let around = desktop.clone();
    let setup = Box::new(move |ctx: &egui::Context| {
        let state = State::new(settings, data.clone(), store.next_ids(), Clock::now());
        let served = desk.is_some();
        let bridge = Bridge::new(
            engine,
            Some(store),
            Arc::new(scene::ScriptedCatalog),
            desk.map_or_else(|| Arc::new(NoServer) as Arc<dyn ServerControl>, |desk| Arc::new(desk)),
            data.join("settings.toml"),
        )
        .on_machine(Arc::new(scene::ScriptedMachine))
        .on_desktop(around)
        .among(Some(scene::Scene::places(&data)));
        let mut window = Window::new(ctx, state, bridge);
        if served {
            window.start_server(ctx);
        }
        window
    });
    let stage = Stage {
        window: None,
        setup: Some(setup),
        desktop,
        folder,
    };
    let mut test = Harness::builder()
        .with_size(vec2(size[0], size[1]))
        .with_os(egui::os::OperatingSystem::Nix)
        .with_render_cursor(false)
        .wgpu()
        .build_ui_state(
            |ui, stage: &mut Stage| match &mut stage.window {
                // The fonts are there from the second frame on.
                None => stage.window = stage.setup.take().map(|setup| setup(ui.ctx())),
                Some(window) => {
                    window.logic(ui.ctx());
                    window.ui(ui);
                }
            },
            stage,
        );
    until(&mut test, "the first look around", |window| window.state.models.survey.is_some());
    test
}

/// Motion off: a test sees states, not moments.
pub fn settings(theme: ThemeChoice) -> Settings {
    let mut settings = Settings::default();
    settings.appearance.theme = theme;
    settings.appearance.reduce_motion = true;
    settings
}

pub fn open(script: Script) -> Test {
    let mut test = open_with(
        double::start(script),
        tempfile::tempdir().unwrap(),
        [1100.0, 700.0],
        settings(ThemeChoice::Dark),
    );
    until(&mut test, "a model", |window| window.state.has_model());
    test
}

pub fn until(test: &mut Test, what: &str, done: impl Fn(&Window) -> bool) {
    let begin = Instant::now();
    loop {
        test.run_steps(2);
        if test.state().window.as_ref().is_some_and(&done) {
            return;
        }
        assert!(begin.elapsed() < Duration::from_secs(20), "waited for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub fn idle(test: &mut Test) {
    until(test, "the end of the reply", |window| window.state.lives.is_empty());
    test.run_steps(3);
}

pub fn send(test: &mut Test, text: &str) {
    test.get_by_label("Message").focus();
    test.run_steps(2);
    test.get_by_label("Message").type_text(text);
    test.run_steps(2);
    test.key_press(Key::Enter);
    test.run_steps(2);
}

pub fn answers(test: &Test) -> Vec<(String, MessageState)> {
    let tree = &window(test).state.chat.tree;
    tree.path()
        .into_iter()
        .map(|id| tree.get(id).unwrap())
        .map(|message| (message.text.clone(), message.state))
        .collect()
}

pub fn picture(name: &str, scene: scene::Scene, theme: ThemeChoice, size: [f32; 2]) {
    set(scene, settings(theme), size).snapshot(name);
}

/// The window with a scene in it, at rest.
pub fn set(scene: scene::Scene, mut settings: Settings, size: [f32; 2]) -> Test {
    let folder = tempfile::tempdir().unwrap();
    scene.prepare(folder.path(), None).unwrap();
    settings.server.enabled = scene != scene::Scene::AgentsOff;
    let desk = scene.of_agents().then(|| scene.server());
    let mut test = open_served(scene.engine(), folder, size, settings, desk);
    until(&mut test, "the engine", |window| {
        window.state.engine.state != dspark_protocol::EngineState::Starting
    });
    for message in scene.opening() {
        window(&test).inbox().push(message);
        test.run_steps(2);
        until(&mut test, "the chat", |window| window.state.chat.opening.is_none());
    }
    if scene.of_agents() {
        until(&mut test, "the programs", |window| {
            window.state.agents.standings.is_some() && !window.state.agents.looking
        });
    }
    if scene == scene::Scene::FirstRunDone {
        until(&mut test, "the trial", |window| window.state.truth().is_some());
    }
    if scene == scene::Scene::RaceRunning {
        until(&mut test, "the first tokens", |window| {
            let running = window.state.lab.race.running.as_ref();
            running.is_some_and(|running| running.lanes[0].tokens > 20)
        });
    }
    if scene == scene::Scene::FirstRunGo {
        until(&mut test, "the calibration", |window| {
            let loading = window.state.models.loading.as_ref();
            loading.is_some_and(|loading| loading.stage == dspark_protocol::LoadStage::Calibrating)
        });
    }
    until(&mut test, "the count of the composer", |window| {
        window.state.chat.draft.is_counted()
    });
    std::thread::sleep(Duration::from_millis(300));
    test.run_steps(10);
    test
}
