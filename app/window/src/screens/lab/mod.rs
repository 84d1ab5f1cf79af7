//! The Lab: how decoding goes now, and what a round costs on this machine.

mod bench;
pub mod card;
mod conditions;
mod curves;
mod figures;
mod live;
mod machine;
pub(crate) mod race;
mod setup;
mod states;
pub(crate) mod words;

use crate::state::{LabView, Msg, State};
use dspark_look::space;
use egui::{Frame, Margin, ScrollArea, Ui, vec2};

/// What the Lab remembers between frames.
#[derive(Default)]
pub(crate) struct LabPage {
    race: race::RaceView,
}

pub(crate) fn show(ui: &mut Ui, state: &State, page: &mut LabPage, out: &mut Vec<Msg>) {
    if states::instead(ui, state, out) {
        return;
    }
    let height = ui.available_height();
    ScrollArea::vertical()
        .id_salt(("lab", state.lab.view))
        .auto_shrink([false, false])
        .show(ui, |ui| {
            let margin = Margin::symmetric(space::PAGE_X as i8, space::PAGE_Y as i8);
            Frame::new().inner_margin(margin).show(ui, |ui| {
                ui.spacing_mut().item_spacing = vec2(space::PANEL_GAP, space::PANEL_GAP);
                let height = height - 2.0 * space::PAGE_Y - 4.0;
                match state.lab.view {
                    LabView::Live => live::show(ui, state, height, out),
                    LabView::Curves => curves::show(ui, state, height, out),
                    LabView::Machine => machine::show(ui, state, height, out),
                    LabView::Race => race::show(ui, state, &mut page.race, height, out),
                    LabView::Benchmark => bench::show(ui, state, height, out),
                }
            });
        });
}

/// Parts side by side, their widths in these shares of what is left after the gaps.
fn beside(ui: &mut Ui, shares: &[f32], height: f32, mut add: impl FnMut(&mut Ui, usize)) {
    let gap = space::PANEL_GAP;
    let total: f32 = shares.iter().sum();
    let width = ui.available_width() - gap * (shares.len() - 1) as f32;
    let top = ui.cursor().min;
    let mut x = top.x;
    let mut bottom = top.y + height;
    for (at, share) in shares.iter().enumerate() {
        let part = (width * share / total).round();
        let rect = egui::Rect::from_min_size(egui::pos2(x, top.y), vec2(part, height));
        let builder = egui::UiBuilder::new().max_rect(rect).id_salt(("beside", at));
        let shown = ui.new_child(builder);
        let mut child = shown;
        add(&mut child, at);
        bottom = bottom.max(child.min_rect().bottom());
        x += part + gap;
    }
    ui.allocate_space(vec2(ui.available_width(), bottom - top.y));
}

/// A card that fills its place to the foot.
fn panel<R>(ui: &mut Ui, height: f32, add: impl FnOnce(&mut Ui) -> R) -> R {
    dspark_look::card(ui, |ui| {
        ui.set_min_height((height - 30.0).max(0.0));
        ui.spacing_mut().item_spacing.y = 0.0;
        add(ui)
    })
    .inner
}
