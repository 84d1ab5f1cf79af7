//! The body of `/v1/completions`: raw text in, raw text out. No template, no reasoning, no tools.

use super::request::{include_usage, model};
use crate::{
    dialect::{
        ask::{Ask, Defaults},
        fields::{Fields, integer, wrong},
        held, params,
        tools::Tools,
    },
    error::ApiError,
};
use dspark_protocol::{Mode, Prompt, Request};
use serde_json::Value;

/// Most prompts of one request.
const MOST_PROMPTS: usize = 8;

/// A text completion: one [`Ask`] that is asked of each prompt.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TextAsk {
    pub(crate) ask: Ask,
    /// The first is the one in `ask`.
    pub(crate) prompts: Vec<Prompt>,
    /// Put the prompt before the answer.
    pub(crate) echo: bool,
    /// Fill in between the prompt and this.
    pub(crate) suffix: Option<String>,
}

/// # Errors
/// A 400 naming the field. Unknown fields are never an error.
pub(crate) fn text(body: &Value, defaults: &Defaults) -> Result<TextAsk, ApiError> {
    let map = body
        .as_object()
        .ok_or_else(|| ApiError::bad_body("the body must be a JSON object with `prompt`"))?;
    let mut fields = Fields::new(map);
    let fields = &mut fields;
    let prompts = prompts(fields)?;
    // Nothing thinks in raw text.
    let plain = Defaults {
        thinks: false,
        ..defaults.clone()
    };
    let (asked_max, max_tokens) = params::max_tokens(fields, &["max_tokens", "max_completion_tokens", "n_predict"], &plain, false)?;
    let stream = fields.bool("stream")?.unwrap_or(false);
    let n = params::choices(fields, stream)?;
    if stream && prompts.len() > 1 {
        return Err(ApiError::invalid(
            "prompt",
            "several prompts cannot be streamed: set `stream` to false, or send several requests",
        ));
    }
    let suffix = fields.text("suffix")?.map(str::to_owned).filter(|suffix| !suffix.is_empty());
    if suffix.is_some() && !prompts.iter().all(|prompt| matches!(prompt, Prompt::Text(_))) {
        return Err(ApiError::invalid("suffix", "`suffix` needs a `prompt` of text"));
    }
    let format = held::openai(fields)?;
    let ask = Ask {
        stream,
        include_usage: include_usage(fields)?,
        n,
        asked_max,
        request: Request {
            client: defaults.client.clone(),
            prompt: prompts[0].clone(),
            logprobs: params::logprobs(fields)?,
            sampling: params::sampling(fields, defaults)?,
            mode: Mode::Auto,
            speculation: None,
            max_tokens,
            stop: params::stop(fields, "stop")?,
            ignore_eos: fields.bool("ignore_eos")?.unwrap_or(false),
            constraint: held::constraint(&Tools::new(), format.as_ref()),
            return_token_ids: fields.bool("return_token_ids")?.unwrap_or(false),
            fresh: false,
        },
        tools: Tools::new(),
        raw: true,
        hide_reasoning: false,
        model: model(fields)?,
        warnings: Vec::new(),
    };
    let echo = fields.bool("echo")?.unwrap_or(false);
    fields.ignore(&params::BOOKKEEPING);
    fields.ignore(&params::SHAPES);
    fields.drop_loudly(&params::DROPPED);
    if fields.integer("best_of")?.is_some_and(|best| best > 1) {
        fields.warnings.push("`best_of` is not supported and was ignored".into());
    }
    fields.warn_unread();
    let warnings = std::mem::take(&mut fields.warnings);
    Ok(TextAsk {
        ask: Ask { warnings, ..ask },
        prompts,
        echo,
        suffix,
    })
}

/// A string, token ids, or an array of either.
fn prompts(fields: &mut Fields<'_>) -> Result<Vec<Prompt>, ApiError> {
    let value = fields
        .get("prompt")
        .ok_or_else(|| ApiError::invalid("prompt", "`prompt` is required: a string, or an array of strings or token ids"))?;
    let expected = "a string, or an array of strings or token ids";
    let prompts = match value {
        Value::String(text) => vec![Prompt::Text(text.clone())],
        Value::Array(items) if items.is_empty() => Vec::new(),
        Value::Array(items) if items.iter().all(Value::is_number) => vec![Prompt::Tokens(ids(items)?)],
        Value::Array(items) => items
            .iter()
            .map(|item| match item {
                Value::String(text) => Ok(Prompt::Text(text.clone())),
                Value::Array(numbers) => ids(numbers).map(Prompt::Tokens),
                other => Err(wrong("prompt", expected, other)),
            })
            .collect::<Result<_, _>>()?,
        other => return Err(wrong("prompt", expected, other)),
    };
    match prompts.len() {
        0 => Err(ApiError::invalid("prompt", "`prompt` is empty: send at least one")),
        1..=MOST_PROMPTS => Ok(prompts),
        count => Err(ApiError::invalid(
            "prompt",
            format!("`prompt` holds {count} prompts, at most {MOST_PROMPTS} are answered in one request"),
        )),
    }
}

fn ids(items: &[Value]) -> Result<Vec<u32>, ApiError> {
    items
        .iter()
        .map(|item| {
            integer(item)
                .and_then(|id| u32::try_from(id).ok())
                .ok_or_else(|| wrong("prompt", "token ids (whole numbers)", item))
        })
        .collect()
}

/// Marks that models are trained to fill in between: prefix, suffix, middle.
const FILL_IN: [[&str; 3]; 5] = [
    ["<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"],
    ["<fim_prefix>", "<fim_suffix>", "<fim_middle>"],
    ["<|fim_begin|>", "<|fim_hole|>", "<|fim_end|>"],
    ["<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"],
    ["<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>"],
];

/// The prompt that has the model write what belongs between `prefix` and `suffix`; `None` where it has no marks for
/// that. `tokens` counts a text's tokens.
pub(crate) fn fill_in(prefix: &str, suffix: &str, tokens: impl Fn(&str) -> Option<usize>) -> Option<String> {
    let nothing = tokens("")?;
    let one = |mark: &str| tokens(mark) == Some(nothing + 1);
    let marks = FILL_IN.iter().find(|marks| marks.iter().all(|mark| one(mark)))?;
    let [before, after, middle] = marks;
    Some(format!("{before}{prefix}{after}{suffix}{middle}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn parse(body: Value) -> Result<TextAsk, ApiError> {
        text(
            &body,
            &Defaults {
                max_tokens: 64,
                max_tokens_cap: 100,
                ..Defaults::default()
            },
        )
    }

    #[test]
    fn prompts_of_every_kind() {
        let prompts = |value: Value| parse(json!({ "prompt": value })).map(|ask| ask.prompts);
        assert_eq!(prompts(json!("a")).unwrap(), [Prompt::Text("a".into())]);
        assert_eq!(prompts(json!(["a", "b"])).unwrap().len(), 2);
        assert_eq!(prompts(json!([1, 2])).unwrap(), [Prompt::Tokens(vec![1, 2])]);
        assert_eq!(
            prompts(json!([[1], [2]])).unwrap(),
            [Prompt::Tokens(vec![1]), Prompt::Tokens(vec![2])]
        );
        for bad in [
            json!(null),
            json!([]),
            json!(5),
            json!([1.5]),
            json!([-1]),
            json!([{}]),
            json!(vec!["x"; 9]),
        ] {
            assert_eq!(prompts(bad.clone()).unwrap_err().param.as_deref(), Some("prompt"), "{bad}");
        }
    }

    #[test]
    fn raw_text_takes_log_probabilities_as_a_number_and_tells_what_it_drops() {
        let ask = parse(json!({"prompt": "x", "logprobs": 3, "echo": true, "best_of": 2, "novel": 1, "stop": ["\n"]})).unwrap();
        assert_eq!((ask.ask.request.logprobs, ask.echo, ask.ask.raw), (Some(3), true, true));
        let told = ask.ask.warnings.join(" ");
        assert!(told.contains("best_of") && told.contains("novel"), "{told}");
        assert_eq!(
            parse(json!({"prompt": ["a", "b"], "stream": true})).unwrap_err().param.as_deref(),
            Some("prompt")
        );
        assert_eq!(
            parse(json!({"prompt": [1], "suffix": "x"})).unwrap_err().param.as_deref(),
            Some("suffix")
        );
    }

    #[test]
    fn filling_in_needs_a_model_with_marks() {
        let knows = |mark: &'static str| {
            move |text: &str| {
                Some(if text.is_empty() {
                    0
                } else if text.starts_with(mark) {
                    1
                } else {
                    7
                })
            }
        };
        assert_eq!(
            fill_in("a", "b", knows("<|fim")).as_deref(),
            Some("<|fim_prefix|>a<|fim_suffix|>b<|fim_middle|>")
        );
        assert_eq!(fill_in("a", "b", knows("<none")), None);
    }
}
