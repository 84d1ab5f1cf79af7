//! Measured points over a whole-numbered axis: cost by width, with the point in use, a knee, and a quieter overlay.

use dspark_strings::t;
use std::fmt::Write;

use egui::{Color32, Rect, Response, Role, Sense, Shape, Stroke, Ui, WidgetInfo, pos2, vec2};

use super::{Scale, grid, plot_rect};
use crate::{Theme, Type, paint};

/// Values at whole numbers, in order.
pub type Points<'a> = &'a [(usize, f32)];

/// One curve and what is drawn with it.
pub struct CurvePlot<'a> {
    /// Accessible name and the term of the tooltip: "Verify time".
    pub label: &'a str,
    pub unit: &'a str,
    /// What a whole number counts: "rows".
    pub axis: &'a str,
    pub points: Points<'a>,
    /// The point in use: a solid mark.
    pub chosen: Option<usize>,
    /// From here on the plot lies in shade, with its words.
    pub knee: Option<(usize, &'a str)>,
    /// A dashed line with its words at the end.
    pub overlay: Option<(Points<'a>, &'a str)>,
    /// A quieter second curve with its words at the end.
    pub second: Option<(Points<'a>, &'a str)>,
}

impl CurvePlot<'_> {
    pub fn show(&self, ui: &mut Ui, height: f32) -> Response {
        let theme = Theme::of(ui);
        let (rect, response) = ui.allocate_exact_size(vec2(ui.available_width(), height), Sense::hover());
        response.widget_info(|| WidgetInfo::labeled(Role::Figure, true, self.words()));
        if !ui.is_rect_visible(rect) || self.points.is_empty() {
            return response;
        }
        let plot = plot_rect(rect, true);
        let overlay = self.overlay.map_or(&[][..], |(points, _)| points);
        let second = self.second.map_or(&[][..], |(points, _)| points);
        let highest = [self.points, overlay, second]
            .into_iter()
            .flatten()
            .map(|point| point.1)
            .fold(0.0, f32::max);
        let scale = Scale::for_max(highest * 1.04);
        let (first, last) = (self.points[0].0, self.points[self.points.len() - 1].0.max(self.points[0].0 + 1));
        // Half a step of air at both ends, so that marks and labels stay inside.
        let slot = plot.width() / (last - first + 1) as f32;
        let x = |at: usize| plot.left() + slot * (at as f32 - first as f32 + 0.5);
        if let Some((at, words)) = self.knee {
            Self::shade(ui, theme, plot, x(at), words);
        }
        grid(ui, plot, scale, true);
        for at in first..=last {
            let text = Type::SHORTCUT.galley(ui, at.to_string(), theme.t3);
            let left = x(at) - text.size().x / 2.0;
            ui.painter().galley(pos2(left, plot.bottom() + 6.0), text, theme.t3);
        }
        let place = |points: Points<'_>| -> Vec<egui::Pos2> { points.iter().map(|(at, y)| pos2(x(*at), scale.y(plot, *y))).collect() };
        if let Some((points, words)) = self.overlay {
            let line = place(points);
            ui.painter()
                .extend(Shape::dashed_line(&line, Stroke::new(1.25, theme.series.plain), 3.0, 3.0));
            end_words(ui, theme, plot, line.last(), words, -1.0);
        }
        if let Some((points, words)) = self.second {
            let line = place(points);
            for point in &line {
                ui.painter().circle_filled(*point, 2.5, theme.series.plain);
            }
            let end = line.last().copied();
            ui.painter().line(line, Stroke::new(1.5, theme.series.plain));
            end_words(ui, theme, plot, end.as_ref(), words, -1.0);
        }
        let line = place(self.points);
        ui.painter().line(line.clone(), Stroke::new(2.0, theme.series.accepted));
        for (point, (at, value)) in line.iter().zip(self.points) {
            Self::mark(ui, theme, *point, Some(*at) == self.chosen);
            let text = Type::LABEL.galley(ui, number(*value), theme.t1);
            let half = text.size() / 2.0;
            // Below the line, where the overlay is not; at the floor there is no room.
            let below = point.y + 8.0 + text.size().y < plot.bottom();
            let y = if below { point.y + 7.0 } else { point.y - 8.0 - text.size().y };
            // Beside the knee's line, not on it.
            let x = if self.knee.is_some_and(|knee| knee.0 == *at) {
                point.x + 7.0
            } else {
                point.x - half.x
            };
            ui.painter().galley(pos2(x, y), text, theme.t1);
        }
        for (at, value) in self.points {
            let column = Rect::from_x_y_ranges(x(*at) - slot / 2.0..=x(*at) + slot / 2.0, plot.y_range());
            let hover = ui.interact(column, response.id.with(at), Sense::hover());
            hover.widget_info(|| WidgetInfo::labeled(Role::Label, true, format!("{at} {}: {} {}", self.axis, number(*value), self.unit)));
            let term = format!("{} {}", at, self.axis);
            crate::tip(hover, &term, &self.at(*at, *value));
        }
        response
    }

    fn words(&self) -> String {
        let ends = self.points.first().zip(self.points.last());
        ends.map_or_else(
            || self.label.to_owned(),
            |((from, low), (to, high))| {
                let (low, high) = (number(*low), number(*high));
                t!(
                    curve_words,
                    label = self.label,
                    low = low,
                    unit = self.unit,
                    from = from,
                    high = high,
                    to = to,
                    axis = self.axis
                )
            },
        )
    }

    /// Everything known at one place.
    fn at(&self, at: usize, value: f32) -> String {
        let mut words = format!("{} {} {}.", dspark_strings::within(self.label), number(value), self.unit);
        for (points, name) in self.overlay.into_iter().chain(self.second) {
            if let Some((_, other)) = points.iter().find(|point| point.0 == at) {
                let _ = write!(words, " {name}: {} {}.", number(*other), self.unit);
            }
        }
        words
    }

    fn shade(ui: &Ui, theme: &Theme, plot: Rect, x: f32, words: &str) {
        let fill = theme.series.plain.gamma_multiply(if theme.dark { 0.09 } else { 0.10 });
        let side = Rect::from_min_max(pos2(x, plot.top()), plot.max);
        ui.painter().rect_filled(side, 0, fill);
        let ends = [pos2(x.round() + 0.5, plot.top()), pos2(x.round() + 0.5, plot.bottom())];
        ui.painter()
            .extend(Shape::dashed_line(&ends, Stroke::new(1.0, theme.series.ceiling), 4.0, 4.0));
        let text = Type::SHORTCUT.galley(ui, words, theme.t2);
        let left = if x + 8.0 + text.size().x > plot.right() {
            x - 8.0 - text.size().x
        } else {
            x + 8.0
        };
        ui.painter().galley(pos2(left, plot.top() + 3.0), text, theme.t2);
    }

    fn mark(ui: &Ui, theme: &Theme, at: egui::Pos2, chosen: bool) {
        let painter = ui.painter();
        if chosen {
            painter.circle_filled(at, 5.5, theme.series.accepted);
        } else {
            painter.circle(at, 3.5, theme.panel, Stroke::new(1.5, theme.series.accepted));
        }
    }
}

fn end_words(ui: &Ui, theme: &Theme, plot: Rect, end: Option<&egui::Pos2>, words: &str, side: f32) {
    let Some(end) = end else { return };
    let text = Type::SHORTCUT.galley(ui, words, theme.t2);
    let size = text.size();
    let left = (end.x - size.x / 2.0).clamp(plot.left(), plot.right() - size.x);
    let y = if side < 0.0 { end.y - size.y - 6.0 } else { end.y + 6.0 };
    ui.painter().galley(pos2(left, y), text, theme.t2);
}

/// One decimal, none from 100 on.
fn number(value: f32) -> String {
    if value >= 100.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.1}")
    }
}

/// A short line over the bar at `index`: what was measured where the bar is a prediction.
pub(super) fn level(ui: &Ui, theme: &Theme, x: egui::Rangef, y: f32, (plot, free): (Rect, bool), words: &str) {
    let ink: Color32 = theme.t1;
    paint::hline(ui.painter(), x, y - 1.0, ink);
    paint::hline(ui.painter(), x, y, ink);
    let text = Type::LABEL.galley(ui, words, ink);
    let size = text.size();
    let at = if free && x.max + 8.0 + size.x <= plot.right() {
        pos2(x.max + 8.0, y - size.y / 2.0)
    } else {
        // The neighbour is as high: there is room above only.
        let left = (x.center() - size.x / 2.0).clamp(plot.left(), (plot.right() - size.x).max(plot.left()));
        pos2(left, y - size.y - 4.0)
    };
    ui.painter().galley(at, text, ink);
}
