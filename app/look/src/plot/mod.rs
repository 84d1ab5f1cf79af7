//! Plots drawn with the painter: no frame, no vertical grid, no legend box. A live view moves only
//! because its data did; values never tween.

mod bars;
mod curve;
mod line;
mod ribbon;
mod roofline;

pub use bars::{Bar, BarPlot, Share, share_bar};
pub use curve::{CurvePlot, Points};
pub use line::LinePlot;
pub use ribbon::{RibbonItem, accept_ribbon};
pub use roofline::RooflinePlot;

use egui::{Rangef, Rect, Ui, pos2};

use crate::{Theme, Type, paint};

/// A scale from 0 to `top` in equal steps; rates and times start at 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    pub top: f32,
    pub step: f32,
}

impl Scale {
    /// Three to five grid steps of 1, 2, 2.5 or 5 times a power of ten, the largest value below the top line.
    pub fn for_max(max: f32) -> Self {
        let max = if max.is_finite() && max > 0.0 { max } else { 1.0 };
        let power = 10_f32.powf((max / 5.0).log10().floor());
        let step = [1.0, 2.0, 2.5, 5.0, 10.0]
            .into_iter()
            .map(|m| m * power)
            .find(|step| max <= step * 5.0)
            .unwrap_or(power * 10.0);
        let top = (max / step).ceil().max(3.0) * step;
        Self { top, step }
    }

    /// The height of `value` in `plot`.
    pub fn y(self, plot: Rect, value: f32) -> f32 {
        plot.bottom() - plot.height() * (value / self.top).clamp(0.0, 1.0)
    }

    fn lines(self) -> impl Iterator<Item = f32> {
        let count = (self.top / self.step).round() as usize;
        (0..=count).map(move |i| i as f32 * self.step)
    }
}

/// Grid lines over `plot`; with `labels`, their values right aligned 8 pt off it.
pub(crate) fn grid(ui: &Ui, plot: Rect, scale: Scale, labels: bool) {
    let theme = Theme::of(ui);
    for value in scale.lines() {
        let y = scale.y(plot, value);
        paint::hline(ui.painter(), plot.x_range(), y.round(), theme.line);
        if labels {
            let text = if scale.step < 1.0 {
                format!("{value:.1}")
            } else {
                format!("{value:.0}")
            };
            let text = Type::SHORTCUT.galley(ui, text, theme.t3);
            let size = text.size();
            ui.painter()
                .galley(pos2(plot.left() - 8.0 - size.x, y - size.y / 2.0), text, theme.t3);
        }
    }
}

/// Dashed 4/4 reference line with its words above, at the right.
pub(crate) fn reference(ui: &Ui, plot: Rect, scale: Scale, value: f32, words: &str) {
    let theme = Theme::of(ui);
    let y = scale.y(plot, value).round() + 0.5;
    let stroke = egui::Stroke::new(1.0, theme.series.ceiling);
    ui.painter().extend(egui::Shape::dashed_line(
        &[pos2(plot.left(), y), pos2(plot.right(), y)],
        stroke,
        4.0,
        4.0,
    ));
    if words.is_empty() {
        return;
    }
    let text = Type::SHORTCUT.galley(ui, words, theme.t2);
    let size = text.size();
    ui.painter()
        .galley(pos2(plot.right() - 4.0 - size.x, y - size.y - 3.0), text, theme.t2);
}

/// Labels under the plot at parts (0 to 1) of its width; the first and the last stay inside it.
pub(crate) fn x_labels(ui: &Ui, plot: Rect, labels: &[(f32, &str)]) {
    let theme = Theme::of(ui);
    for (part, text) in labels {
        let text = Type::SHORTCUT.galley(ui, *text, theme.t3);
        let width = text.size().x;
        let x = plot.left() + plot.width() * part - width / 2.0;
        let x = x.clamp(plot.left(), (plot.right() - width).max(plot.left()));
        ui.painter().galley(pos2(x, plot.bottom() + 6.0), text, theme.t3);
    }
}

/// Room for axis labels at the left of a plot.
pub(crate) const AXIS: f32 = 34.0;

/// The plot inside `rect`: labels below, and at the left when there is an axis.
pub(crate) fn plot_rect(rect: Rect, axis: bool) -> Rect {
    let left = rect.left() + if axis { AXIS } else { 0.0 };
    Rect::from_x_y_ranges(Rangef::new(left, rect.right()), Rangef::new(rect.top() + 8.0, rect.bottom() - 26.0))
}

#[cfg(test)]
mod tests {
    use super::Scale;

    #[test]
    fn scales_are_round_and_hold_their_values() {
        for max in [0.003_f32, 0.7, 1.0, 4.9, 66.2, 84.0, 100.0, 101.0, 148.0, 999.0, 12_345.0] {
            let scale = Scale::for_max(max);
            let lines = scale.lines().count() - 1;
            assert!((3..=5).contains(&lines), "{max}: {lines} steps");
            assert!(scale.top >= max && scale.top <= max * 3.1, "{max}: {}", scale.top);
        }
        assert_eq!(Scale::for_max(84.0), Scale { top: 100.0, step: 20.0 });
        for odd in [0.0, -1.0, f32::NAN, f32::INFINITY] {
            assert!(Scale::for_max(odd).top > 0.0);
        }
    }
}
