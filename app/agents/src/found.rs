//! Whether a client is on this machine, where, and which version. Nothing is changed and nothing is asked of the network.

use crate::{Places, clients::Client};
use std::{
    collections::BTreeMap,
    fs,
    io::Read as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Mutex, PoisonError},
    thread,
    time::{Duration, Instant, SystemTime},
};

/// How long a program may take to say its version.
const PATIENCE: Duration = Duration::from_secs(3);

/// What shows that a client is installed. Any of them is enough.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Signs {
    /// Names of programs.
    pub(crate) programs: &'static [&'static str],
    /// Names of macOS application bundles.
    pub(crate) apps: &'static [&'static str],
    /// How the folder of an editor's extension begins; its version follows.
    pub(crate) extensions: &'static [&'static str],
}

impl Signs {
    /// It runs elsewhere, in a container or a browser.
    pub(crate) const NONE: Self = Self {
        programs: &[],
        apps: &[],
        extensions: &[],
    };

    pub(crate) const fn program(programs: &'static [&'static str]) -> Self {
        Self { programs, ..Self::NONE }
    }

    pub(crate) const fn extension(extensions: &'static [&'static str]) -> Self {
        Self { extensions, ..Self::NONE }
    }
}

/// A client on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    pub path: PathBuf,
    /// Known where it can be read from a name; [`Found::asked`] asks programs.
    pub version: Option<String>,
    runs: bool,
}

impl Found {
    /// The same with the version that the program says, which runs it once (up to three seconds). Answers are
    /// remembered until the program changes.
    #[must_use]
    pub fn asked(mut self) -> Self {
        if self.version.is_none() && self.runs {
            self.version = version(&self.path);
        }
        self
    }
}

/// Folders of programs: those of `PATH`, and the usual ones, which a program started from a dock does not have there.
pub(crate) fn folders(home: &Path) -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&path).filter(|folder| folder.is_absolute()).collect();
    let own = [
        ".local/bin",
        ".claude/local",
        ".cargo/bin",
        ".bun/bin",
        ".volta/bin",
        ".npm-global/bin",
        ".opencode/bin",
        "go/bin",
    ];
    let own = own.into_iter().map(|folder| home.join(folder));
    for folder in own.chain(["/opt/homebrew/bin".into(), "/usr/local/bin".into()]) {
        if !folders.contains(&folder) {
            folders.push(folder);
        }
    }
    folders
}

/// Where a client is, if it is here.
pub fn find(client: &Client, places: &Places) -> Option<Found> {
    let signs = &client.signs;
    program(signs, places)
        .or_else(|| bundle(signs, places))
        .or_else(|| extension(signs, places))
}

fn program(signs: &Signs, places: &Places) -> Option<Found> {
    let all = signs
        .programs
        .iter()
        .flat_map(|name| places.programs.iter().map(move |folder| folder.join(name)));
    let path = all.into_iter().find(|path| is_program(path))?;
    Some(Found {
        path,
        version: None,
        runs: true,
    })
}

#[cfg(unix)]
fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_program(path: &Path) -> bool {
    path.is_file()
}

fn bundle(signs: &Signs, places: &Places) -> Option<Found> {
    let all = signs
        .apps
        .iter()
        .flat_map(|name| places.applications.iter().map(move |folder| folder.join(name)));
    let path = all.into_iter().find(|path| path.is_dir())?;
    let info = fs::read_to_string(path.join("Contents/Info.plist")).unwrap_or_default();
    Some(Found {
        version: plist_version(&info),
        path,
        runs: false,
    })
}

/// `CFBundleShortVersionString` of a property list in XML.
fn plist_version(info: &str) -> Option<String> {
    let (_, rest) = info.split_once("<key>CFBundleShortVersionString</key>")?;
    let (_, rest) = rest.split_once("<string>")?;
    rest.split_once("</string>").map(|(version, _)| version.trim().to_owned())
}

/// The newest of an editor's extension.
fn extension(signs: &Signs, places: &Places) -> Option<Found> {
    if signs.extensions.is_empty() {
        return None;
    }
    let editors = [".vscode", ".vscode-insiders", ".cursor", ".windsurf", ".vscode-oss"];
    let folders = editors
        .iter()
        .filter_map(|editor| fs::read_dir(places.home.join(editor).join("extensions")).ok());
    let versions = folders.flatten().flatten().filter_map(|entry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        let rest = signs.extensions.iter().find_map(|sign| name.strip_prefix(sign))?;
        let version = number(rest)?;
        Some((parts(&version), version, entry.path()))
    });
    let (_, version, path) = versions.max()?;
    Some(Found {
        path,
        version: Some(version),
        runs: false,
    })
}

fn parts(version: &str) -> Vec<u64> {
    version.split('.').map(|part| part.parse().unwrap_or(0)).collect()
}

/// The first thing like `1.2` or `1.2.3` in a text.
fn number(text: &str) -> Option<String> {
    text.split(|c: char| !(c.is_ascii_digit() || c == '.'))
        .map(|word| word.trim_matches('.'))
        .find(|word| word.contains('.'))
        .map(str::to_owned)
}

fn version(path: &Path) -> Option<String> {
    /// When the program was last changed, and what it said.
    type Said = (Option<SystemTime>, Option<String>);
    static KNOWN: Mutex<BTreeMap<PathBuf, Said>> = Mutex::new(BTreeMap::new());
    let changed = fs::metadata(path).and_then(|found| found.modified()).ok();
    let lock = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, version)) = lock().get(path).filter(|(then, _)| *then == changed) {
        return version.clone();
    }
    let version = number(&said(path)?);
    lock().insert(path.to_owned(), (changed, version.clone()));
    version
}

/// What `--version` prints.
fn said(path: &Path) -> Option<String> {
    let mut child = Command::new(path)
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let until = Instant::now() + PATIENCE;
    while let Ok(None) = child.try_wait() {
        if Instant::now() >= until {
            // It waits for something: it is there, and says nothing.
            let _ = child.kill();
            let _ = child.wait();
            return None;
        }
        thread::sleep(Duration::from_millis(20));
    }
    let mut text = String::new();
    // A version is short: what a pipe holds is enough.
    child.stdout.take()?.take(4096).read_to_string(&mut text).ok()?;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found_in_what_programs_say() {
        for (said, version) in [
            ("2.1.36 (Claude Code)", Some("2.1.36")),
            ("codex-cli 0.94.0\n", Some("0.94.0")),
            ("Zed 0.212.3 abc12.", Some("0.212.3")),
            ("1.3.7-darwin-arm64", Some("1.3.7")),
            ("usage: x [y]", None),
            ("...", None),
        ] {
            assert_eq!(number(said).as_deref(), version, "{said}");
        }
        let info = "<dict>\n<key>CFBundleShortVersionString</key>\n  <string>0.9.1</string>";
        assert_eq!(plist_version(info).as_deref(), Some("0.9.1"));
        assert!(parts("1.10.0") > parts("1.9.2"));
    }
}
