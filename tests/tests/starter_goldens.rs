//! The starter model against recorded greedy texts (`models/README.md`): as shipped, and re-quantized to 8 bit. An emitted
//! id must be the recorded one; where the recorded margin between the two best logits is tiny, the runner-up will do.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod common;

use common::requantized;
use dspark_engine::{
    hub::{self, Hub, Job},
    load::{LoadOptions, LoadedModel, load},
    target::{Cache, Logits, Rows, Target},
};
use mlx_rs::{Array, Dtype};
use serde_json::Value;
use std::path::{Path, PathBuf};
use tokio_util::sync::CancellationToken;

/// Below this margin, in logits, f16 keys and another order of summation may turn the choice.
const NEAR_TIE: f64 = 0.02;

fn golden(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/models").join(name);
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn open(dir: &Path, kv: Option<Dtype>) -> LoadedModel {
    let options = LoadOptions {
        kv,
        ..LoadOptions::default()
    };
    load(dir, &options, &mut |_, _| (), &CancellationToken::new()).unwrap()
}

fn ids(value: &Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect()
}

/// A recorded text.
struct Text {
    prompt: Vec<u32>,
    ids: Vec<u32>,
    /// Between the best and the second logit, at each step.
    margins: Vec<f64>,
    what: String,
}

impl Text {
    fn new(prompt: &Value, recorded: &Value, margins: &str) -> Self {
        Self {
            prompt: ids(&prompt["prompt_ids"]),
            ids: ids(&recorded["ids"]),
            margins: recorded[margins].as_array().unwrap().iter().map(|m| m.as_f64().unwrap()).collect(),
            what: prompt["prompt"].as_str().unwrap().to_owned(),
        }
    }

    /// Judges the choice at a step; true when a near tie went the other way.
    fn turned(&self, step: usize, row: &[f32]) -> bool {
        let found = best(row);
        let (expected, margin) = (self.ids[step], self.margins[step]);
        if found == expected {
            return false;
        }
        let lead = row[found as usize] - row[expected as usize];
        let what = &self.what;
        assert!(
            margin < NEAR_TIE,
            "{what}: step {step} gives {found} by {lead}, recorded is {expected} by {margin}"
        );
        true
    }

    /// Feeds the recorded text token by token, as decoding does. Returns how many near ties went the other way.
    fn step_through(&self, model: &LoadedModel) -> usize {
        let mut cache = model.decoder.new_cache();
        let mut feed = self.prompt.clone();
        let mut turned = 0;
        for (step, id) in self.ids.iter().enumerate() {
            let row = logits(model, &feed, Logits::Last, &mut *cache);
            turned += usize::from(self.turned(step, &row));
            feed = vec![*id];
        }
        turned
    }

    /// The same in one forward.
    fn at_once(&self, model: &LoadedModel) -> usize {
        let all: Vec<u32> = self.prompt.iter().chain(&self.ids).copied().collect();
        let rows = logits(model, &all, Logits::All, &mut *model.decoder.new_cache());
        let rows = rows.chunks(model.decoder.vocab()).skip(self.prompt.len() - 1);
        rows.take(self.ids.len())
            .enumerate()
            .filter(|(step, row)| self.turned(*step, row))
            .count()
    }
}

fn best(row: &[f32]) -> u32 {
    let max = row.iter().copied().fold(f32::MIN, f32::max);
    row.iter().position(|x| *x == max).unwrap() as u32
}

fn logits(model: &LoadedModel, feed: &[u32], which: Logits, cache: &mut dyn Cache) -> Vec<f32> {
    let tokens = Array::from_slice(feed, &[1, feed.len() as i32]);
    let output = model.decoder.forward(&Rows::chain(&tokens, which), cache).unwrap();
    output.logits.unwrap().to_vec_cast::<f32>().unwrap()
}

#[test]
fn as_shipped() {
    let dir = starter();
    let golden = golden("golden-exact.json");
    let texts = || {
        golden["prompts"]
            .as_array()
            .unwrap()
            .iter()
            .map(|prompt| Text::new(prompt, prompt, "margins"))
    };
    // Keys in f16, as the app runs it.
    let model = open(&dir, None);
    assert_eq!(model.facts.quantization, "4-bit g32, mixed");
    assert_eq!((model.facts.layers, model.facts.parameters), (30, 134_515_008));
    for text in texts() {
        println!(
            "{} steps, {} near ties turned: {}",
            text.ids.len(),
            text.step_through(&model),
            text.what
        );
    }
    let model = open(&dir, Some(Dtype::Float32));
    for text in texts() {
        println!(
            "{} rows at once, {} near ties turned: {}",
            text.ids.len(),
            text.at_once(&model),
            text.what
        );
    }
}

#[test]
fn first_logits_are_the_recorded_ones() {
    let model = open(&starter(), Some(Dtype::Float32));
    for prompt in golden("golden-exact.json")["prompts"].as_array().unwrap() {
        let row = logits(&model, &ids(&prompt["prompt_ids"]), Logits::Last, &mut *model.decoder.new_cache());
        for top in prompt["first_top5"].as_array().unwrap() {
            let (id, logit) = (top[0].as_u64().unwrap() as usize, top[1].as_f64().unwrap());
            assert!(
                (f64::from(row[id]) - logit).abs() < 2e-3,
                "{}: id {id} is {}, recorded {logit}",
                prompt["prompt"],
                row[id]
            );
        }
    }
}

#[test]
fn eight_bit() {
    let dir = tempfile::tempdir().unwrap();
    requantized(&starter(), dir.path());
    let model = open(dir.path(), None);
    assert_eq!(model.facts.quantization, "8-bit g64");
    for prompt in golden("golden.json")["prompts"].as_array().unwrap() {
        let text = Text::new(prompt, &prompt["targets"]["8bit"]["greedy_fp32"], "top1_minus_top2");
        println!(
            "{} rows at once, {} near ties turned: {}",
            text.ids.len(),
            text.at_once(&model),
            text.what
        );
    }
}

/// The starter model, fetched and converted at the first call.
fn starter() -> PathBuf {
    let found = hub::block_on(Hub::from_env().starter(&Job::silent())).unwrap();
    found
        .unwrap_or_else(|error| panic!("these tests need the starter model: {error}"))
        .path
}
