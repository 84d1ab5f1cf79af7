//! Where a reply's text came from, by bytes: which runs a draft guessed, and which the model itself had to write.

use dspark_protocol::{Source, TextDelta};
use std::ops::Range;

/// What is marked in a reply; the target's own words are not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tint {
    Draft,
    Lookup,
    Corrected,
}

/// Runs of text by source, in order and without gaps.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sources {
    runs: Vec<(Source, usize)>,
    /// Tokens whose text is still held back.
    waiting: Vec<(Source, usize)>,
}

impl Sources {
    /// Goes on after what was stored for a text of `length` bytes.
    pub fn after(stored: &str, length: usize) -> Self {
        let mut runs = parse(stored);
        let known: usize = runs.iter().map(|run| run.1).sum();
        push(&mut runs, Source::Target, length.saturating_sub(known));
        Self { runs, waiting: Vec::new() }
    }

    /// Takes in new text. Text may lag behind its tokens, and never runs ahead of them.
    pub fn note(&mut self, delta: &TextDelta) {
        self.waiting
            .extend(delta.tokens.iter().map(|token| (token.source, token.bytes.len())));
        let mut left = delta.text.len();
        let mut used = 0;
        for (source, length) in &mut self.waiting {
            let take = left.min(*length);
            push(&mut self.runs, *source, take);
            *length -= take;
            left -= take;
            if *length > 0 {
                break;
            }
            used += 1;
        }
        self.waiting.drain(..used);
        // A detokenizer may have put in bytes of its own; they belong to what came before.
        let last = self.runs.last().map_or(Source::Target, |run| run.0);
        push(&mut self.runs, last, left);
    }

    /// As it is stored; empty where no draft was taken.
    pub fn written(&self) -> String {
        if self.runs.iter().all(|run| run.0 == Source::Target) {
            return String::new();
        }
        let mut text = String::new();
        for (source, length) in &self.runs {
            text.push(letter(*source));
            text.push_str(&length.to_string());
        }
        text
    }

    /// Marked byte ranges of the text from `start` on, counted from there.
    pub fn tints(&self, start: usize) -> Vec<(Range<usize>, Tint)> {
        let mut at = 0;
        let mut tints = Vec::new();
        for (source, length) in &self.runs {
            let range = at..at + length;
            at = range.end;
            let tint = match source {
                Source::Draft => Tint::Draft,
                Source::Lookup => Tint::Lookup,
                Source::Corrected => Tint::Corrected,
                Source::Target => continue,
            };
            if range.end > start {
                tints.push((range.start.saturating_sub(start)..range.end - start, tint));
            }
        }
        tints
    }
}

fn push(runs: &mut Vec<(Source, usize)>, source: Source, length: usize) {
    if length == 0 {
        return;
    }
    match runs.last_mut() {
        Some(last) if last.0 == source => last.1 += length,
        _ => runs.push((source, length)),
    }
}

fn letter(source: Source) -> char {
    match source {
        Source::Target => 't',
        Source::Draft => 'd',
        Source::Lookup => 'l',
        Source::Corrected => 'c',
    }
}

/// What cannot be read ends the list: tints are an ornament.
fn parse(text: &str) -> Vec<(Source, usize)> {
    let mut runs = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let source = match first {
            't' => Source::Target,
            'd' => Source::Draft,
            'l' => Source::Lookup,
            'c' => Source::Corrected,
            _ => break,
        };
        let digits = &rest[1..];
        let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
        let Ok(length) = digits[..end].parse() else { break };
        push(&mut runs, source, length);
        rest = &digits[end..];
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;
    use dspark_protocol::TokenInfo;

    fn delta(text: &str, tokens: &[(&str, Source)]) -> TextDelta {
        let token = |(text, source): &(&str, Source)| TokenInfo {
            id: 0,
            text: (*text).into(),
            bytes: (*text).into(),
            source: *source,
            logprob: None,
            top: Vec::new(),
        };
        TextDelta {
            text: text.into(),
            tokens: tokens.iter().map(token).collect(),
        }
    }

    #[test]
    fn text_that_lags_behind_its_tokens_keeps_their_sources() {
        let mut sources = Sources::default();
        sources.note(&delta("The gre", &[("The ", Source::Target), ("greedy ", Source::Draft)]));
        sources.note(&delta("edy choice", &[("choice", Source::Corrected), (" is", Source::Lookup)]));
        sources.note(&delta(" is", &[]));
        assert_eq!(sources.written(), "t4d7c6l3");
        assert_eq!(
            sources.tints(0),
            [(4..11, Tint::Draft), (11..17, Tint::Corrected), (17..20, Tint::Lookup)]
        );
        assert_eq!(sources.tints(8)[0], (0..3, Tint::Draft), "a reply whose thoughts come first");
    }

    #[test]
    fn stored_and_read_back_and_continued() {
        let mut sources = Sources::after("t4d7", 11);
        sources.note(&delta("more", &[("more", Source::Draft)]));
        assert_eq!(sources.written(), "t4d11");
        assert_eq!(Sources::after("t4d7x9", 11).written(), "t4d7");
        assert_eq!(Sources::after("d99999999999999999999999", 3).written(), "");
        let mut later = Sources::after("", 5);
        later.note(&delta("guessed", &[("guessed", Source::Draft)]));
        assert_eq!(later.written(), "t5d7", "what came before keeps its place");
        let mut plain = Sources::default();
        plain.note(&delta("all its own", &[("all its own", Source::Target)]));
        assert_eq!(plain.written(), "", "nothing to tint, nothing to store");
    }

    #[test]
    fn bytes_that_no_token_has_belong_to_the_one_before() {
        let mut sources = Sources::default();
        sources.note(&delta("ab!", &[("ab", Source::Draft)]));
        assert_eq!(sources.written(), "d3");
    }
}
