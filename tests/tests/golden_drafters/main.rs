//! Drafters against the reference: tiny random checkpoints in published layouts and the numbers it gives for them
//! (`oracle/README.md`). Everything is computed in f32, within the tolerance that each golden states.
#![allow(clippy::unwrap_used)]

mod dspine;
mod refusals;
mod tree;

use dspark_engine::{
    drafters::{BlockMask, Context, Drafter, DrafterOptions, Ends, Family},
    sample::shape::{Distribution, Shape},
};
use mlx_rs::{Array, Dtype, ops::indexing::TryIndexOp};
use serde_json::Value;
use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

const DSPARK: [&str; 14] = [
    "dflash-lineage-causal-sinks",
    "dspark-native-gemma4",
    "dspark-native-markov0",
    "dspark-native-qwen3",
    "dspark-native-qwen3-deepcopy-noise",
    "dspark-native-qwen3_5",
    "lfm2-interleaved",
    "modelopt-nvfp4",
    "prismml-gguf-logsnr",
    "specforge-yarn",
    "speculators-causal-swa",
    "speculators-noncausal-swa",
    "speculators-reduced-vocab",
    "speculators-s0",
];
const DFLASH: [&str; 2] = ["dflash1-full", "dflash1-mixed-sliding"];
const DFLASH2: [&str; 3] = ["dflash2", "dflash2-bidirectional", "dflash2-muse"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/oracle/drafters")
}

/// Nothing quantized, everything in f32.
fn exact() -> DrafterOptions {
    DrafterOptions {
        bits: None,
        activations: Some(Dtype::Float32),
        kv: Some(Dtype::Float32),
        context_window: None,
        strict: true,
        first_ids: None,
    }
}

struct Case {
    name: String,
    drafter: Drafter,
    golden: Value,
    features: Array,
}

impl Case {
    fn open(name: &str) -> Self {
        Self::of(name, &root().join(name), &exact())
    }

    /// The drafter of `dir` beside the golden and features of `name`.
    fn of(name: &str, dir: &Path, options: &DrafterOptions) -> Self {
        let golden = root().join(name);
        let aux = Array::load_safetensors(golden.join("golden/aux.safetensors")).unwrap();
        let golden: Value = serde_json::from_slice(&std::fs::read(golden.join("golden.json")).unwrap()).unwrap();
        let mut drafter = Drafter::load(dir, options).unwrap_or_else(|error| panic!("{name}: {error}"));
        bind(&mut drafter, &aux, &golden);
        Self {
            name: name.to_owned(),
            drafter,
            golden,
            features: aux["features"].as_dtype(Dtype::Float32).unwrap(),
        }
    }

    fn resolved(&self) -> &Value {
        &self.golden["resolved"]
    }

    fn tolerance(&self, key: &str) -> f64 {
        self.golden["tolerance"][key].as_f64().unwrap()
    }

    /// Feature rows, `[1, n, taps · H]`.
    fn rows(&self, from: usize, to: usize) -> Array {
        self.features
            .try_index((from as i32..to as i32, ..))
            .unwrap()
            .expand_dims(0)
            .unwrap()
    }

    fn rounds(&self) -> &[Value] {
        list(&self.golden["rounds"])
    }

    /// Runs `check` after each round's rows are appended to one running context, then on a fresh context of all rows.
    fn each_round(&self, check: impl Fn(&Self, &Value, &mut Context, &str)) {
        let mut context = self.drafter.new_context();
        for (at, round) in self.rounds().iter().enumerate() {
            let rows = number(&round["context_rows"]);
            let new = self.rows(context.len(), rows);
            self.drafter.commit(&new, &mut context).unwrap();
            check(self, round, &mut context, &format!("{}, round {at}", self.name));
            assert_eq!(context.len(), rows);
            let mut fresh = self.drafter.new_context();
            self.drafter.commit(&self.rows(0, rows), &mut fresh).unwrap();
            check(self, round, &mut fresh, &format!("{}, round {at} at once", self.name));
        }
    }

    fn check_rows(&self, expected: &Value, found: &[Vec<f32>], first: usize, what: &str) {
        let allowed = self.tolerance("f32_abs");
        for summary in list(expected) {
            let row = &found[number(&summary["pos"]) - first];
            for (id, top) in list(&summary["ids"]).iter().zip(list(&summary["top"])) {
                close(f64::from(row[number(id)]), top, allowed, what);
            }
            let max = row.iter().copied().fold(f32::MIN, f32::max);
            let sum: f64 = row.iter().map(|x| f64::from(x - max).exp()).sum();
            close(f64::from(max) + sum.ln(), &summary["lse"], allowed, what);
        }
    }

    fn check_list(&self, expected: &Value, found: &[f32], key: &str, what: &str) {
        let expected = list(expected);
        assert_eq!(expected.len(), found.len(), "{what}");
        for (found, expected) in found.iter().zip(expected) {
            close(f64::from(*found), expected, self.tolerance(key), what);
        }
    }

    /// Normed block rows and the fused features of round 0.
    fn check_inside(&self, round: &Value, context: &mut Context, what: &str) {
        if round["hidden_rows"].is_null() {
            return;
        }
        let block = self.drafter.block(&anchor(round), self.drafter.spec().block_size, context).unwrap();
        let block = rows(&block.try_index((0, .., ..)).unwrap());
        for row in list(&round["hidden_rows"]) {
            self.check_list(&row["values"], &block[number(&row["slot"])], "f32_abs", &format!("{what}, hidden"));
        }
        let fused = self.drafter.fused(&self.rows(0, 1)).unwrap();
        self.check_list(&round["fused_context_row0"], &floats(&fused), "f32_abs", &format!("{what}, fused"));
    }
}

fn bind(drafter: &mut Drafter, aux: &HashMap<String, Array>, golden: &Value) {
    let Some(table) = aux.get("target.embed_tokens.weight") else {
        return;
    };
    let float = |array: &Array| array.as_dtype(Dtype::Float32).unwrap();
    let scale = golden["resolved"]["embed_scale"].as_f64().unwrap() as f32;
    let head = aux.get("target.lm_head.weight").map(float);
    drafter.bind_to(Ends::of_tables(float(table), head, scale, 8).unwrap()).unwrap();
}

fn close(found: f64, expected: &Value, allowed: f64, what: &str) {
    let expected = expected.as_f64().unwrap();
    let off = (found - expected).abs();
    assert!(
        off <= allowed,
        "{what}: {found} is not {expected} (off by {off}, allowed {allowed})"
    );
}

fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap()
}

fn number(value: &Value) -> usize {
    value.as_u64().unwrap() as usize
}

fn ids(value: &Value) -> Vec<u32> {
    list(value).iter().map(|id| number(id) as u32).collect()
}

fn floats(array: &Array) -> Vec<f32> {
    array.to_vec_cast::<f32>().unwrap()
}

fn tokens(array: &Array) -> Vec<u32> {
    array.to_vec_cast::<u32>().unwrap()
}

fn rows(array: &Array) -> Vec<Vec<f32>> {
    floats(array).chunks(array.dim(-1) as usize).map(<[f32]>::to_vec).collect()
}

fn one(token: u32) -> Array {
    Array::from_slice(&[token], &[1])
}

fn anchor(round: &Value) -> Array {
    one(number(&round["anchor"]) as u32)
}

#[test]
fn every_case_is_here() {
    let found = std::fs::read_dir(root()).unwrap().count();
    assert_eq!(found, DSPARK.len() + DFLASH.len() + DFLASH2.len());
}

/// What the loader concludes from each packaging.
#[test]
fn resolved() {
    for case in DSPARK.map(Case::open) {
        let (spec, resolved, name) = (case.drafter.spec(), case.resolved(), &case.name);
        let family = if resolved["family"] == "gemma4" {
            Family::Gemma4
        } else {
            Family::Qwen3
        };
        assert_eq!(spec.family, family, "{name}");
        for (found, key) in [
            (spec.first_slot, "logits_start"),
            (spec.block_size, "block_size"),
            (spec.max_draft(), "max_draft"),
            (spec.mask_token as usize, "mask_token_id"),
            (spec.markov.map_or(0, |markov| markov.rank), "markov_rank"),
        ] {
            assert_eq!(found, number(&resolved[key]), "{name}: {key}");
        }
        for (found, key) in [
            (spec.masks.iter().all(|mask| mask.is_causal()), "causal_block"),
            (spec.sinks, "attention_sink"),
            (spec.own_embed, "own_embed"),
            (spec.own_head, "own_lm_head"),
            (spec.rope.interleaved, "rope_interleaved"),
            (spec.gated_q, "gated_q"),
            (spec.offset_norms, "offset_norms"),
            (spec.confidence.is_some(), "confidence"),
        ] {
            assert_eq!(found, resolved[key].as_bool().unwrap(), "{name}: {key}");
        }
        for (found, key) in [(spec.masks[0].window(), "sliding_window"), (spec.draft_vocab, "draft_vocab_size")] {
            assert_eq!(found, resolved[key].as_u64().map(|n| n as usize), "{name}: {key}");
        }
        assert_eq!(
            spec.taps,
            ids(&resolved["target_layer_ids"]).iter().map(|id| *id as usize).collect::<Vec<_>>()
        );
        assert_eq!(spec.softcap.map(f64::from), resolved["softcap"].as_f64(), "{name}: softcap");
        let turned = resolved["rope_dims"].as_u64().map_or(spec.head_dim, |dims| dims as usize);
        assert_eq!(2 * spec.rope.frequencies.len(), turned, "{name}: rope");
        assert_eq!(spec.rope.scale > 1.0, !resolved["rope_yarn"].is_null(), "{name}: yarn");
        for (cap, width) in resolved["draft_width"].as_object().unwrap() {
            assert_eq!(spec.width(cap.parse().unwrap()), number(width), "{name}: width for {cap}");
        }
    }
}

#[test]
fn dspark() {
    for case in DSPARK.map(Case::open) {
        case.each_round(|case, round, context, what| {
            let most = case.drafter.spec().max_draft();
            let first = case.drafter.spec().first_slot;
            let chain = case.drafter.chain(&anchor(round), most, context).unwrap();
            let base = rows(&chain.base);
            case.check_rows(&round["base_logits"], &base, first, &format!("{what}, base"));
            case.check_list(
                &round["base_row_first_slot"],
                &base[0],
                "f32_abs",
                &format!("{what}, first base row"),
            );
            let proposal = chain.greedy(&anchor(round)).unwrap();
            case.check_rows(
                &round["markov_corrected"],
                &rows(&proposal.logits),
                first,
                &format!("{what}, corrected"),
            );
            assert_eq!(proposal.confidence.is_some(), !round["confidence"].is_null(), "{what}");
            if let Some(confidence) = &proposal.confidence {
                case.check_list(
                    &round["confidence"],
                    &floats(confidence),
                    "confidence_abs",
                    &format!("{what}, confidence"),
                );
            }
            for (cap, expected) in round["greedy_ids"].as_object().unwrap() {
                let cap = cap.parse().unwrap_or(most);
                let found = tokens(&case.drafter.draft(&anchor(round), cap, context).unwrap());
                assert_eq!(found, ids(expected), "{what}, cap {cap}");
            }
            case.check_inside(round, context, what);
        });
    }
}

/// The rows that sampled tokens are drawn from, truncated and widened to the target's vocabulary.
#[test]
fn proposals() {
    for case in DSPARK.map(Case::open) {
        case.each_round(|case, round, context, what| {
            for proposal in round["proposal"].as_array().unwrap_or(&Vec::new()) {
                let shape = shape(proposal);
                let previous = ids(&proposal["given_prev"]);
                let mut chain = case.drafter.chain(&anchor(round), previous.len(), context).unwrap();
                for (expected, previous) in list(&proposal["rows"]).iter().zip(previous) {
                    let logits = floats(&chain.step(&one(previous)).unwrap().logits);
                    let q = case.drafter.widen(&dense(&logits, &shape));
                    check_q(case, expected, &q, what);
                }
            }
        });
    }
}

fn shape(proposal: &Value) -> Shape {
    let float = |key: &str| proposal[key].as_f64().unwrap() as f32;
    Shape {
        temperature: float("temperature"),
        top_p: float("top_p"),
        top_k: number(&proposal["top_k"]) as u32,
        min_p: 0.0,
    }
}

fn dense(logits: &[f32], shape: &Shape) -> Vec<f32> {
    let mut q = vec![0.0; logits.len()];
    let distribution = Distribution::of_logits(logits, shape).unwrap();
    for (id, p) in distribution.ids.iter().zip(distribution.p) {
        q[*id as usize] = p as f32;
    }
    q
}

fn check_q(case: &Case, expected: &Value, q: &[f32], what: &str) {
    let support = q.iter().filter(|p| **p > 0.0).count();
    assert_eq!(support, number(&expected["support"]), "{what}, support");
    for (id, p) in list(&expected["ids"]).iter().zip(list(&expected["p"])) {
        close(f64::from(q[number(id)]), p, case.tolerance("prob_abs"), &format!("{what}, q"));
    }
    if !expected["dense"].is_null() {
        case.check_list(&expected["dense"], q, "prob_abs", &format!("{what}, dense q"));
    }
    let mass: f64 = q.iter().map(|p| f64::from(*p)).sum();
    assert!((mass - 1.0).abs() < 1e-5, "{what}: a mass of {mass}");
}

/// A bound on the context rows, where the drafter has no window of its own; and rows dropped again.
#[test]
fn windows_and_rollback() {
    let mut bounded = 0;
    for mut case in DSPARK.map(Case::open) {
        let golden = case.golden["ctx_window"].clone();
        let rows_held = number(&golden["context_rows"]);
        let mut context = case.drafter.new_context();
        case.drafter.commit(&case.rows(0, rows_held), &mut context).unwrap();
        case.drafter.set_context_window(Some(number(&golden["requested"])));
        let takes = case.drafter.spec().takes_context_window();
        assert_eq!(takes, !golden["effective"].is_null(), "{}", case.name);
        bounded += usize::from(takes);
        let (anchor, first) = (anchor(&golden), case.drafter.spec().first_slot);
        let most = case.drafter.spec().max_draft();
        let chain = case.drafter.chain(&anchor, most, &mut context).unwrap();
        case.check_rows(
            &golden["base_logits"],
            &rows(&chain.base),
            first,
            &format!("{}, bounded", case.name),
        );
        assert_eq!(
            tokens(&chain.greedy(&anchor).unwrap().tokens),
            ids(&golden["greedy_ids"]),
            "{}",
            case.name
        );

        case.drafter.set_context_window(None);
        context.trim(5).unwrap();
        let mut fresh = case.drafter.new_context();
        case.drafter.commit(&case.rows(0, rows_held - 5), &mut fresh).unwrap();
        let after = |context: &mut Context| floats(&case.drafter.chain(&anchor, most, context).unwrap().base);
        let (found, expected) = (after(&mut context), after(&mut fresh));
        assert!(difference(&found, &expected) < 1e-5, "{}: a rollback", case.name);
    }
    assert!(bounded > 0 && bounded < DSPARK.len());
}

fn difference(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).fold(0.0, |max, (a, b)| max.max((a - b).abs()))
}

/// Rows of a causal block do not depend on those after them; rows of a bidirectional one do.
#[test]
fn a_causal_block_may_be_cut() {
    for case in DSPARK.map(Case::open) {
        let causal = case.drafter.spec().masks.iter().all(|mask| mask.is_causal());
        let width = case.drafter.spec().block_size as i32;
        let mut context = case.drafter.new_context();
        case.drafter.commit(&case.rows(0, 21), &mut context).unwrap();
        let mut block = |width: i32| {
            let rows = case.drafter.block(&one(7), width as usize, &mut context).unwrap();
            floats(&rows.try_index((0, ..3, ..)).unwrap())
        };
        let off = difference(&block(3), &block(width));
        assert_eq!(off < 1e-5, causal, "{}: off by {off}", case.name);
    }
}

#[test]
fn dflash() {
    for case in DFLASH.map(Case::open) {
        case.each_round(|case, round, context, what| {
            let most = case.drafter.spec().max_draft();
            let chain = case.drafter.chain(&anchor(round), most, context).unwrap();
            let base = rows(&chain.base);
            case.check_rows(&round["base_logits"], &base, 1, &format!("{what}, base"));
            case.check_list(&round["base_row_first_slot"], &base[0], "f32_abs", &format!("{what}, first row"));
            assert_eq!(
                tokens(&chain.greedy(&anchor(round)).unwrap().tokens),
                ids(&round["greedy_ids"]),
                "{what}"
            );
            case.check_inside(round, context, what);
            for proposal in round["proposal"].as_array().unwrap_or(&Vec::new()) {
                let support = list(&proposal["support"]).iter().map(number);
                for (slot, (row, support)) in base.iter().zip(support).enumerate() {
                    let q = dense(row, &shape(proposal));
                    assert_eq!(q.iter().filter(|p| **p > 0.0).count(), support, "{what}");
                    if slot == 0 {
                        case.check_list(&proposal["dense_slot1"], &q, "prob_abs", &format!("{what}, q"));
                    }
                }
            }
        });
        let expected = list(&case.resolved()["layer_types"]);
        for (mask, kind) in case.drafter.spec().masks.iter().zip(expected) {
            assert_eq!(mask.window().is_some(), kind == "sliding_attention");
        }
    }
}

#[test]
fn dflash2() {
    for case in DFLASH2.map(Case::open) {
        let both_ways = case.name.ends_with("bidirectional");
        assert_eq!(matches!(case.drafter.spec().masks[0], BlockMask::BothWays(16)), both_ways);
        case.each_round(|case, round, context, what| {
            let most = case.drafter.spec().max_draft();
            let base = case.drafter.chain(&anchor(round), most, context).unwrap().base;
            case.check_rows(&round["base_logits"], &rows(&base), 1, &format!("{what}, base"));
            let lattice = case.drafter.lattice(&anchor(round), most, context).unwrap();
            let candidates = tokens(&lattice.candidates);
            let expected: Vec<u32> = list(&round["candidates_by_logit_desc"]).iter().flat_map(ids).collect();
            assert_eq!(candidates, expected, "{what}, candidates");
            let unary: Vec<Value> = list(&round["unary"]).iter().flat_map(list).cloned().collect();
            case.check_list(&Value::Array(unary), &floats(&lattice.unary), "f32_abs", &format!("{what}, unary"));
            for slot in list(&round["lattice"]) {
                let at = number(&slot["slot"]) as i32 - 1;
                let scores = floats(&lattice.scores.try_index((at, .., ..)).unwrap());
                let expected: Vec<Value> = list(&slot["scores"]).iter().flat_map(list).cloned().collect();
                case.check_list(&Value::Array(expected), &scores, "f32_abs", &format!("{what}, scores of slot {at}"));
            }
            for (cap, expected) in round["greedy_ids"].as_object().unwrap() {
                let found = case.drafter.draft(&anchor(round), cap.parse().unwrap(), context).unwrap();
                assert_eq!(tokens(&found), ids(expected), "{what}, cap {cap}");
            }
            for walk in list(&round["sampled_walk"]) {
                let uniforms: Vec<f32> = list(&walk["uniforms"]).iter().map(|u| u.as_f64().unwrap() as f32).collect();
                let found = lattice.sampled(&uniforms, walk["temperature"].as_f64().unwrap() as f32).unwrap();
                assert_eq!(tokens(&found.tokens), ids(&walk["ids"]), "{what}, sampled");
                let q: Vec<Value> = list(&walk["q_rows"]).iter().flat_map(list).cloned().collect();
                // The scores' tolerance is an exponent here.
                for (found, expected) in floats(&found.q).iter().zip(&q) {
                    close(f64::from(*found), expected, 2e-4, &format!("{what}, q"));
                }
            }
            let cold = lattice.sampled(&vec![0.5; most], 0.0).unwrap();
            assert_eq!(tokens(&cold.tokens), tokens(&lattice.greedy().unwrap()), "{what}: cold is greedy");
            case.check_inside(round, context, what);
        });
    }
}

/// Gated and rnn Markov heads, which the reference lacks: against the formulas computed here, in f64, from the same
/// hidden rows and base logits.
#[test]
fn gated_and_rnn_markov() {
    for kind in ["gated", "rnn"] {
        let (hidden, rank) = (64, 32);
        let dir = tempfile::tempdir().unwrap();
        let native = root().join("dspark-native-qwen3");
        let mut tensors = Array::load_safetensors(native.join("model.safetensors")).unwrap();
        let (name, outputs, inputs) = match kind {
            "gated" => ("gate_proj", rank, hidden + rank),
            _ => ("joint_proj", 3 * rank, 2 * rank + hidden),
        };
        let values = |n: usize, salt: usize| -> Vec<f32> { (0..n).map(|i| ((i * 7919 + salt) % 1009) as f32 / 2018.0 - 0.25).collect() };
        let (weight, bias) = (values(outputs * inputs, 3), values(outputs, 11));
        let path = format!("markov_head.{name}");
        tensors.insert(
            format!("{path}.weight"),
            Array::from_slice(&weight, &[outputs as i32, inputs as i32]),
        );
        tensors.insert(format!("{path}.bias"), Array::from_slice(&bias, &[outputs as i32]));
        let mut config: Value = serde_json::from_slice(&std::fs::read(native.join("config.json")).unwrap()).unwrap();
        config["markov_head_type"] = kind.into();
        std::fs::write(dir.path().join("config.json"), config.to_string()).unwrap();
        let (w1, w2) = (
            rows(&tensors["markov_head.markov_w1.weight"]),
            rows(&tensors["markov_head.markov_w2.weight"]),
        );
        let named = tensors.iter().map(|(name, array)| (name.as_str(), array));
        Array::save_safetensors(named, None, dir.path().join("model.safetensors")).unwrap();

        let case = Case::of("dspark-native-qwen3", dir.path(), &exact());
        let mut context = case.drafter.new_context();
        case.drafter.commit(&case.rows(0, 21), &mut context).unwrap();
        let mut chain = case.drafter.chain(&one(20), 7, &mut context).unwrap();
        let (base, h) = (rows(&chain.base), rows(&chain.hidden));
        let mut z = vec![0.0; rank];
        let mut moved = 0.0_f64;
        for (slot, previous) in [20_u32, 5, 200, 5, 17, 99, 3].into_iter().enumerate() {
            let found = floats(&chain.step(&one(previous)).unwrap().logits);
            let wide = |row: &[f32]| -> Vec<f64> { row.iter().map(|x| f64::from(*x)).collect() };
            let (e, h) = (wide(&w1[previous as usize]), wide(&h[slot]));
            let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
            let product = |input: &[f64]| -> Vec<f64> {
                let row = |(row, bias): (&[f32], &f32)| dot(&wide(row), input) + f64::from(*bias);
                weight.chunks(inputs).zip(&bias).map(row).collect()
            };
            let input: Vec<f64> = if kind == "gated" {
                let gate = product(&[h, e.clone()].concat());
                gate.iter().zip(&e).map(|(g, e)| sigmoid(*g) * e).collect()
            } else {
                let joint = product(&[z.clone(), e, h].concat());
                let (gate, rest) = joint.split_at(rank);
                let (candidate, out) = rest.split_at(rank);
                for ((z, g), c) in z.iter_mut().zip(gate).zip(candidate) {
                    *z = sigmoid(*g) * *z + (1.0 - sigmoid(*g)) * c.tanh();
                }
                out.iter().map(|o| o.tanh()).collect()
            };
            for ((found, base), w2) in found.iter().zip(&base[slot]).zip(&w2) {
                let term = dot(&wide(w2), &input);
                moved = moved.max(term.abs());
                let off = (f64::from(*found) - f64::from(*base) - term).abs();
                assert!(off < 1e-4, "{kind}, slot {slot}: off by {off}");
            }
        }
        assert!(moved > 0.1, "{kind}: the term does nothing");
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Quantizing at load changes numbers a little and structure not at all.
#[test]
fn quantized_at_load() {
    let exact = Case::open("dspark-native-qwen3");
    let options = DrafterOptions {
        activations: Some(Dtype::Float32),
        kv: Some(Dtype::Float32),
        ..DrafterOptions::default()
    };
    let packed = Case::of("dspark-native-qwen3", &root().join("dspark-native-qwen3"), &options);
    assert!(packed.drafter.weight_bytes() * 2 < exact.drafter.weight_bytes());
    let fused = |case: &Case| floats(&case.drafter.fused(&case.rows(0, 29)).unwrap());
    let (a, b) = (fused(&exact), fused(&packed));
    let (dot, aa, bb) = a
        .iter()
        .zip(&b)
        .fold((0.0, 0.0, 0.0), |(dot, aa, bb), (a, b)| (dot + a * b, aa + a * a, bb + b * b));
    let cosine = dot / f32::sqrt(aa * bb);
    assert!(cosine > 0.98 && cosine < 0.99999, "{cosine}");
}
