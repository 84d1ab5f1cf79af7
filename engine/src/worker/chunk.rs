//! How much of a prompt is computed between two looks at the commands. A GPU wants it long and is quick about it. A CPU
//! may take seconds for what it computes in one go, which is how long a cancel would wait: there the measured rate
//! decides.

use super::Options;
use crate::sample::Place;
use std::time::Duration;

const DEVICE: usize = 2048;
/// Fewer tokens waste the weights that are read for them; more gain nothing.
const LEAST: usize = 32;
const MOST: usize = 512;
/// What a chunk on the CPU may take.
const SPAN: Duration = Duration::from_millis(500);
/// A small chunk says little about a much larger one.
const GROWTH: usize = 4;

/// The length of the next chunk, of one model on one device.
#[derive(Debug, Clone, Copy)]
pub(super) enum Chunks {
    Fixed(usize),
    /// As the last chunk has shown.
    Measured(usize),
}

impl Options {
    pub(super) fn chunks(&self) -> Chunks {
        match (self.prefill_chunk, Place::current()) {
            (Some(chunk), _) => Chunks::Fixed(chunk.max(1)),
            (None, Place::Device) => Chunks::Fixed(DEVICE),
            (None, Place::Host) => Chunks::Measured(LEAST),
        }
    }
}

impl Chunks {
    /// At least one token.
    pub(super) fn next(self) -> usize {
        match self {
            Self::Fixed(chunk) | Self::Measured(chunk) => chunk,
        }
    }

    /// Takes note of what a chunk of this many tokens took.
    pub(super) fn took(&mut self, tokens: usize, time: Duration) {
        let Self::Measured(chunk) = self else { return };
        let fits = tokens as f64 * SPAN.as_secs_f64() / time.as_secs_f64().max(1e-6);
        let most = MOST.min(GROWTH * tokens.max(LEAST));
        *chunk = (fits as usize / LEAST * LEAST).clamp(LEAST, most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_follow_the_measured_rate_within_bounds() {
        let mut chunks = Chunks::Measured(LEAST);
        let mut run = |rate: f64| {
            let tokens = chunks.next();
            chunks.took(tokens, Duration::from_secs_f64(tokens as f64 / rate));
            chunks.next()
        };
        assert_eq!([run(10_000.0), run(10_000.0), run(10_000.0)], [128, 512, 512]);
        // Slower with a longer context: half a second's worth, in whole blocks.
        assert_eq!([run(600.0), run(300.0), run(5.0)], [288, 128, 32]);
        let mut fixed = Chunks::Fixed(7);
        fixed.took(7, Duration::from_secs(9));
        assert_eq!(fixed.next(), 7);
    }
}
