//! The loader contract on real folders: what is refused and in which words, what is left out, and how a load ends early.
#![allow(clippy::unwrap_used)]

use dspark_engine::{
    load::{LoadError, LoadOptions, LoadedModel, load},
    model::{FolderLoader, ModelLoader},
    protocol::{EngineError, LoadRequest},
    target::{Logits, Rows, Target},
};
use mlx_rs::Array;
use serde_json::{Value, json};
use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// A copy of a golden case, to be spoilt.
struct Folder(TempDir);

impl Folder {
    fn of(case: &str) -> Self {
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/oracle/targets").join(case);
        let dir = tempfile::tempdir().unwrap();
        for entry in std::fs::read_dir(from).unwrap() {
            let path = entry.unwrap().path();
            // Not `copy`, which would also copy a read-only mode.
            std::fs::write(dir.path().join(path.file_name().unwrap()), std::fs::read(&path).unwrap()).unwrap();
        }
        Self(dir)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// Sets fields of `config.json`; null removes.
    fn config(self, fields: Value) -> Self {
        let mut config: Value = serde_json::from_slice(&std::fs::read(self.file("config.json")).unwrap()).unwrap();
        for (key, value) in fields.as_object().unwrap() {
            config[key] = value.clone();
        }
        std::fs::write(self.file("config.json"), config.to_string()).unwrap();
        self
    }

    fn with(self, name: &str, content: Value) -> Self {
        std::fs::write(self.file(name), content.to_string()).unwrap();
        self
    }

    fn tensors(self, change: impl FnOnce(&mut HashMap<String, Array>)) -> Self {
        let path = self.file("model.safetensors");
        let mut tensors = Array::load_safetensors(&path).unwrap();
        for tensor in tensors.values() {
            tensor.eval().unwrap();
        }
        change(&mut tensors);
        Array::save_safetensors(tensors.iter().map(|(name, array)| (name.as_str(), array)), None, &path).unwrap();
        self
    }

    fn load(&self) -> Result<LoadedModel, LoadError> {
        load(self.path(), &LoadOptions::default(), &mut |_, _| (), &CancellationToken::new())
    }

    fn refusal(&self) -> String {
        self.load().expect_err("it must be refused").to_string()
    }
}

fn logits(model: &LoadedModel) -> Vec<f32> {
    let tokens = Array::from_slice(&[3_u32, 5, 8], &[1, 3]);
    let output = model
        .decoder
        .forward(&Rows::chain(&tokens, Logits::All), &mut *model.decoder.new_cache())
        .unwrap();
    output.logits.unwrap().to_vec_cast::<f32>().unwrap()
}

/// Report dl-011.
#[test]
fn a_model_with_its_own_code_is_refused_with_every_marker() {
    let own = json!({"model_type": "nanbeige", "auto_map": {"AutoModelForCausalLM": "modeling_x.X"}, "model_file": "evil.py"});
    let message = Folder::of("llama").config(own).refusal();
    for part in ["nanbeige", "config.json:auto_map", "config.json:model_file", "does not run"] {
        assert!(message.contains(part), "{message}");
    }
    // Also where the type is known: the file would replace it.
    let message = Folder::of("llama").config(json!({"model_file": "evil.py"})).refusal();
    assert!(message.contains("llama") && message.contains("config.json:model_file"), "{message}");
}

#[test]
fn code_beside_a_native_model_is_ignored_with_a_note() {
    let folder = Folder::of("llama")
        .config(json!({"auto_map": {"AutoModel": "x.Y"}}))
        .with("tokenizer_config.json", json!({"auto_map": {"AutoTokenizer": ["x.Z", null]}}));
    let notes = folder.load().unwrap().facts.notes;
    assert_eq!(notes.len(), 1);
    assert!(
        notes[0].contains("config.json:auto_map, tokenizer_config.json:auto_map"),
        "{notes:?}"
    );
    assert!(Folder::of("llama").load().unwrap().facts.notes.is_empty());
}

#[test]
fn an_unknown_type_is_named() {
    let message = Folder::of("llama").config(json!({"model_type": "gpt2"})).refusal();
    assert!(
        message.contains("`gpt2` is not supported") && message.contains("llama, mistral"),
        "{message}"
    );
    let message = Folder::of("llama").config(json!({"model_type": null})).refusal();
    assert!(message.contains("`model_type` is missing"), "{message}");
    let message = Folder::of("llama").config(json!({"rope_scaling": {"type": "spiral"}})).refusal();
    assert!(message.contains("`spiral`"), "{message}");
}

#[test]
fn other_names_for_llama() {
    let plain = logits(&Folder::of("llama").load().unwrap());
    for name in ["mistral", "xverse", "iquestcoder"] {
        let found = Folder::of("llama").config(json!({"model_type": name})).load().unwrap();
        assert_eq!(found.facts.model_type, name);
        assert_eq!(logits(&found), plain);
    }
}

#[test]
fn keys_are_checked_before_anything_is_read() {
    let folder = Folder::of("qwen3").tensors(|tensors| {
        let moved = tensors.remove("model.norm.weight").unwrap();
        for i in 0..10 {
            tensors.insert(format!("stray.{i}.weight"), moved.clone());
        }
    });
    let mut read = 0;
    let error = load(
        folder.path(),
        &LoadOptions::default(),
        &mut |_, _| read += 1,
        &CancellationToken::new(),
    )
    .unwrap_err();
    assert_eq!(read, 0);
    let LoadError::Tensors {
        missing,
        unexpected,
        unexpected_count,
        ..
    } = &error
    else {
        panic!("{error}")
    };
    assert_eq!(missing, &["model.norm.weight"]);
    assert_eq!((unexpected.len(), *unexpected_count), (8, 10));
    let message = error.to_string();
    assert!(
        message.contains("1 missing (model.norm.weight) and 10 unexpected (stray.0.weight, ") && message.contains(", …)"),
        "{message}"
    );

    let message = Folder::of("qwen3").config(json!({"intermediate_size": 128})).refusal();
    assert!(
        message.contains("mlp.down_proj") && message.contains("[64, 96]") && message.contains("[64, 128]"),
        "{message}"
    );
}

#[test]
fn leftovers_of_old_converters_are_dropped() {
    let folder = Folder::of("llama-sliding");
    let extra = folder.file("model-00003.safetensors");
    let zeros = Array::from_slice(&vec![0_f32; 64 * 192], &[192, 64]);
    let stray = ["model.layers.0.self_attn.rotary_emb.inv_freq", "lm_head.weight"];
    Array::save_safetensors(stray.map(|name| (name, &zeros)), None, &extra).unwrap();
    assert_eq!(
        logits(&folder.load().unwrap()),
        logits(&Folder::of("llama-sliding").load().unwrap())
    );
}

#[test]
fn an_untied_model_needs_its_head() {
    let message = Folder::of("llama-sliding").config(json!({"tie_word_embeddings": false})).refusal();
    assert!(message.contains("1 missing (lm_head.weight)"), "{message}");
}

#[test]
fn progress_counts_bytes_and_cancel_ends_it() {
    let folder = Folder::of("qwen3-q4g64");
    let mut seen = Vec::new();
    load(
        folder.path(),
        &LoadOptions::default(),
        &mut |done, total| seen.push((done, total)),
        &CancellationToken::new(),
    )
    .unwrap();
    assert!(seen.is_sorted() && seen.len() > 20);
    let (done, total) = seen[seen.len() - 1];
    assert_eq!(done, total);
    assert!(seen.iter().all(|step| step.1 == total));

    let (cancel, mut read) = (CancellationToken::new(), 0);
    let trigger = cancel.clone();
    let error = load(
        folder.path(),
        &LoadOptions::default(),
        &mut |_, _| {
            read += 1;
            if read == 3 {
                trigger.cancel();
            }
        },
        &cancel,
    );
    assert!(matches!(error, Err(LoadError::Cancelled)));
    assert_eq!(read, 3);
    assert_eq!(LoadError::Cancelled.into_engine("x"), EngineError::Cancelled);
}

#[test]
fn quantization_that_does_not_fit_is_refused() {
    let bits = |bits: i32| json!({"quantization": {"group_size": 64, "bits": bits}});
    let message = Folder::of("qwen3-q4g64").config(bits(1)).refusal();
    assert!(message.contains("1 bits") && message.contains("mlx-2bit"), "{message}");
    // Shapes tell what the default cannot get wrong; a path that is named wrongly is refused.
    assert!(Folder::of("qwen3-q4g64").config(bits(8)).load().is_ok());
    let named = json!({"quantization": {"group_size": 64, "bits": 4, "lm_head": {"bits": 8}}});
    let message = Folder::of("qwen3-q4g64").config(named).refusal();
    assert!(
        message.contains("lm_head.weight") && message.contains("[192, 16]") && message.contains("[192, 32]"),
        "{message}"
    );
    let message = Folder::of("qwen3")
        .config(json!({"quantization_config": {"quant_method": "gptq"}}))
        .refusal();
    assert!(message.contains("gptq"), "{message}");
}

#[test]
fn end_tokens_of_the_generation_config_win() {
    let eos = |folder: Folder| folder.load().unwrap().facts.eos;
    assert_eq!(eos(Folder::of("llama")), [2]);
    assert_eq!(eos(Folder::of("llama").config(json!({"eos_token_id": [7, 5, 7]}))), [5, 7]);
    assert_eq!(
        eos(Folder::of("llama").with("generation_config.json", json!({"eos_token_id": [1, 106]}))),
        [1, 106]
    );
    assert_eq!(
        eos(Folder::of("llama").with("generation_config.json", json!({"eos_token_id": 9}))),
        [9]
    );
    assert_eq!(
        eos(Folder::of("llama").with("generation_config.json", json!({"temperature": 1}))),
        [2]
    );
}

/// The tokenizer reads the configuration too; what is wrong with it is still said of the configuration.
#[test]
fn a_broken_configuration_is_reported_as_one() {
    for (content, part) in [
        ("{\"model_type\": \"llama\", ", "it is not JSON"),
        ("[]", "its top level is not an object"),
        ("{}", "`model_type` is missing"),
    ] {
        let folder = Folder::of("llama");
        std::fs::write(folder.file("config.json"), content).unwrap();
        let request = LoadRequest {
            name: "mine".into(),
            path: folder.path().to_owned(),
            ..LoadRequest::default()
        };
        let loaded = FolderLoader.load(&request, &mut |_, _, _| {}, &CancellationToken::new());
        let message = loaded.err().unwrap().to_string();
        assert!(message.contains("config.json") && message.contains(part), "{message}");
        assert!(!message.contains("tokenizer"), "{message}");
    }
}

#[test]
fn a_folder_that_is_none() {
    let error = load(
        Path::new("nowhere/at/all"),
        &LoadOptions::default(),
        &mut |_, _| (),
        &CancellationToken::new(),
    )
    .unwrap_err();
    let EngineError::Load { model, reason } = error.into_engine("tiny") else {
        panic!("another error")
    };
    assert_eq!(model, "tiny");
    assert!(reason.contains("there is no such folder"), "{reason}");
    let folder = Folder::of("llama");
    std::fs::remove_file(folder.file("model.safetensors")).unwrap();
    std::fs::write(folder.file("pytorch_model.bin"), b"x").unwrap();
    assert!(folder.refusal().contains("pickle"));
    std::fs::remove_file(folder.file("config.json")).unwrap();
    assert!(folder.refusal().contains("no config.json"));
}

#[test]
fn weights_that_are_not_numbers_are_named() {
    for (case, name) in [
        ("qwen3", "model.layers.1.mlp.up_proj.weight"),
        ("llama", "model.norm.weight"),
        ("qwen3-q4g64", "model.layers.0.self_attn.q_proj.scales"),
        ("qwen3_5", "language_model.model.layers.0.linear_attn.A_log"),
    ] {
        let folder = Folder::of(case).tensors(|tensors| {
            let tensor = tensors[name].as_dtype(mlx_rs::Dtype::Float32).unwrap();
            let mut values = tensor.to_vec_cast::<f32>().unwrap();
            *values.last_mut().unwrap() = f32::NAN;
            let spoilt = Array::from_slice(&values, tensor.shape()).as_dtype(tensors[name].dtype()).unwrap();
            tensors.insert(name.to_owned(), spoilt);
        });
        let message = folder.refusal();
        assert!(
            message.contains(&format!("`{name}`: holds values that are not numbers")),
            "{message}"
        );
    }
}

#[test]
fn packings_of_other_toolchains_are_refused_by_name() {
    for (config, part, named) in [
        (
            json!({"quant_method": "compressed-tensors", "format": "pack-quantized"}),
            "weight_packed",
            "compressed-tensors",
        ),
        (
            json!({"quant_method": "modelopt", "quant_algo": "NVFP4"}),
            "weight_scale_2",
            "ModelOpt",
        ),
        (
            json!({"quant_method": "fp8", "scale_fmt": "ue8m0", "weight_block_size": [32, 32]}),
            "weight_scale_inv",
            "FP8",
        ),
        (
            json!({"quant_method": "mxfp4"}),
            "global_scale",
            "nvfp4 with a scale of the whole tensor",
        ),
    ] {
        let folder = Folder::of("qwen3")
            .config(json!({"quantization_config": config}))
            .tensors(|tensors| {
                let one = Array::from_slice(&[1_f32], &[1]);
                tensors.insert(format!("model.layers.0.mlp.up_proj.{part}"), one);
            });
        let message = folder.refusal();
        assert!(
            message.contains(part) && message.contains(named) && message.contains("mlx-dspark convert"),
            "{message}"
        );
    }
}

/// A scale of each expert as a whole: doubling it doubles the expert's weights, as doubling all its small scales does.
#[test]
fn experts_in_nvfp4_may_have_a_scale_of_their_own() {
    use dspark_engine::{
        convert::{ConvertOptions, convert},
        hub::Job,
        load::{Mode, Packing},
    };
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/oracle/targets/qwen3_moe");
    let made = || {
        let dir = tempfile::tempdir().unwrap();
        let options = ConvertOptions {
            packing: Some(Packing::usual(Mode::Nvfp4)),
            ..ConvertOptions::default()
        };
        convert(&source, &dir.path().join("out"), &options, &Job::silent()).unwrap();
        let out = tempfile::tempdir().unwrap();
        for file in ["config.json", "model.safetensors"] {
            std::fs::copy(dir.path().join("out").join(file), out.path().join(file)).unwrap();
        }
        Folder(out)
    };
    let experts = |name: &String| name.contains("switch_mlp") && name.ends_with(".scales");
    let doubled = made().tensors(|tensors| {
        for (_, scales) in tensors.iter_mut().filter(|(name, _)| experts(name)) {
            // One more in the exponent of E4M3.
            let bytes: Vec<u8> = scales.as_slice::<u8>().iter().map(|byte| byte + 8).collect();
            *scales = Array::from_slice(&bytes, scales.shape());
        }
    });
    let scaled = |factor: f32| {
        made().tensors(|tensors| {
            let names: Vec<String> = tensors.keys().filter(|name| experts(name)).cloned().collect();
            for name in names {
                let count = tensors[&name].dim(0);
                let scale = Array::from_slice(&vec![factor * 6.0 * 448.0; count as usize], &[count]);
                tensors.insert(name.replace(".scales", ".global_scale"), scale);
            }
        })
    };
    let close = |a: &[f32], b: &[f32]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-4);
    let plain = logits(&made().load().unwrap());
    let twice = logits(&doubled.load().unwrap());
    assert!(!close(&plain, &twice));
    assert!(close(&logits(&scaled(1.0).load().unwrap()), &plain));
    assert!(close(&logits(&scaled(2.0).load().unwrap()), &twice));
}

/// Whatever a header says, a load is refused or is sound: it never ends the process, and never reads beyond the file.
#[test]
fn spoilt_headers_never_end_the_process() {
    let mut noise = 11_u64;
    let mut random = move |most: usize| {
        noise = noise
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (noise >> 33) as usize % most
    };
    let folder = Folder::of("qwen3");
    let file = folder.file("model.safetensors");
    let whole = std::fs::read(&file).unwrap();
    let header = u64::from_le_bytes(whole[..8].try_into().unwrap()) as usize;
    let (mut refused, mut loaded) = (0, 0);
    for round in 0..150 {
        let mut bytes = whole.clone();
        for _ in 0..=random(3) {
            let at = 8 + random(header);
            match round % 5 {
                0 => bytes[at] ^= 1 << random(8),
                1 => bytes[at] = b"0123456789[]{},:\"-"[random(18)],
                // A digit stays one: offsets and shapes that lie.
                2 => {
                    if let Some(digit) = (at..8 + header).find(|at| bytes[*at].is_ascii_digit()) {
                        bytes[digit] = b'0' + random(10) as u8;
                    }
                }
                3 => bytes.truncate(bytes.len() - random(2000)),
                _ => bytes[random(8)] ^= 1 << random(8),
            }
            bytes.resize(bytes.len().max(16), 0);
        }
        std::fs::write(&file, &bytes).unwrap();
        match folder.load() {
            Ok(_) => loaded += 1,
            Err(_) => refused += 1,
        }
    }
    assert!(refused > 100, "{refused} refused, {loaded} loaded");
}
