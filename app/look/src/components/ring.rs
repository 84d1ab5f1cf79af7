//! Busy ring: one turn in 1.1 s at fifteen frames a second; still under reduced motion.

use std::f32::consts::TAU;

use egui::{Color32, Pos2, Response, Role, Sense, Ui, WidgetInfo, vec2};

use crate::{Icon, motion};

/// Paint the ring and ask for its next frame.
pub fn paint_ring(ui: &Ui, center: Pos2, size: f32, color: Color32) {
    let angle = if motion::reduced(ui.ctx()) {
        0.0
    } else {
        ui.ctx().request_repaint_after(motion::RING_FRAME);
        let turns = ui.input(|i| i.time) / motion::RING_TURN;
        turns.fract() as f32 * TAU
    };
    Icon::CircleNotch.paint_turned(ui.painter(), center, size, color, angle);
}

/// The ring as a layout item; `label` says what is going on.
pub fn busy_ring(ui: &mut Ui, size: f32, color: Color32, label: &str) -> Response {
    let (rect, response) = ui.allocate_exact_size(vec2(size, size), Sense::hover());
    response.widget_info(|| WidgetInfo::labeled(Role::ProgressIndicator, true, label));
    if ui.is_rect_visible(rect) {
        paint_ring(ui, rect.center(), size, color);
    }
    response
}
