//! Every text that a person reads in the window and the tray. The catalogues are Project Fluent files under
//! `assets/strings`; English is the reference, and the build turns its ids into Rust, so that a typo does not compile.
//!
//! ```
//! use dspark_strings::{Language, key, t};
//!
//! assert_eq!(t!(cancel), "Cancel");
//! assert_eq!(t!(count_chats, n = 3), "3 chats");
//! dspark_strings::set(Language::German);
//! assert_eq!(t!(cancel), "Abbrechen");
//! assert_eq!(key!(cancel).text(), "Abbrechen");
//! ```
//!
//! A plain message is a look-up in a table made once per language: no parsing, no allocation, nothing per frame.
//! A message with arguments is formatted when it is asked for.

mod catalogue;
mod language;

pub use language::{Language, current, set, speaking, within};

include!(concat!(env!("OUT_DIR"), "/messages.rs"));

/// A value inside a message.
pub type Value<'a> = fluent_bundle::FluentValue<'a>;

/// A plain message, where the text itself is not wanted yet: in a table, or in a state that outlives a change of the
/// language.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key(u16);

impl Key {
    /// Its text in the language in use.
    pub fn text(self) -> &'static str {
        catalogue::plain(current(), self)
    }

    /// Its text in a language.
    pub fn text_in(self, language: Language) -> &'static str {
        catalogue::plain(language, self)
    }
}

/// What can stand in a message. Numbers choose the plural form.
pub trait Arg {
    fn arg(&self) -> Value<'_>;
}

impl Arg for str {
    fn arg(&self) -> Value<'_> {
        Value::from(self)
    }
}

impl Arg for String {
    fn arg(&self) -> Value<'_> {
        Value::from(self.as_str())
    }
}

impl Arg for std::borrow::Cow<'_, str> {
    fn arg(&self) -> Value<'_> {
        Value::from(self.as_ref())
    }
}

impl Arg for std::sync::Arc<str> {
    fn arg(&self) -> Value<'_> {
        Value::from(self.as_ref())
    }
}

impl Arg for std::path::Display<'_> {
    fn arg(&self) -> Value<'_> {
        Value::from(self.to_string())
    }
}

impl<T: Arg + ?Sized> Arg for &T {
    fn arg(&self) -> Value<'_> {
        (**self).arg()
    }
}

macro_rules! numbers {
    ($($number:ty),+) => {
        $(impl Arg for $number {
            fn arg(&self) -> Value<'_> {
                Value::from(*self)
            }
        })+
    };
}

numbers!(i8, i16, i32, i64, isize, u8, u16, u32, u64, usize, f32, f64);

/// The text of a message in the language in use: `&'static str`, or `String` for one with arguments.
#[macro_export]
macro_rules! t {
    ($key:ident) => {
        $crate::keys::$key.text()
    };
    ($key:ident, $($name:ident = $value:expr),+ $(,)?) => {
        $crate::args::$key { $($name: $crate::Arg::arg(&$value)),+ }.text()
    };
}

/// A plain message without its text yet.
#[macro_export]
macro_rules! key {
    ($key:ident) => {
        $crate::keys::$key
    };
}
