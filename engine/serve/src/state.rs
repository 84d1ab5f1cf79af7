//! What every handler shares.

use crate::{
    ServeConfig,
    error::ApiError,
    registry::{Activity, ClientStats, LiveRequest},
};
use dspark_protocol::{EngineHandle, EngineState, LoadStage, Mode, ModelInfo, Snapshot};
use std::{
    net::IpAddr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use tokio_util::sync::CancellationToken;

/// The server's state: the engine, the knobs and the requests in flight. Cheap to clone.
#[derive(Clone)]
pub struct App(Arc<Shared>);

pub struct Shared {
    pub(crate) engine: EngineHandle,
    pub(crate) config: ServeConfig,
    /// Reachable from other machines.
    pub(crate) exposed: bool,
    pub(crate) registry: Activity,
    /// Seconds since the Unix epoch.
    pub(crate) started: u64,
    /// Set once, when the server begins to stop: running generations end at their next round.
    pub(crate) stopping: CancellationToken,
    paused: AtomicBool,
    last_mode: Mutex<Option<Mode>>,
    pub(crate) efforts: crate::dialect::effort::Efforts,
    pub(crate) ledger: crate::receipt::Ledger,
    pub(crate) admin: crate::admin::Admin,
    pub(crate) host: Option<Arc<dyn crate::Host>>,
}

impl std::ops::Deref for App {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}

/// One word for [`App::status`].
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Status {
    Ok,
    Loading,
    NoModel,
    Paused,
    Stalled(Duration),
    Error(String),
    Stopping,
}

impl Status {
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Loading => "loading",
            Self::NoModel => "no_model",
            Self::Paused => "paused",
            Self::Stalled(_) => "stalled",
            Self::Error(_) => "error",
            Self::Stopping => "stopping",
        }
    }
}

impl App {
    /// State for a server reached at `address`; [`crate::Server::bind`] makes its own.
    pub fn new(config: ServeConfig, engine: EngineHandle, address: IpAddr) -> Self {
        Self::with_host(config, engine, address, None)
    }

    /// The same, with a program around it that can load models.
    pub fn with_host(config: ServeConfig, engine: EngineHandle, address: IpAddr, host: Option<Arc<dyn crate::Host>>) -> Self {
        Self::going_on(config, engine, address, host, Activity::default())
    }

    /// The same, with what an earlier server of this program has seen.
    pub(crate) fn going_on(
        config: ServeConfig,
        engine: EngineHandle,
        address: IpAddr,
        host: Option<Arc<dyn crate::Host>>,
        registry: Activity,
    ) -> Self {
        Self(Arc::new(Shared {
            engine,
            config,
            exposed: !address.is_loopback(),
            registry,
            started: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
            stopping: CancellationToken::new(),
            paused: AtomicBool::new(false),
            last_mode: Mutex::default(),
            efforts: crate::dialect::effort::Efforts::default(),
            ledger: crate::receipt::Ledger::default(),
            admin: crate::admin::Admin::default(),
            host,
        }))
    }

    pub(crate) fn set_paused(&self, paused: bool) {
        self.paused.store(paused, Ordering::Relaxed);
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.paused.load(Ordering::Relaxed)
    }

    pub fn live(&self) -> Vec<LiveRequest> {
        self.registry.live()
    }

    pub fn clients(&self) -> Vec<ClientStats> {
        self.registry.clients()
    }

    pub(crate) fn ran_in(&self, mode: Mode) {
        *self.last_mode.lock().unwrap_or_else(PoisonError::into_inner) = Some(mode);
    }

    /// The mode that the last answer ran in; before the first, the loaded one unless that is still to be chosen.
    pub(crate) fn effective_mode(&self, model: &ModelInfo) -> Option<Mode> {
        let last = *self.last_mode.lock().unwrap_or_else(PoisonError::into_inner);
        last.or((model.mode != Mode::Auto).then_some(model.mode))
    }

    /// As the last load over HTTP said, else as the server was started.
    pub(crate) fn enable_thinking(&self) -> Option<bool> {
        self.admin.sticky().enable_thinking.or(self.config.enable_thinking)
    }

    pub(crate) fn reasoning_effort(&self) -> Option<String> {
        self.admin
            .sticky()
            .reasoning_effort
            .or_else(|| self.config.reasoning_effort.clone())
    }

    pub(crate) fn status(&self, snapshot: &Snapshot) -> Status {
        if self.stopping.is_cancelled() || snapshot.state == EngineState::Stopped {
            return Status::Stopping;
        }
        if let EngineState::Error { reason } = &snapshot.state {
            return Status::Error(reason.clone());
        }
        if let Some(silence) = self.silence(snapshot).filter(|silence| *silence >= self.config.stall_after) {
            return Status::Stalled(silence);
        }
        match &snapshot.state {
            _ if self.is_paused() => Status::Paused,
            _ if snapshot.model.is_some() => Status::Ok,
            EngineState::Starting | EngineState::Loading { .. } => Status::Loading,
            _ => Status::NoModel,
        }
    }

    /// How long the slowest running request has gone without a delivery: our own, and the engine's others.
    fn silence(&self, snapshot: &Snapshot) -> Option<Duration> {
        let running = snapshot.requests.iter().any(|request| !request.waiting);
        let engine = running.then(|| snapshot.beat.elapsed());
        self.registry.longest_silence().max(engine)
    }

    /// The loaded model, or why there is no answer now.
    pub(crate) fn ready(&self, snapshot: &Snapshot) -> Result<Arc<ModelInfo>, ApiError> {
        match self.status(snapshot) {
            Status::Ok | Status::Stalled(_) => snapshot.model.clone().ok_or_else(|| dspark_protocol::EngineError::NoModel.into()),
            Status::Paused => Err(ApiError::unavailable(
                "paused",
                "the server is paused: resume it in the app (menu bar or Settings), then try again",
            )
            .retry_after(5)),
            Status::Loading => Err(ApiError::unavailable("loading", loading_message(&snapshot.state)).retry_after(2)),
            Status::NoModel => Err(dspark_protocol::EngineError::NoModel.into()),
            Status::Error(reason) => Err(ApiError::unavailable("engine_error", format!("the engine cannot serve: {reason}"))),
            Status::Stopping => Err(stopping()),
        }
    }
}

/// The server is on its way down.
pub(crate) fn stopping() -> ApiError {
    ApiError::unavailable("server_stopping", "the server is shutting down: try again when it is back").retry_after(5)
}

fn loading_message(state: &EngineState) -> String {
    match state {
        EngineState::Loading { stage, done, total } if *total > 0 => {
            format!(
                "the model is still loading ({} %, {}): try again in a moment",
                done * 100 / total,
                phase(*stage)
            )
        }
        EngineState::Loading { stage, .. } => format!("the model is still loading ({}): try again in a moment", phase(*stage)),
        _ => "the engine is starting: try again in a moment".into(),
    }
}

/// The two phases that `/health` knows.
pub(crate) fn phase(stage: LoadStage) -> &'static str {
    match stage {
        LoadStage::Calibrating | LoadStage::WarmingUp => "warming_up",
        LoadStage::Checking | LoadStage::Reading | LoadStage::Preparing => "loading",
    }
}
