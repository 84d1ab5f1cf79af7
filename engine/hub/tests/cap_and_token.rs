//! Downloads under a cap on their bytes a second, with an access token that a person gave to keep, and of a newer revision.

#![allow(clippy::unwrap_used)]

#[path = "common/fake_hub.rs"]
#[allow(dead_code)]
mod fake_hub;

use dspark_hub::{Hub, HubError, Job, Limit, Stage, TokenFrom};
use fake_hub::FakeHub;
use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};
use tokio_util::sync::CancellationToken;

const REPO: &str = "owner/Model-8bit";
const WEIGHTS: &str = "model.safetensors";

/// A valid safetensors file of about `size` bytes.
fn weights(size: usize) -> Vec<u8> {
    let header = format!(r#"{{"w": {{"dtype": "U8", "shape": [{size}], "data_offsets": [0, {size}]}}}}"#);
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.extend((0..size).map(|at| (at * 7 % 251) as u8));
    bytes
}

fn files(size: usize) -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("config.json", br#"{"model_type": "qwen3"}"#.to_vec()),
        ("tokenizer.json", b"{}".to_vec()),
        (WEIGHTS, weights(size)),
    ]
}

struct Client {
    home: tempfile::TempDir,
    endpoint: String,
    token: Option<&'static str>,
}

impl Client {
    fn new(hub: &FakeHub) -> Self {
        Self {
            home: tempfile::tempdir().unwrap(),
            endpoint: format!("http://{}", hub.address),
            token: None,
        }
    }

    fn hub(&self) -> Hub {
        Hub::from_vars(self.home.path(), &|key| match key {
            "HF_ENDPOINT" => Some(self.endpoint.clone()),
            "HF_TOKEN" => self.token.map(str::to_owned),
            _ => None,
        })
    }

    /// Bytes of the weights that are here, unfinished.
    fn partial(&self) -> u64 {
        let blobs = self.home.path().join(".cache/huggingface/hub/models--owner--Model-8bit/blobs");
        let entries = std::fs::read_dir(blobs).into_iter().flatten().flatten();
        let partial = entries.filter(|entry| entry.path().extension().is_some_and(|ending| ending == "incomplete"));
        partial.map(|entry| entry.metadata().map_or(0, |meta| meta.len())).sum()
    }
}

#[tokio::test]
async fn a_cap_holds_and_is_lifted_while_it_runs() {
    let hub = FakeHub::start(&files(1_500_000)).await;
    let client = Client::new(&hub);
    let limit = Limit::default();
    limit.set(200_000);
    let came = Arc::new(Mutex::new((0_u64, Instant::now())));
    let log = Arc::clone(&came);
    let job = Job::new(CancellationToken::new(), move |at| {
        if at.stage == Stage::Downloading {
            *log.lock().unwrap() = (at.done, Instant::now());
        }
    });
    let capped = client.hub().with_limit(limit.clone());
    let download = tokio::spawn(async move { capped.download(REPO, None, &job).await });
    let begin = Instant::now();
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let (bytes, at) = *came.lock().unwrap();
    // A piece of a body that is there already is not given back: a little more than the cap may have come.
    let most = 200_000.0 * (at - begin).as_secs_f64().max(0.5) + 200_000.0;
    assert!(bytes > 0 && (bytes as f64) < most, "{bytes} bytes in {:?}", at - begin);
    assert!(!download.is_finished());
    limit.set(0);
    let snapshot = tokio::time::timeout(Duration::from_secs(20), download)
        .await
        .unwrap()
        .unwrap()
        .unwrap();
    hub.same(&snapshot, WEIGHTS);
}

#[tokio::test]
async fn a_capped_download_is_cancelled_at_once_and_goes_on_later() {
    let hub = FakeHub::start(&files(1_500_000)).await;
    let client = Client::new(&hub);
    let limit = Limit::default();
    limit.set(1000);
    let cancel = CancellationToken::new();
    let job = Job::new(cancel.clone(), |_| {});
    let capped = client.hub().with_limit(limit);
    let download = tokio::spawn(async move { capped.download(REPO, None, &job).await });
    let begin = Instant::now();
    while client.partial() == 0 {
        assert!(begin.elapsed() < Duration::from_secs(10), "nothing came");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    cancel.cancel();
    let ended = tokio::time::timeout(Duration::from_secs(5), download).await.unwrap().unwrap();
    assert!(matches!(ended, Err(HubError::Cancelled)), "{ended:?}");
    let before = hub.requests().len();
    hub.same(&client.hub().download(REPO, None, &Job::silent()).await.unwrap(), WEIGHTS);
    assert!(
        hub.requests()[before..].iter().any(|request| request.range.is_some()),
        "it went on where it was"
    );
}

#[tokio::test]
async fn a_kept_token_is_private_sent_and_the_last_choice() {
    use std::os::unix::fs::PermissionsExt;
    let hub = FakeHub::start(&files(1000)).await;
    let mut client = Client::new(&hub);
    assert_eq!(client.hub().token_from(), None);
    client.hub().keep_token(Some("  hf_mine\n")).unwrap();
    let file = client.hub().kept_token().to_owned();
    assert!(file.starts_with(client.home.path()));
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(client.hub().token_from(), Some(&TokenFrom::Kept(file.clone())));
    client.hub().download(REPO, None, &Job::silent()).await.unwrap();
    assert!(
        hub.requests()
            .iter()
            .all(|request| request.token.as_deref() == Some("Bearer hf_mine"))
    );
    assert!(!format!("{:?}", client.hub()).contains("hf_mine"), "it is not printed");

    // What other programs use wins, and says so.
    let shared = client.home.path().join(".cache/huggingface/token");
    std::fs::create_dir_all(shared.parent().unwrap()).unwrap();
    std::fs::write(&shared, "hf_shared").unwrap();
    assert_eq!(client.hub().token_from(), Some(&TokenFrom::Shared(shared)));
    client.token = Some("hf_variable");
    assert_eq!(client.hub().token_from(), Some(&TokenFrom::Variable));

    // What is none is refused without a word of it, and the old one stays.
    for wrong in ["", "  ", "two words", "hf_pass\u{e9}"] {
        let refused = client.hub().keep_token(Some(wrong)).unwrap_err();
        assert!(matches!(refused, HubError::NotAToken), "{refused}");
        assert!(wrong.trim().is_empty() || !refused.to_string().contains(wrong));
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "hf_mine");
    client.hub().keep_token(None).unwrap();
    client.hub().keep_token(None).unwrap();
    assert!(!file.exists());
}

#[tokio::test]
async fn a_newer_revision_is_told_and_got() {
    let hub = FakeHub::start(&files(1000)).await;
    let client = Client::new(&hub);
    let newest = async || client.hub().info(REPO, None, &Job::silent()).await.unwrap();
    assert!(!client.hub().is_behind(&newest().await), "nothing is here");
    let first = client.hub().download(REPO, None, &Job::silent()).await.unwrap();
    assert!(!client.hub().is_behind(&newest().await));
    hub.edit(|repo| {
        repo.commit = "2".repeat(40);
        repo.files[2].1 = weights(2000);
    });
    assert!(client.hub().is_behind(&newest().await));
    // What is here is still what its name means until the newer one is whole.
    assert_eq!(client.hub().resolve(REPO).unwrap().path, first);
    let second = client.hub().download(REPO, None, &Job::silent()).await.unwrap();
    assert!(!client.hub().is_behind(&newest().await));
    assert_eq!(client.hub().resolve(REPO).unwrap().path, second);
    hub.same(&second, WEIGHTS);
}
