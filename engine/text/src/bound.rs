//! The fewest tokens that a text of some length can be: from the longest token, where no step of the tokenizer drops
//! text.

use crate::bytes::Spelling;
use serde_json::Value;

/// The most bytes of a text that one token can stand for; `None` where nothing bounds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reach {
    ascii: usize,
    other: usize,
    /// Bytes that the vocabulary spells; others may be dropped.
    known: [bool; 256],
    /// Some added tokens take the blanks around them along.
    swallows: bool,
}

impl Reach {
    /// `tokens` are the bytes of every token. Unknown characters must be spelled in bytes: an unknown token may swallow
    /// any number of them.
    pub(crate) fn of(
        spelling: &Spelling,
        normalizer: &Value,
        pre_tokenizer: &Value,
        tokens: impl Iterator<Item = Vec<u8>>,
    ) -> Option<Self> {
        if *spelling == Spelling::Opaque {
            return None;
        }
        let (normalizing, cutting) = (shrink(normalizer)?, shrink(pre_tokenizer)?);
        let mut longest = 0;
        let mut bytes = [false; 256];
        for token in tokens {
            longest = longest.max(token.len());
            if let [byte] = token[..] {
                bytes[usize::from(byte)] = true;
            }
        }
        let shrinking = normalizing * cutting;
        // Some byte-level vocabularies lack bytes, whose place is only known where the text stays as it is.
        let in_text = |byte: u8| !matches!(byte, 0xC0 | 0xC1 | 0xF5..);
        let complete = (0..=u8::MAX).all(|byte| bytes[usize::from(byte)] || !in_text(byte));
        (complete || (*spelling == Spelling::ByteLevel && shrinking == 1)).then_some(Self {
            ascii: longest,
            other: longest * shrinking,
            known: bytes,
            swallows: false,
        })
    }

    /// With added tokens that take the blanks around them along.
    pub(crate) fn swallowing(self, swallows: bool) -> Self {
        Self { swallows, ..self }
    }

    pub(crate) fn fewest(&self, text: &str) -> usize {
        let most = if text.is_ascii() { self.ascii } else { self.other };
        let known = |text: &str| text.bytes().filter(|byte| self.known[usize::from(*byte)]).count();
        let bytes = if self.swallows {
            text.split_whitespace().map(known).sum()
        } else {
            known(text)
        };
        bytes.div_ceil(most.max(1))
    }
}

/// How much shorter a step of known kinds can make a text; 1 is not at all.
fn shrink(step: &Value) -> Option<usize> {
    if step.is_null() {
        return Some(1);
    }
    match step["type"].as_str()? {
        "Sequence" => {
            let mut steps = ["normalizers", "pretokenizers"]
                .into_iter()
                .filter_map(|key| step[key].as_array())
                .flatten();
            steps.try_fold(1, |so_far, step| Some(so_far * shrink(step)?))
        }
        // Canonical composition: at most three bytes become one (Unicode Standard Annex 15, expansion factors).
        "NFC" => Some(3),
        "NFD" | "ByteLevel" | "Digits" | "Metaspace" | "Prepend" => Some(1),
        "Split" => (step["behavior"] != "Removed").then_some(1),
        // Decoders may turn each character of the content back into a single byte.
        "Replace" => (step["pattern"]["String"].as_str()?.len() <= step["content"].as_str()?.chars().count()).then_some(1),
        _ => None,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use serde_json::json;

    fn tokens() -> impl Iterator<Item = Vec<u8>> {
        (0..=255).map(|byte| vec![byte]).chain([b"12345678".to_vec()])
    }

    #[test]
    fn a_text_is_at_least_its_bytes_over_the_longest_token() {
        let plain = Reach::of(&Spelling::ByteLevel, &Value::Null, &json!({"type": "ByteLevel"}), tokens()).unwrap();
        assert_eq!([plain.fewest(""), plain.fewest("12345678"), plain.fewest("123456789")], [0, 1, 2]);
        let composing = Reach::of(&Spelling::ByteLevel, &json!({"type": "NFC"}), &Value::Null, tokens()).unwrap();
        assert_eq!(
            (composing.fewest(&"a".repeat(80)), composing.fewest(&"\u{1112}".repeat(80))),
            (10, 10)
        );
    }

    #[test]
    fn nothing_is_said_where_text_may_get_lost() {
        let split = json!({"type": "Sequence", "pretokenizers": [{"type": "Split", "behavior": "Removed"}]});
        assert_eq!(Reach::of(&Spelling::ByteLevel, &Value::Null, &split, tokens()), None);
        let strip = json!({"type": "Strip"});
        assert_eq!(Reach::of(&Spelling::ByteLevel, &strip, &Value::Null, tokens()), None);
        assert_eq!(Reach::of(&Spelling::Opaque, &Value::Null, &Value::Null, tokens()), None);
        let plain = Reach::of(&Spelling::ByteLevel, &Value::Null, &Value::Null, tokens()).unwrap();
        assert_eq!(
            [plain.fewest(&" ".repeat(80)), plain.swallowing(true).fewest(&" ".repeat(80))],
            [10, 0]
        );
        let pieces = Spelling::Pieces(crate::bytes::Pieces::default());
        assert_eq!(Reach::of(&pieces, &Value::Null, &Value::Null, tokens().skip(1)), None);
        let lacking = Reach::of(&Spelling::ByteLevel, &Value::Null, &Value::Null, tokens().skip(1)).unwrap();
        assert_eq!(lacking.fewest("\0\0\0\0\0\0\0\0\0a"), 1);
    }
}
