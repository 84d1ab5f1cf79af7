//! What a measurement belongs to.

use dspark_protocol::{ModelInfo, Snapshot};
use serde::{Deserialize, Serialize};
use std::time::{SystemTime, UNIX_EPOCH};

/// Model, machine, version and time of a measurement.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Stamp {
    /// Seconds since the Unix epoch.
    pub at: u64,
    /// Of this program, with the commit it was built from where that is known.
    pub version: String,
    pub target: String,
    #[serde(default)]
    pub quantization: String,
    pub drafter: Option<String>,
    pub device: String,
    pub backend: String,
    pub mlx: String,
    #[serde(default)]
    pub cores: usize,
    /// Bytes of main memory.
    #[serde(default)]
    pub ram: u64,
}

impl Stamp {
    /// Of now, for the loaded `model`.
    pub fn of(snapshot: &Snapshot, model: &ModelInfo, version: &str) -> Self {
        let machine = &snapshot.machine;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            at: now.as_secs(),
            version: version.into(),
            target: model.name.clone(),
            quantization: model.quantization.clone(),
            drafter: model.drafter.clone(),
            device: machine.device.clone(),
            backend: machine.backend.clone(),
            mlx: machine.mlx_version.clone(),
            cores: machine.cores,
            ram: machine.ram,
        }
    }

    /// Whether figures of both may be set against each other: the same pair on the same machine.
    pub fn is_alike(&self, other: &Self) -> bool {
        let key = |stamp: &Self| {
            (
                stamp.target.clone(),
                stamp.quantization.clone(),
                stamp.drafter.clone(),
                stamp.device.clone(),
                stamp.backend.clone(),
            )
        };
        key(self) == key(other)
    }
}

/// Clients other than `own` that are being answered or wait.
pub(crate) fn others<'a>(snapshot: &'a Snapshot, own: &'a str) -> impl Iterator<Item = String> + 'a {
    let requests = snapshot.requests.iter().map(|request| &request.client);
    requests.filter(move |client| client.as_str() != own).cloned()
}
