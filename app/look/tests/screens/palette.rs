//! `palette-dark`.
// A query that matches in one place is a list of one range.
#![allow(clippy::single_range_in_vec_init)]

use dspark_look::{Icon, PaletteRow, palette, palette_heading};
use egui::Ui;

use super::chat;

#[derive(Default)]
pub(crate) struct State {
    chat: chat::State,
    query: Option<String>,
}

pub(crate) fn screen(ui: &mut Ui, state: &mut State) {
    chat::screen(ui, &mut state.chat);
    let query = state.query.get_or_insert_with(|| "load q".into());
    palette(ui.ctx(), query, "Models, chats, actions", |ui| {
        let row = |icon, text, matches, detail| PaletteRow {
            icon,
            text,
            matches,
            detail,
            detail_matches: &[],
            verb: "",
            keys: &[],
            selected: false,
        };
        let load = &[0..6];
        palette_heading(ui, "Models");
        let first = row(Icon::Cube, "Load Qwen3.8-27B-4bit", load, "15.3 GB on disk, 34–39 tok/s");
        PaletteRow {
            verb: "Load",
            keys: &["⏎"],
            selected: true,
            ..first
        }
        .show(ui);
        row(Icon::Cube, "Load Qwen3.6-35B-A3B-4bit", load, "on disk, 150–185 tok/s").show(ui);
        row(Icon::Cube, "Load Qwen3-4B-8bit", load, "on disk, 105–125 tok/s").show(ui);
        palette_heading(ui, "Actions");
        PaletteRow {
            keys: &["⌥", "⏎"],
            ..row(Icon::Stack, "Load options for Qwen3-8B-8bit", &[0..4], "")
        }
        .show(ui);
        row(Icon::Eject, "Unload Qwen3-8B-8bit", &[2..6], "frees 10.1 GB").show(ui);
        let race = row(Icon::FlagCheckered, "Race this prompt", &[], "speculative against baseline");
        PaletteRow {
            keys: &["⌘", "⇧", "R"],
            ..race
        }
        .show(ui);
        palette_heading(ui, "Chats");
        let chat = row(
            Icon::ChatCircle,
            "Why is my matvec bound?",
            &[],
            "“… download Qwen weights first …”",
        );
        PaletteRow {
            detail_matches: &[11..17],
            ..chat
        }
        .show(ui);
    });
}
