//! Loading a model beside the old one, and unloading. A load that fails or is cancelled leaves the old model in place.

use super::{Engine, Model, Options, Shop, panic_text, step::Sequence};
use crate::{
    device,
    grammar::Grammars,
    model::{Loaded, ModelLoader},
    prefix::{
        PrefixStore,
        disk::{Disk, Key},
    },
    sample::{Place, Sampler},
    speculate::Pair,
    target::{Logits, Rows, Target},
};
use dspark_hub::fit;
use dspark_protocol::{
    EngineError, EngineState, LoadCommand, LoadEvent, LoadRequest, LoadStage, ModelInfo, PromptCodec, Result, Sampling, Snapshot,
};
use dspark_text::Tails;
use mlx_rs::{Array, error::Exception, transforms};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// Steps of a warm-up: enough to compile and touch everything that a generation uses.
const WARM_UP_STEPS: usize = 12;
const WARM_UP_PROMPT: usize = 8;
/// Most rows that a verification has.
const WIDEST: usize = 8;
/// Progress events of a load: at most 30 a second.
const PROGRESS: Duration = Duration::from_millis(34);

impl Engine {
    /// Where memory holds both, the new model is loaded beside the present one. Otherwise everything that can be known of
    /// it without its weights is checked first; then the present one goes, and comes back if the new one never does.
    pub(super) fn load(&mut self, command: &LoadCommand) {
        // What arrives from now on is for the model that this brings, or for the one that stays.
        self.shop.inbox.encoder = None;
        let ready = self.preflight(&command.request).and_then(|()| self.make_way(&command.request));
        let given_up = match ready {
            Ok(given_up) => given_up,
            Err(error) => return self.refuse(command, error),
        };
        match self.bring(command) {
            Ok(info) => {
                self.encode_ahead();
                self.rest();
                crate::exit::skip_destructors();
                let _ = command.events.send(LoadEvent::Ready(info));
            }
            Err(error) => {
                let error = given_up.map_or(error.clone(), |earlier| self.bring_back(earlier, error));
                self.refuse(command, error);
            }
        }
    }

    fn refuse(&mut self, command: &LoadCommand, error: EngineError) {
        released();
        if error != EngineError::Cancelled {
            // Whoever asked is told.
            tracing::debug!(model = command.request.name, %error, "load failed");
        }
        self.encode_ahead();
        self.rest();
        let _ = command.events.send(LoadEvent::Failed(error));
    }

    /// A model that is larger than what this machine can give would swap it to a standstill: only whoever insists gets that.
    fn preflight(&mut self, request: &LoadRequest) -> Result<()> {
        let (bytes, limit) = (self.loader.size(request), self.shop.board.now.memory.limit);
        let Some(bytes) = bytes.filter(|&bytes| !request.force && limit > 0 && bytes > limit) else {
            return Ok(());
        };
        let gigabytes = |bytes: u64| bytes as f64 / 1e9;
        Err(EngineError::Refused {
            model: request.name.clone(),
            reason: format!(
                "its weights take {:.1} GB, more than the {:.1} GB that this machine can give a model; take a smaller one or one of \
                 fewer bits, or insist (`--force`, or `\"force\": true` over HTTP), and the machine will swap",
                gigabytes(bytes),
                gigabytes(limit)
            ),
        })
    }

    /// Gives up the present model where the new one does not fit beside it, and says how it was loaded.
    fn make_way(&mut self, request: &LoadRequest) -> Result<Option<LoadRequest>> {
        let Some(model) = &self.model else { return Ok(None) };
        let checked = catch_unwind(AssertUnwindSafe(|| self.loader.check(request)));
        let bytes = checked.unwrap_or_else(|panic| Err(failure(request, panic_text(&*panic))))?;
        let now = &self.shop.board.now;
        if !is_tight(now.memory.active, bytes.unwrap_or(0), now.memory.limit) {
            return Ok(None);
        }
        let earlier = model.request.clone();
        tracing::info!(
            model = request.name,
            earlier = earlier.name,
            "memory does not hold both models: the earlier one goes first"
        );
        self.unload();
        Ok(Some(earlier))
    }

    /// After a failure, the model that was given up for it. The error says what became of it.
    fn bring_back(&mut self, earlier: LoadRequest, error: EngineError) -> EngineError {
        released();
        let name = earlier.name.clone();
        // Nobody follows this one, and nobody cancels it.
        let (events, _) = tokio::sync::mpsc::unbounded_channel();
        let again = self.bring(&LoadCommand {
            request: earlier,
            events,
            cancel: tokio_util::sync::CancellationToken::new(),
        });
        match again {
            Ok(_) => error,
            Err(second) => {
                tracing::error!(model = name, error = %second, "the earlier model could not be loaded again");
                EngineError::Compute(format!(
                    "{error}; and the earlier model, `{name}`, could not be loaded again: {second}"
                ))
            }
        }
    }

    /// Loads what was asked for and puts it in the present model's place.
    fn bring(&mut self, command: &LoadCommand) -> Result<Arc<ModelInfo>> {
        let began = Instant::now();
        let Self {
            shop,
            loader,
            options,
            model,
            ..
        } = self;
        let outcome = catch_unwind(AssertUnwindSafe(|| bring(command, loader.as_mut(), shop, options, began))).unwrap_or_else(|panic| {
            let reason = panic_text(&*panic);
            tracing::warn!(model = command.request.name, reason, "a load panicked");
            Err(failure(&command.request, reason))
        });
        let (loaded, speculation, info) = outcome?;
        let info = Arc::new(info);
        let codec: Box<dyn PromptCodec> = Box::new(loaded.tokenizer.clone());
        // What was kept of the old one's prompts goes to disk, where there is one, and the memory back.
        if let Some(mut old) = model.take() {
            old.prefix.save(true);
        }
        let disk = options.prefix_disk.as_ref().and_then(|disk| {
            let key = Key::of(&command.request, &shop.board.now.machine, &loaded.tokenizer.template_source());
            Disk::open(disk, key)
        });
        *model = Some(Model {
            request: command.request.clone(),
            tails: Tails::of(&loaded.tokenizer),
            grammars: Grammars::new(&loaded.tokenizer, loaded.target.vocab(), &loaded.eos),
            loaded,
            info: info.clone(),
            speculation,
            prefix: PrefixStore::new(options.prefix_slots, disk),
            chunks: options.chunks(),
        });
        released();
        self.shop.board.now.last_decode_rate = None;
        self.shop.board.now.last_reply = None;
        self.shop.board.forget_rounds();
        self.codec.store(Some(Arc::new(codec)));
        self.shop.board.now.model = Some(info.clone());
        self.shop.board.now.speculation = self.model.as_ref().map(|model| Arc::new(model.speculation.state()));
        Ok(info)
    }

    /// Frees the model, if there is one, and gives its memory back.
    pub(super) fn unload(&mut self) {
        if self.model.is_some() {
            self.shop.board.enter(EngineState::Unloading);
        }
        self.codec.store(None);
        if let Some(mut model) = self.model.take() {
            model.prefix.save(true);
        }
        self.encode_ahead();
        self.shop.board.now.model = None;
        self.shop.board.now.speculation = None;
        self.shop.board.now.last_decode_rate = None;
        self.shop.board.now.last_reply = None;
        self.shop.board.forget_rounds();
        released();
    }
}

/// Whether `bytes` more do not go with what is held already, with a tenth left for caches and buffers.
fn is_tight(held: u64, bytes: u64, limit: u64) -> bool {
    bytes > 0 && held.saturating_add(bytes) > limit / 10 * 9
}

fn bring(
    command: &LoadCommand,
    loader: &mut dyn ModelLoader,
    shop: &mut Shop,
    options: &Options,
    began: Instant,
) -> Result<(Loaded, Pair, ModelInfo)> {
    let request = &command.request;
    let machine = shop.board.now.machine.clone();
    let mut told: Option<(LoadStage, Instant)> = None;
    let mut report = |stage: LoadStage, done: u64, total: u64| {
        shop.inbox.drain(&mut shop.board);
        if shop.inbox.stopped() {
            command.cancel.cancel();
        }
        let fresh = told.is_none_or(|(last, at)| last != stage || at.elapsed() >= PROGRESS || done == total);
        if fresh {
            told = Some((stage, Instant::now()));
            let _ = command.events.send(LoadEvent::Stage { stage, done, total });
            shop.board.enter(EngineState::Loading { stage, done, total });
        }
    };
    report(LoadStage::Checking, 0, 0);
    if command.cancel.is_cancelled() {
        return Err(EngineError::Cancelled);
    }
    let mut loaded = loader.load(request, &mut report, &command.cancel)?;
    let window = window(request, loaded.facts.max_context)?;
    if request.warm_up {
        report(LoadStage::WarmingUp, 0, 0);
        warm_up(&loaded, options.chunks().next()).map_err(|error| {
            tracing::warn!(model = request.name, error = error.what(), "the warm-up failed");
            failure(request, error.what())
        })?;
    }
    if command.cancel.is_cancelled() {
        return Err(EngineError::Cancelled);
    }
    let drafter = loaded.drafter.as_ref();
    let curves = options
        .calibration
        .curves(&*loaded.target, drafter, request, &machine, || report(LoadStage::Calibrating, 0, 0));
    let speculation = Pair::new(request, drafter, loaded.drafter_refused.take(), curves);
    let mut notes = loaded.facts.notes.clone();
    notes.extend(window_note(&loaded.facts, window, &shop.board.now));
    notes.extend(speculation.cap_note());
    let info = ModelInfo {
        notes,
        name: request.name.clone(),
        path: request.path.clone(),
        // What runs.
        mode: speculation.state().mode,
        context_window: window,
        loaded_at: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
        load_seconds: began.elapsed().as_secs_f64(),
        ..loaded.facts.clone()
    };
    Ok((loaded, speculation, info))
}

/// The window to serve: what was asked for, never silently less.
fn window(request: &LoadRequest, max_context: usize) -> Result<usize> {
    match request.context_window.filter(|window| *window > 0) {
        None => Ok(max_context),
        Some(window) if window <= max_context => Ok(window),
        // The model is sound: what was asked of it is not.
        Some(window) => Err(EngineError::BadRequest(format!(
            "a context window of {window} tokens was asked for, but the positions of `{}` end at {max_context}: ask for at most that",
            request.name
        ))),
    }
}

/// What to say of a window that memory cannot hold: nothing is allocated before it is used, so it is served as asked.
fn window_note(facts: &ModelInfo, window: usize, now: &Snapshot) -> Option<String> {
    let machine = &now.machine;
    let on_gpu = machine.backend != "cpu";
    let budget = fit::Machine {
        ram: machine.ram,
        working_set: on_gpu.then_some(now.memory.limit),
        available: None,
    };
    let warning = fit::context_warning(facts.kv_bytes_per_token, window as u64, facts.weight_bytes, budget.budget())?;
    Some(warning.to_string())
}

/// Some nonsense in every shape that decoding uses, which leaves no trace but compiled kernels. `chunk` is how much of a
/// prompt is computed at once.
fn warm_up(loaded: &Loaded, chunk: usize) -> std::result::Result<(), Exception> {
    let target = &*loaded.target;
    let sampler =
        Sampler::new(&Sampling::default(), &[], target.vocab(), Place::current()).map_err(|error| Exception::custom(error.to_string()))?;
    let mut sequence = Sequence::new(target, target.new_cache(), None, Vec::new(), false);
    let prompt: Vec<u32> = (0..WARM_UP_PROMPT.min(target.vocab())).map(|id| id as u32).collect();
    let mut drawn = sequence.first(&prompt, &sampler, None)?;
    for _ in 0..WARM_UP_STEPS {
        drawn = sequence.step(&drawn, &sampler)?;
    }
    drawn.read()?;
    if mlx_cpu::backend() != mlx_cpu::Backend::Cpu {
        warm_up_widths(target, chunk)?;
    }
    Ok(())
}

/// GPUs compile a kernel for each kind of shape at its first use: on CUDA seconds to minutes, in the middle of an answer.
/// Rows 2 to 8 are what a verification may have; the chunk is a long prompt's.
fn warm_up_widths(target: &dyn Target, chunk: usize) -> std::result::Result<(), Exception> {
    let mut cache = target.new_cache();
    let longest = chunk.min(target.max_context().saturating_sub(WIDEST)).max(1);
    for rows in std::iter::once(longest).chain(2..=WIDEST) {
        let tokens: Vec<u32> = (0..rows).map(|id| (id % target.vocab()) as u32).collect();
        let tokens = Array::from_slice(&tokens, &[1, rows as i32]);
        let logits = if rows == longest { Logits::Last } else { Logits::All };
        let kept = cache.len();
        let output = target.forward(&Rows::chain(&tokens, logits), &mut *cache)?;
        transforms::eval(output.logits.iter().chain(cache.arrays()))?;
        if cache.trimmable() {
            cache.trim(cache.len() - kept)?;
        }
    }
    Ok(())
}

/// Returns what a dropped model held to the system.
fn released() {
    if let Err(error) = device::release() {
        tracing::warn!(%error, "memory could not be given back");
    }
}

fn failure(request: &LoadRequest, reason: impl Into<String>) -> EngineError {
    EngineError::Load {
        model: request.name.clone(),
        reason: reason.into(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use dspark_protocol::{MachineInfo, Memory, Mode};

    const GIB: u64 = 1 << 30;

    #[test]
    fn two_models_stand_beside_each_other_only_where_memory_holds_both() {
        assert!(!is_tight(10 * GIB, 10 * GIB, 36 * GIB));
        assert!(is_tight(18 * GIB, 16 * GIB, 36 * GIB));
        assert!(!is_tight(40 * GIB, 0, 36 * GIB), "what is not known is not held against it");
    }

    fn facts() -> ModelInfo {
        ModelInfo {
            name: String::new(),
            path: "model".into(),
            model_type: "llama".into(),
            quantization: "bf16".into(),
            drafter: None,
            mode: Mode::Auto,
            parameters: 0,
            weight_bytes: 18 * GIB,
            kv_bytes_per_token: 65_536,
            context_window: 0,
            max_context: 0,
            has_chat_template: false,
            supports_thinking: false,
            supports_tools: false,
            loaded_at: 0,
            load_seconds: 0.0,
            notes: Vec::new(),
        }
    }

    fn note(window: usize, backend: &str, ram: u64, limit: u64) -> Option<String> {
        let machine = MachineInfo {
            backend: backend.into(),
            ram,
            ..MachineInfo::default()
        };
        let memory = Memory {
            limit,
            ..Memory::default()
        };
        let now = Snapshot {
            machine: Arc::new(machine),
            memory,
            ..Snapshot::default()
        };
        window_note(&facts(), window, &now)
    }

    /// Cases mf-006 and mf-007: a window is a cap, and one that memory cannot hold is never a silent success.
    #[test]
    fn a_window_that_memory_cannot_hold_is_noted() {
        let note_of = |window| note(window, "metal", 48 * GIB, 36 * GIB);
        assert_eq!(note_of(32_768), None);
        let said = note_of(262_144).unwrap();
        assert!(said.contains("at most 229376 tokens"), "{said}");
        // On the processor the main memory counts, less what the system needs.
        assert_eq!(note(262_144, "cpu", 64 * GIB, 64 * GIB), None);
        assert!(note(262_144, "cpu", 22 * GIB, 22 * GIB).unwrap().contains("smaller model"));
    }
}
