//! `models-dark`, `models-light`.

use dspark_look::{
    Button, Chip, Columns, Icon, MemoryPart, PillState, Slider, TableRow, TextField, Theme, Tone, Type, card_flush, memory_bar,
    memory_legend, name_lines, runs, segmented_sized, table_head, tabs, two_lines,
};
use egui::{Align, Layout, Rect, Role, Ui, UiBuilder, pos2, vec2};

use super::shell::Shell;

pub(crate) struct State {
    tab: u8,
    filter: String,
    context: f64,
    bits: u8,
}

impl Default for State {
    fn default() -> Self {
        Self {
            tab: 0,
            filter: String::new(),
            context: 131_072.0,
            bits: 16,
        }
    }
}

pub(crate) fn screen(ui: &mut Ui, state: &mut State) {
    let shell = Shell {
        screen: 2,
        title: "Models",
        chats: true,
        chat_selected: false,
        model: "Qwen3-8B-8bit",
        foot: Shell::LOADED,
    };
    let mut tab = state.tab;
    let choices = [(0, "Recommended"), (1, "On this Mac"), (2, "Hugging Face"), (3, "Downloads")];
    let left = |ui: &mut Ui| {
        tabs(ui, &mut tab, &choices);
    };
    shell.show(
        ui,
        &PillState::Ready,
        left,
        |_| {},
        |ui| {
            let area = Rect::from_min_max(ui.max_rect().min + vec2(24.0, 16.0), ui.max_rect().max - vec2(24.0, 0.0));
            ui.scope_builder(UiBuilder::new().max_rect(area), |ui| content(ui, state));
        },
    );
    state.tab = tab;
}

fn content(ui: &mut Ui, state: &mut State) {
    let theme = Theme::of(ui);
    ui.spacing_mut().item_spacing.y = 0.0;
    dspark_look::controls(ui, |ui| {
        let hint = "Filter, or paste a repository";
        ui.add(
            TextField::new(&mut state.filter, "Filter models")
                .hint(hint)
                .icon(Icon::MagnifyingGlass)
                .width(280.0),
        );
        ui.add(Button::quiet("Fits this Mac").icon(Icon::FunnelSimple).icon_size(15.0));
        dspark_look::from_right(ui, |ui| {
            ui.label(Type::SMALL.rich("Apple M4 Pro, 226 GB/s measured, 38.7 GB for models", theme.t3));
        });
    });
    ui.add_space(14.0);
    card_flush(ui, |ui| table(ui, state));
    ui.add_space(12.0);
    ui.spacing_mut().interact_size.y = 18.0;
    ui.horizontal(|ui| {
        ui.add_space(18.0);
        let note = "Tok/s is decode rate at short context. Estimates scale pairs measured on another M4 Pro to this Mac. 38.7 GB is the GPU working set macOS allows.";
        ui.label(Type::SMALL.rich(note, theme.t3));
    });
}

struct Model<'a> {
    name: &'a str,
    chips: &'a [(&'a str, Tone)],
    detail: &'a str,
    size: (&'a str, &'a str),
    plain: &'a str,
    drafts: (&'a str, &'a str),
    fit: (&'a str, Tone),
    action: &'a str,
    open: bool,
}

fn table(ui: &mut Ui, state: &mut State) {
    let columns = Columns::new([None, Some(96.0), Some(96.0), Some(170.0), Some(160.0), Some(84.0)])
        .head_inset(0, 20.0)
        .head_inset(4, 14.0);
    let (l, r) = (Align::Min, Align::Max);
    table_head(
        ui,
        &columns,
        &[
            ("Model", l),
            ("Download", r),
            ("Plain ceiling", r),
            ("With drafts", r),
            ("Memory fit", l),
            ("", r),
        ],
    );
    let none: &[(&str, Tone)] = &[];
    let models = [
        Model {
            name: "Qwen3-8B-8bit",
            chips: &[("Loaded", Tone::Accent)],
            detail: "8.2B, 40k context, Apache-2.0",
            size: ("8.7 GB", "on disk"),
            plain: "28.1",
            drafts: ("66.2", "2.4×, measured here"),
            fit: ("Fits well", Tone::Ok),
            action: "Unload",
            open: false,
        },
        Model {
            name: "Qwen3.8-27B-4bit",
            chips: &[("Tools", Tone::Neutral), ("Thinking", Tone::Neutral)],
            detail: "27B hybrid, 256k context, Apache-2.0",
            size: ("15.3 GB", "+ 6.8 drafter"),
            plain: "15.5",
            drafts: ("34–39", "2.2–2.5×, estimate"),
            fit: ("Fits", Tone::Ok),
            action: "",
            open: true,
        },
        Model {
            name: "Qwen3.6-35B-A3B-4bit",
            chips: &[("MoE", Tone::Neutral)],
            detail: "35B with 3B active, 256k context",
            size: ("19.8 GB", "+ 0.5 drafter"),
            plain: "116",
            drafts: ("150–185", "1.3–1.6×, estimate"),
            fit: ("Fits well", Tone::Ok),
            action: "Get",
            open: false,
        },
        Model {
            name: "Gemma-4-12B-8bit",
            chips: &[("Accept licence", Tone::Neutral)],
            detail: "12B, 128k context, Gemma licence",
            size: ("12.6 GB", "+ 1.1 drafter"),
            plain: "17.9",
            drafts: ("36–41", "2.0–2.3×, estimate"),
            fit: ("Fits well", Tone::Ok),
            action: "Get",
            open: false,
        },
        Model {
            name: "Qwen3.8-27B-8bit",
            chips: none,
            detail: "27B hybrid, 256k context, Apache-2.0",
            size: ("28.7 GB", "+ 6.8 drafter"),
            plain: "8.2",
            drafts: ("18–20", "2.2–2.5×, estimate"),
            fit: ("Fits to 24k", Tone::Warn),
            action: "Get",
            open: false,
        },
        Model {
            name: "Qwen3.5-122B-A10B-4bit",
            chips: none,
            detail: "122B with 10B active, try 35B-A3B",
            size: ("68.9 GB", ""),
            plain: "39.6",
            drafts: ("", "won’t load"),
            fit: ("Too big", Tone::Bad),
            action: "",
            open: false,
        },
    ];
    for model in &models {
        row(ui, &columns, model);
        if model.open {
            expanded(ui, state);
        }
    }
}

fn row(ui: &mut Ui, columns: &Columns, model: &Model) {
    let theme = Theme::of(ui);
    let (l, r) = (Align::Min, Align::Max);
    let mut row = TableRow::new(ui, columns, model.name, 58.0, model.open);
    row.cell(ui, l, |ui| {
        name_lines(ui, model.name, model.chips, model.detail, Some(model.open));
    });
    row.cell(ui, r, |ui| {
        two_lines(ui, runs(&[(model.size.0, Type::BASE, theme.t1)]), model.size.1, r)
    });
    row.cell(ui, r, |ui| ui.label(Type::BASE.rich(model.plain, theme.t2)));
    row.cell(ui, r, |ui| {
        let strong = if model.chips.iter().any(|c| c.0 == "Loaded") {
            Type::PANEL
        } else {
            Type::BASE
        };
        if model.drafts.0.is_empty() {
            ui.label(Type::BASE.rich(model.drafts.1, theme.t3));
        } else {
            two_lines(
                ui,
                runs(&[(model.drafts.0, strong, theme.t1), (" tok/s", Type::BASE, theme.t2)]),
                model.drafts.1,
                r,
            );
        }
    });
    row.cell(ui, l, |ui| {
        ui.add_space(14.0);
        let icon = match model.fit.1 {
            Tone::Ok => Icon::Check,
            Tone::Warn => Icon::CircleHalf,
            _ => Icon::Prohibit,
        };
        ui.add(Chip::new(model.fit.0).tone(model.fit.1).icon(icon));
    });
    row.cell(ui, r, |ui| match model.action {
        "" => {}
        "Unload" => {
            ui.add(Button::quiet("Unload").small().flush_right());
        }
        action => {
            ui.add(Button::secondary(action).small().icon(Icon::DownloadSimple));
        }
    });
}

fn expanded(ui: &mut Ui, state: &mut State) {
    let theme = Theme::of(ui);
    let (rect, _) = ui.allocate_exact_size(vec2(ui.available_width(), 204.0), egui::Sense::hover());
    ui.painter().rect_filled(rect, 0, theme.expanded);
    let memory = theme.memory;
    let part = |name, gigabytes, color| MemoryPart { name, gigabytes, color };
    let parts = [
        part("Model weights", 15.30, memory.grey[0]),
        part("Drafter, 4-bit", 1.90, memory.grey[1]),
        part("Context, target", 8.59, memory.context),
        part("Context, drafter", 2.68, memory.context_drafter),
        part("Recurrent state", 0.15, memory.grey[2]),
        part("One kept conversation", 0.85, memory.grey[2]),
        part("Working buffers", 0.70, memory.grey[3]),
        part("App and Metal", 0.25, memory.grey[3]),
    ];
    let top = rect.top() + 4.0;
    let left = Rect::from_min_size(pos2(rect.left() + 38.0, top), vec2(560.0, 180.0));
    dspark_look::paint::over_down(ui, left, |ui| {
        ui.spacing_mut().item_spacing.y = 0.0;
        title_line(
            ui,
            "Memory at 128k context",
            runs(&[("30.4 GB", Type::PANEL, theme.t1), (" of 38.7 GB, 79%", Type::BASE, theme.t2)]),
        );
        ui.add_space(10.0);
        memory_bar(ui, &parts, &[(29.06, "Fits well"), (34.86, "Fits")], 38.7, 560.0);
        ui.add_space(8.0);
        memory_legend(ui, &parts, 560.0);
    });
    let right = Rect::from_min_max(pos2(left.right() + 44.0, top), pos2(rect.right() - 18.0, rect.bottom()));
    dspark_look::paint::over_down(ui, right, |ui| {
        ui.spacing_mut().item_spacing.y = 0.0;
        title_line(ui, "Context window", runs(&[("131,072 tokens", Type::BASE, theme.t2)]));
        ui.add_space(4.0);
        let ticks = [
            (8192.0, "8k"),
            (65536.0, "64k"),
            (131_072.0, "128k"),
            (180_224.0, "176k max"),
            (262_144.0, "256k"),
        ];
        let slider = Slider::new(&mut state.context, 8192.0..=262_144.0, "Context window")
            .step(4096.0)
            .width(330.0);
        ui.add(slider.ticks(&ticks).limit(180_224.0).surface(theme.expanded));
        ui.add_space(10.0);
        ui.allocate_ui_with_layout(vec2(right.width(), 28.0), Layout::left_to_right(Align::Center), |ui| {
            ui.label(Type::BASE.rich("KV precision", theme.t2));
            dspark_look::from_right(ui, |ui| {
                segmented_sized(
                    ui,
                    &mut state.bits,
                    &[(16, "16-bit"), (8, "8-bit"), (4, "4-bit")],
                    28.0,
                    Role::RadioButton,
                );
            });
        });
        ui.add_space(6.0);
        ui.label(Type::SMALL.rich("8-bit would bring the total to 26.4 GB.", theme.t3));
        ui.add_space(14.0);
        ui.horizontal(|ui| {
            ui.add(Button::primary("Get 22.1 GB").icon(Icon::DownloadSimple));
            ui.add(Button::secondary("Load options"));
        });
    });
}

fn title_line(ui: &mut Ui, title: &str, value: egui::text::LayoutJob) {
    let theme = Theme::of(ui);
    ui.allocate_ui_with_layout(vec2(ui.available_width(), 20.0), Layout::left_to_right(Align::Center), |ui| {
        ui.label(Type::PANEL.rich(title, theme.t1));
        dspark_look::from_right(ui, |ui| ui.label(value));
    });
}
