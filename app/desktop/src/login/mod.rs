//! Launch at login, as a file that the system reads then: an XDG autostart entry on Linux, a launch agent on macOS.
//! The file is the setting: whoever changes it elsewhere is believed.

pub mod agent;
pub mod xdg;

use std::{
    io::Write as _,
    path::{Path, PathBuf},
};

/// Whether the program is started at login.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Login {
    #[default]
    Off,
    On,
    /// Another copy of it is.
    Other(PathBuf),
    /// It cannot be here: why, in a sentence for a person.
    Unavailable(String),
}

/// A file that a system starts programs from.
pub(crate) trait Entry {
    fn path(&self) -> &Path;
    /// The file's text for the program.
    fn text(&self) -> String;
    /// The program that such a text starts; `None` where it starts none.
    fn started(text: &str) -> Option<PathBuf>;
    /// The program that should be.
    fn program(&self) -> &Path;
}

pub(crate) fn read<E: Entry>(entry: &E) -> Login {
    let text = match std::fs::read_to_string(entry.path()) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Login::Off,
        Err(error) => return Login::Unavailable(format!("`{}` cannot be read: {error}.", entry.path().display())),
    };
    match E::started(&text) {
        None => Login::Off,
        Some(path) if path == entry.program() => Login::On,
        Some(path) => Login::Other(path),
    }
}

pub(crate) fn set<E: Entry>(entry: &E, on: bool) -> Result<Login, String> {
    let path = entry.path();
    let refused = |what: &str, error: &std::io::Error| {
        format!(
            "`{}` cannot be {what}: {error}. Check that the folder may be written to.",
            path.display()
        )
    };
    if on {
        write(path, &entry.text()).map_err(|error| refused("written", &error))?;
    } else if let Err(error) = std::fs::remove_file(path)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        return Err(refused("removed", &error));
    }
    Ok(read(entry))
}

/// In one step: a crash leaves the old file or the new one.
fn write(path: &Path, text: &str) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    // Of a name that no login reads.
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    let part = PathBuf::from(part);
    let mut file = std::fs::File::create(&part)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(part, path)
}
