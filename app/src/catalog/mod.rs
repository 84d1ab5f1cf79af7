//! The window's view of the hub: what is here, what could be had, what would fit.

mod rows;
mod twins;

use crate::{
    machine,
    pairing::{self, PairError, Wish},
};
use dspark_hub::{Folder, Hub, HubError, Installed, Job, Kind, Limit, Source, TokenFrom, fit};
use dspark_protocol::{LoadRequest, MachineInfo, Mode, SpeculationOptions, TreeSetting};
use dspark_window::bridge::{self, Catalog, Check, Disk, FetchError, FetchProgress, Listed, ModelEntry, Survey, TokenState, Trouble};
pub(crate) use rows::needs;
use rows::{entry, found_row, missing_drafter, offers, previewed};
use std::{
    path::{Path, PathBuf},
    sync::mpsc,
    time::{Duration, Instant},
};
use tokio_util::sync::CancellationToken;

/// Seconds over which a download's rate is averaged.
const RATE_WINDOW: Duration = Duration::from_secs(10);

/// Models on disk and on the hub.
#[derive(Default)]
pub struct HubCatalog {
    wish: Wish,
    /// The model that the wish was made for; `None`: any.
    start: Option<PathBuf>,
    /// Of all downloads of this program.
    limit: Limit,
}

impl HubCatalog {
    pub(crate) fn new(wish: Wish, start: Option<PathBuf>) -> Self {
        Self {
            wish,
            start,
            limit: Limit::default(),
        }
    }

    /// Downloads under this cap.
    #[must_use]
    pub fn under(mut self, limit: Limit) -> Self {
        self.limit = limit;
        self
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
        let mut installed: Vec<ModelEntry> = hub
            .installed()
            .into_iter()
            .filter(|row| row.folder.kind == Kind::Model)
            .map(|row| entry(&hub, &row, &machine))
            .collect();
        twins::note(&hub, &mut installed);
        let leftovers = hub.leftovers().into_iter().map(|left| bridge::Leftover {
            id: left.repo,
            bytes: left.bytes,
            total: left.total,
        });
        Survey {
            offers: offers(&hub, &machine, &installed),
            installed,
            checks: checks(&hub, info, &machine),
            leftovers: leftovers.collect(),
            disk: Disk {
                ours: hub.disk_usage(),
                free: dspark_hub::free_space(&hub.places.hub_cache),
            },
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
        let hub = hub(&[]).with_limit(self.limit.clone());
        let resolved = followed(&hub, report, cancel, |job| {
            dspark_hub::block_on(async { pairing::obtain(&hub, id, &job).await.map(|(model, _)| model) }).and_then(|found| found)
        })?;
        let row = Installed {
            repo: resolved.name,
            source: resolved.source,
            registry_id: None,
            folder: Folder::look(&resolved.path),
        };
        Ok(entry(&hub, &row, &machine::for_fit()))
    }

    fn update(&self, id: &str, report: &mut dyn FnMut(FetchProgress), cancel: &CancellationToken) -> Result<ModelEntry, FetchError> {
        let hub = hub(&[]).with_limit(self.limit.clone());
        let path = followed(&hub, report, cancel, |job| {
            dspark_hub::block_on(async { hub.download(id, None, &job).await }).and_then(|found| found)
        })?;
        let row = Installed {
            repo: id.to_owned(),
            source: Source::HubCache,
            registry_id: None,
            folder: Folder::look(&path),
        };
        Ok(entry(&hub, &row, &machine::for_fit()))
    }

    fn search(&self, text: &str, info: &MachineInfo, limit: u64, cancel: &CancellationToken) -> Result<Vec<Listed>, FetchError> {
        if let Some(id) = Hub::repo_in(text) {
            return self.preview(&id.to_string(), info, limit, cancel).map(|found| vec![found]);
        }
        let (hub, machine) = (hub(&[]), fit_machine(info, limit));
        let job = Job::new(cancel.clone(), |_| {});
        let found = dspark_hub::block_on(hub.search(text, &job)).and_then(|found| found);
        let here = hub.installed();
        let found = found.map_err(|error| failed(&hub, error))?;
        Ok(found.iter().map(|row| found_row(&hub, row, &machine, &here)).collect())
    }

    fn preview(&self, id: &str, info: &MachineInfo, limit: u64, cancel: &CancellationToken) -> Result<Listed, FetchError> {
        let (hub, machine) = (hub(&[]), fit_machine(info, limit));
        let job = Job::new(cancel.clone(), |_| {});
        let asked = async {
            let preview = hub.preview(id, None, &job).await?;
            // A drafter that cannot be asked about keeps nobody from the model.
            let drafter = match missing_drafter(&hub, id) {
                Some(name) if name.contains('/') => hub.preview(&name, None, &job).await.ok().map(|found| (name, found)),
                _ => None,
            };
            Ok((preview, drafter))
        };
        let (preview, drafter) = dspark_hub::block_on(asked)
            .and_then(|found| found)
            .map_err(|error| failed(&hub, error))?;
        Ok(previewed(&hub, &preview, drafter.as_ref(), &machine))
    }

    fn verify(&self, path: &Path, report: &mut dyn FnMut(FetchProgress), cancel: &CancellationToken) -> Result<(), FetchError> {
        followed(&hub(&[]), report, cancel, |job| dspark_hub::verify_at(path, &job))
    }

    fn remove(&self, path: &Path) -> Result<u64, String> {
        let removed = hub(&[]).remove_at(path, false).map_err(|error| error.to_string())?;
        Ok(removed.bytes)
    }

    /// Nobody is asked over the network for it.
    fn facts(&self) -> String {
        let hub = hub(&[]);
        let token = match hub.token_from() {
            None => "none",
            Some(TokenFrom::Variable) => "HF_TOKEN",
            Some(TokenFrom::Shared(_)) => "the shared token file",
            Some(TokenFrom::Kept(_)) => "kept by this program",
        };
        let free = |path: &Path| dspark_hub::free_space(path).map_or_else(|| "unknown".into(), dspark_hub::size);
        let places = &hub.places;
        format!(
            "Hub: {}\nAccess token: {token}\nOwn cache: {}, {} free\nHugging Face cache: {}, {} free\nOf this program: {}\n\
             LM Studio: {}\nMore folders: {}\nDownload cap: {} bytes a second\n",
            hub.host(),
            places.cache.display(),
            free(&places.cache),
            places.hub_cache.display(),
            free(&places.hub_cache),
            dspark_hub::size(hub.disk_usage()),
            joined(&places.lm_studio),
            joined(&places.model_dirs),
            self.limit.get(),
        )
    }

    fn limit(&self, bytes_per_second: u64) {
        self.limit.set(bytes_per_second);
    }

    fn token(&self) -> TokenState {
        let hub = hub(&[]);
        TokenState {
            from: hub.token_from().map(|from| match from {
                TokenFrom::Variable => bridge::TokenFrom::Variable,
                TokenFrom::Shared(path) => bridge::TokenFrom::Shared(path.clone()),
                TokenFrom::Kept(_) => bridge::TokenFrom::Kept,
            }),
            kept: hub.kept_token().is_file(),
            file: hub.kept_token().to_owned(),
        }
    }

    fn keep_token(&self, token: Option<&str>) -> Result<TokenState, String> {
        hub(&[]).keep_token(token).map_err(|error| error.to_string())?;
        Ok(self.token())
    }

    fn discard(&self, id: &str) -> Result<u64, String> {
        let removed = hub(&[]).discard(id).map_err(|error| error.to_string())?;
        Ok(removed.bytes)
    }
}

/// Runs long work on a thread of its own and passes its newest report on, a few times a second.
fn followed<T: Send>(
    hub: &Hub,
    report: &mut dyn FnMut(FetchProgress),
    cancel: &CancellationToken,
    work: impl FnOnce(Job) -> Result<T, HubError> + Send,
) -> Result<T, FetchError> {
    let (sender, progress) = mpsc::channel();
    let job = Job::new(cancel.clone(), move |at| {
        let _ = sender.send(at.clone());
    });
    let result = std::thread::scope(|scope| {
        let work = scope.spawn(move || work(job));
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
            .unwrap_or_else(|_| Err(HubError::Internal("the work stopped unexpectedly".into())))
    });
    result.map_err(|error| failed(hub, error))
}

/// What went wrong, and of which kind: that decides what a person is offered.
fn failed(hub: &Hub, error: HubError) -> FetchError {
    use bridge::Kind;
    let (kind, page) = match &error {
        HubError::Cancelled => return FetchError::Cancelled,
        HubError::Offline { .. } | HubError::Unreachable { .. } => (Kind::Offline, String::new()),
        HubError::TooMany { .. } => (Kind::Busy, String::new()),
        HubError::Network { .. } | HubError::BadReply { .. } => (Kind::Network, String::new()),
        HubError::Checksum { .. } | HubError::Corrupt { .. } => (Kind::Damaged, String::new()),
        HubError::DiskFull { .. } => (Kind::NoSpace, String::new()),
        HubError::Gated { url, .. } => (Kind::Gated, url.clone()),
        HubError::BadToken | HubError::Forbidden { .. } => (Kind::Refused, hub.page("settings/tokens")),
        HubError::RepoNotFound { .. } | HubError::RevisionNotFound { .. } | HubError::FileNotFound { .. } => (Kind::Missing, String::new()),
        HubError::NothingToLoad { .. } | HubError::UnsupportedGguf { .. } => (Kind::Unsupported, String::new()),
        _ => (Kind::Other, String::new()),
    };
    FetchError::Failed(Trouble {
        kind,
        words: error.to_string(),
        page,
    })
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

fn joined(paths: &[PathBuf]) -> String {
    let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    if paths.is_empty() { "none".into() } else { paths.join(", ") }
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
