//! One parser per way of writing calls. Source: `spec/http-api.md` §8.

use super::{
    call::{Call, Raw, Seen},
    cursor::{Cursor, Parsed, Stop},
    tagged,
    value::{Dialect, Reader},
};
use serde_json::{Map, Value};

/// What begins a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Form {
    /// `<tool_call>`, with JSON or a function in tags behind it.
    ToolCall,
    /// `<function`, bare.
    Function,
    Atem,
    /// `<atem:function_calls>` around the above.
    AtemWrapper,
    Gemma,
    Pythonic,
    Nemotron,
    Mistral,
    PythonTag,
    /// `{` at the beginning of an answer.
    Answer,
    /// The arguments alone, in a message to this tool.
    Body(String),
}

/// The marks that are looked for in an answer.
pub(crate) const OPENERS: [&str; 10] = [
    "<tool_call>",
    "<function=",
    "<function name=",
    "<|tool_call>",
    "<|tool_call_start|>",
    "<atem:invoke",
    "<atem:function_calls>",
    "<TOOLCALL>",
    "[TOOL_CALLS]",
    "<|python_tag|>",
];

impl Form {
    /// The form behind one of [`OPENERS`].
    pub(crate) fn of(opener: &str) -> Self {
        match opener {
            "<function=" | "<function name=" => Self::Function,
            "<|tool_call>" => Self::Gemma,
            "<|tool_call_start|>" => Self::Pythonic,
            "<atem:invoke" => Self::Atem,
            "<atem:function_calls>" => Self::AtemWrapper,
            "<TOOLCALL>" => Self::Nemotron,
            "[TOOL_CALLS]" => Self::Mistral,
            "<|python_tag|>" => Self::PythonTag,
            _ => Self::ToolCall,
        }
    }

    /// Bytes of the opener that [`Form::parse`] does not read.
    pub(crate) fn skip(&self, opener: &str) -> usize {
        match self {
            // The name's own `=` or blank tells the two apart.
            Self::Function => "<function".len(),
            Self::Answer | Self::Body(_) => 0,
            _ => opener.len(),
        }
    }

    /// Marks that may follow a complete call, and mean nothing more.
    pub(crate) fn closers(&self) -> &'static [&'static str] {
        match self {
            Self::ToolCall => &["</tool_call>", "</function>"],
            Self::Function => &["</tool_call>"],
            Self::Atem | Self::AtemWrapper => &["</atem:function_calls>"],
            Self::Gemma => &["<tool_call|>", "<|tool_response>"],
            Self::Pythonic => &["<|tool_call_end|>"],
            Self::Nemotron => &["</TOOLCALL>"],
            Self::Mistral => &["</s>"],
            Self::PythonTag => &["<|eom_id|>"],
            Self::Answer | Self::Body(_) => &[],
        }
    }

    /// Reads what follows the opener: one call or several.
    pub(crate) fn parse(&self, cursor: &mut Cursor, seen: &mut Seen) -> Parsed<Vec<Call>> {
        match self {
            Self::ToolCall => {
                let fenced = fence(cursor)?;
                if cursor.peek_word()? == '<' {
                    cursor.expect("<function")?;
                    return function(cursor, seen).map(|call| vec![call]);
                }
                let calls = json(cursor, seen, &["</tool_call>", "<tool_call>"])?;
                end_fence(cursor, fenced)?;
                Ok(calls)
            }
            Self::Function => function(cursor, seen).map(|call| vec![call]),
            Self::Atem => tagged::call(cursor, &tagged::ATEM, seen).map(|call| vec![call]),
            Self::AtemWrapper => {
                cursor.peek_word()?;
                cursor.expect("<atem:invoke")?;
                tagged::call(cursor, &tagged::ATEM, seen).map(|call| vec![call])
            }
            Self::Gemma => gemma(cursor, seen).map(|call| vec![call]),
            Self::Pythonic => {
                let fenced = fence(cursor)?;
                let calls = pythonic(cursor, seen)?;
                end_fence(cursor, fenced)?;
                Ok(calls)
            }
            Self::Nemotron => json(cursor, seen, &["</TOOLCALL>"]),
            Self::Mistral => mistral(cursor, seen),
            Self::PythonTag | Self::Answer => json(cursor, seen, &[]),
            Self::Body(name) => {
                seen.name(name);
                let mut reader = Reader {
                    dialect: Dialect::Json,
                    closers: &[],
                    seen,
                };
                Ok(vec![Call::of_values(name.clone(), reader.arguments(cursor)?)])
            }
        }
    }
}

fn function(cursor: &mut Cursor, seen: &mut Seen) -> Parsed<Call> {
    match cursor.peek()? {
        '=' => tagged::call(cursor, &tagged::XML, seen),
        ' ' => tagged::call(cursor, &tagged::MINICPM, seen),
        _ => Err(Stop::Bad),
    }
}

const FENCE: &str = "```";

/// The first line of a code fence.
fn fence(cursor: &mut Cursor) -> Parsed<bool> {
    cursor.peek_word()?;
    if !cursor.eat(FENCE)? {
        return Ok(false);
    }
    let language = cursor.until(
        |character| character == '\n' || character == '{' || character == '[' || character == '<',
        16,
    )?;
    if language.trim().chars().all(char::is_alphanumeric) {
        Ok(true)
    } else {
        Err(Stop::Bad)
    }
}

fn end_fence(cursor: &mut Cursor, fenced: bool) -> Parsed<()> {
    if fenced { cursor.eat_closing(FENCE) } else { Ok(()) }
}

/// Calls as JSON: an object, an array of them, or several in a row. Stray brackets behind them are skipped.
fn json(cursor: &mut Cursor, seen: &mut Seen, closers: &'static [&'static str]) -> Parsed<Vec<Call>> {
    let mut calls = Vec::new();
    let mut in_list = cursor.peek_word()? == '[';
    if in_list {
        cursor.next()?;
        if cursor.peek_word()? == ']' {
            return Err(Stop::Bad);
        }
    }
    loop {
        calls.push(call_object(cursor, seen, closers)?);
        loop {
            let mut ahead = *cursor;
            ahead.skip_space();
            let Ok(next) = ahead.peek() else {
                return if ahead.end && !in_list { Ok(calls) } else { Err(Stop::More) };
            };
            match next {
                ']' => in_list = false,
                '}' if !in_list => {}
                ',' | ';' => {}
                '{' => break,
                // A list that lacks its end, where its end is.
                '<' if in_list => {
                    return if ahead.eat_any(closers)?.is_some() {
                        Ok(calls)
                    } else {
                        Err(Stop::Bad)
                    };
                }
                _ if in_list => return Err(Stop::Bad),
                _ => return Ok(calls),
            }
            ahead.next()?;
            *cursor = ahead;
        }
        cursor.skip_space();
    }
}

/// `{"name": …, "arguments": {…}}` and its kin.
fn call_object(cursor: &mut Cursor, seen: &mut Seen, closers: &'static [&'static str]) -> Parsed<Call> {
    let mut name = None;
    let mut arguments = None;
    let mut others = Map::new();
    let mut reader = Reader {
        dialect: Dialect::Json,
        closers,
        seen,
    };
    reader.object(cursor, &mut |reader, cursor, key| {
        match key.as_str() {
            "arguments" | "parameters" | "args" | "input" if arguments.is_none() => {
                if cursor.peek()? == '{' {
                    arguments = Some(reader.arguments(cursor)?);
                } else {
                    reader.seen.mixed = true;
                    arguments = Some(members(reader.value(cursor)?).ok_or(Stop::Bad)?);
                }
            }
            "name" | "function" | "tool" | "tool_name" if name.is_none() => match reader.value(cursor)? {
                Value::String(text) if !text.trim().is_empty() => {
                    reader.seen.name(text.trim());
                    name = Some(text.trim().to_owned());
                }
                Value::Object(function) if key == "function" => {
                    reader.seen.mixed = true;
                    name = function["name"].as_str().map(str::to_owned);
                    let inner = ["arguments", "parameters"].into_iter().find_map(|key| function.get(key));
                    arguments = Some(members(inner.cloned().unwrap_or_default()).ok_or(Stop::Bad)?);
                }
                _ => return Err(Stop::Bad),
            },
            _ => {
                let value = reader.value(cursor)?;
                others.insert(key, value);
            }
        }
        Ok(())
    })?;
    let name = name.ok_or(Stop::Bad)?;
    // Arguments beside the name.
    let arguments = arguments.unwrap_or_else(|| {
        let beside = others.into_iter().filter(|(key, _)| key != "id" && key != "type");
        beside.collect()
    });
    Ok(Call::of_values(name, arguments))
}

/// Arguments that are no object on their face: JSON in a string, or nothing.
fn members(value: Value) -> Option<Vec<(String, Value)>> {
    match value {
        Value::Null => Some(Vec::new()),
        Value::Object(members) => Some(members.into_iter().collect()),
        Value::String(text) if text.trim().is_empty() => Some(Vec::new()),
        Value::String(text) => match super::schema::lenient(&text)? {
            Value::Object(members) => Some(members.into_iter().collect()),
            _ => None,
        },
        _ => None,
    }
}

/// `call:NAME{key:value}`
fn gemma(cursor: &mut Cursor, seen: &mut Seen) -> Parsed<Call> {
    cursor.peek_word()?;
    cursor.eat("call:")?;
    let name = cursor
        .until(|character| character == '{' || character == '<' || character.is_whitespace(), 256)?
        .to_owned();
    if name.is_empty() {
        return Err(Stop::Bad);
    }
    seen.name(&name);
    let mut reader = Reader {
        dialect: Dialect::Gemma,
        closers: &["<tool_call|>"],
        seen,
    };
    Ok(Call::of_values(name, reader.arguments(cursor)?))
}

/// `[TOOL_CALLS]` with a list of calls, or with `NAME[ARGS]{…}`.
fn mistral(cursor: &mut Cursor, seen: &mut Seen) -> Parsed<Vec<Call>> {
    if matches!(cursor.peek_word()?, '[' | '{') {
        return json(cursor, seen, &["</s>"]);
    }
    let name = cursor
        .until(|character| "[{<".contains(character) || character.is_whitespace(), 256)?
        .to_owned();
    if name.is_empty() {
        return Err(Stop::Bad);
    }
    seen.name(&name);
    // `[CALL_ID]…` stands before the arguments in some versions.
    if cursor.eat("[CALL_ID]")? {
        cursor.until(|character| "[{".contains(character), 64)?;
    }
    cursor.eat("[ARGS]")?;
    let mut reader = Reader {
        dialect: Dialect::Json,
        closers: &["</s>"],
        seen,
    };
    Ok(vec![Call::of_values(name, reader.arguments(cursor)?)])
}

/// `[f(a="x", n=3), g()]`, the brackets optional; or JSON.
fn pythonic(cursor: &mut Cursor, seen: &mut Seen) -> Parsed<Vec<Call>> {
    const END: &[&str] = &["<|tool_call_end|>"];
    let start = *cursor;
    let mut in_list = cursor.peek_word()? == '[';
    if in_list {
        cursor.next()?;
    }
    if cursor.peek_word()? == '{' {
        *cursor = start;
        return json(cursor, seen, END);
    }
    let mut calls = Vec::new();
    loop {
        calls.push(python_call(cursor, seen)?);
        loop {
            let mut ahead = *cursor;
            ahead.skip_space();
            let Ok(next) = ahead.peek() else {
                return if ahead.end && !in_list { Ok(calls) } else { Err(Stop::More) };
            };
            match next {
                ']' if in_list => in_list = false,
                ',' | ';' => {}
                '<' if in_list => {
                    return if ahead.eat_any(END)?.is_some() { Ok(calls) } else { Err(Stop::Bad) };
                }
                next if next.is_alphabetic() || next == '_' => break,
                _ if in_list => return Err(Stop::Bad),
                _ => return Ok(calls),
            }
            ahead.next()?;
            *cursor = ahead;
        }
        cursor.skip_space();
    }
}

/// `name(1, key=value)`
fn python_call(cursor: &mut Cursor, seen: &mut Seen) -> Parsed<Call> {
    let name = cursor.until(|character| character == '(', 256)?.trim();
    let is_name = |character: char| character.is_alphanumeric() || "_.-:".contains(character);
    if name.is_empty() || !name.chars().all(is_name) {
        return Err(Stop::Bad);
    }
    let name = name.to_owned();
    seen.name(&name);
    cursor.next()?;
    let mut reader = Reader {
        dialect: Dialect::Python,
        closers: &[],
        seen,
    };
    let mut arguments = Vec::new();
    loop {
        if cursor.peek_word()? == ')' {
            cursor.next()?;
            return Ok(Call { name, arguments });
        }
        let key = keyword(cursor)?;
        cursor.peek_word()?;
        let value = if let Some(key) = &key {
            reader.argument(cursor, key)?
        } else {
            reader.seen.mixed = true;
            reader.value(cursor)?
        };
        arguments.push((key, Raw::Value(value)));
        match cursor.peek_word()? {
            ',' => {
                cursor.next()?;
            }
            ')' => {}
            _ => return Err(Stop::Bad),
        }
    }
}

/// `key=`, taken; `None` where a value stands alone.
fn keyword(cursor: &mut Cursor) -> Parsed<Option<String>> {
    let first = cursor.peek_word()?;
    if !(first.is_alphabetic() || first == '_') {
        return Ok(None);
    }
    let mut ahead = *cursor;
    let key = ahead.until(
        |character| !(character.is_alphanumeric() || character == '_' || character == '-'),
        256,
    )?;
    if ahead.peek_word()? != '=' {
        return Ok(None);
    }
    ahead.next()?;
    *cursor = ahead;
    Ok(Some(key.to_owned()))
}
