//! Ways to decode the same prompts that a command sets side by side.

use super::exit::{Failure, Outcome};
use dspark_protocol::{
    Cap, DrafterInfo, EngineHandle, Event, Message, Mode, Prompt, Request, SpeculationOptions, SpeculationState, Summary, TemplateOptions,
    TreeSetting,
};
use serde::Deserialize;
use std::time::Instant;

/// A prompt of a fixed set.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Text {
    pub(super) kind: String,
    pub(super) text: String,
}

#[derive(Deserialize)]
struct Texts {
    prompt: Vec<Text>,
}

/// The prompts given, or else those of a shipped file.
pub(super) fn texts(given: &[String], shipped: &str) -> Outcome<Vec<Text>> {
    if !given.is_empty() {
        let own = |(at, text): (usize, &String)| Text {
            kind: format!("prompt {}", at + 1),
            text: text.clone(),
        };
        return Ok(given.iter().enumerate().map(own).collect());
    }
    let all: Texts = toml::from_str(shipped).map_err(|error| Failure::new(super::exit::FAILED, error))?;
    Ok(all.prompt)
}

/// A way to decode.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Arm {
    pub(super) name: String,
    pub(super) mode: Mode,
    pub(super) options: SpeculationOptions,
}

impl Arm {
    pub(super) fn baseline() -> Self {
        Self {
            name: "baseline".into(),
            mode: Mode::Baseline,
            options: SpeculationOptions::default(),
        }
    }

    pub(super) fn request(&self, text: &str, max_tokens: usize) -> Request {
        Request {
            prompt: Prompt::Chat {
                messages: vec![Message::user(text)],
                options: TemplateOptions::default(),
            },
            mode: self.mode,
            speculation: Some(self.options),
            return_token_ids: true,
            ..Request::chat("cli", Vec::new(), max_tokens)
        }
    }
}

/// A mode as the command line names it: `dspark+lookup` and `tree` are shapes of a mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) mode: Mode,
    pub(super) lookup: bool,
    pub(super) tree: bool,
}

pub(super) fn shape(word: &str) -> Result<Shape, String> {
    let mut shape = Shape {
        mode: Mode::Auto,
        lookup: false,
        tree: false,
    };
    let mut parts = word.split('+');
    shape.mode = match parts.next().unwrap_or_default() {
        "auto" => Mode::Auto,
        "dspark" => Mode::Dspark,
        "dflash" => Mode::Dflash,
        "lookup" => Mode::Lookup,
        "baseline" => Mode::Baseline,
        other => {
            return Err(format!(
                "`{other}` is no mode: say auto, dspark, dflash, lookup or baseline, with +lookup or +tree"
            ));
        }
    };
    for part in parts {
        match part {
            "lookup" => shape.lookup = true,
            "tree" => shape.tree = true,
            other => return Err(format!("`+{other}` is nothing that can be added to a mode: say +lookup or +tree")),
        }
    }
    Ok(shape)
}

pub(super) fn cap(word: &str) -> Result<Cap, String> {
    match word {
        "derived" => Ok(Cap::Derived),
        "auto" => Ok(Cap::Auto),
        "full" => Ok(Cap::Full),
        number => match number.parse() {
            Ok(cap) if cap > 0 => Ok(Cap::Fixed(cap)),
            _ => Err(format!(
                "`{number}` is no cap: say derived, auto, full or a number of drafts from 1"
            )),
        },
    }
}

/// Every shape at every cap.
pub(super) fn arms(shapes: &[Shape], caps: &[Cap]) -> Vec<Arm> {
    let mut arms = Vec::new();
    for shape in shapes {
        for cap in caps {
            let mut name = dspark_engine::speculate::name(shape.mode).to_owned();
            if shape.mode == Mode::Baseline {
                arms.push(Arm::baseline());
                break;
            }
            if shape.lookup {
                name.push_str("+lookup");
            }
            if shape.tree {
                name.push_str("+tree");
            }
            match cap {
                Cap::Derived => {}
                Cap::Auto => name.push_str(" auto"),
                Cap::Full => name.push_str(" full"),
                Cap::Fixed(cap) => name = format!("{name} cap {cap}"),
            }
            arms.push(Arm {
                name,
                mode: shape.mode,
                options: SpeculationOptions {
                    cap: *cap,
                    tree: if shape.tree { TreeSetting::On } else { TreeSetting::Off },
                    lookup: Some(shape.lookup || shape.mode == Mode::Auto),
                    ..SpeculationOptions::default()
                },
            });
        }
    }
    arms
}

/// Names of arms, and why each was not run.
pub(super) type Skipped = Vec<(String, String)>;

/// Those that the loaded pair can run, and why the others cannot: an arm must be what it is called.
///
/// # Errors
/// Where none is left.
pub(super) fn fitting(all: Vec<Arm>, speculation: Option<&SpeculationState>) -> Outcome<(Vec<Arm>, Skipped)> {
    let drafter = speculation.and_then(|state| state.drafter.as_ref());
    let unfit = |arm: &Arm| match (arm.mode, drafter) {
        (Mode::Dspark | Mode::Dflash, None) => Some("no drafter is loaded with this model".to_owned()),
        (Mode::Dspark, Some(drafter)) if drafter.kind != "dspark" => Some(other(drafter)),
        (Mode::Dflash, Some(drafter)) if drafter.kind == "dspark" => Some(other(drafter)),
        _ => None,
    };
    let (mut fit, mut skipped) = (Vec::new(), Vec::new());
    for arm in all {
        match unfit(&arm) {
            None => fit.push(arm),
            Some(why) => skipped.push((arm.name, why)),
        }
    }
    match skipped.first() {
        Some((name, why)) if fit.iter().all(|arm| arm.mode == Mode::Baseline) => Err(Failure::new(
            super::exit::USAGE,
            format!("nothing can be run: `{name}`: {why}; name a drafter with `--drafter`, or its kind with `--mode`"),
        )),
        _ => Ok((fit, skipped)),
    }
}

pub(super) fn skipped(arms: &[(String, String)]) -> Vec<serde_json::Value> {
    let told = |(arm, why): &(String, String)| serde_json::json!({"run": arm, "reason": why});
    arms.iter().map(told).collect()
}

fn other(drafter: &DrafterInfo) -> String {
    format!("the loaded drafter `{}` is a {} one", drafter.name, drafter.kind)
}

/// A finished generation with what it cost.
pub(super) struct Ran {
    pub(super) summary: Summary,
    /// Of the whole process, from the first token to the last, in seconds.
    pub(super) decode_cpu: f64,
    pub(super) end_to_end: f64,
}

/// Runs one generation to its end. Ctrl-C ends the command.
pub(super) async fn run(handle: &EngineHandle, request: Request) -> Outcome<Ran> {
    let begun = Instant::now();
    let mut generation = handle.submit(request)?;
    let mut first = None;
    loop {
        let event = tokio::select! {
            event = generation.next() => event,
            _ = tokio::signal::ctrl_c() => return Err(Failure::interrupted()),
        };
        match event {
            Some(Event::Delta(_)) if first.is_none() => first = Some(cpu_seconds()),
            Some(Event::Finished(summary)) => {
                return Ok(Ran {
                    decode_cpu: first.map_or(0.0, |first| cpu_seconds() - first),
                    end_to_end: begun.elapsed().as_secs_f64(),
                    summary: *summary,
                });
            }
            Some(Event::Failed(error)) => return Err(error.into()),
            Some(_) => {}
            None => return Err(dspark_protocol::EngineError::Stopped.into()),
        }
    }
}

/// Processor time of this process so far, all threads.
fn cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_and_caps_multiply_and_plain_decoding_stands_once() {
        let shapes: Vec<Shape> = ["baseline", "dspark+lookup", "dspark+tree"].map(|word| shape(word).unwrap()).into();
        let caps: Vec<Cap> = ["derived", "auto", "3"].map(|word| cap(word).unwrap()).into();
        let arms = arms(&shapes, &caps);
        let names: Vec<&str> = arms.iter().map(|arm| arm.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "baseline",
                "dspark+lookup",
                "dspark+lookup auto",
                "dspark+lookup cap 3",
                "dspark+tree",
                "dspark+tree auto",
                "dspark+tree cap 3"
            ]
        );
        assert_eq!((arms[1].options.lookup, arms[4].options.tree), (Some(true), TreeSetting::On));
        let loaded = SpeculationState {
            drafter: Some(DrafterInfo {
                name: "head".into(),
                path: "head".into(),
                kind: "dspark".into(),
                weight_bytes: 0,
                max_draft: 7,
            }),
            ..SpeculationState::default()
        };
        let mixed = |words: &[&str]| {
            let shapes: Vec<Shape> = words.iter().map(|word| shape(word).unwrap()).collect();
            super::arms(&shapes, &[Cap::Auto])
        };
        let (fit, skipped) = fitting(mixed(&["dspark", "dflash", "lookup"]), Some(&loaded)).unwrap();
        assert_eq!((fit.len(), skipped[0].0.as_str()), (2, "dflash auto"));
        assert!(skipped[0].1.contains("`head` is a dspark one"), "{}", skipped[0].1);
        assert!(fitting(mixed(&["dflash"]), Some(&loaded)).is_err());
        assert!(fitting(mixed(&["dspark", "dflash"]), None).is_err());
        assert!(shape("fast").unwrap_err().contains("`fast`"));
        assert!(shape("dspark+magic").unwrap_err().contains("magic"));
        assert!(cap("0").is_err() && cap("x").is_err());
    }
}
