//! Values of flags, with what they may be in words.

use crate::pairing::MaxDraft;
use dspark_protocol::TreeSetting;

pub(in crate::cli) fn number(text: &str, wanted: &str, fits: impl Fn(f32) -> bool) -> Result<f32, String> {
    text.parse()
        .ok()
        .filter(|&value: &f32| value.is_finite() && fits(value))
        .ok_or_else(|| format!("must be {wanted}"))
}

/// `u32` and `u64` differ in how far they reach, which nobody needs to know before they get there.
pub(in crate::cli) fn whole<T: TryFrom<u64>>(text: &str) -> Result<T, String> {
    text.parse()
        .ok()
        .and_then(|value: u64| T::try_from(value).ok())
        .ok_or_else(|| format!("must be a whole number from 0 to {}", u64::MAX >> (64 - 8 * size_of::<T>())))
}

pub(in crate::cli) fn at_least_one(text: &str) -> Result<usize, String> {
    text.parse()
        .ok()
        .filter(|value| *value > 0)
        .ok_or_else(|| "must be a whole number of at least 1".into())
}

pub(in crate::cli) fn temperature(text: &str) -> Result<f32, String> {
    number(text, "a number of at least 0", |value| value >= 0.0)
}

pub(in crate::cli) fn share(text: &str) -> Result<f32, String> {
    number(text, "a number from 0 to 1", |value| (0.0..=1.0).contains(&value))
}

/// What quantizing can pack to.
pub(in crate::cli) fn drafter_bits(text: &str) -> Result<u8, String> {
    text.parse()
        .ok()
        .filter(|bits| [0, 2, 3, 4, 5, 6, 8].contains(bits))
        .ok_or_else(|| "must be 2, 3, 4, 5, 6 or 8, or 0 to keep the drafter as it is stored".into())
}

pub(in crate::cli) fn max_draft(text: &str) -> Result<MaxDraft, String> {
    match text {
        "auto" => Ok(MaxDraft::Auto),
        "derived" => Ok(MaxDraft::Derived),
        "full" => Ok(MaxDraft::Full),
        number => number
            .parse()
            .map(MaxDraft::Number)
            .map_err(|_| "must be a whole number, `auto`, `derived` or `full`".into()),
    }
}

pub(in crate::cli) fn tree(text: &str) -> Result<TreeSetting, String> {
    match text {
        "auto" => Ok(TreeSetting::Auto),
        "on" => Ok(TreeSetting::On),
        "off" => Ok(TreeSetting::Off),
        nodes => nodes
            .parse()
            .ok()
            .filter(|nodes| (1..=256).contains(nodes))
            .map(TreeSetting::Nodes)
            .ok_or_else(|| "must be `auto`, `on`, `off` or a number of nodes from 1 to 256".into()),
    }
}

pub(in crate::cli) fn switch(text: &str) -> Result<bool, String> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err("must be `on` or `off`".into()),
    }
}

pub(in crate::cli) fn positive(text: &str) -> Result<f32, String> {
    number(text, "a number above 0", |value| value > 0.0)
}
