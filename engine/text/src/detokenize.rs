use crate::{
    bytes::{Spelling, Start},
    tokenizer::Tokenizer,
};
use unicode_segmentation::UnicodeSegmentation;

/// Text held for an unfinished grapheme never grows beyond this many bytes.
const LONGEST_GRAPHEME: usize = 128;

/// Turns token ids into text as they come.
///
/// The pieces joined are exactly the text of all ids at once, wherever the stream is cut: bytes of an unfinished
/// character wait for the rest (and are left out at the end), bytes that cannot become one are replaced by U+FFFD (one per maximal invalid run, as
/// everywhere in Rust and in Python's incremental decoder). A piece never ends in the middle of a joined emoji or a flag.
/// End-of-sequence ids are not text.
#[derive(Debug, Clone)]
pub struct Detokenizer {
    tokenizer: Tokenizer,
    utf8: Utf8,
    grapheme: String,
    start: Start,
    whole: Whole,
}

/// For decoders that need neighbours: decode a window again with each token and hand out what is new.
#[derive(Debug, Clone, Default)]
struct Whole {
    ids: Vec<u32>,
    /// Ids before this one are context only.
    sent: usize,
}

impl Detokenizer {
    pub(crate) fn new(tokenizer: Tokenizer, continuing: bool) -> Self {
        let start = match tokenizer.spelling() {
            Spelling::Pieces(pieces) if !continuing => pieces.start.clone(),
            _ => Start::Keep,
        };
        Self {
            tokenizer,
            utf8: Utf8::default(),
            grapheme: String::new(),
            start,
            whole: Whole::default(),
        }
    }

    /// The text that is complete with this token; often empty, never half a character.
    pub fn push(&mut self, id: u32) -> String {
        if self.tokenizer.eos_ids().contains(&id) {
            return String::new();
        }
        self.push_any(id)
    }

    /// As [`Detokenizer::push`], with the text of end-of-sequence tokens.
    pub(crate) fn push_any(&mut self, id: u32) -> String {
        let text = if matches!(self.tokenizer.spelling(), Spelling::Opaque) {
            self.whole.push(&self.tokenizer, id)
        } else {
            let mut bytes = self.tokenizer.token_bytes(id);
            self.trim_first(&mut bytes);
            self.utf8.push(&bytes)
        };
        let text = self.trim_start(text);
        self.hold_grapheme(text)
    }

    /// Whatever still waits, but for the bytes of a character that was cut short (by a bound on the tokens, say): they
    /// are no text, and a text that goes on from here gets the whole character. The detokenizer may then go on with a
    /// new text.
    pub fn finish(&mut self) -> String {
        self.utf8.pending.clear();
        let whole = self.whole.finish(&self.tokenizer);
        let mut text = std::mem::take(&mut self.grapheme);
        text.push_str(whole.trim_end_matches(char::REPLACEMENT_CHARACTER));
        text
    }

    /// As [`Detokenizer::finish`], with U+FFFD for a character that was cut short.
    pub(crate) fn finish_lossy(&mut self) -> String {
        let mut text = std::mem::take(&mut self.grapheme);
        text.push_str(&self.utf8.finish());
        text.push_str(&self.whole.finish(&self.tokenizer));
        text
    }

    /// Nothing waits for more tokens.
    pub fn is_settled(&self) -> bool {
        self.grapheme.is_empty() && self.utf8.pending.is_empty() && self.whole.ids.len() == self.whole.sent
    }

    /// The first token of a text loses the marks that stand for its leading spaces.
    fn trim_first(&mut self, bytes: &mut Vec<u8>) {
        if matches!(self.start, Start::DropFirst(_)) {
            self.start = Start::Keep;
            bytes.retain(|byte| *byte != b' ');
        }
    }

    fn trim_start(&mut self, text: String) -> String {
        let Start::Strip { content, count } = &mut self.start else {
            return text;
        };
        let mut rest = text.as_str();
        while *count > 0 && !rest.is_empty() {
            match rest.strip_prefix(*content) {
                Some(stripped) => (rest, *count) = (stripped, *count - 1),
                None => *count = 0,
            }
        }
        let rest = rest.to_owned();
        if *count == 0 {
            self.start = Start::Keep;
        }
        rest
    }

    /// Keeps back a last grapheme that certainly goes on: one that ends in a joiner, or half a flag.
    fn hold_grapheme(&mut self, text: String) -> String {
        if text.is_empty() {
            return text;
        }
        let mut all = std::mem::take(&mut self.grapheme);
        all.push_str(&text);
        let last = all.graphemes(true).next_back().unwrap_or_default();
        if unfinished(last) && last.len() <= LONGEST_GRAPHEME {
            self.grapheme = all.split_off(all.len() - last.len());
        }
        all
    }
}

fn unfinished(grapheme: &str) -> bool {
    let mut characters = grapheme.chars();
    let half_flag = characters.next().is_some_and(|first| ('\u{1f1e6}'..='\u{1f1ff}').contains(&first)) && characters.next().is_none();
    half_flag || grapheme.ends_with('\u{200d}')
}

impl Whole {
    fn push(&mut self, tokenizer: &Tokenizer, id: u32) -> String {
        self.ids.push(id);
        let now = tokenizer.decode_raw(&self.ids);
        // An unfinished character shows as U+FFFD; one that does not become whole in eight tokens never will.
        if now.ends_with('\u{fffd}') && self.ids.len() - self.sent < 8 {
            return String::new();
        }
        let new = self.beyond_sent(tokenizer, &now);
        // The tokens of one piece are context enough for the next, and keep the cost per token constant.
        if !new.is_empty() {
            self.ids.drain(..self.sent);
            self.sent = self.ids.len();
        }
        new
    }

    fn finish(&mut self, tokenizer: &Tokenizer) -> String {
        let text = self.beyond_sent(tokenizer, &tokenizer.decode_raw(&self.ids));
        *self = Self::default();
        text
    }

    fn beyond_sent(&self, tokenizer: &Tokenizer, now: &str) -> String {
        let sent = tokenizer.decode_raw(&self.ids[..self.sent]);
        let shared = sent
            .char_indices()
            .zip(now.chars())
            .find(|((_, old), new)| old != new)
            .map_or(sent.len().min(now.len()), |((at, _), _)| at);
        now[shared..].to_owned()
    }
}

/// Incremental UTF-8.
#[derive(Debug, Clone, Default)]
pub(crate) struct Utf8 {
    /// At most three bytes of an unfinished character.
    pending: Vec<u8>,
}

impl Utf8 {
    pub(crate) fn push(&mut self, bytes: &[u8]) -> String {
        self.pending.extend_from_slice(bytes);
        let mut text = String::new();
        let mut rest = self.pending.as_slice();
        while !rest.is_empty() {
            match std::str::from_utf8(rest) {
                Ok(valid) => {
                    text.push_str(valid);
                    rest = &[];
                }
                Err(error) => {
                    let (valid, bad) = rest.split_at(error.valid_up_to());
                    text.push_str(&String::from_utf8_lossy(valid));
                    rest = bad;
                    // Without a length the sequence is cut short, not wrong.
                    let Some(length) = error.error_len() else { break };
                    text.push(char::REPLACEMENT_CHARACTER);
                    rest = &rest[length..];
                }
            }
        }
        self.pending = rest.to_vec();
        text
    }

    pub(crate) fn finish(&mut self) -> String {
        String::from_utf8_lossy(&std::mem::take(&mut self.pending)).into_owned()
    }
}
