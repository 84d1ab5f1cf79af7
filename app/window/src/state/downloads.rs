//! Downloads: one at a time, the others wait their turn. What stops keeps what has come, unless a person says otherwise.

use super::{Effect, Msg, Screen, State, Toast, first_run, models};
use crate::bridge::{FetchError, FetchProgress, Kind, ModelEntry, Offer, Trouble};
use dspark_strings::t;

#[derive(Debug, Clone, Default)]
pub struct Downloads {
    /// In the order in which they will begin.
    pub queue: Vec<Offer>,
    /// Stopped: paused, or failed. Newest first.
    pub held: Vec<Held>,
    /// Arrived since the start of the program, newest first.
    pub done: Vec<ModelEntry>,
}

/// A download under way.
#[derive(Debug, Clone, PartialEq)]
pub struct Fetching {
    pub id: String,
    pub name: String,
    pub progress: FetchProgress,
    pub cancelled: bool,
    /// What becomes of it once it has stopped.
    pub then: Then,
}

impl Fetching {
    pub fn percent(&self) -> Option<u8> {
        let FetchProgress { done, total, .. } = self.progress;
        (total > 0).then(|| (100 * done.min(total) / total) as u8)
    }
}

/// What a person wants of a download that they stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Then {
    /// It stays in the list, to go on.
    Pause,
    /// It goes from the list; what has come stays on disk.
    #[default]
    Keep,
    /// What has come is deleted.
    Delete,
}

/// A download that stands still.
#[derive(Debug, Clone, PartialEq)]
pub struct Held {
    pub offer: Offer,
    pub progress: FetchProgress,
    /// Why it failed; `None`: a person paused it.
    pub trouble: Option<Trouble>,
}

#[derive(Debug, Clone)]
pub enum DownloadMsg {
    Pause,
    /// Of a held or left-over download, or a waiting one at once: to the front of the queue.
    Resume(String),
    /// Out of the queue or the list of those that stand still; what has come stays.
    Drop(String),
    Stop(Then),
    /// What a left-over or held download has brought is deleted.
    Discard(String),
    Discarded {
        id: String,
        result: Result<u64, String>,
    },
    ClearDone,
}

pub(super) fn update(state: &mut State, message: DownloadMsg, out: &mut Vec<Effect>) {
    match message {
        DownloadMsg::Pause => stop(state, Then::Pause, out),
        DownloadMsg::Stop(then) => stop(state, then, out),
        DownloadMsg::Resume(id) => resume(state, &id, out),
        DownloadMsg::Drop(id) => {
            state.models.downloads.queue.retain(|offer| offer.id != id);
            state.models.downloads.held.retain(|held| held.offer.id != id);
            models::survey(state, out);
        }
        DownloadMsg::Discard(id) => {
            state.models.question = None;
            state.models.downloads.held.retain(|held| held.offer.id != id);
            out.push(Effect::Discard(id));
        }
        DownloadMsg::Discarded { id, result } => {
            match result {
                Ok(bytes) => {
                    let freed = t!(free_again, size = crate::shell::text::bytes(bytes));
                    state.toasts.push(Toast::good(t!(leftover_deleted, name = short(&id)), freed));
                }
                Err(reason) => state.toasts.push(Toast::error(t!(leftover_not_deleted, name = short(&id)), reason)),
            }
            models::survey(state, out);
        }
        DownloadMsg::ClearDone => state.models.downloads.done.clear(),
    }
}

/// `Qwen3-4B-8bit` of `owner/Qwen3-4B-8bit`.
pub(crate) fn short(id: &str) -> &str {
    id.rsplit('/').next().unwrap_or(id)
}

/// Begins, or waits for the one that is under way.
pub(super) fn fetch(state: &mut State, offer: &Offer, out: &mut Vec<Effect>) {
    let models = &mut state.models;
    models.picker_open = false;
    models.downloads.held.retain(|held| held.offer.id != offer.id);
    if let Some(fetching) = &models.fetching {
        if fetching.id == offer.id || models.downloads.queue.iter().any(|waiting| waiting.id == offer.id) {
            return;
        }
        models.downloads.queue.push(offer.clone());
        let toast = Toast::info(t!(waits_its_turn, name = offer.name), t!(after_name, name = fetching.name)).action(
            t!(downloads),
            vec![Msg::Show(Screen::Models), models::tab(models::ModelsTab::Downloads)],
        );
        if !are_shown(state) {
            state.toasts.push(toast);
        }
        return;
    }
    begin(state, offer, out);
}

/// The list is in sight: a toast would say the same once more.
fn are_shown(state: &State) -> bool {
    state.window_visible && state.screen == Screen::Models && state.models.tab == models::ModelsTab::Downloads
}

fn begin(state: &mut State, offer: &Offer, out: &mut Vec<Effect>) {
    state.models.failure = None;
    state.models.fetching = Some(Fetching {
        id: offer.id.clone(),
        name: offer.name.clone(),
        progress: FetchProgress {
            total: offer.bytes,
            ..FetchProgress::default()
        },
        cancelled: false,
        then: Then::Keep,
    });
    state.models.under_way = Some(offer.clone());
    out.push(if offer.newer {
        Effect::Update(offer.id.clone())
    } else {
        Effect::Fetch(offer.id.clone())
    });
}

pub(super) fn stop(state: &mut State, then: Then, out: &mut Vec<Effect>) {
    state.models.question = None;
    if let Some(fetching) = &mut state.models.fetching {
        fetching.cancelled = true;
        fetching.then = then;
        out.push(Effect::CancelFetch);
    }
}

fn resume(state: &mut State, id: &str, out: &mut Vec<Effect>) {
    let downloads = &mut state.models.downloads;
    let held = downloads
        .held
        .iter()
        .position(|held| held.offer.id == id)
        .map(|at| downloads.held.remove(at).offer);
    let waiting = downloads
        .queue
        .iter()
        .position(|offer| offer.id == id)
        .map(|at| downloads.queue.remove(at));
    let survey = state.models.survey.as_ref();
    let known = || survey.and_then(|survey| survey.offers.iter().find(|offer| offer.id == id).cloned());
    let left = || {
        let left = survey?.leftovers.iter().find(|left| left.id == id)?;
        Some(Offer {
            id: id.to_owned(),
            name: short(id).to_owned(),
            bytes: left.total,
            ..Offer::default()
        })
    };
    if let Some(offer) = held.or(waiting).or_else(known).or_else(left) {
        fetch(state, &offer, out);
    }
}

pub(super) fn fetched(state: &mut State, result: Result<ModelEntry, FetchError>, out: &mut Vec<Effect>) {
    let Some(fetching) = state.models.fetching.take() else { return };
    let offer = state.models.under_way.take().unwrap_or_default();
    let mut goes_on = true;
    match result {
        Ok(entry) => {
            // What the hub said was of the one before.
            state.models.hub.previews.remove(&fetching.id);
            models::survey(state, out);
            state.models.downloads.done.insert(0, entry.clone());
            if state.engine.model.is_none() && state.models.loading.is_none() {
                models::load(state, entry.name, entry.path, false, out);
            } else {
                let title = t!(ready_to_be_loaded, name = entry.name);
                let load = vec![Msg::Models(models::ModelsMsg::Load(entry))];
                let toast = Toast::good(title, t!(downloaded_checked)).action(t!(load_now), load);
                state.toasts.push(toast);
            }
        }
        Err(FetchError::Cancelled) => {
            first_run::stopped(state);
            state.chat.waiting = false;
            stopped(state, fetching, offer, out);
        }
        Err(FetchError::Failed(trouble)) => {
            first_run::stopped(state);
            state.chat.waiting = false;
            // The next one would end the same way.
            goes_on = !matches!(trouble.kind, Kind::Offline | Kind::NoSpace | Kind::Network | Kind::Busy);
            failed(state, fetching, offer, trouble, out);
        }
    }
    next(state, goes_on, out);
}

fn stopped(state: &mut State, fetching: Fetching, offer: Offer, out: &mut Vec<Effect>) {
    match fetching.then {
        Then::Pause => {
            let held = Held {
                offer,
                progress: fetching.progress,
                trouble: None,
            };
            state.models.downloads.held.insert(0, held);
        }
        Then::Keep => {
            models::survey(state, out);
            let toast = Toast::info(t!(download_cancelled), t!(what_is_here_stays));
            state.toasts.push(toast);
        }
        Then::Delete => out.push(Effect::Discard(fetching.id)),
    }
}

fn failed(state: &mut State, fetching: Fetching, offer: Offer, trouble: Trouble, out: &mut Vec<Effect>) {
    state.models.failure = Some(models::LoadFailure {
        name: fetching.name.clone(),
        reason: trouble.words.clone(),
        retry: models::Choice::Offer(fetching.id),
        download: true,
    });
    let toast = Toast::error(t!(was_not_downloaded, name = fetching.name), trouble.words.clone())
        .action(t!(try_again), vec![Msg::Models(models::ModelsMsg::Retry)]);
    if !are_shown(state) {
        state.toasts.push(toast);
    }
    let held = Held {
        offer,
        progress: fetching.progress,
        trouble: Some(trouble),
    };
    state.models.downloads.held.insert(0, held);
    models::survey(state, out);
}

fn next(state: &mut State, goes_on: bool, out: &mut Vec<Effect>) {
    if state.models.downloads.queue.is_empty() {
        return;
    }
    if goes_on {
        let offer = state.models.downloads.queue.remove(0);
        begin(state, &offer, out);
        return;
    }
    let waiting = std::mem::take(&mut state.models.downloads.queue);
    state.models.downloads.held.extend(waiting.into_iter().map(|offer| Held {
        progress: FetchProgress {
            total: offer.bytes,
            ..FetchProgress::default()
        },
        offer,
        trouble: None,
    }));
}

impl From<DownloadMsg> for Msg {
    fn from(message: DownloadMsg) -> Self {
        Self::Downloads(message)
    }
}
