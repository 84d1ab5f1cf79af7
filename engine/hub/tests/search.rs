//! The hub's search, and what is left of downloads that broke off.

#![allow(clippy::unwrap_used)]

#[allow(dead_code, reason = "each test binary uses a part")]
#[path = "common/fake_hub.rs"]
mod fake_hub;

use dspark_hub::{Hub, HubError, Job, Patience};
use fake_hub::{FakeHub, Fault};
use serde_json::{Value, json};
use std::{path::Path, time::Duration};

const REPO: &str = "owner/Model-8bit";

fn row(id: &str, kind: &str, tags: &[&str]) -> Value {
    json!({"id": id, "config": {"model_type": kind}, "tags": tags, "downloads": 1, "gated": false,
           "safetensors": {"parameters": {"BF16": 1000}}})
}

fn hub(home: &Path, at: &FakeHub, offline: bool) -> Hub {
    let hub = Hub::from_vars(home, &|key| match key {
        "HF_ENDPOINT" => Some(format!("http://{}", at.address)),
        "HF_HUB_OFFLINE" => offline.then(|| "1".into()),
        _ => None,
    });
    hub.with_patience(Patience {
        connect: Duration::from_secs(2),
        stall: Duration::from_millis(400),
        attempts: 2,
        backoff: Duration::from_millis(20),
    })
}

fn files(seed: u8) -> Vec<(&'static str, Vec<u8>)> {
    let header = br#"{"w": {"dtype": "U8", "shape": [600000], "data_offsets": [0, 600000]}}"#;
    let mut weights = (header.len() as u64).to_le_bytes().to_vec();
    weights.extend(header);
    weights.extend(std::iter::repeat_n(seed, 600_000));
    vec![
        ("config.json", br#"{"model_type": "qwen3"}"#.to_vec()),
        ("tokenizer.json", b"{}".to_vec()),
        ("model.safetensors", weights),
    ]
}

#[tokio::test]
async fn builds_for_mlx_come_first_and_nothing_comes_twice() {
    let home = tempfile::tempdir().unwrap();
    let at = FakeHub::start(&[]).await;
    at.edit(|repo| {
        repo.found = vec![
            row("vendor/Qwen3-4B", "qwen3", &[]),
            row("mlx/Qwen3-4B-4bit", "qwen3", &["mlx"]),
            row("other/Llama", "llama", &["mlx"]),
        ];
    });
    let found = hub(home.path(), &at, false).search(" qwen3 4b ", &Job::silent()).await.unwrap();
    let names: Vec<&str> = found.iter().map(|row| row.repo.as_str()).collect();
    assert_eq!(names, ["mlx/Qwen3-4B-4bit", "vendor/Qwen3-4B"]);
    assert_eq!(found[0].weight_bytes, Some(2000));
    assert!(
        hub(home.path(), &at, false)
            .search("nothing like it", &Job::silent())
            .await
            .unwrap()
            .is_empty()
    );
}

#[tokio::test]
async fn a_search_that_fails_says_how() {
    let home = tempfile::tempdir().unwrap();
    let at = FakeHub::start(&[]).await;
    let offline = hub(home.path(), &at, true).search("x", &Job::silent()).await;
    assert!(matches!(offline, Err(HubError::Offline { .. })));
    at.edit(|repo| repo.search = Some((429, Some(0))));
    let busy = hub(home.path(), &at, false).search("x", &Job::silent()).await;
    assert!(matches!(busy, Err(HubError::TooMany { after: Some(0), .. })), "{busy:?}");
    at.edit(|repo| repo.search = Some((503, None)));
    let down = hub(home.path(), &at, false).search("x", &Job::silent()).await;
    assert!(matches!(down, Err(HubError::Network { .. })), "{down:?}");
}

#[tokio::test]
async fn what_broke_off_is_listed_and_can_be_discarded() {
    let home = tempfile::tempdir().unwrap();
    let at = FakeHub::start(&files(1)).await;
    let here = hub(home.path(), &at, false);
    at.fault("model.safetensors", [Fault::Drop(200_000)]);
    at.fault("model.safetensors", std::iter::repeat_n(Fault::Status(502, None), 8));
    here.download(REPO, None, &Job::silent()).await.unwrap_err();
    let left = here.leftovers();
    assert_eq!(left.len(), 1);
    assert!(left[0].bytes > 16 << 10 && left[0].bytes < left[0].total, "{left:?}");
    let removed = here.discard(REPO).unwrap();
    assert!(removed.bytes > 16 << 10 && !removed.path.exists());
    assert!(here.leftovers().is_empty());
    assert!(matches!(here.discard(REPO), Err(HubError::NotInstalled { .. })));
}

/// A whole revision and a newer one that broke off share their small files.
#[tokio::test]
async fn discarding_an_update_keeps_the_revision_in_use() {
    let home = tempfile::tempdir().unwrap();
    let at = FakeHub::start(&files(1)).await;
    let here = hub(home.path(), &at, false);
    let whole = here.download(REPO, None, &Job::silent()).await.unwrap();
    at.edit(|repo| {
        repo.commit = "2".repeat(40);
        repo.files[2].1 = files(2).remove(2).1;
        repo.faults.clear();
    });
    at.fault("model.safetensors", std::iter::repeat_n(Fault::Status(502, None), 10));
    here.download(REPO, None, &Job::silent()).await.unwrap_err();
    here.discard(REPO).unwrap();
    assert_eq!(here.resolve(REPO).unwrap().path, whole);
    dspark_hub::verify_at(&whole, &Job::silent()).unwrap();
    assert!(here.leftovers().is_empty());
}

/// Two models of one name: the one that was pointed at goes, and no other.
#[tokio::test]
async fn a_folder_is_removed_by_its_path() {
    let home = tempfile::tempdir().unwrap();
    let at = FakeHub::start(&files(1)).await;
    let here = hub(home.path(), &at, false);
    let downloaded = here.download(REPO, None, &Job::silent()).await.unwrap();
    let own = here.places.models().join("Model-8bit");
    let studio = home.path().join(".lmstudio/models/owner/Model-8bit");
    for folder in [&own, &studio] {
        std::fs::create_dir_all(folder).unwrap();
        for (name, bytes) in files(3) {
            std::fs::write(folder.join(name), bytes).unwrap();
        }
    }
    assert_eq!(here.resolve(REPO).unwrap().path, own);
    let removed = here.remove_at(&downloaded, false).unwrap();
    assert!(removed.bytes > 60_000 && !downloaded.exists() && own.exists());
    let refused = here.remove_at(&studio, false).unwrap_err();
    assert!(refused.to_string().contains("LM Studio") && studio.exists(), "{refused}");
    here.remove_at(&own, false).unwrap();
    assert!(!own.exists());
}
