//! One answer to "where is it?", "is it installed?" and "must it be downloaded?".

use crate::{Folder, FolderState, Hub, HubError, Job, Kind, Result, download::RepoCache, gguf, net::RepoId, starter};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Which kind of place a model was found in, in the order they are searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Source {
    /// A folder named by its path.
    #[serde(rename = "path")]
    Path,
    /// Our own cache.
    #[serde(rename = "cache")]
    Cache,
    #[serde(rename = "lmstudio")]
    LmStudio,
    /// A folder of `MLX_DSPARK_MODEL_DIRS` or of the app's settings.
    #[serde(rename = "model_dirs")]
    ModelDirs,
    /// The Hugging Face cache.
    #[serde(rename = "hub")]
    HubCache,
}

/// A model that is here and complete.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Resolved {
    /// As it was asked for.
    pub name: String,
    pub path: PathBuf,
    pub source: Source,
}

/// How a missing model could be got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Remedy {
    /// [`Hub::starter`]
    Starter,
    /// [`Hub::download`]
    Download(RepoId),
    /// The GGUF file is here and can be converted: [`Hub::import`].
    Import(PathBuf),
    None,
}

/// What is known about a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lookup {
    Installed(Resolved),
    Missing {
        remedy: Remedy,
        /// Folders that bear the name but cannot be loaded, and why.
        unusable: Vec<(PathBuf, FolderState)>,
    },
}

impl Hub {
    /// Where `name` is: `starter`, a folder, `owner/name` or the bare name of something installed. No network.
    ///
    /// Order: the folder as typed, our cache (`<name>`, `<owner>_<name>`), LM Studio, the model folders of environment
    /// and settings (`<owner>/<name>`, `<owner>_<name>`, `<name>`), the Hugging Face cache. A place that has the name but
    /// not a loadable model (GGUF, a missing shard) is passed over and remembered.
    pub fn lookup(&self, name: &str) -> Lookup {
        let found = |path: PathBuf, source| {
            Lookup::Installed(Resolved {
                name: name.to_owned(),
                path,
                source,
            })
        };
        if name == starter::NAME {
            return match self.installed_starter() {
                Some(path) => found(path, Source::Cache),
                None => Lookup::Missing {
                    remedy: Remedy::Starter,
                    unusable: Vec::new(),
                },
            };
        }
        let typed = crate::places::expand(name, &self.places.home);
        if typed.is_file() && typed.extension().is_some_and(|ext| ext.eq_ignore_ascii_case("gguf")) {
            let converted = self.import_path(&typed);
            return if gguf::is_complete(&converted) {
                found(converted, Source::Cache)
            } else {
                Lookup::Missing {
                    remedy: Remedy::Import(typed),
                    unusable: Vec::new(),
                }
            };
        }

        let mut unusable = Vec::new();
        for (path, source) in self.candidates(name, &typed) {
            if !path.is_dir() {
                continue;
            }
            let folder = Folder::check(&path);
            let state = match self.unfinished(&path, source) {
                missing if !missing.is_empty() => FolderState::Incomplete { missing },
                _ => folder.state,
            };
            if state == FolderState::Complete {
                return found(path, source);
            }
            // A folder that merely happens to have the name, a source tree say, is nothing to report.
            if !(source == Source::Path && matches!(state, FolderState::NotAModel { .. }) && name.parse::<RepoId>().is_ok()) {
                unusable.push((path, state));
            }
        }
        // A reference is written last: without one, an interrupted first download has only its record.
        let remedy = name.parse().map_or(Remedy::None, Remedy::Download);
        Lookup::Missing { remedy, unusable }
    }

    /// As [`Hub::lookup`], where only an installed model will do.
    ///
    /// # Errors
    /// [`HubError::NotInstalled`] with what to do; the folder's own problem where a folder was named.
    pub fn resolve(&self, name: &str) -> Result<Resolved> {
        match self.lookup(name) {
            Lookup::Installed(resolved) => Ok(resolved),
            Lookup::Missing { remedy, unusable } => Err(self.missing(name, &remedy, &unusable)),
        }
    }

    /// The model's folder, got from wherever it can be: installed, the starter's sources, a conversion, a download.
    ///
    /// # Errors
    /// As [`Hub::resolve`], [`Hub::starter`], [`Hub::download`] and [`gguf::convert`].
    pub async fn obtain(&self, name: &str, job: &Job) -> Result<Resolved> {
        let (remedy, unusable) = match self.lookup(name) {
            Lookup::Installed(resolved) => return Ok(resolved),
            Lookup::Missing { remedy, unusable } => (remedy, unusable),
        };
        match &remedy {
            Remedy::Starter => drop(self.starter(job).await?),
            Remedy::Download(id) => drop(self.download(&id.to_string(), None, job).await?),
            Remedy::Import(file) => drop(self.import(file, job).await?),
            Remedy::None => return Err(self.missing(name, &remedy, &unusable)),
        }
        self.resolve(name)
    }

    /// Converts a GGUF file into our cache, under the file's name.
    ///
    /// # Errors
    /// As [`gguf::convert`].
    pub async fn import(&self, file: &Path, job: &Job) -> Result<PathBuf> {
        let (input, out, job) = (file.to_owned(), self.import_path(file), job.clone());
        let convert = move || gguf::convert(&input, &out, &input.file_name().unwrap_or_default().to_string_lossy(), &job);
        let done = tokio::task::spawn_blocking(convert)
            .await
            .map_err(|e| HubError::Internal(e.to_string()))??;
        Ok(done.path)
    }

    fn import_path(&self, file: &Path) -> PathBuf {
        self.places.models().join(file.file_stem().unwrap_or_default())
    }

    /// Every complete folder of this name, in the order in which they are searched: the first is what [`Hub::lookup`] finds.
    pub fn copies(&self, name: &str) -> Vec<(PathBuf, Source)> {
        let typed = crate::places::expand(name, &self.places.home);
        let mut seen = std::collections::HashSet::new();
        let candidates = self.candidates(name, &typed).into_iter().filter(|(path, source)| {
            let whole = path.is_dir() && self.unfinished(path, *source).is_empty();
            whole && Folder::check(path).state == FolderState::Complete
        });
        candidates
            .filter(|(path, _)| seen.insert(std::fs::canonicalize(path).unwrap_or_else(|_| path.clone())))
            .collect()
    }

    fn candidates(&self, name: &str, typed: &Path) -> Vec<(PathBuf, Source)> {
        let mut places = vec![(typed.to_owned(), Source::Path)];
        let id = name.parse::<RepoId>().ok();
        let (bare, joined) = match &id {
            Some(id) => (id.name.clone(), Some(format!("{}_{}", id.owner, id.name))),
            None if is_plain(name) => (name.to_owned(), None),
            None => return places,
        };
        for root in [self.places.models(), self.places.drafters()] {
            places.push((root.join(&bare), Source::Cache));
            places.extend(joined.iter().map(|joined| (root.join(joined), Source::Cache)));
        }
        if let Some(id) = &id {
            let studio = self.places.lm_studio.iter();
            places.extend(studio.map(|root| (root.join(&id.owner).join(&id.name), Source::LmStudio)));
        }
        for root in &self.places.model_dirs {
            let own = id.iter().map(|id| root.join(&id.owner).join(&id.name));
            let own = own.chain(joined.iter().map(|joined| root.join(joined))).chain([root.join(&bare)]);
            places.extend(own.map(|path| (path, Source::ModelDirs)));
        }
        if let Some(snapshot) = id.as_ref().and_then(|id| self.snapshot(id)) {
            places.push((snapshot, Source::HubCache));
        }
        places
    }

    /// The snapshot to use of a repository in the Hugging Face cache: what `main` points to, else the newest one.
    pub(crate) fn snapshot(&self, id: &RepoId) -> Option<PathBuf> {
        let cache = RepoCache::new(&self.places.hub_cache, id);
        if let Some(path) = cache
            .reference("main")
            .map(|commit| cache.snapshot(&commit))
            .filter(|path| path.is_dir())
        {
            return Some(path);
        }
        std::fs::read_dir(cache.root().join("snapshots"))
            .ok()?
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.is_dir())
            .max_by_key(|path| std::fs::metadata(path).and_then(|meta| meta.modified()).ok())
    }

    /// Files that a download of ours into this snapshot has still to bring.
    pub(crate) fn unfinished(&self, path: &Path, source: Source) -> Vec<String> {
        let parts = || {
            let commit = path.file_name()?.to_str()?;
            let folder = path.parent()?.parent()?.file_name()?.to_str()?;
            Some((commit, RepoId::from_folder(folder)?))
        };
        match (source, parts()) {
            (Source::HubCache, Some((commit, id))) => RepoCache::new(&self.places.hub_cache, &id).unfinished(commit),
            _ => Vec::new(),
        }
    }

    fn missing(&self, name: &str, remedy: &Remedy, unusable: &[(PathBuf, FolderState)]) -> HubError {
        let is_gguf = Path::new(name).extension().is_some_and(|ext| ext.eq_ignore_ascii_case("gguf"));
        let looks_like_path = name.starts_with(['/', '.', '~']);
        if let ([(path, _)], Remedy::None) = (unusable, remedy)
            && let Err(e) = Folder::check(path).require_complete()
        {
            return e;
        }
        // `some/folder` may read as a repository's name too; a model folder there is what was meant.
        let typed = crate::places::expand(name, &self.places.home);
        if unusable.iter().any(|(path, _)| *path == typed)
            && let Err(e) = Folder::check(&typed).require_complete()
        {
            return e;
        }
        let mut hints: Vec<String> = unusable
            .iter()
            .filter_map(|(path, state)| Some(format!("{} is {}", path.display(), state.problem()?)))
            .collect();
        match remedy {
            Remedy::Starter => hints.push("`mlx-dspark starter` gets it".into()),
            Remedy::Download(id) => hints.push(format!("`mlx-dspark models pull {id}` downloads it")),
            Remedy::Import(path) => hints.push(format!("`mlx-dspark models pull {}` converts it", path.display())),
            Remedy::None if is_gguf => hints.push("there is no such file".into()),
            Remedy::None if looks_like_path => hints.push("there is no such folder".into()),
            Remedy::None => {
                let wanted = name.to_ascii_lowercase();
                let near: Vec<String> = self
                    .installed()
                    .into_iter()
                    .filter(|row| row.folder.kind == Kind::Model && row.repo.to_ascii_lowercase().contains(&wanted))
                    .map(|row| format!("`{}`", row.repo))
                    .take(3)
                    .collect();
                hints.push(if near.is_empty() {
                    "give it as `owner/name` to download it, or as a folder".into()
                } else {
                    format!("did you mean {}?", near.join(" or "))
                });
            }
        }
        HubError::NotInstalled {
            name: name.to_owned(),
            hint: hints.join("; "),
        }
    }
}

/// A single visible path component.
fn is_plain(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\\', '\0'])
}
