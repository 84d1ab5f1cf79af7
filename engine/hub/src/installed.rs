use crate::{
    Folder, FolderState, Hub, HubError, Job, Lookup, Result, Source, disk,
    download::RepoCache,
    net::{Digest, RepoId, check_digest},
    registry, starter,
};
use serde::Serialize;
use std::{
    collections::HashSet,
    path::{Path, PathBuf},
};

/// A model or drafter on this machine.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Installed {
    /// The name to ask for it by.
    pub repo: String,
    pub source: Source,
    /// The registry row it belongs to.
    pub registry_id: Option<String>,
    #[serde(flatten)]
    pub folder: Folder,
}

impl Installed {
    pub fn is_usable(&self) -> bool {
        self.folder.state == FolderState::Complete
    }
}

/// What [`Hub::remove`] freed, or would.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Removed {
    pub path: PathBuf,
    /// 0 for a link: what it points to stays.
    pub bytes: u64,
    /// Only a symbolic link goes, not the files behind it.
    pub link: bool,
}

impl Hub {
    /// Everything on this machine, unusable folders with their reason included; models first, then by size.
    pub fn installed(&self) -> Vec<Installed> {
        let mut rows = Vec::new();
        for root in [self.places.models(), self.places.drafters()] {
            rows.extend(folders(&root).into_iter().map(|(name, path)| (name, path, Source::Cache)));
        }
        for root in &self.places.lm_studio {
            rows.extend(nested(root).into_iter().map(|(name, path)| (name, path, Source::LmStudio)));
        }
        for root in &self.places.model_dirs {
            let direct = folders(root).into_iter().filter(|(_, path)| holds_weights(path));
            rows.extend(direct.chain(nested(root)).map(|(name, path)| (name, path, Source::ModelDirs)));
        }
        let repos = folders(&self.places.hub_cache)
            .into_iter()
            .filter_map(|(folder, _)| RepoId::from_folder(&folder));
        rows.extend(repos.filter_map(|id| Some((id.to_string(), self.snapshot(&id)?, Source::HubCache))));

        let mut seen = HashSet::new();
        let mut rows: Vec<Installed> = rows
            .into_iter()
            .filter(|(_, path, _)| seen.insert(std::fs::canonicalize(path).unwrap_or_else(|_| path.clone())))
            .map(|(name, path, source)| self.row(name, &path, source))
            // Folders of other things (sources, datasets, embeddings without weights) are not models that went wrong.
            .filter(|row| !matches!(row.folder.state, FolderState::NotAModel { .. }))
            .collect();
        rows.sort_by_key(|row| (row.folder.kind, std::cmp::Reverse(row.folder.size_bytes)));
        rows
    }

    fn row(&self, name: String, path: &Path, source: Source) -> Installed {
        let mut folder = Folder::look(path);
        let missing = self.unfinished(path, source);
        if !missing.is_empty() {
            folder.state = FolderState::Incomplete { missing };
        }
        let is_starter = path == self.places.models().join(starter::FOLDER);
        Installed {
            registry_id: registry::find(&name).map(|row| row.id.clone()),
            repo: if is_starter { starter::NAME.into() } else { name },
            source,
            folder,
        }
    }

    /// Bytes on disk of what we brought here: our cache and our downloads in the Hugging Face cache.
    pub fn disk_usage(&self) -> u64 {
        let ours: u64 = folders(&self.places.hub_cache)
            .into_iter()
            .filter_map(|(folder, path)| Some((RepoId::from_folder(&folder)?, path)))
            .filter(|(id, _)| RepoCache::new(&self.places.hub_cache, id).is_ours())
            .map(|(_, path)| disk::usage(&path))
            .sum();
        ours + disk::usage(&self.places.cache)
    }

    /// Deletes a model that this program brought: from our cache, or its own downloads in the Hugging Face cache.
    /// `shared` also allows a download of another program there (the cache is shared, it can be downloaded again).
    ///
    /// # Errors
    /// [`HubError::NotOurs`] for LM Studio's models, model folders and paths: those belong to their owners.
    pub fn remove(&self, name: &str, shared: bool) -> Result<Removed> {
        self.sweep();
        Self::delete(self.removable(name, shared)?)
    }

    /// What [`Hub::remove`] would delete. Nothing changes.
    ///
    /// # Errors
    /// As [`Hub::remove`].
    pub fn removable(&self, name: &str, shared: bool) -> Result<Removed> {
        let (path, source) = match self.lookup(name) {
            Lookup::Installed(found) => (found.path, found.source),
            // A damaged or half-downloaded model can be removed too.
            Lookup::Missing { unusable, .. } => unusable
                .into_iter()
                .map(|(path, _)| path)
                .chain(
                    [self.places.models().join(starter::FOLDER)]
                        .into_iter()
                        .filter(|path| name == starter::NAME && path.exists()),
                )
                .find_map(|path| Some((path.clone(), self.owner_of(&path)?)))
                .ok_or_else(|| HubError::NotInstalled {
                    name: name.to_owned(),
                    hint: "`mlx-dspark models` lists what is".into(),
                })?,
        };
        self.plan(name, path, source, shared)
    }

    /// As [`Hub::removable`], of the model in this folder and no other of its name.
    ///
    /// # Errors
    /// As [`Hub::removable`].
    pub fn removable_at(&self, path: &Path, shared: bool) -> Result<Removed> {
        let within = |roots: &[PathBuf]| roots.iter().any(|root| path.starts_with(root));
        let source = match self.owner_of(path) {
            Some(source) => source,
            None if within(&self.places.lm_studio) => Source::LmStudio,
            None if within(&self.places.model_dirs) => Source::ModelDirs,
            None => Source::Path,
        };
        let name = path
            .file_name()
            .map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned());
        self.plan(&name, path.to_owned(), source, shared)
    }

    /// As [`Hub::remove`], of the model in this folder and no other of its name.
    ///
    /// # Errors
    /// As [`Hub::remove`].
    pub fn remove_at(&self, path: &Path, shared: bool) -> Result<Removed> {
        self.sweep();
        Self::delete(self.removable_at(path, shared)?)
    }

    fn delete(removed: Removed) -> Result<Removed> {
        let target = &removed.path;
        // Out of sight in one step, so that a half-deleted model is never found.
        let trash = disk::sibling(target, ".deleting");
        disk::remove_dir(&trash)?;
        std::fs::rename(target, &trash).map_err(HubError::io("delete", target))?;
        disk::remove_dir(&trash)?;
        Ok(removed)
    }

    fn plan(&self, name: &str, path: PathBuf, source: Source, shared: bool) -> Result<Removed> {
        let refuse = |reason: String| HubError::NotOurs {
            name: name.to_owned(),
            reason,
        };
        let target = match source {
            Source::Cache => path,
            Source::HubCache => {
                let repo = path.ancestors().nth(2).unwrap_or(&path).to_owned();
                let id = repo.file_name().and_then(|name| RepoId::from_folder(name.to_str()?));
                let ours = id.is_some_and(|id| RepoCache::new(&self.places.hub_cache, &id).is_ours());
                if !ours && !shared {
                    return Err(refuse(format!(
                        "another program downloaded it into the shared cache ({}); ask for shared models to delete it too",
                        repo.display()
                    )));
                }
                repo
            }
            Source::LmStudio => return Err(refuse(format!("it belongs to LM Studio ({}); delete it there", path.display()))),
            Source::ModelDirs | Source::Path => return Err(refuse(format!("{} is your own folder; delete it yourself", path.display()))),
        };
        let link = target.is_symlink();
        let bytes = if link { 0 } else { disk::usage(&target) };
        Ok(Removed { path: target, bytes, link })
    }

    /// Finishes deletions that a kill interrupted.
    fn sweep(&self) {
        for root in [self.places.models(), self.places.drafters(), self.places.hub_cache.clone()] {
            for entry in std::fs::read_dir(root).into_iter().flatten().flatten() {
                if entry
                    .file_name()
                    .to_str()
                    .is_some_and(|name| name.starts_with('.') && name.ends_with(".deleting"))
                {
                    let _ = disk::remove_dir(&entry.path());
                }
            }
        }
    }

    fn owner_of(&self, path: &Path) -> Option<Source> {
        if path.starts_with(&self.places.cache) {
            Some(Source::Cache)
        } else if path.starts_with(&self.places.hub_cache) {
            Some(Source::HubCache)
        } else {
            None
        }
    }

    /// Checks an installed model: headers against file sizes and, where the Hugging Face cache names its blobs by their
    /// hash, every byte. Blocking; reads the whole model.
    ///
    /// # Errors
    /// [`HubError::Corrupt`] names the first damaged file.
    pub fn verify(&self, name: &str, job: &Job) -> Result<PathBuf> {
        let path = self.resolve(name)?.path;
        verify_at(&path, job)?;
        Ok(path)
    }
}

/// As [`Hub::verify`], of the model in this folder.
///
/// # Errors
/// As [`Hub::verify`].
pub fn verify_at(path: &Path, job: &Job) -> Result<()> {
    Folder::check(path).require_complete()?;
    for entry in std::fs::read_dir(path).map_err(HubError::io("read", path))?.flatten() {
        let Ok(blob) = std::fs::read_link(entry.path()) else { continue };
        let etag = blob.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        let digest = match etag.len() {
            64 => Digest::Sha256(etag),
            40 => Digest::GitBlob(etag),
            _ => continue,
        };
        let what = entry.file_name().to_string_lossy().into_owned();
        if !check_digest(&entry.path(), &digest, &what, job)? {
            return Err(HubError::Corrupt {
                path: entry.path(),
                reason: "its checksum is wrong".into(),
            });
        }
    }
    Ok(())
}

/// Visible sub-folders by name.
fn folders(root: &Path) -> Vec<(String, PathBuf)> {
    let mut found: Vec<(String, PathBuf)> = std::fs::read_dir(root)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| Some((entry.file_name().into_string().ok()?, entry.path())))
        .filter(|(name, path)| !name.starts_with('.') && path.is_dir())
        .collect();
    found.sort();
    found
}

/// `<owner>/<name>` folders.
fn nested(root: &Path) -> Vec<(String, PathBuf)> {
    folders(root)
        .into_iter()
        .filter(|(_, path)| !holds_weights(path))
        .flat_map(|(owner, path)| {
            folders(&path)
                .into_iter()
                .map(move |(name, path)| (format!("{owner}/{name}"), path))
        })
        .collect()
}

fn holds_weights(path: &Path) -> bool {
    std::fs::read_dir(path).into_iter().flatten().flatten().any(|entry| {
        Path::new(&entry.file_name())
            .extension()
            .is_some_and(|ext| ext == "safetensors" || ext == "gguf")
    })
}
