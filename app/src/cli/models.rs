//! `models`: what is installed, what is recommended, what fits; fetch and remove.

use super::{
    args::{ModelsArgs, ModelsCommand},
    engine,
    exit::{self, Failure, Outcome},
    output::Output,
};
use crate::{
    catalog, machine,
    pairing::{self, Pairing, Wish},
};
use comfy_table::{Table, presets::NOTHING};
use dspark_hub::{Folder, Hub, HubError, Installed, Job, Kind, Preview, Resolved, Source, fit, registry, size};
use serde_json::{Value, json};
use std::{
    io::{BufRead, IsTerminal},
    path::PathBuf,
};

/// Tokens of context that the verdict in the list assumes.
const CONTEXT: u64 = 8192;

pub(super) fn run(args: &ModelsArgs, output: &Output) -> Outcome {
    let hub = Hub::from_env();
    match &args.command {
        None => {
            list(&hub, output);
            Ok(())
        }
        Some(ModelsCommand::Pull {
            repo,
            revision,
            no_drafter,
        }) => pull(&hub, repo, revision, *no_drafter, output),
        Some(ModelsCommand::Rm { repo, yes }) => remove(&hub, repo, *yes, output),
        Some(ModelsCommand::Search { words, all }) => search(&hub, &words.join(" "), *all, output),
        Some(ModelsCommand::Path { repo }) => {
            let resolved = hub.resolve(repo)?;
            if output.json {
                output.object(&json!(resolved));
            } else {
                output.result(&resolved.path.display().to_string());
            }
            Ok(())
        }
        Some(ModelsCommand::Verify { repo }) => {
            let path = engine::runtime()?.block_on(engine::with_progress(output, repo, |job| verify(&hub, repo, job)))?;
            if output.json {
                output.object(&json!({ "path": path, "ok": true }));
            } else {
                output.result(&format!("{}: every file is as it was published", path.display()));
            }
            Ok(())
        }
        Some(ModelsCommand::Check { repo, context }) => check(&hub, repo, *context as u64, output),
    }
}

/// What `models --json` says.
pub(crate) fn object(hub: &Hub) -> Value {
    let machine = machine::for_fit();
    let families = machine::families();
    let families: Vec<&str> = families.iter().map(String::as_str).collect();
    let installed: Vec<_> = hub.installed().iter().map(|row| with_fit(hub, row, &machine)).collect();
    json!({
        "installed": installed,
        "recommended": registry::recommended(machine.ram, &families),
        "registry": registry::rows(),
        "disk_bytes": hub.disk_usage(),
        "starter": hub.installed_starter(),
    })
}

pub(super) fn list(hub: &Hub, output: &Output) {
    if output.json {
        output.object(&object(hub));
        return;
    }
    let machine = machine::for_fit();
    let installed = hub.installed();
    let families = machine::families();
    let families: Vec<&str> = families.iter().map(String::as_str).collect();
    let rows = registry::recommended(machine.ram, &families);
    let mut table = table(&["Installed", "Size", "Weights", "Source", "Here", "Drafter"]);
    for row in &installed {
        let verdict = row.folder.state.problem().unwrap_or_else(|| match row.folder.kind {
            Kind::Drafter => "drafter".into(),
            Kind::Model => judge(hub, row, &machine, CONTEXT).verdict.label(),
        });
        let source = json!(row.source).as_str().unwrap_or_default().to_owned();
        table.add_row([
            row.repo.clone(),
            size(row.folder.size_bytes),
            row.folder.quantization.clone().unwrap_or_default(),
            source,
            verdict,
            drafter_words(hub, row),
        ]);
    }
    if installed.is_empty() {
        output.note("No model is installed. `mlx-dspark starter` gets a small one.");
    } else {
        output.result(&table.to_string());
    }
    if !rows.is_empty() {
        let mut table = self::table(&["For this machine", "Download", "With its drafter", "Get it with"]);
        for row in rows {
            table.add_row([
                row.id.clone(),
                format!("about {}", size(row.estimated_bytes())),
                row.measured
                    .first()
                    .map_or_else(String::new, |measured| format!("{:.1}x on an {}", measured.times, measured.on)),
                format!("mlx-dspark models pull {}", row.target),
            ]);
        }
        output.result(&format!("\n{table}"));
    }
}

fn table(head: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(NOTHING).set_header(head);
    table
}

fn judge(hub: &Hub, row: &Installed, machine: &fit::Machine, context: u64) -> fit::Fit {
    fit::judge(&catalog::needs(hub, row), machine, context)
}

fn with_fit(hub: &Hub, row: &Installed, machine: &fit::Machine) -> Value {
    let mut value = json!(row);
    if row.is_usable() && row.folder.kind == Kind::Model {
        value["fit"] = json!(judge(hub, row, machine, CONTEXT));
        let pairing = pairing(hub, row);
        let path = pairing.drafter.as_ref().map(|drafter| &drafter.path);
        let kind = pairing.drafter.as_ref().map(|drafter| drafter.kind);
        let name = pairing.drafter.as_ref().map(|drafter| &drafter.name).or(pairing.missing.as_ref());
        value["drafter"] = name.map_or(
            Value::Null,
            |name| json!({ "name": name, "installed": path.is_some(), "path": path, "kind": kind }),
        );
    }
    value
}

/// What the model drafts with by itself.
fn pairing(hub: &Hub, row: &Installed) -> Pairing {
    let target = pairing::Target {
        name: &row.repo,
        path: &row.folder.path,
    };
    pairing::pair(hub, target, &Wish::default()).unwrap_or_default()
}

fn drafter_words(hub: &Hub, row: &Installed) -> String {
    if !row.is_usable() || row.folder.kind == Kind::Drafter {
        return String::new();
    }
    let pairing = pairing(hub, row);
    match (pairing.drafter, pairing.missing) {
        (Some(drafter), _) => drafter.name,
        (None, Some(missing)) => format!("{missing} (not installed)"),
        (None, None) => String::new(),
    }
}

fn pull(hub: &Hub, repo: &str, revision: &str, no_drafter: bool, output: &Output) -> Outcome {
    let path = std::path::Path::new(repo);
    let is_gguf = path.extension().is_some_and(|ext| ext.eq_ignore_ascii_case("gguf"));
    if (is_gguf || repo.starts_with(['/', '.', '~'])) && !path.exists() {
        let what = if is_gguf { "file" } else { "folder" };
        return Err(Failure::usage(format!(
            "there is no {what} `{repo}`: check the path, or name a model of the hub as `owner/name`"
        )));
    }
    let runtime = engine::runtime()?;
    let local = repo == dspark_hub::starter::NAME || path.is_file();
    let (path, note) = runtime.block_on(engine::with_progress(output, repo, |job| async move {
        let path = if local {
            hub.obtain(repo, &job).await?.path
        } else {
            hub.download(repo, Some(revision), &job).await?
        };
        let model = Resolved {
            name: repo.to_owned(),
            path: path.clone(),
            source: Source::Cache,
        };
        let alone = no_drafter || Folder::look(&path).kind == Kind::Drafter;
        let note = if alone {
            None
        } else {
            pairing::drafter_for(hub, &model, &job).await
        };
        Ok::<_, HubError>((path, note))
    }))?;
    if let Some(note) = note {
        output.warn(note);
    }
    if output.json {
        output.object(&json!({ "path": path }));
    } else {
        output.result(&path.display().to_string());
    }
    Ok(())
}

/// What the hub has by this name, and what of it can be loaded.
fn search(hub: &Hub, words: &str, all: bool, output: &Output) -> Outcome {
    let families = machine::families();
    let families: Vec<&str> = families.iter().map(String::as_str).collect();
    let job = |job| async move { hub.search(words, &job).await };
    let found = engine::runtime()?.block_on(engine::with_progress(output, words, job))?;
    if output.json {
        let rows: Vec<Value> = found
            .iter()
            .map(|row| {
                let mut value = json!(row);
                value["problem"] = json!(row.problem(&families));
                value
            })
            .collect();
        output.object(&json!({ "query": words, "found": rows }));
        return Ok(());
    }
    let mut rows = table(&["Repository", "Weights", "Size", "Downloads", "Here"]);
    let mut left_out = 0;
    for row in &found {
        let problem = row.problem(&families);
        if problem.is_some() && !all {
            left_out += 1;
            continue;
        }
        let here = problem.unwrap_or_else(|| if row.gated { "licence to accept".into() } else { String::new() });
        rows.add_row([
            row.repo.clone(),
            row.quantization
                .map_or_else(String::new, |(bits, group)| format!("{bits}-bit g{group}")),
            row.weight_bytes.map_or_else(String::new, size),
            row.downloads.to_string(),
            here,
        ]);
    }
    if found.len() > left_out {
        output.result(&rows.to_string());
    } else {
        output.note(&format!("The hub has nothing by the name `{words}` that can be loaded."));
    }
    if left_out > 0 {
        output.note(&format!(
            "{left_out} that cannot be loaded are left out; `--all` shows them with the reason."
        ));
    }
    Ok(())
}

/// Reads every byte: off the runtime's threads, so that Ctrl-C is heard.
async fn verify(hub: &Hub, repo: &str, job: Job) -> Result<PathBuf, HubError> {
    let (hub, repo) = (hub.clone(), repo.to_owned());
    tokio::task::spawn_blocking(move || hub.verify(&repo, &job))
        .await
        .unwrap_or_else(|error| Err(HubError::Internal(error.to_string())))
}

fn remove(hub: &Hub, repo: &str, yes: bool, output: &Output) -> Outcome {
    if !yes {
        let plan = hub.removable(repo, true)?;
        let frees = if plan.link {
            "removes a link and frees nothing".to_owned()
        } else {
            format!("frees {}", size(plan.bytes))
        };
        if !std::io::stdin().is_terminal() {
            return Err(Failure::usage(format!(
                "`models rm {repo}` {frees}: say `--yes` to do it without being asked"
            )));
        }
        eprint!("Delete {repo} ({frees})? [y/N] ");
        let mut answer = String::new();
        std::io::stdin().lock().read_line(&mut answer)?;
        if !answer.trim().eq_ignore_ascii_case("y") {
            return Err(Failure::new(exit::FAILED, "nothing was deleted"));
        }
    }
    let removed = hub.remove(repo, true)?;
    if output.json {
        output.object(&json!(removed));
    } else if removed.link {
        output.result(&format!("the link {} is gone; what it pointed to stays", removed.path.display()));
    } else {
        output.result(&format!("{} deleted, {} free again", removed.path.display(), size(removed.bytes)));
    }
    Ok(())
}

async fn preview(hub: &Hub, repo: &str, job: Job) -> Result<Preview, HubError> {
    hub.preview(repo, None, &job).await
}

/// The verdict on a model before it is downloaded, or on an installed one, with the sum.
fn check(hub: &Hub, repo: &str, context: u64, output: &Output) -> Outcome {
    let machine = machine::for_fit();
    let installed = hub
        .installed()
        .into_iter()
        .find(|row| row.repo == repo || row.folder.path.as_os_str() == repo);
    let model = if let Some(row) = installed {
        catalog::needs(hub, &row)
    } else {
        let preview = engine::runtime()?.block_on(engine::with_progress(output, repo, |job| preview(hub, repo, job)))?;
        preview.check_loadable()?;
        preview.model(16)
    };
    let fit = fit::judge(&model, &machine, context);
    let cut = (fit.context < context).then(|| {
        format!(
            "{context} tokens are more than the model's maximum: {} are planned for",
            fit.context
        )
    });
    if output.json {
        output.object(&json!({ "repo": repo, "fit": fit, "warnings": cut.as_slice() }));
    } else {
        let mut table = table(&["Part", "Memory"]);
        for item in &fit.items {
            table.add_row([item.label.to_owned(), size(item.bytes)]);
        }
        table.add_row(["sum".to_owned(), size(fit.peak)]);
        table.add_row(["this machine can give".to_owned(), size(fit.budget)]);
        output.result(&format!("{} at {} tokens of context\n{table}", fit.verdict.label(), fit.context));
        if let Some(cut) = &cut {
            output.warn(cut);
        }
        if fit.kv_unknown {
            output.note("The KV cache is not in the sum: it is known once the model is here.");
        }
    }
    if fit.verdict.fits() {
        Ok(())
    } else {
        Err(Failure::new(exit::REFUSED, format!("`{repo}` is too big for this machine")))
    }
}
