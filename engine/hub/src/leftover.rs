//! Downloads that ended before they were whole: what lies here of them, and how to be rid of it.

use crate::{Hub, HubError, Removed, Result, disk, download::RepoCache, net::RepoId};
use serde::Serialize;
use std::{collections::HashSet, ffi::OsString, path::Path};

/// A download of ours that was not finished (quit, killed, cancelled, out of space).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Leftover {
    pub repo: String,
    /// Here already; 0 where nothing but its record is.
    pub bytes: u64,
    /// Of all its files.
    pub total: u64,
}

impl Hub {
    /// Unfinished downloads in the Hugging Face cache, by name.
    pub fn leftovers(&self) -> Vec<Leftover> {
        let mut found: Vec<Leftover> = self
            .interrupted_downloads()
            .into_iter()
            .map(|id| {
                let cache = RepoCache::new(&self.places.hub_cache, &id);
                let (bytes, total) = cache.progress();
                Leftover {
                    repo: id.to_string(),
                    bytes,
                    total,
                }
            })
            .collect();
        found.sort_by(|a, b| a.repo.cmp(&b.repo));
        found
    }

    /// Deletes what an unfinished download left. Revisions that are whole stay, with every file they use.
    ///
    /// # Errors
    /// [`HubError::NotInstalled`] where nothing is left over of `repo`.
    pub fn discard(&self, repo: &str) -> Result<Removed> {
        let id: RepoId = repo.parse()?;
        let cache = RepoCache::new(&self.places.hub_cache, &id);
        let commits = cache.interrupted();
        if commits.is_empty() {
            return Err(HubError::NotInstalled {
                name: repo.to_owned(),
                hint: "there is no unfinished download of it".into(),
            });
        }
        let before = disk::usage(cache.root());
        for commit in &commits {
            disk::remove_dir(&cache.snapshot(commit))?;
            disk::remove_file(&cache.record(commit))?;
        }
        let used = used_blobs(&cache.root().join("snapshots"));
        if used.is_empty() {
            disk::remove_dir(cache.root())?;
        } else {
            for entry in std::fs::read_dir(cache.root().join("blobs")).into_iter().flatten().flatten() {
                if !used.contains(&entry.file_name()) {
                    disk::remove_file(&entry.path())?;
                }
            }
        }
        Ok(Removed {
            path: cache.root().to_owned(),
            bytes: before.saturating_sub(disk::usage(cache.root())),
            link: false,
        })
    }
}

/// Names of the blobs that the files of all snapshots are.
fn used_blobs(snapshots: &Path) -> HashSet<OsString> {
    let mut used = HashSet::new();
    let mut folders = vec![snapshots.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if let Ok(blob) = std::fs::read_link(&path) {
                used.extend(blob.file_name().map(ToOwned::to_owned));
            } else if path.is_dir() {
                folders.push(path);
            }
        }
    }
    used
}
