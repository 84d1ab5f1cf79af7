//! The palette over the window.

use super::commands::{Command, commands};
use crate::state::{Msg, PaletteMsg, State};
use dspark_look::{PaletteRow, Theme, Type, palette, palette_heading};
use dspark_strings::t;
use egui::Context;

pub(super) fn show(ctx: &Context, state: &State, out: &mut Vec<Msg>) {
    let Some(open) = &state.palette else { return };
    let mut query = open.query.clone();
    let found = commands(state, &query);
    let last = found.len().saturating_sub(1);
    let selected = open.selected.min(last);
    let (keys, clicked) = palette(ctx, &mut query, t!(palette_hint), |ui| {
        let mut clicked = None;
        if found.is_empty() {
            ui.add_space(18.0);
            ui.vertical_centered(|ui| ui.label(Type::NOTE.rich(t!(nothing_by_name), Theme::of(ui).t3)));
            ui.add_space(18.0);
        }
        let mut group = None;
        for (at, command) in found.iter().enumerate() {
            if group != Some(command.group) {
                group = Some(command.group);
                palette_heading(ui, command.group.name());
            }
            if row(ui, command, at == selected) {
                clicked = Some(at);
            }
        }
        clicked
    });
    let palette = |message| Msg::Palette(message);
    if query != open.query {
        out.push(palette(PaletteMsg::Query(query)));
    } else if keys.step != 0 && !found.is_empty() {
        let next = (selected as i32 + keys.step).rem_euclid(found.len() as i32);
        out.push(palette(PaletteMsg::Select(next as usize)));
    }
    let chosen = clicked
        .or((keys.run || keys.options).then_some(selected))
        .and_then(|at| found.get(at));
    if let Some(command) = chosen {
        let options = keys.options && !command.options.is_empty();
        let run = if options { &command.options } else { &command.run };
        out.push(palette(PaletteMsg::Run(run.clone())));
    } else if keys.close {
        out.push(palette(PaletteMsg::Open(false)));
    }
}

fn row(ui: &mut egui::Ui, command: &Command, selected: bool) -> bool {
    let verb = if selected { command.verb } else { "" };
    let mut keys: Vec<&str> = command.keys.iter().map(String::as_str).collect();
    if !verb.is_empty() {
        keys = vec!["⏎"];
    }
    PaletteRow {
        icon: command.icon,
        text: &command.text,
        matches: &command.matches,
        detail: &command.detail,
        detail_matches: &command.detail_matches,
        verb,
        keys: &keys,
        selected,
    }
    .show(ui)
    .clicked()
}
