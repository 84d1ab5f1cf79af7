//! The engine and a model for a command: find, fetch if asked, load, with progress.

use super::{
    args::EngineArgs,
    exit::{self, Failure, Outcome},
    output::Output,
};
use crate::{
    last_model,
    pairing::{self, PairError, Wish},
};
use dspark_engine::{Calibration, EngineOptions};
use dspark_hub::{Hub, HubError, Job, Lookup, Remedy, Resolved};
use dspark_protocol::{EngineHandle, EngineState, LoadEvent, LoadRequest, LoadStage, ModelInfo};
use std::sync::{Arc, Mutex};
use tokio_util::sync::CancellationToken;

impl From<HubError> for Failure {
    fn from(error: HubError) -> Self {
        let code = match &error {
            HubError::Cancelled => exit::INTERRUPTED,
            HubError::NotInstalled { .. } | HubError::BadName { .. } => exit::USAGE,
            HubError::NotOurs { .. } | HubError::UnsupportedGguf { .. } => exit::REFUSED,
            error if error.is_download() => exit::NETWORK,
            HubError::Incomplete { .. } | HubError::Corrupt { .. } | HubError::NotAModel { .. } | HubError::BadGguf { .. } => exit::LOAD,
            _ => exit::FAILED,
        };
        Self::new(code, error)
    }
}

impl From<PairError> for Failure {
    fn from(error: PairError) -> Self {
        let code = match &error {
            PairError::Unfit { .. } => exit::LOAD,
            PairError::Missing { .. } | PairError::Mode { .. } => exit::USAGE,
        };
        Self::new(code, error)
    }
}

/// The runtime of a command.
pub(super) fn runtime() -> Outcome<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| {
            Failure::new(
                exit::FAILED,
                format!("cannot start the runtime: {error}; close other programs and try again"),
            )
        })
}

/// What every command starts the engine with: what is measured of a model is kept in the program's cache folder.
pub(super) fn options() -> EngineOptions {
    EngineOptions {
        calibration: Calibration::Kept(Hub::from_env().places.cache.join("calibration.json")),
        ..EngineOptions::default()
    }
}

/// Starts the engine and waits for its self-test.
pub(super) async fn start(options: EngineOptions) -> Outcome<EngineHandle> {
    let handle = dspark_engine::start(options);
    let mut changes = handle.subscribe();
    let started = changes.wait_for(|snapshot| snapshot.state != EngineState::Starting).await;
    match started.map(|snapshot| snapshot.state.clone()) {
        Ok(EngineState::Error { reason }) => Err(Failure::new(exit::FAILED, reason)),
        Ok(_) => Ok(handle),
        Err(_) => Err(dspark_protocol::EngineError::Stopped.into()),
    }
}

/// A loaded model for the length of a command.
pub(super) struct Session {
    pub(super) handle: EngineHandle,
    pub(super) model: Arc<ModelInfo>,
}

impl Session {
    pub(super) async fn open(args: &EngineArgs, wish: &Wish, output: &Output) -> Outcome<Self> {
        Self::open_with(options(), args, wish, output).await
    }

    pub(super) async fn open_with(options: EngineOptions, args: &EngineArgs, wish: &Wish, output: &Output) -> Outcome<Self> {
        let resolved = find(args, output).await?;
        let request = request(args, &resolved, wish, output)?;
        let handle = start(options).await?;
        let model = load(&handle, request, output).await?;
        Ok(Self { handle, model })
    }

    /// Ends the engine, so that its memory is back before the process says it is done.
    pub(super) async fn close(&self) {
        stop(&self.handle).await;
    }
}

/// Ends the engine and waits for it, at most 5 s.
pub(super) async fn stop(handle: &EngineHandle) {
    stop_within(handle, std::time::Duration::from_secs(5)).await;
}

pub(super) async fn stop_within(handle: &EngineHandle, patience: std::time::Duration) {
    handle.shutdown();
    let mut changes = handle.subscribe();
    let stopped = changes.wait_for(|snapshot| snapshot.state == EngineState::Stopped);
    let _ = tokio::time::timeout(patience, stopped).await;
}

/// The model that the arguments name, or else the one used last. The starter is fetched on demand; other downloads are
/// asked for with `models pull`, so that a typing error never starts one.
pub(super) async fn find(args: &EngineArgs, output: &Output) -> Outcome<Resolved> {
    if args.trust_remote_code {
        output.note("--trust-remote-code changes nothing: a checkpoint's own Python is never run");
    }
    let hub = Hub::from_env();
    let Some(name) = args.model.clone().or_else(|| last_model::read(&hub)) else {
        return Err(Failure::usage(no_model(&hub)));
    };
    match hub.lookup(&name) {
        Lookup::Installed(resolved) => Ok(resolved),
        Lookup::Missing {
            remedy: Remedy::Starter | Remedy::Import(_),
            ..
        } => with_progress(output, &name, |job| obtain(&hub, &name, job)).await,
        Lookup::Missing { .. } => hub.resolve(&name).map_err(Failure::from),
    }
}

async fn obtain(hub: &Hub, name: &str, job: Job) -> Result<Resolved, HubError> {
    hub.obtain(name, &job).await
}

fn no_model(hub: &Hub) -> String {
    let installed: Vec<_> = hub
        .installed()
        .into_iter()
        .filter(dspark_hub::Installed::is_usable)
        .map(|row| format!("`{}`", row.repo))
        .take(5)
        .collect();
    if installed.is_empty() {
        "no model named and none used before: say `--model starter` for the small one that comes with the program".into()
    } else {
        format!(
            "no model named and none used before: say `--model` with one of {}",
            installed.join(", ")
        )
    }
}

/// Runs a hub operation with a progress bar; Ctrl-C stops it and keeps what has arrived.
pub(super) async fn with_progress<T, E: Into<Failure>, F>(output: &Output, what: &str, work: impl FnOnce(Job) -> F) -> Outcome<T>
where
    F: Future<Output = Result<T, E>>,
{
    let bar = Arc::new(Mutex::new(output.progress(what)));
    // Downloads and conversions take long; the promise is given back with this.
    let desktop = dspark_desktop::of_this_system(dspark_desktop::Program::default());
    desktop.stay_awake(Some(format!("{what} is being fetched or converted")));
    let cancel = CancellationToken::new();
    let follow = bar.clone();
    let job = Job::new(cancel.clone(), move |at| {
        if let Ok(mut bar) = follow.lock() {
            bar.set(&format!("{} {}", at.stage.label(), at.what), at.done, at.total);
        }
    });
    let work = work(job);
    tokio::pin!(work);
    let result = loop {
        tokio::select! {
            result = &mut work => break result,
            _ = tokio::signal::ctrl_c() => cancel.cancel(),
        }
    };
    if let Ok(mut bar) = bar.lock() {
        bar.finish();
    }
    result.map_err(Into::into)
}

/// What to load: the model and its drafter. A better drafter that is not here is told of.
pub(super) fn request(args: &EngineArgs, resolved: &Resolved, wish: &Wish, output: &Output) -> Outcome<LoadRequest> {
    let mut request = LoadRequest {
        name: display_name(resolved),
        path: resolved.path.clone(),
        context_window: args.context_window,
        force: args.force,
        ..LoadRequest::default()
    };
    if let Some(note) = pairing::apply(&Hub::from_env(), wish, &mut request)? {
        output.note(note);
    }
    Ok(request)
}

/// What `/v1/models` and the window call it: the name asked for, or the folder's where a path was given.
fn display_name(resolved: &Resolved) -> String {
    let path_like = resolved.name.starts_with(['/', '.', '~']);
    match resolved.path.file_name() {
        Some(folder) if path_like => folder.to_string_lossy().into_owned(),
        _ => resolved.name.clone(),
    }
}

/// Loads with a progress bar. Ctrl-C cancels between tensors.
pub(super) async fn load(handle: &EngineHandle, request: LoadRequest, output: &Output) -> Outcome<Arc<ModelInfo>> {
    let name = request.name.clone();
    let path = request.path.clone();
    let mut loading = handle.load(request)?;
    let mut bar = output.progress(&format!("Loading {name}"));
    let outcome = loop {
        let event = tokio::select! {
            event = loading.next() => event,
            _ = tokio::signal::ctrl_c() => {
                loading.cancel();
                continue;
            }
        };
        match event {
            Some(LoadEvent::Stage { stage, done, total }) => bar.set(&format!("{} {name}", stage_word(stage)), done, total),
            Some(LoadEvent::Ready(info)) => break Ok(info),
            Some(LoadEvent::Failed(error)) => break Err(error.into()),
            None => break Err(dspark_protocol::EngineError::Stopped.into()),
        }
    };
    bar.finish();
    if let Ok(info) = &outcome {
        for note in &info.notes {
            output.note(format!("{name}: {note}"));
        }
        last_model::write(&Hub::from_env(), &name, &path);
    }
    outcome
}

fn stage_word(stage: LoadStage) -> &'static str {
    match stage {
        LoadStage::Checking => "Checking",
        LoadStage::Reading => "Reading",
        LoadStage::Preparing => "Preparing",
        LoadStage::Calibrating => "Calibrating",
        LoadStage::WarmingUp => "Warming up",
    }
}
