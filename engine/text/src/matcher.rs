//! Finding added tokens in text, with a say in each.

use std::ops::Range;

/// How far a token is protected from being written by content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Guard {
    /// An ordinary word of the vocabulary that happens to be an added token.
    Free,
    /// The template uses it inside turns (`<tool_response>`): what comes from tools must not write it.
    Inner,
    /// It delimits turns or is marked special: no content may write it.
    Turn,
}

#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) id: u32,
    pub(crate) content: String,
    pub(crate) single_word: bool,
    pub(crate) lstrip: bool,
    pub(crate) rstrip: bool,
    /// Matched after normalization, against this spelling.
    pub(crate) normalized: Option<String>,
    pub(crate) guard: Guard,
}

/// A token found: its text with the spaces that it swallows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) range: Range<usize>,
    pub(crate) id: u32,
}

#[derive(Debug, Default)]
pub(crate) struct Matcher {
    /// Longest first for each first byte.
    by_first: Vec<Vec<(String, Entry)>>,
}

impl Matcher {
    /// `spelling` gives the text to look for, `None` to leave the token out.
    pub(crate) fn new(entries: &[Entry], spelling: impl Fn(&Entry) -> Option<String>) -> Self {
        let mut by_first = vec![Vec::new(); 256];
        for entry in entries {
            if let Some(text) = spelling(entry)
                && let Some(first) = text.bytes().next()
            {
                by_first[first as usize].push((text, entry.clone()));
            }
        }
        for list in &mut by_first {
            list.sort_by_key(|(text, _)| std::cmp::Reverse(text.len()));
        }
        Self { by_first }
    }

    /// Tokens from left to right, at each place the longest that `accept` takes. Also says whether it took all.
    ///
    /// Taking all, this finds what the tokenizer itself finds.
    pub(crate) fn scan(&self, text: &str, accept: impl Fn(&Entry, Range<usize>) -> bool) -> (Vec<Span>, bool) {
        let mut spans: Vec<Span> = Vec::new();
        let mut took_all = true;
        let mut free_from = 0;
        let mut at = 0;
        while at < text.len() {
            let rest = &text.as_bytes()[at..];
            let mut next = at + 1;
            for (spelling, entry) in &self.by_first[rest[0] as usize] {
                if !rest.starts_with(spelling.as_bytes()) {
                    continue;
                }
                let end = at + spelling.len();
                if entry.single_word && !stands_alone(text, at..end) {
                    next = end;
                    break;
                }
                if !accept(entry, at..end) {
                    took_all = false;
                    continue;
                }
                // The search goes on behind the token's own text, not behind the blanks that it swallows, so that
                // spans may overlap there, as they do in the library.
                next = end;
                let start = if entry.lstrip {
                    text[..at].trim_end().len().max(free_from).min(end)
                } else {
                    at
                };
                let end = if entry.rstrip {
                    text.len() - text[end..].trim_start().len()
                } else {
                    end
                };
                spans.push(Span {
                    range: start..end,
                    id: entry.id,
                });
                free_from = end;
                break;
            }
            at = next;
        }
        (spans, took_all)
    }
}

fn stands_alone(text: &str, range: Range<usize>) -> bool {
    let word = |character: char| character.is_alphanumeric() || character == '_';
    !text[..range.start].chars().next_back().is_some_and(word) && !text[range.end..].chars().next().is_some_and(word)
}
