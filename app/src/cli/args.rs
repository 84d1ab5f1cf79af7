//! What can be said on the command line. Every knob has the same spelling wherever it appears.

use super::{arms::Shape, convert::ConvertArgs};
use crate::pairing::{MaxDraft, Wish};
use clap::{Args, Parser, Subcommand, ValueEnum};
use dspark_protocol::{Cap, Mode, Sampling, SpeculationOptions, TreeSetting};
use std::{ffi::OsString, path::PathBuf};

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

/// Arguments that begin with an option of `generate` mean `generate` (as the Python program took them).
pub(super) fn with_default_command(words: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut words: Vec<_> = words.collect();
    let bare = |word: &OsString| matches!(word.to_str(), Some(text) if text == "--prompt" || text.starts_with("--prompt=") || text == "--model" || text.starts_with("--model="));
    if words.get(1).is_some_and(bare) {
        words.insert(1, "generate".into());
    }
    words
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
    /// Keep chats and settings here instead of the user's data folder.
    #[arg(long, value_name = "FOLDER", env = "MLX_DSPARK_DATA")]
    pub(super) data_dir: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum ModeArg {
    /// The drafter that belongs to the model, if one is here; otherwise text that repeats
    #[default]
    Auto,
    /// A DSpark drafter
    Dspark,
    /// A DFlash, DFlash 2 or DSpine drafter
    Dflash,
    /// Text that repeats, without a drafter
    Lookup,
    /// One token at a time
    Baseline,
}

impl From<ModeArg> for Mode {
    fn from(mode: ModeArg) -> Self {
        match mode {
            ModeArg::Auto => Mode::Auto,
            ModeArg::Dspark => Mode::Dspark,
            ModeArg::Dflash => Mode::Dflash,
            ModeArg::Lookup => Mode::Lookup,
            ModeArg::Baseline => Mode::Baseline,
        }
    }
}

/// Which model, and how it is loaded.
#[derive(Debug, Clone, Args)]
pub(super) struct EngineArgs {
    /// A name (`starter`, `owner/name`) or a folder; the model used last if left out.
    #[arg(long, value_name = "NAME|FOLDER")]
    pub(super) model: Option<String>,
    /// Context window in tokens (the model's own maximum if left out).
    #[arg(long, value_name = "TOKENS", value_parser = at_least_one())]
    pub(super) context_window: Option<usize>,
    /// Accepted for old scripts: checkpoints' own Python is never run.
    #[arg(long, env = "MLX_DSPARK_TRUST_REMOTE_CODE", value_parser = clap::builder::FalseyValueParser::new())]
    pub(super) trust_remote_code: bool,
}

/// Which drafter, if any. The text is the model's own in every mode.
#[derive(Debug, Clone, Default, Args)]
pub(super) struct PairArgs {
    /// How to decode.
    #[arg(long, value_enum, default_value = "auto")]
    pub(super) mode: ModeArg,
    /// A drafter, instead of the one that belongs to the model.
    #[arg(long, value_name = "NAME|FOLDER|GGUF")]
    pub(super) drafter: Option<String>,
    /// Bits that the drafter's matrices are packed to while loading (2, 3, 4, 5, 6 or 8); 0 keeps them. [default: 4]
    #[arg(long, value_name = "BITS", value_parser = drafter_bits)]
    pub(super) drafter_bits: Option<u8>,
}

/// How drafts are made and checked. None of it changes the text.
#[derive(Debug, Clone, Default, Args)]
pub(super) struct RoundArgs {
    /// Drafts of a round: a number, `auto` (follows how many are taken, and steps aside where none pay), `derived` (what is
    /// best on this machine for usual text) or `full` (all that the drafter gives). [default: auto]
    #[arg(long, value_name = "N|auto|derived|full", allow_hyphen_values = true, value_parser = max_draft)]
    pub(super) max_draft: Option<MaxDraft>,
    /// Second guesses beside the drafts, greedy decoding only: where they cost nothing (`auto`), always (`on`), this many
    /// nodes (a number) or never (`off`).
    #[arg(long, value_name = "auto|on|off|N", default_value = "auto", value_parser = tree)]
    pub(super) tree: TreeSetting,
    /// Cut drafts where the drafter's own estimate that all of them are right falls below this; 0 never cuts.
    #[arg(long, value_name = "0..1", alias = "confidence-threshold", default_value_t = 0.0, allow_negative_numbers = true, value_parser = share)]
    pub(super) confidence: f32,
    /// Whether text that repeats replaces the drafter's guesses. Left out, the pair decides.
    #[arg(long, value_name = "on|off", value_parser = switch)]
    pub(super) lookup: Option<bool>,
    /// The Python program's spelling of `--lookup on`.
    #[arg(long, hide = true, conflicts_with_all = ["lookup", "no_lookup_drafts"])]
    lookup_drafts: bool,
    /// The Python program's spelling of `--lookup off`.
    #[arg(long, hide = true, conflicts_with = "lookup")]
    no_lookup_drafts: bool,
}

impl PairArgs {
    pub(super) fn wish(&self, rounds: &RoundArgs) -> Wish {
        let old = [(rounds.lookup_drafts, true), (rounds.no_lookup_drafts, false)];
        let old = old.into_iter().find(|(said, _)| *said).map(|(_, value)| value);
        Wish {
            mode: self.mode.into(),
            drafter: self.drafter.clone(),
            bits: self.drafter_bits,
            max_draft: rounds.max_draft,
            speculation: SpeculationOptions {
                tree: rounds.tree,
                confidence: rounds.confidence,
                lookup: rounds.lookup.or(old),
                ..SpeculationOptions::default()
            },
        }
    }
}

/// How tokens are drawn.
#[derive(Debug, Clone, Args)]
pub(super) struct SamplingArgs {
    /// 0 takes the most likely token.
    #[arg(long, default_value_t = 0.0, allow_negative_numbers = true, value_parser = temperature)]
    pub(super) temperature: f32,
    /// Keep the most likely tokens up to this probability mass.
    #[arg(long, default_value_t = 1.0, allow_negative_numbers = true, value_parser = share)]
    pub(super) top_p: f32,
    /// Keep this many most likely tokens; 0 keeps all.
    #[arg(long, default_value_t = 0, allow_negative_numbers = true, value_parser = whole::<u32>)]
    pub(super) top_k: u32,
    /// Keep tokens with this share of the top probability.
    #[arg(long, default_value_t = 0.0, allow_negative_numbers = true, value_parser = share)]
    pub(super) min_p: f32,
    /// Above 1 makes tokens already seen less likely.
    #[arg(long, default_value_t = 1.0, allow_negative_numbers = true, value_parser = positive)]
    pub(super) repetition_penalty: f32,
    /// Subtracted once from the logit of each token already written.
    #[arg(long, default_value_t = 0.0, allow_negative_numbers = true)]
    pub(super) presence_penalty: f32,
    /// Subtracted for each time a token was written.
    #[arg(long, default_value_t = 0.0, allow_negative_numbers = true)]
    pub(super) frequency_penalty: f32,
    /// Same seed, same text.
    #[arg(long, allow_negative_numbers = true, value_parser = whole::<u64>)]
    pub(super) seed: Option<u64>,
}

impl SamplingArgs {
    pub(super) fn sampling(&self) -> Sampling {
        Sampling {
            temperature: self.temperature,
            top_p: self.top_p,
            top_k: self.top_k,
            min_p: self.min_p,
            repetition_penalty: self.repetition_penalty,
            presence_penalty: self.presence_penalty,
            frequency_penalty: self.frequency_penalty,
            logit_bias: std::collections::BTreeMap::new(),
            seed: self.seed,
        }
    }
}

fn number(text: &str, wanted: &str, fits: impl Fn(f32) -> bool) -> Result<f32, String> {
    text.parse()
        .ok()
        .filter(|&value: &f32| value.is_finite() && fits(value))
        .ok_or_else(|| format!("must be {wanted}"))
}

/// `u32` and `u64` differ in how far they reach, which nobody needs to know before they get there.
fn whole<T: TryFrom<u64>>(text: &str) -> Result<T, String> {
    text.parse()
        .ok()
        .and_then(|value: u64| T::try_from(value).ok())
        .ok_or_else(|| format!("must be a whole number from 0 to {}", u64::MAX >> (64 - 8 * size_of::<T>())))
}

fn at_least_one() -> clap::builder::RangedU64ValueParser<usize> {
    clap::builder::RangedU64ValueParser::new().range(1..)
}

fn temperature(text: &str) -> Result<f32, String> {
    number(text, "a number of at least 0", |value| value >= 0.0)
}

fn share(text: &str) -> Result<f32, String> {
    number(text, "a number from 0 to 1", |value| (0.0..=1.0).contains(&value))
}

/// What quantizing can pack to.
fn drafter_bits(text: &str) -> Result<u8, String> {
    text.parse()
        .ok()
        .filter(|bits| [0, 2, 3, 4, 5, 6, 8].contains(bits))
        .ok_or_else(|| "must be 2, 3, 4, 5, 6 or 8, or 0 to keep the drafter as it is stored".into())
}

fn max_draft(text: &str) -> Result<MaxDraft, String> {
    match text {
        "auto" => Ok(MaxDraft::Auto),
        "derived" => Ok(MaxDraft::Derived),
        "full" => Ok(MaxDraft::Full),
        number => number
            .parse()
            .map(MaxDraft::Number)
            .map_err(|_| "must be a whole number, `auto`, `derived` or `full`".into()),
    }
}

fn tree(text: &str) -> Result<TreeSetting, String> {
    match text {
        "auto" => Ok(TreeSetting::Auto),
        "on" => Ok(TreeSetting::On),
        "off" => Ok(TreeSetting::Off),
        nodes => nodes
            .parse()
            .ok()
            .filter(|nodes| (1..=256).contains(nodes))
            .map(TreeSetting::Nodes)
            .ok_or_else(|| "must be `auto`, `on`, `off` or a number of nodes from 1 to 256".into()),
    }
}

fn switch(text: &str) -> Result<bool, String> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err("must be `on` or `off`".into()),
    }
}

fn positive(text: &str) -> Result<f32, String> {
    number(text, "a number above 0", |value| value > 0.0)
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
    #[arg(long, default_value_t = 220)]
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
    #[arg(long, default_value_t = 2048)]
    pub(super) default_max_tokens: usize,
    #[arg(long, default_value_t = 32768)]
    pub(super) max_tokens_cap: usize,
    /// For requests that name none; beats what the checkpoint recommends.
    #[arg(long, value_parser = temperature)]
    pub(super) default_temperature: Option<f32>,
    #[arg(long, value_parser = share)]
    pub(super) default_top_p: Option<f32>,
    #[arg(long)]
    pub(super) default_top_k: Option<u32>,
    /// Requests that may wait.
    #[arg(long, default_value_t = 32)]
    pub(super) max_queue: usize,
    /// Keep computed prompts on disk too, in at most this many gigabytes, so that conversations go on at full speed after a
    /// restart; 0 keeps them in memory alone. They hold what was said: the folder is readable by you alone.
    #[arg(long, value_name = "GB", default_value_t = 0, env = "MLX_DSPARK_PROMPT_CACHE_GB")]
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
    #[arg(long, default_value = "http://127.0.0.1:8080", env = "MLX_DSPARK_URL")]
    pub(super) url: String,
    /// Its key, if it asks for one.
    #[arg(long, env = "MLX_DSPARK_API_KEY", hide_env_values = true)]
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
    /// Print a model's folder.
    Path { repo: String },
    /// Check a model's files against what was published.
    Verify { repo: String },
    /// Say whether a model would fit, with the sum.
    Check {
        repo: String,
        /// Tokens of context to plan for.
        #[arg(long, default_value_t = 8192)]
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
    #[arg(long, default_value_t = 128)]
    pub(super) max_new_tokens: usize,
    /// Guesses of a round, at most; all that the drafter gives if left out.
    #[arg(long, value_name = "N", value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..))]
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
    #[arg(long, value_name = "MODES", value_delimiter = ',', default_value = "auto,lookup", value_parser = super::arms::shape)]
    pub(super) modes: Vec<Shape>,
    /// Drafts of a round, for each of them: a number, derived, auto or full.
    #[arg(long, value_name = "CAPS", value_delimiter = ',', default_value = "1,3,full,auto", value_parser = super::arms::cap)]
    pub(super) caps: Vec<Cap>,
    /// Instead of the shipped prompts (may be repeated).
    #[arg(long)]
    pub(super) prompt: Vec<String>,
    #[arg(long, default_value_t = 64, value_parser = at_least_one())]
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
    #[arg(long, value_name = "MODES", value_delimiter = ',', default_value = "auto", value_parser = super::arms::shape)]
    pub(super) modes: Vec<Shape>,
    /// Drafts of a round, for each of them: a number, derived, auto or full.
    #[arg(long, value_name = "CAPS", value_delimiter = ',', default_value = "derived,auto", value_parser = super::arms::cap)]
    pub(super) caps: Vec<Cap>,
    /// Instead of the shipped prompts (may be repeated).
    #[arg(long)]
    pub(super) prompt: Vec<String>,
    #[arg(long, default_value_t = 200, value_parser = at_least_one())]
    pub(super) max_new_tokens: usize,
    /// Turns; medians count.
    #[arg(long, default_value_t = 3, value_parser = at_least_one())]
    pub(super) trials: usize,
    /// Draw the result as an SVG picture.
    #[arg(long, value_name = "FILE")]
    pub(super) report: Option<PathBuf>,
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
