//! However a text is cut, the same comes out of it. (Text is cut between characters: the detokenizer never splits one.)

use super::{Output, joined, pieces, read, samples, slips, tools};
use dspark_text::output::{OutputSyntax, Piece, ReasoningSyntax, Splitter, SplitterOptions, ToolSyntax};
use proptest::prelude::*;

fn every_text() -> Vec<(SplitterOptions, &'static str)> {
    let good = samples::all().into_iter().map(|sample| (sample.options, sample.text));
    let sloppy = slips::all().into_iter().map(|(text, _)| (super::with_tools(), text));
    good.chain(sloppy).collect()
}

/// Complete calls alone: what is passed on while it is written may be taken back.
fn complete(pieces: Vec<Piece>) -> Output {
    read(pieces)
}

#[test]
fn in_two_at_every_place() {
    for eager in [false, true] {
        for (options, text) in every_text() {
            let options = SplitterOptions { eager, ..options };
            let whole = joined(pieces(&options, &[text]));
            for (at, _) in text.char_indices() {
                let (first, second) = text.split_at(at);
                let halves = pieces(&options, &[first, second]);
                if eager {
                    assert_eq!(complete(halves), complete(whole.clone()), "{first:?} {second:?}");
                } else {
                    assert_eq!(joined(halves), whole, "{first:?} {second:?}");
                }
            }
        }
    }
}

#[test]
fn character_by_character() {
    for eager in [false, true] {
        for (options, text) in every_text() {
            let options = SplitterOptions { eager, ..options };
            let characters: Vec<&str> = text.split("").collect();
            let one_by_one = pieces(&options, &characters);
            assert_eq!(complete(one_by_one.clone()), complete(pieces(&options, &[text])), "{text}");
            if !eager {
                assert_eq!(joined(one_by_one), joined(pieces(&options, &[text])), "{text}");
            }
        }
    }
}

/// Cut off anywhere, a text never gives a call that the whole does not give.
#[test]
fn a_beginning_gives_no_other_call() {
    for sample in samples::all() {
        for (at, _) in sample.text.char_indices() {
            let output = read(pieces(&sample.options, &[&sample.text[..at]]));
            assert!(output.calls.len() <= sample.expected.calls.len(), "{}", &sample.text[..at]);
            assert_eq!(output.calls, sample.expected.calls[..output.calls.len()], "{}", &sample.text[..at]);
            for mark in [
                "<tool_call>",
                "<|tool_call",
                "<function",
                "<atem",
                "<parameter",
                "<TOOLCALL",
                "<channel|",
                "<|message",
            ] {
                assert!(
                    sample.expected.calls.is_empty() || !output.text.contains(mark),
                    "{mark} leaks from {}",
                    &sample.text[..at]
                );
            }
        }
    }
}

/// Text in which everything happens.
fn soup() -> impl Strategy<Value = String> {
    let marks = [
        "<tool_call>",
        "</tool_call>",
        "<function=f>",
        "<function=",
        "</function>",
        "<parameter=id>",
        "</parameter>",
        "<think>",
        "</think>",
        "<|channel>thought\n",
        "<channel|>",
        "<|tool_call>",
        "call:f{",
        "<tool_call|>",
        "<|\"|>",
        "<|tool_call_start|>",
        "<|tool_call_end|>",
        "[f(id='a', when=1)]",
        "<|start|>",
        "<|message|>",
        "<|channel|>",
        "analysis",
        "commentary to=functions.f",
        " to=self",
        "<|end|>",
        "<|call|>",
        "<atem:function_calls>",
        "<atem:invoke name=\"f\">",
        "<atem:parameter name=\"id\">",
        "</atem:parameter>",
        "</atem:invoke>",
        "[TOOL_CALLS]",
        "[ARGS]",
        "<TOOLCALL>",
        "</TOOLCALL>",
        "<function name=\"f\">",
        "<param name=\"id\">",
        "</param>",
        "<![CDATA[",
        "]]>",
        "<|python_tag|>",
        "{\"name\": \"f\", \"arguments\": {",
        "\"id\": \"x\"",
        "}}",
        "{",
        "}",
        "[",
        "]",
        "(",
        ")",
        "\"",
        "'",
        "\\",
        "\\u",
        "d83d",
        ",",
        ":",
        "=",
        "`",
        "```json\n",
        "```",
        "None",
        "1e5",
        "-",
        " ",
        "\n",
        "\r\n",
        "é",
        "😊",
        "f",
        "<",
        ">",
        "|",
    ];
    let parts = prop::collection::vec(
        prop_oneof![6 => prop::sample::select(marks.to_vec()).prop_map(str::to_owned), 1 => "\\PC{0,6}"],
        0..24,
    );
    parts.prop_map(|parts| parts.concat())
}

fn any_options() -> impl Strategy<Value = SplitterOptions> {
    use ReasoningSyntax as R;
    let reasoning = prop::sample::select(vec![R::None, R::Think, R::ThoughtChannel, R::Recipients, R::Harmony]);
    let prompt = prop::sample::select(vec!["", "<think>\n", "<|start|>assistant", "<|channel>thought"]);
    let syntax = prop::sample::select(vec![None, Some(ToolSyntax::PlainJson)]);
    (reasoning, prompt, syntax, any::<bool>(), prop::option::of(1..3usize)).prop_map(
        |(reasoning, prompt, tools_syntax, eager, max_calls)| SplitterOptions {
            syntax: OutputSyntax {
                reasoning,
                tools: tools_syntax,
            },
            prompt: prompt.into(),
            tools: tools(),
            eager,
            max_calls,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_text_any_cuts(text in soup(), options in any_options(), cuts in prop::collection::vec(0..400usize, 0..6)) {
        let mut cuts: Vec<usize> = cuts.into_iter().filter(|cut| text.is_char_boundary(*cut)).collect();
        cuts.extend([0, text.len()]);
        cuts.sort_unstable();
        let chunks: Vec<&str> = cuts.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect();
        let cut = pieces(&options, &chunks);
        let whole = pieces(&options, &[&text]);
        if options.eager {
            // Aborted beginnings depend on the cuts; what may be executed and what is said does not.
            prop_assert_eq!(read(cut), read(whole));
        } else {
            prop_assert_eq!(joined(cut), joined(whole));
        }
    }

    #[test]
    fn arbitrary_text_does_no_harm(text in "\\PC*", options in any_options()) {
        let mut splitter = Splitter::new(options.clone());
        for character in text.split("") {
            splitter.push(character);
        }
        splitter.finish();
        Splitter::split(options, &text);
    }
}
