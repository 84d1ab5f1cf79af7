//! A report for whoever helps: what the program and the machine are, and how it is set up. No chats, no prompts, no keys;
//! the home folder is `~`. What a person sees before saving it is all there is.

use super::{ServerState, State, status};
use crate::settings::Settings;
use std::fmt::Write;

/// What the state knows, and what must not be in the report.
#[derive(Clone, PartialEq, Eq)]
pub struct Gathered {
    pub text: String,
    /// Words that are cut out wherever they turn up.
    pub secrets: Vec<String>,
}

impl std::fmt::Debug for Gathered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gathered").field("bytes", &self.text.len()).finish_non_exhaustive()
    }
}

pub(super) fn gathered(state: &State) -> Gathered {
    let engine = &state.engine;
    let machine = &engine.machine;
    let mut text = String::new();
    let mut line = |name: &str, value: &dyn std::fmt::Display| {
        let _ = writeln!(text, "{name}: {value}");
    };
    line("Program", &format!("mlx-dspark {}", state.version));
    line("MLX", &machine.mlx_version);
    line("Computes on", &format!("{} ({})", machine.device, machine.backend));
    line("Cores, memory", &format!("{}, {} MiB", machine.cores, machine.ram >> 20));
    line("Engine", &format!("{:?}", status(state)));
    if let Some(model) = &engine.model {
        line("Model", &model.name);
        line("Kind", &format!("{}, {}", model.model_type, model.quantization));
        line("Drafter", &model.drafter.as_deref().unwrap_or("none"));
        line("Mode, context window", &format!("{:?}, {}", model.mode, model.context_window));
        for note in &model.notes {
            line("Note", note);
        }
    }
    let memory = &engine.memory;
    let used = [memory.active, memory.cache, memory.peak, memory.limit].map(|bytes| bytes >> 20);
    let [active, cache, peak, limit] = used;
    line(
        "Memory of the engine",
        &format!("{active} MiB, {cache} MiB kept for reuse, {peak} MiB at most, of {limit} MiB"),
    );
    line(
        "Server",
        &match &state.server {
            ServerState::On(url) => url.clone(),
            other => format!("{other:?}"),
        },
    );
    if let Some(failure) = &state.models.failure {
        line("Last failure", &format!("{}: {}", failure.name, failure.reason));
    }
    for held in &state.models.downloads.held {
        if let Some(trouble) = &held.trouble {
            line("Download", &format!("{}: {}", held.offer.id, trouble.words));
        }
    }
    text.push_str("\nInstalled models\n");
    for entry in state.models.survey.iter().flat_map(|survey| &survey.installed) {
        let facts = [Some(&entry.detail), Some(&entry.source), entry.problem.as_ref()];
        let facts: Vec<&str> = facts
            .into_iter()
            .flatten()
            .map(String::as_str)
            .filter(|fact| !fact.is_empty())
            .collect();
        let _ = writeln!(text, "- {}: {}", entry.name, facts.join(", "));
    }
    text.push_str("\nSettings\n");
    text.push_str(&settings(&state.settings));
    Gathered {
        text,
        secrets: vec![state.settings.server.api_key.clone(), state.settings.chat.system_prompt.clone()],
    }
}

/// As in their file, without the key and without what was written for models.
fn settings(settings: &Settings) -> String {
    let mut open = settings.clone();
    let gone = |text: &mut String| {
        if !text.is_empty() {
            *text = "(left out)".into();
        }
    };
    gone(&mut open.server.api_key);
    gone(&mut open.chat.system_prompt);
    for preset in &mut open.presets {
        gone(&mut preset.chat.system_prompt);
    }
    // Of other versions: nobody here knows what is in them.
    open.rest = toml::Table::default();
    toml::to_string_pretty(&open).unwrap_or_else(|error| format!("cannot be written: {error}\n"))
}

/// Cuts out secrets and whatever looks like one, and shortens the home folder and the name in it.
pub fn scrubbed(text: &str, home: &str, secrets: &[String]) -> String {
    let mut out = text.to_owned();
    // A short one would cut holes into other words.
    for secret in secrets.iter().filter(|secret| secret.trim().len() > 5) {
        out = out.replace(secret.as_str(), "(left out)");
    }
    let home = home.trim_end_matches('/');
    if home.len() > 1 {
        out = out.replace(home, "~");
    }
    words(&out)
}

/// Access tokens by their beginnings, and what stands after `user:password@` in an address.
fn words(text: &str) -> String {
    const BEGINNINGS: [&str; 4] = ["hf_", "sk-", "Bearer ", "api_key="];
    let is_of_token = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.');
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((at, beginning)) = BEGINNINGS
        .iter()
        .filter_map(|beginning| rest.find(beginning).map(|at| (at, *beginning)))
        .min()
    {
        let after = &rest[at + beginning.len()..];
        let length = after.find(|letter| !is_of_token(letter)).unwrap_or(after.len());
        out.push_str(&rest[..at + beginning.len()]);
        // `sk-` alone is a word like any other.
        let word = &after[..length];
        out.push_str(if length >= 8 { "(left out)" } else { word });
        rest = &after[length..];
    }
    out.push_str(rest);
    credentials(&out)
}

/// `https://name:password@host` is `https://(left out)@host`.
fn credentials(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + 3);
        out.push_str(before);
        let end = after
            .find(|letter: char| letter.is_whitespace() || matches!(letter, '/' | '"' | '`'))
            .unwrap_or(after.len());
        match after[..end].rfind('@') {
            Some(at) => {
                out.push_str("(left out)");
                rest = &after[at..];
            }
            None => rest = after,
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_private_is_left() {
        let text = "path /home/maria/models/a, key mykey123456, hf_AbCdEf012345 and sk-0123456789abcdef; \
                    proxy http://maria:hunter22@proxy.example:3128/x, mail maria@example.org, Bearer abcdefghijkl";
        let clean = scrubbed(text, "/home/maria", &["mykey123456".into(), String::new(), "ab".into()]);
        for gone in [
            "/home/maria",
            "mykey123456",
            "AbCdEf012345",
            "0123456789abcdef",
            "hunter22",
            "abcdefghijkl",
        ] {
            assert!(!clean.contains(gone), "{gone} in {clean}");
        }
        for stays in [
            "~/models/a",
            "hf_(left out)",
            "http://(left out)@proxy.example:3128/x",
            "maria@example.org",
        ] {
            assert!(clean.contains(stays), "{stays} not in {clean}");
        }
        assert_eq!(scrubbed("a task-list sk-1", "/", &[]), "a task-list sk-1", "words stay words");
    }

    #[test]
    fn settings_without_what_was_written_for_models() {
        let mut all = Settings::default();
        all.server.api_key = "sk-secret-secret".into();
        all.chat.system_prompt = "I am Maria".into();
        let mut preset = crate::settings::Preset::known()[0].clone();
        preset.chat.system_prompt = "My diary".into();
        all.presets.push(preset);
        all.rest.insert("future".into(), toml::Value::String("unknown".into()));
        let text = settings(&all);
        for gone in ["secret", "Maria", "diary", "unknown"] {
            assert!(!text.contains(gone), "{gone} in {text}");
        }
        assert!(text.contains("port = 8080"));
    }
}
