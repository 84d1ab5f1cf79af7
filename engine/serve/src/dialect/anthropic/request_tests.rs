use super::*;
use crate::dialect::effort::Levels;
use serde_json::json;

fn defaults() -> Defaults {
    Defaults {
        client: "test".into(),
        max_tokens: 2048,
        max_tokens_cap: 32_768,
        ..Defaults::default()
    }
}

fn parse(more: Value) -> Result<Ask, ApiError> {
    let mut body = json!({"max_tokens": 64, "messages": [{"role": "user", "content": "hi"}]});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    message(&body, &defaults())
}

fn options(ask: &Ask) -> &TemplateOptions {
    ask.options().unwrap()
}

/// A turn as Claude Code sends one, in our own words.
pub(crate) fn agent_turn(sum: &str) -> Value {
    json!({
        "model": "Qwen3-8B-8bit", "max_tokens": 64_000, "stream": true,
        "system": [
            {"type": "text", "text": format!("x-anthropic-billing-header: cc_version=2.1.216.a1b; cc_entrypoint=cli; cch={sum};")},
            {"type": "text", "text": "You are a coding agent.", "cache_control": {"type": "ephemeral"}},
            {"type": "text", "text": "Working directory: /home/me/ledger", "cache_control": {"type": "ephemeral"}}],
        "messages": [
            {"role": "user", "content": [
                {"type": "text", "text": "<system-reminder>today</system-reminder>"},
                {"type": "text", "text": "Fix the off-by-one in totals.py", "cache_control": {"type": "ephemeral"}}]},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "look first", "signature": "abc"},
                {"type": "tool_use", "id": "toolu_01A", "name": "Read", "input": {"file_path": "/home/me/ledger/totals.py"}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_01A", "content": [
                {"type": "text", "text": "1\tfor i in range(len(xs)-1):"}]}]},
            {"role": "system", "content": "Prefer Edit over Write."}],
        "tools": [
            {"name": "Read", "description": "Read a file", "input_schema": {"type": "object", "properties": {
                "file_path": {"type": "string"}, "limit": {"type": "integer"}}, "required": ["file_path"], "additionalProperties": false}},
            {"name": "Edit", "description": "Replace text", "defer_loading": false, "strict": true, "eager_input_streaming": true,
                "input_schema": {"type": "object", "properties": {"file_path": {"type": "string"}, "new_string": {"type": "string"}}}},
            {"type": "web_search_20250305", "name": "web_search", "max_uses": 5}],
        "thinking": {"type": "adaptive"}, "output_config": {"effort": "high"},
        "context_management": {"edits": [{"type": "clear_thinking_20251015"}]},
        "metadata": {"user_id": "user_0000_session_1111"}
    })
}

/// Conformance test 16: two bodies that differ in the checksum only give the same prompt.
#[test]
fn an_agents_turn_keeps_its_prompt_from_turn_to_turn() {
    let levels = Levels::for_test([true, true, false, true]);
    let defaults = Defaults {
        levels: Some(levels),
        ..defaults()
    };
    let one = message(&agent_turn("9f31c"), &defaults).unwrap();
    let two = message(&agent_turn("00000"), &defaults).unwrap();
    assert_eq!(one.request.prompt, two.request.prompt);
    let Prompt::Chat { messages, options } = &one.request.prompt else {
        panic!()
    };
    assert_eq!(messages[0].content, "You are a coding agent.\nWorking directory: /home/me/ledger");
    assert_eq!(
        options.reasoning_effort.as_deref(),
        Some("medium"),
        "`high` is mapped to what the template knows"
    );
    assert_eq!(options.enable_thinking, None);
    let names: Vec<_> = options.tools.iter().filter_map(Tools::name_of).collect();
    assert_eq!(names, ["Read", "Edit"]);
    assert!(messages.iter().all(|message| message.reasoning.is_none()));
    let late = messages.iter().position(|message| message.content.contains("Prefer Edit")).unwrap();
    assert!(messages[late].content.contains("<system-reminder>") && messages[late].role == Role::User);
    assert_eq!((one.request.max_tokens, one.stream), (32_768, true));
    let told = one.warnings.join(" ");
    assert!(told.contains("web_search_20250305") && !told.contains("unknown fields"), "{told}");
}

#[test]
fn thinking_is_switched_off_and_left_out() {
    let ask = parse(json!({"thinking": {"type": "disabled"}, "output_config": {"effort": "high"}})).unwrap();
    assert_eq!(
        (
            options(&ask).enable_thinking,
            options(&ask).reasoning_effort.as_deref(),
            ask.hide_reasoning
        ),
        (Some(false), None, true)
    );
    for kind in [json!({"type": "enabled", "budget_tokens": 1024}), json!({"type": "adaptive"})] {
        let ask = parse(json!({ "thinking": kind })).unwrap();
        assert_eq!((options(&ask).enable_thinking, ask.hide_reasoning), (None, false));
    }
    let ask = parse(json!({"output_config": {"effort": "colossal"}})).unwrap();
    assert_eq!(options(&ask).reasoning_effort, None);
    assert!(ask.warnings[0].contains("colossal"));
}

#[test]
fn choices_and_formats() {
    let tools = json!([{"name": "f", "input_schema": {"type": "object"}}, {"description": "no name"}]);
    let choice = |value: Value| parse(json!({"tools": tools, "tool_choice": value})).map(|ask| (ask.tools.choice, ask.tools.parallel));
    assert_eq!(
        choice(json!({"type": "auto", "disable_parallel_tool_use": true})).unwrap(),
        (Choice::Auto, false)
    );
    assert_eq!(choice(json!({"type": "any"})).unwrap(), (Choice::Required, true));
    assert_eq!(choice(json!({"type": "tool", "name": "f"})).unwrap().0, Choice::Named("f".into()));
    assert_eq!(choice(json!({"type": "none"})).unwrap().0, Choice::None);
    // The nameless one is skipped, so a name that is not offered might have been its: the turn goes on.
    assert_eq!(choice(json!({"type": "tool", "name": "g"})).unwrap().0, Choice::Auto);
    for bad in [json!({"type": "tool"}), json!({"type": "perhaps"}), json!("auto")] {
        assert_eq!(choice(bad).unwrap_err().param.as_deref(), Some("tool_choice"));
    }
    let schema = json!({"type": "object", "properties": {"title": {"type": "string"}}});
    for more in [
        json!({"output_config": {"format": {"type": "json_schema", "schema": schema}}}),
        json!({"output_format": {"type": "json_schema", "schema": schema}}),
    ] {
        let ask = parse(more).unwrap();
        let Prompt::Chat { messages, .. } = &ask.request.prompt else {
            panic!()
        };
        assert!(messages[0].content.contains("\"title\""));
        assert_eq!(
            ask.request.constraint.as_ref().unwrap().answer,
            dspark_protocol::AnswerRule::Schema(schema.clone())
        );
        assert!(ask.warnings.is_empty(), "{:?}", ask.warnings);
    }
    assert!(parse(json!({"output_config": {"format": {"type": "poem"}}})).unwrap().warnings[0].contains("poem"));
}

#[test]
fn a_last_assistant_turn_is_continued_unless_it_called() {
    let talk = |last: Value| {
        message(
            &json!({"max_tokens": 5, "messages": [{"role": "user", "content": "x"}, last]}),
            &defaults(),
        )
        .unwrap()
    };
    assert!(options(&talk(json!({"role": "assistant", "content": "Once"}))).continue_final_message);
    assert!(!options(&talk(json!({"role": "user", "content": "y"}))).continue_final_message);
}

#[test]
fn limits_and_stops() {
    assert_eq!(parse(json!({"max_tokens": 0})).unwrap().request.max_tokens, 32_768);
    assert_eq!(parse(json!({"max_tokens": 1_000_000})).unwrap().request.max_tokens, 32_768);
    assert_eq!(parse(json!({"stop_sequences": ["a", "", null]})).unwrap().request.stop, ["a"]);
    assert_eq!(
        parse(json!({"stop_sequences": {}})).unwrap_err().param.as_deref(),
        Some("stop_sequences")
    );
    assert_eq!(parse(json!({"messages": []})).unwrap_err().param.as_deref(), Some("messages"));
    let told = parse(json!({"novel": 1, "service_tier": "auto"})).unwrap().warnings.join(" ");
    assert!(told.contains("novel") && !told.contains("service_tier"), "{told}");
}
