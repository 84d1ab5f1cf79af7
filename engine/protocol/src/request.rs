use crate::{Constraint, Message, SpeculationOptions};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

/// How to decode. `Auto` takes the fastest way this pair and machine have shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    #[default]
    Auto,
    Baseline,
    Lookup,
    Dspark,
    Dflash,
}

impl Mode {
    /// As people write it on a command line and in requests.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Baseline => "baseline",
            Self::Lookup => "lookup",
            Self::Dspark => "dspark",
            Self::Dflash => "dflash",
        }
    }
}

/// What the model reads.
#[derive(Debug, Clone, PartialEq)]
pub enum Prompt {
    /// A conversation, rendered by the model's chat template. Content can never forge a turn: special tokens
    /// in it are tokenized as ordinary text.
    Chat { messages: Vec<Message>, options: TemplateOptions },
    /// Raw text, tokenized without a template (with the beginning-of-text token if the model wants one).
    Text(String),
    /// Token ids, used as they are.
    Tokens(Vec<u32>),
}

impl Prompt {
    /// Bytes of text, near enough: what the template adds is not counted, and ids have none.
    pub fn text_bytes(&self) -> usize {
        let message = |message: &Message| {
            let calls = message
                .tool_calls
                .iter()
                .map(|call| call.name.len() + json_bytes(&call.arguments))
                .sum::<usize>();
            message.content.len() + message.reasoning.as_ref().map_or(0, String::len) + calls
        };
        match self {
            Self::Chat { messages, options } => {
                let tools = options.tools.iter().map(json_bytes).sum::<usize>();
                messages.iter().map(message).sum::<usize>() + tools + options.extra.values().map(json_bytes).sum::<usize>()
            }
            Self::Text(text) => text.len(),
            Self::Tokens(_) => 0,
        }
    }
}

/// Bytes of the strings in a JSON value, keys included, and a few for everything else.
fn json_bytes(value: &serde_json::Value) -> usize {
    use serde_json::Value;
    match value {
        Value::String(text) => text.len(),
        Value::Array(values) => values.iter().map(json_bytes).sum(),
        Value::Object(fields) => fields.iter().map(|(key, value)| key.len() + json_bytes(value)).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 4,
    }
}

/// What a chat template may be told.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct TemplateOptions {
    /// `None` leaves the template's own default.
    pub enable_thinking: Option<bool>,
    pub reasoning_effort: Option<String>,
    /// Continue the last assistant message instead of opening a new turn.
    pub continue_final_message: bool,
    /// Tool descriptions (JSON schema objects), passed to the template as `tools`.
    pub tools: Vec<serde_json::Value>,
    /// More variables for the template (`chat_template_kwargs`).
    pub extra: serde_json::Map<String, serde_json::Value>,
}

/// How the next token is drawn from the target's logits. Source of the rules: `spec/speculation.md` §4.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Sampling {
    /// 0 is greedy.
    pub temperature: f32,
    /// Nucleus mass in (0, 1]; 1 keeps everything.
    pub top_p: f32,
    /// 0 keeps everything.
    pub top_k: u32,
    /// Keep tokens with at least this share of the top probability; 0 keeps everything.
    pub min_p: f32,
    /// Divides (multiplies, where negative) the logits of tokens already in prompt or output; 1 is off.
    pub repetition_penalty: f32,
    /// Subtracted once from the logit of every token already generated.
    pub presence_penalty: f32,
    /// Subtracted per occurrence from the logit of every token already generated.
    pub frequency_penalty: f32,
    /// Added to the logits of these token ids.
    pub logit_bias: BTreeMap<u32, f32>,
    /// Same seed, same text, whatever else runs. `None` draws one and reports it.
    pub seed: Option<u64>,
}

impl Default for Sampling {
    fn default() -> Self {
        Self {
            temperature: 0.0,
            top_p: 1.0,
            top_k: 0,
            min_p: 0.0,
            repetition_penalty: 1.0,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            logit_bias: BTreeMap::new(),
            seed: None,
        }
    }
}

/// What a checkpoint's makers recommend (`generation_config.json`, where `do_sample` is not false). `None` where
/// they say nothing. A face lets its own settings win over these, and the request over both.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SamplingDefaults {
    pub temperature: Option<f32>,
    pub top_p: Option<f32>,
    pub top_k: Option<u32>,
}

/// One generation. The engine refuses what it cannot honour; nothing is silently dropped.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// Who asks, for the status line: `chat`, `cli`, or a client's name.
    pub client: String,
    pub prompt: Prompt,
    pub sampling: Sampling,
    pub mode: Mode,
    /// `None` takes what the model was loaded with.
    pub speculation: Option<SpeculationOptions>,
    /// Exact upper bound of generated tokens. 0 only prefills.
    pub max_tokens: usize,
    /// Text that ends the generation and is itself left out. Empty strings are dropped.
    pub stop: Vec<String>,
    /// Report log-probabilities of the chosen token and of this many best tokens (0..=20).
    pub logprobs: Option<u8>,
    /// Go on past the end-of-sequence token (benchmarks).
    pub ignore_eos: bool,
    /// What the answer must look like; `None` is anything.
    pub constraint: Option<Arc<Constraint>>,
    /// Report each token's id in [`crate::TextDelta::tokens`] and the summary.
    pub return_token_ids: bool,
    /// Compute the whole prompt, and keep nothing of it for others: runs that are compared start alike.
    pub fresh: bool,
}

impl Request {
    /// A greedy chat request of at most `max_tokens` tokens.
    pub fn chat(client: impl Into<String>, messages: Vec<Message>, max_tokens: usize) -> Self {
        Self {
            client: client.into(),
            prompt: Prompt::Chat {
                messages,
                options: TemplateOptions::default(),
            },
            sampling: Sampling::default(),
            mode: Mode::Auto,
            speculation: None,
            max_tokens,
            stop: Vec::new(),
            logprobs: None,
            ignore_eos: false,
            constraint: None,
            return_token_ids: false,
            fresh: false,
        }
    }
}

/// Which model to load and how. Paths are resolved before this: the engine never downloads.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LoadRequest {
    /// What people call it, and what `/v1/models` lists.
    pub name: String,
    /// The MLX folder.
    pub path: PathBuf,
    /// A drafter's folder or GGUF file.
    pub drafter: Option<PathBuf>,
    /// It was asked for: a load that cannot use it fails. Otherwise the model is loaded without it, and says so.
    pub drafter_required: bool,
    /// Bits that the drafter's matrices are quantized to; 0 keeps them as stored.
    pub drafter_bits: Option<u8>,
    /// What a request that says `auto` gets.
    pub mode: Mode,
    pub speculation: SpeculationOptions,
    /// Tokens; `None` takes the model's own maximum.
    pub context_window: Option<usize>,
    /// Run one short generation before `Ready`, so that the first request is not the slow one.
    pub warm_up: bool,
    /// Measure this pair's costs anew, whatever is known of them.
    pub recalibrate: bool,
    /// Load it although its weights take more than this machine can give a model; it is refused otherwise.
    pub force: bool,
}
