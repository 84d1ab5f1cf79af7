//! Messages of a chat: the user's bubble, the reasoning block, the tiles of a turn.

use dspark_strings::t;
use egui::{Align, Color32, Label, Layout, Rect, Response, Role, Sense, Stroke, Ui, UiBuilder, WidgetInfo, pos2, vec2};

use crate::{
    Icon, Theme, Type, motion, paint,
    space::{USER_MESSAGE, radius},
};

/// Between blocks of one reply.
pub const BLOCK_GAP: f32 = 12.0;
/// Between turns.
pub const TURN_GAP: f32 = 28.0;
/// From the user's message to its reply.
pub const REPLY_GAP: f32 = 18.0;

/// The user's message: right aligned, at most 560 wide, selectable.
pub fn user_message(ui: &mut Ui, text: &str) -> Response {
    let theme = Theme::of(ui);
    let limit = (USER_MESSAGE.min(ui.available_width()) - 30.0).max(40.0);
    let galley = Type::PROSE.wrapped(ui, text, theme.t1, limit);
    // A wrapped message takes the whole width; a short one only its own.
    let paragraphs = 1 + galley.rows.iter().filter(|row| row.ends_with_newline).count();
    let width = if galley.rows.len() > paragraphs { limit } else { galley.size().x };
    let size = vec2(width + 30.0, galley.size().y + 22.0);
    let (row, _) = ui.allocate_exact_size(vec2(ui.available_width(), size.y), Sense::hover());
    let rect = Rect::from_min_size(pos2(row.right() - size.x, row.top()), size);
    paint::boxed(ui.painter(), rect, radius::MESSAGE, theme.raised, theme.line);
    let inner = rect.shrink2(vec2(15.0, 11.0));
    let response = paint::over_down(ui, inner, |ui| ui.add(Label::new(galley).selectable(true)));
    response.with_new_rect(rect)
}

/// The line above a reply's reasoning.
pub struct ReasoningHead<'a> {
    /// "Thought for" or "Thinking".
    pub words: &'a str,
    /// "4.1 s"; empty while it runs.
    pub value: &'a str,
    /// "268 tokens".
    pub note: &'a str,
    /// Shows the ring instead of the brain.
    pub busy: bool,
}

/// A foldable block: 28 high folded; open, its body stands behind a 2 pt rule, inset 14.
pub fn reasoning<R>(ui: &mut Ui, head: &ReasoningHead<'_>, open: &mut bool, body: impl FnOnce(&mut Ui) -> R) -> Option<R> {
    let theme = Theme::of(ui);
    let text = {
        let style = Type::NOTE.with_line(20.0);
        let mut job = crate::runs(&[(head.words, style, theme.t2)]);
        if !head.value.is_empty() {
            job.append(" ", 0.0, style.format(theme.t2));
            job.append(head.value, 0.0, style.format(theme.t1));
        }
        if !head.note.is_empty() {
            job.append(head.note, 8.0, style.format(theme.t3));
        }
        ui.fonts_mut(|f| f.layout_job(job))
    };
    let (rect, response) = ui.allocate_exact_size(vec2(7.0 + 12.0 + 8.0 + 15.0 + 8.0 + text.size().x + 11.0, 28.0), Sense::click());
    if response.clicked() {
        *open = !*open;
    }
    let name = format!("{} {}", head.words, head.value);
    response.widget_info(|| WidgetInfo::selected(Role::DisclosureTriangle, true, *open, name.trim()));
    let fill = paint::state_fill(ui, &response, theme.panel, theme.hover, theme.press);
    paint::boxed(ui.painter(), rect, radius::CONTROL, fill, theme.line);
    let t = motion::toward(ui, response.id, *open, motion::FOLD);
    let caret = pos2(rect.left() + 13.0, rect.center().y);
    Icon::CaretRight.paint_turned(
        ui.painter(),
        caret,
        crate::icon::size::TINY,
        theme.t3,
        t * std::f32::consts::FRAC_PI_2,
    );
    let mark = pos2(rect.left() + 34.5, rect.center().y);
    if head.busy {
        super::paint_ring(ui, mark, crate::icon::size::SMALL, theme.accent);
    } else {
        Icon::Brain.paint(ui.painter(), mark, 15.0, theme.t2);
    }
    paint::text_left(ui.painter(), rect, rect.left() + 50.0, text, theme.t2);
    paint::focus_ring(ui, &response, rect, radius::CONTROL);
    if t <= 0.0 {
        return None;
    }
    Some(fold(ui, response.id.with("fold"), t, |ui| {
        let start = ui.cursor().min;
        let inner = UiBuilder::new().max_rect(Rect::from_min_max(start + vec2(16.0, 0.0), ui.max_rect().max));
        let shown = ui.scope_builder(inner.layout(Layout::top_down(Align::Min)), body);
        let bottom = shown.response.rect.bottom();
        ui.painter()
            .rect_filled(Rect::from_min_max(start, pos2(start.x + 2.0, bottom)), 1, theme.line2);
        shown.inner
    }))
}

/// Show the first `t` of the content's height: unfolds over [`motion::FOLD`].
pub fn fold<R>(ui: &mut Ui, id: egui::Id, t: f32, add: impl FnOnce(&mut Ui) -> R) -> R {
    if t >= 1.0 {
        let shown = ui.vertical(add);
        ui.data_mut(|d| d.insert_temp(id, shown.response.rect.height()));
        return shown.inner;
    }
    let full = ui.data(|d| d.get_temp::<f32>(id));
    let start = ui.cursor().min;
    let visible = full.unwrap_or(0.0) * t;
    let space = Rect::from_min_size(start, vec2(ui.available_width(), visible));
    let mut child = ui.new_child(UiBuilder::new().max_rect(Rect::from_min_max(start, pos2(space.right(), f32::INFINITY))));
    child.set_clip_rect(space.intersect(ui.clip_rect()));
    let result = add(&mut child);
    let height = child.min_rect().height();
    ui.data_mut(|d| d.insert_temp(id, height));
    ui.allocate_rect(space, Sense::hover());
    result
}

/// One figure of the strip under a turn.
#[derive(Clone, Copy)]
pub struct Tile<'a> {
    pub label: &'a str,
    pub value: &'a str,
    /// Quieter words after the value: "512 cached", "tok/s".
    pub unit: &'a str,
    /// Shown on hover.
    pub definition: &'a str,
}

/// 44 high strip of figures, divided by lines. Tiles that do not fit are dropped from the right;
/// with `legend` the colours of tinted prose are named at the right end.
pub fn turn_tiles(ui: &mut Ui, tiles: &[Tile<'_>], legend: bool) -> Response {
    let theme = Theme::of(ui);
    let (rect, response) = ui.allocate_exact_size(vec2(ui.available_width(), 44.0), Sense::hover());
    let mut x = rect.left();
    let end = if legend {
        tint_legend(ui, rect, theme) - 16.0
    } else {
        rect.right()
    };
    for (i, tile) in tiles.iter().enumerate() {
        let label = Type::LABEL.galley(ui, tile.label, theme.t3);
        let mut value = crate::runs(&[(tile.value, Type::CONTROL, theme.t1)]);
        if !tile.unit.is_empty() {
            value.append(tile.unit, 3.5, Type::SMALL.with_line(20.0).format(theme.t2));
        }
        let value = ui.fonts_mut(|f| f.layout_job(value));
        let width = label.size().x.max(value.size().x);
        let left = if i == 0 { x } else { x + 17.0 };
        if left + width > end {
            break;
        }
        if i > 0 {
            paint::vline(ui.painter(), x.round(), rect.y_range(), theme.line);
        }
        let cell = Rect::from_min_max(pos2(left, rect.top()), pos2(left + width, rect.bottom()));
        let hover = ui.interact(cell, response.id.with(i), Sense::hover());
        hover.widget_info(|| {
            WidgetInfo::labeled(
                Role::Label,
                true,
                format!("{}: {} {}", tile.label, tile.value, tile.unit).trim_end(),
            )
        });
        ui.painter().galley(pos2(left, rect.top() + 1.0), label, theme.t3);
        ui.painter().galley(pos2(left, rect.top() + 17.0), value, theme.t1);
        if !tile.definition.is_empty() {
            super::tip(hover, tile.label, tile.definition);
        }
        x = left + width + 16.0;
    }
    response
}

/// Names the tints at the right end of `rect`; returns its left edge.
fn tint_legend(ui: &Ui, rect: Rect, theme: &Theme) -> f32 {
    let series = &theme.series;
    let mut right = rect.right();
    let mark = |x: f32| Rect::from_center_size(pos2(x, rect.center().y), vec2(10.0, 10.0));
    for (text, fill, border) in [
        (t!(corrected), Color32::TRANSPARENT, Color32::TRANSPARENT),
        (t!(lookup), series.lookup_tint, series.lookup),
        (t!(draft), series.accepted_tint, series.accepted),
    ] {
        let galley = Type::SHORTCUT.galley(ui, text, theme.t2);
        right -= galley.size().x;
        paint::text_left(ui.painter(), rect, right, galley, theme.t2);
        let square = mark(right - 10.0);
        if border.a() == 0 {
            let y = square.bottom() - 0.75;
            ui.painter().hline(square.x_range(), y, Stroke::new(1.5, series.rejected));
        } else {
            paint::boxed(ui.painter(), square, 3.into(), fill, border);
        }
        right = square.left() - 12.0;
    }
    right + 12.0
}

/// The streaming caret after the last row of a galley laid out at `origin`. Blinks never: it marks
/// a place, and text moves it.
pub fn stream_caret(ui: &Ui, origin: egui::Pos2, galley: &egui::Galley) {
    let end = galley.pos_from_cursor(galley.end());
    let center = origin + vec2(end.right() + 4.0, end.center().y);
    let rect = Rect::from_center_size(center, vec2(2.0, 17.0));
    ui.painter().rect_filled(rect, 0, Theme::of(ui).accent);
}

/// The row of message actions: 26 high, seen when the message is hovered or has focus inside.
pub fn actions_row<R>(ui: &mut Ui, visible: bool, add: impl FnOnce(&mut Ui) -> R) -> R {
    let size = vec2(ui.available_width(), 26.0);
    ui.allocate_ui_with_layout(size, Layout::left_to_right(Align::Center), |ui| {
        ui.spacing_mut().item_spacing.x = 2.0;
        ui.set_min_height(26.0);
        let t = motion::toward(ui, ui.scope_id().with("actions"), visible, motion::HOVER);
        ui.set_opacity(t);
        add(ui)
    })
    .inner
}
