//! Events as a chat completion, whole or in chunks.

use crate::{
    UsageChunk,
    dialect::extension,
    error::ApiError,
    generate::Outcome,
    sse::{Frames, data},
};
use dspark_protocol::{Event, FinishReason, Mode, Summary, TokenInfo, Usage};
use serde::Serialize;
use serde_json::{Value, json};

/// What every piece of one reply repeats.
#[derive(Debug, Clone)]
pub(crate) struct ReplyMeta {
    pub(crate) id: String,
    /// Seconds since the Unix epoch.
    pub(crate) created: u64,
    /// The name the client used.
    pub(crate) model: String,
    pub(crate) version: String,
    pub(crate) request_id: String,
    pub(crate) logprobs: bool,
}

impl ReplyMeta {
    fn fingerprint(&self, mode: Mode) -> String {
        let mode = serde_json::to_value(mode).ok();
        let mode = mode.as_ref().and_then(Value::as_str).unwrap_or("auto");
        format!("mlx-dspark-{}-{mode}", self.version)
    }
}

fn finish_reason(finish: &FinishReason) -> &'static str {
    match finish {
        FinishReason::Length => "length",
        // A generation that someone stopped has said what it has said; the detail is in the extension.
        FinishReason::Stop { .. } | FinishReason::Cancelled => "stop",
    }
}

fn usage(usage: &Usage) -> Value {
    json!({
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    })
}

#[derive(Serialize)]
struct Logprobs<'a> {
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

fn logprobs(tokens: &[TokenInfo]) -> Logprobs<'_> {
    let finite = |logprob: f32| if logprob.is_finite() { logprob } else { FLOOR };
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

/// The whole reply. One outcome is repeated `n` times (a greedy request's choices are one text); several are one each.
pub(crate) fn chat_reply(meta: &ReplyMeta, outcomes: &[Outcome], n: usize) -> Value {
    let choice = |index: usize, outcome: &Outcome| {
        json!({
            "index": index,
            "message": {"role": "assistant", "content": outcome.text, "refusal": null},
            "logprobs": meta.logprobs.then(|| logprobs(&outcome.tokens)),
            "finish_reason": finish_reason(&outcome.summary.finish),
        })
    };
    let choices: Vec<Value> = match outcomes {
        [only] => (0..n).map(|index| choice(index, only)).collect(),
        several => several.iter().enumerate().map(|(index, outcome)| choice(index, outcome)).collect(),
    };
    // The prompt counts once, what was generated counts for every generation.
    let mut total = Usage::default();
    for (index, outcome) in outcomes.iter().enumerate() {
        let one = outcome.summary.usage;
        if index == 0 {
            (total.prompt_tokens, total.cached_tokens) = (one.prompt_tokens, one.cached_tokens);
        }
        total.completion_tokens += one.completion_tokens;
        total.reasoning_tokens += one.reasoning_tokens;
    }
    let mut reply = json!({
        "id": meta.id,
        "object": "chat.completion",
        "created": meta.created,
        "model": meta.model,
        "choices": choices,
        "usage": usage(&total),
    });
    if let Some(first) = outcomes.first() {
        reply["system_fingerprint"] = json!(meta.fingerprint(first.summary.effective_mode));
        reply[extension::KEY] = extension::block(&first.summary, &first.warnings, &meta.request_id);
    }
    reply
}

#[derive(Serialize)]
struct Chunk<'a> {
    id: &'a str,
    object: &'static str,
    created: u64,
    model: &'a str,
    choices: &'a [Choice<'a>],
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    x_mlx_dspark: Option<&'a Value>,
}

#[derive(Serialize)]
struct Choice<'a> {
    index: usize,
    delta: Delta<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    logprobs: Option<Logprobs<'a>>,
    finish_reason: Option<&'static str>,
}

#[derive(Serialize, Default)]
struct Delta<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<&'a str>,
}

/// A chat completion as server-sent chunks: role, text…, finish, usage when asked for, `[DONE]`.
pub(crate) struct ChatFrames {
    meta: ReplyMeta,
    usage: Option<UsageChunk>,
}

impl ChatFrames {
    /// `usage` is where to put it, or `None` where the client did not ask.
    pub(crate) fn new(meta: ReplyMeta, usage: Option<UsageChunk>) -> Self {
        Self { meta, usage }
    }

    fn chunk(&self, out: &mut String, choices: &[Choice<'_>], usage: Option<&Value>, extension: Option<&Value>) {
        data(
            out,
            &Chunk {
                id: &self.meta.id,
                object: "chat.completion.chunk",
                created: self.meta.created,
                model: &self.meta.model,
                choices,
                usage,
                x_mlx_dspark: extension,
            },
        );
    }

    fn delta(&self, out: &mut String, delta: Delta<'_>, tokens: Option<&[TokenInfo]>) {
        let choice = Choice {
            index: 0,
            delta,
            logprobs: tokens.map(logprobs),
            finish_reason: None,
        };
        self.chunk(out, &[choice], None, None);
    }
}

impl Frames for ChatFrames {
    fn open(&mut self, out: &mut String) {
        let role = Delta {
            role: Some("assistant"),
            content: Some(""),
        };
        self.delta(out, role, None);
    }

    fn event(&mut self, event: &Event, out: &mut String) {
        let Event::Delta(delta) = event else { return };
        let tokens = (self.meta.logprobs && !delta.tokens.is_empty()).then_some(delta.tokens.as_slice());
        if delta.text.is_empty() && tokens.is_none() {
            return;
        }
        let content = Delta {
            role: None,
            content: Some(&delta.text),
        };
        self.delta(out, content, tokens);
    }

    fn finish(&mut self, summary: &Summary, warnings: &[String], out: &mut String) {
        let extension = extension::block(summary, warnings, &self.meta.request_id);
        let usage = usage(&summary.usage);
        let choice = Choice {
            index: 0,
            delta: Delta::default(),
            logprobs: None,
            finish_reason: Some(finish_reason(&summary.finish)),
        };
        match self.usage {
            None => self.chunk(out, &[choice], None, Some(&extension)),
            Some(UsageChunk::Merged) => self.chunk(out, &[choice], Some(&usage), Some(&extension)),
            Some(UsageChunk::Separate) => {
                self.chunk(out, &[choice], None, None);
                self.chunk(out, &[], Some(&usage), Some(&extension));
            }
        }
        out.push_str("data: [DONE]\n\n");
    }

    fn keep_alive(&mut self, out: &mut String) {
        self.delta(out, Delta::default(), None);
    }

    fn fail(&mut self, error: &ApiError, out: &mut String) {
        data(out, &super::error(error));
        out.push_str("data: [DONE]\n\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dspark_protocol::{EngineError, Source, TextDelta, Timings, TopToken};

    fn meta(logprobs: bool) -> ReplyMeta {
        ReplyMeta {
            id: "chatcmpl-7f".into(),
            created: 1_764_500_000,
            model: "M".into(),
            version: "0.1.0".into(),
            request_id: "req_1".into(),
            logprobs,
        }
    }

    fn token(text: &str, logprob: f32) -> TokenInfo {
        TokenInfo {
            id: 5,
            text: text.into(),
            bytes: text.into(),
            source: Source::Target,
            logprob: Some(logprob),
            top: vec![TopToken {
                id: 6,
                text: "é".into(),
                bytes: "é".into(),
                logprob: f32::NEG_INFINITY,
            }],
        }
    }

    fn delta(text: &str) -> Event {
        Event::Delta(TextDelta {
            text: text.into(),
            tokens: vec![token(text, -0.25)],
        })
    }

    fn summary(finish: FinishReason) -> Summary {
        Summary {
            finish,
            usage: Usage {
                prompt_tokens: 812,
                cached_tokens: 768,
                completion_tokens: 31,
                reasoning_tokens: 6,
            },
            timings: Timings {
                queue: 0.0,
                ttft: 0.25,
                prefill: 0.25,
                decode: 0.75,
            },
            mode: Mode::Auto,
            effective_mode: Mode::Baseline,
            mode_reason: Some("no drafter".into()),
            accept_len: 3.4444,
            target_forwards: 9,
            speculation: None,
            seed: 7,
            warnings: vec!["from the engine".into()],
            token_ids: Vec::new(),
        }
    }

    fn stopped() -> FinishReason {
        FinishReason::Stop { matched: None }
    }

    /// One chunk a line, as on the wire.
    fn transcript(usage: Option<UsageChunk>, logprobs: bool, end: Result<FinishReason, EngineError>) -> String {
        let mut frames = ChatFrames::new(meta(logprobs), usage);
        let mut out = String::new();
        frames.open(&mut out);
        frames.event(&Event::Queued { position: 1 }, &mut out);
        frames.event(
            &Event::Started {
                prompt_tokens: 812,
                cached_tokens: 768,
            },
            &mut out,
        );
        frames.keep_alive(&mut out);
        frames.event(
            &Event::Prefill {
                processed: 812,
                total: 812,
            },
            &mut out,
        );
        frames.event(&delta("Opening \"it\"\n"), &mut out);
        frames.event(&delta(""), &mut out);
        frames.event(&delta("😊."), &mut out);
        match end {
            Ok(finish) => frames.finish(&summary(finish), &["from the request".into()], &mut out),
            Err(error) => frames.fail(&error.into(), &mut out),
        }
        out
    }

    #[test]
    fn stream_without_usage() {
        insta::assert_snapshot!(transcript(None, false, Ok(stopped())));
    }

    #[test]
    fn stream_with_a_usage_chunk_of_its_own() {
        insta::assert_snapshot!(transcript(Some(UsageChunk::Separate), false, Ok(FinishReason::Length)));
    }

    #[test]
    fn stream_with_usage_on_the_finish_chunk() {
        insta::assert_snapshot!(transcript(Some(UsageChunk::Merged), false, Ok(FinishReason::Cancelled)));
    }

    #[test]
    fn stream_with_logprobs() {
        insta::assert_snapshot!(transcript(
            None,
            true,
            Ok(FinishReason::Stop {
                matched: Some("END".into())
            })
        ));
    }

    #[test]
    fn stream_that_fails_half_way() {
        insta::assert_snapshot!(transcript(None, false, Err(EngineError::Compute("out of memory".into()))));
    }

    fn outcome(text: &str, tokens: Vec<TokenInfo>) -> Outcome {
        Outcome {
            text: text.into(),
            tokens,
            summary: Box::new(summary(stopped())),
            warnings: Vec::new(),
        }
    }

    #[test]
    fn whole_reply() {
        let reply = chat_reply(&meta(true), &[outcome("Hi😊", vec![token("Hi", -0.5)])], 1);
        insta::assert_json_snapshot!(reply);
    }

    #[test]
    fn a_greedy_choice_is_repeated_and_counted_once() {
        let reply = chat_reply(&meta(false), &[outcome("Hi", Vec::new())], 3);
        assert_eq!(reply["choices"].as_array().map(Vec::len), Some(3));
        assert_eq!(reply["choices"][2]["index"], 2);
        assert_eq!(reply["usage"]["completion_tokens"], 31);
    }

    #[test]
    fn sampled_choices_add_up_and_share_their_prompt() {
        let reply = chat_reply(&meta(false), &[outcome("a", Vec::new()), outcome("b", Vec::new())], 2);
        assert_eq!(reply["choices"][1]["message"]["content"], "b");
        assert_eq!(reply["usage"]["completion_tokens"], 62);
        assert_eq!(reply["usage"]["prompt_tokens"], 812);
    }
}
