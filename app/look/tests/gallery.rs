//! The components as pictures, and found by role and label.

mod support;

use dspark_look::{
    Toast, Toasts, confirm,
    gallery::{GalleryState, gallery},
    gallery_more::{MoreState, gallery_more},
};
use egui::Role;
use egui_kittest::kittest::Queryable;
use support::{Shot, harness};

fn page(shot: Shot) {
    let mut harness = harness(shot, GalleryState::default(), gallery);
    harness.run_steps(4);
    harness.snapshot(format!("components-{}", shot.name()));
}

#[test]
fn components_dark() {
    page(Shot::DARK);
}

#[test]
fn components_light() {
    page(Shot::LIGHT);
}

#[test]
fn components_dark_at_150_percent() {
    page(Shot { scale: 1.5, ..Shot::DARK });
}

fn more(shot: Shot) {
    let mut harness = harness(shot, MoreState::default(), gallery_more);
    harness.run_steps(4);
    harness.snapshot(format!("more-{}", shot.name()));
}

#[test]
fn more_dark() {
    more(Shot::DARK);
}

#[test]
fn more_light() {
    more(Shot::LIGHT);
}

/// What floats: an open select, a tooltip, a toast, a question over all of it.
fn floating(shot: Shot, ask: bool) {
    let mut toasts = Toasts::default();
    toasts.push(Toast::done("Chat deleted").line("It can be brought back").action(1, "Undo"));
    toasts.push(Toast::error("The server could not start").line("Another app is listening on port 8080."));
    let mut harness = harness(shot, (GalleryState::default(), toasts), move |ui, (state, toasts)| {
        gallery(ui, state);
        toasts.show(ui.ctx(), None);
        if ask {
            let text = "The model is generating for two clients. They would lose their replies.";
            confirm(ui.ctx(), "Quit mlx-dspark?", text, "Quit", "Keep running", true);
        }
    });
    harness.run_steps(3);
    if !ask {
        if shot.dark {
            harness.get_by_role_and_label(Role::ComboBox, "Mode").click();
            harness.run_steps(3);
        } else {
            // A tooltip: the icon button's name.
            let copy = harness
                .get_all_by_role_and_label(Role::Button, "Copy")
                .next()
                .map(|b| b.rect().center());
            harness.hover_at(copy.expect("the gallery has a Copy button"));
            harness.run_steps(8);
        }
    }
    harness.snapshot(format!("{}-{}", if ask { "question" } else { "floating" }, shot.name()));
}

#[test]
fn floating_dark() {
    floating(Shot::DARK, false);
}

#[test]
fn floating_light() {
    floating(Shot::LIGHT, false);
}

#[test]
fn question_dark() {
    floating(Shot::DARK, true);
}
