//! Every component on one page: what the design sheet shows, drawn by the real thing.

use egui::{CornerRadius, Layout, Rect, Sense, Ui, UiBuilder, pos2, vec2};

use crate::{
    Button, Chip, ErrorCard, Icon, IconButton, MenuItem, PillState, Progress, Slider, StatusPill, TextField, Theme, Toast, Tone, Type,
    empty_card, menu_frame, menu_separator, paint, progress_row, segmented, select, toast_in_place, toggle, tooltip_frame, tooltip_text,
};

/// What the page's controls are set to.
#[derive(Clone, Debug, PartialEq)]
pub struct GalleryState {
    pub kv_bits: u8,
    pub on: bool,
    pub off: bool,
    pub mode: u8,
    pub filter: String,
    pub port: String,
    pub slider: f64,
    /// Draws the "Focused" button as if the keyboard were there.
    pub show_focus: bool,
}

impl Default for GalleryState {
    fn default() -> Self {
        Self {
            kv_bits: 16,
            on: true,
            off: false,
            mode: 0,
            filter: String::new(),
            port: "8080".into(),
            slider: 210.0,
            show_focus: true,
        }
    }
}

type Column = fn(&mut Ui, &mut GalleryState);

/// The page, 1280 × 800 points.
pub fn gallery(ui: &mut Ui, state: &mut GalleryState) {
    let theme = Theme::of(ui);
    let page = ui.max_rect();
    ui.painter().rect_filled(page, 0, theme.base);
    ui.spacing_mut().item_spacing = vec2(8.0, 8.0);
    let columns: [(f32, Column); 3] = [(32.0, controls), (444.0, surfaces), (856.0, samples)];
    for (x, add) in columns {
        let width = if x > 800.0 { (page.width() - x - 32.0).max(372.0) } else { 372.0 };
        let rect = Rect::from_min_size(page.min + vec2(x, 26.0), vec2(width, page.height() - 26.0));
        ui.scope_builder(UiBuilder::new().max_rect(rect).layout(Layout::top_down(egui::Align::Min)), |ui| {
            add(ui, state);
        });
    }
}

pub(crate) fn section<R>(ui: &mut Ui, title: &str, add: impl FnOnce(&mut Ui) -> R) -> R {
    let theme = Theme::of(ui);
    ui.spacing_mut().item_spacing.y = 0.0;
    ui.label(Type::SMALL_STRONG.with_line(16.0).rich(title, theme.t3));
    ui.add_space(10.0);
    let shown = ui.scope(|ui| {
        ui.spacing_mut().item_spacing.y = 8.0;
        add(ui)
    });
    ui.add_space(22.0);
    shown.inner
}

fn flow<R>(ui: &mut Ui, height: f32, add: impl FnOnce(&mut Ui) -> R) -> R {
    ui.allocate_ui_with_layout(vec2(ui.available_width(), height), Layout::left_to_right(egui::Align::Center), add)
        .inner
}

fn controls(ui: &mut Ui, state: &mut GalleryState) {
    section(ui, "Status pill", |ui| {
        let rows: [&[PillState]; 5] = [
            &[PillState::Stopped, PillState::Starting, PillState::NoModel],
            &[PillState::Downloading(37), PillState::Loading("weights".into())],
            &[PillState::Calibrating, PillState::WarmingUp, PillState::Ready],
            &[
                PillState::Prefilling(8200, 19_000),
                PillState::Generating { tokens_per_second: 66.2 },
            ],
            &[PillState::Unloading, PillState::Error("Out of memory".into())],
        ];
        for row in rows {
            flow(ui, 26.0, |ui| {
                for state in row {
                    ui.add(StatusPill::new(state));
                }
            });
        }
    });
    section(ui, "Buttons", |ui| {
        flow(ui, 30.0, |ui| {
            ui.add(Button::primary("Primary"));
            ui.add(Button::secondary("Secondary"));
            ui.add(Button::quiet("Quiet"));
            ui.add(Button::danger("Delete"));
        });
        flow(ui, 30.0, |ui| {
            ui.add(Button::secondary("Disabled").enabled(false));
            let focused = ui.add(Button::secondary("Focused"));
            if state.show_focus {
                paint::ring(ui, focused.rect, crate::space::radius::CONTROL);
            }
            ui.add(Button::secondary("Small").small());
            ui.add(IconButton::new(Icon::Copy, "Copy").selected(true));
            ui.add(IconButton::new(Icon::DotsThree, "More"));
        });
    });
    section(ui, "Toggle and segmented control", |ui| {
        flow(ui, 30.0, |ui| {
            toggle(ui, &mut state.on, "Lookup drafts");
            toggle(ui, &mut state.off, "Tree drafts");
            segmented(ui, &mut state.kv_bits, &[(16, "16-bit"), (8, "8-bit"), (4, "4-bit")]);
        });
    });
    section(ui, "Select and search", |ui| {
        flow(ui, 30.0, |ui| {
            select(
                ui,
                "Mode",
                &mut state.mode,
                &[(0, "Auto"), (1, "DSpark"), (2, "Lookup"), (3, "Baseline")],
                180.0,
            );
            ui.add(
                TextField::new(&mut state.filter, "Filter")
                    .hint("Filter")
                    .icon(Icon::MagnifyingGlass)
                    .width(184.0),
            );
        });
    });
    section(ui, "Field with error", |ui| {
        let error = "Another app is listening on 8080. Next free port: 8081";
        ui.add(TextField::new(&mut state.port, "Port").error(Some(error)));
    });
    section(ui, "Slider", |ui| {
        ui.spacing_mut().item_spacing.y = 0.0;
        ui.add(Slider::new(&mut state.slider, 0.0..=372.0, "Context window").step(1.0).width(372.0));
        ui.add_space(5.0);
    });
    section(ui, "Chips", |ui| {
        let chips: [&[(&str, Tone, Option<Icon>)]; 2] = [
            &[
                ("Fits well", Tone::Ok, Some(Icon::Check)),
                ("Fits", Tone::Ok, Some(Icon::Check)),
                ("Tight", Tone::Warn, Some(Icon::CircleHalf)),
                ("Fits to 24k", Tone::Warn, Some(Icon::CircleHalf)),
                ("Too big", Tone::Bad, Some(Icon::Prohibit)),
            ],
            &[
                ("Loaded", Tone::Accent, None),
                ("MoE", Tone::Neutral, None),
                ("Thinking", Tone::Neutral, None),
            ],
        ];
        for row in chips {
            flow(ui, 20.0, |ui| {
                for (text, tone, icon) in row {
                    let chip = Chip::new(text).tone(*tone);
                    ui.add(if let Some(icon) = icon { chip.icon(*icon) } else { chip });
                }
            });
        }
    });
}

fn surfaces(ui: &mut Ui, _: &mut GalleryState) {
    section(ui, "Download row", |ui| {
        let progress = Progress {
            name: "Qwen3.8-27B-4bit",
            detail: "8.2 of 22.1 GB, 61 MB/s, about 4 min left",
            part: Some(0.37),
            paused: false,
            pausable: true,
        };
        progress_row(ui, &progress);
    });
    section(ui, "Toast", |ui| {
        ui.spacing_mut().item_spacing.y = 10.0;
        let ready = Toast::done("Qwen3.8-27B-4bit is ready to load")
            .line("22.1 GB, checksums match")
            .action(1, "Load now");
        toast_in_place(ui, &ready);
        let tight = "Kept conversations were dropped to stay out of swap. The next long prompt prefills in full.";
        toast_in_place(ui, &Toast::warning("Memory is tight").line(tight));
    });
    section(ui, "Error card", |ui| {
        let card = ErrorCard {
            title: "Qwen3.8-27B-8bit did not load",
            cause: "It needs 43.8 GB at 128k context and this Mac allows 38.7 GB. Your previous model is still loaded.",
            primary: "Load with 24k context",
            details: "43.8 GB = 28.7 weights + 6.8 drafter + 8.3 context",
        };
        card.show(ui);
    });
    section(ui, "Empty state", |ui| {
        let line = "Send a message or start an agent to see rounds here.";
        empty_card(ui, 176.0, Icon::Waveform, "Nothing running", line, "Open chat");
    });
}

fn samples(ui: &mut Ui, _: &mut GalleryState) {
    let theme = Theme::of(ui);
    section(ui, "Context menu", |ui| {
        menu_frame(theme).show(ui, |ui| {
            ui.set_width(224.0);
            ui.spacing_mut().item_spacing.y = 0.0;
            ui.add(MenuItem::new("Rename").icon(Icon::PencilSimple).highlighted(true));
            ui.add(MenuItem::new("Pin").icon(Icon::PushPin));
            ui.add(MenuItem::new("Fork from here").icon(Icon::GitBranch));
            ui.add(MenuItem::new("Copy as Markdown").icon(Icon::Copy).shortcut("⇧⌘C"));
            menu_separator(ui);
            ui.add(MenuItem::new("Archive").icon(Icon::Archive));
            ui.add(MenuItem::new("Delete").icon(Icon::Trash).shortcut("⌘ del").danger());
        });
    });
    section(ui, "Surfaces", |ui| {
        let t = theme;
        let surfaces = [
            ("base", t.base),
            ("side", t.side),
            ("panel", t.panel),
            ("raised", t.raised),
            ("hover", t.hover),
            ("press", t.press),
        ];
        swatches(ui, &surfaces, true);
    });
    section(ui, "Series", |ui| {
        let s = &theme.series;
        let series = [
            ("accepted", s.accepted),
            ("drafted", s.drafted),
            ("lookup", s.lookup),
            ("plain", s.plain),
            ("rejected", s.rejected),
            ("ceiling", s.ceiling),
        ];
        swatches(ui, &series, false);
    });
    section(ui, "Type", |ui| {
        ui.spacing_mut().item_spacing.y = 0.0;
        let lines = [
            ("Title 22 / 30", Type::TITLE, theme.t1),
            ("Heading 16 / 24", Type::HEADING, theme.t1),
            ("Prose 14 / 22, the chat text size", Type::PROSE, theme.t1),
            ("Base 13 / 20, every control", Type::BASE, theme.t1),
            ("Small 12 / 18, metadata", Type::SMALL, theme.t2),
            ("Label 11 / 16, axes and captions", Type::LABEL, theme.t3),
        ];
        for (text, style, color) in lines {
            ui.label(style.rich(text, color));
        }
        ui.label(crate::stat_figure("66.2", "tok/s", theme));
        ui.label(Type::CODE.rich("Code 12.5 / 20 let x = 0;", theme.t1));
    });
    section(ui, "Tooltip", |ui| {
        tooltip_frame(theme).show(ui, |ui| {
            ui.set_width(266.0);
            let definition = "tokens per second after the first token. Prefill is not included; end to end was 58.9.";
            tooltip_text(ui, "Decode rate", definition);
        });
    });
}

fn swatches(ui: &mut Ui, colors: &[(&str, egui::Color32)], border: bool) {
    let theme = Theme::of(ui);
    ui.horizontal(|ui| {
        for (name, color) in colors {
            let (rect, _) = ui.allocate_exact_size(vec2(56.0, 49.0), Sense::hover());
            let square = Rect::from_min_size(rect.min, vec2(56.0, 30.0));
            let line = if border { theme.line } else { egui::Color32::TRANSPARENT };
            paint::boxed(ui.painter(), square, CornerRadius::same(6), *color, line);
            let text = Type::SHORTCUT.with_line(14.0).galley(ui, *name, theme.t3);
            ui.painter().galley(pos2(rect.left(), rect.top() + 35.0), text, theme.t3);
        }
    });
}
