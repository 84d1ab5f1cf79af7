use super::*;

fn parse(body: Value) -> Result<ResponseAsk, ApiError> {
    let defaults = Defaults {
        client: "test".into(),
        max_tokens: 2048,
        max_tokens_cap: 32_768,
        ..Defaults::default()
    };
    response(&body, &defaults)
}

fn told(ask: &ResponseAsk) -> Vec<String> {
    let options = ask.ask.options().unwrap();
    options.tools.iter().filter_map(Tools::name_of).map(str::to_owned).collect()
}

/// Case ag-006.
#[test]
fn every_kind_of_tool_is_offered_or_left_out_never_refused() {
    let ask = parse(json!({"model": "local", "input": "hi", "tools": [
        {"type": "function", "name": "shell", "parameters": {"type": "object", "properties": {"cmd": {"type": "string"}}}},
        {"type": "web_search"}, {"type": "image_generation"}, {"type": "tool_search"},
        {"type": "custom", "name": "apply_patch", "format": {"type": "grammar", "syntax": "lark", "definition": "start: /.+/"}},
        {"type": "namespace", "name": "mcp__fs", "tools": [{"type": "function", "name": "read", "parameters": {"type": "object"}}]},
        {"type": "function", "function": {"name": "nested"}}, {"type": "function"}]}))
    .unwrap();
    assert_eq!(told(&ask), ["shell", "apply_patch", "mcp__fs__read", "nested"]);
    assert_eq!(ask.ask.tools.aliases.get("apply_patch"), Some(&Alias::Custom));
    let patch = &ask.ask.options().unwrap().tools[1]["function"];
    assert!(patch["description"].as_str().unwrap().contains("start: /.+/"));
    assert_eq!(patch["parameters"]["required"], json!(["input"]));
    let warnings = ask.ask.warnings.join(" ");
    assert!(
        warnings.contains("web_search") && warnings.contains("image_generation"),
        "{warnings}"
    );
}

/// The twelve fields that Codex sends, in our own words.
#[test]
fn an_agents_turn() {
    let ask = parse(json!({"model": "Qwen3-8B-8bit", "instructions": "You are an agent.", "input": [
            {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "<permissions>write</permissions>"}]},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "<environment>here</environment>"}]},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "run the tests"}]},
            {"type": "reasoning", "summary": [], "content": null, "encrypted_content": null},
            {"type": "function_call", "name": "exec_command", "arguments": "{\"cmd\":\"pytest -q\"}", "call_id": "call_9"},
            {"type": "function_call_output", "call_id": "call_9", "output": [{"type": "input_text", "text": "1 failed"}, {"type": "input_image"}]}],
        "tools": [{"type": "function", "name": "exec_command", "strict": false, "parameters": {"type": "object"}}],
        "tool_choice": "auto", "parallel_tool_calls": true, "reasoning": {"effort": "high", "summary": "auto"}, "store": false,
        "stream": true, "include": ["reasoning.encrypted_content"], "prompt_cache_key": "k", "client_metadata": {"x": "y"}}))
    .unwrap();
    assert_eq!((ask.ask.stream, ask.ask.request.max_tokens, ask.summary), (true, 32_768, true));
    let Prompt::Chat { messages, options } = &ask.ask.request.prompt else {
        panic!()
    };
    let roles: Vec<Role> = messages.iter().map(|message| message.role).collect();
    assert_eq!(roles, [Role::System, Role::User, Role::User, Role::Assistant, Role::Tool]);
    assert_eq!(options.reasoning_effort.as_deref(), Some("high"));
    assert_eq!(ask.ask.warnings, [] as [String; 0]);
    assert_eq!(ask.echo["tools"][0]["name"], "exec_command");
}

/// Case ag-010.
#[test]
fn probes_are_answered() {
    for input in [json!(""), json!([])] {
        let ask = parse(json!({"model": "local", "input": input, "max_output_tokens": 1})).unwrap();
        assert!(ask.empty);
    }
    assert!(!parse(json!({"input": "hi"})).unwrap().empty);
}

#[test]
fn state_is_refused_by_name() {
    for (more, param) in [
        (json!({"previous_response_id": "resp_1"}), "previous_response_id"),
        (json!({"conversation": "conv_1"}), "conversation"),
        (json!({"background": true}), "background"),
    ] {
        let mut body = json!({"input": "hi"});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let error = parse(body).unwrap_err();
        assert_eq!(
            (error.status.as_u16(), error.code, error.param.as_deref()),
            (400, Some("unsupported_parameter"), Some(param))
        );
    }
    let fine = json!({"input": "hi", "previous_response_id": null, "background": false, "store": true, "novel": 1});
    assert!(parse(fine).unwrap().ask.warnings.join(" ").contains("novel"));
}

#[test]
fn formats_efforts_and_choices() {
    let ask = parse(
        json!({"input": "x", "text": {"format": {"type": "json_schema", "name": "r", "schema": {"type": "object"}}, "verbosity": "low"},
        "reasoning": {"effort": "minimal"}}),
    )
    .unwrap();
    let rule = &ask.ask.request.constraint.as_ref().unwrap().answer;
    assert_eq!(*rule, dspark_protocol::AnswerRule::Schema(json!({"type": "object"})));
    assert_eq!(ask.ask.options().unwrap().reasoning_effort.as_deref(), Some("low"));
    let off = parse(json!({"input": "x", "reasoning": {"effort": "none"}})).unwrap();
    assert_eq!(off.ask.options().unwrap().enable_thinking, Some(false));
    let tools = json!([{"type": "function", "name": "f"}]);
    let named = parse(json!({"input": "x", "tools": tools, "tool_choice": {"type": "function", "name": "f"}})).unwrap();
    assert_eq!(named.ask.tools.choice, tools::Choice::Named("f".into()));
    let hosted = parse(json!({"input": "x", "tools": tools, "tool_choice": {"type": "web_search"}})).unwrap();
    assert_eq!(hosted.ask.tools.choice, tools::Choice::Auto);
    for (body, param) in [
        (json!({}), "input"),
        (json!({"input": 5}), "input"),
        (json!({"input": "x", "tool_choice": "perhaps"}), "tool_choice"),
        (json!({"input": "x", "text": {"format": {"type": "poem"}}}), "text.format"),
        (json!({"input": "x", "reasoning": {"effort": "enormous"}}), "reasoning.effort"),
    ] {
        assert_eq!(parse(body).unwrap_err().param.as_deref(), Some(param));
    }
}
