//! The hub: models by the words in their names, or the one that an address names.

use super::{
    line::Line,
    rows::{Column, table},
};
use crate::{
    bridge::{Kind, Listed, Trouble},
    state::{HubMsg, Msg, State},
};
use dspark_look::{Button, ErrorCard, Icon, TextField, Theme, Type, busy_ring, empty_card};
use dspark_strings::t;
use egui::{Key, Label, Ui};

const COLUMNS: [Column; 4] = [Column::Download, Column::Popular, Column::Plain, Column::Fit];

pub(super) fn show(ui: &mut Ui, state: &State, out: &mut Vec<Msg>) {
    let hub = &state.models.hub;
    field(ui, state, out);
    ui.add_space(14.0);
    if hub.busy {
        if empty_card(
            ui,
            160.0,
            Icon::GlobeSimple,
            t!(asking_hub),
            &t!(for_query, query = hub.asked),
            t!(cancel),
        ) {
            out.push(HubMsg::Cancel.into());
        }
        return;
    }
    match &hub.found {
        None if hub.cancelled => {
            if empty_card(ui, 160.0, Icon::X, t!(cancelled), t!(hub_not_waited), t!(search_again)) {
                out.push(HubMsg::Go.into());
            }
        }
        None => {
            let line = t!(hub_empty_line);
            empty_card(ui, 160.0, Icon::MagnifyingGlass, t!(every_model), line, "");
        }
        Some(Err(trouble)) => failure(ui, trouble, out),
        Some(Ok(found)) => results(ui, state, found, out),
    }
}

fn field(ui: &mut Ui, state: &State, out: &mut Vec<Msg>) {
    let theme = Theme::of(ui);
    let hub = &state.models.hub;
    dspark_look::controls(ui, |ui| {
        let mut query = hub.query.clone();
        let width = (ui.available_width() - 320.0).clamp(220.0, 420.0);
        let response = ui.add(
            TextField::new(&mut query, t!(words_or_repository))
                .hint(t!(hub_search_hint))
                .icon(Icon::MagnifyingGlass)
                .width(width),
        );
        let entered = response.lost_focus() && ui.input(|input| input.key_pressed(Key::Enter));
        let ready = !query.trim().is_empty() && !hub.busy;
        ui.add_space(8.0);
        let search = ui.add(Button::secondary(t!(search)).enabled(ready)).clicked();
        if query != hub.query {
            out.push(HubMsg::Query(query).into());
        }
        if (entered && ready) || search {
            out.push(HubMsg::Go.into());
        }
        if hub.busy {
            busy_ring(ui, 14.0, theme.accent, t!(searching));
        }
        if let Some(Ok(found)) = &hub.found {
            let cannot = found.iter().filter(|row| row.problem.is_some()).count();
            if cannot > 0 {
                dspark_look::from_right(ui, |ui| {
                    let words = if hub.all {
                        t!(only_what_runs).to_owned()
                    } else {
                        t!(show_cannot_run, cannot = cannot)
                    };
                    if ui.add(Button::quiet(&words).icon(Icon::FunnelSimple)).clicked() {
                        out.push(HubMsg::All(!hub.all).into());
                    }
                });
            }
        }
    });
    if let Some(error) = &state.models.path_error {
        ui.add_space(4.0);
        dspark_look::field_error(ui, error);
    }
}

/// Each failure has the one thing to do about it.
fn failure(ui: &mut Ui, trouble: &Trouble, out: &mut Vec<Msg>) {
    let (title, primary) = words(trouble);
    let card = ErrorCard {
        title,
        cause: &trouble.words,
        primary,
        details: "",
    };
    let action = card.show(ui);
    if action.primary {
        out.push(if trouble.page.is_empty() {
            HubMsg::Go.into()
        } else {
            Msg::Open(trouble.page.clone())
        });
    }
    if action.copy {
        out.push(Msg::Copy(format!("{title}: {}", trouble.words)));
    }
    if matches!(trouble.kind, Kind::Gated | Kind::Refused | Kind::Missing) {
        // What is private looks missing without a token.
        ui.add_space(6.0);
        if ui.add(Button::secondary(t!(enter_access_token)).small()).clicked() {
            out.push(crate::state::TokenMsg::Enter.into());
        }
    }
}

/// What to call a failure, and the one thing to do about it.
pub(super) fn words(trouble: &Trouble) -> (&'static str, &'static str) {
    match trouble.kind {
        Kind::Offline => (t!(hub_unreachable), t!(try_again)),
        Kind::Busy => (t!(hub_asks_wait), t!(try_again)),
        Kind::Network => (t!(connection_broke), t!(try_again)),
        Kind::Damaged => (t!(file_damaged), t!(download_again)),
        Kind::NoSpace => (t!(disk_full), t!(free_space)),
        Kind::Gated => (t!(licence_first), t!(open_its_page)),
        Kind::Refused => (t!(token_refused), t!(open_token_page)),
        Kind::Missing => (t!(no_such_model), t!(search_for_it)),
        Kind::Unsupported => (t!(cannot_be_loaded), t!(search_for_another)),
        Kind::Other => (t!(did_not_work), t!(try_again)),
    }
}

fn results(ui: &mut Ui, state: &State, found: &[Listed], out: &mut Vec<Msg>) {
    let theme = Theme::of(ui);
    let runs: Vec<_> = lines(state, found, false);
    let cannot: Vec<_> = if state.models.hub.all {
        lines(state, found, true)
    } else {
        Vec::new()
    };
    if runs.is_empty() && cannot.is_empty() {
        let line = t!(hub_has_none, query = state.models.hub.asked);
        empty_card(ui, 160.0, Icon::Cube, t!(nothing_found), &line, "");
        return;
    }
    if !runs.is_empty() {
        table(ui, state, &COLUMNS, &runs, out);
    }
    if !cannot.is_empty() {
        ui.add_space(16.0);
        ui.label(Type::LABEL.rich(t!(cannot_run_here), theme.t3));
        ui.add_space(6.0);
        table(ui, state, &[Column::Download, Column::Popular], &cannot, out);
    }
    ui.add_space(12.0);
    let words = t!(sizes_are_hubs);
    ui.add(Label::new(Type::SMALL.rich(words, theme.t3)).wrap());
}

fn lines<'a>(state: &'a State, found: &'a [Listed], problem: bool) -> Vec<(Line<'a>, u64)> {
    let wanted = found.iter().filter(|row| row.problem.is_some() == problem);
    wanted.map(|row| (Line::listed(state, row), row.downloads)).collect()
}
