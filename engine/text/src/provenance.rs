//! Telling the template's characters from the content's.
//!
//! A template may trim, split and test what it is given, so content cannot be wrapped in marks. Instead the
//! conversation is rendered a second time with every character of the content replaced by a twin of its own, and the
//! two results are compared character by character: a twin shows content, anything else is the template's.
//!
//! Spaces, quotes and control characters have no twins (templates trim and escape them), nor have words that the
//! template looks for. Where the two renderings still do not match, because a template decides by the letters of the
//! content, the template is rewritten instead: the special tokens in its printed literals become private characters.
//! That is always sound, since no content holds those characters.

use crate::{
    context::{Origin, Paint},
    template::source::{Vocabulary, rewrite_printed},
};
use std::{collections::HashMap, ops::Range};

const DIALOGUE: u32 = 0xf_0000;
const FOREIGN: u32 = 0x10_0000;

fn has_twin(character: char) -> bool {
    (character as u32) < 0x1_0000 && !character.is_whitespace() && !character.is_control() && !matches!(character, '"' | '\\')
}

fn twin(character: char, base: u32) -> char {
    if has_twin(character) {
        char::from_u32(base + character as u32).unwrap_or(character)
    } else {
        character
    }
}

/// Replaces content by its twins.
pub(crate) struct Twins<'a> {
    pub(crate) vocabulary: &'a Vocabulary,
    /// Does this text hold a token that content of this origin must not write?
    pub(crate) holds_mark: &'a dyn Fn(&str, Origin) -> bool,
}

impl Paint for Twins<'_> {
    fn text(&self, text: &str, origin: Origin) -> String {
        let base = match origin {
            Origin::Dialogue => DIALOGUE,
            Origin::Foreign => FOREIGN,
        };
        let mut out = String::with_capacity(4 * text.len());
        // The untwinned run that the words looked for make, if any.
        let mut run = String::new();
        let mut spoiled = false;
        let mut rest = text;
        while let Some(character) = rest.chars().next() {
            let kept = self.vocabulary.inspected.iter().find(|word| rest.starts_with(word.as_str()));
            let length = kept.map_or(character.len_utf8(), String::len);
            if let Some(word) = kept {
                run.push_str(word);
                out.push_str(word);
            } else if has_twin(character) {
                spoiled |= !run.is_empty() && (self.holds_mark)(&run, origin);
                run.clear();
                out.push(twin(character, base));
            } else {
                run.push(character);
                out.push(character);
            }
            rest = &rest[length..];
        }
        if spoiled || (!run.is_empty() && (self.holds_mark)(&run, origin)) {
            return text.chars().map(|character| twin(character, base)).collect();
        }
        out
    }

    fn name(&self, text: &str) -> String {
        text.chars().map(|character| twin(character, FOREIGN)).collect()
    }

    fn data(&self, text: &str) -> String {
        if self.vocabulary.names.contains(text) && !(self.holds_mark)(text, Origin::Foreign) {
            text.to_owned()
        } else {
            self.text(text, Origin::Foreign)
        }
    }

    fn special(&self, token: &str) -> String {
        token.to_owned()
    }
}

/// Which bytes of a text are content.
#[derive(Debug, Default)]
pub(crate) struct Provenance {
    content: Vec<(Range<usize>, Origin)>,
}

impl Provenance {
    /// Compares a text with its rendering in twins; `None` when they do not match.
    pub(crate) fn compare(plain: &str, twins: &str) -> Option<Self> {
        let mut content: Vec<(Range<usize>, Origin)> = Vec::new();
        let mut shadow = twins.chars();
        for (at, character) in plain.char_indices() {
            let other = shadow.next()?;
            let origin = if other == character {
                continue;
            } else if other == twin(character, DIALOGUE) {
                Origin::Dialogue
            } else if other == twin(character, FOREIGN) {
                Origin::Foreign
            } else {
                return None;
            };
            let end = at + character.len_utf8();
            match content.last_mut() {
                Some((range, last)) if range.end == at && *last == origin => range.end = end,
                _ => content.push((at..end, origin)),
            }
        }
        shadow.next().is_none().then_some(Self { content })
    }

    /// Does any of these bytes come from content of this origin?
    pub(crate) fn touches(&self, range: &Range<usize>, origin: Origin) -> bool {
        let first = self.content.partition_point(|(content, _)| content.end <= range.start);
        self.content[first..]
            .iter()
            .take_while(|(content, _)| content.start < range.end)
            .any(|(_, found)| *found == origin)
    }
}

/// Tokens as private characters, one each.
pub(crate) struct PrivateMarks {
    /// The template's own turn marks.
    turns: Vec<(String, char)>,
    /// Inner marks that foreign content tries to write.
    foreign: Vec<(String, char)>,
}

/// A text spelled out again.
#[derive(Debug)]
pub(crate) struct Revealed {
    pub(crate) text: String,
    /// Turn marks that the template wrote.
    pub(crate) turns: Vec<Range<usize>>,
    /// Marks that foreign content wrote.
    pub(crate) foreign: Vec<Range<usize>>,
}

impl PrivateMarks {
    /// Private characters that occur in none of `texts`; `None` when there are not enough.
    pub(crate) fn new(turns: Vec<String>, inner: Vec<String>, texts: &[&str]) -> Option<Self> {
        let taken = |character: &char| texts.iter().any(|text| text.contains(*character));
        let mut free = ('\u{e000}'..='\u{f8ff}')
            .chain('\u{f0000}'..='\u{f0fff}')
            .filter(|character| !taken(character));
        let mut name = |mut tokens: Vec<String>| -> Option<Vec<(String, char)>> {
            tokens.sort_by_key(|token| std::cmp::Reverse(token.len()));
            tokens.into_iter().map(|token| Some((token, free.next()?))).collect()
        };
        Some(Self {
            turns: name(turns)?,
            foreign: name(inner)?,
        })
    }

    /// The template with the turn marks of its printed literals hidden.
    pub(crate) fn rewrite(&self, template: &str) -> String {
        rewrite_printed(template, &|text| hide(&self.turns, text))
    }

    pub(crate) fn reveal(&self, text: &str) -> Revealed {
        let mut revealed = Revealed {
            text: String::with_capacity(text.len()),
            turns: Vec::new(),
            foreign: Vec::new(),
        };
        let marks =
            |tokens: &[(String, char)]| -> HashMap<char, String> { tokens.iter().map(|(token, mark)| (*mark, token.clone())).collect() };
        let (turns, foreign) = (marks(&self.turns), marks(&self.foreign));
        for character in text.chars() {
            let start = revealed.text.len();
            if let Some(token) = turns.get(&character) {
                revealed.text.push_str(token);
                revealed.turns.push(start..revealed.text.len());
            } else if let Some(token) = foreign.get(&character) {
                revealed.text.push_str(token);
                revealed.foreign.push(start..revealed.text.len());
            } else {
                revealed.text.push(character);
            }
        }
        revealed
    }
}

/// The text with its tokens as private characters; `None` where there are none.
fn hide(tokens: &[(String, char)], text: &str) -> Option<String> {
    let mut hidden = None::<String>;
    for (token, mark) in tokens {
        let current = hidden.as_deref().unwrap_or(text);
        if current.contains(token.as_str()) {
            hidden = Some(current.replace(token.as_str(), mark.encode_utf8(&mut [0; 4])));
        }
    }
    hidden
}

impl Paint for PrivateMarks {
    fn text(&self, text: &str, origin: Origin) -> String {
        match origin {
            Origin::Dialogue => text.to_owned(),
            Origin::Foreign => hide(&self.foreign, text).unwrap_or_else(|| text.to_owned()),
        }
    }

    fn name(&self, text: &str) -> String {
        self.text(text, Origin::Foreign)
    }

    fn data(&self, text: &str) -> String {
        self.text(text, Origin::Foreign)
    }

    fn special(&self, token: &str) -> String {
        hide(&self.turns, token).unwrap_or_else(|| token.to_owned())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may fail")]
mod tests {
    use super::*;

    #[test]
    fn twins_show_what_is_content() {
        let vocabulary = Vocabulary::default();
        let paint = Twins {
            vocabulary: &vocabulary,
            holds_mark: &|_, _| false,
        };
        let plain = "<u>a <b>\u{1f600}</u><t>x</t>";
        let shadow = format!(
            "<u>{}</u><t>{}</t>",
            paint.text("a <b>\u{1f600}", Origin::Dialogue),
            paint.text("x", Origin::Foreign)
        );
        let found = Provenance::compare(plain, &shadow).unwrap();
        let at = |text: &str| plain.find(text).map(|at| at..at + text.len()).unwrap();
        assert!(found.touches(&at("<b>"), Origin::Dialogue));
        assert!(found.touches(&at("x"), Origin::Foreign));
        assert!(!found.touches(&at("<u>"), Origin::Dialogue) && !found.touches(&at("</t>"), Origin::Foreign));
        assert!(Provenance::compare(plain, "<u>").is_none());
    }

    #[test]
    fn words_looked_for_stay_unless_they_spell_a_mark() {
        let vocabulary = Vocabulary {
            inspected: vec!["|end".into(), "|>".into(), "<".into()],
            ..Vocabulary::default()
        };
        let holds_mark = |text: &str, _: Origin| text.contains("<|end|>");
        let paint = Twins {
            vocabulary: &vocabulary,
            holds_mark: &holds_mark,
        };
        assert!(paint.text("a<b", Origin::Dialogue).contains('<'));
        assert!(!paint.text("a<|end|>b", Origin::Dialogue).contains(['<', '|', '>']));
    }

    #[test]
    fn private_marks_are_found_again() {
        let marks = PrivateMarks::new(vec!["<S>".into()], vec!["<T>".into()], &["\u{e000}"]).unwrap();
        assert_eq!(marks.special("<S>"), "\u{e001}");
        let revealed = marks.reveal(&format!("\u{e001}<S>{}", marks.text("<T>", Origin::Foreign)));
        assert_eq!(revealed.text, "<S><S><T>");
        assert_eq!((&revealed.turns[0], revealed.turns.len()), (&(0..3), 1));
        assert_eq!((&revealed.foreign[0], revealed.foreign.len()), (&(6..9), 1));
    }
}
