//! Where the grammar holds: behind the reasoning, in calls, beside an answer that the prompt has begun.
#![allow(clippy::unwrap_used)]

mod common;

use common::{EOS, THINK, accepts, bytes, compiled, matcher, syntax, thinking, tokens, tools};
use dspark_grammar::{GrammarError, Start, compile};
use dspark_protocol::{AnswerRule, Constraint, ToolSyntax};
use serde_json::{Value, json};

fn yes_or_no() -> Constraint {
    Constraint::schema(
        json!({"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"], "additionalProperties": false}),
    )
}

fn weather() -> (&'static str, Value) {
    let schema = json!({"type": "object", "properties": {"city": {"$ref": "#/$defs/c"}, "days": {"type": "integer", "maximum": 9}}, "required": ["city"],
                        "additionalProperties": false, "$defs": {"c": {"enum": ["Paris", "Zürich"]}}});
    ("get_weather", schema)
}

fn offered() -> [(&'static str, Value); 2] {
    [
        weather(),
        ("get", json!({"type": "object", "properties": {"a": {"type": "string"}}})),
    ]
}

#[test]
fn reasoning_is_free_and_the_answer_is_not() {
    let grammar = compiled(&yes_or_no());
    let answers = |start: &Start<'_>, text: &str| accepts(&mut grammar.matcher(start), &tokens(text));
    let inside = thinking("<think>\n");
    assert!(answers(&inside, "the \"city\" is {} not </b></think>\n\n{\"ok\": true}"));
    assert!(answers(&inside, "</think>{\"ok\": true}"));
    assert!(!answers(&inside, "the city"));
    assert!(!answers(&inside, "x</think>\n\nYes: {\"ok\": true}"));
    assert!(!answers(&inside, "x</think>\n\n\n\n\n\n{\"ok\": true}"));
    // It has to come to an answer.
    let mut matcher = grammar.matcher(&inside);
    assert!(!matcher.mask().unwrap().allows(EOS) && !matcher.has_begun());
    // A model that opens its reasoning by itself may, and need not.
    let open = thinking("assistant\n");
    let mut matcher = grammar.matcher(&open);
    let mask = matcher.mask().unwrap();
    assert!(mask.allows(THINK) && mask.allows(u32::from(b'{')) && !mask.allows(u32::from(b'a')));
    let thought = [vec![THINK], tokens("the</think>\n\n{\"ok\": false}")].concat();
    assert!(accepts(&mut grammar.matcher(&open), &thought));
    assert!(answers(&open, "{\"ok\": false}"));
    // Not again, and not where it is off.
    assert!(!accepts(&mut grammar.matcher(&open), &[thought.clone(), vec![THINK]].concat()));
    let off = thinking("<think>\n\n</think>\n\n");
    assert!(!grammar.matcher(&off).mask().unwrap().allows(THINK));
}

#[test]
fn an_answer_that_the_prompt_has_begun_goes_on() {
    let grammar = compiled(&yes_or_no());
    let begun = |text| Start {
        begun: text,
        ..Start::default()
    };
    assert!(accepts(&mut grammar.matcher(&begun("{\"ok\":")), &tokens(" true}")));
    assert!(!accepts(&mut grammar.matcher(&begun("{\"ok\":")), &tokens("{\"ok\": true}")));
    let other = grammar.matcher(&begun("Sure: "));
    assert!(other.warning().unwrap().contains("the beginning of the answer"));
}

#[test]
fn a_demanded_call_is_a_call_with_arguments_that_follow_the_schema() {
    let one = tools(AnswerRule::Call, &offered(), false);
    let accepts_one = |text: &str| accepts(&mut matcher(&one), &tokens(text)) && accepts(&mut matcher(&one), &bytes(text));
    assert!(accepts_one(
        "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\", \"days\": 3}}\n</tool_call>"
    ));
    assert!(accepts_one("<tool_call>{\"name\": \"get\", \"arguments\": {}}</tool_call>"));
    for bad in [
        "Paris",
        "<tool_call>\n{\"name\": \"rm\", \"arguments\": {}}\n</tool_call>",
        "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Rome\"}}\n</tool_call>",
        "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {}}\n</tool_call>",
        "<tool_call>\n{\"name\": \"get\", \"arguments\": {}}\n</tool_call>\n<tool_call>\n{\"name\": \"get\", \"arguments\": {}}\n</tool_call>",
    ] {
        assert!(!accepts_one(bad), "{bad}");
    }
    let many = tools(AnswerRule::Call, &offered(), true);
    let two = "<tool_call>\n{\"name\": \"get\", \"arguments\": {}}\n</tool_call>\n<tool_call>\n{\"name\": \"get\", \"arguments\": {}}\n</tool_call>";
    assert!(accepts(&mut matcher(&many), &tokens(two)));
}

#[test]
fn text_is_free_until_a_call_is_opened() {
    let constraint = tools(AnswerRule::Free, &[weather()], true);
    let accepts_free = |text: &str| accepts(&mut matcher(&constraint), &tokens(text));
    assert!(accepts_free("the <tool is \"Paris\"} </tool_call>"));
    assert!(accepts_free(
        "the\n<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\"}}\n</tool_call>\nand the"
    ));
    assert!(!accepts_free(
        "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Rome\"}}\n</tool_call>"
    ));
    // Half a call is no end.
    assert!(!accepts_free("<tool_call>\n{\"name\": \"get_weather\""));
    let once = tools(AnswerRule::Free, &[weather()], false);
    let call = "<tool_call>{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\"}}</tool_call>";
    let mut state = matcher(&once);
    assert!(accepts(&mut state, &tokens(call)) && state.is_complete());
}

#[test]
fn an_answer_in_a_schema_may_be_a_call_instead() {
    let AnswerRule::Schema(schema) = yes_or_no().answer else {
        unreachable!()
    };
    let both = tools(AnswerRule::Schema(schema), &offered(), false);
    assert!(accepts(&mut matcher(&both), &tokens("{\"ok\": true}")));
    assert!(accepts(
        &mut matcher(&both),
        &tokens("<tool_call>{\"name\": \"get\", \"arguments\": {\"a\": \"abc\"}}</tool_call>")
    ));
    assert!(!accepts(&mut matcher(&both), &tokens("{\"ok\": 1}")));
}

#[test]
fn other_json_forms_of_calls_are_held_too() {
    for (form, good, bad) in [
        (
            ToolSyntax::Mistral,
            "[TOOL_CALLS][{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\"}}]",
            "[TOOL_CALLS][]",
        ),
        (
            ToolSyntax::Nemotron,
            "<TOOLCALL>[{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\"}}]</TOOLCALL>",
            "<TOOLCALL>[{\"name\": \"get_weather\", \"arguments\": {\"city\": 1}}]</TOOLCALL>",
        ),
        (
            ToolSyntax::PlainJson,
            "{\"name\": \"get_weather\", \"parameters\": {\"city\": \"Paris\"}}",
            "{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\"}}",
        ),
    ] {
        let grammar = syntax(form, &tools(AnswerRule::Call, &offered(), true));
        assert!(accepts(&mut grammar.matcher(&Start::default()), &tokens(good)), "{good}");
        assert!(!accepts(&mut grammar.matcher(&Start::default()), &tokens(bad)), "{bad}");
    }
}

/// Agents cannot repair the schemas of their tools: nothing about them is refused.
#[test]
fn tools_with_broken_schemas_are_told_and_stay_callable() {
    let broken = [
        ("a", json!({"type": "objekt"})),
        ("b", json!({"type": "object", "properties": {"x": {"$ref": "#/$defs/none"}}})),
        (
            "c",
            json!({"type": "object", "properties": {"x": {"type": "integer", "minimum": 3, "maximum": 2}}, "required": ["x"]}),
        ),
        ("d", json!([])),
    ];
    let grammar = compiled(&tools(AnswerRule::Call, &broken, true));
    for name in ["a", "b", "c", "d"] {
        let told = grammar.warnings().iter().any(|warning| warning.contains(&format!("`{name}`")));
        assert!(told, "{name}: {:?}", grammar.warnings());
        let text = format!("<tool_call>{{\"name\": \"{name}\", \"arguments\": {{\"x\": 5}}}}</tool_call>");
        assert!(accepts(&mut grammar.matcher(&Start::default()), &tokens(&text)), "{name}");
    }
    let harmony = compile(
        common::vocabulary(),
        &tools(AnswerRule::Call, &offered(), true),
        Some(ToolSyntax::Harmony),
    );
    assert_eq!(harmony.err(), Some(GrammarError::NoCallForm));
}
