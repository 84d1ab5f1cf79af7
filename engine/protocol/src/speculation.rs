use crate::{Mode, RoundRecord, Source};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How many drafts a round may offer. Source: `spec/speculation.md` §9.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Cap {
    /// The best for this machine and pair at the acceptance that is usual, adjusted for the prompt's length.
    Derived,
    /// Follows the acceptance of the text at hand; steps aside where plain decoding is faster.
    #[default]
    Auto,
    /// Always this many, at least one.
    Fixed(usize),
    /// All that the drafter gives.
    Full,
}

/// Whether side branches ride in the verify forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TreeSetting {
    /// Where the drafter has alternatives and a tree costs no more than a chain of as many rows.
    #[default]
    Auto,
    On,
    Off,
    /// On, with this many drafted nodes.
    Nodes(usize),
}

/// How to speculate. None of it changes what is written.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SpeculationOptions {
    pub cap: Cap,
    pub tree: TreeSetting,
    /// Drafts are cut where the drafter's own estimate that all of them survive falls below this; 0 never cuts.
    pub confidence: f32,
    /// Whether text that repeats replaces the drafter's guesses; `None` leaves it to the pair.
    pub lookup: Option<bool>,
}

/// A loaded drafter.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DrafterInfo {
    pub name: String,
    pub path: std::path::PathBuf,
    /// `dspark`, `dflash`, `dflash2` or `dspine`.
    pub kind: String,
    /// Bytes of weights in memory.
    pub weight_bytes: u64,
    /// Drafts of a round, at most.
    pub max_draft: usize,
}

/// What a round costs on this machine, in milliseconds, and what follows. Source: `spec/speculation.md` §9.1, §9.2.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Curves {
    /// A verify forward by rows.
    pub verify: BTreeMap<usize, f64>,
    /// The drafter by cap.
    pub drafter: BTreeMap<usize, f64>,
    /// Of a round beyond both.
    pub overhead: f64,
    /// More per context token beyond `context`, by rows.
    pub slope: BTreeMap<usize, f64>,
    /// What a tree of as many rows costs, times a chain; `None` where not measured.
    #[serde(default)]
    pub tree: Option<f64>,
    /// Tokens of context that it was measured at.
    pub context: usize,
    /// Seconds since the Unix epoch.
    pub measured_at: u64,
    /// The machine was busy with something else meanwhile: good enough to choose by, not to be kept or told.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unsteady: bool,
}

/// Where the cap in use comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CapOrigin {
    #[default]
    Derived,
    Auto,
    Pinned,
}

/// How the loaded model speculates now.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct SpeculationState {
    /// What `auto` means for this pair: never `Auto`.
    pub mode: Mode,
    /// Why it is not what was asked for, or why it stepped aside.
    pub reason: Option<String>,
    pub drafter: Option<DrafterInfo>,
    pub lookup: bool,
    /// Drafts of a round; 0: parked, plain steps with a probe now and then.
    pub cap: usize,
    pub cap_origin: CapOrigin,
    /// As resolved: `off`, `on`, or a number of nodes.
    pub tree: String,
    /// Chance that a draft is taken given that those before it were, as estimated.
    pub acceptance: f64,
    /// Rounds that the cap was chosen by.
    pub rounds: usize,
    pub curves: Option<Curves>,
    /// Tokens a second by cap that the curves predict at `acceptance`; cap 0 is plain decoding.
    pub predicted: BTreeMap<usize, f64>,
}

/// How often the draft at one position of a round was offered, and taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct PositionCount {
    pub offered: usize,
    pub accepted: usize,
}

/// Sums over rounds.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct RoundStats {
    pub rounds: usize,
    pub committed: usize,
    pub drafted: usize,
    pub accepted: usize,
    /// Rounds by where their drafts came from.
    pub drafter_rounds: usize,
    pub lookup_rounds: usize,
    pub plain_rounds: usize,
    /// By position in the round, over the rounds that drafted as far.
    pub positions: Vec<PositionCount>,
    /// Rounds by how many tokens they committed.
    pub histogram: BTreeMap<usize, usize>,
}

impl RoundStats {
    pub fn of<'a>(rounds: impl IntoIterator<Item = &'a RoundRecord>) -> Self {
        let mut stats = Self::default();
        rounds.into_iter().for_each(|round| stats.add(round));
        stats
    }

    pub fn add(&mut self, round: &RoundRecord) {
        let (drafted, accepted, committed) = (round.depth(), usize::from(round.accepted), usize::from(round.committed));
        self.rounds += 1;
        self.committed += committed;
        self.drafted += usize::from(round.drafted);
        self.accepted += accepted;
        match round.source {
            Source::Draft => self.drafter_rounds += 1,
            Source::Lookup => self.lookup_rounds += 1,
            Source::Target | Source::Corrected => self.plain_rounds += 1,
        }
        if self.positions.len() < drafted {
            self.positions.resize(drafted, PositionCount::default());
        }
        for (position, count) in self.positions[..drafted].iter_mut().enumerate() {
            count.offered += 1;
            count.accepted += usize::from(position < accepted);
        }
        *self.histogram.entry(committed).or_default() += 1;
    }

    /// Tokens committed per round; 0 without rounds.
    pub fn mean_accept_len(&self) -> f64 {
        ratio(self.committed, self.rounds)
    }

    /// Share of the drafts that were taken.
    pub fn draft_acceptance(&self) -> f64 {
        ratio(self.accepted, self.drafted)
    }
}

fn ratio(a: usize, b: usize) -> f64 {
    if b == 0 { 0.0 } else { a as f64 / b as f64 }
}

/// How a finished generation speculated.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct SpeculationSummary {
    pub stats: RoundStats,
    /// Drafts of a round at the end.
    pub cap: usize,
    /// Drafted nodes of a tree round; 0 without trees.
    pub tree_nodes: usize,
    /// Times plain decoding, by the plain rate that this machine was measured at; `None` where it was not.
    pub multiple: Option<f64>,
    /// Rate of the last 16 rounds over that of the first 16; `None` under 32 rounds.
    pub decay: Option<f64>,
}

/// A token that plain decoding, given the same text before it, would not have chosen.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Divergence {
    /// Of the emitted tokens, from 0.
    pub step: usize,
    pub emitted: u32,
    /// The plain decoder's choice.
    pub plain: u32,
    /// Logits at this step of the plain choice and of the emitted token.
    pub plain_logit: f32,
    pub emitted_logit: f32,
    /// Their distance in units in the last place of the logits' dtype.
    pub ulps: f32,
    /// As good as equal: the kernels of one row and of several round differently.
    pub near_tie: bool,
}

/// What the second scoring says of an emitted text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Every token is the plain decoder's choice.
    Identical,
    /// Some differ where the two best logits are as good as equal.
    NearTie,
    /// Some differ by more: the output is not the target's own.
    Defect,
}

/// An emitted text, scored again one token at a time.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct ForcingReport {
    /// Tokens scored.
    pub tokens: usize,
    pub divergences: Vec<Divergence>,
    /// Of the steps after the first.
    pub seconds: f64,
}

impl ForcingReport {
    pub fn verdict(&self) -> Verdict {
        match &self.divergences[..] {
            [] => Verdict::Identical,
            some if some.iter().all(|divergence| divergence.near_tie) => Verdict::NearTie,
            _ => Verdict::Defect,
        }
    }
}
