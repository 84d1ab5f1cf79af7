//! The ready file: scripts wait for it instead of polling.

use dspark_protocol::EngineHandle;
use serde_json::json;
use std::{
    io,
    path::{Path, PathBuf},
};

/// Whether a ready file can be written here, found out by writing its precursor.
///
/// # Errors
/// The folder is missing or may not be written to, or `path` is a folder.
pub fn check_ready_file(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    let partial = partial(path);
    std::fs::write(&partial, "")?;
    std::fs::remove_file(&partial)
}

fn partial(path: &Path) -> PathBuf {
    path.with_extension("part")
}

/// With `wait_for_model`, waits until a model is loaded; then writes `{url, pid, model}` to `path` in one step (a reader never sees half of
/// it; `model` is null where none is loaded). The file goes when what this returns is dropped.
///
/// # Errors
/// The file cannot be written, or the engine ended before it was ready.
pub async fn write_ready_file(path: &Path, url: &str, engine: &EngineHandle, wait_for_model: bool) -> io::Result<ReadyFile> {
    let mut snapshots = engine.subscribe();
    let ready = snapshots
        .wait_for(|snapshot| !wait_for_model || snapshot.model.is_some())
        .await
        .map_err(|_| io::Error::other("the engine ended before a model was loaded"))?
        .clone();
    let model = ready.model.as_ref().map(|model| &model.name);
    let content = json!({"url": url, "pid": std::process::id(), "model": model}).to_string();
    let partial = partial(path);
    tokio::fs::write(&partial, content + "\n").await?;
    tokio::fs::rename(&partial, path).await?;
    Ok(ReadyFile(path.to_owned()))
}

/// Removes the file when the server ends.
#[derive(Debug)]
pub struct ReadyFile(PathBuf);

impl Drop for ReadyFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
