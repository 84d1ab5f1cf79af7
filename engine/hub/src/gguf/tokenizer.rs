use super::{GgufFile, Metadata, config::unsupported, reader::short};
use crate::{HubError, Result};
use serde_json::{Map, Value, json};
use std::collections::HashMap;

/// Token types of `tokenizer.ggml.token_type`.
const CONTROL: i64 = 3;
const USER_DEFINED: i64 = 4;
const UNUSED: i64 = 5;

/// The files that make a model's tokenizer.
#[derive(Debug)]
pub(super) struct TokenizerFiles {
    pub(super) tokenizer: Value,
    pub(super) tokenizer_config: Value,
    pub(super) generation_config: Value,
    pub(super) bos: Option<u64>,
    pub(super) eos: Vec<u64>,
}

/// Word splitting before BPE, by the name in `tokenizer.ggml.pre`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Splitter {
    /// GPT-2's pattern.
    Gpt2,
    /// Every digit alone, then GPT-2's pattern.
    Digits,
    /// Digits alone, wider letter runs, NFC first.
    Qwen2,
    /// Digits in threes; whole words that are tokens skip the merges; a BOS by default.
    Llama3,
}

impl Splitter {
    fn from_name(name: &str) -> Option<Self> {
        match name {
            "gpt-2" => Some(Self::Gpt2),
            "smollm" | "starcoder" | "refact" => Some(Self::Digits),
            "qwen2" | "deepseek-r1-qwen" => Some(Self::Qwen2),
            "llama-bpe" | "llama3" | "llama-v3" => Some(Self::Llama3),
            _ => None,
        }
    }

    fn pre_tokenizer(self, add_prefix_space: bool) -> Value {
        let bytes =
            |regex: bool| json!({"type": "ByteLevel", "add_prefix_space": add_prefix_space, "trim_offsets": true, "use_regex": regex});
        let split = |digits: &str| {
            let pattern = format!(
                r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|{digits}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
            );
            json!({"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false})
        };
        let sequence = |first: Value, regex| json!({"type": "Sequence", "pretokenizers": [first, bytes(regex)]});
        match self {
            Self::Gpt2 => bytes(true),
            Self::Digits => sequence(json!({"type": "Digits", "individual_digits": true}), true),
            Self::Qwen2 => sequence(split(r"\p{N}"), false),
            Self::Llama3 => sequence(split(r"\p{N}{1,3}"), false),
        }
    }
}

/// Rebuilds the Hugging Face tokenizer from the metadata.
///
/// # Errors
/// Tokenizers other than byte-level BPE and unknown pre-tokenizers are refused by name: a guess would tokenize
/// differently from the model's training, silently.
pub(super) fn files(file: &GgufFile, context: u64) -> Result<TokenizerFiles> {
    let meta = &file.metadata;
    let bad = |reason: String| HubError::BadGguf {
        path: file.path.clone(),
        reason,
    };
    match meta.str("tokenizer.ggml.model") {
        Some("gpt2") => {}
        Some(other) => return Err(unsupported(format!("tokenizer `{}`", short(other)))),
        None => return Err(bad("it has no tokenizer".into())),
    }
    let pre = meta.str("tokenizer.ggml.pre").unwrap_or("default");
    let splitter = Splitter::from_name(pre).ok_or_else(|| unsupported(format!("pre-tokenizer `{}`", short(pre))))?;

    let tokens = meta
        .strings("tokenizer.ggml.tokens")
        .ok_or_else(|| bad("it has no vocabulary".into()))?;
    let types = meta.integers("tokenizer.ggml.token_type").unwrap_or(&[]);
    if !types.is_empty() && types.len() != tokens.len() {
        return Err(bad(format!("{} tokens but {} token types", tokens.len(), types.len())));
    }
    let kind = |id: usize| types.get(id).copied().unwrap_or(1);
    let mut vocab: HashMap<&str, usize> = HashMap::with_capacity(tokens.len());
    for (id, token) in tokens.iter().enumerate().filter(|(id, _)| kind(*id) != UNUSED) {
        if vocab.insert(token, id).is_some() {
            return Err(bad(format!("token `{}` appears twice", short(token))));
        }
    }
    let merges = meta
        .strings("tokenizer.ggml.merges")
        .ok_or_else(|| bad("its tokenizer has no merges".into()))?
        .iter()
        .map(|merge| {
            let (left, right) = merge.split_once(' ')?;
            let known = [left, right, &format!("{left}{right}")].iter().all(|part| vocab.contains_key(part));
            known.then(|| json!([left, right]))
        })
        .collect::<Option<Vec<_>>>()
        .ok_or_else(|| bad("a tokenizer merge names tokens that are not in the vocabulary".into()))?;

    let id = |key: &str| -> Result<Option<u64>> {
        match meta.uint(&format!("tokenizer.ggml.{key}_token_id")) {
            // llama.cpp writes 0xFFFFFFFF for "none".
            None | Some(0xFFFF_FFFF) => Ok(None),
            Some(n) if (n as usize) < tokens.len() => Ok(Some(n)),
            Some(n) => Err(bad(format!("the {key} token {n} is not in the vocabulary"))),
        }
    };
    let (bos, eos) = (id("bos")?, id("eos")?);
    let mut stops: Vec<u64> = Vec::new();
    for stop in [eos, id("eot")?, id("eom")?].into_iter().flatten() {
        if !stops.contains(&stop) {
            stops.push(stop);
        }
    }

    let added: Vec<(usize, &String, bool)> = tokens
        .iter()
        .enumerate()
        .filter(|(id, _)| matches!(kind(*id), CONTROL | USER_DEFINED))
        .map(|(id, token)| (id, token, kind(id) == CONTROL))
        .collect();
    let flags = |token: &str, special: bool| json!({"content": token, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": special});
    let add_bos = meta.bool("tokenizer.ggml.add_bos_token").unwrap_or(splitter == Splitter::Llama3);
    let add_prefix_space = meta.bool("tokenizer.ggml.add_space_prefix").unwrap_or(false);

    let mut ordered: Vec<(&str, usize)> = vocab.into_iter().collect();
    ordered.sort_by_key(|(_, id)| *id);
    let tokenizer = json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": added.iter().map(|(id, token, special)| {
            let mut entry = json!({"id": id});
            merge(&mut entry, flags(token, *special));
            entry
        }).collect::<Vec<_>>(),
        "normalizer": if splitter == Splitter::Qwen2 { json!({"type": "NFC"}) } else { Value::Null },
        "pre_tokenizer": splitter.pre_tokenizer(add_prefix_space),
        "post_processor": post_processor(add_bos.then_some(bos).flatten(), tokens),
        "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
        "model": {
            "type": "BPE",
            "dropout": null,
            "unk_token": null,
            "continuing_subword_prefix": null,
            "end_of_word_suffix": null,
            "fuse_unk": false,
            "byte_fallback": false,
            "ignore_merges": splitter == Splitter::Llama3,
            "vocab": ordered.into_iter().map(|(token, id)| (token.to_owned(), json!(id))).collect::<Map<_, _>>(),
            "merges": merges,
        },
    });

    let name = |id: Option<u64>| id.map(|id| tokens[id as usize].clone());
    let mut tokenizer_config = json!({
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": name(bos),
        "eos_token": name(eos),
        "unk_token": name(id("unknown")?),
        "pad_token": name(id("padding")?.or(eos)),
        "add_bos_token": add_bos,
        "add_prefix_space": add_prefix_space,
        "clean_up_tokenization_spaces": false,
        "model_max_length": context,
        "added_tokens_decoder": added.iter()
            .map(|(id, token, special)| (id.to_string(), flags(token, *special)))
            .collect::<Map<_, _>>(),
    });
    if let Some(template) = meta.str("tokenizer.chat_template") {
        merge(&mut tokenizer_config, json!({"chat_template": template}));
    }
    let mut generation_config = json!({"eos_token_id": ids(&stops)});
    if let Some(bos) = bos {
        merge(&mut generation_config, json!({"bos_token_id": bos}));
    }
    if let Some(pad) = id("padding")? {
        merge(&mut generation_config, json!({"pad_token_id": pad}));
    }
    Ok(TokenizerFiles {
        tokenizer,
        tokenizer_config,
        generation_config,
        bos,
        eos: stops,
    })
}

/// One id as a number, several as a list, none as null: as transformers writes them.
pub(super) fn ids(stops: &[u64]) -> Value {
    match stops {
        [] => Value::Null,
        [one] => json!(one),
        many => json!(many),
    }
}

fn merge(target: &mut Value, more: Value) {
    if let (Value::Object(target), Value::Object(more)) = (target, more) {
        target.extend(more);
    }
}

fn post_processor(bos: Option<u64>, tokens: &[String]) -> Value {
    let Some(bos) = bos else { return Value::Null };
    let token = &tokens[bos as usize];
    let special = json!({"SpecialToken": {"id": token, "type_id": 0}});
    json!({
        "type": "TemplateProcessing",
        "single": [special, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [special, {"Sequence": {"id": "A", "type_id": 0}}, special, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {(token.as_str()): {"id": token, "ids": [bos], "tokens": [token]}},
    })
}

/// The model's own name for the folder's card, where the file has one.
pub(super) fn model_name(meta: &Metadata) -> Option<&str> {
    meta.str("general.name")
}
