//! The engine thread on a toy model: models that come and go, the first look and the end.
#![allow(clippy::unwrap_used)]

mod toy;

use dspark_engine::{
    engine::start,
    protocol::{EngineError, EngineState, FinishReason, LoadEvent, Prompt},
};
use std::{
    sync::atomic::Ordering::SeqCst,
    time::{Duration, Instant},
};
use toy::{bench, load, options, prompt, read, request, request_load};

#[test]
fn without_a_model_requests_are_told_so() {
    let switches = std::sync::Arc::default();
    let engine = start(options(&switches));
    let answer = read(engine.submit(request(prompt("abc"), 3)).unwrap());
    assert_eq!(answer.end, Err(EngineError::NoModel));
    assert!(matches!(engine.codec(), Err(EngineError::NoModel)));
    engine.shutdown();
}

#[test]
fn a_load_reports_stages_swaps_the_model_and_publishes_its_codec() {
    let bench = bench();
    bench.switches.load_steps.store(8, SeqCst);
    let mut loading = bench.engine.load(request_load("other")).unwrap();
    let mut stages = Vec::new();
    let info = loop {
        match loading.next_blocking().unwrap() {
            LoadEvent::Stage { stage, done, total } => stages.push((format!("{stage:?}"), done, total)),
            LoadEvent::Ready(info) => break info,
            LoadEvent::Failed(error) => panic!("{error}"),
        }
    };
    assert!(loading.next_blocking().is_none());
    assert_eq!(stages[0].0, "Checking");
    assert_eq!(stages.last().unwrap(), &("Reading".into(), 8, 8));
    assert_eq!((info.name.as_str(), info.context_window), ("other", 4096));
    let now = bench.engine.snapshot();
    assert_eq!(now.model.as_ref().unwrap().name, "other");
    assert_eq!(now.state, EngineState::Ready);
    let codec = bench.engine.codec().unwrap();
    assert_eq!(codec.encode(&Prompt::Text("ab".into())).unwrap(), [97, 98]);
    assert_eq!(codec.decode(&[97, 98]), "ab");
}

#[test]
fn a_failed_cancelled_or_panicking_load_leaves_the_old_model_in_place() {
    let bench = bench();
    let expected = bench.ask(request(prompt("steady"), 12));
    let check = |what: &str| {
        let now = bench.engine.snapshot();
        assert_eq!(
            (now.model.as_ref().unwrap().name.as_str(), &now.state),
            ("toy", &EngineState::Ready),
            "{what}"
        );
        let answer = bench.ask(request(prompt("steady"), 12));
        assert_eq!(answer.ids(), expected.ids(), "{what}");
        assert!(bench.engine.codec().is_ok());
    };
    assert!(matches!(load(&bench.engine, "fail"), Err(EngineError::Load { reason, .. }) if reason == "planted"));
    check("a failure");
    assert!(matches!(load(&bench.engine, "panic"), Err(EngineError::Load { reason, .. }) if reason.contains("planted panic")));
    check("a panic");
    bench.switches.load_steps.store(1000, SeqCst);
    let mut loading = bench.engine.load(request_load("slow load")).unwrap();
    while !matches!(loading.next_blocking().unwrap(), LoadEvent::Stage { done: 1.., .. }) {}
    loading.cancel();
    loop {
        match loading.next_blocking().unwrap() {
            LoadEvent::Failed(EngineError::Cancelled) => break,
            LoadEvent::Stage { done, .. } => assert!(done < 100),
            other => panic!("{other:?}"),
        }
    }
    check("a cancel");
}

/// Cases mf-006 and mf-007: a window is a cap, and one that cannot be met is never silently less.
/// Where memory does not hold both: preflight before release, release before load, and back again on failure.
#[test]
fn a_model_that_is_given_up_comes_back_where_the_new_one_does_not_load() {
    let bench = bench();
    bench.switches.huge.store(true, SeqCst);
    let first = bench.engine.snapshot().model.clone().unwrap();
    let loads = || bench.switches.loads.load(SeqCst);
    let before = loads();
    let refused = load(&bench.engine, "unfit").unwrap_err();
    assert!(refused.to_string().contains("configuration"), "{refused}");
    assert_eq!(loads(), before, "nothing was loaded");
    let now = bench.engine.snapshot();
    assert_eq!(now.model.as_ref().unwrap().loaded_at, first.loaded_at, "and nothing given up");

    let failed = load(&bench.engine, "fail").unwrap_err();
    assert!(failed.to_string().contains("planted"), "{failed}");
    assert_eq!(loads(), before + 2, "the new one, and the old one again");
    assert_eq!(bench.engine.snapshot().model.as_ref().unwrap().name, first.name);
    assert!(bench.engine.codec().is_ok());
    assert!(read(bench.engine.submit(request(prompt("abc"), 3)).unwrap()).end.is_ok());

    load(&bench.engine, "other").unwrap();
    assert_eq!(bench.engine.snapshot().model.as_ref().unwrap().name, "other");

    // Neither loads: the engine stays up, without a model, and says both.
    bench.switches.fail_again.store(true, SeqCst);
    let both = load(&bench.engine, "third").unwrap_err().to_string();
    assert!(both.contains("`other`") && both.contains("again"), "{both}");
    assert!(bench.engine.snapshot().model.is_none());
    bench.switches.fail_again.store(false, SeqCst);
    load(&bench.engine, "fourth").unwrap();
    assert!(read(bench.engine.submit(request(prompt("abc"), 3)).unwrap()).end.is_ok());
}

/// What this machine cannot hold at all is loaded only for those who insist, whether something is loaded already or not.
#[test]
fn a_model_larger_than_the_machine_wants_insistence() {
    let bench = bench();
    let loads = || bench.switches.loads.load(SeqCst);
    let before = loads();
    bench.switches.vast.store(true, SeqCst);
    for name in ["first", "second"] {
        let refused = load(&bench.engine, name).unwrap_err();
        assert!(matches!(&refused, EngineError::Refused { model, .. } if model == name), "{refused}");
        assert!(refused.to_string().contains("`--force`"), "{refused}");
        assert_eq!(loads(), before, "nothing was loaded");
        if bench.engine.snapshot().model.is_some() {
            assert!(read(bench.engine.submit(request(prompt("abc"), 3)).unwrap()).end.is_ok());
            bench.engine.unload().unwrap();
            while bench.engine.snapshot().model.is_some() {
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
        }
    }
    let insisted = dspark_engine::protocol::LoadRequest {
        force: true,
        ..request_load("third")
    };
    let mut loading = bench.engine.load(insisted).unwrap();
    while !matches!(loading.next_blocking().unwrap(), LoadEvent::Ready(_)) {}
    assert_eq!(bench.engine.snapshot().model.as_ref().unwrap().name, "third");
}

#[test]
fn the_context_window_is_honoured_or_refused() {
    let bench = bench();
    let with = |window| dspark_engine::protocol::LoadRequest {
        context_window: Some(window),
        ..request_load("windowed")
    };
    let verdict = |window| {
        let mut loading = bench.engine.load(with(window)).unwrap();
        loop {
            match loading.next_blocking().unwrap() {
                LoadEvent::Ready(info) => return Ok(info.context_window),
                LoadEvent::Failed(error) => return Err(error),
                LoadEvent::Stage { .. } => {}
            }
        }
    };
    assert_eq!(verdict(50), Ok(50));
    assert_eq!(
        bench.ask(request(vec![1; 50], 5)).end,
        Err(EngineError::ContextOverflow { prompt: 50, window: 50 })
    );
    assert_eq!(bench.ask(request(vec![1; 48], 5)).ids().len(), 2);
    assert_eq!(verdict(0), Ok(4096));
    let refused = verdict(200_000).unwrap_err();
    // The one who asked is at fault, not the model: a 400 over HTTP.
    assert!(matches!(refused, EngineError::BadRequest(_)), "{refused:?}");
    let refused = refused.to_string();
    assert!(refused.contains("200000") && refused.contains("4096"), "{refused}");
    assert_eq!(bench.engine.snapshot().model.as_ref().unwrap().context_window, 4096);
}

#[test]
fn a_warm_up_leaves_no_trace() {
    let bench = bench();
    let warm = dspark_engine::protocol::LoadRequest {
        warm_up: true,
        ..request_load("toy")
    };
    let mut loading = bench.engine.load(warm).unwrap();
    let mut warmed = false;
    while let Some(event) = loading.next_blocking() {
        warmed |= matches!(
            event,
            LoadEvent::Stage {
                stage: dspark_engine::protocol::LoadStage::WarmingUp,
                ..
            }
        );
    }
    assert!(warmed && bench.switches.forwards.load(SeqCst) > 10);
    assert!(bench.engine.rounds().since(None).is_empty());
    assert_eq!(bench.engine.snapshot().totals, dspark_engine::protocol::Totals::default());
    assert_eq!(bench.ask(request(prompt("abc"), 3)).started, Some((3, 0)));
}

#[test]
fn commands_are_heard_in_the_middle_of_a_load() {
    let bench = bench();
    bench.switches.load_steps.store(30, SeqCst);
    let mut loading = bench.engine.load(request_load("new model")).unwrap();
    while !matches!(loading.next_blocking().unwrap(), LoadEvent::Stage { done: 1.., .. }) {}
    let waits = bench.engine.submit(request(prompt("abc"), 3)).unwrap();
    let leaves = bench.engine.submit(request(prompt("abc"), 3)).unwrap();
    bench.until("both to queue", |now| now.requests.len() == 2);
    assert!(matches!(bench.engine.snapshot().state, EngineState::Loading { .. }));
    leaves.cancel();
    assert_eq!(read(leaves).end, Err(EngineError::Cancelled));
    assert_eq!(read(waits).ids().len(), 3);
    assert_eq!(bench.engine.snapshot().model.as_ref().unwrap().name, "new model");
}

#[test]
fn a_load_during_a_generation_comes_after_it() {
    let bench = bench();
    bench.switches.delay_us.store(2_000, SeqCst);
    let running = bench.engine.submit(request(prompt("abc"), 50)).unwrap();
    bench.until("generation", |now| matches!(now.state, EngineState::Generating { .. }));
    let mut loading = bench.engine.load(request_load("next one")).unwrap();
    assert!(matches!(loading.next_blocking(), Some(LoadEvent::Stage { .. })), "heard at once");
    let after = bench.engine.submit(request(prompt("abc"), 5)).unwrap();
    assert_eq!(read(running).ids().len(), 50);
    assert_eq!(read(after).ids().len(), 5);
    while let Some(event) = loading.next_blocking() {
        assert!(!matches!(event, LoadEvent::Failed(_)));
    }
    assert_eq!(bench.engine.snapshot().model.as_ref().unwrap().name, "next one");
}

#[test]
fn unloading_leaves_an_engine_that_loads_again() {
    let bench = bench();
    bench.ask(request(prompt("abc"), 3));
    let done = bench.engine.unload().unwrap();
    done.blocking_recv().unwrap().unwrap();
    let now = bench.engine.snapshot();
    assert_eq!(
        (&now.state, now.model.is_none(), now.context_tokens),
        (&EngineState::NoModel, true, 0)
    );
    assert_eq!(bench.ask(request(prompt("abc"), 3)).end, Err(EngineError::NoModel));
    load(&bench.engine, "toy").unwrap();
    assert_eq!(bench.ask(request(prompt("abc"), 3)).ids().len(), 3);
}

#[test]
fn shutdown_ends_what_runs_and_refuses_what_waits() {
    let bench = bench();
    bench.switches.delay_us.store(3_000, SeqCst);
    let running = bench.engine.submit(request(prompt("abc"), 4000)).unwrap();
    bench.until("generation", |now| matches!(now.state, EngineState::Generating { .. }));
    let waiting = bench.engine.submit(request(prompt("abc"), 3)).unwrap();
    bench.engine.shutdown();
    assert_eq!(read(running).summary().finish, FinishReason::Cancelled);
    assert!(matches!(read(waiting).end, Err(EngineError::Stopped | EngineError::Cancelled)));
    bench.until("the end", |now| now.state == EngineState::Stopped);
    assert!(matches!(bench.engine.submit(request(prompt("abc"), 3)), Err(EngineError::Stopped)));
}

#[test]
fn work_under_way_is_finished_when_the_last_handle_goes() {
    let switches = std::sync::Arc::default();
    let engine = start(options(&switches));
    load(&engine, "toy").unwrap();
    let (first, second) = (
        engine.submit(request(prompt("abc"), 400)).unwrap(),
        engine.submit(request(prompt("abc"), 5)).unwrap(),
    );
    let mut seen = engine.subscribe();
    drop(engine);
    assert_eq!(read(first).ids().len(), 400);
    assert_eq!(read(second).ids().len(), 5);
    let begun = Instant::now();
    while seen.borrow_and_update().state != EngineState::Stopped {
        assert!(begun.elapsed() < Duration::from_secs(10));
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn a_failed_self_test_keeps_the_engine_from_serving() {
    let switches = std::sync::Arc::default();
    for test in [
        (|| Err("this machine computes wrong".to_owned())) as fn() -> Result<(), String>,
        || panic!("this machine computes wrong"),
    ] {
        let engine = start(dspark_engine::EngineOptions {
            self_test: test,
            ..options(&switches)
        });
        let begun = Instant::now();
        loop {
            match &engine.snapshot().state {
                EngineState::Error { reason } => break assert!(reason.contains("computes wrong")),
                _ => assert!(begun.elapsed() < Duration::from_secs(10)),
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(matches!(engine.submit(request(prompt("abc"), 3)), Err(EngineError::Stopped)));
    }
}
