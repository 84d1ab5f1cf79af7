use super::*;
use dspark_text::output::ToolSchema;
use serde_json::json;

fn plan(names: &[&str]) -> Plan {
    Plan {
        split: Some(SplitterOptions {
            tools: names.iter().map(|name| ToolSchema::new(*name, json!({"type": "object"}))).collect(),
            ..SplitterOptions::default()
        }),
        calls: !names.is_empty(),
        hide_reasoning: false,
        demanded: false,
    }
}

fn stopped() -> FinishReason {
    FinishReason::Stop { matched: None }
}

fn summary(finish: FinishReason) -> Summary {
    let mut summary = *crate::testing::closing(Finish::Stop).summary;
    summary.finish = finish;
    summary.usage.reasoning_tokens = 0;
    summary
}

/// Text of one token per chunk, streamed.
fn stream(plan: Plan, chunks: &[&str], finish: FinishReason) -> (Answer, End) {
    let mut reader = Reader::new(plan);
    let mut answer = Answer::default();
    for chunk in chunks {
        let delta = TextDelta {
            text: (*chunk).into(),
            tokens: vec![crate::testing::token(chunk, -0.5)],
        };
        reader.read(&delta).into_iter().for_each(|piece| answer.add(piece));
        if reader.is_done() {
            break;
        }
    }
    reader.finish(&finish).into_iter().for_each(|piece| answer.add(piece));
    let end = reader.end(&summary(finish));
    (answer, end)
}

fn whole(plan: Plan, text: &str, finish: FinishReason) -> (Answer, End) {
    let mut reader = Reader::new(plan);
    let mut answer = Answer::default();
    reader.whole(text, &finish).into_iter().for_each(|piece| answer.add(piece));
    let end = reader.end(&summary(finish));
    (answer, end)
}

const CALL: &str = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": 1}}\n</tool_call>";

#[test]
fn an_answer_is_taken_apart_and_its_thinking_counted() {
    let chunks = ["<think>", "Need ", "f.", "</think>", "\n\n", "Calling.", "\n", CALL, "\n"];
    let (answer, end) = stream(plan(&["f"]), &chunks, stopped());
    assert_eq!((answer.reasoning.trim(), answer.prose()), ("Need f.", "Calling."));
    assert_eq!(answer.calls.len(), 1);
    assert_eq!(
        serde_json::from_str::<serde_json::Value>(&answer.calls[0].arguments).unwrap(),
        json!({"x": 1})
    );
    assert_eq!(end.finish, Finish::Calls);
    assert!((3..=5).contains(&end.usage.reasoning_tokens), "{}", end.usage.reasoning_tokens);
}

#[test]
fn without_tools_markup_is_text() {
    let (answer, end) = stream(plan(&[]), &[CALL], stopped());
    assert_eq!((answer.text.as_str(), answer.calls.len(), end.finish), (CALL, 0, Finish::Stop));
}

/// Case tp-016: what the gate held back is not lost.
#[test]
fn no_character_of_an_answer_is_lost() {
    let (answer, _) = stream(plan(&["f"]), &["  ", "Here is the answer: ", "it is forty-two."], stopped());
    assert_eq!(answer.text, "  Here is the answer: it is forty-two.");
    let (blank, _) = stream(plan(&["f"]), &["\n\n"], stopped());
    assert_eq!(blank.text, "\n\n");
}

/// Case tp-010: half a call is none, and the reply says what happened.
#[test]
fn a_call_that_is_cut_off_is_never_one() {
    let half = "Writing.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"path\": \"a.txt\", \"content\": \"hel";
    for (answer, end) in [
        stream(plan(&["f"]), &[half], FinishReason::Length),
        whole(plan(&["f"]), half, FinishReason::Length),
    ] {
        assert_eq!(
            (answer.prose().trim(), answer.calls.len(), &end.finish),
            ("Writing.", 0, &Finish::Length)
        );
        assert!(end.warnings[0].contains("incomplete call"), "{:?}", end.warnings);
    }
    // After a complete one as well: running only the first half of what was meant is no better.
    let (answer, end) = whole(plan(&["f"]), &format!("{CALL}\n{half}"), FinishReason::Length);
    assert_eq!((answer.calls.len(), end.finish), (1, Finish::Length));
    // Where the model itself stopped, its reader sees what it tried.
    let (answer, end) = whole(plan(&["f"]), half, stopped());
    assert!(answer.text.contains("<tool_call>"), "{answer:?}");
    assert_eq!((answer.calls.len(), end.finish), (0, Finish::Stop));
}

#[test]
fn one_call_at_a_time_ends_with_the_first() {
    let mut one = plan(&["f"]);
    if let Some(split) = &mut one.split {
        split.max_calls = Some(1);
    }
    let (answer, end) = stream(one, &[CALL, "\n", CALL, "More."], FinishReason::Cancelled);
    assert_eq!((answer.calls.len(), answer.text.as_str(), end.finish), (1, "", Finish::Calls));
}

/// Case rp-002: a closing mark alone.
#[test]
fn a_thought_without_a_beginning_shows_in_a_whole_answer() {
    let (answer, _) = whole(plan(&[]), "plan it\n</think>\n\nAnswer: 4", stopped());
    assert_eq!((answer.reasoning.trim(), answer.text.trim()), ("plan it", "Answer: 4"));
}

#[test]
fn hidden_thoughts_stay_hidden_and_unknown_names_are_told() {
    let mut hidden = plan(&["g"]);
    hidden.hide_reasoning = true;
    hidden.demanded = true;
    let (answer, end) = stream(hidden, &["<think>hm</think>", CALL], stopped());
    assert_eq!((answer.reasoning.as_str(), answer.calls.len()), ("", 1));
    assert!(end.warnings[0].contains("`f`, which was not offered"), "{:?}", end.warnings);
    let mut demanded = plan(&["f"]);
    demanded.demanded = true;
    let (_, end) = stream(demanded, &["No."], stopped());
    assert!(end.warnings[0].contains("made none"), "{:?}", end.warnings);
}

#[test]
fn raw_text_is_passed_on() {
    let raw = || Plan {
        split: None,
        calls: false,
        hide_reasoning: false,
        demanded: false,
    };
    let (answer, end) = stream(raw(), &["<think>", CALL], FinishReason::Length);
    assert_eq!((answer.text, end.finish), (format!("<think>{CALL}"), Finish::Length));
    assert_eq!(whole(raw(), "x", stopped()).0.text, "x");
}
