//! Answers for tests of dialects: the same turn through each of them.
#![allow(clippy::unwrap_used)]

use crate::{
    dialect::Meta,
    error::ApiError,
    generate::{Closing, Opening, Outcome},
    reader::{Answer, End, Finish},
    receipt::Receipt,
    sse::Frames,
};
use dspark_protocol::{EngineError, FinishReason, Mode, Source, Summary, Timings, TokenInfo, TopToken, Usage};
use dspark_text::output::Piece;

pub(crate) fn meta(id: &str) -> Meta {
    Meta {
        id: id.into(),
        created: 1_764_500_000,
        model: "M".into(),
        version: "0.1.0".into(),
        request_id: "req_1".into(),
        ..Meta::default()
    }
}

pub(crate) fn token(text: &str, logprob: f32) -> TokenInfo {
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

/// 812 prompt tokens, 768 of them cached, 31 generated, 6 of them reasoning.
pub(crate) fn closing(finish: Finish) -> Closing {
    let usage = Usage {
        prompt_tokens: 812,
        cached_tokens: 768,
        completion_tokens: 31,
        reasoning_tokens: 6,
    };
    let engine = match &finish {
        Finish::Length => FinishReason::Length,
        Finish::StopString(text) => FinishReason::Stop {
            matched: Some(text.clone()),
        },
        Finish::Stop | Finish::Calls => FinishReason::Stop { matched: None },
    };
    Closing {
        end: End {
            finish,
            usage,
            warnings: Vec::new(),
        },
        summary: Box::new(Summary {
            finish: engine,
            usage,
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
            seed: Some(7),
            warnings: Vec::new(),
            token_ids: Vec::new(),
        }),
        warnings: vec!["from the engine".into(), "from the request".into()],
        receipt: Receipt::default(),
    }
}

pub(crate) fn start(index: usize, name: &str) -> Piece {
    Piece::ToolStart {
        index,
        id: String::new(),
        name: name.into(),
        declared: true,
    }
}

pub(crate) fn argue(index: usize, fragment: &str) -> Piece {
    Piece::ToolArguments {
        index,
        fragment: fragment.into(),
    }
}

/// Thinks, speaks, and calls twice.
pub(crate) fn turn() -> Vec<Piece> {
    vec![
        Piece::Reasoning("Need ".into()),
        Piece::Reasoning("the file.".into()),
        Piece::Text("Opening ".into()),
        Piece::Text("\"it\" 😊.".into()),
        start(0, "read"),
        argue(0, "{\"path\":"),
        argue(0, "\"a.py\"}"),
        Piece::ToolEnd { index: 0 },
        start(1, "list"),
        argue(1, "{}"),
        Piece::ToolEnd { index: 1 },
    ]
}

pub(crate) fn outcome(pieces: Vec<Piece>, finish: Finish) -> Outcome {
    let mut answer = Answer::default();
    for piece in pieces {
        answer.add(piece);
    }
    Outcome {
        answer,
        closing: closing(finish),
    }
}

/// What a stream writes, with a keep-alive before the first piece and random ids made readable.
pub(crate) fn transcript(mut frames: impl Frames, pieces: Vec<Piece>, end: Result<Finish, EngineError>) -> String {
    let mut out = String::new();
    let opening = Opening {
        prompt_tokens: 812,
        cached_tokens: 768,
    };
    frames.open(opening, &mut out);
    frames.keep_alive(&mut out);
    for piece in pieces {
        if let Piece::Text(text) = &piece {
            frames.tokens(&[token(text, -0.25)]);
        }
        frames.piece(piece, &mut out);
        frames.settle(&mut out);
    }
    match end {
        Ok(finish) => frames.finish(&closing(finish), &mut out),
        Err(error) => frames.fail(&ApiError::from(error), &mut out),
    }
    readable(&out)
}

/// Numbers random ids by their first appearance: `call_0a1b…` is `call_#1`.
pub(crate) fn readable(text: &str) -> String {
    let mut seen: Vec<String> = Vec::new();
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = ["call_", "toolu_", "fc_", "ctc_", "msg_", "rs_"]
        .iter()
        .filter_map(|prefix| find_id(rest, prefix))
        .min()
    {
        let (start, hex) = at;
        let name = &rest[start..start + hex];
        let number = seen.iter().position(|known| known == name).unwrap_or_else(|| {
            seen.push(name.to_owned());
            seen.len() - 1
        });
        out.push_str(&rest[..start]);
        out = out + "#" + &(number + 1).to_string();
        rest = &rest[start + hex..];
    }
    out + rest
}

/// Where the random digits after a prefix begin, and how many there are.
fn find_id(text: &str, prefix: &str) -> Option<(usize, usize)> {
    text.match_indices(prefix).find_map(|(at, _)| {
        let start = at + prefix.len();
        let digits = text[start..].bytes().take_while(u8::is_ascii_hexdigit).count();
        (digits >= 24).then_some((start, digits))
    })
}
