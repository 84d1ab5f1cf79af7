use super::*;
use serde_json::json;

fn file(header: &Value, data: usize) -> Vec<u8> {
    let header = header.to_string();
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &vec![0; data]].concat()
}

fn one(name: &str) -> Vec<u8> {
    file(&json!({name: {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}}), 24)
}

fn folder(files: &[(&str, Vec<u8>)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, data) in files {
        std::fs::write(dir.path().join(name), data).unwrap();
    }
    dir
}

fn index_of(map: &Value) -> Vec<u8> {
    json!({"weight_map": map}).to_string().into_bytes()
}

/// Report dl-001.
#[test]
fn a_missing_shard_is_named() {
    let map =
        json!({"a": "model-00001-of-00003.safetensors", "b": "model-00002-of-00003.safetensors", "c": "model-00003-of-00003.safetensors"});
    let dir = folder(&[
        ("model-00001-of-00003.safetensors", one("a")),
        ("model-00003-of-00003.safetensors", one("c")),
        ("model.safetensors.index.json", index_of(&map)),
    ]);
    let Err(LoadError::Incomplete { missing, .. }) = find(dir.path()) else {
        panic!("it must be refused")
    };
    assert_eq!(missing, ["model-00002-of-00003.safetensors"]);
}

#[test]
fn an_index_left_over_from_a_merge_is_no_obstacle() {
    let dir = folder(&[
        ("model.safetensors", one("a")),
        (
            "model.safetensors.index.json",
            index_of(&json!({"a": "model-00001-of-00001.safetensors"})),
        ),
    ]);
    assert_eq!(find(dir.path()).unwrap().len(), 1);
}

/// Report dl-002.
#[test]
fn without_an_index_every_file_counts() {
    let dir = folder(&[("a.safetensors", one("a")), ("b.safetensors", one("b"))]);
    let found = find(dir.path()).unwrap();
    let names: Vec<_> = found
        .iter()
        .map(|shard| shard.path.file_name().unwrap().to_str().unwrap())
        .collect();
    assert_eq!(names, ["a.safetensors", "b.safetensors"]);
    assert_eq!(found[0].tensors["a"].shape, [2, 3]);
    assert_eq!(found[0].bytes(), 24);
}

/// Report dl-003.
#[test]
fn a_truncated_shard_tells_both_lengths() {
    let whole = one("a");
    let dir = folder(&[("model.safetensors", whole[..whole.len() - 5].to_vec())]);
    let message = find(dir.path()).unwrap_err().to_string();
    let declared = whole.len().to_string();
    for part in ["truncated", &(whole.len() - 5).to_string(), &declared, "model.safetensors"] {
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn lying_headers_are_refused() {
    let entry = |shape: Value, offsets: Value| file(&json!({"a": {"dtype": "F32", "shape": shape, "data_offsets": offsets}}), 24);
    let cases = [
        (entry(json!([2, 3]), json!([0, 20])), "needs 24 bytes"),
        (entry(json!([2, 3]), json!([24, 0])), "needs 24 bytes"),
        (entry(json!([2, 3]), json!([8, 32])), "truncated"),
        (entry(json!([u64::MAX, 3]), json!([0, 24])), "impossible shape"),
        (entry(json!([-1]), json!([0, 24])), "has no shape"),
        (
            file(&json!({"a": {"dtype": "F3", "shape": [1], "data_offsets": [0, 1]}}), 24),
            "unknown dtype",
        ),
        (b"short".to_vec(), "truncated"),
        ((u64::MAX / 2).to_le_bytes().to_vec(), "at most"),
        ([&1000_u64.to_le_bytes()[..], b"{}"].concat(), "truncated"),
        ([&2_u64.to_le_bytes()[..], b"[}"].concat(), "not JSON"),
    ];
    for (data, expected) in cases {
        let dir = folder(&[("model.safetensors", data)]);
        let message = find(dir.path()).unwrap_err().to_string();
        assert!(message.contains(expected), "{expected}: {message}");
    }
}

#[test]
fn other_formats_are_named() {
    let message = |name: &str| find(folder(&[(name, vec![1])]).path()).unwrap_err().to_string();
    assert!(message("pytorch_model.bin").contains("pickle (pytorch_model.bin)"));
    assert!(message("y-Q4_K_M.gguf").contains("GGUF weights (y-Q4_K_M.gguf)"));
    assert!(message("README.md").contains("no *.safetensors"));
}

#[cfg(unix)]
#[test]
fn links_may_lead_to_the_blobs_of_a_cache_and_nowhere_else() {
    use std::os::unix::fs::symlink;
    let cache = tempfile::tempdir().unwrap();
    let (blobs, snapshot) = (cache.path().join("blobs"), cache.path().join("snapshots/abc"));
    std::fs::create_dir_all(&blobs).unwrap();
    std::fs::create_dir_all(&snapshot).unwrap();
    std::fs::write(blobs.join("deadbeef"), one("a")).unwrap();
    symlink("../../blobs/deadbeef", snapshot.join("model.safetensors")).unwrap();
    assert_eq!(find(&snapshot).unwrap().len(), 1);

    let elsewhere = folder(&[("model.safetensors", one("a"))]);
    let dir = tempfile::tempdir().unwrap();
    symlink(elsewhere.path().join("model.safetensors"), dir.path().join("model.safetensors")).unwrap();
    assert!(find(dir.path()).unwrap_err().to_string().contains("a link out of the model folder"));

    // Report dl-007: the blob is not there yet.
    std::fs::remove_file(blobs.join("deadbeef")).unwrap();
    assert!(find(&snapshot).unwrap_err().to_string().contains("no *.safetensors"));
}

#[test]
fn an_index_cannot_name_files_elsewhere() {
    for file in ["../x.safetensors", "/etc/x.safetensors", "sub/x.safetensors", "x.bin"] {
        let dir = folder(&[
            ("model.safetensors", one("a")),
            ("model.safetensors.index.json", index_of(&json!({"a": file}))),
        ]);
        assert!(
            find(dir.path())
                .unwrap_err()
                .to_string()
                .contains("not a weight file of this folder"),
            "{file}"
        );
    }
}

mod properties {
    use super::*;
    use proptest::prelude::*;

    fn json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            prop::sample::select(vec!["F32", "BF16", "U8", "F8_E8M0", "", "__metadata__"]).prop_map(Value::from),
            (0_u64..64).prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            let keys = prop::sample::select(vec!["dtype", "shape", "data_offsets", "a", "b", "__metadata__"]);
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(keys, inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())),
            ]
        })
    }

    /// A header is refused, or every tensor it tells of lies within the file and has the bytes that its shape needs.
    fn sound(bytes: &[u8]) -> std::result::Result<(), TestCaseError> {
        let dir = folder(&[("model.safetensors", bytes.to_vec())]);
        if let Ok(shard) = Shard::open(&dir.path().join("model.safetensors")) {
            for (name, tensor) in &shard.tensors {
                prop_assert!(tensor.bytes <= bytes.len() as u64, "{}", name);
                let elements = tensor.shape.iter().try_fold(1_u64, |all, n| all.checked_mul(*n));
                prop_assert!(elements.is_some_and(|n| n == 0 || tensor.bytes % n == 0), "{} {:?}", name, tensor);
            }
        }
        Ok(())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..200), length in prop_oneof![any::<u64>(), 0_u64..300]) {
            sound(&bytes)?;
            sound(&[&length.to_le_bytes()[..], &bytes].concat())?;
        }

        #[test]
        fn any_json(header in json(), data in 0_usize..64) {
            sound(&file(&header, data))?;
        }

        #[test]
        fn a_true_header_with_lies(
            dtype in prop::sample::select(vec!["F32", "BF16", "U8", "I64", "F4"]),
            shape in prop::collection::vec(prop_oneof![0_u64..6, any::<u64>()], 0..4),
            start in prop_oneof![0_u64..40, any::<u64>()],
            end in prop_oneof![0_u64..40, any::<u64>()],
            data in 0_usize..64,
        ) {
            let header = json!({"a": {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}});
            sound(&file(&header, data))?;
        }
    }
}
