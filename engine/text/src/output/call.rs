//! A call as it was read, before it is typed by the tool's schema.

use serde_json::Value;

/// An argument as it was written.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Raw {
    Value(Value),
    /// Text between tags, of whatever type the schema says.
    Text(String),
    /// Text that was marked as such: a string unless the schema says otherwise.
    Literal(String),
}

/// What has been read of a call that is not complete.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) name: Option<String>,
    pub(crate) arguments: Vec<(String, Raw)>,
    /// The argument being written: a string so far.
    pub(crate) open: Option<(String, String)>,
    /// More than one call, or arguments before the name: nothing of it can be told in advance.
    pub(crate) mixed: bool,
}

impl Seen {
    pub(crate) fn name(&mut self, name: &str) {
        self.mixed |= self.name.is_some();
        self.name = Some(name.to_owned());
    }

    pub(crate) fn done(&mut self, key: &str, value: Raw) {
        self.mixed |= self.name.is_none();
        self.open = None;
        self.arguments.push((key.to_owned(), value));
    }

    pub(crate) fn growing(&mut self, key: &str, so_far: &str) {
        self.open = Some((key.to_owned(), so_far.to_owned()));
    }
}

/// A complete call.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Call {
    pub(crate) name: String,
    /// In their order; those without a name stand for the schema's properties in order.
    pub(crate) arguments: Vec<(Option<String>, Raw)>,
}

impl Call {
    pub(crate) fn of_values(name: String, arguments: impl IntoIterator<Item = (String, Value)>) -> Self {
        Self {
            name,
            arguments: arguments.into_iter().map(|(key, value)| (Some(key), Raw::Value(value))).collect(),
        }
    }
}
