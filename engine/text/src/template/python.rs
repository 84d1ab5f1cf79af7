//! What Hugging Face templates expect of Python: its JSON, its clock, its exceptions and more of its string methods.

use minijinja::{
    Environment, Error, ErrorKind, State, Value,
    value::{Kwargs, Rest, Tuple, ValueKind, from_args},
};
use std::sync::Arc;

/// The local time, for `strftime_now`.
pub(crate) type Clock = Arc<dyn Fn() -> jiff::ZonedDateTime + Send + Sync>;

pub(crate) fn system_clock() -> Clock {
    Arc::new(jiff::ZonedDateTime::now)
}

pub(crate) fn install(env: &mut Environment<'_>, clock: Clock) {
    super::written::install(env);
    env.add_filter("tojson", tojson);
    env.add_function("raise_exception", |message: &Value| -> Result<Value, Error> {
        Err(Error::new(ErrorKind::InvalidOperation, message.to_string()).with_source(Raised))
    });
    env.add_function("strftime_now", move |format: &str| {
        jiff::fmt::strtime::format(format, &clock())
            .map_err(|error| Error::new(ErrorKind::InvalidOperation, format!("strftime_now: {error}")))
    });
    env.add_function("cycler", |items: Rest<Value>| minijinja_contrib::globals::cycler(items.to_vec()));
    env.add_function("joiner", minijinja_contrib::globals::joiner);
    env.add_filter("int", int);
    env.add_filter("float", float);
    env.add_filter("default", default);
    env.add_filter("d", default);
    env.add_filter("sort", sort);
    env.add_filter("indent", indent);
    // Templates ask `tools is iterable` where there are none.
    env.add_test("iterable", |value: &Value| {
        !value.is_none() && (value.is_undefined() || value.try_iter().is_ok())
    });
    // To Python whatever has a length and can be indexed is a sequence, texts and dictionaries too.
    env.add_test("sequence", |value: &Value| {
        matches!(value.kind(), ValueKind::String | ValueKind::Seq | ValueKind::Map)
    });
    env.set_unknown_method_callback(methods);
}

/// Marks an error that the template raised itself.
#[derive(Debug, thiserror::Error)]
#[error("raised by the template")]
pub(crate) struct Raised;

/// `json.dumps` with the defaults of `transformers`: nothing escaped for HTML or ASCII, `, ` and `: ` between items,
/// keys in their own order.
fn tojson(value: &Value, positional: Rest<Value>, options: Kwargs) -> Result<Value, Error> {
    let option = |name: &str, at: usize| -> Result<Option<Value>, Error> {
        let named: Option<Value> = options.get(name)?;
        Ok(named
            .or_else(|| positional.get(at).cloned())
            .filter(|value| !value.is_none() && !value.is_undefined()))
    };
    let indent = option("indent", 1)?
        .map(|indent| match indent.as_usize() {
            Some(width) => Ok(" ".repeat(width.min(64))),
            None => indent
                .as_str()
                .map(str::to_owned)
                .ok_or_else(|| Error::new(ErrorKind::InvalidOperation, "tojson: `indent` must be a number or a text")),
        })
        .transpose()?;
    let mut writer = Json {
        out: String::new(),
        ascii: option("ensure_ascii", 0)?.is_some_and(|value| value.is_true()),
        sort: option("sort_keys", 3)?.is_some_and(|value| value.is_true()),
        item: if indent.is_some() { ",".into() } else { ", ".into() },
        key: ": ".into(),
        indent,
    };
    if let Some(separators) = option("separators", 2)? {
        writer.item = separators.get_item_by_index(0)?.to_string();
        writer.key = separators.get_item_by_index(1)?.to_string();
    }
    options.assert_all_used()?;
    writer.value(value, 0)?;
    Ok(Value::from(writer.out))
}

/// Deeper nesting is an error, as in Python.
const DEEPEST: usize = 200;

struct Json {
    out: String,
    ascii: bool,
    sort: bool,
    item: String,
    key: String,
    indent: Option<String>,
}

impl Json {
    fn value(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        if depth > DEEPEST {
            return Err(Error::new(ErrorKind::BadSerialization, "tojson: the value is nested too deeply"));
        }
        match value.kind() {
            ValueKind::None => self.out.push_str("null"),
            ValueKind::Bool => self.out.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number => self.out.push_str(&number(value)),
            ValueKind::String => self.string(value.as_str().unwrap_or_default()),
            ValueKind::Seq | ValueKind::Iterable => {
                let items: Vec<Value> = value.try_iter()?.collect();
                self.list('[', ']', depth, items.len(), |json, at| json.value(&items[at], depth + 1))?;
            }
            ValueKind::Map => {
                let mut keys: Vec<Value> = value.try_iter()?.collect();
                if self.sort {
                    keys.sort();
                }
                self.list('{', '}', depth, keys.len(), |json, at| {
                    json.object_key(&keys[at])?;
                    json.value(&value.get_item(&keys[at])?, depth + 1)
                })?;
            }
            other => {
                let problem = format!("tojson: a value of type {other} is not JSON serializable");
                return Err(Error::new(ErrorKind::BadSerialization, problem));
            }
        }
        Ok(())
    }

    fn list(
        &mut self,
        open: char,
        close: char,
        depth: usize,
        items: usize,
        mut item: impl FnMut(&mut Self, usize) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.out.push(open);
        for at in 0..items {
            if at > 0 {
                self.out.push_str(&self.item);
            }
            self.new_line(depth + 1);
            item(self, at)?;
        }
        if items > 0 {
            self.new_line(depth);
        }
        self.out.push(close);
        Ok(())
    }

    fn new_line(&mut self, depth: usize) {
        if let Some(indent) = &self.indent {
            self.out.push('\n');
            for _ in 0..depth {
                self.out.push_str(indent);
            }
        }
    }

    fn object_key(&mut self, key: &Value) -> Result<(), Error> {
        let text = match key.kind() {
            ValueKind::String => key.as_str().unwrap_or_default().to_owned(),
            ValueKind::None => "null".to_owned(),
            ValueKind::Bool => if key.is_true() { "true" } else { "false" }.to_owned(),
            ValueKind::Number => number(key),
            other => {
                return Err(Error::new(
                    ErrorKind::BadSerialization,
                    format!("tojson: keys cannot be of type {other}"),
                ));
            }
        };
        self.string(&text);
        self.out.push_str(&self.key);
        Ok(())
    }

    fn string(&mut self, text: &str) {
        use std::fmt::Write;
        self.out.push('"');
        for character in text.chars() {
            match character {
                '"' => self.out.push_str("\\\""),
                '\\' => self.out.push_str("\\\\"),
                '\n' => self.out.push_str("\\n"),
                '\r' => self.out.push_str("\\r"),
                '\t' => self.out.push_str("\\t"),
                '\u{8}' => self.out.push_str("\\b"),
                '\u{c}' => self.out.push_str("\\f"),
                control if (control as u32) < 0x20 => {
                    let _ = write!(self.out, "\\u{:04x}", control as u32);
                }
                other if self.ascii && !(' '..='~').contains(&other) => {
                    for unit in other.encode_utf16(&mut [0; 2]) {
                        let _ = write!(self.out, "\\u{unit:04x}");
                    }
                }
                other => self.out.push(other),
            }
        }
        self.out.push('"');
    }
}

/// `default(default_value='', boolean=false)`, by position or name.
fn default(value: &Value, positional: Rest<Value>, options: Kwargs) -> Result<Value, Error> {
    let other = match options.get::<Option<Value>>("default_value")? {
        Some(other) => other,
        None => positional.first().cloned().unwrap_or_else(|| Value::from("")),
    };
    let boolean = match options.get::<Option<Value>>("boolean")? {
        Some(boolean) => boolean.is_true(),
        None => positional.get(1).is_some_and(Value::is_true),
    };
    options.assert_all_used()?;
    Ok(if value.is_undefined() || (boolean && !value.is_true()) {
        other
    } else {
        value.clone()
    })
}

/// `indent(width=4, first=false, blank=false)`; keeps a last line break, where the engine's own drops it.
fn indent(text: &str, positional: Rest<Value>, options: Kwargs) -> Result<String, Error> {
    let option = |name: &str, at: usize| -> Result<Option<Value>, Error> {
        let named: Option<Value> = options.get(name)?;
        Ok(named.or_else(|| positional.get(at).cloned()))
    };
    let width = match option("width", 0)? {
        Some(width) => match width.as_str() {
            Some(indent) => indent.to_owned(),
            None => " ".repeat(width.as_usize().unwrap_or(4).min(256)),
        },
        None => " ".repeat(4),
    };
    let first = option("first", 1)?.is_some_and(|first| first.is_true());
    let blank = option("blank", 2)?.is_some_and(|blank| blank.is_true());
    options.assert_all_used()?;
    let mut out = String::with_capacity(text.len());
    for (at, line) in text.split('\n').enumerate() {
        if at > 0 {
            out.push('\n');
        }
        if if at == 0 { first } else { blank || !line.is_empty() } {
            out.push_str(&width);
        }
        out.push_str(line);
    }
    Ok(out)
}

/// `sort(reverse, case_sensitive, attribute)`, by position or name.
fn sort(state: &mut State, value: Value, positional: Rest<Value>, options: Kwargs) -> Result<Value, Error> {
    let mut named: Vec<(String, Value)> = Vec::new();
    for (at, name) in ["reverse", "case_sensitive", "attribute"].into_iter().enumerate() {
        let given = match options.get::<Option<Value>>(name)? {
            Some(given) => Some(given),
            None => positional.get(at).cloned(),
        };
        named.extend(given.map(|given| (name.to_owned(), given)));
    }
    options.assert_all_used()?;
    minijinja::filters::sort(state, value, named.into_iter().collect())
}

/// `int`, with a value for what is none.
fn int(value: &Value, default: Option<Value>) -> Value {
    let parsed = match value.as_str().map(str::trim) {
        Some(text) => text.parse().ok().or_else(|| text.parse::<f64>().ok().map(|float| float as i64)),
        None if value.kind() == ValueKind::Bool => Some(i64::from(value.is_true())),
        None => value
            .as_i64()
            .or_else(|| f64::try_from(value.clone()).ok().map(|float| float as i64)),
    };
    parsed.map(Value::from).or(default).unwrap_or_else(|| Value::from(0))
}

/// `float`, with a value for what is none.
fn float(value: &Value, default: Option<Value>) -> Value {
    let parsed = match value.as_str() {
        Some(text) => text.trim().parse::<f64>().ok(),
        None => f64::try_from(value.clone()).ok(),
    };
    parsed.map(Value::from).or(default).unwrap_or_else(|| Value::from(0.0))
}

/// A number as Python writes it in JSON.
pub(super) fn number(value: &Value) -> String {
    if value.is_integer() {
        return value.to_string();
    }
    let Ok(float) = f64::try_from(value.clone()) else {
        return value.to_string();
    };
    if float.is_nan() {
        return "NaN".to_owned();
    }
    if float.is_infinite() {
        return if float > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    // The shortest digits that read back the same, with an exponent below 1e-4 and from 1e16 on.
    let scientific = format!("{float:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if float != 0.0 && !(-4..16).contains(&exponent) {
        return format!("{digits}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs());
    }
    let plain = float.to_string();
    if plain.contains('.') { plain } else { plain + ".0" }
}

/// Python methods that `minijinja_contrib` does not know, then those it does.
fn methods(state: &mut State, value: &Value, method: &str, args: &[Value]) -> Result<Value, Error> {
    let Some(text) = value.as_str() else {
        return minijinja_contrib::pycompat::unknown_method_callback(state, value, method, args);
    };
    match method {
        "removeprefix" => {
            let (prefix,): (&str,) = from_args(args)?;
            Ok(Value::from(text.strip_prefix(prefix).unwrap_or(text)))
        }
        "removesuffix" => {
            let (suffix,): (&str,) = from_args(args)?;
            Ok(Value::from(text.strip_suffix(suffix).unwrap_or(text)))
        }
        "partition" | "rpartition" => {
            let (separator,): (&str,) = from_args(args)?;
            if separator.is_empty() {
                return Err(Error::new(ErrorKind::InvalidOperation, "empty separator"));
            }
            let last = method == "rpartition";
            let parts = match if last {
                text.rsplit_once(separator)
            } else {
                text.split_once(separator)
            } {
                Some((head, tail)) => [head, separator, tail],
                None if last => ["", "", text],
                None => [text, "", ""],
            };
            Ok(Value::from(Tuple::from(parts.map(Value::from))))
        }
        "rsplit" if !args.is_empty() => {
            let (separator, most): (&str, Option<i64>) = from_args(args)?;
            if separator.is_empty() {
                return Err(Error::new(ErrorKind::InvalidOperation, "empty separator"));
            }
            let mut parts: Vec<&str> = match most {
                Some(most) if most >= 0 => text.rsplitn(most as usize + 1, separator).collect(),
                _ => text.rsplit(separator).collect(),
            };
            parts.reverse();
            Ok(parts.into_iter().map(Value::from).collect())
        }
        "index" | "rindex" => {
            let (what,): (&str,) = from_args(args)?;
            let found = if method == "index" { text.find(what) } else { text.rfind(what) };
            let at = found.ok_or_else(|| Error::new(ErrorKind::InvalidOperation, "substring not found"))?;
            Ok(Value::from(text[..at].chars().count()))
        }
        "casefold" => Ok(Value::from(text.to_lowercase())),
        "swapcase" => Ok(Value::from(
            text.chars()
                .flat_map(|character| {
                    if character.is_uppercase() {
                        character.to_lowercase().collect::<Vec<_>>()
                    } else {
                        character.to_uppercase().collect()
                    }
                })
                .collect::<String>(),
        )),
        "zfill" => {
            let (width,): (usize,) = from_args(args)?;
            let missing = width.min(4096).saturating_sub(text.chars().count());
            let (sign, digits) = text.split_at(usize::from(text.starts_with(['+', '-'])));
            Ok(Value::from(format!("{sign}{}{digits}", "0".repeat(missing))))
        }
        _ => minijinja_contrib::pycompat::unknown_method_callback(state, value, method, args),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may fail")]
mod tests {
    use super::*;

    #[test]
    fn floats_are_written_as_python_does() {
        for (float, text) in [
            (1.0, "1.0"),
            (2.5, "2.5"),
            (1e16, "1e+16"),
            (1.5e-7, "1.5e-07"),
            (1e15, "1000000000000000.0"),
            (-0.0, "-0.0"),
            (1e-4, "0.0001"),
            (1e22, "1e+22"),
        ] {
            assert_eq!(number(&Value::from(float)), text);
        }
    }
}
