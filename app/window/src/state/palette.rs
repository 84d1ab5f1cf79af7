//! The command palette: what is typed, and which row is marked. What there is to choose from follows from the rest of
//! the state: [`crate::shell::commands`].

use super::{Effect, Msg, State};
use dspark_sessions::Hit;

#[derive(Debug, Clone, Default)]
pub struct Palette {
    pub query: String,
    /// Counted over all rows.
    pub selected: usize,
    /// Chats in whose text the query stands.
    pub hits: Vec<Hit>,
}

#[derive(Debug, Clone)]
pub enum PaletteMsg {
    Open(bool),
    Query(String),
    Select(usize),
    /// Close it and do this.
    Run(Vec<Msg>),
}

pub(super) fn update(state: &mut State, message: PaletteMsg, out: &mut Vec<Effect>) {
    match message {
        PaletteMsg::Open(true) => {
            state.palette = Some(Palette::default());
            if state.models.survey.is_none() {
                out.extend(super::update(state, Msg::Models(super::ModelsMsg::Survey)));
            }
        }
        PaletteMsg::Open(false) => state.palette = None,
        PaletteMsg::Query(query) => {
            let Some(palette) = &mut state.palette else { return };
            palette.selected = 0;
            palette.hits.clear();
            if query.trim().len() >= 3 {
                out.push(Effect::Search(query.clone()));
            }
            palette.query = query;
        }
        PaletteMsg::Select(row) => {
            if let Some(palette) = &mut state.palette {
                palette.selected = row;
            }
        }
        PaletteMsg::Run(messages) => {
            state.palette = None;
            for message in messages {
                out.extend(super::update(state, message));
            }
        }
    }
}

/// An answer to what stands in the palette.
pub(super) fn found(state: &mut State, query: &str, hits: &[Hit]) {
    if let Some(palette) = state.palette.as_mut().filter(|palette| palette.query == query) {
        palette.hits = hits.to_vec();
    }
}
