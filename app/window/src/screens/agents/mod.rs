//! Agents: other programs are pointed at the server here, and seen at work.

mod cards;
mod connections;
mod server;
mod sheet;
mod words;

use crate::state::{AgentsMsg, AgentsView, Msg, State};
use dspark_look::{ErrorCard, space};
use dspark_strings::t;
use egui::{Frame, Margin, ScrollArea, Ui, vec2};

pub(crate) use sheet::show as sheet;

pub fn show(ui: &mut Ui, state: &State, out: &mut Vec<Msg>) {
    let height = ui.available_height() - 2.0 * space::PAGE_Y;
    ScrollArea::vertical()
        .id_salt(("agents", state.agents.view))
        .auto_shrink([false, false])
        .show(ui, |ui| {
            let margin = Margin::symmetric(space::PAGE_X as i8, space::PAGE_Y as i8);
            Frame::new().inner_margin(margin).show(ui, |ui| {
                ui.spacing_mut().item_spacing = vec2(space::PANEL_GAP, space::PANEL_GAP);
                server::state(ui, state, out);
                match state.agents.view {
                    AgentsView::SetUp => set_up(ui, state, out),
                    AgentsView::Connections => connections::show(ui, state, height, out),
                }
            });
        });
}

fn set_up(ui: &mut Ui, state: &State, out: &mut Vec<Msg>) {
    server::facts(ui, state, out);
    if let Some(reason) = &state.agents.failure {
        let card = ErrorCard {
            title: t!(others_unreadable),
            cause: reason,
            primary: t!(look_again),
            details: "",
        };
        let action = card.show(ui);
        if action.primary {
            out.push(AgentsMsg::Look.into());
        }
        if action.copy {
            out.push(Msg::Copy(reason.clone()));
        }
        return;
    }
    match &state.agents.standings {
        None => {
            let line = t!(which_installed);
            dspark_look::empty_card(ui, 180.0, dspark_look::Icon::PlugsConnected, t!(looking_for_programs), line, "");
        }
        Some(standings) => cards::show(ui, state, standings, out),
    }
}
