//! Durations and easing. Under reduced motion every duration is zero.

use std::time::Duration;

use egui::{Context, Id, Ui};

/// Hover fills.
pub const HOVER: f32 = 0.080;
/// Toggles, segmented thumb.
pub const TOGGLE: f32 = 0.120;
/// Row expansion, reasoning fold.
pub const FOLD: f32 = 0.160;
/// Popups and toasts arriving: fade and a rise of [`RISE`].
pub const ARRIVE: f32 = 0.140;
pub const LEAVE: f32 = 0.100;
pub const RISE: f32 = 4.0;
/// One turn of the busy ring, seconds.
pub const RING_TURN: f64 = 1.1;
/// Busy rings repaint fifteen times a second.
pub const RING_FRAME: Duration = Duration::from_millis(66);

pub fn reduced(ctx: &Context) -> bool {
    crate::look(ctx).reduced_motion
}

/// 0 to 1 over `seconds`, ease-out cubic; jumps under reduced motion.
pub fn toward(ui: &Ui, id: Id, on: bool, seconds: f32) -> f32 {
    let seconds = if reduced(ui.ctx()) { 0.0 } else { seconds };
    ui.ctx()
        .animate_bool_with_time_and_easing(id, on, seconds, egui::emath::easing::cubic_out)
}

/// Mix of two opaque or premultiplied colours.
pub fn mix(a: egui::Color32, b: egui::Color32, t: f32) -> egui::Color32 {
    a.lerp_to_gamma(b, t)
}
