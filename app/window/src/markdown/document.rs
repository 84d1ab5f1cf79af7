use super::parse::{Block, parse, rebase};

/// A markdown text that grows at its end.
#[derive(Debug, Clone, Default)]
pub struct Document {
    source: String,
    entries: Vec<Entry>,
}

#[derive(Debug, Clone)]
struct Entry {
    /// Byte offset of the block's first line.
    start: usize,
    block: Block,
}

impl Document {
    pub fn new(source: impl Into<String>) -> Self {
        let mut document = Self::default();
        document.push(&source.into());
        document
    }

    pub fn source(&self) -> &str {
        &self.source
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub fn block(&self, index: usize) -> Option<&Block> {
        self.entries.get(index).map(|entry| &entry.block)
    }

    /// Byte offset at which a block begins.
    pub fn start(&self, index: usize) -> usize {
        self.entries.get(index).map_or(0, |entry| entry.start)
    }

    pub fn blocks(&self) -> impl Iterator<Item = &Block> {
        self.entries.iter().map(|entry| &entry.block)
    }

    /// Makes this document show `text`. Where that only adds to the end, blocks before the last one are kept.
    /// Returns the index of the first block that may have changed.
    pub fn update(&mut self, text: &str) -> usize {
        if let Some(tail) = text.strip_prefix(self.source.as_str()) {
            return if tail.is_empty() { self.len() } else { self.push(tail) };
        }
        self.source.clear();
        self.entries.clear();
        self.push(text)
    }

    /// Appends text. What comes before the last block is closed for good: markdown never reaches back over a finished
    /// block (link definitions aside, and they are not used here). Returns the first block that may have changed.
    pub fn push(&mut self, text: &str) -> usize {
        // A block that begins in the unfinished last line may yet turn out to be more of the one before it.
        let line = self.source.rfind('\n').map_or(0, |newline| newline + 1);
        self.source.push_str(text);
        let mut start = 0;
        while let Some(last) = self.entries.pop() {
            start = last.start;
            // After a blank line only a list can go on.
            let apart = self.source[..start].ends_with("\n\n")
                && !matches!(
                    self.entries.last(),
                    Some(Entry {
                        block: Block::List { .. },
                        ..
                    })
                );
            if start < line || apart {
                break;
            }
        }
        let kept = self.entries.len();
        let tail = &self.source[start..];
        self.entries.extend(parse(tail).into_iter().map(|(range, mut block)| {
            // Indentation belongs to the block, but not to the parser's range of it.
            let line = tail[..range.start].rfind('\n').map_or(0, |newline| newline + 1);
            rebase(&mut block, line);
            Entry {
                start: start + line,
                block,
            }
        }));
        kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn blocks(document: &Document) -> Vec<Block> {
        document.blocks().cloned().collect()
    }

    #[test]
    fn only_the_last_block_is_parsed_again() {
        let mut document = Document::new("# One\n\ntwo\n\n```rust\nlet x");
        assert_eq!(document.len(), 3);
        assert_eq!(document.push(" = 1;\n"), 2);
        assert_eq!(document.push("```\n\nafter"), 2);
        assert_eq!(document.len(), 4);
        assert_eq!(document.update("# One\n\ntwo\n\n```rust\nlet x = 1;\n```\n\nafter all"), 3);
        assert_eq!(document.update("# Other"), 0);
        assert_eq!(document.update("# Other"), 1, "nothing changed");
    }

    /// Pieces that open, close and nest everything the renderer knows.
    fn piece() -> impl Strategy<Value = &'static str> {
        prop::sample::select(vec![
            "word ",
            "\n",
            "\n\n",
            "# ",
            "## head\n",
            "- ",
            "* item\n",
            "  - nested\n",
            "1. ",
            "2. two\n",
            "> ",
            "```",
            "```rust\n",
            "~~~\n",
            "    indented\n",
            "|a|b|\n",
            "|-|:-:|\n",
            "|1|2|\n",
            "- [x] done\n",
            "- [ ] open\n",
            "**bold**",
            "*it*",
            "`code`",
            "---\n",
            "===\n",
            "<div>\n",
            "</div>\n",
            "<!-- note",
            "-->\n",
            "[link](https://example.org)",
            "![image](a.png)",
            "~~gone~~",
            "\\*",
            "  \n",
            "\t",
            "é",
            "漢字",
            "👩‍💻",
            "&amp;",
            "```\n",
            "fn main() {}\n",
            "\r\n",
        ])
    }

    proptest! {
        #[test]
        fn growing_piece_by_piece_equals_parsing_at_once(pieces in prop::collection::vec(piece(), 0..40)) {
            let mut grown = Document::default();
            let mut text = String::new();
            for piece in pieces {
                grown.push(piece);
                text.push_str(piece);
                prop_assert_eq!(blocks(&grown), blocks(&Document::new(text.clone())), "{:?}", text);
            }
        }

        #[test]
        fn any_text_is_accepted(text in ".{0,200}") {
            let document = Document::new(text.clone());
            prop_assert_eq!(document.source(), text);
        }
    }
}
