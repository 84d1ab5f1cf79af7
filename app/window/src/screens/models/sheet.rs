//! Load options: how one load decodes, where that differs from the settings.

use crate::{
    screens::settings::decoding,
    state::{ModelsMsg, Msg, State},
};
use dspark_look::{Button, Theme, Type, modal, settings_group};
use dspark_strings::t;
use egui::{Context, Label, ScrollArea};

pub(super) fn show(ctx: &Context, state: &State, out: &mut Vec<Msg>) {
    let Some(open) = state.models.open.as_ref().filter(|open| open.sheet) else {
        return;
    };
    let now = open.decoding.as_deref().unwrap_or(&state.settings.decoding);
    let mut edited = now.clone();
    let mut back = false;
    let (done, close) = modal(ctx, "load options", 640.0, |ui| {
        let theme = Theme::of(ui);
        ui.spacing_mut().item_spacing.y = 6.0;
        ui.label(Type::HEADING.rich(t!(load_options), theme.t1));
        let words = t!(load_options_line);
        ui.add(Label::new(Type::BASE.rich(words, theme.t2)).wrap());
        ui.add_space(8.0);
        let height = (ui.ctx().content_rect().height() - 230.0).max(160.0);
        ScrollArea::vertical().max_height(height).show(ui, |ui| {
            let id = ui.scope_id().with("typed drafter");
            let mut typed = ui.data(|data| data.get_temp::<Option<String>>(id)).flatten();
            settings_group(ui, t!(speculation), |ui| decoding::speculation(ui, state, &mut edited, &mut typed));
            ui.data_mut(|data| data.insert_temp(id, typed));
        });
        ui.add_space(8.0);
        let mut done = false;
        dspark_look::controls(ui, |ui| {
            let changed = open.decoding.is_some();
            back = ui.add(Button::quiet(t!(as_in_settings)).enabled(changed)).clicked();
            dspark_look::from_right(ui, |ui| done = ui.add(Button::primary(t!(done_button))).clicked());
        });
        done
    });
    if back {
        out.push(Msg::Models(ModelsMsg::Options(None)));
    } else if edited != *now {
        let changed = Some(Box::new(edited)).filter(|edited| **edited != state.settings.decoding);
        out.push(Msg::Models(ModelsMsg::Options(changed)));
    }
    if done || close {
        out.push(Msg::Models(ModelsMsg::Sheet(false)));
    }
}
