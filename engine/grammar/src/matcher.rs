//! One answer on its way through its grammar.

use crate::{
    GrammarError, Mask, Vocabulary,
    gate::{Gate, Mode, Phase, Step},
};
use std::sync::Arc;

/// What tokens an answer may go on with, as far as it has come.
///
/// Drafts are followed on copies. The library (1.9.1) can take tokens back, but not always right: after a blank and a quote
/// were taken back where a value of any kind begins, the next key was held to be a string value, and its colon refused.
#[derive(Clone)]
pub struct Matcher {
    vocabulary: Arc<Vocabulary>,
    inner: llguidance::Matcher,
    /// Before the first token, while that may still turn out to open a thought.
    untouched: Option<Box<llguidance::Matcher>>,
    gate: Gate,
    taken: usize,
    warning: Option<String>,
    /// The grammar has begun.
    begun: bool,
}

/// The masks of a chain of drafts.
#[derive(Debug, Clone, PartialEq)]
pub struct ChainMasks {
    /// Row 0 follows the text so far, row i + 1 draft i; one more than there are allowed drafts.
    pub rows: Vec<Mask>,
    /// Drafts, from the first, that the grammar allows.
    pub allowed: usize,
}

/// The masks of a tree of drafts.
#[derive(Debug, Clone, PartialEq)]
pub struct TreeMasks {
    /// Of the text so far.
    pub root: Mask,
    /// Of each node that the grammar allows, with its ancestors; `None` for the others.
    pub nodes: Vec<Option<Mask>>,
}

impl Matcher {
    pub(crate) fn new(vocabulary: Arc<Vocabulary>, inner: llguidance::Matcher, gate: Gate, begun: &str) -> Self {
        let open = matches!(&gate.phase, Phase::Undecided { fed: Some(_), .. });
        let mut matcher = Self {
            vocabulary,
            untouched: open.then(|| Box::new(inner.clone())),
            inner,
            gate,
            taken: 0,
            warning: None,
            begun: false,
        };
        matcher.take_prefix(begun);
        matcher
    }

    /// Takes in what the prompt already holds of the answer.
    fn take_prefix(&mut self, begun: &str) {
        if begun.is_empty() || self.gate.phase != Phase::Grammar {
            return;
        }
        let tokens = self.vocabulary.trie.greedy_tokenize(begun.as_bytes());
        let mut ahead = self.inner.clone();
        if matches!(ahead.try_consume_tokens(&tokens), Ok(count) if count == tokens.len()) {
            self.inner = ahead;
            self.begun = true;
        } else {
            self.warning = Some("the beginning of the answer in the prompt does not follow its schema: what follows it does, alone".into());
        }
    }

    /// What cannot be held of the constraint, for reasons of this answer's own.
    pub fn warning(&self) -> Option<&str> {
        self.warning.as_deref()
    }

    /// Tokens taken in.
    pub fn len(&self) -> usize {
        self.taken
    }

    pub fn is_empty(&self) -> bool {
        self.taken == 0
    }

    /// Whether the answer has come to where the grammar holds.
    pub fn has_begun(&self) -> bool {
        self.begun
    }

    /// Nothing but the end of the text can follow.
    pub fn is_complete(&self) -> bool {
        match self.gate.phase {
            Phase::Done => true,
            Phase::Grammar => self.gate.mode == Mode::Whole && self.inner.is_stopped() && !self.inner.is_error(),
            _ => false,
        }
    }

    /// What may come next.
    ///
    /// # Errors
    /// [`GrammarError::Lost`] when the grammar goes beyond its limits here.
    pub fn mask(&mut self) -> Result<Mask, GrammarError> {
        let vocabulary = self.vocabulary.clone();
        let mask = match &self.gate.phase {
            Phase::Grammar => Mask::only(self.grammar_mask()?),
            Phase::Done => Mask::only(vocabulary.eos().clone()),
            Phase::Blank(left) => {
                let left = *left;
                let mut set = self.grammar_mask()?;
                set.or(vocabulary.blanks(left));
                Mask::only(set)
            }
            Phase::Undecided { held, fed } => {
                let (mut set, whole) = (self.gate.openers(&vocabulary, *held), fed.is_some());
                if whole {
                    set.or(&self.grammar_mask()?);
                } else if self.gate.mode != Mode::Whole && *held == 0 {
                    return Ok(Mask::All);
                }
                Mask::only(set)
            }
            Phase::Text(_) => {
                let straddlers = self.gate.straddlers(&vocabulary);
                if straddlers.is_empty() {
                    return Ok(Mask::All);
                }
                let mut set = vocabulary.trie.alloc_token_set();
                set.set_all(true);
                for id in straddlers {
                    set.disallow_token(id);
                }
                Mask::only(set)
            }
            Phase::Thinking(_) | Phase::Header { .. } => {
                let mut set = vocabulary.going_on.clone();
                for id in self.gate.straddlers(&vocabulary) {
                    set.disallow_token(id);
                }
                Mask::only(set)
            }
        };
        Ok(mask)
    }

    fn grammar_mask(&mut self) -> Result<toktrie::SimpleVob, GrammarError> {
        self.inner.compute_mask_or_eos().map_err(|error| lost(&error))
    }

    /// Takes in the next token.
    ///
    /// # Errors
    /// [`GrammarError::Lost`] for one that its mask does not allow; the matcher is then of no further use.
    pub fn accept(&mut self, token: u32) -> Result<(), GrammarError> {
        self.advance(token)?;
        self.taken += 1;
        if !matches!(self.gate.phase, Phase::Undecided { .. }) {
            self.untouched = None;
        }
        Ok(())
    }

    fn advance(&mut self, token: u32) -> Result<(), GrammarError> {
        let refused = || GrammarError::Lost(format!("token {token} does not fit"));
        let vocabulary = self.vocabulary.clone();
        if vocabulary.is_eos(token) {
            self.gate.phase = Phase::Done;
            return Ok(());
        }
        let bytes = vocabulary.text(token);
        match self.gate.phase.clone() {
            Phase::Done => Err(refused()),
            Phase::Grammar => self.feed(token),
            Phase::Blank(left) => {
                if self.fits(token)? {
                    return self.feed(token);
                }
                if bytes.is_empty() || bytes.len() > left || !bytes.iter().all(u8::is_ascii_whitespace) {
                    return Err(refused());
                }
                self.gate.phase = Phase::Blank(left - bytes.len());
                Ok(())
            }
            Phase::Undecided { held, fed } => self.decide(token, bytes, held, fed),
            phase => match self.gate.step(&phase, bytes) {
                Step::To(next) => {
                    self.gate.phase = next;
                    Ok(())
                }
                Step::Refused => Err(refused()),
            },
        }
    }

    /// A token where both reasoning and the grammar could begin.
    fn decide(&mut self, token: u32, bytes: &[u8], held: usize, fed: Option<Vec<u32>>) -> Result<(), GrammarError> {
        let opens = self.gate.opens(held, bytes);
        let fits = match &fed {
            Some(_) => self.fits(token)?,
            None => false,
        };
        match (opens, fed) {
            (Some(Phase::Undecided { held, .. }), Some(mut fed)) if fits => {
                self.consume(&[token])?;
                fed.push(token);
                self.gate.phase = Phase::Undecided { held, fed: Some(fed) };
                Ok(())
            }
            (Some(next), _) => {
                // A thought after all: the grammar forgets what it took for its own.
                if let Some(untouched) = &self.untouched {
                    self.inner = (**untouched).clone();
                }
                self.gate.phase = next;
                Ok(())
            }
            (None, Some(_)) if fits => self.feed(token),
            (None, None) if self.gate.mode != Mode::Whole => {
                // No reasoning after all: free text.
                let text = [&self.gate.opening()[..held], bytes].concat();
                match self.gate.step(&Phase::Text(Vec::new()), &text) {
                    Step::To(next) => {
                        self.gate.phase = next;
                        Ok(())
                    }
                    Step::Refused => Err(GrammarError::Lost(format!("token {token} does not fit"))),
                }
            }
            _ => Err(GrammarError::Lost(format!("token {token} does not fit"))),
        }
    }

    fn fits(&mut self, token: u32) -> Result<bool, GrammarError> {
        let count = self.inner.validate_tokens(&[token]).map_err(|error| lost(&error))?;
        Ok(count == 1)
    }

    fn consume(&mut self, tokens: &[u32]) -> Result<(), GrammarError> {
        self.inner.consume_tokens(tokens).map_err(|error| lost(&error))
    }

    /// Lets the grammar take a token in.
    fn feed(&mut self, token: u32) -> Result<(), GrammarError> {
        self.consume(&[token])?;
        self.begun = true;
        self.gate.phase = Phase::Grammar;
        if let Mode::Opened { many, .. } = self.gate.mode
            && self.inner.is_accepting().map_err(|error| lost(&error))?
        {
            self.gate.phase = if many { Phase::Text(Vec::new()) } else { Phase::Done };
        }
        Ok(())
    }

    /// The masks along a chain of drafts, which ends before the first that is not allowed, or after the end of the text.
    /// Nothing is taken in.
    ///
    /// # Errors
    /// As [`Self::mask`].
    pub fn chain(&mut self, drafts: &[u32]) -> Result<ChainMasks, GrammarError> {
        let mut rows = vec![self.mask()?];
        let mut allowed = 0;
        let mut ahead = None::<Self>;
        while let Some(&draft) = drafts.get(allowed) {
            if !rows[allowed].allows(draft) {
                break;
            }
            let ahead = ahead.get_or_insert_with(|| self.clone());
            ahead.accept(draft)?;
            allowed += 1;
            rows.push(ahead.mask()?);
            if self.vocabulary.is_eos(draft) {
                break;
            }
        }
        Ok(ChainMasks { rows, allowed })
    }

    /// The masks of a tree: `parents` holds the index of each node's parent, -1 for the root, parents before children.
    /// Nothing is taken in.
    ///
    /// # Errors
    /// As [`Self::mask`].
    pub fn tree(&mut self, tokens: &[u32], parents: &[i32]) -> Result<TreeMasks, GrammarError> {
        let root = self.mask()?;
        let mut nodes: Vec<Option<Mask>> = vec![None; tokens.len()];
        let mut states: Vec<Option<Self>> = Vec::with_capacity(tokens.len());
        for (node, &token) in tokens.iter().enumerate() {
            let parent = usize::try_from(parents[node]).ok();
            let (above, state) = match parent {
                None => (Some(&root), Some(&*self)),
                Some(parent) => (nodes[parent].as_ref(), states[parent].as_ref()),
            };
            let ended = parent.is_some_and(|parent| self.vocabulary.is_eos(tokens[parent]));
            let fits = !ended && above.is_some_and(|mask| mask.allows(token));
            let mut state = state.filter(|_| fits).cloned();
            if let Some(state) = &mut state {
                state.accept(token)?;
                nodes[node] = Some(state.mask()?);
            }
            states.push(state);
        }
        Ok(TreeMasks { root, nodes })
    }
}

fn lost(error: &dyn std::fmt::Display) -> GrammarError {
    let text = error.to_string();
    GrammarError::Lost(text.lines().next().unwrap_or("").chars().take(200).collect())
}
