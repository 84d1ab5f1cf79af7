//! A chat completion's body as an [`Ask`].

use super::messages;
use crate::{
    dialect::{
        ask::{Ask, Defaults},
        fields::{Fields, wrong},
        held, params,
        prompt::{self, Format},
        tools::{self, Choice, Tools},
    },
    error::ApiError,
};
use dspark_protocol::{Message, Mode, Prompt, Request, Role};
use serde_json::{Value, json};

/// # Errors
/// A 400 naming the field. Unknown fields are never an error.
pub(crate) fn chat(body: &Value, defaults: &Defaults) -> Result<Ask, ApiError> {
    let map = body
        .as_object()
        .ok_or_else(|| ApiError::bad_body("the body must be a JSON object with `messages`"))?;
    let mut fields = Fields::new(map);
    let fields = &mut fields;

    let messages = fields
        .get("messages")
        .ok_or_else(|| ApiError::invalid("messages", "`messages` is required: an array of {role, content}"))?;
    let mut messages = messages::parse(messages, defaults.ignore_attachments, &mut fields.warnings)?;
    let tools = tools(fields)?;
    let format = held::openai(fields)?;
    let (asked_max, max_tokens) = params::max_tokens(
        fields,
        &["max_tokens", "max_completion_tokens"],
        defaults,
        tools.live() || format.is_some(),
    )?;
    let stream = fields.bool("stream")?.unwrap_or(false);
    let include_usage = include_usage(fields)?;
    let n = params::choices(fields, stream)?;
    let logprobs = params::logprobs(fields)?;
    let sampling = params::sampling(fields, defaults)?;
    let stop = params::stop(fields, "stop")?;
    let continue_final = continues(fields, &messages)?;
    let mut options = params::template(fields, defaults)?;
    options.continue_final_message = continue_final;
    options.tools = tools.told();
    demand(&mut messages, &tools, format.as_ref());
    let ignore_eos = fields.bool("ignore_eos")?.unwrap_or(false);
    let return_token_ids = fields.bool("return_token_ids")?.unwrap_or(false);
    let model = model(fields)?;

    params::modalities(fields);
    fields.ignore(&params::BOOKKEEPING);
    fields.ignore(&params::SHAPES);
    fields.drop_loudly(&params::DROPPED);
    fields.warn_unread();
    let mut warnings = std::mem::take(&mut fields.warnings);
    warnings.extend(tools.warnings());
    let constraint = held::constraint(&tools, format.as_ref());
    Ok(Ask {
        model,
        stream,
        include_usage,
        n,
        asked_max,
        request: Request {
            client: defaults.client.clone(),
            prompt: Prompt::Chat { messages, options },
            sampling,
            mode: Mode::Auto,
            speculation: None,
            max_tokens,
            stop,
            logprobs,
            ignore_eos,
            constraint,
            return_token_ids,
            fresh: false,
        },
        tools,
        raw: false,
        hide_reasoning: false,
        warnings,
    })
}

pub(super) fn model(fields: &mut Fields<'_>) -> Result<Option<String>, ApiError> {
    Ok(fields.text("model")?.map(str::to_owned).filter(|model| !model.is_empty()))
}

pub(super) fn include_usage(fields: &mut Fields<'_>) -> Result<bool, ApiError> {
    let options = fields.object("stream_options")?;
    Ok(options
        .and_then(|options| options.get("include_usage"))
        .and_then(Value::as_bool)
        .unwrap_or(false))
}

fn continues(fields: &mut Fields<'_>, messages: &[Message]) -> Result<bool, ApiError> {
    let asked = fields.bool("continue_final_message")?.unwrap_or(false) || fields.bool("add_generation_prompt")?.is_some_and(|open| !open);
    if asked && messages.last().is_none_or(|last| last.role != Role::Assistant) {
        return Err(ApiError::invalid(
            "continue_final_message",
            "`continue_final_message` needs an assistant message at the end of `messages`",
        ));
    }
    // A call is whole, and what follows it is not its continuation; the model answers as it would have.
    let called = messages.last().is_some_and(|last| !last.tool_calls.is_empty());
    if asked && called {
        fields
            .warnings
            .push("`continue_final_message` was ignored: the last message ends with calls of tools".into());
    }
    Ok(asked && !called)
}

/// What the request demands of the answer, put to the model.
pub(crate) fn demand(messages: &mut Vec<Message>, tools: &Tools, format: Option<&Format>) {
    let demands = [tools.demand(), format.and_then(Format::demand)];
    for demand in demands.iter().flatten() {
        prompt::instruct(messages, demand);
    }
}

/// `tools` and `tool_choice`, or their older names `functions` and `function_call`.
fn tools(fields: &mut Fields<'_>) -> Result<Tools, ApiError> {
    let mut tools = Tools::new();
    let choice = fields.get("tool_choice");
    for (index, tool) in fields.array("tools")?.unwrap_or_default().iter().enumerate() {
        offer(&mut tools, tool, index)?;
    }
    if let Some(parallel) = fields.bool("parallel_tool_calls")? {
        tools.parallel = parallel;
    }
    tools.choice = tools::openai_choice(choice)?;
    let functions = fields.array("functions")?.unwrap_or_default();
    let call = fields.get("function_call");
    if tools.offered.is_empty() && !functions.is_empty() {
        tools.legacy = true;
        tools.parallel = false;
        for (index, function) in functions.iter().enumerate() {
            offer(&mut tools, &json!({ "type": "function", "function": function }), index)?;
        }
        tools.choice = match call {
            Some(Value::Object(named)) => named
                .get("name")
                .and_then(Value::as_str)
                .map_or(Choice::Auto, |name| Choice::Named(name.to_owned())),
            other => tools::openai_choice(other)?,
        };
    }
    tools.check()?;
    Ok(tools)
}

fn offer(tools: &mut Tools, tool: &Value, index: usize) -> Result<(), ApiError> {
    let fields = tool
        .as_object()
        .ok_or_else(|| wrong(&format!("tools[{index}]"), "an object with `type` and `function`", tool))?;
    let kind = fields.get("type").and_then(Value::as_str).unwrap_or("function");
    if kind != "function" {
        tools.skip(kind);
        return Ok(());
    }
    let function = fields.get("function").unwrap_or(tool);
    let name = function.get("name").and_then(Value::as_str).filter(|name| !name.is_empty());
    let Some(name) = name else {
        return Err(ApiError::invalid(
            &format!("tools[{index}].function.name"),
            format!("`tools[{index}].function.name` is missing: every function needs a name"),
        ));
    };
    let description = function.get("description").and_then(Value::as_str);
    let strict = function.get("strict") == Some(&Value::Bool(true));
    tools.offer(name, description, function.get("parameters"), strict);
    Ok(())
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
