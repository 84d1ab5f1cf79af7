//! Measures the engine as its users meet it: through the handle, events and text included. Prints one JSON line.
//!
//! ```text
//! decode_bench [FOLDER] [--repeat N] [--tokens N] [--depths 32,512,2048] [--temperature T]
//! ```
//!
//! Without a folder it takes the installed starter model. `cpu` figures are processor seconds of the whole process, so
//! they can be compared with other engines on a busy machine; run with `MLX_CPU_THREADS=1` for one kernel thread. Rates
//! are medians over the repeats, which are interleaved over the depths.
#![allow(clippy::print_stdout)]

use dspark_engine::{
    EngineOptions,
    hub::Hub,
    protocol::{EngineHandle, EngineState, Event, LoadEvent, LoadRequest, Mode, Prompt, Request, Sampling, Summary},
    start,
};
use serde_json::{Map, Value, json};
use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, Mutex},
    time::Instant,
};
use tracing::field::{Field, Visit};
use tracing_subscriber::{Layer, layer::SubscriberExt, util::SubscriberInitExt};

type Failure = Box<dyn std::error::Error>;

/// Wall and processor seconds since some moment.
#[derive(Clone, Copy)]
struct Clock {
    wall: Instant,
    cpu: f64,
}

#[derive(Clone, Copy)]
struct Spent {
    wall: f64,
    cpu: f64,
}

impl Clock {
    fn now() -> Self {
        let cpu = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        Self {
            wall: Instant::now(),
            cpu: cpu.tv_sec as f64 + cpu.tv_nsec as f64 * 1e-9,
        }
    }

    fn spent(self) -> Spent {
        Spent {
            wall: self.wall.elapsed().as_secs_f64(),
            cpu: Self::now().cpu - self.cpu,
        }
    }
}

/// Collects what the engine reports of its rounds.
#[derive(Clone, Default)]
struct Rounds(Arc<Mutex<BTreeMap<&'static str, Vec<f64>>>>);

impl<S: tracing::Subscriber> Layer<S> for Rounds {
    fn on_event(&self, event: &tracing::Event<'_>, _: tracing_subscriber::layer::Context<'_, S>) {
        struct Fields<'a>(&'a mut BTreeMap<&'static str, Vec<f64>>);
        impl Visit for Fields<'_> {
            fn record_f64(&mut self, field: &Field, value: f64) {
                self.0.entry(field.name()).or_default().push(value);
            }
            fn record_debug(&mut self, _: &Field, _: &dyn std::fmt::Debug) {}
        }
        if event.metadata().target() == "dspark_engine::rounds"
            && let Ok(mut fields) = self.0.lock()
        {
            event.record(&mut Fields(&mut fields));
        }
    }
}

impl Rounds {
    fn take(&self) -> BTreeMap<&'static str, Vec<f64>> {
        self.0.lock().map(|mut fields| std::mem::take(&mut *fields)).unwrap_or_default()
    }
}

struct Arguments {
    folder: PathBuf,
    repeat: usize,
    tokens: usize,
    depths: Vec<usize>,
    /// 0 decodes greedily; else with top-p 0.95 and top-k 40 too.
    temperature: f32,
}

fn arguments() -> Result<Arguments, Failure> {
    let mut found = Arguments {
        folder: PathBuf::new(),
        repeat: 3,
        tokens: 64,
        depths: vec![32, 512, 2048],
        temperature: 0.0,
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("{argument} needs a value"));
        match argument.as_str() {
            "--repeat" => found.repeat = value()?.parse::<usize>()?.max(1),
            "--tokens" => found.tokens = value()?.parse::<usize>()?.max(2),
            "--temperature" => found.temperature = value()?.parse()?,
            "--depths" => found.depths = value()?.split(',').map(str::parse).collect::<Result<_, _>>()?,
            other if other.starts_with('-') => return Err(format!("unknown option {other}").into()),
            folder => found.folder = folder.into(),
        }
    }
    if found.folder.as_os_str().is_empty() {
        found.folder = Hub::from_env()
            .installed_starter()
            .ok_or("name a model folder, or fetch the starter first: `mlx-dspark starter`")?;
    }
    Ok(found)
}

fn load(engine: &EngineHandle, folder: PathBuf) -> Result<f64, Failure> {
    let mut loading = engine.load(LoadRequest {
        name: folder.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        path: folder,
        ..LoadRequest::default()
    })?;
    loop {
        match loading.next_blocking().ok_or("the engine has stopped")? {
            LoadEvent::Stage { .. } => {}
            LoadEvent::Ready(info) => return Ok(info.load_seconds),
            LoadEvent::Failed(error) => return Err(error.into()),
        }
    }
}

/// A prompt of ordinary, varied tokens, different for each salt so that nothing is reused.
fn prompt(tokens: usize, salt: usize) -> Vec<u32> {
    (0..tokens).map(|i| 1000 + ((i * 7919 + salt * 104_729) % 20_000) as u32).collect()
}

struct Run {
    prefill: Spent,
    decode: Spent,
    summary: Summary,
}

fn run(engine: &EngineHandle, ids: Vec<u32>, tokens: usize, temperature: f32) -> Result<Run, Failure> {
    let request = Request {
        prompt: Prompt::Tokens(ids),
        sampling: Sampling {
            temperature,
            top_p: 0.95,
            top_k: 40,
            seed: Some(1),
            ..Sampling::default()
        },
        // Plain decoding: what speculation adds is `mlx-dspark benchmark`'s question.
        mode: Mode::Baseline,
        ignore_eos: true,
        ..Request::chat("bench", Vec::new(), tokens)
    };
    let begun = Clock::now();
    let mut generation = engine.submit(request)?;
    let mut first = None;
    loop {
        match generation.next_blocking().ok_or("the engine has stopped")? {
            Event::Delta(_) if first.is_none() => first = Some((begun.spent(), Clock::now())),
            Event::Finished(summary) => {
                let (prefill, decode) = first.ok_or("no token came")?;
                return Ok(Run {
                    prefill,
                    decode: decode.spent(),
                    summary: *summary,
                });
            }
            Event::Failed(error) => return Err(error.into()),
            _ => {}
        }
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

fn round(value: f64) -> Value {
    json!((value * 100.0).round() / 100.0)
}

fn main() -> Result<(), Failure> {
    let begun = Clock::now();
    let arguments = arguments()?;
    let rounds = Rounds::default();
    tracing_subscriber::registry().with(rounds.clone()).init();
    let engine = start(EngineOptions {
        prefix_slots: 0,
        ..EngineOptions::default()
    });
    let load_seconds = load(&engine, arguments.folder.clone())?;
    let first = run(&engine, prompt(32, 0), 2, arguments.temperature)?;
    // From the program's start to its first token, less the second token, which has come too.
    let cold = begun.spent();
    let cold = Spent {
        wall: cold.wall - first.decode.wall,
        cpu: cold.cpu - first.decode.cpu,
    };
    rounds.take();

    let mut measured: BTreeMap<usize, Vec<Run>> = BTreeMap::new();
    let mut salt = 0;
    for _ in 0..arguments.repeat {
        for &depth in &arguments.depths {
            salt += 1;
            measured
                .entry(depth)
                .or_default()
                .push(run(&engine, prompt(depth, salt), arguments.tokens, arguments.temperature)?);
        }
    }
    let per_round = rounds.take();

    let mut depths = Map::new();
    for (depth, runs) in &measured {
        let rate = |tokens: f64, seconds: &dyn Fn(&Run) -> f64| round(median(runs.iter().map(|run| tokens / seconds(run)).collect()));
        let steps = (arguments.tokens - 1) as f64;
        depths.insert(
            depth.to_string(),
            json!({
                "prefill_tok_per_cpu_s": rate(*depth as f64, &|run| run.prefill.cpu),
                "prefill_tok_per_s": rate(*depth as f64, &|run| run.prefill.wall),
                "decode_tok_per_cpu_s": rate(steps, &|run| run.decode.cpu),
                "decode_tok_per_s": rate(steps, &|run| run.decode.wall),
                "ttft_s": median(runs.iter().map(|run| run.summary.timings.ttft).collect()),
            }),
        );
    }
    let now = engine.snapshot();
    // Waking the reader costs a switch on a busy machine, which is none of the engine's work: the least tells more.
    let step = |name: &str| {
        let values = per_round.get(name).cloned().unwrap_or_default();
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        json!({"median": round(median(values)), "least": round(least)})
    };
    let line = json!({
        "bench": "decode",
        "model": now.model.as_ref().map(|model| model.name.clone()),
        "backend": now.machine.backend,
        "device": now.machine.device,
        "threads": std::env::var("MLX_CPU_THREADS").ok(),
        "mlx": now.machine.mlx_version,
        "optimised": !cfg!(debug_assertions),
        "load_s": load_seconds,
        "cold_start_to_first_token": {"wall_s": cold.wall, "cpu_s": cold.cpu},
        "first_request": {"prompt": 32, "ttft_wall_s": first.prefill.wall, "ttft_cpu_s": first.prefill.cpu},
        "repeat": arguments.repeat,
        "tokens": arguments.tokens,
        "temperature": arguments.temperature,
        "after": depths,
        "per_step_us": {"host_outside_mlx": step("host_us"), "graph": step("graph_us"), "wait": step("wait_us")},
        "peak_memory_bytes": now.memory.peak,
    });
    println!("{line}");
    engine.shutdown();
    while engine.snapshot().state != EngineState::Stopped {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    Ok(())
}
