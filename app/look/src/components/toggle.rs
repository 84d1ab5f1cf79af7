//! Toggle, segmented control and radio mark.

use egui::{Color32, CornerRadius, Key, Modifiers, Rect, Response, Role, Sense, Stroke, StrokeKind, Ui, WidgetInfo, pos2, vec2};

use crate::{
    Theme, Type,
    motion::{self, mix},
    paint,
    space::radius,
};

/// 34 × 20 switch; `label` is its accessible name. The response is marked as changed.
pub fn toggle(ui: &mut Ui, on: &mut bool, label: &str) -> Response {
    let enabled = ui.is_enabled();
    let (rect, mut response) = ui.allocate_exact_size(vec2(34.0, 20.0), Sense::click());
    if response.clicked() {
        *on = !*on;
        response.mark_changed();
    }
    response.widget_info(|| WidgetInfo::selected(Role::Switch, enabled, *on, label));
    if ui.is_rect_visible(rect) {
        let theme = Theme::of(ui);
        let t = motion::toward(ui, response.id, *on, motion::TOGGLE);
        let radius = CornerRadius::same(10);
        let off_fill = if response.hovered() {
            mix(theme.press, theme.line2, 0.5)
        } else {
            theme.press
        };
        let border = if t >= 1.0 {
            Color32::TRANSPARENT
        } else {
            theme.line2.gamma_multiply(1.0 - t)
        };
        paint::boxed(ui.painter(), rect, radius, mix(off_fill, theme.accent_fill, t), border);
        let knob = mix(theme.t2, Color32::WHITE, t);
        let x = egui::lerp(rect.left() + 10.0..=rect.left() + 25.0, t);
        let knob = if enabled { knob } else { theme.tdis };
        ui.painter().circle_filled(pos2(x, rect.center().y), 7.0, knob);
        paint::focus_ring(ui, &response, rect, radius);
    }
    response
}

/// One of a few values in a well. Tab reaches each; arrows move the choice.
pub fn segmented<T: PartialEq + Clone>(ui: &mut Ui, value: &mut T, choices: &[(T, &str)]) -> Response {
    segmented_sized(ui, value, choices, 30.0, Role::RadioButton)
}

/// Tabs of a screen: the same control with the role of tabs.
pub fn tabs<T: PartialEq + Clone>(ui: &mut Ui, value: &mut T, choices: &[(T, &str)]) -> Response {
    segmented_sized(ui, value, choices, 30.0, Role::Tab)
}

/// [`segmented`] at another height (28 inside an expanded row).
pub fn segmented_sized<T: PartialEq + Clone>(ui: &mut Ui, value: &mut T, choices: &[(T, &str)], height: f32, role: Role) -> Response {
    let theme = Theme::of(ui);
    let enabled = ui.is_enabled();
    let chosen = choices.iter().position(|(v, _)| v == value);
    let texts: Vec<_> = choices
        .iter()
        .enumerate()
        .map(|(i, (_, text))| Type::SEGMENT.galley(ui, *text, if Some(i) == chosen { theme.t1 } else { theme.t2 }))
        .collect();
    let width: f32 = texts.iter().map(|t| t.size().x + 24.0).sum::<f32>() + 6.0;
    let (rect, mut response) = ui.allocate_exact_size(vec2(width, height), Sense::hover());
    response.widget_info(|| WidgetInfo::new(if role == Role::Tab { Role::TabList } else { Role::RadioGroup }));
    paint::boxed(ui.painter(), rect, radius::WELL, theme.field, theme.line);

    let mut x = rect.left() + 3.0;
    let mut cells = Vec::with_capacity(choices.len());
    for text in &texts {
        let cell = Rect::from_min_size(pos2(x, rect.top() + 3.0), vec2(text.size().x + 24.0, height - 6.0));
        x = cell.right();
        cells.push(cell);
    }
    let radius = CornerRadius::same(6);
    if let Some(i) = chosen {
        paint::boxed(
            ui.painter(),
            thumb(ui, response.id, cells[i]),
            radius,
            theme.press,
            Color32::TRANSPARENT,
        );
    }
    let mut next = None;
    for (i, (text, cell)) in texts.into_iter().zip(&cells).enumerate() {
        let part = ui.interact(*cell, response.id.with(i), Sense::click());
        part.widget_info(|| WidgetInfo::selected(role, enabled, Some(i) == chosen, choices[i].1));
        if part.clicked() {
            next = Some(i);
        }
        if part.has_focus() {
            next = arrow(ui, i, choices.len(), response.id).or(next);
        }
        if part.hovered() && Some(i) != chosen {
            paint::boxed(ui.painter(), *cell, radius, theme.hover.gamma_multiply(0.6), Color32::TRANSPARENT);
        }
        paint::text_center(ui.painter(), *cell, text, theme.t2);
        paint::focus_ring(ui, &part, *cell, radius);
    }
    if let Some(i) = next.filter(|i| Some(*i) != chosen) {
        *value = choices[i].0.clone();
        response.mark_changed();
    }
    response
}

/// Left and right move the choice and the focus with it.
fn arrow(ui: &Ui, at: usize, len: usize, id: egui::Id) -> Option<usize> {
    let step = ui.input_mut(|i| {
        i32::from(i.consume_key(Modifiers::NONE, Key::ArrowRight)) - i32::from(i.consume_key(Modifiers::NONE, Key::ArrowLeft))
    });
    ui.memory_mut(|m| {
        m.set_focus_lock_filter(
            id.with(at),
            egui::EventFilter {
                horizontal_arrows: true,
                ..egui::EventFilter::default()
            },
        );
    });
    if step == 0 {
        return None;
    }
    let to = (at as i32 + step).rem_euclid(len as i32) as usize;
    ui.memory_mut(|m| m.request_focus(id.with(to)));
    Some(to)
}

/// The thumb slides to its new cell.
fn thumb(ui: &Ui, id: egui::Id, to: Rect) -> Rect {
    if motion::reduced(ui.ctx()) {
        return to;
    }
    let at = |part: &str, v: f32| ui.ctx().animate_value_with_time(id.with(part), v, motion::TOGGLE);
    // Relative to the control, so that scrolling does not animate it.
    let origin = ui.min_rect().min;
    let left = at("thumb left", to.left() - origin.x) + origin.x;
    let width = at("thumb width", to.width());
    Rect::from_min_size(pos2(left, to.top()), vec2(width, to.height()))
}

/// The round mark of a chosen or unchosen option, 16 × 16. Paint only: the row carries the role.
pub fn radio_mark(ui: &Ui, center: egui::Pos2, on: bool) {
    let theme = Theme::of(ui);
    let rect = Rect::from_center_size(center, vec2(16.0, 16.0));
    if on {
        ui.painter()
            .rect_stroke(rect, CornerRadius::same(8), Stroke::new(5.0, theme.accent), StrokeKind::Inside);
    } else {
        ui.painter()
            .rect_stroke(rect, CornerRadius::same(8), Stroke::new(1.5, theme.t3), StrokeKind::Inside);
    }
}
