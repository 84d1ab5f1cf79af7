//! The body of `POST /admin/load`.

use super::Sticky;
use crate::{
    dialect::{
        effort,
        fields::{Fields, integer, wrong},
    },
    error::ApiError,
    host::LoadWish,
};
use dspark_protocol::{Cap, Mode, SpeculationOptions, TreeSetting};
use serde_json::Value;

/// Context windows that make sense, in tokens.
const WINDOWS: std::ops::RangeInclusive<i64> = 1024..=10_000_000;

/// What was asked for.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Wish {
    pub(crate) load: LoadWish,
    /// `Some(None)` resets.
    #[allow(clippy::option_option)]
    context_window: Option<Option<usize>>,
    enable_thinking: Option<bool>,
    reasoning_effort: Option<String>,
    /// Answer at once, and load in the background.
    pub(crate) later: bool,
    pub(crate) warnings: Vec<String>,
}

impl Wish {
    pub(super) fn stick(&self, sticky: &mut Sticky) {
        if let Some(window) = self.context_window {
            sticky.context_window = window;
        }
        if self.enable_thinking.is_some() {
            sticky.enable_thinking = self.enable_thinking;
        }
        if self.reasoning_effort.is_some() {
            sticky.reasoning_effort.clone_from(&self.reasoning_effort);
        }
    }
}

/// # Errors
/// A 400 naming the field: a boolean where a number belongs is a mistake, not a number.
pub(crate) fn parse(body: &Value) -> Result<Wish, ApiError> {
    let map = body
        .as_object()
        .ok_or_else(|| ApiError::bad_body("the body must be a JSON object with `model`"))?;
    let mut fields = Fields::new(map);
    let fields = &mut fields;
    let model = fields.text("model")?.map(str::trim).unwrap_or_default();
    if model.is_empty() {
        return Err(ApiError::invalid("model", "`model` is required: a name, a hub id or a folder"));
    }
    let mode = match fields.text("mode")? {
        None => Mode::Auto,
        Some(word) => serde_json::from_value(Value::String(word.to_owned())).map_err(|_| {
            let word: String = word.chars().take(40).collect();
            ApiError::invalid(
                "mode",
                format!("`mode` `{word}` is unknown: use `auto`, `dspark`, `dflash`, `lookup` or `baseline`"),
            )
        })?,
    };
    let plain = SpeculationOptions::default();
    let speculation = SpeculationOptions {
        cap: cap(fields, mode)?,
        tree: tree(fields)?,
        confidence: share(fields, "confidence_threshold", 1.0)?.map_or(plain.confidence, |value| value as f32),
        lookup: fields.bool("lookup_drafts")?,
    };
    let context_window = match whole(fields, "context_window")? {
        None => None,
        Some(0) => Some(None),
        Some(tokens) if WINDOWS.contains(&tokens) => Some(Some(tokens as usize)),
        Some(tokens) => {
            return Err(ApiError::invalid(
                "context_window",
                format!("`context_window` must be 0 (the model's own) or from 1024 to 10000000 tokens, not {tokens}"),
            ));
        }
    };
    let reasoning_effort = fields.text("reasoning_effort")?.map(str::to_owned);
    if let Some(word) = reasoning_effort.as_deref().filter(|word| effort::parse(word).is_none()) {
        let word: String = word.chars().take(40).collect();
        return Err(ApiError::invalid(
            "reasoning_effort",
            format!("`reasoning_effort` `{word}` is unknown"),
        ));
    }
    let wish = Wish {
        load: LoadWish {
            model: model.to_owned(),
            drafter: fields.text("drafter")?.map(str::to_owned).filter(|drafter| !drafter.is_empty()),
            drafter_bits: drafter_bits(fields)?,
            mode,
            speculation,
            context_window: None,
            warm_up: fields.bool("warmup")?.unwrap_or(true),
            force: fields.bool("force")?.unwrap_or(false),
        },
        context_window,
        enable_thinking: fields.bool("enable_thinking")?,
        reasoning_effort,
        later: fields.bool("async")?.unwrap_or(false),
        warnings: Vec::new(),
    };
    // Knobs of other builds: their types are checked all the same, so that a script learns of its mistake.
    for name in ["small_m", "sdpa_split", "multirow_attn", "memory_guard"] {
        if fields.bool(name)?.is_some() {
            fields
                .warnings
                .push(format!("`{name}` is chosen by measurement here and was ignored"));
        }
    }
    let kv_bits = fields.get("kv_bits");
    if let (Some(bits), Some(value)) = (whole(fields, "kv_bits")?, kv_bits)
        && ![0, 4, 8].contains(&bits)
    {
        return Err(wrong("kv_bits", "0, 4 or 8", value));
    }
    for name in ["drafter_window", "kv_bits"] {
        if whole(fields, name)?.is_some_and(|value| value != 0) {
            fields.warnings.push(format!("`{name}` is not supported and was ignored"));
        }
    }
    if share(fields, "cpu_split", 1.0)?.is_some_and(|share| share > 0.0) {
        fields.warnings.push("`cpu_split` is not supported and was ignored".into());
    }
    fields.warn_unread();
    Ok(Wish {
        warnings: std::mem::take(&mut fields.warnings),
        ..wish
    })
}

fn whole(fields: &mut Fields<'_>, name: &'static str) -> Result<Option<i64>, ApiError> {
    fields
        .get(name)
        .map(|value| {
            let number = value.is_number().then(|| integer(value)).flatten();
            number
                .filter(|number| *number >= 0)
                .ok_or_else(|| wrong(name, "a whole number of at least 0", value))
        })
        .transpose()
}

fn share(fields: &mut Fields<'_>, name: &'static str, most: f64) -> Result<Option<f64>, ApiError> {
    fields
        .get(name)
        .map(|value| {
            let number = value.as_f64().filter(|number| (0.0..=most).contains(number));
            number.ok_or_else(|| wrong(name, &format!("a number from 0 to {most}"), value))
        })
        .transpose()
}

/// An integer, `auto`, `derived` or `full`, as `--max-draft`. 0 and below mean the full block where the drafter is a block one, and 1 elsewhere.
fn cap(fields: &mut Fields<'_>, mode: Mode) -> Result<Cap, ApiError> {
    match fields.get("max_draft") {
        None => Ok(Cap::default()),
        Some(Value::String(word)) if word == "auto" => Ok(Cap::Auto),
        Some(Value::String(word)) if word == "derived" => Ok(Cap::Derived),
        Some(Value::String(word)) if word == "full" => Ok(Cap::Full),
        Some(value) => match value.is_number().then(|| integer(value)).flatten() {
            Some(..=0) if mode == Mode::Dflash => Ok(Cap::Full),
            Some(count) => Ok(Cap::Fixed(count.max(1) as usize)),
            None => Err(wrong("max_draft", "a whole number, `auto`, `derived` or `full`", value)),
        },
    }
}

/// What quantizing can pack to, as `--drafter-bits`; 0 keeps the drafter as it is stored.
fn drafter_bits(fields: &mut Fields<'_>) -> Result<Option<u8>, ApiError> {
    let value = fields.get("drafter_bits");
    let bits = whole(fields, "drafter_bits")?.map(|bits| u8::try_from(bits).ok().filter(|bits| [0, 2, 3, 4, 5, 6, 8].contains(bits)));
    match (bits, value) {
        (Some(None), Some(value)) => Err(wrong(
            "drafter_bits",
            "2, 3, 4, 5, 6 or 8, or 0 to keep the drafter as it is stored",
            value,
        )),
        (bits, _) => Ok(bits.flatten()),
    }
}

fn tree(fields: &mut Fields<'_>) -> Result<TreeSetting, ApiError> {
    match fields.get("tree") {
        None => Ok(TreeSetting::Auto),
        Some(value) => match (value.as_str(), value.is_number().then(|| integer(value)).flatten()) {
            (Some("auto"), _) => Ok(TreeSetting::Auto),
            (Some("on"), _) => Ok(TreeSetting::On),
            (Some("off"), _) | (None, Some(0)) => Ok(TreeSetting::Off),
            (None, Some(nodes @ 1..)) => Ok(TreeSetting::Nodes(nodes as usize)),
            _ => Err(wrong("tree", "`auto`, `on`, `off` or a number of nodes", value)),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_knob_is_read() {
        let wish = parse(
            &json!({"model": " m ", "drafter": "d", "drafter_bits": 8, "mode": "dspark", "max_draft": 4, "lookup_drafts": true, "tree": 16,
            "confidence_threshold": 0.5, "context_window": 4096, "warmup": false, "enable_thinking": false, "reasoning_effort": "low",
            "async": true, "force": true, "small_m": true, "novel": 1}),
        )
        .unwrap();
        assert_eq!(
            (wish.load.model.as_str(), wish.load.drafter.as_deref(), wish.load.mode),
            ("m", Some("d"), Mode::Dspark)
        );
        let wanted = SpeculationOptions {
            cap: Cap::Fixed(4),
            tree: TreeSetting::Nodes(16),
            confidence: 0.5,
            lookup: Some(true),
        };
        assert_eq!(wish.load.speculation, wanted);
        assert_eq!((wish.later, wish.load.warm_up, wish.load.force), (true, false, true));
        assert_eq!(wish.load.drafter_bits, Some(8));
        for (word, cap) in [("auto", Cap::Auto), ("derived", Cap::Derived), ("full", Cap::Full)] {
            let wish = parse(&json!({"model": "m", "max_draft": word})).unwrap();
            assert_eq!(wish.load.speculation.cap, cap, "{word}");
        }
        let told = wish.warnings.join(" ");
        assert!(told.contains("small_m") && told.contains("novel"), "{told}");
        let mut sticky = Sticky::default();
        wish.stick(&mut sticky);
        assert_eq!(
            (sticky.context_window, sticky.enable_thinking, sticky.reasoning_effort.as_deref()),
            (Some(4096), Some(false), Some("low"))
        );
        // What a later load leaves out stays; 0 resets the window.
        parse(&json!({"model": "m"})).unwrap().stick(&mut sticky);
        assert_eq!(sticky.context_window, Some(4096));
        parse(&json!({"model": "m", "context_window": 0})).unwrap().stick(&mut sticky);
        assert_eq!((sticky.context_window, sticky.enable_thinking), (None, Some(false)));
    }

    #[test]
    fn mistakes_are_named() {
        for (more, param) in [
            (json!({"model": ""}), "model"),
            (json!({"model": 5}), "model"),
            (json!({"max_draft": true}), "max_draft"),
            (json!({"max_draft": "many"}), "max_draft"),
            (json!({"drafter_bits": 7}), "drafter_bits"),
            (json!({"drafter_bits": true}), "drafter_bits"),
            (json!({"lookup_drafts": 1}), "lookup_drafts"),
            (json!({"confidence_threshold": 2}), "confidence_threshold"),
            (json!({"confidence_threshold": true}), "confidence_threshold"),
            (json!({"context_window": 12}), "context_window"),
            (json!({"context_window": true}), "context_window"),
            (json!({"kv_bits": false}), "kv_bits"),
            (json!({"kv_bits": 3}), "kv_bits"),
            (json!({"kv_bits": 16}), "kv_bits"),
            (json!({"small_m": 1}), "small_m"),
            (json!({"mode": "warp"}), "mode"),
            (json!({"tree": "maybe"}), "tree"),
            (json!({"reasoning_effort": "huge"}), "reasoning_effort"),
        ] {
            let mut body = json!({"model": "m"});
            body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            assert_eq!(parse(&body).unwrap_err().param.as_deref(), Some(param), "{more}");
        }
        assert_eq!(parse(&json!({})).unwrap_err().param.as_deref(), Some("model"));
    }
}
