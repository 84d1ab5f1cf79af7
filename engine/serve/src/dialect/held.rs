//! What an answer is held to, from what a request says of its format and its tools. Source: `spec/http-api.md` §14.1, §14.2.

use super::{
    fields::{Fields, wrong},
    prompt::{self, Format},
    tools::{Choice, Tools},
};
use crate::error::ApiError;
use dspark_protocol::{AnswerRule, CallRule, Constraint, ToolRule};
use serde_json::{Value, json};
use std::sync::Arc;

/// The constraint of a request. Tools are held to their schemas where a call is demanded, where one of them is `strict`, and
/// beside an answer that has a schema itself; otherwise they are the model's own business.
pub(crate) fn constraint(tools: &Tools, format: Option<&Format>) -> Option<Arc<Constraint>> {
    let strict = tools
        .offered
        .iter()
        .filter_map(Tools::name_of)
        .any(|name| tools.strict.contains(name));
    let demanded = matches!(tools.choice, Choice::Required | Choice::Named(_));
    let calls = (tools.live() && (demanded || strict || format.is_some())).then(|| rules(tools, demanded || format.is_some()));
    let answer = match format {
        _ if calls.is_some() && demanded => AnswerRule::Call,
        Some(Format::Object) => AnswerRule::Object,
        Some(Format::Schema(schema)) => AnswerRule::Schema(schema.clone()),
        Some(Format::Regex(regex)) => AnswerRule::Regex(regex.clone()),
        None => AnswerRule::Free,
    };
    (calls.is_some() || answer != AnswerRule::Free).then(|| Arc::new(Constraint { answer, calls }))
}

/// `all`: every function is held to its schema, not only those that ask for it.
fn rules(tools: &Tools, all: bool) -> CallRule {
    let rule = |tool: &Value| {
        let name = Tools::name_of(tool)?;
        let parameters = tool
            .get("function")?
            .get("parameters")
            .filter(|_| all || tools.strict.contains(name));
        Some(ToolRule {
            name: name.to_owned(),
            parameters: parameters.map_or_else(|| json!({"type": "object"}), arguments),
        })
    };
    CallRule {
        tools: tools.told().iter().filter_map(rule).collect(),
        many: tools.parallel,
    }
}

/// The schema that a demanded call's arguments are held to. One that names no argument takes none: left open, a model that
/// is kept from ending goes on inventing some until its tokens are used up.
fn arguments(schema: &Value) -> Value {
    let says_nothing = |key: &str, value: &Value| match key {
        "type" | "title" | "description" | "$schema" => true,
        "properties" => value.as_object().is_some_and(serde_json::Map::is_empty),
        "required" => value.as_array().is_some_and(Vec::is_empty),
        _ => false,
    };
    let is_object = schema.get("type").is_none_or(|kind| kind == "object");
    let none = schema
        .as_object()
        .is_some_and(|map| map.iter().all(|(key, value)| says_nothing(key, value)));
    if is_object && none {
        json!({"type": "object", "properties": {}, "additionalProperties": false})
    } else {
        schema.clone()
    }
}

/// Reads a format as [`prompt::format`] does. `Err(Ok(kind))` is an unknown kind.
///
/// # Errors
/// A 400 that names the place in a schema that is none.
pub(crate) fn checked(field: &str, value: &serde_json::Map<String, Value>) -> Result<Result<Option<Format>, String>, ApiError> {
    let format = match prompt::format(value) {
        Ok(format) => format,
        Err(kind) => return Ok(Err(kind)),
    };
    if let Some(Format::Schema(schema)) = &format {
        check(field, schema)?;
    }
    Ok(Ok(format))
}

fn check(field: &str, schema: &Value) -> Result<(), ApiError> {
    dspark_grammar::check(schema).map_err(|error| ApiError::invalid(field, format!("`{field}`: {error}")).code("invalid_json_schema"))
}

/// OpenAI's `response_format`, or one of the fields that other servers have for the same.
///
/// # Errors
/// A 400 for an unknown type or a broken schema.
pub(crate) fn openai(fields: &mut Fields<'_>) -> Result<Option<Format>, ApiError> {
    let others = others(fields)?;
    let Some(format) = fields.object("response_format")? else {
        return Ok(others);
    };
    let format = checked("response_format", format)?.map_err(|kind| {
        ApiError::invalid(
            "response_format",
            format!("`response_format.type` must be `text`, `json_object` or `json_schema`, not `{kind}`"),
        )
    })?;
    Ok(format.or(others))
}

/// `json_schema` (llama.cpp) and `guided_*` (vLLM).
fn others(fields: &mut Fields<'_>) -> Result<Option<Format>, ApiError> {
    for name in ["json_schema", "guided_json"] {
        let Some(value) = fields.get(name) else { continue };
        // Some clients send its text.
        let parsed = value.as_str().map(serde_json::from_str::<Value>);
        let schema = match parsed {
            None => value.clone(),
            Some(Ok(schema)) => schema,
            Some(Err(_)) => return Err(wrong(name, "a JSON schema", value)),
        };
        // Off, for those who always send all they have.
        if schema.as_object().is_some_and(serde_json::Map::is_empty) {
            continue;
        }
        check(name, &schema)?;
        return Ok(Some(Format::Schema(schema)));
    }
    if let Some(regex) = fields.text("guided_regex")?.filter(|regex| !regex.is_empty()) {
        return Ok(Some(Format::Regex(regex.to_owned())));
    }
    let choices = fields.array("guided_choice")?.unwrap_or_default();
    if choices.is_empty() {
        return Ok(None);
    }
    let text = |choice: &Value| {
        choice
            .as_str()
            .map(escape)
            .ok_or_else(|| wrong("guided_choice", "an array of strings", choice))
    };
    let choices = choices.iter().map(text).collect::<Result<Vec<_>, _>>()?;
    Ok(Some(Format::Regex(choices.join("|"))))
}

/// A regular expression for exactly this text.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        if letter.is_ascii_punctuation() {
            out.push('\\');
        }
        out.push(letter);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offering(strict: bool, choice: Choice) -> Tools {
        let mut tools = Tools::new();
        let schema = json!({"type": "object", "properties": {"x": {"type": "integer"}}});
        tools.offer("f", None, Some(&schema), strict);
        tools.offer("g", None, Some(&schema), false);
        tools.choice = choice;
        tools
    }

    #[test]
    fn tools_are_held_where_it_is_asked_for() {
        assert_eq!(constraint(&offering(false, Choice::Auto), None), None);
        assert_eq!(constraint(&Tools::new(), None), None);
        assert_eq!(constraint(&offering(true, Choice::None), None), None);
        let strict = constraint(&offering(true, Choice::Auto), None).unwrap();
        assert_eq!(strict.answer, AnswerRule::Free);
        let calls = strict.calls.as_ref().unwrap();
        // The other may be called with anything.
        assert!(calls.tools[0].parameters.get("properties").is_some() && calls.tools[1].parameters.get("properties").is_none());
        let mut named = offering(false, Choice::Named("g".into()));
        named.parallel = false;
        let named = constraint(&named, None).unwrap();
        assert_eq!(named.answer, AnswerRule::Call);
        let calls = named.calls.as_ref().unwrap();
        assert_eq!((calls.tools.len(), calls.tools[0].name.as_str(), calls.many), (1, "g", false));
    }

    #[test]
    fn a_function_without_parameters_is_called_with_none() {
        let held = |schema: Option<Value>, choice: Choice| {
            let mut tools = Tools::new();
            tools.offer("f", None, schema.as_ref(), false);
            tools.choice = choice;
            constraint(&tools, None).unwrap().calls.as_ref().unwrap().tools[0]
                .parameters
                .clone()
        };
        let none = json!({"type": "object", "properties": {}, "additionalProperties": false});
        for schema in [
            None,
            Some(Value::Null),
            Some(json!({})),
            Some(json!({"type": "object"})),
            Some(json!({"type": "object", "properties": {}, "required": []})),
        ] {
            for choice in [Choice::Required, Choice::Named("f".into())] {
                assert_eq!(held(schema.clone(), choice), none, "{schema:?}");
            }
        }
        // What says that it takes anything does.
        for open in [
            json!({"type": "object", "additionalProperties": true}),
            json!({"type": "object", "properties": {"x": {}}}),
            json!({"type": "object", "patternProperties": {"^x": {}}}),
        ] {
            assert_eq!(held(Some(open.clone()), Choice::Required), open);
        }
    }

    #[test]
    fn an_answer_in_a_format_may_still_be_a_call() {
        let both = constraint(&offering(false, Choice::Auto), Some(&Format::Object)).unwrap();
        assert_eq!(both.answer, AnswerRule::Object);
        assert!(both.calls.as_ref().unwrap().tools[1].parameters.get("properties").is_some());
        let demanded = constraint(&offering(false, Choice::Required), Some(&Format::Object)).unwrap();
        assert_eq!(demanded.answer, AnswerRule::Call);
        let off = constraint(&offering(false, Choice::None), Some(&Format::Object)).unwrap();
        assert_eq!(*off, Constraint::object());
    }

    #[test]
    fn other_servers_spellings() {
        let read = |body: Value| openai(&mut Fields::new(body.as_object().unwrap()));
        let schema = json!({"type": "integer"});
        for body in [
            json!({"json_schema": schema}),
            json!({"guided_json": schema.to_string()}),
            json!({"response_format": {"type": "json_schema", "json_schema": {"schema": schema}}}),
        ] {
            assert_eq!(read(body).unwrap(), Some(Format::Schema(schema.clone())));
        }
        assert_eq!(
            read(json!({"guided_choice": ["a+b", "c"]})).unwrap(),
            Some(Format::Regex("a\\+b|c".into()))
        );
        assert_eq!(
            read(json!({"guided_regex": "[0-9]+"})).unwrap(),
            Some(Format::Regex("[0-9]+".into()))
        );
        assert_eq!(
            read(json!({"json_schema": {}, "guided_regex": "", "guided_choice": []})).unwrap(),
            None
        );
        for (body, at) in [
            (json!({"json_schema": {"type": "x"}}), "json_schema"),
            (json!({"guided_choice": [1]}), "guided_choice"),
            (
                json!({"response_format": {"type": "json_schema", "schema": {"properties": 1}}}),
                "response_format",
            ),
        ] {
            let error = read(body).unwrap_err();
            assert_eq!((error.status.as_u16(), error.param.as_deref()), (400, Some(at)));
        }
    }
}
