//! The ceiling that memory sets over the length of the context, with the replies that were made under it or above it.

use dspark_strings::t;
use egui::{Mesh, Pos2, Response, Role, Sense, Shape, Stroke, StrokeKind, Ui, WidgetInfo, pos2, vec2};

use super::{Scale, grid, plot_rect, x_labels};
use crate::{Theme, Type};

/// Rates in tokens a second over tokens of context.
pub struct RooflinePlot<'a> {
    /// Ceiling of plain decoding at a context.
    pub ceiling: &'a dyn Fn(usize) -> f64,
    /// Tokens at the right edge.
    pub window: usize,
    /// Under the curve: "plain-decode ceiling = 226 GB/s ÷ bytes per token".
    pub words: &'a str,
    /// Replies as context and rate, oldest first; the last one is marked.
    pub replies: &'a [(usize, f64)],
    /// One plain step as measured, with the context that it was measured at.
    pub plain: Option<(usize, f64)>,
}

/// Points of the drawn curve.
const STEPS: usize = 48;

impl RooflinePlot<'_> {
    pub fn show(&self, ui: &mut Ui, height: f32) -> Response {
        let theme = Theme::of(ui);
        let (rect, response) = ui.allocate_exact_size(vec2(ui.available_width(), height), Sense::hover());
        let (most, least) = ((self.ceiling)(0), (self.ceiling)(self.window));
        response.widget_info(|| {
            let words = t!(
                ceiling_words,
                most = format!("{most:.1}"),
                least = format!("{least:.1}"),
                window = self.window
            );
            WidgetInfo::labeled(Role::Figure, true, words)
        });
        if !ui.is_rect_visible(rect) || self.window == 0 {
            return response;
        }
        let plot = plot_rect(rect, true);
        let highest = self
            .replies
            .iter()
            .map(|reply| reply.1)
            .chain(self.plain.map(|plain| plain.1))
            .fold(most, f64::max);
        let scale = Scale::for_max(highest as f32 * 1.1);
        let place = |context: usize, rate: f64| -> Pos2 {
            let part = (context as f32 / self.window as f32).min(1.0);
            pos2(plot.left() + plot.width() * part, scale.y(plot, rate as f32))
        };
        let curve: Vec<Pos2> = (0..=STEPS)
            .map(|step| self.window * step / STEPS)
            .map(|context| place(context, (self.ceiling)(context)))
            .collect();
        let mut fill = Mesh::default();
        for (i, point) in curve.iter().enumerate() {
            fill.colored_vertex(*point, theme.series.ceiling.gamma_multiply(0.09));
            fill.colored_vertex(pos2(point.x, plot.bottom()), theme.series.ceiling.gamma_multiply(0.09));
            if i > 0 {
                let k = 2 * i as u32;
                fill.add_triangle(k - 2, k - 1, k);
                fill.add_triangle(k - 1, k, k + 1);
            }
        }
        ui.painter().add(Shape::mesh(fill));
        grid(ui, plot, scale, true);
        self.axis(ui, plot);
        ui.painter().line(curve, Stroke::new(1.75, theme.series.ceiling));
        let end = Type::LABEL.galley(ui, format!("{least:.1}"), theme.t1);
        let at = place(self.window, least) - vec2(end.size().x, end.size().y + 3.0);
        ui.painter().galley(at, end, theme.t1);
        let words = Type::SHORTCUT.galley(ui, self.words, theme.t3);
        let below = place(self.window * 3 / 4, (self.ceiling)(self.window * 3 / 4)).y + 18.0;
        if below + words.size().y < plot.bottom() {
            ui.painter()
                .galley(pos2(plot.right() - 4.0 - words.size().x, below), words, theme.t3);
        }
        if let Some((context, rate)) = self.plain {
            let mark = place(context, rate);
            let square = egui::Rect::from_center_size(mark, vec2(8.0, 8.0));
            ui.painter()
                .rect_stroke(square, 0, Stroke::new(1.5, theme.series.ceiling), StrokeKind::Middle);
            let words = Type::SHORTCUT.galley(ui, t!(plain_step_rate, rate = format!("{rate:.1}")), theme.t3);
            ui.painter().galley(mark + vec2(10.0, 4.0), words, theme.t3);
        }
        if let Some(((context, rate), past)) = self.replies.split_last() {
            for (context, rate) in past {
                ui.painter()
                    .circle_stroke(place(*context, *rate), 3.0, Stroke::new(1.25, theme.series.accepted));
            }
            Self::last(
                ui,
                theme,
                plot,
                (place(*context, *rate), place(*context, (self.ceiling)(*context))),
                *rate,
                (self.ceiling)(*context),
            );
        }
        response
    }

    /// The last reply: a solid mark, a dotted drop to the curve, and how many times the ceiling that is.
    fn last(ui: &Ui, theme: &Theme, plot: egui::Rect, (mark, foot): (Pos2, Pos2), rate: f64, ceiling: f64) {
        let ink = theme.series.accepted;
        ui.painter().extend(Shape::dotted_line(&[mark, foot], ink, 3.5, 0.8));
        ui.painter().circle_filled(mark, 5.0, theme.panel);
        ui.painter().circle_filled(mark, 3.5, ink);
        let right = mark.x + 190.0 < plot.right();
        let beside = |galley: &egui::Galley, y: f32| {
            let x = if right { mark.x + 12.0 } else { mark.x - 12.0 - galley.size().x };
            pos2(x, y - galley.size().y / 2.0)
        };
        let words = Type::LABEL.galley(ui, t!(last_reply_rate, rate = format!("{rate:.1}")), theme.t1);
        // Off the point when the curve is close, so that the words stay readable.
        let above = if (mark.y - foot.y).abs() < 28.0 { -14.0 } else { -10.0 };
        let at = beside(&words, mark.y + above);
        ui.painter().galley(at, words, theme.t1);
        if ceiling > 0.0 && (mark.y - foot.y).abs() >= 28.0 {
            let times = Type::LABEL.galley(ui, format!("{:.2}×", rate / ceiling), theme.accent);
            let at = beside(&times, f32::midpoint(mark.y, foot.y));
            ui.painter().galley(at, times, theme.accent);
        }
    }

    fn axis(&self, ui: &Ui, plot: egui::Rect) {
        let step = [1024, 2048, 4096, 8192, 16_384, 32_768, 65_536]
            .into_iter()
            .find(|step| self.window / step <= 6)
            .unwrap_or(self.window.max(1));
        let labels: Vec<(f32, String)> = (0..=self.window / step)
            .map(|nth| nth * step)
            .filter(|tokens| self.window - tokens >= step / 2 || *tokens == self.window)
            .map(|tokens| {
                let words = match tokens {
                    0 => "0".to_owned(),
                    tokens if tokens == self.window => t!(context_k, k = tokens >> 10),
                    tokens => format!("{}k", tokens >> 10),
                };
                (tokens as f32 / self.window as f32, words)
            })
            .collect();
        let mut labels: Vec<(f32, &str)> = labels.iter().map(|(part, words)| (*part, words.as_str())).collect();
        let end = t!(context_k, k = self.window >> 10);
        if labels.last().is_none_or(|last| last.0 < 1.0) {
            labels.push((1.0, end.as_str()));
        }
        x_labels(ui, plot, &labels);
    }
}
