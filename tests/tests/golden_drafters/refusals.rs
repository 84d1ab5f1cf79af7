//! Drafters that do not fit their target or their own description are refused by name.

use super::*;

#[test]
fn another_target_is_refused() {
    let table = |vocab: i32, hidden: i32| mlx_rs::ops::zeros::<f32>(&[vocab, hidden]).unwrap();
    let mut drafter = Drafter::load(&root().join("speculators-causal-swa"), &exact()).unwrap();
    let mut context = drafter.new_context();
    let unbound = drafter.draft(&one(1), 3, &mut context).unwrap_err().to_string();
    assert!(unbound.contains("has not been bound"), "{unbound}");
    for (ends, named) in [
        (
            Ends::of_tables(table(256, 32), None, 1.0, 8),
            "hidden size is 64, the target's is 32",
        ),
        (
            Ends::of_tables(table(300, 64), None, 1.0, 8),
            "vocabulary is 256, the target's is 300",
        ),
        (
            Ends::of_tables(table(256, 64), None, 1.0, 5),
            "reads layer 5, the target has layers 0 to 4",
        ),
    ] {
        let message = drafter.bind_to(ends.unwrap()).unwrap_err().to_string();
        assert!(message.contains(named), "{message}");
    }
}

/// A copy of a case's folder with its tensors changed.
fn changed(name: &str, change: impl Fn(&mut HashMap<String, Array>)) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let mut tensors = Array::load_safetensors(root().join(name).join("model.safetensors")).unwrap();
    change(&mut tensors);
    let named = tensors.iter().map(|(name, array)| (name.as_str(), array));
    Array::save_safetensors(named, None, dir.path().join("model.safetensors")).unwrap();
    std::fs::copy(root().join(name).join("config.json"), dir.path().join("config.json")).unwrap();
    dir
}

fn refusal(dir: &Path) -> String {
    Drafter::load(dir, &exact()).unwrap_err().to_string()
}

#[test]
fn tensors_that_do_not_fit_are_named() {
    let name = "dspark-native-qwen3";
    let extra = |tensors: &mut HashMap<String, Array>| {
        tensors.insert("layers.0.mystery.weight".into(), one(1));
    };
    let dir = changed(name, extra);
    let message = refusal(dir.path());
    assert!(message.contains("unexpected 1 (layers.0.mystery.weight)"), "{message}");
    let lenient = DrafterOptions { strict: false, ..exact() };
    let drafter = Drafter::load(dir.path(), &lenient).unwrap();
    assert!(drafter.notes[0].contains("layers.0.mystery.weight"), "{:?}", drafter.notes);

    let dir = changed(name, |tensors| drop(tensors.remove("layers.1.self_attn.k_norm.weight")));
    let message = refusal(dir.path());
    assert!(message.contains("missing 1 (layers.1.self_attn.k_norm.weight)"), "{message}");

    let short = |tensors: &mut HashMap<String, Array>| {
        let fc = tensors["fc.weight"].try_index((.., ..128)).unwrap();
        tensors.insert("fc.weight".into(), fc);
    };
    let message = refusal(changed(name, short).path());
    assert!(
        message.contains("`fc.weight`") && message.contains("[64, 128]") && message.contains("[64, 192]"),
        "{message}"
    );

    // Ids in the place of offsets.
    let ids = |tensors: &mut HashMap<String, Array>| {
        let offsets = tensors["d2t"].to_vec_cast::<i64>().unwrap();
        let ids: Vec<i64> = offsets.iter().enumerate().map(|(draft, offset)| draft as i64 + offset).collect();
        tensors.insert("d2t".into(), Array::from_slice(&ids, &[ids.len() as i32]));
    };
    let message = refusal(changed("speculators-reduced-vocab", ids).path());
    assert!(message.contains("`d2t`"), "{message}");
    assert!(refusal(&root().join("nowhere")).contains("no such folder"));
}

/// A GGUF whose header says something else, byte for byte as long.
#[test]
fn other_ggufs_are_refused() {
    let file = root().join("prismml-gguf-logsnr/tiny-dspark-bf16.gguf");
    let bytes = std::fs::read(&file).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let with = |from: &[u8], to: &[u8]| {
        let at = bytes.windows(from.len()).position(|window| window == from).unwrap();
        let mut bytes = bytes.clone();
        bytes[at..at + to.len()].copy_from_slice(to);
        let path = dir.path().join("changed.gguf");
        std::fs::write(&path, bytes).unwrap();
        refusal(&path)
    };
    let architecture = [b"general.architecture".as_slice(), &8_u32.to_le_bytes(), &6_u64.to_le_bytes()].concat();
    let other = |name: &[u8]| [&architecture, name].concat();
    let message = with(&other(b"dspark"), &other(b"llamas"));
    assert!(message.contains("`llamas`"), "{message}");
    let message = with(b"blk.0.ffn_gate.weight", b"blk.0.ffn_gaze.weight");
    assert!(message.contains("`blk.0.ffn_gaze.weight` is unknown"), "{message}");
    // Loads as a file and as a folder.
    assert_eq!(
        Drafter::load(&file, &exact()).unwrap().spec(),
        Drafter::load(file.parent().unwrap(), &exact()).unwrap().spec()
    );
}
