//! What stands there instead of figures: nothing loaded, on its way, broken.

use crate::{
    shell::header::{explain, term},
    state::{LabView, ModelsMsg, Msg, State, Status, status},
};
use dspark_look::{ErrorCard, Icon, Theme, Type, busy_ring, empty_state};
use dspark_protocol::EngineState;
use dspark_strings::t;
use egui::{Ui, vec2};

/// Draws the state and returns true where there is nothing else to show.
pub(super) fn instead(ui: &mut Ui, state: &State, out: &mut Vec<Msg>) -> bool {
    if let EngineState::Error { reason } = &state.engine.state {
        centred(ui, 560.0, |ui| {
            let card = ErrorCard {
                title: t!(engine_cannot_work),
                cause: reason,
                primary: "",
                details: "",
            };
            if card.show(ui).copy {
                out.push(Msg::Copy(reason.clone()));
            }
        });
        return true;
    }
    let now = status(state);
    // The machine is there without a model.
    if state.lab.view == LabView::Machine && !matches!(now, Status::Starting | Status::Calibrating) {
        return false;
    }
    if state.has_model() && !matches!(now, Status::Calibrating) {
        return false;
    }
    match now {
        Status::Starting | Status::Loading(..) | Status::Calibrating | Status::WarmingUp | Status::Unloading | Status::Downloading(_) => {
            centred(ui, 480.0, |ui| busy(ui, term(&now), &explain(state, &now)));
        }
        _ => centred(ui, 480.0, |ui| {
            let line = t!(figures_appear_here);
            if empty_state(ui, Icon::Flask, t!(no_model_loaded_title), line, t!(choose_model)) {
                out.push(Msg::Models(ModelsMsg::Picker(true)));
            }
        }),
    }
    true
}

fn busy(ui: &mut Ui, title: &str, line: &str) {
    let theme = Theme::of(ui);
    ui.vertical_centered(|ui| {
        busy_ring(ui, 26.0, theme.t3, title);
        ui.add_space(12.0);
        ui.label(Type::PANEL.rich(title, theme.t1));
        ui.add_space(4.0);
        ui.label(Type::NOTE.with_line(20.0).rich(line, theme.t2));
    });
}

/// In the middle of the page, at most this wide.
pub(super) fn centred(ui: &mut Ui, width: f32, add: impl FnOnce(&mut Ui)) {
    let area = ui.available_rect_before_wrap();
    let size = vec2(width.min(area.width() - 48.0), 160.0);
    let place = egui::Rect::from_center_size(area.center() - vec2(0.0, area.height() * 0.08), size);
    let builder = egui::UiBuilder::new().max_rect(place);
    ui.scope_builder(builder, add);
}
