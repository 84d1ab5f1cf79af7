//! Full-text search over titles and messages, in every script.

use crate::{Result, SessionHead, Store};
use rusqlite::{params, params_from_iter};
use std::ops::Range;

/// Bytes of context on each side of a match.
const CONTEXT: usize = 48;
/// Trigrams cannot look up less than this; shorter words are scanned.
const TRIGRAM: usize = 3;

/// A session that matches.
#[derive(Debug, Clone, PartialEq)]
pub struct Hit {
    pub session: SessionHead,
    /// The newest message that matches; `None` when only the title does.
    pub message: Option<i64>,
    pub snippet: Option<Snippet>,
}

/// A piece of text around matches.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Snippet {
    pub text: String,
    /// Byte ranges in `text`.
    pub matches: Vec<Range<usize>>,
}

impl Store {
    /// Sessions whose title or text holds every word of `query`, newest first, at most `limit`.
    pub fn search(&self, query: &str, limit: usize) -> Result<Vec<Hit>> {
        let words: Vec<&str> = query
            .split(|c: char| c.is_whitespace() || c == '\0')
            .filter(|word| !word.is_empty())
            .collect();
        if words.is_empty() {
            return Ok(Vec::new());
        }
        let mut hits = self.search_titles(&words, limit)?;
        for hit in self.search_messages(&words, limit * 4)? {
            match hits.iter().position(|known| known.session.id == hit.session.id) {
                Some(index) if hits[index].message.is_none() => hits[index] = hit,
                None if hits.len() < limit => hits.push(hit),
                Some(_) | None => {}
            }
        }
        Ok(hits)
    }

    fn search_titles(&self, words: &[&str], limit: usize) -> Result<Vec<Hit>> {
        let wanted = vec!["title LIKE ? ESCAPE '\\'"; words.len()].join(" AND ");
        let db = self.reader();
        let mut rows = db.prepare_cached(&format!(
            "SELECT id, title, pinned, updated_at FROM session
             WHERE deleted_at IS NULL AND {wanted} ORDER BY updated_at DESC LIMIT {limit}"
        ))?;
        let hits = rows.query_map(params_from_iter(words.iter().map(|word| like(word))), |row| {
            Ok(Hit {
                session: SessionHead {
                    id: row.get(0)?,
                    title: row.get(1)?,
                    pinned: row.get(2)?,
                    updated_at: row.get(3)?,
                },
                message: None,
                snippet: None,
            })
        })?;
        Ok(hits.collect::<Result<_, _>>()?)
    }

    fn search_messages(&self, words: &[&str], limit: usize) -> Result<Vec<Hit>> {
        let (long, short): (Vec<&str>, Vec<&str>) = words.iter().partition(|word| word.chars().count() >= TRIGRAM);
        let indexed = long
            .iter()
            .map(|word| format!("\"{}\"", word.replace('"', "\"\"")))
            .collect::<Vec<_>>()
            .join(" AND ");
        let scanned = " AND m.text LIKE ? ESCAPE '\\'".repeat(short.len());
        let (source, filter) = if long.is_empty() {
            ("message m", "1")
        } else {
            ("message_fts f JOIN message m ON m.id = f.rowid", "message_fts MATCH ?")
        };
        let sql = format!(
            "SELECT s.id, s.title, s.pinned, s.updated_at, m.id, m.text
             FROM {source} JOIN session s ON s.id = m.session_id
             WHERE {filter} {scanned} AND m.deleted_at IS NULL AND s.deleted_at IS NULL
             ORDER BY m.id DESC LIMIT {limit}"
        );
        let arguments = (!long.is_empty()).then_some(indexed).into_iter();
        let arguments = arguments.chain(short.iter().map(|word| like(word)));
        let db = self.reader();
        let mut rows = db.prepare_cached(&sql)?;
        let hits = rows.query_map(params_from_iter(arguments), |row| {
            Ok(Hit {
                session: SessionHead {
                    id: row.get(0)?,
                    title: row.get(1)?,
                    pinned: row.get(2)?,
                    updated_at: row.get(3)?,
                },
                message: row.get(4)?,
                snippet: Some(snippet(row.get_ref(5)?.as_str()?, words)),
            })
        })?;
        Ok(hits.collect::<Result<_, _>>()?)
    }

    /// How many messages there are, deleted ones not counted.
    pub fn count_messages(&self) -> Result<usize> {
        let count = self
            .reader()
            .query_row("SELECT count(*) FROM message WHERE deleted_at IS NULL", params![], |row| {
                row.get::<_, i64>(0)
            })?;
        Ok(count as usize)
    }
}

fn like(word: &str) -> String {
    let escaped = word.replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_");
    format!("%{escaped}%")
}

/// The text around the first match, in one line, with the place of every match in it.
pub fn snippet(text: &str, words: &[&str]) -> Snippet {
    let first = words
        .iter()
        .filter_map(|word| find(text, word, 0))
        .min_by_key(|range| range.start)
        .unwrap_or(0..0);
    let mut start = first.start.saturating_sub(CONTEXT);
    while !text.is_char_boundary(start) {
        start -= 1;
    }
    if start > 0
        && let Some(space) = text[start..first.start].find(char::is_whitespace)
    {
        start += space + 1;
        while !text.is_char_boundary(start) {
            start += 1;
        }
    }
    let mut end = (first.end + 2 * CONTEXT).min(text.len());
    while !text.is_char_boundary(end) {
        end += 1;
    }
    let lead = if start > 0 { "…" } else { "" };
    let tail = if end < text.len() { "…" } else { "" };
    let middle: String = text[start..end].chars().map(|c| if c.is_whitespace() { ' ' } else { c }).collect();
    let text = format!("{lead}{}{tail}", middle.trim_end());
    let mut matches = Vec::new();
    for word in words {
        let mut from = 0;
        while let Some(range) = find(&text, word, from) {
            from = range.end.max(range.start + 1);
            matches.push(range);
        }
    }
    matches.sort_by_key(|range| (range.start, range.end));
    matches.dedup();
    Snippet { text, matches }
}

/// First place of `word` at or after byte `from`, ignoring case.
fn find(text: &str, word: &str, from: usize) -> Option<Range<usize>> {
    let wanted: Vec<char> = word.chars().flat_map(char::to_lowercase).collect();
    if wanted.is_empty() {
        return None;
    }
    let tail = text.get(from..)?;
    'start: for (at, _) in tail.char_indices() {
        let mut wanted = wanted.iter();
        let mut next = wanted.next();
        for (offset, c) in tail[at..].char_indices() {
            for lower in c.to_lowercase() {
                match next {
                    Some(expected) if *expected == lower => next = wanted.next(),
                    _ => continue 'start,
                }
            }
            if next.is_none() {
                let end = from + at + offset + c.len_utf8();
                return Some(from + at..end);
            }
        }
        return None;
    }
    None
}
