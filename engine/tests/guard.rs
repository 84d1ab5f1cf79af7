//! What the engine does when memory runs short, on the toy model with a pressure that the test sets.
#![allow(clippy::unwrap_used)]

mod toy;

use dspark_engine::protocol::Pressure;
use std::sync::atomic::{AtomicU8, Ordering::SeqCst};
use toy::{bench_with, prompt, request};

static LEVEL: AtomicU8 = AtomicU8::new(0);

fn level() -> Pressure {
    match LEVEL.load(SeqCst) {
        0 => Pressure::Normal,
        1 => Pressure::Warning,
        _ => Pressure::Critical,
    }
}

/// One test: the level is one for all. Looks are three seconds apart.
#[test]
fn pressure_sheds_once_a_level_and_what_was_shed_is_told() {
    let bench = bench_with(|options| options.pressure = level);
    let long = "a kept text that is long enough to be worth keeping for the next turn ".repeat(4);
    bench.ask(request(prompt(&long), 4));
    let now = bench.engine.snapshot();
    assert_eq!((now.guard.sheds, now.guard.last_shed, now.prefix.slots.len()), (0, None, 1));
    let reply = now.last_reply.unwrap();
    assert_eq!((reply.context, reply.cold), (long.len() + 4, true));

    LEVEL.store(1, SeqCst);
    bench.until("a warning sheds", |now| now.guard.sheds == 1);
    let guard = bench.engine.snapshot().guard;
    let shed = guard.last_shed.unwrap();
    assert_eq!(
        (guard.level, shed.level, shed.prompts_dropped),
        (Pressure::Warning, Pressure::Warning, false)
    );
    assert_eq!(shed.freed_bytes, shed.allocator_before.saturating_sub(shed.allocator_after));
    assert_eq!(bench.engine.snapshot().prefix.slots.len(), 1, "a warning keeps the prompts");

    LEVEL.store(2, SeqCst);
    bench.until("critical pressure sheds again", |now| now.guard.sheds == 2);
    let now = bench.engine.snapshot();
    assert!(now.guard.last_shed.unwrap().prompts_dropped);
    assert!(now.prefix.slots.is_empty() && now.prefix.limit > 0);
    LEVEL.store(0, SeqCst);
    bench.until("memory has recovered", |now| now.guard.level == Pressure::Normal);

    assert!(bench.ask(request(prompt(&long), 4)).end.is_ok(), "and goes on answering");
    assert!(!bench.engine.snapshot().last_reply.unwrap().cold);
    assert_eq!(bench.engine.snapshot().totals.finished, 2);
}
