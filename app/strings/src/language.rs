//! Which languages there are, which one the system asks for, and which one is in use.

use std::{
    borrow::Cow,
    cell::Cell,
    sync::atomic::{AtomicU8, Ordering},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Language {
    #[default]
    English,
    Chinese,
    Japanese,
    German,
}

impl Language {
    pub const ALL: [Self; 4] = [Self::English, Self::Chinese, Self::Japanese, Self::German];

    /// As settings and catalogues name it.
    pub const fn tag(self) -> &'static str {
        match self {
            Self::English => "en",
            Self::Chinese => "zh-Hans",
            Self::Japanese => "ja",
            Self::German => "de",
        }
    }

    /// As those who speak it call it; the same in every language.
    pub const fn own_name(self) -> &'static str {
        match self {
            Self::English => "English",
            Self::Chinese => "简体中文",
            Self::Japanese => "日本語",
            Self::German => "Deutsch",
        }
    }

    /// The one with exactly this tag.
    pub fn from_tag(tag: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|language| language.tag() == tag)
    }

    /// The one that serves a locale of a system: `de-AT`, `zh_CN.UTF-8`. Traditional Chinese is not among them, and
    /// whoever asks for it is better served by the next language of their list.
    pub fn for_locale(locale: &str) -> Option<Self> {
        let locale = locale.split(['.', '@']).next().unwrap_or_default();
        let mut parts = locale.split(['-', '_']);
        match parts.next()?.to_ascii_lowercase().as_str() {
            "en" => Some(Self::English),
            "de" => Some(Self::German),
            "ja" => Some(Self::Japanese),
            "zh" => {
                let traditional = ["hant", "tw", "hk", "mo"];
                let rest: Vec<String> = parts.map(str::to_ascii_lowercase).collect();
                let simplified = rest.iter().any(|part| part == "hans");
                let other = rest.iter().any(|part| traditional.contains(&part.as_str()));
                (simplified || !other).then_some(Self::Chinese)
            }
            _ => None,
        }
    }

    /// The first of a list of locales that there is a catalogue for; English where there is none.
    pub fn of_locales(locales: impl IntoIterator<Item = String>) -> Self {
        locales.into_iter().find_map(|locale| Self::for_locale(&locale)).unwrap_or_default()
    }

    /// The one the system asks for.
    pub fn of_system() -> Self {
        Self::of_locales(sys_locale::get_locales())
    }

    pub(crate) fn index(self) -> usize {
        self as usize
    }
}

/// For threads that have not been told.
static EVERYWHERE: AtomicU8 = AtomicU8::new(0);

thread_local! {
    /// The thread of the window looks here; so tests in one process do not change each other's language.
    static HERE: Cell<Option<Language>> = const { Cell::new(None) };
}

/// The language in use.
pub fn current() -> Language {
    HERE.get()
        .unwrap_or_else(|| Language::ALL[usize::from(EVERYWHERE.load(Ordering::Relaxed)) % Language::ALL.len()])
}

/// Takes a language into use: on this thread, and on all that have not called this.
pub fn set(language: Language) {
    HERE.set(Some(language));
    EVERYWHERE.store(language as u8, Ordering::Relaxed);
}

/// Says something in another language than the one in use, on this thread: what programs read stays English.
pub fn speaking<R>(language: Language, say: impl FnOnce() -> R) -> R {
    let before = HERE.replace(Some(language));
    let said = say();
    HERE.set(before);
    said
}

/// A title or label in the middle of a sentence: with a small letter where the language writes it so.
pub fn within(words: &str) -> Cow<'_, str> {
    match current() {
        Language::English => {
            let mut letters = words.chars();
            letters
                .next()
                .map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
                .into()
        }
        _ => words.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_systems_locales_find_their_catalogue() {
        for (locale, language) in [
            ("en-GB", Some(Language::English)),
            ("de_AT.UTF-8", Some(Language::German)),
            ("de-DE@euro", Some(Language::German)),
            ("ja", Some(Language::Japanese)),
            ("zh-CN", Some(Language::Chinese)),
            ("zh", Some(Language::Chinese)),
            ("zh-Hans-HK", Some(Language::Chinese)),
            ("zh-Hant-TW", None),
            ("zh_TW.UTF-8", None),
            ("C", None),
            ("POSIX", None),
            ("", None),
            ("fr-FR", None),
        ] {
            assert_eq!(Language::for_locale(locale), language, "{locale}");
        }
        let asked = |list: &[&str]| Language::of_locales(list.iter().map(|&locale| locale.to_owned()));
        assert_eq!(asked(&["fr-FR", "de-CH", "en"]), Language::German);
        assert_eq!(asked(&["zh-Hant-TW", "ja-JP"]), Language::Japanese);
        assert_eq!(asked(&["C"]), Language::English);
    }

    #[test]
    fn a_thread_keeps_its_language() {
        set(Language::German);
        std::thread::spawn(|| {
            set(Language::Japanese);
            assert_eq!(current(), Language::Japanese);
        })
        .join()
        .unwrap_or_default();
        assert_eq!(current(), Language::German);
        for language in Language::ALL {
            assert_eq!(Language::from_tag(language.tag()), Some(language));
        }
        assert_eq!(Language::from_tag("tlh"), None);
    }
}
