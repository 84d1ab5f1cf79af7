//! `claude`: Claude Code on the local server, by its environment alone.

use super::{
    args::{ClaudeArgs, ShellArg},
    engine,
    exit::{Failure, Outcome},
    output::Output,
    served,
};
use dspark_agents::claude::{self, REMOVED, Shell};
use std::{io::ErrorKind, process::Command};

pub(super) fn run(args: &ClaudeArgs, output: &Output) -> Outcome {
    let serving = engine::runtime()?.block_on(served::ask(&args.server, output))?;
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
