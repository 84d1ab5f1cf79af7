//! Claude Code's environment. It is for the child only: nothing on the disk changes.

use crate::Serving;
use serde_json::{Map, Value, json};
use std::{collections::BTreeMap, fmt::Write};

/// They would send the requests elsewhere, or show another key.
pub const REMOVED: [&str; 6] = [
    "ANTHROPIC_API_KEY",
    "CLAUDE_CODE_USE_BEDROCK",
    "CLAUDE_CODE_USE_VERTEX",
    "CLAUDE_CODE_USE_FOUNDRY",
    "CLAUDE_CODE_USE_MANTLE",
    "CLAUDE_CODE_USE_ANTHROPIC_AWS",
];

/// Smaller windows are set to this by the client, which would then overrun the real one.
const LEAST_COMPACT_WINDOW: usize = 100_000;

/// The variables to set. Every model slot is the one model: background work would otherwise ask for another.
pub fn environment(serving: &Serving) -> BTreeMap<String, String> {
    let mut variables = BTreeMap::new();
    let mut set = |name: &str, value: String| {
        variables.insert(name.to_owned(), value);
    };
    let model = &serving.model;
    set("ANTHROPIC_BASE_URL", serving.base_url.trim_end_matches('/').to_owned());
    set("ANTHROPIC_AUTH_TOKEN", serving.key_or_word().to_owned());
    set("ANTHROPIC_MODEL", model.clone());
    set("ANTHROPIC_SMALL_FAST_MODEL", model.clone());
    for slot in ["OPUS", "SONNET", "HAIKU", "FABLE"] {
        set(&format!("ANTHROPIC_DEFAULT_{slot}_MODEL"), model.clone());
        set(&format!("ANTHROPIC_DEFAULT_{slot}_MODEL_NAME"), format!("{model} (local)"));
        set(
            &format!("ANTHROPIC_DEFAULT_{slot}_MODEL_DESCRIPTION"),
            "Runs on this machine through mlx-dspark".to_owned(),
        );
    }
    set("CLAUDE_CODE_MAX_OUTPUT_TOKENS", serving.answer_tokens().to_string());
    if serving.context_window >= LEAST_COMPACT_WINDOW {
        set("CLAUDE_CODE_AUTO_COMPACT_WINDOW", (serving.context_window / 5 * 4).to_string());
    }
    // Without it a checksum of each request stands at the head of the prompt; the server leaves it out as well.
    set("CLAUDE_CODE_ATTRIBUTION_HEADER", "0".to_owned());
    set("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1".to_owned());
    // Ten minutes are less than a long prompt takes a large model the first time.
    set("API_TIMEOUT_MS", "3000000".to_owned());
    variables
}

/// A shell whose syntax is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Shell {
    /// sh, bash and zsh.
    #[default]
    Posix,
    Fish,
}

/// Lines that set the environment in a shell, sorted; what must go is unset.
pub fn script(serving: &Serving, shell: Shell) -> String {
    let mut text = String::new();
    for (name, value) in environment(serving) {
        let _ = match shell {
            Shell::Posix => writeln!(text, "export {name}={}", quoted(&value)),
            Shell::Fish => writeln!(text, "set -gx {name} {}", fish_quoted(&value)),
        };
    }
    for name in REMOVED {
        let _ = match shell {
            Shell::Posix => writeln!(text, "unset {name}"),
            Shell::Fish => writeln!(text, "set -e {name}"),
        };
    }
    text
}

/// One word of a POSIX shell, whatever is in it.
pub fn quoted(value: &str) -> String {
    format!("'{}'", value.replace('\'', "'\\''"))
}

fn fish_quoted(value: &str) -> String {
    format!("'{}'", value.replace('\\', "\\\\").replace('\'', "\\'"))
}

/// `{"env": {…}}` for a project's `.claude/settings.local.json`.
pub fn settings(serving: &Serving) -> Value {
    let variables: Map<String, Value> = environment(serving).into_iter().map(|(name, value)| (name, json!(value))).collect();
    json!({ "env": variables })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn serving(window: usize) -> Serving {
        Serving {
            base_url: "http://127.0.0.1:8080/".into(),
            model: "M".into(),
            context_window: window,
            max_output_tokens: 32_768,
            thinks: true,
            key: None,
        }
    }

    #[test]
    fn every_slot_is_the_one_model_and_the_token_is_never_empty() {
        let variables = environment(&serving(40_960));
        assert_eq!(variables["ANTHROPIC_BASE_URL"], "http://127.0.0.1:8080");
        assert_eq!(variables["ANTHROPIC_AUTH_TOKEN"], "mlx-dspark");
        for slot in ["OPUS", "SONNET", "HAIKU", "FABLE"] {
            assert_eq!(variables[&format!("ANTHROPIC_DEFAULT_{slot}_MODEL")], "M");
        }
        assert_eq!(variables["CLAUDE_CODE_ATTRIBUTION_HEADER"], "0");
        assert_eq!(variables["CLAUDE_CODE_MAX_OUTPUT_TOKENS"], "10240");
        assert!(
            !variables.contains_key("CLAUDE_CODE_AUTO_COMPACT_WINDOW"),
            "it would be set higher than the window"
        );
        assert_eq!(environment(&serving(131_072))["CLAUDE_CODE_AUTO_COMPACT_WINDOW"], "104856");
    }

    #[test]
    fn scripts_survive_any_value() {
        let mut odd = serving(0);
        odd.model = "it's $HOME `x` \\".into();
        let text = script(&odd, Shell::Posix);
        assert!(text.contains("export ANTHROPIC_MODEL='it'\\''s $HOME `x` \\'\n"), "{text}");
        assert!(text.contains("\nunset ANTHROPIC_API_KEY\n"));
        assert!(script(&odd, Shell::Fish).contains("set -gx ANTHROPIC_MODEL 'it\\'s $HOME `x` \\\\'\n"));
        let shell = std::process::Command::new("sh")
            .args(["-c", &format!("{text}printf %s \"$ANTHROPIC_MODEL\"")])
            .output()
            .unwrap();
        assert_eq!(String::from_utf8(shell.stdout).unwrap(), odd.model);
    }
}
