//! A JSON schema as it is sent, and what of it can be enforced. A broken schema is refused with the place; a keyword that
//! cannot be enforced is left out with a warning.

use crate::GrammarError;
use serde_json::{Map, Value, json};

/// Parts of a schema, and levels that they nest.
pub(crate) const MOST_NODES: usize = 20_000;
pub(crate) const MOST_DEPTH: usize = 64;
/// Patterns that one string can be held to at once.
const MOST_PATTERNS: usize = 6;
/// Warnings of one schema that are told one by one.
const MOST_WARNINGS: usize = 8;

const TYPES: [&str; 7] = ["null", "boolean", "number", "integer", "string", "array", "object"];
/// What they would forbid is not forbidden.
const UNENFORCED: [&str; 17] = [
    "not",
    "if",
    "then",
    "else",
    "contains",
    "minContains",
    "maxContains",
    "uniqueItems",
    "dependentRequired",
    "dependentSchemas",
    "dependencies",
    "propertyNames",
    "unevaluatedProperties",
    "unevaluatedItems",
    "$dynamicRef",
    "$recursiveRef",
    "nullable",
];
const FORMATS: [&str; 10] = [
    "date-time",
    "time",
    "date",
    "duration",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "uuid",
    "uri",
];

/// A schema whose every part can be enforced.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Fitted {
    pub(crate) schema: Value,
    /// What was left out.
    pub(crate) warnings: Vec<String>,
}

/// Whether a schema is one.
///
/// # Errors
/// [`GrammarError::Schema`] with the place, [`GrammarError::TooLarge`].
pub fn check(schema: &Value) -> Result<(), GrammarError> {
    fit(schema, "", &|_| Ok(())).map(|_| ())
}

/// What of `schema` can be enforced, to be placed at the JSON pointer `base` of a larger schema. `pattern` says why a
/// regular expression cannot.
///
/// # Errors
/// As [`check`].
pub(crate) fn fit(schema: &Value, base: &str, pattern: &dyn Fn(&str) -> Result<(), String>) -> Result<Fitted, GrammarError> {
    let mut walk = Walk {
        root: schema,
        base,
        pattern,
        warnings: Vec::new(),
        left_out: 0,
        nodes: 0,
        targets: Vec::new(),
    };
    let mut fitted = walk.schema(schema, "", 0)?;
    let mut definitions = Map::new();
    while definitions.len() < walk.targets.len() {
        let at = walk.targets[definitions.len()].clone();
        let target = schema.pointer(&at).cloned().unwrap_or(Value::Bool(true));
        let name = format!("r{}", definitions.len());
        definitions.insert(name, walk.schema(&target, &at, 1)?);
    }
    if let (false, Value::Object(map)) = (definitions.is_empty(), &mut fitted) {
        map.insert("$defs".into(), Value::Object(definitions));
    }
    let mut warnings = walk.warnings;
    if walk.left_out > 0 {
        warnings.push(format!("{} more parts of the JSON schema are not enforced", walk.left_out));
    }
    Ok(Fitted { schema: fitted, warnings })
}

struct Walk<'a> {
    root: &'a Value,
    base: &'a str,
    pattern: &'a dyn Fn(&str) -> Result<(), String>,
    warnings: Vec<String>,
    left_out: usize,
    nodes: usize,
    /// Pointers that are referred to; each becomes a definition.
    targets: Vec<String>,
}

impl Walk<'_> {
    fn schema(&mut self, schema: &Value, at: &str, depth: usize) -> Result<Value, GrammarError> {
        self.nodes += 1;
        if depth > MOST_DEPTH || self.nodes > MOST_NODES {
            return Err(GrammarError::TooLarge { nodes: self.nodes, depth });
        }
        let map = match schema {
            Value::Bool(_) => return Ok(schema.clone()),
            Value::Object(map) => map,
            _ => return Err(broken(at, "a schema is an object, `true` or `false`", schema)),
        };
        let mut out = Map::new();
        for (key, value) in map {
            let place = format!("{at}/{}", escape(key));
            if let Some(kept) = self.keyword(key, value, &place, depth)? {
                out.insert(key.clone(), kept);
            }
        }
        Ok(Value::Object(out))
    }

    /// The value to keep of a keyword; `None` leaves it out.
    fn keyword(&mut self, key: &str, value: &Value, at: &str, depth: usize) -> Result<Option<Value>, GrammarError> {
        let kept = match key {
            "properties" | "patternProperties" => {
                let Value::Object(schemas) = value else {
                    return Err(broken(at, "it must be an object of schemas", value));
                };
                let mut out = Map::new();
                for (name, schema) in schemas {
                    let place = format!("{at}/{}", escape(name));
                    if key == "patternProperties" && !self.readable(name, &place) {
                        continue;
                    }
                    out.insert(name.clone(), self.schema(schema, &place, depth + 1)?);
                }
                Value::Object(out)
            }
            "allOf" => {
                let mut parts = self.list(value, at, depth)?;
                self.thin(&mut parts, at);
                parts
            }
            "anyOf" | "oneOf" | "prefixItems" => self.list(value, at, depth)?,
            "items" if value.is_array() => self.list(value, at, depth)?,
            "items" | "additionalProperties" | "additionalItems" => self.schema(value, at, depth + 1)?,
            "type" => {
                let known = |kind: &Value| kind.as_str().is_some_and(|kind| TYPES.contains(&kind));
                let fine = match value {
                    Value::Array(kinds) => !kinds.is_empty() && kinds.iter().all(known),
                    one => known(one),
                };
                if !fine {
                    return Err(broken(
                        at,
                        &format!("a type is one of {}, or a list of them", TYPES.join(", ")),
                        value,
                    ));
                }
                value.clone()
            }
            "required" => {
                if !value.as_array().is_some_and(|names| names.iter().all(Value::is_string)) {
                    return Err(broken(at, "it must be a list of property names", value));
                }
                value.clone()
            }
            "enum" => {
                if value.as_array().is_none_or(Vec::is_empty) {
                    return Err(broken(at, "it must be a list of at least one value", value));
                }
                value.clone()
            }
            "const" => value.clone(),
            "minimum" | "maximum" | "multipleOf" => {
                if !value.is_number() || (key == "multipleOf" && value.as_f64().is_none_or(|step| step <= 0.0)) {
                    return Err(broken(at, "it must be a number (of `multipleOf`, above 0)", value));
                }
                value.clone()
            }
            // Draft 4 has these as flags of `minimum` and `maximum`.
            "exclusiveMinimum" | "exclusiveMaximum" if value.is_boolean() => {
                if value == &Value::Bool(true) {
                    self.warn(at, "as a flag (JSON schema draft 4)");
                }
                return Ok(None);
            }
            "exclusiveMinimum" | "exclusiveMaximum" => {
                if !value.is_number() {
                    return Err(broken(at, "it must be a number", value));
                }
                value.clone()
            }
            "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties" => {
                let count = value
                    .as_u64()
                    .or_else(|| value.as_f64().filter(|n| n.fract() == 0.0 && *n >= 0.0).map(|n| n as u64));
                match count {
                    Some(count) => json!(count),
                    None => return Err(broken(at, "it must be a whole number, 0 or more", value)),
                }
            }
            "pattern" => {
                let Some(pattern) = value.as_str() else {
                    return Err(broken(at, "it must be a string", value));
                };
                if !self.readable(pattern, at) {
                    return Ok(None);
                }
                value.clone()
            }
            "format" => {
                let Some(format) = value.as_str() else {
                    return Err(broken(at, "it must be a string", value));
                };
                if !FORMATS.contains(&format) {
                    self.warn(at, &format!("(`{}`)", short(format)));
                    return Ok(None);
                }
                value.clone()
            }
            "$ref" => {
                let Some(reference) = value.as_str() else {
                    return Err(broken(at, "it must be a string", value));
                };
                match self.target(reference, at)? {
                    Some(target) => json!(target),
                    None => return Ok(None),
                }
            }
            "$defs" | "definitions" => {
                if !value.is_object() {
                    return Err(broken(at, "it must be an object of schemas", value));
                }
                return Ok(None);
            }
            // The values that forbid nothing.
            "uniqueItems" | "nullable" if value == &Value::Bool(false) => return Ok(None),
            "unevaluatedProperties" | "unevaluatedItems" if value == &Value::Bool(true) => return Ok(None),
            _ => {
                if UNENFORCED.contains(&key) {
                    self.warn(at, "");
                }
                return Ok(None);
            }
        };
        Ok(Some(kept))
    }

    /// Patterns that must hold at once: beyond a few they cost more than they are worth.
    fn thin(&mut self, parts: &mut Value, at: &str) {
        let parts = parts.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut);
        let with_pattern = parts.filter(|part| part.contains_key("pattern"));
        let more = with_pattern.skip(MOST_PATTERNS).map(|part| part.remove("pattern")).count();
        if more > 0 {
            self.warn(at, &format!("(its last {more} patterns)"));
        }
    }

    fn list(&mut self, value: &Value, at: &str, depth: usize) -> Result<Value, GrammarError> {
        let Some(schemas) = value.as_array().filter(|schemas| !schemas.is_empty()) else {
            return Err(broken(at, "it must be a list of at least one schema", value));
        };
        let schemas = schemas.iter().enumerate();
        schemas
            .map(|(index, schema)| self.schema(schema, &format!("{at}/{index}"), depth + 1))
            .collect::<Result<Vec<_>, _>>()
            .map(Value::Array)
    }

    fn readable(&mut self, pattern: &str, at: &str) -> bool {
        let read = (self.pattern)(pattern);
        if let Err(cause) = &read {
            self.warn(at, &format!("({})", short(cause)));
        }
        read.is_ok()
    }

    /// Where a reference leads, as the definition that it becomes; `None` where that is not in this schema.
    fn target(&mut self, reference: &str, at: &str) -> Result<Option<String>, GrammarError> {
        let id = self.root.get("$id").and_then(Value::as_str).unwrap_or("");
        let own = |rest: &&str| rest.is_empty() || rest.starts_with('#');
        let local = Some(reference).filter(own).or_else(|| reference.strip_prefix(id).filter(own));
        let Some(fragment) = local.map(|rest| rest.trim_start_matches('#')) else {
            self.warn(at, "(it leads outside the schema)");
            return Ok(None);
        };
        let pointer = if fragment.is_empty() || fragment == "/" {
            String::new()
        } else if fragment.starts_with('/') {
            decoded(fragment)
        } else {
            anchor(self.root, fragment, "").unwrap_or_else(|| format!("/#{fragment}"))
        };
        if self.root.pointer(&pointer).is_none() {
            return Err(GrammarError::Schema {
                at: at.into(),
                problem: format!("there is nothing at `{}`", short(reference)),
            });
        }
        if pointer.is_empty() {
            return Ok(Some(format!("#{}", self.base)));
        }
        let known = self.targets.iter().position(|known| *known == pointer);
        let index = known.unwrap_or_else(|| {
            self.targets.push(pointer);
            self.targets.len() - 1
        });
        Ok(Some(format!("#{}/$defs/r{index}", self.base)))
    }

    fn warn(&mut self, at: &str, why: &str) {
        if self.warnings.len() < MOST_WARNINGS {
            let space = if why.is_empty() { "" } else { " " };
            self.warnings
                .push(format!("the JSON schema's `{}`{space}{why} is not enforced", short(at)));
        } else {
            self.left_out += 1;
        }
    }
}

/// The place of a `$anchor`.
fn anchor(schema: &Value, name: &str, at: &str) -> Option<String> {
    match schema {
        Value::Object(map) => {
            if map.get("$anchor").and_then(Value::as_str) == Some(name) {
                return Some(at.to_owned());
            }
            map.iter()
                .find_map(|(key, value)| anchor(value, name, &format!("{at}/{}", escape(key))))
        }
        Value::Array(values) => {
            let mut values = values.iter().enumerate();
            values.find_map(|(index, value)| anchor(value, name, &format!("{at}/{index}")))
        }
        _ => None,
    }
}

/// Without the bounds that make grammars large: what is tried when the whole cannot be enforced.
pub(crate) fn without_bounds(schema: &Value) -> Value {
    const BOUNDS: [&str; 14] = [
        "minLength",
        "maxLength",
        "pattern",
        "format",
        "minItems",
        "maxItems",
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
        "minProperties",
        "maxProperties",
        "patternProperties",
    ];
    match schema {
        Value::Object(map) => {
            let inner = |(key, value): (&String, &Value)| {
                let named = ["properties", "$defs"].contains(&key.as_str());
                let value = match value {
                    Value::Object(schemas) if named => Value::Object(
                        schemas
                            .iter()
                            .map(|(name, schema)| (name.clone(), without_bounds(schema)))
                            .collect(),
                    ),
                    value if ["const", "enum", "required"].contains(&key.as_str()) => value.clone(),
                    value => without_bounds(value),
                };
                (key.clone(), value)
            };
            let kept = map.iter().filter(|(key, _)| !BOUNDS.contains(&key.as_str()));
            Value::Object(kept.map(inner).collect())
        }
        Value::Array(values) => Value::Array(values.iter().map(without_bounds).collect()),
        other => other.clone(),
    }
}

fn broken(at: &str, problem: &str, value: &Value) -> GrammarError {
    GrammarError::Schema {
        at: if at.is_empty() { "/".into() } else { short(at) },
        problem: format!("{problem}, not `{}`", short(&value.to_string())),
    }
}

fn short(text: &str) -> String {
    let mut short: String = text.chars().take(160).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

fn escape(segment: &str) -> String {
    segment.replace('~', "~0").replace('/', "~1")
}

/// A URI fragment as a JSON pointer.
fn decoded(fragment: &str) -> String {
    let bytes = fragment.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let hex = (bytes[at] == b'%').then(|| fragment.get(at + 1..at + 3)).flatten();
        let byte = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok());
        out.push(byte.unwrap_or(bytes[at]));
        at += if byte.is_some() { 3 } else { 1 };
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fitted(schema: Value) -> Fitted {
        fit(&schema, "", &|pattern| {
            if pattern.contains("(?=") {
                Err("look-ahead".into())
            } else {
                Ok(())
            }
        })
        .unwrap()
    }

    #[test]
    fn broken_schemas_are_named_by_their_place() {
        for (schema, at) in [
            (json!([]), "/"),
            (json!({"type": "strnig"}), "/type"),
            (json!({"properties": []}), "/properties"),
            (json!({"properties": {"a/b": {"type": 5}}}), "/properties/a~1b/type"),
            (json!({"required": "x"}), "/required"),
            (json!({"enum": []}), "/enum"),
            (json!({"items": {"minItems": -1}}), "/items/minItems"),
            (json!({"anyOf": [{}, {"pattern": 1}]}), "/anyOf/1/pattern"),
            (json!({"$ref": "#/$defs/none"}), "/$ref"),
            (json!({"$ref": "#missing"}), "/$ref"),
            (json!({"multipleOf": 0}), "/multipleOf"),
        ] {
            match check(&schema) {
                Err(GrammarError::Schema { at: found, .. }) => assert_eq!(found, at, "{schema}"),
                other => panic!("{schema}: {other:?}"),
            }
        }
        let mut deep = json!({});
        for _ in 0..100 {
            deep = json!({ "items": deep });
        }
        assert!(matches!(check(&deep), Err(GrammarError::TooLarge { .. })));
    }

    #[test]
    fn what_cannot_be_enforced_is_left_out_and_told() {
        let fitted = fitted(json!({
            "type": "object", "description": "kept nowhere", "x-own": 1,
            "properties": {
                "not": {"type": "string", "format": "phone", "pattern": "(?=x)y"},
                "b": {"not": {"type": "null"}, "uniqueItems": false}
            },
            "if": {}, "unevaluatedProperties": true
        }));
        assert_eq!(
            fitted.schema,
            json!({"type": "object", "properties": {"not": {"type": "string"}, "b": {}}})
        );
        let told = fitted.warnings.join("\n");
        for place in ["/properties/not/format", "/properties/not/pattern", "/properties/b/not", "/if"] {
            assert!(told.contains(&format!("`{place}`")), "{told}");
        }
        assert_eq!(fitted.warnings.len(), 4);
    }

    #[test]
    fn references_of_every_kind_become_definitions() {
        let schema = json!({
            "$id": "https://example.org/s", "$defs": {"a/b": {"type": "null"}, "c": {"$anchor": "here", "type": "integer"}, "unused": {"type": 5}},
            "anyOf": [{"$ref": "#/$defs/a~1b"}, {"$ref": "#/%24defs/a~1b"}, {"$ref": "#here"}, {"$ref": "#"}, {"$ref": "https://example.org/s#/$defs/c"},
                      {"$ref": "https://elsewhere.org/x"}]
        });
        let fitted = fit(&schema, "/anyOf/3", &|_| Ok(())).unwrap();
        assert_eq!(
            fitted.schema,
            json!({
                "anyOf": [{"$ref": "#/anyOf/3/$defs/r0"}, {"$ref": "#/anyOf/3/$defs/r0"}, {"$ref": "#/anyOf/3/$defs/r1"}, {"$ref": "#/anyOf/3"},
                          {"$ref": "#/anyOf/3/$defs/r1"}, {}],
                "$defs": {"r0": {"type": "null"}, "r1": {"type": "integer"}}
            })
        );
        assert_eq!(fitted.warnings.len(), 1);
    }

    #[test]
    fn bounds_can_be_dropped_without_touching_names() {
        let schema = json!({"properties": {"pattern": {"type": "string", "pattern": "x"}}, "enum": [{"minItems": 1}], "minItems": 3});
        assert_eq!(
            without_bounds(&schema),
            json!({"properties": {"pattern": {"type": "string"}}, "enum": [{"minItems": 1}]})
        );
    }
}
