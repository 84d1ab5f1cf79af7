//! Loading a model beside the old one, and unloading. A load that fails or is cancelled leaves the old model in place.

use super::{Engine, Model, Options, Shop, panic_text, step::Sequence};
use crate::{
    device,
    model::{Loaded, ModelLoader},
    prefix::PrefixStore,
    sample::{Place, Sampler},
    speculate::Pair,
};
use dspark_protocol::{EngineError, EngineState, LoadCommand, LoadEvent, LoadRequest, LoadStage, ModelInfo, PromptCodec, Result, Sampling};
use mlx_rs::error::Exception;
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// Steps of a warm-up: enough to compile and touch everything that a generation uses.
const WARM_UP_STEPS: usize = 12;
const WARM_UP_PROMPT: usize = 8;
/// Progress events of a load: at most 30 a second.
const PROGRESS: Duration = Duration::from_millis(34);

impl Engine {
    pub(super) fn load(&mut self, command: &LoadCommand) {
        let began = Instant::now();
        // What arrives from now on is for the model that this brings, or for the one that stays.
        self.shop.inbox.encoder = None;
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
        match outcome {
            Ok((loaded, speculation, info)) => {
                let info = Arc::new(info);
                let codec: Box<dyn PromptCodec> = Box::new(loaded.tokenizer.clone());
                *model = None;
                *model = Some(Model {
                    loaded,
                    info: info.clone(),
                    speculation,
                    prefix: PrefixStore::new(options.prefix_slots),
                    chunks: options.chunks(),
                });
                released();
                self.codec.store(Some(Arc::new(codec)));
                self.shop.board.now.model = Some(info.clone());
                self.shop.board.now.speculation = self.model.as_ref().map(|model| Arc::new(model.speculation.state()));
                self.encode_ahead();
                self.rest();
                crate::exit::skip_destructors();
                let _ = command.events.send(LoadEvent::Ready(info));
            }
            Err(error) => {
                released();
                if error != EngineError::Cancelled {
                    // Whoever asked is told.
                    tracing::debug!(model = command.request.name, %error, "load failed");
                }
                self.encode_ahead();
                self.rest();
                let _ = command.events.send(LoadEvent::Failed(error));
            }
        }
    }

    /// Frees the model, if there is one, and gives its memory back.
    pub(super) fn unload(&mut self) {
        if self.model.is_some() {
            self.shop.board.enter(EngineState::Unloading);
        }
        self.codec.store(None);
        self.model = None;
        self.encode_ahead();
        self.shop.board.now.model = None;
        self.shop.board.now.speculation = None;
        self.shop.board.now.last_decode_rate = None;
        released();
    }
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
        warm_up(&loaded).map_err(|error| {
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
    let info = ModelInfo {
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
        Some(window) => Err(failure(
            request,
            format!(
                "a context window of {window} tokens was asked for, but the model's positions end at {max_context}: ask for at most that"
            ),
        )),
    }
}

/// A few steps of nonsense, which leave no trace but compiled kernels.
fn warm_up(loaded: &Loaded) -> std::result::Result<(), Exception> {
    let target = &*loaded.target;
    let sampler =
        Sampler::new(&Sampling::default(), &[], target.vocab(), Place::current()).map_err(|error| Exception::custom(error.to_string()))?;
    let mut sequence = Sequence::new(target, target.new_cache(), None, Vec::new(), false);
    let prompt: Vec<u32> = (0..WARM_UP_PROMPT.min(target.vocab())).map(|id| id as u32).collect();
    let mut drawn = sequence.first(&prompt, &sampler)?;
    for _ in 0..WARM_UP_STEPS {
        drawn = sequence.step(&drawn, &sampler)?;
    }
    drawn.read()?;
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
