//! Reasoning effort: the words clients use, and the ones a template understands.

use dspark_protocol::{Message, ModelInfo, PromptCodec, TemplateOptions};
use std::sync::{Arc, Mutex, PoisonError};

/// From little to much.
pub(crate) const SCALE: [&str; 4] = ["low", "medium", "high", "xhigh"];

/// What a client's word asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effort {
    /// `none`: do not think.
    Off,
    /// An index into [`SCALE`].
    Level(usize),
}

/// Any case; `minimal` is `low`, `max` is `xhigh`.
pub(crate) fn parse(word: &str) -> Option<Effort> {
    Some(match word.trim().to_ascii_lowercase().as_str() {
        "none" | "off" => Effort::Off,
        "minimal" => Effort::Level(0),
        "max" => Effort::Level(3),
        word => Effort::Level(SCALE.iter().position(|level| *level == word)?),
    })
}

/// Which levels the loaded model's template takes. Found by rendering each once, kept per load.
#[derive(Default)]
pub(crate) struct Efforts(Mutex<Option<(String, u64, Levels)>>);

/// What a template makes of `reasoning_effort`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Levels {
    /// The values that render.
    accepted: [bool; 4],
    /// Whether any value changes the prompt at all.
    pub(crate) supported: bool,
}

impl Efforts {
    pub(crate) fn of(&self, model: &ModelInfo, codec: &dyn PromptCodec) -> Levels {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((name, loaded_at, levels)) = known.as_ref()
            && (name, *loaded_at) == (&model.name, model.loaded_at)
        {
            return levels.clone();
        }
        let levels = Levels::probe(codec);
        *known = Some((model.name.clone(), model.loaded_at, levels.clone()));
        levels
    }
}

impl Levels {
    fn probe(codec: &dyn PromptCodec) -> Self {
        let talk = [Message::user("Hello")];
        let render = |effort: Option<&str>| {
            let options = TemplateOptions {
                reasoning_effort: effort.map(Into::into),
                ..TemplateOptions::default()
            };
            codec.render(&talk, &options).ok()
        };
        let plain = render(None);
        let rendered = SCALE.map(|level| render(Some(level)));
        Self {
            accepted: rendered.each_ref().map(Option::is_some),
            supported: rendered.iter().any(|text| text.is_some() && *text != plain),
        }
    }

    /// The nearest accepted level, towards less thinking where two are as near; `None` where the template takes none.
    pub(crate) fn nearest(&self, wanted: usize) -> Option<&'static str> {
        let at = |index: usize| self.accepted.get(index).copied().unwrap_or(false).then(|| SCALE[index]);
        if !self.supported {
            return None;
        }
        (0..SCALE.len()).find_map(|distance| {
            let below = wanted.checked_sub(distance).and_then(at);
            below.or_else(|| at(wanted + distance))
        })
    }
}

/// What the loaded model's template takes, where there is one to ask.
pub(crate) fn levels_now(engine: &dspark_protocol::EngineHandle, efforts: &Efforts, model: &Arc<ModelInfo>) -> Option<Levels> {
    let codec = engine.codec().ok()?;
    Some(efforts.of(model, codec.as_ref().as_ref()))
}

#[cfg(test)]
impl Levels {
    /// A template that accepts these.
    pub(crate) fn for_test(accepted: [bool; 4]) -> Self {
        Self { accepted, supported: true }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn levels(accepted: [bool; 4]) -> Levels {
        Levels { accepted, supported: true }
    }

    #[test]
    fn words_of_every_client() {
        for (word, effort) in [
            ("HIGH", Some(Effort::Level(2))),
            ("none", Some(Effort::Off)),
            ("minimal", Some(Effort::Level(0))),
            ("max", Some(Effort::Level(3))),
            ("enormous", None),
            ("", None),
        ] {
            assert_eq!(parse(word), effort, "{word}");
        }
    }

    #[test]
    fn the_nearest_level_and_less_on_a_tie() {
        // A template with low, medium and xhigh: `high` lies between two and takes the smaller.
        let template = levels([true, true, false, true]);
        assert_eq!(template.nearest(2), Some("medium"));
        assert_eq!(template.nearest(3), Some("xhigh"));
        assert_eq!(levels([false, false, false, true]).nearest(0), Some("xhigh"));
        assert_eq!(levels([true, false, false, false]).nearest(3), Some("low"));
        assert_eq!(levels([false; 4]).nearest(1), None);
    }

    /// A template that knows some levels and refuses or ignores the rest.
    struct Template {
        known: &'static [&'static str],
        refuses: bool,
    }

    impl PromptCodec for Template {
        fn encode(&self, _: &dspark_protocol::Prompt) -> dspark_protocol::Result<Vec<u32>> {
            Ok(Vec::new())
        }

        fn render(&self, _: &[Message], options: &TemplateOptions) -> dspark_protocol::Result<String> {
            match options.reasoning_effort.as_deref() {
                Some(level) if self.known.contains(&level) => Ok(format!("think {level}")),
                Some(level) if self.refuses => Err(dspark_protocol::EngineError::Template(format!("no {level}"))),
                _ => Ok("plain".into()),
            }
        }

        fn decode(&self, _: &[u32]) -> String {
            String::new()
        }
    }

    #[test]
    fn a_template_is_asked_what_it_takes() {
        let strict = Levels::probe(&Template {
            known: &["low", "medium", "xhigh"],
            refuses: true,
        });
        assert_eq!(
            strict,
            Levels {
                accepted: [true, true, false, true],
                supported: true
            }
        );
        let deaf = Levels::probe(&Template {
            known: &[],
            refuses: false,
        });
        assert!(!deaf.supported);
        assert_eq!(deaf.nearest(2), None);
        let refusing = Levels::probe(&Template { known: &[], refuses: true });
        assert_eq!((refusing.supported, refusing.nearest(0)), (false, None));
    }
}
