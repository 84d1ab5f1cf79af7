//! Arguments typed by the tool's JSON schema. Source: `spec/http-api.md` §8.

use super::{
    call::{Call, Raw, Seen},
    cursor::Cursor,
    value::{Dialect, Reader, literal, number},
};
use serde_json::{Map, Value};

/// A tool that the request declares.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSchema {
    pub name: String,
    /// JSON schema of the arguments; `Null` where there is none.
    pub parameters: Value,
}

/// References and nesting are followed this far.
const DEEPEST: usize = 32;
/// An untyped text is a value only if it is no longer than this, in bytes.
const LONGEST_WORD: usize = 32;

impl ToolSchema {
    pub fn new(name: impl Into<String>, parameters: Value) -> Self {
        Self {
            name: name.into(),
            parameters,
        }
    }

    /// Reads a tool as clients send it: `{"type": "function", "function": {…}}`, the same without the wrapper, or with
    /// `input_schema`. `None` for what has no name.
    pub fn from_json(tool: &Value) -> Option<Self> {
        let function = tool.get("function").filter(|function| function.is_object()).unwrap_or(tool);
        let name = function["name"].as_str().filter(|name| !name.is_empty())?;
        let schema = ["parameters", "input_schema"].into_iter().find_map(|key| function.get(key));
        Some(Self::new(name, schema.cloned().unwrap_or_default()))
    }

    fn property(&self, key: &str) -> Option<&Value> {
        property(&self.parameters, key, &self.parameters, DEEPEST)
    }

    /// Is this argument a string whatever it says, so that it can be passed on while it is written?
    fn is_text(&self, key: &str) -> bool {
        self.property(key).is_some_and(|schema| {
            let types = Types::of(schema, &self.parameters, DEEPEST);
            types
                == Types {
                    string: true,
                    ..Types::default()
                }
        })
    }

    fn typed(&self, key: &str, raw: Raw) -> Value {
        let root = &self.parameters;
        match (raw, self.property(key)) {
            (Raw::Value(value), Some(schema)) => typed_value(value, schema, root, DEEPEST),
            (Raw::Value(value), None) => value,
            (Raw::Text(text), Some(schema)) => typed_text(text, schema, root, DEEPEST),
            (Raw::Text(text), None) => untyped(text),
            (Raw::Literal(text), Some(schema)) if !Types::of(schema, root, DEEPEST).is_unknown() => typed_text(text, schema, root, DEEPEST),
            (Raw::Literal(text), _) => Value::String(text),
        }
    }
}

/// The declared tools of a request.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tools(Vec<ToolSchema>);

/// Arguments as JSON text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Typed {
    pub(crate) name: String,
    pub(crate) declared: bool,
    pub(crate) json: String,
}

impl Tools {
    pub(crate) fn new(tools: Vec<ToolSchema>) -> Self {
        Self(tools)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The tool that a model means: by its name, or by the last part of a name with a namespace.
    pub(crate) fn find(&self, name: &str) -> Option<&ToolSchema> {
        let exact = |name: &str| self.0.iter().find(|tool| tool.name == name);
        let last = name.rsplit([':', '.', '/']).next().unwrap_or(name);
        exact(name)
            .or_else(|| exact(name.strip_prefix("functions.")?))
            .or_else(|| exact(last))
            .or_else(|| self.0.iter().find(|tool| tool.name.eq_ignore_ascii_case(name)))
    }

    /// The call with its arguments as the schema has them. `None` for arguments without a name that no property
    /// stands for.
    pub(crate) fn typed(&self, call: Call) -> Option<Typed> {
        let tool = self.find(&call.name);
        let undeclared = ToolSchema::new("", Value::Null);
        let schema = tool.unwrap_or(&undeclared);
        let mut names = schema.parameters["properties"].as_object().into_iter().flat_map(Map::keys);
        let mut arguments: Vec<(String, Value)> = Vec::new();
        for (key, raw) in call.arguments {
            let key = match key {
                Some(key) => key,
                None => names.next()?.clone(),
            };
            if arguments.iter().all(|(known, _)| *known != key) {
                let value = schema.typed(&key, raw);
                arguments.push((key, value));
            }
        }
        Some(Typed {
            declared: tool.is_some(),
            json: format!("{{{}}}", members(&arguments)),
            name: tool.map_or(call.name, |tool| tool.name.clone()),
        })
    }

    /// What can be told of a call before it is complete: its tool's name, and how its arguments begin.
    pub(crate) fn beginning(&self, seen: Seen) -> Option<(String, String)> {
        let tool = self.find(seen.name.as_deref().filter(|_| !seen.mixed)?)?;
        let mut arguments: Vec<(String, Value)> = Vec::new();
        for (key, raw) in seen.arguments {
            if arguments.iter().all(|(known, _)| *known != key) {
                let value = tool.typed(&key, raw);
                arguments.push((key, value));
            }
        }
        let mut json = format!("{{{}", members(&arguments));
        if let Some((key, text)) = seen.open
            && tool.is_text(&key)
            && arguments.iter().all(|(known, _)| *known != key)
        {
            if !arguments.is_empty() {
                json.push(',');
            }
            let text = Value::String(text).to_string();
            json.push_str(&Value::String(key).to_string());
            json.push(':');
            json.push_str(&text[..text.len() - 1]);
        }
        Some((tool.name.clone(), json))
    }
}

fn members(arguments: &[(String, Value)]) -> String {
    let members: Vec<String> = arguments
        .iter()
        .map(|(key, value)| format!("{}:{value}", Value::String(key.clone())))
        .collect();
    members.join(",")
}

/// The types that a schema allows. All false: it does not say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Types {
    string: bool,
    integer: bool,
    number: bool,
    boolean: bool,
    object: bool,
    array: bool,
    null: bool,
}

impl Types {
    fn is_unknown(self) -> bool {
        self == Self::default()
    }

    fn of(schema: &Value, root: &Value, depth: usize) -> Self {
        let mut types = Self::default();
        if depth > 0 {
            types.collect(schema, root, depth);
        }
        types
    }

    fn collect(&mut self, schema: &Value, root: &Value, depth: usize) {
        if depth == 0 {
            return;
        }
        if let Some(target) = schema["$ref"].as_str().and_then(|reference| target(reference, root)) {
            return self.collect(target, root, depth - 1);
        }
        match &schema["type"] {
            Value::String(name) => self.add(name),
            Value::Array(names) => names.iter().filter_map(Value::as_str).for_each(|name| self.add(name)),
            _ => {
                for value in schema["enum"].as_array().into_iter().flatten().chain(schema.get("const")) {
                    self.add(kind(value));
                }
                self.object |= schema.get("properties").is_some();
                self.array |= schema.get("items").is_some() || schema.get("prefixItems").is_some();
                for alternative in alternatives(schema) {
                    self.collect(alternative, root, depth - 1);
                }
            }
        }
        self.null |= schema["nullable"] == true;
    }

    fn add(&mut self, name: &str) {
        match name {
            "string" => self.string = true,
            "integer" => self.integer = true,
            "number" => self.number = true,
            "boolean" => self.boolean = true,
            "object" => self.object = true,
            "array" => self.array = true,
            "null" => self.null = true,
            _ => {}
        }
    }

    fn allows(self, value: &Value) -> bool {
        match value {
            Value::Null => self.null,
            Value::Bool(_) => self.boolean,
            Value::Number(number) => self.number || (self.integer && !number.is_f64()),
            Value::String(_) => self.string,
            Value::Array(_) => self.array,
            Value::Object(_) => self.object,
        }
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn alternatives(schema: &Value) -> impl Iterator<Item = &Value> {
    ["anyOf", "oneOf", "allOf"]
        .into_iter()
        .filter_map(|key| schema[key].as_array())
        .flatten()
}

fn target<'s>(reference: &str, root: &'s Value) -> Option<&'s Value> {
    root.pointer(reference.strip_prefix('#')?)
}

/// The schema of a member, wherever a schema may say it.
fn property<'s>(schema: &'s Value, key: &str, root: &'s Value, depth: usize) -> Option<&'s Value> {
    if depth == 0 {
        return None;
    }
    if let Some(target) = schema["$ref"].as_str().and_then(|reference| target(reference, root)) {
        return property(target, key, root, depth - 1);
    }
    schema["properties"]
        .get(key)
        .or_else(|| alternatives(schema).find_map(|alternative| property(alternative, key, root, depth - 1)))
        .or_else(|| schema.get("additionalProperties").filter(|more| more.is_object()))
}

fn items<'s>(schema: &'s Value, place: usize, root: &'s Value, depth: usize) -> Option<&'s Value> {
    if depth == 0 {
        return None;
    }
    if let Some(target) = schema["$ref"].as_str().and_then(|reference| target(reference, root)) {
        return items(target, place, root, depth - 1);
    }
    schema["prefixItems"]
        .get(place)
        .or_else(|| schema.get("items").filter(|items| items.is_object()))
        .or_else(|| alternatives(schema).find_map(|alternative| items(alternative, place, root, depth - 1)))
}

fn typed_value(value: Value, schema: &Value, root: &Value, depth: usize) -> Value {
    if depth == 0 {
        return value;
    }
    let types = Types::of(schema, root, depth);
    match value {
        Value::String(text) if !types.string && !types.is_unknown() => typed_text(text, schema, root, depth),
        Value::Number(number) if types.integer && number.is_f64() => whole(&number).map_or(Value::Number(number), Value::from),
        Value::Object(members) if types.object || types.is_unknown() => {
            let typed = members.into_iter().map(|(key, value)| {
                let value = match property(schema, &key, root, depth) {
                    Some(schema) => typed_value(value, schema, root, depth - 1),
                    None => value,
                };
                (key, value)
            });
            Value::Object(typed.collect())
        }
        Value::Array(values) if types.array || types.is_unknown() => {
            let typed = values
                .into_iter()
                .enumerate()
                .map(|(place, value)| match items(schema, place, root, depth) {
                    Some(schema) => typed_value(value, schema, root, depth - 1),
                    None => value,
                });
            Value::Array(typed.collect())
        }
        // A string was wanted, and only that.
        value if types.string && !types.allows(&value) && !value.is_string() && !value.is_null() => Value::String(value.to_string()),
        value => value,
    }
}

/// Text as the schema wants it; what cannot be made to fit stays a string.
fn typed_text(text: String, schema: &Value, root: &Value, depth: usize) -> Value {
    let types = Types::of(schema, root, depth);
    let word = text.trim();
    if types.is_unknown() {
        return untyped(text);
    }
    if types.null && matches!(word, "null" | "None") {
        return Value::Null;
    }
    if (types.object || types.array) && word.starts_with(['{', '[', '(']) {
        let parsed = if types.string {
            serde_json::from_str(word).ok()
        } else {
            lenient(word)
        };
        if let Some(value) = parsed.filter(|value| types.allows(value)) {
            return typed_value(value, schema, root, depth.saturating_sub(1));
        }
    }
    if types.string {
        return Value::String(text);
    }
    if types.boolean && word.eq_ignore_ascii_case("true") {
        return Value::Bool(true);
    }
    if types.boolean && word.eq_ignore_ascii_case("false") {
        return Value::Bool(false);
    }
    match number(word) {
        Some(number) if types.integer && (whole(&number).is_some() || !number.is_f64()) => {
            whole(&number).map_or(Value::Number(number), Value::from)
        }
        Some(number) if types.number => Value::Number(number),
        _ => Value::String(text),
    }
}

/// 5 for 5.0.
fn whole(number: &serde_json::Number) -> Option<i64> {
    let float = number.as_f64().filter(|_| number.is_f64())?;
    (float.fract() == 0.0 && float.abs() < 9e15).then_some(float as i64)
}

/// Text of which the schema says nothing: short words are values.
fn untyped(text: String) -> Value {
    let word = text.trim();
    if word.len() <= LONGEST_WORD
        && !word.contains('\n')
        && let Some(value) = literal(word)
    {
        return value;
    }
    if word.starts_with(['{', '['])
        && let Ok(value) = serde_json::from_str::<Value>(word)
    {
        return value;
    }
    Value::String(text)
}

/// A whole text as one value, slips allowed.
pub(crate) fn lenient(text: &str) -> Option<Value> {
    let mut cursor = Cursor::new(text, true);
    let mut reader = Reader {
        dialect: Dialect::Python,
        closers: &[],
        seen: &mut Seen::default(),
    };
    let value = reader.value(&mut cursor).ok()?;
    cursor.skip_space();
    cursor.rest().is_empty().then_some(value)
}
