//! Numbers and what holds them as text: `str` and `repr` of Python write floats otherwise than the template engine does
//! (`1e-07`, `1e+16`), and templates put arguments of tool calls into prompts that way.

use super::python::number;
use minijinja::{
    Environment, Error, Output, State, Value, escape_formatter,
    value::{Object, ObjectRepr, Tuple, ValueKind},
};
use std::{fmt, sync::Arc};

pub(super) fn install(env: &mut Environment<'_>) {
    env.set_formatter(
        |out: &mut Output<'_>, state: &mut State<'_, '_>, value: &Value| -> Result<(), Error> {
            match written(value) {
                Some(value) => escape_formatter(out, state, &value),
                None => escape_formatter(out, state, value),
            }
        },
    );
    env.add_filter("string", |value: &Value| match written(value) {
        Some(value) => Value::from(value.to_string()),
        None if value.as_str().is_some() => value.clone(),
        None => Value::from(value.to_string()),
    });
}

/// A float that shows itself as Python writes it.
struct Float(String);

impl fmt::Debug for Float {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Object for Float {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }
}

/// The same with every float replaced; `None` where there is none.
fn written(value: &Value) -> Option<Value> {
    match value.kind() {
        ValueKind::Number if !value.is_integer() => {
            // JSON has other words than Python for these.
            let text = match number(value).as_str() {
                "NaN" => "nan".to_owned(),
                "Infinity" => "inf".to_owned(),
                "-Infinity" => "-inf".to_owned(),
                other => other.to_owned(),
            };
            Some(Value::from_object(Float(text)))
        }
        ValueKind::Seq => {
            let items: Vec<Value> = value.try_iter().ok()?.collect();
            let changed: Vec<Option<Value>> = items.iter().map(written).collect();
            if changed.iter().all(Option::is_none) {
                return None;
            }
            let items: Vec<Value> = changed
                .into_iter()
                .zip(items)
                .map(|(changed, item)| changed.unwrap_or(item))
                .collect();
            Some(if value.downcast_object_ref::<Tuple>().is_some() {
                Value::from(Tuple::from(items))
            } else {
                Value::from(items)
            })
        }
        ValueKind::Map => {
            let keys: Vec<Value> = value.try_iter().ok()?.collect();
            let items: Vec<(Value, Value)> = keys
                .into_iter()
                .filter_map(|key| {
                    let item = value.get_item(&key).ok()?;
                    Some((key, item))
                })
                .collect();
            let changed: Vec<Option<Value>> = items.iter().map(|(_, item)| written(item)).collect();
            if changed.iter().all(Option::is_none) {
                return None;
            }
            let pairs = changed.into_iter().zip(items);
            Some(Value::from_pairs(
                pairs.map(|(changed, (key, item))| (key, changed.unwrap_or(item))),
            ))
        }
        _ => None,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may fail")]
mod tests {
    use super::*;
    use crate::context::{Plain, json};
    use minijinja::context;

    #[test]
    fn floats_in_output_are_written_as_python_does() {
        let mut env = Environment::new();
        install(&mut env);
        let context = context! {
            x => 1e-7, y => 1e16, z => 2.5, n => f64::NAN, i => f64::NEG_INFINITY, whole => 3,
            deep => json(&serde_json::json!({"a": [true, null, 1e-7, "1e-7"], "b": {"c": 1e300}}), &Plain),
            plain => json(&serde_json::json!([1, "a"]), &Plain),
        };
        for (template, expected) in [
            ("{{ x }} {{ y }} {{ z }} {{ whole }}", "1e-07 1e+16 2.5 3"),
            ("{{ n }} {{ i }}", "nan -inf"),
            ("{{ deep }}", "{'a': [True, None, 1e-07, '1e-7'], 'b': {'c': 1e+300}}"),
            ("{{ (x, 1) }}", "(1e-07, 1)"),
            ("{{ plain }}", "[1, 'a']"),
            (
                "{{ 'is ' + deep|string }}",
                "is {'a': [True, None, 1e-07, '1e-7'], 'b': {'c': 1e+300}}",
            ),
            ("{{ 'a'|string }}{{ (x|string)|length }}", "a5"),
        ] {
            assert_eq!(env.render_str(template, &context).unwrap(), expected, "{template}");
        }
    }
}
