//! Models in the window's words: verdict, sum, pace, drafter.

use super::thousands;
use crate::{
    machine,
    pairing::{self, Wish},
};
use dspark_engine::drafters::{DrafterSpec, inspect};
use dspark_hub::{Folder, Found, Hub, Installed, Preview, Source, fit, registry, starter};
use dspark_window::bridge::{Drafter, Fit, FitAt, FitLevel, Listed, ModelEntry, Offer, Pace, Part};
use std::path::{Path, PathBuf};

/// Tokens of context that verdicts assume.
const CONTEXT: u64 = 8192;

pub(super) fn entry(hub: &Hub, row: &Installed, machine: &fit::Machine) -> ModelEntry {
    let folder = &row.folder;
    let is_starter = row.repo == starter::NAME || (row.source == Source::Cache && row.repo == starter::FOLDER);
    let window = folder.config["max_position_embeddings"]
        .as_u64()
        .or_else(|| folder.config["text_config"]["max_position_embeddings"].as_u64());
    let (drafter, kind) = drafter(hub, row);
    let detail: Vec<String> = [
        folder.model_type.clone(),
        folder.quantization.clone(),
        window.map(|tokens| format!("{} context", thousands(tokens))),
        kind.or_else(|| matches!(drafter, Drafter::Missing(..)).then(|| "drafter not installed".into())),
    ]
    .into_iter()
    .flatten()
    .collect();
    let model = needs(hub, row);
    let read = machine::footprint(&folder.path).ok();
    let measured = registry::find(&row.repo).map(|row| row.measured.as_slice()).unwrap_or_default();
    ModelEntry {
        // "starter" is a word for the command line; people see which model it is.
        name: if is_starter { starter::FOLDER.into() } else { row.repo.clone() },
        path: folder.path.clone(),
        detail: detail.join(", "),
        source: match row.source {
            _ if is_starter => "Starter",
            Source::Path => "Folder",
            Source::Cache => "Downloads",
            Source::LmStudio => "LM Studio",
            Source::ModelDirs => "Model folder",
            Source::HubCache => "Hugging Face cache",
        }
        .into(),
        bytes: folder.size_bytes,
        fit: verdict(&model, machine),
        problem: folder.state.problem(),
        drafter,
        pace: pace(read.map_or(0, |read| read.active), false, measured),
        experts: experts(&folder.config).is_some(),
        repo: (row.source == Source::HubCache).then(|| row.repo.clone()),
        note: None,
        second: false,
        removal: Some(
            hub.removable_at(&folder.path, false)
                .map(|plan| plan.bytes)
                .map_err(|error| error.to_string()),
        ),
    }
}

/// What the model drafts with by itself, and the kind of it.
fn drafter(hub: &Hub, row: &Installed) -> (Drafter, Option<String>) {
    let found = pairing::pair(hub, target(row), &Wish::default()).unwrap_or_default();
    match (found.drafter, found.missing) {
        (Some(drafter), _) => (Drafter::Here(drafter.name), Some(format!("{} drafter", drafter.kind.label()))),
        (None, Some(name)) => (Drafter::Missing(name, None), None),
        (None, None) => (Drafter::None, None),
    }
}

fn drafter_path(hub: &Hub, row: &Installed) -> Option<PathBuf> {
    let found = pairing::pair(hub, target(row), &Wish::default()).ok()?;
    found.drafter.map(|drafter| drafter.path)
}

fn target(row: &Installed) -> pairing::Target<'_> {
    pairing::Target {
        name: &row.repo,
        path: &row.folder.path,
    }
}

/// The drafter that comes with a model which is not here.
pub(super) fn missing_drafter(hub: &Hub, repo: &str) -> Option<String> {
    let target = pairing::Target {
        name: repo,
        path: Path::new(repo),
    };
    pairing::pair(hub, target, &Wish::default()).ok()?.missing
}

/// What an installed model takes, with the drafter that it would be loaded with.
pub(crate) fn needs(hub: &Hub, row: &Installed) -> fit::Model {
    let mut model = fit::Model::from_config(&row.folder.config, row.folder.weight_bytes, 16);
    let drafter = drafter_path(hub, row).and_then(|path| Some((inspect(&path).ok()?, Folder::look(&path))));
    if let Some((spec, files)) = &drafter {
        with_drafter(&mut model, spec, files);
    }
    model
}

/// Adds what a drafter takes: its matrices at the bits of a load, and the context that it keeps.
/// Source: `spec/fit-and-roofline.md` §3.
fn with_drafter(model: &mut fit::Model, spec: &DrafterSpec, files: &Folder) {
    let stored = files.config["quantization"]["bits"]
        .as_u64()
        .map_or(16.0, |bits| fit::effective_bits(bits as u32, 64, "affine"));
    let bits = stored.min(fit::effective_bits(4, 64, "affine"));
    let row = (spec.kv_heads * spec.head_dim * 4) as u64;
    let windows: Vec<usize> = spec.masks.iter().filter_map(|mask| mask.window()).collect();
    model.drafter_bytes = (files.weight_bytes as f64 * bits / stored) as u64;
    model.drafter_kv_per_token = row * (spec.masks.len() - windows.len()) as u64;
    let longest = windows.iter().max();
    model.drafter_window = longest.map(|window| (row * windows.len() as u64, *window as u64));
}

fn experts(config: &serde_json::Value) -> Option<(u64, u64)> {
    let find = |names: &[&str]| {
        let places = [&config["text_config"], config];
        places
            .into_iter()
            .find_map(|place| names.iter().find_map(|name| place[*name].as_u64()))
    };
    let all = find(&["num_experts", "num_local_experts", "n_routed_experts"]).filter(|all| *all > 1)?;
    Some((all, find(&["num_experts_per_tok", "experts_per_token", "top_k_experts"])?))
}

/// `active` bytes a step, and what others measured of the pair.
fn pace(active: u64, estimate: bool, measured: &[registry::Measured]) -> Pace {
    let times = measured.iter().map(|one| one.times);
    let low = times.clone().min_by(f64::total_cmp);
    let mut sources: Vec<String> = measured.iter().map(|one| format!("on an {}, by {}", one.on, one.by)).collect();
    sources.dedup();
    Pace {
        active,
        estimate,
        times: low.zip(times.max_by(f64::total_cmp)),
        source: sources.join("; "),
    }
}

fn verdict(model: &fit::Model, machine: &fit::Machine) -> Fit {
    let typical = fit::judge(model, machine, CONTEXT);
    Fit {
        at: fit_at(&typical),
        budget: typical.budget,
        longest: typical.max_context,
        context_unknown: typical.kv_unknown,
        stops: model
            .stops()
            .iter()
            .map(|stop| fit_at(&fit::judge(model, machine, *stop)))
            .collect(),
    }
}

fn fit_at(fit: &fit::Fit) -> FitAt {
    let (level, words) = match fit.verdict {
        fit::Verdict::FitsWell => (FitLevel::Well, "Fits well".into()),
        fit::Verdict::Fits => (FitLevel::Fits, "Fits".into()),
        fit::Verdict::Tight => (FitLevel::Limited, "Tight".into()),
        fit::Verdict::ShorterContext { max } => (FitLevel::Limited, format!("Fits to {}", thousands(max))),
        fit::Verdict::TooBig => (FitLevel::TooBig, "Too big".into()),
    };
    FitAt {
        context: fit.context,
        level,
        words,
        parts: fit.items.iter().map(|item| (part(item.part), item.bytes)).collect(),
    }
}

fn part(part: fit::Part) -> Part {
    match part {
        fit::Part::Weights => Part::Weights,
        fit::Part::Drafter => Part::Drafter,
        fit::Part::Context => Part::Context,
        fit::Part::DrafterContext => Part::DrafterContext,
        fit::Part::Recurrent => Part::Recurrent,
        fit::Part::Kept => Part::Kept,
        fit::Part::Working => Part::Working,
        fit::Part::Application => Part::App,
    }
}

/// Known pairs: what this machine is led to first, then the rest that the engine has.
pub(super) fn offers(hub: &Hub, machine: &fit::Machine, installed: &[ModelEntry]) -> Vec<Offer> {
    let mut offers = vec![starter_offer(hub, machine)];
    let families = machine::families();
    let families: Vec<&str> = families.iter().map(String::as_str).collect();
    let led = registry::recommended(machine.ram, &families);
    let rest = registry::rows()
        .iter()
        .filter(|row| row.target != starter::NAME && families.contains(&row.family.as_str()))
        .filter(|row| !led.iter().any(|other| other.id == row.id));
    let all = led.iter().copied().map(|row| (row, false)).chain(rest.map(|row| (row, true)));
    offers.extend(all.map(|(row, aside)| {
        let here = installed
            .iter()
            .find(|entry| entry.problem.is_none() && entry.name.eq_ignore_ascii_case(&row.target));
        Offer {
            here: here.map(|entry| entry.path.clone()),
            aside,
            ..offer(hub, row, machine)
        }
    }));
    offers
}

fn starter_offer(hub: &Hub, machine: &fit::Machine) -> Offer {
    let row = registry::find(starter::NAME);
    let model = fit::Model {
        weight_bytes: row.map_or(0, registry::Row::estimated_bytes),
        kv_per_token: row.and_then(|row| row.kv_bytes),
        max_context: Some(CONTEXT),
        ..fit::Model::default()
    };
    Offer {
        id: starter::NAME.into(),
        name: starter::FOLDER.into(),
        detail: "135M, 4-bit, 8k context. Small enough for any machine, needs no account.".into(),
        bytes: Hub::starter_bytes(),
        fit: verdict(&model, machine),
        starter: true,
        here: hub.installed_starter(),
        // Its head is its embedding, read in full.
        pace: pace(model.weight_bytes, true, &[]),
        ..Offer::default()
    }
}

fn offer(hub: &Hub, row: &registry::Row, machine: &fit::Machine) -> Offer {
    let bytes = row.estimated_bytes();
    let model = fit::Model {
        weight_bytes: bytes,
        kv_per_token: row.kv_bytes,
        ..fit::Model::default()
    };
    let active = row.active.map_or(bytes, |active| (bytes as f64 * active / row.parameters) as u64);
    let parts = row.active.map_or_else(String::new, |active| format!(" with {active}B active"));
    Offer {
        id: row.target.clone(),
        name: row.target.rsplit('/').next().unwrap_or(&row.target).into(),
        detail: format!("{}B{parts}, {}-bit", row.parameters, row.bits),
        bytes,
        fit: verdict(&model, machine),
        drafter: missing_drafter(hub, &row.target).map_or(Drafter::None, |name| Drafter::Missing(name, None)),
        pace: pace(active, true, &row.measured),
        experts: row.active.is_some(),
        ..Offer::default()
    }
}

/// A line of the hub's list. Its context is unknown until its configuration has been read.
pub(super) fn found_row(hub: &Hub, row: &Found, machine: &fit::Machine, here: &[Installed]) -> Listed {
    let families = machine::families();
    let families: Vec<&str> = families.iter().map(String::as_str).collect();
    let model = fit::Model {
        weight_bytes: row.weight_bytes.unwrap_or(0),
        ..fit::Model::default()
    };
    let bits = row.quantization.map(|(bits, group)| format!("{bits}-bit g{group}"));
    let owner = row.repo.split('/').next().unwrap_or_default();
    let detail: Vec<String> = [row.model_type.clone(), bits, Some(format!("by {owner}"))]
        .into_iter()
        .flatten()
        .collect();
    let measured = registry::find(&row.repo).map(|row| row.measured.as_slice()).unwrap_or_default();
    Listed {
        offer: Offer {
            id: row.repo.clone(),
            name: row.repo.rsplit('/').next().unwrap_or(&row.repo).into(),
            detail: detail.join(", "),
            bytes: model.weight_bytes,
            fit: if model.weight_bytes > 0 {
                verdict(&model, machine)
            } else {
                Fit::default()
            },
            here: here
                .iter()
                .find(|one| one.repo == row.repo && one.is_usable())
                .map(|one| one.folder.path.clone()),
            pace: pace(0, false, measured),
            exact: true,
            ..Offer::default()
        },
        problem: row.problem(&families),
        gate: if row.gated { hub.page(&row.repo) } else { String::new() },
        downloads: row.downloads,
    }
}

/// One repository, from its listing and its configuration.
pub(super) fn previewed(hub: &Hub, preview: &Preview, drafter: Option<&(String, Preview)>, machine: &fit::Machine) -> Listed {
    let families = machine::families();
    let repo = preview.info.id.to_string();
    let kind = preview.config["model_type"].as_str().unwrap_or_default();
    let unknown = || format!("the architecture `{kind}` is not implemented");
    let problem = preview
        .check_loadable()
        .err()
        .map(|error| error.to_string())
        .or_else(|| (!families.iter().any(|family| family == kind)).then(unknown));
    let mut model = preview.model(16);
    let mut comes = Drafter::None;
    if let Some((name, found)) = drafter {
        comes = Drafter::Missing(name.clone(), Some(found.info.download_bytes()));
        model.drafter_bytes = (found.info.weight_bytes() as f64 * fit::effective_bits(4, 64, "affine") / 16.0) as u64;
        // Its configuration has the names of any transformer's, unless the packaging has its own.
        model.drafter_kv_per_token = fit::kv_per_token(&found.config, 16).unwrap_or(0);
    } else if let Some(name) = missing_drafter(hub, &repo) {
        comes = Drafter::Missing(name, None);
    }
    let quantization = &preview.config["quantization"];
    let bits = quantization["bits"].as_u64().map(|bits| format!("{bits}-bit"));
    let detail: Vec<String> = [
        Some(kind.to_owned()),
        bits,
        model.max_context.map(|tokens| format!("{} context", thousands(tokens))),
    ]
    .into_iter()
    .flatten()
    .collect();
    let weights = preview.info.weight_bytes();
    let routed = experts(&preview.config);
    // Of a mixture only its files say how much a step reads.
    let active = if routed.is_some() { 0 } else { weights };
    let measured = registry::find(&repo).map(|row| row.measured.as_slice()).unwrap_or_default();
    Listed {
        offer: Offer {
            name: preview.info.id.name.clone(),
            detail: detail.join(", "),
            bytes: preview.info.download_bytes(),
            fit: verdict(&model, machine),
            here: hub.resolve(&repo).ok().map(|found| found.path),
            drafter: comes,
            pace: pace(active, true, measured),
            experts: routed.is_some(),
            exact: true,
            newer: hub.is_behind(&preview.info),
            id: repo,
            ..Offer::default()
        },
        problem,
        gate: String::new(),
        downloads: 0,
    }
}
