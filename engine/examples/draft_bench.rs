//! What a draft costs: processor and wall milliseconds of the shipped drafters by cap, medians over interleaved repeats.
//! Prints one JSON line.
//!
//! ```text
//! draft_bench [--repeat N] [--context N] [DRAFTER]...
//! ```
//!
//! The target is the starter's; only its embedding and head are used, features are noise. `build` is the host's part: the
//! graph without its evaluation.
#![allow(clippy::print_stdout)]

use dspark_engine::{
    device::Device,
    drafters::{Context, Drafter, DrafterOptions},
    hub::{Hub, assets},
    load::{LoadOptions, load},
};
use mlx_rs::{Array, random};
use serde_json::{Map, Value, json};
use std::{path::PathBuf, time::Instant};

type Failure = Box<dyn std::error::Error>;

fn cpu() -> f64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    now.tv_sec as f64 * 1e3 + now.tv_nsec as f64 * 1e-6
}

struct Arm {
    name: String,
    drafter: usize,
    cap: usize,
    tree: bool,
    build: Vec<f64>,
    cpu: Vec<f64>,
    wall: Vec<f64>,
}

fn main() -> Result<(), Failure> {
    let (mut repeat, mut rows, mut folders) = (20, 128, Vec::new());
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--repeat" => repeat = words.next().ok_or("--repeat needs a number")?.parse()?,
            "--context" => rows = words.next().ok_or("--context needs a number")?.parse()?,
            folder => folders.push(PathBuf::from(folder)),
        }
    }
    if folders.is_empty() {
        folders = assets::drafters().into_iter().map(|drafter| drafter.path).collect();
    }
    Device::choose()?;
    let folder = Hub::from_env()
        .installed_starter()
        .ok_or("the starter is not installed: `mlx-dspark starter`")?;
    let target = load(
        &folder,
        &LoadOptions::default(),
        &mut |_, _| (),
        &tokio_util::sync::CancellationToken::new(),
    )?;
    let mut drafters: Vec<(Drafter, Context)> = Vec::new();
    let mut arms = Vec::new();
    for (index, folder) in folders.iter().enumerate() {
        let mut drafter = Drafter::load(folder, &DrafterOptions::default())?;
        drafter.bind(&target.decoder)?;
        let (spec, mut context) = (drafter.spec().clone(), drafter.new_context());
        let features = random::normal::<f32>(&[1, rows, (spec.taps.len() * spec.hidden) as i32], None, None, None)?;
        drafter.commit(&features, &mut context)?;
        for array in context.arrays() {
            array.eval()?;
        }
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        for tree in [false, true] {
            if tree && drafter.tree_refusal().is_some() {
                continue;
            }
            for cap in [1, 3, 7, spec.max_draft()] {
                if arms
                    .iter()
                    .any(|arm: &Arm| arm.drafter == index && arm.cap == cap && arm.tree == tree)
                {
                    continue;
                }
                arms.push(Arm {
                    name: format!("{name} {} {cap}", if tree { "tree" } else { "chain" }),
                    drafter: index,
                    cap,
                    tree,
                    build: Vec::new(),
                    cpu: Vec::new(),
                    wall: Vec::new(),
                });
            }
        }
        drafters.push((drafter, context));
    }
    for at in 0..=repeat {
        for arm in &mut arms {
            let (drafter, context) = &mut drafters[arm.drafter];
            let anchor = Array::from_slice(&[17 + at as u32], &[1]);
            let (started, spent) = (Instant::now(), cpu());
            let built = if arm.tree {
                drafter.tree(&anchor, arm.cap, context)?;
                started.elapsed()
            } else {
                let drafts = drafter.draft(&anchor, arm.cap, context)?;
                let built = started.elapsed();
                drafts.eval()?;
                built
            };
            // The first is a warm-up.
            if at > 0 {
                arm.build.push(built.as_secs_f64() * 1e3);
                arm.cpu.push(cpu() - spent);
                arm.wall.push(started.elapsed().as_secs_f64() * 1e3);
            }
        }
    }
    let mut object = Map::new();
    for arm in &mut arms {
        let row = json!({ "build_ms": median(&mut arm.build), "cpu_ms": median(&mut arm.cpu), "wall_ms": median(&mut arm.wall) });
        object.insert(arm.name.clone(), row);
    }
    println!("{}", Value::Object(object));
    Ok(())
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    let value = values.get(values.len() / 2).copied().unwrap_or(0.0);
    (value * 1e3).round() / 1e3
}
