//! Masks are as wide as the schema, and no wider.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Dice, EOS, NONE, accepts, bytes, compiled, matcher, schema, tokens, vocabulary, walk};
use dspark_grammar::{GrammarError, Start, compile, testing::fault};
use dspark_protocol::Constraint;
use serde_json::{Value, json};

/// Schemas, each with documents that follow it and documents that do not.
fn cases() -> Vec<(Value, Vec<Value>, Vec<&'static str>)> {
    vec![
        (
            json!({"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"], "additionalProperties": false}),
            vec![json!({"ok": true}), json!({"ok": false})],
            vec!["{}", "{\"ok\": 1}", "{\"ok\": true, \"x\": 1}", "true", "{\"ok\": true} "],
        ),
        (
            json!({"type": "object", "properties": {"city": {"enum": ["Paris", "Zürich", "日本"]}, "n": {"type": "integer", "minimum": 3, "maximum": 12}},
                   "required": ["city", "n"], "additionalProperties": false}),
            vec![json!({"city": "Zürich", "n": 3}), json!({"city": "日本", "n": 12})],
            vec![
                "{\"city\": \"Rome\", \"n\": 3}",
                "{\"city\": \"Paris\", \"n\": 13}",
                "{\"city\": \"Paris\", \"n\": 2}",
            ],
        ),
        (
            json!({"type": "array", "items": {"type": "string", "maxLength": 4}, "minItems": 1, "maxItems": 3}),
            vec![json!(["ab"]), json!(["", "é", "abcd"])],
            vec!["[]", "[\"abcde\"]", "[\"a\",\"b\",\"c\",\"d\"]", "[1]"],
        ),
        (
            json!({"type": "object", "properties": {"tree": {"$ref": "#/$defs/node"}}, "required": ["tree"], "additionalProperties": false,
                   "$defs": {"node": {"type": "object", "properties": {"v": {"type": "number"}, "kids": {"type": "array", "items": {"$ref": "#/$defs/node"}, "maxItems": 2}},
                             "required": ["v"], "additionalProperties": false}}}),
            vec![
                json!({"tree": {"v": 1.5}}),
                json!({"tree": {"v": -1, "kids": [{"v": 0, "kids": []}, {"v": 2}]}}),
            ],
            vec!["{\"tree\": {\"kids\": []}}", "{\"tree\": {\"v\": 1, \"kids\": [1]}}"],
        ),
        (
            json!({"anyOf": [{"type": "null"}, {"type": "string", "pattern": "^[ab]{2}[0-9]$"}, {"type": "object", "properties": {"a": {"const": 5}}, "required": ["a"]}]}),
            vec![json!(null), json!("ab1"), json!({"a": 5}), json!({"a": 5, "more": [{"x": null}]})],
            vec!["\"abc\"", "{\"a\": 6}", "{}", "1"],
        ),
        (
            json!({"oneOf": [{"type": "object", "properties": {"kind": {"const": "a"}, "x": {"type": "string"}}, "required": ["kind", "x"], "additionalProperties": false},
                             {"type": "object", "properties": {"kind": {"const": "b"}, "y": {"type": "boolean"}}, "required": ["kind", "y"], "additionalProperties": false}]}),
            vec![json!({"kind": "a", "x": "\"quoted\"\n"}), json!({"kind": "b", "y": false})],
            vec!["{\"kind\": \"a\", \"y\": false}", "{\"kind\": \"c\"}"],
        ),
        (
            json!({"allOf": [{"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}, {"properties": {"b": {"type": "string", "format": "date"}}, "required": ["b"]}]}),
            vec![json!({"a": 1, "b": "2026-02-28"})],
            vec!["{\"a\": 1}", "{\"a\": 1, \"b\": \"2026-13-01\"}"],
        ),
        (
            json!({"type": "array", "prefixItems": [{"type": "string"}, {"type": ["integer", "null"]}], "items": {"type": "boolean"}, "minItems": 2}),
            vec![json!(["a", 1]), json!(["a", null, true, false])],
            vec!["[\"a\"]", "[1, 1]", "[\"a\", 1, 2]"],
        ),
        (
            json!({"type": "object", "additionalProperties": {"type": "integer"}, "minProperties": 1}),
            vec![json!({"x": 1, "y": 2})],
            vec!["{\"x\": \"y\"}"],
        ),
        (
            json!({"type": "number", "exclusiveMinimum": 0, "maximum": 1}),
            vec![json!(0.5), json!(1)],
            vec!["0", "1.5", "-1"],
        ),
        (json!({"type": "integer", "multipleOf": 5}), vec![json!(10), json!(-15)], vec!["7"]),
        (json!(true), vec![json!(null), json!([1, {"a": []}])], vec!["nul", "{"]),
    ]
}

#[test]
fn documents_are_told_from_others_however_they_are_cut_and_laid_out() {
    for (rules, good, bad) in cases() {
        let grammar = schema(&rules);
        assert_eq!(grammar.warnings(), [""; 0], "{rules}");
        let fresh = || grammar.matcher(&Start::default());
        for value in good {
            assert_eq!(fault(&value, &rules, &rules), None, "the case itself: {rules}");
            let spaced = value.to_string().replace("\":", "\": ").replace(",\"", ", \"");
            for text in [value.to_string(), spaced, serde_json::to_string_pretty(&value).unwrap()] {
                assert!(accepts(&mut fresh(), &tokens(&text)), "{rules}\n{text}");
                assert!(accepts(&mut fresh(), &bytes(&text)), "{rules}\n{text}");
            }
        }
        for text in bad {
            assert!(!accepts(&mut fresh(), &tokens(text)), "{rules}\n{text}");
            assert!(!accepts(&mut fresh(), &bytes(text)), "{rules}\n{text}");
        }
    }
}

/// Whatever is drawn from the masks is JSON that follows the schema.
#[test]
fn random_walks_come_to_valid_documents() {
    let mut finished = 0;
    for (rules, ..) in cases() {
        let grammar = schema(&rules);
        for seed in 0..40 {
            let mut matcher = grammar.matcher(&Start::default());
            let Some((text, _)) = walk(&mut matcher, &mut Dice(seed), 30, 400) else {
                continue;
            };
            let text = String::from_utf8(text).unwrap();
            let value: Value = match serde_json::from_str(&text) {
                Ok(value) => value,
                // JSON knows no largest number; this reader does.
                Err(error) if error.to_string().contains("out of range") => continue,
                Err(error) => panic!("{rules}\n{text}\n{error}"),
            };
            assert_eq!(fault(&value, &rules, &rules), None, "{rules}\n{text}");
            finished += 1;
        }
    }
    assert!(finished > 300, "{finished}");
}

/// White space between the parts has an end: a model that knows nothing else to say must come to the point.
#[test]
fn white_space_is_bounded() {
    let mut matcher = matcher(&Constraint::object());
    matcher.accept(u32::from(b'{')).unwrap();
    matcher.accept(u32::from(b'\n')).unwrap();
    for _ in 0..40 {
        if !matcher.mask().unwrap().allows(u32::from(b' ')) {
            assert!(matcher.mask().unwrap().allows(u32::from(b'"')));
            return;
        }
        matcher.accept(u32::from(b' ')).unwrap();
    }
    panic!("spaces have no end");
}

#[test]
fn the_end_comes_exactly_where_the_document_is_complete() {
    let mut open = matcher(&Constraint::schema(json!({"type": "integer"})));
    assert!(!open.mask().unwrap().allows(EOS));
    open.accept(u32::from(b'1')).unwrap();
    // More digits may come, or the end.
    assert!(open.mask().unwrap().allows(EOS) && !open.is_complete());
    let mut closed = matcher(&Constraint::object());
    for token in tokens("{}") {
        assert!(!closed.is_complete());
        closed.accept(token).unwrap();
    }
    assert!(closed.is_complete());
    let mask = closed.mask().unwrap();
    assert_eq!(mask.count(common::SIZE), 1);
    assert!(mask.allows(EOS) && !mask.allows(NONE));
    closed.accept(EOS).unwrap();
    assert!(closed.is_complete());
}

#[test]
fn expressions_and_grammars_are_held_as_well() {
    let mut dates = matcher(&Constraint::regex("[0-9]{4}-[0-9]{2}"));
    assert!(accepts(&mut dates, &bytes("2026-11")));
    assert!(!accepts(&mut matcher(&Constraint::regex("yes|no")), &bytes("maybe")));
    let lark = Constraint {
        answer: dspark_protocol::AnswerRule::Lark("start: \"a\" (\"b\" \"c\")* \"!\"".into()),
        calls: None,
    };
    assert!(accepts(&mut matcher(&lark), &bytes("abcbc!")));
    assert!(!accepts(&mut matcher(&lark), &bytes("ab!")));
}

#[test]
fn what_is_wrong_is_refused_and_what_is_only_hard_is_told() {
    let refused = |constraint: Constraint| compile(vocabulary(), &constraint, None).err().unwrap();
    assert!(matches!(refused(Constraint::schema(json!({"type": "objet"}))), GrammarError::Schema { at, .. } if at == "/type"));
    for nothing in [
        json!(false),
        json!({"type": "integer", "minimum": 5, "maximum": 4}),
        json!({"enum": ["a"], "type": "integer"}),
        json!({"$ref": "#"}),
    ] {
        let error = refused(Constraint::schema(nothing.clone()));
        assert!(matches!(error, GrammarError::Unsatisfiable(_)), "{nothing}: {error}");
    }
    assert!(matches!(refused(Constraint::regex("(")), GrammarError::Grammar { .. }));
    // A keyword that is not enforced, and a pattern that cannot be, leave the rest in force.
    let grammar = schema(&json!({"type": "array", "items": {"type": "string", "pattern": "^(?=a)b"}, "uniqueItems": true, "maxItems": 1}));
    let told = grammar.warnings().join("\n");
    assert!(told.contains("/uniqueItems") && told.contains("/items/pattern"), "{told}");
    let mut matcher = grammar.matcher(&Start::default());
    assert!(!accepts(&mut matcher, &bytes("[\"a\",\"b\"]")));
    // What is too much for the limits is held to its type, in time.
    let hard = |n: usize| json!({"type": "string", "pattern": format!("(a|b|c)*{n}(a|b){{200}}")});
    let began = std::time::Instant::now();
    let flat: Vec<Value> = (0..40).map(hard).collect();
    let nested = (0..40).map(hard).reduce(|inner, outer| json!({"allOf": [inner, outer]})).unwrap();
    for branches in [flat, vec![nested]] {
        let grammar = compiled(&Constraint::schema(
            json!({"type": "object", "properties": {"x": {"allOf": branches}}}),
        ));
        assert!(!grammar.warnings().is_empty());
        let mut matcher = grammar.matcher(&Start::default());
        assert!(accepts(&mut matcher, &bytes("{}")));
        assert!(!accepts(&mut grammar.matcher(&Start::default()), &bytes("[]")));
    }
    assert!(began.elapsed().as_secs() < 30, "{:?}", began.elapsed());
}

#[test]
fn a_grammar_is_compiled_once() {
    let rules = json!({"type": "object", "properties": {"once": {"type": "string"}}});
    let (first, second) = (schema(&rules), schema(&rules));
    assert!(first.same(&second));
    assert!(!first.same(&schema(&json!({"type": "object"}))));
}
