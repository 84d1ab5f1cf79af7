//! Files that a person adds to a message, as text: plain text and code in any common encoding, tables, and the text
//! layer of PDFs. A model here reads text alone, so pictures and other binary files are refused by name.
//!
//! ```
//! let file = dspark_attach::read("sum.py", b"print(1 + 1)\n").unwrap();
//! assert_eq!(file.inlined(), "File `sum.py`:\n\n```python\nprint(1 + 1)\n```");
//! ```

mod decode;
mod kind;
mod pdf;

pub use decode::decode;
pub use kind::Kind;

/// Most bytes of a file that is read.
pub const LIMIT_BYTES: usize = 20 << 20;
/// Most characters of text: more than any context window here holds.
pub const LIMIT_TEXT: usize = 4_000_000;

/// A file as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attachment {
    /// Without its folder.
    pub name: String,
    pub kind: Kind,
    pub text: String,
}

/// Why a file cannot be added.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AttachError {
    #[error("`{0}` is a picture, and the models here read text alone: describe it, or paste the words it shows")]
    Picture(String),
    #[error("`{0}` is not text: text, code, CSV and PDF files with a text layer can be added")]
    Binary(String),
    #[error("`{0}` is empty")]
    Empty(String),
    #[error("`{name}` is too large ({size} MB; at most {most}): add the part that matters")]
    TooLarge { name: String, size: usize, most: usize },
    #[error("`{0}` is a PDF without a text layer, probably a scan: run text recognition on it first")]
    NoText(String),
    #[error("`{name}` cannot be read as a PDF: {cause}. If it opens elsewhere, export it as a PDF or as text again")]
    BrokenPdf { name: String, cause: String },
}

/// Reads a file. `name` may be a path; its ending says the language.
///
/// # Errors
/// [`AttachError`], in words for a person.
pub fn read(name: &str, bytes: &[u8]) -> Result<Attachment, AttachError> {
    let name = name.rsplit(['/', '\\']).next().unwrap_or(name).to_owned();
    if bytes.is_empty() {
        return Err(AttachError::Empty(name));
    }
    if bytes.len() > LIMIT_BYTES {
        return Err(too_large(name, bytes.len(), LIMIT_BYTES));
    }
    if bytes.starts_with(b"%PDF-") {
        let text = pdf::text(&name, bytes)?;
        return finished(name, Kind::Pdf, text);
    }
    if kind::is_picture(&name, bytes) {
        return Err(AttachError::Picture(name));
    }
    let Some(text) = decode::text(bytes) else {
        return Err(AttachError::Binary(name));
    };
    let kind = Kind::of_name(&name);
    finished(name, kind, text)
}

fn finished(name: String, kind: Kind, text: String) -> Result<Attachment, AttachError> {
    if text.trim().is_empty() {
        return Err(AttachError::Empty(name));
    }
    if text.len() > LIMIT_TEXT {
        return Err(too_large(name, text.len(), LIMIT_TEXT));
    }
    Ok(Attachment { name, kind, text })
}

fn too_large(name: String, bytes: usize, most: usize) -> AttachError {
    AttachError::TooLarge {
        name,
        size: bytes.div_ceil(1_000_000),
        most: most / 1_000_000,
    }
}

impl Attachment {
    /// A long paste, folded into a file of its own.
    pub fn pasted(text: impl Into<String>) -> Self {
        Self {
            name: "Pasted text".into(),
            kind: Kind::Text,
            text: text.into(),
        }
    }

    /// As it stands in a message: its name, then its text in a fence that nothing inside can close.
    pub fn inlined(&self) -> String {
        let fence = "`".repeat(longest_run(&self.text).max(2) + 1);
        let (name, language) = (self.name.replace('`', "'"), self.kind.language());
        let text = self.text.trim_end_matches('\n');
        format!("File `{name}`:\n\n{fence}{language}\n{text}\n{fence}")
    }

    pub fn lines(&self) -> usize {
        self.text.lines().count()
    }
}

/// Files, then what the person wrote.
pub fn message(attachments: &[Attachment], words: &str) -> String {
    let mut parts: Vec<String> = attachments.iter().map(Attachment::inlined).collect();
    if !words.trim().is_empty() {
        parts.push(words.to_owned());
    }
    parts.join("\n\n")
}

/// A message taken apart again into its files and what the person wrote: the inverse of [`message`].
pub fn split(message: &str) -> (Vec<Attachment>, &str) {
    let (mut files, mut rest) = (Vec::new(), message);
    while let Some((file, after)) = first_file(rest) {
        files.push(file);
        rest = after;
    }
    (files, rest)
}

fn first_file(message: &str) -> Option<(Attachment, &str)> {
    let (name, after) = message.strip_prefix("File `")?.split_once("`:\n\n```")?;
    let more = after.len() - after.trim_start_matches('`').len();
    let fence = "`".repeat(3 + more);
    let (language, body) = after[more..].split_once('\n')?;
    if name.contains('\n') || language.contains(char::is_whitespace) {
        return None;
    }
    let end = format!("\n{fence}");
    let at = body.find(&end)?;
    let after = &body[at + end.len()..];
    let rest = if after.is_empty() { after } else { after.strip_prefix("\n\n")? };
    let file = Attachment {
        name: name.into(),
        kind: Kind::of_name(name),
        text: body[..at].into(),
    };
    Some((file, rest))
}

fn longest_run(text: &str) -> usize {
    let mut runs = (0, 0);
    for c in text.chars() {
        runs.1 = if c == '`' { runs.1 + 1 } else { 0 };
        runs.0 = runs.0.max(runs.1);
    }
    runs.0
}

#[cfg(test)]
mod tests;
