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
            "Asking the hub",
            &format!("for “{}”", hub.asked),
            "Cancel",
        ) {
            out.push(HubMsg::Cancel.into());
        }
        return;
    }
    match &hub.found {
        None if hub.cancelled => {
            if empty_card(ui, 160.0, Icon::X, "Cancelled", "The hub was not waited for.", "Search again") {
                out.push(HubMsg::Go.into());
            }
        }
        None => {
            let line = "Words of a name, owner/name, the address of a page, or the path of a folder here.";
            empty_card(ui, 160.0, Icon::MagnifyingGlass, "Every model of the hub", line, "");
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
            TextField::new(&mut query, "Words or repository")
                .hint("Search, or paste a repository or address")
                .icon(Icon::MagnifyingGlass)
                .width(width),
        );
        let entered = response.lost_focus() && ui.input(|input| input.key_pressed(Key::Enter));
        let ready = !query.trim().is_empty() && !hub.busy;
        ui.add_space(8.0);
        let search = ui.add(Button::secondary("Search").enabled(ready)).clicked();
        if query != hub.query {
            out.push(HubMsg::Query(query).into());
        }
        if (entered && ready) || search {
            out.push(HubMsg::Go.into());
        }
        if hub.busy {
            busy_ring(ui, 14.0, theme.accent, "Searching");
        }
        if let Some(Ok(found)) = &hub.found {
            let cannot = found.iter().filter(|row| row.problem.is_some()).count();
            if cannot > 0 {
                dspark_look::from_right(ui, |ui| {
                    let words = if hub.all {
                        "Only what runs here".to_owned()
                    } else {
                        format!("Show {cannot} that cannot run")
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
        if ui.add(Button::secondary("Enter an access token").small()).clicked() {
            out.push(crate::state::TokenMsg::Enter.into());
        }
    }
}

/// What to call a failure, and the one thing to do about it.
pub(super) fn words(trouble: &Trouble) -> (&'static str, &'static str) {
    match trouble.kind {
        Kind::Offline => ("The hub cannot be reached", "Try again"),
        Kind::Busy => ("The hub asks to wait", "Try again"),
        Kind::Network => ("The connection broke off", "Try again"),
        Kind::Damaged => ("A file arrived damaged", "Download again"),
        Kind::NoSpace => ("The disk is full", "Free some space"),
        Kind::Gated => ("Its licence must be accepted first", "Open its page"),
        Kind::Refused => ("The access token was refused", "Open the token page"),
        Kind::Missing => ("There is no such model", "Search for it"),
        Kind::Unsupported => ("It cannot be loaded", "Search for another"),
        Kind::Other => ("It did not work", "Try again"),
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
        let line = format!(
            "The hub has no model with “{}” in its name that could be told apart here.",
            state.models.hub.asked
        );
        empty_card(ui, 160.0, Icon::Cube, "Nothing found", &line, "");
        return;
    }
    if !runs.is_empty() {
        table(ui, state, &COLUMNS, &runs, out);
    }
    if !cannot.is_empty() {
        ui.add_space(16.0);
        ui.label(Type::LABEL.rich("Cannot run here", theme.t3));
        ui.add_space(6.0);
        table(ui, state, &[Column::Download, Column::Popular], &cannot, out);
    }
    ui.add_space(12.0);
    let words = "Sizes are the hub’s. The verdict counts the context once a row is opened, or the model is known.";
    ui.add(Label::new(Type::SMALL.rich(words, theme.t3)).wrap());
}

fn lines<'a>(state: &'a State, found: &'a [Listed], problem: bool) -> Vec<(Line<'a>, u64)> {
    let wanted = found.iter().filter(|row| row.problem.is_some() == problem);
    wanted.map(|row| (Line::listed(state, row), row.downloads)).collect()
}
