//! Bars with their value above or inside, and a bar of shares.

use egui::{Color32, CornerRadius, Rect, Response, Role, Sense, Ui, WidgetInfo, pos2, vec2};

use super::{Scale, grid, plot_rect};
use crate::{Theme, Type, paint, space::radius};

/// One bar.
#[derive(Clone, Copy, Debug)]
pub struct Bar<'a> {
    /// Under the bar.
    pub label: &'a str,
    pub value: f32,
    /// The value in words: "77%", "148".
    pub text: &'a str,
    pub color: Color32,
}

/// Bars side by side.
pub struct BarPlot<'a> {
    pub label: &'a str,
    pub bars: &'a [Bar<'a>],
    /// Values at the left; without them the grid has no numbers.
    pub axis: bool,
    /// Scale; from the largest bar otherwise.
    pub top: Option<f32>,
    /// Draw the rest up to the top as a ghost: what was drafted and not kept.
    pub ghost: bool,
    /// Values inside the bars' tops instead of above them.
    pub inside: bool,
    /// What was measured where the bars are predictions: index of the bar, value, its words.
    pub measured: Option<(usize, f32, &'a str)>,
    /// Dashed line with its words.
    pub reference: Option<(f32, &'a str)>,
}

impl<'a> BarPlot<'a> {
    /// Bars with their values above, scaled by the largest, without axis, ghost, or lines.
    pub fn new(label: &'a str, bars: &'a [Bar<'a>]) -> Self {
        Self {
            label,
            bars,
            axis: false,
            top: None,
            ghost: false,
            inside: false,
            measured: None,
            reference: None,
        }
    }
}

impl BarPlot<'_> {
    pub fn show(&self, ui: &mut Ui, height: f32) -> Response {
        let theme = Theme::of(ui);
        let (rect, response) = ui.allocate_exact_size(vec2(ui.available_width(), height), Sense::hover());
        response.widget_info(|| WidgetInfo::labeled(Role::Figure, true, self.label));
        if !ui.is_rect_visible(rect) || self.bars.is_empty() {
            return response;
        }
        let plot = plot_rect(rect, self.axis);
        // Room for the words above the largest bar.
        let room = if self.inside { 1.0 } else { 1.12 };
        let lines = self.measured.map(|m| m.1).into_iter().chain(self.reference.map(|r| r.0));
        let highest = self.bars.iter().map(|b| b.value).chain(lines).fold(0.0, f32::max) * room;
        let scale = self
            .top
            .map_or_else(|| Scale::for_max(highest), |top| Scale { top, step: top / 4.0 });
        grid(ui, plot, scale, self.axis);
        let slot = plot.width() / self.bars.len() as f32;
        let width = (slot * 0.68).min(38.0).round();
        for (i, bar) in self.bars.iter().enumerate() {
            let left = (plot.left() + slot * (i as f32 + 0.5) - width / 2.0).round();
            let top = scale.y(plot, bar.value).round();
            let filled = Rect::from_min_max(pos2(left, top), pos2(left + width, plot.bottom()));
            if self.ghost {
                let all = Rect::from_min_max(pos2(left, plot.top()), pos2(left + width, plot.bottom()));
                ui.painter()
                    .rect_filled(all, radius::BAR, theme.series.drafted.gamma_multiply(0.38));
            }
            ui.painter().rect_filled(filled, radius::BAR, bar.color);
            let column = Rect::from_min_max(
                pos2(plot.left() + slot * i as f32, plot.top()),
                pos2(plot.left() + slot * (i + 1) as f32, rect.bottom()),
            );
            let tile = ui.interact(column, response.id.with(i), Sense::hover());
            tile.widget_info(|| WidgetInfo::labeled(Role::Label, true, format!("{} {}", bar.label, bar.text)));
            self.value(ui, theme, bar, filled, plot);
            let label = Type::SHORTCUT.galley(ui, bar.label, theme.t3);
            ui.painter()
                .galley(pos2(left + (width - label.size().x) / 2.0, plot.bottom() + 6.0), label, theme.t3);
        }
        if let Some((value, words)) = self.reference {
            super::reference(ui, plot, scale, value, words);
        }
        if let Some((at, value, words)) = self.measured {
            let middle = plot.left() + slot * (at as f32 + 0.5);
            let x = egui::Rangef::new((middle - width / 2.0 - 7.0).round(), (middle + width / 2.0 + 7.0).round());
            let y = scale.y(plot, value).round();
            let next = self.bars.get(at + 1);
            let free = next.is_none_or(|next| scale.y(plot, next.value) > y + 12.0);
            super::curve::level(ui, theme, x, y, (plot, free), words);
        }
        response
    }

    fn value(&self, ui: &Ui, theme: &Theme, bar: &Bar<'_>, filled: Rect, plot: Rect) {
        // Inside only where the bar has room, in whichever ink reads better on it.
        let inside = self.inside && filled.height() > 22.0;
        let ink = match (
            inside,
            crate::theme::contrast(theme.t1, bar.color) >= crate::theme::contrast(theme.base, bar.color),
        ) {
            (false, _) | (true, true) => theme.t1,
            (true, false) => theme.base,
        };
        let text = Type::LABEL.galley(ui, bar.text, ink);
        let size = text.size();
        let y = if inside {
            filled.top() + 5.0
        } else {
            (filled.top() - size.y - 2.0).max(plot.top() - 2.0)
        };
        ui.painter().galley(pos2(filled.center().x - size.x / 2.0, y), text, ink);
    }
}

/// A part of [`share_bar`].
#[derive(Clone, Copy, Debug)]
pub struct Share<'a> {
    pub name: &'a str,
    pub part: f32,
    pub color: Color32,
}

/// 10 pt bar of parts that add up to one, 1 pt apart; the ends are round.
pub fn share_bar(ui: &mut Ui, label: &str, shares: &[Share<'_>], width: f32) -> Response {
    let (rect, response) = ui.allocate_exact_size(vec2(width, 10.0), Sense::hover());
    let words: Vec<String> = shares.iter().map(|s| format!("{} {:.1}%", s.name, s.part * 100.0)).collect();
    response.widget_info(|| WidgetInfo::labeled(Role::Figure, true, format!("{label}: {}", words.join(", "))));
    let sum: f32 = shares.iter().map(|s| s.part.max(0.0)).sum();
    if sum <= 0.0 {
        paint::bar(ui.painter(), rect, 0.0, Theme::of(ui).press, Color32::TRANSPARENT);
        return response;
    }
    let mut x = rect.left();
    let last = shares.iter().rposition(|s| s.part > 0.0).unwrap_or(0);
    for (i, share) in shares.iter().enumerate().filter(|(_, s)| s.part > 0.0) {
        let whole = width * share.part / sum;
        let shown = if i == last { rect.right() - x } else { (whole - 1.0).max(1.0) };
        let (first, end) = (x <= rect.left(), i == last);
        let corner = |on: bool| if on { 3 } else { 0 };
        let round = CornerRadius {
            nw: corner(first),
            sw: corner(first),
            ne: corner(end),
            se: corner(end),
        };
        ui.painter()
            .rect_filled(Rect::from_min_size(pos2(x, rect.top()), vec2(shown, 10.0)), round, share.color);
        x += whole;
    }
    response
}
