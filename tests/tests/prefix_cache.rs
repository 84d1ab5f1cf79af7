//! Prompts that are kept, through the engine's own door: what a later request reuses, and that it answers as a cold run does,
//! on layers that can be cut and on those that cannot, in one process and after a restart.
#![allow(clippy::unwrap_used)]

use dspark_engine::{
    DiskOptions, EngineOptions,
    load::{LoadOptions, load},
    model::{Loaded, ModelLoader},
    protocol::{EngineHandle, Event, LoadEvent, LoadRequest, LoadStage, Mode, ModelInfo, PrefixState, Prompt, Request, Result, Summary},
    start,
    text::Tokenizer,
};
use mlx_rs::Dtype;
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::Duration,
};
use tokio_util::sync::CancellationToken;

/// A dense one, one with windows, and the three kinds of recurrent state.
const TARGETS: [&str; 5] = ["llama", "llama-sliding", "qwen3_5", "nemotron_h", "lfm2"];

/// Tiny checkpoints of the oracle, with a tokenizer that is only there to be had: prompts are ids.
struct Tiny;

impl ModelLoader for Tiny {
    fn load(&mut self, request: &LoadRequest, _: &mut dyn FnMut(LoadStage, u64, u64), cancel: &CancellationToken) -> Result<Loaded> {
        let options = LoadOptions {
            activations: Some(Dtype::Float32),
            kv: Some(Dtype::Float32),
        };
        let model = load(&request.path, &options, &mut |_, _| (), cancel).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let tokenizer = Path::new(env!("CARGO_MANIFEST_DIR")).join("../engine/text/tests/data/tokenizers/byte.json");
        fs::copy(tokenizer, folder.path().join("tokenizer.json")).unwrap();
        let template = request.name.split_once('/').map_or("", |(_, template)| template);
        if !template.is_empty() {
            fs::write(folder.path().join("chat_template.jinja"), format!("{{# {template} #}}x")).unwrap();
        }
        let facts = model.facts;
        Ok(Loaded {
            target: Box::new(model.decoder),
            drafter: None,
            drafter_refused: None,
            tokenizer: Tokenizer::load(folder.path()).unwrap(),
            eos: Vec::new(),
            facts: ModelInfo {
                name: request.name.clone(),
                path: facts.path,
                model_type: facts.model_type,
                quantization: facts.quantization,
                drafter: None,
                mode: request.mode,
                parameters: facts.parameters,
                weight_bytes: facts.weight_bytes,
                kv_bytes_per_token: facts.kv_bytes_per_token,
                context_window: 32_768,
                max_context: 32_768,
                has_chat_template: false,
                supports_thinking: false,
                supports_tools: false,
                loaded_at: 0,
                load_seconds: 0.0,
                notes: Vec::new(),
            },
        })
    }
}

struct Bench(EngineHandle);

impl Bench {
    fn new(target: &str, slots: usize, disk: Option<DiskOptions>) -> Self {
        let bench = Self(start(EngineOptions {
            loader: Box::new(Tiny),
            prefix_slots: slots,
            prefix_disk: disk,
            self_test: || Ok(()),
            ..EngineOptions::default()
        }));
        bench.load(target);
        bench
    }

    /// `name` or `name/template`.
    fn load(&self, name: &str) {
        let target = name.split('/').next().unwrap();
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/oracle/targets").join(target);
        let request = LoadRequest {
            name: name.into(),
            path,
            mode: Mode::Baseline,
            ..LoadRequest::default()
        };
        let mut loading = self.0.load(request).unwrap();
        while let Some(event) = loading.next_blocking() {
            match event {
                LoadEvent::Ready(_) => return,
                LoadEvent::Failed(error) => panic!("{error}"),
                LoadEvent::Stage { .. } => {}
            }
        }
        panic!("the load said nothing");
    }

    fn ask(&self, prompt: &[u32], fresh: bool, n: usize) -> (Vec<u32>, Summary) {
        let request = Request {
            prompt: Prompt::Tokens(prompt.to_vec()),
            mode: Mode::Baseline,
            return_token_ids: true,
            fresh,
            ..Request::chat("test", Vec::new(), n)
        };
        let mut generation = self.0.submit(request).unwrap();
        while let Some(event) = generation.next_blocking() {
            match event {
                Event::Finished(summary) => return (summary.token_ids.clone(), *summary),
                Event::Failed(error) => panic!("{error}"),
                _ => {}
            }
        }
        panic!("the generation said nothing at its end");
    }

    /// Asks, and asks for the same without any cache: the texts are the same. What was reused.
    fn check(&self, prompt: &[u32], what: &str) -> usize {
        let (cached, summary) = self.ask(prompt, false, 12);
        let (cold, alone) = self.ask(prompt, true, 12);
        assert_eq!(alone.usage.cached_tokens, 0);
        assert_eq!(cached, cold, "{what}: the text differs from a cold run's");
        summary.usage.cached_tokens
    }

    fn state(&self) -> PrefixState {
        PrefixState::clone(&self.0.snapshot().prefix)
    }

    fn end(self) {
        self.0.shutdown();
        let mut changes = self.0.subscribe();
        let stopped = async {
            let _ = changes
                .wait_for(|now| now.state == dspark_engine::protocol::EngineState::Stopped)
                .await;
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async { tokio::time::timeout(Duration::from_mins(1), stopped).await.unwrap() });
    }
}

/// Ids that the tiny vocabularies have.
fn text(seed: u32, n: usize) -> Vec<u32> {
    let mut state = seed.wrapping_mul(2_654_435_761) | 1;
    (0..n)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            1 + (state >> 16) % 90
        })
        .collect()
}

/// Cases pc-002 and pc-004 and the turns of a chat, on every kind of layer.
#[test]
fn later_requests_go_on_from_what_was_computed() {
    for target in TARGETS {
        let bench = Bench::new(target, 2, None);
        let first = text(1, 1500);
        assert_eq!(bench.check(&first, target), 0);
        let again = bench.check(&first, target);
        assert_eq!(again, 1499, "{target}: an identical prompt");
        // A turn that leaves the earlier answer out, as templates do that drop what was thought.
        let second = [&first[..], &text(2, 200)].concat();
        let reused = bench.check(&second, target);
        assert!(reused >= 1499, "{target}: {reused} of {}", second.len());
        // A title is asked for in between.
        assert_eq!(bench.check(&text(3, 300), target), 0);
        let third = [&second[..], &text(4, 100)].concat();
        let reused = bench.check(&third, target);
        assert!(reused >= 1699, "{target}: {reused} after a side call");
        // Another chat with the same long beginning: its fork is known from the second on, and the first chat stays whole.
        let forks: Vec<usize> = [5, 6]
            .map(|seed| bench.check(&[&first[..1200], &text(seed, 900)].concat(), target))
            .into();
        let known = if target == "llama" { 1200 } else { 0 };
        assert!(forks[0] >= known && forks[1] == 1200, "{target}: {forks:?}");
        bench.end();
    }
}

#[test]
fn what_is_kept_is_counted() {
    let bench = Bench::new("qwen3_5", 2, None);
    bench.ask(&text(1, 400), false, 4);
    bench.ask(&text(1, 400), false, 4);
    let state = bench.state();
    assert_eq!((state.hits, state.misses, state.reused_tokens), (1, 1, 399));
    assert_eq!(state.slots.len(), 1);
    assert_eq!((state.slots[0].tokens, &state.slots[0].rungs[..]), (403, &[399][..]));
    assert!(state.slots[0].bytes > 0 && state.disk.is_none());
    bench.end();
}

fn disk(folder: &Path, limit: u64) -> DiskOptions {
    DiskOptions {
        folder: folder.to_owned(),
        limit,
        patience: Duration::from_hours(1),
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

#[test]
fn texts_survive_a_restart() {
    for target in TARGETS {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("prompts");
        let prompt = text(1, 1500);
        let bench = Bench::new(target, 2, Some(disk(&folder, 1 << 30)));
        let (first, _) = bench.ask(&prompt, false, 12);
        bench.end();
        let kept = files(&folder);
        assert_eq!(kept.len(), 2, "{target}: {kept:?}");
        assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
        assert!(
            kept.iter()
                .all(|file| fs::metadata(file).unwrap().permissions().mode() & 0o777 == 0o600)
        );

        let bench = Bench::new(target, 2, Some(disk(&folder, 1 << 30)));
        let (again, summary) = bench.ask(&prompt, false, 12);
        assert_eq!((again, summary.usage.cached_tokens), (first, 1499), "{target}");
        assert_eq!(bench.state().disk_reads, 1);
        // The next turn, in the same run, and again the side call costs nothing.
        let next = [&prompt[..], &text(2, 100)].concat();
        assert!(bench.check(&next, target) >= 1499);
        bench.end();
        assert_eq!(files(&folder).len(), 2, "{target}: the longer text stands for the shorter");

        // Another template's and another model's texts are left alone.
        let bench = Bench::new(&format!("{target}/other"), 2, Some(disk(&folder, 1 << 30)));
        assert_eq!(bench.ask(&prompt, false, 4).1.usage.cached_tokens, 0);
        bench.load(if target == "llama" { "qwen3" } else { "llama" });
        assert_eq!(bench.ask(&prompt, false, 4).1.usage.cached_tokens, 0);
        bench.end();
    }
}

/// Case pc-007, small.
#[test]
fn the_disk_is_bounded_and_the_oldest_leaves() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().to_owned();
    let bench = Bench::new("llama", 1, Some(disk(&folder, 1 << 30)));
    for seed in 1..=4 {
        bench.ask(&text(seed, 1500), false, 4);
    }
    bench.end();
    let all: u64 = files(&folder).iter().map(|file| fs::metadata(file).unwrap().len()).sum();
    assert_eq!(files(&folder).len(), 8);
    fs::write(folder.join("notes.txt"), "mine").unwrap();
    // Of another format, and the oldest of all.
    let foreign = folder.join(format!("{}.safetensors", "a".repeat(32)));
    fs::write(&foreign, vec![0; 5000]).unwrap();
    fs::write(foreign.with_extension("json"), "{\"format\": 99}").unwrap();
    fs::File::options()
        .append(true)
        .open(&foreign)
        .unwrap()
        .set_modified(std::time::SystemTime::UNIX_EPOCH)
        .unwrap();
    // Left by a crash: one file of two.
    fs::write(folder.join(format!("{}.safetensors", "b".repeat(32))), "half").unwrap();

    let limit = all * 5 / 8;
    let bench = Bench::new("llama", 1, Some(disk(&folder, limit)));
    let found = bench.state().disk.unwrap();
    assert!(found.bytes <= limit && found.entries == 2, "{found:?}");
    assert!(!foreign.exists() && folder.join("notes.txt").exists());
    assert_eq!(files(&folder).len(), 5);
    let reused = |seed| bench.ask(&text(seed, 1500), false, 4).1.usage.cached_tokens;
    assert_eq!((reused(1), reused(4)), (0, 1499), "the youngest stayed");
    bench.end();
    assert!(files(&folder).len() <= 5);
}

#[test]
fn a_damaged_or_unwritable_text_costs_nothing_but_itself() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().to_owned();
    let prompt = text(1, 1500);
    let bench = Bench::new("lfm2", 1, Some(disk(&folder, 1 << 30)));
    let (first, _) = bench.ask(&prompt, false, 12);
    bench.end();
    let arrays = files(&folder)
        .into_iter()
        .find(|file| file.extension().unwrap() == "safetensors")
        .unwrap();
    let mut bytes = fs::read(&arrays).unwrap();
    let at = bytes.len() / 2;
    bytes[at] ^= 1;
    fs::write(&arrays, bytes).unwrap();
    let bench = Bench::new("lfm2", 1, Some(disk(&folder, 1 << 30)));
    let (again, summary) = bench.ask(&prompt, false, 12);
    assert_eq!((again, summary.usage.cached_tokens), (first.clone(), 0));
    assert!(files(&folder).is_empty(), "the damaged one is gone");
    // A folder that cannot be had: serving goes on from memory.
    bench.end();
    let bench = Bench::new("lfm2", 1, Some(disk(Path::new("/proc/no/such"), 1 << 30)));
    assert_eq!(bench.ask(&prompt, false, 12).0, first);
    assert!(bench.state().disk.is_none());
    bench.end();
}
