//! The forms in which models write calls of tools, as grammars. Source: `spec/http-api.md` §8.

use crate::{Vocabulary, compile::guide};
use dspark_protocol::ToolSyntax;
use serde_json::{Map, Value, json};
use std::fmt::Write;

/// A function whose schema can be enforced.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) parameters: Value,
}

/// Calls as rules of a Lark grammar.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Form {
    /// What opens a call.
    pub(crate) open: &'static str,
    /// A call without what opens it, as a rule `call`.
    pub(crate) rules: String,
    /// After one opening mark may come several calls; a second mark is then not needed.
    pub(crate) list: bool,
}

/// How a form with tags spells them: before and after a function's name, before and after a parameter's, after its value,
/// after the last, after the call.
struct Tags {
    open: &'static str,
    function: [&'static str; 2],
    parameter: [&'static str; 2],
    value: &'static str,
    end: &'static str,
    close: &'static str,
}

const XML_FUNCTION: Tags = Tags {
    open: "<tool_call>",
    function: ["<function=", ">\n"],
    parameter: ["<parameter=", ">\n"],
    value: "\n</parameter>\n",
    end: "</function>",
    close: "\n</tool_call>",
};
const MINICPM: Tags = Tags {
    open: "<function name=\"",
    function: ["", "\">"],
    parameter: ["<param name=\"", "\">"],
    value: "</param>",
    end: "</function>",
    close: "",
};
const ATEM: Tags = Tags {
    open: "<atem:function_calls>",
    function: ["<atem:invoke name=\"", "\">\n"],
    parameter: ["<atem:parameter name=\"", "\">"],
    value: "</atem:parameter>\n",
    end: "</atem:invoke>",
    close: "\n</atem:function_calls>",
};

/// White space between the parts of a call.
const BLANK: &str = "blank: (/[ \\n]{1,4}/)?\n";

/// The form of this syntax; `None` where it cannot be enforced. The functions' schemas are at [`json_place`].
pub(crate) fn form(vocabulary: &Vocabulary, syntax: ToolSyntax, functions: &[Function], many: bool) -> Option<Form> {
    match syntax {
        ToolSyntax::Hermes => Some(json_form(vocabulary, syntax, "<tool_call>", "</tool_call>", functions, None)),
        ToolSyntax::Nemotron => Some(json_form(vocabulary, syntax, "<TOOLCALL>", "</TOOLCALL>", functions, Some(many))),
        ToolSyntax::Mistral => Some(json_form(vocabulary, syntax, "[TOOL_CALLS]", "", functions, Some(many))),
        ToolSyntax::PlainJson => Some(json_form(vocabulary, syntax, "", "", functions, None)),
        ToolSyntax::XmlFunction => Some(tagged(vocabulary, &XML_FUNCTION, functions)),
        ToolSyntax::MiniCpm => Some(tagged(vocabulary, &MINICPM, functions)),
        ToolSyntax::Atem => Some(tagged(vocabulary, &ATEM, functions)),
        ToolSyntax::Gemma | ToolSyntax::Pythonic | ToolSyntax::Harmony => None,
    }
}

/// A mark in a grammar: the special token that it is, else its characters.
pub(crate) fn mark(vocabulary: &Vocabulary, text: &str) -> String {
    match vocabulary.special(text.as_bytes()) {
        Some(id) => format!("<[{id}]>"),
        None => quoted(text),
    }
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// `{"name": …, "arguments": {…}}` between marks; `list`: in an array, of more than one where that is true.
fn json_form(
    vocabulary: &Vocabulary,
    syntax: ToolSyntax,
    open: &'static str,
    close: &str,
    functions: &[Function],
    list: Option<bool>,
) -> Form {
    let arguments = arguments_key(syntax);
    let one = json!({ "anyOf": functions.iter().map(|function| call(function, arguments)).collect::<Vec<_>>() });
    let mut schema = match list {
        None => one,
        Some(true) => json!({ "type": "array", "items": one, "minItems": 1 }),
        Some(false) => json!({ "type": "array", "items": one, "minItems": 1, "maxItems": 1 }),
    };
    guide(&mut schema);
    let close = if close.is_empty() {
        String::new()
    } else {
        format!(" blank {}", mark(vocabulary, close))
    };
    Form {
        open,
        rules: format!("call: blank json{close} blank\n{BLANK}json: %json {schema}\n"),
        list: list.is_some(),
    }
}

/// The JSON pointer at which [`form`] wants the schema of function `index`, for its references.
pub(crate) fn json_place(syntax: ToolSyntax, index: usize) -> String {
    let arguments = arguments_key(syntax);
    match syntax {
        ToolSyntax::Nemotron | ToolSyntax::Mistral => format!("/items/anyOf/{index}/properties/{arguments}"),
        ToolSyntax::Hermes | ToolSyntax::PlainJson => format!("/anyOf/{index}/properties/{arguments}"),
        _ => String::new(),
    }
}

fn arguments_key(syntax: ToolSyntax) -> &'static str {
    if syntax == ToolSyntax::PlainJson {
        "parameters"
    } else {
        "arguments"
    }
}

fn call(function: &Function, arguments: &str) -> Value {
    let mut properties = Map::new();
    properties.insert("name".into(), json!({ "const": function.name }));
    properties.insert(arguments.into(), function.parameters.clone());
    json!({ "type": "object", "properties": properties, "required": ["name", arguments], "additionalProperties": false })
}

/// A tag for the function, and one for each parameter: its value is text, or JSON where the schema wants no text.
fn tagged(vocabulary: &Vocabulary, tags: &Tags, functions: &[Function]) -> Form {
    let mut rules = String::new();
    let names: Vec<String> = (0..functions.len()).map(|index| format!("f{index}")).collect();
    let close = if tags.close.is_empty() {
        "blank".to_owned()
    } else {
        // Models that know the form may leave the last mark out; here it is always written.
        let (space, word) = tags.close.split_at(tags.close.len() - tags.close.trim_start().len());
        let space = if space.is_empty() {
            String::new()
        } else {
            format!("{} ", quoted(space))
        };
        format!("{space}{} blank", mark(vocabulary, word))
    };
    let _ = writeln!(rules, "call: blank ({}) {close}", names.join(" | "));
    rules.push_str(BLANK);
    for (index, function) in functions.iter().enumerate() {
        let head = quoted(&format!("{}{}{}", tags.function[0], function.name, tags.function[1]));
        let body = parameters(&mut rules, tags, function, index);
        let _ = writeln!(rules, "f{index}: {head} {body} {}", quoted(tags.end));
    }
    // Text up to the tag that ends it.
    let _ = writeln!(rules, "text[suffix={}]: /(?s:.*)/", quoted(tags.value));
    Form {
        open: tags.open,
        rules,
        list: false,
    }
}

/// The parameters of a function in the order of its schema, as the body of a rule.
fn parameters(rules: &mut String, tags: &Tags, function: &Function, index: usize) -> String {
    let schema = &function.parameters;
    let properties = schema
        .get("properties")
        .and_then(Value::as_object)
        .filter(|known| !known.is_empty());
    let Some(properties) = properties else {
        if schema.get("additionalProperties") == Some(&Value::Bool(false)) {
            return String::new();
        }
        let _ = writeln!(
            rules,
            "any{index}: {} /[A-Za-z0-9_.-]{{1,64}}/ {} text",
            quoted(tags.parameter[0]),
            quoted(tags.parameter[1])
        );
        return format!("any{index}*");
    };
    let required = |name: &String| {
        let names = schema.get("required").and_then(Value::as_array);
        names.is_some_and(|names| names.iter().any(|other| other.as_str() == Some(name)))
    };
    let mut body = Vec::new();
    for (place, (name, schema)) in properties.iter().enumerate() {
        let rule = format!("p{index}_{place}");
        let tag = quoted(&format!("{}{name}{}", tags.parameter[0], tags.parameter[1]));
        let value = value(tags, schema, function.parameters.get("$defs"));
        let _ = writeln!(rules, "{rule}: {tag} {value}");
        body.push(if required(name) { rule } else { format!("{rule}?") });
    }
    body.join(" ")
}

/// A parameter's value with the tag that ends it.
fn value(tags: &Tags, schema: &Value, definitions: Option<&Value>) -> String {
    let end = quoted(tags.value);
    let texts = |values: &[Value]| values.iter().map(|value| value.as_str().map(quoted)).collect::<Option<Vec<_>>>();
    let choices = match (schema.get("enum").and_then(Value::as_array), schema.get("const")) {
        (Some(values), _) => texts(values),
        (None, Some(value)) => texts(std::slice::from_ref(value)),
        (None, None) => None,
    };
    if let Some(choices) = choices {
        return format!("({}) {end}", choices.join(" | "));
    }
    if may_be_text(schema) {
        return "text".into();
    }
    let mut schema = schema.clone();
    if let (Value::Object(map), Some(definitions)) = (&mut schema, definitions) {
        map.insert("$defs".into(), definitions.clone());
    }
    guide(&mut schema);
    format!("%json {schema}\n    {end}")
}

/// Whether readers of these forms take the value as text: a schema that names a string, or nothing at all.
fn may_be_text(schema: &Value) -> bool {
    let any = |key: &str| {
        schema
            .get(key)
            .and_then(Value::as_array)
            .is_some_and(|schemas| schemas.iter().any(may_be_text))
    };
    match schema.get("type") {
        Some(Value::String(kind)) => kind == "string",
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "string"),
        _ if schema.get("$ref").is_some() || schema.get("enum").is_some() || schema.get("const").is_some() => false,
        _ if ["anyOf", "oneOf", "allOf"].iter().any(|key| schema.get(key).is_some()) => any("anyOf") || any("oneOf") || any("allOf"),
        _ => schema.get("properties").is_none() && schema.get("items").is_none(),
    }
}
