//! Settings, one group at a time.

mod about;
mod data;
pub(crate) mod decoding;
mod desktop;
mod hub;
mod pages;

pub(crate) use data::sheets;

use crate::state::{Msg, SettingsMsg, SettingsPage, State};
use dspark_look::{Density, Icon, select, space, subnav_row};
use dspark_strings::{Key, key, t};
use egui::{Rect, ScrollArea, Ui, UiBuilder, pos2, vec2};

/// What the settings screen remembers between frames.
#[derive(Default)]
pub struct SettingsView {
    /// Text of the port field while it is not a port.
    pub(super) port: Option<String>,
    pub(super) show_key: bool,
    pub(super) folder: String,
    /// The hub's access token while it is typed.
    pub(super) token: String,
    pub(super) show_token: bool,
    pub(crate) focus_token: bool,
    /// Path of an export of another program's chats.
    pub(super) import: String,
    /// Text of the drafter's path while it is typed.
    pub(super) drafter: Option<String>,
}

const PAGES: [(SettingsPage, Icon, Key); 7] = [
    (SettingsPage::General, Icon::SlidersHorizontal, key!(general)),
    (SettingsPage::Server, Icon::HardDrives, key!(local_server)),
    (SettingsPage::Models, Icon::Cube, key!(models)),
    (SettingsPage::Decoding, Icon::Lightning, key!(decoding)),
    (SettingsPage::Chat, Icon::ChatCircle, key!(chat)),
    (SettingsPage::Data, Icon::ShieldCheck, key!(privacy_data)),
    (SettingsPage::About, Icon::Info, key!(about)),
];

pub fn show(ui: &mut Ui, state: &State, view: &mut SettingsView, out: &mut Vec<Msg>) {
    let narrow = Density::of(ui.ctx()) == Density::Narrow;
    let area = ui.available_rect_before_wrap();
    let mut content = area;
    if narrow {
        content.min.y += 54.0;
        let place = Rect::from_min_size(area.min + vec2(24.0, 16.0), vec2(240.0, 30.0));
        ui.scope_builder(UiBuilder::new().max_rect(place), |ui| {
            let mut page = state.settings_page;
            let choices: Vec<(SettingsPage, &str)> = PAGES.iter().map(|(page, _, name)| (*page, name.text())).collect();
            if select(ui, t!(settings_group), &mut page, &choices, 200.0) {
                out.push(Msg::Settings(SettingsMsg::Page(page)));
            }
        });
    } else {
        content.min.x += space::SUBNAV;
        let nav = Rect::from_min_max(
            pos2(area.left() + 14.0, area.top() + 16.0),
            pos2(area.left() + 170.0, area.bottom()),
        );
        ui.scope_builder(UiBuilder::new().max_rect(nav), |ui| {
            ui.spacing_mut().item_spacing = vec2(0.0, 2.0);
            for (page, icon, name) in PAGES {
                if subnav_row(ui, icon, name.text(), state.settings_page == page).clicked() {
                    out.push(Msg::Settings(SettingsMsg::Page(page)));
                }
            }
        });
    }
    if state.decoding.is_some() {
        let left = if narrow { 24.0 } else { 14.0 };
        let width = space::SETTINGS.min(content.width() - left - 24.0);
        let over = Rect::from_min_size(pos2(content.left() + left, content.top()), vec2(width, content.height()));
        decoding::reload(ui, state, over, out);
    }
    ui.scope_builder(UiBuilder::new().max_rect(content), |ui| {
        ScrollArea::vertical()
            .id_salt(("settings", state.settings_page))
            .auto_shrink([false, false])
            .show(ui, |ui| {
                let left = if narrow { 24.0 } else { 14.0 };
                let width = space::SETTINGS.min(ui.available_width() - left - 24.0);
                let start = ui.cursor().min;
                let column = Rect::from_min_size(pos2(start.x + left, start.y), vec2(width, f32::INFINITY));
                ui.scope_builder(UiBuilder::new().max_rect(column), |ui| {
                    ui.set_width(width);
                    ui.spacing_mut().item_spacing = vec2(8.0, 0.0);
                    ui.add_space(if narrow { 4.0 } else { 20.0 });
                    pages::show(ui, state, view, out);
                    ui.add_space(if state.decoding.is_some() { 96.0 } else { 32.0 });
                });
            });
    });
}
