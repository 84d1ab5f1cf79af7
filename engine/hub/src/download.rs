use crate::{
    Hub, HubError, Job, Result, Stage, disk,
    net::{Meter, Remote, RepoFile, RepoId, RepoInfo, fetch},
    places::HUB_CACHE,
};
use futures_util::{TryStreamExt, stream};
use serde_json::json;
use std::path::{Path, PathBuf};

/// Files that arrive side by side.
const PARALLEL: usize = 4;
/// Where our records of a repository lie inside its cache folder; other programs ignore it.
const RECORDS: &str = ".mlx-dspark";

/// The cache folder of one repository, in the layout that all Hugging Face programs share:
/// `blobs/<etag>`, `snapshots/<commit>/<file>` → blob, `refs/<revision>` = commit.
#[derive(Debug, Clone)]
pub(crate) struct RepoCache {
    root: PathBuf,
    locks: PathBuf,
}

impl RepoCache {
    pub(crate) fn new(hub_cache: &Path, id: &RepoId) -> Self {
        let folder = id.folder();
        Self {
            root: hub_cache.join(&folder),
            locks: hub_cache.join(".locks").join(folder),
        }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    fn blob(&self, etag: &str) -> PathBuf {
        self.root.join("blobs").join(etag)
    }

    fn partial(&self, etag: &str) -> PathBuf {
        self.root.join("blobs").join(format!("{etag}.incomplete"))
    }

    /// Newer Python clients give their partial files random names and never come back to them. One that nobody has written
    /// to for a minute becomes ours; the caller holds the blob's lock.
    fn adopt(&self, etag: &str) -> Result<()> {
        let partial = self.partial(etag);
        let (prefix, quiet) = (format!("{etag}."), std::time::Duration::from_mins(1));
        let left = std::fs::read_dir(self.root.join("blobs"))
            .into_iter()
            .flatten()
            .flatten()
            .filter(|entry| {
                let name = entry.file_name();
                let middle = name
                    .to_str()
                    .and_then(|name| name.strip_prefix(&prefix)?.strip_suffix(".incomplete"));
                middle.is_some_and(|middle| middle.bytes().all(|b| b.is_ascii_hexdigit()))
            })
            .filter_map(|entry| Some((entry.metadata().ok()?, entry.path())))
            .filter(|(meta, _)| meta.modified().is_ok_and(|at| at.elapsed().is_ok_and(|age| age > quiet)))
            .max_by_key(|(meta, _)| meta.len());
        match left {
            Some((meta, path)) if !partial.exists() && meta.len() > 0 => {
                std::fs::rename(&path, &partial).map_err(HubError::io("continue", path))
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn snapshot(&self, commit: &str) -> PathBuf {
        self.root.join("snapshots").join(commit)
    }

    /// The commit that a branch or tag pointed to when it was last downloaded whole.
    pub(crate) fn reference(&self, revision: &str) -> Option<String> {
        let commit = std::fs::read_to_string(self.root.join("refs").join(revision)).ok()?;
        let commit = commit.trim().to_owned();
        (commit.len() == 40 && commit.bytes().all(|b| b.is_ascii_hexdigit())).then_some(commit)
    }

    /// The record of a download of ours: present from its start, `complete` at its end.
    pub(crate) fn record(&self, commit: &str) -> PathBuf {
        self.root.join(RECORDS).join(format!("{commit}.json"))
    }

    /// True where this program, not another one, brought something here.
    pub(crate) fn is_ours(&self) -> bool {
        self.root.join(RECORDS).is_dir()
    }

    /// Files that a started download of ours still lacks at `commit`; empty where it is complete or not ours.
    pub(crate) fn unfinished(&self, commit: &str) -> Vec<String> {
        let Some(record) = disk::read_json(&self.record(commit)) else {
            return Vec::new();
        };
        let snapshot = self.snapshot(commit);
        record["files"]
            .as_object()
            .into_iter()
            .flatten()
            .filter(|(path, size)| std::fs::metadata(snapshot.join(path)).ok().map(|meta| meta.len()) != size.as_u64())
            .map(|(path, _)| path.clone())
            .collect()
    }

    /// Commits whose download was started here and not finished.
    pub(crate) fn interrupted(&self) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(self.root.join(RECORDS)) else {
            return Vec::new();
        };
        entries
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.strip_suffix(".json").map(str::to_owned))
            .filter(|commit| !self.unfinished(commit).is_empty())
            .collect()
    }

    /// Bytes that are here of unfinished downloads, and bytes of all their files.
    pub(crate) fn progress(&self) -> (u64, u64) {
        let partial = std::fs::read_dir(self.root.join("blobs")).into_iter().flatten().flatten();
        let partial: u64 = partial
            .filter(|entry| entry.file_name().to_str().is_some_and(|name| name.ends_with(".incomplete")))
            .filter_map(|entry| Some(entry.metadata().ok()?.len()))
            .sum();
        self.interrupted().iter().fold((partial, 0), |(here, total), commit| {
            let record = disk::read_json(&self.record(commit)).unwrap_or_default();
            let snapshot = self.snapshot(commit);
            let files = record["files"].as_object().into_iter().flatten();
            files.fold((here, total), |(here, total), (path, size)| {
                let have = std::fs::metadata(snapshot.join(path)).map_or(0, |meta| meta.len());
                (here + have, total + size.as_u64().unwrap_or(0))
            })
        })
    }

    /// `snapshots/<commit>/<path>` → `../../blobs/<etag>`, put in place by a rename.
    fn link(&self, commit: &str, file: &RepoFile) -> Result<()> {
        let link = self.snapshot(commit).join(&file.path);
        if std::fs::metadata(&link).is_ok_and(|meta| meta.len() == file.size) {
            return Ok(());
        }
        if let Some(parent) = link.parent() {
            disk::create_dir(parent)?;
        }
        let up = "../".repeat(2 + file.path.matches('/').count());
        let temporary = disk::sibling(&link, &format!(".{}", std::process::id()));
        disk::remove_file(&temporary)?;
        std::os::unix::fs::symlink(format!("{up}blobs/{}", file.etag), &temporary)
            .and_then(|()| std::fs::rename(&temporary, &link))
            .map_err(HubError::io("link", &link))
    }
}

impl Hub {
    /// Downloads what the engine reads of a repository into the Hugging Face cache and returns the snapshot folder.
    ///
    /// What is already there is kept, a partial file is continued, every file is checked against the hub's checksum
    /// before it gets its name, and `refs/<revision>` moves last: whatever moment the process ends at, the cache is valid
    /// and the next call goes on. Another process downloading the same file is waited for.
    ///
    /// # Errors
    /// Each refusal of the hub is its own [`HubError`]; [`HubError::DiskFull`] comes before the first byte.
    pub async fn download(&self, repo: &str, revision: Option<&str>, job: &Job) -> Result<PathBuf> {
        let id: RepoId = repo.parse()?;
        let revision = revision.unwrap_or("main");
        if !revision
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b'/'))
            || revision.contains("..")
        {
            return Err(HubError::RevisionNotFound {
                repo: repo.into(),
                revision: revision.into(),
            });
        }
        job.report(Stage::Resolving, repo, 0, 0);
        let info = self.net.info(&id, revision, job).await?;
        info.check_loadable()?;
        let cache = RepoCache::new(&self.places.hub_cache, &id);
        let snapshot = cache.snapshot(&info.commit);

        let wanted = info.wanted();
        let missing: u64 = wanted
            .iter()
            .filter(|file| !cache.blob(&file.etag).exists())
            .map(|file| {
                file.size
                    .saturating_sub(std::fs::metadata(cache.partial(&file.etag)).map_or(0, |meta| meta.len()))
            })
            .sum();
        disk::require(&cache.root, missing, HUB_CACHE)?;
        for folder in [&cache.root.join("blobs"), &snapshot, &cache.root.join(RECORDS)] {
            disk::create_dir(folder)?;
        }
        // Written first, so that a half-filled folder is known for what it is.
        let files: serde_json::Map<_, _> = wanted.iter().map(|file| (file.path.clone(), json!(file.size))).collect();
        disk::write_json(&cache.record(&info.commit), &json!({"revision": revision, "files": files}))?;

        self.fetch_all(&cache, &info, job).await?;
        write_reference(&cache, revision, &info.commit)?;
        job.report(Stage::Ready, repo, info.download_bytes(), info.download_bytes());
        Ok(snapshot)
    }

    async fn fetch_all(&self, cache: &RepoCache, info: &RepoInfo, job: &Job) -> Result<()> {
        let mut wanted = info.wanted();
        // Small files first: a shard index that is there tells which shards are not.
        wanted.sort_by_key(|file| (file.path.ends_with(".safetensors"), file.size));
        let meter = Meter::new(job, &info.id.to_string(), info.download_bytes(), wanted.len());
        // One failed file stops the others; what they have is kept.
        let shared = job.child();
        let result = stream::iter(wanted.into_iter().enumerate().map(Ok))
            .try_for_each_concurrent(PARALLEL, |(index, file)| {
                let (meter, shared) = (&meter, &shared);
                async move { self.fetch_blob(cache, info, file, shared, &|bytes| meter.set(index, bytes)).await }
            })
            .await;
        shared.token().cancel();
        result
    }

    async fn fetch_blob(
        &self,
        cache: &RepoCache,
        info: &RepoInfo,
        file: &RepoFile,
        job: &Job,
        report: &(dyn Fn(u64) + Sync),
    ) -> Result<()> {
        let blob = cache.blob(&file.etag);
        let whole = |path: &Path| std::fs::metadata(path).is_ok_and(|meta| meta.len() == file.size);
        if !whole(&blob) {
            // The same lock file that the Python client takes.
            let _lock = disk::lock(&cache.locks.join(format!("{}.lock", file.etag)), job).await?;
            if !whole(&blob) {
                let remote = Remote {
                    url: self.net.file_url(&info.id, &info.commit, &file.path),
                    repo: info.id.to_string(),
                    file: file.path.clone(),
                    size: Some(file.size),
                    digest: file.digest.clone(),
                    authorized: true,
                };
                let partial = cache.partial(&file.etag);
                cache.adopt(&file.etag)?;
                if file.size == 0 {
                    disk::write_atomic(&partial, b"")?;
                } else {
                    fetch(&self.net, &remote, &partial, job, report).await?;
                }
                std::fs::rename(&partial, &blob).map_err(HubError::io("create", &blob))?;
            }
        }
        report(file.size);
        cache.link(&info.commit, file)
    }

    /// True where the Hugging Face cache has this repository at another commit than the hub's newest.
    pub fn is_behind(&self, newest: &RepoInfo) -> bool {
        let cache = RepoCache::new(&self.places.hub_cache, &newest.id);
        let here = cache.reference("main").filter(|commit| cache.snapshot(commit).is_dir());
        here.is_some_and(|commit| commit != newest.commit)
    }

    /// Repositories whose download was interrupted (quit, killed, cancelled), to be offered again.
    pub fn interrupted_downloads(&self) -> Vec<RepoId> {
        let Ok(entries) = std::fs::read_dir(&self.places.hub_cache) else {
            return Vec::new();
        };
        entries
            .flatten()
            .filter_map(|entry| RepoId::from_folder(entry.file_name().to_str()?))
            .filter(|id| !RepoCache::new(&self.places.hub_cache, id).interrupted().is_empty())
            .collect()
    }
}

fn write_reference(cache: &RepoCache, revision: &str, commit: &str) -> Result<()> {
    if revision == commit {
        return Ok(());
    }
    let path = cache.root.join("refs").join(revision);
    if let Some(parent) = path.parent() {
        disk::create_dir(parent)?;
    }
    disk::write_atomic(&path, commit.as_bytes())
}
