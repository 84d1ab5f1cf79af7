//! What the engine shows of itself: the latest [`Snapshot`] and the ring of rounds.

use crate::device::{self, Device};
use dspark_protocol::{ActiveRequest, EngineState, RoundRecord, RoundRing, Snapshot};
use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::sync::watch;

/// Snapshots while generating or loading: at most 30 a second.
const FRAME: Duration = Duration::from_millis(34);
/// Tokens that the shown rate looks back over.
const RATE_WINDOW: usize = 64;

/// Publishes the engine's state.
pub(crate) struct Board {
    /// Edited freely; seen by others at the next publication.
    pub(crate) now: Snapshot,
    pub(crate) active: Option<ActiveRequest>,
    pub(crate) queued: Vec<ActiveRequest>,
    device: Device,
    sender: watch::Sender<Arc<Snapshot>>,
    rounds: RoundRing,
    seq: u64,
    published: Instant,
    /// Progress since the last publication.
    withheld: bool,
}

impl Board {
    pub(crate) fn new(sender: watch::Sender<Arc<Snapshot>>, rounds: RoundRing, now: Snapshot, device: Device) -> Self {
        Self {
            now,
            active: None,
            queued: Vec::new(),
            device,
            sender,
            rounds,
            seq: 0,
            published: Instant::now(),
            withheld: false,
        }
    }

    /// Another model, or none: the rounds of the one before say nothing about it.
    pub(crate) fn forget_rounds(&self) {
        self.rounds.clear();
    }

    /// Whether the engine is at work.
    pub(crate) fn busy(&self) -> bool {
        use EngineState::{Generating, Loading, Prefilling, Unloading};
        matches!(self.now.state, Loading { .. } | Prefilling { .. } | Generating { .. } | Unloading)
    }

    /// A change of state: published at once.
    pub(crate) fn enter(&mut self, state: EngineState) {
        self.now.state = state;
        self.publish();
    }

    /// Progress within a state: published when the last publication is old enough.
    pub(crate) fn progress(&mut self, state: EngineState) {
        self.now.state = state;
        self.now.beat = Instant::now();
        self.withheld = self.published.elapsed() < FRAME;
        if !self.withheld {
            self.publish();
        }
    }

    /// Shows the progress that was too early to be published: what comes next may take long.
    pub(crate) fn catch_up(&mut self) {
        if self.withheld {
            self.show();
        }
    }

    pub(crate) fn publish(&mut self) {
        self.published = Instant::now();
        self.now.beat = self.published;
        self.show();
    }

    /// Shows a change that is no progress (a longer queue) without touching the beat.
    pub(crate) fn show(&mut self) {
        self.withheld = false;
        self.now.memory = device::memory(&self.device, self.now.machine.ram);
        self.now.requests = self.active.iter().chain(&self.queued).cloned().collect();
        self.sender.send_replace(Arc::new(self.now.clone()));
    }

    /// Records a round; the number, the time and the request are filled in here.
    pub(crate) fn round(&mut self, request: u64, round: RoundRecord) {
        self.seq += 1;
        self.rounds.push(RoundRecord {
            seq: self.seq,
            t_ms: self.now.started.elapsed().as_secs_f64() * 1e3,
            request,
            ..round
        });
    }
}

/// Tokens a second over the last few tokens.
#[derive(Debug, Default)]
pub(crate) struct Rate(VecDeque<Instant>);

impl Rate {
    pub(crate) fn token(&mut self, at: Instant) {
        if self.0.len() > RATE_WINDOW {
            self.0.pop_front();
        }
        self.0.push_back(at);
    }

    /// 0 before the second token.
    pub(crate) fn per_second(&self) -> f64 {
        match (self.0.front(), self.0.back()) {
            (Some(first), Some(last)) if last > first => (self.0.len() - 1) as f64 / last.duration_since(*first).as_secs_f64(),
            _ => 0.0,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn board() -> (Board, watch::Receiver<Arc<Snapshot>>) {
        let (sender, receiver) = watch::channel(Arc::new(Snapshot::default()));
        (
            Board::new(sender, RoundRing::default(), Snapshot::default(), Device::current().unwrap()),
            receiver,
        )
    }

    #[test]
    fn progress_is_published_at_most_thirty_times_a_second_and_changes_at_once() {
        let (mut board, mut seen) = board();
        board.enter(EngineState::Ready);
        assert!(seen.has_changed().unwrap());
        seen.mark_unchanged();
        let (start, mut frames) = (Instant::now(), 0);
        while start.elapsed() < Duration::from_millis(300) {
            board.progress(EngineState::Generating { tokens_per_sec: 1.0 });
            frames += usize::from(seen.has_changed().unwrap());
            seen.mark_unchanged();
        }
        assert!((1..=9).contains(&frames), "{frames}");
        board.enter(EngineState::NoModel);
        assert_eq!(seen.borrow().state, EngineState::NoModel);
    }

    #[test]
    fn the_rate_looks_back_over_a_window() {
        let start = Instant::now();
        let mut rate = Rate::default();
        rate.token(start);
        assert_eq!(rate.per_second(), 0.0);
        for i in 1..=100 {
            rate.token(start + Duration::from_secs(i));
        }
        for i in 1..=200 {
            rate.token(start + Duration::from_secs(100) + Duration::from_millis(100 * i));
        }
        assert!((rate.per_second() - 10.0).abs() < 1e-6, "{}", rate.per_second());
    }
}
