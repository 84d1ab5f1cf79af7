//! Rows about the desktop: launch at login, staying awake, notifications. Each says how it is here, also where it cannot be.

use crate::{
    settings::Settings,
    state::{DesktopMsg, Msg, Purpose, State},
};
use dspark_desktop::{Awake, Login};
use dspark_look::{Button, Chip, Icon, SettingsRow, Tone, settings_group, toggle};
use dspark_strings::t;
use egui::Ui;

pub(super) fn manners(ui: &mut Ui, state: &State, settings: &mut Settings, out: &mut Vec<Msg>) {
    settings_group(ui, t!(on_this_desktop), |ui| {
        login(ui, state, out);
        awake(ui, state, settings);
        notify(ui, state, settings);
    });
}

/// Opens the system's file dialog, beside a field that takes a path.
pub(super) fn browse(ui: &mut Ui, label: &str, purpose: Purpose, out: &mut Vec<Msg>) {
    let button = Button::secondary(t!(browse)).small().label(label);
    if ui.add(button).clicked() {
        out.push(DesktopMsg::Choose(purpose).into());
    }
}

fn login(ui: &mut Ui, state: &State, out: &mut Vec<Msg>) {
    let name = t!(launch_at_login);
    let how = match (cfg!(target_os = "macos"), state.tray) {
        (true, true) => t!(login_agent_closed),
        (true, false) => t!(login_agent_opens),
        (false, true) => t!(login_entry_closed),
        (false, false) => t!(login_entry_opens),
    };
    let detail = match &state.desktop.login {
        None => t!(login_looking).into(),
        Some(Login::On | Login::Off) => how.into(),
        Some(Login::Other(path)) => t!(login_other_copy, path = path.display()),
        Some(Login::Unavailable(reason)) => reason.clone(),
    };
    SettingsRow::new(name).detail(&detail).show(ui, |ui| match &state.desktop.login {
        None => {}
        Some(Login::Unavailable(_)) => {
            ui.add(Chip::new(t!(not_here)));
        }
        Some(login) => {
            let mut on = *login == Login::On;
            if toggle(ui, &mut on, name).changed() {
                out.push(DesktopMsg::SetLogin(on).into());
            }
        }
    });
}

fn awake(ui: &mut Ui, state: &State, settings: &mut Settings) {
    let name = t!(stay_awake);
    let detail = match &state.desktop.awake {
        Awake::Refused(reason) if settings.general.stay_awake => reason.as_str(),
        _ => t!(stay_awake_detail),
    };
    SettingsRow::new(name).detail(detail).show(ui, |ui| {
        toggle(ui, &mut settings.general.stay_awake, name);
        match &state.desktop.awake {
            Awake::Held(by) => {
                let chip = ui.add(Chip::new(t!(awake_chip)).tone(Tone::Ok).icon(Icon::Check));
                dspark_look::tip(chip, t!(awake_title), &t!(awake_promised, by = by));
            }
            Awake::Refused(_) if settings.general.stay_awake => {
                ui.add(Chip::new(t!(not_possible)).tone(Tone::Warn));
            }
            _ => {}
        }
    });
}

fn notify(ui: &mut Ui, state: &State, settings: &mut Settings) {
    let name = t!(notify_long);
    let detail = match &state.desktop.mute {
        Some(reason) if settings.general.notify => reason.as_str(),
        _ => t!(notify_long_detail),
    };
    SettingsRow::new(name).detail(detail).show(ui, |ui| {
        toggle(ui, &mut settings.general.notify, name);
        if state.desktop.mute.is_some() && settings.general.notify {
            ui.add(Chip::new(t!(not_shown)).tone(Tone::Warn));
        }
    });
}
