//! An answer as a text completion, whole or in chunks.

use super::{
    logprobs::arrays,
    reply::{fingerprint, total, usage},
};
use crate::{
    UsageChunk,
    dialect::{Meta, extension},
    error::ApiError,
    generate::{Closing, Opening, Outcome},
    reader::Finish,
    sse::{Frames, data},
};
use dspark_protocol::TokenInfo;
use dspark_text::output::Piece;
use serde_json::{Value, json};

fn finish_reason(finish: &Finish) -> &'static str {
    match finish {
        Finish::Length => "length",
        _ => "stop",
    }
}

/// `prompts` holds what is echoed before each answer, empty where nothing is.
pub(crate) fn text_reply(meta: &Meta, answers: &[(&str, &Outcome)]) -> Value {
    let choices: Vec<Value> = answers
        .iter()
        .enumerate()
        .map(|(index, (echo, outcome))| {
            json!({
                "index": index,
                "text": format!("{echo}{}", outcome.answer.text),
                "logprobs": meta.logprobs.then(|| arrays(&outcome.answer.tokens, echo.chars().count())),
                "finish_reason": finish_reason(&outcome.closing.end.finish),
            })
        })
        .collect();
    json!({
        "id": meta.id,
        "object": "text_completion",
        "created": meta.created,
        "model": meta.model,
        "choices": choices,
    })
}

/// Adds what the generations cost: the prompts of each, and the texts of all.
pub(crate) fn bill(reply: &mut Value, meta: &Meta, groups: &[Vec<Outcome>]) {
    let mut sum = dspark_protocol::Usage::default();
    for group in groups {
        let one = total(group);
        sum.prompt_tokens += one.prompt_tokens;
        sum.cached_tokens += one.cached_tokens;
        sum.completion_tokens += one.completion_tokens;
    }
    reply["usage"] = usage(&sum);
    if let Some(first) = groups.first().and_then(|group| group.first()) {
        reply["system_fingerprint"] = json!(fingerprint(meta, first.closing.summary.effective_mode));
        reply[extension::KEY] = extension::block(&first.closing, &meta.request_id);
    }
}

/// A text completion as server-sent chunks: text…, finish, usage when asked for, `[DONE]`.
pub(crate) struct TextFrames {
    meta: Meta,
    usage: Option<UsageChunk>,
    echo: String,
    tokens: Vec<TokenInfo>,
    /// Characters of tokens whose log-probabilities are out.
    offset: usize,
}

impl TextFrames {
    pub(crate) fn new(meta: Meta, usage: Option<UsageChunk>, echo: String) -> Self {
        Self {
            offset: echo.chars().count(),
            meta,
            usage,
            echo,
            tokens: Vec::new(),
        }
    }

    fn chunk(&mut self, out: &mut String, text: &str, finish: Option<&str>, more: impl FnOnce(&mut Value)) {
        let tokens = std::mem::take(&mut self.tokens);
        let logprobs = (!tokens.is_empty()).then(|| arrays(&tokens, self.offset));
        self.offset += tokens.iter().map(|token| token.text.chars().count()).sum::<usize>();
        let mut chunk = json!({
            "id": self.meta.id,
            "object": "text_completion",
            "created": self.meta.created,
            "model": self.meta.model,
            "choices": [{"index": 0, "text": text, "logprobs": logprobs, "finish_reason": finish}],
        });
        more(&mut chunk);
        data(out, &chunk);
    }
}

impl Frames for TextFrames {
    fn open(&mut self, _: Opening, out: &mut String) {
        let echo = std::mem::take(&mut self.echo);
        self.chunk(out, &echo, None, |_| {});
    }

    fn tokens(&mut self, tokens: &[TokenInfo]) {
        if self.meta.logprobs {
            self.tokens.extend_from_slice(tokens);
        }
    }

    fn piece(&mut self, piece: Piece, out: &mut String) {
        if let Piece::Text(text) = piece {
            self.chunk(out, &text, None, |_| {});
        }
    }

    fn settle(&mut self, out: &mut String) {
        if !self.tokens.is_empty() {
            self.chunk(out, "", None, |_| {});
        }
    }

    fn finish(&mut self, closing: &Closing, out: &mut String) {
        let block = extension::block(closing, &self.meta.request_id);
        let usage = usage(&closing.end.usage);
        let finish = Some(finish_reason(&closing.end.finish));
        match self.usage {
            None => self.chunk(out, "", finish, |chunk| chunk[extension::KEY] = block),
            Some(UsageChunk::Merged) => self.chunk(out, "", finish, |chunk| {
                chunk["usage"] = usage;
                chunk[extension::KEY] = block;
            }),
            Some(UsageChunk::Separate) => {
                self.chunk(out, "", finish, |_| {});
                self.chunk(out, "", None, |chunk| {
                    chunk["choices"] = json!([]);
                    chunk["usage"] = usage;
                    chunk[extension::KEY] = block;
                });
            }
        }
        out.push_str("data: [DONE]\n\n");
    }

    fn keep_alive(&mut self, out: &mut String) {
        self.chunk(out, "", None, |_| {});
    }

    fn fail(&mut self, error: &ApiError, out: &mut String) {
        data(out, &super::error(error));
        out.push_str("data: [DONE]\n\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{meta, outcome, token, transcript};

    fn pieces() -> Vec<Piece> {
        vec![Piece::Text("one ".into()), Piece::Text("two".into())]
    }

    #[test]
    fn stream_with_echo_logprobs_and_usage() {
        let meta = Meta {
            logprobs: true,
            ..meta("cmpl-7f")
        };
        let frames = TextFrames::new(meta, Some(UsageChunk::Separate), "zero ".into());
        insta::assert_snapshot!(transcript(frames, pieces(), Ok(Finish::Length)));
    }

    #[test]
    fn whole_reply() {
        let meta = Meta {
            logprobs: true,
            ..meta("cmpl-7f")
        };
        let mut one = outcome(pieces(), Finish::Stop);
        one.answer.tokens = vec![token("one ", -0.5), token("two", -0.25)];
        let two = outcome(pieces(), Finish::Length);
        let mut reply = text_reply(&meta, &[("zero ", &one), ("", &two)]);
        bill(&mut reply, &meta, &[vec![one], vec![two]]);
        assert_eq!(reply["choices"][0]["logprobs"]["text_offset"], json!([5, 9]));
        assert_eq!(reply["usage"]["prompt_tokens"], 1624);
        insta::assert_json_snapshot!(reply);
    }
}
