//! Every language says everything, with the same arguments, and nothing is said that nobody asks for.
#![allow(clippy::unwrap_used)]

use dspark_strings::{Language, set, t};
use fluent_syntax::ast::{Entry, Expression, InlineExpression, Pattern, PatternElement};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

/// What a message takes: values that stand in it, and values that only choose between its variants.
#[derive(Debug, Default, PartialEq)]
struct Takes {
    shown: BTreeSet<String>,
    chosen_by: BTreeSet<String>,
    texts: Vec<String>,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../assets/strings")
}

fn names(language: Language) -> BTreeSet<String> {
    let folder = fs::read_dir(root().join(language.tag())).unwrap();
    folder
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect()
}

/// The messages of a catalogue by id; panics where it does not parse.
fn catalogue(language: Language) -> BTreeMap<String, Takes> {
    let mut messages = BTreeMap::new();
    for name in names(language) {
        let path = root().join(language.tag()).join(&name);
        let source = fs::read_to_string(&path).unwrap();
        let resource = fluent_syntax::parser::parse(source.as_str()).unwrap_or_else(|(_, errors)| panic!("{}: {errors:?}", path.display()));
        for entry in &resource.body {
            let Entry::Message(message) = entry else { continue };
            let mut takes = Takes::default();
            read(message.value.as_ref().unwrap(), &mut takes);
            let id = message.id.name.to_owned();
            assert!(
                messages.insert(id.clone(), takes).is_none(),
                "{}: `{id}` is there twice",
                path.display()
            );
        }
    }
    messages
}

fn read(pattern: &Pattern<&str>, takes: &mut Takes) {
    for element in &pattern.elements {
        match element {
            PatternElement::TextElement { value } => takes.texts.push((*value).to_owned()),
            PatternElement::Placeable { expression } => match expression {
                Expression::Inline(InlineExpression::VariableReference { id }) => {
                    takes.shown.insert(id.name.to_owned());
                }
                Expression::Inline(_) => {}
                Expression::Select { selector, variants } => {
                    if let InlineExpression::VariableReference { id } = selector {
                        takes.chosen_by.insert(id.name.to_owned());
                    }
                    for variant in variants {
                        read(&variant.value, takes);
                    }
                }
            },
        }
    }
}

#[test]
fn every_language_says_everything_with_the_same_arguments() {
    let english = catalogue(Language::English);
    assert!(english.len() > 1000, "{} messages", english.len());
    for language in Language::ALL {
        assert_eq!(names(language), names(Language::English), "{language:?}");
        let other = catalogue(language);
        let missing: Vec<&String> = english.keys().filter(|id| !other.contains_key(*id)).collect();
        assert!(missing.is_empty(), "{language:?} lacks {missing:?}");
        for (id, takes) in &other {
            let Some(reference) = english.get(id) else {
                panic!("{language:?} has `{id}`, which English has not")
            };
            assert_eq!(takes.shown, reference.shown, "{language:?}: `{id}`");
            // A language without plural forms chooses nothing.
            assert!(takes.chosen_by.is_subset(&reference.chosen_by), "{language:?}: `{id}`");
        }
    }
}

#[test]
fn texts_are_set_as_their_language_sets_them() {
    for language in Language::ALL {
        for (id, takes) in catalogue(language) {
            for text in &takes.texts {
                let text = text.trim();
                match language {
                    Language::English => assert!(text.is_ascii() || text.chars().all(|letter| !is_wide(letter)), "`{id}`: {text}"),
                    Language::German => assert!(!text.chars().any(is_wide) && !text.contains('ẞ'), "`{id}`: {text}"),
                    // Half-width marks between wide letters are a slip of the keyboard.
                    Language::Chinese | Language::Japanese => {
                        let letters: Vec<char> = text.chars().collect();
                        for pair in letters.windows(2) {
                            assert!(
                                !(is_wide(pair[0]) && matches!(pair[1], ',' | ';' | '!' | '?' | ':')),
                                "`{id}`: {text}"
                            );
                        }
                    }
                }
            }
        }
    }
}

/// Han, kana, and their punctuation.
fn is_wide(letter: char) -> bool {
    matches!(letter, '\u{3000}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{ff00}'..='\u{ffef}')
}

#[test]
fn plural_forms_follow_the_number() {
    let say = |language: Language, n: usize| {
        set(language);
        (t!(count_chats, n = n), t!(oldest_not_read, n = n))
    };
    let both = |chats: &str, turns: &str| (chats.to_owned(), turns.to_owned());
    assert_eq!(say(Language::English, 0), both("0 chats", "The 0 oldest turns are not read"));
    assert_eq!(say(Language::English, 1), both("1 chat", "The oldest turn is not read"));
    assert_eq!(say(Language::English, 2), both("2 chats", "The 2 oldest turns are not read"));
    assert_eq!(say(Language::English, 1234).0, "1234 chats");
    assert_eq!(say(Language::German, 0).0, "0 Chats");
    assert_eq!(say(Language::German, 1), both("1 Chat", "Die älteste Runde wird nicht gelesen"));
    assert_eq!(
        say(Language::German, 2),
        both("2 Chats", "Die 2 ältesten Runden werden nicht gelesen")
    );
    for n in [0, 1, 2, 1234] {
        assert_eq!(say(Language::Chinese, n).0, format!("{n} 个对话"));
        assert_eq!(say(Language::Japanese, n).0, format!("{n} 件のチャット"));
    }
    set(Language::English);
    let ordinals = [(1, "st"), (2, "nd"), (3, "rd"), (12, "th")].map(|(n, ending)| t!(ordinal, n = n, ending = ending));
    assert_eq!(ordinals, ["1st", "2nd", "3rd", "12th"]);
    set(Language::German);
    assert_eq!(t!(ordinal, n = 2, ending = "nd"), "2.");
}

#[test]
fn arguments_stand_as_they_are() {
    set(Language::German);
    // No isolation marks, no grouping, nothing of Fluent in what a person typed.
    assert_eq!(t!(load_named, name = "{ $x } \"Qwen3-8B\""), "{ $x } \"Qwen3-8B\" laden");
    assert_eq!(t!(tokens_count, count = "1,184"), "1,184 Token");
    assert_eq!(t!(too_big), "Zu groß");
    // Spaces at the ends are kept: sentences are put together with them.
    set(Language::English);
    assert!(t!(lookup_sentence).starts_with(' '));
    assert!(t!(device_memory, device = "M4", memory = 24).ends_with(". "));
}

/// `t!(key` and `key!(key` in the sources of the faces.
fn asked_for() -> BTreeSet<String> {
    let mut asked = BTreeSet::new();
    let app = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut folders = vec![app.join("window/src"), app.join("look/src"), app.join("src")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let source = fs::read_to_string(&path).unwrap_or_default();
            for (at, _) in source.match_indices("t!(").chain(source.match_indices("key!(")) {
                // Not the end of `assert!`.
                if source[..at].ends_with(|letter: char| letter.is_alphanumeric() || letter == '_') {
                    continue;
                }
                let rest = source[at..].split_once('(').unwrap().1.trim_start();
                let end = rest
                    .find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')
                    .unwrap_or(rest.len());
                asked.insert(rest[..end].replace('_', "-"));
            }
        }
    }
    asked
}

#[test]
fn nothing_is_said_that_nobody_asks_for() {
    let asked = asked_for();
    let idle: Vec<String> = catalogue(Language::English).into_keys().filter(|id| !asked.contains(id)).collect();
    assert!(idle.is_empty(), "used nowhere: {idle:?}");
}
