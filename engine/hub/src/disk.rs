//! Files that appear whole or not at all, locks between processes, and room on the disk.

use crate::{HubError, Job, Result, Stage};
use serde_json::Value;
use std::{
    ffi::OsString,
    fs::{File, TryLockError},
    io::Write,
    path::{Path, PathBuf},
    time::Duration,
};

const LOCK_POLL: Duration = Duration::from_millis(100);
/// Kept free beside a large download, bytes.
const RESERVE: u64 = 5_000_000_000;

/// `dir/name` → `dir/.name<suffix>`: hidden, on the same file system, so that a rename is atomic.
pub(crate) fn sibling(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(suffix);
    path.with_file_name(name)
}

pub(crate) fn create_dir(path: &Path) -> Result<()> {
    std::fs::create_dir_all(path).map_err(HubError::io("create", path))
}

/// Removes a folder that may not exist.
pub(crate) fn remove_dir(path: &Path) -> Result<()> {
    match std::fs::remove_dir_all(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(HubError::io("delete", path)(e)),
        _ => Ok(()),
    }
}

/// Removes a file that may not exist.
pub(crate) fn remove_file(path: &Path) -> Result<()> {
    match std::fs::remove_file(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(HubError::io("delete", path)(e)),
        _ => Ok(()),
    }
}

pub(crate) fn read_json(path: &Path) -> Option<Value> {
    serde_json::from_slice(&std::fs::read(path).ok()?).ok()
}

pub(crate) fn write_json(path: &Path, value: &Value) -> Result<()> {
    write_atomic(path, &serde_json::to_vec_pretty(value).unwrap_or_default())
}

/// Replaces a file by writing beside it, syncing and renaming.
pub(crate) fn write_atomic(path: &Path, bytes: &[u8]) -> Result<()> {
    let partial = sibling(path, &format!(".{}", std::process::id()));
    File::create(&partial)
        .and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()))
        .and_then(|()| std::fs::rename(&partial, path))
        .map_err(HubError::io("write", path))
}

/// An exclusive lock between processes; the system releases it when its owner ends, however it ends.
#[derive(Debug)]
pub(crate) struct Lock(#[allow(dead_code, reason = "held for its lock")] File);

fn try_lock(path: &Path) -> Result<Option<Lock>> {
    if let Some(parent) = path.parent() {
        create_dir(parent)?;
    }
    // Never deleted: another process may hold the same file open while it waits.
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path)
        .map_err(HubError::io("create", path))?;
    match file.try_lock() {
        Ok(()) => Ok(Some(Lock(file))),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(e)) => Err(HubError::io("lock", path)(e)),
    }
}

pub(crate) fn lock_blocking(path: &Path, job: &Job) -> Result<Lock> {
    loop {
        job.check()?;
        if let Some(lock) = try_lock(path)? {
            return Ok(lock);
        }
        job.report(Stage::Waiting, path.display().to_string(), 0, 0);
        std::thread::sleep(LOCK_POLL);
    }
}

pub(crate) async fn lock(path: &Path, job: &Job) -> Result<Lock> {
    loop {
        job.check()?;
        if let Some(lock) = try_lock(path)? {
            return Ok(lock);
        }
        job.report(Stage::Waiting, path.display().to_string(), 0, 0);
        tokio::time::sleep(LOCK_POLL).await;
    }
}

/// Bytes that an unprivileged writer may still use on the file system of `path` (or of its nearest existing parent).
pub fn free_space(path: &Path) -> Option<u64> {
    path.ancestors()
        .find(|p| p.exists())
        .and_then(|existing| rustix::fs::statvfs(existing).ok())
        .map(|stat| stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// Refuses to write `bytes` where 5 % more and a reserve would not fit. The reserve is 5 GB, or as much again for
/// smaller things: filling a disk to the last byte breaks other programs. `setting` is the variable that moves the folder.
pub(crate) fn require(dir: &Path, bytes: u64, setting: &'static str) -> Result<()> {
    let needed = bytes.saturating_add(bytes / 20).saturating_add(bytes.min(RESERVE));
    match free_space(dir) {
        Some(free) if free < needed => Err(HubError::DiskFull {
            path: dir.to_owned(),
            needed,
            free,
            setting,
        }),
        _ => Ok(()),
    }
}

/// Bytes of the regular files under `dir`, links not followed.
pub(crate) fn usage(dir: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(dir) else { return 0 };
    entries
        .flatten()
        .map(|entry| match entry.metadata() {
            Ok(meta) if meta.is_dir() => usage(&entry.path()),
            Ok(meta) if meta.is_file() => meta.len(),
            _ => 0,
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Advice that moves another folder than the full one would be tried in vain.
    #[test]
    fn a_full_disk_names_the_setting_that_moves_the_folder() {
        let folder = std::env::temp_dir();
        for setting in [crate::places::OUR_CACHE, crate::places::HUB_CACHE] {
            let error = require(&folder, u64::MAX, setting).unwrap_err().to_string();
            assert!(error.contains(&format!("set {setting} ")), "{error}");
        }
        assert!(require(&folder, 1, crate::places::OUR_CACHE).is_ok());
    }
}
