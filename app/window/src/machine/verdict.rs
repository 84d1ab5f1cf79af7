//! The state of this machine in words: a pure function from figures to a level, a headline, findings and what would help.
//! Source: `spec/fit-and-roofline.md` §10.

pub use dspark_protocol::Pressure;
use dspark_strings::t;
use serde::Serialize;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    #[default]
    Info,
    Healthy,
    Ok,
    Attention,
    Problem,
}

/// Something that would move the number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lever {
    /// Close other apps, load a smaller model.
    FreeMemory,
    /// Measure once more when the machine is warm and idle.
    MeasureAgain,
    /// A smaller cap, or no drafts.
    DraftLess,
    /// Prose and code are drafted differently well.
    Race,
    NewChat,
}

impl Lever {
    /// For a terminal or a reply, where there is nothing to press.
    pub fn advice(self) -> &'static str {
        match self {
            Self::FreeMemory => "free memory: close other programs, or load a smaller model",
            Self::MeasureAgain => "measure again when the machine is warm and idle",
            Self::DraftLess => "draft less: a smaller cap, or `--mode baseline`",
            Self::Race => "what is asked decides: code is drafted better than prose",
            Self::NewChat => "begin a new conversation: this one fills the context window",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Figures {
    /// Plain step against memory bandwidth, 0 to 1.
    pub used: Option<f64>,
    /// GB a second that a plain step moves, and that memory gives.
    pub moved: Option<(f64, f64)>,
    /// Last reply against the plain ceiling.
    pub ratio: Option<f64>,
    /// Something is drafted.
    pub drafts: bool,
    pub accept: Option<f64>,
    pub rate: Option<f64>,
    /// Tokens of the last reply with its prompt, and the window.
    pub context: Option<(usize, usize)>,
    pub pressure: Pressure,
    /// Bytes that swap grew by in the last reply.
    pub swap_growth: Option<u64>,
    /// Rate of the last rounds against the first ones of a reply.
    pub decay: Option<f64>,
    /// The first generation since the model was loaded.
    pub cold: bool,
    pub experts_estimated: bool,
    /// What makes this machine slower than it could be, and whether that is a fault.
    pub slowed: Option<(String, bool)>,
    /// The processor computes: arithmetic sets the pace of small models there, not memory.
    pub on_processor: bool,
}

/// What a finding is about, whatever language it is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum About {
    Speed,
    Memory,
    Context,
}

/// One thing that was found, in words.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    pub about: About,
    pub words: String,
}

impl Finding {
    fn new(about: About, words: impl Into<String>) -> Self {
        let words = words.into();
        Self { about, words }
    }
}

impl std::ops::Deref for Finding {
    type Target = str;

    fn deref(&self) -> &str {
        &self.words
    }
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Judgement {
    pub level: Level,
    pub headline: String,
    pub findings: Vec<Finding>,
    pub levers: Vec<Lever>,
}

/// A step that uses more of memory than there is tells of a bad measurement.
const BELIEVABLE: f64 = 1.15;

pub fn judge(figures: &Figures) -> Judgement {
    let mut verdict = Judgement::default();
    step(figures, &mut verdict);
    if figures.used.is_some() && figures.experts_estimated {
        verdict.findings.push(Finding::new(About::Speed, t!(experts_approximate)));
    }
    drafting(figures, &mut verdict);
    memory(figures, &mut verdict);
    if let Some((words, fault)) = &figures.slowed {
        verdict.findings.insert(0, Finding::new(About::Speed, words.clone()));
        if *fault {
            verdict.level = verdict.level.max(Level::Attention);
        }
    }
    if figures.cold && figures.rate.is_some() {
        verdict.findings.push(Finding::new(About::Speed, t!(first_generation)));
    }
    if let Some(decay) = figures.decay.filter(|decay| figures.rate.is_some() && *decay < 0.85) {
        verdict
            .findings
            .push(Finding::new(About::Speed, t!(reply_slowed, part = format!("{:.0}", 100.0 * decay))));
    }
    if let Some((context, window)) = figures.context {
        let part = context as f64 / window.max(1) as f64;
        let words = t!(context_at, part = format!("{:.0}", 100.0 * part));
        verdict.findings.push(Finding::new(About::Context, words));
        if part >= 0.9 {
            verdict.levers.push(Lever::NewChat);
        }
    }
    verdict
}

/// How a plain step uses memory.
fn step(figures: &Figures, verdict: &mut Judgement) {
    let Some(used) = figures.used else {
        verdict.headline = t!(judge_nothing).into();
        return;
    };
    let moved = figures.moved.map_or_else(
        || t!(step_uses, part = format!("{:.0}", 100.0 * used)),
        |(moved, bandwidth)| t!(step_moves, moved = format!("{moved:.0}"), bandwidth = format!("{bandwidth:.0}")),
    );
    if used > BELIEVABLE {
        verdict.levers.push(Lever::MeasureAgain);
        verdict.headline = t!(step_unbelievable).into();
        return;
    }
    let small = figures.rate.is_some_and(|rate| rate > 200.0);
    let (level, headline) = match used {
        used if used >= 0.75 => (Level::Healthy, t!(step_as_should, moved = moved)),
        _ if small => (Level::Ok, t!(step_small, moved = moved)),
        _ if figures.on_processor => (Level::Ok, t!(step_processor, moved = moved)),
        used if used >= 0.5 => {
            verdict.levers.push(Lever::MeasureAgain);
            (Level::Ok, t!(step_somewhat_below, moved = moved))
        }
        _ => {
            verdict.levers.push(Lever::FreeMemory);
            (Level::Attention, t!(step_well_below, moved = moved))
        }
    };
    (verdict.level, verdict.headline) = (level, headline);
}

fn drafting(figures: &Figures, verdict: &mut Judgement) {
    let Some(ratio) = figures.ratio.filter(|_| figures.drafts) else {
        return;
    };
    let accept = figures.accept.unwrap_or(1.0);
    let words = match ratio {
        ratio if ratio >= 1.05 => t!(drafting_delivers, ratio = format!("{ratio:.2}")),
        ratio if ratio >= 0.85 => t!(reply_near_ceiling, ratio = format!("{ratio:.2}")),
        ratio => t!(reply_below_ceiling, ratio = format!("{ratio:.2}")),
    };
    verdict.findings.push(Finding::new(About::Speed, words));
    if let Some(accept) = figures.accept {
        let words = t!(accepted_per_round_n, accept = format!("{accept:.2}"));
        verdict.findings.push(Finding::new(About::Speed, words));
    }
    if ratio < 0.85 && accept < 2.0 {
        verdict.levers.push(Lever::DraftLess);
    }
    if accept >= 2.0 && ratio >= 1.05 {
        verdict.levers.push(Lever::Race);
    }
}

/// Short memory outweighs everything else, and is told first.
fn memory(figures: &Figures, verdict: &mut Judgement) {
    if let Some(growth) = figures.swap_growth {
        if growth > 64 << 20 {
            verdict.level = Level::Problem;
            verdict.levers.retain(|lever| *lever != Lever::FreeMemory);
            verdict.levers.insert(0, Lever::FreeMemory);
            verdict
                .findings
                .insert(0, Finding::new(About::Memory, t!(swap_grew, size = growth >> 20)));
        } else {
            verdict.findings.push(Finding::new(About::Memory, t!(no_swap_growth)));
        }
    }
    if figures.pressure != Pressure::Normal {
        verdict.level = Level::Problem;
        verdict.levers.retain(|lever| *lever != Lever::FreeMemory);
        verdict.levers.insert(0, Lever::FreeMemory);
        let words = if figures.pressure == Pressure::Critical {
            t!(pressure_critical_finding)
        } else {
            t!(pressure_high_finding)
        };
        verdict.findings.insert(0, Finding::new(About::Memory, words));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(used: f64, rate: f64) -> Figures {
        Figures {
            used: Some(used),
            rate: Some(rate),
            ..Figures::default()
        }
    }

    fn says(verdict: &Judgement, words: &str) -> bool {
        verdict.findings.iter().any(|finding| finding.contains(words))
    }

    #[test]
    fn the_ladder_of_the_specification() {
        let nothing = judge(&Figures::default());
        assert_eq!((nothing.level, nothing.findings.len(), nothing.levers.len()), (Level::Info, 0, 0));
        let healthy = judge(&Figures {
            ratio: Some(1.8),
            drafts: true,
            accept: Some(4.0),
            ..figures(0.9, 30.0)
        });
        assert_eq!(healthy.level, Level::Healthy);
        assert!(says(&healthy, "1.80"));
        assert_eq!(healthy.levers, [Lever::Race]);
        let low = judge(&figures(0.3, 5.0));
        assert_eq!((low.level, &low.levers[..]), (Level::Attention, &[Lever::FreeMemory][..]));
        assert_eq!(judge(&figures(0.4, 320.0)).level, Level::Ok);
        assert_eq!(judge(&figures(0.6, 30.0)).levers, [Lever::MeasureAgain]);
        let below = judge(&Figures {
            ratio: Some(0.7),
            drafts: true,
            accept: Some(1.2),
            ..figures(0.9, 30.0)
        });
        assert!(says(&below, "below"));
        assert_eq!(below.levers, [Lever::DraftLess]);
        let plain = judge(&Figures {
            ratio: Some(0.95),
            ..figures(0.9, 30.0)
        });
        assert!(!says(&plain, "ceiling"), "nothing is drafted");
    }

    #[test]
    fn short_memory_comes_first() {
        let pressed = judge(&Figures {
            pressure: Pressure::Critical,
            swap_growth: Some(0),
            ..figures(0.9, 30.0)
        });
        assert_eq!((pressed.level, pressed.levers[0]), (Level::Problem, Lever::FreeMemory));
        assert!(pressed.findings[0].contains("CRITICAL"));
        let swapping = judge(&Figures {
            swap_growth: Some(512 << 20),
            ..figures(0.3, 5.0)
        });
        assert_eq!((swapping.level, &swapping.levers[..]), (Level::Problem, &[Lever::FreeMemory][..]));
        assert!(swapping.findings[0].contains("512 MiB"));
        let little = judge(&Figures {
            swap_growth: Some(1024),
            ..figures(0.9, 30.0)
        });
        assert_eq!(little.level, Level::Healthy);
        assert!(!says(&little, "grew"));
    }

    #[test]
    fn what_slows_the_machine_is_told_first() {
        let slowed = |fault| {
            judge(&Figures {
                slowed: Some(("The machine is hot".into(), fault)),
                ..figures(0.9, 30.0)
            })
        };
        assert_eq!((slowed(true).level, slowed(false).level), (Level::Attention, Level::Healthy));
        assert_eq!(slowed(false).findings[0].words, "The machine is hot");
        let worse = judge(&Figures {
            pressure: Pressure::Critical,
            slowed: Some(("The machine is hot".into(), true)),
            ..figures(0.9, 30.0)
        });
        assert_eq!(worse.level, Level::Problem);
    }

    #[test]
    fn a_long_cold_slowing_reply() {
        let tired = judge(&Figures {
            decay: Some(0.6),
            cold: true,
            context: Some((95_000, 100_000)),
            ..figures(0.9, 30.0)
        });
        assert!(says(&tired, "60%") && says(&tired, "first generation") && says(&tired, "95%"));
        assert_eq!(tired.levers, [Lever::NewChat]);
        let absurd = judge(&figures(4.7, 30.0));
        assert_eq!((absurd.level, &absurd.levers[..]), (Level::Info, &[Lever::MeasureAgain][..]));
        let processor = judge(&Figures {
            on_processor: true,
            ..figures(0.3, 60.0)
        });
        assert_eq!(processor.level, Level::Ok);
        assert!(processor.headline.contains("processor"));
    }
}
