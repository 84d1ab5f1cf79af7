//! Fields that mean the same in every dialect: limits, sampling, stops, log-probabilities, thinking.

use super::{
    ask::Defaults,
    effort::{self, Effort, Levels},
    fields::{Fields, integer, wrong},
};
use crate::error::ApiError;
use dspark_protocol::{Sampling, TemplateOptions};
use serde_json::Value;
use std::collections::BTreeMap;

/// No meaning on a local server, and no effect on the answer.
pub(crate) const BOOKKEEPING: [&str; 11] = [
    "user",
    "store",
    "metadata",
    "service_tier",
    "prediction",
    "prompt_cache_key",
    "prompt_cache_retention",
    "safety_identifier",
    "session_id",
    "cache_prompt",
    "id_slot",
];

/// Would change the answer where they are supported.
pub(crate) const DROPPED: [&str; 22] = [
    "audio",
    "web_search_options",
    "verbosity",
    "typical_p",
    "typical",
    "tfs",
    "tfs_z",
    "top_a",
    "mirostat",
    "mirostat_mode",
    "mirostat_tau",
    "mirostat_eta",
    "dry_multiplier",
    "xtc_probability",
    "xtc_threshold",
    "dynatemp_range",
    "smoothing_factor",
    "min_tokens",
    "grammar",
    "guided_grammar",
    "thinking_token_budget",
    "thinking_budget_tokens",
];

/// They only shape a feature of [`DROPPED`] that is off without its own switch.
pub(crate) const SHAPES: [&str; 6] = [
    "dry_base",
    "dry_allowed_length",
    "dry_sequence_breakers",
    "dry_penalty_last_n",
    "dynatemp_exponent",
    "smoothing_curve",
];

/// (what the client asked for, the bound to use). 0 and null count as absent, −1 as no limit, words as absent.
/// `long`: without a limit of the client's, the cap counts instead of the default, which could cut a call in two.
///
/// # Errors
/// A number that is not whole, or no number at all: half a token, a list.
pub(crate) fn max_tokens(
    fields: &mut Fields<'_>,
    names: &[&'static str],
    defaults: &Defaults,
    long: bool,
) -> Result<(Option<usize>, usize), ApiError> {
    let cap = defaults.max_tokens_cap.max(1);
    let mut asked = None;
    for name in names {
        let Some(value) = fields.get(name) else { continue };
        let word = value.as_str().is_some_and(|text| text.trim().parse::<f64>().is_err());
        match integer(value) {
            Some(tokens) => asked = asked.or(Some(tokens).filter(|tokens| *tokens != 0)),
            None if word => fields.warnings.push(format!("`{name}` is not a number and was ignored")),
            None => return Err(wrong(name, "a whole number of tokens", value)),
        }
    }
    Ok(match asked {
        Some(..=-1) => (None, cap),
        Some(tokens) => {
            let tokens = usize::try_from(tokens).unwrap_or(cap);
            if tokens > cap {
                fields
                    .warnings
                    .push(format!("max_tokens {tokens} is above this server's cap and was set to {cap}"));
            }
            (Some(tokens.min(cap)), tokens.min(cap))
        }
        None if long || defaults.thinks => (None, cap),
        None => (None, defaults.max_tokens.clamp(1, cap)),
    })
}

pub(crate) fn choices(fields: &mut Fields<'_>, stream: bool) -> Result<usize, ApiError> {
    let asked = fields.integer("n")?.unwrap_or(1);
    let n = asked.clamp(1, 8);
    if n != asked {
        fields.warnings.push(format!("`n` {asked} is out of range and was set to {n}"));
    }
    if n > 1 && stream {
        return Err(ApiError::invalid(
            "n",
            "`n` above 1 cannot be streamed: set `stream` to false, or send several requests",
        ));
    }
    Ok(n as usize)
}

pub(crate) fn logprobs(fields: &mut Fields<'_>) -> Result<Option<u8>, ApiError> {
    let on = match fields.get("logprobs") {
        None => None,
        Some(Value::Bool(on)) => on.then_some(0),
        // The completions route's spelling.
        Some(other) => Some(integer(other).ok_or_else(|| wrong("logprobs", "true or false", other))?),
    };
    let top = fields.integer("top_logprobs")?;
    let Some(count) = top.or(on) else { return Ok(None) };
    let count = u8::try_from(count)
        .ok()
        .filter(|count| *count <= 20)
        .ok_or_else(|| ApiError::invalid("top_logprobs", format!("`top_logprobs` must be between 0 and 20, not {count}")))?;
    if on.is_none() {
        fields.warnings.push("`top_logprobs` was ignored: it needs `logprobs: true`".into());
        return Ok(None);
    }
    Ok(Some(count))
}

pub(crate) fn sampling(fields: &mut Fields<'_>, defaults: &Defaults) -> Result<Sampling, ApiError> {
    let [server, model] = defaults.sampling;
    let plain = Sampling::default();
    let mut float = |name, low, high| fields.number(name, low, high).map(|number| number.map(|number| number as f32));
    let temperature = float("temperature", 0.0, 100.0)?.or(server.temperature).or(model.temperature);
    // 0 would keep nothing; the engine wants a share above it, and the best token always stays.
    let top_p = float("top_p", 0.0, 1.0)?
        .map(|share| share.max(1e-6))
        .or(server.top_p)
        .or(model.top_p);
    let min_p = float("min_p", 0.0, 1.0)?;
    let presence = float("presence_penalty", -2.0, 2.0)?;
    let frequency = float("frequency_penalty", -2.0, 2.0)?;
    let repetition = penalty(fields, "repetition_penalty")?;
    let repeat = penalty(fields, "repeat_penalty")?;
    // −1 (vLLM) and 0 both mean off.
    let top_k = fields.integer("top_k")?.map(|k| u32::try_from(k.max(0)).unwrap_or(u32::MAX));
    Ok(Sampling {
        temperature: temperature.unwrap_or(plain.temperature),
        top_p: top_p.unwrap_or(plain.top_p),
        top_k: top_k.or(server.top_k).or(model.top_k).unwrap_or(plain.top_k),
        min_p: min_p.unwrap_or(plain.min_p),
        repetition_penalty: repetition.or(repeat).unwrap_or(plain.repetition_penalty),
        presence_penalty: presence.unwrap_or(plain.presence_penalty),
        frequency_penalty: frequency.unwrap_or(plain.frequency_penalty),
        logit_bias: logit_bias(fields),
        // Negative is the habit of clients that mean "draw one".
        seed: fields.integer("seed")?.and_then(|seed| u64::try_from(seed).ok()),
    })
}

/// Logits are divided by it: 0 and below have no meaning that a nearby value would share, so they are refused, not moved.
pub(crate) fn penalty(fields: &mut Fields<'_>, name: &'static str) -> Result<Option<f32>, ApiError> {
    match fields.number(name, f64::MIN, f64::MAX)? {
        Some(value) if !(value > 0.0 && value <= 10.0 && value as f32 > 0.0) => Err(ApiError::invalid(
            name,
            format!("`{name}` must be above 0 and at most 10, not {value}; 1 leaves tokens as they are"),
        )),
        value => Ok(value.map(|value| value as f32)),
    }
}

/// `{"<token id>": bias}`; what is not that is reported, never an error.
pub(crate) fn logit_bias(fields: &mut Fields<'_>) -> BTreeMap<u32, f32> {
    let mut biases = BTreeMap::new();
    let Some(value) = fields.get("logit_bias") else {
        return biases;
    };
    let mut bad = 0;
    for (id, bias) in value.as_object().into_iter().flatten() {
        match (id.trim().parse(), bias.as_f64()) {
            (Ok(id), Some(bias)) => {
                biases.insert(id, bias.clamp(-100.0, 100.0) as f32);
            }
            _ => bad += 1,
        }
    }
    // Some clients send `[]` for none.
    if bad > 0 || !(value.is_object() || value.as_array().is_some_and(Vec::is_empty)) {
        fields
            .warnings
            .push("`logit_bias` has entries that are not `\"<token id>\": number`; they were ignored".into());
    }
    biases
}

/// Any number of stop strings; numbers count as their text, empty strings as none.
pub(crate) fn stop(fields: &mut Fields<'_>, name: &'static str) -> Result<Vec<String>, ApiError> {
    let text = |value: &Value| match value {
        Value::String(text) => Ok(text.clone()),
        Value::Number(number) => Ok(number.to_string()),
        other => Err(wrong(name, "a string or an array of strings", other)),
    };
    let mut stops = match fields.get(name) {
        None => Vec::new(),
        Some(Value::Array(items)) => items.iter().filter(|item| !item.is_null()).map(text).collect::<Result<_, _>>()?,
        Some(other) => vec![text(other)?],
    };
    stops.retain(|stop| !stop.is_empty());
    Ok(stops)
}

pub(crate) fn modalities(fields: &mut Fields<'_>) {
    let wants = |kind: &Value| kind.as_str().is_some_and(|kind| kind != "text");
    if fields
        .get("modalities")
        .and_then(Value::as_array)
        .is_some_and(|kinds| kinds.iter().any(wants))
    {
        fields.warnings.push("`modalities` asks for more than text and was ignored".into());
    }
}

/// Every spelling of "think" and "how hard", the most explicit one first.
pub(crate) fn template(fields: &mut Fields<'_>, defaults: &Defaults) -> Result<TemplateOptions, ApiError> {
    let mut extra = fields.object("chat_template_kwargs")?.cloned().unwrap_or_default();
    for reserved in ["messages", "tools", "add_generation_prompt", "continue_final_message"] {
        if extra.remove(reserved).is_some() {
            fields
                .warnings
                .push(format!("`chat_template_kwargs.{reserved}` is set by the server and was ignored"));
        }
    }
    let in_kwargs = extra.remove("enable_thinking").and_then(|value| value.as_bool());
    let kwargs_effort = extra.remove("reasoning_effort").and_then(|value| value.as_str().map(str::to_owned));

    let reasoning = fields.object("reasoning")?;
    let reasoning = |name: &str| reasoning.and_then(|reasoning| reasoning.get(name)).filter(|value| !value.is_null());
    let thinking = fields.get("thinking");
    let thinking = match thinking {
        Some(Value::Bool(on)) => Some(*on),
        Some(Value::Object(map)) => map.get("type").and_then(Value::as_str).map(|kind| kind != "disabled"),
        _ => None,
    };
    let budget = fields.integer("thinking_budget")?;
    if budget.is_some_and(|budget| budget > 0) {
        fields.warnings.push("`thinking_budget` is not supported and was ignored".into());
    }

    let word = fields
        .text("reasoning_effort")?
        .or_else(|| reasoning("effort").and_then(Value::as_str))
        .map(str::to_owned)
        .or(kwargs_effort);
    let effort = effort("reasoning_effort", word.as_deref(), defaults)?;
    let enable_thinking = fields
        .bool("enable_thinking")?
        .or(thinking)
        .or_else(|| reasoning("enabled").and_then(Value::as_bool))
        .or((budget == Some(0)).then_some(false))
        .or((effort.effort == Some(Effort::Off)).then_some(false))
        .or(in_kwargs)
        .or(defaults.enable_thinking);
    Ok(TemplateOptions {
        enable_thinking,
        reasoning_effort: effort.level(defaults.levels.as_ref(), &mut fields.warnings),
        continue_final_message: false,
        tools: Vec::new(),
        extra,
    })
}

/// How hard to think, as asked or as the server is set.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted {
    pub(crate) effort: Option<Effort>,
    asked: bool,
}

/// # Errors
/// A 400 for a word that no client of ours means anything by.
pub(crate) fn effort(param: &str, word: Option<&str>, defaults: &Defaults) -> Result<Wanted, ApiError> {
    let effort = match word.or(defaults.reasoning_effort.as_deref()) {
        None => None,
        Some(word) => Some(effort::parse(word).ok_or_else(|| {
            let word: String = word.chars().take(40).collect();
            ApiError::invalid(
                param,
                format!("`{param}` `{word}` is unknown: use `none`, `minimal`, `low`, `medium`, `high`, `xhigh` or `max`"),
            )
        })?),
    };
    Ok(Wanted {
        effort,
        asked: word.is_some(),
    })
}

impl Wanted {
    /// The level the template gets. Without a template to ask, the client's own word.
    pub(crate) fn level(self, levels: Option<&Levels>, warnings: &mut Vec<String>) -> Option<String> {
        let Some(Effort::Level(wanted)) = self.effort else { return None };
        let Some(levels) = levels else {
            return Some(effort::SCALE[wanted].into());
        };
        let nearest = levels.nearest(wanted);
        match nearest {
            Some(level) if level != effort::SCALE[wanted] => warnings.push(format!(
                "`reasoning_effort` `{}` is not one this model knows; `{level}` was used",
                effort::SCALE[wanted]
            )),
            None if self.asked => warnings.push("`reasoning_effort` has no effect: this model's template does not read it".into()),
            _ => {}
        }
        nearest.map(str::to_owned)
    }

    /// The same for clients that always send an effort: that the template reads none is no news to them.
    pub(crate) fn quiet_level(self, levels: Option<&Levels>, warnings: &mut Vec<String>) -> Option<String> {
        Self { asked: false, ..self }.level(levels, warnings)
    }
}
