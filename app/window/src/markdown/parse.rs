use pulldown_cmark::{Alignment, CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag};
use std::{iter::Peekable, ops::Range, sync::Arc};

/// One top-level block, or one inside a list item or quote.
#[derive(Debug, Clone, PartialEq)]
pub enum Block {
    Paragraph(Vec<Inline>),
    Heading {
        /// 1 to 6.
        level: u8,
        text: Vec<Inline>,
    },
    Code(CodeBlock),
    List {
        /// The first number of an ordered list.
        start: Option<u64>,
        items: Vec<Item>,
    },
    Quote(Vec<Block>),
    Table(Table),
    Rule,
    /// Shown as its source.
    Html(String),
}

#[derive(Debug, Clone, PartialEq)]
pub struct CodeBlock {
    /// First word of the info string, lower case.
    pub language: String,
    pub text: Arc<str>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Item {
    /// A task and whether it is done.
    pub task: Option<bool>,
    pub blocks: Vec<Block>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    pub align: Vec<Alignment>,
    pub head: Vec<Vec<Inline>>,
    pub rows: Vec<Vec<Vec<Inline>>>,
}

/// A run of text in one style.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Inline {
    pub text: String,
    pub bold: bool,
    pub italic: bool,
    pub strike: bool,
    pub code: bool,
    pub link: Option<Arc<str>>,
    /// Where pieces of `text` stand in the source: offset here, offset there, both in bytes; the latter counts from the
    /// start of the top-level block.
    pub spans: Vec<(usize, usize)>,
}

impl Inline {
    /// Where the byte at `offset` of `text` stands in the source.
    pub fn source_of(&self, offset: usize) -> Option<usize> {
        let after = self.spans.partition_point(|span| span.0 <= offset);
        let (from, source) = *self.spans.get(after.checked_sub(1)?)?;
        Some(source + offset - from)
    }
}

type Events<'a> = Peekable<pulldown_cmark::OffsetIter<'a, pulldown_cmark::DefaultBrokenLinkCallback>>;

/// The blocks of a text with their byte ranges.
pub(super) fn parse(source: &str) -> Vec<(Range<usize>, Block)> {
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut events = Parser::new_ext(source, options).into_offset_iter().peekable();
    let mut blocks = Vec::new();
    while let Some((_, range)) = events.peek() {
        let range = range.clone();
        match block(&mut events) {
            Some(block) => blocks.push((range, block)),
            None => {
                events.next();
            }
        }
    }
    blocks
}

/// Makes the offsets of a block count from `start`.
pub(super) fn rebase(block: &mut Block, start: usize) {
    let shift = |runs: &mut Vec<Inline>| {
        for (_, source) in runs.iter_mut().flat_map(|run| &mut run.spans) {
            *source = source.saturating_sub(start);
        }
    };
    match block {
        Block::Paragraph(runs) | Block::Heading { text: runs, .. } => shift(runs),
        Block::List { items, .. } => items
            .iter_mut()
            .flat_map(|item| &mut item.blocks)
            .for_each(|block| rebase(block, start)),
        Block::Quote(blocks) => blocks.iter_mut().for_each(|block| rebase(block, start)),
        Block::Table(table) => table.head.iter_mut().chain(table.rows.iter_mut().flatten()).for_each(shift),
        Block::Code(_) | Block::Rule | Block::Html(_) => {}
    }
}

/// Reads one block if the next event starts one.
fn block(events: &mut Events<'_>) -> Option<Block> {
    match &events.peek()?.0 {
        Event::Rule => {
            events.next();
            Some(Block::Rule)
        }
        Event::Html(_) => Some(Block::Html(html(events))),
        Event::Start(tag) => {
            let tag = tag.clone();
            match tag {
                Tag::Paragraph => {
                    events.next();
                    Some(Block::Paragraph(inlines(events)))
                }
                Tag::Heading { level, .. } => {
                    events.next();
                    Some(Block::Heading {
                        level: rank(level),
                        text: inlines(events),
                    })
                }
                Tag::CodeBlock(kind) => {
                    events.next();
                    Some(Block::Code(code(events, &kind)))
                }
                Tag::List(start) => {
                    events.next();
                    Some(list(events, start))
                }
                Tag::BlockQuote(_) => {
                    events.next();
                    Some(Block::Quote(blocks_until_end(events)))
                }
                Tag::Table(align) => {
                    events.next();
                    Some(Block::Table(table(events, align)))
                }
                Tag::HtmlBlock => {
                    events.next();
                    let text = html(events);
                    events.next();
                    Some(Block::Html(text))
                }
                _ => None,
            }
        }
        _ => None,
    }
}

fn rank(level: HeadingLevel) -> u8 {
    match level {
        HeadingLevel::H1 => 1,
        HeadingLevel::H2 => 2,
        HeadingLevel::H3 => 3,
        HeadingLevel::H4 => 4,
        HeadingLevel::H5 => 5,
        HeadingLevel::H6 => 6,
    }
}

fn html(events: &mut Events<'_>) -> String {
    let mut text = String::new();
    while let Some((Event::Html(piece) | Event::Text(piece), _)) =
        events.next_if(|(event, _)| matches!(event, Event::Html(_) | Event::Text(_)))
    {
        text.push_str(&piece);
    }
    text.truncate(text.trim_end().len());
    text
}

fn code(events: &mut Events<'_>, kind: &CodeBlockKind<'_>) -> CodeBlock {
    let language = match kind {
        CodeBlockKind::Fenced(info) => info.split([' ', ',', '{']).next().unwrap_or("").to_lowercase(),
        CodeBlockKind::Indented => String::new(),
    };
    let mut text = String::new();
    for (event, _) in events.by_ref() {
        match event {
            Event::Text(piece) => text.push_str(&piece),
            Event::End(_) => break,
            _ => {}
        }
    }
    if text.ends_with('\n') {
        text.pop();
    }
    // A tab would draw as one space.
    let text = text.replace('\t', "    ");
    CodeBlock {
        language,
        text: text.into(),
    }
}

fn list(events: &mut Events<'_>, start: Option<u64>) -> Block {
    let mut items = Vec::new();
    while let Some((event, _)) = events.next() {
        match event {
            Event::Start(Tag::Item) => {
                let task = match events.peek() {
                    Some((Event::TaskListMarker(done), _)) => Some(*done),
                    _ => None,
                };
                items.push(Item {
                    task,
                    blocks: blocks_until_end(events),
                });
            }
            Event::End(_) => break,
            _ => {}
        }
    }
    Block::List { start, items }
}

/// Blocks inside a container, up to its end. Tight list items hold inline text without a paragraph around it.
fn blocks_until_end(events: &mut Events<'_>) -> Vec<Block> {
    let mut blocks = Vec::new();
    loop {
        match events.peek() {
            None => return blocks,
            Some((Event::End(_), _)) => {
                events.next();
                return blocks;
            }
            Some((Event::TaskListMarker(_), _)) => {
                events.next();
            }
            Some(_) => {
                if let Some(block) = block(events) {
                    blocks.push(block);
                    continue;
                }
                let text = loose_inlines(events);
                if text.is_empty() {
                    events.next();
                } else {
                    blocks.push(Block::Paragraph(text));
                }
            }
        }
    }
}

fn table(events: &mut Events<'_>, align: Vec<Alignment>) -> Table {
    let mut table = Table {
        align,
        head: Vec::new(),
        rows: Vec::new(),
    };
    let mut in_head = false;
    while let Some((event, _)) = events.next() {
        match event {
            Event::Start(Tag::TableHead) => in_head = true,
            Event::Start(Tag::TableRow) => table.rows.push(Vec::new()),
            Event::Start(Tag::TableCell) => {
                let cell = inlines(events);
                if in_head {
                    table.head.push(cell);
                } else if let Some(row) = table.rows.last_mut() {
                    row.push(cell);
                }
            }
            Event::End(pulldown_cmark::TagEnd::TableHead) => in_head = false,
            Event::End(pulldown_cmark::TagEnd::Table) => break,
            _ => {}
        }
    }
    table
}

/// Inline text up to the end of the block that holds it.
fn inlines(events: &mut Events<'_>) -> Vec<Inline> {
    let mut run = Runs::default();
    for (event, range) in events.by_ref() {
        if !run.take(event, &range) {
            break;
        }
    }
    super::links::with_bare_links(run.done)
}

/// Inline text of a tight item: up to the item's end or the next block in it, neither of which is consumed.
fn loose_inlines(events: &mut Events<'_>) -> Vec<Inline> {
    let mut run = Runs::default();
    while let Some((event, range)) = events.next_if(|(event, _)| run.accepts(event)) {
        run.take(event, &range);
    }
    super::links::with_bare_links(run.done)
}

#[derive(Default)]
struct Runs {
    done: Vec<Inline>,
    bold: usize,
    italic: usize,
    strike: usize,
    /// Links and images that are open, outermost first.
    links: Vec<Option<Arc<str>>>,
    depth: usize,
}

impl Runs {
    fn accepts(&self, event: &Event<'_>) -> bool {
        match event {
            Event::Start(tag) => matches!(
                tag,
                Tag::Emphasis | Tag::Strong | Tag::Strikethrough | Tag::Link { .. } | Tag::Image { .. }
            ),
            Event::End(_) => self.depth > 0,
            Event::Rule | Event::Html(_) | Event::TaskListMarker(_) => false,
            _ => true,
        }
    }

    /// Returns false at the end of the block.
    fn take(&mut self, event: Event<'_>, range: &Range<usize>) -> bool {
        match event {
            Event::Start(tag) => {
                self.depth += 1;
                match tag {
                    Tag::Strong => self.bold += 1,
                    Tag::Emphasis => self.italic += 1,
                    Tag::Strikethrough => self.strike += 1,
                    Tag::Link { dest_url, .. } => self.links.push(safe_link(&dest_url)),
                    // The picture itself is never fetched: its description links to it.
                    Tag::Image { dest_url, .. } => {
                        self.links.push(safe_link(&dest_url));
                        self.push("image: ", false, range.start);
                    }
                    _ => {}
                }
            }
            Event::End(_) if self.depth == 0 => return false,
            Event::End(end) => {
                self.depth -= 1;
                match end {
                    pulldown_cmark::TagEnd::Strong => self.bold -= 1,
                    pulldown_cmark::TagEnd::Emphasis => self.italic -= 1,
                    pulldown_cmark::TagEnd::Strikethrough => self.strike -= 1,
                    pulldown_cmark::TagEnd::Link | pulldown_cmark::TagEnd::Image => {
                        self.links.pop();
                    }
                    _ => {}
                }
            }
            Event::Text(text) | Event::InlineHtml(text) | Event::Html(text) => self.push(&text, false, range.start),
            // Between its marks, which are the same on both sides.
            Event::Code(text) => self.push(&text, true, range.start + range.len().saturating_sub(text.len()) / 2),
            Event::SoftBreak => self.push(" ", false, range.start),
            Event::HardBreak => self.push("\n", false, range.start),
            _ => {}
        }
        true
    }

    fn push(&mut self, text: &str, code: bool, source: usize) {
        let run = Inline {
            text: String::new(),
            bold: self.bold > 0,
            italic: self.italic > 0,
            strike: self.strike > 0,
            code,
            link: self.links.last().cloned().flatten(),
            spans: vec![(0, source)],
        };
        match self.done.last_mut() {
            Some(last) if same_style(last, &run) => {
                // Text that simply goes on needs no new span.
                if last.source_of(last.text.len()) != Some(source) {
                    last.spans.push((last.text.len(), source));
                }
                last.text.push_str(text);
            }
            _ => self.done.push(Inline { text: text.into(), ..run }),
        }
    }
}

fn same_style(a: &Inline, b: &Inline) -> bool {
    (a.bold, a.italic, a.strike, a.code, &a.link) == (b.bold, b.italic, b.strike, b.code, &b.link)
}

/// Only what a browser or mail program opens; never a file or a script.
fn safe_link(target: &str) -> Option<Arc<str>> {
    let lower = target.trim().to_ascii_lowercase();
    ["https://", "http://", "mailto:"]
        .iter()
        .any(|scheme| lower.starts_with(scheme))
        .then(|| target.trim().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(source: &str) -> Block {
        let mut blocks = parse(source);
        assert_eq!(blocks.len(), 1, "{blocks:?}");
        blocks.remove(0).1
    }

    fn plain(runs: &[Inline]) -> String {
        runs.iter().map(|run| run.text.as_str()).collect()
    }

    #[test]
    fn inline_styles() {
        let Block::Paragraph(runs) = one("a **b *c*** `d` ~~e~~ [f](https://x.org) [g](javascript:alert)\nh") else {
            panic!("not a paragraph")
        };
        assert_eq!(plain(&runs), "a b c d e f g h");
        assert!(runs.iter().any(|run| run.text == "c" && run.bold && run.italic));
        assert!(runs.iter().any(|run| run.text == "d" && run.code));
        assert!(runs.iter().any(|run| run.text == "e" && run.strike));
        assert!(
            runs.iter()
                .any(|run| run.text == "f" && run.link.as_deref() == Some("https://x.org"))
        );
        assert!(
            !runs.iter().any(|run| run.text.contains('g') && run.link.is_some()),
            "no script links"
        );
    }

    #[test]
    fn every_piece_knows_its_place_in_the_source() {
        let source = "a **bold** `code x` &amp; [link](https://x.org) end\n";
        let Block::Paragraph(runs) = one(source) else {
            panic!("not a paragraph")
        };
        for run in runs.iter().filter(|run| !run.text.contains('&')) {
            let at = run.source_of(0).unwrap();
            assert!(source[at..].starts_with(run.text.trim_end()), "{run:?}");
        }
        let Block::List { items, .. } = one("- one\n- two *three*") else {
            panic!("not a list")
        };
        let Block::Paragraph(runs) = &items[1].blocks[0] else {
            panic!("not a paragraph")
        };
        assert_eq!(runs[1].source_of(0), Some(13));
    }

    #[test]
    fn lists_with_tasks_and_nesting() {
        let Block::List { start, items } = one("3. one\n   - [x] done\n   - [ ] open\n4. two\n\n   more") else {
            panic!("not a list")
        };
        assert_eq!((start, items.len()), (Some(3), 2));
        let Block::List { items: tasks, .. } = &items[0].blocks[1] else {
            panic!("not nested")
        };
        assert_eq!(tasks.iter().map(|item| item.task).collect::<Vec<_>>(), [Some(true), Some(false)]);
        assert_eq!(items[1].blocks.len(), 2);
    }

    #[test]
    fn code_tables_html_and_images() {
        let Block::Code(code) = one("```Rust,ignore\nfn a() {}\n\tb\n```") else {
            panic!("not code")
        };
        assert_eq!((code.language.as_str(), &*code.text), ("rust", "fn a() {}\n    b"));
        let Block::Table(table) = one("|a|b|\n|:-|-:|\n|1|**2**|") else {
            panic!("not a table")
        };
        assert_eq!((table.head.len(), table.rows.len()), (2, 1));
        assert!(table.rows[0][1][0].bold);
        let Block::Html(html) = one("<script>alert(1)</script>\n") else {
            panic!("not html")
        };
        assert_eq!(html, "<script>alert(1)</script>");
        let Block::Paragraph(runs) = one("see ![a cat](https://x.org/cat.png)") else {
            panic!("not a paragraph")
        };
        assert_eq!(plain(&runs), "see image: a cat");
        let Block::Paragraph(runs) = one("x <b>y</b>") else {
            panic!("not a paragraph")
        };
        assert_eq!(plain(&runs), "x <b>y</b>");
    }
}
