use dspark_strings::t;
use std::{
    fs::File,
    io::{ErrorKind, Write},
    path::{Path, PathBuf},
};

/// Writes `content` to a file of this name that did not exist: `name 2.md` beside an older `name.md`.
///
/// # Errors
/// In words, when the folder cannot be written to.
pub(super) fn save_new(folder: &Path, name: &str, content: &[u8]) -> Result<PathBuf, String> {
    let (stem, ending) = name
        .rsplit_once('.')
        .map_or((name, String::new()), |(stem, ending)| (stem, format!(".{ending}")));
    for nth in 1..1000 {
        let name = if nth == 1 {
            format!("{stem}{ending}")
        } else {
            format!("{stem} {nth}{ending}")
        };
        let path = folder.join(name);
        match File::create_new(&path) {
            Ok(mut file) => {
                return match file.write_all(content) {
                    Ok(()) => Ok(path),
                    Err(error) => Err(t!(cannot_be_written, path = path.display(), error = error.to_string())),
                };
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => {
                return Err(t!(cannot_be_made, path = path.display(), error = error.to_string()));
            }
        }
    }
    Err(t!(too_many_files, path = folder.display(), name = name))
}

/// Where a person looks for what was saved: Downloads, else Documents, else home.
pub(super) fn for_saving() -> Option<PathBuf> {
    let home = std::env::home_dir()?;
    let places = [home.join("Downloads"), home.join("Documents"), home];
    places.into_iter().find(|folder| folder.is_dir())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn an_older_file_is_never_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let first = save_new(folder.path(), "chat.md", b"one").unwrap();
        let second = save_new(folder.path(), "chat.md", b"two").unwrap();
        assert_eq!(second.file_name().unwrap(), "chat 2.md");
        assert_eq!(
            (std::fs::read_to_string(first).unwrap(), std::fs::read_to_string(second).unwrap()),
            ("one".into(), "two".into())
        );
        let refused = save_new(&folder.path().join("gone"), "chat.md", b"x").unwrap_err();
        assert!(refused.contains("cannot be made"), "{refused}");
    }
}
