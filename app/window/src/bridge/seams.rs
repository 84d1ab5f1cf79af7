//! What the window needs from the rest of the program, as traits: the hub behind [`Catalog`], the HTTP server behind
//! [`ServerControl`]. The binary fills them in; tests and screenshots bring their own.

use super::Activity;
use crate::machine::{roofline::Footprint, verdict::Pressure};
use dspark_protocol::{LoadRequest, MachineInfo};
use std::{
    fmt::Write,
    path::{Path, PathBuf},
};
use tokio_util::sync::CancellationToken;

/// How well a model sits in this machine's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FitLevel {
    #[default]
    Unknown,
    Well,
    Fits,
    /// Only with a shorter context than the model could have.
    Limited,
    TooBig,
}

/// A verdict and the sum it came from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Fit {
    pub level: FitLevel,
    /// `Fits well`, `Fits to 24k context`.
    pub words: String,
    /// Name and bytes of each part.
    pub parts: Vec<(String, u64)>,
}

/// A model on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelEntry {
    pub name: String,
    pub path: PathBuf,
    /// `135M, 4-bit, 8k context`.
    pub detail: String,
    /// Where it was found: `starter`, `Hugging Face cache`, `LM Studio`, a folder.
    pub source: String,
    pub bytes: u64,
    pub fit: Fit,
    /// Why it cannot be loaded.
    pub problem: Option<String>,
}

/// A model that can be downloaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// What [`Catalog::fetch`] takes: `starter`, or a repository.
    pub id: String,
    pub name: String,
    pub detail: String,
    /// Bytes to download; 0 when unknown.
    pub bytes: u64,
    pub fit: Fit,
    /// The small model that comes with the app.
    pub starter: bool,
}

/// One line of the machine check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    pub ok: bool,
    pub words: String,
    /// Why it matters or what to do, on hover.
    pub reason: String,
}

/// Everything there is to choose from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Survey {
    pub installed: Vec<ModelEntry>,
    pub offers: Vec<Offer>,
    pub checks: Vec<Check>,
}

/// How far a download is.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FetchProgress {
    /// `Downloading`, `Converting`, `Checking`.
    pub stage: String,
    pub done: u64,
    /// 0 when unknown.
    pub total: u64,
    pub bytes_per_sec: f64,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    #[error("cancelled")]
    Cancelled,
    #[error("{0}")]
    Failed(String),
}

/// Models on disk and elsewhere. Called from a background thread; may block.
pub trait Catalog: Send + Sync {
    fn survey(&self, folders: &[PathBuf], machine: &MachineInfo, limit: u64) -> Survey;

    /// A folder that a person pointed at.
    ///
    /// # Errors
    /// Why it is not a model, in words for a person.
    fn inspect(&self, path: &Path) -> Result<ModelEntry, String>;

    /// Fills in what goes with the model: its drafter, and how to speculate.
    ///
    /// # Errors
    /// Where a drafter that was asked for by name cannot be had, in words for a person.
    fn prepare(&self, request: LoadRequest) -> Result<LoadRequest, String> {
        Ok(request)
    }

    /// Downloads and prepares `id`. An interrupted download goes on where it stopped.
    ///
    /// # Errors
    /// [`FetchError::Cancelled`] after `cancel`, else what happened and what to do.
    fn fetch(&self, id: &str, report: &mut dyn FnMut(FetchProgress), cancel: &CancellationToken) -> Result<ModelEntry, FetchError>;
}

/// How the HTTP server is asked to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerConfig {
    pub port: u16,
    pub api_key: Option<String>,
}

/// Why the server did not start.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ServerFailure {
    /// What happened and who holds the port, if known.
    pub reason: String,
    pub next_free: Option<u16>,
}

/// The HTTP server. Called from a background thread; may block.
pub trait ServerControl: Send + Sync {
    /// Starts, or restarts with another configuration. Returns the base URL.
    ///
    /// # Errors
    /// [`ServerFailure`], such as a port in use.
    fn start(&self, config: &ServerConfig) -> Result<String, ServerFailure>;
    fn stop(&self);

    /// Who asks for what, also while it is stopped. Asked for by the window's own thread: answers at once.
    fn activity(&self) -> Activity {
        Activity::default()
    }

    /// Stops the request of this id at its next round; false where there is none. Answers at once.
    fn cancel(&self, _id: &str) -> bool {
        false
    }
}

/// A program without a server.
pub struct NoServer;

impl ServerControl for NoServer {
    fn start(&self, _: &ServerConfig) -> Result<String, ServerFailure> {
        Err(ServerFailure {
            reason: "This build has no server.".into(),
            next_free: None,
        })
    }

    fn stop(&self) {}
}

/// How this machine's memory is now, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Reading {
    pub pressure: Pressure,
    /// What programs could still get without swapping.
    pub available: u64,
    pub total: u64,
    pub swap_used: u64,
    /// 0: there is none.
    pub swap_total: u64,
    /// Percent of the last ten seconds in which work waited for memory, where the system counts that.
    pub stalled: Option<f64>,
}

impl Reading {
    pub fn is_pressed(&self) -> bool {
        self.pressure != Pressure::Normal
    }

    /// What the level means, with the figures it comes from.
    pub fn explain(&self) -> String {
        let part = 100.0 * self.available as f64 / self.total.max(1) as f64;
        let mut words = format!("{part:.0}% of memory can still be had without swapping");
        if let Some(stalled) = self.stalled {
            let _ = write!(words, "; work waited for memory in {stalled:.1}% of the last ten seconds");
        }
        words.push('.');
        words
    }
}

/// The machine itself. Called from a background thread; may block.
pub trait MachineSource: Send + Sync {
    fn read(&self) -> Reading;

    /// Bytes of the weights in a model's folder.
    ///
    /// # Errors
    /// What cannot be read, in words for a person.
    fn footprint(&self, model: &Path) -> Result<Footprint, String>;
}

/// A machine that says nothing of itself.
pub struct NoMachine;

impl MachineSource for NoMachine {
    fn read(&self) -> Reading {
        Reading::default()
    }

    fn footprint(&self, _: &Path) -> Result<Footprint, String> {
        Err("This build does not read models.".into())
    }
}
