//! The catalogues as read: one bundle and one table of plain texts a language, made when the language is first used.

use crate::{Key, Language, PLAIN, SOURCES, Value, current};
use fluent_bundle::{FluentArgs, FluentResource, concurrent::FluentBundle};
use std::sync::OnceLock;

struct Catalogue {
    bundle: FluentBundle<FluentResource>,
    /// By key.
    plain: Box<[String]>,
}

static CATALOGUES: [OnceLock<Catalogue>; Language::ALL.len()] = [const { OnceLock::new() }; Language::ALL.len()];

fn catalogue(language: Language) -> &'static Catalogue {
    CATALOGUES[language.index()].get_or_init(|| {
        let bundle = bundle(language);
        let plain = PLAIN
            .iter()
            .map(|id| {
                message(&bundle, id, None)
                    .or_else(|| (language != Language::English).then(|| plain_english(id)))
                    .unwrap_or_else(|| (*id).to_owned())
            })
            .collect();
        Catalogue { bundle, plain }
    })
}

/// Reads a catalogue. What does not parse is left out, so that the rest still serves; a test finds it.
fn bundle(language: Language) -> FluentBundle<FluentResource> {
    let mut bundle = FluentBundle::new_concurrent(language.tag().parse().into_iter().collect());
    // Marks around arguments would be copied with the text, and nothing here is written from right to left.
    bundle.set_use_isolating(false);
    for (_, source) in SOURCES[language.index()] {
        let resource = FluentResource::try_new((*source).to_owned()).unwrap_or_else(|(resource, _)| resource);
        bundle.add_resource_overriding(resource);
    }
    bundle
}

fn message(bundle: &FluentBundle<FluentResource>, id: &str, args: Option<&FluentArgs<'_>>) -> Option<String> {
    let pattern = bundle.get_message(id)?.value()?;
    let mut errors = Vec::new();
    let text = bundle.format_pattern(pattern, args, &mut errors).into_owned();
    errors.is_empty().then_some(text)
}

fn plain_english(id: &str) -> String {
    message(&catalogue(Language::English).bundle, id, None).unwrap_or_else(|| id.to_owned())
}

pub(crate) fn plain(language: Language, key: Key) -> &'static str {
    catalogue(language).plain.get(usize::from(key.0)).map_or("", String::as_str)
}

/// A message with arguments, in the language in use; in English where that has none.
pub(crate) fn format<const N: usize>(id: &str, values: [(&'static str, Value<'_>); N]) -> String {
    let args: FluentArgs<'_> = values.into_iter().collect();
    let say = |language: Language| message(&catalogue(language).bundle, id, Some(&args));
    say(current()).or_else(|| say(Language::English)).unwrap_or_else(|| id.to_owned())
}
