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
