//! `chat-first-run-dark`.

use dspark_look::{
    Button, Composer, ComposerState, Icon, IconButton, MemoryFoot, OptionRow, PillState, SendKey, Theme, Tone, Type, card_flush, column,
    list_heading, paint,
};
use egui::{Rect, Ui, UiBuilder, pos2, vec2};

use super::shell::Shell;

#[derive(Default)]
pub(crate) struct State {
    text: String,
}

pub(crate) fn screen(ui: &mut Ui, state: &mut State) {
    let foot = MemoryFoot {
        note: "No model loaded",
        label: "GPU memory",
        used: "0.3",
        of: "of 38.7 GB",
        short: "0.3 GB",
        part: 0.01,
    };
    let shell = Shell {
        screen: 0,
        title: "New chat",
        chats: false,
        chat_selected: false,
        model: "Choose a model",
        foot,
    };
    shell.show(
        ui,
        &PillState::NoModel,
        |_| {},
        |_| {},
        |ui| {
            let area = ui.max_rect();
            column(ui, 736.0, 44.0, pick);
            let composer = Rect::from_min_max(pos2(area.left(), area.bottom() - 104.0), area.max);
            ui.scope_builder(UiBuilder::new().max_rect(composer), |ui| {
                column(ui, 736.0, 44.0, |ui| {
                    let composer = Composer {
                        text: &mut state.text,
                        accompanied: false,
                        hint: "Load a model to start writing, or type now and it will wait",
                        note: "No model yet",
                        state: ComposerState::Unavailable,
                        send_key: SendKey::Enter,
                        window_height: 800.0,
                        id: egui::Id::unique("composer"),
                    };
                    composer.show(ui, |ui| {
                        ui.add(IconButton::new(Icon::Paperclip, "Attach"));
                        ui.add(Button::quiet("Options").small().icon(Icon::SlidersHorizontal).icon_size(15.0));
                    });
                });
            });
        },
    );
}

fn pick(ui: &mut Ui) {
    let theme = Theme::of(ui);
    ui.spacing_mut().item_spacing.y = 0.0;
    ui.add_space(44.0);
    ui.label(Type::TITLE.rich("Pick a model for this Mac", theme.t1));
    ui.add_space(4.0);
    let line = "Apple M4 Pro, 48 GiB. Everything below runs here, offline, with lossless speculative decoding.";
    ui.label(Type::PROSE.rich(line, theme.t2));
    ui.add_space(20.0);
    card_flush(ui, |ui| {
        let fits = |text| Some((text, Tone::Ok, Icon::Check));
        let row = |name, detail, chip, figures, selected| OptionRow {
            name,
            detail,
            chip,
            figures,
            selected,
            enabled: true,
        };
        list_heading(ui, "Already on disk");
        let here = "8.2B, 8-bit, 40k context, drafter included. Found in LM Studio";
        row("Qwen3-8B-8bit", here, fits("Fits well"), ("Use now", "no download"), true).show(ui);
        list_heading(ui, "Recommended for 48 GiB");
        let figures = ("22.1 GB", "about 6 min at 61 MB/s");
        row(
            "Qwen3.8-27B-4bit",
            "27B, 4-bit, 256k context, needs drafter",
            fits("Fits"),
            figures,
            false,
        )
        .show(ui);
        let detail = "35B with 3B active, 4-bit, drafter included";
        row("Qwen3.6-35B-A3B-4bit", detail, fits("Fits well"), ("20.3 GB", "about 6 min"), false).show(ui);
        let tight = Some(("Fits to 24k context", Tone::Warn, Icon::CircleHalf));
        row(
            "Qwen3.8-27B-8bit",
            "27B, 8-bit, best quality for its size",
            tight,
            ("35.5 GB", "about 10 min"),
            false,
        )
        .show(ui);
    });
    ui.add_space(16.0);
    let (row, _) = ui.allocate_exact_size(vec2(ui.available_width(), 30.0), egui::Sense::hover());
    paint::over_left(ui, row.with_min_x(row.left() - 8.0), |ui| {
        ui.spacing_mut().item_spacing.x = 10.0;
        ui.add(Button::quiet("Add a folder").icon(Icon::FolderOpen));
        ui.add(Button::quiet("Search Hugging Face").icon(Icon::MagnifyingGlass));
    });
    paint::over_right(ui, row, |ui| {
        ui.spacing_mut().item_spacing.x = 10.0;
        ui.add(Button::primary("Load Qwen3-8B-8bit").detail("⏎"));
        ui.add(Button::quiet("Skip for now"));
    });
    ui.add_space(26.0);
    paint::hline(ui.painter(), ui.max_rect().x_range(), ui.cursor().top(), theme.line);
    ui.add_space(15.0);
    ui.spacing_mut().interact_size.y = 18.0;
    ui.horizontal(|ui| {
        ui.spacing_mut().item_spacing.x = 6.0;
        for fact in ["Apple silicon", "macOS 15.2", "Metal 3", "48 GiB memory", "412 GB free"] {
            Icon::CheckCircleFill.show(ui, 15.0, theme.ok);
            ui.label(Type::SMALL.rich(fact, theme.t2));
            ui.add_space(16.0);
        }
    });
}
