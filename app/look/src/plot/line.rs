//! A line over time: gaps stay gaps, the last point is marked, the nearest value shows on hover.

use egui::{Color32, Mesh, Pos2, Rect, Response, Role, Sense, Shape, Stroke, Ui, WidgetInfo, pos2, vec2};

use super::{Scale, grid, plot_rect, reference, x_labels};
use crate::{Theme, paint};

/// One series, equally spaced.
pub struct LinePlot<'a> {
    /// Accessible name and the term of the tooltip: "Decode rate".
    pub label: &'a str,
    pub unit: &'a str,
    /// Oldest first; `None` where nothing was measured (prefill).
    pub values: &'a [Option<f32>],
    /// Dashed line with its words.
    pub reference: Option<(f32, &'a str)>,
    /// Labels under the plot at parts of its width.
    pub x_labels: &'a [(f32, &'a str)],
    /// The fade under the line, the one gradient of the interface.
    pub fade: bool,
}

impl LinePlot<'_> {
    pub fn show(&self, ui: &mut Ui, height: f32) -> Response {
        let theme = Theme::of(ui);
        let (rect, response) = ui.allocate_exact_size(vec2(ui.available_width(), height), Sense::hover());
        let last = self.values.iter().rev().find_map(|v| *v);
        response.widget_info(|| {
            WidgetInfo::labeled(
                Role::Figure,
                true,
                format!("{} {:.1} {}", self.label, last.unwrap_or(0.0), self.unit),
            )
        });
        if !ui.is_rect_visible(rect) {
            return response;
        }
        let plot = plot_rect(rect, true);
        let highest = self
            .values
            .iter()
            .flatten()
            .copied()
            .fold(self.reference.map_or(0.0, |r| r.0), f32::max);
        let scale = Scale::for_max(highest);
        grid(ui, plot, scale, true);
        x_labels(ui, plot, self.x_labels);
        let point = |i: usize, v: f32| {
            let part = if self.values.len() > 1 {
                i as f32 / (self.values.len() - 1) as f32
            } else {
                1.0
            };
            pos2(plot.left() + plot.width() * part, scale.y(plot, v))
        };
        for run in runs(self.values) {
            let points: Vec<Pos2> = run.clone().filter_map(|i| self.values[i].map(|v| point(i, v))).collect();
            if self.fade {
                ui.painter().add(Shape::mesh(fade(&points, plot, theme.series.accepted)));
            }
            ui.painter().line(points, Stroke::new(1.5, theme.series.accepted));
        }
        if let Some((value, words)) = self.reference {
            reference(ui, plot, scale, value, words);
        }
        if let Some(i) = self.values.iter().rposition(Option::is_some)
            && let Some(v) = self.values[i]
        {
            ui.painter().circle_filled(point(i, v), 5.0, theme.panel);
            ui.painter().circle_filled(point(i, v), 3.5, theme.series.accepted);
        }
        self.hover(ui, theme, plot, response, point)
    }

    fn hover(&self, ui: &Ui, theme: &Theme, plot: Rect, response: Response, point: impl Fn(usize, f32) -> Pos2) -> Response {
        let Some(at) = response.hover_pos().filter(|p| plot.contains(*p)) else {
            return response;
        };
        let wanted = ((at.x - plot.left()) / plot.width() * (self.values.len().saturating_sub(1)) as f32).round() as usize;
        let near = self
            .values
            .iter()
            .enumerate()
            .filter_map(|(i, v)| v.map(|v| (i, v)))
            .min_by_key(|(i, _)| i.abs_diff(wanted));
        let Some((i, v)) = near else { return response };
        let mark = point(i, v);
        paint::vline(ui.painter(), mark.x.round(), plot.y_range(), theme.t3);
        ui.painter().circle_filled(mark, 5.0, theme.panel);
        ui.painter().circle_filled(mark, 3.5, theme.accent);
        crate::tip(response, self.label, &format!("{v:.1} {}", self.unit))
    }
}

/// The stretches without a gap.
fn runs(values: &[Option<f32>]) -> Vec<std::ops::Range<usize>> {
    let mut runs = Vec::new();
    let mut start = None;
    for (i, value) in values.iter().enumerate() {
        match (value.is_some(), start) {
            (true, None) => start = Some(i),
            (false, Some(from)) => {
                runs.push(from..i);
                start = None;
            }
            _ => {}
        }
    }
    if let Some(from) = start {
        runs.push(from..values.len());
    }
    runs
}

/// 22 % at the line to nothing at the floor.
fn fade(points: &[Pos2], plot: Rect, color: Color32) -> Mesh {
    let mut mesh = Mesh::default();
    for (i, p) in points.iter().enumerate() {
        // Weaker with depth over the whole plot, so that a low line has a low fade.
        let part = (plot.bottom() - p.y) / plot.height().max(1.0);
        mesh.colored_vertex(*p, color.gamma_multiply(0.22 * part));
        mesh.colored_vertex(pos2(p.x, plot.bottom()), Color32::TRANSPARENT);
        if i > 0 {
            let k = 2 * i as u32;
            mesh.add_triangle(k - 2, k - 1, k);
            mesh.add_triangle(k - 1, k, k + 1);
        }
    }
    mesh
}

#[cfg(test)]
mod tests {
    #[test]
    fn gaps_split_the_line() {
        let v = [None, Some(1.0), Some(2.0), None, None, Some(3.0)];
        assert_eq!(super::runs(&v), [1..3, 5..6]);
        assert!(super::runs(&[]).is_empty());
        assert!(super::runs(&[None, None]).is_empty());
    }
}
