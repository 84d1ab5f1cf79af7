//! The window on a scripted engine: for working on screens without a model, for the screenshots, and for tests of the
//! tray. `cargo run -p dspark-window --example double_window -- --scene chat --theme light --size 900x640`

mod scene;

use dspark_window::shell::{AppOptions, run};
use std::{path::PathBuf, sync::Arc};

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
    let scene = scene::Scene::new(&name).ok_or("scenes: play, chat, reply, empty, first-run, first-run-check, first-run-go, first-run-done, models, settings, picker, live, live-parked, live-plain, live-empty, curves, curves-parked, curves-empty, decoding, palette, lab-no-model, machine, machine-empty, agents, agents-change, agents-changed, agents-steps, agents-off, connections, connections-empty")?;
    scene.prepare(&data, value("--theme").as_deref())?;
    let mut options = AppOptions::new(
        scene.engine(),
        data.clone(),
        data.join("settings.toml"),
        Arc::new(scene::ScriptedCatalog),
        Arc::new(scene.server()),
    );
    options.machine = Arc::new(scene::ScriptedMachine);
    options.agents = Some(scene::Scene::places(&data));
    if let [width, height] = size[..] {
        options.size = [width, height];
    }
    options.opening = scene.opening();
    run(options)?;
    Ok(())
}
