//! Files shipped with the program: found from the executable, in an app bundle, an installation or a source tree.

use crate::{Folder, FolderState};
use std::path::{Path, PathBuf};

/// A drafter shipped with the program.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct BundledDrafter {
    /// `smollm2-135m-dspark`.
    pub name: String,
    pub path: PathBuf,
    /// The folder name of the target it was trained for.
    pub target: &'static str,
}

/// The `assets` folder: `MLX_DSPARK_ASSETS`, `../Resources` of an app bundle, `../share/mlx-dspark` of an installation, or
/// `assets` beside the executable or above it (a source tree).
pub fn dir() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("MLX_DSPARK_ASSETS").filter(|value| !value.is_empty()) {
        return Some(PathBuf::from(named));
    }
    let exe = std::env::current_exe().and_then(std::fs::canonicalize).ok()?;
    near(&exe)
}

fn near(exe: &Path) -> Option<PathBuf> {
    let folder = exe.parent()?;
    let prefix = folder.parent().unwrap_or(folder);
    let installed = [prefix.join("Resources"), prefix.join("share/mlx-dspark")];
    let above = folder.ancestors().take(5).map(|folder| folder.join("assets"));
    installed.into_iter().chain(above).find(|path| path.join("drafters").is_dir())
}

/// The shipped drafters, in the order `auto` prefers them.
pub fn drafters() -> Vec<BundledDrafter> {
    dir().map_or_else(Vec::new, |dir| drafters_in(&dir.join("drafters")))
}

fn drafters_in(root: &Path) -> Vec<BundledDrafter> {
    ["smollm2-135m-dspark", "smollm2-135m-dflash"]
        .into_iter()
        .map(|name| BundledDrafter {
            name: name.to_owned(),
            path: root.join(name),
            target: crate::starter::FOLDER,
        })
        .filter(|drafter| Folder::look(&drafter.path).state == FolderState::Complete)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;

    #[test]
    fn the_drafters_are_found_from_the_test_binary_and_are_small() {
        let found = drafters();
        assert_eq!(found.len(), 2, "{:?}", dir());
        let total: u64 = found
            .iter()
            .map(|drafter| {
                let folder = Folder::check(&drafter.path);
                folder.require_complete().unwrap();
                assert_eq!(folder.kind, Kind::Drafter);
                assert_eq!(folder.quantization.as_deref(), Some("4-bit g64"));
                assert!(drafter.path.join("LICENSE").is_file() && drafter.path.join("README.md").is_file());
                folder.size_bytes
            })
            .sum();
        assert!(total < 30_000_000, "{total}");
    }

    #[test]
    fn a_bundle_keeps_them_in_resources() {
        let dir = tempfile::tempdir().unwrap();
        let contents = dir.path().join("X.app/Contents");
        std::fs::create_dir_all(contents.join("Resources/drafters")).unwrap();
        let found = near(&contents.join("MacOS/x")).unwrap();
        assert!(found.ends_with("Resources"));
        assert_eq!(near(Path::new("/nowhere/bin/x")), None);
    }
}
