//! Every pairing of `spec/drafters.md` §8 as a tiny target and a tiny drafter, through the engine's own door: chain and tree,
//! greedy and sampled, whatever the cap. A greedy text is scored again token by token; where log-probabilities are told, each must be
//! the one that a cold forward gives, which holds only where every rejected row left no trace.
//!
//! The drafters are the oracle's, as published. The targets are the oracle's, with layers repeated until the drafters' taps exist
//! and vocabularies widened to theirs. Nothing here is trained, so a few ids are favoured in both heads: then drafts are taken
//! now and then, and refused as often.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use dspark_engine::{
    EngineOptions,
    load::{LoadOptions, LoadedModel, load},
    protocol::{
        Cap, EngineHandle, Event, LoadEvent, LoadRequest, Mode, Prompt, Request, Sampling, SpeculationOptions, Summary, TokenInfo,
        TreeSetting, Verdict,
    },
    start,
    target::{Logits, Rows, Target},
};
use mlx_rs::{Array, Dtype, ops, ops::indexing::TryIndexOp, random};
use serde_json::{Map, Value, json};
use std::{
    collections::{HashMap, HashSet},
    path::{Path, PathBuf},
};
use tokio_util::sync::CancellationToken;

const VOCAB: i32 = 256;
/// Tokens of a text.
const LENGTH: usize = 20;
/// Longer than the windows of every target and drafter.
const PROMPT: usize = 26;

fn oracle() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/oracle")
}

fn tensors(dir: &Path) -> HashMap<String, Array> {
    let mut all = HashMap::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|ext| ext == "safetensors") {
            all.extend(Array::load_safetensors(path).unwrap());
        }
    }
    all
}

fn save(dir: &Path, tensors: &HashMap<String, Array>, config: &Value) {
    let arrays = tensors.iter().map(|(name, array)| (name.as_str(), array));
    Array::save_safetensors(arrays, None, dir.join("model.safetensors")).unwrap();
    std::fs::write(dir.join("config.json"), config.to_string()).unwrap();
}

fn config(dir: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(dir.join("config.json")).unwrap()).unwrap()
}

/// Rows of `table`, all but those of `favoured` small.
fn favour(table: &Array, favoured: &[u32]) -> Array {
    let factors: Vec<f32> = (0..table.dim(0) as u32)
        .map(|row| if favoured.contains(&row) { 1.0 } else { 0.02 })
        .collect();
    let factors = Array::from_slice(&factors, &[table.dim(0), 1]);
    let wide = table.as_dtype(Dtype::Float32).unwrap().multiply(factors).unwrap();
    wide.as_dtype(table.dtype()).unwrap()
}

/// The oracle's target with its layers in the order of `layers`, a vocabulary of [`VOCAB`], and `favoured` ids.
fn target(case: &str, layers: &[usize], favoured: &[u32], to: &Path) {
    let from = oracle().join("targets").join(case);
    let mut out = HashMap::new();
    let mut config = config(&from);
    let tied = tied(&config);
    for (name, array) in tensors(&from) {
        let table = |end: &str| name.ends_with(end) && array.dim(0) < VOCAB;
        let (embedding, head) = (table("embed_tokens.weight") || table("embeddings.weight"), table("lm_head.weight"));
        let array = if embedding || head || table("embed_tokens_per_layer.weight") {
            let more = array.try_index((..VOCAB - array.dim(0), ..)).unwrap();
            ops::concatenate(&[&array, &more], 0).unwrap()
        } else {
            array
        };
        let array = if head || embedding && tied {
            favour(&array, favoured)
        } else {
            array
        };
        let Some((before, rest)) = name.split_once("layers.") else {
            out.insert(name, array);
            continue;
        };
        let (index, after) = rest.split_once('.').unwrap();
        let index: usize = index.parse().unwrap();
        for (new, _) in layers.iter().enumerate().filter(|(_, old)| **old == index) {
            out.insert(format!("{before}layers.{new}.{after}"), array.clone());
        }
    }
    // The table of per-layer inputs has a width for each layer.
    if let Some((name, table)) = out.iter().find(|(name, _)| name.ends_with("embed_tokens_per_layer.weight")) {
        let (name, width) = (name.clone(), table.dim(1) / old_layers(&config) as i32);
        let columns: Vec<Array> = layers
            .iter()
            .map(|&old| table.try_index((.., old as i32 * width..(old as i32 + 1) * width)).unwrap())
            .collect();
        out.insert(name, ops::concatenate(&columns.iter().collect::<Vec<_>>(), 1).unwrap());
        let (name, project) = out
            .iter()
            .find(|(name, _)| name.ends_with("per_layer_model_projection.weight"))
            .unwrap();
        let rows: Vec<Array> = layers
            .iter()
            .map(|&old| project.try_index((old as i32 * width..(old as i32 + 1) * width, ..)).unwrap())
            .collect();
        let name = name.clone();
        out.insert(name, ops::concatenate(&rows.iter().collect::<Vec<_>>(), 0).unwrap());
    }
    let old = old_layers(&config);
    reorder(&mut config, old, layers);
    save(to, &out, &config);
    std::fs::copy(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../engine/text/tests/data/tokenizers/byte.json"),
        to.join("tokenizer.json"),
    )
    .unwrap();
    std::fs::write(to.join("tokenizer_config.json"), "{}").unwrap();
}

fn text(config: &Value) -> &Map<String, Value> {
    config.get("text_config").unwrap_or(config).as_object().unwrap()
}

fn old_layers(config: &Value) -> usize {
    let words = || text(config)["layers_block_type"].as_array().unwrap().len();
    text(config)
        .get("num_hidden_layers")
        .and_then(Value::as_u64)
        .map_or_else(words, |n| n as usize)
}

fn tied(config: &Value) -> bool {
    let own = |key: &str| text(config).get(key).or(config.get(key)).and_then(Value::as_bool);
    own("tie_word_embeddings").unwrap_or(matches!(config["model_type"].as_str(), Some("llama" | "lfm2" | "lfm2_moe")))
}

/// Everything that has an entry for each layer, and the sizes.
fn reorder(value: &mut Value, old: usize, layers: &[usize]) {
    let Some(entries) = value.as_object_mut() else { return };
    for (key, entry) in entries.iter_mut() {
        match entry {
            Value::Array(items) if items.len() == old && key.starts_with("layer") => {
                *entry = layers.iter().map(|&layer| items[layer].clone()).collect();
            }
            Value::Array(items) if key == "full_attn_idxs" => {
                let full = |layer: usize| items.iter().any(|item| item.as_u64() == Some(layer as u64));
                *entry = (0..layers.len()).filter(|&new| full(layers[new])).collect();
            }
            Value::String(pattern) if key == "hybrid_override_pattern" => {
                let letters: Vec<char> = pattern.chars().collect();
                *entry = json!(layers.iter().map(|&layer| letters[layer]).collect::<String>());
            }
            Value::Number(_) if key == "num_hidden_layers" => *entry = json!(layers.len()),
            Value::Number(_) if key == "vocab_size" || key == "vocab_size_per_layer_input" => *entry = json!(VOCAB),
            Value::Object(_) => reorder(entry, old, layers),
            _ => {}
        }
    }
}

/// The oracle's drafter; what it drafts favours the same ids as the target. Returns those ids.
fn drafter(case: &str, to: &Path) -> (PathBuf, Vec<u32>) {
    let from = oracle().join("drafters").join(case);
    let first: Vec<u32> = (0..6).collect();
    if case.contains("gguf") {
        return (from.join("tiny-dspark-bf16.gguf"), first);
    }
    let mut all = tensors(&from);
    for name in ["lm_head.weight", "markov_head.markov_w2.weight"] {
        if let Some(table) = all.get(name).filter(|table| table.dtype() != Dtype::Uint8) {
            let table = favour(table, &first);
            all.insert(name.to_owned(), table);
        }
    }
    let favoured = match all.get("d2t") {
        None => first,
        Some(offsets) => {
            let offsets = offsets.as_dtype(Dtype::Int32).unwrap();
            offsets.eval().unwrap();
            first
                .iter()
                .map(|id| *id + offsets.as_slice::<i32>()[*id as usize] as u32)
                .collect()
        }
    };
    save(to, &all, &config(&from));
    let quantized = from.join("hf_quant_config.json");
    if quantized.exists() {
        std::fs::copy(quantized, to.join("hf_quant_config.json")).unwrap();
    }
    (to.to_owned(), favoured)
}

/// A random DSpine drafter, which the oracle lacks.
fn dspine(to: &Path) -> (PathBuf, Vec<u32>) {
    const HIDDEN: i32 = 64;
    const RANK: i32 = 24;
    const MESSAGE: i32 = 12;
    let mut salt = 100;
    let mut all = HashMap::new();
    let mut add = |name: &str, shape: &[i32], centre: f32, spread: f32| {
        salt += 1;
        let noise = random::normal::<f32>(shape, None, None, &random::key(salt).unwrap()).unwrap();
        let values = noise
            .multiply(Array::from_f32(spread))
            .unwrap()
            .add(Array::from_f32(centre))
            .unwrap();
        all.insert(name.to_owned(), values);
    };
    add("fc.weight", &[HIDDEN, 3 * HIDDEN], 0.0, 0.1);
    add("hidden_norm.weight", &[HIDDEN], 1.0, 0.1);
    add("norm.weight", &[HIDDEN], 1.0, 0.1);
    for layer in 0..2 {
        let mut add = |name: &str, shape: &[i32], centre, spread| add(&format!("layers.{layer}.{name}.weight"), shape, centre, spread);
        add("input_layernorm", &[HIDDEN], 1.0, 0.1);
        add("post_attention_layernorm", &[HIDDEN], 1.0, 0.1);
        for (name, rows, columns) in [
            ("self_attn.q_proj", 64, HIDDEN),
            ("self_attn.k_proj", 32, HIDDEN),
            ("self_attn.v_proj", 32, HIDDEN),
            ("self_attn.o_proj", HIDDEN, 64),
            ("mlp.gate_proj", 96, HIDDEN),
            ("mlp.up_proj", 96, HIDDEN),
            ("mlp.down_proj", HIDDEN, 96),
        ] {
            add(name, &[rows, columns], 0.0, 0.15);
        }
        add("self_attn.q_norm", &[16], 1.0, 0.1);
        add("self_attn.k_norm", &[16], 1.0, 0.1);
    }
    for layer in 0..2 {
        add(&format!("injection.readouts.{layer}.weight"), &[RANK, HIDDEN], 0.0, 0.3);
        add(&format!("injection.writes.{layer}.weight"), &[HIDDEN, MESSAGE], 0.0, 0.2);
    }
    for name in ["message", "receiver_gate", "predecessor_gate"] {
        add(&format!("injection.{name}.weight"), &[MESSAGE, RANK], 0.0, 0.2);
    }
    add("injection.bias", &[MESSAGE], 0.0, 0.3);
    add("transfer_codes", &[VOCAB, RANK], 0.0, 1.0);
    let codes = &all["transfer_codes"];
    let length = codes.square().unwrap().sum_axis(-1, true).unwrap().sqrt().unwrap();
    let codes = codes.divide(length).unwrap();
    all.insert("transfer_codes".into(), codes);
    let config = json!({
        "architectures": ["DSpineDraftModel"], "model_type": "qwen3", "hidden_size": HIDDEN, "vocab_size": VOCAB,
        "num_hidden_layers": 2, "intermediate_size": 96, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
        "rope_theta": 1e4, "rms_norm_eps": 1e-6, "block_size": 8, "layer_types": ["full_attention", "sliding_attention"],
        "sliding_window": 12, "dflash_config": {"target_layer_ids": [1, 3, 5], "mask_token_id": 250},
        "dspine_config": {"transfer_rank": RANK, "message_size": MESSAGE, "top_k": 5}
    });
    save(to, &all, &config);
    (to.to_owned(), (0..6).collect())
}

/// A loaded pair.
struct Pair {
    name: String,
    engine: EngineHandle,
    /// The target alone, for cold forwards.
    cold: LoadedModel,
    mode: Mode,
    _folders: [tempfile::TempDir; 2],
}

struct Answer {
    tokens: Vec<TokenInfo>,
    summary: Box<Summary>,
}

impl Pair {
    fn load(target_case: &str, layers: &[usize], drafter_case: &str) -> Self {
        let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let (path, favoured) = match drafter_case {
            "dspine" => dspine(folders[1].path()),
            case => drafter(case, folders[1].path()),
        };
        target(target_case, layers, &favoured, folders[0].path());
        let cold = load(
            folders[0].path(),
            &LoadOptions::default(),
            &mut |_, _| (),
            &CancellationToken::new(),
        )
        .unwrap();
        let engine = start(EngineOptions {
            self_test: || Ok(()),
            ..EngineOptions::default()
        });
        let mut loading = engine
            .load(LoadRequest {
                name: target_case.into(),
                path: folders[0].path().to_owned(),
                drafter: Some(path),
                drafter_required: true,
                drafter_bits: Some(0),
                ..LoadRequest::default()
            })
            .unwrap();
        loop {
            match loading.next_blocking().unwrap() {
                LoadEvent::Stage { .. } => {}
                LoadEvent::Ready(_) => break,
                LoadEvent::Failed(error) => panic!("{target_case} with {drafter_case}: {error}"),
            }
        }
        let dflash = drafter_case.starts_with("dflash1") || drafter_case.starts_with("dflash2") || drafter_case == "dspine";
        Self {
            name: format!("{target_case} with {drafter_case}"),
            engine,
            cold,
            mode: if dflash { Mode::Dflash } else { Mode::Dspark },
            _folders: folders,
        }
    }

    fn ask(&self, prompt: &[u32], speculation: SpeculationOptions, temperature: f32, scored: bool) -> Answer {
        let request = Request {
            prompt: Prompt::Tokens(prompt.to_vec()),
            mode: self.mode,
            speculation: Some(speculation),
            sampling: Sampling {
                temperature,
                // Drafts of random heads are hardly ever the target's own draws, which a given seed would ask for.
                seed: None,
                ..Sampling::default()
            },
            logprobs: scored.then_some(0),
            ignore_eos: true,
            return_token_ids: true,
            ..Request::chat("test", Vec::new(), LENGTH)
        };
        let mut generation = self.engine.submit(request).unwrap();
        let mut tokens = Vec::new();
        while let Some(event) = generation.next_blocking() {
            match event {
                Event::Delta(delta) => tokens.extend(delta.tokens),
                Event::Finished(summary) => return Answer { tokens, summary },
                Event::Failed(error) => panic!("{}: {error}", self.name),
                _ => {}
            }
        }
        panic!("{} said nothing at its end", self.name)
    }

    /// Log-probabilities of `emitted` after `prompt`, in one forward.
    fn cold(&self, prompt: &[u32], emitted: &[u32]) -> Vec<f32> {
        let all = [prompt, emitted].concat();
        let rows = Array::from_slice(&all, &[1, all.len() as i32]);
        let mut cache = self.cold.decoder.new_cache();
        let output = self.cold.decoder.forward(&Rows::chain(&rows, Logits::All), &mut *cache).unwrap();
        let logits = output.logits.unwrap().as_dtype(Dtype::Float32).unwrap();
        logits.eval().unwrap();
        let rows = logits.as_slice::<f32>().chunks(VOCAB as usize).skip(prompt.len() - 1);
        let logprob = |(row, id): (&[f32], &u32)| {
            let most = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            row[*id as usize] - most - row.iter().map(|logit| (logit - most).exp()).sum::<f32>().ln()
        };
        rows.zip(emitted).map(logprob).collect()
    }

    /// Every way of decoding one prompt and of going on from there. Returns (drafted, taken).
    fn check(&self) -> (usize, usize) {
        let prompt: Vec<u32> = (0..PROMPT as u32).map(|i| (i * 7 + i * i) % 40).collect();
        let (mut drafted, mut taken) = (0, 0);
        let mut proved = HashSet::new();
        // Greedy rounds without log-probabilities never leave the graph; with them, rows come to the host.
        for (cap, tree, temperature, scored) in [
            (Cap::Fixed(1), TreeSetting::Off, 0.0, false),
            (Cap::Fixed(3), TreeSetting::Off, 0.0, false),
            (Cap::Full, TreeSetting::Off, 0.0, false),
            (Cap::Full, TreeSetting::On, 0.0, false),
            (Cap::Full, TreeSetting::On, 0.0, true),
            (Cap::Fixed(3), TreeSetting::Off, 0.0, true),
            (Cap::Fixed(1), TreeSetting::Off, 0.8, true),
            (Cap::Full, TreeSetting::Off, 0.8, true),
        ] {
            let options = SpeculationOptions {
                cap,
                tree,
                lookup: Some(false),
                ..SpeculationOptions::default()
            };
            let what = format!("{} at {cap:?}, tree {tree:?}, temperature {temperature}", self.name);
            let first = self.ask(&prompt, options, temperature, scored);
            let ids: Vec<u32> = first.tokens.iter().map(|token| token.id).collect();
            // The next turn begins within what this one wrote: what was kept of it must be in order.
            let next = [&prompt[..], &ids[..LENGTH - 7], &[33, 2]].concat();
            let second = self.ask(&next, options, temperature, scored);
            for (prompt, answer) in [(&prompt, first), (&next, second)] {
                let ids: Vec<u32> = answer.tokens.iter().map(|token| token.id).collect();
                assert_eq!(ids.len(), LENGTH, "{what}");
                assert_eq!(answer.summary.effective_mode, self.mode, "{what}: {:?}", answer.summary.mode_reason);
                let stats = &answer.summary.speculation.as_ref().unwrap().stats;
                (drafted, taken) = (drafted + stats.drafted, taken + stats.accepted);
                let cold = if scored { self.cold(prompt, &ids) } else { Vec::new() };
                for (at, (token, wanted)) in answer.tokens.iter().zip(cold).enumerate() {
                    let found = token.logprob.unwrap();
                    assert!((found - wanted).abs() < 0.03, "{what}: token {at} has {found}, cold {wanted}");
                }
                if temperature == 0.0 && proved.insert((prompt.clone(), ids.clone())) {
                    let report = self.engine.force(prompt.clone(), ids).unwrap().blocking_recv().unwrap().unwrap();
                    assert_ne!(report.verdict(), Verdict::Defect, "{what}: {:?}", report.divergences);
                }
            }
        }
        (drafted, taken)
    }
}

fn repeated(layers: usize, times: usize) -> Vec<usize> {
    (0..times).flat_map(|_| 0..layers).collect()
}

/// Runs pairs of a target's family; drafts are taken and refused in each.
fn check(target: &str, layers: &[usize], drafters: &[&str]) {
    for drafter in drafters {
        let pair = Pair::load(target, layers, drafter);
        let (drafted, taken) = pair.check();
        println!("{}: {taken} of {drafted} drafts taken", pair.name);
        assert!(taken > 0 && taken < drafted, "{}: {taken} of {drafted} drafts taken", pair.name);
    }
}

#[test]
fn qwen3() {
    check(
        "qwen3",
        &repeated(3, 3),
        &["dspark-native-qwen3", "dflash1-full", "dspark-native-markov0", "speculators-s0"],
    );
}

#[test]
fn gemma4() {
    check("gemma4-dense", &repeated(4, 2), &["dspark-native-gemma4", "dflash1-mixed-sliding"]);
    check("gemma4-moe", &repeated(4, 2), &["speculators-reduced-vocab"]);
}

#[test]
fn gemma4_with_shared_keys_and_layer_inputs() {
    // The last two layers share keys and values, and stay the last.
    check("gemma4-kvshared", &[0, 1, 2, 3, 0, 1, 4, 5], &["dspark-native-gemma4"]);
    check("gemma4-ple", &[0, 1, 2, 0, 1, 2, 3, 4], &["dspark-native-gemma4"]);
}

#[test]
fn qwen3_5_bonsai_and_ornith() {
    check(
        "qwen3_5",
        &repeated(4, 2),
        &["prismml-gguf-logsnr", "dspark-native-qwen3_5", "dspark-native-qwen3"],
    );
}

#[test]
fn qwen3_8() {
    check(
        "qwen3_5",
        &repeated(4, 2),
        &[
            "speculators-causal-swa",
            "dflash2",
            "dflash2-bidirectional",
            "dspine",
            "specforge-yarn",
        ],
    );
}

#[test]
fn qwen3_6_moe() {
    check("qwen3_5_moe", &repeated(4, 2), &["modelopt-nvfp4", "dflash1-full"]);
}

#[test]
fn nemotron() {
    check("nemotron_h", &repeated(6, 2), &["dflash-lineage-causal-sinks"]);
    check("nemotron_h-latent", &repeated(5, 2), &["dflash-lineage-causal-sinks"]);
}

#[test]
fn muse_glimmer() {
    check("muse_glimmer", &repeated(4, 2), &["speculators-causal-swa", "dflash2-muse"]);
}

#[test]
fn lfm2() {
    check("lfm2", &repeated(4, 2), &["lfm2-interleaved"]);
    // Its first layer alone is dense.
    check("lfm2_moe", &[0, 1, 2, 3, 2, 1, 2, 3], &["lfm2-interleaved"]);
}

#[test]
fn nanbeige_and_minicpm() {
    check("nanbeige", &repeated(3, 2), &["specforge-yarn"]);
    check("llama", &repeated(3, 3), &["dspark-native-qwen3-deepcopy-noise"]);
    check("llama-sliding", &repeated(4, 2), &["speculators-noncausal-swa"]);
}
