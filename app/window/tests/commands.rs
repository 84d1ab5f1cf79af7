//! The command palette, options and presets of a chat, the context meter: in the whole window, by name.
#![allow(clippy::unwrap_used)]

mod stage;

use dspark_protocol::double::Script;
use dspark_window::{
    settings::ThemeChoice,
    shell::commands::{Group, commands},
    state::{LabView, Screen},
};
use egui::{Key, Modifiers, accesskit::Role};
use egui_kittest::kittest::Queryable;
use stage::{idle, open, picture, scene, send, until, window};

fn palette(test: &mut stage::Test, query: &str) {
    test.key_press_modifiers(Modifiers::COMMAND, Key::K);
    test.run_steps(3);
    let field = test.get_by_label("Search commands");
    field.type_text(query);
    test.run_steps(4);
}

#[test]
fn the_palette_runs_what_is_typed() {
    let mut test = open(Script::saying("ok").drafting());
    palette(&mut test, "curves");
    test.get_by_role_and_label(Role::ListBoxOption, "Lab: Curves");
    assert_eq!(
        commands(&window(&test).state, "curves")[0].text,
        "Lab: Curves",
        "the best match stands first"
    );
    test.key_press(Key::Enter);
    test.run_steps(3);
    assert!(window(&test).state.palette.is_none());
    assert_eq!(
        (window(&test).state.screen, window(&test).state.lab.view),
        (Screen::Lab, LabView::Curves)
    );
    palette(&mut test, "setdeco");
    test.key_press(Key::Enter);
    test.run_steps(3);
    assert_eq!(window(&test).state.screen, Screen::Settings);
}

#[test]
fn the_palette_moves_closes_and_clicks() {
    let mut test = open(Script::saying("ok"));
    palette(&mut test, "");
    test.key_press(Key::ArrowDown);
    test.run_steps(2);
    assert_eq!(window(&test).state.palette.as_ref().unwrap().selected, 1);
    test.key_press(Key::ArrowUp);
    test.key_press(Key::ArrowUp);
    test.run_steps(3);
    let rows = commands(&window(&test).state, "").len();
    assert_eq!(window(&test).state.palette.as_ref().unwrap().selected, rows - 1, "round the end");
    test.key_press(Key::Escape);
    test.run_steps(3);
    assert!(window(&test).state.palette.is_none());
    palette(&mut test, "load q");
    test.get_by_role_and_label(Role::ListBoxOption, "Load Qwen3-8B-8bit").click();
    until(&mut test, "the model", |window| {
        window
            .state
            .engine
            .model
            .as_ref()
            .is_some_and(|model| model.name == "Qwen3-8B-8bit")
    });
    palette(&mut test, "no such thing at all");
    test.get_by_label("Nothing goes by this name");
}

#[test]
fn chats_are_found_by_title_and_by_what_is_in_them() {
    let mut test = open(Script::saying("The walrus sings at dusk."));
    send(&mut test, "Tell me of the sea");
    idle(&mut test);
    test.key_press_modifiers(Modifiers::COMMAND, Key::N);
    test.run_steps(3);
    palette(&mut test, "of the sea");
    test.get_by_role_and_label(Role::ListBoxOption, "Tell me of the sea");
    test.key_press(Key::Escape);
    test.run_steps(3);
    palette(&mut test, "walrus");
    until(&mut test, "the hit", |window| {
        window.state.palette.as_ref().is_some_and(|palette| !palette.hits.is_empty())
    });
    let found = commands(&window(&test).state, "walrus");
    assert!(
        found
            .iter()
            .any(|command| command.group == Group::Chats && command.detail.contains("walrus"))
    );
    test.key_press(Key::Enter);
    until(&mut test, "the chat", |window| {
        window.state.chat.session.is_some() && !window.state.chat.tree.is_empty()
    });
}

#[test]
fn a_chat_gets_options_of_its_own_and_a_preset_is_kept() {
    let mut test = open(Script::saying("ok"));
    test.get_by_label("Options").click();
    test.run_steps(3);
    test.get_by_role_and_label(Role::RadioButton, "This chat").click();
    test.run_steps(3);
    assert!(window(&test).state.chat.options.is_some());
    test.get_by_role_and_label(Role::Slider, "Temperature").focus();
    test.run_steps(1);
    test.key_press(Key::ArrowRight);
    test.run_steps(3);
    let temperature = window(&test).state.chat_settings().temperature;
    assert!(
        temperature > 0.7 && window(&test).state.settings.chat.temperature == 0.7,
        "{temperature}"
    );
    test.get_by_label("Preset name").focus();
    test.run_steps(1);
    test.get_by_label("Preset name").type_text("Warm");
    test.run_steps(2);
    test.get_by_label("Save preset").click();
    test.run_steps(3);
    let presets = &window(&test).state.settings.presets;
    assert_eq!(
        (presets.len(), presets[0].name.as_str(), presets[0].chat.temperature),
        (1, "Warm", temperature)
    );
    test.get_by_label("Delete preset").click();
    test.run_steps(3);
    assert!(window(&test).state.settings.presets.is_empty());
}

#[test]
fn a_full_window_is_told_with_what_can_be_done() {
    let mut test = open(Script::saying("ok"));
    // The double counts words; its window has 8192.
    send(&mut test, &"word ".repeat(5000));
    idle(&mut test);
    until(&mut test, "the count", |window| window.state.chat.draft.tokens.is_some());
    test.get_by_label("Message").focus();
    test.run_steps(2);
    test.get_by_label("Message").type_text(&"more ".repeat(4000));
    until(&mut test, "the meter", |window| {
        window.state.fill() == dspark_window::state::Fill::Over
    });
    test.key_press(Key::Enter);
    test.run_steps(3);
    assert_eq!(window(&test).state.turns(), 1, "it was not sent");
    test.get_by_label_contains("Too long by ");
    assert!(test.query_by_label("Leave out the oldest turn").is_none(), "there is only one");
}

macro_rules! pictures {
    ($($name:ident: $scene:ident $theme:ident $width:literal $height:literal;)*) => {$(
        #[test]
        fn $name() {
            picture(stringify!($name), scene::Scene::$scene, ThemeChoice::$theme, [$width, $height]);
        }
    )*};
}

pictures! {
    picture_palette_dark: Palette Dark 1280.0 800.0;
    picture_palette_light_narrow: Palette Light 900.0 640.0;
}
