//! All data at once, in the whole window.
#![allow(clippy::unwrap_used)]

mod stage;

use dspark_desktop::Choice;
use dspark_protocol::double::{self, Script};
use dspark_window::{
    settings::ThemeChoice,
    state::{Msg, Report, Screen, SettingsMsg, SettingsPage},
};
use egui_kittest::kittest::Queryable;
use stage::{Test, idle, open_with, picture, scene, send, settings, until, window};

/// High enough for the whole page.
fn open(script: Script) -> Test {
    let folder = tempfile::tempdir().unwrap();
    let mut test = open_with(double::start(script), folder, [1100.0, 1500.0], settings(ThemeChoice::Dark));
    until(&mut test, "a model", |window| window.state.has_model());
    test
}

fn page(test: &mut Test, page: SettingsPage) {
    let inbox = window(test).inbox();
    inbox.push(Msg::Settings(SettingsMsg::Page(page)));
    inbox.push(Msg::Show(Screen::Settings));
    test.run_steps(8);
}

#[test]
fn chats_are_exported_deleted_and_brought_back() {
    let mut test = open(Script::saying("Four."));
    send(&mut test, "Two and two");
    idle(&mut test);
    page(&mut test, SettingsPage::Data);
    let place = test.state().folder.path().join("all.json");
    test.state().desktop.will_choose(Choice::Chosen(vec![place.clone()]));
    test.get_by_label("Export all chats").click();
    until(&mut test, "the export", |window| {
        window.state.toasts.latest().is_some_and(|toast| toast.title == "1 chat exported")
    });
    let read = dspark_sessions::import::read(&std::fs::read(place).unwrap()).unwrap();
    assert_eq!((read.chats[0].title.as_str(), read.chats[0].messages.len()), ("Two and two", 2));

    test.get_by_label("Delete all chats").click();
    test.run_steps(6);
    test.get_by_label("Delete all").click();
    until(&mut test, "the end of all chats", |window| window.state.sidebar.sessions.is_empty());
    test.run_steps(4);
    test.get_by_label("Undo").click();
    until(&mut test, "the chat", |window| window.state.sidebar.sessions.len() == 1);
}

#[test]
fn a_report_is_looked_at_first() {
    let mut test = open(Script::saying("Hi."));
    page(&mut test, SettingsPage::Data);
    test.get_by_label("Show diagnostics").click();
    until(&mut test, "the report", |window| {
        matches!(window.state.data.report, Some(Report::Ready(_)))
    });
    test.run_steps(6);
    let Some(Report::Ready(text)) = window(&test).state.data.report.clone() else {
        panic!()
    };
    assert!(text.contains("mlx-dspark diagnostics") && text.contains("port = "), "{text}");
    let home = std::env::home_dir().unwrap();
    assert!(home.as_os_str().len() < 2 || !text.contains(&*home.to_string_lossy()), "{text}");
    let place = test.state().folder.path().join("report.txt");
    test.state().desktop.will_choose(Choice::Chosen(vec![place.clone()]));
    test.get_by_label("Save…").click();
    until(&mut test, "the file", |_| place.exists());
    assert_eq!(std::fs::read_to_string(place).unwrap(), text);
}

#[test]
fn picture_settings_data_dark() {
    picture(
        "picture_settings_data_dark",
        scene::Scene::SettingsData,
        ThemeChoice::Dark,
        [1280.0, 800.0],
    );
}
