//! Template sources as text, tags and string literals: enough of the grammar to rewrite literals safely.

use std::{borrow::Cow, collections::BTreeSet, ops::Range};

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    /// Text that is copied to the output.
    Text(Range<usize>),
    /// `{{ … }}` or `{% … %}`, delimiters included.
    Tag(Range<usize>),
    Comment,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token<'a> {
    /// Where the literal's characters are, without the quotes.
    Literal(Range<usize>),
    Word(&'a str),
    Sign(&'a str),
}

/// Methods and filters that look for their argument in a text, and never print it.
const SEARCHES: [&str; 18] = [
    "split",
    "rsplit",
    "partition",
    "rpartition",
    "startswith",
    "endswith",
    "find",
    "rfind",
    "index",
    "rindex",
    "count",
    "strip",
    "lstrip",
    "rstrip",
    "trim",
    "removeprefix",
    "removesuffix",
    "get",
];

/// Training templates mark what the assistant said with `{% generation %}`; for rendering the tag is a plain block.
pub(crate) fn without_generation_tags(source: &str) -> Cow<'_, str> {
    let mut edits = Vec::new();
    for piece in pieces(source) {
        let Piece::Tag(range) = piece else { continue };
        let Some(inner) = source[range.clone()].strip_prefix("{%").and_then(|tag| tag.strip_suffix("%}")) else {
            continue;
        };
        let word = inner.trim_matches(|character: char| character.is_whitespace() || matches!(character, '-' | '+'));
        let replacement = match word {
            "generation" => "if true",
            "endgeneration" => "endif",
            _ => continue,
        };
        let at = range.start + 2 + inner.find(word).unwrap_or(0);
        edits.push((at..at + word.len(), replacement.to_owned()));
    }
    edit(source, edits)
}

/// Replaces what `replacement` names in every text and in every literal that may be printed. Literals that are only
/// compared with something stay as they are.
pub(crate) fn rewrite_printed(source: &str, replacement: &dyn Fn(&str) -> Option<String>) -> String {
    let mut edits = Vec::new();
    for piece in pieces(source) {
        let printed = match piece {
            Piece::Text(range) => vec![range],
            Piece::Tag(range) => literals(source, range)
                .into_iter()
                .filter(|(_, inspected)| !inspected)
                .map(|(range, _)| range)
                .collect(),
            Piece::Comment => continue,
        };
        for range in printed {
            if let Some(new) = replacement(&source[range.clone()]) {
                edits.push((range, new));
            }
        }
    }
    edit(source, edits).into_owned()
}

/// What the template looks for in texts, and the names it uses: strings that equal one of these steer it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Vocabulary {
    /// Literals that are compared with something, longest first.
    pub(crate) inspected: Vec<String>,
    /// Whole literals and identifiers.
    pub(crate) names: BTreeSet<String>,
}

pub(crate) fn vocabulary(source: &str) -> Vocabulary {
    let mut inspected = BTreeSet::new();
    let mut names = BTreeSet::new();
    for piece in pieces(source) {
        let Piece::Tag(range) = piece else { continue };
        for token in tokens(source, range.clone()) {
            if let Token::Word(word) = token {
                names.insert(word.to_owned());
            }
        }
        for (range, is_inspected) in literals(source, range) {
            let literal = unescape(&source[range]);
            if is_inspected && !literal.is_empty() {
                inspected.insert(literal.clone());
            }
            // Compared after `upper`, as in `type | upper == 'STRING'`.
            names.insert(literal.to_lowercase());
            names.insert(literal);
        }
    }
    let mut inspected: Vec<String> = inspected.into_iter().collect();
    inspected.sort_by_key(|literal| std::cmp::Reverse(literal.len()));
    Vocabulary { inspected, names }
}

fn edit(source: &str, edits: Vec<(Range<usize>, String)>) -> Cow<'_, str> {
    if edits.is_empty() {
        return Cow::Borrowed(source);
    }
    let mut out = String::with_capacity(source.len());
    let mut at = 0;
    for (range, new) in edits {
        out.push_str(&source[at..range.start]);
        out.push_str(&new);
        at = range.end;
    }
    out.push_str(&source[at..]);
    Cow::Owned(out)
}

fn pieces(source: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut at = 0;
    while let Some(open) = source[at..].find('{').map(|found| at + found) {
        let Some(kind @ ("{{" | "{%" | "{#")) = source.get(open..open + 2) else {
            // A lone brace is text; the text before it is not lost, only merged with what follows.
            let next = source[open + 1..].find('{').map_or(source.len(), |found| open + 1 + found);
            pieces.push(Piece::Text(at..next));
            at = next;
            continue;
        };
        if at < open {
            pieces.push(Piece::Text(at..open));
        }
        let end = match kind {
            "{#" => find(source, open + 2, "#}"),
            "{{" => tag_end(source, open + 2, "}}"),
            _ => tag_end(source, open + 2, "%}"),
        };
        let Some(end) = end else {
            return pieces;
        };
        if kind == "{#" {
            pieces.push(Piece::Comment);
        } else {
            pieces.push(Piece::Tag(open..end));
        }
        at = end;
        if kind == "{%" && tag_word(&source[open..end]) == "raw" {
            let close = raw_end(source, end);
            pieces.push(Piece::Text(end..close));
            at = close;
        }
    }
    if at < source.len() {
        pieces.push(Piece::Text(at..source.len()));
    }
    pieces
}

fn find(source: &str, from: usize, what: &str) -> Option<usize> {
    source[from..].find(what).map(|found| from + found + what.len())
}

/// The end of a tag: its closing mark outside of string literals and braces (an expression may end in a dictionary).
fn tag_end(source: &str, from: usize, close: &str) -> Option<usize> {
    let mut at = from;
    let mut braces = 0_usize;
    while at < source.len() {
        let rest = &source[at..];
        let character = rest.chars().next()?;
        if character == '}' && braces > 0 {
            braces -= 1;
            at += 1;
            continue;
        }
        if rest.starts_with(close) {
            return Some(at + close.len());
        }
        at = match character {
            '\'' | '"' => literal_end(source, at)?,
            _ => at + character.len_utf8(),
        };
        braces += usize::from(character == '{');
    }
    None
}

/// Behind the closing quote of the literal that opens at `from`.
fn literal_end(source: &str, from: usize) -> Option<usize> {
    let bytes = source.as_bytes();
    let mut at = from + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            byte if byte == bytes[from] => return Some(at + 1),
            _ => at += 1,
        }
    }
    None
}

fn tag_word(tag: &str) -> &str {
    let inner = tag.trim_start_matches(['{', '%', '-', '+']).trim_start();
    inner
        .split(|character: char| !character.is_alphanumeric() && character != '_')
        .next()
        .unwrap_or_default()
}

/// Where `{% endraw %}` starts.
fn raw_end(source: &str, from: usize) -> usize {
    let mut at = from;
    while let Some(open) = source[at..].find("{%").map(|found| at + found) {
        if tag_word(&source[open..]) == "endraw" {
            return open;
        }
        at = open + 2;
    }
    source.len()
}

fn tokens(source: &str, tag: Range<usize>) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let mut at = tag.start + 2;
    let end = tag.end - 2;
    while at < end {
        let rest = &source[at..end];
        let Some(character) = rest.chars().next() else { break };
        if character.is_whitespace() {
            at += character.len_utf8();
        } else if matches!(character, '\'' | '"') {
            let close = literal_end(source, at).unwrap_or(end).min(end);
            tokens.push(Token::Literal(at + 1..(close - 1).max(at + 1)));
            at = close;
        } else if character.is_alphanumeric() || character == '_' {
            let length = rest.find(|next: char| !next.is_alphanumeric() && next != '_').unwrap_or(rest.len());
            tokens.push(Token::Word(&rest[..length]));
            at += length;
        } else {
            let length = if rest.starts_with("==") || rest.starts_with("!=") {
                2
            } else {
                character.len_utf8()
            };
            tokens.push(Token::Sign(&rest[..length]));
            at += length;
        }
    }
    tokens
}

/// The literals of a tag, and whether each is only compared with something.
fn literals(source: &str, tag: Range<usize>) -> Vec<(Range<usize>, bool)> {
    let tokens = tokens(source, tag);
    let mut found = Vec::new();
    // For every open bracket: does what is inside only steer a search?
    let mut brackets: Vec<bool> = Vec::new();
    // Argument position in `replace(old, new)`; only the first is looked for.
    let mut replacing: Option<(usize, usize)> = None;
    for (index, token) in tokens.iter().enumerate() {
        let before = index.checked_sub(1).and_then(|at| tokens.get(at));
        let after = tokens.get(index + 1);
        match token {
            Token::Sign("(") => {
                let called = called_name(&tokens, index);
                let inherited = called.is_none() && brackets.last() == Some(&true);
                brackets.push(inherited || called.is_some_and(|name| SEARCHES.contains(&name)));
                if called == Some("replace") {
                    replacing = Some((brackets.len(), 0));
                }
            }
            Token::Sign("[") => brackets.push(before == Some(&Token::Word("in")) || brackets.last() == Some(&true)),
            Token::Sign("{") => brackets.push(false),
            Token::Sign(")" | "]" | "}") => {
                if replacing.is_some_and(|(depth, _)| depth == brackets.len()) {
                    replacing = None;
                }
                brackets.pop();
            }
            Token::Sign(",") => {
                if let Some((depth, argument)) = &mut replacing
                    && *depth == brackets.len()
                {
                    *argument += 1;
                }
            }
            Token::Literal(range) => {
                let compared = |token: Option<&Token>| matches!(token, Some(Token::Sign("==" | "!=") | Token::Word("in" | "not")));
                let searched =
                    brackets.last() == Some(&true) || replacing.is_some_and(|(depth, argument)| depth == brackets.len() && argument == 0);
                let key = before == Some(&Token::Sign("[")) && after == Some(&Token::Sign("]"));
                found.push((range.clone(), searched || key || compared(before) || compared(after)));
            }
            _ => {}
        }
    }
    found
}

/// The method or filter that the bracket at `index` calls.
fn called_name<'a>(tokens: &[Token<'a>], index: usize) -> Option<&'a str> {
    match (index.checked_sub(2).and_then(|at| tokens.get(at))?, tokens.get(index - 1)?) {
        (Token::Sign("." | "|"), Token::Word(name)) => Some(name),
        _ => None,
    }
}

fn unescape(literal: &str) -> String {
    let mut out = String::with_capacity(literal.len());
    let mut characters = literal.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some('n') => out.push('\n'),
                Some('t') => out.push('\t'),
                Some('r') => out.push('\r'),
                Some(other) => out.push(other),
                None => {}
            },
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may fail")]
mod tests {
    use super::*;

    #[test]
    fn generation_tags_become_plain_blocks() {
        let source = "a{%- generation -%}b{% endgeneration +%}c{{ '{% generation %}' }}";
        assert_eq!(
            without_generation_tags(source),
            "a{%- if true -%}b{% endif +%}c{{ '{% generation %}' }}"
        );
    }

    #[test]
    fn printed_and_compared_literals_are_told_apart() {
        let source = "<S>{% if '<S>' in c or c == '<S>' or r in ['<S>'] %}{{ '<S>' + c.split('<S>')[0] | replace('<S>', '<S>') }}{# <S> #}{% endif %}";
        let rewritten = rewrite_printed(source, &|text| text.contains("<S>").then(|| text.replace("<S>", "@")));
        assert_eq!(
            rewritten,
            "@{% if '<S>' in c or c == '<S>' or r in ['<S>'] %}{{ '@' + c.split('<S>')[0] | replace('<S>', '@') }}{# <S> #}{% endif %}"
        );
    }

    #[test]
    fn names_and_searches_are_collected() {
        let found = vocabulary("{{ m.content.split('</think>')[-1].lstrip('\\n') }}{% if t.type == 'string' %}x{{ 'out' }}{% endif %}");
        assert_eq!(found.inspected, ["</think>", "string", "\n"]);
        assert!(found.names.contains("type") && found.names.contains("out"));
    }

    #[test]
    fn odd_sources_do_not_confuse_it() {
        for source in [
            "{",
            "{{",
            "{% raw %}{{ x }}{% endraw %}y",
            "{{ {'a': {'b': 1}} }}z",
            "{{ \"}}\" }}",
            "{{ '\\'",
            "a{b{c",
            "{% x '",
            "{#",
        ] {
            let _ = vocabulary(source);
            let _ = without_generation_tags(source);
            assert_eq!(rewrite_printed(source, &|_| None), source);
        }
    }
}
