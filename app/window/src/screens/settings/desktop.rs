//! Rows about the desktop: launch at login, staying awake, notifications. Each says how it is here, also where it cannot be.

use crate::{
    settings::Settings,
    state::{DesktopMsg, Msg, Purpose, State},
};
use dspark_desktop::{Awake, Login};
use dspark_look::{Button, Chip, Icon, SettingsRow, Tone, settings_group, toggle};
use egui::Ui;

pub(super) fn manners(ui: &mut Ui, state: &State, settings: &mut Settings, out: &mut Vec<Msg>) {
    settings_group(ui, "On this desktop", |ui| {
        login(ui, state, out);
        awake(ui, state, settings);
        notify(ui, state, settings);
    });
}

/// Opens the system's file dialog, beside a field that takes a path.
pub(super) fn browse(ui: &mut Ui, label: &str, purpose: Purpose, out: &mut Vec<Msg>) {
    let button = Button::secondary("Browse…").small().label(label);
    if ui.add(button).clicked() {
        out.push(DesktopMsg::Choose(purpose).into());
    }
}

fn login(ui: &mut Ui, state: &State, out: &mut Vec<Msg>) {
    let name = "Launch at login";
    let place = if cfg!(target_os = "macos") {
        "As a launch agent, which System Settings lists under Login Items"
    } else {
        "By an entry in the autostart folder, which desktops read at login"
    };
    let detail = match &state.desktop.login {
        None => "Looking whether it is".into(),
        Some(Login::On | Login::Off) if state.tray => format!("{place}; the window stays closed"),
        Some(Login::On | Login::Off) => format!("{place}; without a tray here, the window opens"),
        Some(Login::Other(path)) => format!("Another copy is: {}. Switched on, this one takes its place", path.display()),
        Some(Login::Unavailable(reason)) => reason.clone(),
    };
    SettingsRow::new(name).detail(&detail).show(ui, |ui| match &state.desktop.login {
        None => {}
        Some(Login::Unavailable(_)) => {
            ui.add(Chip::new("not here"));
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
    let name = "Keep this machine awake while it works";
    let detail = match &state.desktop.awake {
        Awake::Refused(reason) if settings.general.stay_awake => reason.as_str(),
        _ => "While a reply is written or a model is on its way. The screen may go dark, and a closed lid still means sleep",
    };
    SettingsRow::new(name).detail(detail).show(ui, |ui| {
        toggle(ui, &mut settings.general.stay_awake, name);
        match &state.desktop.awake {
            Awake::Held(by) => {
                let chip = ui.add(Chip::new("awake").tone(Tone::Ok).icon(Icon::Check));
                dspark_look::tip(chip, "Awake", &format!("promised by {by} until the work is done."));
            }
            Awake::Refused(_) if settings.general.stay_awake => {
                ui.add(Chip::new("not possible").tone(Tone::Warn));
            }
            _ => {}
        }
    });
}

fn notify(ui: &mut Ui, state: &State, settings: &mut Settings) {
    let name = "Notify when long work ends";
    let detail = match &state.desktop.mute {
        Some(reason) if settings.general.notify => reason.as_str(),
        _ => "Downloads, loads, races and benchmarks of 20 seconds and more that end while the window is out of sight",
    };
    SettingsRow::new(name).detail(detail).show(ui, |ui| {
        toggle(ui, &mut settings.general.notify, name);
        if state.desktop.mute.is_some() && settings.general.notify {
            ui.add(Chip::new("not shown").tone(Tone::Warn));
        }
    });
}
