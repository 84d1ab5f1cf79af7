//! The text is the target's own: over many seeds the first three tokens together follow the target's exact law, for
//! every kind of proposal and truncation, and every planted error is caught.

use super::*;
use crate::{
    confidence,
    sample::{rng, shape::Shape},
    statistics::chi_square,
    tree::DraftTree,
};
use std::convert::Infallible;

const VOCAB: usize = 5;
const TRIALS: u64 = 30_000;
const DRAFTS: usize = 3;
const ANCHOR: u32 = 0;
/// A right sampler falls below once in 10,000 runs; the seeds are fixed, so it either always does or never.
const RIGHT: f64 = 1e-4;
const WRONG: f64 = 1e-9;

/// The next token depends on the last one only.
const TARGET: [[f32; VOCAB]; VOCAB] = [
    [0.3, 1.6, -0.4, 0.9, -1.1],
    [1.2, -0.7, 0.8, 0.1, 0.4],
    [-0.5, 0.9, 0.2, 1.4, -0.2],
    [0.7, 0.6, 1.1, -0.9, 0.0],
    [0.1, -0.3, 0.5, 0.2, 1.3],
];
/// What drafters think of each place of a round, ...
const BASE: [[f32; VOCAB]; DRAFTS] = [[0.0, 1.9, 0.3, 0.2, -0.8], [0.9, 0.4, 0.6, -0.3, 0.1], [0.2, 0.5, 1.2, 0.8, -0.5]];
/// ... and what the token before adds to it.
const MARKOV: [[f32; VOCAB]; VOCAB] = [
    [0.5, -0.6, 0.2, 0.4, 0.0],
    [0.9, -1.0, 0.7, 0.0, 0.3],
    [-0.8, 0.6, -0.1, 1.0, 0.2],
    [0.4, 0.3, 0.8, -1.2, -0.1],
    [0.0, -0.5, 0.1, 0.3, 1.1],
];

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    /// Base and Markov term along the drafted chain (DSpark).
    Chain,
    /// Each place on its own (DFlash).
    Independent,
    /// Three candidates a place, scored against the token before (DFlash 2, DSpine).
    Lattice,
    /// A chain over tokens 1, 3 and 4 only, widened to the vocabulary.
    Reduced,
    /// Copied from somewhere (lookup).
    Lookup,
    /// A chain cut where its confidence, which depends on the drafts before, falls.
    Confident,
}

const KINDS: [Kind; 6] = [
    Kind::Chain,
    Kind::Independent,
    Kind::Lattice,
    Kind::Reduced,
    Kind::Lookup,
    Kind::Confident,
];

const PLAIN: Shape = Shape {
    temperature: 1.0,
    top_p: 1.0,
    top_k: 0,
    min_p: 0.0,
};

fn shapes() -> [Shape; 6] {
    [
        PLAIN,
        Shape { temperature: 0.6, ..PLAIN },
        Shape { top_k: 3, ..PLAIN },
        Shape { top_p: 0.8, ..PLAIN },
        Shape { min_p: 0.25, ..PLAIN },
        Shape {
            temperature: 1.4,
            top_p: 0.9,
            top_k: 4,
            min_p: 0.05,
        },
    ]
}

/// The drafter's logits, or `None` for a point.
fn draft_row(kind: Kind, slot: usize, previous: u32, shape: &Shape) -> Option<Distribution> {
    let markov = MARKOV[previous as usize];
    let sum: Vec<f32> = BASE[slot].iter().zip(markov).map(|(base, markov)| base + markov).collect();
    match kind {
        Kind::Chain | Kind::Confident => Distribution::of_logits(&sum, shape),
        Kind::Independent => Distribution::of_logits(&BASE[slot], shape),
        Kind::Lattice => {
            // No truncation of its own; candidates by their base logit.
            let mut best: Vec<u32> = (0..VOCAB as u32).collect();
            best.sort_by(|&a, &b| BASE[slot][b as usize].total_cmp(&BASE[slot][a as usize]));
            let weights = best[..3]
                .iter()
                .map(|&id| (id, f64::from(sum[id as usize] / shape.temperature).exp()));
            Distribution::of_pairs(weights.collect())
        }
        Kind::Reduced => {
            let offsets = [1_u32, 2, 2];
            let reduced: Vec<f32> = (0..3_u32).map(|id| sum[(id + offsets[id as usize]) as usize]).collect();
            let q = Distribution::of_logits(&reduced, shape)?;
            Some(q.widened(|id| id + offsets[id as usize]))
        }
        Kind::Lookup => None,
    }
}

struct World {
    p: Vec<Distribution>,
    /// By place and previous token.
    q: Vec<Vec<Option<Distribution>>>,
    kind: Kind,
}

impl World {
    fn new(kind: Kind, shape: &Shape) -> Self {
        let row = |slot| (0..VOCAB as u32).map(|previous| draft_row(kind, slot, previous, shape)).collect();
        Self {
            p: TARGET
                .iter()
                .map(|logits| Distribution::of_logits(logits, shape).unwrap())
                .collect(),
            q: (0..DRAFTS).map(row).collect(),
            kind,
        }
    }

    fn draft(&self, anchor: u32, uniform: impl Fn(usize, Lane) -> f64) -> Vec<u32> {
        let mut drafts = Vec::new();
        let mut confidences = Vec::new();
        let mut previous = anchor;
        for slot in 0..DRAFTS {
            let draft = match &self.q[slot][previous as usize] {
                Some(q) => q.draw(uniform(slot, Lane::Draft)),
                None => (2 * previous + 1) % VOCAB as u32,
            };
            confidences.push(if previous.is_multiple_of(2) { 0.9 } else { 0.6 });
            drafts.push(draft);
            previous = draft;
        }
        if self.kind == Kind::Confident {
            drafts.truncate(confidence::keep(&confidences, 0.5));
        }
        drafts
    }

    fn accept(&self, round: &Drafted, uniform: impl Fn(usize, Lane) -> f64) -> Vec<u32> {
        let outcome = chain(
            round.drafts,
            |i| round.q(self, i).map_or(Proposal::Point, Proposal::Drawn),
            |i| Ok::<_, Infallible>(round.p(self, i).clone()),
            uniform,
        );
        outcome.unwrap().committed(round.drafts)
    }

    /// How far the first three tokens of many generations are from the target's law.
    fn p_value(&self, mut round: impl FnMut(&Self, u32, &dyn Fn(usize, Lane) -> f64) -> Vec<u32>) -> f64 {
        let mut counts = vec![0_u64; VOCAB.pow(3)];
        for seed in 0..TRIALS {
            let mut text = vec![ANCHOR];
            while text.len() < 4 {
                let position = text.len() as u64 - 1;
                let uniform = |i: usize, lane: Lane| rng::uniform(seed, position + i as u64, lane);
                let more = round(self, text[text.len() - 1], &uniform);
                text.extend(more);
            }
            counts[text[1..4].iter().fold(0, |cell, &token| cell * VOCAB + token as usize)] += 1;
        }
        let mut law = Vec::new();
        for a in 0..VOCAB as u32 {
            for b in 0..VOCAB as u32 {
                for c in 0..VOCAB as u32 {
                    law.push(self.p[ANCHOR as usize].of(a) * self.p[a as usize].of(b) * self.p[b as usize].of(c));
                }
            }
        }
        chi_square(&counts, &law).p_value
    }
}

struct Drafted<'a> {
    anchor: u32,
    drafts: &'a [u32],
}

impl Drafted<'_> {
    fn previous(&self, i: usize) -> usize {
        i.checked_sub(1).map_or(self.anchor, |before| self.drafts[before]) as usize
    }

    fn p<'w>(&self, world: &'w World, i: usize) -> &'w Distribution {
        &world.p[self.previous(i)]
    }

    fn q<'w>(&self, world: &'w World, i: usize) -> Option<&'w Distribution> {
        world.q[i][self.previous(i)].as_ref()
    }
}

fn right(world: &World, anchor: u32, uniform: &dyn Fn(usize, Lane) -> f64) -> Vec<u32> {
    let drafts = world.draft(anchor, uniform);
    world.accept(&Drafted { anchor, drafts: &drafts }, uniform)
}

#[test]
fn every_proposal_gives_the_law_of_the_target() {
    for shape in shapes() {
        for kind in KINDS {
            let p_value = World::new(kind, &shape).p_value(right);
            assert!(p_value > RIGHT, "{kind:?} {shape:?}: {p_value:e}");
        }
    }
}

#[test]
fn a_draft_however_made_may_be_taken_for_a_point() {
    let lookup = World::new(Kind::Lookup, &PLAIN);
    let p_value = World::new(Kind::Chain, &PLAIN).p_value(|world, anchor, uniform| {
        let drafts = world.draft(anchor, uniform);
        with_q(world, &drafts, anchor, uniform, &lookup)
    });
    assert!(p_value > RIGHT, "{p_value:e}");
}

#[test]
fn proposals_that_take_turns_give_the_law_of_the_target() {
    let worlds = KINDS.map(|kind| World::new(kind, &PLAIN));
    let mut turn = 0;
    let p_value = worlds[0].p_value(|_, anchor, uniform| {
        turn += 1;
        right(&worlds[turn % worlds.len()], anchor, uniform)
    });
    assert!(p_value > RIGHT, "{p_value:e}");
}

#[test]
fn trees_of_chosen_children_give_the_law_of_the_target() {
    for shape in shapes() {
        let world = World::new(Kind::Chain, &shape);
        let p_value = world.p_value(|world, anchor, uniform| {
            let children = |path: &[u32]| {
                let previous = path.last().copied().unwrap_or(anchor) as usize;
                let row = BASE[path.len()]
                    .iter()
                    .zip(MARKOV[previous])
                    .map(|(base, markov)| base + markov - 3.0);
                (0..VOCAB as u32).zip(row).collect::<Vec<_>>()
            };
            let tree = crate::tree::best_first(6, DRAFTS, &children(&[]), |path| Ok::<_, Infallible>(children(path))).unwrap();
            let token = |row: usize| row.checked_sub(1).map_or(anchor, |node| tree.tokens[node]);
            let row = |row| Ok::<_, Infallible>(world.p[token(row) as usize].clone());
            sampled_tree(&tree, row, uniform).unwrap().committed(&tree)
        });
        assert!(p_value > RIGHT, "{shape:?}: {p_value:e}");
    }
}

/// What a grammar allows after a token: three of five.
fn allowed(previous: u32, token: u32) -> bool {
    ![(previous + 1) % VOCAB as u32, (previous + 3) % VOCAB as u32].contains(&token)
}

impl World {
    /// The target masked before its truncation; drafters know nothing of it.
    fn masked(kind: Kind, shape: &Shape) -> Self {
        let row = |(previous, logits): (usize, &[f32; VOCAB])| {
            let mut logits = *logits;
            for (token, logit) in logits.iter_mut().enumerate() {
                if !allowed(previous as u32, token as u32) {
                    *logit = f32::NEG_INFINITY;
                }
            }
            Distribution::of_logits(&logits, shape).unwrap()
        };
        Self {
            p: TARGET.iter().enumerate().map(row).collect(),
            ..Self::new(kind, shape)
        }
    }
}

/// How many drafts, from the first, a grammar allows.
fn fitting(anchor: u32, drafts: &[u32]) -> usize {
    let before = [&[anchor], drafts].concat();
    before
        .iter()
        .zip(drafts)
        .take_while(|(previous, draft)| allowed(**previous, **draft))
        .count()
}

/// Drafts are cut where they break the grammar, and the one that does counts as rejected: it was drawn.
fn cut(world: &World, anchor: u32, uniform: &dyn Fn(usize, Lane) -> f64) -> Vec<u32> {
    let drafts = world.draft(anchor, uniform);
    let judged = drafts.len().min(fitting(anchor, &drafts) + 1);
    let drafts = &drafts[..judged];
    world.accept(&Drafted { anchor, drafts }, uniform)
}

#[test]
fn drafts_cut_by_a_grammar_give_the_law_of_the_masked_target() {
    for shape in shapes() {
        for kind in KINDS {
            let p_value = World::masked(kind, &shape).p_value(cut);
            assert!(p_value > RIGHT, "{kind:?} {shape:?}: {p_value:e}");
        }
    }
}

#[test]
fn planted_errors_of_masks_are_caught() {
    // The draft that breaks the grammar is forgotten, as if it had never been drawn.
    let forgotten = |world: &World, anchor: u32, uniform: &dyn Fn(usize, Lane) -> f64| {
        let mut drafts = world.draft(anchor, uniform);
        drafts.truncate(fitting(anchor, &drafts));
        world.accept(&Drafted { anchor, drafts: &drafts }, uniform)
    };
    let masked = World::masked(Kind::Chain, &PLAIN);
    assert!(masked.p_value(forgotten) < WRONG);
    // The mask comes after the truncation: what is left is not renormalised to the same set.
    let narrow = Shape { top_k: 2, ..PLAIN };
    let mut late = World::new(Kind::Chain, &narrow);
    for (previous, p) in late.p.iter_mut().enumerate() {
        let kept = p.ids.iter().copied().zip(p.p.iter().copied());
        let kept: Vec<(u32, f64)> = kept.filter(|(token, _)| allowed(previous as u32, *token)).collect();
        if let Some(kept) = Distribution::of_pairs(kept) {
            *p = kept;
        }
    }
    let right = World::masked(Kind::Chain, &narrow);
    assert!(right.p_value(|_, anchor, uniform| cut(&late, anchor, uniform)) < WRONG);
}

#[test]
fn a_point_writes_what_plain_decoding_writes_with_that_seed() {
    let world = World::new(Kind::Lookup, &PLAIN);
    for seed in 0..200 {
        let (mut text, mut plain) = (vec![ANCHOR], vec![ANCHOR]);
        while text.len() < 40 {
            let position = text.len() as u64 - 1;
            let more = right(&world, text[text.len() - 1], &|i, lane| {
                rng::uniform(seed, position + i as u64, lane)
            });
            text.extend(more);
        }
        while plain.len() < text.len() {
            let u = rng::uniform(seed, plain.len() as u64 - 1, Lane::Token);
            plain.push(world.p[plain[plain.len() - 1] as usize].draw(u));
        }
        assert_eq!(text, plain);
    }
    // The same for a tree of chosen children.
    let tree = DraftTree {
        tokens: vec![1, 2, 3, 0],
        parents: vec![-1, 0, -1, 2],
    };
    let token = |row: usize| row.checked_sub(1).map_or(ANCHOR, |node| tree.tokens[node]);
    let row = |row| Ok::<_, Infallible>(world.p[token(row) as usize].clone());
    let walk = sampled_tree(&tree, row, |i, lane| rng::uniform(3, i as u64, lane))
        .unwrap()
        .committed(&tree);
    let mut previous = ANCHOR;
    for (i, token) in walk.into_iter().enumerate() {
        assert_eq!(token, world.p[previous as usize].draw(rng::uniform(3, i as u64, Lane::Token)));
        previous = token;
    }
}

/// One planted error.
type Planted = Box<dyn Fn(&World, u32, &dyn Fn(usize, Lane) -> f64) -> Vec<u32>>;

/// Acceptance with another q than the one drawn from.
fn with_q(world: &World, drafts: &[u32], anchor: u32, uniform: &dyn Fn(usize, Lane) -> f64, q: &World) -> Vec<u32> {
    let round = Drafted { anchor, drafts };
    let outcome = chain(
        drafts,
        |i| round.q(q, i).map_or(Proposal::Point, Proposal::Drawn),
        |i| Ok::<_, Infallible>(round.p(world, i).clone()),
        uniform,
    );
    outcome.unwrap().committed(drafts)
}

#[test]
fn planted_errors_are_caught() {
    let shaped = |kind, shape| World::new(kind, &shape);
    let independent = shaped(Kind::Independent, PLAIN);
    let narrow = shaped(Kind::Chain, Shape { top_k: 2, ..PLAIN });
    let sharp = shaped(Kind::Independent, Shape { temperature: 0.5, ..PLAIN });
    let reduced: Vec<Vec<Distribution>> = (shaped(Kind::Reduced, PLAIN).q.into_iter())
        .map(|slot| {
            let unmapped = |q: Distribution| Distribution {
                ids: (0..q.ids.len() as u32).collect(),
                p: q.p,
            };
            slot.into_iter().flatten().map(unmapped).collect()
        })
        .collect();
    let cases: [(&str, Kind, Planted); 8] = [
        (
            "q lacks the Markov term",
            Kind::Chain,
            Box::new(move |world, anchor, uniform| {
                let drafts = world.draft(anchor, uniform);
                with_q(world, &drafts, anchor, uniform, &independent)
            }),
        ),
        (
            "q is truncated otherwise than drawn",
            Kind::Chain,
            Box::new(move |world, anchor, uniform| {
                let drafts = narrow.draft(anchor, uniform);
                world.accept(&Drafted { anchor, drafts: &drafts }, uniform)
            }),
        ),
        (
            "q has another temperature",
            Kind::Independent,
            Box::new(move |world, anchor, uniform| {
                let drafts = sharp.draft(anchor, uniform);
                world.accept(&Drafted { anchor, drafts: &drafts }, uniform)
            }),
        ),
        (
            "the replacement is drawn from p",
            Kind::Chain,
            Box::new(move |world, anchor, uniform| {
                let drafts = world.draft(anchor, uniform);
                let round = Drafted { anchor, drafts: &drafts };
                let mut text = world.accept(&round, uniform);
                let accepted = text.len() - 1;
                if accepted < drafts.len() {
                    text[accepted] = round.p(world, accepted).draw(uniform(accepted, Lane::Residual));
                }
                text
            }),
        ),
        (
            "one draft too many is taken",
            Kind::Independent,
            Box::new(move |world, anchor, uniform| {
                let drafts = world.draft(anchor, uniform);
                let mut text = world.accept(&Drafted { anchor, drafts: &drafts }, uniform);
                let accepted = text.len() - 1;
                if accepted < drafts.len() {
                    text.insert(accepted, drafts[accepted]);
                }
                text
            }),
        ),
        (
            "q is narrower than the vocabulary of p",
            Kind::Reduced,
            Box::new(move |world, anchor, uniform| {
                // Ids of the reduced vocabulary compared as if they were the target's.
                let drafts: Vec<u32> = world.draft(anchor, uniform);
                let round = Drafted { anchor, drafts: &drafts };
                let row = |i| Ok::<_, Infallible>(round.p(world, i).clone());
                chain(&drafts, |i| Proposal::Drawn(&reduced[i][round.previous(i)]), row, uniform)
                    .unwrap()
                    .committed(&drafts)
            }),
        ),
        (
            "one number draws and accepts",
            Kind::Chain,
            Box::new(move |world, anchor, uniform| {
                let drafts = world.draft(anchor, uniform);
                let same = |i, lane| uniform(i, if lane == Lane::Accept { Lane::Draft } else { lane });
                world.accept(&Drafted { anchor, drafts: &drafts }, same)
            }),
        ),
        (
            "a draft is offered depending on itself",
            Kind::Chain,
            Box::new(move |world, anchor, uniform| {
                let mut drafts = world.draft(anchor, uniform);
                let liked = drafts.iter().take_while(|&&draft| draft != 1).count();
                drafts.truncate(liked);
                // The rest of the position is drawn with the numbers that drew what was withheld.
                let reused = |i, lane| uniform(i, if lane == Lane::Token { Lane::Draft } else { lane });
                world.accept(&Drafted { anchor, drafts: &drafts }, reused)
            }),
        ),
    ];
    for (error, kind, planted) in cases {
        let p_value = World::new(kind, &PLAIN).p_value(planted);
        assert!(p_value < WRONG, "{error}: {p_value:e}");
    }
}
