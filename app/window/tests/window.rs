//! The whole window on a scripted engine, steered as a person would: found by name, clicked, typed into.
#![allow(clippy::unwrap_used)]

mod stage;

use dspark_protocol::double::{self, Script};
use dspark_sessions::{MessageState, Store};
use dspark_window::{
    settings::{Settings, ThemeChoice},
    state::{ChatMsg, Msg, Screen},
};
use egui::{Event, ImeEvent, Key, Modifiers, accesskit::Role};
use egui_kittest::kittest::Queryable;
use stage::Test;
use stage::{answers, idle, open, open_with, picture, scene, send, settings, until, window};
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

#[test]
fn a_message_is_typed_sent_and_answered() {
    let mut test = open(Script::saying("Hello **there**, with `code`."));
    send(&mut test, "hi");
    idle(&mut test);
    assert_eq!(answers(&test)[1], ("Hello **there**, with `code`.".into(), MessageState::Done));
    test.get_by_label("Hello there, with code.");
    test.get_by_label_contains("Reply: 4 tokens");
    assert_eq!(window(&test).state.chat.draft.text, "");
    // The same is on disk.
    let session = window(&test).state.chat.session.unwrap();
    let folder = test.state().folder.path().to_path_buf();
    let mut stage = test.into_state();
    stage.window.as_mut().unwrap().close();
    let store = Store::open(&folder).unwrap().store;
    let tree = store.tree(session).unwrap();
    assert_eq!(tree.leaf().unwrap().text, "Hello **there**, with `code`.");
    assert_eq!(store.session(session).unwrap().unwrap().title, "hi");
}

/// Case ui-001: Enter that belongs to the input method never sends.
#[test]
fn enter_of_an_input_method_does_not_send() {
    let mut test = open(Script::saying("hai"));
    let mut test = {
        test.get_by_label("Message").focus();
        test.run_steps(2);
        test
    };
    let preedit = |text: &str| {
        Event::Ime(ImeEvent::Preedit {
            text: text.into(),
            active_range_chars: None,
        })
    };
    test.event(preedit("nihongo"));
    test.run_steps(1);
    test.key_down(Key::Enter);
    test.run_steps(1);
    test.event(Event::Ime(ImeEvent::Commit("nihongo!".into())));
    test.run_steps(1);
    test.key_up(Key::Enter);
    test.run_steps(2);
    assert!(window(&test).state.chat.tree.is_empty(), "nothing was sent");
    assert_eq!(window(&test).state.chat.draft.text, "nihongo!");
    // All in one frame, as some systems send them.
    let enter = Event::Key {
        key: Key::Enter,
        physical_key: None,
        pressed: true,
        repeat: false,
        modifiers: Modifiers::NONE,
    };
    test.input_mut()
        .events
        .extend([preedit("go"), Event::Ime(ImeEvent::Commit(" go".into())), enter]);
    test.run_steps(2);
    assert!(window(&test).state.chat.tree.is_empty());
    test.key_press(Key::Enter);
    test.run_steps(2);
    assert_eq!(answers(&test)[0].0, "nihongo! go");
}

#[test]
fn shift_enter_breaks_the_line() {
    let mut test = open(Script::saying("ok"));
    test.get_by_label("Message").focus();
    test.run_steps(2);
    test.get_by_label("Message").type_text("one");
    test.run_steps(1);
    test.key_press_modifiers(Modifiers::SHIFT, Key::Enter);
    test.run_steps(1);
    test.get_by_label("Message").type_text("two");
    test.run_steps(2);
    assert_eq!(window(&test).state.chat.draft.text, "one\ntwo");
    assert!(window(&test).state.chat.tree.is_empty());
}

#[test]
fn stop_continue_and_another_answer() {
    let long = "word ".repeat(400);
    let mut test = open(Script::saying(long).at(60.0));
    send(&mut test, "talk");
    until(&mut test, "some words", |window| {
        window.state.live().is_some_and(|live| live.tokens > 3)
    });
    test.get_by_label("Stop").click();
    idle(&mut test);
    assert_eq!(answers(&test)[1].1, MessageState::Stopped);
    let kept = answers(&test)[1].0.len();
    test.get_by_label("Stopped");
    test.get_by_label("Continue").click();
    until(&mut test, "more words", |window| {
        window.state.live().is_some_and(|live| live.tokens > 2)
    });
    test.key_press(Key::Escape);
    idle(&mut test);
    assert!(answers(&test)[1].0.len() > kept, "it went on in the same message");
    test.get_by_label("Another answer").click();
    until(&mut test, "another answer", |window| {
        window.state.live().is_some_and(|live| live.tokens > 2)
    });
    test.key_press(Key::Escape);
    idle(&mut test);
    test.get_by_label("2/2");
    test.get_by_label("Previous alternative").click();
    test.run_steps(3);
    test.get_by_label("1/2");
}

/// Escape takes the keyboard from the field, and so does a button; what is typed next is still a message.
#[test]
fn typing_goes_on_after_an_answer_was_stopped() {
    let mut test = open(Script::saying("word ".repeat(400)).at(60.0));
    send(&mut test, "talk");
    until(&mut test, "some words", |window| {
        window.state.live().is_some_and(|live| live.tokens > 3)
    });
    test.key_press(Key::Escape);
    idle(&mut test);
    test.run_steps(3);
    test.event(egui::Event::Text("more".into()));
    test.run_steps(2);
    assert_eq!(window(&test).state.chat.draft.text, "more");
    test.key_press_modifiers(Modifiers::COMMAND, Key::A);
    test.key_press(Key::Backspace);
    test.run_steps(2);
    test.get_by_label("Another answer").click();
    until(&mut test, "another answer", |window| {
        window.state.live().is_some_and(|live| live.tokens > 2)
    });
    test.key_press(Key::Escape);
    idle(&mut test);
    test.run_steps(3);
    test.key_press(Key::ArrowUp);
    test.run_steps(3);
    assert!(window(&test).state.chat.edit.is_some(), "up edits the last question");
}

#[test]
fn a_question_is_edited_and_sent_again() {
    let count = Arc::new(AtomicUsize::new(0));
    let counter = count.clone();
    let script = Script {
        answer: Arc::new(move |_| Ok(format!("answer {}", counter.fetch_add(1, Ordering::Relaxed)))),
        ..Script::saying("")
    };
    let mut test = open(script);
    send(&mut test, "first");
    idle(&mut test);
    test.get_by_label("Edit message").click();
    test.run_steps(3);
    let field = test.get_by(|node| node.role() == Role::MultilineTextInput && node.label().is_some_and(|label| label == "Edit message"));
    field.type_text(" again");
    test.run_steps(2);
    test.get_by_label("Send edited message").click();
    test.run_steps(2);
    idle(&mut test);
    let shown: Vec<String> = answers(&test).into_iter().map(|(text, _)| text).collect();
    assert_eq!(shown, ["first again", "answer 1"]);
    test.get_by_label("2/2");
}

#[test]
fn a_failure_shows_its_reason_and_retry_works() {
    let fails = Arc::new(AtomicUsize::new(1));
    let left = fails.clone();
    let script = Script {
        answer: Arc::new(move |_| {
            if left.load(Ordering::Relaxed) > 0 {
                left.fetch_sub(1, Ordering::Relaxed);
                Err(dspark_protocol::EngineError::Compute("the device is gone".into()))
            } else {
                Ok("better".into())
            }
        }),
        ..Script::saying("")
    };
    let mut test = open(script);
    send(&mut test, "hi");
    idle(&mut test);
    assert!(test.query_all_by_label_contains("the device is gone").next().is_some());
    test.get_by_label("Retry").click();
    test.run_steps(2);
    idle(&mut test);
    assert_eq!(answers(&test)[1], ("better".into(), MessageState::Done));
}

#[test]
fn chats_are_renamed_found_deleted_and_brought_back() {
    let mut test = open(Script::saying("The walrus sings at dusk."));
    send(&mut test, "Tell me of the sea");
    idle(&mut test);
    test.get_by_role_and_label(Role::Button, "Chat actions").click();
    test.run_steps(3);
    test.get_by_label_contains("Rename").click();
    test.run_steps(4);
    let field = test.get_by_label("Chat name");
    field.type_text("The sea and its beasts");
    test.run_steps(2);
    test.key_press(Key::Enter);
    test.run_steps(4);
    assert_eq!(window(&test).state.chat.title, "The sea and its beasts");

    test.key_press_modifiers(Modifiers::COMMAND | Modifiers::SHIFT, Key::F);
    test.run_steps(4);
    test.get_by_role_and_label(Role::TextInput, "Search chats").type_text("walrus");
    until(&mut test, "the hit", |window| {
        window.state.sidebar.hits.as_ref().is_some_and(|hits| hits.len() == 1)
    });
    test.key_press(Key::Escape);
    test.run_steps(3);

    test.key_press_modifiers(Modifiers::COMMAND | Modifiers::SHIFT, Key::Backspace);
    test.run_steps(4);
    assert!(window(&test).state.sidebar.sessions.is_empty());
    test.get_by_label("Undo").click();
    until(&mut test, "the chat", |window| {
        window.state.chat.session.is_some() && !window.state.chat.tree.is_empty()
    });
    assert_eq!(window(&test).state.sidebar.sessions.len(), 1);
}

#[test]
fn the_keyboard_goes_everywhere() {
    let mut test = open(Script::saying("ok"));
    for (key, screen) in [
        (Key::Num2, Screen::Lab),
        (Key::Num3, Screen::Models),
        (Key::Num4, Screen::Agents),
        (Key::Num5, Screen::Settings),
        (Key::Num1, Screen::Chat),
        (Key::Comma, Screen::Settings),
    ] {
        test.key_press_modifiers(Modifiers::COMMAND, key);
        test.run_steps(2);
        assert_eq!(window(&test).state.screen, screen);
    }
    test.key_press_modifiers(Modifiers::COMMAND, Key::L);
    test.run_steps(3);
    test.get_by_label("On disk");
    test.key_press(Key::Escape);
    test.run_steps(2);
    assert!(!window(&test).state.models.picker_open);
    test.key_press_modifiers(Modifiers::COMMAND, Key::N);
    test.run_steps(2);
    assert_eq!(window(&test).state.screen, Screen::Chat);
    assert!(test.get_by_label("Message").is_focused());
    send(&mut test, "first question");
    idle(&mut test);
    test.get_by_label("Message").focus();
    test.run_steps(2);
    test.key_press(Key::ArrowUp);
    test.run_steps(3);
    assert_eq!(window(&test).state.chat.edit.as_ref().unwrap().text, "first question");
    test.key_press(Key::Escape);
    test.run_steps(2);
    assert!(window(&test).state.chat.edit.is_none());
}

#[test]
fn settings_are_changed_and_kept() {
    let mut test = open(Script::saying("ok"));
    test.key_press_modifiers(Modifiers::COMMAND, Key::Comma);
    test.run_steps(3);
    test.get_by_label("Light").click();
    test.run_steps(3);
    assert_eq!(window(&test).state.settings.appearance.theme, ThemeChoice::Light);
    test.get_by_label("Local server").click();
    test.run_steps(3);
    test.get_by_label("Serve other apps").click();
    test.run_steps(3);
    assert!(!window(&test).state.settings.server.enabled);
    let path = test.state().folder.path().join("settings.toml");
    until(&mut test, "the file", move |_| {
        Settings::load(&path).0.appearance.theme == ThemeChoice::Light
    });
}

#[test]
fn the_first_run_gets_a_model_and_then_answers() {
    let engine = double::start(Script {
        loaded: false,
        ..Script::saying("ready at last")
    });
    let mut test = open_with(engine, tempfile::tempdir().unwrap(), [1000.0, 760.0], settings(ThemeChoice::Dark));
    test.run_steps(3);
    test.get_by_label("Continue").click();
    test.run_steps(3);
    test.get_by_label("SmolLM2-135M-Instruct").click();
    test.run_steps(3);
    test.get_by_label("Get SmolLM2-135M-Instruct").click();
    until(&mut test, "the download", |window| window.state.models.fetching.is_some());
    // Written before there is a model, sent as soon as there is one.
    send(&mut test, "are you there");
    assert!(window(&test).state.chat.waiting);
    until(&mut test, "the model", |window| window.state.has_model());
    idle(&mut test);
    until(&mut test, "the answer", |window| {
        window.state.chat.tree.len() == 2 && window.state.lives.is_empty()
    });
    assert_eq!(answers(&test)[1].0, "ready at last");
    assert!(window(&test).state.truth().is_none(), "what was written went first");
}

#[test]
fn the_first_run_ends_with_one_line_of_truth() {
    let words = "one two three four five ".repeat(8);
    let engine = double::start(Script {
        loaded: false,
        ..Script::saying(words).drafting().at(20.0)
    });
    let mut test = open_with(engine, tempfile::tempdir().unwrap(), [1000.0, 760.0], settings(ThemeChoice::Dark));
    test.run_steps(3);
    test.get_by_label("Step 1 of 3");
    test.get_by_label_contains("Apple silicon . MLX runs on its graphics processor.");
    test.key_press(Key::Enter);
    test.run_steps(3);
    test.get_by_label("Step 2 of 3");
    assert!(window(&test).state.settings.general.welcomed);
    test.key_press(Key::Enter);
    until(&mut test, "the trial", |window| window.state.first_run.trial);
    test.run_steps(2);
    test.get_by_label("Step 3 of 3");
    test.get_by_label("Try a short reply: running");
    test.get_by_label("Read the weights: done");
    until(&mut test, "the line", |window| window.state.truth().is_some());
    test.run_steps(3);
    let truth = window(&test).state.truth().unwrap().clone();
    assert!(truth.rate > 1.0 && truth.tokens == 40, "{truth:?}");
    test.get_by_label(&truth.words());
    test.get_by_label("What is on your mind?");
    assert!(window(&test).state.chat.tree.is_empty() && window(&test).state.sidebar.sessions.is_empty());
}

#[test]
fn enter_takes_the_marked_model() {
    let engine = double::start(Script {
        loaded: false,
        ..Script::saying("ok")
    });
    let mut test = open_with(engine, tempfile::tempdir().unwrap(), [1000.0, 760.0], settings(ThemeChoice::Dark));
    test.run_steps(3);
    for _ in 0..2 {
        test.key_press(Key::Enter);
        test.run_steps(3);
    }
    until(&mut test, "the model", |window| window.state.has_model());
    assert_eq!(window(&test).state.engine.model.as_ref().unwrap().name, "Qwen3-8B-8bit");
}

#[test]
fn a_folder_that_is_no_model_is_refused_in_place() {
    let mut test = open(Script::saying("ok"));
    test.key_press_modifiers(Modifiers::COMMAND, Key::Num3);
    test.run_steps(3);
    test.get_by_label("On this machine").click();
    test.run_steps(3);
    test.get_by_label("Model folder").focus();
    test.run_steps(1);
    test.get_by_label("Model folder").type_text("/nowhere/at/all");
    test.run_steps(2);
    test.get_by_label("Load folder").click();
    until(&mut test, "the refusal", |window| window.state.models.path_error.is_some());
    test.run_steps(2);
    test.get_by_label_contains("there is no config.json");
}

/// Case ui-002: nothing happens, nothing is drawn.
#[test]
fn an_idle_window_asks_for_no_frames() {
    let mut test = open(Script::saying("done"));
    send(&mut test, "hi");
    idle(&mut test);
    // Counting tokens and the toasts' animations settle.
    std::thread::sleep(Duration::from_millis(400));
    test.run_steps(20);
    let output = test.output();
    let delay = output.viewport_output[&egui::ViewportId::ROOT].repaint_delay;
    assert!(delay > Duration::from_hours(1), "the window wants to be drawn again in {delay:?}");
}

/// While text streams the window is drawn about thirty times a second, however fast tokens come. Frames are drawn here
/// when they are asked for and not otherwise, as eframe does it.
#[test]
fn streaming_draws_thirty_frames_a_second() {
    let mut test = open(Script::saying("word ".repeat(2000)).at(800.0));
    send(&mut test, "go");
    let due: Arc<Mutex<Option<Instant>>> = Arc::default();
    let wake = due.clone();
    window(&test).inbox().on_wake(move |delay| {
        let at = Instant::now() + delay;
        let mut due = wake.lock().unwrap();
        *due = Some(due.map_or(at, |known| known.min(at)));
    });
    until(&mut test, "a first word", |window| {
        window.state.live().is_some_and(|live| live.tokens > 0)
    });
    let (begin, mut frames) = (Instant::now(), 0);
    let words = |test: &Test| window(test).state.live().map_or(0, |live| live.tokens);
    let before = words(&test);
    while begin.elapsed() < Duration::from_secs(1) {
        if due.lock().unwrap().is_some_and(|due| due <= Instant::now()) {
            *due.lock().unwrap() = None;
            test.step();
            frames += 1;
            let own = test.output().viewport_output[&egui::ViewportId::ROOT].repaint_delay;
            if own < Duration::from_secs(1) {
                let mut due = due.lock().unwrap();
                let at = Instant::now() + own;
                *due = Some(due.map_or(at, |known| known.min(at)));
            }
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!((3..=31).contains(&frames), "{frames} frames in a second");
    assert!(
        words(&test) > before + 100,
        "the text goes on: {} words in a second",
        words(&test) - before
    );
    test.key_press(Key::Escape);
    idle(&mut test);
}

/// A chat of 200,000 tokens: only what is seen is laid out, so a frame costs what a short chat costs.
#[test]
fn a_very_long_chat_lays_out_only_what_is_seen() {
    let folder = tempfile::tempdir().unwrap();
    {
        let store = Store::open(folder.path()).unwrap().store;
        let session = store.create_session("long");
        let mut parent = None;
        for turn in 0..400 {
            for role in [dspark_sessions::Role::User, dspark_sessions::Role::Assistant] {
                let text = format!(
                    "Turn {turn}. {}\n\n```rust\nlet x = {turn};\n```\n",
                    "Some words of text. ".repeat(80)
                );
                parent = Some(store.add_message(dspark_sessions::NewMessage::new(session, parent, role, text)));
            }
        }
        store.flush().unwrap();
    }
    let engine = double::start(Script::saying("ok"));
    let mut test = open_with(engine, folder, [1000.0, 700.0], settings(ThemeChoice::Dark));
    until(&mut test, "the list", |window| !window.state.sidebar.sessions.is_empty());
    let session = window(&test).state.sidebar.sessions[0].id;
    window(&test).inbox().push(Msg::Chat(ChatMsg::Open(session)));
    until(&mut test, "the chat", |window| window.state.chat.tree.len() == 800);
    test.run_steps(5);
    let seen = |test: &Test| {
        (0..400)
            .filter(|turn| test.query_all_by_label_contains(&format!("Turn {turn}. ")).next().is_some())
            .collect::<Vec<usize>>()
    };
    let shown = seen(&test);
    assert!(shown.contains(&399), "it opens at its end: {shown:?}");
    assert!(shown.len() < 12, "{shown:?} are laid out");
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
    picture_reply_dark: Reply Dark 1280.0 800.0;
    picture_reply_light_narrow: Reply Light 900.0 640.0;
    picture_first_run_check_dark: FirstRunCheck Dark 1280.0 800.0;
    picture_first_run_check_light: FirstRunCheck Light 900.0 640.0;
    picture_first_run_go_dark: FirstRunGo Dark 900.0 640.0;
    picture_first_run_go_light: FirstRunGo Light 1280.0 800.0;
    picture_first_run_dark: FirstRun Dark 1280.0 800.0;
    picture_first_run_light_narrow: FirstRun Light 900.0 640.0;
    picture_models_light: Models Light 1280.0 800.0;
    picture_settings_dark: Settings Dark 1280.0 800.0;
    picture_picker_light: Picker Light 1280.0 800.0;
    picture_empty_dark: Empty Dark 1280.0 800.0;
}

/// A toast above the composer leaves its button free; what it offers works.
#[test]
fn a_deleted_chat_comes_back_and_the_toast_is_not_in_the_way() {
    let mut test = open(Script::saying("answer"));
    send(&mut test, "keep this");
    idle(&mut test);
    test.key_press_modifiers(Modifiers::COMMAND | Modifiers::SHIFT, Key::Backspace);
    test.run_steps(6);
    assert!(answers(&test).is_empty());
    let toast = test.get_by_label("Chat deleted keep this").rect();
    for control in ["Message", "Send"] {
        let rect = test.get_by_label(control).rect();
        assert!(!rect.intersects(toast), "the toast covers {control}: {toast:?} {rect:?}");
    }
    test.get_by_label("Undo").click();
    test.run_steps(2);
    until(&mut test, "the chat", |window| window.state.chat.session.is_some());
    assert_eq!(answers(&test)[0].0, "keep this");
}

/// What is typed together with the Enter that ends a rename belongs to the name alone.
#[test]
fn a_rename_takes_its_letters_and_leaves_none_for_the_composer() {
    let mut test = open(Script::saying("answer"));
    send(&mut test, "hi");
    idle(&mut test);
    test.key_press_modifiers(Modifiers::COMMAND | Modifiers::SHIFT, Key::R);
    test.run_steps(4);
    test.event(Event::Text("Plans".into()));
    test.event(Event::Text(" B".into()));
    test.key_press(Key::Enter);
    test.run_steps(4);
    assert_eq!(
        window(&test).state.sidebar.sessions[0].title,
        "Plans B",
        "the old name was marked, and typed over"
    );
    assert_eq!(window(&test).state.chat.draft.text, "");
}

#[test]
fn enter_sends_an_edited_message() {
    let mut test = open(Script::saying("answer"));
    send(&mut test, "first");
    idle(&mut test);
    test.key_press(Key::ArrowUp);
    test.run_steps(4);
    test.event(Event::Text(" and".into()));
    test.key_press_modifiers(Modifiers::SHIFT, Key::Enter);
    test.event(Event::Text("more".into()));
    test.run_steps(2);
    test.key_press(Key::Enter);
    test.run_steps(2);
    idle(&mut test);
    assert_eq!(answers(&test)[0].0, "first and\nmore");
    test.get_by_label("2/2");
}
