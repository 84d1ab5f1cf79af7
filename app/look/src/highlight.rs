//! Code colouring for chat: one scanner that knows words, strings, numbers and comments.
//!
//! A model's code is often cut off or half wrong, so there is no grammar here to fail on it.

use egui::{Color32, text::LayoutJob};

use crate::{Theme, Type};

struct Language {
    /// Separated by spaces.
    keywords: &'static str,
    line_comments: &'static [&'static str],
    block_comment: Option<(&'static str, &'static str)>,
    quotes: &'static [char],
    ignore_case: bool,
}

const C_QUOTES: &[char] = &['"', '\''];
const SLASH: &[&str] = &["//"];
const HASH: &[&str] = &["#"];
const STAR: Option<(&str, &str)> = Some(("/*", "*/"));

const RUST: &str = "\
    as async await break const continue crate dyn else enum extern false fn for if impl in let loop match mod move mut pub ref \
    return self Self static struct super trait true type unsafe use where while";
const PYTHON: &str = "\
    and as assert async await break class continue def del elif else except False finally for from global if import in is lambda \
    match None nonlocal not or pass raise return self True try while with yield";
const SCRIPT: &str = "\
    abstract any as async await boolean break case catch class const continue default delete do else enum export extends false \
    finally for from function if implements import in instanceof interface let new null number of private protected public readonly \
    return static string super switch this throw true try type typeof undefined var void while yield";
const C_LIKE: &str = "\
    auto bool break case catch char class const constexpr continue default defer delete do double else enum extern extends false \
    final float for fun func go guard if implements import in include init inline int interface let long map namespace new nil null \
    nullptr override package private protected protocol public range return self short signed sizeof static string struct switch \
    template this throw throws true try type typedef typename union unsigned using val var virtual void when while";
const SHELL: &str = "case cd do done echo elif else esac exit export fi for function if in local return set source sudo then while";
const SQL: &str = "\
    all alter and as asc begin between by case commit create cross delete desc distinct drop else end exists from full group having \
    in index inner insert into is join left like limit not null offset on or order outer over partition primary right select set \
    table then union update values view when where window with";
const DATA: &str = "true false null yes no";

fn language(name: &str) -> Option<Language> {
    let of = |keywords, line_comments, block_comment, quotes| Language {
        keywords,
        line_comments,
        block_comment,
        quotes,
        ignore_case: false,
    };
    Some(match name.to_ascii_lowercase().as_str() {
        // A lone ' in Rust is a lifetime far more often than a character.
        "rust" | "rs" => of(RUST, SLASH, STAR, &['"']),
        "python" | "py" | "python3" | "ruby" | "rb" | "perl" | "r" | "julia" | "elixir" | "makefile" | "dockerfile" => {
            of(PYTHON, HASH, None, C_QUOTES)
        }
        "javascript" | "js" | "jsx" | "typescript" | "ts" | "tsx" => of(SCRIPT, SLASH, STAR, &['"', '\'', '`']),
        "c" | "h" | "cpp" | "c++" | "cc" | "cs" | "csharp" | "java" | "kotlin" | "kt" | "swift" | "go" | "golang" | "objc" | "dart"
        | "scala" | "zig" | "php" | "metal" | "cuda" => of(C_LIKE, SLASH, STAR, C_QUOTES),
        "bash" | "sh" | "zsh" | "shell" | "console" | "fish" => of(SHELL, HASH, None, C_QUOTES),
        "sql" | "sqlite" | "postgresql" | "mysql" => Language {
            ignore_case: true,
            ..of(SQL, &["--"], STAR, &['\''])
        },
        "json" | "jsonc" | "json5" => of(DATA, SLASH, STAR, &['"']),
        "yaml" | "yml" | "toml" | "ini" => of(DATA, HASH, None, C_QUOTES),
        "css" | "scss" => of("", SLASH, STAR, C_QUOTES),
        "html" | "xml" | "svg" => of("", &[], Some(("<!--", "-->")), &['"']),
        _ => return None,
    })
}

/// `code` in [`Type::CODE`], coloured for `name` (a fence's info word). Unknown languages stay plain.
pub fn highlight(theme: &Theme, code: &str, name: &str) -> LayoutJob {
    let mut job = LayoutJob::default();
    let mut put = |text: &str, color: Color32| job.append(text, 0.0, Type::CODE.format(color));
    if matches!(name, "diff" | "patch") {
        diff(theme, code, &mut put);
    } else if let Some(language) = language(name) {
        scan(theme, code, &language, &mut put);
    } else {
        put(code, theme.t1);
    }
    job
}

fn diff(theme: &Theme, code: &str, put: &mut impl FnMut(&str, Color32)) {
    for line in code.split_inclusive('\n') {
        put(
            line,
            match line.as_bytes().first() {
                Some(b'+') => theme.ok,
                Some(b'-') => theme.bad,
                Some(b'@') => theme.syntax.keyword,
                _ => theme.t1,
            },
        );
    }
}

fn scan(theme: &Theme, code: &str, language: &Language, put: &mut impl FnMut(&str, Color32)) {
    let syntax = &theme.syntax;
    let mut rest = code;
    while let Some(first) = rest.chars().next() {
        let (length, color) = if let Some(length) = comment(rest, language) {
            (length, syntax.comment)
        } else if language.quotes.contains(&first) {
            (string(rest, first), syntax.string)
        } else if first.is_ascii_digit() {
            (run(rest, |c| c.is_ascii_alphanumeric() || c == '_' || c == '.'), syntax.number)
        } else if first.is_alphabetic() || first == '_' {
            let length = run(rest, |c| c.is_alphanumeric() || c == '_');
            (length, word(theme, &rest[..length], &rest[length..], language))
        } else {
            (first.len_utf8(), theme.t1)
        };
        put(&rest[..length], color);
        rest = &rest[length..];
    }
}

fn comment(rest: &str, language: &Language) -> Option<usize> {
    if language.line_comments.iter().any(|mark| rest.starts_with(mark)) {
        return Some(rest.find('\n').unwrap_or(rest.len()));
    }
    let (open, close) = language.block_comment?;
    let inside = rest.strip_prefix(open)?;
    Some(inside.find(close).map_or(rest.len(), |at| open.len() + at + close.len()))
}

/// To the closing quote, or to the end of the line where there is none. Python's triple quotes span lines.
fn string(rest: &str, quote: char) -> usize {
    let triple: String = std::iter::repeat_n(quote, 3).collect();
    if let Some(inside) = rest.strip_prefix(triple.as_str()) {
        return inside.find(triple.as_str()).map_or(rest.len(), |at| at + 6);
    }
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            '\n' if quote != '`' => return at,
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return at + c.len_utf8(),
            _ => {}
        }
    }
    rest.len()
}

fn run(rest: &str, inside: impl Fn(char) -> bool) -> usize {
    rest.find(|c| !inside(c)).unwrap_or(rest.len())
}

fn word(theme: &Theme, word: &str, after: &str, language: &Language) -> Color32 {
    let mut keywords = language.keywords.split_ascii_whitespace();
    let keyword = if language.ignore_case {
        keywords.any(|k| k.eq_ignore_ascii_case(word))
    } else {
        keywords.any(|k| k == word)
    };
    if keyword {
        theme.syntax.keyword
    } else if after.starts_with('(') || after.starts_with("!(") || after.starts_with("::<") {
        theme.syntax.function
    } else {
        theme.t1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DARK;

    fn colours(code: &str, language: &str) -> Vec<(String, Color32)> {
        let job = highlight(&DARK, code, language);
        assert_eq!(job.text, code, "nothing lost, nothing added");
        job.sections
            .iter()
            .map(|s| (job.text[s.byte_range.start.0..s.byte_range.end.0].to_owned(), s.format.color))
            .collect()
    }

    fn of(code: &str, language: &str, part: &str) -> Color32 {
        colours(code, language)
            .into_iter()
            .find(|(text, _)| text.contains(part))
            .expect("the part is in the code")
            .1
    }

    #[test]
    fn words_strings_numbers_comments() {
        let code = "pub fn max(v: &'a str) -> u32 { // why\n    let s = \"a \\\" b\"; 0x1F }";
        assert_eq!(of(code, "rust", "pub"), DARK.syntax.keyword);
        assert_eq!(of(code, "rust", "max"), DARK.syntax.function);
        assert_eq!(of(code, "rust", "// why"), DARK.syntax.comment);
        assert_eq!(of(code, "rust", "\"a \\\" b\""), DARK.syntax.string);
        assert_eq!(of(code, "rust", "0x1F"), DARK.syntax.number);
        assert_eq!(of("SELECT 'x' -- y", "sql", "SELECT"), DARK.syntax.keyword);
    }

    #[test]
    fn half_written_code_keeps_every_byte() {
        for code in ["let s = \"open", "/* open", "x = '''open\nmore", "日本語 = 'é", "", "\"\\"] {
            for language in ["rust", "py", "js", "nothing", "diff", "html"] {
                colours(code, language);
            }
        }
    }
}
