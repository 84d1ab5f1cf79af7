//! A tiny deterministic model for tests of the engine thread: a byte tokenizer, and a recurrent target whose logits
//! depend on every token before them, with switches for whatever can go wrong.
#![allow(clippy::unwrap_used, dead_code, unreachable_pub)]

use dspark_engine::{
    engine::EngineOptions,
    model::{Loaded, ModelLoader},
    protocol::{
        EngineError, EngineHandle, Event, Generation, LoadEvent, LoadRequest, LoadStage, Mode, ModelInfo, Prompt, Request, Result,
        Sampling, Summary, TokenInfo,
    },
    target::{Cache, Logits, Output, Rows, Target},
    text::Tokenizer,
};
use mlx_rs::{
    Array, Dtype,
    error::Exception,
    ops::{self, indexing::IndexOp},
    random,
};
use std::{
    fs,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};
use tokio_util::sync::CancellationToken;

/// 256 bytes and five special tokens; ids of bytes are the bytes.
pub const VOCAB: usize = 261;
pub const EOS: u32 = 256;
const SPECIAL: [&str; 5] = ["<|end|>", "<|system|>", "<|user|>", "<|assistant|>", "<|pad|>"];
const HIDDEN: i32 = 16;

/// What a test can do to the model while it runs.
#[derive(Default)]
pub struct Switches {
    /// Forwards so far, prefill included.
    pub forwards: AtomicUsize,
    /// Rows so far.
    pub rows: AtomicUsize,
    /// The forward that takes the cache past this length (0: none) panics, once.
    pub panic_past: AtomicUsize,
    /// The same, but an error.
    pub fail_past: AtomicUsize,
    /// Each forward takes at least this many microseconds.
    pub delay_us: AtomicU64,
    /// Instead of the recurrence: after the first `.0` tokens come exactly these, then the end.
    pub script: Mutex<Option<(usize, Vec<u32>)>>,
    /// Logits are not numbers.
    pub nan: AtomicBool,
    /// A load takes this many reports, ten milliseconds each.
    pub load_steps: AtomicU64,
    /// Loads are checked to need more memory than there is beside another model.
    pub huge: AtomicBool,
    /// Models say that they need more memory than any machine has.
    pub vast: AtomicBool,
    /// No model loads while this is set.
    pub fail_again: AtomicBool,
    /// Loads under way or done.
    pub loads: AtomicUsize,
}

impl Switches {
    pub fn say(&self, after: usize, text: &str) {
        *self.script.lock().unwrap() = Some((after, text.bytes().map(u32::from).collect()));
    }
}

pub struct Toy {
    embedding: Array,
    recurrence: Array,
    output: Array,
    ballast: Array,
    switches: Arc<Switches>,
    max_context: usize,
}

impl Toy {
    fn new(switches: Arc<Switches>, max_context: usize, ballast: usize, seed: u64) -> std::result::Result<Self, Exception> {
        let normal = |shape: &[i32], scale: f32, salt: u64| -> std::result::Result<Array, Exception> {
            let key = random::key(seed * 16 + salt)?;
            random::normal::<f32>(shape, None, None, &key)?.multiply(Array::from_f32(scale))
        };
        let toy = Self {
            embedding: normal(&[VOCAB as i32, HIDDEN], 1.0, 1)?,
            recurrence: normal(&[HIDDEN, HIDDEN], 0.3, 2)?,
            output: normal(&[HIDDEN, VOCAB as i32], 1.5, 3)?,
            ballast: Array::zeros::<f32>(&[(ballast / 4).max(1) as i32])?,
            switches,
            max_context,
        };
        mlx_rs::transforms::eval([&toy.embedding, &toy.recurrence, &toy.output, &toy.ballast])?;
        Ok(toy)
    }

    fn trip(&self, length: usize) -> std::result::Result<(), Exception> {
        let past = |switch: &AtomicUsize| {
            let at = switch.load(SeqCst);
            at > 0 && length > at && switch.compare_exchange(at, 0, SeqCst, SeqCst).is_ok()
        };
        assert!(!past(&self.switches.panic_past), "planted panic at length {length}");
        if past(&self.switches.fail_past) {
            return Err(Exception::custom("planted failure"));
        }
        Ok(())
    }
}

/// The state after every token, so that any number can be dropped.
#[derive(Default)]
struct States {
    rows: Option<Array>,
    len: usize,
}

impl Cache for States {
    fn len(&self) -> usize {
        self.len
    }
    fn trim(&mut self, n: usize) -> std::result::Result<(), Exception> {
        self.len -= n;
        self.rows = self.rows.take().filter(|_| self.len > 0).map(|rows| rows.index(..self.len as i32));
        Ok(())
    }
    fn commit(&mut self, _rows: usize, _path: &[usize]) -> std::result::Result<(), Exception> {
        Err(Exception::custom("the toy knows no trees"))
    }
    fn trimmable(&self) -> bool {
        true
    }
    fn arrays(&self) -> Vec<&Array> {
        self.rows.iter().collect()
    }
    fn bytes(&self) -> usize {
        self.rows.as_ref().map_or(0, Array::nbytes)
    }
}

impl Target for Toy {
    fn vocab(&self) -> usize {
        VOCAB
    }
    fn max_context(&self) -> usize {
        self.max_context
    }
    fn layers(&self) -> usize {
        1
    }
    fn new_cache(&self) -> Box<dyn Cache> {
        Box::new(States::default())
    }
    fn forward(&self, rows: &Rows<'_>, cache: &mut dyn Cache) -> std::result::Result<Output, Exception> {
        let begun = Instant::now();
        let states = (cache as &mut dyn std::any::Any).downcast_mut::<States>().unwrap();
        let n = rows.tokens.dim(1);
        self.switches.forwards.fetch_add(1, SeqCst);
        self.switches.rows.fetch_add(n as usize, SeqCst);
        self.trip(states.len + n as usize)?;
        let embedded = self.embedding.take_axis(rows.tokens.reshape(&[n])?, 0)?;
        let mut all: Vec<Array> = states.rows.iter().cloned().collect();
        let mut last = match &states.rows {
            Some(rows) => rows.index(-1..),
            None => Array::zeros::<f32>(&[1, HIDDEN])?,
        };
        for i in 0..n {
            let input = embedded.index(i..i + 1);
            last = ops::tanh(&ops::matmul(&last, &self.recurrence)?.add(input)?)?;
            all.push(last.clone());
        }
        let joined = ops::concatenate(&all, 0)?;
        states.len += n as usize;
        let new = joined.index(-n..);
        states.rows = Some(joined);
        while begun.elapsed() < Duration::from_micros(self.switches.delay_us.load(SeqCst)) {
            std::thread::sleep(Duration::from_micros(200));
        }
        let shown = match rows.logits {
            Logits::None => {
                return Ok(Output {
                    logits: None,
                    features: None,
                });
            }
            Logits::Last => new.index(-1..),
            Logits::All => new,
        };
        let mut logits = ops::matmul(&shown, &self.output)?.reshape(&[1, shown.dim(0), VOCAB as i32])?;
        if let Some((after, ids)) = &*self.switches.script.lock().unwrap() {
            let next = states.len.checked_sub(*after).and_then(|at| ids.get(at)).copied().unwrap_or(EOS);
            let mut row = vec![0.0_f32; VOCAB];
            row[next as usize] = 1000.0;
            // Still a function of the tokens, so that nothing runs ahead of them.
            logits = logits
                .multiply(Array::from_f32(0.0))?
                .add(Array::from_slice(&row, &[1, 1, VOCAB as i32]))?;
        }
        if self.switches.nan.load(SeqCst) {
            logits = logits.multiply(Array::from_f32(f32::NAN))?;
        }
        Ok(Output {
            logits: Some(logits.as_dtype(Dtype::Float32)?),
            features: None,
        })
    }
}

/// Loads toys. The name says how: `fail` and `panic` do so half-way; else the name's length is part of the weights.
pub struct ToyLoader {
    pub switches: Arc<Switches>,
    pub max_context: usize,
    pub ballast: usize,
}

impl ModelLoader for ToyLoader {
    fn size(&mut self, _: &LoadRequest) -> Option<u64> {
        self.switches.vast.load(SeqCst).then_some(1 << 60)
    }

    fn check(&mut self, request: &LoadRequest) -> Result<Option<u64>> {
        if request.name == "unfit" {
            return Err(EngineError::Load {
                model: "unfit".into(),
                reason: "its configuration is broken".into(),
            });
        }
        let huge = self.switches.huge.load(SeqCst);
        Ok(huge.then_some(1 << 60))
    }

    fn load(&mut self, request: &LoadRequest, report: &mut dyn FnMut(LoadStage, u64, u64), cancel: &CancellationToken) -> Result<Loaded> {
        self.switches.loads.fetch_add(1, SeqCst);
        let toy = Toy::new(self.switches.clone(), self.max_context, self.ballast, request.name.len() as u64)
            .map_err(|error| EngineError::Compute(error.to_string()))?;
        let steps = self.switches.load_steps.load(SeqCst);
        for step in 0..steps {
            std::thread::sleep(Duration::from_millis(10));
            report(LoadStage::Reading, step + 1, steps);
            if cancel.is_cancelled() {
                return Err(EngineError::Cancelled);
            }
        }
        match request.name.as_str() {
            "fail" => {
                return Err(EngineError::Load {
                    model: "fail".into(),
                    reason: "planted".into(),
                });
            }
            "panic" => panic!("planted panic in a load"),
            _ if self.switches.fail_again.load(SeqCst) => {
                return Err(EngineError::Load {
                    model: request.name.clone(),
                    reason: "planted again".into(),
                });
            }
            _ => {}
        }
        let folder = tempfile::tempdir().unwrap();
        write_tokenizer(folder.path());
        let tokenizer = Tokenizer::load(folder.path())?;
        Ok(Loaded {
            target: Box::new(toy),
            drafter: None,
            drafter_refused: None,
            tokenizer,
            eos: vec![EOS],
            facts: ModelInfo {
                name: request.name.clone(),
                path: request.path.clone(),
                weight_bytes: self.ballast as u64,
                context_window: self.max_context,
                max_context: self.max_context,
                ..facts()
            },
        })
    }
}

/// What a toy tells of itself.
pub fn facts() -> ModelInfo {
    ModelInfo {
        name: "toy".into(),
        path: "toy".into(),
        model_type: "toy".into(),
        quantization: "f32".into(),
        drafter: None,
        mode: Mode::Auto,
        parameters: 0,
        weight_bytes: 0,
        kv_bytes_per_token: 64,
        context_window: 4096,
        max_context: 4096,
        has_chat_template: true,
        supports_thinking: false,
        supports_tools: false,
        loaded_at: 0,
        load_seconds: 0.0,
        notes: Vec::new(),
    }
}

/// A byte-level tokenizer without merges, with a template of its special tokens.
pub fn write_tokenizer(folder: &Path) {
    // The printable stand-ins that byte-level tokenizers use for bytes.
    let printable = |byte: u8| matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
    let mut spare = 0_u32;
    let vocab: serde_json::Map<String, serde_json::Value> = (0..=255_u8)
        .map(|byte| {
            let character = if printable(byte) {
                char::from(byte)
            } else {
                spare += 1;
                char::from_u32(255 + spare).unwrap()
            };
            (character.to_string(), byte.into())
        })
        .collect();
    let added: Vec<_> = SPECIAL
        .iter()
        .enumerate()
        .map(|(i, content)| {
            serde_json::json!({"id": 256 + i, "content": content, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true})
        })
        .collect();
    let tokenizer = serde_json::json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": added, "normalizer": null,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false},
        "post_processor": null,
        "decoder": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false},
        "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null, "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": false, "vocab": vocab, "merges": []}
    });
    let config = serde_json::json!({
        "tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|end|>", "pad_token": "<|pad|>", "model_max_length": 4096,
        "chat_template": "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% if m.role == 'assistant' %}<|end|>{% endif %}{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
    });
    fs::write(folder.join("tokenizer.json"), tokenizer.to_string()).unwrap();
    fs::write(folder.join("tokenizer_config.json"), config.to_string()).unwrap();
    fs::write(
        folder.join("config.json"),
        serde_json::json!({"model_type": "toy", "eos_token_id": EOS}).to_string(),
    )
    .unwrap();
}

/// A running engine with a toy in it.
pub struct Bench {
    pub engine: EngineHandle,
    pub switches: Arc<Switches>,
}

pub fn options(switches: &Arc<Switches>) -> EngineOptions {
    EngineOptions {
        loader: Box::new(ToyLoader {
            switches: switches.clone(),
            max_context: 4096,
            ballast: 4,
        }),
        prefill_chunk: Some(32),
        self_test: || Ok(()),
        ..EngineOptions::default()
    }
}

pub fn bench() -> Bench {
    bench_with(|_| {})
}

pub fn bench_with(change: impl FnOnce(&mut EngineOptions)) -> Bench {
    let switches = Arc::new(Switches::default());
    let mut options = options(&switches);
    change(&mut options);
    let engine = dspark_engine::engine::start(options);
    load(&engine, "toy").unwrap();
    Bench { engine, switches }
}

pub fn request_load(name: &str) -> LoadRequest {
    LoadRequest {
        name: name.into(),
        path: "toy".into(),
        ..LoadRequest::default()
    }
}

/// Loads and waits for the verdict.
pub fn load(engine: &EngineHandle, name: &str) -> Result<Arc<ModelInfo>> {
    let mut loading = engine.load(request_load(name)).unwrap();
    loop {
        match loading.next_blocking().expect("a verdict") {
            LoadEvent::Stage { .. } => {}
            LoadEvent::Ready(info) => return Ok(info),
            LoadEvent::Failed(error) => return Err(error),
        }
    }
}

pub fn prompt(text: &str) -> Vec<u32> {
    text.bytes().map(u32::from).collect()
}

/// A greedy request on raw ids that names its tokens.
pub fn request(ids: Vec<u32>, max_tokens: usize) -> Request {
    Request {
        client: "test".into(),
        prompt: Prompt::Tokens(ids),
        return_token_ids: true,
        ignore_eos: true,
        // The toy repeats itself; what is counted in forwards and events here is one token each.
        mode: Mode::Baseline,
        ..Request::chat("test", Vec::new(), max_tokens)
    }
}

pub fn sampled(ids: Vec<u32>, max_tokens: usize, seed: Option<u64>) -> Request {
    Request {
        sampling: Sampling {
            temperature: 1.0,
            seed,
            ..Sampling::default()
        },
        ..request(ids, max_tokens)
    }
}

/// Everything that a generation said.
#[derive(Debug)]
pub struct Answer {
    pub text: String,
    pub deltas: Vec<String>,
    pub tokens: Vec<TokenInfo>,
    pub queued: Vec<usize>,
    pub started: Option<(usize, usize)>,
    pub prefill: Vec<(usize, usize)>,
    pub end: Result<Summary>,
}

impl Answer {
    pub fn summary(&self) -> &Summary {
        self.end.as_ref().unwrap()
    }
    pub fn ids(&self) -> &[u32] {
        &self.summary().token_ids
    }
}

pub fn read(mut generation: Generation) -> Answer {
    let mut answer = Answer {
        text: String::new(),
        deltas: Vec::new(),
        tokens: Vec::new(),
        queued: Vec::new(),
        started: None,
        prefill: Vec::new(),
        end: Err(EngineError::Stopped),
    };
    let mut ended = false;
    while let Some(event) = generation.next_blocking() {
        assert!(!ended, "an event after the last: {event:?}");
        match event {
            Event::Queued { position } => {
                assert!(answer.started.is_none());
                answer.queued.push(position);
            }
            Event::Started {
                prompt_tokens,
                cached_tokens,
            } => {
                assert!(answer.started.is_none());
                answer.started = Some((prompt_tokens, cached_tokens));
            }
            Event::Prefill { processed, total } => {
                assert!(answer.started.is_some() && answer.deltas.is_empty());
                answer.prefill.push((processed, total));
            }
            Event::Delta(delta) => {
                assert!(answer.started.is_some());
                answer.text.push_str(&delta.text);
                answer.deltas.push(delta.text);
                answer.tokens.extend(delta.tokens);
            }
            Event::Finished(summary) => {
                answer.end = Ok(*summary);
                ended = true;
            }
            Event::Failed(error) => {
                answer.end = Err(error);
                ended = true;
            }
        }
    }
    assert!(ended, "no last event");
    answer
}

/// What a generation ends with.
pub fn read_rest(mut generation: Generation) -> Result<Summary> {
    loop {
        match generation.next_blocking().expect("a last event") {
            Event::Finished(summary) => return Ok(*summary),
            Event::Failed(error) => return Err(error),
            _ => {}
        }
    }
}

/// The logits after these tokens, computed apart from the engine: a toy of the same weights.
pub fn raw_logits(ids: &[u32]) -> Vec<f32> {
    let toy = Toy::new(Arc::default(), 4096, 4, "toy".len() as u64).unwrap();
    let tokens = Array::from_slice(ids, &[1, ids.len() as i32]);
    let output = toy.forward(&Rows::chain(&tokens, Logits::Last), &mut States::default()).unwrap();
    output.logits.unwrap().to_vec_exact::<f32>().unwrap()
}

impl Bench {
    pub fn ask(&self, request: Request) -> Answer {
        read(self.engine.submit(request).unwrap())
    }

    /// Waits until the snapshot satisfies this.
    pub fn until(&self, what: &str, satisfied: impl Fn(&dspark_engine::protocol::Snapshot) -> bool) {
        let begun = Instant::now();
        while !satisfied(&self.engine.snapshot()) {
            assert!(
                begun.elapsed() < Duration::from_secs(20),
                "waited in vain for {what}: {:?}",
                self.engine.snapshot()
            );
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.engine.shutdown();
    }
}
