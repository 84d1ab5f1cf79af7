//! Every text that a person reads comes from the catalogues. A text in quotes in the sources of the window or of its
//! components fails here, unless it is listed below.
//!
//! What counts as a text: two words beside each other, or a word with a capital letter. A single small word may be an id, a
//! key of a file, or the name of a thread; those that are shown were found by reading.
#![allow(clippy::unwrap_used)]

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Names, units, keys, code and formats, which are the same in every language; ids; and what only programs read. Each with
/// the file it stands in and how it begins.
const ALLOWED: &[(&str, &str)] = &[
    // Ids of widgets and names of threads.
    ("components/field.rs", "text field"),
    ("components/toggle.rs", "thumb left"),
    ("components/toggle.rs", "thumb width"),
    ("chat/composer.rs", "composer field"),
    ("bridge/mod.rs", "server desk"),
    // Names of files, folders, programs, formats and keys.
    ("src/fonts.rs", "Inter-"),
    ("src/fonts.rs", "JetBrainsMono-"),
    ("src/fonts.rs", "Phosphor"),
    ("bridge/files.rs", "Downloads"),
    ("bridge/files.rs", "Documents"),
    ("bridge/connections.rs", "OpenAI "),
    ("bridge/connections.rs", "Anthropic"),
    ("agents/cards.rs", "mlx-dspark claude"),
    ("settings/pages.rs", "Inter, JetBrains Mono"),
    ("settings/pages.rs", "Esc"),
    ("state/export.rs", "Markdown"),
    ("bridge/data.rs", "mlx-dspark-chats {nth}.json"),
    // The report for those who look for a fault: they read English, and a person sees all of it before it is saved.
    ("state/report.rs", ""),
    ("bridge/data.rs", "mlx-dspark diagnostics"),
    ("bridge/data.rs", "\\nChecks"),
    // Never shown: what stands for a token where the program prints its state.
    ("state/token.rs", "Secret(set)"),
    // Units.
    ("lab/machine.rs", "{:.0} KiB"),
    // Commands and pages.
    ("agents/connections.rs", " -H "),
    ("agents/connections.rs", "curl "),
    ("state/export.rs", "body{max-width"),
    ("state/export.rs", "<!doctype html>"),
    ("state/export.rs", "<div class="),
    // The engine's advice, read by programs through the server.
    ("machine/verdict.rs", "free memory: "),
    ("machine/verdict.rs", "measure again "),
    ("machine/verdict.rs", "draft less: "),
    ("machine/verdict.rs", "what is asked decides: "),
    ("machine/verdict.rs", "begin a new conversation: "),
    // Verdicts as they come with a model, to be said in the window's language.
    ("first_run/mod.rs", "Fits"),
    ("first_run/mod.rs", "Too big"),
    // What the command line says when no window comes up.
    ("shell/run.rs", "the window broke down: "),
    // Asked of the model to see its pace; the same everywhere, so that paces compare.
    ("state/first_run.rs", "Write a short Python function"),
];

/// What other programs and files hold, or what is written to the log of the program.
fn is_elsewhere(before: &str) -> bool {
    const CALLS: [&str; 17] = [
        "id_salt(",
        "id_salt((",
        "unique(",
        "unique((",
        ".with(",
        ".with((",
        "make_persistent_id(",
        "tracing::error!(",
        "tracing::warn!(",
        "tracing::debug!(",
        "env!(",
        "include!(",
        "include_bytes!(",
        "concat!(",
        "request_discard(",
        "modal(ctx, ",
        "thread(",
    ];
    CALLS
        .iter()
        .any(|call| before.trim_end_matches(['\n', ' ']).ends_with(call.trim_end()))
}

/// A literal: the line it begins in, what stands before it in the file, and its text as written.
struct Literal<'a> {
    line: usize,
    before: &'a str,
    text: &'a str,
}

/// The literals of a source, without comments, attributes, and the tests at its end.
fn literals(source: &str) -> Vec<Literal<'_>> {
    let tests = source.match_indices("#[cfg(").find(|(at, _)| {
        if !source[*at..].starts_with("#[cfg(test)]") && !source[*at..].starts_with("#[cfg(all(test") {
            return false;
        }
        let mut lines = source[*at..].lines().skip_while(|line| line.starts_with("#["));
        lines.next().is_some_and(|line| line.starts_with("mod "))
    });
    let source = &source[..tests.map_or(source.len(), |(at, _)| at)];
    let bytes = source.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'/' if bytes.get(at + 1) == Some(&b'/') => at += source[at..].find('\n').unwrap_or(source.len() - at),
            // A letter in quotes, which may be a quote; otherwise a lifetime.
            b'\'' => {
                let letter = source[at + 1..].chars().next().map_or(0, char::len_utf8);
                let escaped = bytes.get(at + 1) == Some(&b'\\');
                let close = if escaped {
                    source[at + 3..].find('\'').map(|end| at + 3 + end)
                } else {
                    Some(at + 1 + letter)
                };
                at = close.filter(|close| bytes.get(*close) == Some(&b'\'')).unwrap_or(at) + 1;
            }
            b'"' => {
                let start = at + 1;
                at = start;
                while at < bytes.len() && bytes[at] != b'"' {
                    at += if bytes[at] == b'\\' { 2 } else { 1 };
                }
                found.push(Literal {
                    line: source[..start].matches('\n').count() + 1,
                    before: &source[..start - 1],
                    text: &source[start..at],
                });
                at += 1;
            }
            _ => at += 1,
        }
    }
    found
}

/// The text without what is put in.
fn plain(text: &str) -> String {
    let mut out = String::new();
    let mut depth = 0;
    for letter in text.replace("\\n", " ").chars() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            letter if depth == 0 => out.push(letter),
            _ => {}
        }
    }
    out
}

fn is_text(text: &str) -> bool {
    let text = plain(text);
    let words: Vec<&str> = text.split_whitespace().collect();
    let word = |word: &&str| {
        word.trim_matches(|letter: char| !letter.is_alphabetic())
            .chars()
            .filter(|letter| letter.is_alphabetic())
            .count()
            > 1
    };
    let beside = words.windows(2).any(|pair| pair.iter().all(word));
    let capital = words.iter().any(|word| {
        let mut letters = word.chars().skip_while(|letter| !letter.is_alphabetic());
        letters.next().is_some_and(char::is_uppercase) && letters.next().is_some_and(char::is_lowercase)
    });
    beside || capital
}

fn sources() -> Vec<PathBuf> {
    let app = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut folders = vec![app.join("window/src"), app.join("look/src")];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

/// The gallery of the components is for those who build them; the others hold names of icons, fonts, chips and keywords.
const NOT_READ: [&str; 7] = [
    "gallery.rs",
    "gallery_more.rs",
    "highlight.rs",
    "icon.rs",
    "icon_table.rs",
    "type_style.rs",
    "chips.rs",
];

#[test]
fn no_text_stands_outside_the_catalogues() {
    let mut strays = Vec::new();
    let mut met = vec![false; ALLOWED.len()];
    for path in sources() {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if NOT_READ.contains(&name.as_str()) {
            continue;
        }
        let source = fs::read_to_string(&path).unwrap();
        for literal in literals(&source) {
            let line = literal.before.rsplit('\n').next().unwrap_or_default();
            if !is_text(literal.text) || is_elsewhere(literal.before) || line.trim_start().starts_with("#[") {
                continue;
            }
            let known = ALLOWED
                .iter()
                .position(|(file, text)| path.ends_with(file) && literal.text.starts_with(text));
            match known {
                Some(at) => met[at] = true,
                None => strays.push(format!("{}:{}: {:?}", path.display(), literal.line, literal.text)),
            }
        }
    }
    assert!(strays.is_empty(), "texts outside the catalogues:\n{}", strays.join("\n"));
    let stale: Vec<_> = ALLOWED.iter().zip(met).filter(|(_, met)| !met).map(|(entry, _)| entry).collect();
    assert!(stale.is_empty(), "allowed, but nowhere: {stale:?}");
}

#[test]
fn a_text_is_told_from_what_is_none() {
    for text in ["Cancel", "Load {name}", "when it is idle", "{} of models", "“Open”"] {
        assert!(is_text(text), "{text}");
    }
    for text in [
        "",
        "lab",
        "{} GB",
        "{rate:.1} tok/s",
        "config.json",
        "mlx-dspark",
        "https://",
        "toml.part",
        "M",
        "{name}: {}",
    ] {
        assert!(!is_text(text), "{text}");
    }
    let source = "let a = 'x'; // \"No\"\nlet b = '\"'; f::<'a>(\"Yes\", \"a \\\" b\")\n#[cfg(test)]\nmod tests { \"Not\" }";
    let found: Vec<(usize, &str)> = literals(source).iter().map(|literal| (literal.line, literal.text)).collect();
    assert_eq!(found, [(2, "Yes"), (2, "a \\\" b")]);
}
