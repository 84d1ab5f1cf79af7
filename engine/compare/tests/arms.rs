//! Races and benchmarks on the scripted engine: what is run, in which order, and what is kept when it ends early.
#![allow(clippy::unwrap_used)]

use dspark_compare::{Arm, Bench, News, Plan, Race, Text, Verdict, Wish, measure, race, ways};
use dspark_protocol::{
    EngineError, EngineHandle, Mode,
    double::{self, Script},
};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

fn wish(arms: Vec<Arm>) -> Wish {
    Wish {
        prompt: "count to ten".into(),
        options: dspark_protocol::TemplateOptions::default(),
        max_tokens: 200,
        arms,
        version: "0.0 (test)".into(),
    }
}

async fn ready(script: Script) -> EngineHandle {
    let engine = double::start(script);
    let mut changes = engine.subscribe();
    changes.wait_for(|now| now.model.is_some()).await.unwrap();
    engine
}

fn arm(name: &str, engine: &EngineHandle) -> Arm {
    let state = engine.snapshot().speculation.clone();
    let all = ways(state.as_deref());
    all.into_iter().find(|way| way.arm.name() == name).unwrap().arm
}

#[tokio::test]
async fn arms_run_in_order_and_their_moments_are_kept() {
    let engine = ready(
        Script::saying("one two three four five six seven eight nine ten")
            .drafting()
            .at(200.0),
    )
    .await;
    let arms = vec![arm("dspark", &engine), Arm::plain()];
    let mut order = Vec::new();
    let mut heard = [String::new(), String::new()];
    let race = race(&engine, &wish(arms), &CancellationToken::new(), &mut |news| match news {
        News::Begun(lane) => order.push(format!("begun {lane}")),
        News::Piece { lane, piece } => heard[lane].push_str(&piece.text),
        News::Done(lane) => order.push(format!("done {}", lane.name)),
        News::Judging => order.push("judging".into()),
    })
    .await
    .unwrap();
    assert_eq!(order, ["begun 0", "done dspark", "begun 1", "done baseline", "judging"]);
    let [fast, plain] = &race.lanes[..] else { panic!("two lanes") };
    assert_eq!(heard, [fast.text(), plain.text()]);
    assert_eq!(fast.verdict, Some(Verdict::Identical));
    assert_eq!(plain.verdict, None, "the reference is not judged by itself");
    for lane in &race.lanes {
        assert_eq!(lane.pieces.iter().map(|piece| piece.tokens).sum::<usize>(), lane.tokens);
        assert!(lane.pieces.windows(2).all(|pair| pair[0].at <= pair[1].at));
        assert_eq!(lane.seconds, lane.pieces.last().unwrap().at);
    }
    assert!(fast.pieces.len() < plain.pieces.len(), "drafts come several at a time");
    assert_eq!((race.stamp.target.as_str(), race.stamp.version.as_str()), ("double", "0.0 (test)"));
    assert!(race.stopped.is_none() && race.beside.is_empty());
    let back: Race = serde_json::from_str(&serde_json::to_string(&race).unwrap()).unwrap();
    assert_eq!(back, race);
}

#[tokio::test]
async fn another_text_is_judged_where_it_parts() {
    let answer = Arc::new(|request: &dspark_protocol::Request| {
        Ok(match request.mode {
            Mode::Baseline => "one two three four".to_owned(),
            _ => "one two".to_owned(),
        })
    });
    let script = Script {
        answer,
        ..Script::saying("").drafting()
    };
    let engine = ready(script).await;
    let arms = vec![arm("lookup", &engine), Arm::plain()];
    let race = race(&engine, &wish(arms), &CancellationToken::new(), &mut |_| {}).await.unwrap();
    assert_eq!(race.lanes[0].verdict, Some(Verdict::Shorter { at: 2 }));
}

#[tokio::test]
async fn finished_lanes_outlive_a_cancelled_race() {
    let engine = ready(Script::saying("word ".repeat(400)).drafting().at(400.0)).await;
    let cancel = CancellationToken::new();
    let arms = vec![arm("dspark", &engine), Arm::plain()];
    let stop = cancel.clone();
    let kept = race(&engine, &wish(arms.clone()), &cancel, &mut |news| {
        if matches!(news, News::Begun(1)) {
            stop.cancel();
        }
    })
    .await
    .unwrap();
    assert_eq!((kept.lanes.len(), kept.stopped.as_deref()), (1, Some("cancelled")));
    // Nothing was finished, nothing is kept.
    let nothing = race(&engine, &wish(arms), &cancel, &mut |_| {}).await;
    assert_eq!(nothing.unwrap_err(), EngineError::Cancelled);
}

#[tokio::test]
async fn another_model_ends_a_race() {
    let engine = ready(Script::saying("a b c").drafting()).await;
    let arms = vec![arm("dspark", &engine), Arm::plain()];
    let other = engine.clone();
    let race = race(&engine, &wish(arms), &CancellationToken::new(), &mut |news| {
        if matches!(news, News::Done(_)) {
            drop(other.unload());
            while other.snapshot().model.is_some() {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        }
    })
    .await
    .unwrap();
    assert_eq!(race.lanes.len(), 1);
    assert!(race.stopped.unwrap().contains("no model"));
}

#[tokio::test]
async fn a_benchmark_runs_every_prompt_by_every_arm_in_turns() {
    let engine = ready(Script::saying("word ".repeat(40)).drafting()).await;
    let text = |kind: &str| Text {
        kind: kind.into(),
        text: "say something".into(),
    };
    let plan = Plan {
        arms: vec![arm("dspark", &engine), Arm::plain()],
        texts: vec![text("chat"), text("code")],
        max_tokens: 30,
        trials: 2,
        version: "0.0".into(),
    };
    let mut seen = Vec::new();
    let bench = measure(&engine, &plan, &CancellationToken::new(), &mut |at| seen.push(at))
        .await
        .unwrap();
    assert_eq!((seen.len(), plan.generations()), (10, 10));
    let steps: Vec<String> = seen
        .iter()
        .map(|at| format!("{} {} {} {}", at.done, at.turn, at.kind, at.arm))
        .collect();
    assert_eq!(
        &steps[..4],
        ["0 0 chat baseline", "1 0 chat dspark", "2 1 chat baseline", "3 1 chat dspark"]
    );
    assert_eq!(steps[9], "9 2 code dspark");
    let names: Vec<&str> = bench.runs.iter().map(|run| run.run.as_str()).collect();
    assert_eq!(names, ["baseline", "dspark"]);
    assert_eq!(bench.kinds, ["chat", "code"]);
    let drafted = &bench.runs[1].per_kind["code"];
    assert!(drafted.accept > 1.5 && drafted.same_text, "{drafted:?}");
    assert!((bench.runs[0].speedup - 1.0).abs() < 1e-9);
    let back: Bench = serde_json::from_str(&serde_json::to_string(&bench).unwrap()).unwrap();
    assert_eq!(back, bench);

    let cancel = CancellationToken::new();
    let stop = cancel.clone();
    let ended = measure(&engine, &plan, &cancel, &mut |at| {
        if at.done == 4 {
            stop.cancel();
        }
    })
    .await;
    assert_eq!(ended.unwrap_err(), EngineError::Cancelled);
}
