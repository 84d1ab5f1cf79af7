use super::*;
use crate::dialect::ask::{Ask, Defaults};
use dspark_protocol::{AnswerRule, Sampling, SamplingDefaults, TemplateOptions};
use proptest::prelude::*;
use serde_json::Map;
use std::collections::BTreeMap;

/// A minimal body with more fields.
fn body(more: &Value) -> Value {
    let mut map = Map::new();
    map.insert("messages".into(), json!([{"role": "user", "content": "hi"}]));
    map.extend(more.as_object().cloned().unwrap_or_default());
    Value::Object(map)
}

fn defaults() -> Defaults {
    Defaults {
        client: "test".into(),
        max_tokens: 2048,
        max_tokens_cap: 32_768,
        ..Defaults::default()
    }
}

fn parse(more: Value) -> Result<Ask, ApiError> {
    chat(&body(&more), &defaults())
}

fn options(chat: &Ask) -> &TemplateOptions {
    match &chat.request.prompt {
        Prompt::Chat { options, .. } => options,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_bare_request_is_greedy_with_the_servers_limit() {
    let chat = parse(json!({})).unwrap();
    assert_eq!(chat.request.sampling, Sampling::default());
    assert_eq!(
        (chat.request.max_tokens, chat.asked_max, chat.n, chat.stream),
        (2048, None, 1, false)
    );
    assert_eq!(chat.warnings, [] as [String; 0]);
}

#[test]
fn max_tokens_in_every_spelling() {
    for (more, asked, used) in [
        (json!({"max_tokens": 7}), Some(7), 7),
        (json!({"max_completion_tokens": 8}), Some(8), 8),
        (json!({"max_tokens": 7, "max_completion_tokens": 8}), Some(7), 7),
        (json!({"max_tokens": 0, "max_completion_tokens": 8}), Some(8), 8),
        (json!({"max_tokens": null}), None, 2048),
        (json!({"max_tokens": "9"}), Some(9), 9),
        (json!({"max_tokens": 9.0}), Some(9), 9),
        (json!({"max_tokens": "plenty"}), None, 2048),
        (json!({"max_tokens": -1}), None, 32_768),
        (json!({"max_tokens": 1_000_000}), Some(32_768), 32_768),
        (json!({"max_tokens": u64::MAX}), Some(32_768), 32_768),
    ] {
        let chat = parse(more.clone()).unwrap();
        assert_eq!((chat.asked_max, chat.request.max_tokens), (asked, used), "{more}");
    }
    for (more, param) in [
        (json!({"max_tokens": 5.5}), "max_tokens"),
        (json!({"max_tokens": "5.5"}), "max_tokens"),
        (json!({"max_tokens": true}), "max_tokens"),
        (json!({"max_tokens": [9]}), "max_tokens"),
        (json!({"max_tokens": 7, "max_completion_tokens": {}}), "max_completion_tokens"),
    ] {
        let error = parse(more.clone()).unwrap_err();
        assert_eq!((error.status.as_u16(), error.param.as_deref()), (400, Some(param)), "{more}");
        assert!(error.message.contains("whole number"), "{}", error.message);
    }
    let thinking = Defaults {
        thinks: true,
        ..defaults()
    };
    let chat = chat(&body(&json!({})), &thinking).unwrap();
    assert_eq!(chat.request.max_tokens, 32_768);
}

#[test]
fn the_request_beats_the_server_beats_the_checkpoint() {
    let server = SamplingDefaults {
        temperature: Some(0.5),
        top_p: None,
        top_k: Some(5),
    };
    let model = SamplingDefaults {
        temperature: Some(0.9),
        top_p: Some(0.8),
        top_k: Some(50),
    };
    let defaults = Defaults {
        sampling: [server, model],
        ..defaults()
    };
    let silent = chat(&body(&json!({"temperature": null})), &defaults).unwrap().request.sampling;
    assert_eq!((silent.temperature, silent.top_p, silent.top_k), (0.5, 0.8, 5));
    let spoken = chat(&body(&json!({"temperature": 0, "top_p": 1, "top_k": 0})), &defaults)
        .unwrap()
        .request
        .sampling;
    assert_eq!((spoken.temperature, spoken.top_p, spoken.top_k), (0.0, 1.0, 0));
}

#[test]
fn a_repetition_penalty_without_meaning_is_refused() {
    for name in ["repetition_penalty", "repeat_penalty"] {
        for bad in [json!(0), json!(-1.5), json!(10.5), json!(1e-300)] {
            let error = parse(json!({name: bad})).unwrap_err();
            assert_eq!((error.status.as_u16(), error.param.as_deref()), (400, Some(name)), "{bad}");
        }
        assert_eq!(parse(json!({name: 10})).unwrap().request.sampling.repetition_penalty, 10.0);
    }
}

#[test]
fn sampling_is_clamped_and_says_so() {
    let chat = parse(json!({
        "temperature": -1, "top_p": 0, "top_k": -1, "min_p": 2, "presence_penalty": 9, "frequency_penalty": -9,
        "repeat_penalty": 1.1, "seed": -1, "logit_bias": {"5": 200, "x": 1}, "n": 99
    }))
    .unwrap();
    let sampling = &chat.request.sampling;
    assert_eq!((sampling.temperature, sampling.top_k, sampling.min_p), (0.0, 0, 1.0));
    assert!(sampling.top_p > 0.0);
    assert_eq!((sampling.presence_penalty, sampling.frequency_penalty), (2.0, -2.0));
    assert_eq!((sampling.repetition_penalty, sampling.seed), (1.1, None));
    assert_eq!(sampling.logit_bias, BTreeMap::from([(5, 100.0)]));
    assert_eq!(chat.n, 8);
    for word in [
        "temperature",
        "min_p",
        "presence_penalty",
        "frequency_penalty",
        "logit_bias",
        "`n` 99",
    ] {
        assert!(
            chat.warnings.iter().any(|warning| warning.contains(word)),
            "{word}: {:?}",
            chat.warnings
        );
    }
}

#[test]
fn stops_of_any_number_and_kind() {
    let stop = |value: Value| parse(json!({ "stop": value })).map(|chat| chat.request.stop);
    assert_eq!(stop(json!("END")).unwrap(), ["END"]);
    assert_eq!(
        stop(json!(["a", "", 5, null, "b", "c", "d", "e"])).unwrap(),
        ["a", "5", "b", "c", "d", "e"]
    );
    assert_eq!(stop(json!(null)).unwrap(), [] as [&str; 0]);
    assert_eq!(stop(json!({})).unwrap_err().param.as_deref(), Some("stop"));
}

#[test]
fn logprobs_up_to_twenty() {
    let logprobs = |more: Value| parse(more).map(|chat| chat.request.logprobs);
    assert_eq!(logprobs(json!({"logprobs": true})).unwrap(), Some(0));
    assert_eq!(logprobs(json!({"logprobs": true, "top_logprobs": 20})).unwrap(), Some(20));
    assert_eq!(logprobs(json!({"logprobs": false})).unwrap(), None);
    assert_eq!(logprobs(json!({"top_logprobs": 3})).unwrap(), None);
    for bad in [
        json!({"logprobs": true, "top_logprobs": 21}),
        json!({"logprobs": true, "top_logprobs": -1}),
    ] {
        assert_eq!(logprobs(bad).unwrap_err().param.as_deref(), Some("top_logprobs"));
    }
}

#[test]
fn tools_reach_the_template_as_the_choice_says() {
    let tool = json!([{"type": "function", "function": {"name": "f"}}, {"type": "function", "function": {"name": "g"}}]);
    let told = |more: Value| {
        let ask = parse(more).unwrap();
        let names = options(&ask)
            .tools
            .iter()
            .filter_map(Tools::name_of)
            .map(str::to_owned)
            .collect::<Vec<_>>();
        (names, ask.tools.live(), ask.tools.parallel)
    };
    let both = || vec!["f".to_owned(), "g".to_owned()];
    assert_eq!(told(json!({ "tools": tool })), (both(), true, true));
    assert_eq!(told(json!({ "tools": tool, "parallel_tool_calls": false })), (both(), true, false));
    assert_eq!(told(json!({ "tools": tool, "tool_choice": "none" })), (vec![], false, true));
    assert_eq!(
        told(json!({ "tools": tool, "tool_choice": {"type": "function", "function": {"name": "g"}} })),
        (vec!["g".to_owned()], true, true)
    );
    assert_eq!(told(json!({ "tools": [{"type": "web_search"}] })), (vec![], false, true));
    assert_eq!(told(json!({ "functions": [{"name": "f"}] })), (vec!["f".to_owned()], true, false));
    assert_eq!(
        told(json!({ "functions": [{"name": "f"}], "function_call": "none" })),
        (vec![], false, false)
    );
    for (more, param) in [
        (json!({ "tool_choice": "required" }), "tool_choice"),
        (json!({ "tool_choice": "perhaps" }), "tool_choice"),
        (
            json!({ "tools": tool, "tool_choice": {"type": "function", "function": {"name": "h"}} }),
            "tool_choice",
        ),
        (json!({ "tools": [{"type": "function", "function": {}}] }), "tools[0].function.name"),
        (json!({ "tools": ["f"] }), "tools[0]"),
    ] {
        assert_eq!(parse(more.clone()).unwrap_err().param.as_deref(), Some(param), "{more}");
    }
}

/// A short default would cut a call in two; a demand is put to the model, which is then held to it.
#[test]
fn tools_lift_the_default_limit_and_demands_are_held_to() {
    let tool = json!([{"type": "function", "function": {"name": "f"}}]);
    let ask = parse(json!({ "tools": tool, "tool_choice": "required" })).unwrap();
    assert_eq!(ask.request.max_tokens, 32_768);
    let Prompt::Chat { messages, .. } = &ask.request.prompt else {
        panic!()
    };
    assert!(messages[0].content.contains("calling one of the functions"), "{messages:?}");
    assert_eq!(ask.request.constraint.as_ref().unwrap().answer, AnswerRule::Call);
    assert!(ask.warnings.is_empty(), "{:?}", ask.warnings);
    let skipped = parse(json!({ "tools": [{"type": "web_search"}] })).unwrap();
    assert!(skipped.warnings.iter().any(|warning| warning.contains("web_search")));
}

/// Cases ag-020 and ag-021: the schema is put to the model, which is then held to it.
#[test]
fn formats_are_held_to_and_unknown_ones_refused() {
    let error = parse(json!({"response_format": {"type": "jsno_schema"}})).unwrap_err();
    assert_eq!((error.status.as_u16(), error.param.as_deref()), (400, Some("response_format")));
    assert!(error.message.contains("jsno_schema"));
    let broken = json!({"response_format": {"type": "json_schema", "json_schema": {"schema": {"properties": {"a": {"type": 1}}}}}});
    let error = parse(broken).unwrap_err();
    assert_eq!((error.status.as_u16(), error.code), (400, Some("invalid_json_schema")));
    assert!(error.message.contains("`/properties/a/type`"), "{}", error.message);
    let schema = json!({"type": "object", "properties": {"ok": {"type": "boolean"}}});
    for (format, said, rule) in [
        (json!({"type": "json_object"}), "one JSON object", AnswerRule::Object),
        (
            json!({"type": "json_schema", "json_schema": {"name": "r", "schema": schema}}),
            "\"ok\"",
            AnswerRule::Schema(schema.clone()),
        ),
    ] {
        let ask = parse(json!({ "response_format": format })).unwrap();
        let Prompt::Chat { messages, .. } = &ask.request.prompt else {
            panic!()
        };
        assert!(messages[0].content.contains(said), "{messages:?}");
        assert_eq!(ask.request.constraint.as_ref().unwrap().answer, rule);
        assert!(ask.warnings.is_empty(), "{:?}", ask.warnings);
    }
    assert!(parse(json!({"response_format": {"type": "text"}})).unwrap().warnings.is_empty());
    assert!(parse(json!({"response_format": null})).is_ok());
}

#[test]
fn every_spelling_of_thinking() {
    for (more, thinking, effort) in [
        (
            json!({"enable_thinking": false, "chat_template_kwargs": {"enable_thinking": true}}),
            Some(false),
            None,
        ),
        (json!({"chat_template_kwargs": {"enable_thinking": true}}), Some(true), None),
        (json!({"thinking": {"type": "disabled"}}), Some(false), None),
        (json!({"thinking": {"type": "enabled", "budget_tokens": 100}}), Some(true), None),
        (json!({"reasoning": {"enabled": true, "effort": "HIGH"}}), Some(true), Some("high")),
        (json!({"reasoning_effort": "none"}), Some(false), None),
        (json!({"reasoning_effort": "minimal"}), None, Some("low")),
        (json!({"reasoning_effort": "max"}), None, Some("xhigh")),
        (json!({"thinking_budget": 0}), Some(false), None),
    ] {
        let chat = parse(more.clone()).unwrap();
        assert_eq!(options(&chat).enable_thinking, thinking, "{more}");
        assert_eq!(options(&chat).reasoning_effort.as_deref(), effort, "{more}");
    }
    assert_eq!(
        parse(json!({"reasoning_effort": "enormous"})).unwrap_err().param.as_deref(),
        Some("reasoning_effort")
    );
    let chat = parse(json!({"chat_template_kwargs": {"custom": 1, "messages": []}})).unwrap();
    assert_eq!(options(&chat).extra.get("custom"), Some(&json!(1)));
    assert!(!options(&chat).extra.contains_key("messages"));
}

#[test]
fn continuing_needs_an_assistant_turn_at_the_end() {
    let talk = json!([{"role": "user", "content": "x"}, {"role": "assistant", "content": "Once"}]);
    for more in [json!({"continue_final_message": true}), json!({"add_generation_prompt": false})] {
        assert_eq!(parse(more.clone()).unwrap_err().param.as_deref(), Some("continue_final_message"));
        let mut full = body(&more);
        full["messages"] = talk.clone();
        assert!(options(&chat(&full, &defaults()).unwrap()).continue_final_message);
    }
    let calls = json!([{"role": "user", "content": "x"}, {"role": "assistant", "content": null, "tool_calls": [
        {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]}]);
    let body = json!({"messages": calls, "continue_final_message": true});
    let ask = chat(&body, &defaults()).unwrap();
    assert!(!options(&ask).continue_final_message);
    assert!(
        ask.warnings.iter().any(|warning| warning.contains("ends with calls")),
        "{:?}",
        ask.warnings
    );
}

/// SillyTavern and pi send dozens of fields; none may fail, and those that ask for something are named.
#[test]
fn ignored_fields_never_fail_and_are_told() {
    let chat = parse(json!({
        "user": "u", "store": false, "metadata": {"a": 1}, "service_tier": "auto", "prediction": {"type": "content"},
        "prompt_cache_key": "k", "safety_identifier": "s", "modalities": ["text", "audio"], "audio": {"voice": "x"},
        "web_search_options": {}, "verbosity": "low", "logit_bias": [], "typical_p": 1.0, "dry_multiplier": 0,
        "dry_base": 1.75, "xtc_probability": 0.5, "mirostat_mode": 0, "brand_new_field": [1], "another": null
    }))
    .unwrap();
    let all = chat.warnings.join("\n");
    for told in [
        "audio",
        "verbosity",
        "xtc_probability",
        "typical_p",
        "modalities",
        "brand_new_field",
    ] {
        assert!(all.contains(told), "{told} in {all}");
    }
    for quiet in ["store", "web_search_options", "dry_", "mirostat", "another", "logit_bias"] {
        assert!(!all.contains(quiet), "{quiet} in {all}");
    }
}

#[test]
fn choices_of_a_sampled_request_differ_in_seed_only() {
    let chat = parse(json!({"n": 3, "temperature": 1, "seed": 7})).unwrap();
    assert_eq!([0, 1, 2].map(|index| chat.choice(index).sampling.seed), [Some(7), Some(8), Some(9)]);
    assert!(!chat.greedy());
    assert_eq!(parse(json!({"n": 2, "stream": true})).unwrap_err().param.as_deref(), Some("n"));
}

#[test]
fn wrong_kinds_name_the_field() {
    for (more, param) in [
        (json!({"temperature": "hot"}), "temperature"),
        (json!({"stream": "yes"}), "stream"),
        (json!({"seed": 1.5}), "seed"),
        (json!({"stream_options": true}), "stream_options"),
        (json!({"model": 5}), "model"),
        (json!({"chat_template_kwargs": []}), "chat_template_kwargs"),
        (json!({"tools": {}}), "tools"),
        (json!({"tool_choice": 1}), "tool_choice"),
        (json!({"parallel_tool_calls": "no"}), "parallel_tool_calls"),
    ] {
        let error = parse(more).unwrap_err();
        assert_eq!((error.status.as_u16(), error.param.as_deref()), (400, Some(param)));
    }
    assert_eq!(chat(&json!([]), &defaults()).unwrap_err().status.as_u16(), 400);
    assert_eq!(chat(&json!({}), &defaults()).unwrap_err().param.as_deref(), Some("messages"));
}

fn anything() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
        prop_oneof![
            "user",
            "system",
            "assistant",
            "tool",
            "text",
            "image_url",
            "function",
            "none",
            "data:text/plain;base64,"
        ]
        .prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        let key = prop_oneof![
            Just("role"),
            Just("content"),
            Just("type"),
            Just("text"),
            Just("file"),
            Just("file_data"),
            Just("tool_calls"),
            Just("function"),
            Just("arguments"),
            Just("effort"),
            Just("include_usage"),
            Just("x"),
        ]
        .prop_map(str::to_owned);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((key, inner), 0..6).prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
        ]
    })
}

const KNOWN: [&str; 30] = [
    "messages",
    "model",
    "stream",
    "stream_options",
    "max_tokens",
    "max_completion_tokens",
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "repetition_penalty",
    "repeat_penalty",
    "presence_penalty",
    "frequency_penalty",
    "stop",
    "seed",
    "n",
    "logprobs",
    "top_logprobs",
    "tools",
    "tool_choice",
    "functions",
    "function_call",
    "response_format",
    "chat_template_kwargs",
    "enable_thinking",
    "reasoning_effort",
    "reasoning",
    "thinking",
    "logit_bias",
];

proptest! {
    /// Whatever a field holds, the answer is a request within its bounds or a 400 that names a field.
    #[test]
    fn no_body_panics_or_escapes_its_bounds(
        talk in anything(),
        fields in prop::collection::vec((prop::sample::select(KNOWN.as_slice()), anything()), 0..8),
        good_talk in any::<bool>(),
    ) {
        let mut map = Map::new();
        map.extend(fields.into_iter().map(|(name, value)| (name.to_owned(), value)));
        let talk = if good_talk { json!([{"role": "user", "content": "hi"}]) } else { talk };
        map.insert("messages".into(), talk);
        match chat(&Value::Object(map), &defaults()) {
            Ok(chat) => {
                let sampling = &chat.request.sampling;
                prop_assert!((1..=32_768).contains(&chat.request.max_tokens));
                prop_assert!((1..=8).contains(&chat.n));
                prop_assert!(sampling.temperature.is_finite() && sampling.temperature >= 0.0);
                prop_assert!(sampling.top_p > 0.0 && sampling.top_p <= 1.0);
                prop_assert!((0.0..=1.0).contains(&sampling.min_p));
                prop_assert!(sampling.repetition_penalty > 0.0);
                prop_assert!(chat.request.logprobs.is_none_or(|count| count <= 20));
                prop_assert!(chat.request.stop.iter().all(|stop| !stop.is_empty()));
                prop_assert!(sampling.logit_bias.values().all(|bias| bias.is_finite()));
            }
            Err(error) => {
                prop_assert_eq!(error.status.as_u16(), 400);
                prop_assert!(!error.message.is_empty());
                prop_assert!(error.param.is_some());
            }
        }
    }

    /// Unknown fields are never an error.
    #[test]
    fn unknown_fields_never_fail(name in "[a-z_]{1,20}", value in anything()) {
        prop_assume!(!KNOWN.contains(&name.as_str()));
        prop_assume!(!["continue_final_message", "add_generation_prompt", "ignore_eos", "return_token_ids", "thinking_budget", "parallel_tool_calls"].contains(&name.as_str()));
        let mut more = Map::new();
        more.insert(name, value);
        prop_assert!(parse(Value::Object(more)).is_ok());
    }
}
