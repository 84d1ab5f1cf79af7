use std::collections::BTreeSet;

/// What the scanner lets through.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Scanned {
    /// Text that no stop string can claim any more.
    pub text: String,
    /// The stop string that ended the text. Everything after it is dropped.
    pub matched: Option<String>,
}

/// Finds stop strings in text that arrives in pieces, however it is cut.
///
/// The stop string that is complete first ends the text; of several that are complete at the same character the
/// longest one, so what is emitted never depends on the cuts. Only text that may still become a stop string is held
/// back: at most the longest stop string less one character.
///
/// ```
/// use dspark_text::StopScanner;
///
/// let mut scanner = StopScanner::new(["\nUser:"]);
/// assert_eq!(scanner.push("Hello.\nUs").text, "Hello.");
/// assert_eq!(scanner.push("ual").text, "\nUsual");
/// let scanned = scanner.push("\nUser: more");
/// assert_eq!((scanned.text.as_str(), scanned.matched.as_deref()), ("", Some("\nUser:")));
/// ```
#[derive(Debug, Clone, Default)]
pub struct StopScanner {
    stops: Vec<String>,
    /// A proper prefix of some stop string.
    held: String,
    matched: Option<String>,
}

impl StopScanner {
    /// Empty strings are dropped: they would end every text at once.
    pub fn new<S: Into<String>>(stops: impl IntoIterator<Item = S>) -> Self {
        let stops: BTreeSet<String> = stops.into_iter().map(Into::into).filter(|stop| !stop.is_empty()).collect();
        Self {
            stops: stops.into_iter().collect(),
            ..Self::default()
        }
    }

    pub fn is_empty(&self) -> bool {
        self.stops.is_empty()
    }

    /// The stop string that ended the text.
    pub fn matched(&self) -> Option<&str> {
        self.matched.as_deref()
    }

    /// Text held back for now.
    pub fn held(&self) -> &str {
        &self.held
    }

    /// Takes the next piece of text. After a match it lets nothing through.
    pub fn push(&mut self, piece: &str) -> Scanned {
        if self.matched.is_some() {
            return Scanned::default();
        }
        if self.stops.is_empty() {
            return Scanned {
                text: piece.to_owned(),
                matched: None,
            };
        }
        let mut text = std::mem::take(&mut self.held);
        text.push_str(piece);

        let first = self
            .stops
            .iter()
            .filter_map(|stop| text.find(stop.as_str()).map(|start| (start + stop.len(), start, stop)))
            .min();
        if let Some((_, start, stop)) = first {
            self.matched = Some(stop.clone());
            text.truncate(start);
            return Scanned {
                text,
                matched: self.matched.clone(),
            };
        }
        self.held = text.split_off(text.len() - self.claim(&text));
        Scanned { text, matched: None }
    }

    /// The text still held when the generation ends without a stop string.
    pub fn finish(&mut self) -> String {
        std::mem::take(&mut self.held)
    }

    /// Bytes at the end of `text` that are a proper prefix of a stop string; the longest such end.
    fn claim(&self, text: &str) -> usize {
        let bytes = text.as_bytes();
        self.stops
            .iter()
            .filter_map(|stop| {
                let longest = text.len().min(stop.len() - 1);
                (1..=longest)
                    .rev()
                    .find(|&len| stop.is_char_boundary(len) && bytes.ends_with(&stop.as_bytes()[..len]))
            })
            .max()
            .unwrap_or(0)
    }
}
