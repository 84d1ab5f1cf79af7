//! Races and benchmarks as messages in and effects out.

use super::support::*;
use dspark_compare::{Arm, Bench, KEPT_RACES, Lane, News, Piece, Progress, Race, Run, Stamp, Verdict};
use dspark_protocol::double::speculation::drafting;
use dspark_window::state::{BenchAs, BenchMsg, Comparing, Extent, LANES, LabMsg, LabView, RaceMsg, ShareAs};

fn race(state: &mut State, message: RaceMsg) -> Vec<Effect> {
    update(state, message.into())
}

fn bench(state: &mut State, message: BenchMsg) -> Vec<Effect> {
    update(state, message.into())
}

/// With a pair that drafts.
fn paired() -> State {
    let mut state = state();
    let now = Snapshot {
        state: EngineState::Ready,
        model: Some(info("starter")),
        speculation: Some(Arc::new(drafting())),
        ..Snapshot::default()
    };
    update(&mut state, Msg::Snapshot(Arc::new(now)));
    state
}

fn way(state: &State, name: &str) -> Arm {
    state.ways().into_iter().find(|way| way.arm.name() == name).unwrap().arm
}

fn lane(arm: Arm, seconds: f64) -> Lane {
    Lane {
        arm,
        name: arm.name(),
        effective_mode: Mode::Dspark,
        reason: None,
        cap: None,
        tokens: 4,
        seconds,
        prefill_seconds: 0.1,
        tok_s: 4.0 / seconds,
        decode_tok_s: 4.0 / seconds,
        accept: 1.0,
        target_forwards: 4,
        lookup_rounds: 0,
        verdict: None,
        ids: vec![1, 2, 3, 4],
        pieces: vec![Piece {
            at: seconds,
            tokens: 4,
            text: "a b c d".into(),
        }],
    }
}

fn ran(at: u64) -> Race {
    let mut fast = lane(
        Arm {
            mode: Mode::Auto,
            options: None,
        },
        1.0,
    );
    fast.verdict = Some(Verdict::Identical);
    Race {
        stamp: Stamp { at, ..Stamp::default() },
        prompt: "hi".into(),
        max_tokens: 4,
        thinking: None,
        beside: Vec::new(),
        stopped: None,
        lanes: vec![fast, lane(Arm::plain(), 2.0)],
    }
}

fn wished(effects: &[Effect]) -> dspark_compare::Wish {
    match effects {
        [Effect::Race(wish)] => (**wish).clone(),
        other => panic!("no race: {other:?}"),
    }
}

#[test]
fn a_race_runs_what_was_chosen_against_plain_decoding() {
    let mut state = paired();
    race(&mut state, RaceMsg::Prompt("count to ten".into()));
    race(&mut state, RaceMsg::Tokens(50));
    let cap = way(&state, "dspark cap 4");
    race(&mut state, RaceMsg::Toggle(cap));
    let wish = wished(&race(&mut state, RaceMsg::Start));
    let names: Vec<String> = wish.arms.iter().map(Arm::name).collect();
    assert_eq!(names, ["auto", "dspark cap 4", "baseline"]);
    assert_eq!((wish.prompt.as_str(), wish.max_tokens), ("count to ten", 50));
    assert_eq!(state.comparing(), Some(Comparing::Race));
    assert!(race(&mut state, RaceMsg::Start).is_empty(), "one at a time");
    assert!(bench(&mut state, BenchMsg::Start).is_empty(), "never both");
}

#[test]
fn two_to_four_lanes_of_what_the_pair_can_run() {
    let mut state = paired();
    let usual = way(&state, "auto");
    race(&mut state, RaceMsg::Toggle(usual));
    assert_eq!(state.race_arms(), [usual], "somebody must race");
    for name in ["dspark", "lookup", "dspark cap 2"] {
        let arm = way(&state, name);
        race(&mut state, RaceMsg::Toggle(arm));
    }
    assert_eq!(state.race_arms().len() + 1, LANES);
    let refused = state.ways().into_iter().find(|way| way.arm.mode == Mode::Dflash).unwrap();
    assert!(refused.unfit.unwrap().contains("is a dspark one"));
    // Another model has no drafter: what it cannot run is no longer chosen.
    update(&mut state, snapshot(EngineState::Ready, Some("other")));
    let names: Vec<String> = state.race_arms().iter().map(Arm::name).collect();
    assert_eq!(names, ["auto", "lookup"]);
    assert!(wished(&race(&mut state, RaceMsg::Start)).arms.last().unwrap().is_plain());
}

#[test]
fn nothing_starts_without_a_model_or_a_prompt() {
    let mut state = state();
    assert!(race(&mut state, RaceMsg::Start).is_empty());
    assert!(bench(&mut state, BenchMsg::Start).is_empty());
    let mut state = paired();
    race(&mut state, RaceMsg::Prompt("  \n".into()));
    assert!(race(&mut state, RaceMsg::Start).is_empty());
}

#[test]
fn lanes_fill_while_they_run_and_the_replay_begins_by_itself() {
    let mut state = paired();
    race(&mut state, RaceMsg::Start);
    race(&mut state, RaceMsg::News(News::Begun(0)));
    for text in ["one ", "two"] {
        let piece = Piece {
            at: 0.1,
            tokens: 1,
            text: text.into(),
        };
        race(&mut state, RaceMsg::News(News::Piece { lane: 0, piece }));
    }
    let running = state.lab.race.running.as_ref().unwrap();
    assert_eq!((running.lanes[0].text.as_str(), running.lanes[0].tokens), ("one two", 2));
    race(&mut state, RaceMsg::News(News::Done(Box::new(lane(Arm::plain(), 1.0)))));
    assert!(state.lab.race.running.as_ref().unwrap().lanes[0].done.is_some());
    let kept = race(&mut state, RaceMsg::Ended(Ok(Box::new(ran(7)))));
    assert!(matches!(&kept[..], [Effect::KeepRaces { folder, races }] if folder == std::path::Path::new("/data") && races.len() == 1));
    let replay = state.lab.race.replay.unwrap();
    assert!(replay.is_running(state.clock.instant) && replay.length() == 2.0);
    race(&mut state, RaceMsg::Skip);
    assert!(state.lab.race.replay.unwrap().is_over(state.clock.instant));
    // Without motion it stands at its end.
    state.settings.appearance.reduce_motion = true;
    let shown = state.lab.race.races[0].clone();
    race(&mut state, RaceMsg::Show(shown));
    assert!(!state.lab.race.replay.unwrap().is_running(state.clock.instant));
}

#[test]
fn a_race_is_cancelled_fails_and_is_asked_for_again() {
    let mut state = paired();
    race(&mut state, RaceMsg::Start);
    assert_eq!(race(&mut state, RaceMsg::Cancel), [Effect::CancelComparison]);
    assert!(state.lab.race.running.as_ref().unwrap().stopping);
    race(&mut state, RaceMsg::Cancelled);
    assert!(state.lab.race.cancelled && state.comparing().is_none());
    assert_eq!(wished(&race(&mut state, RaceMsg::Start)).arms.len(), 2);
    assert!(!state.lab.race.cancelled);
    race(&mut state, RaceMsg::Ended(Err("the engine has stopped".into())));
    assert_eq!(state.lab.race.failure.as_deref(), Some("the engine has stopped"));
    assert!(race(&mut state, RaceMsg::Cancel).is_empty(), "nothing is left to cancel");
}

#[test]
fn the_last_twenty_come_back_and_are_read_once() {
    let mut state = paired();
    assert_eq!(
        update(&mut state, Msg::Lab(LabMsg::View(LabView::Race))),
        [Effect::ReadHistory("/data".into())]
    );
    assert!(update(&mut state, Msg::Lab(LabMsg::View(LabView::Benchmark))).is_empty());
    race(&mut state, RaceMsg::Known((0..20).map(ran).collect()));
    race(&mut state, RaceMsg::Start);
    race(&mut state, RaceMsg::Ended(Ok(Box::new(ran(99)))));
    let kept = &state.lab.race.races;
    assert_eq!((kept.len(), kept[0].stamp.at, kept[19].stamp.at), (KEPT_RACES, 99, 18));
}

#[test]
fn a_race_is_shared_as_a_picture_and_as_data() {
    let mut state = paired();
    assert!(
        race(&mut state, RaceMsg::Share(ShareAs::Picture)).is_empty(),
        "there is nothing to share yet"
    );
    race(&mut state, RaceMsg::Show(Arc::new(ran(3))));
    let shared = race(&mut state, RaceMsg::Share(ShareAs::Picture));
    assert!(matches!(&shared[..], [Effect::SaveRaceCard(race)] if race.stamp.at == 3));
    let shared = race(&mut state, RaceMsg::Share(ShareAs::Data));
    let [Effect::SaveFile { name, text }] = &shared[..] else {
        panic!("{shared:?}")
    };
    assert_eq!(name, "mlx-dspark-race.json");
    let back: Race = serde_json::from_str(text).unwrap();
    assert_eq!(back, ran(3));
}

#[test]
fn quitting_asks_while_something_is_measured() {
    let mut state = paired();
    bench(&mut state, BenchMsg::Start);
    assert!(update(&mut state, Msg::Quit).is_empty());
    assert!(state.confirm_quit.as_ref().unwrap().contains("benchmark"));
}

fn benched(at: u64, rate: f64, target: &str) -> Bench {
    Bench {
        stamp: Stamp {
            at,
            target: target.into(),
            ..Stamp::default()
        },
        runs: vec![Run {
            run: "auto".into(),
            decode_tok_s: rate,
            ..Run::default()
        }],
        ..Bench::default()
    }
}

#[test]
fn a_benchmark_measures_what_the_command_line_does() {
    let mut state = paired();
    let effects = bench(&mut state, BenchMsg::Start);
    let [Effect::Bench(quick)] = &effects[..] else {
        panic!("{effects:?}")
    };
    assert_eq!((quick.texts.len(), quick.trials), (5, 1));
    bench(&mut state, BenchMsg::Cancelled);
    assert!(state.lab.bench.cancelled);
    bench(&mut state, BenchMsg::Extent(Extent::Full));
    let effects = bench(&mut state, BenchMsg::Start);
    let [Effect::Bench(full)] = &effects[..] else {
        panic!("{effects:?}")
    };
    assert_eq!((full.texts.len(), full.trials, full.max_tokens), (13, 3, 200));
    let at = Progress {
        done: 4,
        of: 8,
        arm: "auto".into(),
        turn: 1,
        kind: "chat".into(),
    };
    bench(&mut state, BenchMsg::Progress(at));
    let running = state.lab.bench.running.as_ref().unwrap();
    let left = running.left(running.since + Duration::from_secs(10)).unwrap();
    let expected = 10.0 / 4.0 * (running.of - 4) as f64;
    assert!((left - expected).abs() < 1e-6, "{left}");
    assert_eq!(bench(&mut state, BenchMsg::Cancel), [Effect::CancelComparison]);
}

#[test]
fn a_benchmark_stands_beside_the_last_one_of_the_same_pair() {
    let mut state = paired();
    let known = vec![benched(3, 50.0, "other"), benched(2, 60.0, "starter"), benched(1, 70.0, "starter")];
    bench(&mut state, BenchMsg::Known(known));
    assert_eq!(state.lab.bench.shown.as_ref().unwrap().stamp.at, 3);
    assert!(state.lab.bench.against.is_none(), "nothing of the same pair is older");
    bench(&mut state, BenchMsg::Start);
    let kept = bench(&mut state, BenchMsg::Ended(Ok(Box::new(benched(4, 45.0, "starter")))));
    let lab = &state.lab.bench;
    assert!(matches!(&kept[..], [Effect::KeepBench { bench, .. }] if bench.stamp.at == 4 && bench.skipped.len() == 1));
    assert_eq!(
        (lab.shown.as_ref().unwrap().stamp.at, lab.against.as_ref().unwrap().stamp.at),
        (4, 2)
    );
    let change = lab.shown.as_ref().unwrap().change(lab.against.as_ref().unwrap(), "auto").unwrap();
    assert!(change.clear && change.ratio < 1.0, "a regression is seen");
    let exported = bench(&mut state, BenchMsg::Export(BenchAs::Json));
    let [Effect::SaveFile { text, .. }] = &exported[..] else {
        panic!("{exported:?}")
    };
    let both: serde_json::Value = serde_json::from_str(text).unwrap();
    assert_eq!(both["benchmarks"].as_array().unwrap().len(), 2);
    // One does not stand beside itself.
    let shown = state.lab.bench.shown.clone();
    bench(&mut state, BenchMsg::Against(shown));
    assert!(state.lab.bench.against.is_none());
}
