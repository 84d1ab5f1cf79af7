//! One entry in a JSON file, with everything around it left as its author wrote it.

use jsonc_parser::{
    ParseOptions,
    cst::{CstInputValue, CstObject, CstRootNode},
};
use serde_json::Value;

/// Sets the value at `path` in a JSON document that may have comments. An absent or blank document is begun.
///
/// # Errors
/// It does not parse, or something on the way is no object: nothing is changed then.
pub(crate) fn set(current: Option<&str>, path: &[&str], value: &Value) -> Result<String, String> {
    if let Some(text) = current
        && get(text, path).as_ref() == Some(value)
    {
        // However it is laid out, it says this already.
        return Ok(text.to_owned());
    }
    let blank = current.is_none_or(|text| text.trim().is_empty());
    let text = if blank { "{}\n" } else { current.unwrap_or_default() };
    let root = CstRootNode::parse(text, &ParseOptions::default()).map_err(|error| error.to_string())?;
    let top = root.object_value_or_create().ok_or("the top of the file is no object")?;
    let Some((last, way)) = path.split_last() else {
        return Err("no place was named".into());
    };
    let place = way.iter().try_fold(top, |object, name| {
        object
            .object_value_or_create(name)
            .ok_or_else(|| format!("`{name}` is there and is no object"))
    })?;
    put(&place, last, value);
    let mut text = root.to_string();
    if !text.ends_with('\n') {
        text.push_str(if text.contains("\r\n") { "\r\n" } else { "\n" });
    }
    Ok(text)
}

fn put(object: &CstObject, name: &str, value: &Value) {
    match object.get(name) {
        Some(property) => property.set_value(input(value)),
        None => {
            object.append(name, input(value));
        }
    }
}

/// The value at `path`, where the document parses and has one.
pub(crate) fn get(current: &str, path: &[&str]) -> Option<Value> {
    let root = CstRootNode::parse(current, &ParseOptions::default()).ok()?;
    let value = root.to_serde_value()?;
    path.iter().try_fold(value, |value, name| value.get(name).cloned())
}

fn input(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(flag) => CstInputValue::Bool(*flag),
        Value::Number(number) => CstInputValue::Number(number.to_string()),
        Value::String(text) => CstInputValue::String(text.clone()),
        Value::Array(items) => CstInputValue::Array(items.iter().map(input).collect()),
        Value::Object(map) => CstInputValue::Object(map.iter().map(|(name, value)| (name.clone(), input(value))).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_others_wrote_stays_to_the_letter() {
        let theirs = "// mine\n{\n  \"theme\": \"dark\", // at night\n  \"provider\": {\n    \"other\": {\"x\": [1, 2]}\n  }\n}\n";
        let set = set(
            Some(theirs),
            &["provider", "mlx-dspark"],
            &json!({"name": "n", "models": {"M": {}}}),
        )
        .unwrap();
        for kept in ["// mine\n", "\"theme\": \"dark\", // at night\n", "\"other\": {\"x\": [1, 2]}"] {
            assert!(set.contains(kept), "{set}");
        }
        assert_eq!(get(&set, &["provider", "mlx-dspark", "name"]), Some(json!("n")));
        let again = super::set(Some(&set), &["provider", "mlx-dspark"], &json!({"name": "n", "models": {"M": {}}})).unwrap();
        assert_eq!(set, again, "setting the same twice changes nothing");
        let other = super::set(Some(&set), &["provider", "mlx-dspark"], &json!({"name": "m"})).unwrap();
        assert_eq!(get(&other, &["provider", "mlx-dspark"]), Some(json!({"name": "m"})));
        assert_eq!(get(&other, &["provider", "other"]), Some(json!({"x": [1, 2]})));
    }

    #[test]
    fn files_of_windows_keep_their_lines_and_setting_twice_changes_nothing() {
        let value = json!({"name": "n", "models": [{"id": "M"}]});
        for theirs in ["{\r\n\t\"options\" : {}\r\n}", "{\r\n}\r\n", "// a\r\n{\"b\": 1}\r\n"] {
            let once = set(Some(theirs), &["providers", "mlx-dspark"], &value).unwrap();
            assert_eq!(set(Some(&once), &["providers", "mlx-dspark"], &value).unwrap(), once, "{once:?}");
            assert_eq!(once.matches('\n').count(), once.matches("\r\n").count(), "{once:?}");
        }
    }

    #[test]
    fn an_absent_file_is_begun_and_a_broken_one_left_alone() {
        for absent in [None, Some(""), Some(" \n")] {
            let text = set(absent, &["a", "b"], &json!(1)).unwrap();
            assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), json!({"a": {"b": 1}}));
        }
        for broken in ["{", "[1]", "{\"a\": 5}", "hello", "{\"a\": 1,, }"] {
            assert!(set(Some(broken), &["a", "b"], &json!(1)).is_err(), "{broken}");
        }
    }
}
