//! `agents`: setting up other programs for the local server, and undoing it.

use super::{
    args::{AgentsArgs, AgentsCommand},
    engine,
    exit::{self, Failure, Outcome},
    output::Output,
    served, window,
};
use comfy_table::{Table, presets::NOTHING};
use dspark_agents::{AgentError, CLIENTS, Client, Places, Serving, State, Step, Undo, apply, client, look, plan, undo};
use serde_json::{Value, json};
use std::io::{BufRead, IsTerminal};

impl From<AgentError> for Failure {
    fn from(error: AgentError) -> Self {
        let code = match &error {
            AgentError::NoFile { .. } | AgentError::NothingToUndo { .. } => exit::USAGE,
            AgentError::Unreadable { .. } | AgentError::Changed { .. } | AgentError::Meanwhile { .. } => exit::REFUSED,
            AgentError::Disk { .. } => exit::FAILED,
        };
        Self::new(code, error)
    }
}

pub(super) fn run(args: &AgentsArgs, output: &Output) -> Outcome {
    let places = Places::of_user(window::kept().records).ok_or_else(|| Failure::new(exit::FAILED, "no home folder is known: set HOME"))?;
    // Undoing needs no server.
    if let Some(AgentsCommand::Undo { client }) = &args.command {
        let path = undo(known(client)?, &places)?;
        if output.json {
            output.object(&json!({ "undone": path }));
        } else {
            output.result(&format!("{} is as it was", path.display()));
        }
        return Ok(());
    }
    let serving = engine::runtime()?.block_on(served::ask(&args.server, output))?;
    match &args.command {
        None | Some(AgentsCommand::List) => list(&serving, &places, output),
        Some(AgentsCommand::Show { client }) => show(known(client)?, &serving, &places, output),
        Some(AgentsCommand::Diff { client }) => {
            let plan = plan(known(client)?, &serving, &places)?;
            let diff = plan.diff(serving.key.as_deref());
            if output.json {
                output.object(&json!({"path": plan.path, "changes": plan.changes(), "diff": diff}));
            } else if plan.changes() {
                output.result(diff.trim_end());
            } else {
                output.note(format!("{} is up to date", plan.path.display()));
            }
        }
        Some(AgentsCommand::Apply { client, yes }) => set_up(known(client)?, *yes, &serving, &places, output)?,
        Some(AgentsCommand::Undo { .. }) => {}
    }
    Ok(())
}

fn known(name: &str) -> Outcome<&'static Client> {
    client(name).ok_or_else(|| {
        let names: Vec<&str> = CLIENTS.iter().map(|client| client.id).collect();
        Failure::usage(format!("no client is called `{name}`: there are {}", names.join(", ")))
    })
}

fn list(serving: &Serving, places: &Places, output: &Output) {
    let standings = CLIENTS.iter().map(|client| look(client, Some(serving), places));
    if output.json {
        let rows: Vec<Value> = standings
            .map(|standing| {
                let client = standing.client;
                json!({
                    "id": client.id, "name": client.name, "protocol": client.protocol, "state": standing.state.word(),
                    "summary": client.summary, "installed": standing.found.map(|found| found.path), "file": client.path(places),
                    "edited": standing.edited, "reasons": standing.reasons, "conflict": standing.conflict,
                    "undo": standing.undo != Undo::Nothing,
                })
            })
            .collect();
        output.object(&json!({"url": serving.base_url, "model": serving.model, "clients": rows}));
        return;
    }
    let mut table = Table::new();
    table.load_style(NOTHING).set_header(["Client", "", "Installed", "State", "How"]);
    for standing in standings {
        let client = standing.client;
        let installed = if standing.found.is_some() { "yes" } else { "" };
        table.add_row([client.id, client.name, installed, &standing.words(), client.summary]);
        if let State::Unreadable(why) = &standing.state {
            let path = client.path(places).unwrap_or_default();
            output.note(format!(
                "{} is left alone: {why}; `mlx-dspark agents show {}` prints the entry",
                path.display(),
                client.id
            ));
        }
        if let Some(conflict) = &standing.conflict {
            output.note(format!("{}: {conflict}", client.name));
        }
    }
    output.result(&table.to_string());
}

fn show(client: &'static Client, serving: &Serving, places: &Places, output: &Output) {
    if output.json {
        output.object(&client.describe(serving, places));
        return;
    }
    output.result(&format!("{}: {}", client.name, client.summary));
    for step in client.steps(serving, places) {
        match step {
            Step::Command { label, command } => output.result(&format!("\n{label}:\n  {command}")),
            Step::Environment { label, variables } => {
                output.result(&format!("\n{label}:"));
                for (name, value) in variables {
                    output.result(&format!("  export {name}={}", dspark_agents::claude::quoted(&value)));
                }
            }
            Step::Fields { label, fields } => {
                output.result(&format!("\n{label}:"));
                for (name, value) in fields {
                    output.result(&format!("  {name:<16}{value}"));
                }
            }
            Step::File { label, path, content } => output.result(&format!("\n{label}, in {}:\n{}", path.display(), content.trim_end())),
        }
    }
    if let Some(note) = client.note {
        output.result(&format!("\n{note}"));
    }
}

fn set_up(client: &'static Client, yes: bool, serving: &Serving, places: &Places, output: &Output) -> Outcome {
    let plan = plan(client, serving, places)?;
    let done = |changed: bool| {
        if output.json {
            output.object(&json!({"path": plan.path, "changed": changed}));
        } else if changed {
            output.result(&format!(
                "{} is set up for {}; `mlx-dspark agents undo {}` undoes it",
                client.name, serving.model, client.id
            ));
        } else {
            output.result(&format!("{} is up to date", plan.path.display()));
        }
    };
    if !plan.changes() {
        done(false);
        return Ok(());
    }
    output.note(plan.diff(serving.key.as_deref()).trim_end());
    if !yes && !agrees(&plan.path.display().to_string())? {
        return Err(Failure::new(exit::REFUSED, "nothing was changed"));
    }
    apply(&plan, places)?;
    done(true);
    Ok(())
}

/// Nobody to ask means no.
fn agrees(path: &str) -> Outcome<bool> {
    let input = std::io::stdin();
    if !input.is_terminal() {
        return Err(Failure::usage(format!(
            "`{path}` would be changed: say `--yes` to do so without being asked"
        )));
    }
    eprint!("Change {path}? [y/N] ");
    let mut line = String::new();
    input.lock().read_line(&mut line)?;
    Ok(matches!(line.trim(), "y" | "Y" | "yes"))
}
