//! Memory bar: what a model would take, part by part, against what the machine allows.

use dspark_strings::t;
use egui::{Color32, CornerRadius, Rect, Response, Role, Sense, Ui, WidgetInfo, pos2, vec2};

use crate::{Theme, Type, paint};

/// One part of the sum. Bytes and their name; the colour comes from the theme's memory ramp.
#[derive(Clone, Copy, Debug)]
pub struct MemoryPart<'a> {
    pub name: &'a str,
    pub gigabytes: f64,
    pub color: Color32,
}

/// 14 pt bar with 1 pt gaps. `marks` are limits in GB with their names; `total` is the full width.
pub fn memory_bar(ui: &mut Ui, parts: &[MemoryPart<'_>], marks: &[(f64, &str)], total: f64, width: f32) -> Response {
    let theme = Theme::of(ui);
    let (rect, response) = ui.allocate_exact_size(vec2(width, 40.0), Sense::hover());
    let sum: f64 = parts.iter().map(|p| p.gigabytes).sum();
    response.widget_info(|| {
        WidgetInfo::labeled(
            Role::Meter,
            true,
            t!(memory_of, sum = format!("{sum:.1}"), total = format!("{total:.1}")),
        )
    });
    let bar = Rect::from_min_size(rect.min, vec2(width, 14.0));
    let painter = ui.painter();
    let round = 4;
    painter.rect_filled(bar, CornerRadius::same(round), theme.hover);
    let scale = f64::from(width) / total.max(f64::MIN_POSITIVE);
    let mut x = bar.left();
    for (i, part) in parts.iter().enumerate() {
        let whole = (part.gigabytes * scale) as f32;
        // 1 pt of air between segments; the smallest stay visible.
        let shown = (whole - 1.0).max(1.2).min(bar.right() - x);
        if shown <= 0.0 {
            break;
        }
        let radius = CornerRadius {
            nw: if i == 0 { round } else { 0 },
            sw: if i == 0 { round } else { 0 },
            ne: if x + shown >= bar.right() - 1.0 { round } else { 0 },
            se: if x + shown >= bar.right() - 1.0 { round } else { 0 },
        };
        painter.rect_filled(Rect::from_min_size(pos2(x, bar.top()), vec2(shown, 14.0)), radius, part.color);
        x += shown + 1.0;
    }
    let ink = theme.t3;
    let end = Type::SHORTCUT.galley(ui, format!("{total:.1}"), ink);
    let free = bar.right() - end.size().x - 8.0;
    painter.galley(pos2(bar.right() - end.size().x, bar.top() + 22.0), end, ink);
    for (at, name) in marks {
        let x = bar.left() + (at * scale) as f32;
        painter.rect_filled(
            Rect::from_min_size(pos2(x.round(), bar.top()), vec2(1.0, 20.0)),
            0,
            theme.t1.gamma_multiply(0.75),
        );
        let text = Type::SHORTCUT.galley(ui, *name, ink);
        if x < free {
            painter.galley(pos2((x - text.size().x).max(bar.left()), bar.top() + 22.0), text, ink);
        }
    }
    response
}

/// The parts by name and GB in two columns, 24 a line.
pub fn memory_legend(ui: &mut Ui, parts: &[MemoryPart<'_>], width: f32) {
    let theme = Theme::of(ui);
    let lines = parts.len().div_ceil(2);
    let (rect, response) = ui.allocate_exact_size(vec2(width, lines as f32 * 24.0), Sense::hover());
    let column = (width - 40.0) / 2.0;
    for (i, part) in parts.iter().enumerate() {
        let at = rect.min + vec2((column + 40.0) * (i / lines) as f32, 24.0 * (i % lines) as f32);
        let line = Rect::from_min_size(at, vec2(column, 24.0));
        let row = ui.interact(line, response.id.with(i), Sense::hover());
        row.widget_info(|| WidgetInfo::labeled(Role::Label, true, format!("{} {:.2} GB", part.name, part.gigabytes)));
        let square = Rect::from_center_size(pos2(line.left() + 4.0, line.center().y), vec2(8.0, 8.0));
        ui.painter().rect_filled(square, 2, part.color);
        let value = Type::NOTE.galley(ui, format!("{:.2}", part.gigabytes), theme.t1);
        let name = Type::NOTE.ellipsis(ui, part.name, theme.t2, column - 17.0 - value.size().x - 8.0);
        paint::text_left(ui.painter(), line, line.left() + 17.0, name, theme.t2);
        paint::text_right(ui.painter(), line, line.right(), value, theme.t1);
    }
}
