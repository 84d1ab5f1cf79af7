use crate::{HubError, Result};
use serde::Serialize;
use std::{fmt, sync::Arc};
use tokio_util::sync::CancellationToken;

/// What a long operation is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Asking where the files are.
    Resolving,
    /// Another process works on the same files; it is waited for.
    Waiting,
    Downloading,
    Verifying,
    Converting,
    Ready,
}

impl Stage {
    /// For a progress bar: `downloading`.
    pub fn label(self) -> &'static str {
        match self {
            Self::Resolving => "looking up",
            Self::Waiting => "waiting for another process",
            Self::Downloading => "downloading",
            Self::Verifying => "verifying",
            Self::Converting => "converting",
            Self::Ready => "ready",
        }
    }
}

/// A step of a long operation. `done` and `total` are bytes; a total of 0 is unknown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Progress {
    pub stage: Stage,
    /// What is being worked on: a repository, a file or a source.
    pub what: String,
    pub done: u64,
    pub total: u64,
}

type Reporter = dyn Fn(&Progress) + Send + Sync;

/// How a caller follows and stops a long operation. Clones share the same token and callback.
///
/// The callback runs on whichever thread makes progress, up to a few times a second; it must not block.
#[derive(Clone)]
pub struct Job {
    cancel: CancellationToken,
    report: Arc<Reporter>,
}

impl Job {
    pub fn new(cancel: CancellationToken, report: impl Fn(&Progress) + Send + Sync + 'static) -> Self {
        Self {
            cancel,
            report: Arc::new(report),
        }
    }

    /// Not followed and never cancelled.
    pub fn silent() -> Self {
        Self::new(CancellationToken::new(), |_| {})
    }

    pub fn token(&self) -> &CancellationToken {
        &self.cancel
    }

    /// Tells of a step.
    pub fn report(&self, stage: Stage, what: impl Into<String>, done: u64, total: u64) {
        (self.report)(&Progress {
            stage,
            what: what.into(),
            done,
            total,
        });
    }

    pub(crate) fn check(&self) -> Result<()> {
        if self.cancel.is_cancelled() {
            Err(HubError::Cancelled)
        } else {
            Ok(())
        }
    }

    /// The same reports, ended by its own token too: one failed part stops its siblings.
    pub(crate) fn child(&self) -> Self {
        Self {
            cancel: self.cancel.child_token(),
            report: Arc::clone(&self.report),
        }
    }

    /// Runs `future` until it ends or the job is cancelled, whichever is first.
    pub(crate) async fn race<T>(&self, future: impl Future<Output = Result<T>>) -> Result<T> {
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => Err(HubError::Cancelled),
            result = future => result,
        }
    }
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job")
            .field("cancelled", &self.cancel.is_cancelled())
            .finish_non_exhaustive()
    }
}
