//! Model folders for tests.
#![allow(clippy::unwrap_used, reason = "a test may fail")]
#![allow(dead_code, reason = "each test file uses its part")]

use dspark_text::Tokenizer;
use serde_json::{Value, json};
use std::{fs, path::PathBuf};
use tempfile::TempDir;

pub(crate) fn data(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

/// A folder under construction.
pub(crate) struct Folder(pub(crate) TempDir);

impl Folder {
    /// With one of the committed tokenizers.
    pub(crate) fn with(tokenizer: &str) -> Self {
        let json = fs::read_to_string(data(&format!("tokenizers/{tokenizer}.json"))).unwrap();
        Self::new(&serde_json::from_str(&json).unwrap())
    }

    pub(crate) fn new(tokenizer: &Value) -> Self {
        let folder = Self(TempDir::new().unwrap());
        folder.file("tokenizer.json", &tokenizer.to_string())
    }

    pub(crate) fn file(self, name: &str, text: &str) -> Self {
        let path = self.0.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    pub(crate) fn json(self, name: &str, value: &Value) -> Self {
        self.file(name, &value.to_string())
    }

    pub(crate) fn template(self, source: &str) -> Self {
        self.file("chat_template.jinja", source)
    }

    pub(crate) fn load(&self) -> Tokenizer {
        Tokenizer::load(self.0.path()).unwrap()
    }
}

/// The byte-level tokenizer with one of the committed templates and the special tokens of its family.
pub(crate) fn family(template: &str) -> Tokenizer {
    let source = fs::read_to_string(data(&format!("templates/{template}.jinja"))).unwrap();
    let (bos, eos) = match template {
        "llama3" => ("<|begin_of_text|>", "<|eot_id|>"),
        "gemma" => ("<bos>", "<end_of_turn>"),
        "mistral" | "deepseek" => ("<s>", "</s>"),
        "phi" => ("<|endoftext|>", "<|end|>"),
        "channels" => ("<|start|>", "<|return|>"),
        _ => ("<|endoftext|>", "<|im_end|>"),
    };
    let config = json!({"bos_token": bos, "eos_token": {"content": eos}, "add_bos_token": false});
    Folder::with("byte").template(&source).json("tokenizer_config.json", &config).load()
}

pub(crate) const FAMILIES: [&str; 9] = [
    "chatml", "llama3", "qwen3", "gemma", "mistral", "phi", "deepseek", "channels", "prefill",
];

/// A vocabulary of exactly these entries, in order.
pub(crate) fn vocabulary(tokens: &[String], decoder: Value) -> Tokenizer {
    let vocab: serde_json::Map<String, Value> = tokens.iter().enumerate().map(|(id, token)| (token.clone(), id.into())).collect();
    let model = json!({"type": "WordLevel", "vocab": vocab, "unk_token": tokens[0]});
    let tokenizer = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
        "pre_tokenizer": null, "post_processor": null, "decoder": decoder, "model": model,
    });
    Folder::new(&tokenizer).load()
}

/// The printable spelling of bytes in byte-level vocabularies.
pub(crate) fn spelled(bytes: &[u8]) -> String {
    let plain = |byte: &u8| matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
    let others: Vec<u8> = (0..=255).filter(|byte| !plain(byte)).collect();
    bytes
        .iter()
        .map(|byte| match others.iter().position(|other| other == byte) {
            Some(at) => char::from_u32(0x100 + at as u32).unwrap(),
            None => *byte as char,
        })
        .collect()
}

pub(crate) fn byte_level() -> Value {
    json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false})
}

pub(crate) fn sentence_pieces() -> Value {
    json!({"type": "Sequence", "decoders": [
        {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
        {"type": "Strip", "content": " ", "start": 1, "stop": 0}]})
}
