//! Text: everything between a conversation and token ids, and back. There is no MLX here.
//!
//! * [`Tokenizer`]: reads a model folder; encodes plain text and conversations; decodes.
//! * [`Detokenizer`]: ids to text as they come, exact to the byte.
//! * [`StopScanner`]: stop strings in text that arrives in pieces.
//! * [`output::Splitter`]: reasoning, answer and tool calls told apart.
//! * [`TemplateFacts`]: what a chat template can do.
//! * [`normalize`]: conversations as templates accept them.

mod bound;
mod bytes;
mod chat;
mod context;
mod detokenize;
mod encode;
mod error;
mod facts;
mod files;
mod matcher;
mod messages;
pub mod output;
mod provenance;
mod stop;
mod tails;
mod template;
mod thinking;
mod tokenizer;

pub use chat::ChatPrompt;
pub use detokenize::Detokenizer;
pub use error::{Result, TextError};
pub use facts::TemplateFacts;
pub use messages::normalize;
pub use stop::{Scanned, StopScanner};
pub use tails::Tails;
pub use thinking::{THINKING, ThinkingMarks, left_open};
pub use tokenizer::Tokenizer;
