//! The Lab and what replies say of their drafts, in the whole window: found by name, clicked, and as pictures.
#![allow(clippy::unwrap_used)]

mod stage;

use dspark_protocol::double::{
    Script,
    speculation::{drafting, parked},
};
use dspark_window::{
    settings::ThemeChoice,
    state::{LabView, Screen},
};
use egui::{Key, Modifiers, accesskit::Role};
use egui_kittest::kittest::Queryable;
use stage::{idle, open, picture, scene, send, until, window};
use std::time::{Duration, Instant};

fn words(count: usize) -> String {
    "one two three four five ".repeat(count.div_ceil(5))
}

fn to_lab(test: &mut stage::Test) {
    test.key_press_modifiers(Modifiers::COMMAND, Key::Num2);
    test.run_steps(4);
    assert_eq!(window(test).state.screen, Screen::Lab);
}

#[test]
fn live_shows_the_rounds_of_a_reply() {
    let mut test = open(Script::saying(words(400)).drafting());
    to_lab(&mut test);
    test.get_by_label("Nothing has been decoded yet");
    test.get_by_label("Write a message").click();
    test.run_steps(3);
    assert_eq!(window(&test).state.screen, Screen::Chat, "the one action leads on");
    send(&mut test, "go");
    idle(&mut test);
    assert!(window(&test).state.lab.rounds.is_empty(), "nothing is read while nobody looks");
    to_lab(&mut test);
    let rounds = window(&test).state.lab.rounds.len();
    assert!(rounds > 100, "{rounds}");
    test.get_by_role_and_label(Role::Figure, &format!("Accept ribbon, {rounds} rounds"));
    test.get_by_label_contains("Drafting. Up to 4 tokens drafted a round");
    for label in [
        "Decode rate",
        "Kept by position",
        "Tokens per round",
        "Where tokens came from: Drafter",
    ] {
        assert!(
            test.query_all_by(|node| node.role() == Role::Figure && node.label().is_some_and(|found| found.starts_with(label)))
                .next()
                .is_some(),
            "{label}"
        );
    }
    // The figures are those of the rounds.
    let stats = dspark_protocol::RoundStats::of(&window(&test).state.lab.rounds);
    test.get_by_label(&format!("Accepted per round {:.2} tokens", stats.mean_accept_len()));
    test.get_by_label("Source Chat ");
    let kept = &stats.positions[0];
    let share = format!("d₀ {:.0}%", 100.0 * kept.accepted as f64 / kept.offered as f64);
    test.get_by_label(&share);
}

#[test]
fn the_picture_is_held_and_goes_on() {
    let mut test = open(Script::saying(words(4000)).drafting().at(400.0));
    send(&mut test, "go");
    to_lab(&mut test);
    until(&mut test, "rounds", |window| window.state.lab.rounds.len() > 10);
    test.get_by_role_and_label(Role::Button, "Hold the picture").click();
    test.run_steps(2);
    let held = window(&test).state.lab.shown().count();
    until(&mut test, "more rounds", |window| window.state.lab.rounds.len() > held + 5);
    assert_eq!(window(&test).state.lab.shown().count(), held);
    test.get_by_role_and_label(Role::Button, "Go on").click();
    test.run_steps(2);
    assert!(window(&test).state.lab.shown().count() > held);
    test.key_press(Key::Escape);
    idle(&mut test);
}

#[test]
fn parked_is_explained() {
    let script = Script {
        speculation: parked(),
        ..Script::saying(words(60))
    };
    let mut test = open(script);
    send(&mut test, "go");
    idle(&mut test);
    to_lab(&mut test);
    test.get_by_label_contains("Parked. Plain steps for now: drafts are taken too seldom");
    assert!(test.query_by_label_contains("Accept ribbon").is_none(), "nothing was drafted");
    test.get_by_role_and_label(Role::Tab, "Curves").click();
    test.run_steps(4);
    test.get_by_label("Chosen draft cap Parked ");
    test.get_by_label_contains("Parked: at 18 % acceptance");
}

#[test]
fn curves_show_what_a_round_costs_and_the_cap_that_follows() {
    let mut test = open(Script::saying("ok").drafting());
    to_lab(&mut test);
    test.get_by_role_and_label(Role::Tab, "Curves").click();
    test.run_steps(4);
    assert_eq!(window(&test).state.lab.view, LabView::Curves);
    test.get_by_role_and_label(Role::Figure, "Verify time: 36.7 ms at 1 to 62.7 ms at 8 rows");
    test.get_by_label("5 rows: 40.6 ms");
    test.get_by_label("Chosen draft cap 4 of 7");
    test.get_by_label_contains("A 5th draft would push verify past the knee: 12.2 ms more");
    for (cap, rate) in drafting().predicted {
        let name = if cap == 0 { "off".into() } else { cap.to_string() };
        test.get_by_label(&format!("{name} {rate:.1}"));
    }
    test.get_by_label("Drafter: double-dspark");
    test.get_by_label("32k").click();
    test.run_steps(3);
    assert!(window(&test).state.lab.depth.tokens() == Some(32 << 10));
    test.get_by_label("Measure again").click();
    until(&mut test, "the model to be back", |window| {
        window.state.has_model() && window.state.models.loading.is_none()
    });
}

#[test]
fn without_a_drafter_the_curves_say_why_and_lead_to_the_settings() {
    let mut test = open(Script::saying("ok"));
    to_lab(&mut test);
    test.get_by_role_and_label(Role::Tab, "Curves").click();
    test.run_steps(4);
    test.get_by_label_contains("no drafter is known for this model");
    test.get_by_label("Decoding settings").click();
    test.run_steps(4);
    assert_eq!(window(&test).state.screen, Screen::Settings);
    test.get_by_label_contains("Now: Plain");
}

#[test]
fn decoding_settings_are_applied_with_one_reload() {
    let mut test = open(Script::saying("ok").drafting());
    test.key_press_modifiers(Modifiers::COMMAND, Key::Comma);
    test.run_steps(3);
    test.get_by_role_and_label(Role::Tab, "Decoding").click();
    test.run_steps(4);
    test.get_by_label_contains("Now: DSpark with double-dspark");
    assert!(test.query_by_label("Reload now").is_none());
    test.get_by_role_and_label(Role::RadioButton, "None").click();
    test.run_steps(3);
    test.get_by_label("One change needs a reload");
    test.get_by_label("Reload now").click();
    until(&mut test, "the reload", |window| window.state.models.loading.is_none());
    test.run_steps(3);
    assert_eq!(
        window(&test).state.settings.decoding.drafter,
        dspark_window::settings::DrafterChoice::Off
    );
    assert!(window(&test).state.decoding.is_none());
}

#[test]
fn a_reply_has_its_tiles_its_tints_and_its_reason() {
    let mut test = open(Script::saying(words(200)).drafting());
    send(&mut test, "go");
    idle(&mut test);
    test.get_by_label_contains("Mode: DSpark cap 4");
    test.get_by_label_contains("Accept: ");
    test.get_by_label_contains("Plain: ");
    assert!(test.query_by_label_contains("Decoded without drafts").is_none());

    let refusing = Script {
        refuses: Some("the grammar allows one token at a time".into()),
        ..Script::saying("short").drafting()
    };
    let mut test = open(refusing);
    send(&mut test, "go");
    idle(&mut test);
    test.get_by_label("Decoded without drafts: the grammar allows one token at a time.");
    test.get_by_label("Mode: Plain");
}

/// Case ui-002 for the Lab: nothing is decoded, nothing is drawn.
#[test]
fn an_idle_lab_asks_for_no_frames() {
    let mut test = open(Script::saying(words(100)).drafting());
    send(&mut test, "go");
    idle(&mut test);
    to_lab(&mut test);
    std::thread::sleep(Duration::from_millis(400));
    test.run_steps(20);
    let delay = test.output().viewport_output[&egui::ViewportId::ROOT].repaint_delay;
    assert!(delay > Duration::from_hours(1), "the window wants to be drawn again in {delay:?}");
}

/// While the window is hidden, rounds stay where they are.
#[test]
fn a_hidden_window_reads_no_rounds() {
    let mut test = open(Script::saying(words(100_000)).drafting().at(300.0));
    send(&mut test, "go");
    to_lab(&mut test);
    until(&mut test, "rounds", |window| !window.state.lab.rounds.is_empty());
    test.state_mut().window.as_mut().unwrap().state.window_visible = false;
    let before = window(&test).state.lab.after();
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_millis(300) {
        test.step();
    }
    assert_eq!(window(&test).state.lab.after(), before);
    test.state_mut().window.as_mut().unwrap().state.window_visible = true;
    until(&mut test, "the rest", |window| window.state.lab.after() > before);
    test.key_press(Key::Escape);
    idle(&mut test);
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
    picture_live_dark: Live Dark 1280.0 800.0;
    picture_live_light: Live Light 1280.0 800.0;
    picture_live_dark_narrow: Live Dark 900.0 640.0;
    picture_live_parked_light: LiveParked Light 1280.0 800.0;
    picture_live_plain_dark: LivePlain Dark 1280.0 800.0;
    picture_live_empty_dark: LiveEmpty Dark 1280.0 800.0;
    picture_lab_no_model_light: LabNoModel Light 1280.0 800.0;
    picture_curves_dark: Curves Dark 1280.0 800.0;
    picture_curves_light: Curves Light 1280.0 800.0;
    picture_curves_light_narrow: Curves Light 900.0 640.0;
    picture_curves_parked_dark: CurvesParked Dark 1280.0 800.0;
    picture_curves_empty_light: CurvesEmpty Light 1280.0 800.0;
    picture_machine_dark: Machine Dark 1280.0 800.0;
    picture_machine_light: Machine Light 1280.0 800.0;
    picture_machine_light_narrow: Machine Light 900.0 640.0;
    picture_machine_empty_dark: MachineEmpty Dark 1280.0 800.0;
    picture_decoding_dark: Decoding Dark 1280.0 800.0;
    picture_decoding_light_narrow: Decoding Light 900.0 640.0;
}

fn to_machine(test: &mut stage::Test) {
    to_lab(test);
    test.get_by_role_and_label(Role::Tab, "This machine").click();
    test.run_steps(3);
    assert_eq!(window(test).state.lab.view, LabView::Machine);
}

#[test]
fn this_machine_measures_its_memory_and_judges_the_last_reply() {
    let mut test = open(Script::saying(words(60)).drafting());
    send(&mut test, "go");
    idle(&mut test);
    to_machine(&mut test);
    until(&mut test, "the measurement", |window| window.state.bandwidth().is_some());
    until(&mut test, "the weights", |window| window.state.footprint().is_some());
    until(&mut test, "the memory", |window| window.state.lab.machine.reading.is_some());
    test.run_steps(3);
    test.get_by_label_contains("Memory bandwidth 226");
    test.get_by_label("Method: 512 MiB matvec, median of 10");
    test.get_by_label_contains("Read per token 8.04 GB read per token");
    let state = &window(&test).state;
    let (ceiling, reply) = (state.ceiling(0).unwrap(), *state.lab.machine.replies.back().unwrap());
    assert!((ceiling - 226.0 / 8.04).abs() < 0.01, "{ceiling}");
    let times = reply.rate / state.ceiling(reply.context).unwrap();
    assert!(
        state
            .judgement()
            .findings
            .iter()
            .any(|finding| finding.contains(&format!("{times:.2}×"))),
        "{:?}",
        state.judgement()
    );
    test.get_by_label("No swap growth in the last reply");
    test.get_by_label_contains("Plain-decode ceiling: 28.1 tok/s at 0");
    // It is read back at the next start.
    let path = test.state().folder.path().join("bandwidth.json");
    until(&mut test, "the file", move |_| path.exists());
    // And what moves the number leads on.
    test.get_by_label("See what would fit").click();
    test.run_steps(2);
    assert_eq!(window(&test).state.screen, Screen::Models);
}

#[test]
fn this_machine_is_read_only_while_somebody_looks() {
    let mut test = open(Script::saying("ok"));
    test.run_steps(5);
    assert!(window(&test).state.lab.machine.reading.is_none());
    assert!(window(&test).state.bandwidth().is_none(), "nothing is measured unasked");
    to_machine(&mut test);
    until(&mut test, "the memory", |window| window.state.lab.machine.reading.is_some());
    test.get_by_label("Measure again").click();
    until(&mut test, "the measurement", |window| {
        window.state.bandwidth().is_some() && !window.state.lab.machine.measuring
    });
}
