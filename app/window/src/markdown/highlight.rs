//! Colours for code: comments, strings, numbers, keywords, and names that are called or defined. One scanner for all
//! languages, told apart by a small table; no grammar is complete, and none needs to be while text streams in.

use std::ops::Range;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    Keyword,
    String,
    Number,
    Function,
    Comment,
    Added,
    Removed,
}

struct Language {
    names: &'static [&'static str],
    keywords: &'static str,
    line_comments: &'static [&'static str],
    block_comment: Option<(&'static str, &'static str)>,
    quotes: &'static [char],
    /// Strings that span lines.
    long_quotes: &'static [&'static str],
    ignore_case: bool,
}

const C_LIKE: Language = Language {
    names: &[],
    keywords: "",
    line_comments: &["//"],
    block_comment: Some(("/*", "*/")),
    quotes: &['"', '\''],
    long_quotes: &[],
    ignore_case: false,
};

const LANGUAGES: &[Language] = &[
    Language {
        names: &["rust", "rs"],
        keywords: "as async await break const continue crate dyn else enum extern false fn for if impl in let loop match mod move mut pub \
                   ref return self Self static struct super trait true type unsafe use where while",
        quotes: &['"'],
        ..C_LIKE
    },
    Language {
        names: &["python", "py", "python3"],
        keywords: "and as assert async await break class continue def del elif else except False finally for from global if import in is \
                   lambda match case None nonlocal not or pass raise return True try while with yield",
        line_comments: &["#"],
        block_comment: None,
        long_quotes: &["\"\"\"", "'''"],
        ..C_LIKE
    },
    Language {
        names: &["javascript", "js", "jsx", "typescript", "ts", "tsx", "mjs"],
        keywords: "abstract any as async await boolean break case catch class const continue debugger declare default delete do else enum \
                   export extends false finally for from function get if implements import in instanceof interface keyof let namespace new \
                   null number of private protected public readonly return set static string super switch this throw true try type typeof \
                   undefined var void while yield",
        long_quotes: &["`"],
        ..C_LIKE
    },
    Language {
        names: &["c", "h", "cpp", "c++", "cc", "hpp", "cuda", "metal", "objc", "objective-c"],
        keywords: "alignas auto bool break case catch char class const constexpr continue default delete do double else enum explicit extern \
                   false float for friend goto if inline int long namespace new noexcept nullptr operator override private protected public \
                   register return short signed sizeof static struct switch template this throw true try typedef typename union unsigned \
                   using virtual void volatile while kernel device threadgroup constant",
        ..C_LIKE
    },
    Language {
        names: &["java", "kotlin", "kt", "scala", "csharp", "c#", "cs", "dart", "swift", "groovy"],
        keywords: "abstract actor as async await base bool boolean break byte case catch char class const constructor continue data default \
                   defer deinit do double else enum export extension extends false fileprivate final finally float for foreach fun func get \
                   guard if implements import in init inout int interface internal is lateinit let long namespace new nil null object open \
                   operator out override package private protected protocol public readonly return sealed self set short static string \
                   struct super suspend switch this throw throws trait true try type typealias using val var virtual void when where while yield",
        ..C_LIKE
    },
    Language {
        names: &["go", "golang"],
        keywords: "break case chan const continue default defer else fallthrough false for func go goto if import interface iota map nil \
                   package range return select struct switch true type var",
        long_quotes: &["`"],
        ..C_LIKE
    },
    Language {
        names: &["bash", "sh", "shell", "zsh", "fish", "console", "dockerfile", "makefile", "make"],
        keywords: "if then else elif fi for while until do done case esac in function return local export set unset source alias echo cd exit \
                   sudo FROM RUN COPY CMD ENTRYPOINT ENV WORKDIR ARG EXPOSE",
        line_comments: &["#"],
        block_comment: None,
        ..C_LIKE
    },
    Language {
        names: &["sql", "sqlite", "postgresql", "mysql"],
        keywords: "add all alter and as asc begin between by case check commit constraint create cross default delete desc distinct drop else \
                   end exists explain false foreign from full group having if in index inner insert integer into is join key left like limit \
                   not null offset on or order outer over partition primary references right rollback rows select set table text then true \
                   union unique update using values view when where window with",
        line_comments: &["--"],
        ignore_case: true,
        ..C_LIKE
    },
    Language {
        names: &["yaml", "yml", "toml", "ini", "conf", "properties"],
        keywords: "true false null yes no on off",
        line_comments: &["#", ";"],
        block_comment: None,
        ..C_LIKE
    },
    Language {
        names: &["json", "jsonc", "json5"],
        keywords: "true false null",
        ..C_LIKE
    },
    Language {
        names: &["html", "xml", "svg", "vue"],
        keywords: "DOCTYPE",
        line_comments: &[],
        block_comment: Some(("<!--", "-->")),
        ..C_LIKE
    },
    Language {
        names: &["css", "scss", "less"],
        keywords: "important media import supports keyframes from to and not root hover focus active before after none auto inherit initial",
        line_comments: &[],
        ..C_LIKE
    },
    Language {
        names: &["ruby", "rb", "elixir", "ex"],
        keywords: "alias and begin break case class def defmodule defp do else elsif end ensure false fn for if in module next nil not or \
                   redo require rescue retry return self super then true undef unless until when while yield",
        line_comments: &["#"],
        block_comment: None,
        ..C_LIKE
    },
    Language {
        names: &["lua", "haskell", "hs"],
        keywords: "and break do else elseif end false for function goto if in local nil not or repeat return then true until while case class \
                   data deriving import instance let module newtype of qualified type where",
        line_comments: &["--"],
        block_comment: Some(("--[[", "]]")),
        ..C_LIKE
    },
    Language {
        names: &["r", "julia", "jl", "perl", "pl"],
        keywords: "break do else elseif end false FALSE for function global if import in let local macro module my next NULL our package \
                   print repeat return struct sub then true TRUE try using while",
        line_comments: &["#"],
        block_comment: None,
        ..C_LIKE
    },
    Language {
        names: &["php"],
        keywords: "abstract array as break case catch class const continue default do echo else elseif extends false final finally fn for \
                   foreach function global if implements interface match namespace new null private protected public readonly return static \
                   switch throw trait true try use var while",
        line_comments: &["//", "#"],
        ..C_LIKE
    },
];

/// Byte ranges of `code` that take a colour, in order and without overlap.
pub fn highlight(language: &str, code: &str) -> Vec<(Range<usize>, Kind)> {
    if matches!(language, "diff" | "patch") {
        return diff(code);
    }
    let Some(language) = LANGUAGES.iter().find(|known| known.names.contains(&language)) else {
        return Vec::new();
    };
    Scanner { language, code, at: 0, out: Vec::new() }.run()
}

fn diff(code: &str) -> Vec<(Range<usize>, Kind)> {
    let mut out = Vec::new();
    let mut at = 0;
    for line in code.split_inclusive('\n') {
        let range = at..at + line.trim_end_matches('\n').len();
        at += line.len();
        let kind = match line.as_bytes().first() {
            _ if line.starts_with("+++") || line.starts_with("---") => Kind::Comment,
            Some(b'+') => Kind::Added,
            Some(b'-') => Kind::Removed,
            Some(b'@') => Kind::Function,
            _ => continue,
        };
        out.push((range, kind));
    }
    out
}

struct Scanner<'a> {
    language: &'static Language,
    code: &'a str,
    at: usize,
    out: Vec<(Range<usize>, Kind)>,
}

impl Scanner<'_> {
    fn run(mut self) -> Vec<(Range<usize>, Kind)> {
        while let Some(c) = self.rest().chars().next() {
            let start = self.at;
            if let Some(end) = self.comment() {
                self.emit(start..end, Kind::Comment);
            } else if let Some(end) = self.string(c) {
                self.emit(start..end, Kind::String);
            } else if c.is_ascii_digit() {
                let end = start + self.run_of(|c| c.is_ascii_alphanumeric() || c == '_' || c == '.');
                // `1..10` and a sentence's full stop are not part of the number.
                let text = &self.code[start..end];
                let length = text.find("..").unwrap_or(text.trim_end_matches('.').len());
                self.emit(start..start + length.max(1), Kind::Number);
            } else if c.is_alphabetic() || c == '_' {
                self.word(start);
            } else {
                self.at += c.len_utf8();
            }
        }
        self.out
    }

    fn rest(&self) -> &str {
        &self.code[self.at..]
    }

    fn emit(&mut self, range: Range<usize>, kind: Kind) {
        self.at = range.end;
        self.out.push((range, kind));
    }

    fn run_of(&self, accept: impl Fn(char) -> bool) -> usize {
        self.rest().find(|c| !accept(c)).unwrap_or(self.rest().len())
    }

    /// Where a comment that starts here ends.
    fn comment(&self) -> Option<usize> {
        let rest = self.rest();
        if let Some((open, close)) = self.language.block_comment
            && let Some(inside) = rest.strip_prefix(open)
        {
            let length = inside.find(close).map_or(rest.len(), |at| open.len() + at + close.len());
            return Some(self.at + length);
        }
        let before = self.code[..self.at].chars().next_back();
        let starts = |mark: &&&str| rest.starts_with(**mark) && (**mark != "#" || before.is_none_or(char::is_whitespace));
        self.language.line_comments.iter().find(starts)?;
        Some(self.at + rest.find('\n').unwrap_or(rest.len()))
    }

    /// Where a string that starts here ends.
    fn string(&self, first: char) -> Option<usize> {
        let rest = self.rest();
        if let Some(quote) = self.language.long_quotes.iter().find(|quote| rest.starts_with(**quote)) {
            let inside = &rest[quote.len()..];
            return Some(self.at + inside.find(quote).map_or(rest.len(), |at| at + 2 * quote.len()));
        }
        if !self.language.quotes.contains(&first) {
            return None;
        }
        let mut escaped = false;
        for (at, c) in rest.char_indices().skip(1) {
            match c {
                '\n' if first != '"' => return (at > 1).then_some(self.at + at),
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                _ if c == first => return Some(self.at + at + c.len_utf8()),
                _ => {}
            }
        }
        Some(self.code.len())
    }

    fn word(&mut self, start: usize) {
        let end = start + self.run_of(|c| c.is_alphanumeric() || c == '_');
        let word = &self.code[start..end];
        let is = |keyword: &str| {
            if self.language.ignore_case {
                keyword.eq_ignore_ascii_case(word)
            } else {
                keyword == word
            }
        };
        if self.language.keywords.split_ascii_whitespace().any(is) {
            self.emit(start..end, Kind::Keyword);
            return;
        }
        let after = self.code[end..].trim_start_matches('!');
        let defines = matches!(self.out.last(), Some((range, Kind::Keyword))
            if self.code[range.end..start].trim().is_empty()
                && matches!(&self.code[range.clone()], "struct" | "enum" | "trait" | "class" | "interface" | "def" | "fn" | "func" | "fun"));
        if after.starts_with('(') || defines {
            self.emit(start..end, Kind::Function);
        } else {
            self.at = end;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn marked<'a>(language: &str, code: &'a str) -> Vec<(&'a str, Kind)> {
        highlight(language, code).into_iter().map(|(range, kind)| (&code[range], kind)).collect()
    }

    #[test]
    fn rust_as_in_the_mock() {
        assert_eq!(
            marked("rust", "pub fn max(mut v: Vec<Span>) { v.retain(|s| 0..10); } // half-open"),
            [
                ("pub", Kind::Keyword),
                ("fn", Kind::Keyword),
                ("max", Kind::Function),
                ("mut", Kind::Keyword),
                ("retain", Kind::Function),
                ("0", Kind::Number),
                ("10", Kind::Number),
                ("// half-open", Kind::Comment),
            ]
        );
        assert_eq!(marked("rust", "let a: &'a str = \"x\\\"y\";")[1], ("\"x\\\"y\"", Kind::String));
    }

    #[test]
    fn other_languages() {
        let python = marked("py", "def f(x):\n    \"\"\"long\n    doc\"\"\"\n    return 'a#b'  # note");
        assert_eq!(python[1], ("f", Kind::Function));
        assert_eq!(python[2], ("\"\"\"long\n    doc\"\"\"", Kind::String));
        assert_eq!(python.last(), Some(&("# note", Kind::Comment)));
        assert_eq!(marked("sql", "Select count(*) FROM t")[0], ("Select", Kind::Keyword));
        assert_eq!(marked("diff", "+a\n-b\n c"), [("+a", Kind::Added), ("-b", Kind::Removed)]);
        assert_eq!(marked("", "fn main()"), []);
    }

    proptest! {
        #[test]
        fn ranges_are_ordered_whole_and_inside(code in "(?s).{0,120}", which in 0..LANGUAGES.len()) {
            let mut end = 0;
            for (range, _) in highlight(LANGUAGES[which].names[0], &code) {
                prop_assert!(range.start >= end && range.end > range.start);
                prop_assert!(code.is_char_boundary(range.start) && code.is_char_boundary(range.end));
                end = range.end;
            }
            prop_assert!(end <= code.len());
        }
    }
}
