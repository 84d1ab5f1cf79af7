//! Memory across loads. Alone in its process: MLX counts for the whole of it.
#![allow(clippy::unwrap_used)]

mod toy;

use mlx_rs::memory;
use std::sync::Arc;
use toy::{Bench, Switches, ToyLoader, load, options, prompt, read, request};

const BALLAST: usize = 96 << 20;

/// Resident bytes of this process, where the system tells.
fn resident() -> Option<usize> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    text.split_whitespace().nth(1)?.parse::<usize>().ok().map(|pages| pages * 4096)
}

#[test]
fn unloading_and_failed_loads_return_their_memory() {
    let switches = Arc::new(Switches::default());
    let mut with = options(&switches);
    with.loader = Box::new(ToyLoader {
        switches: switches.clone(),
        max_context: 4096,
        ballast: BALLAST,
    });
    let bench = Bench {
        engine: dspark_engine::start(with),
        switches,
    };
    let held = || memory::active_memory().unwrap() + memory::cache_memory().unwrap();
    bench.until("the start", |now| now.state == dspark_engine::protocol::EngineState::NoModel);
    let (before, before_resident) = (held(), resident());

    load(&bench.engine, "toy").unwrap();
    assert!(held() >= before + BALLAST);
    assert!(bench.engine.snapshot().memory.active >= BALLAST as u64);
    read(bench.engine.submit(request(prompt(&"m".repeat(500)), 20)).unwrap());

    assert!(load(&bench.engine, "fail").is_err());
    assert!(held() < before + BALLAST + BALLAST / 2, "the failed load's weights are gone");
    load(&bench.engine, "another").unwrap();
    assert!(held() < before + BALLAST + BALLAST / 2, "the replaced model's weights are gone");
    assert_eq!(bench.engine.snapshot().context_tokens, 0, "and its caches");

    bench.engine.unload().unwrap().blocking_recv().unwrap().unwrap();
    assert!(held() <= before + (1 << 20), "{} bytes more than before", held() - before);
    assert_eq!(bench.engine.snapshot().memory.cache, 0);
    if let (Some(before), Some(after)) = (before_resident, resident()) {
        assert!(after < before + BALLAST / 2, "resident {before} before, {after} after");
    }
}
