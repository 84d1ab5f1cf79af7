//! `config.json` and its neighbours, read leniently: JSON as Python writes it (bare `Infinity`), transformers' tagged
//! floats (`{"__float__": "Infinity"}`), text fields nested under `text_config`.

use super::LoadError;
use serde_json::{Map, Value};
use std::path::Path;

type Result<T> = std::result::Result<T, LoadError>;

/// Largest JSON file read: configs are kilobytes, tokenizers are read elsewhere.
const MAX_JSON: u64 = 64 << 20;

/// Larger sizes are a mistake, and their products would not fit.
const MAX_SIZE: u64 = 1 << 28;

/// `rope_theta` and the scaling entry.
pub type RopeFields<'a> = (Option<f64>, Option<&'a Map<String, Value>>);

/// The fields of `config.json`. Null counts as absent.
#[derive(Debug, Clone)]
pub struct Config {
    top: Map<String, Value>,
    text: Map<String, Value>,
}

impl Config {
    pub fn read(dir: &Path) -> Result<Self> {
        let path = dir.join("config.json");
        match read_json(&path)? {
            Some(Value::Object(top)) => Ok(Self::new(top)),
            Some(_) => Err(LoadError::Config("its top level is not an object".into())),
            None => Err(LoadError::NotAModel {
                path: dir.to_owned(),
                reason: "it has no config.json".into(),
            }),
        }
    }

    pub fn new(top: Map<String, Value>) -> Self {
        let text = match top.get("text_config") {
            Some(Value::Object(text)) => text.clone(),
            _ => Map::new(),
        };
        Self { top, text }
    }

    /// Everything, as it is stored.
    pub fn all(&self) -> &Map<String, Value> {
        &self.top
    }

    pub fn model_type(&self) -> Result<&str> {
        let found = self.top.get("model_type").and_then(Value::as_str);
        found.ok_or_else(|| LoadError::Config("`model_type` is missing, so the architecture is unknown".into()))
    }

    /// A field of the text model: under `text_config` first, then at top level.
    pub fn field(&self, key: &str) -> Option<&Value> {
        let present = |value: &&Value| !value.is_null();
        self.text.get(key).filter(present).or_else(|| self.top(key))
    }

    /// A field at top level only.
    pub fn top(&self, key: &str) -> Option<&Value> {
        self.top.get(key).filter(|value| !value.is_null())
    }

    pub fn text(&self, key: &str) -> Option<&Value> {
        self.text.get(key).filter(|value| !value.is_null())
    }

    /// Whether the text model's entry is there and null.
    pub fn is_null(&self, key: &str) -> bool {
        self.text.get(key).or_else(|| self.top.get(key)).is_some_and(Value::is_null)
    }

    /// As [`Self::usize`], of the top level alone.
    pub fn top_usize(&self, key: &str) -> Result<usize> {
        let value = self.top(key).ok_or_else(|| missing(key))?;
        let whole = value.as_u64().filter(|n| (1..=MAX_SIZE).contains(n));
        whole
            .map(|n| n as usize)
            .ok_or_else(|| wrong(key, "a positive whole number of sensible size", value))
    }

    /// A positive whole number of at most 2^28.
    pub fn usize(&self, key: &str) -> Result<usize> {
        self.usize_opt(key)?.ok_or_else(|| missing(key))
    }

    pub fn usize_opt(&self, key: &str) -> Result<Option<usize>> {
        self.field(key)
            .map(|value| {
                let whole = value.as_u64().filter(|n| (1..=MAX_SIZE).contains(n));
                whole
                    .map(|n| n as usize)
                    .ok_or_else(|| wrong(key, "a positive whole number of sensible size", value))
            })
            .transpose()
    }

    /// A whole number, zero included; `default` where it is absent.
    pub fn count_or(&self, key: &str, default: usize) -> Result<usize> {
        match self.field(key) {
            Some(value) if value.as_u64() == Some(0) => Ok(0),
            _ => Ok(self.usize_opt(key)?.unwrap_or(default)),
        }
    }

    pub fn f64(&self, key: &str) -> Result<f64> {
        self.f64_opt(key)?.ok_or_else(|| missing(key))
    }

    pub fn f64_opt(&self, key: &str) -> Result<Option<f64>> {
        self.field(key)
            .map(|value| float(value).ok_or_else(|| wrong(key, "a number", value)))
            .transpose()
    }

    pub fn bool_or(&self, key: &str, default: bool) -> Result<bool> {
        self.field(key).map_or(Ok(default), |value| {
            value.as_bool().ok_or_else(|| wrong(key, "true or false", value))
        })
    }

    pub fn object(&self, key: &str) -> Option<&Map<String, Value>> {
        self.field(key).and_then(Value::as_object)
    }

    /// A list of words.
    pub fn words(&self, key: &str) -> Result<Option<Vec<&str>>> {
        self.field(key)
            .map(|value| {
                let words = value
                    .as_array()
                    .map(|items| items.iter().map(Value::as_str).collect::<Option<Vec<_>>>());
                words.flatten().ok_or_else(|| wrong(key, "a list of words", value))
            })
            .transpose()
    }

    /// A list of numbers.
    pub fn numbers(&self, key: &str) -> Result<Option<Vec<f64>>> {
        self.field(key)
            .map(|value| {
                let numbers = value.as_array().map(|items| items.iter().map(float).collect::<Option<Vec<_>>>());
                numbers.flatten().ok_or_else(|| wrong(key, "a list of numbers", value))
            })
            .transpose()
    }

    /// RoPE base and scaling: `rope_theta` and `rope_scaling`, or both inside `rope_parameters` (transformers 5).
    pub fn rope(&self) -> Result<RopeFields<'_>> {
        let nested = self.object("rope_parameters");
        let theta = match self.f64_opt("rope_theta")? {
            Some(theta) => Some(theta),
            None => nested.and_then(|rope| rope.get("rope_theta")).and_then(float),
        };
        Ok((theta, self.object("rope_scaling").or(nested)))
    }
}

/// A number, also as transformers tags the ones that JSON lacks.
pub fn float(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        Value::Object(tagged) if tagged.len() == 1 => match tagged.get("__float__")?.as_str()? {
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            "NaN" => Some(f64::NAN),
            _ => None,
        },
        _ => None,
    }
}

fn missing(key: &str) -> LoadError {
    LoadError::Config(format!("`{key}` is missing"))
}

fn wrong(key: &str, wanted: &str, found: &Value) -> LoadError {
    LoadError::Config(format!("`{key}` must be {wanted}, found {found}"))
}

/// The file's JSON; `None` when there is no such file.
pub fn read_json(path: &Path) -> Result<Option<Value>> {
    let length = match std::fs::metadata(path) {
        Ok(meta) => meta.len(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(LoadError::file(path, &error)),
    };
    if length > MAX_JSON {
        return Err(LoadError::File {
            path: path.to_owned(),
            reason: format!("{length} bytes are too many for a configuration (at most {MAX_JSON})"),
        });
    }
    let text = std::fs::read_to_string(path).map_err(|error| LoadError::file(path, &error))?;
    let parsed = serde_json::from_str(&text).or_else(|error| serde_json::from_str(&tag_floats(&text)).map_err(|_| error));
    parsed.map(Some).map_err(|error| LoadError::File {
        path: path.to_owned(),
        reason: format!("it is not JSON ({error})"),
    })
}

/// Rewrites Python's bare `Infinity`, `-Infinity` and `NaN` as tagged floats, outside strings.
fn tag_floats(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 64);
    let mut rest = text;
    let (mut quoted, mut escaped) = (false, false);
    while let Some(c) = rest.chars().next() {
        if !quoted && let Some(word) = ["-Infinity", "Infinity", "NaN"].into_iter().find(|word| rest.starts_with(word)) {
            out.extend(["{\"__float__\":\"", word, "\"}"]);
            rest = &rest[word.len()..];
            continue;
        }
        if c == '"' && !escaped {
            quoted = !quoted;
        }
        escaped = quoted && c == '\\' && !escaped;
        out.push(c);
        rest = &rest[c.len_utf8()..];
    }
    out
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn config(json: &str) -> Config {
        let Ok(Value::Object(top)) = serde_json::from_str(&tag_floats(json)) else {
            panic!("not an object")
        };
        Config::new(top)
    }

    #[test]
    fn floats_that_json_lacks() {
        let read = config(r#"{"a": {"__float__": "-Infinity"}, "b": Infinity, "c": "NaN \" Infinity", "d": {"__float__": "x"}}"#);
        assert_eq!(read.f64("a").unwrap(), f64::NEG_INFINITY);
        assert_eq!(read.f64("b").unwrap(), f64::INFINITY);
        assert_eq!(read.field("c").unwrap(), "NaN \" Infinity");
        assert!(read.f64("d").is_err());
    }

    #[test]
    fn text_fields_come_first_and_null_is_absent() {
        let read = config(r#"{"hidden_size": 8, "head_dim": null, "text_config": {"hidden_size": 16}, "n": -1}"#);
        assert_eq!(read.usize("hidden_size").unwrap(), 16);
        assert_eq!(read.usize_opt("head_dim").unwrap(), None);
        assert!(
            read.usize("n")
                .unwrap_err()
                .to_string()
                .contains("`n` must be a positive whole number of sensible size, found -1")
        );
        assert!(read.usize("m").unwrap_err().to_string().contains("`m` is missing"));
    }

    #[test]
    fn rope_parameters_of_transformers_5() {
        let read = config(r#"{"rope_parameters": {"rope_type": "default", "rope_theta": 1000000.0}}"#);
        let (theta, scaling) = read.rope().unwrap();
        assert_eq!(theta, Some(1e6));
        assert_eq!(scaling.unwrap()["rope_type"], "default");
    }
}
