//! `settings-dark`.

use dspark_look::{Icon, PillState, SettingsRow, Slider, Theme, Type, reload_bar, segmented, select, settings_group, subnav_row, toggle};
use egui::{Layout, Rect, Ui, UiBuilder, pos2, vec2};

use super::shell::Shell;

pub(crate) struct State {
    mode: u8,
    cap: u8,
    lookup: bool,
    tree: bool,
    context: f64,
    bits: u8,
    guard: bool,
    thinking: bool,
    largest: u16,
}

impl Default for State {
    fn default() -> Self {
        Self {
            mode: 0,
            cap: 0,
            lookup: true,
            tree: false,
            context: 144.0,
            bits: 16,
            guard: true,
            thinking: false,
            largest: 8192,
        }
    }
}

pub(crate) fn screen(ui: &mut Ui, state: &mut State) {
    let shell = Shell {
        screen: 4,
        title: "Settings",
        chats: true,
        chat_selected: false,
        model: "Qwen3-8B-8bit",
        foot: Shell::LOADED,
    };
    shell.show(
        ui,
        &PillState::Ready,
        |_| {},
        |_| {},
        |ui| {
            let area = ui.max_rect();
            let nav = Rect::from_min_max(area.min + vec2(14.0, 16.0), pos2(area.left() + 170.0, area.bottom()));
            ui.scope_builder(UiBuilder::new().max_rect(nav).layout(Layout::top_down(egui::Align::Min)), |ui| {
                ui.spacing_mut().item_spacing.y = 2.0;
                let groups = [
                    (Icon::SlidersHorizontal, "General"),
                    (Icon::HardDrives, "Local server"),
                    (Icon::Lightning, "Decoding"),
                    (Icon::Cube, "Models"),
                    (Icon::Cpu, "Kernels"),
                    (Icon::ChatCircle, "Chat"),
                    (Icon::ShieldCheck, "Privacy and data"),
                    (Icon::ArrowCircleDown, "Updates"),
                    (Icon::Info, "About"),
                ];
                for (icon, text) in groups {
                    subnav_row(ui, icon, text, text == "Decoding");
                }
            });
            let column = Rect::from_min_size(pos2(area.left() + 194.0, area.top() + 20.0), vec2(752.0, area.height() - 20.0));
            ui.scope_builder(UiBuilder::new().max_rect(column).layout(Layout::top_down(egui::Align::Min)), |ui| {
                groups(ui, state);
            });
            reload_bar(ui.ctx(), column, "Two changes need a reload", "about 9 s, the chat stays open");
        },
    );
}

fn groups(ui: &mut Ui, state: &mut State) {
    let theme = Theme::of(ui);
    let bits = [(16, "16-bit"), (8, "8-bit"), (4, "4-bit")];
    settings_group(ui, "Speculation", |ui| {
        SettingsRow::new("Mode")
            .detail("DSpark uses the trained drafter for this model")
            .show(ui, |ui| {
                segmented(ui, &mut state.mode, &[(0, "Auto"), (1, "DSpark"), (2, "Lookup"), (3, "Baseline")]);
            });
        SettingsRow::new("Draft cap")
            .detail("Tokens proposed each round. Auto follows acceptance")
            .show(ui, |ui| {
                select(ui, "Draft cap", &mut state.cap, &[(0, "Auto"), (4, "4"), (7, "7")], 110.0);
                ui.label(Type::SMALL.rich("now 4", theme.t3));
            });
        SettingsRow::new("Lookup drafts")
            .detail("Reuse runs already present in the context")
            .show(ui, |ui| {
                toggle(ui, &mut state.lookup, "Lookup drafts");
            });
        let detail = "Check several continuations at once. Off: no gain measured here";
        SettingsRow::new("Tree drafts").detail(detail).show(ui, |ui| {
            toggle(ui, &mut state.tree, "Tree drafts");
        });
    });
    settings_group(ui, "Memory", |ui| {
        SettingsRow::new("Context window")
            .detail("17.5 GB of 38.7 GB at this length")
            .reload()
            .show(ui, |ui| {
                ui.spacing_mut().item_spacing.x = 14.0;
                ui.allocate_ui_with_layout(vec2(104.0, 20.0), Layout::right_to_left(egui::Align::Center), |ui| {
                    ui.set_min_width(104.0);
                    ui.label(Type::BASE.rich("32,768", theme.t1));
                });
                ui.add(
                    Slider::new(&mut state.context, 0.0..=180.0, "Context window")
                        .step(1.0)
                        .surface(theme.panel),
                );
            });
        SettingsRow::new("KV precision")
            .reload()
            .show(ui, |ui| segmented(ui, &mut state.bits, &bits));
        SettingsRow::new("Memory guard")
            .detail("Drop caches when macOS reports pressure")
            .show(ui, |ui| {
                toggle(ui, &mut state.guard, "Memory guard");
            });
    });
    settings_group(ui, "Replies", |ui| {
        SettingsRow::new("Thinking for API clients")
            .detail("Agents are usually faster with it off")
            .show(ui, |ui| {
                toggle(ui, &mut state.thinking, "Thinking for API clients");
            });
        SettingsRow::new("Largest reply").show(ui, |ui| {
            select(
                ui,
                "Largest reply",
                &mut state.largest,
                &[(4096, "4,096 tokens"), (8192, "8,192 tokens")],
                150.0,
            );
        });
    });
}
