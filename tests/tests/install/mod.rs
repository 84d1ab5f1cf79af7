//! Clients from the package registries, installed once under `target/tmp/clients`.
#![allow(clippy::unwrap_used, dead_code, reason = "each test binary uses its own part")]

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::{Mutex, PoisonError},
};

/// One install at a time: tests run side by side.
static INSTALL: Mutex<()> = Mutex::new(());

pub(crate) fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("clients")
}

pub(crate) fn place() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("clients")
}

pub(crate) fn run(command: &mut Command, what: &str) -> Output {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{what}: `{}` does not start: {error}", command.get_program().to_string_lossy()));
    assert!(
        output.status.success(),
        "{what} failed ({}):\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

/// Runs `install` unless the folder holds what `wanted` lists already.
pub(crate) fn once(folder: &Path, wanted: &Path, install: impl FnOnce()) {
    let _one = INSTALL.lock().unwrap_or_else(PoisonError::into_inner);
    let stamp = folder.join("installed");
    let wanted = fs::read_to_string(wanted).unwrap();
    if fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
        return;
    }
    fs::create_dir_all(folder).unwrap();
    install();
    fs::write(stamp, wanted).unwrap();
}

/// The programs of a virtual environment with the packages that a file of `clients` lists.
pub(crate) fn python(list: &str) -> PathBuf {
    let folder = place().join(match list.strip_suffix(".txt") {
        Some("requirements") | None => "python",
        Some(name) => name,
    });
    let requirements = scripts().join(list);
    once(&folder, &requirements, || {
        run(
            Command::new("python3").args(["-m", "venv"]).arg(&folder),
            "making a virtual environment (it needs Python 3 with venv: `apt-get install python3-venv`)",
        );
        run(
            Command::new(folder.join("bin/python"))
                .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r"])
                .arg(&requirements),
            "installing the Python clients (it needs the package registry)",
        );
    });
    folder.join("bin")
}
