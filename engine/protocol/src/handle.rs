use crate::{
    Bandwidth, Constraint, EngineError, Event, ForcingReport, LoadEvent, LoadRequest, Message, OutputSyntax, Prompt, Request, Result,
    RoundRing, SamplingDefaults, Snapshot, TemplateOptions,
};
use arc_swap::ArcSwapOption;
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::{CancellationToken, DropGuard};

/// Events that a reader may lag behind before the worker waits for it.
const EVENT_BUFFER: usize = 256;
const COMMAND_BUFFER: usize = 64;

/// Turns a prompt into ids and back for whoever needs it outside the worker (token counts, previews). The worker
/// publishes one with each loaded model.
pub trait PromptCodec: Send + Sync {
    /// Token ids of the prompt, template included.
    fn encode(&self, prompt: &Prompt) -> Result<Vec<u32>>;
    /// The rendered conversation, before tokenization.
    fn render(&self, messages: &[Message], options: &TemplateOptions) -> Result<String>;
    fn decode(&self, ids: &[u32]) -> String;
    /// The sampling that the checkpoint recommends.
    fn recommended(&self) -> SamplingDefaults {
        SamplingDefaults::default()
    }
    /// How the model marks its reasoning and its tool calls.
    fn output_syntax(&self) -> OutputSyntax {
        OutputSyntax::default()
    }
}

/// What the worker is told.
pub enum Command {
    Generate(Box<GenerateCommand>),
    Load(LoadCommand),
    Force(ForceCommand),
    /// Read memory and time it. Dropped answers cancel.
    Bandwidth {
        done: tokio::sync::oneshot::Sender<Result<Bandwidth>>,
    },
    Unload {
        done: tokio::sync::oneshot::Sender<Result<()>>,
    },
    Shutdown,
}

pub struct GenerateCommand {
    pub id: u64,
    pub request: Request,
    pub events: mpsc::Sender<Event>,
    /// Cancelled by the reader's drop, by [`EngineHandle::cancel`], or by shutdown.
    pub cancel: CancellationToken,
    pub submitted: std::time::Instant,
}

/// Score an emitted text again, one token at a time.
pub struct ForceCommand {
    pub prompt: Vec<u32>,
    pub emitted: Vec<u32>,
    /// What the text was held to; its reasoning must not be part of it.
    pub constraint: Option<Arc<Constraint>>,
    /// Cancelled where the asker is gone.
    pub done: tokio::sync::oneshot::Sender<Result<ForcingReport>>,
}

pub struct LoadCommand {
    pub request: LoadRequest,
    pub events: mpsc::UnboundedSender<LoadEvent>,
    pub cancel: CancellationToken,
}

struct Shared {
    commands: mpsc::Sender<Command>,
    snapshot: watch::Receiver<Arc<Snapshot>>,
    rounds: RoundRing,
    codec: Arc<ArcSwapOption<Box<dyn PromptCodec>>>,
    next_id: AtomicU64,
    live: std::sync::Mutex<Vec<(u64, CancellationToken)>>,
}

/// The only door to the engine. Cheap to clone; every call returns at once.
#[derive(Clone)]
pub struct EngineHandle(Arc<Shared>);

/// The worker's end of the same channels.
pub struct Worker {
    pub commands: mpsc::Receiver<Command>,
    pub snapshot: watch::Sender<Arc<Snapshot>>,
    pub rounds: RoundRing,
    /// Published at load, cleared at unload.
    pub codec: Arc<ArcSwapOption<Box<dyn PromptCodec>>>,
}

/// A connected pair.
pub fn channel() -> (EngineHandle, Worker) {
    let (commands, receiver) = mpsc::channel(COMMAND_BUFFER);
    let (publish, snapshot) = watch::channel(Arc::new(Snapshot::default()));
    let rounds = RoundRing::default();
    let codec = Arc::new(ArcSwapOption::empty());
    let shared = Shared {
        commands,
        snapshot,
        rounds: rounds.clone(),
        codec: codec.clone(),
        next_id: AtomicU64::new(1),
        live: std::sync::Mutex::default(),
    };
    (
        EngineHandle(Arc::new(shared)),
        Worker {
            commands: receiver,
            snapshot: publish,
            rounds,
            codec,
        },
    )
}

impl EngineHandle {
    /// Starts a generation. Dropping what it returns cancels it.
    ///
    /// # Errors
    /// [`EngineError::Busy`] when the command queue is full, [`EngineError::Stopped`] when the worker is gone. What
    /// is wrong with the request itself arrives as [`Event::Failed`].
    pub fn submit(&self, request: Request) -> Result<Generation> {
        let id = self.0.next_id.fetch_add(1, Ordering::Relaxed);
        let (events, receiver) = mpsc::channel(EVENT_BUFFER);
        let cancel = CancellationToken::new();
        let command = GenerateCommand {
            id,
            request,
            events,
            cancel: cancel.clone(),
            submitted: std::time::Instant::now(),
        };
        self.send(Command::Generate(Box::new(command)))?;
        let mut live = self.live();
        live.retain(|(_, token)| !token.is_cancelled());
        live.push((id, cancel.clone()));
        Ok(Generation {
            id,
            events: receiver,
            cancel: cancel.clone(),
            _guard: cancel.drop_guard(),
        })
    }

    /// Cancels a generation by id; false when no such one is live.
    pub fn cancel(&self, id: u64) -> bool {
        let mut live = self.live();
        live.retain(|(_, token)| !token.is_cancelled());
        let found = live.iter().find(|(known, _)| *known == id);
        found.inspect(|(_, token)| token.cancel()).is_some()
    }

    /// Cancels every generation.
    pub fn cancel_all(&self) {
        self.live().drain(..).for_each(|(_, token)| token.cancel());
    }

    /// Loads a model beside the current one and swaps it in. Dropping the ticket does not cancel.
    pub fn load(&self, request: LoadRequest) -> Result<Loading> {
        let (events, receiver) = mpsc::unbounded_channel();
        let cancel = CancellationToken::new();
        self.send(Command::Load(LoadCommand {
            request,
            events,
            cancel: cancel.clone(),
        }))?;
        Ok(Loading { events: receiver, cancel })
    }

    /// Proves that `emitted`, written greedily after `prompt`, is the loaded target's own choice token by token: feeds it
    /// again one token at a time. Takes as long as writing it did without speculation. Dropping the receiver cancels.
    ///
    /// # Errors
    /// As [`Self::submit`]; what goes wrong later arrives through the receiver.
    pub fn force(&self, prompt: Vec<u32>, emitted: Vec<u32>) -> Result<tokio::sync::oneshot::Receiver<Result<ForcingReport>>> {
        self.force_held(prompt, emitted, None)
    }

    /// The same for an answer that was held to `constraint` from its first token: each token must be the target's choice
    /// among those that were allowed.
    ///
    /// # Errors
    /// As [`Self::force`].
    pub fn force_held(
        &self,
        prompt: Vec<u32>,
        emitted: Vec<u32>,
        constraint: Option<Arc<Constraint>>,
    ) -> Result<tokio::sync::oneshot::Receiver<Result<ForcingReport>>> {
        let (done, answer) = tokio::sync::oneshot::channel();
        self.send(Command::Force(ForceCommand {
            prompt,
            emitted,
            constraint,
            done,
        }))?;
        Ok(answer)
    }

    /// Measures how fast the device reads memory, between other jobs; about a second.
    ///
    /// # Errors
    /// As [`Self::submit`]; what goes wrong later arrives through the receiver.
    pub fn bandwidth(&self) -> Result<tokio::sync::oneshot::Receiver<Result<Bandwidth>>> {
        let (done, answer) = tokio::sync::oneshot::channel();
        self.send(Command::Bandwidth { done })?;
        Ok(answer)
    }

    /// Frees the model. The answer comes when its memory is back.
    pub fn unload(&self) -> Result<tokio::sync::oneshot::Receiver<Result<()>>> {
        let (done, answer) = tokio::sync::oneshot::channel();
        self.send(Command::Unload { done })?;
        Ok(answer)
    }

    /// Cancels everything and ends the worker.
    pub fn shutdown(&self) {
        self.cancel_all();
        let _ = self.0.commands.try_send(Command::Shutdown);
    }

    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.0.snapshot.borrow().clone()
    }

    /// Wakes at every new snapshot.
    pub fn subscribe(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.0.snapshot.clone()
    }

    pub fn rounds(&self) -> &RoundRing {
        &self.0.rounds
    }

    /// The loaded model's tokenizer and template.
    ///
    /// # Errors
    /// [`EngineError::NoModel`].
    pub fn codec(&self) -> Result<Arc<Box<dyn PromptCodec>>> {
        self.0.codec.load_full().ok_or(EngineError::NoModel)
    }

    fn send(&self, command: Command) -> Result<()> {
        self.0.commands.try_send(command).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => EngineError::Busy {
                queued: COMMAND_BUFFER,
                limit: COMMAND_BUFFER,
                retry_after_s: 1,
            },
            mpsc::error::TrySendError::Closed(_) => EngineError::Stopped,
        })
    }

    fn live(&self) -> std::sync::MutexGuard<'_, Vec<(u64, CancellationToken)>> {
        self.0.live.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// A running generation, read as events.
pub struct Generation {
    pub id: u64,
    events: mpsc::Receiver<Event>,
    cancel: CancellationToken,
    _guard: DropGuard,
}

impl Generation {
    /// The next event; `None` after the last.
    pub async fn next(&mut self) -> Option<Event> {
        self.events.recv().await
    }

    /// The same from a thread without a runtime.
    pub fn next_blocking(&mut self) -> Option<Event> {
        self.events.blocking_recv()
    }

    /// An event that is already here.
    pub fn try_next(&mut self) -> Option<Event> {
        self.events.try_recv().ok()
    }

    /// Asks the worker to stop at the next round; the last event then says `Cancelled`.
    pub fn cancel(&self) {
        self.cancel.cancel();
    }

    /// A token to cancel from elsewhere while this is being read.
    pub fn canceller(&self) -> CancellationToken {
        self.cancel.clone()
    }
}

/// A load under way.
pub struct Loading {
    events: mpsc::UnboundedReceiver<LoadEvent>,
    cancel: CancellationToken,
}

impl Loading {
    pub async fn next(&mut self) -> Option<LoadEvent> {
        self.events.recv().await
    }

    pub fn next_blocking(&mut self) -> Option<LoadEvent> {
        self.events.blocking_recv()
    }

    pub fn try_next(&mut self) -> Option<LoadEvent> {
        self.events.try_recv().ok()
    }

    /// A token to cancel from elsewhere while this is being read.
    pub fn canceller(&self) -> CancellationToken {
        self.cancel.clone()
    }

    /// Stops between tensors; the old model stays.
    pub fn cancel(&self) {
        self.cancel.cancel();
    }
}
