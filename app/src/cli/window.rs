//! No command: the window, or a word in the terminal where there is no display.

use super::{
    args::{AppArgs, GenerateArgs},
    engine,
    exit::{self, Failure, Outcome},
    generate,
    output::Output,
};
use crate::{catalog::HubCatalog, host::Kept, http::HttpServer};
use clap::Parser;
use dspark_agents::Places;
use dspark_hub::{Hub, Lookup};
use dspark_window::shell::{self, AppOptions, NoWindow, StartModel};
use std::{path::PathBuf, sync::Arc};

pub(super) fn open(args: &AppArgs, output: &Output) -> Outcome {
    if !has_display() {
        return in_terminal(
            args,
            "there is no display here (neither DISPLAY nor WAYLAND_DISPLAY is set), so the window stays closed",
            output,
        );
    }
    let (data_dir, settings_path) = places(args)?;
    let model = args.model.as_deref().map(|name| start_model(name, output)).transpose()?;
    if shell::focus_running(&data_dir, model.as_ref()) {
        output.note("mlx-dspark is open already: its window comes forward");
        return Ok(());
    }
    let runtime = engine::runtime()?;
    // Not waited for: the window opens at once and shows the engine coming up, or why it does not.
    let handle = dspark_engine::start(engine::options());
    let kept = Kept::of(&data_dir, &settings_path);
    // One cap for what the window and what other programs download.
    let limit = kept.limit.clone();
    let server = Arc::new(HttpServer::new(handle.clone(), runtime.handle().clone(), kept));
    let start = model.as_ref().map(|model| model.path.clone());
    let catalog = Arc::new(HubCatalog::new(args.pair.wish(&args.rounds), start).under(limit));
    let mut options = AppOptions::new(handle.clone(), data_dir, settings_path, catalog, server);
    options.machine = Arc::new(crate::machine::ThisMachine);
    options.agents = Places::of_user(options.data_dir.join("agents"));
    options.desktop = dspark_desktop::of_this_system(at_login(args));
    options.hidden = args.hidden;
    options.model = model;
    options.version = crate::version();
    let closed = shell::run(options);
    handle.shutdown();
    let no_window = closed
        .as_ref()
        .err()
        .filter(|error| error.is::<NoWindow>())
        .map(ToString::to_string);
    if no_window.is_some() {
        // Its memory is needed for the answer in the terminal.
        runtime.block_on(engine::stop(&handle));
    }
    runtime.shutdown_timeout(std::time::Duration::from_secs(1));
    match no_window {
        Some(why) => in_terminal(args, &why, output),
        None => closed.map_err(Failure::from),
    }
}

/// What the system starts at login: this program with its data, without its window.
fn at_login(args: &AppArgs) -> dspark_desktop::Program {
    let mut arguments = vec!["app".to_owned(), "--hidden".to_owned()];
    if let Some(dir) = &args.data_dir {
        let dir = std::path::absolute(dir).unwrap_or_else(|_| dir.clone());
        arguments.extend(["--data-dir".to_owned(), dir.to_string_lossy().into_owned()]);
    }
    dspark_desktop::Program {
        path: std::env::current_exe().unwrap_or_else(|_| "mlx-dspark".into()),
        arguments,
    }
}

fn places(args: &AppArgs) -> Outcome<(PathBuf, PathBuf)> {
    match &args.data_dir {
        Some(dir) => Ok((dir.clone(), dir.join("settings.toml"))),
        None => folders(),
    }
}

/// Chats and settings, where this system keeps such things.
pub(super) fn folders() -> Outcome<(PathBuf, PathBuf)> {
    let home = std::env::home_dir()
        .ok_or_else(|| Failure::new(exit::FAILED, "no home folder is known: say where to keep chats with `--data-dir`"))?;
    if cfg!(target_os = "macos") {
        let dir = home.join("Library/Application Support/mlx-dspark");
        return Ok((dir.clone(), dir.join("settings.toml")));
    }
    let place = |name: &str, default: &str| {
        let set = std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
            .filter(|path| path.is_absolute());
        set.unwrap_or_else(|| home.join(default)).join("mlx-dspark")
    };
    Ok((
        place("XDG_DATA_HOME", ".local/share"),
        place("XDG_CONFIG_HOME", ".config").join("settings.toml"),
    ))
}

/// What is kept where. Without a home folder there is nothing to set up either.
pub(super) fn kept() -> Kept {
    folders().map_or_else(|_| Kept::default(), |(data, settings)| Kept::of(&data, &settings))
}

fn start_model(name: &str, output: &Output) -> Outcome<StartModel> {
    let hub = Hub::from_env();
    let resolved = match hub.lookup(name) {
        Lookup::Installed(resolved) => resolved,
        Lookup::Missing { .. } => {
            let args = generate_args(name)?;
            engine::runtime()?.block_on(engine::find(&args.engine, output))?
        }
    };
    let folder = resolved.path.file_name().map(|folder| folder.to_string_lossy().into_owned());
    Ok(StartModel {
        // "starter" is a word for the command line; people see which model it is.
        name: folder
            .filter(|_| resolved.name == dspark_hub::starter::NAME)
            .unwrap_or(resolved.name),
        path: resolved.path,
    })
}

fn has_display() -> bool {
    let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    cfg!(target_os = "macos") || set("DISPLAY") || set("WAYLAND_DISPLAY")
}

/// The same model answers here, with its speed.
fn in_terminal(args: &AppArgs, why: &str, output: &Output) -> Outcome {
    let model = args.model.as_deref().unwrap_or(dspark_hub::starter::NAME);
    output.note(format!(
        "{why}.\n\
         `{model}` answers one prompt instead; `mlx-dspark generate` asks your own, `mlx-dspark serve` opens the API.\n"
    ));
    let args = GenerateArgs {
        pair: args.pair.clone(),
        rounds: args.rounds.clone(),
        ..generate_args(model)?
    };
    if !output.json {
        output.note(format!("> {}\n", generate::SAMPLE_PROMPT));
    }
    generate::run(&args, output)
}

/// `generate` on this model, everything else as by default.
fn generate_args(model: &str) -> Outcome<GenerateArgs> {
    #[derive(Parser)]
    struct Alone {
        #[command(flatten)]
        args: GenerateArgs,
    }
    Alone::try_parse_from(["generate", "--model", model, "--prompt", generate::SAMPLE_PROMPT])
        .map(|alone| alone.args)
        .map_err(Failure::usage)
}
