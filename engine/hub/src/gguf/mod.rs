//! GGUF files: what is inside ([`GgufFile`]) and their exact conversion to an MLX folder ([`convert`]).
//!
//! Source of the format: the GGUF specification of ggml (versions 2 and 3, little endian).

mod config;
mod convert;
mod dtype;
mod naming;
mod reader;
mod repack;
mod tokenizer;

pub use convert::{Conversion, convert};
pub use dtype::DType;
pub use reader::{Array, GgufFile, Metadata, TensorInfo, Value};

pub(crate) use convert::is_complete;
