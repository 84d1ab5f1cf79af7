//! Signs of Python code in a folder. This engine never runs any; it says so.
//! Source of the rule: `spec/cli.md` "Remote-code refusal".

use super::config::read_json;
use serde_json::{Map, Value};
use std::path::Path;

const FILES: [&str; 5] = [
    "config.json",
    "tokenizer_config.json",
    "processor_config.json",
    "preprocessor_config.json",
    "generation_config.json",
];
const NESTED: [&str; 3] = ["text_config", "vision_config", "audio_config"];

/// Where a folder names Python code.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Markers {
    /// `file:model_file`: architecture code that replaces the named model type.
    pub model_file: Vec<String>,
    /// `file:auto_map`: code for loaders that do not know the model type.
    pub auto_map: Vec<String>,
}

impl Markers {
    pub fn all(self) -> Vec<String> {
        [self.model_file, self.auto_map].concat()
    }
}

/// Reads the five configuration files; an unreadable one is not a marker.
pub fn markers(dir: &Path) -> Markers {
    let mut found = Markers::default();
    for file in FILES {
        let Ok(Some(Value::Object(top))) = read_json(&dir.join(file)) else {
            continue;
        };
        found.scan(file, "", &top);
        for key in NESTED {
            if let Some(Value::Object(nested)) = top.get(key) {
                found.scan(file, &format!("{key}."), nested);
            }
        }
    }
    found
}

impl Markers {
    fn scan(&mut self, file: &str, prefix: &str, fields: &Map<String, Value>) {
        let set = |key: &str| fields.get(key).is_some_and(truthy);
        if set("model_file") {
            self.model_file.push(format!("{file}:{prefix}model_file"));
        }
        if set("auto_map") {
            self.auto_map.push(format!("{file}:{prefix}auto_map"));
        }
    }
}

/// As Python judges it.
fn truthy(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(set) => *set,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn every_place_is_named_and_empty_values_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, json: &str| std::fs::write(dir.path().join(name), json).unwrap();
        write(
            "config.json",
            r#"{"auto_map": {"A": "b.C"}, "text_config": {"model_file": "x.py"}, "vision_config": {"auto_map": {}}}"#,
        );
        write("tokenizer_config.json", "not json");
        write("generation_config.json", r#"{"model_file": ""}"#);
        write("processor_config.json", r#"{"auto_map": {"P": "q.R"}}"#);
        let found = markers(dir.path());
        assert_eq!(found.model_file, ["config.json:text_config.model_file"]);
        assert_eq!(found.auto_map, ["config.json:auto_map", "processor_config.json:auto_map"]);
    }
}
