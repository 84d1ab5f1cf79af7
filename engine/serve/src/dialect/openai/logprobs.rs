//! Log-probabilities as OpenAI writes them: a list of tokens (chat), or parallel arrays (completions).

use dspark_protocol::TokenInfo;
use serde::Serialize;
use serde_json::{Map, Value, json};

#[derive(Serialize)]
pub(super) struct Logprobs<'a> {
    content: Vec<TokenLogprob<'a>>,
    refusal: Option<()>,
}

#[derive(Serialize)]
struct TokenLogprob<'a> {
    token: &'a str,
    logprob: f32,
    bytes: &'a [u8],
    #[serde(skip_serializing_if = "Option::is_none")]
    top_logprobs: Option<Vec<TokenLogprob<'a>>>,
}

/// JSON has no −∞; OpenAI's clients read this as "as good as impossible".
const FLOOR: f32 = -9999.0;

fn finite(logprob: f32) -> f32 {
    if logprob.is_finite() { logprob } else { FLOOR }
}

pub(super) fn logprobs(tokens: &[TokenInfo]) -> Logprobs<'_> {
    let content = tokens
        .iter()
        .map(|token| TokenLogprob {
            token: &token.text,
            logprob: finite(token.logprob.unwrap_or(FLOOR)),
            bytes: &token.bytes,
            top_logprobs: Some(
                token
                    .top
                    .iter()
                    .map(|top| TokenLogprob {
                        token: &top.text,
                        logprob: finite(top.logprob),
                        bytes: &top.bytes,
                        top_logprobs: None,
                    })
                    .collect(),
            ),
        })
        .collect();
    Logprobs { content, refusal: None }
}

/// `offset` is the characters before the first token.
pub(super) fn arrays(tokens: &[TokenInfo], mut offset: usize) -> Value {
    let mut offsets = Vec::with_capacity(tokens.len());
    for token in tokens {
        offsets.push(offset);
        offset += token.text.chars().count();
    }
    let top = |token: &TokenInfo| {
        let ranked = token.top.iter().map(|top| (top.text.clone(), json!(finite(top.logprob))));
        Value::Object(ranked.collect::<Map<_, _>>())
    };
    json!({
        "tokens": tokens.iter().map(|token| &token.text).collect::<Vec<_>>(),
        "token_logprobs": tokens.iter().map(|token| finite(token.logprob.unwrap_or(FLOOR))).collect::<Vec<_>>(),
        "top_logprobs": tokens.iter().map(top).collect::<Vec<_>>(),
        "text_offset": offsets,
    })
}
