//! `claude`: Claude Code on the local server, by its environment alone.

use super::{
    args::{ClaudeArgs, ShellArg},
    engine,
    exit::{Failure, Outcome},
    output::Output,
    served,
};
use dspark_agents::{
    Serving,
    claude::{self, REMOVED, Shell},
};
use serde_json::{Value, json};
use std::{io::ErrorKind, process::Command};

pub(super) fn run(args: &ClaudeArgs, output: &Output) -> Outcome {
    let serving = engine::runtime()?.block_on(served::ask(&args.server, output))?;
    if args.print_env && output.json {
        output.object(&variables(&serving));
        return Ok(());
    }
    if args.print_env {
        let shell = match args.shell {
            ShellArg::Fish => Shell::Fish,
            ShellArg::Sh | ShellArg::Bash | ShellArg::Zsh => Shell::Posix,
        };
        output.result(claude::script(&serving, shell).trim_end());
        return Ok(());
    }
    if args.print_settings {
        let settings = serde_json::to_string_pretty(&claude::settings(&serving)).map_err(anyhow::Error::from)?;
        output.result(&settings);
        return Ok(());
    }
    output.note(format!("Claude Code on {} at {}", serving.model, serving.base_url));
    let mut command = Command::new("claude");
    command.args(&args.rest).envs(claude::environment(&serving));
    for name in REMOVED {
        command.env_remove(name);
    }
    start(&mut command)
}

/// What a shell would be told, for a program.
fn variables(serving: &Serving) -> Value {
    json!({"environment": claude::environment(serving), "unset": REMOVED})
}

/// Becomes the program: same process, same terminal, its exit code.
#[cfg(unix)]
fn start(command: &mut Command) -> Outcome {
    use std::os::unix::process::CommandExt;
    Err(failure(&command.exec()))
}

#[cfg(not(unix))]
fn start(command: &mut Command) -> Outcome {
    let status = command.status().map_err(|error| failure(&error))?;
    std::process::exit(status.code().unwrap_or(1));
}

fn failure(error: &std::io::Error) -> Failure {
    match error.kind() {
        ErrorKind::NotFound => {
            Failure::usage("`claude` is not installed or not on the PATH: `npm install -g @anthropic-ai/claude-code` installs it")
        }
        _ => Failure::usage(format!("`claude` does not start: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_as_an_object_says_all_that_the_script_does() {
        let serving = Serving {
            base_url: "http://127.0.0.1:8080".into(),
            model: "m".into(),
            ..Serving::default()
        };
        let object = variables(&serving);
        assert_eq!(object["environment"]["ANTHROPIC_BASE_URL"], "http://127.0.0.1:8080");
        let script = claude::script(&serving, Shell::Posix);
        let told = object["environment"].as_object().unwrap();
        let removed = object["unset"].as_array().unwrap();
        assert_eq!(script.lines().count(), told.len() + removed.len(), "{script}");
        assert!(told.keys().all(|name| script.contains(&format!("export {name}="))), "{script}");
    }
}
