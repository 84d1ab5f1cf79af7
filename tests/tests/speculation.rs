//! Speculation on the shipped pair, through the engine's own door: whatever the mode, the cap and the shape of the draft, the
//! text is the target's own, token by token.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod common;

use common::{Prompt, folder, prompts};
use dspark_engine::{
    EngineOptions,
    drafters::{Drafter, DrafterOptions, Ends},
    model::{FolderLoader, Loaded, ModelLoader},
    protocol::{
        Cap, EngineHandle, Event, ForcingReport, LoadEvent, LoadRequest, LoadStage, Mode, Request, Result, Sampling, Source,
        SpeculationOptions, Summary, TokenInfo, TreeSetting, Verdict,
    },
    start,
    target::{Cache, Logits, Output, Rows, Target},
};
use mlx_rs::{
    Array,
    error::Exception,
    ops::{add, indexing::TryIndexOp, zeros},
};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};
use tokio_util::sync::CancellationToken;

const DSPARK: &str = "smollm2-135m-dspark";
const DFLASH: &str = "smollm2-135m-dflash";
/// Tokens of a text, where not said otherwise.
const LENGTH: usize = 16;

fn assets(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../assets/drafters").join(name)
}

fn engine(loader: Box<dyn ModelLoader>, drafter: Option<&str>) -> EngineHandle {
    let engine = start(EngineOptions {
        loader,
        ..EngineOptions::default()
    });
    let mut loading = engine
        .load(LoadRequest {
            name: "starter".into(),
            path: folder(),
            drafter: drafter.map(assets),
            drafter_required: true,
            ..LoadRequest::default()
        })
        .unwrap();
    while let Some(event) = loading.next_blocking() {
        match event {
            LoadEvent::Stage { .. } => {}
            LoadEvent::Ready(_) => return engine,
            LoadEvent::Failed(error) => panic!("{error}"),
        }
    }
    panic!("the load said nothing");
}

/// One finished generation.
struct Answer {
    tokens: Vec<TokenInfo>,
    text: String,
    summary: Box<Summary>,
}

impl Answer {
    fn ids(&self) -> Vec<u32> {
        self.tokens.iter().map(|token| token.id).collect()
    }
}

fn request(prompt: &[u32], mode: Mode, speculation: SpeculationOptions, max_tokens: usize) -> Request {
    Request {
        prompt: dspark_engine::protocol::Prompt::Tokens(prompt.to_vec()),
        mode,
        speculation: Some(speculation),
        return_token_ids: true,
        ..Request::chat("test", Vec::new(), max_tokens)
    }
}

fn ask(engine: &EngineHandle, request: Request) -> Answer {
    let mut generation = engine.submit(request).unwrap();
    let (mut tokens, mut text) = (Vec::new(), String::new());
    while let Some(event) = generation.next_blocking() {
        match event {
            Event::Delta(delta) => {
                tokens.extend(delta.tokens);
                text.push_str(&delta.text);
            }
            Event::Finished(summary) => return Answer { tokens, text, summary },
            Event::Failed(error) => panic!("{error}"),
            _ => {}
        }
    }
    panic!("the generation said nothing at its end");
}

fn force(engine: &EngineHandle, prompt: &[u32], emitted: &[u32]) -> ForcingReport {
    let answer = engine.force(prompt.to_vec(), emitted.to_vec()).unwrap();
    answer.blocking_recv().unwrap().unwrap()
}

fn options(cap: Cap, tree: TreeSetting, lookup: bool) -> SpeculationOptions {
    SpeculationOptions {
        cap,
        tree,
        lookup: Some(lookup),
        ..SpeculationOptions::default()
    }
}

const CAPS: [Cap; 4] = [Cap::Fixed(1), Cap::Fixed(3), Cap::Full, Cap::Auto];

/// Every prompt at every cap: each distinct text is scored again once.
fn check(engine: &EngineHandle, named: &str, mode: Mode, tree: TreeSetting, lookup: bool) {
    let mut rounds = BTreeMap::<String, (usize, usize)>::new();
    for prompt in prompts() {
        let mut proved: Vec<Vec<u32>> = Vec::new();
        for cap in CAPS {
            let answer = ask(engine, request(&prompt.ids, mode, options(cap, tree, lookup), LENGTH));
            let ids = answer.ids();
            assert_eq!(answer.summary.effective_mode, mode, "{:?}", answer.summary.mode_reason);
            assert!(ids.len() <= LENGTH);
            let told = answer.summary.speculation.as_ref().unwrap();
            assert_eq!(told.stats.rounds, answer.summary.target_forwards);
            let sum = rounds.entry(format!("{cap:?}")).or_default();
            *sum = (sum.0 + told.stats.rounds, sum.1 + told.stats.committed);
            if !proved.contains(&ids) {
                let report = force(engine, &prompt.ids, &ids);
                assert_ne!(
                    report.verdict(),
                    Verdict::Defect,
                    "{named} {cap:?} {}: {:?}",
                    prompt.kind,
                    report.divergences
                );
                proved.push(ids);
            }
        }
    }
    for (cap, (rounds, committed)) in rounds {
        println!("{named} {cap}: {:.2} tokens a round", committed as f64 / rounds as f64);
    }
}

#[test]
fn dspark_is_lossless_with_and_without_lookup_and_trees() {
    let engine = engine(Box::new(FolderLoader), Some(DSPARK));
    check(&engine, "dspark", Mode::Dspark, TreeSetting::Off, false);
    check(&engine, "dspark+lookup", Mode::Dspark, TreeSetting::Off, true);
    check(&engine, "tree", Mode::Dspark, TreeSetting::On, false);
}

#[test]
fn dflash_and_lookup_are_lossless() {
    let engine = engine(Box::new(FolderLoader), Some(DFLASH));
    check(&engine, "dflash", Mode::Dflash, TreeSetting::Off, false);
    check(&engine, "lookup", Mode::Lookup, TreeSetting::Off, true);
}

/// What the proof must not miss.
#[derive(Clone, Copy, PartialEq)]
enum Defect {
    /// Every draft is accepted, whatever the target says.
    AcceptsTooMuch,
    /// The third row of a verify does not see the second.
    WrongMaskBit,
}

struct Planted(Box<dyn Target>, Defect);

impl Target for Planted {
    fn vocab(&self) -> usize {
        self.0.vocab()
    }
    fn max_context(&self) -> usize {
        self.0.max_context()
    }
    fn layers(&self) -> usize {
        self.0.layers()
    }
    fn new_cache(&self) -> Box<dyn Cache> {
        self.0.new_cache()
    }
    fn ends(&self) -> Option<Ends> {
        self.0.ends()
    }
    fn forward(&self, rows: &Rows<'_>, cache: &mut dyn Cache) -> std::result::Result<Output, Exception> {
        let width = rows.tokens.dim(1);
        if rows.logits != Logits::All || width < 3 {
            return self.0.forward(rows, cache);
        }
        if self.1 == Defect::WrongMaskBit {
            let parents: Vec<i32> = (0..width).map(|row| if row == 2 { 0 } else { row - 1 }).collect();
            let wrong = Rows {
                parents: Some(&parents),
                ..rows.clone()
            };
            return self.0.forward(&wrong, cache);
        }
        let mut output = self.0.forward(rows, cache)?;
        let logits = output.logits.take().unwrap();
        let next = rows.tokens.try_index((.., 1..))?.reshape(&[1, width - 1, 1])?;
        let high = Array::from_slice(&[1000.0_f32], &[1, 1, 1]);
        let high = mlx_rs::ops::broadcast_to(&high, &[1, width - 1, 1])?;
        let push = zeros::<f32>(&[1, width - 1, logits.dim(2)])?.put_along_axis(&next, &high, -1)?;
        let rest = zeros::<f32>(&[1, 1, logits.dim(2)])?;
        output.logits = Some(add(&logits, &mlx_rs::ops::concatenate(&[push, rest], 1)?)?);
        Ok(output)
    }
}

struct PlantedLoader(Defect);

impl ModelLoader for PlantedLoader {
    fn load(&mut self, request: &LoadRequest, report: &mut dyn FnMut(LoadStage, u64, u64), cancel: &CancellationToken) -> Result<Loaded> {
        let loaded = FolderLoader.load(request, report, cancel)?;
        Ok(Loaded {
            target: Box::new(Planted(loaded.target, self.0)),
            ..loaded
        })
    }
}

#[test]
fn planted_defects_are_found() {
    for defect in [Defect::AcceptsTooMuch, Defect::WrongMaskBit] {
        let engine = engine(Box::new(PlantedLoader(defect)), Some(DSPARK));
        let found = prompts().iter().take(4).any(|prompt: &Prompt| {
            let answer = ask(
                &engine,
                request(&prompt.ids, Mode::Dspark, options(Cap::Full, TreeSetting::Off, false), LENGTH),
            );
            force(&engine, &prompt.ids, &answer.ids()).verdict() == Verdict::Defect
        });
        assert!(found);
    }
}

/// Greedy with penalties and log-probabilities, and sampled text: the rows come to the host, and the text still is what plain
/// decoding writes. With a seed of the request that holds for sampled text too, whatever the mode, the cap and the timing.
#[test]
fn other_requests_agree_with_plain_decoding() {
    let engine = engine(Box::new(FolderLoader), Some(DSPARK));
    let modes = [
        (Mode::Dspark, options(Cap::Full, TreeSetting::On, false)),
        (Mode::Dspark, options(Cap::Fixed(3), TreeSetting::Off, true)),
        (Mode::Dspark, options(Cap::Auto, TreeSetting::Auto, true)),
        (Mode::Lookup, SpeculationOptions::default()),
    ];
    let penalized = Sampling {
        repetition_penalty: 1.2,
        presence_penalty: 0.3,
        frequency_penalty: 0.2,
        logit_bias: [(28, -4.0), (198, 1.5)].into(),
        ..Sampling::default()
    };
    let sampled = Sampling {
        temperature: 0.8,
        top_p: 0.9,
        top_k: 40,
        seed: Some(11),
        ..penalized.clone()
    };
    let hot = Sampling {
        temperature: 1.0,
        seed: Some(42),
        ..Sampling::default()
    };
    for prompt in &prompts()[..4] {
        for (sampling, logprobs) in [
            (&penalized, None),
            (&penalized, Some(3)),
            (&sampled, Some(0)),
            (&sampled, None),
            (&hot, None),
            (&Sampling::default(), Some(2)),
        ] {
            let with = |mode, speculation| Request {
                sampling: sampling.clone(),
                logprobs,
                ..request(&prompt.ids, mode, speculation, LENGTH)
            };
            let plain = ask(&engine, with(Mode::Baseline, SpeculationOptions::default()));
            for &(mode, speculation) in &modes {
                let answer = ask(&engine, with(mode, speculation));
                assert_eq!(answer.text, plain.text, "{mode:?} {}", prompt.kind);
                for (found, expected) in answer.tokens.iter().zip(&plain.tokens) {
                    assert_eq!(found.id, expected.id);
                    assert_eq!(found.logprob.is_some(), logprobs.is_some());
                    assert!((found.logprob.unwrap_or(0.0) - expected.logprob.unwrap_or(0.0)).abs() < 0.02);
                    assert_eq!(found.top.len(), expected.top.len());
                }
            }
        }
    }
}

/// The end comes exactly where plain decoding ends: at the bound, at a stop string, at the end of the text, also in the
/// middle of an accepted block; and the next turn finds cache and context in order.
#[test]
fn ends_within_a_block_are_exact() {
    let engine = engine(Box::new(FolderLoader), Some(DSPARK));
    let speculation = options(Cap::Full, TreeSetting::Off, true);
    let prompts = prompts();
    // Code: long blocks.
    let prompt = prompts.iter().find(|prompt| prompt.kind == "code").unwrap();
    let whole = ask(&engine, request(&prompt.ids, Mode::Baseline, speculation, 48));
    for most in 1..=24 {
        let answer = ask(&engine, request(&prompt.ids, Mode::Dspark, speculation, most));
        assert_eq!(answer.ids(), whole.ids()[..most.min(whole.tokens.len())]);
    }
    for at in [9, 14, 21] {
        let stop = whole.tokens[at].text.clone();
        let with = |mode| Request {
            stop: vec![stop.clone()],
            ..request(&prompt.ids, mode, speculation, 48)
        };
        let (plain, fast) = (ask(&engine, with(Mode::Baseline)), ask(&engine, with(Mode::Dspark)));
        assert_eq!((&fast.text, &fast.summary.finish), (&plain.text, &plain.summary.finish), "{stop:?}");
        assert!(!fast.text.contains(&stop));
    }
    // The next turn goes on from what the last one left.
    let longer = [&prompt.ids[..], &whole.ids()[..17], &prompt.ids[..5]].concat();
    let fresh = ask(&engine, request(&longer, Mode::Baseline, speculation, 16));
    let answer = ask(&engine, request(&longer, Mode::Dspark, speculation, 16));
    assert!(answer.summary.usage.cached_tokens >= prompt.ids.len(), "{:?}", answer.summary.usage);
    assert_eq!(answer.ids(), fresh.ids());
}

/// Tokens say where they came from, rounds add up, and a copy of the prompt is found by lookup.
#[test]
fn sources_and_rounds_are_told() {
    let engine = engine(Box::new(FolderLoader), Some(DSPARK));
    let prompts = prompts();
    let prompt = prompts.iter().find(|prompt| prompt.kind == "code").unwrap();
    let before = engine.rounds().since(None).last().map(|round| round.seq);
    let answer = ask(
        &engine,
        request(&prompt.ids, Mode::Dspark, options(Cap::Full, TreeSetting::Off, false), 32),
    );
    let told = answer.summary.speculation.as_ref().unwrap();
    let rounds = engine.rounds().since(before);
    assert_eq!(rounds.len(), told.stats.rounds);
    let count = |source| answer.tokens.iter().filter(|token| token.source == source).count();
    assert!(count(Source::Draft) > 0 && count(Source::Corrected) > 0);
    assert!(count(Source::Draft) <= told.stats.accepted);
    assert_eq!(
        rounds.iter().map(|round| usize::from(round.committed)).sum::<usize>(),
        told.stats.committed
    );
    assert!(answer.summary.accept_len > 1.5, "{}", answer.summary.accept_len);
    let copied = ask(
        &engine,
        request(
            &[&prompt.recorded[..30], &prompt.recorded[..8]].concat(),
            Mode::Lookup,
            SpeculationOptions::default(),
            16,
        ),
    );
    assert!(copied.tokens.iter().any(|token| token.source == Source::Lookup));
}

/// A drafter that does not belong to the mode or to the model is refused when it was asked for, and left out when it was not.
#[test]
fn a_drafter_that_does_not_fit_is_refused_or_left_out() {
    let engine = start(EngineOptions::default());
    let load = |required, mode, drafter: PathBuf| {
        let request = LoadRequest {
            name: "starter".into(),
            path: folder(),
            drafter: Some(drafter),
            drafter_required: required,
            mode,
            ..LoadRequest::default()
        };
        let mut loading = engine.load(request).unwrap();
        loop {
            match loading.next_blocking().unwrap() {
                LoadEvent::Stage { .. } => {}
                LoadEvent::Ready(info) => return Ok(info),
                LoadEvent::Failed(error) => return Err(error.to_string()),
            }
        }
    };
    let foreign = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/oracle/drafters/dspark-native-qwen3");
    let message = load(true, Mode::Auto, foreign.clone()).unwrap_err();
    assert!(message.contains("hidden size is 64, the target's is 576"), "{message}");
    let message = load(true, Mode::Dflash, assets(DSPARK)).unwrap_err();
    assert!(message.contains("dspark drafter") && message.contains("`dflash`"), "{message}");
    assert_eq!(load(false, Mode::Auto, foreign).unwrap().drafter, None);
    let answer = ask(&engine, request(&[1, 2, 3], Mode::Auto, SpeculationOptions::default(), 2));
    assert_eq!(answer.summary.effective_mode, Mode::Lookup);
    let reason = answer.summary.mode_reason.unwrap();
    assert!(reason.contains("hidden size is 64"), "{reason}");
    let state = engine.snapshot().speculation.clone().unwrap();
    assert!(state.reason.as_ref().unwrap().contains("hidden size is 64"));
    // Unquantized drafters load as well.
    assert!(
        Drafter::load(
            &assets(DFLASH),
            &DrafterOptions {
                bits: None,
                ..DrafterOptions::default()
            }
        )
        .is_ok()
    );
}
