//! Addresses that stand in a text as they are become links.

use super::Inline;
use dspark_look::urls::urls;

/// Splits runs at their addresses. Code stays code, and a link's own words stay its own.
pub(super) fn with_bare_links(runs: Vec<Inline>) -> Vec<Inline> {
    if !runs.iter().any(|run| is_plain(run) && run.text.contains("://")) {
        return runs;
    }
    let mut out = Vec::with_capacity(runs.len() + 2);
    for run in runs {
        let found = if is_plain(&run) { urls(&run.text) } else { Vec::new() };
        let mut from = 0;
        for range in found {
            out.extend(piece(&run, from, range.start));
            let mut link = piece(&run, range.start, range.end);
            if let Some(link) = &mut link {
                link.link = Some(run.text[range.clone()].into());
            }
            out.extend(link);
            from = range.end;
        }
        if from == 0 {
            out.push(run);
        } else {
            out.extend(piece(&run, from, run.text.len()));
        }
    }
    out
}

fn is_plain(run: &Inline) -> bool {
    !run.code && run.link.is_none()
}

/// The bytes from `from` to `to` as a run of their own, which knows its places in the source.
fn piece(run: &Inline, from: usize, to: usize) -> Option<Inline> {
    if from >= to {
        return None;
    }
    let mut spans: Vec<(usize, usize)> = run.source_of(from).map(|source| (0, source)).into_iter().collect();
    let inside = run.spans.iter().filter(|span| span.0 > from && span.0 < to);
    spans.extend(inside.map(|(at, source)| (at - from, *source)));
    Some(Inline {
        text: run.text[from..to].into(),
        spans,
        ..run.clone()
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::{Block, parse::parse};

    fn runs(source: &str) -> Vec<super::Inline> {
        match parse(source).remove(0).1 {
            Block::Paragraph(runs) => runs,
            other => panic!("{other:?}"),
        }
    }

    fn links(source: &str) -> Vec<String> {
        runs(source)
            .iter()
            .filter_map(|run| run.link.as_deref().map(str::to_owned))
            .collect()
    }

    #[test]
    fn addresses_in_a_reply_are_links() {
        assert_eq!(
            links("see https://x.org/a_b_c and **https://y.org**."),
            ["https://x.org/a_b_c", "https://y.org"]
        );
        assert_eq!(links("`https://code.org` [named](https://z.org)"), ["https://z.org"]);
        assert!(links("file:///etc/passwd and javascript://x").is_empty());
    }

    #[test]
    fn every_piece_still_knows_its_place() {
        let source = "a &amp; b https://x.org/q?a=1&amp;b=2 c https://y.org";
        let runs = runs(source);
        let plain: String = runs.iter().map(|run| run.text.as_str()).collect();
        assert_eq!(plain, "a & b https://x.org/q?a=1&b=2 c https://y.org");
        let last = runs.last().unwrap();
        assert_eq!(last.link.as_deref(), Some("https://y.org"));
        let at = last.source_of(0).unwrap();
        assert_eq!(&source[at..], "https://y.org");
        let middle = runs.iter().find(|run| run.text == " c ").unwrap();
        assert!(source[middle.source_of(0).unwrap()..].starts_with(" c "));
    }
}
