//! Models on this machine: checked, shown, deleted, and what is remembered of them between starts.

use super::{Effect, Msg, State, Toast, models};
use crate::{
    bridge::{FetchError, FetchProgress, ModelEntry},
    shell::text::bytes,
};
use dspark_strings::t;
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

/// Replies shorter than this have no rate worth remembering, tokens of prompt and reply.
const LEAST: usize = 64;

/// What is remembered of models, by folder.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Known(pub BTreeMap<PathBuf, Used>);

/// When a model was last loaded, and how fast it was here.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Used {
    /// Seconds since the Unix epoch.
    pub at: u64,
    /// Decoded tokens a second of the last reply.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// Times plain decoding, where something was drafted and plain decoding is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub times: Option<f64>,
}

#[derive(Debug, Clone, Default)]
pub struct Shelf {
    pub known: Known,
    pub checking: Option<Checking>,
    /// Of this start, by folder: whole, or what is damaged.
    pub checked: BTreeMap<PathBuf, Result<(), String>>,
    /// Memory that MLX held once the model was loaded, before it had been asked anything.
    pub resident: Option<Resident>,
}

/// A check of files under way.
#[derive(Debug, Clone, PartialEq)]
pub struct Checking {
    pub path: PathBuf,
    pub name: String,
    pub progress: FetchProgress,
    pub cancelled: bool,
}

/// Measured after a load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resident {
    pub path: PathBuf,
    /// Tells one load of the folder from the next.
    pub loaded_at: u64,
    pub bytes: u64,
}

#[derive(Debug, Clone)]
pub enum ShelfMsg {
    /// From disk, of an earlier start.
    Known(Known),
    Verify(PathBuf),
    Verifying(FetchProgress),
    Verified {
        path: PathBuf,
        result: Result<(), FetchError>,
    },
    CancelVerify,
    Reveal(PathBuf),
    Revealed(Result<(), String>),
    /// Ask first.
    AskDelete(Box<ModelEntry>),
    Delete(PathBuf),
    Deleted {
        name: String,
        result: Result<u64, String>,
    },
}

pub(super) fn update(state: &mut State, message: ShelfMsg, out: &mut Vec<Effect>) {
    let shelf = &mut state.models.shelf;
    match message {
        ShelfMsg::Known(known) => {
            for (path, used) in known.0 {
                shelf.known.0.entry(path).or_insert(used);
            }
        }
        ShelfMsg::Verify(path) => verify(state, path, out),
        ShelfMsg::Verifying(progress) => {
            if let Some(checking) = &mut shelf.checking {
                checking.progress = progress;
            }
        }
        ShelfMsg::Verified { path, result } => verified(state, path, result),
        ShelfMsg::CancelVerify => {
            if let Some(checking) = &mut shelf.checking {
                checking.cancelled = true;
                out.push(Effect::CancelVerify);
            }
        }
        ShelfMsg::Reveal(path) => out.push(Effect::Reveal(path)),
        ShelfMsg::Revealed(result) => {
            if let Err(reason) = result {
                state.toasts.push(Toast::warning(t!(folder_not_opened), reason));
            }
        }
        ShelfMsg::AskDelete(entry) => state.models.question = Some(models::Question::Delete(entry)),
        ShelfMsg::Delete(path) => delete(state, path, out),
        ShelfMsg::Deleted { name, result } => {
            match result {
                Ok(freed) => {
                    let body = t!(free_again, size = bytes(freed));
                    state.toasts.push(Toast::good(t!(is_deleted, name = name), body));
                }
                Err(reason) => state.toasts.push(Toast::error(t!(was_not_deleted, name = name), reason)),
            }
            models::survey(state, out);
        }
    }
}

fn verify(state: &mut State, path: PathBuf, out: &mut Vec<Effect>) {
    if state.models.shelf.checking.is_some() {
        return;
    }
    let entry = state.models.survey.as_ref().and_then(|survey| survey.entry(&path));
    let name = entry.map_or_else(|| path.display().to_string(), |entry| entry.name.clone());
    state.models.shelf.checked.remove(&path);
    state.models.shelf.checking = Some(Checking {
        path: path.clone(),
        name,
        progress: FetchProgress::default(),
        cancelled: false,
    });
    out.push(Effect::Verify(path));
}

fn verified(state: &mut State, path: PathBuf, result: Result<(), FetchError>) {
    let Some(checking) = state.models.shelf.checking.take() else {
        return;
    };
    let (toast, result) = match result {
        Ok(()) => {
            let title = t!(is_whole, name = checking.name);
            (Toast::good(title, t!(every_file_published)), Ok(()))
        }
        Err(FetchError::Cancelled) => {
            state.toasts.push(Toast::info(t!(check_cancelled), checking.name));
            return;
        }
        Err(FetchError::Failed(trouble)) => {
            let title = t!(is_damaged, name = checking.name);
            (Toast::error(title, trouble.words.clone()), Err(trouble.words))
        }
    };
    state.toasts.push(toast);
    state.models.shelf.checked.insert(path, result);
}

fn delete(state: &mut State, path: PathBuf, out: &mut Vec<Effect>) {
    state.models.question = None;
    let name = |survey: &crate::bridge::Survey| survey.entry(&path).map(|entry| entry.name.clone());
    let name = state.models.survey.as_ref().and_then(name).unwrap_or_default();
    if state.uses(&path) {
        let toast = Toast::warning(t!(is_loaded, name = name), t!(unload_first));
        state.toasts.push(toast);
        return;
    }
    state.models.shelf.known.0.remove(&path);
    out.push(Effect::SaveKnown(state.models.shelf.known.clone()));
    out.push(Effect::Remove { path, name });
}

/// The model in this folder has been loaded.
pub(super) fn loaded(state: &mut State, path: &Path, out: &mut Vec<Effect>) {
    let at = (state.clock.millis / 1000).max(0) as u64;
    state.models.shelf.known.0.entry(path.to_owned()).or_default().at = at;
    out.push(Effect::SaveKnown(state.models.shelf.known.clone()));
}

/// A reply of the loaded model has ended.
pub(super) fn replied(state: &mut State, reply: super::Reply, out: &mut Vec<Effect>) {
    let Some(model) = state.engine.model.clone().filter(|_| reply.context >= LEAST) else {
        return;
    };
    let times = state
        .plain_rate()
        .filter(|_| reply.accept.is_some())
        .map(|plain| reply.rate / plain);
    let used = state.models.shelf.known.0.entry(model.path.clone()).or_default();
    (used.rate, used.times) = (Some(reply.rate), times);
    out.push(Effect::SaveKnown(state.models.shelf.known.clone()));
}

/// Notes what a fresh model holds: once per load, before anything else is kept beside it.
pub(super) fn measured(state: &mut State) {
    let Some(model) = &state.engine.model else {
        state.models.shelf.resident = None;
        return;
    };
    let known = state.models.shelf.resident.as_ref();
    let same = known.is_some_and(|known| known.path == model.path && known.loaded_at == model.loaded_at);
    let bytes = state.engine.memory.active;
    if !same && bytes > 0 && state.engine.requests.is_empty() {
        state.models.shelf.resident = Some(Resident {
            path: model.path.clone(),
            loaded_at: model.loaded_at,
            bytes,
        });
    }
}

impl State {
    /// Bytes that a model could have at this moment, what the loaded one would give back included; `None` before the
    /// machine was read.
    pub fn room_now(&self) -> Option<u64> {
        let reading = self.lab.machine.reading.as_ref()?;
        Some(reading.available + self.engine.memory.active)
    }

    /// It is loaded, or on its way.
    pub fn uses(&self, path: &Path) -> bool {
        let loaded = self.engine.model.as_ref().is_some_and(|model| model.path == path);
        loaded || self.models.loading.as_ref().is_some_and(|loading| loading.path == path)
    }
}

impl From<ShelfMsg> for Msg {
    fn from(message: ShelfMsg) -> Self {
        Self::Shelf(message)
    }
}
