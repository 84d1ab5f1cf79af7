//! Facts about this machine's surroundings, none of which needs MLX.

use crate::{Hub, Job, disk, pip};
use serde::Serialize;
use std::{path::PathBuf, time::Duration};

/// A folder models are read from or written to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Place {
    pub label: &'static str,
    pub path: PathBuf,
    pub exists: bool,
    pub writable: bool,
    /// Bytes free on its disk.
    pub free: Option<u64>,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Facts {
    pub places: Vec<Place>,
    /// The host models come from.
    pub hub: String,
    pub hub_offline: bool,
    /// Why the hub cannot be reached; none where it can.
    pub hub_problem: Option<String>,
    /// Whether a token is set; the token itself is never shown.
    pub token: bool,
    /// `pip 23.2`, for the starter's second source; or why there is none.
    pub pip: Result<String, String>,
    pub starter: bool,
    /// Drafters shipped with the program that were found.
    pub drafters: usize,
    /// Downloads that were interrupted and can be resumed.
    pub interrupted: Vec<String>,
}

impl Hub {
    /// Looks around. Takes at most about three seconds, for the network.
    pub async fn doctor(&self, job: &Job) -> Facts {
        let own = [
            ("model cache", self.places.cache.clone()),
            ("Hugging Face cache", self.places.hub_cache.clone()),
        ];
        let studio = self.places.lm_studio.iter().map(|path| ("LM Studio", path.clone()));
        let extra = self.places.model_dirs.iter().map(|path| ("model folder", path.clone()));
        let limit = Duration::from_secs(3);
        let (reach, pip) = tokio::join!(
            self.net.answers(limit),
            tokio::time::timeout(limit, pip::version(&self.python, job))
        );
        Facts {
            places: own
                .into_iter()
                .chain(studio)
                .chain(extra)
                .map(|(label, path)| place(label, path))
                .collect(),
            hub: self.net.host(),
            hub_offline: self.net.offline,
            hub_problem: reach.err().map(|e| e.to_string()),
            token: self.net.has_token(),
            pip: match pip {
                Ok(result) => result.map_err(|e| e.to_string()),
                Err(_) => Err("pip does not answer".into()),
            },
            starter: self.installed_starter().is_some(),
            drafters: crate::assets::drafters().len(),
            interrupted: self.interrupted_downloads().iter().map(ToString::to_string).collect(),
        }
    }
}

fn place(label: &'static str, path: PathBuf) -> Place {
    let nearest = path.ancestors().find(|p| p.exists());
    let writable = nearest.is_some_and(|p| rustix::fs::access(p, rustix::fs::Access::WRITE_OK).is_ok());
    Place {
        label,
        exists: path.is_dir(),
        writable,
        free: disk::free_space(&path),
        path,
    }
}
