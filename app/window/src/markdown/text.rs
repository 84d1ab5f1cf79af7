use super::{parse::Inline, render::Event};
use dspark_look::{Behind, Family, Theme, Type};
use egui::{
    Color32, CursorIcon, Galley, Pos2, Response, Role, Sense, Stroke, Ui, WidgetInfo,
    text::{LayoutJob, TextFormat},
    text_selection::LabelSelectionState,
    vec2,
};
use std::{ops::Range, sync::Arc};

/// How running text looks: chat prose, or the quieter reasoning.
#[derive(Clone, Copy)]
pub(super) struct Style {
    pub base: Type,
    pub color: Color32,
}

impl Style {
    pub(super) fn strong(self) -> Self {
        Self {
            base: self.base.with_family(Family::SemiBold),
            ..self
        }
    }

    fn format(self, theme: &Theme, run: &Inline) -> TextFormat {
        if run.code {
            let size = Type {
                size: self.base.size - 1.5,
                line: self.base.line,
                ..Type::CODE
            };
            return size.format(if run.link.is_some() { theme.accent } else { self.color });
        }
        let bold = run.bold || self.base.family == Family::SemiBold;
        let family = match (bold, run.italic) {
            (true, _) => Family::SemiBold,
            (false, true) => Family::Italic,
            (false, false) => self.base.family,
        };
        let color = if run.link.is_some() { theme.accent } else { self.color };
        let line = |on: bool| if on { Stroke::new(1.0, color) } else { Stroke::NONE };
        TextFormat {
            // Only the regular weight has true italics.
            italics: bold && run.italic,
            strikethrough: line(run.strike),
            ..self.base.with_family(family).format(color)
        }
    }
}

/// Parts of a text that are more than text, by the characters they cover.
#[derive(Default)]
pub(super) struct Marks {
    links: Vec<(Range<usize>, Arc<str>)>,
    /// Inline code, which stands on a chip.
    code: Vec<Range<usize>>,
    tints: Vec<(Range<usize>, Behind)>,
}

/// Where a reply came from, for the block that begins at `base` of its source.
#[derive(Clone, Copy)]
pub(super) struct Tints<'a> {
    pub ranges: &'a [(Range<usize>, Behind)],
    pub base: usize,
}

impl Tints<'_> {
    fn at(&self, source: usize) -> Option<Behind> {
        let source = self.base + source;
        let after = self.ranges.partition_point(|(range, _)| range.end <= source);
        self.ranges
            .get(after)
            .filter(|(range, _)| range.contains(&source))
            .map(|(_, tint)| *tint)
    }

    /// Marks the characters of `run`, of which `at` come before it.
    fn mark(&self, run: &Inline, at: usize, marks: &mut Vec<(Range<usize>, Behind)>) {
        if self.ranges.is_empty() {
            return;
        }
        for (nth, (offset, letter)) in run.text.char_indices().enumerate() {
            let Some(tint) = run.source_of(offset).and_then(|source| self.at(source)) else {
                continue;
            };
            let place = at + nth;
            match marks.last_mut() {
                Some((range, last)) if *last == tint && range.end == place => range.end = place + 1,
                // The space before a word is part of its token, and of no interest.
                _ if letter.is_whitespace() => {}
                _ => marks.push((place..place + 1, tint)),
            }
        }
    }
}

/// Room on both sides of inline code, inside and outside its chip.
const CHIP_PAD: f32 = 5.0;
const CHIP_GAP: f32 = 1.0;

pub(super) fn job(theme: &Theme, style: Style, runs: &[Inline], tints: Tints<'_>) -> (LayoutJob, Marks) {
    let mut job = LayoutJob::default();
    let mut marks = Marks::default();
    let mut at = 0;
    let mut after_code = false;
    for run in runs {
        let space = if run.code || after_code { CHIP_PAD + CHIP_GAP } else { 0.0 };
        job.append(&run.text, space, style.format(theme, run));
        after_code = run.code;
        let end = at + run.text.chars().count();
        tints.mark(run, at, &mut marks.tints);
        if run.code {
            marks.code.push(at..end);
        }
        if let Some(link) = &run.link {
            marks.links.push((at..end, link.clone()));
        }
        at = end;
    }
    (job, marks)
}

/// Text that can be selected and whose links can be clicked. `caret` marks the end of what is being written.
pub(super) fn show(ui: &mut Ui, mut job: LayoutJob, marks: &Marks, width: f32, caret: bool, events: &mut Vec<Event>) -> Response {
    job.wrap.max_width = width;
    let galley = ui.fonts_mut(|fonts| fonts.layout_job(job));
    let size = vec2(galley.size().x.min(width), galley.size().y);
    let (rect, response) = ui.allocate_exact_size(size, Sense::click_and_drag());
    paint(ui, response, rect.min, galley, marks, caret, events)
}

fn paint(ui: &Ui, mut response: Response, at: Pos2, galley: Arc<Galley>, marks: &Marks, caret: bool, events: &mut Vec<Event>) -> Response {
    response.widget_info(|| WidgetInfo::labeled(Role::Label, ui.is_enabled(), galley.text()));
    if !ui.is_rect_visible(response.rect) {
        return response;
    }
    let theme = Theme::of(ui);
    if let Some(link) = link_under(&response, at, &galley, &marks.links) {
        if response.clicked() {
            events.push(Event::OpenLink(link.to_string()));
        }
        response = response.on_hover_cursor(CursorIcon::PointingHand);
        response = dspark_look::tip(response, link, "");
    } else {
        response = response.on_hover_cursor(CursorIcon::Text);
    }
    dspark_look::paint_behind(ui, at, &galley, &marks.tints);
    chips(ui, theme, at, &galley, &marks.code);
    if caret {
        dspark_look::stream_caret(ui, at, &galley);
    }
    LabelSelectionState::label_text_selection(ui, &response, at, galley, theme.t1, Stroke::NONE);
    response
}

fn link_under<'a>(response: &Response, at: Pos2, galley: &Galley, links: &'a [(Range<usize>, Arc<str>)]) -> Option<&'a str> {
    let pointer = response.hover_pos().filter(|_| !links.is_empty())?;
    let index = galley.cursor_from_pos(pointer - at).index.0;
    // The nearest character counts even from far off, so the pointer must be on its row.
    let row = galley
        .rows
        .iter()
        .find(|row| row.rect().translate(at.to_vec2()).expand2(vec2(2.0, 0.0)).contains(pointer));
    row?;
    links.iter().find(|(range, _)| range.contains(&index)).map(|(_, link)| &**link)
}

/// The chips under inline code, one for each row it runs over.
fn chips(ui: &Ui, theme: &Theme, at: Pos2, galley: &Galley, code: &[Range<usize>]) {
    if code.is_empty() {
        return;
    }
    let mut index = 0;
    for row in &galley.rows {
        let first = index;
        for range in code {
            let from = range.start.max(first) - first;
            let to = range.end.min(first + row.glyphs.len()).saturating_sub(first);
            if from >= to {
                continue;
            }
            let (left, right) = (&row.glyphs[from], &row.glyphs[to - 1]);
            let start = at.x + row.pos.x;
            let x = egui::Rangef::new(start + left.pos.x - CHIP_PAD, start + right.pos.x + right.advance_width + CHIP_PAD);
            let middle = at.y + row.pos.y + row.size.y / 2.0;
            let rect = egui::Rect::from_x_y_ranges(x, egui::Rangef::new(middle - 9.5, middle + 9.5));
            dspark_look::paint::boxed(ui.painter(), rect, egui::CornerRadius::same(4), theme.raised, theme.line);
        }
        index += row.glyphs.len() + usize::from(row.ends_with_newline);
    }
}
