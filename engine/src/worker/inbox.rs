//! Commands on their way to work: a bounded first-in-first-out queue that is drained between chunks and rounds.

use super::outlet;
use crate::telemetry::Board;
use dspark_protocol::{ActiveRequest, Command, EngineError, Event, GenerateCommand, LoadCommand, LoadEvent, LoadStage, Result};
use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};
use tokio::{
    runtime::Runtime,
    sync::{mpsc, oneshot},
};

/// One thing to do, in order of arrival.
pub(crate) enum Job {
    Generate(Box<GenerateCommand>),
    Load(LoadCommand),
    Unload(oneshot::Sender<Result<()>>),
}

struct Waiting {
    job: Job,
    /// The position that a waiting request was last told.
    told: usize,
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
}

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
        if changed {
            self.tell_positions(board, board.busy());
            board.show();
        }
    }

    /// The next job, waiting for one at most this long; `None` after that, or when stopped.
    pub(crate) fn next(&mut self, board: &mut Board, patience: Option<Duration>) -> Option<Job> {
        self.drain(board);
        if self.waiting.is_empty() && !self.finished() {
            let arrival = self.commands.recv();
            let arrival = self.runtime.block_on(async {
                match patience {
                    Some(patience) => tokio::time::timeout(patience, arrival).await.ok(),
                    None => Some(arrival.await),
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
        let job = self.waiting.pop_front().map(|waiting| waiting.job);
        if job.is_some() {
            self.tell_positions(board, true);
        }
        job
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
                () = tokio::time::sleep(Duration::from_millis(50)) => None,
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
                Job::Generate(command) => self.part(&command, Event::Failed(EngineError::Stopped)),
                Job::Load(command) => {
                    let _ = command.events.send(LoadEvent::Failed(EngineError::Stopped));
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
                Job::Generate(command)
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
            Command::Unload { done } => Job::Unload(done),
            Command::Shutdown => {
                self.stopped = true;
                return;
            }
        };
        self.waiting.push_back(Waiting { job, told: 0 });
    }

    fn forget_cancelled(&mut self, board: &mut Board) -> bool {
        let before = self.waiting.len();
        for waiting in std::mem::take(&mut self.waiting) {
            match waiting.job {
                Job::Generate(command) if outlet::gone(&command) => {
                    board.now.totals.cancelled += 1;
                    self.part(&command, Event::Failed(EngineError::Cancelled));
                }
                Job::Load(command) if command.cancel.is_cancelled() => {
                    let _ = command.events.send(LoadEvent::Failed(EngineError::Cancelled));
                }
                _ => self.waiting.push_back(waiting),
            }
        }
        self.waiting.len() != before
    }

    fn requests(&self) -> impl Iterator<Item = &GenerateCommand> {
        self.waiting.iter().filter_map(|waiting| match &waiting.job {
            Job::Generate(command) => Some(&**command),
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
            let Job::Generate(command) = &waiting.job else { continue };
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
