//! The hub: what is looked for there, and what it says of one repository.

use super::{Effect, Msg, State, models};
use crate::bridge::{FetchError, Listed, Offer, Trouble};
use std::collections::BTreeMap;

#[derive(Debug, Clone, Default)]
pub struct HubSearch {
    pub query: String,
    /// What the answer is to; empty before the first.
    pub asked: String,
    pub busy: bool,
    /// It was stopped before there was an answer.
    pub cancelled: bool,
    pub found: Option<Result<Vec<Listed>, Trouble>>,
    /// What cannot be loaded is shown too, with its reason.
    pub all: bool,
    /// What the hub said of single repositories, by id.
    pub previews: BTreeMap<String, Preview>,
}

/// The hub's own word on a repository.
#[derive(Debug, Clone, PartialEq)]
pub enum Preview {
    Asked,
    Known(Box<Listed>),
    Failed(Trouble),
}

#[derive(Debug, Clone)]
pub enum HubMsg {
    Query(String),
    /// Look for what is in the field.
    Go,
    Cancel,
    Found {
        asked: String,
        found: Result<Vec<Listed>, FetchError>,
    },
    All(bool),
    /// Ask for the exact sizes of a repository.
    Preview(String),
    Previewed {
        id: String,
        found: Result<Box<Listed>, FetchError>,
    },
}

pub(super) fn update(state: &mut State, message: HubMsg, out: &mut Vec<Effect>) {
    let hub = &mut state.models.hub;
    match message {
        HubMsg::Query(query) => hub.query = query,
        HubMsg::Go => go(state, out),
        HubMsg::Cancel => {
            if std::mem::take(&mut hub.busy) {
                hub.cancelled = true;
                out.push(Effect::CancelSearch);
            }
        }
        HubMsg::Found { asked, found } => {
            if !hub.busy || asked != hub.asked {
                return;
            }
            hub.busy = false;
            match found {
                Ok(found) => {
                    // Nothing but what cannot be loaded: shown at once, with the reasons.
                    hub.all |= found.iter().all(|row| row.problem.is_some());
                    hub.found = Some(Ok(found));
                }
                Err(FetchError::Cancelled) => hub.cancelled = true,
                Err(FetchError::Failed(trouble)) => hub.found = Some(Err(trouble)),
            }
        }
        HubMsg::All(all) => hub.all = all,
        HubMsg::Preview(id) => preview(state, &id, out),
        HubMsg::Previewed { id, found } => {
            let answer = match found {
                Ok(found) => Preview::Known(found),
                Err(FetchError::Cancelled) => {
                    hub.previews.remove(&id);
                    return;
                }
                Err(FetchError::Failed(trouble)) => Preview::Failed(trouble),
            };
            hub.previews.insert(id, answer);
        }
    }
}

fn go(state: &mut State, out: &mut Vec<Effect>) {
    let text = state.models.hub.query.trim().to_owned();
    if text.is_empty() {
        return;
    }
    if is_path(&text) {
        out.push(Effect::Inspect(crate::shell::picker::expand(&text)));
        return;
    }
    let hub = &mut state.models.hub;
    hub.asked.clone_from(&text);
    hub.busy = true;
    hub.cancelled = false;
    hub.found = None;
    hub.all = false;
    out.push(Effect::SearchHub(text));
}

/// A folder of this machine rather than words or a repository.
pub(crate) fn is_path(text: &str) -> bool {
    text.starts_with(['/', '~']) || text.starts_with("./") || text.starts_with("file://")
}

/// A repository, or the address of one: worth asking the hub about.
pub(crate) fn is_repository(text: &str) -> bool {
    let text = text.trim();
    let web = text.starts_with("https://") || text.starts_with("http://");
    let parts: Vec<&str> = text.split('/').collect();
    web || (parts.len() == 2 && !is_path(text) && parts.iter().all(|part| !part.is_empty() && !part.contains(' ')))
}

/// Asked once; again after it failed.
pub(super) fn preview(state: &mut State, id: &str, out: &mut Vec<Effect>) {
    let known = state.models.hub.previews.get(id);
    if known.is_none() || matches!(known, Some(Preview::Failed(_))) {
        state.models.hub.previews.insert(id.to_owned(), Preview::Asked);
        out.push(Effect::PreviewModel(id.to_owned()));
    }
}

impl models::Models {
    /// The offer with what the hub said of it, where that is known.
    pub fn known<'a>(&'a self, offer: &'a Offer) -> &'a Offer {
        match self.hub.previews.get(&offer.id) {
            Some(Preview::Known(listed)) => &listed.offer,
            _ => offer,
        }
    }
}

impl From<HubMsg> for Msg {
    fn from(message: HubMsg) -> Self {
        Self::Hub(message)
    }
}
