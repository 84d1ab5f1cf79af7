//! Keys as they come from a fast hand or a slow machine: several in one frame, each with modifiers of its own. And fields that
//! keep the keyboard whatever happens around them.
#![allow(clippy::unwrap_used)]

mod stage;

use dspark_protocol::double::Script;
use dspark_window::state::{ModelsMsg, Msg, Screen, SettingsMsg, SettingsPage};
use egui::{Event, Key, Modifiers};
use egui_kittest::kittest::{NodeT, Queryable};
use stage::{Test, answers, idle, open, until, window};

/// A press as the window system tells it.
fn press(key: Key, modifiers: Modifiers) -> Event {
    Event::Key {
        key,
        physical_key: None,
        pressed: true,
        repeat: false,
        modifiers,
    }
}

/// All of this in one frame, at whose end nothing is held any more.
fn at_once(test: &mut Test, events: impl IntoIterator<Item = Event>) {
    test.input_mut().events.extend(events);
    test.run_steps(3);
}

fn composer(test: &mut Test) {
    test.get_by_label("Message").focus();
    test.run_steps(2);
}

#[test]
fn a_fast_shift_enter_breaks_the_line() {
    let mut test = open(Script::saying("Yes."));
    composer(&mut test);
    at_once(
        &mut test,
        [
            Event::Text("one".into()),
            press(Key::Enter, Modifiers::SHIFT),
            Event::Text("two".into()),
        ],
    );
    assert_eq!(window(&test).state.chat.draft.text, "one\ntwo");
    assert!(window(&test).state.chat.tree.is_empty());
}

#[test]
fn what_is_typed_after_enter_is_the_next_message() {
    let mut test = open(Script::saying("Yes."));
    composer(&mut test);
    at_once(&mut test, [Event::Text("first".into())]);
    at_once(&mut test, [press(Key::Enter, Modifiers::NONE), Event::Text("sec".into())]);
    at_once(&mut test, [Event::Text("ond".into())]);
    idle(&mut test);
    assert_eq!(answers(&test)[0].0, "first");
    assert_eq!(window(&test).state.chat.draft.text, "second");
}

#[test]
fn a_fast_chord_with_shift_is_not_the_one_without() {
    let mut test = open(Script::saying("Yes."));
    stage::send(&mut test, "Rename me");
    idle(&mut test);
    let chord = Modifiers {
        shift: true,
        ..Modifiers::COMMAND
    };
    at_once(&mut test, [press(Key::R, chord)]);
    assert!(window(&test).state.sidebar.rename.is_some());
    assert_eq!(answers(&test).len(), 2, "no other answer was asked for");
}

#[test]
fn the_port_is_changed_by_typing() {
    let mut test = open(Script::saying("Yes."));
    let before = window(&test).state.settings.server.port;
    window(&test).inbox().push(Msg::Settings(SettingsMsg::Page(SettingsPage::Server)));
    window(&test).inbox().push(Msg::Show(Screen::Settings));
    test.run_steps(4);
    test.get_by_label("Port").focus();
    test.run_steps(2);
    let focused = |test: &Test| test.get_by_label("Port").accesskit_node().is_focused();
    at_once(
        &mut test,
        [press(Key::A, Modifiers::COMMAND), press(Key::Backspace, Modifiers::NONE)],
    );
    for digit in ["9", "9", "9", "9", "9"] {
        at_once(&mut test, [Event::Text(digit.into())]);
        assert!(focused(&test), "after {digit}");
    }
    assert!(test.query_by_label_contains("from 1 to 65535").is_some());
    assert_eq!(window(&test).state.settings.server.port, before, "not a port yet");
    at_once(&mut test, [press(Key::Backspace, Modifiers::NONE)]);
    assert!(focused(&test));
    at_once(&mut test, [press(Key::Enter, Modifiers::NONE)]);
    assert_eq!(window(&test).state.settings.server.port, 9999);
}

#[test]
fn a_path_can_be_corrected_where_it_was_typed() {
    let mut test = open(Script::saying("Yes."));
    window(&test).inbox().push(Msg::Models(ModelsMsg::Picker(true)));
    test.run_steps(4);
    test.get_by_label("Model folder").focus();
    test.run_steps(2);
    at_once(&mut test, [Event::Text("/nowhere".into())]);
    at_once(&mut test, [press(Key::Enter, Modifiers::NONE)]);
    until(&mut test, "the error", |window| window.state.models.path_error.is_some());
    for letter in ["/", "a", "b"] {
        at_once(&mut test, [Event::Text(letter.into())]);
    }
    assert_eq!(window(&test).state.models.path, "/nowhere/ab");
}

#[test]
fn the_composer_stays_in_the_window_while_it_grows() {
    let mut test = open(Script::saying("Yes."));
    composer(&mut test);
    let bottom = |test: &Test| test.get_by_label("Send").rect().bottom();
    let before = bottom(&test);
    for line in 0..6 {
        test.input_mut()
            .events
            .extend([Event::Text(format!("line {line}")), press(Key::Enter, Modifiers::SHIFT)]);
        // One frame, as when nothing else asks for another.
        test.step();
        assert!(
            (bottom(&test) - before).abs() < 1.0,
            "line {line}: {} and before {before}",
            bottom(&test)
        );
    }
}
