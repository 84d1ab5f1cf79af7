//! What the server needs from the program around it: models by name, and word of the machine. The server itself owns no
//! models; a program without a [`Host`] answers 501 where one is needed.

use dspark_protocol::{LoadRequest, Mode, Snapshot, SpeculationOptions};
use serde_json::Value;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// A load as a client asks for it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LoadWish {
    /// A name, hub id or folder.
    pub model: String,
    /// A drafter's name or folder.
    pub drafter: Option<String>,
    /// Bits that the drafter's matrices are packed to; 0 keeps them, `None` is the engine's choice.
    pub drafter_bits: Option<u8>,
    pub mode: Mode,
    pub speculation: SpeculationOptions,
    /// Tokens; `None` takes the model's own maximum.
    pub context_window: Option<usize>,
    pub warm_up: bool,
    /// Although its weights take more than this machine can give.
    pub force: bool,
}

/// How far a download is.
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize)]
pub struct Download {
    pub repo: String,
    pub bytes_done: u64,
    /// 0 when unknown.
    pub bytes_total: u64,
}

/// Follows a download; called from whichever thread makes progress.
pub type Report = Arc<dyn Fn(Download) + Send + Sync>;

/// Why a wish could not be turned into a load.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    #[error("cancelled")]
    Cancelled,
    /// What happened, and what to do.
    #[error("{0}")]
    Refused(String),
}

/// What agents' settings are written for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Serving {
    /// Where this server was reached, without `/v1`.
    pub base_url: String,
    pub model: String,
    pub context_window: usize,
    pub max_output_tokens: usize,
    pub thinks: bool,
    pub key: Option<String>,
}

/// This machine, as far as it is known; `null` where it is not. Source: `spec/http-api.md` §13.3.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Gauges {
    pub chip: Value,
    /// Of the whole machine, bytes; with its pressure.
    pub memory: Value,
    pub bandwidth: Value,
    /// Tokens a second that plain decoding of the loaded model cannot exceed.
    pub roofline: Value,
    /// A calibrated plain step against memory bandwidth.
    pub baseline: Value,
    /// All of it in words.
    pub verdict: Value,
}

/// The program around the server. Called from background threads; may block.
pub trait Host: Send + Sync {
    /// Finds the model, fetching it if need be, and checks that it can be loaded before the present one is given up.
    ///
    /// # Errors
    /// [`HostError`]
    fn resolve(&self, wish: &LoadWish, report: Report, cancel: &CancellationToken) -> Result<LoadRequest, HostError>;

    /// A load has succeeded.
    fn loaded(&self, _request: &LoadRequest) {}

    /// `{registry, installed, disk, model_dirs}`, what can be loaded and what could be had.
    fn models(&self) -> Value;

    /// The machine, and how the loaded model fares on it; nothing is measured for it.
    fn gauges(&self, snapshot: &Snapshot) -> Gauges;

    /// Whether everything on this machine is as it should be.
    fn doctor(&self) -> Value;

    /// How each known client is set up to use this server.
    fn integrations(&self, serving: &Serving) -> Value;
}
