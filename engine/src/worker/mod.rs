//! The one thread that owns every MLX array, model and cache: admit → prefill chunk → round → publish. It never
//! blocks on I/O but while it loads; commands are taken in between chunks, rounds and tensors.
//!
//! | file | owns |
//! |---|---|
//! | `inbox` | the queue: bounds, positions, cancellation of what waits |
//! | `outlet` | a generation's events, back-pressure |
//! | `encode` | prompts to ids, long ones beside the engine thread |
//! | `generate` | one generation from admission to its summary |
//! | `decode` | its rounds |
//! | `chunk` | how much of a prompt is computed at once |
//! | `step` | the device's side of it |
//! | `text` | ids to text deltas |
//! | `load` | loading beside the old model, unloading |

mod chunk;
mod decode;
mod encode;
mod generate;
mod inbox;
mod load;
mod outlet;
pub(crate) mod step;
mod text;

use crate::{
    device::Device,
    engine::EngineOptions,
    grammar::Grammars,
    machine::{LOOK_EVERY, Pressure, PressureWatch},
    model::{Loaded, ModelLoader},
    prefix::{DiskOptions, PrefixStore},
    sample::Place,
    speculate::{Pair, calibrate::Calibration, forcing},
    telemetry::Board,
};
use arc_swap::ArcSwapOption;
use chunk::Chunks;
use dspark_grammar::Start;
use dspark_protocol::{
    Bandwidth, EngineError, EngineState, ForceCommand, ForcingReport, LoadRequest, ModelInfo, PromptCodec, Result, Snapshot, Worker,
};
use dspark_text::Tails;
use encode::Encoder;
use inbox::{Inbox, Job};
use mlx_rs::{error::Exception, memory};
use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

/// The loaded model and what has been computed with it.
struct Model {
    /// What it was loaded by, to bring it back where another could not take its place.
    request: LoadRequest,
    loaded: Loaded,
    grammars: Grammars,
    info: Arc<ModelInfo>,
    /// How it speculates.
    speculation: Pair,
    prefix: PrefixStore,
    /// What of its prompts' ends the next turn may write differently.
    tails: Tails,
    chunks: Chunks,
}

impl Model {
    fn encoder(&self) -> Encoder {
        Encoder {
            tokenizer: self.loaded.tokenizer.clone(),
            window: self.info.context_window,
            grammars: self.grammars.clone(),
        }
    }
}

/// What every job needs beside the model.
struct Shop {
    inbox: Inbox,
    board: Board,
    pressure: PressureWatch,
}

/// The parts of [`EngineOptions`] that the loop looks at.
pub(crate) struct Options {
    prefix_slots: usize,
    prefix_disk: Option<DiskOptions>,
    prefill_chunk: Option<usize>,
    place: Option<Place>,
    calibration: Calibration,
}

pub(crate) struct Engine {
    shop: Shop,
    model: Option<Model>,
    codec: Arc<ArcSwapOption<Box<dyn PromptCodec>>>,
    loader: Box<dyn ModelLoader>,
    options: Options,
}

impl Engine {
    /// # Errors
    /// When the thread's clockwork cannot be set up.
    pub(crate) fn new(worker: Worker, options: EngineOptions, device: Device, now: Snapshot) -> std::io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
        let now = Snapshot {
            queue_limit: options.queue_limit,
            ..now
        };
        Ok(Self {
            shop: Shop {
                inbox: Inbox::new(worker.commands, options.queue_limit, runtime),
                board: Board::new(worker.snapshot, worker.rounds, now, device),
                pressure: PressureWatch::new(options.pressure),
            },
            model: None,
            codec: worker.codec,
            loader: options.loader,
            options: Options {
                prefix_slots: options.prefix_slots,
                prefix_disk: options.prefix_disk,
                prefill_chunk: options.prefill_chunk,
                place: options.place,
                calibration: options.calibration,
            },
        })
    }

    /// Works until told to stop, or until no handle and no work is left.
    pub(crate) fn run(&mut self) {
        self.rest();
        loop {
            let patience = self.patience();
            let Some(job) = self.shop.inbox.next(&mut self.shop.board, patience) else {
                if self.shop.inbox.finished() {
                    break;
                }
                match &mut self.model {
                    Some(model) => {
                        self.shop.relieve_pressure(&mut model.prefix);
                        model.prefix.save(false);
                    }
                    None => self.shop.see_pressure(),
                }
                self.rest();
                continue;
            };
            match job {
                Job::Generate(command, encoded) => {
                    let last = generate::generate(&command, encoded, self.model.as_mut(), &mut self.shop, &self.options);
                    // Who reads the last event finds the snapshot in accord with it, and does not wait for the rest.
                    self.rest();
                    self.shop.inbox.part(&command, last);
                    self.settle();
                    continue;
                }
                Job::Load(command) => self.load(&command),
                Job::Force(command) => {
                    let answer = self.force(&command);
                    self.rest();
                    let _ = command.done.send(answer);
                }
                Job::Bandwidth(done) => {
                    let answer = self.bandwidth(&done);
                    self.rest();
                    let _ = done.send(answer);
                }
                Job::Unload(done) => {
                    self.unload();
                    self.rest();
                    let _ = done.send(Ok(()));
                }
            }
            self.rest();
        }
        self.unload();
        self.shop.inbox.refuse_all(&mut self.shop.board);
        self.shop.board.enter(EngineState::Stopped);
    }

    /// Reads memory against the clock, taking in commands between readings.
    fn bandwidth(&mut self, done: &tokio::sync::oneshot::Sender<Result<Bandwidth>>) -> Result<Bandwidth> {
        let shop = &mut self.shop;
        let mut more = || {
            shop.inbox.drain(&mut shop.board);
            !done.is_closed() && !shop.inbox.stopped()
        };
        let measured = catch_unwind(AssertUnwindSafe(|| crate::bandwidth::measure(&mut more)));
        let _ = crate::device::release();
        match measured {
            Ok(Ok(Some(bandwidth))) => Ok(bandwidth),
            Ok(Ok(None)) => Err(EngineError::Cancelled),
            Ok(Err(error)) => Err(EngineError::Compute(format!("memory could not be measured: {error}"))),
            Err(panic) => Err(EngineError::Compute(panic_text(&*panic))),
        }
    }

    /// Scores an emitted text again, taking in commands between its steps.
    fn force(&mut self, command: &ForceCommand) -> Result<ForcingReport> {
        let (shop, model) = (&mut self.shop, self.model.as_ref().ok_or(EngineError::NoModel)?);
        let (target, total) = (&*model.loaded.target, command.prompt.len() + command.emitted.len());
        let known = command
            .prompt
            .iter()
            .chain(&command.emitted)
            .all(|&id| (id as usize) < target.vocab());
        if command.prompt.is_empty() || !known || total > target.max_context() {
            return Err(EngineError::BadRequest(format!(
                "a text of {total} tokens cannot be scored: it needs a prompt, ids of this model's vocabulary, and at most {} tokens",
                target.max_context()
            )));
        }
        let mut matcher = match &command.constraint {
            Some(constraint) => Some(model.grammars.compile(constraint)?.matcher(&Start::default())),
            None => None,
        };
        let mut processed = 0;
        let mut more = || {
            processed += 1;
            shop.inbox.drain(&mut shop.board);
            shop.board.progress(EngineState::Prefilling {
                processed,
                total: command.emitted.len(),
            });
            !command.done.is_closed() && !shop.inbox.stopped()
        };
        let scored = catch_unwind(AssertUnwindSafe(|| {
            forcing::force_masked(target, &command.prompt, &command.emitted, None, matcher.as_mut(), &mut more)
        }));
        match scored {
            Ok(Ok(report)) => Ok(report),
            Ok(Err(error)) => Err(decode::compute(error)),
            Err(panic) => Err(EngineError::Compute(panic_text(&*panic))),
        }
    }

    /// Finishes what the last generation left lazy.
    fn settle(&mut self) {
        let settled = catch_unwind(AssertUnwindSafe(|| {
            self.model.as_mut().map_or(Ok(()), |model| model.prefix.settle())
        }));
        match settled {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "the cache of a finished generation could not be kept"),
            Err(panic) => {
                tracing::warn!(panic = panic_text(&*panic), "the cache of a finished generation could not be kept");
                self.model.as_mut().map(|model| model.prefix.clear());
            }
        }
    }

    /// Lets prompts that wait be encoded for the model that is loaded.
    fn encode_ahead(&mut self) {
        self.shop.inbox.encoder = self.model.as_ref().map(Model::encoder);
    }

    /// The state between jobs.
    fn rest(&mut self) {
        let state = if self.model.is_some() {
            EngineState::Ready
        } else {
            EngineState::NoModel
        };
        self.shop.board.now.context_tokens = self.model.as_ref().map_or(0, |model| model.prefix.tokens());
        self.shop.board.now.prefix = Arc::new(self.model.as_ref().map(|model| model.prefix.state()).unwrap_or_default());
        self.shop.board.enter(state);
    }

    /// While nothing is held that could be given back, and nobody waits for word that memory has recovered, there is no
    /// reason to wake up.
    fn patience(&self) -> Option<std::time::Duration> {
        let holds = self.model.as_ref().is_some_and(|model| !model.prefix.is_empty());
        (holds || self.shop.pressure.guard().level != Pressure::Normal).then_some(LOOK_EVERY)
    }
}

impl Shop {
    /// Gives memory back when the machine runs short: MLX's spare buffers first, then the kept prefixes. A look every
    /// few seconds. Source: `spec/caching-batching.md` §2.
    fn relieve_pressure(&mut self, prefix: &mut PrefixStore) {
        let Some(level) = self.pressure.look() else {
            self.board.now.guard = self.pressure.guard();
            return;
        };
        let before = held();
        prefix.shed();
        let dropped = level == Pressure::Critical && prefix.clear();
        if dropped {
            tracing::warn!("memory is critically short: the prompt caches were dropped");
        }
        let _ = memory::clear_cache();
        self.pressure.shed(level, before, held(), dropped);
        self.board.now.guard = self.pressure.guard();
    }

    /// Where there is nothing to give back.
    fn see_pressure(&mut self) {
        let _ = self.pressure.look();
        self.board.now.guard = self.pressure.guard();
    }
}

/// Bytes that MLX holds, in use and spare.
fn held() -> u64 {
    let bytes = |counted: std::result::Result<usize, Exception>| counted.map_or(0, |bytes| bytes as u64);
    bytes(memory::active_memory()) + bytes(memory::cache_memory())
}

/// What a panic said.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("a defect without a message")
        .to_owned()
}
