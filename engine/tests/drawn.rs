//! Sampled text with a drafter has the distribution of sampled text without: every kind of proposal, through the engine
//! thread, against exact probabilities. (Acceptance itself, with planted errors, is held against exact laws in
//! `dspark-speculate`; what is under test here is that drafts are drawn from what is said that they are drawn from.)
#![allow(clippy::unwrap_used)]

mod toy;

use dspark_engine::{
    EngineOptions,
    drafters::{Drafter, DrafterOptions, Ends},
    model::{Loaded, ModelLoader},
    protocol::{
        Cap, Constraint, EngineHandle, LoadRequest, LoadStage, Mode, ModelInfo, Prompt, Request, Result, Sampling, SpeculationOptions,
        TreeSetting,
    },
    sample::shape::{Distribution, Shape},
    start,
    target::{Cache, Logits, Output, Rows, Target},
    text::Tokenizer,
};
use mlx_rs::{
    Array,
    error::Exception,
    ops::{self, indexing::TryIndexOp},
    random,
};
use std::{ops::RangeInclusive, path::Path, sync::Arc};
use tokio_util::sync::CancellationToken;

const VOCAB: i32 = 256;
const HIDDEN: i32 = 64;
const PROMPT: [u32; 4] = [17, 4, 91, 33];
const TRIALS: u64 = 4000;
/// Of each of two tokens, by which they are counted.
const CLASSES: u32 = 7;

/// Two tokens decide the next. Cheap enough for thousands of texts.
struct Bigrams {
    table: Array,
    head: Array,
    features: Array,
}

impl Bigrams {
    fn new() -> Self {
        Self::telling(1.0)
    }

    /// What it tells a drafter is times `features`.
    fn telling(features: f32) -> Self {
        let normal = |shape: &[i32], salt: u64| random::normal::<f32>(shape, None, None, &random::key(salt).unwrap()).unwrap();
        let target = Self {
            table: normal(&[VOCAB, HIDDEN], 1),
            head: normal(&[VOCAB, HIDDEN], 2).multiply(Array::from_f32(0.2)).unwrap(),
            features: normal(&[HIDDEN, 3 * HIDDEN], 3).multiply(Array::from_f32(features)).unwrap(),
        };
        mlx_rs::transforms::eval([&target.table, &target.head, &target.features]).unwrap();
        target
    }

    /// `[n, H]` of pairs of tokens, `[n]` each.
    fn hidden(&self, tokens: &Array, before: &Array) -> std::result::Result<Array, Exception> {
        let earlier = self.table.take_axis(before, 0)?.multiply(Array::from_f32(0.6))?;
        self.table.take_axis(tokens, 0)?.add(earlier)
    }

    fn logits(&self, hidden: &Array) -> std::result::Result<Array, Exception> {
        ops::matmul(hidden, self.head.transpose()?)
    }
}

/// The tokens themselves.
struct Tokens(Array);

impl Cache for Tokens {
    fn len(&self) -> usize {
        self.0.dim(0) as usize - 1
    }
    fn trim(&mut self, n: usize) -> std::result::Result<(), Exception> {
        self.0 = self.0.try_index(..self.0.dim(0) - n as i32)?;
        Ok(())
    }
    fn commit(&mut self, _rows: usize, _path: &[usize]) -> std::result::Result<(), Exception> {
        Err(Exception::custom("no trees"))
    }
    fn trimmable(&self) -> bool {
        true
    }
    fn arrays(&self) -> Vec<&Array> {
        vec![&self.0]
    }
    fn bytes(&self) -> usize {
        self.0.nbytes()
    }
}

impl Target for Bigrams {
    fn vocab(&self) -> usize {
        VOCAB as usize
    }
    fn max_context(&self) -> usize {
        4096
    }
    fn layers(&self) -> usize {
        6
    }
    fn new_cache(&self) -> Box<dyn Cache> {
        Box::new(Tokens(Array::from_slice(&[0_u32], &[1])))
    }
    fn ends(&self) -> Option<Ends> {
        Ends::of_tables(self.table.clone(), Some(self.head.clone()), 1.0, 6).ok()
    }
    fn forward(&self, rows: &Rows<'_>, cache: &mut dyn Cache) -> std::result::Result<Output, Exception> {
        let held = &mut (cache as &mut dyn std::any::Any).downcast_mut::<Tokens>().unwrap().0;
        let tokens = rows.tokens.reshape(&[-1])?;
        let n = tokens.dim(0);
        let all = ops::concatenate(&[&*held, &tokens], 0)?;
        let before = all.try_index(held.dim(0) - 1..held.dim(0) - 1 + n)?;
        *held = all;
        let hidden = self.hidden(&tokens, &before)?;
        let shown = match rows.logits {
            Logits::None => None,
            Logits::Last => Some(hidden.try_index(n - 1..)?),
            Logits::All => Some(hidden.clone()),
        };
        let logits = match shown {
            Some(shown) => Some(self.logits(&shown)?.expand_dims(0)?),
            None => None,
        };
        let features = if rows.taps.is_empty() {
            None
        } else {
            Some(ops::matmul(&hidden, &self.features)?.expand_dims(0)?)
        };
        Ok(Output { logits, features })
    }
}

struct Loader;

impl ModelLoader for Loader {
    fn load(&mut self, request: &LoadRequest, _: &mut dyn FnMut(LoadStage, u64, u64), _: &CancellationToken) -> Result<Loaded> {
        let target = Bigrams::telling(if request.name == UNTOLD { f32::NAN } else { 1.0 });
        let drafter = request.drafter.as_ref().map(|path| {
            let options = DrafterOptions {
                bits: None,
                ..DrafterOptions::default()
            };
            let mut drafter = Drafter::load(path, &options).unwrap();
            drafter.bind(&target).unwrap();
            drafter
        });
        let folder = tempfile::tempdir().unwrap();
        toy::write_tokenizer(folder.path());
        Ok(Loaded {
            drafter,
            drafter_refused: None,
            tokenizer: Tokenizer::load(folder.path())?,
            eos: Vec::new(),
            facts: ModelInfo {
                name: request.name.clone(),
                max_context: 4096,
                ..toy::facts()
            },
            target: Box::new(target),
        })
    }
}

/// Its drafter gets no numbers, and gives none.
const UNTOLD: &str = "untold";

fn engine(drafter: Option<&str>) -> EngineHandle {
    engine_of("bigrams", drafter)
}

fn engine_of(target: &str, drafter: Option<&str>) -> EngineHandle {
    let engine = start(EngineOptions {
        loader: Box::new(Loader),
        prefix_slots: 0,
        self_test: || Ok(()),
        ..EngineOptions::default()
    });
    let folder = |name: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/oracle/drafters").join(name);
    let mut loading = engine
        .load(LoadRequest {
            name: target.into(),
            drafter: drafter.map(folder),
            ..LoadRequest::default()
        })
        .unwrap();
    while !matches!(
        loading.next_blocking().expect("a verdict"),
        dspark_engine::protocol::LoadEvent::Ready(_)
    ) {}
    engine
}

const SHAPE: Shape = Shape {
    temperature: 1.3,
    top_p: 0.9,
    top_k: 60,
    min_p: 0.01,
};

/// What the first three tokens may be where they are held to [`held`].
const ALLOWED: [RangeInclusive<u32>; 3] = [0x20..=0x4f, 0x20..=0x6f, 0x30..=0x7e];

/// The same as a grammar.
fn held() -> Arc<Constraint> {
    Arc::new(Constraint::regex(r"[\x20-\x4f][\x20-\x6f][\x30-\x7e]x*"))
}

/// How texts are asked for.
#[derive(Clone, Copy)]
struct Way<'a> {
    mode: Mode,
    constraint: Option<&'a Arc<Constraint>>,
    confidence: f32,
    /// Of the text; the first comes without a draft.
    tokens: usize,
}

impl Way<'_> {
    fn of(mode: Mode) -> Self {
        Self {
            mode,
            constraint: None,
            confidence: 0.0,
            tokens: 3,
        }
    }
}

/// Drafts of a text, or of many.
#[derive(Default)]
struct Drafts {
    offered: usize,
    taken: usize,
}

fn ask(engine: &EngineHandle, way: Way<'_>, prompt: &[u32], seed: u64) -> (Vec<u32>, Drafts) {
    let Way {
        mode,
        constraint,
        confidence,
        tokens,
    } = way;
    let request = Request {
        prompt: Prompt::Tokens(prompt.to_vec()),
        sampling: Sampling {
            temperature: SHAPE.temperature,
            top_p: SHAPE.top_p,
            top_k: SHAPE.top_k,
            min_p: SHAPE.min_p,
            // A given seed would have every token drawn as plain decoding draws it. Without one, drafts are taken by chance.
            seed: matches!(mode, Mode::Baseline | Mode::Lookup).then_some(seed),
            ..Sampling::default()
        },
        mode,
        speculation: Some(SpeculationOptions {
            cap: Cap::Fixed(2),
            tree: TreeSetting::Off,
            confidence,
            ..SpeculationOptions::default()
        }),
        return_token_ids: true,
        ignore_eos: constraint.is_none(),
        constraint: constraint.cloned(),
        ..Request::chat("test", Vec::new(), tokens)
    };
    let mut generation = engine.submit(request).unwrap();
    loop {
        match generation.next_blocking().unwrap() {
            dspark_engine::protocol::Event::Finished(summary) => {
                let stats = summary.speculation.map(|told| told.stats).unwrap_or_default();
                let drafts = Drafts {
                    offered: stats.drafted,
                    taken: stats.accepted,
                };
                return (summary.token_ids, drafts);
            }
            dspark_engine::protocol::Event::Failed(error) => panic!("{error}"),
            _ => {}
        }
    }
}

/// Exact chances of the classes of the second and third token after the prompt.
fn exact(prompt: &[u32], shape: &Shape, masked: bool) -> Vec<f64> {
    let target = Bigrams::new();
    let rows = |pairs: &[(u32, u32)], place: usize| {
        let (before, tokens): (Vec<u32>, Vec<u32>) = pairs.iter().copied().unzip();
        let of = |ids: &[u32]| Array::from_slice(ids, &[ids.len() as i32]);
        let hidden = target.hidden(&of(&tokens), &of(&before)).unwrap();
        let logits = target.logits(&hidden).unwrap().to_vec_cast::<f32>().unwrap();
        let row = |row: &[f32]| {
            let mut row = row.to_vec();
            for (id, logit) in row.iter_mut().enumerate() {
                if masked && !ALLOWED[place].contains(&(id as u32)) {
                    *logit = f32::NEG_INFINITY;
                }
            }
            Distribution::of_logits(&row, shape).unwrap()
        };
        logits.chunks(VOCAB as usize).map(row).collect::<Vec<_>>()
    };
    let last = [prompt[prompt.len() - 2], prompt[prompt.len() - 1]];
    let mut chances = vec![0.0; (CLASSES * CLASSES) as usize];
    let first = rows(&[(last[0], last[1])], 0).remove(0);
    let seconds = rows(&first.ids.iter().map(|&id| (last[1], id)).collect::<Vec<_>>(), 1);
    for ((&one, &p1), second) in first.ids.iter().zip(&first.p).zip(seconds) {
        let thirds = rows(&second.ids.iter().map(|&id| (one, id)).collect::<Vec<_>>(), 2);
        for ((&two, &p2), third) in second.ids.iter().zip(&second.p).zip(thirds) {
            for (&three, &p3) in third.ids.iter().zip(&third.p) {
                chances[(two % CLASSES * CLASSES + three % CLASSES) as usize] += p1 * p2 * p3;
            }
        }
    }
    assert!((chances.iter().sum::<f64>() - 1.0).abs() < 1e-6);
    chances
}

/// How far the counts are from the chances, in standard deviations of the chi-square statistic.
fn deviation(counts: &[u32], chances: &[f64]) -> f64 {
    let total: f64 = counts.iter().map(|&n| f64::from(n)).sum();
    let (mut chi, mut degrees) = (0.0, -1.0_f64);
    for (&n, &p) in counts.iter().zip(chances) {
        if p * total >= 5.0 {
            chi += (f64::from(n) - p * total).powi(2) / (p * total);
            degrees += 1.0;
        }
    }
    assert!(degrees > 30.0, "{degrees} cells are full enough");
    (chi - degrees) / (2.0 * degrees).sqrt()
}

/// Counts over the trials, and their drafts.
fn count(engine: &EngineHandle, way: Way<'_>, prompt: &[u32]) -> (Vec<u32>, Drafts) {
    let (mut counts, mut drafts) = (vec![0; (CLASSES * CLASSES) as usize], Drafts::default());
    for seed in 0..TRIALS {
        let (ids, one) = ask(engine, way, prompt, seed);
        counts[(ids[1] % CLASSES * CLASSES + ids[2] % CLASSES) as usize] += 1;
        drafts.offered += one.offered;
        drafts.taken += one.taken;
    }
    (counts, drafts)
}

fn check(drafter: Option<&str>, mode: Mode, prompt: &[u32]) {
    check_held(drafter, mode, prompt, false);
}

fn check_held(drafter: Option<&str>, mode: Mode, prompt: &[u32], masked: bool) {
    let engine = engine(drafter);
    let constraint = masked.then(held);
    let chances = exact(prompt, &SHAPE, masked);
    let way = Way {
        constraint: constraint.as_ref(),
        ..Way::of(mode)
    };
    let (counts, Drafts { taken, .. }) = count(&engine, way, prompt);
    let found = deviation(&counts, &chances);
    assert!(found < 5.0, "{drafter:?} {mode:?}: {found:.1} standard deviations off");
    if masked {
        // The check would notice masks that are not there.
        assert!(deviation(&counts, &exact(prompt, &SHAPE, false)) > 5.0);
    }
    // The check would notice a somewhat sharper distribution.
    let sharper = Shape { temperature: 0.6, ..SHAPE };
    assert!(deviation(&counts, &exact(prompt, &sharper, masked)) > 5.0);
    // A mask leaves few of a random drafter's guesses.
    let least = if mode == Mode::Lookup || masked { 10 } else { TRIALS as usize / 50 };
    assert!(mode == Mode::Baseline || taken > least, "{drafter:?}: {taken} drafts were taken");
}

#[test]
fn plain_under_masks() {
    check_held(None, Mode::Baseline, &PROMPT, true);
}

#[test]
fn a_chain_under_masks() {
    check_held(Some("dspark-native-qwen3"), Mode::Dspark, &PROMPT, true);
}

#[test]
fn a_reduced_vocabulary_under_masks() {
    check_held(Some("speculators-reduced-vocab"), Mode::Dspark, &PROMPT, true);
}

#[test]
fn a_lattice_under_masks() {
    check_held(Some("dflash2"), Mode::Dflash, &PROMPT, true);
}

#[test]
fn plain() {
    check(None, Mode::Baseline, &PROMPT);
}

#[test]
fn a_chain_with_a_markov_head() {
    check(Some("dspark-native-qwen3"), Mode::Dspark, &PROMPT);
}

#[test]
fn a_reduced_vocabulary() {
    check(Some("speculators-reduced-vocab"), Mode::Dspark, &PROMPT);
}

#[test]
fn independent_slots() {
    check(Some("dflash1-full"), Mode::Dflash, &PROMPT);
}

#[test]
fn a_lattice() {
    check(Some("dflash2"), Mode::Dflash, &PROMPT);
}

#[test]
fn a_chain_cut_by_its_confidence() {
    let drafter = Some("dspark-native-qwen3");
    let engine = engine(drafter);
    // Long enough for two drafts in its first round.
    let uncut = Way {
        tokens: 4,
        ..Way::of(Mode::Dspark)
    };
    let whole = count(&engine, uncut, &PROMPT).1;
    let way = Way { confidence: 0.25, ..uncut };
    let (counts, cut) = count(&engine, way, &PROMPT);
    let found = deviation(&counts, &exact(&PROMPT, &SHAPE, false));
    assert!(found < 5.0, "{found:.1} standard deviations off");
    let (cut, whole) = (cut.offered, whole.offered);
    assert!(cut < whole * 9 / 10 && cut > whole / 2, "{cut} of {whole} drafts");
}

/// Its guesses are worth nothing; the text is the target's all the same.
#[test]
fn a_drafter_that_gives_no_numbers() {
    for (drafter, mode) in [
        ("dspark-native-qwen3", Mode::Dspark),
        ("speculators-reduced-vocab", Mode::Dspark),
        ("dflash2", Mode::Dflash),
    ] {
        let engine = engine_of(UNTOLD, Some(drafter));
        let (counts, drafts) = count(&engine, Way::of(mode), &PROMPT);
        let found = deviation(&counts, &exact(&PROMPT, &SHAPE, false));
        assert!(found < 5.0, "{drafter}: {found:.1} standard deviations off");
        assert!(drafts.offered >= TRIALS as usize, "{drafter}: {} drafts", drafts.offered);
    }
}

#[test]
fn lookup() {
    // Whatever comes first has been seen after these two, with its likeliest successor.
    let target = Bigrams::new();
    let ids: Vec<u32> = (0..VOCAB as u32).collect();
    let (tokens, before) = (
        Array::from_slice(&ids, &[VOCAB]),
        Array::from_slice(&[33; VOCAB as usize], &[VOCAB]),
    );
    let logits = target.logits(&target.hidden(&tokens, &before).unwrap()).unwrap();
    let likeliest = ops::indexing::argmax_axis(&logits, -1, false)
        .unwrap()
        .to_vec_cast::<u32>()
        .unwrap();
    let seen = ids.iter().zip(&likeliest).flat_map(|(&id, &next)| [91, 33, id, next]);
    let prompt: Vec<u32> = seen.chain([91, 33]).collect();
    check(None, Mode::Lookup, &prompt);
}
