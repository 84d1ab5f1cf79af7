//! Prompts to token ids. Short ones are encoded where they are needed; a long one takes seconds and cannot be
//! interrupted, so it is encoded beside the engine thread while others are served. What cannot fit the context window
//! is refused before its bytes are tokenized.

use super::panic_text;
use crate::grammar::{Grammars, Held};
use dspark_protocol::{Constraint, EngineError, Prompt, Request, Result};
use dspark_text::Tokenizer;
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, OnceLock},
    thread,
};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Prompts up to this many bytes are encoded within milliseconds.
const SHORT: usize = 16 << 10;
/// Prompts being encoded at a time, those included whose readers have left meanwhile.
const MOST: usize = 4;
/// Schemas nest, and so does what compiles them.
const STACK: usize = 16 << 20;

/// A prompt as the model reads it.
#[derive(Debug, Clone)]
pub(super) struct Encoded {
    pub(super) ids: Vec<u32>,
    pub(super) warnings: Vec<String>,
    /// The answer goes on where the prompt ends.
    pub(super) continuing: bool,
    /// What the answer is held to.
    pub(super) held: Option<Held>,
}

/// What encodes for the loaded model.
#[derive(Clone)]
pub(super) struct Encoder {
    pub(super) tokenizer: Tokenizer,
    pub(super) window: usize,
    pub(super) grammars: Grammars,
}

impl Encoder {
    /// # Errors
    /// Those of the template, the tokenizer and the constraint; [`EngineError::ContextOverflow`] where the length alone says so, with
    /// the fewest tokens that it can be.
    pub(super) fn encode(&self, prompt: &Prompt, constraint: Option<&Constraint>, cancel: &CancellationToken) -> Result<Encoded> {
        let long = prompt.text_bytes() > SHORT;
        let mut rendered = String::new();
        let (ids, warnings, continuing) = match prompt {
            Prompt::Chat { messages, options } => {
                if long {
                    self.check(&self.tokenizer.render_chat(messages, options)?)?;
                    if cancel.is_cancelled() {
                        return Err(EngineError::Cancelled);
                    }
                }
                let chat = self.tokenizer.chat_prompt(messages, options)?;
                rendered = chat.text;
                (chat.ids, chat.warnings, options.continue_final_message)
            }
            Prompt::Text(text) => {
                if long {
                    self.check(text)?;
                }
                (self.tokenizer.encode_text(text)?, Vec::new(), true)
            }
            Prompt::Tokens(ids) => (ids.clone(), Vec::new(), true),
        };
        let held = match constraint {
            Some(constraint) => Some(self.grammars.hold(constraint, prompt, &rendered)?),
            None => None,
        };
        Ok(Encoded {
            ids,
            warnings,
            continuing,
            held,
        })
    }

    fn check(&self, text: &str) -> Result<()> {
        let prompt = self.tokenizer.fewest_tokens(text);
        if prompt >= self.window {
            return Err(EngineError::ContextOverflow {
                prompt,
                window: self.window,
            });
        }
        Ok(())
    }
}

/// Where the encoding of a waiting prompt stands.
pub(super) enum Progress {
    /// It is left to the engine thread.
    Short,
    /// Not begun: the model is not there yet, or enough others are being encoded.
    Due,
    UnderWay(Arc<OnceLock<Result<Encoded>>>),
}

impl Progress {
    pub(super) fn of(request: &Request) -> Self {
        // A grammar is compiled there as well.
        if request.prompt.text_bytes() > SHORT || request.constraint.is_some() {
            Self::Due
        } else {
            Self::Short
        }
    }

    /// The ids, once they are there.
    pub(super) fn encoded(self) -> Option<Result<Encoded>> {
        match self {
            Self::UnderWay(place) => place.get().cloned(),
            Self::Short | Self::Due => None,
        }
    }
}

/// The threads that encode.
#[derive(Default)]
pub(super) struct Desk {
    /// Rung whenever ids have arrived.
    pub(super) bell: Arc<Notify>,
    /// One reference more for each thread at work.
    at_work: Arc<()>,
}

impl Desk {
    pub(super) fn has_room(&self) -> bool {
        Arc::strong_count(&self.at_work) <= MOST
    }

    /// Starts to encode a prompt, which it takes over.
    pub(super) fn begin(&self, encoder: &Encoder, request: &mut Request, cancel: &CancellationToken) -> Progress {
        let prompt = std::mem::replace(&mut request.prompt, Prompt::Tokens(Vec::new()));
        let constraint = request.constraint.clone();
        let (encoder, cancel) = (encoder.clone(), cancel.clone());
        let (bell, at_work) = (self.bell.clone(), self.at_work.clone());
        let place = Arc::new(OnceLock::new());
        let result = place.clone();
        let spawned = thread::Builder::new().name("encode".into()).stack_size(STACK).spawn(move || {
            let encoded =
                catch_unwind(AssertUnwindSafe(|| encoder.encode(&prompt, constraint.as_deref(), &cancel))).unwrap_or_else(|panic| {
                    Err(EngineError::Compute(format!(
                        "the prompt could not be encoded: {}",
                        panic_text(&*panic)
                    )))
                });
            drop(at_work);
            let _ = result.set(encoded);
            bell.notify_one();
        });
        if let Err(error) = spawned {
            let _ = place.set(Err(EngineError::Compute(format!("no thread to encode the prompt with: {error}"))));
        }
        Progress::UnderWay(place)
    }
}
