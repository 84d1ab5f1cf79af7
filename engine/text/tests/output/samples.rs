//! Good output in every syntax, with what must come of it.

use super::{Output, call, reasoning, split, with_tools};
use dspark_text::output::{OutputSyntax, ReasoningSyntax, SplitterOptions, ToolSyntax};
use serde_json::{Value, json};

pub(crate) struct Sample {
    pub(crate) name: &'static str,
    pub(crate) options: SplitterOptions,
    pub(crate) text: &'static str,
    pub(crate) expected: Output,
}

fn sample(name: &'static str, options: SplitterOptions, text: &'static str, told: [&str; 2], calls: Vec<(String, Value)>) -> Sample {
    let [reasoning, answer] = told.map(str::to_owned);
    Sample {
        name,
        options,
        text,
        expected: Output {
            reasoning,
            text: answer,
            calls,
            unfinished: String::new(),
        },
    }
}

fn inside(prompt: &str, options: SplitterOptions) -> SplitterOptions {
    SplitterOptions {
        prompt: prompt.into(),
        ..options
    }
}

#[expect(clippy::too_many_lines, reason = "a table")]
pub(crate) fn all() -> Vec<Sample> {
    let plain = SplitterOptions::default;
    let json_answers = || SplitterOptions {
        syntax: OutputSyntax {
            tools: Some(ToolSyntax::PlainJson),
            ..OutputSyntax::default()
        },
        ..with_tools()
    };
    let tokyo = || call("get_weather", json!({"city": "Tokyo"}));
    let todos = json!({"todos": [{"n": 1, "done": true}, {"n": 2, "done": false}], "tags": ["a", "b, {c}"]});
    vec![
        sample(
            "plain",
            with_tools(),
            "  Here is the answer: 2 < 3 [ok] {no} é😊.\n\n",
            ["", "  Here is the answer: 2 < 3 [ok] {no} é😊.\n\n"],
            vec![],
        ),
        sample("blank", with_tools(), "  \n", ["", "  \n"], vec![]),
        sample(
            "think",
            with_tools(),
            "<think>\nHm,\n\n so.\n</think>\n\nAnswer: <b>4</b>",
            ["Hm,\n\n so.", "Answer: <b>4</b>"],
            vec![],
        ),
        sample(
            "think, prefilled",
            inside("<|im_start|>assistant\n<think>\n", plain()),
            "plan it\n</think>\n\nAnswer: 4",
            ["plan it", "Answer: 4"],
            vec![],
        ),
        sample("think, empty", plain(), "<think>\n\n</think>\n\nHi", ["", "Hi"], vec![]),
        sample("think, cut off", plain(), "<think>on and on", ["on and on", ""], vec![]),
        sample(
            "think, later",
            plain(),
            "The tag <think> opens </think> closes.",
            ["", "The tag <think> opens </think> closes."],
            vec![],
        ),
        sample(
            "think, not opened",
            plain(),
            "Sure.\n</think>\n\nAnswer",
            ["", "Sure.\nAnswer"],
            vec![],
        ),
        sample(
            "thought channel",
            reasoning(ReasoningSyntax::ThoughtChannel),
            "<|channel>thought\nWhy.\n<channel|>Because.",
            ["Why.", "Because."],
            vec![],
        ),
        sample(
            "thought channel, empty",
            reasoning(ReasoningSyntax::ThoughtChannel),
            "<|channel>thought\n<channel|>Because.",
            ["", "Because."],
            vec![],
        ),
        sample(
            "recipients",
            inside("<|start|>assistant", reasoning(ReasoningSyntax::Recipients)),
            " to=self<|message|>Think.<|eom|><|start|>assistant to=user<|message|>Say < it.<|eom|>",
            ["Think.", "Say < it."],
            vec![],
        ),
        sample(
            "recipients, call",
            inside("<|start|>assistant", reasoning(ReasoningSyntax::Recipients)),
            " to=self<|message|>Call.<|eom|> to=get_weather<|message|><atem:function_calls>\n<atem:invoke name=\"get_weather\">\n<atem:parameter name=\"city\"> Tokyo </atem:parameter>\n<atem:parameter name=\"days\">3</atem:parameter>\n</atem:invoke>\n</atem:function_calls><|eom|>",
            ["Call.", ""],
            vec![call("get_weather", json!({"city": " Tokyo ", "days": 3}))],
        ),
        sample(
            "harmony",
            inside("<|start|>assistant", reasoning(ReasoningSyntax::Harmony)),
            "<|channel|>analysis<|message|>Think.<|end|><|start|>assistant<|channel|>commentary<|message|>I look.<|end|><|start|>assistant<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{\"city\": \"Tokyo\"}<|call|>",
            ["Think.", "I look."],
            vec![tokyo()],
        ),
        sample(
            "harmony, recipient first",
            inside("<|start|>assistant", reasoning(ReasoningSyntax::Harmony)),
            " to=functions.get_weather<|channel|>commentary json<|message|>{\"city\": \"Tokyo\"}",
            ["", ""],
            vec![tokyo()],
        ),
        sample(
            "harmony, final",
            inside("<|start|>assistant", reasoning(ReasoningSyntax::Harmony)),
            "<|channel|>final<|message|>Yes.<|return|>",
            ["", "Yes."],
            vec![],
        ),
        sample(
            "harmony, plain text",
            reasoning(ReasoningSyntax::Harmony),
            "No channels\nat all.",
            ["", "No channels\nat all."],
            vec![],
        ),
        sample(
            "hermes",
            with_tools(),
            "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Tokyo\"}}\n</tool_call>",
            ["", ""],
            vec![tokyo()],
        ),
        sample(
            "hermes, prose, two calls, thought",
            with_tools(),
            "<think>Both.</think>I look.\n\n<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Tokyo\"}}\n</tool_call>\n<tool_call>\n{\"name\": \"w\", \"arguments\": {\"content\": \"a </tool_call> b }</tool_call> \\\"c\\\" \\u00e9\\ud83d\\ude0a\"}}\n</tool_call>\n\nDone.",
            ["Both.", "I look.Done."],
            vec![tokyo(), call("w", json!({"content": "a </tool_call> b }</tool_call> \"c\" é😊"}))],
        ),
        sample(
            "hermes, typed",
            with_tools(),
            "<tool_call>{\"name\":\"f\",\"arguments\":{\"when\":\"5\",\"ratio\":\"0.5\",\"on\":\"True\",\"id\":7,\"tags\":\"[\\\"a\\\"]\",\"maybe\":null,\"either\":\"3\",\"todos\":[{\"n\":\"1\",\"done\":\"false\"}]}}</tool_call>",
            ["", ""],
            vec![call(
                "f",
                json!({"when": 5, "ratio": 0.5, "on": true, "id": "7", "tags": ["a"], "maybe": null, "either": 3, "todos": [{"n": 1, "done": false}]}),
            )],
        ),
        sample(
            "hermes, a list",
            with_tools(),
            "<tool_call>[{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Tokyo\"}}, {\"name\": \"q\"}]</tool_call>",
            ["", ""],
            vec![tokyo(), call("q", json!({}))],
        ),
        sample(
            "xml",
            with_tools(),
            "I write.\n<tool_call>\n<function=write>\n<parameter=path>\na b.txt\n</parameter>\n<parameter=content>\n\n  <div class=\"x\">a\\b</div>\nif a < b && </parameter> c {}\n\n</parameter>\n</function>\n</tool_call>",
            ["", "I write."],
            vec![call(
                "write",
                json!({"path": "a b.txt", "content": "\n  <div class=\"x\">a\\b</div>\nif a < b && </parameter> c {}\n"}),
            )],
        ),
        sample(
            "xml, typed, two",
            with_tools(),
            "<tool_call>\n<function=f>\n<parameter=when>\n5\n</parameter>\n<parameter=on>\ntrue\n</parameter>\n<parameter=id>\n007\n</parameter>\n<parameter=todos>\n[{\"n\": 1, \"done\": true}, {\"n\": 2, \"done\": \"false\"}]\n</parameter>\n<parameter=tags>\n[\"a\", \"b, {c}\"]\n</parameter>\n<parameter=maybe>\nnull\n</parameter>\n<parameter=either>\nnull\n</parameter>\n</function>\n</tool_call>\n<tool_call>\n<function=q>\n<parameter=n>\n12\n</parameter>\n<parameter=long>\n12 and more than thirty-two bytes of text\n</parameter>\n</function>\n</tool_call>",
            ["", ""],
            vec![
                call(
                    "f",
                    json!({"when": 5, "on": true, "id": "007", "todos": todos["todos"], "tags": todos["tags"], "maybe": null, "either": null}),
                ),
                call("q", json!({"n": 12, "long": "12 and more than thirty-two bytes of text"})),
            ],
        ),
        sample(
            "xml, bare",
            with_tools(),
            "<function=get_weather>\n<parameter=city>\nTokyo\n</parameter>\n</function>",
            ["", ""],
            vec![tokyo()],
        ),
        sample(
            "xml, no arguments",
            with_tools(),
            "<tool_call>\n<function=q>\n</function>\n</tool_call>",
            ["", ""],
            vec![call("q", json!({}))],
        ),
        sample(
            "function with JSON",
            with_tools(),
            "<function=get_weather>{\"city\": \"Tokyo\"}</function>",
            ["", ""],
            vec![tokyo()],
        ),
        sample(
            "minicpm",
            with_tools(),
            "<function name=\"write\"><param name=\"path\">a.txt</param><param name=\"content\"><![CDATA[<p>1 < 2</param></p>]]></param></function>\n<function name=\"get_weather\"><param name=\"city\">Tokyo</param><param name=\"days\"><![CDATA[2]]></param></function>",
            ["", ""],
            vec![
                call("write", json!({"path": "a.txt", "content": "<p>1 < 2</param></p>"})),
                call("get_weather", json!({"city": "Tokyo", "days": 2})),
            ],
        ),
        sample(
            "gemma",
            with_tools(),
            "<|tool_call>call:f{id:<|\"|>a, {b}: \"c\"<|\"|>,when:3,on:true,todos:[{n:1,done:true},{n:2,done:false}],tags:[<|\"|>a<|\"|>,<|\"|>b, {c}<|\"|>],maybe:null}<tool_call|><|tool_call>call:q{}<tool_call|>",
            ["", ""],
            vec![
                call(
                    "f",
                    json!({"id": "a, {b}: \"c\"", "when": 3, "on": true, "todos": todos["todos"], "tags": todos["tags"], "maybe": null}),
                ),
                call("q", json!({})),
            ],
        ),
        sample(
            "atem, bare",
            with_tools(),
            "<atem:invoke name=\"get_weather\"><atem:parameter name=\"city\">Tokyo</atem:parameter></atem:invoke>",
            ["", ""],
            vec![tokyo()],
        ),
        sample(
            "lfm2",
            with_tools(),
            "<|tool_call_start|>[get_weather(city='Tokyo'), f(when=3, on=True, maybe=None, tags=(\"a\", 'b, {c}'), todos=[{'n': 1, 'done': True}], id=\"it's \\\"x\\\"\"), get_weather(\"Oslo\", 2)]<|tool_call_end|>Checking.",
            ["", "Checking."],
            vec![
                tokyo(),
                call(
                    "f",
                    json!({"when": 3, "on": true, "maybe": null, "tags": ["a", "b, {c}"], "todos": [{"n": 1, "done": true}], "id": "it's \"x\""}),
                ),
                call("get_weather", json!({"city": "Oslo", "days": 2})),
            ],
        ),
        sample(
            "lfm2, JSON",
            with_tools(),
            "<|tool_call_start|>[{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Tokyo\"}}]<|tool_call_end|>",
            ["", ""],
            vec![tokyo()],
        ),
        sample(
            "minicpm4, python in a fence",
            with_tools(),
            "<|tool_call_start|>\n```python\nget_weather(city=\"Tokyo\")\nq()\n```\n<|tool_call_end|>",
            ["", ""],
            vec![tokyo(), call("q", json!({}))],
        ),
        sample(
            "nemotron",
            with_tools(),
            "<TOOLCALL>[{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Tokyo\"}}]</TOOLCALL>",
            ["", ""],
            vec![tokyo()],
        ),
        sample(
            "mistral, list",
            with_tools(),
            "[TOOL_CALLS][{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Tokyo\"}, \"id\": \"abc123def\"}]",
            ["", ""],
            vec![tokyo()],
        ),
        sample(
            "mistral, named",
            with_tools(),
            "[TOOL_CALLS]get_weather[ARGS]{\"city\": \"Tokyo\"}[TOOL_CALLS]q{}",
            ["", ""],
            vec![tokyo(), call("q", json!({}))],
        ),
        sample(
            "llama, plain JSON",
            json_answers(),
            "{\"name\": \"get_weather\", \"parameters\": {\"city\": \"Tokyo\"}}",
            ["", ""],
            vec![tokyo()],
        ),
        sample(
            "llama, an answer in JSON",
            json_answers(),
            "{\"city\": \"Tokyo\"}",
            ["", "{\"city\": \"Tokyo\"}"],
            vec![],
        ),
        sample(
            "llama, python tag",
            with_tools(),
            "<|python_tag|>{\"name\": \"get_weather\", \"parameters\": {\"city\": \"Tokyo\"}}; {\"name\": \"q\", \"parameters\": {}}",
            ["", ""],
            vec![tokyo(), call("q", json!({}))],
        ),
    ]
}

#[test]
fn every_syntax_is_read() {
    for sample in all() {
        assert_eq!(split(&sample.options, sample.text), sample.expected, "{}", sample.name);
    }
}

#[test]
fn without_tools_markup_is_text() {
    for sample in all().into_iter().filter(|sample| !sample.expected.calls.is_empty()) {
        let options = SplitterOptions {
            tools: vec![],
            ..sample.options
        };
        let output = split(&options, sample.text);
        assert_eq!((output.calls, output.unfinished), (vec![], String::new()), "{}", sample.name);
        assert!(!output.text.is_empty());
    }
}
