use dspark_protocol::MachineInfo;
use dspark_sensors::{Conditions, Heat, PowerMode};
use dspark_window::bridge::{
    Catalog, Check, Disk, Drafter, FetchError, FetchProgress, Fit, FitAt, FitLevel, Kind, Leftover, Listed, MachineSource, ModelEntry,
    Offer, Pace, Part, Reading, Survey, TokenFrom, TokenState, Trouble,
};
use dspark_window::machine::roofline::Footprint;
use std::{
    path::{Path, PathBuf},
    thread,
    time::Duration,
};
use tokio_util::sync::CancellationToken;

/// What the scripted machine gives a model.
const BUDGET: u64 = 38_700_000_000;

pub struct ScriptedCatalog;

/// A model of the script: GB of weights and drafter, bytes of cache a token of both, GB of recurrent state, its window.
struct Shape {
    weights: f64,
    drafter: f64,
    row: u64,
    drafter_row: u64,
    recurrent: f64,
    window: u64,
}

impl Shape {
    const fn plain(weights: f64, row: u64, window: u64) -> Self {
        Self {
            weights,
            drafter: 0.0,
            row,
            drafter_row: 0,
            recurrent: 0.0,
            window,
        }
    }

    fn at(&self, context: u64) -> FitAt {
        let recurrent = (self.recurrent * 1e9) as u64;
        let typical = context.min(8192);
        let parts = vec![
            (Part::Weights, (self.weights * 1e9) as u64),
            (Part::Drafter, (self.drafter * 1e9) as u64),
            (Part::Context, context * self.row),
            (Part::DrafterContext, context * self.drafter_row),
            (Part::Recurrent, recurrent),
            (Part::Kept, typical * (self.row + self.drafter_row) + recurrent),
            (Part::Working, 700_000_000),
            (Part::App, 250_000_000),
        ];
        let mut at = FitAt {
            context,
            parts: parts.into_iter().filter(|part| part.1 > 0).collect(),
            ..FitAt::default()
        };
        let part = at.total() as f64 / BUDGET as f64;
        let (level, words) = match part {
            ..0.75 => (FitLevel::Well, "Fits well"),
            ..0.9 => (FitLevel::Fits, "Fits"),
            ..1.0 => (FitLevel::Limited, "Tight"),
            _ => (FitLevel::TooBig, "Too big"),
        };
        (at.level, at.words) = (level, words.into());
        at
    }

    fn fit(&self) -> Fit {
        let step = (self.window / 64).max(1024);
        let stops: Vec<FitAt> = (1..=self.window / step).map(|stop| self.at(stop * step)).collect();
        let fits = stops.iter().rev().find(|stop| stop.total() <= BUDGET / 10 * 9);
        Fit {
            at: self.at(8192.min(self.window)),
            budget: BUDGET,
            longest: fits.map_or(0, |stop| stop.context / 8192 * 8192),
            stops,
            context_unknown: false,
        }
    }
}

fn pace(active: f64, times: Option<(f64, f64)>) -> Pace {
    Pace {
        active: (active * 1e9) as u64,
        estimate: false,
        times,
        source: "on an Apple M4 Pro, by mlx-dspark (Python) authors".into(),
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
        ..ModelEntry::default()
    }
}

fn offer(name: &str, detail: &str, gigabytes: f64, shape: &Shape) -> Offer {
    Offer {
        id: name.to_lowercase(),
        name: name.into(),
        detail: detail.into(),
        bytes: (gigabytes * 1e9) as u64,
        fit: shape.fit(),
        exact: true,
        ..Offer::default()
    }
}

fn large() -> Offer {
    let shape = Shape {
        weights: 15.3,
        drafter: 1.9,
        row: 65_536,
        drafter_row: 20_480,
        recurrent: 0.15,
        window: 262_144,
    };
    Offer {
        drafter: Drafter::Missing("Qwen3.8-27B-speculator.dspark".into(), Some(6_800_000_000)),
        pace: pace(14.6, Some((2.2, 2.5))),
        ..offer("Qwen3.8-27B-4bit", "27B hybrid, 256k context, Apache-2.0", 15.3, &shape)
    }
}

fn offers() -> Vec<Offer> {
    let starter = Offer {
        id: "starter".into(),
        starter: true,
        ..offer(
            "SmolLM2-135M-Instruct",
            "135M, 4-bit, 8k context, for trying things out",
            0.098,
            &Shape::plain(0.08, 23_040, 8192),
        )
    };
    let experts = Offer {
        experts: true,
        drafter: Drafter::Missing("Qwen3.6-35B-A3B-DFlash".into(), Some(500_000_000)),
        pace: pace(1.95, Some((1.3, 1.6))),
        ..offer(
            "Qwen3.6-35B-A3B-4bit",
            "35B with 3B active, 256k context",
            19.8,
            &Shape::plain(19.8, 20_480, 262_144),
        )
    };
    let here = Offer {
        here: Some("/models/Qwen3-8B-8bit".into()),
        ..offer(
            "Qwen3-8B-8bit",
            "8.2B, 8-bit, 40k context",
            8.7,
            &Shape::plain(8.7, 147_456, 40_960),
        )
    };
    let wide = Offer {
        drafter: Drafter::Missing("Qwen3.8-27B-speculator.dspark".into(), Some(6_800_000_000)),
        pace: pace(27.6, Some((2.2, 2.5))),
        ..offer(
            "Qwen3.8-27B-8bit",
            "27B hybrid, 256k context, Apache-2.0",
            28.7,
            &Shape::plain(30.6, 86_016, 262_144),
        )
    };
    let huge = Offer {
        aside: true,
        experts: true,
        pace: pace(5.7, None),
        ..offer(
            "Qwen3.5-122B-A10B-4bit",
            "122B with 10B active",
            68.9,
            &Shape::plain(68.9, 20_480, 262_144),
        )
    };
    let middle = Offer {
        pace: pace(2.2, Some((2.0, 2.0))),
        drafter: Drafter::Missing("dspark_qwen3_4b_block7".into(), Some(1_100_000_000)),
        ..offer(
            "Qwen3-4B-4bit",
            "4.0B, 4-bit, 40k context",
            2.3,
            &Shape::plain(2.3, 147_456, 40_960),
        )
    };
    vec![here, starter, large(), experts, middle, wide, huge]
}

impl Catalog for ScriptedCatalog {
    fn survey(&self, folders: &[PathBuf], _: &MachineInfo, _: u64) -> Survey {
        let shape = Shape {
            drafter: 0.78,
            drafter_row: 20_480,
            ..Shape::plain(8.7, 147_456, 40_960)
        };
        let eight = ModelEntry {
            drafter: Drafter::Here("Qwen3-8B-DSpark".into()),
            pace: pace(8.04, Some((2.2, 2.2))),
            removal: Some(Err("it belongs to LM Studio (/models/Qwen3-8B-8bit); delete it there".into())),
            ..entry("Qwen3-8B-8bit", "8.2B, 8-bit, 40k context", "LM Studio", 8.7, shape.fit())
        };
        let small = ModelEntry {
            pace: pace(1.2, None),
            removal: Some(Ok(1_240_000_000)),
            ..entry(
                "MiniCPM5-2B-4bit",
                "2.2B, 4-bit, 128k context",
                "Downloads",
                1.24,
                Shape::plain(1.2, 43_008, 131_072).fit(),
            )
        };
        let torn = ModelEntry {
            problem: Some("incomplete, model-00002-of-00002.safetensors missing: download it again to resume".into()),
            removal: Some(Ok(3_100_000_000)),
            ..entry("gemma-3-4b-it-8bit", "", "Hugging Face cache", 3.1, Fit::default())
        };
        let mut installed = vec![eight, small, torn];
        installed.extend(folders.iter().map(|folder| {
            let fit = Shape::plain(1.8, 114_688, 131_072).fit();
            ModelEntry {
                removal: Some(Err("it is your own folder; delete it yourself".into())),
                ..entry(
                    "Llama-3.2-3B-4bit",
                    "3.2B, 4-bit, 128k context",
                    &folder.display().to_string(),
                    1.8,
                    fit,
                )
            }
        }));
        let check = |words: &str, reason: &str| Check {
            ok: true,
            words: words.into(),
            reason: reason.into(),
        };
        Survey {
            installed,
            offers: offers(),
            checks: vec![
                check("Apple silicon", "MLX runs on its graphics processor."),
                check("macOS 15.2", "14 or later is needed."),
                check("Metal 3", "The graphics interface that MLX uses."),
                check("48 GiB memory", "38.7 GB of it can hold a model."),
                check("412 GB free", "Models are kept on this disk."),
            ],
            leftovers: vec![Leftover {
                id: "mlx-community/gemma-3-4b-it-8bit".into(),
                bytes: 3_100_000_000,
                total: 4_300_000_000,
            }],
            disk: Disk {
                ours: 4_340_000_000,
                free: Some(412_000_000_000),
            },
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
        if id == "gemma-4-12b-8bit" {
            return Err(FetchError::Failed(Trouble {
                kind: Kind::Gated,
                words: "`vendor/Gemma-4-12B-8bit` is gated: accept its licence at https://hub.example/vendor/gemma, then set HF_TOKEN"
                    .into(),
                page: "https://hub.example/vendor/gemma".into(),
            }));
        }
        let known = offers().into_iter().find(|offer| offer.id == id).unwrap_or_default();
        // Large ones take a while, so that pictures can be taken of them.
        let (total, steps) = if known.bytes > 1_000_000_000 {
            (known.whole(), 4000)
        } else {
            (98_000_000, 40)
        };
        let first = if steps > 40 { steps * 37 / 100 } else { 0 };
        for step in first..=steps {
            if cancel.is_cancelled() {
                return Err(FetchError::Cancelled);
            }
            report(FetchProgress {
                stage: "Downloading".into(),
                done: total / steps * step,
                total,
                bytes_per_sec: if steps > 40 { 61e6 } else { 24e6 },
            });
            thread::sleep(Duration::from_millis(50));
        }
        Ok(entry(id, "135M, 4-bit, 8k context", "starter", 0.098, Fit::default()))
    }

    fn search(&self, text: &str, _: &MachineInfo, _: u64, cancel: &CancellationToken) -> Result<Vec<Listed>, FetchError> {
        if text.contains("slow") {
            while !cancel.is_cancelled() {
                thread::sleep(Duration::from_millis(5));
            }
            return Err(FetchError::Cancelled);
        }
        if text.contains("busy") {
            return Err(FetchError::Failed(Trouble {
                kind: Kind::Busy,
                words: "the model hub asks to wait: too many requests from here; try again in 30 s".into(),
                page: String::new(),
            }));
        }
        let listed = |offer: Offer, downloads| Listed {
            offer,
            downloads,
            ..Listed::default()
        };
        let cannot = |name: &str, problem: &str| Listed {
            problem: Some(problem.into()),
            ..listed(offer(name, "", 5.1, &Shape::plain(5.1, 147_456, 40_960)), 8200)
        };
        let found = vec![
            listed(large(), 41_200),
            listed(
                offer(
                    "Qwen3-14B-8bit",
                    "qwen3, 8-bit g64, by mlx-community",
                    15.7,
                    &Shape::plain(15.7, 163_840, 40_960),
                ),
                12_800,
            ),
            Listed {
                gate: "https://hub.example/vendor/gemma".into(),
                ..listed(
                    offer(
                        "Gemma-4-12B-8bit",
                        "gemma4, 8-bit g64, by vendor",
                        12.6,
                        &Shape::plain(12.6, 65_536, 131_072),
                    ),
                    90_300,
                )
            },
            cannot("Qwen3-VL-8B-Instruct", "the architecture `qwen3_vl` is not implemented"),
            cannot("Qwen3-8B-AWQ", "packed by awq: look for its MLX build"),
            cannot("Qwen3-8B-GGUF", "GGUF files only: look for its MLX build"),
        ];
        Ok(found.into_iter().filter(|_| !text.contains("nothing")).collect())
    }

    fn preview(&self, id: &str, machine: &MachineInfo, limit: u64, cancel: &CancellationToken) -> Result<Listed, FetchError> {
        let offered = offers().into_iter().find(|offer| offer.id == id).map(|offer| Listed {
            offer,
            ..Listed::default()
        });
        let listed = || {
            self.search(id, machine, limit, cancel)
                .ok()?
                .into_iter()
                .find(|row| row.offer.id == id)
        };
        offered
            .or_else(listed)
            .ok_or_else(|| FetchError::Failed("the hub does not know it".into()))
    }

    fn verify(&self, _: &Path, report: &mut dyn FnMut(FetchProgress), cancel: &CancellationToken) -> Result<(), FetchError> {
        report(FetchProgress {
            stage: "Verifying".into(),
            done: 1,
            total: 2,
            ..FetchProgress::default()
        });
        if cancel.is_cancelled() {
            Err(FetchError::Cancelled)
        } else {
            Ok(())
        }
    }

    fn token(&self) -> TokenState {
        TokenState {
            from: None,
            kept: false,
            file: "/home/you/.config/mlx-dspark/hub-token".into(),
        }
    }

    fn keep_token(&self, token: Option<&str>) -> Result<TokenState, String> {
        Ok(TokenState {
            from: token.map(|_| TokenFrom::Kept),
            kept: token.is_some(),
            ..self.token()
        })
    }

    fn remove(&self, _: &Path) -> Result<u64, String> {
        Ok(1_240_000_000)
    }

    fn discard(&self, _: &str) -> Result<u64, String> {
        Ok(3_100_000_000)
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
            conditions: Conditions {
                heat: Some(Heat::Nominal),
                celsius: Some(54.0),
                clock: None,
                power_mode: Some(PowerMode::Automatic),
            },
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
