//! What models get wrong, and what must come of it all the same.

use super::{Output, call, pieces, read, split, with_tools};
use dspark_text::output::{Piece, Splitter, SplitterOptions};
use serde_json::{Value, json};

type Expected = (&'static str, Vec<(String, Value)>);

pub(crate) fn all() -> Vec<(&'static str, Expected)> {
    let tokyo = || vec![call("get_weather", json!({"city": "Tokyo"}))];
    let none = Vec::new;
    vec![
        // No closing mark.
        (
            "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Tokyo\"}}",
            ("", tokyo()),
        ),
        (
            "<tool_call>{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Tokyo\"}}\n<tool_call>{\"name\": \"q\", \"arguments\": {}}",
            ("", vec![tokyo().remove(0), call("q", json!({}))]),
        ),
        (
            "<tool_call>{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Tokyo\"}} Now I wait.",
            ("Now I wait.", tokyo()),
        ),
        (
            "<tool_call>\n<function=get_weather>\n<parameter=city>\nTokyo\n</parameter>\n</function>",
            ("", tokyo()),
        ),
        (
            "<tool_call>\n<function=get_weather>\n<parameter=city>\nTokyo\n</parameter>\n</tool_call>",
            ("", tokyo()),
        ),
        (
            "<tool_call>\n<function=get_weather>\n<parameter=city>\nTokyo\n</function>\n</tool_call>",
            ("", tokyo()),
        ),
        ("<|tool_call>call:get_weather{city:<|\"|>Tokyo<|\"|>}", ("", tokyo())),
        ("<|tool_call_start|>[get_weather(city=\"Tokyo\")]", ("", tokyo())),
        (
            "<atem:function_calls><atem:invoke name=\"get_weather\"><atem:parameter name=\"city\">Tokyo</atem:parameter></atem:invoke>",
            ("", tokyo()),
        ),
        // Brackets missing or too many.
        (
            "<tool_call>{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Tokyo\"}</tool_call>",
            ("", tokyo()),
        ),
        (
            "<tool_call>{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Tokyo\"}}}\n</tool_call>",
            ("", tokyo()),
        ),
        (
            "<TOOLCALL>[{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Tokyo\"}}</TOOLCALL>",
            ("", tokyo()),
        ),
        // Quotes, commas, words of Python.
        (
            "<tool_call>{'name': 'get_weather', 'arguments': {'city': 'Tokyo',},}</tool_call>",
            ("", tokyo()),
        ),
        (
            "<tool_call>{name: \"get_weather\", arguments: {city: \"Tokyo\"}}</tool_call>",
            ("", tokyo()),
        ),
        (
            "<tool_call>{\"name\": \"f\", \"arguments\": {\"on\": True, \"maybe\": None}}</tool_call>",
            ("", vec![call("f", json!({"on": true, "maybe": null}))]),
        ),
        (
            "<tool_call>{\"name\": \"w\", \"arguments\": {\"content\": \"say \"hi\" to it's\nneighbour \\d+\"}}</tool_call>",
            ("", vec![call("w", json!({"content": "say \"hi\" to it's\nneighbour \\d+"}))]),
        ),
        // Fences.
        (
            "<tool_call>\n```json\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Tokyo\"}}\n```\n</tool_call>",
            ("", tokyo()),
        ),
        (
            "<tool_call>```\n<function=get_weather>\n<parameter=city>\nTokyo\n</parameter>\n</function>\n</tool_call>",
            ("", tokyo()),
        ),
        // Other names for the same.
        (
            "<tool_call>{\"type\": \"function\", \"function\": {\"name\": \"get_weather\", \"arguments\": \"{\\\"city\\\": \\\"Tokyo\\\"}\"}}</tool_call>",
            ("", tokyo()),
        ),
        (
            "<tool_call>{\"name\": \"get_weather\", \"arguments\": \"{\\\"city\\\": \\\"Tokyo\\\"}\"}</tool_call>",
            ("", tokyo()),
        ),
        (
            "<tool_call>{\"name\": \"get_weather\", \"city\": \"Tokyo\"}</tool_call>",
            ("", tokyo()),
        ),
        (
            "<tool_call>{\"arguments\": {\"city\": \"Tokyo\"}, \"name\": \"functions.get_weather\"}</tool_call>",
            ("", tokyo()),
        ),
        (
            "<tool_call>\n<function=\"get_weather\">\n<parameter=\"city\">\nTokyo\n</parameter>\n</function>\n</tool_call>",
            ("", tokyo()),
        ),
        ("<|tool_call>get_weather{\"city\": \"Tokyo\"}<tool_call|>", ("", tokyo())),
        ("<|tool_call>call:get_weather{city:Tokyo}<tool_call|>", ("", tokyo())),
        // Values that do not fit stay what they are.
        (
            "<tool_call>{\"name\": \"f\", \"arguments\": {\"when\": \"soon\", \"on\": \"maybe\", \"ratio\": \"1/2\"}}</tool_call>",
            ("", vec![call("f", json!({"when": "soon", "on": "maybe", "ratio": "1/2"}))]),
        ),
        (
            "<tool_call>{\"name\": \"f\", \"arguments\": {\"when\": 5.0, \"ratio\": 2}}</tool_call>",
            ("", vec![call("f", json!({"when": 5, "ratio": 2}))]),
        ),
        // A tool that nobody declared is still called.
        (
            "<tool_call>{\"name\": \"rm\", \"arguments\": {}}</tool_call>",
            ("", vec![call("rm", json!({}))]),
        ),
        // Prose.
        ("The `<tool_call>` tag wraps JSON.", ("The `<tool_call>` tag wraps JSON.", none())),
        (
            "A <tool_call> block, then <function=web_search>. I need neither.",
            ("A <tool_call> block, then <function=web_search>. I need neither.", none()),
        ),
        (
            "Write `<tool_call>{\"name\": \"q\", \"arguments\": {}}</tool_call>` to call it.",
            (
                "Write `<tool_call>{\"name\": \"q\", \"arguments\": {}}</tool_call>` to call it.",
                none(),
            ),
        ),
        ("[Tool call: q]", ("[Tool call: q]", none())),
        (
            "Use q(content='x') or {\"name\": \"q\"}.",
            ("Use q(content='x') or {\"name\": \"q\"}.", none()),
        ),
        (
            "<tool_call>\nnot a call\n</tool_call>",
            ("<tool_call>\nnot a call\n</tool_call>", none()),
        ),
        (
            "<tool_call>{\"city\": \"Tokyo\"}</tool_call>",
            ("<tool_call>{\"city\": \"Tokyo\"}</tool_call>", none()),
        ),
        (
            "<|tool_call_start|>[f(when=now())]<|tool_call_end|>",
            ("<|tool_call_start|>[f(when=now())]<|tool_call_end|>", none()),
        ),
    ]
}

#[test]
fn slips_are_forgiven_and_prose_is_left_alone() {
    for (text, (answer, calls)) in all() {
        let expected = Output {
            text: answer.into(),
            calls,
            ..Output::default()
        };
        assert_eq!(split(&with_tools(), text), expected, "{text}");
    }
}

#[test]
fn a_call_that_is_cut_off_is_none() {
    for text in [
        "<tool_call>\n{\"name\": \"write\", \"arguments\": {\"path\": \"a.txt\", \"content\": \"hel",
        "<tool_call>\n{\"name\": \"write\", \"arguments\": {\"path\": \"a.txt\"}",
        "<tool_call>\n<function=write>\n<parameter=path>\na.txt\n</parameter>\n",
        "<function=write>\n<parameter=path>\na.t",
        "<|tool_call>call:write{path:<|\"|>a.txt<|\"|>,content:<|\"|>x",
        "<|tool_call_start|>[write(path='a.txt', ",
        "<atem:invoke name=\"write\"><atem:parameter name=\"path\">a.txt</atem:parameter>",
        "[TOOL_CALLS][{\"name\": \"write\", \"arguments\": {}}",
        "<tool_call>",
        "<tool_c",
    ] {
        let output = split(&with_tools(), &format!("On it. {text}"));
        assert_eq!(
            output,
            Output {
                text: "On it.".into(),
                unfinished: format!(" {text}"),
                ..Output::default()
            }
        );
    }
}

#[test]
fn arguments_are_passed_on_while_they_are_written() {
    let options = SplitterOptions {
        eager: true,
        ..with_tools()
    };
    let long = "line\n".repeat(400);
    let escaped = serde_json::to_string(&long).unwrap();
    let texts = [
        format!("<tool_call>\n{{\"name\": \"write\", \"arguments\": {{\"path\": \"a.txt\", \"content\": {escaped}}}}}\n</tool_call>"),
        format!(
            "<tool_call>\n<function=write>\n<parameter=path>\na.txt\n</parameter>\n<parameter=content>\n{long}\n</parameter>\n</function>\n</tool_call>"
        ),
        format!("<|tool_call>call:write{{path:<|\"|>a.txt<|\"|>,content:<|\"|>{long}<|\"|>}}<tool_call|>"),
        format!("<|tool_call_start|>[write(path='a.txt', content={escaped})]<|tool_call_end|>"),
        format!(
            "<atem:invoke name=\"write\"><atem:parameter name=\"path\">a.txt</atem:parameter><atem:parameter name=\"content\">{long}</atem:parameter></atem:invoke>"
        ),
    ];
    for text in texts {
        let mut splitter = Splitter::new(options.clone());
        let mut out = Vec::new();
        let mut halfway = None;
        for (place, character) in text.split("").enumerate() {
            out.extend(splitter.push(character));
            if place == text.len() / 2 {
                halfway = Some(out.clone());
            }
        }
        out.extend(splitter.finish());
        let early: String = halfway
            .unwrap()
            .into_iter()
            .filter_map(|piece| match piece {
                Piece::ToolArguments { fragment, .. } => Some(fragment),
                _ => None,
            })
            .collect();
        assert!(early.len() > text.len() / 3, "{early}");
        assert!(!out.iter().any(|piece| matches!(piece, Piece::ToolAborted { .. })), "{text}");
        assert_eq!(read(out).calls, [call("write", json!({"path": "a.txt", "content": long}))]);
    }
}

#[test]
fn what_was_passed_on_is_taken_back() {
    let options = SplitterOptions {
        eager: true,
        ..with_tools()
    };
    let text = "<tool_call>{\"name\": \"write\", \"arguments\": {\"path\": \"a.txt\", \"content\": \"hel";
    let pieces = pieces(&options, &text.split("").collect::<Vec<_>>());
    assert!(pieces.iter().any(|piece| matches!(piece, Piece::ToolArguments { .. })));
    assert!(pieces.contains(&Piece::ToolAborted { index: 0 }));
    assert!(!pieces.iter().any(|piece| matches!(piece, Piece::ToolEnd { .. })));
}

#[test]
fn one_call_only_where_one_is_wanted() {
    let options = SplitterOptions {
        max_calls: Some(1),
        ..with_tools()
    };
    let mut splitter = Splitter::new(options);
    let text =
        "<tool_call>{\"name\": \"q\", \"arguments\": {}}</tool_call>\n<tool_call>{\"name\": \"w\", \"arguments\": {}}</tool_call> more";
    let mut pieces = Vec::new();
    for character in text.split("") {
        pieces.extend(splitter.push(character));
    }
    assert!(splitter.is_done());
    pieces.extend(splitter.finish());
    assert_eq!(
        read(pieces),
        Output {
            calls: vec![call("q", json!({}))],
            ..Output::default()
        }
    );
}

#[test]
fn a_closing_mark_alone_tells_in_a_whole_text() {
    let pieces = Splitter::split(with_tools(), "I wonder.\n</think>\n\nAnswer");
    let expected = Output {
        reasoning: "I wonder.".into(),
        text: "Answer".into(),
        ..Output::default()
    };
    assert_eq!(read(pieces), expected);
    let prose = "The tag `</think>` closes.";
    assert_eq!(read(Splitter::split(with_tools(), prose)).text, prose);
}
