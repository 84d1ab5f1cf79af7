//! Reading a request body field by field: tolerant where clients differ, exact about what is wrong.

use crate::error::ApiError;
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// A JSON object being read. `null` is absent. What is not read is reported by [`Fields::unread`].
pub(crate) struct Fields<'a> {
    map: &'a Map<String, Value>,
    read: BTreeSet<&'static str>,
    pub(crate) warnings: Vec<String>,
}

impl<'a> Fields<'a> {
    pub(crate) fn new(map: &'a Map<String, Value>) -> Self {
        Self {
            map,
            read: BTreeSet::new(),
            warnings: Vec::new(),
        }
    }

    pub(crate) fn get(&mut self, name: &'static str) -> Option<&'a Value> {
        self.read.insert(name);
        self.map.get(name).filter(|value| !value.is_null())
    }

    /// Fields that have no meaning here and need none.
    pub(crate) fn ignore(&mut self, names: &[&'static str]) {
        self.read.extend(names);
    }

    /// Fields that would change the answer elsewhere: dropped, and said so when they ask for something.
    pub(crate) fn drop_loudly(&mut self, names: &[&'static str]) {
        for name in names {
            if let Some(value) = self.get(name)
                && asks_for_something(value)
            {
                self.warnings.push(format!("`{name}` is not supported and was ignored"));
            }
        }
    }

    pub(crate) fn bool(&mut self, name: &'static str) -> Result<Option<bool>, ApiError> {
        self.get(name)
            .map(|value| value.as_bool().ok_or_else(|| wrong(name, "true or false", value)))
            .transpose()
    }

    pub(crate) fn text(&mut self, name: &'static str) -> Result<Option<&'a str>, ApiError> {
        self.get(name)
            .map(|value| value.as_str().ok_or_else(|| wrong(name, "a string", value)))
            .transpose()
    }

    pub(crate) fn object(&mut self, name: &'static str) -> Result<Option<&'a Map<String, Value>>, ApiError> {
        self.get(name)
            .map(|value| value.as_object().ok_or_else(|| wrong(name, "an object", value)))
            .transpose()
    }

    pub(crate) fn array(&mut self, name: &'static str) -> Result<Option<&'a [Value]>, ApiError> {
        self.get(name)
            .map(|value| value.as_array().map(Vec::as_slice).ok_or_else(|| wrong(name, "an array", value)))
            .transpose()
    }

    /// A number moved into `low..=high`, with a warning when it was outside.
    pub(crate) fn number(&mut self, name: &'static str, low: f64, high: f64) -> Result<Option<f64>, ApiError> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let number = number(value).ok_or_else(|| wrong(name, "a number", value))?;
        let clamped = number.clamp(low, high);
        if clamped != number {
            self.warnings
                .push(format!("`{name}` {number} is out of range and was set to {clamped}"));
        }
        Ok(Some(clamped))
    }

    /// A whole number; `5.0` and `"5"` count, as clients send both.
    pub(crate) fn integer(&mut self, name: &'static str) -> Result<Option<i64>, ApiError> {
        self.get(name)
            .map(|value| integer(value).ok_or_else(|| wrong(name, "a whole number", value)))
            .transpose()
    }

    /// The names nobody asked for, as one warning.
    pub(crate) fn warn_unread(&mut self) {
        let unknown: Vec<String> = self
            .map
            .iter()
            .filter(|(name, value)| !self.read.contains(name.as_str()) && !value.is_null())
            .map(|(name, _)| format!("`{}`", name.chars().take(40).collect::<String>()))
            .collect();
        if let Some((shown, rest)) = unknown.split_at_checked(unknown.len().min(16))
            && !shown.is_empty()
        {
            let more = if rest.is_empty() {
                String::new()
            } else {
                format!(" and {} more", rest.len())
            };
            self.warnings
                .push(format!("unknown fields were ignored: {}{more}", shown.join(", ")));
        }
    }
}

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
    .filter(|number| number.is_finite())
}

pub(crate) fn integer(value: &Value) -> Option<i64> {
    match value {
        Value::Number(number) if number.is_u64() => Some(number.as_u64().map_or(i64::MAX, |wide| i64::try_from(wide).unwrap_or(i64::MAX))),
        Value::Number(number) if number.is_i64() => number.as_i64(),
        other => number(other).filter(|number| number.fract() == 0.0).map(|number| number as i64),
    }
}

/// Not `false`, `0`, `""`, `[]` or `{}`: the ways of saying "off".
fn asks_for_something(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(on) => *on,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(map) => !map.is_empty(),
    }
}

/// "`name` must be …, not …".
pub(crate) fn wrong(name: &str, expected: &str, value: &Value) -> ApiError {
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    };
    let shown = value.to_string();
    let shown = if shown.chars().count() > 40 {
        kind.to_owned()
    } else {
        format!("{kind} (`{shown}`)")
    };
    ApiError::invalid(name, format!("`{name}` must be {expected}, not {shown}"))
}
