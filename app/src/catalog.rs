//! The window's view of the hub: what is here, what could be had, what would fit.

use crate::{
    machine,
    pairing::{self, PairError, Wish},
};
use dspark_hub::{Folder, Hub, HubError, Installed, Job, Kind, Source, fit, registry, starter};
use dspark_protocol::{LoadRequest, MachineInfo, Mode, SpeculationOptions, TreeSetting};
use dspark_window::bridge::{Catalog, Check, FetchError, FetchProgress, Fit, FitLevel, ModelEntry, Offer, Survey};
use std::{
    path::{Path, PathBuf},
    sync::mpsc,
    time::{Duration, Instant},
};
use tokio_util::sync::CancellationToken;

/// Tokens of context that verdicts assume.
const CONTEXT: u64 = 8192;
/// Seconds over which a download's rate is averaged.
const RATE_WINDOW: Duration = Duration::from_secs(10);

/// Models on disk and on the hub.
#[derive(Default)]
pub struct HubCatalog {
    wish: Wish,
    /// The model that the wish was made for; `None`: any.
    start: Option<PathBuf>,
}

impl HubCatalog {
    pub(crate) fn new(wish: Wish, start: Option<PathBuf>) -> Self {
        Self { wish, start }
    }

    /// What the request says, with what was said on the command line over it. A drafter named there is for the model named
    /// there; the others find their own.
    fn wish_for(&self, request: &LoadRequest) -> Wish {
        let said = &self.wish;
        let here = self.start.as_ref().is_none_or(|start| *start == request.path);
        let set = &request.speculation;
        let asked = request.drafter.as_ref().map(|path| path.to_string_lossy().into_owned());
        Wish {
            mode: if said.mode == Mode::Auto { request.mode } else { said.mode },
            drafter: said.drafter.clone().filter(|_| here).or(asked),
            bits: said.bits.or(request.drafter_bits),
            max_draft: said.max_draft,
            speculation: SpeculationOptions {
                tree: if said.speculation.tree == TreeSetting::Auto {
                    set.tree
                } else {
                    said.speculation.tree
                },
                confidence: if said.speculation.confidence > 0.0 {
                    said.speculation.confidence
                } else {
                    set.confidence
                },
                lookup: said.speculation.lookup.or(set.lookup),
                cap: set.cap,
            },
        }
    }
}

impl Catalog for HubCatalog {
    fn survey(&self, folders: &[PathBuf], info: &MachineInfo, limit: u64) -> Survey {
        let hub = hub(folders);
        let machine = fit_machine(info, limit);
        let installed: Vec<ModelEntry> = hub
            .installed()
            .into_iter()
            .filter(|row| row.folder.kind == Kind::Model)
            .map(|row| entry(&hub, &row, &machine))
            .collect();
        let have = |target: &str| installed.iter().any(|row| row.name.eq_ignore_ascii_case(target));
        let mut offers = Vec::new();
        if hub.installed_starter().is_none() {
            offers.push(starter_offer());
        }
        let families = machine::families();
        let families: Vec<&str> = families.iter().map(String::as_str).collect();
        offers.extend(
            registry::recommended(machine.ram, &families)
                .into_iter()
                .filter(|row| !have(&row.target))
                .map(|row| offer(row, &machine)),
        );
        Survey {
            installed,
            offers,
            checks: checks(&hub, info, &machine),
        }
    }

    fn inspect(&self, path: &Path) -> Result<ModelEntry, String> {
        if !path.is_dir() {
            let what = if path.exists() { "is a file" } else { "does not exist" };
            return Err(format!(
                "`{}` {what}: choose a folder with config.json and safetensors weights",
                path.display()
            ));
        }
        let folder = Folder::check(path);
        folder.require_complete().map_err(|error| error.to_string())?;
        if folder.kind == Kind::Drafter {
            return Err(format!("{} holds a drafter: choose the model it belongs to", path.display()));
        }
        let name = path
            .file_name()
            .map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned());
        let row = Installed {
            repo: name,
            source: Source::Path,
            registry_id: None,
            folder,
        };
        Ok(entry(&hub(&[]), &row, &machine::for_fit()))
    }

    fn prepare(&self, mut request: LoadRequest) -> Result<LoadRequest, String> {
        let hub = hub(&[]);
        let wish = self.wish_for(&request);
        let paired = match pairing::apply(&hub, &wish, &mut request) {
            // A mode that was set once does not keep models without such a drafter from loading: the engine tells.
            Err(PairError::Mode { .. }) if wish.drafter.is_none() && self.wish.mode != wish.mode => {
                let open = Wish {
                    mode: Mode::Auto,
                    ..wish.clone()
                };
                let paired = pairing::apply(&hub, &open, &mut request);
                request.mode = wish.mode;
                paired
            }
            paired => paired,
        };
        if let Some(note) = paired.map_err(|error| error.plain())? {
            tracing::info!(model = request.name, note);
        }
        Ok(request)
    }

    fn fetch(&self, id: &str, report: &mut dyn FnMut(FetchProgress), cancel: &CancellationToken) -> Result<ModelEntry, FetchError> {
        let hub = hub(&[]);
        let (sender, progress) = mpsc::channel();
        let job = Job::new(cancel.clone(), move |at| {
            let _ = sender.send(at.clone());
        });
        let resolved = std::thread::scope(|scope| {
            let work = scope.spawn(|| dspark_hub::block_on(async { pairing::obtain(&hub, id, &job).await.map(|(model, _)| model) }));
            let mut rate = Rate::default();
            while !work.is_finished() {
                // Only the newest report matters: the sender may be much faster than a screen.
                if let Some(at) = progress
                    .recv_timeout(Duration::from_millis(100))
                    .ok()
                    .map(|first| progress.try_iter().last().unwrap_or(first))
                {
                    report(FetchProgress {
                        stage: capital(at.stage.label()),
                        done: at.done,
                        total: at.total,
                        bytes_per_sec: rate.add(at.done),
                    });
                }
            }
            work.join()
                .unwrap_or_else(|_| Err(HubError::Internal("the download stopped unexpectedly".into())))
        });
        let resolved = resolved.and_then(|result| result).map_err(|error| match error {
            HubError::Cancelled => FetchError::Cancelled,
            error => FetchError::Failed(error.to_string()),
        })?;
        let row = Installed {
            repo: resolved.name,
            source: resolved.source,
            registry_id: None,
            folder: Folder::look(&resolved.path),
        };
        Ok(entry(&hub, &row, &machine::for_fit()))
    }
}

fn hub(folders: &[PathBuf]) -> Hub {
    Hub::from_env().with_model_dirs(folders.iter().cloned())
}

fn fit_machine(info: &MachineInfo, limit: u64) -> fit::Machine {
    let gpu = (info.backend != "cpu" && limit > 0).then_some(limit);
    fit::Machine {
        ram: info.ram,
        working_set: gpu,
        available: None,
    }
}

fn entry(hub: &Hub, row: &Installed, machine: &fit::Machine) -> ModelEntry {
    let folder = &row.folder;
    let is_starter = row.repo == starter::NAME || (row.source == Source::Cache && row.repo == starter::FOLDER);
    let window = folder.config["max_position_embeddings"]
        .as_u64()
        .or_else(|| folder.config["text_config"]["max_position_embeddings"].as_u64());
    let detail: Vec<String> = [
        folder.model_type.clone(),
        folder.quantization.clone(),
        window.map(|tokens| format!("{} context", thousands(tokens))),
        drafter(hub, row),
    ]
    .into_iter()
    .flatten()
    .collect();
    let model = fit::Model::from_config(&folder.config, folder.weight_bytes, 16);
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
    }
}

/// What the model drafts with by itself.
fn drafter(hub: &Hub, row: &Installed) -> Option<String> {
    let target = pairing::Target {
        name: &row.repo,
        path: &row.folder.path,
    };
    let pairing = pairing::pair(hub, target, &Wish::default()).ok()?;
    match (pairing.drafter, pairing.missing) {
        (Some(drafter), _) => Some(format!("{} drafter", drafter.kind.label())),
        (None, Some(_)) => Some("drafter not installed".into()),
        (None, None) => None,
    }
}

fn verdict(model: &fit::Model, machine: &fit::Machine) -> Fit {
    let fit = fit::judge(model, machine, CONTEXT);
    Fit {
        level: match fit.verdict {
            fit::Verdict::FitsWell => FitLevel::Well,
            fit::Verdict::Fits | fit::Verdict::Tight => FitLevel::Fits,
            fit::Verdict::ShorterContext { .. } => FitLevel::Limited,
            fit::Verdict::TooBig => FitLevel::TooBig,
        },
        words: fit.verdict.label(),
        parts: fit.items.iter().map(|item| (item.label.to_owned(), item.bytes)).collect(),
    }
}

fn starter_offer() -> Offer {
    Offer {
        id: starter::NAME.into(),
        name: starter::FOLDER.into(),
        detail: "135M, 4-bit, 8k context. Small enough for any machine, needs no account.".into(),
        bytes: Hub::starter_bytes(),
        fit: Fit {
            level: FitLevel::Well,
            words: "Fits well".into(),
            parts: Vec::new(),
        },
        starter: true,
    }
}

fn offer(row: &registry::Row, machine: &fit::Machine) -> Offer {
    let model = fit::Model {
        weight_bytes: row.estimated_bytes(),
        kv_per_token: row.kv_bytes,
        ..fit::Model::default()
    };
    let name = row.target.rsplit('/').next().unwrap_or(&row.target);
    Offer {
        id: row.target.clone(),
        name: name.into(),
        detail: format!("{}B, {}-bit", row.parameters, row.bits),
        bytes: row.estimated_bytes(),
        fit: verdict(&model, machine),
        starter: false,
    }
}

fn checks(hub: &Hub, info: &MachineInfo, machine: &fit::Machine) -> Vec<Check> {
    let gigabytes = |bytes: u64| dspark_hub::size(bytes);
    let free = dspark_hub::free_space(&hub.places.cache);
    vec![
        Check {
            ok: !info.backend.is_empty(),
            words: match info.backend.as_str() {
                "" => "The engine did not start".into(),
                "cpu" => format!("{}, {} cores", info.device, info.cores),
                _ => info.device.clone(),
            },
            reason: match info.backend.as_str() {
                "" => "Without it nothing can be computed; the status at the top right says why.".into(),
                "cpu" => format!(
                    "Models run on the processor, with MLX {}. The self-test was passed.",
                    info.mlx_version
                ),
                gpu => format!(
                    "Models run on the graphics processor, with MLX {} on {}. The self-test was passed.",
                    info.mlx_version,
                    if gpu == "metal" { "Metal" } else { "CUDA" }
                ),
            },
        },
        Check {
            ok: machine.ram >= 15 << 30,
            words: format!("{:.0} GiB of memory", machine.ram as f64 / f64::from(1 << 30)),
            reason: format!(
                "A model may use {} of it.{}",
                gigabytes(machine.budget()),
                if machine.ram < 15 << 30 {
                    " Only small models run well in less than 16 GiB."
                } else {
                    ""
                }
            ),
        },
        Check {
            ok: free.is_none_or(|free| free > 10_000_000_000),
            words: free.map_or_else(
                || "Free disk space unknown".into(),
                |free| format!("{} free on disk", gigabytes(free)),
            ),
            reason: format!("Models are kept in {}.", hub.places.cache.display()),
        },
    ]
}

fn thousands(tokens: u64) -> String {
    if tokens >= 1024 {
        format!("{}k", tokens / 1024)
    } else {
        tokens.to_string()
    }
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters
        .next()
        .map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// Bytes a second over the last while.
#[derive(Default)]
struct Rate(std::collections::VecDeque<(Instant, u64)>);

impl Rate {
    fn add(&mut self, done: u64) -> f64 {
        let now = Instant::now();
        // Another file, or a start from zero: what came before says nothing about now.
        if self.0.back().is_some_and(|(_, last)| *last > done) {
            self.0.clear();
        }
        self.0.push_back((now, done));
        while self.0.front().is_some_and(|(then, _)| now.duration_since(*then) > RATE_WINDOW) {
            self.0.pop_front();
        }
        match (self.0.front(), self.0.back()) {
            (Some((start, from)), Some((end, to))) if end > start => (to - from) as f64 / end.duration_since(*start).as_secs_f64(),
            _ => 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_for_sizes() {
        assert_eq!(thousands(8192), "8k");
        assert_eq!(thousands(512), "512");
        assert_eq!(capital("downloading"), "Downloading");
    }

    #[test]
    fn a_rate_starts_over_with_each_file() {
        let mut rate = Rate::default();
        assert_eq!(rate.add(1000), 0.0);
        std::thread::sleep(Duration::from_millis(5));
        assert!(rate.add(2000) > 0.0);
        assert_eq!(rate.add(10), 0.0);
    }

    /// The window's settings come with the request; the command line wins, its drafter for its model alone.
    #[test]
    fn what_was_said_wins_over_what_is_set() {
        let request = LoadRequest {
            path: "/models/a".into(),
            mode: Mode::Lookup,
            speculation: SpeculationOptions {
                tree: TreeSetting::Off,
                cap: dspark_protocol::Cap::Fixed(3),
                ..SpeculationOptions::default()
            },
            ..LoadRequest::default()
        };
        let set = HubCatalog::default().wish_for(&request);
        assert_eq!(
            (set.mode, set.speculation.tree, set.drafter),
            (Mode::Lookup, TreeSetting::Off, None)
        );
        assert_eq!(set.speculation.cap, request.speculation.cap);
        let said = Wish {
            mode: Mode::Dspark,
            drafter: Some("x/y".into()),
            ..Wish::default()
        };
        let catalog = HubCatalog::new(said, Some("/models/a".into()));
        let here = catalog.wish_for(&request);
        assert_eq!((here.mode, here.drafter.as_deref()), (Mode::Dspark, Some("x/y")));
        let elsewhere = LoadRequest {
            path: "/models/b".into(),
            drafter: Some("/drafters/z".into()),
            ..request
        };
        assert_eq!(catalog.wish_for(&elsewhere).drafter.as_deref(), Some("/drafters/z"));
    }

    /// A mode that the settings ask for does not keep a model without such a drafter from loading.
    #[test]
    fn a_mode_without_its_drafter_still_loads() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("config.json"), "{}").unwrap();
        let request = LoadRequest {
            name: "Mystery-7B".into(),
            path: folder.path().into(),
            mode: Mode::Dspark,
            ..LoadRequest::default()
        };
        let ready = HubCatalog::default().prepare(request.clone()).unwrap();
        assert_eq!((ready.mode, ready.drafter, ready.drafter_required), (Mode::Dspark, None, false));
        let named = LoadRequest {
            drafter: Some("/no/such/drafter".into()),
            ..request
        };
        let refusal = HubCatalog::default().prepare(named).unwrap_err();
        assert!(refusal.contains("/no/such/drafter") && !refusal.contains("--drafter"), "{refusal}");
    }

    #[test]
    fn an_empty_folder_is_refused_with_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let refusal = HubCatalog::default().inspect(folder.path()).unwrap_err();
        assert!(refusal.contains(&folder.path().display().to_string()), "{refusal}");
    }
}
