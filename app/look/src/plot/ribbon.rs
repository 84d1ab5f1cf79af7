//! The accept ribbon: one column a round, all columns in one mesh.

use dspark_strings::t;
use egui::{Color32, Mesh, Rect, Response, Role, Sense, Shape, Ui, WidgetInfo, pos2, vec2};

use crate::{Theme, Type};

/// One step of the engine, oldest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RibbonItem {
    /// A round: tokens drafted, and how many of them were accepted. Every round adds one target token.
    Round { accepted: u8, drafted: u8, lookup: bool },
    /// A prompt was read.
    Prefill { tokens: u64 },
}

const COLUMN: f32 = 6.0;
const SLAB: f32 = 30.0;
const HEIGHT: f32 = 120.0;

fn width(item: RibbonItem) -> f32 {
    if matches!(item, RibbonItem::Prefill { .. }) { SLAB } else { COLUMN }
}

/// The newest rounds that fit, newest at the right. `cap` is the largest draft: it sets the unit of height.
pub fn accept_ribbon(ui: &mut Ui, items: &[RibbonItem], cap: u8) -> Response {
    let theme = Theme::of(ui);
    let (rect, response) = ui.allocate_exact_size(vec2(ui.available_width(), HEIGHT + 14.0), Sense::hover());
    response.widget_info(|| WidgetInfo::labeled(Role::Figure, true, t!(accept_ribbon_rounds, rounds = items.len())));
    if !ui.is_rect_visible(rect) {
        return response;
    }
    let mut start = items.len();
    let mut used = -1.0;
    while start > 0 && used + width(items[start - 1]) <= rect.width() {
        start -= 1;
        used += width(items[start]);
    }
    let unit = HEIGHT / f32::from(cap.max(1) + 1);
    let mut mesh = Mesh::default();
    // Once it is full, the newest stands at the right edge and the rest is cut off at the left.
    let mut x = if start > 0 { rect.right() - used } else { rect.left() };
    let mut hovered = None;
    for item in &items[start..] {
        let column = Rect::from_min_size(pos2(x, rect.top()), vec2(width(*item), HEIGHT));
        if response.hover_pos().is_some_and(|p| column.x_range().contains(p.x)) {
            hovered = Some(*item);
        }
        match *item {
            RibbonItem::Round { accepted, drafted, lookup } => round(&mut mesh, theme, column, unit, (accepted, drafted.min(cap), lookup)),
            RibbonItem::Prefill { .. } => slab(ui, theme, column),
        }
        x += width(*item);
    }
    ui.painter().add(Shape::mesh(mesh));
    match hovered {
        Some(RibbonItem::Round { drafted: 0, .. }) => crate::tip(response, t!(round), t!(ribbon_plain_step)),
        Some(RibbonItem::Round { accepted, drafted, lookup }) => {
            let source = if lookup { t!(ribbon_lookup) } else { t!(ribbon_drafter) };
            crate::tip(
                response,
                t!(round),
                &t!(ribbon_accepted, accepted = accepted, drafted = drafted, source = source),
            )
        }
        Some(RibbonItem::Prefill { tokens: 0 }) => crate::tip(response, t!(prefill), t!(ribbon_prompt)),
        Some(RibbonItem::Prefill { tokens }) => crate::tip(response, t!(prefill), &t!(ribbon_prompt_tokens, tokens = tokens)),
        None => response,
    }
}

/// From the floor: the target's token, the accepted ones, a ghost for the rest of the draft.
fn round(mesh: &mut Mesh, theme: &Theme, column: Rect, unit: f32, (accepted, drafted, lookup): (u8, u8, bool)) {
    let series = &theme.series;
    let (left, right) = (column.left(), column.left() + COLUMN - 1.0);
    let mut block = |from: f32, to: f32, color: Color32| {
        let (low, high) = (column.bottom() - unit * from, column.bottom() - unit * to);
        if low - high > 1.0 {
            mesh.add_colored_rect(
                Rect::from_min_max(pos2(left, high), pos2(right, low - if from > 0.0 { 1.0 } else { 0.0 })),
                color,
            );
        }
    };
    let accepted = accepted.min(drafted);
    block(0.0, 1.0, series.plain.gamma_multiply(0.7));
    block(1.0, 1.0 + f32::from(accepted), if lookup { series.lookup } else { series.accepted });
    block(
        1.0 + f32::from(accepted),
        1.0 + f32::from(drafted),
        series.drafted.gamma_multiply(0.38),
    );
    if lookup {
        let center = pos2(f32::midpoint(left, right), column.bottom() + 7.5);
        let first = mesh.vertices.len() as u32;
        for corner in [vec2(0.0, -3.5), vec2(3.0, 0.0), vec2(0.0, 3.5), vec2(-3.0, 0.0)] {
            mesh.colored_vertex(center + corner, series.lookup);
        }
        mesh.add_triangle(first, first + 1, first + 2);
        mesh.add_triangle(first, first + 2, first + 3);
    }
}

/// 23 wide with its word turned.
fn slab(ui: &Ui, theme: &Theme, column: Rect) {
    let slab = Rect::from_min_max(pos2(column.left() + 3.0, column.top()), pos2(column.left() + 26.0, column.bottom()));
    ui.painter().rect_filled(slab, 2, theme.hover);
    let text = Type::SHORTCUT.galley(ui, t!(ribbon_prefill), theme.t3);
    let size = text.size();
    let origin = pos2(slab.center().x - size.y / 2.0, slab.center().y + size.x / 2.0);
    ui.painter()
        .add(egui::epaint::TextShape::new(origin, text, theme.t3).with_angle(-std::f32::consts::FRAC_PI_2));
}
