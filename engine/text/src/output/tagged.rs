//! Calls written in tags. Source: `spec/http-api.md` §8.

use super::{
    call::{Call, Raw, Seen},
    cursor::{Cursor, Parsed, Stop, claim},
    value::{Dialect, Reader},
};

/// One family's tags.
#[derive(Debug)]
pub(crate) struct Tags {
    pub(crate) parameter: &'static str,
    pub(crate) end_parameter: &'static str,
    pub(crate) end_function: &'static str,
    /// What may stand in place of a forgotten `end_function`.
    pub(crate) wrapper_ends: &'static [&'static str],
    /// One line break behind the opening tag and one before the closing tag are not part of a value.
    pub(crate) breaks: bool,
}

pub(crate) const XML: Tags = Tags {
    parameter: "<parameter=",
    end_parameter: "</parameter>",
    end_function: "</function>",
    wrapper_ends: &["</tool_call>"],
    breaks: true,
};

pub(crate) const MINICPM: Tags = Tags {
    parameter: "<param ",
    end_parameter: "</param>",
    end_function: "</function>",
    wrapper_ends: &["</tool_call>"],
    breaks: true,
};

pub(crate) const ATEM: Tags = Tags {
    parameter: "<atem:parameter ",
    end_parameter: "</atem:parameter>",
    end_function: "</atem:invoke>",
    wrapper_ends: &["</atem:function_calls>"],
    breaks: false,
};

const CDATA: &str = "<![CDATA[";
const END_CDATA: &str = "]]>";
/// No name is longer, in bytes.
const LONGEST_NAME: usize = 256;

/// A call, from behind `<function`: `=NAME>` or ` name="NAME">`.
pub(crate) fn call(cursor: &mut Cursor, tags: &Tags, seen: &mut Seen) -> Parsed<Call> {
    let name = attribute(cursor)?;
    seen.name(&name);
    let mut arguments = Vec::new();
    loop {
        match cursor.peek_word()? {
            '{' if arguments.is_empty() => {
                let mut reader = Reader {
                    dialect: Dialect::Json,
                    closers: &["</function>", "</tool_call>", "</atem:invoke>"],
                    seen,
                };
                let call = Call::of_values(name, reader.arguments(cursor)?);
                cursor.eat_closing(tags.end_function)?;
                return Ok(call);
            }
            '<' => {}
            _ => return Err(Stop::Bad),
        }
        if cursor.eat(tags.end_function)? {
            return Ok(Call { name, arguments });
        }
        let mut ahead = *cursor;
        if ahead.eat_any(tags.wrapper_ends)?.is_some() {
            return Ok(Call { name, arguments });
        }
        if !cursor.eat(tags.parameter)? {
            return Err(Stop::Bad);
        }
        let key = attribute(cursor)?;
        let value = value(cursor, tags, &key, seen)?;
        seen.done(&key, value.clone());
        arguments.push((Some(key), value));
    }
}

/// `NAME>`, `"NAME">` or `name="NAME" more="…">`, behind the tag's name.
fn attribute(cursor: &mut Cursor) -> Parsed<String> {
    let text = cursor.until(|character| character == '>' || character == '\n', LONGEST_NAME)?;
    if cursor.next()? != '>' {
        return Err(Stop::Bad);
    }
    let text = text.trim();
    let text = text.strip_prefix("name").map_or(text, str::trim_start);
    let text = text.strip_prefix('=').unwrap_or(text).trim();
    let name = match text.chars().next() {
        Some(quote @ ('"' | '\'')) => text[1..].split(quote).next().unwrap_or_default(),
        _ => text,
    };
    let valid = !name.is_empty() && !name.contains(|character: char| character.is_control() || "<>{}".contains(character));
    if valid { Ok(name.to_owned()) } else { Err(Stop::Bad) }
}

/// The text up to the closing tag. A closing tag counts where another tag follows it: otherwise it is part of the text.
fn value(cursor: &mut Cursor, tags: &Tags, key: &str, seen: &mut Seen) -> Parsed<Raw> {
    if let Some(text) = cdata(cursor, tags)? {
        return Ok(Raw::Literal(text));
    }
    let text = cursor.rest();
    let mut from = 0;
    let mut sure = text.len() - claim(text, [tags.end_parameter, tags.end_function]);
    while let Some(at) = text[from..].find("</").map(|at| from + at) {
        match closing(cursor, at, tags) {
            Ok(Some(next)) => {
                cursor.at = next;
                return Ok(Raw::Text(without_breaks(&text[..at], tags).to_owned()));
            }
            Ok(None) => from = at + 2,
            Err(_) => {
                sure = sure.min(at);
                break;
            }
        }
    }
    let text = &text[..sure];
    let text = if tags.breaks {
        let text = text.strip_prefix("\r\n").or_else(|| text.strip_prefix('\n')).unwrap_or(text);
        text.strip_suffix('\n').map_or(text, |text| text.strip_suffix('\r').unwrap_or(text))
    } else {
        text
    };
    // A line break at the very beginning may come in two parts.
    if text != "\r" {
        seen.growing(key, text.strip_suffix('\r').unwrap_or(text));
    }
    Err(Stop::More)
}

/// Where to go on, if the value ends at `at` bytes from here.
fn closing(cursor: &Cursor, at: usize, tags: &Tags) -> Parsed<Option<usize>> {
    let mut ahead = *cursor;
    ahead.at += at;
    let start = ahead.at;
    let (follows, next): (&[&[&'static str]], _) = if ahead.eat(tags.end_parameter)? {
        (&[&[tags.parameter, tags.end_function], tags.wrapper_ends], ahead.at)
    } else if ahead.eat(tags.end_function)? {
        // The value's own closing tag was forgotten.
        (&[tags.wrapper_ends], start)
    } else {
        return Ok(None);
    };
    ahead.skip_space();
    if ahead.rest().is_empty() {
        return if ahead.end { Ok(Some(next)) } else { Err(Stop::More) };
    }
    for marks in follows {
        if ahead.eat_any(marks)?.is_some() {
            return Ok(Some(next));
        }
    }
    Ok(None)
}

fn cdata(cursor: &mut Cursor, tags: &Tags) -> Parsed<Option<String>> {
    let mut ahead = *cursor;
    ahead.skip_space();
    if ahead.rest().is_empty() && !ahead.end {
        return Ok(None);
    }
    match ahead.eat(CDATA) {
        Ok(true) => {}
        Ok(false) => return Ok(None),
        Err(stop) => return Err(stop),
    }
    let text = ahead.rest();
    let length = text.find(END_CDATA).ok_or(Stop::More)?;
    ahead.at += length + END_CDATA.len();
    ahead.peek_word()?;
    ahead.expect(tags.end_parameter)?;
    *cursor = ahead;
    Ok(Some(text[..length].to_owned()))
}

fn without_breaks<'t>(text: &'t str, tags: &Tags) -> &'t str {
    if !tags.breaks {
        return text;
    }
    let text = text.strip_prefix("\r\n").or_else(|| text.strip_prefix('\n')).unwrap_or(text);
    text.strip_suffix('\n').map_or(text, |text| text.strip_suffix('\r').unwrap_or(text))
}
