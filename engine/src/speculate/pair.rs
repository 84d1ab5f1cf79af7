//! How the loaded model speculates: the mode that `auto` stands for, the caps in use, and what is shown of it. It lives
//! on from request to request.

use super::session::Session;
use crate::{
    drafters::{Class, Drafter},
    model::mode_of,
};
use dspark_protocol::{Cap, CapOrigin, Curves, DrafterInfo, LoadRequest, Mode, Request, SpeculationOptions, SpeculationState, TreeSetting};
use dspark_speculate::{
    controller::Controller,
    cost::{CostModel, FALLBACK_CAP, MARGIN},
    lookup::LookupOptions,
};

/// Drafts that repeated text may give, at most.
const LOOKUP_MOST: usize = 32;

/// The model's side of speculation.
pub(crate) struct Pair {
    /// What was asked for at load.
    asked: Mode,
    pub(super) options: SpeculationOptions,
    drafter: Option<DrafterInfo>,
    class: Option<Class>,
    /// The drafter has second guesses to offer.
    branches: bool,
    /// Why a drafter that was found is not used.
    refused: Option<String>,
    cost: Option<CostModel>,
    pub(super) drafting: Option<Controller>,
    pub(super) looking: Controller,
}

impl Pair {
    pub(crate) fn new(request: &LoadRequest, drafter: Option<&Drafter>, refused: Option<String>, curves: Option<Curves>) -> Self {
        let cost = curves.and_then(CostModel::new);
        let cap = request.speculation.cap;
        Self {
            asked: request.mode,
            options: request.speculation,
            drafter: drafter.zip(request.drafter.as_ref()).map(|(drafter, path)| DrafterInfo {
                name: path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned(),
                path: path.clone(),
                kind: drafter.spec().class.name().into(),
                weight_bytes: drafter.weight_bytes(),
                max_draft: drafter.spec().max_draft(),
            }),
            class: drafter.map(|drafter| drafter.spec().class),
            branches: drafter.is_some_and(|drafter| drafter.tree_refusal().is_none()),
            refused,
            drafting: drafter.map(|drafter| drafting(cost.clone(), cap, drafter.spec().class, drafter.spec().max_draft())),
            looking: looking(cost.as_ref(), Cap::Auto),
            cost,
        }
    }

    /// What to say of a pinned cap that asks for more drafts than a round can have.
    pub(crate) fn cap_note(&self) -> Option<String> {
        let Cap::Fixed(asked) = self.options.cap else {
            return None;
        };
        let (who, most) = match (self.resolve(Mode::Auto).0, &self.drafter) {
            (Mode::Dspark | Mode::Dflash, Some(drafter)) => (format!("`{}`", drafter.name), drafter.max_draft),
            (Mode::Lookup, _) => ("repeated text".into(), LOOKUP_MOST),
            _ => return None,
        };
        (asked > most).then(|| format!("{asked} drafts a round were asked for (`max_draft`), but {who} gives at most {most}: {most} it is"))
    }

    /// What a request of this mode gets, and why where it is something else. Never `Auto`.
    pub(super) fn resolve(&self, mode: Mode) -> (Mode, Option<String>) {
        let own = self.class.map(mode_of);
        match (if mode == Mode::Auto { self.asked } else { mode }, own) {
            (Mode::Auto, Some(own)) => (own, None),
            (Mode::Auto, None) => {
                let reason = self
                    .refused
                    .clone()
                    .unwrap_or_else(|| "no drafter is loaded with this model".into());
                (Mode::Lookup, Some(format!("{reason}; repeated text is still guessed")))
            }
            (asked @ (Mode::Dspark | Mode::Dflash), None) => {
                let reason = self
                    .refused
                    .clone()
                    .unwrap_or_else(|| "no drafter is loaded with this model".into());
                (
                    Mode::Baseline,
                    Some(format!(
                        "mode `{}`: {reason}; plain decoding gives the same text",
                        super::name(asked)
                    )),
                )
            }
            (asked @ (Mode::Dspark | Mode::Dflash), Some(own)) if asked != own => (
                own,
                Some(format!(
                    "the loaded drafter is a {} drafter, not one for `{}`",
                    super::name(own),
                    super::name(asked)
                )),
            ),
            (asked, _) => (asked, None),
        }
    }

    /// A request's own state.
    pub(crate) fn session(&mut self, request: &Request, prompt: usize) -> Session<'_> {
        let options = request.speculation.unwrap_or(self.options);
        Session::new(self, request, options, prompt)
    }

    /// Whether repeated text is looked up in this mode.
    pub(super) fn looks_up(mode: Mode, options: &SpeculationOptions) -> Option<LookupOptions> {
        match mode {
            Mode::Lookup => Some(LookupOptions::STANDALONE),
            Mode::Dspark => options.lookup.unwrap_or(true).then_some(LookupOptions::HYBRID),
            // A DFlash block is long already.
            Mode::Dflash => options.lookup.unwrap_or(false).then_some(LookupOptions::HYBRID),
            Mode::Baseline | Mode::Auto => None,
        }
    }

    /// A fresh controller for a request that brings a cap of its own.
    pub(super) fn drafting_with(&self, cap: Cap) -> Option<Controller> {
        let (drafter, class) = self.drafter.as_ref().zip(self.class)?;
        Some(drafting(self.cost.clone(), cap, class, drafter.max_draft))
    }

    /// The same for drafts from repeated text.
    pub(super) fn looking_with(&self, cap: Cap) -> Controller {
        looking(self.cost.as_ref(), cap)
    }

    /// Nodes of a tree for a cap, or `None` for a chain.
    pub(super) fn tree_nodes(&self, setting: TreeSetting, cap: usize) -> Option<usize> {
        if !self.branches {
            return None;
        }
        match setting {
            TreeSetting::Off => None,
            TreeSetting::On => Some(cap),
            TreeSetting::Nodes(nodes) => Some(nodes.max(1)),
            // As many rows as the chain would have, where they cost no more.
            TreeSetting::Auto => {
                let cheap = self
                    .cost
                    .as_ref()
                    .and_then(|cost| cost.curves().tree)
                    .is_some_and(|times| times <= MARGIN);
                (cheap && cap >= 2).then_some(cap)
            }
        }
    }

    /// What a verify of one row is measured at: milliseconds of a plain step at this depth.
    pub(super) fn plain_ms(&self, depth: usize) -> Option<f64> {
        let cost = self.cost.as_ref().filter(|cost| !cost.curves().unsteady);
        cost.map(|cost| cost.round_ms(0, depth))
    }

    /// What is shown of it between requests.
    pub(crate) fn state(&self) -> SpeculationState {
        let (mode, mut reason) = self.resolve(Mode::Auto);
        let shown = match (&self.drafting, mode) {
            (Some(drafting), Mode::Dspark | Mode::Dflash) => Some(drafting),
            (_, Mode::Lookup) => Some(&self.looking),
            _ => None,
        };
        if let (None, Some(parked)) = (&reason, shown.and_then(Controller::parked)) {
            reason = Some(parked.to_string());
        }
        SpeculationState {
            mode,
            reason,
            drafter: self.drafter.clone(),
            lookup: Self::looks_up(mode, &self.options).is_some(),
            cap: shown.map_or(0, Controller::cap),
            cap_origin: shown.map_or(CapOrigin::Derived, Controller::origin),
            tree: match (mode, self.tree_nodes(self.options.tree, shown.map_or(0, Controller::cap))) {
                (Mode::Dspark | Mode::Dflash, Some(nodes)) => nodes.to_string(),
                _ => "off".into(),
            },
            acceptance: shown.map_or(0.0, Controller::acceptance),
            rounds: shown.map_or(0, Controller::recorded),
            curves: self.cost.as_ref().map(|cost| cost.curves().clone()),
            predicted: shown.map(Controller::predicted).unwrap_or_default(),
        }
    }
}

/// Unmeasured, a head drafts two tokens, which pay on most machines; what drafts a whole block at once uses it.
fn drafting(cost: Option<CostModel>, cap: Cap, class: Class, most: usize) -> Controller {
    let unmeasured = if class == Class::DSpark { FALLBACK_CAP } else { most };
    Controller::new(cost, cap, most, unmeasured)
}

/// Unmeasured, a match alone decides how far it is followed.
fn looking(cost: Option<&CostModel>, cap: Cap) -> Controller {
    Controller::new(cost.and_then(lookup_cost), cap, LOOKUP_MOST, LOOKUP_MOST)
}

/// Guesses from the text itself cost no drafter.
fn lookup_cost(cost: &CostModel) -> Option<CostModel> {
    CostModel::new(Curves {
        drafter: std::collections::BTreeMap::new(),
        overhead: 0.0,
        ..cost.curves().clone()
    })
}
