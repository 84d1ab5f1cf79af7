//! Whole screens composed from the components, with the content of the design mocks: the pictures
//! are looked at next to them.

mod screens {
    pub(crate) mod chat;
    pub(crate) mod first_run;
    pub(crate) mod models;
    pub(crate) mod palette;
    pub(crate) mod settings;
    pub(crate) mod shell;
}
mod support;

use support::{Shot, harness};

const SMALL: Shot = Shot {
    width: 900.0,
    height: 640.0,
    ..Shot::DARK
};

fn picture<S: Default + 'static>(name: &str, shot: Shot, add: fn(&mut egui::Ui, &mut S)) {
    let mut harness = harness(shot, S::default(), add);
    harness.run_steps(6);
    harness.snapshot(format!("{name}-{}", shot.name()));
}

#[test]
fn chat_dark() {
    picture("chat", Shot::DARK, screens::chat::screen);
}

#[test]
fn chat_light() {
    picture("chat", Shot::LIGHT, screens::chat::screen);
}

#[test]
fn chat_small() {
    picture("chat", SMALL, screens::chat::screen);
}

#[test]
fn chat_at_150_percent() {
    // 1280 pixels at 150 % behave as 853 points.
    picture(
        "chat",
        Shot {
            width: 1280.0 / 1.5,
            height: 800.0 / 1.5,
            scale: 1.5,
            ..Shot::DARK
        },
        screens::chat::screen,
    );
}

#[test]
fn first_run_dark() {
    picture("first-run", Shot::DARK, screens::first_run::screen);
}

#[test]
fn models_dark() {
    picture("models", Shot::DARK, screens::models::screen);
}

#[test]
fn models_light() {
    picture("models", Shot::LIGHT, screens::models::screen);
}

#[test]
fn settings_dark() {
    picture("settings", Shot::DARK, screens::settings::screen);
}

#[test]
fn palette_dark() {
    picture("palette", Shot::DARK, screens::palette::screen);
}
