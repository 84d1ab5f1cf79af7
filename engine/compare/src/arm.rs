//! A way to decode: a mode with how it speculates.

use dspark_protocol::{Cap, DrafterInfo, Mode, Prompt, Request, SpeculationOptions, SpeculationState, TreeSetting};
use serde::{Deserialize, Serialize};

/// What is set beside plain decoding.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Arm {
    pub mode: Mode,
    /// `None`: as the model was loaded.
    pub options: Option<SpeculationOptions>,
}

impl Arm {
    /// Plain decoding, which everything is measured against and judged by.
    pub fn plain() -> Self {
        Self {
            mode: Mode::Baseline,
            options: Some(SpeculationOptions::default()),
        }
    }

    pub fn is_plain(&self) -> bool {
        self.mode == Mode::Baseline
    }

    /// As the command line writes it: `dspark+lookup cap 4`.
    pub fn name(&self) -> String {
        let mut name = self.mode.name().to_owned();
        let (Some(options), false) = (self.options, self.is_plain()) else {
            return name;
        };
        if options.lookup == Some(true) && self.mode != Mode::Auto {
            name.push_str("+lookup");
        }
        if matches!(options.tree, TreeSetting::On | TreeSetting::Nodes(_)) {
            name.push_str("+tree");
        }
        match options.cap {
            Cap::Derived => {}
            Cap::Auto => name.push_str(" auto"),
            Cap::Full => name.push_str(" full"),
            Cap::Fixed(cap) => name = format!("{name} cap {cap}"),
        }
        if options.confidence > 0.0 {
            name = format!("{name} from {}", options.confidence);
        }
        name
    }

    /// Greedy, on a prompt that is computed whole: arms that are compared start alike.
    pub fn request(&self, client: &str, prompt: Prompt, max_tokens: usize) -> Request {
        Request {
            prompt,
            mode: self.mode,
            speculation: self.options,
            return_token_ids: true,
            fresh: true,
            ..Request::chat(client, Vec::new(), max_tokens)
        }
    }
}

/// A mode as it is written in a list: `dspark+lookup` and `dspark+tree` are shapes of a mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    pub mode: Mode,
    pub lookup: bool,
    pub tree: bool,
}

/// # Errors
/// What is wrong with the word and what may stand there.
pub fn shape(word: &str) -> Result<Shape, String> {
    let mut parts = word.split('+');
    let first = parts.next().unwrap_or_default();
    let all = [Mode::Auto, Mode::Dspark, Mode::Dflash, Mode::Lookup, Mode::Baseline];
    let Some(mode) = all.into_iter().find(|mode| mode.name() == first) else {
        return Err(format!(
            "`{first}` is no mode: say auto, dspark, dflash, lookup or baseline, with +lookup or +tree"
        ));
    };
    let mut shape = Shape {
        mode,
        lookup: false,
        tree: false,
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

/// # Errors
/// What is wrong with the word and what may stand there.
pub fn cap(word: &str) -> Result<Cap, String> {
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

/// Every shape at every cap; plain decoding, which has none, once.
pub fn arms(shapes: &[Shape], caps: &[Cap]) -> Vec<Arm> {
    let mut arms = Vec::new();
    for shape in shapes {
        if shape.mode == Mode::Baseline {
            arms.push(Arm::plain());
            continue;
        }
        arms.extend(caps.iter().map(|cap| Arm {
            mode: shape.mode,
            options: Some(SpeculationOptions {
                cap: *cap,
                tree: if shape.tree { TreeSetting::On } else { TreeSetting::Off },
                lookup: Some(shape.lookup || shape.mode == Mode::Auto),
                ..SpeculationOptions::default()
            }),
        }));
    }
    arms
}

/// An arm that was not run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    pub run: String,
    pub reason: String,
}

/// Why the loaded pair cannot run a mode: an arm must be what it is called.
pub fn unfit(mode: Mode, speculation: Option<&SpeculationState>) -> Option<String> {
    let drafter = speculation.and_then(|state| state.drafter.as_ref());
    let other = |drafter: &DrafterInfo| format!("the loaded drafter `{}` is a {} one", drafter.name, drafter.kind);
    match (mode, drafter) {
        (Mode::Dspark | Mode::Dflash, None) => Some("no drafter is loaded with this model".to_owned()),
        (Mode::Dspark, Some(drafter)) if drafter.kind != "dspark" => Some(other(drafter)),
        (Mode::Dflash, Some(drafter)) if drafter.kind == "dspark" => Some(other(drafter)),
        _ => None,
    }
}

/// Those that the loaded pair can run, and why the others cannot.
pub fn fitting(all: Vec<Arm>, speculation: Option<&SpeculationState>) -> (Vec<Arm>, Vec<Skipped>) {
    let (mut fit, mut skipped) = (Vec::new(), Vec::new());
    for arm in all {
        match unfit(arm.mode, speculation) {
            None => fit.push(arm),
            Some(reason) => skipped.push(Skipped { run: arm.name(), reason }),
        }
    }
    (fit, skipped)
}

/// A way that can be offered, or that cannot be run here.
#[derive(Debug, Clone, PartialEq)]
pub struct Way {
    pub arm: Arm,
    pub unfit: Option<String>,
}

/// Caps worth a lane of their own.
const CAPS: [usize; 3] = [2, 4, 7];
/// A confidence that cuts drafts which most likely fail.
const CONFIDENCE: f32 = 0.5;

/// What a person may choose from for this pair, the usual way first. A mode that cannot be run is there once, with the
/// reason.
pub fn ways(speculation: Option<&SpeculationState>) -> Vec<Way> {
    let most = speculation
        .and_then(|state| state.drafter.as_ref())
        .map_or(0, |drafter| drafter.max_draft);
    let with = |mode, change: &dyn Fn(&mut SpeculationOptions)| {
        let mut options = SpeculationOptions {
            cap: Cap::Derived,
            tree: TreeSetting::Off,
            lookup: Some(false),
            ..SpeculationOptions::default()
        };
        change(&mut options);
        Way {
            arm: Arm {
                mode,
                options: Some(options),
            },
            unfit: None,
        }
    };
    let mut ways = vec![Way {
        arm: Arm {
            mode: Mode::Auto,
            options: None,
        },
        unfit: None,
    }];
    for mode in [Mode::Dspark, Mode::Dflash] {
        let first = with(mode, &|_| {});
        if let Some(reason) = unfit(mode, speculation) {
            ways.push(Way {
                unfit: Some(reason),
                ..first
            });
            continue;
        }
        ways.push(first);
        ways.push(with(mode, &|options| options.lookup = Some(true)));
        ways.push(with(mode, &|options| options.cap = Cap::Auto));
        for cap in CAPS.into_iter().filter(|cap| *cap <= most) {
            ways.push(with(mode, &|options| options.cap = Cap::Fixed(cap)));
        }
        ways.push(with(mode, &|options| options.tree = TreeSetting::On));
        if mode == Mode::Dspark {
            ways.push(with(mode, &|options| options.confidence = CONFIDENCE));
        }
    }
    ways.push(with(Mode::Lookup, &|_| {}));
    ways
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use dspark_protocol::double::speculation::{drafting, plain};

    #[test]
    fn modes_and_caps_multiply_and_plain_decoding_stands_once() {
        let shapes: Vec<Shape> = ["baseline", "dspark+lookup", "dspark+tree"].map(|word| shape(word).unwrap()).into();
        let caps: Vec<Cap> = ["derived", "auto", "3"].map(|word| cap(word).unwrap()).into();
        let arms = arms(&shapes, &caps);
        let names: Vec<String> = arms.iter().map(Arm::name).collect();
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
        let options = |at: usize| arms[at].options.unwrap();
        assert_eq!((options(1).lookup, options(4).tree), (Some(true), TreeSetting::On));
        assert!(shape("fast").unwrap_err().contains("`fast`"));
        assert!(shape("dspark+magic").unwrap_err().contains("magic"));
        assert!(cap("0").is_err() && cap("x").is_err());
    }

    #[test]
    fn what_is_offered_is_what_the_pair_can_run() {
        let pair = drafting();
        let names: Vec<String> = ways(Some(&pair))
            .iter()
            .filter(|way| way.unfit.is_none())
            .map(|way| way.arm.name())
            .collect();
        assert_eq!(
            names,
            [
                "auto",
                "dspark",
                "dspark+lookup",
                "dspark auto",
                "dspark cap 2",
                "dspark cap 4",
                "dspark cap 7",
                "dspark+tree",
                "dspark from 0.5",
                "lookup"
            ]
        );
        let refused: Vec<(String, String)> = ways(Some(&pair))
            .into_iter()
            .filter_map(|way| Some((way.arm.name(), way.unfit?)))
            .collect();
        assert_eq!(
            refused,
            [("dflash".to_owned(), "the loaded drafter `double-dspark` is a dspark one".to_owned())]
        );
        let alone: Vec<String> = ways(Some(&plain())).iter().map(|way| way.arm.name()).collect();
        assert_eq!(alone, ["auto", "dspark", "dflash", "lookup"]);
        // No two of them are the same, so that a choice is one.
        for (at, way) in ways(Some(&pair)).iter().enumerate() {
            assert!(ways(Some(&pair))[..at].iter().all(|other| other.arm != way.arm));
        }
    }
}
