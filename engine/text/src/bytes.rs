//! Tokens as bytes. Vocabularies spell bytes in two ways: byte-level ones give each byte a printable character,
//! SentencePiece ones write a space as `▁` and single bytes as `<0xNN>`.

use serde_json::Value;

/// How the decoder of `tokenizer.json` turns tokens into text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Spelling {
    /// One printable character per byte.
    ByteLevel,
    Pieces(Pieces),
    /// A decoder that needs its neighbours; only whole sequences can be decoded.
    Opaque,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Pieces {
    replace: Vec<(String, String)>,
    byte_fallback: bool,
    pub(crate) start: Start,
}

/// What is taken off the beginning of a text: SentencePiece puts a space there when it encodes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum Start {
    #[default]
    Keep,
    /// Up to `count` times this character.
    Strip { content: char, count: usize },
    /// All of these characters in the first token.
    DropFirst(char),
}

impl Spelling {
    /// Reads the `decoder` of `tokenizer.json`. A missing one is judged by the `pre_tokenizer`.
    pub(crate) fn of(decoder: &Value, pre_tokenizer: &Value) -> Self {
        if decoder.is_null() {
            return if mentions(pre_tokenizer, "ByteLevel") {
                Self::ByteLevel
            } else {
                Self::Opaque
            };
        }
        let mut pieces = Pieces::default();
        let mut fused = false;
        for step in steps(decoder) {
            match step["type"].as_str() {
                Some("ByteLevel") => return Self::ByteLevel,
                Some("Fuse") => fused = true,
                Some("ByteFallback") => pieces.byte_fallback = true,
                Some("Replace") => match (step["pattern"]["String"].as_str(), step["content"].as_str()) {
                    (Some(from), Some(to)) => pieces.replace.push((from.to_owned(), to.to_owned())),
                    _ => return Self::Opaque,
                },
                Some("Metaspace") => {
                    let Some(replacement) = one_char(&step["replacement"]) else {
                        return Self::Opaque;
                    };
                    pieces.replace.push((replacement.to_string(), " ".to_owned()));
                    if step["prepend_scheme"] != "never" && step["add_prefix_space"] != false {
                        pieces.start = Start::DropFirst(replacement);
                    }
                }
                Some("Strip") if fused && step["stop"].as_u64().unwrap_or(0) == 0 => {
                    let Some(content) = one_char(&step["content"]) else {
                        return Self::Opaque;
                    };
                    let count = step["start"].as_u64().unwrap_or(0) as usize;
                    pieces.start = Start::Strip { content, count };
                }
                _ => return Self::Opaque,
            }
        }
        Self::Pieces(pieces)
    }

    /// The bytes of a vocabulary entry (not of an added token: those are spelled plainly).
    pub(crate) fn bytes(&self, token: &str) -> Vec<u8> {
        match self {
            // A character outside the alphabet means that the entry is plain text.
            Self::ByteLevel => token
                .chars()
                .map(byte_of)
                .collect::<Option<_>>()
                .unwrap_or_else(|| token.as_bytes().to_vec()),
            Self::Pieces(pieces) => pieces.bytes(token),
            Self::Opaque => token.as_bytes().to_vec(),
        }
    }
}

impl Pieces {
    fn bytes(&self, token: &str) -> Vec<u8> {
        if self.byte_fallback
            && let Some(byte) = fallback_byte(token)
        {
            return vec![byte];
        }
        let mut text = token.to_owned();
        for (from, to) in &self.replace {
            text = text.replace(from.as_str(), to);
        }
        text.into_bytes()
    }
}

/// `<0xNN>`.
fn fallback_byte(token: &str) -> Option<u8> {
    let digits = token.strip_prefix("<0x")?.strip_suffix('>')?;
    if digits.len() == 2 {
        u8::from_str_radix(digits, 16).ok()
    } else {
        None
    }
}

/// The byte behind a character of the GPT-2 alphabet: printable Latin-1 stands for itself, the other 68 bytes follow
/// from U+0100 on in order.
fn byte_of(character: char) -> Option<u8> {
    let code = character as u32;
    match code {
        0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff => Some(code as u8),
        0x100..=0x120 => Some((code - 0x100) as u8),
        0x121..=0x142 => Some((code - 0x121 + 0x7f) as u8),
        0x143 => Some(0xad),
        _ => None,
    }
}

fn steps(decoder: &Value) -> Vec<&Value> {
    if decoder["type"] == "Sequence" {
        decoder["decoders"].as_array().into_iter().flatten().flat_map(steps).collect()
    } else {
        vec![decoder]
    }
}

fn mentions(pre_tokenizer: &Value, kind: &str) -> bool {
    let parts = pre_tokenizer["pretokenizers"].as_array();
    pre_tokenizer["type"] == kind || parts.is_some_and(|parts| parts.iter().any(|part| mentions(part, kind)))
}

fn one_char(value: &Value) -> Option<char> {
    let mut characters = value.as_str()?.chars();
    characters.next().filter(|_| characters.next().is_none())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may fail")]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_byte_alphabet_is_a_bijection() {
        let mut seen: Vec<u8> = (0..0x200).filter_map(char::from_u32).filter_map(byte_of).collect();
        assert_eq!(seen.len(), 256);
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 256);
        assert_eq!(byte_of('Ġ'), Some(b' '));
        assert_eq!(byte_of('Ċ'), Some(b'\n'));
    }

    #[test]
    fn decoders_are_recognised() {
        let llama = json!({"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0}]});
        let Spelling::Pieces(pieces) = Spelling::of(&llama, &Value::Null) else {
            panic!()
        };
        assert_eq!(pieces.start, Start::Strip { content: ' ', count: 1 });
        assert_eq!(pieces.bytes("▁a"), b" a");
        assert_eq!(pieces.bytes("<0xE2>"), [0xe2]);
        assert_eq!(pieces.bytes("<0xE2"), b"<0xE2");
        assert_eq!(Spelling::of(&json!({"type": "WordPiece"}), &Value::Null), Spelling::Opaque);
        assert_eq!(Spelling::of(&Value::Null, &json!({"type": "ByteLevel"})), Spelling::ByteLevel);
    }
}
