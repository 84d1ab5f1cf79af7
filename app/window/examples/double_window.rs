//! The window on a scripted engine: for working on screens without a model, for the screenshots, and for tests of the
//! tray. `cargo run -p dspark-window --example double_window -- --scene chat --theme light --size 900x640 --language de`
//!
//! `--measure SECONDS` prints how long frames took, as JSON, and ends.

#![allow(clippy::print_stdout, reason = "what it measures is its output")]

mod scene;

use dspark_window::{
    settings::Settings,
    shell::{AppOptions, run},
};
use std::{
    path::PathBuf,
    sync::{Arc, mpsc},
    time::{Duration, Instant},
};

fn main() {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    if let Err(error) = open() {
        eprintln!("{error:#}");
        std::process::exit(1);
    }
}

fn open() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let arguments: Vec<String> = std::env::args().collect();
    let value = |name: &str| {
        arguments
            .iter()
            .position(|argument| argument == name)
            .and_then(|at| arguments.get(at + 1))
            .cloned()
    };
    let name = value("--scene").unwrap_or_else(|| "play".into());
    let size = value("--size").unwrap_or_else(|| "1280x800".into());
    let size: Vec<f32> = size.split('x').filter_map(|side| side.parse().ok()).collect();
    let data = value("--data").map_or_else(
        || std::env::temp_dir().join(format!("double-window-{}", std::process::id())),
        PathBuf::from,
    );
    let scene = scene::Scene::new(&name).ok_or("scenes: play, chat, reply, empty, first-run, first-run-check, first-run-go, first-run-done, models, settings, settings-models, settings-data, settings-report, settings-about, picker, live, live-parked, live-plain, live-empty, curves, curves-parked, curves-empty, decoding, palette, lab-no-model, machine, machine-empty, race, race-four, race-running, race-earlier, race-empty, benchmark, benchmark-empty, agents, agents-change, agents-changed, agents-steps, agents-off, connections, connections-empty, stream, heavy")?;
    scene.prepare(&data, value("--theme").as_deref())?;
    let path = data.join("settings.toml");
    let (mut settings, _) = Settings::load(&path);
    // Pictures are in English whatever the system speaks.
    let language = value("--language").unwrap_or_else(|| "en".into());
    settings.appearance.language = toml::Value::from(language).into();
    settings.save(&path)?;
    let mut options = AppOptions::new(
        scene.engine(),
        data.clone(),
        data.join("settings.toml"),
        Arc::new(scene::ScriptedCatalog),
        Arc::new(scene.server()),
    );
    options.machine = Arc::new(scene::ScriptedMachine);
    options.desktop = Arc::new(dspark_desktop::Recorded::default());
    options.agents = Some(scene::Scene::places(&data));
    if let [width, height] = size[..] {
        options.size = [width, height];
    }
    options.opening = scene.opening();
    options.hidden = arguments.iter().any(|argument| argument == "--hidden");
    if let Some(seconds) = value("--measure") {
        let seconds = Duration::from_secs_f64(seconds.parse()?);
        let (sender, frames) = mpsc::channel();
        options.frames = Some(sender);
        std::thread::spawn(move || {
            println!("{}", measure(&frames, seconds));
            std::process::exit(0);
        });
    }
    run(options)?;
    Ok(())
}

/// Milliseconds of processor time a frame, by percentiles, and frames a second, after two seconds to settle.
fn measure(frames: &mpsc::Receiver<Duration>, wanted: Duration) -> String {
    let begin = Instant::now() + Duration::from_secs(2);
    let mut took = Vec::new();
    while let Ok(frame) = frames.recv_timeout((begin + wanted).saturating_duration_since(Instant::now())) {
        if Instant::now() > begin {
            took.push(frame.as_secs_f64() * 1000.0);
        }
    }
    took.sort_by(f64::total_cmp);
    let at = |part: f64| {
        took.get((part * took.len() as f64) as usize)
            .or(took.last())
            .copied()
            .unwrap_or(0.0)
    };
    format!(
        "{{\"frames\": {}, \"per_second\": {:.1}, \"p50_ms\": {:.2}, \"p99_ms\": {:.2}, \"max_ms\": {:.2}}}",
        took.len(),
        took.len() as f64 / wanted.as_secs_f64(),
        at(0.5),
        at(0.99),
        at(1.0)
    )
}
