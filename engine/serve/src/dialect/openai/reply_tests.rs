use super::*;
use crate::testing::{self, argue, outcome, start, token, transcript, turn};
use dspark_protocol::EngineError;

fn meta(logprobs: bool) -> Meta {
    Meta {
        logprobs,
        ..testing::meta("chatcmpl-7f")
    }
}

fn prose() -> Vec<Piece> {
    vec![Piece::Text("Opening \"it\"\n".into()), Piece::Text("😊.".into())]
}

fn stream(usage: Option<UsageChunk>, logprobs: bool, pieces: Vec<Piece>, end: Result<Finish, EngineError>) -> String {
    transcript(ChatFrames::new(meta(logprobs), usage), pieces, end)
}

#[test]
fn stream_without_usage() {
    insta::assert_snapshot!(stream(None, false, prose(), Ok(Finish::Stop)));
}

#[test]
fn stream_with_a_usage_chunk_of_its_own() {
    insta::assert_snapshot!(stream(Some(UsageChunk::Separate), false, prose(), Ok(Finish::Length)));
}

#[test]
fn stream_with_usage_on_the_finish_chunk() {
    insta::assert_snapshot!(stream(Some(UsageChunk::Merged), false, prose(), Ok(Finish::Stop)));
}

#[test]
fn stream_with_logprobs() {
    insta::assert_snapshot!(stream(None, true, prose(), Ok(Finish::StopString("END".into()))));
}

#[test]
fn stream_that_fails_half_way() {
    insta::assert_snapshot!(stream(None, false, prose(), Err(EngineError::Compute("out of memory".into()))));
}

#[test]
fn stream_that_thinks_speaks_and_calls_twice() {
    insta::assert_snapshot!(stream(Some(UsageChunk::Separate), false, turn(), Ok(Finish::Calls)));
}

#[test]
fn stream_of_an_older_function_call() {
    let meta = Meta {
        legacy_calls: true,
        ..meta(false)
    };
    let call = vec![start(0, "read"), argue(0, "{}"), Piece::ToolEnd { index: 0 }];
    insta::assert_snapshot!(transcript(ChatFrames::new(meta, None), call, Ok(Finish::Calls)));
}

#[test]
fn whole_reply() {
    let mut answer = outcome(vec![Piece::Text("Hi😊".into())], Finish::Stop);
    answer.answer.tokens = vec![token("Hi", -0.5)];
    insta::assert_json_snapshot!(chat_reply(&meta(true), &[answer], 1));
}

#[test]
fn whole_reply_that_thinks_speaks_and_calls_twice() {
    let reply = chat_reply(&meta(false), &[outcome(turn(), Finish::Calls)], 1);
    insta::assert_snapshot!(testing::readable(&serde_json::to_string_pretty(&reply).unwrap()));
}

#[test]
fn a_call_that_broke_off_is_none() {
    let pieces = vec![
        Piece::Text("Opening.".into()),
        start(0, "read"),
        argue(0, "{\"path\":"),
        Piece::ToolAborted { index: 0 },
    ];
    let reply = chat_reply(&meta(false), &[outcome(pieces, Finish::Length)], 1);
    let choice = &reply["choices"][0];
    assert_eq!(
        choice["message"],
        json!({"role": "assistant", "content": "Opening.", "refusal": null})
    );
    assert_eq!(choice["finish_reason"], "length");
}

#[test]
fn a_greedy_choice_is_repeated_and_counted_once() {
    let reply = chat_reply(&meta(false), &[outcome(prose(), Finish::Stop)], 3);
    assert_eq!(reply["choices"].as_array().map(Vec::len), Some(3));
    assert_eq!(reply["choices"][2]["index"], 2);
    assert_eq!(reply["usage"]["completion_tokens"], 31);
}

#[test]
fn sampled_choices_add_up_and_share_their_prompt() {
    let say = |text: &str| outcome(vec![Piece::Text(text.into())], Finish::Stop);
    let reply = chat_reply(&meta(false), &[say("a"), say("b")], 2);
    assert_eq!(reply["choices"][1]["message"]["content"], "b");
    assert_eq!(reply["usage"]["completion_tokens"], 62);
    assert_eq!(reply["usage"]["prompt_tokens"], 812);
}
