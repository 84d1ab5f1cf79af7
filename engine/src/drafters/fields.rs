//! Fields of a drafter's `config.json`, with refusals that name them. Null counts as absent.

use super::{DrafterError, Result};
use crate::load::float;
use serde_json::{Map, Value};

/// Larger sizes are a mistake, and their products would not fit.
const MAX_SIZE: u64 = 1 << 28;

#[derive(Debug, Clone, Copy)]
pub(super) struct Fields<'a>(pub(super) &'a Map<String, Value>);

fn wrong(key: &str, wanted: &str, found: &Value) -> DrafterError {
    DrafterError::Config(format!("`{key}` must be {wanted}, found {found}"))
}

impl<'a> Fields<'a> {
    pub(super) fn get(self, key: &str) -> Option<&'a Value> {
        self.0.get(key).filter(|value| !value.is_null())
    }

    pub(super) fn has(self, key: &str) -> bool {
        self.get(key).is_some()
    }

    pub(super) fn object(self, key: &str) -> Option<Self> {
        self.get(key).and_then(Value::as_object).map(Fields)
    }

    pub(super) fn text(self, key: &str) -> Option<&'a str> {
        self.get(key).and_then(Value::as_str)
    }

    /// A whole number that may be 0.
    pub(super) fn whole(self, key: &str) -> Result<Option<usize>> {
        self.get(key)
            .map(|value| {
                let whole = value.as_u64().filter(|n| *n <= MAX_SIZE);
                whole
                    .map(|n| n as usize)
                    .ok_or_else(|| wrong(key, "a whole number of sensible size", value))
            })
            .transpose()
    }

    /// A whole number above 0.
    pub(super) fn size(self, key: &str) -> Result<Option<usize>> {
        match self.whole(key)? {
            Some(0) => Err(DrafterError::Config(format!("`{key}` must be above 0"))),
            other => Ok(other),
        }
    }

    pub(super) fn need(self, key: &str) -> Result<usize> {
        self.size(key)?.ok_or_else(|| DrafterError::Config(format!("`{key}` is missing")))
    }

    pub(super) fn number(self, key: &str) -> Result<Option<f64>> {
        self.get(key)
            .map(|value| float(value).ok_or_else(|| wrong(key, "a number", value)))
            .transpose()
    }

    pub(super) fn bool(self, key: &str) -> Result<Option<bool>> {
        self.get(key)
            .map(|value| value.as_bool().ok_or_else(|| wrong(key, "true or false", value)))
            .transpose()
    }

    /// Only `true` itself; other values are somebody else's field.
    pub(super) fn is_true(self, key: &str) -> bool {
        self.get(key).and_then(Value::as_bool) == Some(true)
    }

    pub(super) fn words(self, key: &str) -> Vec<&'a str> {
        let list = self.get(key).and_then(Value::as_array);
        list.map(|items| items.iter().filter_map(Value::as_str).collect())
            .unwrap_or_default()
    }

    /// Layer ids.
    pub(super) fn ids(self, key: &str) -> Result<Option<Vec<usize>>> {
        self.get(key)
            .map(|value| {
                let ids = value.as_array().map(|items| {
                    let id = |item: &Value| item.as_u64().filter(|n| *n <= MAX_SIZE).map(|n| n as usize);
                    items.iter().map(id).collect::<Option<Vec<_>>>()
                });
                let ids = ids.flatten().filter(|ids| !ids.is_empty() && ids.is_sorted_by(|a, b| a < b));
                ids.ok_or_else(|| wrong(key, "an ascending list of layer ids", value))
            })
            .transpose()
    }

    /// Of these keys, those that are absent.
    pub(super) fn missing(self, keys: &[&str]) -> Vec<String> {
        keys.iter().filter(|key| !self.has(key)).map(|key| format!("`{key}`")).collect()
    }
}
