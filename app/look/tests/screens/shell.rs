//! The frame around every screen.

use dspark_look::{
    Button, ChatRow, Density, Icon, MemoryFoot, PillState, ScreenRow, StatusPill, Theme, WINDOW_BUTTONS, date_heading, header, paint,
    sidebar_background, sidebar_note,
};
use egui::{Layout, Rect, Ui, UiBuilder, pos2, vec2};

pub(crate) struct Shell<'a> {
    pub(crate) screen: usize,
    pub(crate) title: &'a str,
    pub(crate) chats: bool,
    pub(crate) chat_selected: bool,
    pub(crate) model: &'a str,
    pub(crate) foot: MemoryFoot<'a>,
}

impl Shell<'_> {
    pub(crate) const LOADED: MemoryFoot<'static> = MemoryFoot {
        note: "",
        label: "GPU memory",
        used: "10.1",
        of: "of 38.7 GB",
        short: "10.1 GB",
        part: 0.26,
    };

    pub(crate) fn show(
        &self,
        ui: &mut Ui,
        state: &PillState,
        left: impl FnOnce(&mut Ui),
        actions: impl FnOnce(&mut Ui),
        content: impl FnOnce(&mut Ui),
    ) {
        let window = ui.max_rect();
        let density = Density::of_width(window.width());
        let side = Rect::from_min_max(window.min, pos2(window.left() + density.sidebar(), window.bottom()));
        let main = Rect::from_min_max(pos2(side.right(), window.top()), window.max);
        ui.scope_builder(UiBuilder::new().max_rect(side).layout(Layout::top_down(egui::Align::Min)), |ui| {
            self.side(ui, density);
        });
        ui.scope_builder(UiBuilder::new().max_rect(main).layout(Layout::top_down(egui::Align::Min)), |ui| {
            ui.spacing_mut().item_spacing.y = 0.0;
            header(ui, self.title, left, |ui| {
                ui.add(StatusPill::new(state).live());
                ui.add(Button::quiet(self.model).caret().color(Theme::of(ui).t1));
                actions(ui);
            });
            ui.scope_builder(UiBuilder::new().max_rect(ui.available_rect_before_wrap()), content);
        });
    }

    fn side(&self, ui: &mut Ui, density: Density) {
        sidebar_background(ui);
        ui.spacing_mut().item_spacing.y = 0.0;
        let rect = ui.max_rect();
        lights(ui, density);
        ui.add_space(WINDOW_BUTTONS);
        let rail = density == Density::Narrow;
        let screens = [
            (Icon::ChatCircle, Icon::ChatCircleFill, "Chat", "⌘1"),
            (Icon::Flask, Icon::FlaskFill, "Lab", "⌘2"),
            (Icon::Cube, Icon::CubeFill, "Models", "⌘3"),
            (Icon::PlugsConnected, Icon::PlugsConnectedFill, "Agents", "⌘4"),
            (Icon::GearSix, Icon::GearSixFill, "Settings", "⌘5"),
        ];
        for (i, (icon, fill, word, key)) in screens.into_iter().enumerate() {
            let row = ScreenRow::new(icon, fill, word).shortcut(key).selected(i == self.screen);
            if rail {
                row.rail(ui);
                ui.add_space(4.0);
            } else {
                ui.add(row);
                ui.add_space(if i + 1 < 5 { 2.0 } else { 0.0 });
            }
        }
        if rail {
            ui.add_space(6.0);
            paint::hline(
                ui.painter(),
                egui::Rangef::new(rect.left(), rect.right() - 1.0),
                ui.cursor().top(),
                Theme::of(ui).line,
            );
            ui.add_space(11.0);
            ScreenRow::new(Icon::ClockCounterClockwise, Icon::ClockCounterClockwise, "History").rail(ui);
            ui.add_space(4.0);
            ScreenRow::new(Icon::NotePencil, Icon::NotePencil, "New").rail(ui);
        } else if self.chats {
            self.chat_list(ui);
        } else {
            date_heading(ui, "Chats", None);
            sidebar_note(ui, "Your conversations will be listed here. They stay on this Mac.");
        }
        let foot = Rect::from_min_max(pos2(rect.left(), rect.bottom() - self.foot.height(rail)), rect.max);
        ui.scope_builder(UiBuilder::new().max_rect(foot), |ui| self.foot.show(ui, rail));
    }

    fn chat_list(&self, ui: &mut Ui) {
        let groups: [(&str, &[&str]); 3] = [
            (
                "Today",
                &[
                    "Interval scheduling in Rust",
                    "Rewrite the release notes",
                    "Why is my matvec bound?",
                ],
            ),
            ("Yesterday", &["SQL window functions recap", "Trip plan, Lisbon in March"]),
            (
                "Previous 7 days",
                &[
                    "Regex for semver ranges",
                    "Explain RoPE scaling",
                    "Budget CSV to chart",
                    "Draft reply to landlord",
                ],
            ),
        ];
        for (i, (date, chats)) in groups.into_iter().enumerate() {
            date_heading(ui, date, (i == 0).then_some("New chat"));
            for (j, title) in chats.iter().enumerate() {
                ChatRow::new(title).selected(self.chat_selected && i == 0 && j == 0).show(ui);
            }
        }
    }
}

/// macOS draws these itself.
fn lights(ui: &Ui, density: Density) {
    let left = ui.max_rect().left() + if density == Density::Narrow { 18.0 } else { 26.0 };
    for (i, color) in [0xEC_6A5E_u32, 0xF4_BF4F, 0x61_C554].into_iter().enumerate() {
        let [_, r, g, b] = color.to_be_bytes();
        let at = pos2(left, ui.max_rect().top() + 26.0) + vec2(20.0 * i as f32, 0.0);
        ui.painter().circle_filled(at, 6.0, egui::Color32::from_rgb(r, g, b));
    }
}
