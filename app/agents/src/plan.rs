//! What would change for a client, whether it is up to date, doing it and undoing it.

use crate::{
    Serving,
    clients::{Client, File, Places},
    disk,
};
use serde::{Deserialize, Serialize};
use std::{
    fs, io,
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

/// Why a client's file was left as it is.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    #[error("{client} has no settings file that could be written: `mlx-dspark agents show {id}` says what to fill in")]
    NoFile { client: &'static str, id: &'static str },
    #[error("{} does not parse, so it was left alone: {reason}; add the entry by hand (`mlx-dspark agents show {id}` prints it)", path.display())]
    Unreadable { path: PathBuf, reason: String, id: &'static str },
    #[error("cannot read or write {}: {source}", path.display())]
    Disk { path: PathBuf, source: io::Error },
    #[error("nothing to undo: {client} was not set up from here")]
    NothingToUndo { client: &'static str },
    /// It is not what the shown change began from.
    #[error("{} was changed while the change to it was shown, so it was left alone: look at the new change and apply that", path.display())]
    Meanwhile { path: PathBuf },
    /// Somebody changed the file since.
    #[error(
        "{} has changed since it was set up, so it was left alone; what was there before is kept in {}",
        path.display(),
        backup.display()
    )]
    Changed { path: PathBuf, backup: PathBuf },
}

/// A change to one file, not yet made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    pub client: &'static Client,
    pub path: PathBuf,
    /// `None` where the file is new.
    pub before: Option<String>,
    pub after: String,
}

impl Plan {
    pub fn changes(&self) -> bool {
        self.before.as_deref() != Some(self.after.as_str())
    }

    /// The change as a unified diff. A key is never in it.
    pub fn diff(&self, key: Option<&str>) -> String {
        let before = self.before.as_deref().unwrap_or_default();
        let name = self.path.display().to_string();
        let old = if self.before.is_some() { name.as_str() } else { "/dev/null" };
        let diff = similar::TextDiff::from_lines(before, &self.after);
        let text = diff.unified_diff().context_radius(3).header(old, &name).to_string();
        match key.filter(|key| !key.is_empty()) {
            Some(key) => text.replace(key, "••••"),
            None => text,
        }
    }
}

/// Where a client stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// Set up by its environment or by hand.
    ByHand,
    NotSetUp,
    /// It has our entry; whether that is up to date shows once a model is loaded.
    SetUp,
    /// It says what it should.
    Current,
    /// It has our entry, for another model, address or window.
    Stale,
    /// The file does not parse.
    Unreadable(String),
}

impl State {
    pub fn word(&self) -> &'static str {
        match self {
            Self::ByHand => "by hand",
            Self::NotSetUp => "not set up",
            Self::SetUp => "set up",
            Self::Current => "up to date",
            Self::Stale => "out of date",
            Self::Unreadable(_) => "unreadable",
        }
    }
}

fn file(client: &'static Client) -> Result<File, AgentError> {
    client.file.ok_or(AgentError::NoFile {
        client: client.name,
        id: client.id,
    })
}

fn disk_error(path: &Path) -> impl FnOnce(io::Error) -> AgentError + '_ {
    move |source| AgentError::Disk {
        path: path.to_owned(),
        source,
    }
}

/// What setting a client up would change.
///
/// # Errors
/// It has no file, or its file cannot be read or does not parse.
pub fn plan(client: &'static Client, serving: &Serving, places: &Places) -> Result<Plan, AgentError> {
    let file = file(client)?;
    let path = (file.path)(places);
    let before = disk::read(&path).map_err(disk_error(&path))?;
    let after = file.merged(before.as_deref(), serving).map_err(|reason| AgentError::Unreadable {
        path: path.clone(),
        reason,
        id: client.id,
    })?;
    Ok(Plan {
        client,
        path,
        before,
        after,
    })
}

/// Where a client stands with this server.
pub fn inspect(client: &'static Client, serving: &Serving, places: &Places) -> State {
    let Some(file) = client.file else { return State::ByHand };
    match plan(client, serving, places) {
        Err(error) => State::Unreadable(error.to_string()),
        Ok(plan) if !plan.changes() => State::Current,
        Ok(plan) if plan.before.as_deref().is_some_and(|text| file.has_entry(text)) => State::Stale,
        Ok(_) => State::NotSetUp,
    }
}

/// What brings a file back.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) path: PathBuf,
    pub(crate) before: Option<String>,
    pub(crate) after: String,
    /// Seconds since the Unix epoch.
    at: u64,
}

fn record_path(client: &Client, places: &Places) -> PathBuf {
    places.records.join(format!("{}.json", client.id))
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Makes the change. A second change keeps the first one's record: undoing brings back what was there before either.
///
/// # Errors
/// The file is not what the plan began from, is read-only, or it or the record cannot be written. It is then as it was.
pub fn apply(plan: &Plan, places: &Places) -> Result<(), AgentError> {
    if !plan.changes() {
        return Ok(());
    }
    if disk::read(&plan.path).map_err(disk_error(&plan.path))? != plan.before {
        return Err(AgentError::Meanwhile { path: plan.path.clone() });
    }
    let record_path = record_path(plan.client, places);
    let kept = disk::read(&record_path).ok().flatten();
    let earlier = read_record(&record_path).filter(|earlier| earlier.path == plan.path && Some(&earlier.after) == plan.before.as_ref());
    let record = Record {
        path: plan.path.clone(),
        before: earlier.map_or_else(|| plan.before.clone(), |earlier| earlier.before),
        after: plan.after.clone(),
        at: now(),
    };
    let text = serde_json::to_string_pretty(&record).unwrap_or_default();
    disk::write_own(&record_path, &text).map_err(disk_error(&record_path))?;
    disk::write(&plan.path, &plan.after).map_err(|error| {
        // What was not written cannot be undone.
        let _ = match &kept {
            Some(kept) => disk::write(&record_path, kept),
            None => fs::remove_file(&record_path),
        };
        disk_error(&plan.path)(error)
    })
}

/// The record of what was written for a client, if anything was.
pub(crate) fn record(client: &Client, places: &Places) -> Option<Record> {
    read_record(&record_path(client, places))
}

fn read_record(path: &Path) -> Option<Record> {
    serde_json::from_str(&disk::read(path).ok()??).ok()
}

/// What [`undo`] would change: from what is there now to what was there before. A file that was not there ends up empty
/// in it.
///
/// # Errors
/// There is no record, or the file cannot be read.
pub fn undoing(client: &'static Client, places: &Places) -> Result<Plan, AgentError> {
    let record = record(client, places).ok_or(AgentError::NothingToUndo { client: client.name })?;
    let now = disk::read(&record.path).map_err(disk_error(&record.path))?;
    Ok(Plan {
        client,
        path: record.path,
        before: now,
        after: record.before.unwrap_or_default(),
    })
}

/// What others have changed since [`apply`]: from what was written to what is there now.
///
/// # Errors
/// As [`undoing`].
pub fn since(client: &'static Client, places: &Places) -> Result<Plan, AgentError> {
    let written = record(client, places).map(|record| record.after);
    let undoing = undoing(client, places)?;
    Ok(Plan {
        after: undoing.before.unwrap_or_default(),
        before: written,
        ..undoing
    })
}

/// Brings back what was there before [`apply`]. Returns the file's path.
///
/// # Errors
/// There is no record, or somebody has changed the file since: both stay then.
pub fn undo(client: &'static Client, places: &Places) -> Result<PathBuf, AgentError> {
    let record_path = record_path(client, places);
    let record = read_record(&record_path).ok_or(AgentError::NothingToUndo { client: client.name })?;
    let now = disk::read(&record.path).map_err(disk_error(&record.path))?;
    if now.as_ref() != Some(&record.after) && now != record.before {
        return Err(AgentError::Changed {
            path: record.path,
            backup: record_path,
        });
    }
    put_back(&record)?;
    fs::remove_file(&record_path).map_err(disk_error(&record_path))?;
    Ok(record.path)
}

/// The same although the file was changed since; what is there now is kept beside the records first.
///
/// # Errors
/// There is no record, or something cannot be written.
pub fn undo_changed(client: &'static Client, places: &Places) -> Result<PathBuf, AgentError> {
    let record_path = record_path(client, places);
    let record = read_record(&record_path).ok_or(AgentError::NothingToUndo { client: client.name })?;
    if let Some(now) = disk::read(&record.path).map_err(disk_error(&record.path))? {
        let name = record.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let copy = aside(client, places, &name);
        disk::write(&copy, &now).map_err(disk_error(&copy))?;
    }
    put_back(&record)?;
    fs::remove_file(&record_path).map_err(disk_error(&record_path))?;
    Ok(record.path)
}

/// Takes the file as others left it: it can no longer be undone from here. The record stays under another name.
///
/// # Errors
/// There is no record, or it cannot be moved.
pub fn keep(client: &'static Client, places: &Places) -> Result<PathBuf, AgentError> {
    let record_path = record_path(client, places);
    if read_record(&record_path).is_none() {
        return Err(AgentError::NothingToUndo { client: client.name });
    }
    let kept = aside(client, places, "record.json");
    fs::rename(&record_path, &kept).map_err(disk_error(&record_path))?;
    Ok(kept)
}

/// A name that is not taken yet.
fn aside(client: &Client, places: &Places, name: &str) -> PathBuf {
    let at = now();
    let of = |nth: u32| places.records.join(format!("{}-{at}-{nth}-{name}", client.id));
    (0..1000).map(of).find(|path| !path.exists()).unwrap_or_else(|| of(1000))
}

fn put_back(record: &Record) -> Result<(), AgentError> {
    match &record.before {
        Some(before) => disk::write(&record.path, before),
        None => match fs::remove_file(&record.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        },
    }
    .map_err(disk_error(&record.path))
}
