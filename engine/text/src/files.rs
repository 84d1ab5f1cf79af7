//! What a model folder says about its text: special tokens, end-of-sequence ids, templates, recommended sampling.

use crate::{Result, TextError};
use dspark_protocol::SamplingDefaults;
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::Path,
};

/// Tokens that end a turn in some family or other, whatever the configuration says. Source: `spec/checkpoints.md` §5.
const TURN_ENDS: [&str; 7] = [
    "<turn|>",
    "<|tool_response>",
    "<end_of_turn>",
    "<|im_end|>",
    "<|eot|>",
    "<|endoftext|>",
    "<eos>",
];

#[derive(Debug, Clone, Default)]
pub(crate) struct Folder {
    /// `bos_token`, `eos_token`, …: name to text.
    pub(crate) specials: BTreeMap<String, String>,
    pub(crate) add_bos: Option<bool>,
    /// From `config.json` and `generation_config.json`.
    pub(crate) eos_ids: BTreeSet<u32>,
    /// By name; the usual one is `default`.
    pub(crate) templates: BTreeMap<String, String>,
    pub(crate) sampling: SamplingDefaults,
    /// `added_tokens_decoder` of `tokenizer_config.json`.
    pub(crate) added: BTreeMap<u32, Value>,
}

impl Folder {
    pub(crate) fn read(dir: &Path) -> Result<Self> {
        let tokenizer = json(dir, "tokenizer_config.json")?;
        let map = json(dir, "special_tokens_map.json")?;
        let generation = json(dir, "generation_config.json")?;
        let config = json(dir, "config.json")?;

        let mut folder = Self {
            add_bos: tokenizer["add_bos_token"].as_bool(),
            sampling: sampling(&generation),
            ..Self::default()
        };
        for source in [&map, &tokenizer] {
            for (name, value) in source.as_object().into_iter().flatten() {
                // `{"content": "<s>", …}` and plain text both occur.
                let text = value.as_str().or_else(|| value["content"].as_str());
                if let Some(text) = text.filter(|_| name.ends_with("_token")) {
                    folder.specials.insert(name.clone(), text.to_owned());
                }
            }
        }
        for (id, token) in tokenizer["added_tokens_decoder"].as_object().into_iter().flatten() {
            if let Ok(id) = id.parse() {
                folder.added.insert(id, token.clone());
            }
        }
        for source in [&config, &config["text_config"], &generation] {
            folder.eos_ids.extend(ids(&source["eos_token_id"]));
        }
        folder.read_templates(dir, &tokenizer)?;
        Ok(folder)
    }

    /// Later places win: `chat_template.json`, `tokenizer_config.json`, `chat_template.jinja`.
    fn read_templates(&mut self, dir: &Path, tokenizer: &Value) -> Result<()> {
        for value in [&json(dir, "chat_template.json")?["chat_template"], &tokenizer["chat_template"]] {
            match value {
                Value::String(template) => self.add_template("default", template),
                Value::Array(named) => {
                    for entry in named {
                        if let (Some(name), Some(template)) = (entry["name"].as_str(), entry["template"].as_str()) {
                            self.add_template(name, template);
                        }
                    }
                }
                Value::Object(named) => {
                    for (name, template) in named {
                        self.add_template(name, template.as_str().unwrap_or_default());
                    }
                }
                _ => {}
            }
        }
        if let Some(template) = text(&dir.join("chat_template.jinja"))? {
            self.add_template("default", &template);
        }
        let Ok(more) = fs::read_dir(dir.join("additional_chat_templates")) else {
            return Ok(());
        };
        for path in more.flatten().map(|entry| entry.path()) {
            if path.extension().is_some_and(|extension| extension == "jinja")
                && let Some(name) = path.file_stem().and_then(|stem| stem.to_str())
                && let Some(template) = text(&path)?
            {
                self.add_template(name, &template);
            }
        }
        Ok(())
    }

    fn add_template(&mut self, name: &str, template: &str) {
        if !template.is_empty() {
            self.templates.insert(name.to_owned(), template.to_owned());
        }
    }

    /// All ids that end a generation. `id_of` looks a token up, without falling back to the unknown token.
    pub(crate) fn stop_ids(&self, id_of: impl Fn(&str) -> Option<u32>) -> Vec<u32> {
        let unknown = self.specials.get("unk_token").and_then(|token| id_of(token));
        let named = self.specials.get("eos_token").map(String::as_str).into_iter().chain(TURN_ENDS);
        let named = named.filter_map(&id_of).filter(|id| Some(*id) != unknown);
        let mut ids = self.eos_ids.clone();
        ids.extend(named);
        ids.into_iter().collect()
    }
}

fn ids(value: &Value) -> Vec<u32> {
    let one = |value: &Value| value.as_u64().and_then(|id| u32::try_from(id).ok());
    match value {
        Value::Array(ids) => ids.iter().filter_map(one).collect(),
        other => one(other).into_iter().collect(),
    }
}

/// Only where the makers sample (`do_sample`), and give a temperature. Source: `spec/checkpoints.md` §5.
fn sampling(generation: &Value) -> SamplingDefaults {
    let Some(temperature) = generation["temperature"].as_f64().filter(|_| generation["do_sample"] != false) else {
        return SamplingDefaults::default();
    };
    SamplingDefaults {
        temperature: Some(temperature as f32),
        top_p: generation["top_p"].as_f64().map(|mass| mass as f32),
        top_k: generation["top_k"].as_u64().and_then(|count| u32::try_from(count).ok()),
    }
}

/// A JSON file, `Null` where it is absent. Python also writes numbers that JSON does not know.
fn json(dir: &Path, name: &str) -> Result<Value> {
    let path = dir.join(name);
    let Some(text) = text(&path)? else { return Ok(Value::Null) };
    let text = text.trim_start_matches('\u{feff}');
    let parsed = serde_json::from_str(text).or_else(|error| serde_json::from_str(&without_odd_numbers(text)).map_err(|_| error));
    parsed.map_err(|error| TextError::Invalid {
        path,
        cause: format!("it is not valid JSON ({error})"),
        fix: "download the model again",
    })
}

/// `NaN` and the infinities become `null` outside of strings.
fn without_odd_numbers(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut in_string = false;
    while let Some(character) = rest.chars().next() {
        let odd = ["-Infinity", "Infinity", "NaN"]
            .into_iter()
            .find(|word| !in_string && rest.starts_with(word));
        if let Some(word) = odd {
            out.push_str("null");
            rest = &rest[word.len()..];
            continue;
        }
        let mut length = character.len_utf8();
        match character {
            '"' => in_string = !in_string,
            '\\' if in_string => length += rest[1..].chars().next().map_or(0, char::len_utf8),
            _ => {}
        }
        out.push_str(&rest[..length]);
        rest = &rest[length..];
    }
    out
}

fn text(path: &Path) -> Result<Option<String>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(TextError::File {
            path: path.to_owned(),
            reason: error.to_string(),
        }),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may fail")]
mod tests {
    use super::*;

    #[test]
    fn python_numbers_are_no_obstacle() {
        let text = r#"{"limit": [0.0, Infinity, -Infinity], "x": NaN, "text": "NaN \" Infinity \\", "y": 1}"#;
        let value: Value = serde_json::from_str(&without_odd_numbers(text)).unwrap();
        assert_eq!(value["limit"], serde_json::json!([0.0, null, null]));
        assert_eq!((value["text"].as_str(), value["y"].as_i64()), (Some("NaN \" Infinity \\"), Some(1)));
    }
}
