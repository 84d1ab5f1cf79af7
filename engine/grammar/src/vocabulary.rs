//! A model's tokens as bytes.

use crate::GrammarError;
use crate::compile::Cache;
use llguidance::{ParserFactory, api::ParserLimits};
use std::{
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};
use toktrie::{ApproximateTokEnv, InferenceCapabilities, SimpleVob, TokEnv, TokRxInfo, TokTrie};

/// White space that may stand between a closing mark of reasoning and the answer, in bytes.
pub(crate) const BLANKS: usize = 4;

/// A model's tokens, in the shape that grammars need. Build one per model (a second or so for large vocabularies) and
/// share it between threads.
pub struct Vocabulary {
    pub(crate) factory: ParserFactory,
    pub(crate) trie: TokTrie,
    /// Ids by their bytes, in order.
    sorted: Vec<u32>,
    eos: SimpleVob,
    /// Every id but those that end a text.
    pub(crate) going_on: SimpleVob,
    /// By length, up to [`BLANKS`] bytes: tokens of white space alone.
    blanks: Vec<SimpleVob>,
    /// Special tokens: no text holds them, but they may be marks.
    specials: BTreeMap<u32, Vec<u8>>,
    pub(crate) cache: Cache,
    /// One reference more for each compilation at work.
    pub(crate) at_work: Arc<()>,
}

impl std::fmt::Debug for Vocabulary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Vocabulary({})", self.sorted.len())
    }
}

impl Vocabulary {
    /// `words`: the bytes of each id of the target's vocabulary, empty for what no text holds (special tokens, ids that
    /// no token has). `eos`: the ids that end a text. `specials`: how special tokens are spelled, as far as they may mark
    /// reasoning or calls.
    ///
    /// # Errors
    /// [`GrammarError::Vocabulary`].
    pub fn new(words: &[Vec<u8>], eos: &[u32], specials: BTreeMap<u32, Vec<u8>>) -> Result<Self, GrammarError> {
        let mut eos: Vec<u32> = eos.iter().copied().filter(|id| (*id as usize) < words.len()).collect();
        // A model without one has an end all the same, only it cannot say so: an id behind its last.
        let nameless = eos.is_empty().then_some(words.len() as u32);
        eos.extend(nameless);
        let first = eos[0];
        // An invalid byte of UTF-8 marks special tokens in the library.
        let words: Vec<Vec<u8>> = (words.iter().enumerate())
            .map(|(id, word)| {
                let text = !eos.contains(&(id as u32)) && word.first() != Some(&TokTrie::SPECIAL_TOKEN_MARKER);
                if text { word.clone() } else { Vec::new() }
            })
            .chain(nameless.map(|_| Vec::new()))
            .collect();
        let built = catch_unwind(AssertUnwindSafe(|| Self::build(&words, first, &eos, specials)));
        built.unwrap_or_else(|_| Err(GrammarError::Vocabulary("a token is longer than the library allows".into())))
    }

    fn build(words: &[Vec<u8>], first: u32, eos: &[u32], specials: BTreeMap<u32, Vec<u8>>) -> Result<Self, GrammarError> {
        let info = TokRxInfo::new(words.len() as u32, first);
        let trie = TokTrie::from(&info, words).with_eos_tokens(eos);
        let env: TokEnv = Arc::new(ApproximateTokEnv::new(trie.clone()));
        let failed = |error: &dyn std::fmt::Display| GrammarError::Vocabulary(error.to_string());
        let mut factory = ParserFactory::new(
            &env,
            InferenceCapabilities::default(),
            &llguidance::earley::SlicedBiasComputer::general_slices(),
        )
        .map_err(|error| failed(&error))?;
        factory.quiet();
        // A mask takes at most some 15 ms, a grammar some 20 ms to compile, whatever is asked for.
        *factory.limits_mut() = ParserLimits {
            verbose_errors: false,
            ..ParserLimits::default()
        };
        let mut sorted: Vec<u32> = (0..words.len() as u32).filter(|&id| !words[id as usize].is_empty()).collect();
        sorted.sort_by(|&a, &b| words[a as usize].cmp(&words[b as usize]));
        let eos_set = trie.eos_token_set();
        let mut going_on = trie.alloc_token_set();
        going_on.set_all(true);
        for &id in eos {
            going_on.disallow_token(id);
        }
        let mut blanks = vec![trie.alloc_token_set(); BLANKS + 1];
        for &id in &sorted {
            let word = &words[id as usize];
            if word.len() <= BLANKS && word.iter().all(u8::is_ascii_whitespace) {
                blanks[word.len()..].iter_mut().for_each(|set| set.allow_token(id));
            }
        }
        Ok(Self {
            factory,
            trie,
            sorted,
            eos: eos_set,
            going_on,
            blanks,
            specials,
            cache: Cache::default(),
            at_work: Arc::default(),
        })
    }

    /// Tokens, those without text included.
    pub fn len(&self) -> usize {
        self.trie.vocab_size()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn bytes(&self, id: u32) -> &[u8] {
        if (id as usize) < self.len() { self.trie.token(id) } else { &[] }
    }

    /// The same, with special tokens as they are spelled.
    pub(crate) fn text(&self, id: u32) -> &[u8] {
        self.specials.get(&id).map_or_else(|| self.bytes(id), Vec::as_slice)
    }

    /// The special token that is spelled like this.
    pub(crate) fn special(&self, spelled: &[u8]) -> Option<u32> {
        self.specials.iter().find(|(_, word)| word.as_slice() == spelled).map(|(&id, _)| id)
    }

    pub(crate) fn eos(&self) -> &SimpleVob {
        &self.eos
    }

    pub(crate) fn is_eos(&self, id: u32) -> bool {
        (id as usize) < self.eos.len() && self.eos.is_allowed(id)
    }

    /// Tokens of white space alone, at most `most` bytes long.
    pub(crate) fn blanks(&self, most: usize) -> &SimpleVob {
        &self.blanks[most.min(BLANKS)]
    }

    /// Tokens that begin with `prefix`.
    pub(crate) fn beginning(&self, prefix: &[u8]) -> &[u32] {
        let start = self.sorted.partition_point(|&id| self.bytes(id) < prefix);
        let rest = &self.sorted[start..];
        let count = rest.partition_point(|&id| self.bytes(id).starts_with(prefix));
        &rest[..count]
    }

    /// Tokens that are exactly `word`.
    pub(crate) fn exactly(&self, word: &[u8]) -> &[u32] {
        let rest = self.beginning(word);
        &rest[..rest.partition_point(|&id| self.bytes(id) == word)]
    }
}
