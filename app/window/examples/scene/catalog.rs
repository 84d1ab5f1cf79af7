use dspark_protocol::MachineInfo;
use dspark_window::bridge::{Catalog, Check, FetchError, FetchProgress, Fit, FitLevel, MachineSource, ModelEntry, Offer, Reading, Survey};
use dspark_window::machine::roofline::Footprint;
use std::{
    path::{Path, PathBuf},
    thread,
    time::Duration,
};
use tokio_util::sync::CancellationToken;

pub struct ScriptedCatalog;

fn fit(level: FitLevel, words: &str, parts: &[(&str, f64)]) -> Fit {
    Fit {
        level,
        words: words.into(),
        parts: parts
            .iter()
            .map(|(name, gigabytes)| ((*name).into(), (gigabytes * 1e9) as u64))
            .collect(),
    }
}

fn entry(name: &str, detail: &str, source: &str, gigabytes: f64, fit: Fit) -> ModelEntry {
    ModelEntry {
        name: name.into(),
        path: format!("/models/{name}").into(),
        detail: detail.into(),
        source: source.into(),
        bytes: (gigabytes * 1e9) as u64,
        fit,
        problem: None,
    }
}

fn offer(name: &str, detail: &str, gigabytes: f64, fit: Fit, starter: bool) -> Offer {
    Offer {
        id: name.to_lowercase(),
        name: name.into(),
        detail: detail.into(),
        bytes: (gigabytes * 1e9) as u64,
        fit,
        starter,
    }
}

impl Catalog for ScriptedCatalog {
    fn survey(&self, folders: &[PathBuf], _: &MachineInfo, _: u64) -> Survey {
        let well = |weights: f64| {
            fit(
                FitLevel::Well,
                "Fits well",
                &[("Weights", weights), ("Context", 1.2), ("Buffers", 0.7)],
            )
        };
        let mut installed = vec![entry("Qwen3-8B-8bit", "8.2B, 8-bit, 40k context", "LM Studio", 8.7, well(8.7))];
        installed.extend(folders.iter().map(|folder| {
            entry(
                "Llama-3.2-3B-4bit",
                "3.2B, 4-bit, 128k context",
                &folder.display().to_string(),
                1.8,
                well(1.8),
            )
        }));
        let check = |words: &str, reason: &str| Check {
            ok: true,
            words: words.into(),
            reason: reason.into(),
        };
        Survey {
            installed,
            offers: vec![
                offer(
                    "SmolLM2-135M-Instruct",
                    "135M, 4-bit, 8k context, for trying things out",
                    0.098,
                    well(0.1),
                    true,
                ),
                offer(
                    "Qwen3-14B-8bit",
                    "14.8B, 8-bit, 40k context",
                    15.7,
                    fit(FitLevel::Fits, "Fits", &[("Weights", 15.7)]),
                    false,
                ),
                offer("Qwen3-4B-4bit", "4.0B, 4-bit, 40k context", 2.3, well(2.3), false),
                offer(
                    "Qwen3-32B-8bit",
                    "32.8B, 8-bit, best quality for its size",
                    34.8,
                    fit(FitLevel::Limited, "Fits to 24k context", &[("Weights", 34.8)]),
                    false,
                ),
            ],
            checks: vec![
                check("Apple silicon", "MLX runs on its graphics processor."),
                check("macOS 15.2", "14 or later is needed."),
                check("Metal 3", "The graphics interface that MLX uses."),
                check("48 GiB memory", "38.7 GB of it can hold a model."),
                check("412 GB free", "Models are kept on this disk."),
            ],
        }
    }

    fn inspect(&self, path: &Path) -> Result<ModelEntry, String> {
        if path.join("config.json").exists() || path.starts_with("/models") {
            let name = path
                .file_name()
                .map_or_else(String::new, |name| name.to_string_lossy().into_owned());
            return Ok(entry(&name, "", "folder", 1.0, Fit::default()));
        }
        Err(format!(
            "there is no config.json in `{}`: choose the folder that holds the weights",
            path.display()
        ))
    }

    fn fetch(&self, id: &str, report: &mut dyn FnMut(FetchProgress), cancel: &CancellationToken) -> Result<ModelEntry, FetchError> {
        let total = 98_000_000;
        for step in 0..=40 {
            if cancel.is_cancelled() {
                return Err(FetchError::Cancelled);
            }
            report(FetchProgress {
                stage: "Downloading".into(),
                done: total / 40 * step,
                total,
                bytes_per_sec: 24e6,
            });
            thread::sleep(Duration::from_millis(50));
        }
        Ok(entry(id, "135M, 4-bit, 8k context", "starter", 0.098, Fit::default()))
    }
}

pub struct ScriptedMachine;

impl MachineSource for ScriptedMachine {
    fn read(&self) -> Reading {
        Reading {
            available: 29 << 30,
            total: 48 << 30,
            swap_total: 2 << 30,
            stalled: Some(0.0),
            ..Reading::default()
        }
    }

    fn footprint(&self, _: &Path) -> Result<Footprint, String> {
        Ok(Footprint {
            total: 8_700_000_000,
            active: 8_040_000_000,
            estimate: false,
        })
    }
}
