//! A model's side of answers that must follow a schema: its tokens as bytes, built when first needed and kept, and masks on
//! the device. What they allow is decided in `dspark-grammar`.

use dspark_grammar::{Compiled, GrammarError, Mask, Matcher, Start, Vocabulary};
use dspark_protocol::{Constraint, EngineError, Prompt, ReasoningSyntax};
use dspark_text::Tokenizer;
use mlx_rs::{Array, error::Exception, ops};
use std::sync::{Arc, OnceLock};

/// How much of a prompt's end tells whether the answer begins inside a thought, in bytes.
const TAIL: usize = 256;

/// The grammars of one model. Cheap to clone, and shared between threads.
#[derive(Clone)]
pub(crate) struct Grammars(Arc<Inner>);

struct Inner {
    tokenizer: Tokenizer,
    /// Ids of the target's rows, which may be more than the tokenizer knows.
    vocab: usize,
    eos: Vec<u32>,
    vocabulary: OnceLock<Result<Arc<Vocabulary>, GrammarError>>,
}

/// A constraint on its way to the engine thread.
#[derive(Clone)]
pub(crate) struct Held {
    /// `None` where the model cannot be held to it.
    compiled: Option<Compiled>,
    pub(crate) warnings: Vec<String>,
    reasoning: Option<ReasoningSyntax>,
    may_think: bool,
    /// The end of the prompt.
    tail: String,
    /// What the prompt holds of the answer.
    begun: String,
}

impl std::fmt::Debug for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Held")
    }
}

impl Grammars {
    pub(crate) fn new(tokenizer: &Tokenizer, vocab: usize, eos: &[u32]) -> Self {
        Self(Arc::new(Inner {
            tokenizer: tokenizer.clone(),
            vocab,
            eos: eos.to_vec(),
            vocabulary: OnceLock::new(),
        }))
    }

    /// Takes up to a second at its first call of a model, milliseconds later.
    ///
    /// # Errors
    /// [`EngineError::BadRequest`] for a schema that is broken or that nothing can follow, [`EngineError::Unsupported`]
    /// where this model cannot be held to it.
    pub(crate) fn compile(&self, constraint: &Constraint) -> Result<Compiled, EngineError> {
        let vocabulary = self.0.vocabulary.get_or_init(|| self.vocabulary()).clone().map_err(refused)?;
        let syntax = self.0.tokenizer.output_syntax().tools;
        dspark_grammar::compile(&vocabulary, constraint, syntax).map_err(refused)
    }

    /// The same for the answer to a prompt; `text` is how it was rendered.
    ///
    /// # Errors
    /// As [`Self::compile`].
    pub(crate) fn hold(&self, constraint: &Constraint, prompt: &Prompt, text: &str) -> Result<Held, EngineError> {
        let (compiled, warnings) = match self.compile(constraint) {
            Ok(compiled) => {
                let warnings = compiled.warnings().to_vec();
                (Some(compiled), warnings)
            }
            // Agents send tools with every request; a refusal would end their turn.
            Err(EngineError::Unsupported { feature, hint }) if constraint.calls.is_some() => (
                None,
                vec![format!("{feature} is not supported ({hint}): it was asked for, not enforced")],
            ),
            Err(error) => return Err(error),
        };
        let Prompt::Chat { messages, options } = prompt else {
            return Ok(Held {
                compiled,
                warnings,
                reasoning: None,
                may_think: false,
                tail: String::new(),
                begun: String::new(),
            });
        };
        let off = options.enable_thinking == Some(false) || options.extra.get("enable_thinking") == Some(&false.into());
        let continued = messages.last().filter(|_| options.continue_final_message);
        let mut at = text.len().saturating_sub(TAIL);
        while !text.is_char_boundary(at) {
            at += 1;
        }
        Ok(Held {
            compiled,
            warnings,
            reasoning: Some(self.0.tokenizer.output_syntax().reasoning),
            may_think: !off && self.0.tokenizer.template_facts().supports_thinking,
            tail: text[at..].to_owned(),
            begun: continued.map_or_else(String::new, |message| message.content.clone()),
        })
    }

    fn vocabulary(&self) -> Result<Arc<Vocabulary>, GrammarError> {
        let Inner { tokenizer, vocab, eos, .. } = &*self.0;
        let mut words = Vec::with_capacity(*vocab);
        let mut specials = std::collections::BTreeMap::new();
        for id in 0..*vocab as u32 {
            let bytes = tokenizer.token_bytes(id);
            if tokenizer.is_special(id) {
                specials.insert(id, bytes);
                words.push(Vec::new());
            } else {
                words.push(bytes);
            }
        }
        Vocabulary::new(&words, eos, specials).map(Arc::new)
    }
}

impl Held {
    pub(crate) fn matcher(&self) -> Option<Matcher> {
        let start = Start {
            reasoning: self.reasoning,
            may_think: self.may_think,
            prompt: &self.tail,
            begun: &self.begun,
        };
        self.compiled.as_ref().map(|compiled| compiled.matcher(&start))
    }
}

fn refused(error: GrammarError) -> EngineError {
    match error {
        GrammarError::NoCallForm | GrammarError::Vocabulary(_) => EngineError::Unsupported {
            feature: "holding this model's output to a schema".into(),
            hint: error.to_string(),
        },
        other => EngineError::BadRequest(other.to_string()),
    }
}

/// What went wrong with a grammar in the middle of an answer.
pub(crate) fn failed(error: GrammarError) -> Exception {
    Exception::custom(error.to_string())
}

/// Masks of rows for the device, `[1, rows, V]`; `None` where everything is allowed.
pub(crate) fn rows<'a>(masks: impl ExactSizeIterator<Item = &'a Mask> + Clone, vocab: usize) -> Option<Array> {
    if masks.clone().all(Mask::is_all) {
        return None;
    }
    let count = masks.len();
    let mut flags = vec![false; count * vocab];
    for (mask, flags) in masks.zip(flags.chunks_mut(vocab)) {
        mask.write(flags);
    }
    Some(Array::from_slice(&flags, &[1, count as i32, vocab as i32]))
}

/// Rows of logits without what their masks do not allow.
pub(crate) fn masked(logits: &Array, mask: &Array) -> Result<Array, Exception> {
    ops::select(mask, logits, Array::from_f32(f32::NEG_INFINITY).as_dtype(logits.dtype())?)
}
