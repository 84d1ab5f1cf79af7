//! The second page of the gallery: what the design sheet does not show.

use egui::{Align, Layout, Rect, Ui, UiBuilder, vec2};

use crate::{
    Behind, Button, ChatRow, Columns, Icon, IconButton, OptionRow, Progress, Prose, ReasoningHead, SettingsRow, Slider, Stat, TableRow,
    TextField, Theme, Tile, Tone, Type, busy_ring, card, card_flush, card_title, code_block, command_strip, date_heading, empty_state,
    gallery::section, highlight, key_value, list_heading, name_lines, progress_row, reasoning, runs, segmented, settings_group, stat_row,
    table_head, toggle, turn_tiles, two_lines, user_message,
};

/// What the page's controls are set to.
#[derive(Clone, Debug, PartialEq)]
pub struct MoreState {
    pub open: bool,
    pub folded: bool,
    pub wrap: bool,
    pub on: bool,
    pub draft: String,
    pub path: String,
    pub secret: String,
    pub value: f64,
    pub choice: u8,
}

impl Default for MoreState {
    fn default() -> Self {
        Self {
            open: true,
            folded: false,
            wrap: true,
            on: false,
            draft: "Trip plan, Lisbon".into(),
            path: String::new(),
            secret: "sk-local-1234".into(),
            value: 60.0,
            choice: 0,
        }
    }
}

type Column = fn(&mut Ui, &mut MoreState);

/// The page, 1280 × 800 points.
pub fn gallery_more(ui: &mut Ui, state: &mut MoreState) {
    let page = ui.max_rect();
    let columns: [(f32, f32, Column); 3] = [(32.0, 300.0, lists), (372.0, 420.0, chat), (832.0, 416.0, settings)];
    for (x, width, add) in columns {
        let rect = Rect::from_min_size(page.min + vec2(x, 26.0), vec2(width, page.height() - 26.0));
        ui.scope_builder(UiBuilder::new().max_rect(rect).layout(Layout::top_down(Align::Min)), |ui| {
            add(ui, state);
        });
    }
}

fn lists(ui: &mut Ui, state: &mut MoreState) {
    section(ui, "Chats", |ui| {
        ui.spacing_mut().item_spacing.y = 0.0;
        date_heading(ui, "Today", Some("New chat"));
        ChatRow::new("A title that is longer than the sidebar is wide")
            .selected(true)
            .show(ui);
        ChatRow::new("A reply is coming").busy(true).show(ui);
        ChatRow::new("Pinned").pinned(true).show(ui);
        ChatRow::new("Renamed in place").renaming(Some(&mut state.draft)).show(ui);
    });
    section(ui, "Options", |ui| {
        card_flush(ui, |ui| {
            list_heading(ui, "On disk");
            let row = |name, selected, enabled| OptionRow {
                name,
                detail: "8.2B, 8-bit",
                chip: None,
                figures: ("8.7 GB", "on disk"),
                selected,
                enabled,
            };
            row("Qwen3-8B-8bit", true, true).show(ui);
            row("Qwen3-32B-8bit", false, false).show(ui);
        });
    });
    section(ui, "Downloads", |ui| {
        let row = |part, paused| Progress {
            name: "SmolLM2-135M-Instruct",
            detail: "36 of 98 MB, paused",
            part,
            paused,
            pausable: true,
        };
        progress_row(ui, &row(Some(0.37), true));
        progress_row(
            ui,
            &Progress {
                pausable: false,
                detail: "starting",
                ..row(None, false)
            },
        );
    });
    section(ui, "Key and value", |ui| {
        card(ui, |ui| {
            card_title(ui, "This machine", "measured 2 days ago");
            key_value(ui, "Chip", "Apple M4 Pro");
            key_value(ui, "Memory", "48 GiB");
        });
    });
}

fn chat(ui: &mut Ui, state: &mut MoreState) {
    let theme = Theme::of(ui);
    section(ui, "Chat", |ui| {
        ui.spacing_mut().item_spacing.y = 12.0;
        user_message(ui, "Short question?");
        let head = ReasoningHead {
            words: "Thought for",
            value: "4.1 s",
            note: "268 tokens",
            busy: false,
        };
        reasoning(ui, &head, &mut state.open, |ui| {
            let text = "Earliest end first leaves the most room for the rest, so no exchange can make the answer longer.";
            ui.add(egui::Label::new(Type::BASE.rich(text, theme.t2)).wrap());
        });
        let busy = ReasoningHead {
            words: "Thinking",
            value: "",
            note: "12 tokens",
            busy: true,
        };
        reasoning(ui, &busy, &mut state.folded, |_| {});
        let mut prose = Prose::default();
        prose.text(theme, "Sorting costs ", None);
        prose.text(theme, "O(n log n)", Some(Behind::InlineCode));
        prose.text(theme, ", the walk is linear.", None);
        prose.show(ui, true);
        let code = "fn main() { println!(\"a line that is longer than the block is wide and wraps: {}\", 1 << 20); }";
        code_block(ui, "wrapped", "rust", highlight(theme, code, "rust"), &mut state.wrap);
        let mut no_wrap = false;
        code_block(
            ui,
            "scrolled",
            "python",
            highlight(theme, "print('a line that is longer than the block is wide: it scrolls')", "py"),
            &mut no_wrap,
        );
        let tile = |label, value, unit| Tile {
            label,
            value,
            unit,
            definition: "",
        };
        turn_tiles(
            ui,
            &[
                tile("First token", "0.42 s", ""),
                tile("Decode", "66.2", "tok/s"),
                tile("Finish", "stop", ""),
            ],
            false,
        );
    });
    section(ui, "Stat row", |ui| {
        let stat = |label, value, unit, note| Stat {
            label,
            value,
            unit,
            note,
            definition: "",
        };
        stat_row(
            ui,
            &[
                stat("Decode", "66.2", "tok/s", "2.41× plain"),
                stat("Accept", "3.06", "per round", "last 512 rounds"),
            ],
            true,
        );
    });
    section(ui, "Command strip", |ui| {
        command_strip(ui, "/Users/someone/Library/Application Support/mlx-dspark/models/Qwen3-8B-8bit");
    });
}

fn settings(ui: &mut Ui, state: &mut MoreState) {
    let theme = Theme::of(ui);
    settings_group(ui, "Settings rows", |ui| {
        SettingsRow::new("A setting with a long name")
            .detail("An explanation that needs more than one line beside its control")
            .show(ui, |ui| {
                segmented(ui, &mut state.choice, &[(0, "Auto"), (1, "Light"), (2, "Dark")]);
            });
        SettingsRow::new("API key").show(ui, |ui| {
            ui.add(TextField::new(&mut state.secret, "API key").password().width(160.0));
        });
        SettingsRow::new("Folder").reload().show(ui, |ui| {
            ui.add(
                TextField::new(&mut state.path, "Folder")
                    .mono()
                    .hint("/models")
                    .icon(Icon::FolderOpen)
                    .width(160.0),
            );
        });
    });
    section(ui, "Disabled", |ui| {
        ui.add_enabled_ui(false, |ui| {
            ui.horizontal(|ui| {
                ui.add(Button::primary("Primary"));
                ui.add(Button::quiet("Quiet").icon(Icon::Trash));
                ui.add(IconButton::new(Icon::Copy, "Copy"));
                toggle(ui, &mut state.on, "Off");
                ui.add(Slider::new(&mut state.value, 0.0..=100.0, "Value").width(90.0));
            });
        });
    });
    section(ui, "Table", |ui| {
        card_flush(ui, |ui| {
            let columns = Columns::new([None, Some(80.0), Some(60.0)]).head_inset(0, 20.0);
            table_head(ui, &columns, &[("Model", Align::Min), ("Size", Align::Max), ("", Align::Max)]);
            for name in ["Qwen3-8B-8bit", "A model with a name that is much too long"] {
                let mut row = TableRow::new(ui, &columns, name, 58.0, false);
                row.cell(ui, Align::Min, |ui| {
                    name_lines(ui, name, &[("Loaded", Tone::Accent)], "8.2B, 40k context, Apache-2.0", Some(false))
                });
                row.cell(ui, Align::Max, |ui| {
                    two_lines(ui, runs(&[("8.7 GB", Type::BASE, theme.t1)]), "on disk", Align::Max)
                });
                row.cell(ui, Align::Max, |ui| ui.add(Button::quiet("Unload").small().flush_right()));
            }
        });
    });
    section(ui, "Empty and busy", |ui| {
        ui.horizontal(|ui| {
            busy_ring(ui, 16.0, theme.accent, "Loading");
            ui.label(Type::SMALL.rich("Loading weights", theme.t2));
        });
        empty_state(ui, Icon::MagnifyingGlass, "Nothing found", "No chat contains these words.", "");
    });
}
