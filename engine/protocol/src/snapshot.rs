use crate::{LastReply, LoadStage, MemoryGuard, Mode, Source, SpeculationState, Totals};
use serde::{Deserialize, Serialize};
use std::{
    collections::VecDeque,
    path::PathBuf,
    sync::{Arc, Mutex},
    time::Instant,
};

/// Where the engine stands. One word and one icon each in the window (`spec/app.md` §0).
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum EngineState {
    #[default]
    Starting,
    NoModel,
    Loading {
        stage: LoadStage,
        done: u64,
        total: u64,
    },
    Ready,
    Prefilling {
        processed: usize,
        total: usize,
    },
    Generating {
        tokens_per_sec: f64,
    },
    Unloading,
    /// The engine cannot serve at all (a failed self-test, say).
    Error {
        reason: String,
    },
    Stopped,
}

/// The loaded model.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ModelInfo {
    pub name: String,
    pub path: PathBuf,
    pub model_type: String,
    /// Bits and group size, or the float type: `4-bit g32`, `bf16`.
    pub quantization: String,
    pub drafter: Option<String>,
    pub mode: Mode,
    /// Parameters, counting unpacked quantized weights.
    pub parameters: u64,
    /// Bytes of weights in memory.
    pub weight_bytes: u64,
    /// Bytes of KV cache per token of context.
    pub kv_bytes_per_token: u64,
    /// Tokens.
    pub context_window: usize,
    pub max_context: usize,
    pub has_chat_template: bool,
    pub supports_thinking: bool,
    pub supports_tools: bool,
    /// Seconds since the Unix epoch.
    pub loaded_at: u64,
    pub load_seconds: f64,
    /// What its user should know: parts of the folder left alone, a window that memory cannot hold.
    pub notes: Vec<String>,
}

/// Bytes, as MLX counts them on its device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Memory {
    pub active: u64,
    pub cache: u64,
    pub peak: u64,
    /// What this machine can give a model: GPU memory, or main memory on the CPU.
    pub limit: u64,
}

/// How fast the device reads memory. Source: `spec/fit-and-roofline.md` §8.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Bandwidth {
    /// GB (10⁹ bytes) a second.
    pub gigabytes_per_second: f64,
    /// Read at a time.
    pub bytes: u64,
    pub samples: usize,
    /// In words: `512 MiB matvec, median of 10`.
    pub method: String,
}

/// The device that computes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct MachineInfo {
    /// `cpu`, `cuda` or `metal`.
    pub backend: String,
    /// `Apple M4 Pro`, `NVIDIA H200`, or the processor's name.
    pub device: String,
    pub cores: usize,
    /// Bytes of main memory.
    pub ram: u64,
    pub mlx_version: String,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ActiveRequest {
    pub id: u64,
    pub client: String,
    pub prompt_tokens: usize,
    pub generated: usize,
    pub waiting: bool,
}

/// A text whose computed prompt is kept.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct PrefixSlot {
    pub tokens: usize,
    /// Allocated, of everything that is kept of it.
    pub bytes: u64,
    /// Places in it that can be gone back to, in tokens, where it cannot simply be cut.
    pub rungs: Vec<usize>,
    /// Kept beside longer ones.
    pub aside: bool,
    /// On disk too.
    pub saved: bool,
}

/// Texts kept on disk.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct PrefixDisk {
    pub entries: usize,
    pub bytes: u64,
    pub limit: u64,
    /// Why nothing is written any more.
    pub stopped: Option<String>,
}

/// The prompts that the loaded model keeps, the last used first. Source: `spec/caching-batching.md` §1.6.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct PrefixState {
    /// Texts that are kept at most, beside short ones; 0 keeps none.
    pub limit: usize,
    pub slots: Vec<PrefixSlot>,
    /// Prompts that a kept text covered as far as could be, in part, and not at all.
    pub hits: u64,
    pub partial_hits: u64,
    pub misses: u64,
    /// Tokens that were not computed again.
    pub reused_tokens: u64,
    /// `None` where nothing is kept on disk.
    pub disk: Option<PrefixDisk>,
    pub disk_reads: u64,
}

/// The latest state of the engine, published at every round (at most 30 times a second while generating).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Snapshot {
    pub state: EngineState,
    pub model: Option<Arc<ModelInfo>>,
    pub machine: Arc<MachineInfo>,
    pub memory: Memory,
    pub requests: Vec<ActiveRequest>,
    pub queue_limit: usize,
    pub totals: Totals,
    /// Decode rate of the last finished generation, tokens a second.
    pub last_decode_rate: Option<f64>,
    /// The last generation of more than one token; gone with its model.
    pub last_reply: Option<LastReply>,
    pub guard: MemoryGuard,
    /// Tokens in the KV cache now.
    pub context_tokens: usize,
    /// How the loaded model speculates; `None` without a model.
    pub speculation: Option<Arc<SpeculationState>>,
    /// What is kept of earlier prompts.
    pub prefix: Arc<PrefixState>,
    #[serde(skip)]
    pub started: Instant,
    /// When the worker last made progress; `/health` judges a stall by it.
    #[serde(skip)]
    pub beat: Instant,
}

impl Default for Snapshot {
    fn default() -> Self {
        let now = Instant::now();
        Self {
            state: EngineState::Starting,
            model: None,
            machine: Arc::default(),
            memory: Memory::default(),
            requests: Vec::new(),
            queue_limit: 0,
            totals: Totals::default(),
            last_decode_rate: None,
            last_reply: None,
            guard: MemoryGuard::default(),
            context_tokens: 0,
            speculation: None,
            prefix: Arc::default(),
            started: now,
            beat: now,
        }
    }
}

/// One decode round: what was guessed and what was kept. Source: `spec/speculation.md` §10.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct RoundRecord {
    pub seq: u64,
    /// Milliseconds since the engine started.
    pub t_ms: f64,
    pub request: u64,
    /// What runs, never `Auto`.
    pub mode: Mode,
    /// Of this request, from 0.
    pub index: u32,
    /// Drafted tokens; of a tree, all its nodes.
    pub drafted: u16,
    /// Of a tree: the longest path; 0 for a chain.
    pub tree_depth: u16,
    pub accepted: u16,
    pub committed: u16,
    /// Drafts allowed; `None` without speculation.
    pub cap: Option<u16>,
    /// Where the drafts came from: `Draft`, `Lookup`, or `Target` for a plain step.
    pub source: Source,
    pub ms: f32,
}

impl RoundRecord {
    /// Positions that were drafted for.
    pub fn depth(&self) -> usize {
        usize::from(if self.tree_depth > 0 { self.tree_depth } else { self.drafted })
    }
}

/// The last 512 rounds, shared between the worker and its readers.
#[derive(Debug, Clone, Default)]
pub struct RoundRing(Arc<Mutex<VecDeque<RoundRecord>>>);

impl RoundRing {
    pub const CAPACITY: usize = 512;

    pub fn push(&self, round: RoundRecord) {
        let mut ring = self.lock();
        if ring.len() == Self::CAPACITY {
            ring.pop_front();
        }
        ring.push_back(round);
    }

    /// Rounds with a sequence number above `after`, oldest first. Readers hold the lock for a copy and no longer.
    pub fn since(&self, after: Option<u64>) -> Vec<RoundRecord> {
        let ring = self.lock();
        let start = after.map_or(0, |seq| ring.partition_point(|round| round.seq <= seq));
        ring.range(start..).copied().collect()
    }

    /// The newest `count` rounds, oldest first.
    pub fn last(&self, count: usize) -> Vec<RoundRecord> {
        let ring = self.lock();
        ring.range(ring.len().saturating_sub(count)..).copied().collect()
    }

    /// Sequence number of the newest round.
    pub fn last_seq(&self) -> Option<u64> {
        self.lock().back().map(|round| round.seq)
    }

    /// Forgets all: the rounds of another model say nothing about this one.
    pub fn clear(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, VecDeque<RoundRecord>> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
