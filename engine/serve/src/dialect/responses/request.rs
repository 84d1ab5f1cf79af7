//! The body of a response as an [`Ask`].

use super::items;
use crate::{
    dialect::{
        ask::{Ask, Defaults},
        effort::Effort,
        fields::{Fields, wrong},
        held,
        openai::demand,
        params,
        prompt::Format,
        tools::{self, Alias, Tools},
    },
    error::ApiError,
};
use dspark_protocol::{Message, Mode, Prompt, Request, Role, TemplateOptions};
use serde_json::{Map, Value, json};

/// No meaning on a server that keeps nothing, and no effect on the answer.
const BOOKKEEPING: [&str; 14] = [
    "store",
    "include",
    "metadata",
    "prompt_cache_key",
    "prompt_cache_retention",
    "client_metadata",
    "truncation",
    "service_tier",
    "user",
    "safety_identifier",
    "stream_options",
    "max_tool_calls",
    "background",
    "conversation",
];

/// A request, and what its reply repeats of it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ResponseAsk {
    pub(crate) ask: Ask,
    /// Nothing was asked: answered at once, with nothing.
    pub(crate) empty: bool,
    /// Fields of the reply that only repeat the request's.
    pub(crate) echo: Map<String, Value>,
    /// The client wants summaries of the reasoning.
    pub(crate) summary: bool,
}

/// # Errors
/// A 400 naming the field. Unknown fields, and tools of unknown kinds, are never an error.
pub(crate) fn response(body: &Value, defaults: &Defaults) -> Result<ResponseAsk, ApiError> {
    let map = body
        .as_object()
        .ok_or_else(|| ApiError::bad_body("the body must be a JSON object with `input`"))?;
    let mut fields = Fields::new(map);
    let fields = &mut fields;
    refuse_state(fields)?;
    let input = fields
        .get("input")
        .ok_or_else(|| ApiError::invalid("input", "`input` is required: a string, or an array of items"))?;
    let instructions = fields.text("instructions")?;
    let mut messages = items::turns(input, instructions, defaults.ignore_attachments, &mut fields.warnings)?;
    // Codex asks for nothing to see whether anybody is there.
    let empty = input == "" || input.as_array().is_some_and(Vec::is_empty);
    if !empty && messages.iter().all(|message| message.role == Role::System) {
        messages.push(Message::user(""));
    }
    let tools = tools(fields)?;
    let (format, text) = format(fields)?;
    let (options, summary) = reasoning(fields, defaults)?;
    let options = TemplateOptions {
        tools: tools.told(),
        ..options
    };
    demand(&mut messages, &tools, format.as_ref());
    let (asked_max, max_tokens) = params::max_tokens(fields, &["max_output_tokens"], defaults, true)?;
    let stream = fields.bool("stream")?.unwrap_or(false);
    let sampling = params::sampling(fields, defaults)?;
    let stop = params::stop(fields, "stop")?;
    let model = fields.text("model")?.map(str::to_owned).filter(|model| !model.is_empty());
    if fields.integer("top_logprobs")?.is_some_and(|count| count > 0) {
        fields
            .warnings
            .push("`top_logprobs` is not supported on this route and was ignored".into());
    }
    fields.ignore(&BOOKKEEPING);
    fields.drop_loudly(&["verbosity", "prompt"]);
    fields.warn_unread();
    let mut warnings = std::mem::take(&mut fields.warnings);
    warnings.extend(tools.warnings());
    let constraint = held::constraint(&tools, format.as_ref());
    let echo = echo(map, &sampling, text, asked_max);
    Ok(ResponseAsk {
        ask: Ask {
            model,
            stream,
            include_usage: true,
            n: 1,
            asked_max,
            request: Request {
                client: defaults.client.clone(),
                prompt: Prompt::Chat { messages, options },
                sampling,
                mode: Mode::Auto,
                speculation: None,
                max_tokens,
                stop,
                logprobs: None,
                ignore_eos: false,
                constraint,
                return_token_ids: false,
                fresh: false,
            },
            tools,
            raw: false,
            hide_reasoning: false,
            warnings,
        },
        empty,
        echo,
        summary,
    })
}

/// What would need a server that remembers: ignoring it would leave the model without its own past.
fn refuse_state(fields: &mut Fields<'_>) -> Result<(), ApiError> {
    for name in ["previous_response_id", "conversation"] {
        if fields.get(name).is_some() {
            return Err(ApiError::unsupported(
                name,
                format!("`{name}` is not supported: this server keeps no conversations, so send the whole `input`"),
            ));
        }
    }
    if fields.get("background") == Some(&Value::Bool(true)) {
        return Err(ApiError::unsupported(
            "background",
            "`background` is not supported: this server keeps no responses to fetch later",
        ));
    }
    Ok(())
}

fn tools(fields: &mut Fields<'_>) -> Result<Tools, ApiError> {
    let mut tools = Tools::new();
    for (index, tool) in fields.array("tools")?.unwrap_or_default().iter().enumerate() {
        let Some(tool) = tool.as_object() else {
            return Err(wrong(&format!("tools[{index}]"), "an object with `type`", tool));
        };
        offer(&mut tools, tool);
    }
    // Tools that came along later in the conversation.
    let items = fields.get("input").and_then(Value::as_array).into_iter().flatten();
    let later = items.filter(|item| item.get("type").and_then(Value::as_str) == Some("additional_tools"));
    for tool in later.filter_map(|item| item.get("tools")?.as_array()).flatten() {
        if let Some(tool) = tool.as_object() {
            offer(&mut tools, tool);
        }
    }
    if let Some(parallel) = fields.bool("parallel_tool_calls")? {
        tools.parallel = parallel;
    }
    tools.choice = match fields.get("tool_choice") {
        // A hosted tool that is forced cannot be had; the turn goes on without.
        Some(Value::Object(choice))
            if !["function", "custom", "allowed_tools"].contains(&choice.get("type").and_then(Value::as_str).unwrap_or("function")) =>
        {
            fields
                .warnings
                .push("`tool_choice` names a tool that this server does not have and was ignored".into());
            tools::Choice::Auto
        }
        choice => tools::openai_choice(choice)?,
    };
    tools.check()?;
    Ok(tools)
}

fn offer(tools: &mut Tools, tool: &Map<String, Value>) {
    let text = |name: &str| tool.get(name).and_then(Value::as_str);
    match text("type").unwrap_or("function") {
        "function" => {
            // Chat's nested form is a habit of some clients.
            let function = tool.get("function").and_then(Value::as_object).unwrap_or(tool);
            let text = |name: &str| function.get(name).and_then(Value::as_str);
            match text("name").filter(|name| !name.is_empty()) {
                Some(name) => {
                    let strict = function.get("strict") == Some(&Value::Bool(true));
                    tools.offer(name, text("description"), function.get("parameters"), strict);
                }
                None => tools.skip("function without a name"),
            }
        }
        "custom" => {
            let Some(name) = text("name").filter(|name| !name.is_empty()) else {
                return tools.skip("custom without a name");
            };
            let format = tool.get("format").filter(|format| format.get("definition").is_some());
            let grammar = format.map_or(String::new(), |format| {
                let text = |name: &str| format.get(name).and_then(Value::as_str).unwrap_or_default();
                format!("\nThe input follows this {} grammar:\n{}", text("syntax"), text("definition"))
            });
            let description = format!("{}{grammar}", text("description").unwrap_or_default());
            let parameters = json!({
                "type": "object",
                "properties": {"input": {"type": "string", "description": "The whole input of the tool, as it is."}},
                "required": ["input"],
            });
            tools.offer(name, Some(&description), Some(&parameters), false);
            tools.aliases.insert(name.to_owned(), Alias::Custom);
        }
        "namespace" => {
            let namespace = text("name").unwrap_or_default();
            for member in tool.get("tools").and_then(Value::as_array).into_iter().flatten() {
                let text = |name: &str| member.get(name).and_then(Value::as_str);
                let Some(name) = text("name").filter(|name| !name.is_empty() && !namespace.is_empty()) else {
                    continue;
                };
                let told = format!("{namespace}__{name}");
                let strict = member.get("strict") == Some(&Value::Bool(true));
                tools.offer(&told, text("description"), member.get("parameters"), strict);
                let alias = Alias::Member {
                    namespace: namespace.to_owned(),
                    name: name.to_owned(),
                };
                tools.aliases.insert(told, alias);
            }
        }
        kind => tools.skip(kind),
    }
}

fn format(fields: &mut Fields<'_>) -> Result<(Option<Format>, Value), ApiError> {
    let text = fields.object("text")?;
    let echo = text.map_or_else(|| json!({"format": {"type": "text"}}), |text| json!(text));
    let Some(format) = text.and_then(|text| text.get("format")).and_then(Value::as_object) else {
        return Ok((None, echo));
    };
    match held::checked("text.format", format)? {
        Ok(format) => Ok((format, echo)),
        Err(kind) => Err(ApiError::invalid(
            "text.format",
            format!("`text.format.type` must be `text`, `json_object` or `json_schema`, not `{kind}`"),
        )),
    }
}

fn reasoning(fields: &mut Fields<'_>, defaults: &Defaults) -> Result<(TemplateOptions, bool), ApiError> {
    let reasoning = fields.object("reasoning")?;
    let text = |name: &str| reasoning.and_then(|reasoning| reasoning.get(name)).and_then(Value::as_str);
    let wanted = params::effort("reasoning.effort", text("effort"), defaults)?;
    let enable_thinking = match wanted.effort {
        Some(Effort::Off) => Some(false),
        _ => defaults.enable_thinking,
    };
    let options = TemplateOptions {
        enable_thinking,
        reasoning_effort: wanted.quiet_level(defaults.levels.as_ref(), &mut fields.warnings),
        ..TemplateOptions::default()
    };
    let summary = text("summary").or_else(|| text("generate_summary"));
    Ok((options, summary.is_some_and(|kind| kind != "none")))
}

/// What the reply repeats, so that OpenAI's own models parse it.
fn echo(map: &Map<String, Value>, sampling: &dspark_protocol::Sampling, text: Value, asked_max: Option<usize>) -> Map<String, Value> {
    let given = |name: &str| map.get(name).filter(|value| !value.is_null()).cloned();
    let effort = map.get("reasoning").and_then(|reasoning| reasoning.get("effort")).cloned();
    let mut echo = Map::new();
    let mut set = |name: &str, value: Value| echo.insert(name.into(), value);
    set("instructions", given("instructions").unwrap_or_default());
    set("metadata", given("metadata").unwrap_or_else(|| json!({})));
    set("parallel_tool_calls", given("parallel_tool_calls").unwrap_or_else(|| json!(true)));
    set("temperature", json!(sampling.temperature));
    set("top_p", json!(sampling.top_p));
    set("tool_choice", given("tool_choice").unwrap_or_else(|| json!("auto")));
    set("tools", given("tools").unwrap_or_else(|| json!([])));
    set("max_output_tokens", json!(asked_max));
    set("previous_response_id", Value::Null);
    set("reasoning", json!({"effort": effort, "summary": null}));
    set("text", text);
    set("truncation", json!("disabled"));
    set("store", json!(false));
    set("background", json!(false));
    echo
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
