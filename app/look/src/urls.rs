//! Addresses in plain text, as GitHub's markdown finds them: `https://` and `http://` up to the next space, without the
//! punctuation that ends a sentence.

use std::ops::Range;

/// Byte ranges of the addresses in `text`, in order.
pub fn urls(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(at) = text[from..].find("://").map(|at| at + from) {
        from = at + 3;
        let scheme = ["https", "http"].into_iter().find(|scheme| {
            let head = &text.as_bytes()[..at];
            head.len() >= scheme.len() && head[head.len() - scheme.len()..].eq_ignore_ascii_case(scheme.as_bytes())
        });
        let Some(scheme) = scheme else { continue };
        let start = at - scheme.len();
        // The end of another word is no scheme.
        if text[..start].chars().next_back().is_some_and(char::is_alphanumeric) {
            continue;
        }
        let rest = &text[from..];
        let end = rest
            .find(|letter: char| letter.is_whitespace() || letter.is_control() || matches!(letter, '<' | '>' | '"' | '`' | '“' | '”'))
            .unwrap_or(rest.len());
        let end = from + trimmed(&rest[..end]);
        // There is a host.
        if text[from..end]
            .chars()
            .next()
            .is_some_and(|first| first.is_alphanumeric() || first == '[')
        {
            found.push(start..end);
            from = end;
        }
    }
    found
}

/// Length without what belongs to the sentence around it.
fn trimmed(address: &str) -> usize {
    let mut address = address;
    loop {
        let Some(last) = address.chars().next_back() else { return 0 };
        let opens = address.matches('(').count();
        let ends = match last {
            '.' | ',' | ':' | ';' | '!' | '?' | '*' | '_' | '~' | '\'' | '’' | '。' | '，' | '、' | '）' | '」' => true,
            // One that was opened inside is part of it.
            ')' => address.matches(')').count() > opens,
            _ => false,
        };
        if !ends {
            return address.len();
        }
        address = &address[..address.len() - last.len_utf8()];
    }
}

#[cfg(test)]
mod tests {
    use super::urls;

    fn found(text: &str) -> Vec<&str> {
        urls(text).into_iter().map(|range| &text[range]).collect()
    }

    #[test]
    fn addresses_end_where_the_sentence_goes_on() {
        assert_eq!(
            found("See https://x.org/a?b=1#c, or (http://y.org)."),
            ["https://x.org/a?b=1#c", "http://y.org"]
        );
        assert_eq!(
            found("https://en.wikipedia.org/wiki/Rust_(language)!"),
            ["https://en.wikipedia.org/wiki/Rust_(language)"]
        );
        assert_eq!(
            found("„https://example.de/straße“ und HTTPS://X.ORG"),
            ["https://example.de/straße", "HTTPS://X.ORG"]
        );
        assert_eq!(found("見て https://x.org/日本。次"), ["https://x.org/日本。次"]);
        assert_eq!(found("<https://x.org>https://y.org"), ["https://x.org", "https://y.org"]);
        assert_eq!(
            found("http://127.0.0.1:8080/v1 http://[::1]/"),
            ["http://127.0.0.1:8080/v1", "http://[::1]/"]
        );
    }

    #[test]
    fn what_is_none() {
        for text in [
            "",
            "://",
            "https://",
            "https:// x",
            "ftp://x.org",
            "javascript://x",
            "xhttps://x.org",
            "https://.",
            "a://b://c",
        ] {
            assert!(found(text).is_empty(), "{text}");
        }
    }
}
