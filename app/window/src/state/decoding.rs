//! How the loaded model decodes: edited freely, applied together with one reload.

use super::{Effect, State, models, settings::save};
use crate::settings::Decoding;

#[derive(Debug, Clone)]
pub enum DecodingMsg {
    /// The whole, as edited.
    Edit(Box<Decoding>),
    /// Keep the edits, and load the model anew with them.
    Apply,
    Discard,
}

impl State {
    /// The decoding settings as they stand on the page.
    pub fn edited_decoding(&self) -> &Decoding {
        self.decoding.as_ref().unwrap_or(&self.settings.decoding)
    }
}

pub(super) fn update(state: &mut State, message: DecodingMsg, out: &mut Vec<Effect>) {
    match message {
        DecodingMsg::Edit(edited) => {
            if state.has_model() || state.models.loading.is_some() {
                state.decoding = Some(*edited).filter(|edited| *edited != state.settings.decoding);
            } else {
                // Nothing is loaded that would have to be loaded anew.
                state.decoding = None;
                state.settings.decoding = *edited;
                save(state, out);
            }
        }
        DecodingMsg::Apply => {
            if state.models.loading.is_some() {
                return;
            }
            let Some(edited) = state.decoding.take() else { return };
            state.settings.decoding = edited;
            save(state, out);
            if let Some(model) = state.engine.model.clone() {
                models::load(state, model.name.clone(), model.path.clone(), false, out);
            }
        }
        DecodingMsg::Discard => state.decoding = None,
    }
}
