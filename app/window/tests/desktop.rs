//! The desktop's manners in the whole window: switches, dialogs and what they bring, against a desktop that remembers.
#![allow(clippy::unwrap_used)]

mod stage;

use dspark_desktop::{Asked, Choice, Login, Wish};
use dspark_protocol::double::Script;
use dspark_window::{
    bridge::TokenFrom,
    settings::ThemeChoice,
    state::{ChatMsg, DesktopMsg, ExportChat, Msg, Screen, SettingsMsg, SettingsPage, TokenMsg},
};
use egui::Key;
use egui_kittest::kittest::Queryable;
use stage::{Test, idle, open, picture, scene, send, until, window};
use std::path::PathBuf;

fn page(test: &mut Test, page: SettingsPage) {
    let inbox = window(test).inbox();
    inbox.push(Msg::Settings(SettingsMsg::Page(page)));
    inbox.push(Msg::Show(Screen::Settings));
    test.run_steps(8);
}

fn asked(test: &Test) -> Vec<Asked> {
    test.state().desktop.asked()
}

#[test]
fn launch_at_login_is_switched_where_it_holds() {
    let mut test = open(Script::saying("Hi."));
    page(&mut test, SettingsPage::General);
    until(&mut test, "the look", |window| window.state.desktop.login == Some(Login::Off));
    test.run_steps(4);
    test.get_by_label("Launch at login").click();
    until(&mut test, "the change", |window| window.state.desktop.login == Some(Login::On));
    assert!(asked(&test).contains(&Asked::Login(true)));
    test.run_steps(4);
    test.get_by_label("Launch at login").click();
    until(&mut test, "the change", |window| window.state.desktop.login == Some(Login::Off));
    // Another copy's entry is named, and taken over by the same switch.
    window(&test)
        .inbox()
        .push(DesktopMsg::Login(Ok(Login::Other("/opt/other/mlx-dspark".into()))).into());
    test.run_steps(4);
    assert!(test.query_by_label_contains("/opt/other/mlx-dspark").is_some());
}

#[test]
fn the_machine_is_asked_to_stay_awake_for_a_reply() {
    let mut test = open(Script::saying("A few words."));
    send(&mut test, "Hello");
    idle(&mut test);
    until(&mut test, "the end of it", |window| window.state.engine.requests.is_empty());
    test.run_steps(3);
    let awake: Vec<bool> = asked(&test)
        .into_iter()
        .filter_map(|asked| match asked {
            Asked::Awake(why) => Some(why.is_some()),
            _ => None,
        })
        .collect();
    assert_eq!(awake.first(), Some(&true));
    assert_eq!(awake.last(), Some(&false));
}

#[test]
fn the_paper_clip_brings_files_into_the_message() {
    let mut test = open(Script::saying("Yes."));
    let folder = test.state().folder.path().to_path_buf();
    let paths: Vec<PathBuf> = ["a.py", "b.txt"].iter().map(|name| folder.join(name)).collect();
    for path in &paths {
        std::fs::write(path, "print(1)").unwrap();
    }
    test.state().desktop.will_choose(Choice::Chosen(paths));
    test.get_by_label("Attach files").click();
    until(&mut test, "the files", |window| window.state.chat.draft.files.len() == 2);
    test.run_steps(4);
    assert!(test.query_by_label("Remove b.txt").is_some());
}

#[test]
fn folders_are_chosen_or_typed() {
    let mut test = open(Script::saying("Hi."));
    page(&mut test, SettingsPage::Models);
    test.state()
        .desktop
        .will_choose(Choice::Unavailable("This desktop has no file dialog to lend.".into()));
    test.get_by_label("Browse for a folder").click();
    until(&mut test, "the refusal", |window| window.state.desktop.no_dialog.is_some());
    test.run_steps(4);
    test.get_by_label("Folder to add").focus();
    test.run_steps(2);
    test.get_by_label("Folder to add").type_text("/typed");
    test.run_steps(2);
    test.key_press(Key::Enter);
    until(&mut test, "the typed one", |window| window.state.settings.models.folders.len() == 1);
    test.state().desktop.will_choose(Choice::Chosen(vec!["/chosen".into()]));
    test.get_by_label("Browse for a folder").click();
    until(&mut test, "the chosen one", |window| {
        window.state.settings.models.folders.len() == 2
    });
    assert_eq!(
        window(&test).state.settings.models.folders,
        [PathBuf::from("/typed"), PathBuf::from("/chosen")]
    );
}

#[test]
fn a_chat_is_saved_where_a_person_says() {
    let mut test = open(Script::saying("Four."));
    send(&mut test, "Two and two");
    idle(&mut test);
    let place = test.state().folder.path().join("mine.md");
    test.state().desktop.will_choose(Choice::Chosen(vec![place.clone()]));
    window(&test).inbox().push(Msg::Chat(ChatMsg::Export(ExportChat::Markdown)));
    until(&mut test, "the file", |window| {
        window.state.toasts.latest().is_some_and(|toast| toast.title == "Saved mine.md")
    });
    let text = std::fs::read_to_string(place).unwrap();
    assert!(text.contains("Two and two") && text.contains("Four."), "{text}");
    let wished = asked(&test)
        .into_iter()
        .any(|asked| matches!(asked, Asked::Choose(Wish::Save { name, .. }) if name == "Two and two.md"));
    assert!(wished);
}

#[test]
fn an_access_token_is_entered_and_never_shown_again() {
    let mut test = open(Script::saying("Hi."));
    window(&test).inbox().push(TokenMsg::Enter.into());
    until(&mut test, "the look", |window| window.state.models.token.is_some());
    test.run_steps(8);
    assert_eq!(window(&test).state.settings_page, SettingsPage::Models);
    // The field has the keyboard already.
    test.get_by_label("Access token").type_text("hf_secret123");
    test.run_steps(3);
    assert!(test.query_by_value("hf_secret123").is_none(), "masked while it is typed");
    test.key_press(Key::Enter);
    until(&mut test, "the token", |window| {
        let token = window.state.models.token.as_ref();
        token.is_some_and(|token| token.from == Some(TokenFrom::Kept) && token.kept)
    });
    test.run_steps(4);
    assert!(test.query_by_label_contains("hf_secret123").is_none() && test.query_by_value("hf_secret123").is_none());
    assert!(!format!("{:?}", window(&test).state.toasts.latest()).contains("hf_secret"));
    test.get_by_label("Forget the access token").click();
    until(&mut test, "forgetting", |window| {
        window.state.models.token.as_ref().is_some_and(|token| !token.kept)
    });
}

#[test]
fn the_download_cap_is_kept_with_the_settings() {
    let mut test = open(Script::saying("Hi."));
    page(&mut test, SettingsPage::Models);
    let mut settings = window(&test).state.settings.clone();
    settings.models.download_limit = 7;
    window(&test).inbox().push(Msg::Settings(SettingsMsg::Changed(Box::new(settings))));
    test.run_steps(6);
    assert!(test.query_by_label_contains("7 MB/s").is_some() || test.query_by_value("7 MB/s").is_some());
}

#[test]
fn picture_settings_models_dark() {
    picture(
        "picture_settings_models_dark",
        scene::Scene::SettingsModels,
        ThemeChoice::Dark,
        [1280.0, 800.0],
    );
}

#[test]
fn picture_settings_models_900x640_light() {
    picture(
        "picture_settings_models_900x640_light",
        scene::Scene::SettingsModels,
        ThemeChoice::Light,
        [900.0, 640.0],
    );
}
