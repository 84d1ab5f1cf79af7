//! Files as others left them, and written in one step.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// The text, or `None` where there is no file.
pub(crate) fn read(path: &Path) -> io::Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Replaces the file in one step: nobody ever reads half of it. A link is followed, and the permissions stay; a new file
/// is its owner's alone (it may hold a key).
pub(crate) fn write(path: &Path, text: &str) -> io::Result<()> {
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let folder = target.parent().ok_or(io::ErrorKind::InvalidInput)?;
    if fs::metadata(&target).is_ok_and(|present| present.permissions().readonly()) {
        let why = "it is read-only; allow writing to it and try again";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    fs::create_dir_all(folder)?;
    let partial = partial(&target);
    fs::write(&partial, text)?;
    let settled = permissions(&target, &partial).and_then(|()| fs::rename(&partial, &target));
    settled.inspect_err(|_| drop(fs::remove_file(&partial)))
}

/// As [`write`], in a folder of our own: one that is made here is its owner's alone, since what it keeps of others' files
/// may hold keys.
pub(crate) fn write_own(path: &Path, text: &str) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        let mut builder = fs::DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.recursive(true).create(folder)?;
    }
    write(path, text)
}

fn partial(target: &Path) -> PathBuf {
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    target.with_file_name(format!(".{name}.{}.part", std::process::id()))
}

#[cfg(unix)]
fn permissions(target: &Path, partial: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let wanted = match fs::metadata(target) {
        Ok(present) => present.permissions(),
        Err(_) => fs::Permissions::from_mode(0o600),
    };
    fs::set_permissions(partial, wanted)
}

#[cfg(not(unix))]
fn permissions(_: &Path, _: &Path) -> io::Result<()> {
    Ok(())
}
