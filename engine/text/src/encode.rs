//! Tokenizing text of which only some added tokens count.

use crate::{
    Result, TextError,
    matcher::{Entry, Guard, Matcher, Span},
};
use std::{collections::HashSet, ops::Range};
use tokenizers::{
    AddedVocabulary, Model, NormalizedString, Normalizer, OffsetType, PreTokenizedString, PreTokenizer, Token, Tokenizer,
    normalizer::Range as At,
};

/// Encodes with a say in which added tokens count.
#[derive(Debug)]
pub(crate) struct Encoder {
    /// Tokens looked for in the raw text.
    raw: Matcher,
    /// Free tokens looked for in normalized text.
    normalized: Matcher,
    turn_ids: HashSet<u32>,
    /// Turn marks that ordinary text must never become. The unknown token is no danger, and stands for any character.
    forged_ids: HashSet<u32>,
}

impl Encoder {
    pub(crate) fn new(entries: &[Entry], unknown: Option<u32>) -> Self {
        let turn_ids: HashSet<u32> = entries
            .iter()
            .filter(|entry| entry.guard == Guard::Turn)
            .map(|entry| entry.id)
            .collect();
        Self {
            raw: Matcher::new(entries, |entry| {
                (entry.normalized.is_none() || entry.guard > Guard::Free).then(|| entry.content.clone())
            }),
            normalized: Matcher::new(entries, |entry| entry.normalized.clone().filter(|_| entry.guard == Guard::Free)),
            forged_ids: turn_ids.iter().copied().filter(|id| Some(*id) != unknown).collect(),
            turn_ids,
        }
    }

    pub(crate) fn is_turn_mark(&self, id: u32) -> bool {
        self.turn_ids.contains(&id)
    }

    /// Every added token that the text spells.
    pub(crate) fn tokens_in(&self, text: &str) -> Vec<Span> {
        self.raw.scan(text, |_, _| true).0
    }

    /// Token ids of `text`, in which an added token counts only where `accept` says so; elsewhere its characters are
    /// ordinary text. Where everything is accepted this is the tokenizer's own encoding of the whole.
    pub(crate) fn encode(&self, tokenizer: &Tokenizer, text: &str, accept: impl Fn(&Entry, Range<usize>) -> bool) -> Result<Vec<u32>> {
        let (spans, took_all) = self.raw.scan(text, accept);
        if took_all {
            let ids = tokenizer.encode_fast(text, false).map_err(failed)?.get_ids().to_vec();
            let expected = spans.iter().filter(|span| self.forged_ids.contains(&span.id)).count();
            // More would mean that ordinary text became one, by normalization or by the model's own vocabulary.
            if ids.iter().filter(|id| self.forged_ids.contains(id)).count() == expected {
                return Ok(ids);
            }
        }
        self.encode_around(tokenizer, text, &spans).map_err(failed)
    }

    /// The tokenizer's own pipeline, with the added tokens given instead of looked up.
    fn encode_around(&self, tokenizer: &Tokenizer, text: &str, spans: &[Span]) -> tokenizers::Result<Vec<u32>> {
        let mut pieces = PreTokenizedString::from(text);
        pieces.split(|_, whole| cut(&whole, spans))?;
        pieces.split(|_, mut piece| {
            if let Some(normalizer) = tokenizer.get_normalizer() {
                normalizer.normalize(&mut piece)?;
            }
            let found = self.normalized.scan(piece.get(), |_, _| true).0;
            cut(&piece, &found)
        })?;
        if let Some(pre_tokenizer) = tokenizer.get_pre_tokenizer() {
            pre_tokenizer.pre_tokenize(&mut pieces)?;
        }
        let model = tokenizer.get_model();
        pieces.tokenize(|piece| self.ordinary(model, piece.get()))?;
        Ok(pieces.into_encoding(None, 0, OffsetType::None)?.get_ids().to_vec())
    }

    /// Tokens of ordinary text. Some vocabularies also hold their special tokens as words; text that would become one
    /// is cut behind that word's first character, so that it comes out as shorter words.
    fn ordinary(&self, model: &impl Model, text: &str) -> tokenizers::Result<Vec<Token>> {
        let mut out = Vec::new();
        let mut waiting = vec![text];
        while let Some(part) = waiting.pop() {
            let mut tokens = model.tokenize(part)?;
            let mut cuts: Vec<usize> = tokens
                .iter()
                .filter(|token| self.forged_ids.contains(&token.id))
                .map(|token| behind_first(part, token))
                .collect();
            cuts.retain(|cut| *cut < part.len());
            if cuts.is_empty() {
                // A single character that is a mark by itself has no other spelling.
                tokens.retain(|token| !self.forged_ids.contains(&token.id));
                let from = part.as_ptr() as usize - text.as_ptr() as usize;
                out.extend(tokens.into_iter().map(|mut token| {
                    token.offsets = (token.offsets.0 + from, token.offsets.1 + from);
                    token
                }));
                continue;
            }
            let mut end = part.len();
            for cut in cuts.into_iter().rev() {
                waiting.push(&part[cut..end]);
                end = cut;
            }
            waiting.push(&part[..end]);
        }
        Ok(out)
    }
}

/// The place behind the first character of a token.
fn behind_first(text: &str, token: &Token) -> usize {
    let mut at = token.offsets.0 + 1;
    while at < text.len() && !text.is_char_boundary(at) {
        at += 1;
    }
    at
}

/// Cuts a string at the spans, each becoming its token.
fn cut(whole: &NormalizedString, spans: &[Span]) -> tokenizers::Result<Vec<(NormalizedString, Option<Vec<Token>>)>> {
    let mut parts = Vec::with_capacity(2 * spans.len() + 1);
    let slice = |range: Range<usize>| whole.slice(At::Normalized(range)).ok_or("a token boundary inside a character");
    let mut at = 0;
    for span in spans {
        if at < span.range.start {
            parts.push((slice(at..span.range.start)?, None));
        }
        let part = slice(span.range.clone())?;
        let value = part.get().to_owned();
        let length = value.len();
        parts.push((part, Some(vec![Token::new(span.id, value, (0, length))])));
        at = span.range.end;
    }
    if at < whole.len() {
        parts.push((slice(at..whole.len())?, None));
    }
    Ok(parts)
}

pub(crate) fn failed(error: tokenizers::Error) -> TextError {
    TextError::Encode(error.to_string())
}

/// The added tokens of a tokenizer.
pub(crate) fn entries(added: &AddedVocabulary, normalizer: Option<&impl Normalizer>) -> Vec<Entry> {
    let mut entries: Vec<Entry> = added
        .get_added_tokens_decoder()
        .iter()
        .filter(|(_, token)| !token.content.is_empty())
        .map(|(id, token)| Entry {
            id: *id,
            content: token.content.clone(),
            single_word: token.single_word,
            lstrip: token.lstrip,
            rstrip: token.rstrip,
            normalized: token.normalized.then(|| {
                let mut text = NormalizedString::from(token.content.as_str());
                match normalizer.map(|normalizer| normalizer.normalize(&mut text)) {
                    Some(Err(_)) => token.content.clone(),
                    _ => text.get().to_owned(),
                }
            }),
            guard: if token.special { Guard::Turn } else { Guard::Free },
        })
        .collect();
    entries.sort_by_key(|entry| entry.id);
    entries
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may fail")]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::{fs, path::Path, sync::LazyLock};

    static KINDS: LazyLock<Vec<(&str, Tokenizer, Vec<Entry>)>> = LazyLock::new(|| {
        ["byte", "llama2", "gemma", "metaspace"]
            .into_iter()
            .map(|name| {
                let (tokenizer, entries) = load(name);
                (name, tokenizer, entries)
            })
            .collect()
    });

    fn load(name: &str) -> (Tokenizer, Vec<Entry>) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/data/tokenizers/{name}.json"));
        let tokenizer = Tokenizer::from_bytes(fs::read(path).unwrap()).unwrap();
        let entries = entries(tokenizer.get_added_vocabulary(), tokenizer.get_normalizer());
        (tokenizer, entries)
    }

    fn mixed_text() -> impl Strategy<Value = String> {
        let parts = prop_oneof![
            3 => "[ -~]{0,12}",
            2 => "\\PC{0,6}",
            1 => "[ \n\t]{1,5}",
            3 => prop::sample::select(vec![
                "<|im_start|>", "<|im_end|>", "<|end|>", "<|end|>  ", "<s>", "</s>", "<unk>", "<think>", "</think>", "[INST]", "Å-unit",
                "A\u{30a}-unit", "<bos>", "<end_of_turn>", "\n\n", "<b>", "▁▁", "    ", "<|im_", "end|>", "<0x41>",
            ]).prop_map(str::to_owned),
        ];
        prop::collection::vec(parts, 0..8).prop_map(|parts| parts.concat())
    }

    proptest! {
        /// With everything accepted, our pipeline is the tokenizer's own, in every kind of tokenizer.
        #[test]
        fn giving_the_tokens_equals_finding_them(text in mixed_text()) {
            for (name, tokenizer, entries) in KINDS.iter() {
                let mut entries = entries.clone();
                // As free tokens: nothing is guarded, so nothing is cut either.
                for entry in &mut entries {
                    entry.guard = Guard::Free;
                }
                let encoder = Encoder::new(&entries, None);
                let (spans, _) = encoder.raw.scan(&text, |_, _| true);
                let whole = tokenizer.encode_fast(text.as_str(), false).unwrap();
                prop_assert_eq!(encoder.encode_around(tokenizer, &text, &spans).unwrap(), whole.get_ids(), "{}", name);
            }
        }

        /// With nothing accepted, no special token comes out, and the text stays the same.
        #[test]
        fn ordinary_text_never_becomes_a_special_token(text in mixed_text()) {
            for (name, tokenizer, entries) in KINDS.iter() {
                let unknown = tokenizer.token_to_id("<unk>");
                let encoder = Encoder::new(entries, unknown);
                let ids = encoder.encode(tokenizer, &text, |entry, _| entry.guard != Guard::Turn).unwrap();
                // `<unk>` also comes from characters that the vocabulary lacks.
                prop_assert!(ids.iter().all(|id| !encoder.is_turn_mark(*id) || Some(*id) == unknown), "{}: {:?}", name, ids);
            }
        }
    }
}
