//! The models screen as people use it, by roles and labels, and pictures of it.
#![allow(clippy::unwrap_used)]

mod stage;

use dspark_protocol::double::{self, Script};
use dspark_window::{
    settings::ThemeChoice,
    state::{ModelsMsg, ModelsTab, Msg, Screen},
};
use egui::{Key, accesskit::Role};
use egui_kittest::kittest::Queryable;
use stage::{Test, open_with, picture, scene, settings, until, window};

fn open(size: [f32; 2]) -> Test {
    open_at(size, 100)
}

/// `scale` is the text's, in percent.
fn open_at(size: [f32; 2], scale: u32) -> Test {
    let engine = double::start(Script::saying("answer"));
    let mut settings = settings(ThemeChoice::Dark);
    settings.appearance.text_scale = scale;
    let mut test = open_with(engine, tempfile::tempdir().unwrap(), size, settings);
    until(&mut test, "a model", |window| window.state.has_model());
    window(&test).inbox().push(Msg::Show(Screen::Models));
    test.run_steps(4);
    test
}

fn click(test: &mut Test, label: &str) {
    test.get_by_label(label).click();
    test.run_steps(4);
}

fn tab(test: &mut Test, tab: ModelsTab) {
    window(test).inbox().push(Msg::Models(ModelsMsg::Tab(tab)));
    test.run_steps(4);
}

#[test]
fn the_parts_are_tabs_and_a_list_where_there_is_no_room() {
    let mut test = open([1280.0, 800.0]);
    test.get_by_role_and_label(Role::Tab, "Search the hub").click();
    test.run_steps(4);
    assert_eq!(window(&test).state.models.tab, ModelsTab::Search);
    let mut test = open_at([900.0, 640.0], 150);
    assert!(test.query_by_role_and_label(Role::Tab, "Downloads").is_none());
    test.get_by_role_and_label(Role::ComboBox, "Part of the screen").click();
    test.run_steps(4);
    click(&mut test, "Downloads");
    assert_eq!(window(&test).state.models.tab, ModelsTab::Downloads);
}

#[test]
fn a_row_opens_with_the_keyboard_and_its_slider_moves_the_sum() {
    let mut test = open([1280.0, 800.0]);
    test.get_by_role_and_label(Role::Row, "Qwen3.8-27B-4bit").focus();
    test.run_steps(2);
    test.key_press(Key::Enter);
    test.run_steps(4);
    assert!(window(&test).state.models.open.is_some());
    // The window that fits is where it begins; the part above it cannot be reached.
    test.get_by_label("Memory at 176k context");
    test.get_by_label("Context, target 11.81 GB");
    test.get_by_role_and_label(Role::Slider, "Context window").focus();
    test.run_steps(2);
    for _ in 0..2 {
        test.key_press(Key::ArrowRight);
        test.run_steps(2);
    }
    test.get_by_label("Memory at 176k context");
    for _ in 0..12 {
        test.key_press(Key::ArrowLeft);
        test.run_steps(2);
    }
    test.get_by_label("Memory at 128k context");
    test.get_by_label("Context, target 8.59 GB");
    test.get_by_label("Context, drafter 2.68 GB");
}

#[test]
fn what_does_not_fit_is_shown_on_request_and_cannot_be_fetched() {
    let mut test = open([1280.0, 800.0]);
    assert!(test.query_by_label("Qwen3.5-122B-A10B-4bit").is_none());
    click(&mut test, "Size of the models shown");
    test.get_by_role_and_label(Role::Row, "Qwen3.5-122B-A10B-4bit");
    assert!(test.query_by_label("Get Qwen3.5-122B-A10B-4bit").is_none());
    test.get_by_label("Get Qwen3-4B-4bit");
}

#[test]
fn a_load_takes_the_window_of_the_slider_and_leaves_the_settings() {
    let mut test = open([1280.0, 800.0]);
    tab(&mut test, ModelsTab::Here);
    test.get_by_role_and_label(Role::Row, "MiniCPM5-2B-4bit").click();
    test.run_steps(4);
    window(&test).inbox().push(Msg::Models(ModelsMsg::Context(32_768)));
    test.run_steps(4);
    click(&mut test, "Load with 32k MiniCPM5-2B-4bit");
    until(&mut test, "the model", |window| {
        let model = window.state.engine.model.as_ref();
        model.is_some_and(|model| model.name == "MiniCPM5-2B-4bit")
    });
    assert_eq!(window(&test).state.settings.decoding.context_window, None);
}

#[test]
fn options_of_a_load_are_chosen_in_a_sheet() {
    let mut test = open([1280.0, 800.0]);
    tab(&mut test, ModelsTab::Here);
    test.get_by_role_and_label(Role::Row, "MiniCPM5-2B-4bit").click();
    test.run_steps(4);
    click(&mut test, "Load options");
    test.get_by_role_and_label(Role::ComboBox, "Mode").click();
    test.run_steps(4);
    click(&mut test, "Lookup");
    click(&mut test, "Done");
    let open = window(&test).state.models.open.clone().unwrap();
    assert_eq!(open.decoding.unwrap().mode, dspark_protocol::Mode::Lookup);
    assert!(!open.sheet);
    test.get_by_label("Load options, changed");
}

#[test]
fn deleting_asks_first_and_only_what_is_ours_can_go() {
    let mut test = open([1280.0, 800.0]);
    tab(&mut test, ModelsTab::Here);
    test.get_by_role_and_label(Role::Row, "MiniCPM5-2B-4bit").click();
    test.run_steps(4);
    click(&mut test, "Delete MiniCPM5-2B-4bit");
    test.get_by_label("Delete MiniCPM5-2B-4bit?");
    click(&mut test, "Keep");
    assert!(window(&test).state.models.question.is_none());
    click(&mut test, "Verify MiniCPM5-2B-4bit");
    until(&mut test, "the check", |window| !window.state.models.shelf.checked.is_empty());
    click(&mut test, "Delete MiniCPM5-2B-4bit");
    click(&mut test, "Delete");
    until(&mut test, "the deletion", |window| window.state.models.question.is_none());
    test.get_by_role_and_label(Role::Row, "Qwen3-8B-8bit").click();
    test.run_steps(4);
    assert!(test.query_by_label("Delete Qwen3-8B-8bit").is_none());
    test.get_by_label("Not ours to delete");
}

#[test]
fn the_search_shows_what_runs_and_says_why_the_rest_does_not() {
    let mut test = open([1280.0, 800.0]);
    tab(&mut test, ModelsTab::Search);
    test.get_by_label("Words or repository").focus();
    test.run_steps(2);
    test.get_by_label("Words or repository").type_text("qwen3");
    test.run_steps(2);
    test.key_press(Key::Enter);
    until(&mut test, "the answer", |window| window.state.models.hub.found.is_some());
    test.run_steps(2);
    test.get_by_label("Accept the licence of Gemma-4-12B-8bit");
    assert!(test.query_by_label("Qwen3-8B-GGUF").is_none());
    click(&mut test, "Show 3 that cannot run");
    test.get_by_label("Qwen3-8B-GGUF, GGUF files only: look for its MLX build");
    assert!(test.query_by_label("Get Qwen3-8B-GGUF").is_none());
}

#[test]
fn a_search_can_be_cancelled_and_a_busy_hub_has_one_action() {
    let mut test = open([1280.0, 800.0]);
    tab(&mut test, ModelsTab::Search);
    let ask = |test: &mut Test, text: &str| {
        window(test).inbox().push(dspark_window::state::HubMsg::Query(text.into()).into());
        window(test).inbox().push(dspark_window::state::HubMsg::Go.into());
        test.run_steps(4);
    };
    ask(&mut test, "slow");
    click(&mut test, "Cancel");
    test.get_by_label("Cancelled");
    ask(&mut test, "busy");
    until(&mut test, "the refusal", |window| window.state.models.hub.found.is_some());
    test.run_steps(2);
    test.get_by_label("The hub asks to wait");
    test.get_by_label("Try again");
}

#[test]
fn a_download_is_paused_stopped_and_shown() {
    let mut test = open([1280.0, 800.0]);
    click(&mut test, "Get Qwen3.8-27B-4bit");
    until(&mut test, "bytes", |window| {
        let fetching = window.state.models.fetching.as_ref();
        fetching.is_some_and(|fetching| fetching.progress.done > 0)
    });
    tab(&mut test, ModelsTab::Downloads);
    click(&mut test, "Pause");
    until(&mut test, "the pause", |window| window.state.models.fetching.is_none());
    test.run_steps(2);
    click(&mut test, "Resume Qwen3.8-27B-4bit");
    until(&mut test, "the download", |window| window.state.models.fetching.is_some());
    test.run_steps(2);
    click(&mut test, "Cancel");
    click(&mut test, "Stop and delete");
    until(&mut test, "the end", |window| window.state.models.fetching.is_none());
    assert!(window(&test).state.models.downloads.held.is_empty());
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
    picture_models_dark: Models Dark 1280.0 800.0;
    picture_models_dark_narrow: Models Dark 900.0 640.0;
    picture_models_here_light: ModelsHere Light 1280.0 800.0;
    picture_models_here_dark_narrow: ModelsHere Dark 900.0 640.0;
    picture_models_search_dark: ModelsSearch Dark 1280.0 800.0;
    picture_models_search_light_narrow: ModelsSearch Light 900.0 640.0;
}
