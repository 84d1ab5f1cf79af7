use super::{
    parse::{Inline, Table},
    render::Painter,
    text,
};
use dspark_look::{Type, paint, space::radius};
use egui::{Align, Layout, Rect, ScrollArea, Ui, UiBuilder, pos2, vec2};
use pulldown_cmark::Alignment;

const PAD: egui::Vec2 = vec2(12.0, 7.0);
/// Columns narrower than this are not squeezed further: the table scrolls sideways instead.
const NARROWEST: f32 = 72.0;

pub(super) fn show(painter: &mut Painter<'_>, ui: &mut Ui, table: &Table) {
    let widths = widths(painter, ui, table);
    let total: f32 = widths.iter().sum();
    ScrollArea::horizontal()
        .id_salt(ui.next_auto_id())
        .auto_shrink([false, true])
        .show(ui, |ui| {
            let top = ui.cursor().min;
            let clip = ui.painter().add(egui::Shape::Noop);
            let head = table.head.as_slice();
            let mut y = row(painter, ui, table, head, &widths, top, true);
            for cells in &table.rows {
                paint::hline(ui.painter(), (top.x..=top.x + total).into(), y, painter.theme.line);
                y = row(painter, ui, table, cells, &widths, pos2(top.x, y + 1.0), false);
            }
            let rect = Rect::from_min_max(top, pos2(top.x + total, y));
            ui.painter().set(
                clip,
                egui::epaint::RectShape::new(
                    rect,
                    radius::CARD,
                    painter.theme.panel,
                    egui::Stroke::new(1.0, painter.theme.line),
                    egui::StrokeKind::Inside,
                ),
            );
            ui.allocate_rect(rect, egui::Sense::hover());
        });
}

/// Natural widths where they fit, else shares of the column by content.
fn widths(painter: &Painter<'_>, ui: &Ui, table: &Table) -> Vec<f32> {
    let columns = table.align.len().max(table.head.len()).max(1);
    let mut natural = vec![NARROWEST; columns];
    for (cells, strong) in std::iter::once((&table.head, true)).chain(table.rows.iter().map(|row| (row, false))) {
        for (column, cell) in cells.iter().enumerate().take(columns) {
            let (mut job, _) = text::job(painter.theme, style(painter, strong), cell, painter.tints);
            job.wrap.max_width = f32::INFINITY;
            let width = ui.fonts_mut(|fonts| fonts.layout_job(job)).size().x + 2.0 * PAD.x + 1.0;
            natural[column] = natural[column].max(width);
        }
    }
    let available = ui.available_width();
    let total: f32 = natural.iter().sum();
    if total <= available {
        return natural;
    }
    // Narrow columns keep their width; the wide ones share what is left.
    let fair = available / columns as f32;
    let kept: f32 = natural.iter().filter(|width| **width <= fair).sum();
    let wide: f32 = natural.iter().filter(|width| **width > fair).sum();
    let scale = ((available - kept) / wide.max(1.0)).max(0.0);
    natural
        .into_iter()
        .map(|width| if width <= fair { width } else { (width * scale).max(NARROWEST) })
        .collect()
}

fn style(painter: &Painter<'_>, strong: bool) -> text::Style {
    let base = text::Style {
        base: Type::BASE,
        ..painter.style
    };
    if strong { base.strong() } else { base }
}

fn row(painter: &mut Painter<'_>, ui: &mut Ui, table: &Table, cells: &[Vec<Inline>], widths: &[f32], at: egui::Pos2, strong: bool) -> f32 {
    let mut x = at.x;
    let mut bottom = at.y + 2.0 * PAD.y + Type::BASE.line;
    for (column, width) in widths.iter().enumerate() {
        let cell = Rect::from_min_size(pos2(x, at.y), vec2(*width, f32::INFINITY)).shrink2(PAD);
        let cell = Rect::from_min_size(cell.min, vec2(*width - 2.0 * PAD.x, 10_000.0));
        let align = match table.align.get(column) {
            Some(Alignment::Right) => Align::Max,
            Some(Alignment::Center) => Align::Center,
            _ => Align::Min,
        };
        let mut child = ui.new_child(UiBuilder::new().max_rect(cell).layout(Layout::top_down(align)));
        if let Some(runs) = cells.get(column) {
            let (job, marks) = text::job(painter.theme, style(painter, strong), runs, painter.tints);
            text::show(&mut child, job, &marks, cell.width(), false, &mut painter.events);
        }
        bottom = bottom.max(child.min_rect().bottom() + PAD.y);
        x += width;
    }
    bottom
}
