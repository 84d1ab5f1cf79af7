use super::{
    document::Document,
    parse::{Block, CodeBlock, Item},
    table,
    text::{self, Style, Tints},
};
use dspark_look::{Icon, Theme, Type, code_block, highlight, paint};
use egui::{Color32, Rect, Ui, UiBuilder, text::LayoutJob, vec2};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Space between blocks, points.
const GAP: f32 = 12.0;
/// Blocks this far outside the visible part are still laid out, so that scrolling shows no gap.
const MARGIN: f32 = 400.0;

/// A marked byte range of the source.
pub type Tinted = (std::ops::Range<usize>, dspark_look::Behind);

/// What a person did in rendered text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    Copy(String),
    OpenLink(String),
}

/// What rendering remembers about a document: measured heights and which code blocks wrap.
#[derive(Debug, Clone, Default)]
pub struct Blocks {
    width: f32,
    heights: Vec<f32>,
    wrapped: BTreeSet<usize>,
    /// Coloured code of finished blocks, for the theme it was coloured in.
    code: BTreeMap<usize, (bool, Arc<str>, LayoutJob)>,
}

impl Blocks {
    /// Forgets the heights of blocks from `first` on, after the document changed there.
    pub fn changed_from(&mut self, first: usize) {
        self.heights.truncate(first);
    }

    /// Height of the whole document, where every block has been measured at this width.
    pub fn total(&self, document: &Document) -> Option<f32> {
        let known = self.heights.len() == document.len() && self.heights.iter().all(|height| height.is_finite());
        known.then(|| self.heights.iter().sum::<f32>() + GAP * self.heights.len().saturating_sub(1) as f32)
    }
}

/// Draws a document in the current column. Only blocks near the visible part are laid out. `quiet` is for reasoning;
/// `caret` marks the end while text is still coming. `tints` are byte ranges of the source, in order.
pub fn show(ui: &mut Ui, document: &Document, blocks: &mut Blocks, tints: &[Tinted], quiet: bool, caret: bool) -> Vec<Event> {
    let theme = Theme::of(ui);
    let width = ui.available_width();
    if blocks.width != width {
        blocks.width = width;
        blocks.heights.clear();
    }
    blocks.heights.resize(document.len(), f32::NAN);
    let mut painter = Painter {
        theme,
        style: if quiet {
            Style {
                base: Type::BASE,
                color: theme.t2,
            }
        } else {
            Style {
                base: Type::PROSE,
                color: theme.t1,
            }
        },
        events: Vec::new(),
        wrapped: std::mem::take(&mut blocks.wrapped),
        colored: std::mem::take(&mut blocks.code),
        name: 0,
        tints: Tints { ranges: tints, base: 0 },
    };
    let visible = ui.clip_rect().y_range().expand(MARGIN);
    ui.scope(|ui| {
        ui.spacing_mut().item_spacing = vec2(0.0, 0.0);
        for (index, block) in document.blocks().enumerate() {
            if index > 0 {
                ui.add_space(GAP);
            }
            let top = ui.cursor().top();
            let known = blocks.heights[index];
            let height = if known.is_finite() { known } else { estimate(block, width) };
            painter.name = index;
            painter.tints.base = document.start(index);
            if top > visible.max || top + height < visible.min {
                ui.allocate_space(vec2(width, height));
                continue;
            }
            let last = index + 1 == document.len();
            painter.block(ui, block, caret && last);
            blocks.heights[index] = ui.cursor().top() - top;
        }
    });
    blocks.wrapped = painter.wrapped;
    blocks.code = painter.colored;
    painter.events
}

/// A first guess at a height, replaced as soon as the block comes near.
fn estimate(block: &Block, width: f32) -> f32 {
    let per_line = (width / 7.0).max(1.0);
    let lines = |chars: usize| (chars as f32 / per_line).ceil().max(1.0);
    match block {
        Block::Paragraph(runs) | Block::Heading { text: runs, .. } => lines(runs.iter().map(|run| run.text.len()).sum()) * 22.0,
        Block::Code(code) => 60.0 + 20.0 * code.text.lines().count() as f32,
        Block::List { items, .. } => items
            .iter()
            .flat_map(|item| &item.blocks)
            .map(|block| estimate(block, width) + 4.0)
            .sum(),
        Block::Quote(blocks) => blocks.iter().map(|block| estimate(block, width)).sum(),
        Block::Table(table) => 34.0 * (table.rows.len() + 1) as f32,
        Block::Rule => 1.0,
        Block::Html(text) => lines(text.len()) * 20.0,
    }
}

pub(super) struct Painter<'a> {
    pub theme: &'a Theme,
    pub style: Style,
    pub events: Vec<Event>,
    wrapped: BTreeSet<usize>,
    colored: BTreeMap<usize, (bool, Arc<str>, LayoutJob)>,
    /// Names a code block in `wrapped` and in ids: top-level index, then counted up inside containers.
    name: usize,
    pub tints: Tints<'a>,
}

impl Painter<'_> {
    fn block(&mut self, ui: &mut Ui, block: &Block, caret: bool) {
        match block {
            Block::Paragraph(runs) => self.text(ui, self.style, runs, caret),
            Block::Heading { level, text } => {
                let base = match level {
                    1 => Type::PROSE_H1,
                    2 => Type::PROSE_H2,
                    _ => Type::PROSE_H3,
                };
                if *level < 3 {
                    ui.add_space(4.0);
                }
                self.text(ui, Style { base, ..self.style }, text, caret);
            }
            Block::Code(code) => self.code(ui, code),
            Block::List { start, items } => self.list(ui, *start, items, caret),
            Block::Quote(blocks) => self.quote(ui, blocks, caret),
            Block::Table(table) => table::show(self, ui, table),
            Block::Rule => {
                let (rect, _) = ui.allocate_exact_size(vec2(ui.available_width(), 9.0), egui::Sense::hover());
                paint::hline(ui.painter(), rect.x_range(), rect.center().y, self.theme.line);
            }
            Block::Html(source) => {
                let job = LayoutJob::single_section(source.clone(), Type::CODE.format(self.theme.t2));
                text::show(ui, job, &text::Marks::default(), ui.available_width(), caret, &mut self.events);
            }
        }
    }

    fn text(&mut self, ui: &mut Ui, style: Style, runs: &[super::Inline], caret: bool) {
        let (job, marks) = text::job(self.theme, style, runs, self.tints);
        text::show(ui, job, &marks, ui.available_width(), caret, &mut self.events);
    }

    fn blocks(&mut self, ui: &mut Ui, blocks: &[Block], gap: f32, caret: bool) {
        for (index, block) in blocks.iter().enumerate() {
            if index > 0 {
                ui.add_space(gap);
            }
            self.name += 10_000;
            self.block(ui, block, caret && index + 1 == blocks.len());
        }
    }

    /// Runs `add` in a column that starts `inset` to the right; returns the rectangle it filled.
    fn inset(&mut self, ui: &mut Ui, inset: f32, add: impl FnOnce(&mut Self, &mut Ui)) -> Rect {
        let mut column = ui.available_rect_before_wrap();
        column.min.x += inset;
        let used = ui
            .scope_builder(
                UiBuilder::new().max_rect(column).layout(egui::Layout::top_down(egui::Align::Min)),
                |ui| {
                    add(self, ui);
                },
            )
            .response
            .rect;
        Rect::from_min_max(egui::pos2(column.min.x - inset, used.min.y), used.max)
    }

    fn list(&mut self, ui: &mut Ui, start: Option<u64>, items: &[Item], caret: bool) {
        let digits = start.map_or(1, |first| (first + items.len() as u64).to_string().len());
        let inset = if start.is_some() { 12.0 + 8.5 * digits as f32 } else { 20.0 };
        let loose = items.iter().any(|item| item.blocks.len() > 2);
        for (index, item) in items.iter().enumerate() {
            if index > 0 {
                ui.add_space(if loose { 8.0 } else { 4.0 });
            }
            let corner = ui.cursor().min;
            let middle = corner.y + self.style.base.line / 2.0;
            let painter = ui.painter();
            match (item.task, start) {
                (Some(done), _) => {
                    let mark = Rect::from_center_size(egui::pos2(corner.x + 7.0, middle), vec2(14.0, 14.0));
                    let (fill, line) = if done {
                        (self.theme.accent_fill, Color32::TRANSPARENT)
                    } else {
                        (self.theme.field, self.theme.line2)
                    };
                    paint::boxed(painter, mark, egui::CornerRadius::same(4), fill, line);
                    if done {
                        Icon::Check.paint(painter, mark.center(), 11.0, self.theme.on_accent);
                    }
                }
                (None, Some(first)) => {
                    let number = self.style.base.galley(ui, format!("{}.", first + index as u64), self.theme.t2);
                    let left = corner.x + inset - 7.0 - number.size().x;
                    painter.galley(egui::pos2(left, corner.y), number, self.theme.t2);
                }
                (None, None) => {
                    painter.circle_filled(egui::pos2(corner.x + 8.0, middle), 2.25, self.theme.t2);
                }
            }
            let last = index + 1 == items.len();
            self.inset(ui, inset, |this, ui| {
                if item.blocks.is_empty() {
                    ui.add_space(this.style.base.line);
                }
                this.blocks(ui, &item.blocks, 6.0, caret && last);
            });
        }
    }

    fn quote(&mut self, ui: &mut Ui, blocks: &[Block], caret: bool) {
        let outer = self.style;
        self.style.color = self.theme.t2;
        let rect = self.inset(ui, 16.0, |this, ui| this.blocks(ui, blocks, 8.0, caret));
        self.style = outer;
        let bar = Rect::from_min_max(rect.min, egui::pos2(rect.min.x + 2.0, rect.max.y));
        ui.painter().rect_filled(bar, 1, self.theme.line2);
    }

    fn code(&mut self, ui: &mut Ui, code: &CodeBlock) {
        let name = self.name;
        let dark = self.theme.dark;
        let known = self.colored.get(&name).filter(|(was, text, _)| *was == dark && *text == code.text);
        let job = if let Some((_, _, job)) = known {
            job.clone()
        } else {
            let job = highlight(self.theme, &code.text, &code.language);
            self.colored.insert(name, (dark, code.text.clone(), job.clone()));
            job
        };
        let language = if code.language.is_empty() { "text" } else { &code.language };
        let mut wrap = self.wrapped.contains(&name);
        let action = ui.push_id(name, |ui| code_block(ui, name, language, job, &mut wrap)).inner;
        if action.copy {
            self.events.push(Event::Copy(code.text.to_string()));
        }
        if action.wrap {
            if wrap {
                self.wrapped.insert(name);
            } else {
                self.wrapped.remove(&name);
            }
        }
    }
}
