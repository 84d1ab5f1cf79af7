//! Agents and Connections in the whole window: found by name, clicked, read back from the disk, and as pictures.
#![allow(clippy::unwrap_used)]

mod stage;

use dspark_agents::{CLIENTS, Client, Serving, State as Setting, client, look};
use dspark_protocol::double::{self, Script};
use dspark_window::{
    bridge::{CallEnd, CallState, ServerFailure},
    settings::ThemeChoice,
    shell::commands::commands,
    state::{AgentsView, Msg, Screen, ServerState, SettingsMsg},
};
use egui::{Key, Modifiers, accesskit::Role};
use egui_kittest::kittest::Queryable;
use stage::{Test, open_served, picture, scene, settings, until, window};
use std::{fs, path::PathBuf};

/// As high as every card needs.
const TALL: [f32; 2] = [1280.0, 2200.0];

fn open(size: [f32; 2], desk: &scene::Desk) -> Test {
    let engine = double::start(Script::saying("ok"));
    let mut test = open_served(
        engine,
        tempfile::tempdir().unwrap(),
        size,
        settings(ThemeChoice::Dark),
        Some(desk.clone()),
    );
    until(&mut test, "a model and the server", |window| {
        window.state.has_model() && matches!(window.state.server, ServerState::On(_))
    });
    test.key_press_modifiers(Modifiers::COMMAND, Key::Num4);
    looked(&mut test);
    test
}

fn looked(test: &mut Test) {
    test.run_steps(2);
    until(test, "a look at the disk", |window| {
        window.state.agents.standings.is_some() && !window.state.agents.looking
    });
    test.run_steps(2);
}

fn home(test: &Test) -> PathBuf {
    test.state().folder.path().to_path_buf()
}

fn press(test: &mut Test, name: &str) {
    test.get_by_role_and_label(Role::Button, name).click();
    test.run_steps(3);
}

fn serving(test: &Test) -> Serving {
    window(test).state.serving().unwrap()
}

/// As the disk says, whatever the window believes.
fn setting(test: &Test, client: &'static Client) -> Setting {
    look(client, Some(&serving(test)), &scene::Scene::places(&home(test))).state
}

fn apply(test: &mut Test, client: &Client) {
    let verb = if client.id == "claude" { "Settings file" } else { "Show changes" };
    press(test, &format!("{verb}: {}", client.name));
    press(test, "Apply");
    until(test, "the change", |window| {
        let sheet = window.state.agents.sheet.as_ref();
        assert_eq!(sheet.and_then(|sheet| sheet.error.as_ref()), None);
        sheet.is_none()
    });
    looked(test);
}

/// What stood in the files before anybody came.
fn theirs(id: &str) -> Option<&'static str> {
    match id {
        "zed" => Some("// Zed\n{\n  \"vim_mode\": true,\n}\n"),
        "pi" => Some("{\"providers\": {\"a\": {\"baseUrl\": \"b\"}}}"),
        "claude" => Some("{\"env\": {\"MINE\": \"1\"}}"),
        "crush" => Some("{\r\n\t\"options\" : {}\r\n}"),
        _ => None,
    }
}

#[test]
fn every_file_is_written_from_the_screen_read_back_and_undone_to_the_byte() {
    let mut test = open(TALL, &scene::Desk::default());
    let places = scene::Scene::places(&home(&test));
    for client in CLIENTS.iter().filter(|client| client.file.is_some()) {
        let path = client.path(&places).unwrap();
        let before = theirs(client.id);
        if let Some(text) = before {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
        } else if client.id != "claude" {
            assert!(!path.exists());
        }
        press(&mut test, "Look again");
        looked(&mut test);
        assert_eq!(setting(&test, client), Setting::NotSetUp, "{}", client.id);
        apply(&mut test, client);
        assert_eq!(setting(&test, client), Setting::Current, "{}", client.id);
        let written = fs::read_to_string(&path).unwrap();
        assert!(written.contains("127.0.0.1:8080") && written.contains("double"), "{written}");
        press(&mut test, &format!("Undo: {}", client.name));
        until(&mut test, "the undo", |window| {
            let toast = window.state.toasts.latest();
            toast.is_some_and(|toast| toast.title == format!("{} is as it was", client.name))
        });
        looked(&mut test);
        let after = fs::read(&path).ok();
        assert_eq!(after.as_deref(), before.map(str::as_bytes), "{}", client.id);
        assert!(test.query_by_label(&format!("Undo: {}", client.name)).is_none(), "{}", client.id);
    }
}

#[test]
fn a_moved_server_makes_files_stale_and_one_button_brings_them_up_to_date() {
    let mut test = open(TALL, &scene::Desk::default());
    let crush = client("crush").unwrap();
    apply(&mut test, crush);
    test.get_by_label("Set up, not used yet");
    let mut moved = window(&test).state.settings.clone();
    moved.server.port = 9123;
    window(&test).inbox().push(Msg::Settings(SettingsMsg::Changed(Box::new(moved))));
    until(&mut test, "the move", |window| {
        window.state.server == ServerState::On("http://127.0.0.1:9123".into())
    });
    looked(&mut test);
    test.get_by_label("It points at port 8080");
    assert_eq!(setting(&test, crush), Setting::Stale);
    apply(&mut test, crush);
    assert_eq!(setting(&test, crush), Setting::Current);
    assert!(
        fs::read_to_string(crush.path(&scene::Scene::places(&home(&test))).unwrap())
            .unwrap()
            .contains("9123")
    );
    // By hand: it is told, and undoing asks.
    let path = crush.path(&scene::Scene::places(&home(&test))).unwrap();
    let edited = fs::read_to_string(&path).unwrap().replace("(local)", "(mine)");
    fs::write(&path, &edited).unwrap();
    press(&mut test, "Look again");
    looked(&mut test);
    test.get_by_label("Changed by hand since it was set up");
    press(&mut test, "Undo: Crush");
    until(&mut test, "the question", |window| window.state.agents.sheet.is_some());
    test.run_steps(3);
    test.get_by_label("Crush was changed since");
    assert_eq!(fs::read_to_string(&path).unwrap(), edited);
    press(&mut test, "Undo anyway");
    until(&mut test, "the undo", |window| window.state.agents.sheet.is_none());
    assert!(!path.exists(), "there was none before");
}

#[test]
fn the_change_is_shown_line_by_line_and_escape_leaves_everything() {
    let mut test = open(TALL, &scene::Desk::default());
    press(&mut test, "Show changes: Codex");
    test.get_by_role_and_label(Role::Heading, "Set up Codex");
    test.get_by_label_contains("added: model = \"double\"");
    test.get_by_label_contains("~/.codex/mlx-dspark.config.toml, new file");
    test.key_press(Key::Escape);
    test.run_steps(3);
    assert!(window(&test).state.agents.sheet.is_none());
    assert!(!home(&test).join("home/.codex").exists());
}

#[test]
fn broken_and_read_only_files_are_named_and_kept() {
    let mut test = open(TALL, &scene::Desk::default());
    let places = scene::Scene::places(&home(&test));
    let write = |id: &str, text: &str| {
        let path = client(id).unwrap().path(&places).unwrap();
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    };
    let zed = write("zed", "{\n  \"a\": [\n}\n");
    let crush = write("crush", "{}\n");
    let mut locked = fs::metadata(&crush).unwrap().permissions();
    locked.set_readonly(true);
    fs::set_permissions(&crush, locked).unwrap();
    press(&mut test, "Look again");
    looked(&mut test);
    test.get_by_label("Its settings file is left alone");
    press(&mut test, "Show the entry: Zed");
    test.get_by_role_and_label(Role::Code, "Code, json");
    press(&mut test, "Close");
    assert_eq!(fs::read_to_string(&zed).unwrap(), "{\n  \"a\": [\n}\n");

    press(&mut test, "Show changes: Crush");
    press(&mut test, "Apply");
    until(&mut test, "the refusal", |window| {
        window.state.agents.sheet.as_ref().is_some_and(|sheet| sheet.error.is_some())
    });
    test.run_steps(3);
    test.get_by_label_contains("read-only");
    assert_eq!(fs::read_to_string(&crush).unwrap(), "{}\n");
    press(&mut test, "Cancel");
    assert!(window(&test).state.agents.sheet.is_none());
}

#[test]
fn clients_without_a_file_say_what_to_fill_in() {
    let mut test = open(TALL, &scene::Desk::default());
    press(&mut test, "How to set up Cline, Roo and Kilo");
    for row in ["Model: double", "API key: mlx-dspark", "Context window: 8192"] {
        test.get_by_label(row);
    }
    press(&mut test, "Copy Base URL");
    assert_eq!(window(&test).state.toasts.latest().unwrap().title, "Copied");
    test.key_press(Key::Escape);
    test.run_steps(3);
    press(&mut test, "How to start: Claude Code");
    test.get_by_role_and_label(Role::Code, "Code, shell");
    test.key_press(Key::Escape);
    test.run_steps(3);
    press(&mut test, "Copy the command: Aider");
    press(&mut test, "Copy base url");
}

#[test]
fn the_palette_leads_here() {
    let mut test = open(TALL, &scene::Desk::default());
    let state = &window(&test).state;
    for (query, text) in [("set up codex", "Agents: Set up Codex"), ("connections", "Agents: Connections")] {
        assert_eq!(commands(state, query)[0].text, text);
    }
    test.key_press_modifiers(Modifiers::COMMAND, Key::Num1);
    test.key_press_modifiers(Modifiers::COMMAND, Key::K);
    test.run_steps(3);
    test.get_by_label("Search commands").type_text("connections");
    test.run_steps(3);
    test.key_press(Key::Enter);
    test.run_steps(3);
    assert_eq!(
        (window(&test).state.screen, window(&test).state.agents.view),
        (Screen::Agents, AgentsView::Connections)
    );
}

#[test]
fn a_server_that_is_off_is_turned_on_here() {
    let desk = scene::Desk::default();
    let mut test = open(TALL, &desk);
    let mut off = window(&test).state.settings.clone();
    off.server.enabled = false;
    window(&test).inbox().push(Msg::Settings(SettingsMsg::Changed(Box::new(off))));
    until(&mut test, "the end of the server", |window| window.state.server == ServerState::Off);
    test.run_steps(2);
    test.get_by_label_contains("The server is off");
    desk.fails(Some(ServerFailure {
        reason: "port 8080 is taken by another program".into(),
        next_free: Some(8081),
    }));
    press(&mut test, "Turn on the server");
    until(&mut test, "the failure", |window| {
        matches!(window.state.server, ServerState::Failed(_))
    });
    test.run_steps(3);
    test.get_by_label_contains("The server did not start. port 8080 is taken");
    desk.fails(None);
    press(&mut test, "Use port 8081");
    until(&mut test, "the server", |window| {
        window.state.server == ServerState::On("http://127.0.0.1:8081".into())
    });
    test.run_steps(3);
    assert!(test.query_by_role(Role::Alert).is_none());
}

fn to_connections(test: &mut Test) {
    test.get_by_role_and_label(Role::Tab, "Connections").click();
    test.run_steps(3);
}

#[test]
fn requests_are_followed_stopped_and_explained() {
    let desk = scene::Desk::default();
    let mut test = open([1280.0, 800.0], &desk);
    to_connections(&mut test);
    test.get_by_label("No program has asked yet");
    test.get_by_label("http://127.0.0.1:8080/v1");
    test.get_by_label_contains("curl http://127.0.0.1:8080/v1/chat/completions");

    let prefilling = CallState::Prefilling { done: 512, total: 2048 };
    desk.asks(scene::live("req_9", "claude-cli", "POST /v1/messages", prefilling, 1.0));
    until(&mut test, "the request", |window| !window.state.agents.activity.live.is_empty());
    test.run_steps(3);
    test.get_by_role_and_label(Role::Row, "claude-cli, Anthropic");
    test.get_by_label("Prefilling 512 of 2,048");
    press(&mut test, "Stop the request of claude-cli");
    assert_eq!(desk.stopped(), ["req_9"]);
    test.get_by_label("Stopping at the end of this round");

    let mut done = scene::ended(
        "req_9",
        "claude-cli",
        "POST /v1/messages",
        [2048, 7],
        512,
        "the system prompt is not what it was",
    );
    done.end = CallEnd::Cancelled;
    done.receipt.as_mut().unwrap().difference = Some(dspark_window::bridge::Difference {
        place: "the system prompt".into(),
        before: "09:41".into(),
        now: "09:42".into(),
    });
    desk.ends(5, done);
    desk.knows(5, scene::totals("claude-cli", [1, 0], [2048, 512, 7]));
    until(&mut test, "the end", |window| window.state.agents.activity.live.is_empty());
    test.run_steps(3);
    test.get_by_label("Nothing is being answered.");
    test.get_by_label("claude-cli: 1 requests, 25% reused, 0 errors");
    test.get_by_role_and_label(Role::Row, "claude-cli, Anthropic, Cancelled").click();
    test.run_steps(3);
    for told in [
        "Reused from the cache: 512 tokens",
        "Computed: 1,536 tokens",
        "Why: the system prompt is not what it was",
        "was: 09:41",
        "is: 09:42",
    ] {
        test.get_by_label(told);
    }
    // The card knows who has asked.
    test.get_by_role_and_label(Role::Tab, "Set up").click();
    looked(&mut test);
    test.get_by_label("Last request 5 s ago");
}

#[test]
fn errors_stand_with_their_reason() {
    let desk = scene::Desk::busy();
    let mut test = open([1280.0, 1400.0], &desk);
    to_connections(&mut test);
    test.run_steps(3);
    test.get_by_role_and_label(Role::Row, "curl, OpenAI chat, Refused, 401").click();
    test.run_steps(3);
    test.get_by_role_and_label(Role::Alert, "this server asks for a key: send it as `Authorization: Bearer KEY`");
    press(&mut test, "Copy the error");
    test.get_by_label("Refused, 401 3 times in a row");
    test.get_by_label("curl: 3 requests, – reused, 3 errors");
}

macro_rules! pictures {
    ($($name:ident: $scene:ident, $theme:ident, $width:expr, $height:expr;)+) => {$(
        #[test]
        fn $name() {
            picture(stringify!($name), scene::Scene::$scene, ThemeChoice::$theme, [$width, $height]);
        }
    )+};
}

pictures! {
    picture_agents_dark: Agents, Dark, 1280.0, 800.0;
    picture_agents_light: Agents, Light, 1280.0, 800.0;
    picture_agents_light_narrow: Agents, Light, 900.0, 640.0;
    picture_agents_change_dark: AgentsChange, Dark, 1280.0, 800.0;
    picture_agents_change_light_narrow: AgentsChange, Light, 900.0, 640.0;
    picture_agents_changed_light: AgentsChanged, Light, 1280.0, 800.0;
    picture_agents_steps_dark: AgentsSteps, Dark, 1280.0, 800.0;
    picture_agents_off_light: AgentsOff, Light, 1280.0, 800.0;
    picture_connections_dark: Connections, Dark, 1280.0, 800.0;
    picture_connections_light: Connections, Light, 1280.0, 800.0;
    picture_connections_dark_narrow: Connections, Dark, 900.0, 640.0;
    picture_connections_empty_light: ConnectionsEmpty, Light, 1280.0, 800.0;
}
