//! Fixed prompts: kinds of text on which drafting does differently well.

use serde::Deserialize;

/// A prompt and what kind of text it asks for.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Text {
    pub kind: String,
    pub text: String,
}

/// Those of a benchmark, several of each common kind.
const SHIPPED: &str = include_str!("../../../assets/prompts/benchmark.toml");

#[derive(Deserialize)]
struct Texts {
    prompt: Vec<Text>,
}

/// The prompts given, or else the shipped ones of `shipped` (a TOML file with `[[prompt]]` tables); `None` takes those
/// of a benchmark.
///
/// # Errors
/// Where the file cannot be read as such.
pub fn texts(given: &[String], shipped: Option<&str>) -> Result<Vec<Text>, String> {
    if !given.is_empty() {
        let own = |(at, text): (usize, &String)| Text {
            kind: format!("prompt {}", at + 1),
            text: text.clone(),
        };
        return Ok(given.iter().enumerate().map(own).collect());
    }
    let all: Texts = toml::from_str(shipped.unwrap_or(SHIPPED)).map_err(|error| error.to_string())?;
    Ok(all.prompt)
}

/// The first of each kind, in the order in which they come.
pub fn few(texts: &[Text]) -> Vec<Text> {
    let mut first: Vec<Text> = Vec::new();
    for text in texts {
        if first.iter().all(|known| known.kind != text.kind) {
            first.push(text.clone());
        }
    }
    first
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_shipped_prompts_hold_several_of_the_common_kinds() {
        let texts = texts(&[], None).unwrap();
        for kind in few(&texts).into_iter().map(|text| text.kind) {
            let count = texts.iter().filter(|text| text.kind == kind).count();
            assert!(count >= if kind == "copy" { 1 } else { 3 }, "{kind}");
        }
        for kind in ["chat", "code", "list"] {
            assert!(
                few(&texts).iter().any(|text| text.kind == kind),
                "the window's presets need `{kind}`"
            );
        }
    }

    #[test]
    fn own_prompts_replace_them() {
        let own = texts(&["one".into(), "two".into()], None).unwrap();
        assert_eq!((own.len(), own[1].kind.as_str()), (2, "prompt 2"));
        assert!(texts(&[], Some("nothing")).is_err());
    }
}
