//! The engine thread on a toy model: many requests, their readers, and those that leave.
#![allow(clippy::unwrap_used)]

mod toy;

use dspark_engine::{
    engine::{EngineOptions, start},
    protocol::{EngineError, EngineState, Event, FinishReason, LoadEvent, Message, Prompt, Request, TemplateOptions},
};
use std::{sync::atomic::Ordering::SeqCst, time::Duration};
use toy::{ToyLoader, bench, bench_with, load, options, prompt, read, read_rest, request, request_load};

#[test]
fn dropping_the_reader_ends_the_generation_within_a_round() {
    let bench = bench();
    bench.switches.delay_us.store(5_000, SeqCst);
    let mut generation = bench.engine.submit(request(prompt("abc"), 4000)).unwrap();
    while !matches!(generation.next_blocking(), Some(Event::Delta(_))) {}
    drop(generation);
    let before = bench.switches.forwards.load(SeqCst);
    bench.until("rest", |now| now.state == EngineState::Ready);
    // One round is in flight, one is scheduled ahead.
    let after = bench.switches.forwards.load(SeqCst);
    assert!(after - before <= 3, "{} more forwards", after - before);
    let totals = bench.engine.snapshot().totals;
    assert_eq!((totals.requests, totals.cancelled, totals.failed), (1, 1, 0));
}

#[test]
fn cancelling_ends_with_a_summary_of_what_was_there() {
    let bench = bench();
    bench.switches.delay_us.store(2_000, SeqCst);
    let mut generation = bench.engine.submit(request(prompt("abc"), 4000)).unwrap();
    while !matches!(generation.next_blocking(), Some(Event::Delta(_))) {}
    assert!(bench.engine.cancel(generation.id));
    let answer = read_rest(generation);
    let summary = answer.unwrap();
    assert_eq!(summary.finish, FinishReason::Cancelled);
    assert!(summary.usage.completion_tokens < 200);
    assert_eq!(summary.token_ids.len(), summary.usage.completion_tokens);
}

#[test]
fn a_cancel_during_prefill_is_honoured_between_chunks_and_keeps_what_was_computed() {
    let bench = bench();
    bench.switches.delay_us.store(20_000, SeqCst);
    let ids = prompt(&"z".repeat(2000));
    let mut generation = bench.engine.submit(request(ids.clone(), 10)).unwrap();
    while !matches!(generation.next_blocking(), Some(Event::Prefill { .. })) {}
    generation.cancel();
    assert_eq!(read_rest(generation).unwrap().finish, FinishReason::Cancelled);
    let done = bench.switches.forwards.load(SeqCst);
    assert!(done < 10, "{done} chunks of 63");
    bench.switches.delay_us.store(0, SeqCst);
    let warm = bench.ask(request(ids.clone(), 10));
    let (total, cached) = warm.started.unwrap();
    assert_eq!(total, 2000);
    assert!(cached >= 32 && cached % 32 == 0, "{cached}");
    assert_eq!(warm.ids(), toy::bench().ask(request(ids, 10)).ids());
}

#[test]
fn a_failure_ends_its_request_alone() {
    let bench = bench();
    bench.switches.panic_past.store(20, SeqCst);
    bench.switches.delay_us.store(1000, SeqCst);
    let first = bench.engine.submit(request(prompt("0123456789"), 50)).unwrap();
    let second = bench.engine.submit(request(prompt("abc"), 5)).unwrap();
    let first = read(first);
    let text = first.end.unwrap_err().to_string();
    assert!(text.contains("planted panic") && text.contains("the engine goes on"), "{text}");
    assert_eq!(read(second).ids().len(), 5);
    let totals = bench.engine.snapshot().totals;
    assert_eq!((totals.requests, totals.failed), (2, 1));
}

#[test]
fn a_slow_reader_is_waited_for_and_loses_nothing() {
    let bench = bench();
    let expected = bench.ask(request(prompt("slow"), 600));
    let generation = bench.engine.submit(request(prompt("slow"), 600)).unwrap();
    bench.until("generation", |now| matches!(now.state, EngineState::Generating { .. }));
    std::thread::sleep(Duration::from_millis(500));
    let stuck = bench.switches.forwards.load(SeqCst);
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(bench.switches.forwards.load(SeqCst), stuck, "the worker holds");
    // Case cc-003: the beat tells of delivery, not of a living thread.
    let beat = bench.engine.snapshot().beat;
    assert!(beat.elapsed() >= Duration::from_millis(300));
    // Commands are heard meanwhile: another request queues, is told so, and can be cancelled.
    let mut other = bench.engine.submit(request(prompt("other"), 5)).unwrap();
    assert_eq!(other.next_blocking(), Some(Event::Queued { position: 1 }));
    other.cancel();
    assert_eq!(other.next_blocking(), Some(Event::Failed(EngineError::Cancelled)));
    assert_eq!(bench.engine.snapshot().beat, beat, "queue news are no progress");
    assert_eq!(read(generation).ids(), expected.ids());
}

#[test]
fn a_slow_reader_that_cancels_gives_the_engine_free() {
    let bench = bench();
    let generation = bench.engine.submit(request(prompt("slow"), 3000)).unwrap();
    std::thread::sleep(Duration::from_millis(700));
    generation.cancel();
    // Its events are still unread, and the next request is served all the same.
    assert_eq!(bench.ask(request(prompt("next"), 3)).ids().len(), 3);
    let summary = read_rest(generation).unwrap();
    assert_eq!(summary.finish, FinishReason::Cancelled);
}

#[test]
fn requests_are_served_in_order_and_know_their_place() {
    let bench = bench();
    bench.switches.delay_us.store(3_000, SeqCst);
    let generations: Vec<_> = (0..4).map(|_| bench.engine.submit(request(prompt("abc"), 20)).unwrap()).collect();
    bench.until("three waiting behind the first", |now| {
        now.requests.len() == 4 && now.requests.iter().filter(|request| request.waiting).count() == 3
    });
    let ids: Vec<u64> = bench.engine.snapshot().requests.iter().map(|request| request.id).collect();
    assert_eq!(ids, generations.iter().map(|generation| generation.id).collect::<Vec<_>>());
    let answers: Vec<_> = generations.into_iter().map(read).collect();
    let queued: Vec<&[usize]> = answers.iter().map(|answer| &*answer.queued).collect();
    assert_eq!(queued[0], [] as [usize; 0]);
    assert_eq!(queued[1], [1]);
    assert_eq!(queued[2], [2, 1]);
    assert_eq!(queued[3], [3, 2, 1]);
    assert!(answers[3].summary().timings.queue > answers[1].summary().timings.queue);
}

/// Case cc-004: one request more than may wait is told that the engine is busy, and when to come back.
#[test]
fn one_request_too_many_is_told_busy() {
    let bench = bench_with(|options| options.queue_limit = 2);
    assert_eq!(bench.engine.snapshot().queue_limit, 2);
    bench.switches.delay_us.store(3_000, SeqCst);
    let first = bench.engine.submit(request(prompt("abc"), 50)).unwrap();
    bench.until("the first to run", |now| now.requests.iter().any(|request| !request.waiting));
    let waiting: Vec<_> = (0..2).map(|_| bench.engine.submit(request(prompt("abc"), 2)).unwrap()).collect();
    let refused = bench.ask(request(prompt("abc"), 2));
    match refused.end {
        Err(EngineError::Busy {
            queued: 2,
            limit: 2,
            retry_after_s,
        }) => assert!(retry_after_s >= 1),
        other => panic!("{other:?}"),
    }
    for generation in [first].into_iter().chain(waiting) {
        assert!(read(generation).end.is_ok());
    }
}

#[test]
fn a_waiting_request_can_be_cancelled_and_the_others_move_up() {
    let bench = bench();
    bench.switches.delay_us.store(3_000, SeqCst);
    let first = bench.engine.submit(request(prompt("abc"), 60)).unwrap();
    let second = bench.engine.submit(request(prompt("abc"), 2)).unwrap();
    let third = bench.engine.submit(request(prompt("abc"), 2)).unwrap();
    bench.until("two waiting", |now| now.requests.len() == 3);
    second.cancel();
    assert_eq!(read(second).end, Err(EngineError::Cancelled));
    assert!(read(first).end.is_ok());
    assert_eq!(read(third).queued, [2, 1]);
}

/// Case cc-001 as far as one at a time goes: no answer depends on its neighbours.
#[test]
fn many_requests_do_not_mix() {
    let bench = bench();
    let ids = |i: u32| -> Vec<u32> { (0..20 + 13 * i).map(|j| (j * (i + 3) + i) % 256).collect() };
    let expected: Vec<Vec<u32>> = (0..12).map(|i| toy_alone(ids(i))).collect();
    for _ in 0..2 {
        let running: Vec<_> = (0..12).map(|i| bench.engine.submit(request(ids(i), 10)).unwrap()).collect();
        for (i, generation) in running.into_iter().enumerate() {
            assert_eq!(read(generation).ids(), expected[i]);
        }
    }
}

fn toy_alone(ids: Vec<u32>) -> Vec<u32> {
    bench().ask(request(ids, 10)).ids().to_vec()
}

/// A prompt whose encoding takes long does not hold up what came after it, and is left alone once its reader goes.
#[test]
fn a_huge_prompt_does_not_delay_a_small_one() {
    let switches = std::sync::Arc::default();
    let engine = start(EngineOptions {
        loader: Box::new(ToyLoader {
            switches: std::sync::Arc::clone(&switches),
            max_context: 1 << 30,
            ballast: 4,
        }),
        ..options(&switches)
    });
    load(&engine, "toy").unwrap();
    let mut huge = engine.submit(text("w".repeat(1 << 20), 1)).unwrap();
    let small = read(engine.submit(text("small".into(), 3)).unwrap());
    assert_eq!(small.ids().len(), 3);
    while let Some(event) = huge.try_next() {
        assert!(matches!(event, Event::Queued { .. }), "{event:?}");
    }
    huge.cancel();
    assert_eq!(read(huge).end, Err(EngineError::Cancelled));
    assert_eq!(read(engine.submit(text("small".into(), 3)).unwrap()).ids(), small.ids());
    engine.shutdown();
}

#[test]
fn long_prompts_are_encoded_like_short_ones_and_before_a_load_that_came_after_them() {
    let bench = bench_with(|options| {
        options.loader = Box::new(ToyLoader {
            switches: std::sync::Arc::default(),
            max_context: 100_000,
            ballast: 4,
        });
        options.prefill_chunk = Some(2048);
    });
    let long: String = (0..17_000).map(|i| char::from(b'a' + (i * i % 23) as u8)).collect();
    let expected = bench.ask(request(prompt(&long), 6));
    let again = bench.engine.submit(text(long.clone(), 6)).unwrap();
    let mut loading = bench.engine.load(request_load("another")).unwrap();
    let after = bench.engine.submit(text(long, 6)).unwrap();
    assert_eq!(read(again).ids(), expected.ids());
    while let Some(event) = loading.next_blocking() {
        assert!(!matches!(event, LoadEvent::Failed(_)), "{event:?}");
    }
    // The other model's weights differ, and nothing of the first one's is reused.
    let after = read(after);
    assert_eq!(after.started, Some((17_000, 0)));
    assert_ne!(after.ids(), expected.ids());
}

#[test]
fn what_cannot_fit_the_window_is_refused_by_its_length() {
    let bench = bench();
    let bytes: usize = 10_000_000;
    // The longest token of the toy is `<|assistant|>`.
    let fewest = bytes.div_ceil("<|assistant|>".len());
    let answer = bench.ask(text("v".repeat(bytes), 1));
    assert_eq!(
        answer.end,
        Err(EngineError::ContextOverflow {
            prompt: fewest,
            window: 4096
        })
    );
    let chat = Request {
        prompt: Prompt::Chat {
            messages: vec![Message::user("v".repeat(bytes))],
            options: TemplateOptions::default(),
        },
        ..request(Vec::new(), 1)
    };
    let template = "<|user|><|assistant|>".len();
    let fewest = (bytes + template).div_ceil("<|assistant|>".len());
    assert!(matches!(bench.ask(chat).end, Err(EngineError::ContextOverflow { prompt, .. }) if prompt == fewest));
    // Within the bound the tokens count.
    let answer = bench.ask(text("v".repeat(20_000), 1));
    assert!(matches!(answer.end, Err(EngineError::ContextOverflow { prompt: 20_000, .. })));
}

fn text(text: String, max_tokens: usize) -> Request {
    Request {
        prompt: Prompt::Text(text),
        ..request(Vec::new(), max_tokens)
    }
}
