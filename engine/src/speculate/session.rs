//! One request's speculation: what the next round offers, and what the last one showed.

use super::{guess::Guess, pair::Pair, round::Outcome};
use dspark_protocol::{CapOrigin, Mode, Request, RoundRecord, RoundStats, Source, SpeculationOptions, SpeculationSummary, Timings};
use dspark_speculate::{
    calibration,
    controller::{self, Controller},
    lookup::Lookup,
};
use std::time::Duration;

/// Rounds that the first and the last rate are taken over.
const DECAY_ROUNDS: usize = 16;

/// The next round.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Plan {
    /// One token by the target alone.
    Plain,
    Guess(Guess),
}

/// What is told of a finished request.
pub(crate) struct Told {
    pub(crate) mode: Mode,
    pub(crate) reason: Option<String>,
    pub(crate) accept_len: f64,
    pub(crate) summary: Option<Box<SpeculationSummary>>,
}

pub(crate) struct Session<'a> {
    pair: &'a mut Pair,
    options: SpeculationOptions,
    mode: Mode,
    reason: Option<String>,
    lookup: Option<Lookup>,
    /// Instead of the pair's, where the request brings a cap of its own.
    drafting: Option<Controller>,
    looking: Option<Controller>,
    /// Side branches are possible: a greedy request whose rows need not come to the host.
    branches: bool,
    depth: usize,
    stats: RoundStats,
    tree_nodes: usize,
    index: u32,
    /// A lookup draft stood at the last token but was not used: what the controller hears of it.
    passed: bool,
    /// Milliseconds and tokens of the rounds, for the decay.
    rounds: Vec<(f64, usize)>,
    /// Milliseconds of the plain ones.
    plain: Vec<f64>,
}

impl<'a> Session<'a> {
    pub(super) fn new(pair: &'a mut Pair, request: &Request, options: SpeculationOptions, prompt: usize) -> Self {
        let (mode, reason) = pair.resolve(request.mode);
        let sampling = &request.sampling;
        let counts = sampling.repetition_penalty != 1.0 || sampling.presence_penalty != 0.0 || sampling.frequency_penalty != 0.0;
        let own = options.cap != pair.options.cap;
        let (mut drafting, mut looking) = (None, None);
        if own && mode == Mode::Lookup {
            looking = Some(pair.looking_with(options.cap));
        } else if own {
            drafting = pair.drafting_with(options.cap);
        }
        for controller in [&mut drafting, &mut looking].into_iter().flatten() {
            controller.begin(prompt);
        }
        if let Some(shared) = &mut pair.drafting {
            shared.begin(prompt);
        }
        pair.looking.begin(prompt);
        Self {
            lookup: Pair::looks_up(mode, &options).map(Lookup::new),
            drafting,
            looking,
            // Confidence cuts chains; the branches of a tree stand for what it doubts.
            branches: sampling.temperature == 0.0 && !counts && request.logprobs.is_none() && options.confidence <= 0.0,
            pair,
            options,
            mode,
            reason,
            depth: prompt,
            stats: RoundStats::default(),
            tree_nodes: 0,
            index: 0,
            passed: false,
            rounds: Vec::new(),
            plain: Vec::new(),
        }
    }

    /// Whether the drafter is needed at all.
    pub(crate) fn drafts(&self) -> bool {
        matches!(self.mode, Mode::Dspark | Mode::Dflash)
    }

    /// Drafts are cut below this joint confidence.
    pub(crate) fn confidence(&self) -> f32 {
        self.options.confidence
    }

    /// The text so far.
    pub(crate) fn begin(&mut self, prompt: &[u32], generated: &[u32]) {
        if let Some(lookup) = &mut self.lookup {
            lookup.extend(prompt);
            lookup.extend(generated);
        }
    }

    /// The next round, of which at most `left` tokens are wanted.
    pub(crate) fn plan(&mut self, left: usize) -> Plan {
        // A round commits one more than it accepts.
        let most = left.saturating_sub(1);
        self.passed = false;
        if most == 0 {
            return Plan::Plain;
        }
        if let Some(lookup) = &self.lookup {
            let cap = self.looking().plan().cap;
            match lookup.propose(most.min(cap.max(1))) {
                Some(draft) if cap > 0 => return Plan::Guess(Guess::Lookup(draft.tokens)),
                Some(_) => self.passed = true,
                None => {}
            }
        }
        match self.drafting_cap() {
            0 => Plan::Plain,
            cap => {
                let nodes = self.branches.then(|| self.pair.tree_nodes(self.options.tree, cap)).flatten();
                match nodes {
                    Some(nodes) if most >= 2 => Plan::Guess(Guess::Tree(nodes)),
                    _ => Plan::Guess(Guess::Chain(cap.min(most))),
                }
            }
        }
    }

    fn drafting_cap(&self) -> usize {
        match self.drafting() {
            Some(drafting) if self.drafts() => drafting.plan().cap,
            _ => 0,
        }
    }

    fn drafting(&self) -> Option<&Controller> {
        self.drafting.as_ref().or(self.pair.drafting.as_ref())
    }

    fn looking(&self) -> &Controller {
        self.looking.as_ref().unwrap_or(&self.pair.looking)
    }

    /// Whether the round after the one in flight will want to draft, so that no plain step may run ahead of it.
    pub(crate) fn draft_is_due(&self) -> bool {
        let drafting = match self.drafting() {
            // The plain step in flight is one of the rounds that the plan holds for.
            Some(drafting) if self.drafts() => drafting.plan().cap > 0 || drafting.plan().rounds <= 1,
            _ => false,
        };
        // What repeats now will most likely still repeat one token on.
        let looking = || self.looking().plan().cap > 0 && self.lookup.as_ref().is_some_and(|lookup| lookup.propose(1).is_some());
        drafting || looking()
    }

    /// Takes note of a round and of the tokens it committed; `depth`: tokens in the cache after it.
    pub(crate) fn done(&mut self, plan: &Plan, outcome: &Outcome, ids: &[u32], took: Duration, depth: usize) -> RoundRecord {
        let ms = took.as_secs_f64() * 1e3;
        let (source, cap) = match plan {
            Plan::Plain => (Source::Target, 0),
            Plan::Guess(Guess::Lookup(drafts)) => (Source::Lookup, drafts.len()),
            Plan::Guess(Guess::Chain(cap) | Guess::Tree(cap)) => (Source::Draft, *cap),
        };
        let offered = if outcome.tree_depth > 0 {
            outcome.tree_depth
        } else {
            outcome.drafted
        };
        // Confidence cut it, which is not what its cap costs.
        let cut = matches!(plan, Plan::Guess(Guess::Chain(asked)) if outcome.drafted < *asked);
        let round = |cap| controller::Round {
            cap,
            drafted: offered,
            accepted: outcome.accepted,
            // The first round of a request waits for what the prompt left to do.
            ms: (self.index > 0 && !cut).then_some(ms),
            depth: self.depth,
        };
        if source == Source::Lookup {
            let round = round(cap);
            self.looking.as_mut().unwrap_or(&mut self.pair.looking).record(&round);
            if let Some(lookup) = &mut self.lookup {
                lookup.record(offered, outcome.accepted);
            }
        } else {
            if self.passed {
                let round = round(0);
                self.looking.as_mut().unwrap_or(&mut self.pair.looking).record(&round);
            }
            // A tree stands for the cap it was planned for, however many nodes it has.
            let planned = if outcome.tree_depth > 0 { self.drafting_cap().max(1) } else { cap };
            let round = round(planned);
            let drafts = self.drafts();
            if let (true, Some(drafting)) = (drafts, self.drafting.as_mut().or(self.pair.drafting.as_mut())) {
                drafting.record(&round);
            }
        }
        if let Some(lookup) = &mut self.lookup {
            lookup.extend(ids);
        }
        self.depth = depth;
        if outcome.tree_depth > 0 {
            self.tree_nodes = outcome.drafted;
        }
        let record = RoundRecord {
            seq: 0,
            t_ms: 0.0,
            request: 0,
            mode: self.mode,
            index: self.index,
            drafted: outcome.drafted as u16,
            tree_depth: outcome.tree_depth as u16,
            accepted: outcome.accepted as u16,
            committed: ids.len() as u16,
            cap: (self.mode != Mode::Baseline).then_some(self.cap() as u16),
            source,
            ms: ms as f32,
        };
        if self.index > 0 && outcome.drafted == 0 {
            self.plain.push(ms);
        }
        self.index += 1;
        self.stats.add(&record);
        self.rounds.push((ms, ids.len()));
        record
    }

    fn cap(&self) -> usize {
        match (self.drafting(), self.mode) {
            (Some(drafting), Mode::Dspark | Mode::Dflash) => drafting.cap(),
            (_, Mode::Lookup) => self.looking().cap(),
            _ => 0,
        }
    }

    /// What is told at the end.
    pub(crate) fn finish(self, timings: &Timings, generated: usize) -> Told {
        let drafting = self.drafting().filter(|_| self.drafts());
        let parked = drafting.and_then(|drafting| Some((drafting.parked()?, drafting.origin())));
        let reason = self.reason.clone().or_else(|| {
            parked.map(|(parked, origin)| match origin {
                CapOrigin::Pinned => format!("drafting goes on as asked, though {parked}"),
                _ => parked.to_string(),
            })
        });
        let decay = decay(&self.rounds);
        let rate = (generated > 1 && timings.decode > 0.0).then(|| (generated - 1) as f64 / timings.decode);
        let middle = self.depth.saturating_sub(generated / 2);
        // The reply's own plain steps tell better than the calibration what one costs here and now.
        let own = (self.plain.len() >= OWN_PLAIN).then(|| calibration::median(&self.plain)).flatten();
        let plain = own.or_else(|| self.pair.plain_ms(middle));
        let multiple = rate
            .zip(plain)
            .map(|(rate, plain)| rate * plain / 1e3)
            .filter(|multiple| self.stats.drafted > 0 && *multiple <= MOST_OVER_ROUND * self.stats.mean_accept_len().max(1.0));
        Told {
            mode: self.mode,
            reason,
            accept_len: self.stats.mean_accept_len(),
            summary: (self.mode != Mode::Baseline).then(|| {
                Box::new(SpeculationSummary {
                    cap: self.cap(),
                    tree_nodes: self.tree_nodes,
                    multiple,
                    decay,
                    stats: self.stats.clone(),
                })
            }),
        }
    }
}

/// Plain rounds of a reply that say what a plain step costs in it.
const OWN_PLAIN: usize = 8;
/// No round is faster than a plain step, so no reply can be faster, in times plain decoding, than it has tokens a round. More is a
/// plain figure that no longer holds.
const MOST_OVER_ROUND: f64 = 1.1;

/// Rate of the last rounds over that of the first, leaving out the very first.
fn decay(rounds: &[(f64, usize)]) -> Option<f64> {
    let rate = |rounds: &[(f64, usize)]| {
        let (ms, tokens) = rounds.iter().fold((0.0, 0), |(ms, tokens), round| (ms + round.0, tokens + round.1));
        (ms > 0.0).then(|| tokens as f64 / ms)
    };
    if rounds.len() < 2 * DECAY_ROUNDS {
        return None;
    }
    let first = rate(&rounds[1..=DECAY_ROUNDS])?;
    let last = rate(&rounds[rounds.len() - DECAY_ROUNDS..])?;
    (first > 0.0).then(|| last / first)
}
