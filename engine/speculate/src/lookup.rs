//! Drafts from text that repeats: the continuation of an earlier occurrence of the last few tokens.
//!
//! Source: `spec/speculation.md` §6. One index per request: nothing of another request is ever drafted.

use std::{
    collections::HashMap,
    hash::{BuildHasherDefault, Hasher},
    num::NonZeroU32,
};

/// History beyond this loses its older half, so that memory stays bounded: hash maps of 2^18 places hold so many
/// entries (9 MiB for two lengths).
const MAX_TOKENS: usize = (1 << 18) / 8 * 7;
/// Matched tokens from which a draft grows beyond the base length.
const DEEP: usize = 8;
/// Long drafts in a row of which less than half was taken, before they stop.
const FAILS: u32 = 2;
/// Base-length lookup rounds between long drafts after that.
const PROBE_EVERY: u32 = 8;

/// Lengths, in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LookupOptions {
    /// The shortest suffix that may match.
    pub min_n: usize,
    /// The suffix that is tried first.
    pub max_n: usize,
    /// Drafts of an ordinary match, at most.
    pub base: usize,
    /// Drafts of a deep match, at most; equal to `base` turns growth off.
    pub ceiling: usize,
}

impl LookupOptions {
    /// Lookup alone: a miss costs nothing, so three tokens suffice.
    pub const STANDALONE: Self = Self {
        min_n: 3,
        max_n: 4,
        base: 6,
        ceiling: 32,
    };
    /// Beside a drafter, whose round a false match forgoes.
    pub const HYBRID: Self = Self {
        min_n: 4,
        max_n: 5,
        ..Self::STANDALONE
    };
}

/// Where an n-gram ended, by index of the token after it.
#[derive(Debug, Clone, Copy)]
struct Ends {
    latest: NonZeroU32,
    previous: Option<NonZeroU32>,
}

/// Keys are hashes already.
#[derive(Default)]
struct AsIs(u64);

impl Hasher for AsIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }

    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }
}

type Index = HashMap<u64, Ends, BuildHasherDefault<AsIs>>;

/// The n-grams of one request's prompt and output.
#[derive(Debug, Clone)]
pub struct Lookup {
    options: LookupOptions,
    tokens: Vec<u32>,
    /// One map for every length from `min_n` to `max_n`.
    ends: Vec<Index>,
    /// Long drafts that failed, in a row.
    fails: u32,
    /// Base-length lookup rounds since the last long draft.
    short_rounds: u32,
}

/// A proposal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LookupDraft {
    pub tokens: Vec<u32>,
    /// Tokens before it that agree with the earlier occurrence, as far as they were compared.
    pub matched: usize,
}

impl Lookup {
    pub fn new(options: LookupOptions) -> Self {
        let min_n = options.min_n.max(1);
        let base = options.base.max(1);
        let options = LookupOptions {
            min_n,
            max_n: options.max_n.max(min_n),
            base,
            ceiling: options.ceiling.max(base),
        };
        Self {
            options,
            tokens: Vec::new(),
            ends: vec![Index::default(); options.max_n - min_n + 1],
            fails: 0,
            short_rounds: 0,
        }
    }

    /// Forgets everything, for another request.
    pub fn reset(&mut self) {
        self.tokens.clear();
        self.ends.iter_mut().for_each(HashMap::clear);
        (self.fails, self.short_rounds) = (0, 0);
    }

    /// Adds prompt or committed tokens.
    pub fn extend(&mut self, tokens: &[u32]) {
        for &token in tokens {
            if self.tokens.len() == MAX_TOKENS {
                let kept = self.tokens.split_off(MAX_TOKENS / 2);
                self.tokens = Vec::with_capacity(MAX_TOKENS);
                self.ends.iter_mut().for_each(HashMap::clear);
                for token in kept {
                    self.push(token);
                }
            }
            self.push(token);
        }
    }

    fn push(&mut self, token: u32) {
        self.tokens.push(token);
        let end = self.tokens.len();
        let Some(latest) = NonZeroU32::new(end as u32) else { return };
        for (n, ends) in (self.options.min_n..).zip(&mut self.ends) {
            if n <= end {
                let key = key(&self.tokens[end - n..]);
                ends.entry(key)
                    .and_modify(|ends| {
                        *ends = Ends {
                            latest,
                            previous: Some(ends.latest),
                        }
                    })
                    .or_insert(Ends { latest, previous: None });
            }
        }
    }

    /// The tokens that followed the latest earlier occurrence of the longest known suffix; at most `limit` of them.
    /// `None` when nothing matches.
    pub fn propose(&self, limit: usize) -> Option<LookupDraft> {
        let end = self.tokens.len();
        let (n, start) = (self.options.min_n..=self.options.max_n.min(end))
            .rev()
            .find_map(|n| Some((n, self.earlier(n)?)))?;
        let matched = self.matched(n, start);
        let length = if self.long_allowed() && matched >= DEEP {
            self.options.ceiling.min(2 * matched)
        } else {
            self.options.base
        };
        let length = length.min(limit);
        let period = end - start;
        let mut tokens: Vec<u32> = self.tokens[start..].iter().copied().take(length).collect();
        // A whole period has been seen to repeat: go round again. Otherwise the text ends here.
        while matched >= period && tokens.len() < length {
            tokens.push(tokens[tokens.len() - period]);
        }
        (!tokens.is_empty()).then_some(LookupDraft { tokens, matched })
    }

    /// Where the text goes on behind the latest occurrence of the last `n` tokens before the last itself.
    fn earlier(&self, n: usize) -> Option<usize> {
        let end = self.tokens.len();
        let suffix = &self.tokens[end - n..];
        let ends = self.ends[n - self.options.min_n].get(&key(suffix))?;
        let latest = ends.latest.get() as usize;
        let start = if latest == end { ends.previous?.get() as usize } else { latest };
        // Another n-gram may have the same key.
        (self.tokens[start - n..start] == *suffix).then_some(start)
    }

    /// How many tokens before `start` equal those before the end, `n` being known to; no further than matters.
    fn matched(&self, n: usize, start: usize) -> usize {
        let end = self.tokens.len();
        let most = self.options.ceiling.max(DEEP).min(start);
        (n..most)
            .find(|&k| self.tokens[start - 1 - k] != self.tokens[end - 1 - k])
            .unwrap_or(most.max(n))
    }

    fn long_allowed(&self) -> bool {
        self.fails < FAILS || self.short_rounds >= PROBE_EVERY
    }

    /// How a lookup round went.
    pub fn record(&mut self, drafted: usize, accepted: usize) {
        if drafted <= self.options.base {
            self.short_rounds = self.short_rounds.saturating_add(1);
        } else {
            self.fails = if 2 * accepted < drafted { self.fails + 1 } else { 0 };
            self.short_rounds = 0;
        }
    }
}

/// Mixes an n-gram into 64 bits (the finaliser of SplitMix64 after every token).
fn key(tokens: &[u32]) -> u64 {
    tokens.iter().fold(0, |hash: u64, &token| {
        let mut z = (hash ^ u64::from(token)).wrapping_add(0x9E37_79B9_7F4A_7C15);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    })
}

#[cfg(test)]
mod tests;
