//! Whether a JSON value follows a schema, by the book and without hurry: what the masks are tested against.

use serde_json::Value;

/// `None` where `value` follows `schema`, else the first reason why not. References are looked up in `root`. Of `pattern`
/// and `format` nothing is looked at.
pub fn fault(value: &Value, schema: &Value, root: &Value) -> Option<String> {
    let Value::Object(rules) = schema else {
        return (schema == &Value::Bool(false)).then(|| format!("nothing is allowed at {value}"));
    };
    rules.iter().find_map(|(rule, with)| {
        let broken = match rule.as_str() {
            "type" => {
                let kinds = with.as_array().map_or_else(|| vec![with.clone()], Clone::clone);
                !kinds.iter().any(|kind| is(value, kind.as_str().unwrap_or("")))
            }
            "enum" => !with.as_array().is_some_and(|values| values.iter().any(|one| same(one, value))),
            "const" => !same(with, value),
            "required" => value.as_object().is_some_and(|map| {
                !with
                    .as_array()
                    .into_iter()
                    .flatten()
                    .all(|name| map.contains_key(name.as_str().unwrap_or("")))
            }),
            "minItems" => value.as_array().is_some_and(|items| (items.len() as u64) < number(with) as u64),
            "maxItems" => value.as_array().is_some_and(|items| items.len() as u64 > number(with) as u64),
            "minProperties" => value.as_object().is_some_and(|map| (map.len() as u64) < number(with) as u64),
            "maxProperties" => value.as_object().is_some_and(|map| map.len() as u64 > number(with) as u64),
            "minLength" => value
                .as_str()
                .is_some_and(|text| (text.chars().count() as u64) < number(with) as u64),
            "maxLength" => value.as_str().is_some_and(|text| text.chars().count() as u64 > number(with) as u64),
            "minimum" => value.as_f64().is_some_and(|n| n < number(with)),
            "maximum" => value.as_f64().is_some_and(|n| n > number(with)),
            "exclusiveMinimum" => value.as_f64().is_some_and(|n| n <= number(with)),
            "exclusiveMaximum" => value.as_f64().is_some_and(|n| n >= number(with)),
            "multipleOf" => value.as_f64().is_some_and(|n| {
                let times = n / number(with);
                (times - times.round()).abs() > 1e-9
            }),
            "anyOf" => !with.as_array().into_iter().flatten().any(|one| fault(value, one, root).is_none()),
            "oneOf" => {
                with.as_array()
                    .into_iter()
                    .flatten()
                    .filter(|one| fault(value, one, root).is_none())
                    .count()
                    != 1
            }
            "allOf" => return with.as_array()?.iter().find_map(|one| fault(value, one, root)),
            "$ref" => {
                let target = root.pointer(with.as_str()?.trim_start_matches('#'));
                return target.map_or_else(|| Some(format!("{with} leads nowhere")), |target| fault(value, target, root));
            }
            "properties" => {
                let map = value.as_object()?;
                return with
                    .as_object()?
                    .iter()
                    .find_map(|(name, schema)| fault(map.get(name)?, schema, root));
            }
            "additionalProperties" => {
                let known = |name: &String| rules.get("properties").is_some_and(|known| known.get(name).is_some());
                let others = value.as_object()?.iter().filter(|(name, _)| !known(name));
                return others.into_iter().find_map(|(_, value)| fault(value, with, root));
            }
            "prefixItems" => {
                let pairs = with.as_array()?.iter().zip(value.as_array()?);
                return pairs.into_iter().find_map(|(schema, item)| fault(item, schema, root));
            }
            "items" => {
                let first = rules.get("prefixItems").and_then(Value::as_array).map_or(0, Vec::len);
                return value.as_array()?.iter().skip(first).find_map(|item| fault(item, with, root));
            }
            _ => false,
        };
        broken.then(|| format!("{value} breaks `{rule}` {with}"))
    })
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(0.0)
}

/// Numbers are equal by value.
fn same(one: &Value, other: &Value) -> bool {
    match (one.as_f64(), other.as_f64()) {
        (Some(one), Some(other)) => one == other,
        _ => one == other,
    }
}

fn is(value: &Value, kind: &str) -> bool {
    match kind {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "number" => value.is_number(),
        "integer" => value.as_f64().is_some_and(|n| n.fract() == 0.0),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn faults_are_found() {
        let schema = json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/n"}}, "required": ["a"], "additionalProperties": false,
            "$defs": {"n": {"type": ["integer", "null"], "minimum": 2}}});
        let bad = |value: Value| fault(&value, &schema, &schema).is_some();
        assert!(!bad(json!({"a": 2})) && !bad(json!({"a": null})));
        for value in [json!({}), json!({"a": 1}), json!({"a": "x"}), json!({"a": 2, "b": 1}), json!([])] {
            assert!(bad(value.clone()), "{value}");
        }
    }
}
