//! Models as the window sees them: on this machine, to be had, to be searched for. [`Catalog`] brings them.

use dspark_protocol::{LoadRequest, MachineInfo};
use dspark_strings::t;
use std::path::{Path, PathBuf};
use tokio_util::sync::CancellationToken;

/// How well a model sits in this machine's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FitLevel {
    #[default]
    Unknown,
    Well,
    Fits,
    /// With little room beside it, or only with a shorter context than the model could have.
    Limited,
    TooBig,
}

/// A line of the sum behind a verdict, in the order in which they are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    Weights,
    Drafter,
    Context,
    DrafterContext,
    Recurrent,
    Kept,
    Working,
    App,
}

impl Part {
    /// For people: `Context, target`.
    pub fn label(self) -> &'static str {
        match self {
            Self::Weights => t!(part_weights),
            Self::Drafter => t!(drafter),
            Self::Context => t!(part_context),
            Self::DrafterContext => t!(part_drafter_context),
            Self::Recurrent => t!(part_recurrent),
            Self::Kept => t!(part_kept),
            Self::Working => t!(part_working),
            Self::App => t!(part_app),
        }
    }

    /// What it is, for a hover.
    pub fn definition(self) -> &'static str {
        match self {
            Self::Weights => t!(part_weights_definition),
            Self::Drafter => t!(part_drafter_definition),
            Self::Context => t!(part_context_definition),
            Self::DrafterContext => t!(part_drafter_context_definition),
            Self::Recurrent => t!(part_recurrent_definition),
            Self::Kept => t!(part_kept_definition),
            Self::Working => t!(part_working_definition),
            Self::App => t!(part_app_definition),
        }
    }
}

/// A verdict at one context, and the sum it came from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FitAt {
    /// Tokens.
    pub context: u64,
    pub level: FitLevel,
    /// `Fits well`, `Fits to 24k`.
    pub words: String,
    /// Bytes of each part that has any.
    pub parts: Vec<(Part, u64)>,
}

impl FitAt {
    /// Bytes of all parts.
    pub fn total(&self) -> u64 {
        self.parts.iter().map(|part| part.1).sum()
    }

    pub fn part(&self, wanted: Part) -> u64 {
        self.parts.iter().find(|(part, _)| *part == wanted).map_or(0, |part| part.1)
    }
}

/// How a model sits here, at a typical context and along its whole window.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Fit {
    /// At the context that all verdicts of a list assume.
    pub at: FitAt,
    /// Bytes that this machine gives a model; 0 where that is not known.
    pub budget: u64,
    /// The longest context that leaves a tenth of the budget free, tokens.
    pub longest: u64,
    /// Ascending, the model's own maximum last; empty where that is not known.
    pub stops: Vec<FitAt>,
    /// The context is not in the sum: it is known once the model's configuration is.
    pub context_unknown: bool,
}

impl Fit {
    /// A verdict without a sum.
    pub fn plain(level: FitLevel, words: impl Into<String>) -> Self {
        Self {
            at: FitAt {
                level,
                words: words.into(),
                ..FitAt::default()
            },
            ..Self::default()
        }
    }

    pub fn level(&self) -> FitLevel {
        self.at.level
    }

    /// The stop at or below this context; the verdict's own where there are none.
    pub fn near(&self, context: u64) -> &FitAt {
        let below = self.stops.partition_point(|stop| stop.context <= context);
        self.stops.get(below.saturating_sub(1)).unwrap_or(&self.at)
    }

    /// The model's own maximum, tokens.
    pub fn most(&self) -> Option<u64> {
        self.stops.last().map(|stop| stop.context)
    }

    /// Where a slider over the stops may go: the last one that fits.
    pub fn limit(&self) -> Option<u64> {
        let fits = self.stops.iter().rev().find(|stop| stop.context <= self.longest);
        fits.or(self.stops.first()).map(|stop| stop.context)
    }
}

/// The drafter that belongs to a model.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Drafter {
    /// None is known: repeated text can still be looked up.
    #[default]
    None,
    Here(String),
    /// It comes with a download. Bytes; `None` while they are not known.
    Missing(String, Option<u64>),
}

/// What is known of a model's speed before it has run here. Nothing is guessed.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Pace {
    /// Bytes that one plain decode step reads; 0 where that is not known.
    pub active: u64,
    /// From parameters and bits, not from the files.
    pub estimate: bool,
    /// Times plain decoding that others measured, lowest and highest.
    pub times: Option<(f64, f64)>,
    /// On which machine, and who says so.
    pub source: String,
}

/// A model on disk.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ModelEntry {
    pub name: String,
    pub path: PathBuf,
    /// `135M, 4-bit, 8k context`.
    pub detail: String,
    /// Where it was found: `Starter`, `Hugging Face cache`, `LM Studio`, a folder.
    pub source: String,
    pub bytes: u64,
    pub fit: Fit,
    /// Why it cannot be loaded.
    pub problem: Option<String>,
    pub drafter: Drafter,
    pub pace: Pace,
    /// A mixture of experts.
    pub experts: bool,
    /// The repository whose snapshot in the Hugging Face cache it is.
    pub repo: Option<String>,
    /// Another place has a model of its name: which one is meant, and why.
    pub note: Option<String>,
    /// The other one is meant by its name.
    pub second: bool,
    /// Bytes that deleting it frees; else why it is not this program's to delete.
    pub removal: Option<Result<u64, String>>,
}

/// A model that can be downloaded.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Offer {
    /// What [`Catalog::fetch`] takes: `starter`, or a repository.
    pub id: String,
    pub name: String,
    pub detail: String,
    /// Bytes to download, without the drafter's; 0 when unknown.
    pub bytes: u64,
    pub fit: Fit,
    /// The small model that comes with the app.
    pub starter: bool,
    /// It is on this machine already, in this folder.
    pub here: Option<PathBuf>,
    /// Known to run well, but not what a machine of this size is led to.
    pub aside: bool,
    pub drafter: Drafter,
    pub pace: Pace,
    pub experts: bool,
    /// Sizes are the hub's own, not computed from parameters and bits.
    pub exact: bool,
    /// The hub has a newer revision than the one that is here.
    pub newer: bool,
}

impl Offer {
    /// With its drafter, bytes.
    pub fn whole(&self) -> u64 {
        match &self.drafter {
            Drafter::Missing(_, Some(bytes)) => self.bytes + bytes,
            _ => self.bytes,
        }
    }
}

/// A line of the hub's list.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Listed {
    pub offer: Offer,
    /// Why it cannot be loaded.
    pub problem: Option<String>,
    /// The page where its licence is accepted; empty where it is open to all.
    pub gate: String,
    /// Of the last month.
    pub downloads: u64,
}

/// An unfinished download.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leftover {
    pub id: String,
    pub bytes: u64,
    /// 0 when unknown.
    pub total: u64,
}

/// One line of the machine check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    pub ok: bool,
    pub words: String,
    /// Why it matters or what to do, on hover.
    pub reason: String,
}

/// Room on the disk of the models.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Disk {
    /// Bytes of what this program brought.
    pub ours: u64,
    /// Bytes; `None` where the system does not say.
    pub free: Option<u64>,
}

/// Everything there is to choose from.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Survey {
    pub installed: Vec<ModelEntry>,
    /// Known pairs, those that are here already included.
    pub offers: Vec<Offer>,
    pub checks: Vec<Check>,
    pub leftovers: Vec<Leftover>,
    pub disk: Disk,
}

impl Survey {
    /// What a newcomer with this machine is led to, none of it here yet.
    pub fn suggestions(&self) -> impl Iterator<Item = &Offer> {
        self.offers.iter().filter(|offer| !offer.aside && offer.here.is_none())
    }

    pub fn entry(&self, path: &Path) -> Option<&ModelEntry> {
        self.installed.iter().find(|entry| entry.path == path)
    }
}

/// How far a download is.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FetchProgress {
    /// `Downloading`, `Converting`, `Checking`.
    pub stage: String,
    pub done: u64,
    /// 0 when unknown.
    pub total: u64,
    pub bytes_per_sec: f64,
}

/// What kind of thing went wrong: it decides what can be done about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Kind {
    /// No network, or told not to use it.
    Offline,
    /// The hub asks to wait.
    Busy,
    /// The network or the hub broke off.
    Network,
    /// A file arrived other than it was published.
    Damaged,
    NoSpace,
    /// The licence must be accepted first.
    Gated,
    /// The token was refused, or may not see it.
    Refused,
    Missing,
    Unsupported,
    #[default]
    Other,
}

/// What went wrong with the hub, in words for a person.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Trouble {
    pub kind: Kind,
    /// What happened, why, and what to do.
    pub words: String,
    /// A page that helps; empty for none.
    pub page: String,
}

impl From<&str> for Trouble {
    fn from(words: &str) -> Self {
        Self {
            words: words.into(),
            ..Self::default()
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    #[error("cancelled")]
    Cancelled,
    #[error("{}", .0.words)]
    Failed(Trouble),
}

/// Where the access token comes from that the hub is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenFrom {
    /// `HF_TOKEN`.
    Variable,
    /// The token file of all Hugging Face programs.
    Shared(PathBuf),
    /// This program keeps it.
    Kept,
}

/// How the hub's access token stands.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TokenState {
    /// `None`: the hub is sent none.
    pub from: Option<TokenFrom>,
    /// One is kept here, whether it is the one that is sent or not.
    pub kept: bool,
    /// The file for it.
    pub file: PathBuf,
}

/// Models on disk and elsewhere. Called from a background thread; may block.
pub trait Catalog: Send + Sync {
    fn survey(&self, folders: &[PathBuf], machine: &MachineInfo, limit: u64) -> Survey;

    /// A folder that a person pointed at.
    ///
    /// # Errors
    /// Why it is not a model, in words for a person.
    fn inspect(&self, path: &Path) -> Result<ModelEntry, String>;

    /// Fills in what goes with the model: its drafter, and how to speculate.
    ///
    /// # Errors
    /// Where a drafter that was asked for by name cannot be had, in words for a person.
    fn prepare(&self, request: LoadRequest) -> Result<LoadRequest, String> {
        Ok(request)
    }

    /// Downloads and prepares `id`. An interrupted download goes on where it stopped.
    ///
    /// # Errors
    /// [`FetchError::Cancelled`] after `cancel`, else what happened and what to do.
    fn fetch(&self, id: &str, report: &mut dyn FnMut(FetchProgress), cancel: &CancellationToken) -> Result<ModelEntry, FetchError>;

    /// Downloads the newest revision of a repository that is here already. As [`Catalog::fetch`] otherwise.
    ///
    /// # Errors
    /// As [`Catalog::fetch`].
    fn update(&self, id: &str, report: &mut dyn FnMut(FetchProgress), cancel: &CancellationToken) -> Result<ModelEntry, FetchError> {
        self.fetch(id, report, cancel)
    }

    /// Looks on the hub for words in names, or for the one repository that `text` names.
    ///
    /// # Errors
    /// As [`Catalog::fetch`].
    fn search(&self, _text: &str, _machine: &MachineInfo, _limit: u64, _cancel: &CancellationToken) -> Result<Vec<Listed>, FetchError> {
        Err(FetchError::Failed(t!(no_hub_build).into()))
    }

    /// What a repository would bring, from its listing and configuration: sizes and the sum are then exact.
    ///
    /// # Errors
    /// As [`Catalog::fetch`].
    fn preview(&self, _id: &str, _machine: &MachineInfo, _limit: u64, _cancel: &CancellationToken) -> Result<Listed, FetchError> {
        Err(FetchError::Failed(t!(no_hub_build).into()))
    }

    /// Reads every file of an installed model against what was published.
    ///
    /// # Errors
    /// The first damaged file, or why the folder cannot be read.
    fn verify(&self, _path: &Path, _report: &mut dyn FnMut(FetchProgress), _cancel: &CancellationToken) -> Result<(), FetchError> {
        Err(FetchError::Failed(t!(no_checks_build).into()))
    }

    /// Deletes a model that this program brought. Bytes that are free again.
    ///
    /// # Errors
    /// Whose it is, or what kept it from being deleted.
    fn remove(&self, _path: &Path) -> Result<u64, String> {
        Err(t!(no_model_deletes_build).into())
    }

    /// What there is to know of models' places and the hub, line by line, for a report.
    fn facts(&self) -> String {
        String::new()
    }

    /// Caps all downloads, also one that runs; bytes a second, 0 for none. Answers at once.
    fn limit(&self, _bytes_per_second: u64) {}

    /// Where the hub's access token comes from.
    fn token(&self) -> TokenState {
        TokenState::default()
    }

    /// Keeps an access token for the hub, or forgets it.
    ///
    /// # Errors
    /// Why it cannot be kept, in words for a person, the token not among them.
    fn keep_token(&self, _token: Option<&str>) -> Result<TokenState, String> {
        Err(t!(no_token_build).into())
    }

    /// Deletes what an unfinished download left. Bytes that are free again.
    ///
    /// # Errors
    /// What kept it from being deleted.
    fn discard(&self, _id: &str) -> Result<u64, String> {
        Err(t!(no_download_deletes_build).into())
    }
}
