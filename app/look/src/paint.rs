//! Small painting helpers shared by the components.

use std::sync::Arc;

use egui::{Color32, CornerRadius, Galley, Painter, Pos2, Rect, Response, Stroke, StrokeKind, Ui, epaint::RectShape, pos2, vec2};

use crate::{motion, theme::Theme};

/// A child over `rect`, space that is already allocated: it moves no cursor and grows no parent.
pub fn over<R>(ui: &mut Ui, rect: Rect, layout: egui::Layout, add: impl FnOnce(&mut Ui) -> R) -> R {
    let mut child = ui.new_child(egui::UiBuilder::new().max_rect(rect).layout(layout));
    add(&mut child)
}

/// Items in `rect` from the left edge, vertically centred.
pub fn over_left<R>(ui: &mut Ui, rect: Rect, add: impl FnOnce(&mut Ui) -> R) -> R {
    over(ui, rect, egui::Layout::left_to_right(egui::Align::Center), add)
}

/// Items in `rect` from the right edge, vertically centred.
pub fn over_right<R>(ui: &mut Ui, rect: Rect, add: impl FnOnce(&mut Ui) -> R) -> R {
    over(ui, rect, egui::Layout::right_to_left(egui::Align::Center), add)
}

/// Items in `rect` from the top.
pub fn over_down<R>(ui: &mut Ui, rect: Rect, add: impl FnOnce(&mut Ui) -> R) -> R {
    over(ui, rect, egui::Layout::top_down(egui::Align::Min), add)
}

/// Fill and 1 pt border inside `rect`, snapped to pixels.
pub fn boxed(painter: &Painter, rect: Rect, radius: CornerRadius, fill: Color32, border: Color32) {
    let stroke = if border.a() == 0 { Stroke::NONE } else { Stroke::new(1.0, border) };
    painter.add(RectShape::new(rect, radius, fill, stroke, StrokeKind::Inside));
}

/// Keyboard focus: 2 pt ring, 2 pt outside `rect`. Widgets without text take focus from the
/// keyboard only, so focus means that the ring is due.
pub fn focus_ring(ui: &Ui, response: &Response, rect: Rect, radius: CornerRadius) {
    if response.has_focus() {
        ring(ui, rect, radius);
    }
}

/// The ring itself; it may leave the clip rectangle of its panel by its own width.
pub fn ring(ui: &Ui, rect: Rect, radius: CornerRadius) {
    let painter = ui.painter().with_clip_rect(ui.clip_rect().expand(4.0));
    painter.rect_stroke(
        rect.expand(2.0),
        radius + CornerRadius::same(2),
        Stroke::new(2.0, Theme::of(ui).focus),
        StrokeKind::Outside,
    );
}

/// The fill of a row or button between `rest`, hovered and pressed, over the hover time.
pub fn state_fill(ui: &Ui, response: &Response, rest: Color32, hover: Color32, press: Color32) -> Color32 {
    if response.is_pointer_button_down_on() {
        return press;
    }
    let t = motion::toward(ui, response.id.with("hover"), response.hovered(), motion::HOVER);
    if rest.a() == 0 {
        hover.gamma_multiply(t)
    } else {
        motion::mix(rest, hover, t)
    }
}

/// Left edge at `x`, vertically centred in `rect`.
pub fn text_left(painter: &Painter, rect: Rect, x: f32, galley: Arc<Galley>, color: Color32) -> Rect {
    let at = pos2(x, snap(painter, rect.center().y - galley.size().y / 2.0));
    let size = galley.size();
    painter.galley(at, galley, color);
    Rect::from_min_size(at, size)
}

/// Right edge at `x`.
pub fn text_right(painter: &Painter, rect: Rect, x: f32, galley: Arc<Galley>, color: Color32) -> Rect {
    let left = x - galley.size().x;
    text_left(painter, rect, left, galley, color)
}

pub fn text_center(painter: &Painter, rect: Rect, galley: Arc<Galley>, color: Color32) -> Rect {
    let left = rect.center().x - galley.size().x / 2.0;
    text_left(painter, rect, left, galley, color)
}

pub fn text_at(painter: &Painter, at: Pos2, galley: Arc<Galley>, color: Color32) -> Rect {
    let rect = Rect::from_min_size(at, galley.size());
    painter.galley(at, galley, color);
    rect
}

fn snap(painter: &Painter, v: f32) -> f32 {
    let scale = painter.pixels_per_point();
    (v * scale).round() / scale
}

/// 1 pt horizontal divider whose top edge is `y`.
pub fn hline(painter: &Painter, x: egui::Rangef, y: f32, color: Color32) {
    painter.rect_filled(Rect::from_min_size(pos2(x.min, y), vec2(x.span(), 1.0)), 0, color);
}

/// 1 pt vertical divider whose left edge is `x`.
pub fn vline(painter: &Painter, x: f32, y: egui::Rangef, color: Color32) {
    painter.rect_filled(Rect::from_min_size(pos2(x, y.min), vec2(1.0, y.span())), 0, color);
}

/// A bar of `part` in `track`, both with round ends.
pub fn bar(painter: &Painter, rect: Rect, part: f32, track: Color32, fill: Color32) {
    let radius = CornerRadius::same((rect.height() / 2.0).round() as u8);
    painter.rect_filled(rect, radius, track);
    let width = rect.width() * part.clamp(0.0, 1.0);
    if width > 0.0 {
        painter.rect_filled(Rect::from_min_size(rect.min, vec2(width, rect.height())), radius, fill);
    }
}
