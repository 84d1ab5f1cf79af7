use std::sync::Arc;
use toktrie::SimpleVob;

/// The tokens that may come next.
#[derive(Debug, Clone, PartialEq)]
pub enum Mask {
    /// Any.
    All,
    /// These: one bit a token of the target's vocabulary.
    Only(Arc<SimpleVob>),
}

impl Mask {
    pub(crate) fn only(set: SimpleVob) -> Self {
        Self::Only(Arc::new(set))
    }

    pub fn is_all(&self) -> bool {
        matches!(self, Self::All)
    }

    pub fn allows(&self, token: u32) -> bool {
        match self {
            Self::All => true,
            Self::Only(set) => (token as usize) < set.len() && set.is_allowed(token),
        }
    }

    /// Tokens that may come, of a vocabulary of `vocab`.
    pub fn count(&self, vocab: usize) -> usize {
        match self {
            Self::All => vocab,
            Self::Only(set) => set.num_set(),
        }
    }

    /// Takes every other token out of a row of logits, by minus infinity.
    pub fn apply(&self, logits: &mut [f32]) {
        let Self::Only(set) = self else { return };
        for (logits, bits) in logits.chunks_mut(32).zip(words(set)) {
            if bits == u32::MAX {
                continue;
            }
            for (at, logit) in logits.iter_mut().enumerate() {
                if bits >> at & 1 == 0 {
                    *logit = f32::NEG_INFINITY;
                }
            }
        }
    }

    /// Writes it out, one entry a token.
    pub fn write(&self, out: &mut [bool]) {
        match self {
            Self::All => out.fill(true),
            Self::Only(set) => {
                for (out, bits) in out.chunks_mut(32).zip(words(set)) {
                    for (at, out) in out.iter_mut().enumerate() {
                        *out = bits >> at & 1 == 1;
                    }
                }
            }
        }
    }
}

/// Bits, and none beyond the last of them.
fn words(set: &SimpleVob) -> impl Iterator<Item = u32> + '_ {
    set.as_slice().iter().copied().chain(std::iter::repeat(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_longer_than_the_mask_and_ends_of_words_are_exact() {
        let mut set = SimpleVob::alloc(70);
        for token in [0, 31, 32, 69] {
            set.allow_token(token);
        }
        let mask = Mask::only(set);
        let mut row = vec![1.0_f32; 75];
        mask.apply(&mut row);
        let left: Vec<usize> = (0..75).filter(|&at| row[at] == 1.0).collect();
        assert_eq!(left, [0, 31, 32, 69]);
        let mut out = vec![true; 75];
        mask.write(&mut out);
        assert_eq!((0..75).filter(|&at| out[at]).collect::<Vec<_>>(), left);
        assert!(mask.allows(69) && !mask.allows(70) && !mask.allows(1000));
        assert_eq!(mask.count(75), 4);
    }
}
