//! Token ids to text deltas, in the fixed order detokenize → stop strings. (Reasoning and tools come after, later.)

use crate::sample::logprobs::Logprobs;
use dspark_protocol::{Source, TextDelta, TokenInfo, TopToken};
use dspark_text::{Detokenizer, StopScanner, Tokenizer};

/// The text of one generation as it comes.
pub(crate) struct TextOut {
    tokenizer: Tokenizer,
    detokenizer: Detokenizer,
    stop: StopScanner,
}

impl TextOut {
    /// `continuing`: the text goes on where the prompt ended, so a leading space is its own.
    pub(crate) fn new(tokenizer: &Tokenizer, continuing: bool, stop: &[String]) -> Self {
        Self {
            tokenizer: tokenizer.clone(),
            detokenizer: if continuing {
                tokenizer.detokenizer_continuing()
            } else {
                tokenizer.detokenizer()
            },
            stop: StopScanner::new(stop.iter().cloned()),
        }
    }

    /// The delta that this token completes, and the stop string it completes.
    pub(crate) fn push(&mut self, id: u32, logprobs: Option<Logprobs>, source: Source) -> (TextDelta, Option<String>) {
        let text = self.detokenizer.push(id);
        let scanned = self.stop.push(&text);
        let delta = TextDelta {
            text: scanned.text,
            tokens: vec![self.info(id, logprobs, source)],
        };
        (delta, scanned.matched)
    }

    /// What was held back, at an end that is not a stop string; a stop string may still come to light in it.
    pub(crate) fn finish(&mut self) -> (String, Option<String>) {
        let rest = self.detokenizer.finish();
        let mut scanned = self.stop.push(&rest);
        if scanned.matched.is_none() {
            scanned.text.push_str(&self.stop.finish());
        }
        (scanned.text, scanned.matched)
    }

    fn info(&self, id: u32, logprobs: Option<Logprobs>, source: Source) -> TokenInfo {
        let bytes = self.tokenizer.token_bytes(id);
        let top = logprobs.iter().flat_map(|logprobs| &logprobs.top).map(|&(id, logprob)| {
            let bytes = self.tokenizer.token_bytes(id);
            TopToken {
                id,
                text: String::from_utf8_lossy(&bytes).into_owned(),
                bytes,
                logprob,
            }
        });
        TokenInfo {
            id,
            text: String::from_utf8_lossy(&bytes).into_owned(),
            source,
            logprob: logprobs.as_ref().map(|logprobs| logprobs.chosen),
            top: top.collect(),
            bytes,
        }
    }
}
