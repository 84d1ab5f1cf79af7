//! Facts about this machine's surroundings, none of which needs MLX.

use crate::{Hub, Job, disk, pip};
use serde::Serialize;
use std::{
    path::{Path, PathBuf},
    time::Duration,
};

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
                .map(|(label, path)| place(label, path, can_create))
                .chain(studio.chain(extra).map(|(label, path)| place(label, path, may_write)))
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

fn place(label: &'static str, path: PathBuf, writable: impl Fn(&Path) -> bool) -> Place {
    let nearest = path.ancestors().find(|p| p.exists());
    let writable = nearest.is_some_and(writable);
    Place {
        label,
        exists: path.is_dir(),
        writable,
        free: disk::free_space(&path),
        path,
    }
}

/// By its permissions: nothing is written into other programs' folders.
fn may_write(folder: &Path) -> bool {
    rustix::fs::access(folder, rustix::fs::Access::WRITE_OK).is_ok()
}

/// By trying: permissions say nothing about file systems that take no folders, and nothing to the superuser.
fn can_create(folder: &Path) -> bool {
    let probe = folder.join(format!(".mlx-dspark-{}", std::process::id()));
    may_write(folder) && std::fs::create_dir(&probe).and_then(|()| std::fs::remove_dir(&probe)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_below_a_file_cannot_be_written() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        assert!(place("model cache", folder.path().join("a/b"), can_create).writable);
        assert!(!place("model cache", file.join("a"), can_create).writable);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "the probe stays behind");
    }
}
