//! The functions a request offers, and what it wants done with them.

use super::fields::wrong;
use crate::error::ApiError;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// What the model shall do with the functions.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum Choice {
    #[default]
    Auto,
    None,
    Required,
    /// This one, and no other.
    Named(String),
}

/// How a client spells a function that templates know under another name or shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Alias {
    /// A freeform tool of the Responses dialect: its text is the one argument `input`.
    Custom,
    /// A member of a namespace, offered to the model as `namespace__name`.
    Member { namespace: String, name: String },
}

#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Tools {
    /// As templates read them: `{type: "function", function: {name, description, parameters}}`.
    pub(crate) offered: Vec<Value>,
    pub(crate) choice: Choice,
    /// Whether an answer may hold more than one call.
    pub(crate) parallel: bool,
    pub(crate) aliases: BTreeMap<String, Alias>,
    /// Answer with the old `function_call` field instead of `tool_calls`.
    pub(crate) legacy: bool,
    /// Functions whose arguments must follow their schemas.
    pub(crate) strict: BTreeSet<String>,
    /// What was left out.
    pub(crate) skipped: Vec<String>,
}

impl Tools {
    pub(crate) fn new() -> Self {
        Self {
            parallel: true,
            ..Self::default()
        }
    }

    /// Offers a function. Without a schema it takes no arguments.
    pub(crate) fn offer(&mut self, name: &str, description: Option<&str>, parameters: Option<&Value>, strict: bool) {
        if strict {
            self.strict.insert(name.to_owned());
        }
        let mut function = Map::new();
        function.insert("name".into(), json!(name));
        if let Some(description) = description {
            function.insert("description".into(), json!(description));
        }
        let parameters = parameters.filter(|parameters| parameters.is_object()).cloned();
        let parameters = parameters.unwrap_or_else(|| json!({"type": "object", "properties": {}}));
        function.insert("parameters".into(), parameters);
        self.offered.push(json!({"type": "function", "function": function}));
    }

    /// A tool that is no function: left out, since nothing here could run it.
    pub(crate) fn skip(&mut self, kind: &str) {
        let kind: String = kind.chars().take(60).collect();
        if !self.skipped.contains(&kind) {
            self.skipped.push(kind);
        }
    }

    pub(crate) fn name_of(tool: &Value) -> Option<&str> {
        tool.get("function")?.get("name")?.as_str()
    }

    /// The tools that the prompt tells of: none where calls are off, only the named one where one is.
    pub(crate) fn told(&self) -> Vec<Value> {
        match &self.choice {
            Choice::None => Vec::new(),
            Choice::Named(name) => self
                .offered
                .iter()
                .filter(|tool| Self::name_of(tool) == Some(name))
                .cloned()
                .collect(),
            Choice::Auto | Choice::Required => self.offered.clone(),
        }
    }

    /// Whether calls are looked for in the answer.
    pub(crate) fn live(&self) -> bool {
        self.choice != Choice::None && !self.offered.is_empty()
    }

    /// A sentence for the prompt where a call is demanded: the output is held to it, but a model that knows answers better.
    pub(crate) fn demand(&self) -> Option<String> {
        match &self.choice {
            Choice::Required => Some("Answer this by calling one of the functions.".into()),
            Choice::Named(name) => Some(format!("Answer this by calling the function `{name}`.")),
            Choice::Auto | Choice::None => None,
        }
    }

    /// Told with the reply.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if !self.skipped.is_empty() {
            let kinds = self.skipped.iter().map(|kind| format!("`{kind}`")).collect::<Vec<_>>().join(", ");
            warnings.push(format!(
                "tools of these kinds were left out, since only functions can be offered: {kinds}"
            ));
        }
        warnings
    }

    /// # Errors
    /// The choice demands what is not offered.
    pub(crate) fn check(&self) -> Result<(), ApiError> {
        match &self.choice {
            Choice::Required if self.offered.is_empty() => Err(ApiError::invalid(
                "tool_choice",
                "`tool_choice` asks for a call, but `tools` offers no function",
            )),
            Choice::Named(name) if !self.offered.iter().any(|tool| Self::name_of(tool) == Some(name)) => Err(ApiError::invalid(
                "tool_choice",
                format!(
                    "`tool_choice` names `{}`, which `tools` does not offer",
                    name.chars().take(120).collect::<String>()
                ),
            )),
            _ => Ok(()),
        }
    }
}

/// OpenAI's `tool_choice`: a word, or `{type: "function", function: {name}}`, or (Responses) `{type, name}`.
///
/// # Errors
/// A 400 for anything else.
pub(crate) fn openai_choice(value: Option<&Value>) -> Result<Choice, ApiError> {
    let unknown = |said: &str| {
        ApiError::invalid(
            "tool_choice",
            format!("`tool_choice` `{said}` is unknown: use `auto`, `none`, `required` or a named function"),
        )
    };
    match value {
        None => Ok(Choice::Auto),
        Some(Value::String(word)) => match word.as_str() {
            "auto" => Ok(Choice::Auto),
            "none" => Ok(Choice::None),
            "required" | "any" => Ok(Choice::Required),
            other => Err(unknown(other)),
        },
        Some(Value::Object(choice)) => {
            let kind = choice.get("type").and_then(Value::as_str).unwrap_or("function");
            let named = choice
                .get("function")
                .or_else(|| choice.get("custom"))
                .and_then(|function| function.get("name"));
            let name = named.or_else(|| choice.get("name")).and_then(Value::as_str);
            match (kind, name) {
                ("function" | "custom" | "tool", Some(name)) => Ok(Choice::Named(name.to_owned())),
                ("function" | "custom" | "tool", None) => Err(ApiError::invalid(
                    "tool_choice",
                    "`tool_choice` names no function: send {\"type\": \"function\", \"function\": {\"name\": …}}",
                )),
                ("auto", _) => Ok(Choice::Auto),
                ("none", _) => Ok(Choice::None),
                ("required" | "any", _) => Ok(Choice::Required),
                // A subset of the tools, with a mode: the mode counts.
                ("allowed_tools", _) => {
                    let mode = choice
                        .get("mode")
                        .or_else(|| choice.get("allowed_tools").and_then(|inner| inner.get("mode")));
                    Ok(if mode == Some(&json!("required")) {
                        Choice::Required
                    } else {
                        Choice::Auto
                    })
                }
                (other, _) => Err(unknown(other)),
            }
        }
        Some(other) => Err(wrong("tool_choice", "`auto`, `none`, `required` or a named function", other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_in_every_spelling() {
        for (value, choice) in [
            (json!("auto"), Choice::Auto),
            (json!("none"), Choice::None),
            (json!("required"), Choice::Required),
            (json!({"type": "function", "function": {"name": "f"}}), Choice::Named("f".into())),
            (json!({"type": "function", "name": "f"}), Choice::Named("f".into())),
            (json!({"type": "allowed_tools", "mode": "required", "tools": []}), Choice::Required),
        ] {
            assert_eq!(openai_choice(Some(&value)).unwrap(), choice, "{value}");
        }
        for bad in [json!("perhaps"), json!(1), json!({"type": "function"}), json!({"type": "wizard"})] {
            assert_eq!(
                openai_choice(Some(&bad)).unwrap_err().param.as_deref(),
                Some("tool_choice"),
                "{bad}"
            );
        }
    }

    #[test]
    fn a_named_function_is_the_only_one_told() {
        let mut tools = Tools::new();
        tools.offer("f", Some("does f"), None, false);
        tools.offer(
            "g",
            None,
            Some(&json!({"type": "object", "properties": {"x": {"type": "integer"}}})),
            false,
        );
        assert_eq!(tools.told().len(), 2);
        tools.choice = Choice::Named("g".into());
        assert_eq!(tools.told(), [tools.offered[1].clone()]);
        assert!(tools.demand().unwrap().contains("`g`"));
        assert_eq!(tools.check(), Ok(()));
        tools.choice = Choice::Named("h".into());
        assert!(tools.check().is_err());
        tools.choice = Choice::None;
        assert!(tools.told().is_empty() && !tools.live());
        assert_eq!(
            tools.offered[0]["function"]["parameters"],
            json!({"type": "object", "properties": {}})
        );
    }
}
