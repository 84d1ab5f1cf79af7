//! Files beside a message, and an imported chat, in the whole window.
#![allow(clippy::unwrap_used)]

mod stage;

use dspark_protocol::double::{self, Script};
use dspark_window::{
    settings::ThemeChoice,
    state::{ChatMsg, FilesMsg, Msg, Screen, SettingsMsg, SettingsPage},
};
use egui_kittest::kittest::Queryable;
use stage::{Test, answers, idle, open, open_with, send, settings, until, window};

fn drop_files(test: &Test, files: &[(&str, &[u8])]) {
    let folder = test.state().folder.path().join("dropped");
    std::fs::create_dir_all(&folder).unwrap();
    let paths = files
        .iter()
        .map(|(name, bytes)| {
            std::fs::write(folder.join(name), bytes).unwrap();
            folder.join(name)
        })
        .collect();
    window(test).inbox().push(Msg::Files(FilesMsg::Dropped(paths)));
}

const CODE: &[u8] = b"def mean(xs):\n    return sum(xs) / len(xs)\n\nprint(mean([1, 2, 3]))\n";

#[test]
fn dropped_files_go_with_the_message_and_can_be_looked_at() {
    let mut test = open(Script::saying("It prints 2.0."));
    drop_files(&test, &[("mean.py", CODE), ("figures.csv", b"a,b\n1,2\n")]);
    until(&mut test, "the files", |window| window.state.chat.draft.files.len() == 2);
    until(&mut test, "their count", |window| window.state.chat.draft.is_counted());
    test.run_steps(4);
    test.snapshot("picture_files_composer_dark");
    // Not in the picture: a toast leaves by the clock.
    drop_files(&test, &[("photo.png", b"\x89PNG\r\n")]);
    until(&mut test, "the refusal", |window| {
        window.state.toasts.latest().is_some_and(|toast| toast.title.contains("photo.png"))
    });
    assert_eq!(window(&test).state.chat.draft.files.len(), 2);
    test.get_by_label("Remove figures.csv").click();
    until(&mut test, "one file", |window| window.state.chat.draft.files.len() == 1);
    send(&mut test, "What does it print?");
    idle(&mut test);
    let asked = &answers(&test)[0].0;
    assert!(asked.starts_with("File `mean.py`:\n\n```python\ndef mean"), "{asked}");
    test.get_by_label("Show mean.py").click();
    test.run_steps(6);
    assert!(test.query_by_label_contains("return sum(xs)").is_some());
    // Files alone may go.
    drop_files(&test, &[("figures.csv", b"a,b\n1,2\n")]);
    until(&mut test, "the file", |window| window.state.chat.draft.files.len() == 1);
    test.run_steps(3);
    test.get_by_label("Send").click();
    until(&mut test, "the second question", |window| window.state.chat.tree.len() >= 3);
    idle(&mut test);
    assert!(answers(&test)[2].0.starts_with("File `figures.csv`"));
}

#[test]
fn an_export_that_is_dropped_becomes_chats() {
    let folder = tempfile::tempdir().unwrap();
    let engine = double::start(Script::saying("x"));
    let mut test = open_with(engine, folder, [1100.0, 700.0], settings(ThemeChoice::Light));
    until(&mut test, "a model", |window| window.state.has_model());
    let export = br#"[{"title":"Rooflines","create_time":1700000000,"current_node":"b","mapping":{
        "a":{"parent":null,"message":{"author":{"role":"user"},"content":{"content_type":"text","parts":["What is a roofline?"]}}},
        "b":{"parent":"a","message":{"author":{"role":"assistant"},"content":{"content_type":"text","parts":["A bound."]}}}}}]"#;
    drop_files(&test, &[("conversations.json", export)]);
    until(&mut test, "the chat", |window| !window.state.sidebar.sessions.is_empty());
    let session = window(&test).state.sidebar.sessions[0].id;
    until(&mut test, "the rows", |_| true);
    window(&test).inbox().push(Msg::Chat(ChatMsg::Open(session)));
    until(&mut test, "its messages", |window| {
        window.state.chat.session == Some(session) && window.state.chat.tree.len() == 2
    });
    let texts: Vec<String> = answers(&test).into_iter().map(|(text, _)| text).collect();
    assert_eq!(texts, ["What is a roofline?", "A bound."]);
    // The page where it can be asked for.
    window(&test).inbox().push(Msg::Settings(SettingsMsg::Page(SettingsPage::Data)));
    window(&test).inbox().push(Msg::Show(Screen::Settings));
    test.run_steps(6);
    assert!(test.query_by_label("Export to import").is_some());
}
