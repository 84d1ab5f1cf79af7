//! The 52 pt header and the frame of a screen.

use egui::{Layout, Rect, Response, Role, Sense, Ui, UiBuilder, WidgetInfo, vec2};

use crate::{
    Theme, Type, paint,
    space::{HEADER, PAGE_X},
};

/// Title, then `left` 14 pt on (tabs), then `right` from the right edge (status pill first).
///
/// The returned response covers the bar behind the controls: drag it to move the window, double
/// click to zoom, where the platform draws no title bar.
pub fn header<R>(ui: &mut Ui, title: &str, left: impl FnOnce(&mut Ui), right: impl FnOnce(&mut Ui) -> R) -> (Response, R) {
    let theme = Theme::of(ui);
    let (rect, bar) = ui.allocate_exact_size(vec2(ui.available_width(), HEADER), Sense::click_and_drag());
    bar.widget_info(|| WidgetInfo::labeled(Role::Banner, true, title));
    paint::hline(ui.painter(), rect.x_range(), rect.bottom() - 1.0, theme.line);
    let mut inner = Rect::from_min_max(rect.min + vec2(PAGE_X, 0.0), rect.max - vec2(20.0, 1.0));

    let (end, result) = paint::over_right(ui, inner, |ui| {
        ui.spacing_mut().item_spacing.x = 10.0;
        let result = right(ui);
        (ui.min_rect().left(), result)
    });
    inner.max.x = (end - 10.0).max(inner.min.x);
    paint::over_left(ui, inner, |ui| {
        ui.set_clip_rect(ui.clip_rect().intersect(inner.expand2(vec2(4.0, 0.0))));
        let text = Type::SCREEN.ellipsis(ui, title, theme.t1, inner.width());
        let (place, heading) = ui.allocate_exact_size(text.size(), Sense::hover());
        heading.widget_info(|| WidgetInfo::labeled(Role::Heading, true, title));
        ui.painter().galley(place.min, text, theme.t1);
        ui.add_space(16.0);
        left(ui);
    });
    (bar, result)
}

/// A centred column of at most `width`, with at least `margin` on both sides.
pub fn column<R>(ui: &mut Ui, width: f32, margin: f32, add: impl FnOnce(&mut Ui) -> R) -> R {
    let available = ui.available_rect_before_wrap();
    let width = width.min(available.width() - 2.0 * margin).max(0.0);
    let left = (available.center().x - width / 2.0).round();
    let rect = Rect::from_min_max(egui::pos2(left, available.top()), egui::pos2(left + width, available.bottom()));
    ui.scope_builder(UiBuilder::new().max_rect(rect).layout(Layout::top_down(egui::Align::Min)), |ui| {
        ui.set_width(width);
        add(ui)
    })
    .inner
}
