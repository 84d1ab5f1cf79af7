//! A small vocabulary, and walks through grammars.
#![allow(clippy::unwrap_used, dead_code)]

use dspark_grammar::{Compiled, Matcher, Start, Vocabulary, compile};
use dspark_protocol::{AnswerRule, CallRule, Constraint, ReasoningSyntax, ToolRule, ToolSyntax};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
};

/// Every byte, pieces that span several places of a JSON text, halves of characters, marks.
const PIECES: [&str; 56] = [
    "{\"",
    "\":",
    "\": ",
    "\", \"",
    "\",\"",
    "\"}",
    "\"}}",
    "},",
    "}]",
    "[{",
    "[{\"",
    "[]",
    "{}",
    "true",
    "false",
    "null",
    " \"",
    ", ",
    "name",
    "arguments",
    "city",
    "ab",
    "abc",
    "the",
    " the",
    "12",
    "0.",
    "-1",
    "1e",
    "  ",
    "\n",
    "\n  ",
    "\n\n",
    "\":[",
    "\": [\"",
    "],",
    "\"]",
    "\\n",
    "\\\"",
    "\\u00",
    "é",
    "日本",
    "Zür",
    "ich",
    "<tool_call>",
    "</tool_call>",
    "<tool",
    "_call>",
    ">\n",
    "think",
    "</think>\n\n",
    "</th",
    "ink>",
    "get",
    "_weather",
    "Paris",
];

pub(crate) const EOS: u32 = 256 + PIECES.len() as u32;
/// A special token.
pub(crate) const THINK: u32 = EOS + 1;
/// An id that no token has.
pub(crate) const NONE: u32 = EOS + 2;
pub(crate) const SIZE: usize = NONE as usize + 1;

pub(crate) fn words() -> Vec<Vec<u8>> {
    let bytes = (0..=255_u8).map(|byte| vec![byte]);
    let pieces = PIECES.iter().map(|piece| piece.as_bytes().to_vec());
    bytes.chain(pieces).chain([b"</s>".to_vec(), vec![], vec![]]).collect()
}

pub(crate) fn vocabulary() -> &'static Arc<Vocabulary> {
    static SHARED: OnceLock<Arc<Vocabulary>> = OnceLock::new();
    SHARED.get_or_init(|| {
        let specials = BTreeMap::from([(THINK, b"<think>".to_vec())]);
        Arc::new(Vocabulary::new(&words(), &[EOS], specials).unwrap())
    })
}

pub(crate) fn compiled(constraint: &Constraint) -> Compiled {
    compile(vocabulary(), constraint, None).unwrap_or_else(|error| panic!("{constraint:?}: {error}"))
}

pub(crate) fn schema(schema: &Value) -> Compiled {
    compiled(&Constraint::schema(schema.clone()))
}

pub(crate) fn matcher(constraint: &Constraint) -> Matcher {
    compiled(constraint).matcher(&Start::default())
}

pub(crate) fn thinking(prompt: &str) -> Start<'_> {
    Start {
        reasoning: Some(ReasoningSyntax::Think),
        may_think: true,
        prompt,
        begun: "",
    }
}

pub(crate) fn tools(answer: AnswerRule, tools: &[(&str, Value)], many: bool) -> Constraint {
    let rule = |(name, parameters): &(&str, Value)| ToolRule {
        name: (*name).to_owned(),
        parameters: parameters.clone(),
    };
    Constraint {
        answer,
        calls: Some(CallRule {
            tools: tools.iter().map(rule).collect(),
            many,
        }),
    }
}

/// Numbers that look random.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % n
    }
}

/// The longest tokens first, as tokenizers like them.
pub(crate) fn tokens(text: &str) -> Vec<u32> {
    let words = words();
    let mut rest = text.as_bytes();
    let mut out = Vec::new();
    while !rest.is_empty() {
        let best = (0..EOS)
            .filter(|&id| rest.starts_with(&words[id as usize]))
            .max_by_key(|&id| words[id as usize].len());
        let best = best.unwrap();
        out.push(best);
        rest = &rest[words[best as usize].len()..];
    }
    out
}

pub(crate) fn bytes(text: &str) -> Vec<u32> {
    text.bytes().map(u32::from).collect()
}

/// Whether the whole text, and not less, is allowed, ending there.
pub(crate) fn accepts(matcher: &mut Matcher, tokens: &[u32]) -> bool {
    for &token in tokens {
        if !matcher.mask().unwrap().allows(token) {
            return false;
        }
        matcher.accept(token).unwrap();
    }
    matcher.mask().unwrap().allows(EOS)
}

/// A text of allowed tokens drawn at random, and its tokens; `None` where it has no end within `most` tokens. It ends
/// where it may once it is `long`.
pub(crate) fn walk(matcher: &mut Matcher, dice: &mut Dice, long: usize, most: usize) -> Option<(Vec<u8>, Vec<u32>)> {
    let words = words();
    let (mut text, mut path) = (Vec::new(), Vec::new());
    while path.len() < most {
        let mask = matcher.mask().unwrap();
        if mask.allows(EOS) && (path.len() >= long || matcher.is_complete() || dice.below(4) == 0) {
            return Some((text, path));
        }
        // Structure rather than letters, or strings have no end.
        let allowed: Vec<u32> = (0..EOS).filter(|&id| mask.allows(id)).collect();
        let closing = allowed.iter().copied().filter(|&id| {
            let word = &words[id as usize];
            word.iter().any(|byte| b"\"]},".contains(byte)) && word.iter().all(u8::is_ascii_punctuation)
        });
        let closing: Vec<u32> = closing.collect();
        let from = if !closing.is_empty() && dice.below(2) == 0 {
            &closing
        } else {
            &allowed
        };
        assert!(!from.is_empty(), "nothing is allowed after {:?}", String::from_utf8_lossy(&text));
        let token = from[dice.below(from.len())];
        matcher.accept(token).unwrap();
        text.extend(&words[token as usize]);
        path.push(token);
    }
    None
}

pub(crate) fn syntax(syntax: ToolSyntax, constraint: &Constraint) -> Compiled {
    compile(vocabulary(), constraint, Some(syntax)).unwrap_or_else(|error| panic!("{syntax:?} {constraint:?}: {error}"))
}
