//! What lies behind or under runs of text: inline code chips, and the tints that say where reply text came from.
//!
//! A text format's own background has square corners and no border, so these are painted apart, before the text.

use std::ops::Range;

use egui::{CornerRadius, Galley, Pos2, Rangef, Rect, Ui, pos2, vec2};

use crate::{Theme, Type, paint};

/// How a run of text is marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behind {
    /// A chip with a border. Lay the code out in [`inline_code_format`], with a thin space at both ends.
    InlineCode,
    /// Drafted and accepted.
    Accepted,
    /// From a lookup draft.
    Lookup,
    /// The target's own token where the draft was wrong: underlined.
    Corrected,
}

/// Mono text that sits on the prose's baseline.
pub fn inline_code_format(theme: &Theme, prose: Type) -> egui::text::TextFormat {
    let size = prose.size - 1.5;
    Type {
        size,
        line: prose.line,
        ..Type::CODE
    }
    .format(theme.t1)
}

/// Paint the marks of `runs` (ranges of characters) of a galley that will be drawn at `origin`. Call it first.
pub fn paint_behind(ui: &Ui, origin: Pos2, galley: &Galley, runs: &[(Range<usize>, Behind)]) {
    let theme = Theme::of(ui);
    let mut first = 0;
    for row in &galley.rows {
        let count = row.glyphs.len();
        for (range, behind) in runs {
            let from = range.start.max(first);
            let mut to = range.end.min(first + count);
            // The space at which a line broke is not marked.
            if to < range.end && to > from && row.glyphs[to - first - 1].chr == ' ' {
                to -= 1;
            }
            if from >= to {
                continue;
            }
            let start = row.glyphs[from - first];
            let end = row.glyphs[to - first - 1];
            let x = Rangef::new(start.pos.x, end.pos.x + end.advance_width);
            let at = origin + row.pos.to_vec2();
            let span = Rect::from_x_y_ranges(Rangef::new(at.x + x.min, at.x + x.max), Rangef::new(at.y, at.y + row.size.y));
            mark(ui, theme, span, *behind, (from == range.start, to == range.end));
        }
        first += count + usize::from(row.ends_with_newline);
    }
}

/// `ends`: whether the run begins and ends in this row; a run broken by a line end stays square there.
fn mark(ui: &Ui, theme: &Theme, span: Rect, behind: Behind, ends: (bool, bool)) {
    let series = &theme.series;
    let round = |radius: u8| CornerRadius {
        nw: if ends.0 { radius } else { 0 },
        sw: if ends.0 { radius } else { 0 },
        ne: if ends.1 { radius } else { 0 },
        se: if ends.1 { radius } else { 0 },
    };
    // 1 pt of air between the marks of two lines.
    let tint = Rect::from_center_size(span.center(), vec2(span.width(), span.height() - 1.0));
    let painter = ui.painter();
    match behind {
        Behind::InlineCode => {
            let chip = Rect::from_center_size(span.center(), vec2(span.width(), (span.height() - 2.0).min(20.0)));
            paint::boxed(painter, chip, round(4), theme.raised, theme.line);
        }
        Behind::Accepted => {
            painter.rect_filled(tint, round(3), series.accepted_tint);
        }
        Behind::Lookup => {
            painter.rect_filled(tint, round(3), series.lookup_tint);
        }
        Behind::Corrected => {
            let y = (span.center().y + 9.0).round();
            let line = Rect::from_min_max(pos2(span.left(), y), pos2(span.right(), y + 1.5));
            painter.rect_filled(line, 0, series.rejected);
        }
    }
}

/// Lines of prose built run by run, drawn as one selectable text with its marks.
#[derive(Default)]
pub struct Prose {
    job: egui::text::LayoutJob,
    runs: Vec<(Range<usize>, Behind)>,
    length: usize,
}

impl Prose {
    /// Plain text, or text with a mark.
    pub fn text(&mut self, theme: &Theme, text: &str, behind: Option<Behind>) {
        if behind == Some(Behind::InlineCode) {
            // A little room at both ends, inside the chip and outside.
            self.push("\u{2009}", Type::PROSE.format(theme.t1), None);
            self.push(&format!("\u{2009}{text}\u{2009}"), inline_code_format(theme, Type::PROSE), behind);
            self.push("\u{2009}", Type::PROSE.format(theme.t1), None);
        } else {
            self.push(text, Type::PROSE.format(theme.t1), behind);
        }
    }

    fn push(&mut self, text: &str, format: egui::text::TextFormat, behind: Option<Behind>) {
        self.job.append(text, 0.0, format);
        let end = self.length + text.chars().count();
        if let Some(behind) = behind {
            self.runs.push((self.length..end, behind));
        }
        self.length = end;
    }

    /// Over the available width; `caret` marks the end of text that is still coming.
    pub fn show(mut self, ui: &mut Ui, caret: bool) -> egui::Response {
        self.job.wrap.max_width = ui.available_width();
        let galley = ui.fonts_mut(|f| f.layout_job(self.job));
        let origin = ui.cursor().min;
        paint_behind(ui, origin, &galley, &self.runs);
        let response = ui.add(egui::Label::new(galley.clone()).selectable(true));
        if caret {
            super::stream_caret(ui, response.rect.min, &galley);
        }
        response
    }
}
