//! What is kept: benchmarks one a line, so that the window and the command line may both add to them; the newest races
//! in one file.

use crate::{Bench, Race};
use std::{
    borrow::Borrow,
    fs,
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    path::Path,
};

/// File names in the folder of chats.
pub const BENCHES: &str = "benchmarks.jsonl";
pub const RACES: &str = "races.json";
pub const KEPT_RACES: usize = 20;
/// Benchmarks that are read, the newest.
const READ: usize = 200;
/// Prompts and answers are their owner's alone.
const OWN_FILE: u32 = 0o600;

/// Adds a line; older ones are never touched.
///
/// # Errors
/// What the file system says.
pub fn append_bench(path: &Path, bench: &Bench) -> io::Result<()> {
    make_folder(path)?;
    let mut line = serde_json::to_vec(bench)?;
    line.push(b'\n');
    // A line that a crash cut short must not swallow this one.
    if fs::read(path).is_ok_and(|text| text.last().is_some_and(|last| *last != b'\n')) {
        line.insert(0, b'\n');
    }
    let mut file = fs::OpenOptions::new().create(true).append(true).mode(OWN_FILE).open(path)?;
    // One of an earlier version may be open to others.
    if file.metadata()?.permissions().mode() & 0o077 != 0 {
        file.set_permissions(fs::Permissions::from_mode(OWN_FILE))?;
    }
    file.write_all(&line)
}

/// The folder of `path`; one that is made here is its owner's alone.
fn make_folder(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(folder) => fs::DirBuilder::new().recursive(true).mode(0o700).create(folder),
        None => Ok(()),
    }
}

/// The newest benchmarks, newest first. Lines that are none (of another version, cut short) are passed over.
///
/// # Errors
/// Where the file is there and cannot be read.
pub fn read_benches(path: &Path) -> io::Result<Vec<Bench>> {
    let text = match fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let lines = text.split(|byte| *byte == b'\n').rev();
    Ok(lines.filter_map(|line| serde_json::from_slice(line).ok()).take(READ).collect())
}

/// Writes the first [`KEPT_RACES`] of `races` in place of what was there.
///
/// # Errors
/// What the file system says; what was there then stays.
pub fn keep_races(path: &Path, races: &[impl Borrow<Race>]) -> io::Result<()> {
    make_folder(path)?;
    let kept: Vec<&Race> = races.iter().take(KEPT_RACES).map(Borrow::borrow).collect();
    let text = serde_json::to_vec(&kept)?;
    let partial = path.with_extension(format!("{}.part", std::process::id()));
    // One that a crash left would keep its own permissions.
    match fs::remove_file(&partial) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = fs::OpenOptions::new().create_new(true).write(true).mode(OWN_FILE).open(&partial)?;
    file.write_all(&text)?;
    fs::rename(&partial, path)
}

/// Those that were kept, newest first; a file that cannot be understood holds none.
///
/// # Errors
/// Where the file is there and cannot be read.
pub fn read_races(path: &Path) -> io::Result<Vec<Race>> {
    let text = match fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    // One that is of another version does not cost the others.
    let all: Vec<serde_json::Value> = serde_json::from_slice(&text).unwrap_or_default();
    Ok(all.into_iter().filter_map(|race| serde_json::from_value(race).ok()).collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::Stamp;

    fn stamp(at: u64) -> Stamp {
        Stamp { at, ..Stamp::default() }
    }

    #[test]
    fn benchmarks_add_up_and_survive_a_torn_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sub").join(BENCHES);
        assert!(read_benches(&path).unwrap().is_empty());
        let bench = |at| Bench {
            stamp: stamp(at),
            ..Bench::default()
        };
        append_bench(&path, &bench(1)).unwrap();
        fs::OpenOptions::new()
            .append(true)
            .open(&path)
            .unwrap()
            .write_all(b"{\"at\": 2, \"ver")
            .unwrap();
        append_bench(&path, &bench(3)).unwrap();
        let read: Vec<u64> = read_benches(&path).unwrap().iter().map(|bench| bench.stamp.at).collect();
        assert_eq!(read, [3, 1]);
    }

    #[test]
    fn what_holds_prompts_is_its_owners_alone() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let (races, benches) = (data.join(RACES), data.join(BENCHES));
        keep_races(&races, &[] as &[Race]).unwrap();
        append_bench(&benches, &Bench::default()).unwrap();
        assert_eq!((mode(&data), mode(&races), mode(&benches)), (0o700, 0o600, 0o600));
        // What an earlier version left open is closed with the next write.
        for path in [&races, &benches] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o644)).unwrap();
        }
        keep_races(&races, &[] as &[Race]).unwrap();
        append_bench(&benches, &Bench::default()).unwrap();
        assert_eq!((mode(&races), mode(&benches)), (0o600, 0o600));
        assert_eq!(read_benches(&benches).unwrap().len(), 2);
    }

    #[test]
    fn the_newest_twenty_races_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(RACES);
        let race = |at| Race {
            stamp: stamp(at),
            prompt: "hello".into(),
            max_tokens: 8,
            thinking: None,
            beside: Vec::new(),
            stopped: None,
            lanes: Vec::new(),
        };
        let all: Vec<Race> = (0..25).rev().map(race).collect();
        keep_races(&path, &all).unwrap();
        let read = read_races(&path).unwrap();
        assert_eq!(read, all[..20]);
        fs::write(&path, "not json").unwrap();
        assert!(read_races(&path).unwrap().is_empty());
    }
}
