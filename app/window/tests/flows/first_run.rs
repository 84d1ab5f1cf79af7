//! The first run: machine, model, go, and every way out of it.

use super::support::*;
use dspark_window::state::{FirstRunMsg, Step};

fn first_run(state: &mut State, message: FirstRunMsg) -> Vec<Effect> {
    update(state, Msg::FirstRun(message))
}

fn surveyed(state: &mut State) {
    let entry = ModelEntry {
        name: "here".into(),
        path: "/models/here".into(),
        detail: String::new(),
        source: String::new(),
        bytes: 98,
        fit: Fit::default(),
        problem: None,
        ..ModelEntry::default()
    };
    let survey = Survey {
        installed: vec![entry],
        ..Survey::default()
    };
    update(state, snapshot(EngineState::NoModel, None));
    update(state, Msg::Models(ModelsMsg::Surveyed(survey)));
}

fn load(state: &mut State) -> Vec<Effect> {
    update(state, Msg::Models(ModelsMsg::Start));
    assert_eq!(state.first_step(), Step::Go);
    update(state, Msg::Models(ModelsMsg::LoadEvent(LoadEvent::Ready(info("here")))))
}

fn measures(effects: &[Effect]) -> bool {
    effects.iter().any(|effect| matches!(effect, Effect::Measure(_)))
}

fn done() -> FirstRunMsg {
    let Event::Finished(summary) = summary(FinishReason::Length) else {
        panic!()
    };
    FirstRunMsg::Measured(Ok(summary))
}

#[test]
fn three_steps_and_a_figure() {
    let mut state = state();
    surveyed(&mut state);
    assert_eq!((state.is_first_run(), state.first_step()), (true, Step::Check));
    let effects = first_run(&mut state, FirstRunMsg::Next);
    assert_eq!(state.first_step(), Step::Pick);
    assert!(
        effects
            .iter()
            .any(|effect| matches!(effect, Effect::SaveSettings(settings) if settings.general.welcomed))
    );
    assert!(measures(&load(&mut state)));
    assert!(state.is_first_run() && state.first_step() == Step::Go);
    first_run(&mut state, done());
    assert!(!state.is_first_run());
    assert_eq!(state.truth().unwrap().words(), "5 tok/s, plain decoding");
    // Another model is another machine's worth.
    update(&mut state, snapshot(EngineState::Ready, Some("other")));
    assert!(state.truth().is_none());
}

#[test]
fn every_step_can_be_skipped() {
    for steps in 0..2 {
        let mut state = state();
        surveyed(&mut state);
        for _ in 0..steps {
            first_run(&mut state, FirstRunMsg::Next);
        }
        first_run(&mut state, FirstRunMsg::Skip);
        assert!(!state.is_first_run() && state.settings.general.welcomed);
    }
    let mut state = state();
    surveyed(&mut state);
    load(&mut state);
    assert_eq!(first_run(&mut state, FirstRunMsg::Skip), [Effect::CancelMeasure]);
    assert!(!state.is_first_run() && state.truth().is_none());
    first_run(&mut state, done());
    assert!(state.truth().is_none(), "too late");
}

#[test]
fn failures_and_cancels_lead_back_to_the_choice() {
    let mut state = state();
    surveyed(&mut state);
    update(&mut state, Msg::Models(ModelsMsg::Start));
    let failed = LoadEvent::Failed(EngineError::Cancelled);
    update(&mut state, Msg::Models(ModelsMsg::CancelLoad));
    update(&mut state, Msg::Models(ModelsMsg::LoadEvent(failed)));
    assert_eq!((state.is_first_run(), state.first_run.going), (true, false));
    // Without a figure the chat begins all the same.
    assert!(measures(&load(&mut state)));
    first_run(&mut state, FirstRunMsg::Measured(Err(EngineError::Stopped)));
    assert!(!state.is_first_run() && state.truth().is_none());
}

#[test]
fn what_a_person_writes_goes_before_the_trial() {
    let mut state = state();
    surveyed(&mut state);
    update(&mut state, Msg::Models(ModelsMsg::Start));
    say(&mut state, "hello");
    assert!(state.chat.waiting);
    let effects = update(&mut state, Msg::Models(ModelsMsg::LoadEvent(LoadEvent::Ready(info("here")))));
    assert!(!measures(&effects) && effects.iter().any(|effect| matches!(effect, Effect::Submit { .. })));
    // And in the middle of it.
    let mut state = self::state();
    surveyed(&mut state);
    load(&mut state);
    let effects = say(&mut state, "hello");
    assert!(effects.contains(&Effect::CancelMeasure));
    assert!(!state.is_first_run());
}

#[test]
fn it_can_be_asked_for_again() {
    let mut state = ready();
    state.settings.general.welcomed = true;
    assert!(!state.is_first_run());
    first_run(&mut state, FirstRunMsg::Again);
    assert_eq!((state.is_first_run(), state.first_step()), (true, Step::Check));
    first_run(&mut state, FirstRunMsg::Skip);
    assert!(!state.is_first_run());
    // A second start begins with the models.
    let mut settings = Settings::default();
    settings.general.welcomed = true;
    let state = State::new(settings, PathBuf::from("/data"), (1, 1), Clock::now());
    assert_eq!(state.first_step(), Step::Pick);
}
