//! The body of a message as an [`Ask`].

use super::content;
use crate::{
    dialect::{
        ask::{Ask, Defaults},
        effort::{self, Effort},
        fields::{Fields, wrong},
        held,
        openai::demand,
        params,
        prompt::Format,
        tools::{Choice, Tools},
    },
    error::ApiError,
};
use dspark_protocol::{Mode, Prompt, Request, Role, TemplateOptions};
use serde_json::{Map, Value};

/// Sent by every Claude Code, and without meaning here. It treats unknown models as the newest and sends all it has.
const BOOKKEEPING: [&str; 14] = [
    "metadata",
    "context_management",
    "container",
    "mcp_servers",
    "service_tier",
    "betas",
    "speed",
    "cache_control",
    "diagnostics",
    "inference_geo",
    "stream_options",
    "user",
    "anthropic_version",
    "anthropic_beta",
];

/// # Errors
/// A 400 naming the field. Unknown fields are never an error.
pub(crate) fn message(body: &Value, defaults: &Defaults) -> Result<Ask, ApiError> {
    parse(body, defaults, false)
}

/// The same body for counting its tokens: what only bounds the answer is not looked at.
///
/// # Errors
/// As [`message`].
pub(crate) fn count(body: &Value, defaults: &Defaults) -> Result<Ask, ApiError> {
    parse(body, defaults, true)
}

fn parse(body: &Value, defaults: &Defaults, counting: bool) -> Result<Ask, ApiError> {
    let map = body
        .as_object()
        .ok_or_else(|| ApiError::bad_body("the body must be a JSON object with `messages`"))?;
    let mut fields = Fields::new(map);
    let fields = &mut fields;
    let system = content::system(fields.get("system"))?;
    let messages = fields
        .get("messages")
        .ok_or_else(|| ApiError::invalid("messages", "`messages` is required: an array of {role, content}"))?;
    let mut messages = content::messages(messages, system, defaults.ignore_attachments, &mut fields.warnings)?;
    // Anthropic's own service goes on where a last assistant turn stops.
    let continues = messages
        .last()
        .is_some_and(|last| last.role == Role::Assistant && last.tool_calls.is_empty());
    let tools = tools(fields)?;
    let output = fields.object("output_config")?;
    let format = format(fields, output)?;
    let (mut options, hide_reasoning) = thinking(fields, output, defaults);
    options.continue_final_message = continues;
    options.tools = tools.told();
    demand(&mut messages, &tools, format.as_ref());
    let (asked_max, max_tokens) = params::max_tokens(fields, &["max_tokens"], defaults, true)?;
    let stream = !counting && fields.bool("stream")?.unwrap_or(false);
    let sampling = params::sampling(fields, defaults)?;
    let stop = params::stop(fields, "stop_sequences")?;
    let model = fields.text("model")?.map(str::to_owned).filter(|model| !model.is_empty());
    fields.ignore(&BOOKKEEPING);
    fields.warn_unread();
    let mut warnings = std::mem::take(&mut fields.warnings);
    warnings.extend(tools.warnings());
    let constraint = held::constraint(&tools, format.as_ref());
    Ok(Ask {
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
        hide_reasoning,
        warnings,
    })
}

/// Functions with their schemas; the service's own tools are left out, and so is what has no name.
fn tools(fields: &mut Fields<'_>) -> Result<Tools, ApiError> {
    let mut tools = Tools::new();
    for (index, tool) in fields.array("tools")?.unwrap_or_default().iter().enumerate() {
        let tool = tool
            .as_object()
            .ok_or_else(|| wrong(&format!("tools[{index}]"), "an object with `name` and `input_schema`", tool))?;
        let text = |name: &str| tool.get(name).and_then(Value::as_str);
        match (text("type"), text("name").filter(|name| !name.is_empty())) {
            (Some(kind), _) if kind != "custom" => tools.skip(kind),
            (_, None) => tools.skip("without a name"),
            (_, Some(name)) => {
                let strict = tool.get("strict") == Some(&Value::Bool(true));
                tools.offer(name, text("description"), tool.get("input_schema"), strict);
            }
        }
    }
    if let Some(choice) = fields.object("tool_choice")? {
        tools.parallel = choice.get("disable_parallel_tool_use") != Some(&Value::Bool(true));
        tools.choice = match choice.get("type").and_then(Value::as_str) {
            None | Some("auto") => Choice::Auto,
            Some("any") => Choice::Required,
            Some("none") => Choice::None,
            Some("tool") => match choice.get("name").and_then(Value::as_str) {
                Some(name) => Choice::Named(name.to_owned()),
                None => return Err(ApiError::invalid("tool_choice", "`tool_choice` of type `tool` needs a `name`")),
            },
            Some(other) => {
                let other: String = other.chars().take(60).collect();
                return Err(ApiError::invalid(
                    "tool_choice",
                    format!("`tool_choice.type` `{other}` is unknown: use `auto`, `any`, `tool` or `none`"),
                ));
            }
        };
    }
    // A forced server tool cannot be honoured, and failing would end an agent's turn.
    if let Choice::Named(name) = &tools.choice
        && !tools.offered.iter().any(|tool| Tools::name_of(tool) == Some(name))
        && !tools.skipped.is_empty()
    {
        tools.choice = Choice::Auto;
    }
    tools.check()?;
    Ok(tools)
}

fn format(fields: &mut Fields<'_>, output: Option<&Map<String, Value>>) -> Result<Option<Format>, ApiError> {
    let older = fields.object("output_format")?;
    let inner = output.and_then(|output| output.get("format")).and_then(Value::as_object);
    let Some(format) = inner.or(older) else { return Ok(None) };
    // A kind that we do not know must not end an agent's turn.
    match held::checked(if inner.is_some() { "output_config.format" } else { "output_format" }, format)? {
        Ok(format) => Ok(format),
        Err(kind) => {
            fields
                .warnings
                .push(format!("`output_config.format` of type `{kind}` is not known and was ignored"));
            Ok(None)
        }
    }
}

/// What the template is told of thinking, and whether the reply leaves it out.
fn thinking(fields: &mut Fields<'_>, output: Option<&Map<String, Value>>, defaults: &Defaults) -> (TemplateOptions, bool) {
    let kind = fields
        .get("thinking")
        .and_then(|thinking| thinking.get("type"))
        .and_then(Value::as_str);
    let off = kind == Some("disabled");
    let word = output.and_then(|output| output.get("effort")).and_then(Value::as_str);
    // Unknown words are the next version's: the server's own default is better than a 400.
    let word = word.filter(|word| {
        let known = effort::parse(word).is_some();
        if !known {
            let word: String = word.chars().take(40).collect();
            fields
                .warnings
                .push(format!("`output_config.effort` `{word}` is not known and was ignored"));
        }
        known
    });
    let wanted = params::effort("output_config.effort", word, defaults).ok();
    let enable_thinking = if off || wanted.is_some_and(|wanted| wanted.effort == Some(Effort::Off)) {
        Some(false)
    } else {
        defaults.enable_thinking
    };
    let reasoning_effort = match wanted {
        Some(wanted) if enable_thinking != Some(false) => wanted.quiet_level(defaults.levels.as_ref(), &mut fields.warnings),
        _ => None,
    };
    let options = TemplateOptions {
        enable_thinking,
        reasoning_effort,
        ..TemplateOptions::default()
    };
    (options, off)
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
