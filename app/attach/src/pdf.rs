//! The text layer of a PDF.

use crate::AttachError;

/// Text of all pages.
pub(super) fn text(name: &str, bytes: &[u8]) -> Result<String, AttachError> {
    let broken = |cause: String| AttachError::BrokenPdf { name: name.into(), cause };
    // Fonts and streams come in more ways than the reader expects; what it trips over is a broken file, not the end of
    // this program. Its thread has a stack for deep page trees.
    let owned = bytes.to_vec();
    let thread = std::thread::Builder::new().name("pdf".into()).stack_size(16 << 20);
    let reader = thread.spawn(move || std::panic::catch_unwind(|| pdf_extract::extract_text_from_mem(&owned)));
    let read = reader.map_err(|error| broken(error.to_string()))?.join();
    let text = match read {
        Ok(Ok(Ok(text))) => text,
        Ok(Ok(Err(error))) => return Err(broken(error.to_string())),
        Ok(Err(_)) | Err(_) => return Err(broken("its inner structure is not understood".into())),
    };
    let text = tidy(&text);
    if text.is_empty() {
        return Err(AttachError::NoText(name.into()));
    }
    Ok(text)
}

/// No space at the ends of lines, no more than one empty line.
fn tidy(text: &str) -> String {
    let mut lines: Vec<&str> = Vec::new();
    for line in text.lines().map(str::trim_end) {
        if !(line.is_empty() && lines.last().is_none_or(|last| last.is_empty())) {
            lines.push(line);
        }
    }
    lines.join("\n").trim_end().into()
}
