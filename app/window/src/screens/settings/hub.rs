//! Settings of downloads: how fast they may be, and the token that the hub is sent.

use super::SettingsView;
use crate::{
    bridge::TokenFrom,
    settings::Settings,
    state::{Msg, Secret, State, TokenMsg},
};
use dspark_look::{Button, Icon, IconButton, SettingsRow, TextField, select, settings_group};
use dspark_strings::t;
use egui::Ui;

/// MB a second that are offered; 0 is no cap.
const CAPS: [u32; 8] = [0, 1, 2, 5, 10, 25, 50, 100];

pub(super) fn show(ui: &mut Ui, state: &State, settings: &mut Settings, view: &mut SettingsView, out: &mut Vec<Msg>) {
    settings_group(ui, t!(model_hub), |ui| {
        cap(ui, settings);
        token(ui, state, view, out);
    });
}

fn words(cap: u32) -> String {
    if cap == 0 { t!(no_limit).into() } else { format!("{cap} MB/s") }
}

fn cap(ui: &mut Ui, settings: &mut Settings) {
    let name = t!(download_speed);
    SettingsRow::new(name).detail(t!(download_speed_detail)).show(ui, |ui| {
        let cap = &mut settings.models.download_limit;
        let mut caps = CAPS.to_vec();
        // One that was written into the file by hand.
        if !caps.contains(cap) {
            caps.push(*cap);
        }
        let names: Vec<String> = caps.iter().map(|cap| words(*cap)).collect();
        let choices: Vec<(u32, &str)> = caps.iter().copied().zip(names.iter().map(String::as_str)).collect();
        select(ui, name, cap, &choices, 130.0);
    });
}

fn token(ui: &mut Ui, state: &State, view: &mut SettingsView, out: &mut Vec<Msg>) {
    let found = state.models.token.as_ref();
    let detail = match found.map(|found| (&found.from, found)) {
        None => t!(token_for).to_owned(),
        Some((Some(TokenFrom::Variable), _)) => t!(token_variable).into(),
        Some((Some(TokenFrom::Shared(path)), _)) => t!(token_shared, path = state.agents.short(path)),
        Some((Some(TokenFrom::Kept), found)) => t!(token_kept_in, path = state.agents.short(&found.file)),
        Some((None, found)) => t!(token_would_be_kept, path = state.agents.short(&found.file)),
    };
    SettingsRow::new(t!(access_token)).detail(&detail).show(ui, |ui| {
        ui.spacing_mut().item_spacing.x = 6.0;
        let ready = !view.token.trim().is_empty();
        let keep = ui
            .add(
                Button::secondary(t!(keep_token_button))
                    .small()
                    .label(t!(keep_token))
                    .enabled(ready),
            )
            .clicked();
        if found.is_some_and(|found| found.kept) {
            let forget = Button::secondary(t!(forget_button)).small().label(t!(forget_token));
            if ui.add(forget).clicked() {
                out.push(TokenMsg::Forget.into());
            }
        }
        let (icon, label) = if view.show_token {
            (Icon::EyeSlash, t!(hide_token))
        } else {
            (Icon::Eye, t!(show_token))
        };
        if ui.add(IconButton::new(icon, label)).clicked() {
            view.show_token = !view.show_token;
        }
        let mut field = TextField::new(&mut view.token, t!(access_token)).hint("hf_…").width(170.0).mono();
        if !view.show_token {
            field = field.password();
        }
        let response = ui.add(field);
        if std::mem::take(&mut view.focus_token) {
            response.request_focus();
        }
        let entered = response.lost_focus() && ui.input(|input| input.key_pressed(egui::Key::Enter));
        if (keep || entered) && ready {
            out.push(TokenMsg::Keep(Secret::new(view.token.trim().to_owned())).into());
            // It stands nowhere on the screen once it is kept.
            view.token.clear();
            view.show_token = false;
        }
    });
}
