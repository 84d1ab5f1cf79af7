//! Loading and unloading over HTTP: one at a time, with what was set before kept where it should be.

mod wish;

use crate::{
    App,
    error::ApiError,
    host::{Download, Host, HostError, LoadWish},
};
use axum::http::StatusCode;
use dspark_protocol::{EngineError, LoadEvent, LoadRequest};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio_util::sync::CancellationToken;
pub(crate) use wish::{Wish, parse};

/// What loads over HTTP have left behind.
#[derive(Default)]
pub(crate) struct Admin {
    /// One load at a time; others wait their turn.
    turn: tokio::sync::Mutex<()>,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    sticky: Sticky,
    error: Option<String>,
    download: Option<Download>,
    /// Of the load under way.
    cancel: Option<CancellationToken>,
}

/// Settings that outlast the load they came with. All others are those of the model at hand.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Sticky {
    pub(crate) context_window: Option<usize>,
    pub(crate) enable_thinking: Option<bool>,
    pub(crate) reasoning_effort: Option<String>,
}

impl Admin {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn sticky(&self) -> Sticky {
        self.lock().sticky.clone()
    }

    /// The last load is over and done with.
    pub(crate) fn forget_error(&self) {
        self.lock().error = None;
    }

    /// Why the last load failed, until one succeeds or what is loaded is given up.
    pub(crate) fn error(&self) -> Option<String> {
        self.lock().error.clone()
    }

    pub(crate) fn download(&self) -> Option<Download> {
        self.lock().download.clone()
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.lock().cancel.is_some()
    }

    /// Stops the load under way, if there is one; says which download it was in, if it was in one.
    #[allow(clippy::option_option)]
    pub(crate) fn cancel(&self) -> Option<Option<String>> {
        let inner = self.lock();
        let cancel = inner.cancel.as_ref()?;
        cancel.cancel();
        Some(inner.download.as_ref().map(|download| download.repo.clone()))
    }
}

/// Marks a load as over, whatever became of it.
struct Turn<'a>(&'a Admin);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut inner = self.0.lock();
        inner.cancel = None;
        inner.download = None;
    }
}

fn host(app: &App) -> Result<Arc<dyn Host>, ApiError> {
    app.host.clone().ok_or_else(|| {
        ApiError::new(
            StatusCode::NOT_IMPLEMENTED,
            "not_implemented",
            "this server has no models to choose from: it serves what its program has loaded",
        )
        .code("unsupported_endpoint")
    })
}

/// The host, for what only asks.
pub(crate) fn asked(app: &App) -> Result<Arc<dyn Host>, ApiError> {
    host(app)
}

/// Loads what was wished for. The present model stays until the new one is ready, and stays if it never is.
///
/// # Errors
/// 400 where the model cannot be had, 500 where it does not load, 501 without a [`Host`].
pub(crate) async fn load(app: App, wish: Wish) -> Result<(), ApiError> {
    let host = host(&app)?;
    let admin = &app.admin;
    let _one = admin.turn.lock().await;
    let cancel = CancellationToken::new();
    let mut sticky = admin.sticky();
    wish.stick(&mut sticky);
    {
        let mut inner = admin.lock();
        inner.cancel = Some(cancel.clone());
        inner.error = None;
    }
    let _turn = Turn(admin);
    let wanted = LoadWish {
        context_window: sticky.context_window,
        ..wish.load
    };
    let outcome = async {
        let request = resolve(&app, host.clone(), wanted, cancel.clone()).await?;
        run(&app, request, &cancel).await
    }
    .await;
    match outcome {
        Ok(request) => {
            // A window that was refused is not asked for again.
            admin.lock().sticky = sticky;
            app.ledger.forget();
            host.loaded(&request);
            Ok(())
        }
        Err(error) => {
            admin.lock().error = Some(error.message.to_string());
            Err(error)
        }
    }
}

async fn resolve(app: &App, host: Arc<dyn Host>, wish: LoadWish, cancel: CancellationToken) -> Result<LoadRequest, ApiError> {
    let follow = app.clone();
    let work = move || {
        let report = Arc::new(move |download| follow.admin.lock().download = Some(download));
        host.resolve(&wish, report, &cancel)
    };
    let resolved = tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|_| Err(HostError::Refused("finding the model failed unexpectedly; see the log".into())));
    resolved.map_err(|error| match error {
        HostError::Cancelled => ApiError::bad_body("the load was cancelled").code("cancelled"),
        HostError::Refused(reason) => ApiError::invalid("model", reason).code("model_not_available"),
    })
}

async fn run(app: &App, request: LoadRequest, cancel: &CancellationToken) -> Result<LoadRequest, ApiError> {
    let mut loading = app.engine.load(request.clone())?;
    loop {
        let event = tokio::select! {
            event = loading.next() => event,
            () = cancel.cancelled() => {
                loading.cancel();
                loading.next().await
            }
        };
        match event {
            Some(LoadEvent::Ready(_)) => return Ok(request),
            Some(LoadEvent::Failed(EngineError::Cancelled)) => return Err(ApiError::bad_body("the load was cancelled").code("cancelled")),
            Some(LoadEvent::Failed(error)) => return Err(error.into()),
            Some(LoadEvent::Stage { .. }) => {}
            None => return Err(EngineError::Stopped.into()),
        }
    }
}

/// `{ready, loading, model, error, phase, download}`
pub(crate) fn status(app: &App) -> Value {
    let snapshot = app.engine.snapshot();
    let (loading, phase) = match &snapshot.state {
        dspark_protocol::EngineState::Loading { stage, .. } => (true, Some(crate::state::phase(*stage))),
        dspark_protocol::EngineState::Starting => (true, None),
        _ => (app.admin.is_busy(), None),
    };
    let error = match &snapshot.state {
        dspark_protocol::EngineState::Error { reason } => Some(reason.clone()),
        _ => app.admin.error(),
    };
    json!({
        "ready": snapshot.model.is_some(),
        "loading": loading,
        "model": snapshot.model.as_ref().map(|model| &model.name),
        "error": error,
        "phase": phase,
        "download": app.admin.download(),
    })
}
