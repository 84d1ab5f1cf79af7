//! Slider: track 4, knob 16, ticks below, a dashed track beyond what fits.

use std::ops::RangeInclusive;

use egui::{Color32, CornerRadius, EventFilter, Key, Modifiers, Rect, Response, Sense, Ui, Widget, WidgetInfo, pos2, vec2};

use crate::{Theme, Type, paint};

/// Arrows move by `step`, with Shift by eight steps. The response is marked as changed.
#[must_use]
pub struct Slider<'a> {
    value: &'a mut f64,
    range: RangeInclusive<f64>,
    label: &'a str,
    step: f64,
    width: f32,
    surface: Option<Color32>,
    ticks: &'a [(f64, &'a str)],
    limit: Option<f64>,
}

impl<'a> Slider<'a> {
    pub fn new(value: &'a mut f64, range: RangeInclusive<f64>, label: &'a str) -> Self {
        let step = (range.end() - range.start()) / 100.0;
        Self {
            value,
            range,
            label,
            step,
            width: 180.0,
            surface: None,
            ticks: &[],
            limit: None,
        }
    }

    /// Values are multiples of `step` from the start; one hundredth of the range otherwise.
    pub fn step(mut self, step: f64) -> Self {
        self.step = step;
        self
    }

    pub fn width(mut self, width: f32) -> Self {
        self.width = width;
        self
    }

    /// Colour of the ring around the knob: the surface the slider lies on, `base` otherwise.
    pub fn surface(mut self, surface: Color32) -> Self {
        self.surface = Some(surface);
        self
    }

    /// Marks below the track with a label each.
    pub fn ticks(mut self, ticks: &'a [(f64, &'a str)]) -> Self {
        self.ticks = ticks;
        self
    }

    /// Largest value that fits: the track is dashed beyond it and the knob stops there.
    pub fn limit(mut self, limit: f64) -> Self {
        self.limit = Some(limit);
        self
    }

    fn part(&self, value: f64) -> f32 {
        let (start, end) = (*self.range.start(), *self.range.end());
        ((value - start) / (end - start).max(f64::MIN_POSITIVE)).clamp(0.0, 1.0) as f32
    }

    fn settle(&self, value: f64) -> f64 {
        let start = *self.range.start();
        let end = self.limit.map_or(*self.range.end(), |l| l.min(*self.range.end()));
        let stepped = if self.step > 0.0 {
            start + ((value - start) / self.step).round() * self.step
        } else {
            value
        };
        stepped.clamp(start, end.max(start))
    }

    fn keys(ui: &Ui, response: &Response) -> f64 {
        if !response.has_focus() {
            return 0.0;
        }
        ui.memory_mut(|m| {
            let filter = EventFilter {
                horizontal_arrows: true,
                vertical_arrows: true,
                ..EventFilter::default()
            };
            m.set_focus_lock_filter(response.id, filter);
        });
        let presses = |key, modifiers| ui.input_mut(|i| i.count_and_consume_key(modifiers, key)) as f64;
        let steps = |modifiers| {
            presses(Key::ArrowRight, modifiers) + presses(Key::ArrowUp, modifiers)
                - presses(Key::ArrowLeft, modifiers)
                - presses(Key::ArrowDown, modifiers)
        };
        // The shifted presses first: a plain match would take them too.
        steps(Modifiers::SHIFT) * 8.0 + steps(Modifiers::NONE)
    }
}

impl Widget for Slider<'_> {
    fn ui(self, ui: &mut Ui) -> Response {
        let theme = Theme::of(ui);
        let height = if self.ticks.is_empty() { 22.0 } else { 52.0 };
        let (rect, mut response) = ui.allocate_exact_size(vec2(self.width, height), Sense::click_and_drag());
        let track_y = rect.top() + if self.ticks.is_empty() { 11.0 } else { 15.0 };
        let track = Rect::from_min_size(pos2(rect.left(), track_y - 2.0), vec2(rect.width(), 4.0));

        let mut next = *self.value;
        if let Some(at) = response.interact_pointer_pos() {
            let part = f64::from((at.x - track.left()) / track.width().max(1.0)).clamp(0.0, 1.0);
            next = self.range.start() + part * (self.range.end() - self.range.start());
        }
        next = self.settle(next + Self::keys(ui, &response) * self.step);
        if next != *self.value && (response.interact_pointer_pos().is_some() || response.has_focus()) {
            *self.value = next;
            response.mark_changed();
        }
        let value = *self.value;
        response.widget_info(|| WidgetInfo::slider(ui.is_enabled(), value, self.label));
        if ui.is_rect_visible(rect) {
            self.draw(ui, theme, track, &response);
        }
        response
    }
}

impl Slider<'_> {
    fn draw(&self, ui: &Ui, theme: &Theme, track: Rect, response: &Response) {
        let painter = ui.painter();
        let enabled = ui.is_enabled();
        let surface = self.surface.unwrap_or(theme.base);
        let fill = if enabled { theme.accent } else { theme.line2 };
        let knob_x = track.left() + track.width() * self.part(*self.value);
        let radius = CornerRadius::same(2);
        painter.rect_filled(track, radius, theme.press);
        painter.rect_filled(Rect::from_min_max(track.min, pos2(knob_x, track.bottom())), radius, fill);
        if let Some(limit) = self.limit {
            let mut x = track.left() + track.width() * self.part(limit);
            while x < track.right() {
                let dash = Rect::from_min_max(pos2(x, track.top()), pos2((x + 3.0).min(track.right()), track.bottom()));
                painter.rect_filled(dash, 0, surface);
                x += 6.0;
            }
        }
        for (i, (at, label)) in self.ticks.iter().enumerate() {
            let part = self.part(*at);
            let x = track.left() + track.width() * part;
            if part > 0.0 && part < 1.0 {
                painter.rect_filled(
                    Rect::from_min_size(pos2(x.round(), track.bottom() + 5.0), vec2(1.0, 4.0)),
                    0,
                    theme.t3,
                );
            }
            let near = (knob_x - x).abs() < 1.0;
            let ink = if near { theme.t1 } else { theme.t3 };
            let text = Type::SHORTCUT.galley(ui, *label, ink);
            let width = text.size().x;
            let left = match i {
                0 if part < 0.02 => x,
                _ if part > 0.98 => x - width,
                _ => x - width / 2.0,
            };
            paint::text_at(painter, pos2(left, track.bottom() + 13.0), text, ink);
        }
        let center = pos2(knob_x, track.center().y);
        // The ring in the surface colour cuts the track around the knob.
        painter.circle_filled(center, 9.0, surface);
        painter.circle_filled(center, 7.0, if enabled { theme.t1 } else { theme.tdis });
        if response.has_focus() && !response.dragged() {
            let knob = Rect::from_center_size(center, vec2(16.0, 16.0));
            paint::ring(ui, knob, CornerRadius::same(8));
        }
    }
}
