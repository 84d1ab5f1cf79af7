//! One model as a row of a table, wherever it comes from.

use crate::{
    bridge::{Drafter, Fit, FitLevel, Listed, ModelEntry, Offer, Pace},
    machine::roofline::ceiling,
    shell::text::bytes,
    state::State,
};
use dspark_look::Tone;
use dspark_strings::t;
use std::path::Path;

pub(super) struct Line<'a> {
    /// A folder, or the id of an offer.
    pub(super) key: String,
    pub(super) name: &'a str,
    pub(super) detail: &'a str,
    pub(super) chips: Vec<(&'a str, Tone)>,
    pub(super) fit: &'a Fit,
    pub(super) pace: &'a Pace,
    pub(super) drafter: &'a Drafter,
    /// On this machine.
    pub(super) entry: Option<&'a ModelEntry>,
    /// To be had.
    pub(super) offer: Option<&'a Offer>,
    /// Bytes, without the drafter's.
    pub(super) bytes: u64,
    pub(super) problem: Option<&'a str>,
    /// Where its licence is accepted; empty for none.
    pub(super) gate: &'a str,
}

impl<'a> Line<'a> {
    pub(super) fn here(state: &'a State, entry: &'a ModelEntry) -> Self {
        let mut chips = Vec::new();
        if state.engine.model.as_ref().is_some_and(|model| model.path == entry.path) {
            chips.push((t!(loaded_chip), Tone::Accent));
        }
        if entry.experts {
            chips.push((t!(moe), Tone::Neutral));
        }
        if entry.second {
            chips.push((t!(second_copy), Tone::Neutral));
        }
        match state.models.shelf.checked.get(&entry.path) {
            Some(Ok(())) => chips.push((t!(checked), Tone::Ok)),
            Some(Err(_)) => chips.push((t!(damaged), Tone::Bad)),
            None => {}
        }
        Self {
            key: entry.path.display().to_string(),
            name: &entry.name,
            detail: entry.problem.as_deref().unwrap_or(&entry.detail),
            chips,
            fit: &entry.fit,
            pace: &entry.pace,
            drafter: &entry.drafter,
            entry: Some(entry),
            offer: None,
            bytes: entry.bytes,
            problem: entry.problem.as_deref(),
            gate: "",
        }
    }

    /// A known pair: as it lies here, where it does, with what others measured of it.
    pub(super) fn offered(state: &'a State, offer: &'a Offer) -> Self {
        let survey = state.models.survey.as_ref();
        let here = offer.here.as_ref().and_then(|path| survey?.entry(path));
        if let Some(entry) = here {
            return Self::here(state, entry);
        }
        let known = state.models.known(offer);
        let mut chips = Vec::new();
        if offer.starter {
            chips.push((t!(starter), Tone::Neutral));
        }
        if offer.experts || known.experts {
            chips.push((t!(moe), Tone::Neutral));
        }
        Self {
            key: offer.id.clone(),
            name: &offer.name,
            detail: if known.detail.is_empty() { &offer.detail } else { &known.detail },
            chips,
            fit: &known.fit,
            // What others measured is with the known pair; what a step reads is better known from the hub.
            pace: if known.pace.active > 0 { &known.pace } else { &offer.pace },
            drafter: &known.drafter,
            entry: None,
            offer: Some(offer),
            bytes: known.bytes,
            problem: None,
            gate: "",
        }
    }

    pub(super) fn listed(state: &'a State, listed: &'a Listed) -> Self {
        let mut line = Self::offered(state, &listed.offer);
        if line.entry.is_some() {
            return line;
        }
        if !listed.gate.is_empty() {
            line.chips.push((t!(accept_licence), Tone::Neutral));
        }
        line.problem = listed.problem.as_deref();
        line.gate = &listed.gate;
        if let Some(problem) = line.problem {
            line.detail = problem;
        }
        line
    }

    pub(super) fn is_open(&self, state: &State) -> bool {
        state.models.open.as_ref().is_some_and(|open| open.key == self.key)
    }

    /// There is something behind it: a sum, or files that something can be done about.
    pub(super) fn can_open(&self) -> bool {
        self.problem.is_none() || self.entry.is_some()
    }

    /// This program brought it.
    pub(super) fn removal_is_ours(&self) -> bool {
        self.entry.is_some_and(|entry| matches!(entry.removal, Some(Ok(_))))
    }

    pub(super) fn is_loaded(&self, state: &State) -> bool {
        self.path()
            .is_some_and(|path| state.engine.model.as_ref().is_some_and(|model| model.path == path))
    }

    pub(super) fn path(&self) -> Option<&'a Path> {
        self.entry.map(|entry| entry.path.as_path())
    }

    /// `15.3 GB` and `+ 6.8 drafter`.
    pub(super) fn size(&self) -> (String, String) {
        let size = match (self.bytes, self.offer.is_some_and(|offer| !offer.exact && !offer.starter)) {
            (0, _) => t!(size_not_known).into(),
            (size, true) => format!("≈ {}", bytes(size)),
            (size, false) => bytes(size),
        };
        let below = match (self.entry, self.drafter) {
            _ if self.problem.is_some() && self.entry.is_none() => String::new(),
            (Some(_), _) => t!(on_disk_small).into(),
            (None, Drafter::Missing(_, Some(more))) => t!(more_drafter, size = bytes(*more)),
            (None, Drafter::Missing(_, None)) => t!(plus_drafter).into(),
            (None, _) => t!(download_small).into(),
        };
        (size, below)
    }
}

/// Tokens a second that plain decoding cannot exceed here, at a short context.
pub(super) fn plain(state: &State, pace: &Pace) -> Option<f64> {
    let known = state.bandwidth()?;
    ceiling(known.bandwidth.gigabytes_per_second, pace.active, 0, 0).filter(|_| pace.active > 0)
}

/// What decoding with drafts does here, or might: a figure, its unit, what it rests on, and that in a sentence.
#[derive(Debug, PartialEq)]
pub(super) struct Drafted {
    pub(super) figure: String,
    pub(super) unit: &'static str,
    pub(super) basis: String,
    pub(super) explain: String,
}

pub(super) fn drafted(state: &State, line: &Line<'_>) -> Option<Drafted> {
    let used = line.path().and_then(|path| state.models.shelf.known.0.get(path));
    if let Some((used, rate)) = used.and_then(|used| Some((used, used.rate?))) {
        return Some(Drafted {
            figure: format!("{rate:.1}"),
            unit: "tok/s",
            basis: used.times.map_or_else(
                || t!(measured_here).into(),
                |times| t!(times_measured_here, times = format!("{times:.1}")),
            ),
            explain: t!(measured_here_explain).into(),
        });
    }
    if line.fit.level() == FitLevel::TooBig {
        return Some(Drafted {
            figure: t!(wont_load).into(),
            unit: "",
            basis: String::new(),
            explain: t!(wont_load_explain).into(),
        });
    }
    let (low, high) = line.pace.times?;
    let range = |low: f64, high: f64, digits: usize| {
        let (low, high) = (format!("{low:.digits$}"), format!("{high:.digits$}"));
        if low == high { low } else { format!("{low}–{high}") }
    };
    let times = range(low, high, 1);
    let source = &line.pace.source;
    // Elsewhere a step waits for arithmetic, not for memory: what drafts bring there does not carry over.
    match plain(state, line.pace).filter(|_| state.engine.machine.backend == "metal") {
        Some(plain) => Some(Drafted {
            figure: range(plain * low, plain * high, 0),
            unit: "tok/s",
            basis: t!(times_estimate, times = times),
            explain: t!(estimate_explain, source = source),
        }),
        None => Some(Drafted {
            figure: format!("{times}×"),
            unit: "",
            basis: t!(measured_elsewhere).into(),
            explain: t!(elsewhere_explain, source = source),
        }),
    }
}
