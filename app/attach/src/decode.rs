//! Bytes as text: UTF-8, UTF-16 with a mark, else Windows' Western letters.

/// What stands at 0x80–0x9F in Windows-1252; the rest is Latin-1.
const WINDOWS: [char; 32] = [
    '€', '\u{81}', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', '\u{8d}', 'Ž', '\u{8f}', '\u{90}', '‘', '’', '“', '”', '•', '–',
    '—', '˜', '™', 'š', '›', 'œ', '\u{9d}', 'ž', 'Ÿ',
];

/// `None` where the bytes are no text. Line ends become those of Unix.
pub(super) fn text(bytes: &[u8]) -> Option<String> {
    Some(decode(bytes)?.replace("\r\n", "\n").replace('\r', "\n"))
}

/// Bytes as text, without the mark that may begin them; `None` where they are no text.
pub fn decode(bytes: &[u8]) -> Option<String> {
    let text = match bytes {
        [0xef, 0xbb, 0xbf, rest @ ..] => String::from_utf8(rest.to_vec()).ok()?,
        [0xff, 0xfe, rest @ ..] => utf16(rest, u16::from_le_bytes)?,
        [0xfe, 0xff, rest @ ..] => utf16(rest, u16::from_be_bytes)?,
        _ => match std::str::from_utf8(bytes) {
            Ok(text) => text.to_owned(),
            Err(_) => western(bytes)?,
        },
    };
    let controls = text
        .chars()
        .filter(|c| c.is_control() && !matches!(c, '\n' | '\r' | '\t' | '\u{c}' | '\u{1b}'))
        .count();
    // A stray control character happens in logs; a NUL does not happen in text.
    let clean = !text.contains('\0') && controls * 100 <= text.chars().count();
    clean.then_some(text)
}

fn utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> Option<String> {
    let (pairs, rest) = bytes.as_chunks::<2>();
    let units: Vec<u16> = pairs.iter().map(|pair| unit(*pair)).collect();
    rest.is_empty().then(|| String::from_utf16(&units).ok())?
}

fn western(bytes: &[u8]) -> Option<String> {
    // Letters are rare among the high bytes of what is no text.
    let odd = bytes
        .iter()
        .filter(|b| matches!(b, 0..=8 | 14..=26 | 28..=31 | 0x81 | 0x8d | 0x8f | 0x90 | 0x9d))
        .count();
    (odd == 0).then(|| {
        let letter = |b: &u8| match b {
            0x80..=0x9f => WINDOWS[usize::from(b - 0x80)],
            b => char::from(*b),
        };
        bytes.iter().map(letter).collect()
    })
}
