//! Conversions against `mlx_lm.convert`, byte for byte, and what happens when they are stopped, refused or resumed.
#![allow(clippy::unwrap_used)]

#[path = "../../engine/hub/tests/common/mod.rs"]
mod gguf_writer;

use dspark_engine::{
    convert::{ConvertError, ConvertOptions, Converted, Float, Override, Rule, convert},
    hub::{Job, Stage},
    load::{LoadOptions, Mode, Packing, load},
    target::{Logits, Rows, Target},
};
use mlx_rs::Array;
use safetensors::SafeTensors;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::{
    collections::BTreeMap,
    fmt::Write,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};
use tokio_util::sync::CancellationToken;

fn oracle() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/oracle")
}

fn target(case: &str) -> PathBuf {
    oracle().join("targets").join(case)
}

fn affine(bits: i32, group: i32) -> Packing {
    Packing {
        bits,
        group,
        mode: Mode::Affine,
    }
}

fn packed(packing: Packing) -> ConvertOptions {
    ConvertOptions {
        packing: Some(packing),
        ..ConvertOptions::default()
    }
}

/// A folder to convert into, which is not there yet.
struct Dest(tempfile::TempDir);

impl Dest {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }
    fn path(&self) -> PathBuf {
        self.0.path().join("out")
    }
    fn partial(&self) -> PathBuf {
        self.0.path().join(".out.partial")
    }
    fn convert(&self, source: &Path, options: &ConvertOptions) -> Result<Converted, ConvertError> {
        convert(source, &self.path(), options, &Job::silent())
    }
}

type Tensors = BTreeMap<String, (String, Vec<usize>, Vec<u8>)>;

fn tensors(dir: &Path) -> Tensors {
    let mut all = Tensors::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|ext| ext != "safetensors") {
            continue;
        }
        let bytes = std::fs::read(path).unwrap();
        for (name, view) in SafeTensors::deserialize(&bytes).unwrap().iter() {
            let entry = (format!("{:?}", view.dtype()), view.shape().to_vec(), view.data().to_vec());
            all.insert(name.to_owned(), entry);
        }
    }
    all
}

/// As `tests/oracle/scripts/convert.py` has it.
fn digest(tensors: &Tensors) -> String {
    let mut whole = Sha256::new();
    for (name, (dtype, shape, data)) in tensors {
        let shape: Vec<String> = shape.iter().map(ToString::to_string).collect();
        whole.update(format!("{name} {dtype} {}\n", shape.join(",")));
        whole.update(data);
    }
    whole.finalize().iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

fn options(case: &Value) -> ConvertOptions {
    let number = |key: &str| case[key].as_i64().map(|n| n as i32);
    let mode = case["mode"].as_str().map(|name| Mode::named(name).unwrap());
    ConvertOptions {
        packing: mode.map(|mode| {
            let usual = Packing::usual(mode);
            Packing {
                bits: number("bits").unwrap_or(usual.bits),
                group: number("group").unwrap_or(usual.group),
                mode,
            }
        }),
        float: case["dtype"].as_str().map(|name| Float::named(name).unwrap()),
        ..ConvertOptions::default()
    }
}

/// mlx-lm leaves `mode` out where it is affine.
fn with_modes(quantization: &Value) -> Value {
    let mut all = quantization.clone();
    for entry in all.as_object_mut().into_iter().flat_map(|all| all.values_mut()) {
        if let Some(entry) = entry.as_object_mut() {
            entry.entry("mode").or_insert(json!("affine"));
        }
    }
    all
}

#[test]
fn every_conversion_is_the_oracles_to_the_byte() {
    let golden: Value = serde_json::from_slice(&std::fs::read(oracle().join("convert/golden.json")).unwrap()).unwrap();
    let cases = golden["cases"].as_array().unwrap();
    assert!(cases.len() > 80);
    let mut wrong = Vec::new();
    for case in cases {
        let dest = Dest::new();
        let name = case["case"].as_str().unwrap();
        let done = dest.convert(&target(name), &options(case)).unwrap();
        let found = tensors(&dest.path());
        let config: Value = serde_json::from_slice(&std::fs::read(dest.path().join("config.json")).unwrap()).unwrap();
        let same = digest(&found) == case["sha256"].as_str().unwrap()
            && found.len() == case["tensors"].as_u64().unwrap() as usize
            && found.len() == done.tensors
            && with_modes(&config["quantization"]) == with_modes(&case["quantization"]);
        if !same {
            wrong.push(format!("{case} gives {} tensors, {}", found.len(), config["quantization"]));
        }
        // It loads, and not only by its headers.
        let model = load(&dest.path(), &LoadOptions::default(), &mut |_, _| (), &CancellationToken::new()).unwrap();
        let rows = Array::from_slice(&[3_u32, 1, 4, 1, 5], &[1, 5]);
        let mut cache = model.decoder.new_cache();
        let output = model.decoder.forward(&Rows::chain(&rows, Logits::Last), &mut *cache).unwrap();
        let logits = output.logits.unwrap();
        logits.eval().unwrap();
        assert!(logits.as_slice::<f32>().iter().all(|logit| logit.is_finite()), "{case}");
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn raw_names_become_the_published_folder() {
    for name in [
        "qwen3_5",
        "qwen3_5_moe",
        "gemma4-dense",
        "gemma4-moe",
        "lfm2",
        "lfm2_moe",
        "nemotron_h",
        "muse_glimmer",
    ] {
        let dest = Dest::new();
        dest.convert(&target(&format!("{name}-rawnames")), &ConvertOptions::default())
            .unwrap();
        let (found, wanted) = (tensors(&dest.path()), tensors(&target(name)));
        assert_eq!(found.keys().collect::<Vec<_>>(), wanted.keys().collect::<Vec<_>>());
        for (tensor, wanted) in wanted {
            assert_eq!(found[&tensor], wanted, "{name} {tensor}");
        }
    }
}

#[test]
fn overrides_name_modules() {
    let dest = Dest::new();
    let rule = |pattern: &str, rule| Override {
        pattern: pattern.into(),
        rule,
    };
    let options = ConvertOptions {
        overrides: vec![
            rule("*_proj", Rule::Pack(affine(3, 32))),
            rule("layers.1.mlp.*", Rule::Pack(affine(8, 32))),
            rule("lm_head", Rule::Keep),
            rule("embed_tokens", Rule::Pack(Packing::usual(Mode::Mxfp4))),
        ],
        ..packed(affine(4, 32))
    };
    let done = dest.convert(&target("qwen3"), &options).unwrap();
    let model = load(&dest.path(), &LoadOptions::default(), &mut |_, _| (), &CancellationToken::new()).unwrap();
    assert_eq!(model.facts.quantization, "4-bit g32, mixed");
    let found = tensors(&dest.path());
    let bits = |path: &str| {
        let (weight, scales) = (&found[&format!("{path}.weight")], &found[&format!("{path}.scales")]);
        (weight.1[1] * 32 / 64, scales.0.clone(), scales.1[1])
    };
    assert_eq!(bits("model.layers.0.self_attn.q_proj"), (3, "BF16".into(), 2));
    assert_eq!(bits("model.layers.1.mlp.up_proj"), (8, "BF16".into(), 2));
    assert_eq!(bits("model.embed_tokens"), (4, "U8".into(), 2));
    assert!(!found.contains_key("lm_head.scales"));
    assert_eq!(done.parameters, model.facts.parameters);
    assert!(done.bits_per_weight > 4.0 && done.bits_per_weight < 16.0);

    let unknown = ConvertOptions {
        overrides: vec![rule("lm_haed", Rule::Keep)],
        ..packed(affine(4, 32))
    };
    let message = Dest::new().convert(&target("qwen3"), &unknown).unwrap_err().to_string();
    assert!(
        message.contains("`lm_haed` matches no matrix") && message.contains("model.embed_tokens"),
        "{message}"
    );
}

/// A job that stops after `steps` reports of its own stage.
fn stopping(stage: Stage, steps: usize) -> Job {
    let cancel = CancellationToken::new();
    let (trigger, seen) = (cancel.clone(), Arc::new(AtomicUsize::new(0)));
    Job::new(cancel, move |at| {
        if at.stage == stage && seen.fetch_add(1, Ordering::Relaxed) + 1 == steps {
            trigger.cancel();
        }
    })
}

#[test]
fn a_stopped_conversion_goes_on_and_gives_the_same() {
    let (whole, dest) = (Dest::new(), Dest::new());
    // Small files: several of them.
    let options = ConvertOptions {
        shard: 30_000,
        ..packed(affine(4, 32))
    };
    let source = target("qwen3_5_moe-rawnames");
    let straight = whole.convert(&source, &options).unwrap();
    assert!(straight.files > 3 && straight.resumed == 0);
    for (stage, steps) in [(Stage::Converting, 3), (Stage::Converting, 20), (Stage::Verifying, 5)] {
        let stopped = convert(&source, &dest.path(), &options, &stopping(stage, steps));
        assert!(matches!(stopped, Err(ConvertError::Cancelled)), "{stopped:?}");
        assert!(!dest.path().exists() && dest.partial().join("convert-journal.json").exists());
    }
    let done = dest.convert(&source, &options).unwrap();
    assert!(done.resumed > 20, "{}", done.resumed);
    assert_eq!(tensors(&dest.path()), tensors(&whole.path()));
    assert!(!dest.partial().exists() && !dest.path().join("convert-journal.json").exists());

    // Another wish does not go on with what this one left.
    let dest = Dest::new();
    let stopped = convert(&source, &dest.path(), &options, &stopping(Stage::Converting, 20));
    assert!(stopped.is_err());
    let done = dest.convert(&source, &packed(affine(8, 32))).unwrap();
    assert_eq!(done.resumed, 0);
}

#[test]
fn damage_in_between_is_found_on_reading_back() {
    let dest = Dest::new();
    let options = packed(affine(4, 32));
    let stopped = convert(&target("qwen3"), &dest.path(), &options, &stopping(Stage::Converting, 20));
    assert!(stopped.is_err());
    let file = dest.partial().join("model.safetensors");
    let mut bytes = std::fs::read(&file).unwrap();
    let start = 8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    bytes[start + 5] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    let message = dest.convert(&target("qwen3"), &options).unwrap_err().to_string();
    assert!(message.contains("does not read back"), "{message}");
    assert!(!dest.path().exists());
}

#[test]
fn what_would_not_end_well_is_refused() {
    let refusal = |source: &Path, options: &ConvertOptions| {
        let dest = Dest::new();
        let message = dest.convert(source, options).unwrap_err().to_string();
        assert!(!dest.path().exists());
        message
    };
    let message = refusal(&target("qwen3-q4g64"), &packed(affine(4, 64)));
    assert!(message.contains("is quantized already"), "{message}");
    let message = refusal(Path::new("nowhere/at/all"), &ConvertOptions::default());
    assert!(message.contains("there is no such folder"), "{message}");

    let dest = Dest::new();
    std::fs::create_dir(dest.path()).unwrap();
    let message = dest.convert(&target("qwen3"), &ConvertOptions::default()).unwrap_err().to_string();
    assert!(message.contains("is there already"), "{message}");

    let source = tempfile::tempdir().unwrap();
    for file in ["config.json", "model.safetensors"] {
        std::fs::copy(target("qwen3").join(file), source.path().join(file)).unwrap();
    }
    let file = source.path().join("model.safetensors");
    let mut bytes = std::fs::read(&file).unwrap();
    let end = bytes.len();
    bytes[end - 2..].copy_from_slice(&[0xc0, 0x7f]);
    std::fs::write(&file, bytes).unwrap();
    let message = refusal(source.path(), &packed(affine(4, 32)));
    assert!(message.contains("not a finite number"), "{message}");
    std::fs::write(source.path().join("config.json"), r#"{"model_type": "rwkv7"}"#).unwrap();
    assert!(refusal(source.path(), &ConvertOptions::default()).contains("`rwkv7`"));
}

#[test]
fn companions_come_along_and_code_does_not() {
    let source = tempfile::tempdir().unwrap();
    for file in ["config.json", "model.safetensors"] {
        std::fs::copy(target("qwen3").join(file), source.path().join(file)).unwrap();
    }
    let stays = [
        "modeling_qwen3.py",
        "hf_quant_config.json.bak",
        "model.safetensors.index.json.old",
        "pytorch_model.bin",
    ];
    let comes = [
        "tokenizer.json",
        "tokenizer_config.json",
        "chat_template.jinja",
        "generation_config.json",
        "LICENSE",
        "merges.txt",
    ];
    for name in stays.iter().chain(&comes) {
        std::fs::write(source.path().join(name), "{}").unwrap();
    }
    let dest = Dest::new();
    dest.convert(source.path(), &packed(affine(4, 32))).unwrap();
    for name in comes {
        assert!(dest.path().join(name).exists(), "{name}");
    }
    for name in stays {
        assert!(!dest.path().join(name).exists(), "{name}");
    }
    let record: Value = serde_json::from_slice(&std::fs::read(dest.path().join("conversion.json")).unwrap()).unwrap();
    assert_eq!(record["files"]["LICENSE"], 2);
    assert_eq!(record["quantization"]["bits"], 4);
}

#[test]
fn gguf_files_come_as_they_are_or_packed_where_they_hold_floats() {
    use gguf_writer::{BF16, F32, Q4_1, model};
    let file = |dir: &Path, kinds: &[u32]| {
        let path = dir.join("tiny.gguf");
        std::fs::write(&path, model("llama", kinds, false).bytes()).unwrap();
        path
    };
    // A folder that holds just the file is as good as the file.
    let dest = Dest::new();
    file(dest.0.path(), &[Q4_1]);
    dest.convert(dest.0.path(), &ConvertOptions::default()).unwrap();
    assert!(tensors(&dest.path()).contains_key("model.layers.0.mlp.up_proj.scales"));

    let dest = Dest::new();
    let message = dest
        .convert(&file(dest.0.path(), &[Q4_1]), &packed(affine(4, 32)))
        .unwrap_err()
        .to_string();
    assert!(
        message.contains("is quantized already") && message.contains("F16 or BF16"),
        "{message}"
    );

    let dest = Dest::new();
    let path = file(dest.0.path(), &[BF16, F32]);
    let done = dest.convert(&path, &packed(affine(8, 32))).unwrap();
    assert_eq!(done.model_type, "llama");
    let found = tensors(&dest.path());
    assert!(found.contains_key("model.layers.1.self_attn.q_proj.biases") && found.contains_key("lm_head.scales"));
    let left: Vec<_> = std::fs::read_dir(dest.0.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert!(!left.iter().any(|name| name == ".out.gguf" || name == ".out.partial"), "{left:?}");
    let message = dest.convert(&path, &ConvertOptions::default()).unwrap_err().to_string();
    assert!(message.contains("is there already"), "{message}");
}
