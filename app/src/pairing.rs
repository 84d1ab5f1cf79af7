//! Which drafter goes with a target: the one named, else the registry's that is here, else the one shipped for it. Nothing
//! is downloaded, and no tensor is read. Source: `spec/drafters.md` §8, `spec/cli.md` §1.

use dspark_engine::drafters::{Class, DrafterError, DrafterSpec, inspect};
use dspark_hub::{
    Folder, Hub, HubError, Job, Lookup, Resolved, assets,
    registry::{self, DrafterKind},
};
use dspark_protocol::{Cap, LoadRequest, Mode, SpeculationOptions};
use std::path::{Path, PathBuf};

/// What a person asked for.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Wish {
    pub(crate) mode: Mode,
    /// A name, a folder or a GGUF file.
    pub(crate) drafter: Option<String>,
    pub(crate) bits: Option<u8>,
    /// `None`: the engine's own choice.
    pub(crate) max_draft: Option<MaxDraft>,
    pub(crate) speculation: SpeculationOptions,
}

/// `--max-draft`. What a number below 1 means depends on the drafter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MaxDraft {
    Auto,
    Derived,
    Full,
    Number(i64),
}

impl MaxDraft {
    /// A number below 1 is one draft of a DSpark head and the whole block of a DFlash one, as the Python program has it.
    fn cap(self, kind: Option<DrafterKind>) -> Cap {
        match self {
            Self::Auto => Cap::Auto,
            Self::Derived => Cap::Derived,
            Self::Full => Cap::Full,
            Self::Number(n) => match usize::try_from(n) {
                Ok(n) if n > 0 => Cap::Fixed(n),
                _ if kind == Some(DrafterKind::Dflash) => Cap::Full,
                _ => Cap::Fixed(1),
            },
        }
    }
}

/// A drafter that is here and fits.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Partner {
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    pub(crate) kind: DrafterKind,
}

/// The outcome of the search.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Pairing {
    pub(crate) drafter: Option<Partner>,
    /// The pair's own setting of lookup drafts; `None` where nothing is known.
    pub(crate) lookup: Option<bool>,
    /// What a person should know, a sentence: a drafter that would be better and how to get it.
    pub(crate) note: Option<String>,
    /// The drafter to download for it.
    pub(crate) missing: Option<String>,
}

/// Why there is no drafter where one was asked for.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PairError {
    #[error("`--drafter {name}`: {error}")]
    Missing { name: String, error: HubError },
    #[error("`--drafter {name}`: {reason}")]
    Unfit { name: String, reason: String },
    #[error("`--mode {mode}`: {reason}")]
    Mode { mode: &'static str, reason: String },
}

impl PairError {
    /// Without the words of the command line.
    pub(crate) fn plain(&self) -> String {
        match self {
            Self::Missing { error, .. } => error.to_string(),
            Self::Unfit { name, reason } => format!("the drafter `{name}` cannot be used: {reason}"),
            Self::Mode { mode, reason } => format!("mode `{mode}`: {reason}"),
        }
    }
}

/// The target as it was found.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Target<'a> {
    pub(crate) name: &'a str,
    pub(crate) path: &'a Path,
}

impl Target<'_> {
    /// By the name asked for, else by the folder's: a snapshot of the hub is named by its commit.
    pub(crate) fn row(self) -> Option<&'static registry::Row> {
        let folder = || registry::find(&self.path.file_name()?.to_string_lossy());
        registry::find(self.name).or_else(folder)
    }

    fn candidates(self) -> Vec<&'static registry::Candidate> {
        let named = registry::candidates(self.name);
        match self.path.file_name() {
            Some(folder) if named.is_empty() => registry::candidates(&folder.to_string_lossy()),
            _ => named,
        }
    }
}

/// The drafter for `target`, as wished.
///
/// # Errors
/// Where a drafter, or a mode that needs one, was asked for by name and cannot be had. `auto` finds none at worst.
pub(crate) fn pair(hub: &Hub, target: Target<'_>, wish: &Wish) -> Result<Pairing, PairError> {
    let row = target.row();
    if let Some(name) = &wish.drafter {
        let path = place(hub, name).map_err(|error| PairError::Missing { name: name.clone(), error })?;
        let partner = partner(name, path, target).map_err(|reason| PairError::Unfit {
            name: name.clone(),
            reason,
        })?;
        if let Some(wanted) = DrafterKind::of_mode(wish.mode).filter(|wanted| *wanted != partner.kind) {
            let (wanted, found) = (wanted.label(), partner.kind.label());
            return Err(PairError::Mode {
                mode: word(wish.mode),
                reason: format!(
                    "it asks for a {wanted} drafter and `{name}` is a {found} one: leave `--mode` out, or name another drafter"
                ),
            });
        }
        return Ok(Pairing {
            lookup: Some(lookup(target, name, partner.kind)),
            drafter: Some(partner),
            ..Pairing::default()
        });
    }
    let wanted = row.map_or_else(Vec::new, |row| row.drafters(wish.mode));
    let mut reasons = Vec::new();
    let mut missing = None;
    for (kind, name) in &wanted {
        let found = match place(hub, name) {
            Err(HubError::NotInstalled { .. }) => {
                missing.get_or_insert(((*kind), (*name).to_owned()));
                continue;
            }
            Err(error) => Err(error.to_string()),
            Ok(path) => partner(name, path, target),
        };
        match found {
            Ok(partner) => {
                let better = missing
                    .as_ref()
                    .map(|(kind, name)| format!("`auto` would rather take the {} drafter `{name}`: {}", kind.label(), way_to(name)));
                return Ok(Pairing {
                    lookup: Some(lookup(target, name, partner.kind)),
                    drafter: Some(partner),
                    note: better.or(reasons.pop()),
                    missing: missing.map(|(_, name)| name),
                });
            }
            Err(reason) => reasons.push(format!("the drafter `{name}` is not used: {reason}")),
        }
    }
    let missing = missing.map(|(_, name)| name);
    let more = more(hub, target);
    let advice = match &missing {
        Some(name) => way_to(name),
        None => more.unwrap_or_else(|| "name a drafter with `--drafter`".into()),
    };
    match (DrafterKind::of_mode(wish.mode), wish.mode) {
        (Some(kind), mode) => Err(PairError::Mode {
            mode: word(mode),
            reason: match (reasons.is_empty(), &missing) {
                (false, _) => reasons.join("; "),
                (true, Some(name)) => format!("the drafter `{name}` is not installed: {advice}, or take `--mode auto` or `--mode lookup`"),
                (true, None) => format!(
                    "no {} drafter is known for `{}`: {advice}, or take `--mode auto` or `--mode lookup`",
                    kind.label(),
                    target.name
                ),
            },
        }),
        (None, Mode::Auto) => Ok(Pairing {
            note: match (reasons.is_empty(), &missing) {
                (false, _) => Some(reasons.join("; ")),
                (true, Some(_)) => Some(format!("the drafter of `{}` is not installed: {advice}", target.name)),
                (true, None) => None,
            },
            missing,
            ..Pairing::default()
        }),
        (None, _) => Ok(Pairing::default()),
    }
}

/// Fills in what a load needs to know of drafter and speculation. The note of the pairing comes back.
pub(crate) fn apply(hub: &Hub, wish: &Wish, request: &mut LoadRequest) -> Result<Option<String>, PairError> {
    let target = Target {
        name: &request.name,
        path: &request.path,
    };
    let pairing = pair(hub, target, wish)?;
    request.speculation = SpeculationOptions {
        lookup: wish.speculation.lookup.or(pairing.lookup),
        cap: wish.max_draft.map_or(wish.speculation.cap, |max| {
            max.cap(pairing.drafter.as_ref().map(|drafter| drafter.kind))
        }),
        ..wish.speculation
    };
    request.mode = wish.mode;
    request.drafter_bits = wish.bits;
    request.drafter = pairing.drafter.map(|drafter| drafter.path);
    request.drafter_required = wish.drafter.is_some() || DrafterKind::of_mode(wish.mode).is_some();
    Ok(pairing.note)
}

/// Brings `name` and then the drafter that `auto` would like for it. A drafter that cannot be had keeps nobody from the
/// model: the reason is the second value.
pub(crate) async fn obtain(hub: &Hub, name: &str, job: &Job) -> Result<(Resolved, Option<String>), HubError> {
    let model = hub.obtain(name, job).await?;
    let note = drafter_for(hub, &model, job).await;
    Ok((model, note))
}

/// Downloads the drafter that `auto` would like for `model`, unless it is here. Comes back with why that failed.
pub(crate) async fn drafter_for(hub: &Hub, model: &Resolved, job: &Job) -> Option<String> {
    let target = Target {
        name: &model.name,
        path: &model.path,
    };
    let missing = pair(hub, target, &Wish::default()).ok()?.missing?;
    let error = hub.obtain(&missing, job).await.err()?;
    Some(format!("the drafter `{missing}` was not brought: {error}"))
}

/// A shipped drafter, a path as typed, or an installed one.
fn place(hub: &Hub, name: &str) -> Result<PathBuf, HubError> {
    if let Some(shipped) = assets::drafters().into_iter().find(|shipped| shipped.name == name) {
        return Ok(shipped.path);
    }
    // A drafter may be a single GGUF file, or a folder with one, which no resolver of models takes.
    let typed = Path::new(name);
    if typed.is_file() || typed.join("config.json").is_file() {
        return Ok(typed.to_owned());
    }
    match hub.lookup(name) {
        Lookup::Installed(found) => Ok(found.path),
        Lookup::Missing { unusable, .. } => {
            let gguf = unusable.iter().find(|(_, state)| *state == dspark_hub::FolderState::Gguf);
            match gguf {
                Some((path, _)) => Ok(path.clone()),
                None => hub.resolve(name).map(|found| found.path),
            }
        }
    }
}

/// Looks at a drafter's folder, and at whether its sizes are the target's.
fn partner(name: &str, path: PathBuf, target: Target<'_>) -> Result<Partner, String> {
    let spec = inspect(&path).map_err(|error| error.to_string())?;
    fits(&spec, target.path).map_err(|error| error.to_string())?;
    let name = if Path::new(name) == path {
        path.file_name()
            .map_or_else(|| name.to_owned(), |folder| folder.to_string_lossy().into_owned())
    } else {
        name.to_owned()
    };
    Ok(Partner {
        name,
        path,
        kind: if spec.class == Class::DSpark {
            DrafterKind::Dspark
        } else {
            DrafterKind::Dflash
        },
    })
}

/// As binding will ask later; here before anything large is read.
fn fits(spec: &DrafterSpec, target: &Path) -> Result<(), DrafterError> {
    let config = Folder::look(target).config;
    let text = if config["text_config"].is_object() {
        &config["text_config"]
    } else {
        &config
    };
    for (what, ours, theirs) in [
        ("hidden size", spec.hidden, &text["hidden_size"]),
        ("vocabulary", spec.vocab, &text["vocab_size"]),
    ] {
        if let Some(theirs) = theirs.as_u64().filter(|theirs| *theirs != ours as u64) {
            return Err(DrafterError::Unfit(format!("its {what} is {ours}, the target's is {theirs}")));
        }
    }
    Ok(())
}

/// Lookup drafts are dear where a wide verify is, and a DFlash block is seldom worse than a repeated phrase.
fn lookup(target: Target<'_>, drafter: &str, kind: DrafterKind) -> bool {
    let candidate = target.candidates().into_iter().find(|candidate| candidate.drafter == drafter);
    let allowed = candidate.map_or_else(|| target.row().is_none_or(|row| row.lookup), |candidate| candidate.lookup);
    allowed && kind == DrafterKind::Dspark
}

/// A drafter that runs for it without being chosen by itself.
fn more(hub: &Hub, target: Target<'_>) -> Option<String> {
    let name = &target.candidates().into_iter().next()?.drafter;
    Some(match place(hub, name) {
        Ok(_) => format!("`--drafter {name}` runs with it"),
        Err(_) => format!("`--drafter {name}` runs with it once `mlx-dspark models pull {name}` has brought it"),
    })
}

fn way_to(name: &str) -> String {
    if name.contains('/') {
        format!("`mlx-dspark models pull {name}` gets it")
    } else {
        "it comes with the program, whose `assets` folder was not found; `MLX_DSPARK_ASSETS` names it".into()
    }
}

fn word(mode: Mode) -> &'static str {
    match mode {
        Mode::Auto => "auto",
        Mode::Baseline => "baseline",
        Mode::Lookup => "lookup",
        Mode::Dspark => "dspark",
        Mode::Dflash => "dflash",
    }
}

#[cfg(test)]
mod tests;
