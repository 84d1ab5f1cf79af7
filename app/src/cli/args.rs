//! What can be said on the command line. Every knob has the same spelling wherever it appears.

use super::convert::ConvertArgs;
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use dspark_compare::Shape;
use dspark_protocol::Cap;
use std::{ffi::OsString, path::PathBuf};
use values::{at_least_one, share, temperature, whole};

mod decoding;
mod values;

pub(super) use decoding::{EngineArgs, PairArgs, RoundArgs, SamplingArgs};

/// Language models on your own machine, with exactly the model's own output.
///
/// Without a command it opens the app.
#[derive(Debug, Parser)]
#[command(name = "mlx-dspark", version, long_version = LONG_VERSION, propagate_version = true, disable_help_subcommand = true)]
pub(super) struct Arguments {
    #[command(flatten)]
    pub(super) global: GlobalArgs,
    #[command(subcommand)]
    pub(super) command: Option<Command>,
}

const LONG_VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (engine ", env!("CARGO_PKG_VERSION"), ", MLX 0.32.2)");

#[derive(Debug, Clone, Default, Args)]
pub(super) struct GlobalArgs {
    /// One JSON object on standard output and nothing else.
    #[arg(long, global = true)]
    pub(super) json: bool,
    /// Only results and errors.
    #[arg(short, long, global = true)]
    pub(super) quiet: bool,
    /// Log more (twice: everything).
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(super) verbose: u8,
    /// No colours (also `NO_COLOR`).
    #[arg(long, global = true)]
    pub(super) no_color: bool,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Open the app (the same as no command).
    App(AppArgs),
    /// Answer one prompt and print it as it is written.
    Generate(GenerateArgs),
    /// Serve the local model over HTTP.
    Serve(ServeArgs),
    /// Start Claude Code on the local server; nothing on the disk changes.
    Claude(ClaudeArgs),
    /// Set up coding agents and chat clients for the local server, and undo it.
    Agents(AgentsArgs),
    /// List, fetch, check and remove models.
    Models(ModelsArgs),
    /// Convert a checkpoint of the hub's, or a GGUF file, to an MLX folder; quantize it where asked.
    Convert(ConvertArgs),
    /// Measure what a drafter gets accepted, and prove that the text stays the model's own.
    Probe(ProbeArgs),
    /// Prove that speculation writes the model's own text, token by token.
    VerifyLossless(ProofArgs),
    /// Measure ways of decoding side by side, in turns.
    Benchmark(BenchmarkArgs),
    /// Check this machine and say what would not work.
    Doctor(DoctorArgs),
    /// Get the small starter model.
    Starter(StarterArgs),
}

/// Arguments that begin with an option of `generate` mean `generate` (as the Python program took them); with where chats are
/// kept, the app.
pub(super) fn with_default_command(words: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut words: Vec<_> = words.collect();
    let bare = |word: &OsString| matches!(word.to_str(), Some(text) if text == "--prompt" || text.starts_with("--prompt=") || text == "--model" || text.starts_with("--model="));
    let app = |word: &OsString| matches!(word.to_str(), Some(text) if text == "--data-dir" || text.starts_with("--data-dir="));
    if words.get(1).is_some_and(bare) {
        words.insert(1, "generate".into());
    } else if words.get(1).is_some_and(app) {
        words.insert(1, "app".into());
    }
    words
}

/// # Errors
/// What cannot be understood, and help and version, in clap's words.
pub(super) fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Arguments, clap::Error> {
    let mut command = negatives(Arguments::command());
    let matches = command.try_get_matches_from_mut(words)?;
    Arguments::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
}

/// A number below zero is a value, wrong or not, and no flag of that name: what it may be says the flag that it belongs to.
fn negatives(command: clap::Command) -> clap::Command {
    command
        .mut_args(|arg| {
            let takes = arg.get_action().takes_values() && !arg.is_positional();
            if takes { arg.allow_negative_numbers(true) } else { arg }
        })
        .mut_subcommands(negatives)
}

/// Whether these words ask for `--json`, for the time before they are understood.
pub(super) fn ask_for_json(words: &[OsString]) -> bool {
    words.iter().take_while(|word| *word != "--").any(|word| word == "--json")
}

#[derive(Debug, Clone, Default, Args)]
pub(super) struct AppArgs {
    /// Load this model at start.
    #[arg(long, value_name = "NAME|FOLDER")]
    pub(super) model: Option<String>,
    #[command(flatten)]
    pub(super) pair: PairArgs,
    #[command(flatten)]
    pub(super) rounds: RoundArgs,
    /// Start with the window closed, where a tray or menu bar can open it (as at login).
    #[arg(long)]
    pub(super) hidden: bool,
    /// Keep chats and settings here instead of the user's data folder.
    #[arg(long, value_name = "FOLDER", env = "MLX_DSPARK_DATA")]
    pub(super) data_dir: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(super) struct GenerateArgs {
    #[command(flatten)]
    pub(super) engine: EngineArgs,
    #[command(flatten)]
    pub(super) pair: PairArgs,
    #[command(flatten)]
    pub(super) rounds: RoundArgs,
    #[command(flatten)]
    pub(super) sampling: SamplingArgs,
    /// What to answer; `-` reads standard input. Piped input is read when this is left out.
    #[arg(long, conflicts_with = "prompt_file", allow_hyphen_values = true)]
    pub(super) prompt: Option<String>,
    /// Read the prompt from a file.
    #[arg(long, value_name = "FILE")]
    pub(super) prompt_file: Option<PathBuf>,
    /// A system message before the prompt.
    #[arg(long, allow_hyphen_values = true)]
    pub(super) system: Option<String>,
    #[arg(long, default_value_t = 220, value_parser = whole::<usize>)]
    pub(super) max_new_tokens: usize,
    /// Stop before this text (may be repeated).
    #[arg(long, allow_hyphen_values = true)]
    pub(super) stop: Vec<String>,
    /// Give log-probabilities of this many best tokens (with --json).
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=20))]
    pub(super) logprobs: Option<u8>,
    /// Hold the answer to the JSON schema in this file.
    #[arg(long, value_name = "FILE")]
    pub(super) json_schema: Option<PathBuf>,
    /// The prompt as it is, without the model's chat template.
    #[arg(long)]
    pub(super) no_chat_template: bool,
    /// Ask the model not to reason first.
    #[arg(long)]
    pub(super) no_thinking: bool,
    /// How much to reason, where the model can be told.
    #[arg(long, value_parser = ["none", "minimal", "low", "medium", "high", "xhigh"])]
    pub(super) reasoning_effort: Option<String>,
    /// Print the whole answer at the end instead of as it is written.
    #[arg(long)]
    pub(super) no_stream: bool,
}

#[derive(Debug, Args)]
pub(super) struct ServeArgs {
    #[command(flatten)]
    pub(super) engine: EngineArgs,
    #[command(flatten)]
    pub(super) pair: PairArgs,
    #[command(flatten)]
    pub(super) rounds: RoundArgs,
    /// Start without a model.
    #[arg(long, conflicts_with = "model")]
    pub(super) no_model: bool,
    #[arg(long, default_value = "127.0.0.1", env = "MLX_DSPARK_HOST")]
    pub(super) host: String,
    /// 0 picks a free port and prints it.
    #[arg(long, default_value_t = 8080, env = "MLX_DSPARK_PORT")]
    pub(super) port: u16,
    /// Clients must present this key.
    #[arg(long, env = "MLX_DSPARK_API_KEY", hide_env_values = true)]
    pub(super) api_key: Option<String>,
    /// Read the key from a file (keeps it out of the process list).
    #[arg(long, value_name = "FILE", conflicts_with = "api_key")]
    pub(super) api_key_file: Option<PathBuf>,
    /// Serve beyond this machine without a key.
    #[arg(long)]
    pub(super) insecure_no_key: bool,
    /// Another name under which clients may reach this server (may be repeated).
    #[arg(long, value_name = "NAME")]
    pub(super) allowed_host: Vec<String>,
    /// A web page's origin that may call this server (may be repeated; `*` allows any).
    #[arg(long, value_name = "ORIGIN")]
    pub(super) cors_origin: Vec<String>,
    #[arg(long, default_value_t = 2048, value_parser = whole::<usize>)]
    pub(super) default_max_tokens: usize,
    #[arg(long, default_value_t = 32768, value_parser = whole::<usize>)]
    pub(super) max_tokens_cap: usize,
    /// For requests that name none; beats what the checkpoint recommends.
    #[arg(long, value_parser = temperature)]
    pub(super) default_temperature: Option<f32>,
    #[arg(long, value_parser = share)]
    pub(super) default_top_p: Option<f32>,
    #[arg(long, value_parser = whole::<u32>)]
    pub(super) default_top_k: Option<u32>,
    /// Requests that may wait.
    #[arg(long, default_value_t = 32, value_parser = whole::<usize>)]
    pub(super) max_queue: usize,
    /// Keep computed prompts on disk too, in at most this many gigabytes, so that conversations go on at full speed after a
    /// restart; 0 keeps them in memory alone. They hold what was said: the folder is readable by you alone.
    #[arg(long, value_name = "GB", default_value_t = 0, env = "MLX_DSPARK_PROMPT_CACHE_GB", value_parser = whole::<u64>)]
    pub(super) prompt_cache_gb: u64,
    /// The folder for them, instead of `prompts` in the program's cache folder.
    #[arg(long, value_name = "DIR")]
    pub(super) prompt_cache_dir: Option<PathBuf>,
    /// Skip the short generation that makes the first request as fast as the rest.
    #[arg(long)]
    pub(super) no_warmup: bool,
    /// Drop images and files from requests, with a warning, instead of refusing such requests.
    #[arg(long)]
    pub(super) ignore_attachments: bool,
    /// Write `{url, pid, model}` here once ready.
    #[arg(long, value_name = "FILE")]
    pub(super) ready_file: Option<PathBuf>,
}

/// Which running server.
#[derive(Debug, Clone, Args)]
pub(super) struct ServerArgs {
    /// Where the server listens.
    #[arg(long, global = true, default_value = "http://127.0.0.1:8080", env = "MLX_DSPARK_URL")]
    pub(super) url: String,
    /// Its key, if it asks for one.
    #[arg(long, global = true, env = "MLX_DSPARK_API_KEY", hide_env_values = true)]
    pub(super) api_key: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct ClaudeArgs {
    #[command(flatten)]
    pub(super) server: ServerArgs,
    /// Print the environment as shell lines instead of starting.
    #[arg(long, conflicts_with = "print_settings")]
    pub(super) print_env: bool,
    /// For `--print-env`.
    #[arg(long, value_enum, default_value = "sh", requires = "print_env")]
    pub(super) shell: ShellArg,
    /// Print what a project's `.claude/settings.local.json` would need instead of starting.
    #[arg(long)]
    pub(super) print_settings: bool,
    /// Passed on to `claude`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
    pub(super) rest: Vec<OsString>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum ShellArg {
    Sh,
    Bash,
    Zsh,
    Fish,
}

#[derive(Debug, Args)]
pub(super) struct AgentsArgs {
    #[command(flatten)]
    pub(super) server: ServerArgs,
    #[command(subcommand)]
    pub(super) command: Option<AgentsCommand>,
}

#[derive(Debug, Subcommand)]
pub(super) enum AgentsCommand {
    /// Which clients there are, and where each stands.
    List,
    /// What to do, and what to paste, for a client.
    Show { client: String },
    /// What setting it up would change.
    Diff { client: String },
    /// Set it up: shows the change, asks, and keeps an undo record.
    Apply {
        client: String,
        /// Do not ask.
        #[arg(long)]
        yes: bool,
    },
    /// Bring back what was there before.
    Undo { client: String },
}

#[derive(Debug, Args)]
pub(super) struct ModelsArgs {
    #[command(subcommand)]
    pub(super) command: Option<ModelsCommand>,
}

#[derive(Debug, Subcommand)]
pub(super) enum ModelsCommand {
    /// Download a model and the drafter that belongs to it; goes on where it stopped.
    Pull {
        /// `owner/name`
        repo: String,
        /// A branch, tag or commit.
        #[arg(long, default_value = "main")]
        revision: String,
        /// Only the model, without the drafter that belongs to it.
        #[arg(long)]
        no_drafter: bool,
    },
    /// Delete a model that this program keeps.
    Rm {
        repo: String,
        /// Do not ask.
        #[arg(long)]
        yes: bool,
    },
    /// Look for models on the hub, builds for MLX first; says which can be loaded, and why the others cannot.
    Search {
        /// Words of a name.
        #[arg(required = true)]
        words: Vec<String>,
        /// Show what cannot be loaded too.
        #[arg(long)]
        all: bool,
    },
    /// Print a model's folder.
    Path { repo: String },
    /// Check a model's files against what was published.
    Verify { repo: String },
    /// Say whether a model would fit, with the sum.
    Check {
        repo: String,
        /// Tokens of context to plan for.
        #[arg(long, default_value_t = 8192, value_parser = whole::<usize>)]
        context: usize,
    },
}

#[derive(Debug, Args)]
pub(super) struct ProbeArgs {
    #[command(flatten)]
    pub(super) engine: EngineArgs,
    #[command(flatten)]
    pub(super) pair: PairArgs,
    /// Instead of the shipped prompts (may be repeated).
    #[arg(long)]
    pub(super) prompt: Vec<String>,
    #[arg(long, default_value_t = 128, value_parser = whole::<usize>)]
    pub(super) max_new_tokens: usize,
    /// Guesses of a round, at most; all that the drafter gives if left out.
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub(super) max_draft: Option<usize>,
}

#[derive(Debug, Args)]
pub(super) struct ProofArgs {
    #[command(flatten)]
    pub(super) engine: EngineArgs,
    #[command(flatten)]
    pub(super) pair: PairArgs,
    #[command(flatten)]
    pub(super) rounds: RoundArgs,
    /// Ways to decode: auto, dspark, dflash, lookup, baseline, with `+lookup` or `+tree`.
    #[arg(long, value_name = "MODES", value_delimiter = ',', default_value = "auto,lookup", value_parser = dspark_compare::shape)]
    pub(super) modes: Vec<Shape>,
    /// Drafts of a round, for each of them: a number, derived, auto or full.
    #[arg(long, value_name = "CAPS", value_delimiter = ',', default_value = "1,3,full,auto", value_parser = dspark_compare::cap)]
    pub(super) caps: Vec<Cap>,
    /// Instead of the shipped prompts (may be repeated).
    #[arg(long)]
    pub(super) prompt: Vec<String>,
    #[arg(long, default_value_t = 64, value_parser = at_least_one)]
    pub(super) max_new_tokens: usize,
}

#[derive(Debug, Args)]
pub(super) struct BenchmarkArgs {
    #[command(flatten)]
    pub(super) engine: EngineArgs,
    #[command(flatten)]
    pub(super) pair: PairArgs,
    #[command(flatten)]
    pub(super) rounds: RoundArgs,
    /// Ways to set beside plain decoding: auto, dspark, dflash, lookup, with `+lookup` or `+tree`.
    #[arg(long, value_name = "MODES", value_delimiter = ',', default_value = "auto", value_parser = dspark_compare::shape)]
    pub(super) modes: Vec<Shape>,
    /// Drafts of a round, for each of them: a number, derived, auto or full.
    #[arg(long, value_name = "CAPS", value_delimiter = ',', default_value = "derived,auto", value_parser = dspark_compare::cap)]
    pub(super) caps: Vec<Cap>,
    /// Instead of the shipped prompts (may be repeated).
    #[arg(long)]
    pub(super) prompt: Vec<String>,
    #[arg(long, default_value_t = 200, value_parser = at_least_one)]
    pub(super) max_new_tokens: usize,
    /// Turns; medians count.
    #[arg(long, default_value_t = 3, value_parser = at_least_one)]
    pub(super) trials: usize,
    /// Draw the result as an SVG picture.
    #[arg(long, value_name = "FILE")]
    pub(super) report: Option<PathBuf>,
    /// Keep what is measured here instead of in the user's data folder, as the window does.
    #[arg(long, value_name = "FOLDER", env = "MLX_DSPARK_DATA")]
    pub(super) data_dir: Option<PathBuf>,
    /// List the benchmarks that were run, here and in the window, and run none.
    #[arg(long)]
    pub(super) history: bool,
}

#[derive(Debug, Args)]
pub(super) struct DoctorArgs {
    /// List the models and whether they fit.
    #[arg(long)]
    pub(super) models: bool,
}

#[derive(Debug, Args)]
pub(super) struct StarterArgs {
    /// Get it again even if it is here.
    #[arg(long)]
    pub(super) force: bool,
}

#[cfg(test)]
mod tests;
