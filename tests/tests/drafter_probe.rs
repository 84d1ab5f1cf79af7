//! The shipped drafters on the shipped model: what they get accepted, and that the text is the model's own.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod common;

use common::{Prompt, folder, ids, prompts, requantized};
use dspark_engine::{
    drafters::{Drafter, DrafterOptions, Ends, ProbeOptions, ProbeReport, PromptProbe, Verdict, probe},
    load::{LoadOptions, LoadedModel, load},
    target::{Cache, Logits, Output, Rows, Target},
};
use mlx_rs::{
    Array,
    error::Exception,
    ops::{concatenate, indexing::TryIndexOp},
};
use serde_json::Value;
use std::path::{Path, PathBuf};
use tokio_util::sync::CancellationToken;

const SHIPPED: [&str; 2] = ["smollm2-135m-dspark", "smollm2-135m-dflash"];

/// Below this margin, in logits, f16 keys and another order of summation may turn a recorded choice.
const NEAR_TIE: f64 = 0.02;

fn open(dir: &Path) -> LoadedModel {
    load(dir, &LoadOptions::default(), &mut |_, _| (), &CancellationToken::new()).unwrap()
}

fn starter() -> LoadedModel {
    open(&folder())
}

fn shipped(name: &str, target: &dyn Target) -> Drafter {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../assets/drafters").join(name);
    let mut drafter = Drafter::load(&dir, &DrafterOptions::default()).unwrap();
    drafter.bind(target).unwrap();
    drafter
}

fn options(model: &LoadedModel, cap: Option<usize>, max_new: usize) -> ProbeOptions {
    ProbeOptions {
        max_new,
        cap,
        eos: model.facts.eos.clone(),
        near_tie: None,
    }
}

fn run(target: &dyn Target, drafter: &Drafter, prompts: &[Prompt], options: &ProbeOptions) -> ProbeReport {
    let ids: Vec<Vec<u32>> = prompts.iter().map(|prompt| prompt.ids.clone()).collect();
    probe(target, drafter, &ids, options, &mut |at, prompt| {
        println!("{}: {}", prompts[at].kind, told(prompt));
    })
    .unwrap()
}

fn told(prompt: &PromptProbe) -> String {
    format!(
        "{} tokens in {} rounds, {:.2} a round, {:?}, {:.2} s against {:.2} s",
        prompt.tokens.len(),
        prompt.rounds,
        prompt.mean_accepted(),
        prompt.verdict,
        prompt.speculating.as_secs_f64(),
        prompt.plain.as_secs_f64()
    )
}

/// The emitted text is the recorded one, up to a step where the two best logits were recorded as good as equal.
fn check_recorded(prompt: &Prompt, found: &PromptProbe) {
    for (step, (found, recorded)) in found.tokens.iter().zip(&prompt.recorded).enumerate() {
        if found != recorded {
            let margin = prompt.margins[step];
            assert!(
                margin < NEAR_TIE,
                "{}: step {step} gives {found}, recorded is {recorded} by {margin}",
                prompt.kind
            );
            return;
        }
    }
}

/// Rounds that a drafter needs over a text that is known: how much of each block agrees with it.
fn rounds_over(model: &LoadedModel, drafter: &Drafter, prompt: &[u32], text: &[u32]) -> usize {
    let all: Vec<u32> = prompt.iter().chain(text).copied().collect();
    let tokens = Array::from_slice(&all, &[1, all.len() as i32]);
    let rows = Rows {
        taps: &drafter.spec().taps,
        ..Rows::chain(&tokens, Logits::None)
    };
    let features = model
        .decoder
        .forward(&rows, &mut *model.decoder.new_cache())
        .unwrap()
        .features
        .unwrap();
    let (mut context, mut at, mut rounds) = (drafter.new_context(), 0, 0);
    while at + 1 < text.len() {
        let new = features
            .try_index((.., context.len() as i32..(prompt.len() + at) as i32, ..))
            .unwrap();
        drafter.commit(&new, &mut context).unwrap();
        let anchor = Array::from_slice(&text[at..=at], &[1]);
        let drafts = drafter.draft(&anchor, drafter.spec().max_draft(), &mut context).unwrap();
        let drafts = drafts.to_vec_cast::<u32>().unwrap();
        at += 1 + drafts
            .iter()
            .zip(&text[at + 1..])
            .take_while(|(draft, token)| draft == token)
            .count();
        rounds += 1;
    }
    rounds
}

/// On the recorded texts of the 8-bit conversion a drafter needs as many rounds as it was recorded to need, unquantized.
/// `DRAFTERS` names a folder with other copies of the shipped drafters: the unquantized ones agree to 2 %.
#[test]
fn recorded_rounds() {
    let dir = tempfile::tempdir().unwrap();
    requantized(&folder(), dir.path());
    let model = open(dir.path());
    let other = std::env::var_os("DRAFTERS").map(PathBuf::from);
    let assets = Path::new(env!("CARGO_MANIFEST_DIR")).join("../assets/drafters");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/models/golden.json");
    let golden: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    for (name, kind) in SHIPPED.into_iter().zip(["dspark", "dflash"]) {
        let options = DrafterOptions {
            bits: None,
            ..DrafterOptions::default()
        };
        let mut drafter = Drafter::load(&other.as_ref().unwrap_or(&assets).join(name), &options).unwrap();
        drafter.bind(&model.decoder).unwrap();
        let (mut ours, mut theirs, mut tokens) = (0, 0, 0);
        for prompt in golden["prompts"].as_array().unwrap() {
            let recorded = &prompt["targets"]["8bit"][kind];
            let Some(lengths) = recorded["accept_lengths"].as_array() else {
                continue;
            };
            let text = ids(&prompt["targets"]["8bit"]["greedy_fp32"]["ids"]);
            let rounds = rounds_over(&model, &drafter, &ids(&prompt["prompt_ids"]), &text);
            // The recorded text goes on to the end of its last block.
            let (mut covered, mut expected) = (1, 0);
            for length in lengths.iter().map(|length| length.as_u64().unwrap() as usize) {
                if covered < text.len() {
                    covered += length;
                    expected += 1;
                }
            }
            println!("{kind}: {rounds} rounds, recorded {expected}, over {} tokens", text.len());
            (ours, theirs, tokens) = (ours + rounds, theirs + expected, tokens + text.len() - 1);
        }
        let (found, recorded) = (tokens as f64 / ours as f64, tokens as f64 / theirs as f64);
        println!("{kind}: {found:.3} tokens a round, recorded {recorded:.3}");
        let allowed = if other.is_some() { 0.02 } else { 0.1 };
        assert!(
            (found / recorded - 1.0).abs() < allowed,
            "{kind}: {found:.3} a round, recorded {recorded:.3}"
        );
    }
}

#[test]
fn full_blocks() {
    let (model, prompts) = (starter(), prompts());
    for name in SHIPPED {
        let drafter = shipped(name, &model.decoder);
        println!("{name}: {} bytes, spec {:?}", drafter.weight_bytes(), drafter.spec().packaging);
        let report = run(&model.decoder, &drafter, &prompts, &options(&model, None, 40));
        for (prompt, found) in prompts.iter().zip(&report.prompts) {
            check_recorded(prompt, found);
            let counted: usize = found.positions.iter().map(|position| position.accepted).sum();
            assert_eq!(counted, found.accepted);
        }
        let positions = report.positions();
        println!(
            "{name}: {:.2} a round over {} rounds, {:?}",
            report.mean_accepted(),
            report.rounds(),
            report.verdict()
        );
        for (at, position) in positions.iter().enumerate() {
            println!("  d{at}: {} of {}", position.accepted, position.offered);
        }
        assert_ne!(report.verdict(), Verdict::Defect, "{name}");
        assert_eq!(positions.len(), drafter.spec().max_draft());
        // Measured over whole texts: 2.8 and 2.6. Random drafts would give 1.
        assert!(report.mean_accepted() > 2.0, "{name}: {:.2}", report.mean_accepted());
    }
}

/// The text does not depend on how many drafts a round verifies.
#[test]
fn short_blocks() {
    let (model, prompts) = (starter(), prompts());
    let few = &prompts[2..4];
    for name in SHIPPED {
        let drafter = shipped(name, &model.decoder);
        let mut before = 0.0;
        for cap in [1, 3] {
            let report = run(&model.decoder, &drafter, few, &options(&model, Some(cap), 24));
            for (prompt, found) in few.iter().zip(&report.prompts) {
                check_recorded(prompt, found);
                assert!(found.positions.len() <= cap && found.tokens.len() <= 24);
            }
            assert_ne!(report.verdict(), Verdict::Defect, "{name}, cap {cap}");
            assert!(report.mean_accepted() > before && report.mean_accepted() <= cap as f64 + 1.0);
            before = report.mean_accepted();
        }
    }
}

/// A target whose verify is wrong: of several rows each gives the logits of the row before it.
struct Shifted<'a>(&'a dyn Target);

impl Target for Shifted<'_> {
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
    fn forward(&self, rows: &Rows<'_>, cache: &mut dyn Cache) -> Result<Output, Exception> {
        let mut output = self.0.forward(rows, cache)?;
        if let (Logits::All, Some(logits)) = (rows.logits, &output.logits)
            && logits.dim(1) > 1
        {
            let (first, rest) = (logits.try_index((.., ..1, ..))?, logits.try_index((.., ..logits.dim(1) - 1, ..))?);
            output.logits = Some(concatenate(&[first, rest], 1)?);
        }
        Ok(output)
    }
}

/// The second scoring notices a verify that accepts what the model would not say.
#[test]
fn a_wrong_verify_is_a_defect() {
    let (model, prompts) = (starter(), prompts());
    let drafter = shipped(SHIPPED[0], &model.decoder);
    let options = options(&model, None, 32);
    assert_ne!(run(&model.decoder, &drafter, &prompts[2..3], &options).verdict(), Verdict::Defect);
    let report = run(&Shifted(&model.decoder), &drafter, &prompts[2..3], &options);
    assert_eq!(report.verdict(), Verdict::Defect);
    let divergence = report.prompts[0]
        .divergences
        .iter()
        .find(|divergence| !divergence.near_tie)
        .unwrap();
    assert!(divergence.plain != divergence.emitted && divergence.plain_logit > divergence.emitted_logit + 0.02);
}

/// Made for another model: refused before anything is drafted.
#[test]
fn a_foreign_drafter_is_refused() {
    let model = starter();
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/oracle/drafters/dspark-native-qwen3");
    let mut drafter = Drafter::load(&dir, &DrafterOptions::default()).unwrap();
    let message = drafter.bind(&model.decoder).unwrap_err().to_string();
    assert!(message.contains("hidden size is 64, the target's is 576"), "{message}");
    let unbound = probe(&model.decoder, &drafter, &[vec![1]], &ProbeOptions::default(), &mut |_, _| ());
    assert!(unbound.is_err());
}
