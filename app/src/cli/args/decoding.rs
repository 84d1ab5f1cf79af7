//! How a model is loaded and decoded, and how tokens are drawn: what several commands share.

use super::values::{at_least_one, drafter_bits, max_draft, positive, share, switch, temperature, tree, whole};
use crate::pairing::{MaxDraft, Wish};
use clap::{Args, ValueEnum};
use dspark_protocol::{Mode, Sampling, SpeculationOptions, TreeSetting};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum ModeArg {
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
pub(in crate::cli) struct EngineArgs {
    /// A name (`starter`, `owner/name`) or a folder; the model used last if left out.
    #[arg(long, value_name = "NAME|FOLDER")]
    pub(in crate::cli) model: Option<String>,
    /// Context window in tokens (the model's own maximum if left out).
    #[arg(long, value_name = "TOKENS", value_parser = at_least_one)]
    pub(in crate::cli) context_window: Option<usize>,
    /// Load the model although its weights take more than this machine can give.
    #[arg(long)]
    pub(in crate::cli) force: bool,
    /// Accepted for old scripts: checkpoints' own Python is never run.
    #[arg(long, env = "MLX_DSPARK_TRUST_REMOTE_CODE", value_parser = clap::builder::FalseyValueParser::new())]
    pub(in crate::cli) trust_remote_code: bool,
}

/// Which drafter, if any. The text is the model's own in every mode.
#[derive(Debug, Clone, Default, Args)]
pub(in crate::cli) struct PairArgs {
    /// How to decode.
    #[arg(long, value_enum, default_value = "auto")]
    pub(in crate::cli) mode: ModeArg,
    /// A drafter, instead of the one that belongs to the model.
    #[arg(long, value_name = "NAME|FOLDER|GGUF")]
    pub(in crate::cli) drafter: Option<String>,
    /// Bits that the drafter's matrices are packed to while loading (2, 3, 4, 5, 6 or 8); 0 keeps them. [default: 4]
    #[arg(long, value_name = "BITS", value_parser = drafter_bits)]
    pub(in crate::cli) drafter_bits: Option<u8>,
}

/// How drafts are made and checked. None of it changes the text.
#[derive(Debug, Clone, Default, Args)]
pub(in crate::cli) struct RoundArgs {
    /// Drafts of a round: a number, `auto` (follows how many are taken, and steps aside where none pay), `derived` (what is
    /// best on this machine for usual text) or `full` (all that the drafter gives). [default: auto]
    #[arg(long, value_name = "N|auto|derived|full", allow_hyphen_values = true, value_parser = max_draft)]
    pub(in crate::cli) max_draft: Option<MaxDraft>,
    /// Second guesses beside the drafts, greedy decoding only: where they cost nothing (`auto`), always (`on`), this many
    /// nodes (a number) or never (`off`).
    #[arg(long, value_name = "auto|on|off|N", default_value = "auto", value_parser = tree)]
    pub(in crate::cli) tree: TreeSetting,
    /// Cut drafts where the drafter's own estimate that all of them are right falls below this; 0 never cuts.
    #[arg(long, value_name = "0..1", alias = "confidence-threshold", default_value_t = 0.0, allow_negative_numbers = true, value_parser = share)]
    pub(in crate::cli) confidence: f32,
    /// Whether text that repeats replaces the drafter's guesses. Left out, the pair decides.
    #[arg(long, value_name = "on|off", value_parser = switch)]
    pub(in crate::cli) lookup: Option<bool>,
    /// The Python program's spelling of `--lookup on`.
    #[arg(long, hide = true, conflicts_with_all = ["lookup", "no_lookup_drafts"])]
    pub(super) lookup_drafts: bool,
    /// The Python program's spelling of `--lookup off`.
    #[arg(long, hide = true, conflicts_with = "lookup")]
    pub(super) no_lookup_drafts: bool,
}

impl PairArgs {
    pub(in crate::cli) fn wish(&self, rounds: &RoundArgs) -> Wish {
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
pub(in crate::cli) struct SamplingArgs {
    /// 0 takes the most likely token.
    #[arg(long, default_value_t = 0.0, allow_negative_numbers = true, value_parser = temperature)]
    pub(in crate::cli) temperature: f32,
    /// Keep the most likely tokens up to this probability mass.
    #[arg(long, default_value_t = 1.0, allow_negative_numbers = true, value_parser = share)]
    pub(in crate::cli) top_p: f32,
    /// Keep this many most likely tokens; 0 keeps all.
    #[arg(long, default_value_t = 0, allow_negative_numbers = true, value_parser = whole::<u32>)]
    pub(in crate::cli) top_k: u32,
    /// Keep tokens with this share of the top probability.
    #[arg(long, default_value_t = 0.0, allow_negative_numbers = true, value_parser = share)]
    pub(in crate::cli) min_p: f32,
    /// Above 1 makes tokens already seen less likely.
    #[arg(long, default_value_t = 1.0, allow_negative_numbers = true, value_parser = positive)]
    pub(in crate::cli) repetition_penalty: f32,
    /// Subtracted once from the logit of each token already written.
    #[arg(long, default_value_t = 0.0, allow_negative_numbers = true)]
    pub(in crate::cli) presence_penalty: f32,
    /// Subtracted for each time a token was written.
    #[arg(long, default_value_t = 0.0, allow_negative_numbers = true)]
    pub(in crate::cli) frequency_penalty: f32,
    /// Same seed, same text.
    #[arg(long, allow_negative_numbers = true, value_parser = whole::<u64>)]
    pub(in crate::cli) seed: Option<u64>,
}

impl SamplingArgs {
    pub(in crate::cli) fn sampling(&self) -> Sampling {
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
