//! Table rows on a grid of columns, and the option rows of the first run.

use egui::{Align, Color32, CornerRadius, Layout, Rect, Response, Role, Sense, Ui, WidgetInfo, pos2, text::LayoutJob, vec2};

use crate::{Icon, Theme, Type, motion, paint};

/// Widths of a table's columns. One flexible column takes what the fixed ones leave.
#[derive(Clone, Debug, PartialEq)]
pub struct Columns {
    widths: Vec<Option<f32>>,
    gap: f32,
    left: f32,
    right: f32,
    insets: Vec<f32>,
}

impl Columns {
    /// `None` is the flexible column.
    pub fn new(widths: impl Into<Vec<Option<f32>>>) -> Self {
        let widths = widths.into();
        let insets = vec![0.0; widths.len()];
        Self {
            widths,
            gap: 16.0,
            left: 18.0,
            right: 16.0,
            insets,
        }
    }

    #[must_use]
    pub fn gap(mut self, gap: f32) -> Self {
        self.gap = gap;
        self
    }

    /// Move the head's label of column `index` in by `points`, to stand over what the cells show.
    #[must_use]
    pub fn head_inset(mut self, index: usize, points: f32) -> Self {
        if let Some(inset) = self.insets.get_mut(index) {
            *inset = points;
        }
        self
    }

    fn cells(&self, rect: Rect) -> Vec<Rect> {
        let fixed: f32 = self.widths.iter().flatten().sum();
        let gaps = self.gap * self.widths.len().saturating_sub(1) as f32;
        let flexible = self.widths.iter().filter(|w| w.is_none()).count().max(1) as f32;
        let rest = ((rect.width() - self.left - self.right - fixed - gaps) / flexible).max(0.0);
        let mut x = rect.left() + self.left;
        self.widths
            .iter()
            .map(|w| {
                let width = w.unwrap_or(rest);
                let cell = Rect::from_min_size(pos2(x, rect.top()), vec2(width, rect.height()));
                x += width + self.gap;
                cell
            })
            .collect()
    }
}

/// Head of a table, 34 high: a label and its alignment per column.
pub fn table_head(ui: &mut Ui, columns: &Columns, labels: &[(&str, Align)]) {
    let theme = Theme::of(ui);
    let (rect, response) = ui.allocate_exact_size(vec2(ui.available_width(), 34.0), Sense::hover());
    response.widget_info(|| WidgetInfo::new(Role::Row));
    for (i, (cell, (label, align))) in columns.cells(rect).into_iter().zip(labels).enumerate() {
        let text = Type::LABEL.ellipsis(ui, *label, theme.t3, cell.width());
        let head = ui.interact(cell, response.id.with(i), Sense::hover());
        head.widget_info(|| WidgetInfo::labeled(Role::ColumnHeader, true, *label));
        match align {
            Align::Max => paint::text_right(ui.painter(), cell, cell.right(), text, theme.t3),
            _ => paint::text_left(ui.painter(), cell, cell.left() + columns.insets[i], text, theme.t3),
        };
    }
}

/// One row, 58 high unless said otherwise. Cells are filled left to right with [`TableRow::cell`].
pub struct TableRow {
    cells: std::vec::IntoIter<Rect>,
    response: Response,
}

impl TableRow {
    /// `name` is the row's accessible name; `last` rounds its lower corners into the card.
    pub fn new(ui: &mut Ui, columns: &Columns, name: &str, height: f32, expanded: bool) -> Self {
        let theme = Theme::of(ui);
        let (rect, response) = ui.allocate_exact_size(vec2(ui.available_width(), height), Sense::click());
        response.widget_info(|| WidgetInfo::labeled(Role::Row, true, name));
        let hover = motion::toward(ui, response.id.with("hover"), response.hovered(), motion::HOVER);
        let fill = if expanded {
            theme.expanded
        } else {
            theme.hover.gamma_multiply(0.5 * hover)
        };
        // The card's border and corners stay visible at the sides.
        ui.painter()
            .rect_filled(rect.with_min_y(rect.top() + 1.0), CornerRadius::same(2), fill);
        paint::hline(ui.painter(), rect.x_range(), rect.top(), theme.line);
        if response.has_focus() {
            paint::ring(ui, rect.shrink(4.0), CornerRadius::same(6));
        }
        Self {
            cells: columns.cells(rect.with_min_y(rect.top() + 1.0)).into_iter(),
            response,
        }
    }

    /// The next cell: vertically centred, aligned to its left or right edge.
    pub fn cell<R>(&mut self, ui: &mut Ui, align: Align, add: impl FnOnce(&mut Ui) -> R) -> Option<R> {
        let rect = self.cells.next()?;
        let layout = match align {
            Align::Max => Layout::right_to_left(Align::Center),
            _ => Layout::left_to_right(Align::Center),
        };
        Some(paint::over(ui, rect, layout, |ui| {
            ui.set_clip_rect(ui.clip_rect().intersect(rect.expand2(vec2(8.0, 0.0))));
            add(ui)
        }))
    }

    /// Leave the next cell empty.
    pub fn skip(&mut self) {
        self.cells.next();
    }

    /// The row's own response: clicked, focus.
    pub fn response(self) -> Response {
        self.response
    }
}

/// Two lines in a cell: a value over a quieter one, aligned to one side.
pub fn two_lines(ui: &mut Ui, top: LayoutJob, bottom: &str, align: Align) -> Response {
    let theme = Theme::of(ui);
    let limit = ui.available_width();
    let mut top = top;
    top.wrap = egui::text::TextWrapping::truncate_at_width(limit);
    let top = ui.fonts_mut(|f| f.layout_job(top));
    let bottom_text = Type::SMALL.ellipsis(ui, bottom, theme.t3, limit);
    let width = top.size().x.max(bottom_text.size().x);
    let height = if bottom.is_empty() { 20.0 } else { 38.0 };
    let (rect, response) = ui.allocate_exact_size(vec2(width, height), Sense::hover());
    let label = format!("{} {bottom}", top.text());
    response.widget_info(|| WidgetInfo::labeled(Role::Label, true, label.trim_end()));
    for (galley, y) in [(top, 0.0), (bottom_text, 20.0)] {
        let x = if align == Align::Max {
            rect.right() - galley.size().x
        } else {
            rect.left()
        };
        ui.painter().galley(pos2(x, rect.top() + y), galley, theme.t3);
    }
    response
}

/// First cell of a row: a name with chips over one quieter line, as high as [`two_lines`].
/// `open` adds the caret of an expandable row.
pub fn name_lines(ui: &mut Ui, name: &str, chips: &[(&str, super::Tone)], detail: &str, open: Option<bool>) -> Response {
    let theme = Theme::of(ui);
    let (rect, response) = ui.allocate_exact_size(vec2(ui.available_width(), 38.0), Sense::hover());
    response.widget_info(|| WidgetInfo::labeled(Role::Label, true, format!("{name}, {detail}")));
    let mut left = rect.left();
    if let Some(open) = open {
        let caret = Rect::from_min_size(pos2(left, rect.top() + 4.0), vec2(12.0, 12.0));
        paint::over_down(ui, caret, |ui| row_caret(ui, open));
        left += 20.0;
    }
    let widths: f32 = chips
        .iter()
        .map(|(text, _)| Type::LABEL.galley(ui, *text, theme.t1).size().x + 22.0)
        .sum();
    let name = Type::CONTROL.ellipsis(ui, name, theme.t1, rect.right() - left - widths);
    let mut x = left + name.size().x + 8.0;
    ui.painter().galley(pos2(left, rect.top()), name, theme.t1);
    for (text, tone) in chips {
        let place = Rect::from_min_size(pos2(x, rect.top() + 1.0), vec2(rect.right() - x, 18.0));
        x = paint::over_down(ui, place, |ui| ui.add(super::Chip::new(text).tone(*tone).tight()))
            .rect
            .right()
            + 8.0;
    }
    let detail = Type::SMALL.ellipsis(ui, detail, theme.t3, rect.right() - left);
    ui.painter().galley(pos2(left, rect.top() + 20.0), detail, theme.t3);
    response
}

/// The caret of an expandable row, 12 pt, turning as the row opens. Paints only.
pub fn row_caret(ui: &mut Ui, open: bool) {
    let theme = Theme::of(ui);
    let (rect, response) = ui.allocate_exact_size(vec2(12.0, 12.0), Sense::hover());
    let t = motion::toward(ui, response.id, open, motion::FOLD);
    Icon::CaretRight.paint_turned(
        ui.painter(),
        rect.center(),
        crate::icon::size::TINY,
        theme.t3,
        t * std::f32::consts::FRAC_PI_2,
    );
}

/// Section line inside a flush card: "Already on disk". 36 high; the first has no line above.
pub fn list_heading(ui: &mut Ui, text: &str) {
    let theme = Theme::of(ui);
    let first = ui.min_rect().height() < 1.0;
    let (rect, response) = ui.allocate_exact_size(vec2(ui.available_width(), 36.0), Sense::hover());
    response.widget_info(|| WidgetInfo::labeled(Role::Heading, true, text));
    if !first {
        paint::hline(ui.painter(), rect.x_range(), rect.top(), theme.line);
    }
    let galley = Type::LABEL.galley(ui, text, theme.t3);
    paint::text_left(ui.painter(), rect, rect.left() + 16.0, galley, theme.t3);
}

/// A model to choose in the first run, or any option with a fit chip and two figures.
pub struct OptionRow<'a> {
    pub name: &'a str,
    pub detail: &'a str,
    /// Chip before the figures: text, tone, icon.
    pub chip: Option<(&'a str, super::Tone, Icon)>,
    /// "22.1 GB" over "about 6 min at 61 MB/s".
    pub figures: (&'a str, &'a str),
    pub selected: bool,
    /// Greyed, with the reason in `detail`.
    pub enabled: bool,
}

impl OptionRow<'_> {
    /// 60 high plus its line on top. Inside [`super::card_flush`].
    pub fn show(&self, ui: &mut Ui) -> Response {
        let theme = Theme::of(ui);
        let sense = if self.enabled { Sense::click() } else { Sense::hover() };
        let (rect, response) = ui.allocate_exact_size(vec2(ui.available_width(), 60.0), sense);
        response.widget_info(|| WidgetInfo::selected(Role::RadioButton, self.enabled, self.selected, self.name));
        let rest = if self.selected { theme.accent_soft } else { Color32::TRANSPARENT };
        let hover = if self.selected {
            theme.accent_soft2
        } else {
            theme.hover.gamma_multiply(0.5)
        };
        let fill = paint::state_fill(ui, &response, rest, hover, hover);
        ui.painter().rect_filled(rect.with_min_y(rect.top() + 1.0), 0, fill);
        paint::hline(ui.painter(), rect.x_range(), rect.top(), theme.line);
        super::radio_mark(ui, pos2(rect.left() + 24.0, rect.center().y + 0.5), self.selected);
        if response.has_focus() {
            paint::ring(ui, rect.shrink(4.0), CornerRadius::same(6));
        }
        self.contents(ui, theme, rect);
        response
    }

    fn contents(&self, ui: &mut Ui, theme: &Theme, rect: Rect) {
        let middle = rect.center().y + 0.5;
        let right = rect.right() - 14.0;
        let figures_width = if rect.width() < 560.0 { 96.0 } else { 148.0 };
        let ink = if self.enabled { theme.t1 } else { theme.tdis };
        for (text, color, y) in [(self.figures.0, ink, -18.0), (self.figures.1, theme.t3, 0.0)] {
            let galley = Type::SMALL.ellipsis(ui, text, color, figures_width);
            ui.painter().galley(pos2(right - galley.size().x, middle + y), galley, color);
        }
        let mut end = right - figures_width - 12.0;
        if let Some((text, tone, icon)) = self.chip {
            let width = Type::LABEL.galley(ui, text, theme.t1).size().x + 30.0;
            let place = Rect::from_min_size(pos2(end - width, middle - 10.0), vec2(width, 20.0));
            paint::over_down(ui, place, |ui| ui.add(super::Chip::new(text).tone(tone).icon(icon)));
            end = place.left() - 12.0;
        }
        let left = rect.left() + 44.0;
        let name = Type::CONTROL.ellipsis(ui, self.name, ink, end - left);
        let detail_ink = if self.selected { theme.t2 } else { theme.t3 };
        let detail = Type::SMALL.ellipsis(ui, self.detail, detail_ink, end - left);
        ui.painter().galley(pos2(left, middle - 19.0), name, ink);
        ui.painter().galley(pos2(left, middle + 1.0), detail, detail_ink);
    }
}
