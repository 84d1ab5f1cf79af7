//! The model picker under its button in the header.

use super::text::bytes;
use crate::{
    bridge::{FitLevel, ModelEntry, Offer},
    state::{ModelsMsg, Msg, Screen, State},
};
use dspark_look::{Button, Icon, MenuItem, TextField, Theme, Type, menu_frame, menu_separator};
use dspark_strings::t;
use egui::{Layout, Popup, PopupCloseBehavior, RectAlign, Response, ScrollArea, Ui, vec2};
use std::path::PathBuf;

const WIDTH: f32 = 380.0;

/// The button and, while it is open, the list.
pub(super) fn show(ui: &mut Ui, state: &State, out: &mut Vec<Msg>) {
    let theme = Theme::of(ui);
    let loading = state.models.loading.as_ref().map(|loading| loading.name.as_str());
    let loaded = state.engine.model.as_ref().map(|model| model.name.as_str());
    let name = loading.or(loaded).unwrap_or(t!(choose_model));
    let button = ui.add(Button::quiet(name).color(theme.t1).caret().max_width(260.0).label(t!(model)));
    let mut open = state.models.picker_open;
    if button.clicked() {
        open = !open;
    }
    popup(&button, state, &mut open, out);
    if open != state.models.picker_open {
        out.push(Msg::Models(ModelsMsg::Picker(open)));
    }
}

fn popup(button: &Response, state: &State, open: &mut bool, out: &mut Vec<Msg>) {
    let theme = Theme::of_ctx(&button.ctx);
    Popup::from_response(button)
        .open_bool(open)
        .close_behavior(if button.clicked() {
            PopupCloseBehavior::IgnoreClicks
        } else {
            PopupCloseBehavior::CloseOnClickOutside
        })
        .align(RectAlign::BOTTOM_END)
        .gap(4.0)
        .width(WIDTH)
        .frame(menu_frame(theme))
        .show(|ui| {
            ui.set_min_width(WIDTH - 12.0);
            ui.spacing_mut().item_spacing = vec2(0.0, 0.0);
            list(ui, state, out);
        });
}

fn heading(ui: &mut Ui, text: &str) {
    let theme = Theme::of(ui);
    let (rect, response) = ui.allocate_exact_size(vec2(ui.available_width(), 26.0), egui::Sense::hover());
    response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Heading, true, text));
    let galley = Type::LABEL.galley(ui, text, theme.t3);
    ui.painter().galley(rect.min + vec2(9.0, 7.0), galley, theme.t3);
}

fn list(ui: &mut Ui, state: &State, out: &mut Vec<Msg>) {
    ScrollArea::vertical().max_height(360.0).auto_shrink([false, true]).show(ui, |ui| {
        if let Some(survey) = &state.models.survey {
            if !survey.installed.is_empty() {
                heading(ui, t!(on_disk));
            }
            for entry in &survey.installed {
                if installed(ui, state, entry) {
                    out.push(Msg::Models(ModelsMsg::Load(entry.clone())));
                }
            }
            let offers: Vec<&Offer> = survey.suggestions().filter(|offer| offer.starter).collect();
            if !offers.is_empty() {
                heading(ui, t!(small_quick_title));
            }
            for offer in offers {
                let detail = t!(size_download, size = bytes(offer.bytes));
                if ui
                    .add(MenuItem::new(&offer.name).icon(Icon::DownloadSimple).detail(&detail))
                    .clicked()
                {
                    out.push(Msg::Models(ModelsMsg::Fetch(offer.clone())));
                }
            }
        } else {
            heading(ui, t!(looking_for_models));
        }
    });
    menu_separator(ui);
    if state.has_model() && ui.add(MenuItem::new(t!(unload_model)).icon(Icon::Eject)).clicked() {
        out.push(Msg::Models(ModelsMsg::Unload));
        out.push(Msg::Models(ModelsMsg::Picker(false)));
    }
    if ui.add(MenuItem::new(t!(all_models)).icon(Icon::Cube)).clicked() {
        out.push(Msg::Show(Screen::Models));
        out.push(Msg::Models(ModelsMsg::Picker(false)));
    }
    ui.add_space(6.0);
    path_field(ui, state, out);
    ui.add_space(4.0);
}

/// Any folder: typed, pasted, or dropped on the window.
pub(crate) fn path_field(ui: &mut Ui, state: &State, out: &mut Vec<Msg>) {
    let mut path = state.models.path.clone();
    let row = Layout::right_to_left(egui::Align::TOP);
    let ready = !path.trim().is_empty();
    ui.allocate_ui_with_layout(vec2(ui.available_width(), 30.0), row, |ui| {
        ui.spacing_mut().item_spacing.x = 6.0;
        let load = ui.add(Button::secondary(t!(load)).enabled(ready).label(t!(load_folder))).clicked();
        let width = ui.available_width();
        ui.with_layout(Layout::top_down(egui::Align::Min), |ui| {
            let field = TextField::new(&mut path, t!(model_folder))
                .hint(t!(model_folder_hint))
                .icon(Icon::Folder)
                .mono()
                .width(width)
                .error(state.models.path_error.as_deref());
            let response = ui.add(field);
            let entered = response.lost_focus() && ui.input(|input| input.key_pressed(egui::Key::Enter));
            if entered {
                // Where it does not work out, it is to be corrected here.
                response.request_focus();
            }
            if (load || entered) && !path.trim().is_empty() {
                out.push(Msg::Models(ModelsMsg::LoadPath(expand(path.trim()))));
            }
        });
    });
    if path != state.models.path {
        out.push(Msg::Models(ModelsMsg::PathText(path)));
    }
}

/// `~` and a pasted `file://` address.
pub(crate) fn expand(text: &str) -> PathBuf {
    let text = text.strip_prefix("file://").unwrap_or(text);
    match (text.strip_prefix("~/"), std::env::home_dir()) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => PathBuf::from(text),
    }
}

fn installed(ui: &mut Ui, state: &State, entry: &ModelEntry) -> bool {
    let loaded = state.engine.model.as_ref().is_some_and(|model| model.path == entry.path);
    let detail = match (&entry.problem, entry.fit.level()) {
        (Some(problem), _) => problem.clone(),
        (None, FitLevel::TooBig) => t!(too_big_here).into(),
        (None, _) => bytes(entry.bytes),
    };
    let enabled = entry.problem.is_none();
    ui.add(MenuItem::new(&entry.name).checked(loaded).detail(&detail).enabled(enabled))
        .clicked()
        && enabled
        && !loaded
}
