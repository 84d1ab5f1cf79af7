//! Values as models write them: JSON, JSON with slips, Python literals. Source: `spec/http-api.md` §8.

use super::{
    call::{Raw, Seen},
    cursor::{Cursor, Parsed, Stop},
};
use serde_json::{Map, Number, Value};

/// Values nested deeper than this are no call.
const DEEPEST: usize = 64;

/// Gemma's quote.
pub(crate) const GEMMA_QUOTE: &str = "<|\"|>";

/// Reads the value of a member.
type Member<'m> = dyn FnMut(&mut Reader, &mut Cursor, String) -> Parsed<()> + 'm;

/// What is let pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// JSON, and: single quotes, bare keys, trailing commas, Python's `True`, raw line breaks, unescaped quotes
    /// inside strings.
    Json,
    /// The same with tuples, string prefixes and triple quotes.
    Python,
    /// The same with bare words as strings.
    Gemma,
}

pub(crate) struct Reader<'s> {
    pub(crate) dialect: Dialect,
    /// An object that lacks its last braces ends at one of these.
    pub(crate) closers: &'static [&'static str],
    /// Sees the arguments as they complete.
    pub(crate) seen: &'s mut Seen,
}

impl Reader<'_> {
    /// A value; leading white space is skipped.
    pub(crate) fn value(&mut self, cursor: &mut Cursor) -> Parsed<Value> {
        self.nested(cursor, DEEPEST)
    }

    fn nested(&mut self, cursor: &mut Cursor, depth: usize) -> Parsed<Value> {
        if depth == 0 {
            return Err(Stop::Bad);
        }
        match cursor.peek_word()? {
            '{' => {
                let mut members = Map::new();
                self.object(cursor, &mut |reader, cursor, key| {
                    let value = reader.nested(cursor, depth - 1)?;
                    members.entry(key).or_insert(value);
                    Ok(())
                })?;
                Ok(Value::Object(members))
            }
            '[' => self.items(cursor, depth, ']'),
            '(' if self.dialect == Dialect::Python => self.items(cursor, depth, ')'),
            _ => self.scalar(cursor, None),
        }
    }

    /// The members of an object in their order, seen as they complete.
    pub(crate) fn arguments(&mut self, cursor: &mut Cursor) -> Parsed<Vec<(String, Value)>> {
        let mut members = Vec::new();
        self.object(cursor, &mut |reader, cursor, key| {
            let value = reader.argument(cursor, &key)?;
            members.push((key, value));
            Ok(())
        })?;
        Ok(members)
    }

    /// The value of an argument, seen as it is written.
    pub(crate) fn argument(&mut self, cursor: &mut Cursor, key: &str) -> Parsed<Value> {
        let value = match cursor.peek_word()? {
            '{' | '[' | '(' => self.nested(cursor, DEEPEST - 1)?,
            _ => self.scalar(cursor, Some(key))?,
        };
        self.seen.done(key, Raw::Value(value.clone()));
        Ok(value)
    }

    /// An object; `member` reads the value that comes next.
    pub(crate) fn object(&mut self, cursor: &mut Cursor, member: &mut Member) -> Parsed<()> {
        if cursor.peek_word()? != '{' {
            return Err(Stop::Bad);
        }
        cursor.next()?;
        let mut first = true;
        loop {
            if cursor.peek_word()? == '}' {
                cursor.next()?;
                return Ok(());
            }
            if !first && self.at_closer(cursor)? {
                return Ok(());
            }
            first = false;
            let key = self.key(cursor)?;
            if cursor.peek_word()? != ':' {
                return Err(Stop::Bad);
            }
            cursor.next()?;
            cursor.peek_word()?;
            member(self, cursor, key)?;
            match cursor.peek_word()? {
                ',' => {
                    cursor.next()?;
                }
                '}' => {}
                _ if self.at_closer(cursor)? => return Ok(()),
                _ => return Err(Stop::Bad),
            }
        }
    }

    fn items(&mut self, cursor: &mut Cursor, depth: usize, close: char) -> Parsed<Value> {
        cursor.next()?;
        let mut items = Vec::new();
        loop {
            if cursor.peek_word()? == close {
                cursor.next()?;
                return Ok(Value::Array(items));
            }
            items.push(self.nested(cursor, depth - 1)?);
            match cursor.peek_word()? {
                ',' => {
                    cursor.next()?;
                }
                next if next == close => {}
                _ => return Err(Stop::Bad),
            }
        }
    }

    fn at_closer(&self, cursor: &Cursor) -> Parsed<bool> {
        let mut ahead = *cursor;
        Ok(ahead.eat_any(self.closers)?.is_some())
    }

    fn key(&self, cursor: &mut Cursor) -> Parsed<String> {
        match cursor.peek_word()? {
            quote @ ('"' | '\'') => quoted(cursor, quote, &[':'], &mut |_| {}),
            '<' if self.dialect == Dialect::Gemma => between_gemma_quotes(cursor, &mut |_| {}),
            first if first.is_alphabetic() || first == '_' || first == '$' => {
                let key = cursor.until(
                    |character| character == ':' || character.is_whitespace() || ",{}[]\"'".contains(character),
                    256,
                )?;
                Ok(key.to_owned())
            }
            _ => Err(Stop::Bad),
        }
    }

    /// A string, a number or a word. `key`: the watched member that it is the value of.
    fn scalar(&mut self, cursor: &mut Cursor, key: Option<&str>) -> Parsed<Value> {
        let dialect = self.dialect;
        let first = cursor.peek()?;
        if first == '"' || first == '\'' {
            let seen = &mut *self.seen;
            let mut growing = |so_far: &str| {
                if let Some(key) = key {
                    seen.growing(key, so_far);
                }
            };
            let follow: &[char] = &[',', '}', ']', ')', '<'];
            if dialect == Dialect::Python {
                let triple = if first == '"' { "\"\"\"" } else { "'''" };
                if cursor.eat(triple)? {
                    return tripled(cursor, triple).map(Value::String);
                }
            }
            return quoted(cursor, first, follow, &mut growing).map(Value::String);
        }
        if dialect == Dialect::Gemma && cursor.rest().starts_with('<') {
            let seen = &mut *self.seen;
            let mut growing = |so_far: &str| {
                if let Some(key) = key {
                    seen.growing(key, so_far);
                }
            };
            return between_gemma_quotes(cursor, &mut growing).map(Value::String);
        }
        self.word(cursor)
    }

    fn word(&self, cursor: &mut Cursor) -> Parsed<Value> {
        let ends: &[char] = match self.dialect {
            Dialect::Gemma => &[',', '}', ']', '\n'],
            Dialect::Json | Dialect::Python => &[',', '}', ']', ')', '<', '\n', ' ', '\t', '\r', '"', '\'', '(', ':', '{', '['],
        };
        let rest = cursor.rest();
        let word = match cursor.until(|character| ends.contains(&character), 4096) {
            // The whole text is one word.
            Err(Stop::More) if cursor.end && literal(rest.trim()).is_some() => {
                cursor.at += rest.len();
                rest
            }
            other => other?,
        };
        let trimmed = word.trim();
        if trimmed.is_empty() {
            return Err(Stop::Bad);
        }
        if let Some(value) = literal(trimmed) {
            return Ok(value);
        }
        if self.dialect == Dialect::Gemma {
            return Ok(Value::String(trimmed.to_owned()));
        }
        if self.dialect == Dialect::Python && matches!(trimmed, "r" | "b" | "u" | "f" | "R" | "B" | "U" | "F") {
            return match cursor.peek()? {
                quote @ ('"' | '\'') => quoted(cursor, quote, &[',', '}', ']', ')'], &mut |_| {}).map(Value::String),
                _ => Err(Stop::Bad),
            };
        }
        Err(Stop::Bad)
    }
}

/// A word that is a value: a number, or one of the constants of JSON and Python.
pub(crate) fn literal(word: &str) -> Option<Value> {
    match word {
        "true" | "True" => Some(Value::Bool(true)),
        "false" | "False" => Some(Value::Bool(false)),
        "null" | "None" | "NaN" | "undefined" => Some(Value::Null),
        _ => number(word).map(Value::Number),
    }
}

/// `5`, `-2.5`, `+1`, `1e3`, `1_000`.
pub(crate) fn number(word: &str) -> Option<Number> {
    let plain = word.strip_prefix('+').unwrap_or(word);
    let digits = plain.strip_prefix('-').unwrap_or(plain);
    if !digits.starts_with(|first: char| first.is_ascii_digit() || first == '.') || word.len() > 64 {
        return None;
    }
    let plain = if digits.contains('_') {
        plain.replace('_', "")
    } else {
        plain.to_owned()
    };
    if let Ok(integer) = plain.parse::<i64>() {
        return Some(integer.into());
    }
    if let Ok(integer) = plain.parse::<u64>() {
        return Some(integer.into());
    }
    let known = plain
        .chars()
        .all(|character| character.is_ascii_digit() || "+-.eE".contains(character));
    plain.parse::<f64>().ok().filter(|_| known).and_then(Number::from_f64)
}

/// A string up to the quote that is followed by one of `follow`: an unescaped quote before that is part of it. In
/// correct JSON every closing quote is.
fn quoted(cursor: &mut Cursor, quote: char, follow: &[char], growing: &mut dyn FnMut(&str)) -> Parsed<String> {
    cursor.next()?;
    let mut text = String::new();
    let result = loop {
        let character = match cursor.next() {
            Ok(character) => character,
            Err(stop) => break Err(stop),
        };
        if character == quote {
            let ahead = cursor.rest().trim_start();
            match ahead.chars().next() {
                Some(next) if follow.contains(&next) => break Ok(()),
                Some(_) => text.push(character),
                None if cursor.end => break Ok(()),
                None => break Err(Stop::More),
            }
        } else if character == '\\' {
            if let Err(stop) = escape(cursor, &mut text) {
                break Err(stop);
            }
        } else {
            text.push(character);
        }
    };
    if result.is_err() {
        growing(&text);
    }
    result.map(|()| text)
}

/// Behind a backslash. Unknown escapes stay as they are: models forget to double those of regular expressions.
fn escape(cursor: &mut Cursor, text: &mut String) -> Parsed<()> {
    let character = match cursor.next()? {
        'n' => '\n',
        't' => '\t',
        'r' => '\r',
        'b' => '\u{8}',
        'f' => '\u{c}',
        same @ ('"' | '\'' | '\\' | '/') => same,
        '\n' => return Ok(()),
        'u' => return unicode(cursor, text),
        other => {
            text.push('\\');
            other
        }
    };
    text.push(character);
    Ok(())
}

fn unicode(cursor: &mut Cursor, text: &mut String) -> Parsed<()> {
    let Some(first) = hex(cursor)? else {
        text.push_str("\\u");
        return Ok(());
    };
    if let Some(character) = char::from_u32(first) {
        text.push(character);
        return Ok(());
    }
    let mut ahead = *cursor;
    if (0xd800..0xdc00).contains(&first)
        && ahead.eat("\\u")?
        && let Some(second) = hex(&mut ahead)?
        && (0xdc00..0xe000).contains(&second)
    {
        *cursor = ahead;
        let code = 0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00);
        text.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
        return Ok(());
    }
    text.push(char::REPLACEMENT_CHARACTER);
    Ok(())
}

/// Four hexadecimal digits, taken; `None` where there are none.
fn hex(cursor: &mut Cursor) -> Parsed<Option<u32>> {
    let mut ahead = *cursor;
    let mut code = 0;
    for _ in 0..4 {
        let Some(digit) = ahead.next()?.to_digit(16) else { return Ok(None) };
        code = code * 16 + digit;
    }
    *cursor = ahead;
    Ok(Some(code))
}

fn tripled(cursor: &mut Cursor, quotes: &str) -> Parsed<String> {
    let mut text = String::new();
    loop {
        if cursor.eat(quotes)? {
            return Ok(text);
        }
        match cursor.next()? {
            '\\' => escape(cursor, &mut text)?,
            character => text.push(character),
        }
    }
}

fn between_gemma_quotes(cursor: &mut Cursor, growing: &mut dyn FnMut(&str)) -> Parsed<String> {
    cursor.expect(GEMMA_QUOTE)?;
    let rest = cursor.rest();
    if let Some(length) = rest.find(GEMMA_QUOTE) {
        cursor.at += length + GEMMA_QUOTE.len();
        return Ok(rest[..length].to_owned());
    }
    growing(&rest[..rest.len() - super::cursor::claim(rest, [GEMMA_QUOTE])]);
    Err(Stop::More)
}
