//! Targets against mlx-lm: tiny random checkpoints and the numbers it gives for them (`oracle/README.md`). Everything is
//! computed in f32, within the tolerance that each golden states.
#![allow(clippy::unwrap_used)]

use dspark_engine::{
    load::{LoadOptions, LoadedModel, load},
    target::{Cache, Logits, Rows, Target},
};
use mlx_rs::{Array, Dtype};
use serde_json::Value;
use std::path::{Path, PathBuf};
use tokio_util::sync::CancellationToken;

const CASES: [&str; 24] = [
    "llama",
    "llama-dynamic",
    "llama-linear",
    "llama-llama3rope",
    "llama-longrope",
    "llama-sliding",
    "llama-traditional",
    "qwen3",
    "qwen3-mxfp4",
    "qwen3-mxfp8",
    "qwen3-nvfp4",
    "qwen3-q2g128",
    "qwen3-q2g64",
    "qwen3-q3g64",
    "qwen3-q4-override",
    "qwen3-q4g32",
    "qwen3-q4g64",
    "qwen3-q4g64-tied",
    "qwen3-q5g64",
    "qwen3-q6g64",
    "qwen3-q8g64",
    "qwen3-tied-ropeparams",
    "qwen3-yarn",
    "qwen3-yarn-mscale",
];

/// Cases whose cached rows are those of a cold forward. Dynamic RoPE moves its base as the text grows, and what is cached
/// keeps the base it was written with, in the oracle too.
fn settled() -> impl Iterator<Item = Case> {
    CASES.into_iter().filter(|name| *name != "llama-dynamic").map(Case::open)
}

struct Case {
    name: &'static str,
    model: LoadedModel,
    golden: Value,
    tolerance: f64,
}

fn targets() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/oracle/targets")
}

impl Case {
    fn open(name: &'static str) -> Self {
        let dir = targets().join(name);
        let golden: Value = serde_json::from_slice(&std::fs::read(dir.join("golden.json")).unwrap()).unwrap();
        let options = LoadOptions {
            activations: Some(Dtype::Float32),
            kv: Some(Dtype::Float32),
        };
        let model = load(&dir, &options, &mut |_, _| (), &CancellationToken::new()).unwrap_or_else(|error| panic!("{name}: {error}"));
        let tolerance = golden["tolerance"]["f32_abs"].as_f64().unwrap();
        Self {
            name,
            model,
            golden,
            tolerance,
        }
    }

    fn prompt(&self) -> Vec<u32> {
        ids(&self.golden["prompt"])
    }

    /// Logit rows of a forward.
    fn rows(&self, tokens: &[u32], cache: &mut dyn Cache) -> Vec<Vec<f32>> {
        rows(&self.model, tokens, None, cache)
    }

    /// Rows at positions `from..`, against the summaries and full rows of `part`.
    fn check(&self, part: &Value, rows: &[Vec<f32>], from: usize, what: &str) {
        for summary in list(&part["positions"]) {
            let at = summary["pos"].as_u64().unwrap() as usize;
            self.check_summary(summary, &rows[at - from], &format!("{what} at {at}"));
        }
        for full in list(&part["rows"]) {
            let at = full["pos"].as_u64().unwrap() as usize;
            self.check_row(&full["logits"], &rows[at - from], &format!("{what} row {at}"));
        }
    }

    fn check_summary(&self, summary: &Value, row: &[f32], what: &str) {
        for (id, top) in list(&summary["ids"]).iter().zip(list(&summary["top"])) {
            let (id, top) = (id.as_u64().unwrap() as usize, top.as_f64().unwrap());
            self.close(f64::from(row[id]), top, &format!("{what}, id {id}"));
        }
        let max = row.iter().copied().fold(f32::MIN, f32::max);
        let sum: f64 = row.iter().map(|x| f64::from(x - max).exp()).sum();
        self.close(
            f64::from(max) + sum.ln(),
            summary["lse"].as_f64().unwrap(),
            &format!("{what}, logsumexp"),
        );
        let best = row.iter().position(|x| *x == max).unwrap() as u64;
        assert_eq!(best, summary["ids"][0].as_u64().unwrap(), "{}: {what}, best id", self.name);
    }

    fn check_row(&self, expected: &Value, row: &[f32], what: &str) {
        let expected = list(expected);
        assert_eq!(expected.len(), row.len(), "{}: {what}", self.name);
        for (id, (found, expected)) in row.iter().zip(expected).enumerate() {
            self.close(f64::from(*found), expected.as_f64().unwrap(), &format!("{what}, id {id}"));
        }
    }

    fn close(&self, found: f64, expected: f64, what: &str) {
        let (difference, name, tolerance) = ((found - expected).abs(), self.name, self.tolerance);
        assert!(
            difference <= tolerance,
            "{name}: {what}: {found} is not {expected} (off by {difference}, allowed {tolerance})"
        );
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap()
}

fn ids(value: &Value) -> Vec<u32> {
    list(value).iter().map(|id| id.as_u64().unwrap() as u32).collect()
}

fn floats(array: &Array) -> Vec<f32> {
    array.to_vec_cast::<f32>().unwrap()
}

fn tokens(ids: &[u32]) -> Array {
    Array::from_slice(ids, &[1, ids.len() as i32])
}

fn rows(model: &LoadedModel, ids: &[u32], parents: Option<&[i32]>, cache: &mut dyn Cache) -> Vec<Vec<f32>> {
    let tokens = tokens(ids);
    let rows = Rows {
        parents,
        ..Rows::chain(&tokens, Logits::All)
    };
    let logits = model.decoder.forward(&rows, cache).unwrap().logits.unwrap();
    assert_eq!(logits.shape(), [1, ids.len() as i32, model.decoder.vocab() as i32]);
    floats(&logits).chunks(model.decoder.vocab()).map(<[f32]>::to_vec).collect()
}

#[test]
fn every_case_is_here() {
    let found = std::fs::read_dir(targets()).unwrap().count();
    assert_eq!(found, CASES.len());
}

#[test]
fn one_shot() {
    for case in CASES.map(Case::open) {
        let mut cache = case.model.decoder.new_cache();
        let found = case.rows(&case.prompt(), &mut *cache);
        assert_eq!(cache.len(), 24);
        case.check(&case.golden["one_shot"], &found, 0, "one shot");
    }
}

#[test]
fn steps_and_multi() {
    for case in CASES.map(Case::open) {
        let prompt = case.prompt();
        let mut cache = case.model.decoder.new_cache();
        let mut found = case.rows(&prompt[..17], &mut *cache);
        for token in &prompt[17..] {
            found.extend(case.rows(&[*token], &mut *cache));
        }
        case.check(&case.golden["steps"], &found, 0, "step");

        let mut cache = case.model.decoder.new_cache();
        case.rows(&prompt[..19], &mut *cache);
        case.check(&case.golden["multi"], &case.rows(&prompt[19..], &mut *cache), 19, "five rows");
    }
}

#[test]
fn rollback() {
    for case in settled() {
        let golden = &case.golden["rollback"];
        let next = ids(&golden["continue"]);
        for block in [true, false] {
            let mut cache = case.model.decoder.new_cache();
            case.rows(&case.prompt(), &mut *cache);
            cache.trim(golden["trim"].as_u64().unwrap() as usize).unwrap();
            let found = if block {
                case.rows(&next, &mut *cache)
            } else {
                next.iter().flat_map(|token| case.rows(&[*token], &mut *cache)).collect()
            };
            case.check(golden, &found, 21, "after a trim");
        }
    }
}

/// For the windowed case this is: a wrapped window, an 8-row verify, some rows rejected, one step.
#[test]
fn verify() {
    for case in settled() {
        let golden = &case.golden["verify"];
        let (prompt, append) = (case.prompt(), ids(&golden["append"]));
        for after in list(&golden["after_keep"]) {
            let keep = after["keep"].as_u64().unwrap() as usize;
            let mut cache = case.model.decoder.new_cache();
            case.rows(&prompt[..16], &mut *cache);
            let found = case.rows(&append, &mut *cache);
            for summary in list(&golden["append_rows"]) {
                let at = summary["pos"].as_u64().unwrap() as usize;
                case.check_summary(summary, &found[at - 16], &format!("verify at {at}"));
            }
            cache.commit(8, &(0..keep).collect::<Vec<_>>()).unwrap();
            assert_eq!(cache.len(), 16 + keep);
            let step = case.rows(&[golden["step_token"].as_u64().unwrap() as u32], &mut *cache);
            case.check_summary(after, &step[0], &format!("a step after keeping {keep}"));
            if !after["logits"].is_null() {
                case.check_row(&after["logits"], &step[0], &format!("a step after keeping {keep}"));
            }
        }
    }
}

#[test]
fn taps() {
    for case in CASES.map(Case::open) {
        let golden = &case.golden["taps"];
        let layers: Vec<usize> = (0..case.model.decoder.layers()).collect();
        let prompt = tokens(&case.prompt());
        let mut cache = case.model.decoder.new_cache();
        let rows = Rows {
            taps: &layers,
            ..Rows::chain(&prompt, Logits::Last)
        };
        let output = case.model.decoder.forward(&rows, &mut *cache).unwrap();
        assert_eq!(output.logits.unwrap().shape()[1], 1);
        let features = output.features.unwrap();
        let width = case.model.facts.hidden;
        assert_eq!(features.shape(), [1, 24, (layers.len() * width) as i32]);
        let features = floats(&features);
        let relative = case.golden["tolerance"]["tap_f32_rel"].as_f64().unwrap();
        for layer in list(&golden["layers"]) {
            let id = layer["layer"].as_u64().unwrap() as usize;
            for (at, row) in list(&golden["positions"]).iter().zip(list(&layer["rows"])) {
                let from = (at.as_u64().unwrap() as usize * layers.len() + id) * width;
                let largest = list(row).iter().map(|x| x.as_f64().unwrap().abs()).fold(0.0, f64::max);
                for (found, expected) in features[from..from + width].iter().zip(list(row)) {
                    let off = (f64::from(*found) - expected.as_f64().unwrap()).abs();
                    assert!(
                        off <= relative * largest.max(1.0),
                        "{}: layer {id} at {at} is off by {off}",
                        case.name
                    );
                }
            }
        }
    }
}

/// A tree's rows are those of its paths, each run as a chain; a committed path goes on like that chain.
#[test]
fn a_tree_is_its_paths() {
    const PARENTS: [i32; 8] = [-1, 0, 0, 1, 2, 2, -1, 6];
    const PATH: [usize; 3] = [0, 2, 5];
    for case in ["llama", "llama-sliding", "qwen3-yarn", "qwen3-q4g32", "qwen3-q4-override"].map(Case::open) {
        let (prompt, nodes) = (case.prompt(), ids(&case.golden["verify"]["append"]));
        let mut cache = case.model.decoder.new_cache();
        case.rows(&prompt, &mut *cache);
        let tree = rows(&case.model, &nodes, Some(&PARENTS), &mut *cache);
        assert_eq!(cache.len(), 32);
        for leaf in 0..8 {
            let mut path = vec![leaf];
            while PARENTS[path[0]] >= 0 {
                path.insert(0, PARENTS[path[0]] as usize);
            }
            let chain: Vec<u32> = path.iter().map(|&node| nodes[node]).collect();
            let mut fresh = case.model.decoder.new_cache();
            case.rows(&prompt, &mut *fresh);
            let expected = case.rows(&chain, &mut *fresh);
            for (&node, expected) in path.iter().zip(expected) {
                for (found, expected) in tree[node].iter().zip(expected) {
                    case.close(f64::from(*found), f64::from(expected), &format!("tree node {node}"));
                }
            }
        }
        cache.commit(8, &PATH).unwrap();
        assert_eq!(cache.len(), 27);
        let next = case.rows(&[7, 9], &mut *cache);
        let mut fresh = case.model.decoder.new_cache();
        let whole: Vec<u32> = prompt.iter().copied().chain(PATH.map(|node| nodes[node])).chain([7, 9]).collect();
        let expected = case.rows(&whole, &mut *fresh);
        for (found, expected) in next.iter().flatten().zip(expected[27..].iter().flatten()) {
            case.close(f64::from(*found), f64::from(*expected), "after a committed path");
        }
    }
}

/// Long after the window has filled and old rows have been dropped, a verify can still be rolled back.
#[test]
fn a_window_that_moved_on_rolls_back() {
    let case = Case::open("llama-sliding");
    let text: Vec<u32> = (0..700).map(|i| 3 + (i * 37 + i * i) % 180).collect();
    let mut cache = case.model.decoder.cache(8);
    for chunk in text[..600].chunks(50) {
        case.rows(chunk, &mut cache);
    }
    assert!(!cache.trimmable());
    assert!(cache.trim(400).unwrap_err().to_string().contains("a window has moved on"));
    case.rows(&[5, 6, 7, 8, 9, 10, 11, 12], &mut cache);
    cache.trim(5).unwrap();
    let found = case.rows(&text[600..601], &mut cache);
    let cold: Vec<u32> = text[..600].iter().copied().chain([5, 6, 7, text[600]]).collect();
    let expected = case.rows(&cold, &mut *case.model.decoder.new_cache());
    assert_eq!(cache.len(), cold.len());
    for (found, expected) in found[0].iter().zip(&expected[603]) {
        case.close(f64::from(*found), f64::from(*expected), "after a rollback");
    }
    // The sliding layers hold a window, the full one everything.
    let (full, all) = (700 * 2 * 2 * 32 * 4, cache.bytes());
    assert!(all < 2 * full, "{all} bytes");
}

#[test]
fn facts() {
    let facts = |name| Case::open(name).model.facts;
    let plain = facts("qwen3");
    assert_eq!(
        (plain.quantization.as_str(), plain.layers, plain.vocab, plain.max_context),
        ("bf16", 3, 192, 4096)
    );
    assert_eq!(plain.eos, [2]);
    assert_eq!(plain.kv_bytes_per_token, 3 * 2 * 2 * 32 * 4);
    // Embedding and head, then per layer projections, feed-forward and norms, then the final norm.
    let layer = 64 * 32 * (4 + 2 + 2 + 4) + 3 * 64 * 96 + 2 * 64 + 2 * 32;
    assert_eq!(plain.parameters, 2 * 192 * 64 + 3 * layer + 64);
    assert_eq!(facts("llama").quantization, "f16");
    assert_eq!(facts("qwen3-q4g32").quantization, "4-bit g32");
    assert_eq!(facts("qwen3-q4-override").quantization, "4-bit g64, mixed");
    assert_eq!(facts("qwen3-mxfp4").quantization, "mxfp4");
    // Three of four layers slide: only one grows with the context.
    assert_eq!(facts("llama-sliding").kv_bytes_per_token, 2 * 2 * 32 * 4);
    assert!(facts("qwen3-q4g32").weight_bytes < facts("qwen3-q8g64").weight_bytes);
}
