//! Commands on their way to work: a bounded first-in-first-out queue that is drained between chunks and rounds.

use super::{
    encode::{Desk, Encoded, Encoder, Progress},
    outlet,
};
use crate::telemetry::Board;
use dspark_protocol::{
    ActiveRequest, Bandwidth, Command, EngineError, Event, ForceCommand, GenerateCommand, LoadCommand, LoadEvent, LoadStage, Result,
};
use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};
use tokio::{
    runtime::Runtime,
    sync::{mpsc, oneshot},
};

/// One thing to do, in order of arrival (but see [`Inbox::ready`]).
pub(crate) enum Job {
    /// With its prompt, where that was encoded beforehand.
    Generate(Box<GenerateCommand>, Option<Result<Encoded>>),
    Load(LoadCommand),
    Force(ForceCommand),
    Bandwidth(oneshot::Sender<Result<Bandwidth>>),
    Unload(oneshot::Sender<Result<()>>),
}

struct Waiting {
    job: Job,
    /// The position that a waiting request was last told.
    told: usize,
    encoding: Progress,
}

pub(crate) struct Inbox {
    commands: mpsc::Receiver<Command>,
    waiting: VecDeque<Waiting>,
    limit: usize,
    stopped: bool,
    /// Nobody holds a handle any more: what waits is still done.
    left: bool,
    /// Seconds that a generation takes, smoothed: for saying when to try again.
    pace: f64,
    runtime: Runtime,
    /// For the loaded model; `None` while there is none or another is being loaded.
    pub(super) encoder: Option<Encoder>,
    desk: Desk,
}

/// While something waits: how soon a cancel, which wakes nobody, is seen.
const TICK: Duration = Duration::from_millis(50);

impl Inbox {
    pub(crate) fn new(commands: mpsc::Receiver<Command>, limit: usize, runtime: Runtime) -> Self {
        Self {
            commands,
            waiting: VecDeque::new(),
            limit,
            stopped: false,
            left: false,
            pace: 1.0,
            runtime,
            encoder: None,
            desk: Desk::default(),
        }
    }

    /// Whether the engine was told to stop.
    pub(crate) fn stopped(&self) -> bool {
        self.stopped
    }

    /// Whether nothing is left to do, now and ever.
    pub(crate) fn finished(&self) -> bool {
        self.stopped || (self.left && self.waiting.is_empty())
    }

    /// Takes in what has arrived and forgets what was cancelled. Never waits.
    pub(crate) fn drain(&mut self, board: &mut Board) {
        let mut changed = false;
        loop {
            match self.commands.try_recv() {
                Ok(command) => {
                    self.take(command, board);
                    changed = true;
                }
                Err(mpsc::error::TryRecvError::Empty) => break,
                Err(mpsc::error::TryRecvError::Disconnected) => {
                    self.left = true;
                    break;
                }
            }
        }
        changed |= self.forget_cancelled(board);
        self.encode_ahead();
        if changed {
            self.tell_positions(board, board.busy());
            board.show();
        }
    }

    /// The next job that is ready, waiting for one at most this long; `None` after that, or when stopped.
    pub(crate) fn next(&mut self, board: &mut Board, patience: Option<Duration>) -> Option<Job> {
        self.drain(board);
        if self.ready().is_none() && !self.finished() {
            let patience = if self.waiting.is_empty() {
                patience
            } else {
                Some(patience.map_or(TICK, |patience| patience.min(TICK)))
            };
            let (commands, left, bell) = (&mut self.commands, self.left, &self.desk.bell);
            let arrival = self.runtime.block_on(async {
                let wake = async {
                    tokio::select! {
                        arrival = commands.recv(), if !left => Some(arrival),
                        () = bell.notified() => None,
                    }
                };
                match patience {
                    Some(patience) => tokio::time::timeout(patience, wake).await.ok().flatten(),
                    None => wake.await,
                }
            });
            match arrival {
                Some(Some(command)) => self.take(command, board),
                Some(None) => self.left = true,
                None => {}
            }
            self.drain(board);
        }
        if self.stopped {
            return None;
        }
        let waiting = self.waiting.remove(self.ready()?)?;
        self.tell_positions(board, true);
        Some(match waiting.job {
            Job::Generate(command, _) => Job::Generate(command, waiting.encoding.encoded()),
            other => other,
        })
    }

    /// The first job that can be done: one whose prompt is still being encoded lets other requests go before it, but
    /// not a load, which would take its model away.
    fn ready(&self) -> Option<usize> {
        for (index, waiting) in self.waiting.iter().enumerate() {
            let ready = match (&waiting.job, &waiting.encoding) {
                (Job::Load(_) | Job::Unload(_), _) => return (index == 0).then_some(0),
                (Job::Force(_) | Job::Bandwidth(_), _) | (Job::Generate(..), Progress::Short) => true,
                // Without a model it is refused.
                (Job::Generate(..), Progress::Due) => self.encoder.is_none(),
                (Job::Generate(..), Progress::UnderWay(encoded)) => encoded.get().is_some(),
            };
            if ready {
                return Some(index);
            }
        }
        None
    }

    /// Starts to encode long prompts that are for the loaded model.
    fn encode_ahead(&mut self) {
        let Some(encoder) = &self.encoder else { return };
        for waiting in &mut self.waiting {
            let Job::Generate(command, _) = &mut waiting.job else {
                if matches!(waiting.job, Job::Force(_) | Job::Bandwidth(_)) {
                    continue;
                }
                break;
            };
            if matches!(waiting.encoding, Progress::Due) && self.desk.has_room() {
                waiting.encoding = self.desk.begin(encoder, &mut command.request, &command.cancel);
            }
        }
    }

    /// Waits until the reader of `events` has room, goes, or cancels; takes in commands meanwhile.
    pub(crate) fn wait_for_reader(&mut self, command: &GenerateCommand, board: &mut Board) {
        let arrival = self.runtime.block_on(async {
            tokio::select! {
                biased;
                () = command.cancel.cancelled() => None,
                arrival = self.commands.recv(), if !self.left => Some(arrival),
                _ = command.events.reserve() => None,
                // Others in the queue may be cancelled, which wakes nobody.
                () = tokio::time::sleep(TICK) => None,
            }
        });
        match arrival {
            Some(Some(command)) => {
                self.take(command, board);
                self.tell_positions(board, true);
                board.show();
            }
            Some(None) => self.left = true,
            None => {}
        }
        self.drain(board);
    }

    /// Delivers a last event without waiting for its reader.
    pub(crate) fn part(&self, command: &GenerateCommand, event: Event) {
        if let Err(mpsc::error::TrySendError::Full(event)) = command.events.try_send(event) {
            let events = command.events.clone();
            // Runs whenever this thread waits for commands.
            self.runtime.spawn(async move { events.send(event).await });
        }
    }

    /// Takes note of how long a generation took.
    pub(crate) fn paced(&mut self, took: Duration) {
        self.pace += 0.2 * (took.as_secs_f64() - self.pace);
    }

    /// Refuses everything that still waits.
    pub(crate) fn refuse_all(&mut self, board: &mut Board) {
        self.drain(board);
        for waiting in std::mem::take(&mut self.waiting) {
            match waiting.job {
                Job::Generate(command, _) => self.part(&command, Event::Failed(EngineError::Stopped)),
                Job::Load(command) => {
                    let _ = command.events.send(LoadEvent::Failed(EngineError::Stopped));
                }
                Job::Force(command) => {
                    let _ = command.done.send(Err(EngineError::Stopped));
                }
                Job::Bandwidth(done) => {
                    let _ = done.send(Err(EngineError::Stopped));
                }
                Job::Unload(done) => {
                    let _ = done.send(Err(EngineError::Stopped));
                }
            }
        }
        board.queued.clear();
        // Readers that were slow until now get their last event, if they still read.
        self.runtime.block_on(async { tokio::time::sleep(Duration::from_millis(20)).await });
    }

    fn take(&mut self, command: Command, board: &mut Board) {
        let job = match command {
            Command::Generate(command) => {
                board.now.totals.requests += 1;
                let queued = self.requests().count();
                if queued >= self.limit {
                    board.now.totals.failed += 1;
                    let busy = EngineError::Busy {
                        queued,
                        limit: self.limit,
                        retry_after_s: (self.pace * queued as f64).ceil().clamp(1.0, 600.0) as u64,
                    };
                    self.part(&command, Event::Failed(busy));
                    return;
                }
                Job::Generate(command, None)
            }
            Command::Load(command) => {
                // Heard, though work in progress comes first.
                let _ = command.events.send(LoadEvent::Stage {
                    stage: LoadStage::Checking,
                    done: 0,
                    total: 0,
                });
                Job::Load(command)
            }
            Command::Force(command) => Job::Force(command),
            Command::Bandwidth { done } => Job::Bandwidth(done),
            Command::Unload { done } => Job::Unload(done),
            Command::Shutdown => {
                self.stopped = true;
                return;
            }
        };
        let encoding = match &job {
            Job::Generate(command, _) => Progress::of(&command.request),
            Job::Load(_) | Job::Force(_) | Job::Bandwidth(_) | Job::Unload(_) => Progress::Short,
        };
        self.waiting.push_back(Waiting { job, told: 0, encoding });
    }

    fn forget_cancelled(&mut self, board: &mut Board) -> bool {
        let before = self.waiting.len();
        for waiting in std::mem::take(&mut self.waiting) {
            match waiting.job {
                Job::Generate(command, _) if outlet::gone(&command) => {
                    board.now.totals.cancelled += 1;
                    self.part(&command, Event::Failed(EngineError::Cancelled));
                }
                Job::Load(command) if command.cancel.is_cancelled() => {
                    let _ = command.events.send(LoadEvent::Failed(EngineError::Cancelled));
                }
                Job::Force(command) if command.done.is_closed() => {}
                Job::Bandwidth(done) if done.is_closed() => {}
                _ => self.waiting.push_back(waiting),
            }
        }
        self.waiting.len() != before
    }

    fn requests(&self) -> impl Iterator<Item = &GenerateCommand> {
        self.waiting.iter().filter_map(|waiting| match &waiting.job {
            Job::Generate(command, _) => Some(&**command),
            _ => None,
        })
    }

    /// Tells each waiting request its place (1 is next) when that has changed, unless nothing runs before it.
    fn tell_positions(&mut self, board: &mut Board, busy: bool) {
        board.queued = self.requests().map(|command| active(command, true)).collect();
        if !busy {
            return;
        }
        for (index, waiting) in self.waiting.iter_mut().enumerate() {
            let Job::Generate(command, _) = &waiting.job else { continue };
            let position = index + 1;
            if waiting.told != position && command.events.try_send(Event::Queued { position }).is_ok() {
                waiting.told = position;
            }
        }
    }
}

/// How the status line shows a request.
pub(crate) fn active(command: &GenerateCommand, waiting: bool) -> ActiveRequest {
    ActiveRequest {
        id: command.id,
        client: command.request.client.clone(),
        prompt_tokens: 0,
        generated: 0,
        waiting,
    }
}

/// Seconds since the request was submitted.
pub(crate) fn waited(command: &GenerateCommand) -> f64 {
    Instant::now().duration_since(command.submitted).as_secs_f64()
}
