use super::*;
use crate::testing::{argue, meta, outcome, readable, start, transcript, turn};
use dspark_protocol::EngineError;

fn stream(pieces: Vec<Piece>, end: Result<Finish, EngineError>) -> String {
    transcript(MessageFrames::new(meta("msg_1")), pieces, end)
}

#[test]
fn stream_that_thinks_speaks_and_calls_twice() {
    insta::assert_snapshot!(stream(turn(), Ok(Finish::Calls)));
}

#[test]
fn stream_of_nothing_has_one_empty_block() {
    insta::assert_snapshot!(stream(Vec::new(), Ok(Finish::Stop)));
}

#[test]
fn stream_that_breaks_has_no_stop() {
    insta::assert_snapshot!(stream(
        vec![Piece::Text("Op".into())],
        Err(EngineError::Compute("out of memory".into()))
    ));
}

/// Conformance test 7: blocks are contiguous whatever the answer is made of.
#[test]
fn blocks_are_numbered_from_zero_without_gaps() {
    let think = || Piece::Reasoning("hm".into());
    let say = || Piece::Text("hi".into());
    let call = |index| [start(index, "f"), argue(index, "{}"), Piece::ToolEnd { index }];
    let answers: Vec<(Vec<Piece>, usize)> = vec![
        (vec![say()], 1),
        (vec![think(), say()], 2),
        ([think()].into_iter().chain(call(0)).collect(), 2),
        (call(0).into_iter().chain(call(1)).collect(), 2),
        (Vec::new(), 1),
        (call(0).into_iter().chain([say()]).collect(), 2),
        (vec![say(), start(0, "f"), argue(0, "{\"a"), Piece::ToolAborted { index: 0 }], 2),
        (vec![start(0, "f"), Piece::ToolEnd { index: 0 }], 1),
    ];
    for (pieces, count) in answers {
        let text = stream(pieces.clone(), Ok(Finish::Stop));
        let events: Vec<Value> = text
            .lines()
            .filter_map(|line| serde_json::from_str(line.strip_prefix("data: ")?).ok())
            .collect();
        let of = |kind: &str| {
            events
                .iter()
                .filter(|event| event["type"] == kind)
                .map(|event| event["index"].as_u64())
                .collect::<Vec<_>>()
        };
        let wanted: Vec<_> = (0..count as u64).map(Some).collect();
        assert_eq!(of("content_block_start"), wanted, "{pieces:?}");
        assert_eq!(of("content_block_stop"), wanted, "{pieces:?}");
        assert_eq!(events.last().unwrap()["type"], "message_stop");
    }
}

#[test]
fn whole_reply() {
    let reply = message_reply(&meta("msg_1"), &outcome(turn(), Finish::Calls));
    insta::assert_snapshot!(readable(&serde_json::to_string_pretty(&reply).unwrap()));
}

#[test]
fn stop_sequences_and_limits_are_named_and_empty_answers_have_a_block() {
    let reply = message_reply(
        &meta("msg_1"),
        &outcome(vec![Piece::Text("Hi".into())], Finish::StopString("END".into())),
    );
    assert_eq!(
        (&reply["stop_reason"], &reply["stop_sequence"]),
        (&json!("stop_sequence"), &json!("END"))
    );
    let reply = message_reply(&meta("msg_1"), &outcome(Vec::new(), Finish::Length));
    assert_eq!(
        (&reply["stop_reason"], &reply["content"]),
        (&json!("max_tokens"), &json!([{"type": "text", "text": ""}]))
    );
    let odd = vec![start(0, "f"), argue(0, "[1"), Piece::ToolEnd { index: 0 }];
    assert_eq!(
        message_reply(&meta("msg_1"), &outcome(odd, Finish::Calls))["content"][0]["input"],
        json!({})
    );
}
