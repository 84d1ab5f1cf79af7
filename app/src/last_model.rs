//! The model used last, so that a command without `--model` means it. One line in our cache folder.

use dspark_hub::Hub;
use std::path::{Path, PathBuf};

fn file(hub: &Hub) -> PathBuf {
    hub.places.cache.join("last-model")
}

/// Its name or folder, if it is still installed.
pub(crate) fn read(hub: &Hub) -> Option<String> {
    let text = std::fs::read_to_string(file(hub)).ok()?;
    let mut lines = text.lines().filter(|line| !line.is_empty());
    let name = lines.next()?.to_owned();
    let usable = |name: &str| matches!(hub.lookup(name), dspark_hub::Lookup::Installed(_));
    if usable(&name) {
        return Some(name);
    }
    lines.next().filter(|path| usable(path)).map(str::to_owned)
}

/// Remembers it. Not being able to is no reason to fail a load.
pub(crate) fn write(hub: &Hub, name: &str, path: &Path) {
    let target = file(hub);
    let partial = target.with_extension(format!("{}.part", std::process::id()));
    let written = std::fs::create_dir_all(&hub.places.cache)
        .and_then(|()| std::fs::write(&partial, format!("{name}\n{}\n", path.display())))
        .and_then(|()| std::fs::rename(&partial, &target));
    if let Err(error) = written {
        tracing::debug!(%error, "the last model was not remembered");
    }
}
