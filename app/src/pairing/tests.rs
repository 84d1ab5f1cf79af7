#![allow(clippy::unwrap_used)]

use super::*;
use serde_json::json;

/// A home with the drafters given as `(oracle case, name in our cache)`.
struct Home(tempfile::TempDir);

impl Home {
    fn with(drafters: &[(&str, &str)]) -> Self {
        let home = tempfile::tempdir().unwrap();
        for (case, name) in drafters {
            let folder = home.path().join(".cache/mlx_dspark/drafters").join(name);
            copy(&oracle(case), &folder);
        }
        Self(home)
    }

    fn hub(&self) -> Hub {
        Hub::from_vars(self.0.path(), &|_| None)
    }

    /// A target's folder with these sizes.
    fn target(&self, name: &str, hidden: usize, vocab: usize) -> PathBuf {
        let folder = self.0.path().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        let config = json!({"model_type": "qwen3", "hidden_size": hidden, "vocab_size": vocab});
        std::fs::write(folder.join("config.json"), config.to_string()).unwrap();
        folder
    }

    fn pair(&self, name: &str, mode: Mode, drafter: Option<&str>) -> Result<Pairing, PairError> {
        let path = self.target(name, 64, 256);
        let wish = Wish {
            mode,
            drafter: drafter.map(str::to_owned),
            ..Wish::default()
        };
        pair(&self.hub(), Target { name, path: &path }, &wish)
    }
}

fn oracle(case: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/oracle/drafters").join(case)
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for file in ["config.json", "model.safetensors"] {
        std::fs::copy(from.join(file), to.join(file)).unwrap();
    }
}

const DSPARK: (&str, &str) = ("dspark-native-qwen3", "deepseek-ai_dspark_qwen3_4b_block7");
const DFLASH: (&str, &str) = ("dflash1-full", "z-lab_Qwen3-4B-DFlash-b16");

fn name(pairing: &Pairing) -> Option<&str> {
    pairing.drafter.as_ref().map(|drafter| drafter.name.as_str())
}

#[test]
fn auto_takes_what_is_here() {
    let both = Home::with(&[DSPARK, DFLASH]);
    let found = both.pair("Qwen3-4B-4bit", Mode::Auto, None).unwrap();
    assert_eq!(name(&found), Some("deepseek-ai/dspark_qwen3_4b_block7"));
    assert_eq!((found.lookup, found.note, found.missing), (Some(true), None, None));
    let found = both.pair("Qwen3-4B-4bit", Mode::Dflash, None).unwrap();
    assert_eq!(name(&found), Some("z-lab/Qwen3-4B-DFlash-b16"));
    assert_eq!(found.lookup, Some(false));
    for mode in [Mode::Baseline, Mode::Lookup] {
        assert_eq!(both.pair("Qwen3-4B-4bit", mode, None).unwrap(), Pairing::default());
    }
    // The second best, and how to get the best.
    let flash = Home::with(&[DFLASH]);
    let found = flash.pair("Qwen3-4B-4bit", Mode::Auto, None).unwrap();
    assert_eq!(name(&found), Some("z-lab/Qwen3-4B-DFlash-b16"));
    let note = found.note.unwrap();
    assert!(note.contains("models pull deepseek-ai/dspark_qwen3_4b_block7"), "{note}");
}

#[test]
fn what_is_not_here_is_named_with_the_way_to_get_it() {
    let bare = Home::with(&[]);
    let found = bare.pair("Qwen3-4B-4bit", Mode::Auto, None).unwrap();
    assert_eq!((name(&found), found.lookup), (None, None));
    assert_eq!(found.missing.as_deref(), Some("deepseek-ai/dspark_qwen3_4b_block7"));
    assert!(
        found
            .note
            .unwrap()
            .contains("mlx-dspark models pull deepseek-ai/dspark_qwen3_4b_block7")
    );
    assert_eq!(bare.pair("Mystery-7B", Mode::Auto, None).unwrap(), Pairing::default());
    for (target, mode, drafter, named) in [
        ("Qwen3-4B-4bit", Mode::Dspark, None, "is not installed"),
        (
            "Qwen3-14B-4bit",
            Mode::Dflash,
            None,
            "no DFlash drafter is known for `Qwen3-14B-4bit`",
        ),
        ("Mystery-7B", Mode::Dspark, None, "`--drafter`"),
        ("Mystery-7B", Mode::Dspark, None, "`--mode lookup`"),
        ("Qwen3-4B-4bit", Mode::Auto, Some("nobody/nothing"), "models pull nobody/nothing"),
        ("Qwen3-4B-4bit", Mode::Auto, Some("./nowhere"), "no such folder"),
    ] {
        let message = bare.pair(target, mode, drafter).unwrap_err().to_string();
        assert!(message.contains(named), "{message}");
    }
    // A drafter that runs without being chosen by itself.
    let message = bare.pair("gemma-4-26b-a4b-it-4bit", Mode::Dspark, None).unwrap_err().to_string();
    assert!(message.contains("--drafter makora-ai/gemma4-26b-a4b-dspark"), "{message}");
}

#[test]
fn a_named_drafter_wins_and_must_fit() {
    let home = Home::with(&[DSPARK, ("dflash2", "mine")]);
    let found = home.pair("Qwen3-4B-4bit", Mode::Auto, Some("mine")).unwrap();
    assert_eq!(
        (name(&found), found.drafter.as_ref().unwrap().kind),
        (Some("mine"), DrafterKind::Dflash)
    );
    let path = oracle("speculators-s0").display().to_string();
    let found = home.pair("Mystery-7B", Mode::Dspark, Some(&path)).unwrap();
    assert_eq!(name(&found), Some("speculators-s0"));
    // A single file, and a folder that holds only one.
    let gguf = oracle("prismml-gguf-logsnr");
    let file = std::fs::read_dir(&gguf)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.extension().is_some_and(|ext| ext == "gguf"))
        .unwrap();
    for path in [&gguf, &file] {
        let found = home.pair("Mystery-7B", Mode::Auto, Some(&path.display().to_string())).unwrap();
        assert_eq!(found.drafter.unwrap().kind, DrafterKind::Dspark, "{}", path.display());
    }
    let message = home.pair("Qwen3-4B-4bit", Mode::Dspark, Some("mine")).unwrap_err().to_string();
    assert!(message.contains("is a DFlash one"), "{message}");
    let message = home
        .pair("Qwen3-4B-4bit", Mode::Auto, Some("smollm2-135m-dspark"))
        .unwrap_err()
        .to_string();
    assert!(message.contains("hidden size is 576, the target's is 64"), "{message}");
}

/// A drafter that auto found and that does not fit is passed over, and told of.
#[test]
fn a_drafter_of_another_size_is_passed_over() {
    let home = Home::with(&[DSPARK]);
    let path = home.target("Qwen3-4B-odd", 96, 256);
    let target = Target {
        name: "Qwen3-4B-odd",
        path: &path,
    };
    let found = pair(&home.hub(), target, &Wish::default()).unwrap();
    assert_eq!(name(&found), None);
    assert!(found.note.unwrap().contains("hidden size is 64, the target's is 96"));
}

#[test]
fn the_starter_has_its_own() {
    let home = Home::with(&[]);
    let path = home.target("SmolLM2-135M-Instruct", 576, 49152);
    for name_of_it in ["starter", "SmolLM2-135M-Instruct"] {
        let target = Target {
            name: name_of_it,
            path: &path,
        };
        let found = pair(&home.hub(), target, &Wish::default()).unwrap();
        assert_eq!(name(&found), Some("smollm2-135m-dspark"), "{name_of_it}");
        assert_eq!((found.lookup, found.note), (Some(true), None));
        let flash = Wish {
            mode: Mode::Dflash,
            ..Wish::default()
        };
        assert_eq!(name(&pair(&home.hub(), target, &flash).unwrap()), Some("smollm2-135m-dflash"));
    }
}

#[test]
fn a_load_is_told_everything() {
    let home = Home::with(&[DFLASH]);
    let request = |wish: Wish| {
        let mut request = LoadRequest {
            name: "Qwen3-4B-4bit".into(),
            path: home.target("Qwen3-4B-4bit", 64, 256),
            ..LoadRequest::default()
        };
        apply(&home.hub(), &wish, &mut request).unwrap();
        request
    };
    let found = request(Wish {
        bits: Some(0),
        max_draft: Some(MaxDraft::Number(0)),
        ..Wish::default()
    });
    assert!(found.drafter.unwrap().ends_with("z-lab_Qwen3-4B-DFlash-b16"));
    assert_eq!((found.drafter_bits, found.mode), (Some(0), Mode::Auto));
    assert!(!found.drafter_required);
    let asked = request(Wish {
        mode: Mode::Dflash,
        ..Wish::default()
    });
    assert!(asked.drafter_required);
    assert_eq!((found.speculation.cap, found.speculation.lookup), (Cap::Full, Some(false)));
    let found = request(Wish {
        mode: Mode::Lookup,
        max_draft: Some(MaxDraft::Number(-3)),
        speculation: SpeculationOptions {
            lookup: Some(true),
            ..SpeculationOptions::default()
        },
        ..Wish::default()
    });
    assert_eq!((found.drafter, found.mode), (None, Mode::Lookup));
    assert_eq!((found.speculation.cap, found.speculation.lookup), (Cap::Fixed(1), Some(true)));
}
