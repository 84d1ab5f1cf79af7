//! Markdown as a model streams it: parsed block by block, of which only the last is ever parsed again; laid out only
//! where it is visible. HTML is shown as text, images are never loaded.

mod document;
mod links;
mod parse;
mod render;
mod table;
mod text;

pub use document::Document;
pub use parse::{Block, CodeBlock, Inline, Item, Table};
pub use render::{Blocks, Event, Tinted, show};
