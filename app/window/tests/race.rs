//! Race and Benchmark in the whole window, on the scripted engine: found by name, clicked, and as pictures.
#![allow(clippy::unwrap_used)]

mod stage;

use dspark_protocol::double::Script;
use dspark_window::{
    screens::race_card,
    settings::ThemeChoice,
    state::{BenchMsg, LabView, Screen},
};
use egui::{Key, accesskit::Role};
use egui_kittest::kittest::Queryable;
use stage::{open, picture, scene, until, window};

const TEXT: &str = "one two three four five six seven eight nine ten ";

fn to(test: &mut stage::Test, tab: &str, view: LabView) {
    test.key_press_modifiers(egui::Modifiers::COMMAND, Key::Num2);
    test.run_steps(4);
    test.get_by_role_and_label(Role::Tab, tab).click();
    test.run_steps(4);
    assert_eq!(window(test).state.lab.view, view);
}

fn racing(test: &mut stage::Test) {
    to(test, "Race", LabView::Race);
    test.get_by_label("Start the race").click();
    test.run_steps(3);
}

#[test]
fn a_race_is_run_judged_replayed_and_kept() {
    let mut test = open(Script::saying(TEXT.repeat(12)).drafting());
    racing(&mut test);
    until(&mut test, "the end of the race", |window| window.state.lab.race.shown.is_some());
    test.run_steps(4);
    test.get_by_role_and_label(Role::Group, "Lane 1, As in chat, DSpark, cap 4");
    test.get_by_role_and_label(Role::Group, "Lane 2, Plain, one token a pass");
    test.get_by_label_contains("Identical output");
    test.get_by_label_contains("All 120 token ids match plain decoding");
    test.get_by_label("Identical");
    // Over and over, to any moment.
    test.get_by_role_and_label(Role::Button, "Replay").click();
    test.run_steps(1);
    test.get_by_role_and_label(Role::Button, "Skip to the end").click();
    test.run_steps(2);
    let over = |test: &stage::Test| {
        let state = &window(test).state;
        state.lab.race.replay.unwrap().is_over(state.clock.instant)
    };
    assert!(over(&test));
    test.get_by_role_and_label(Role::Slider, "Moment of the replay").focus();
    test.run_steps(1);
    test.key_press(Key::ArrowLeft);
    test.run_steps(2);
    assert!(!over(&test), "the arrows move it");
    // It is read back at the next start.
    let path = test.state().folder.path().join(dspark_compare::RACES);
    let written = path.clone();
    until(&mut test, "the file", move |_| written.exists());
    let kept = dspark_compare::read_races(&path).unwrap();
    assert_eq!(kept, [(**window(&test).state.lab.race.shown.as_ref().unwrap()).clone()]);
}

#[test]
fn lanes_are_chosen_by_name_and_what_cannot_be_run_says_why() {
    let mut test = open(Script::saying(TEXT).drafting());
    to(&mut test, "Race", LabView::Race);
    test.get_by_role_and_label(Role::Button, "Lanes").click();
    test.run_steps(4);
    test.get_by_label_contains("DFlash, the loaded drafter `double-dspark` is a dspark one");
    test.get_by_label("DSpark, cap 4").click();
    test.run_steps(3);
    test.get_by_label("Lookup, repeated text").click();
    test.run_steps(3);
    assert_eq!(window(&test).state.race_arms().len(), 3, "the menu stays open for several");
    assert!(test.query_all_by_label("DSpark, Four lanes at most").count() > 2);
    test.key_press(Key::Escape);
    test.run_steps(3);
    test.get_by_label("Start the race").click();
    until(&mut test, "the end of the race", |window| window.state.lab.race.shown.is_some());
    test.run_steps(3);
    test.get_by_role_and_label(Role::Group, "Lane 4, Plain, one token a pass");
}

#[test]
fn a_cancelled_race_keeps_its_finished_lanes() {
    // The first lane is soon done, the second takes its time.
    let answer = std::sync::Arc::new(|request: &dspark_protocol::Request| {
        let plain = request.mode == dspark_protocol::Mode::Baseline;
        Ok(TEXT.repeat(if plain { 60 } else { 1 }))
    });
    let script = Script {
        answer,
        ..Script::saying("").drafting().at(20.0)
    };
    let mut test = open(script);
    racing(&mut test);
    until(&mut test, "the second lane", |window| {
        let running = window.state.lab.race.running.as_ref();
        running.is_some_and(|running| running.at == 1 && running.lanes[1].tokens > 0)
    });
    test.get_by_role_and_label(Role::Button, "Cancel").click();
    until(&mut test, "the end", |window| window.state.lab.race.running.is_none());
    test.run_steps(3);
    test.get_by_label_contains("Ended early. 1 of its lanes were done before it ended: cancelled.");

    // Before any lane is done nothing is left of it, and one action leads on.
    let mut test = open(Script::saying(TEXT.repeat(60)).drafting().at(20.0));
    racing(&mut test);
    until(&mut test, "a token", |window| {
        let running = window.state.lab.race.running.as_ref();
        running.is_some_and(|running| running.lanes[0].tokens > 0)
    });
    test.get_by_role_and_label(Role::Button, "Cancel").click();
    until(&mut test, "the end", |window| window.state.lab.race.running.is_none());
    test.run_steps(3);
    test.get_by_label("Cancelled");
    test.get_by_label("Race again").click();
    test.run_steps(2);
    assert!(window(&test).state.lab.race.running.is_some());
}

#[test]
fn a_race_that_cannot_be_run_says_why() {
    let script = Script {
        answer: std::sync::Arc::new(|_| Err(dspark_protocol::EngineError::Compute("no memory was left".into()))),
        ..Script::saying("").drafting()
    };
    let mut test = open(script);
    racing(&mut test);
    until(&mut test, "the failure", |window| window.state.lab.race.failure.is_some());
    test.run_steps(3);
    test.get_by_label_contains("The race could not be run. the computation failed: no memory was left");
    test.get_by_label("Try again").click();
    until(&mut test, "the failure again", |window| window.state.lab.race.failure.is_some());
}

#[test]
fn the_palette_starts_shares_and_finds_them() {
    let mut test = open(Script::saying(TEXT).drafting());
    let run = |test: &mut stage::Test, query: &str| {
        test.key_press_modifiers(egui::Modifiers::COMMAND, Key::K);
        test.run_steps(3);
        window(test)
            .inbox()
            .push(dspark_window::state::Msg::Palette(dspark_window::state::PaletteMsg::Query(
                query.into(),
            )));
        test.run_steps(3);
        test.key_press(Key::Enter);
        test.run_steps(3);
    };
    run(&mut test, "Race ways of decoding");
    until(&mut test, "the end of the race", |window| window.state.lab.race.shown.is_some());
    assert_eq!(
        (window(&test).state.screen, window(&test).state.lab.view),
        (Screen::Lab, LabView::Race)
    );
    run(&mut test, "Lab: Benchmark");
    assert_eq!(window(&test).state.lab.view, LabView::Benchmark);
    run(&mut test, "Run the benchmark");
    until(&mut test, "the end of the benchmark", |window| {
        window.state.lab.bench.shown.is_some()
    });
}

#[test]
fn a_benchmark_is_measured_and_kept_with_those_of_the_command_line() {
    let mut test = open(Script::saying(TEXT.repeat(8)).drafting());
    let path = test.state().folder.path().join(dspark_compare::BENCHES);
    dspark_compare::append_bench(&path, &scene::race::benches()[1]).unwrap();
    to(&mut test, "Benchmark", LabView::Benchmark);
    until(&mut test, "the one of before", |window| window.state.lab.bench.all.len() == 1);
    test.run_steps(2);
    test.get_by_label("Benchmark of Qwen3-8B-8bit");
    test.get_by_role_and_label(Role::Button, "Measure").click();
    until(&mut test, "the end", |window| window.state.lab.bench.all.len() == 2);
    test.run_steps(4);
    test.get_by_label("Benchmark of double");
    for head in ["Decode tok/s", "Chat", "Code", "Copy"] {
        test.get_by_role_and_label(Role::ColumnHeader, head);
    }
    test.get_by_label_contains("As in chat: ");
    test.get_by_label_contains("DFlash, best cap was not run: the loaded drafter");
    until(&mut test, "the line", move |_| {
        dspark_compare::read_benches(&path).unwrap().len() == 2
    });
    assert!(window(&test).state.lab.bench.against.is_none(), "that one is of another machine");
}

#[test]
fn a_benchmark_says_how_far_it_is_and_is_cancelled() {
    let mut test = open(Script::saying(TEXT.repeat(30)).drafting().at(120.0));
    to(&mut test, "Benchmark", LabView::Benchmark);
    test.get_by_label("Measure now").click();
    until(&mut test, "the first generation", |window| {
        let running = window.state.lab.bench.running.as_ref();
        running.is_some_and(|running| running.at.is_some())
    });
    test.run_steps(2);
    test.get_by_role_and_label(Role::ProgressIndicator, "Warming up: Plain");
    window(&test).inbox().push(BenchMsg::Cancel.into());
    until(&mut test, "the end", |window| window.state.lab.bench.running.is_none());
    test.run_steps(2);
    test.get_by_label("Cancelled: nothing is kept of half a benchmark.");
    assert!(!test.state().folder.path().join(dspark_compare::BENCHES).exists());
}

/// What is shared is drawn by the same program everywhere, pixel by pixel.
#[test]
fn the_share_card_shows_model_machine_figures_and_verdict() {
    for (name, race) in [("share_card_two", scene::race::two()), ("share_card_four", scene::race::four())] {
        let file = race_card(&race).unwrap();
        let image = image::load_from_memory(&file).unwrap().to_rgba8();
        assert_eq!(image.dimensions(), (1200, 630));
        egui_kittest::image_snapshot(&image, name);
    }
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
    picture_race_dark: Race Dark 1280.0 800.0;
    picture_race_light: Race Light 1280.0 800.0;
    picture_race_dark_narrow: Race Dark 900.0 640.0;
    picture_race_four_dark: RaceFour Dark 1280.0 800.0;
    picture_race_four_light_narrow: RaceFour Light 900.0 640.0;
    picture_race_running_light: RaceRunning Light 1280.0 800.0;
    picture_race_earlier_dark: RaceEarlier Dark 1280.0 800.0;
    picture_race_empty_light: RaceEmpty Light 1280.0 800.0;
    picture_benchmark_dark: Benchmark Dark 1280.0 800.0;
    picture_benchmark_light: Benchmark Light 1280.0 800.0;
    picture_benchmark_light_narrow: Benchmark Light 900.0 640.0;
    picture_benchmark_empty_dark: BenchmarkEmpty Dark 1280.0 800.0;
}
