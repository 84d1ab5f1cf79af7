use crate::state::{ChatMsg, Msg};
use dspark_protocol::Event;
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// The window repaints at most this often for what happens outside it.
pub const FRAME: Duration = Duration::from_millis(34);

/// Messages from other threads to the window. Waking is metered: however fast tokens come, the window is asked to
/// repaint about thirty times a second, and never while nothing comes.
#[derive(Clone, Default)]
pub struct Inbox(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    queue: VecDeque<Msg>,
    /// Who asks the window to repaint after a delay.
    wake: Option<Arc<dyn Fn(Duration) + Send + Sync>>,
    scheduled: bool,
    last: Option<Instant>,
}

impl Inbox {
    pub fn on_wake(&self, wake: impl Fn(Duration) + Send + Sync + 'static) {
        self.lock().wake = Some(Arc::new(wake));
    }

    pub fn push(&self, message: Msg) {
        let mut inner = self.lock();
        merge(&mut inner.queue, message);
        if inner.scheduled {
            return;
        }
        inner.scheduled = true;
        let since = inner.last.map_or(FRAME, |last| last.elapsed());
        // Never zero: an immediate repaint request draws two frames.
        let delay = FRAME.saturating_sub(since).max(Duration::from_millis(1));
        if let Some(wake) = inner.wake.clone() {
            drop(inner);
            wake(delay);
        }
    }

    /// Everything that has come since the last call.
    pub fn drain(&self) -> VecDeque<Msg> {
        let mut inner = self.lock();
        inner.scheduled = false;
        inner.last = Some(Instant::now());
        std::mem::take(&mut inner.queue)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Text that follows text of the same answer joins it; a newer snapshot replaces an older one.
fn merge(queue: &mut VecDeque<Msg>, message: Msg) {
    match (queue.back_mut(), message) {
        (
            Some(Msg::Chat(ChatMsg::Event {
                message: last,
                event: Event::Delta(known),
            })),
            Msg::Chat(ChatMsg::Event {
                message,
                event: Event::Delta(delta),
            }),
        ) if *last == message => {
            known.text.push_str(&delta.text);
            known.tokens.extend(delta.tokens);
        }
        (Some(last @ Msg::Snapshot(_)), newer @ Msg::Snapshot(_)) => *last = newer,
        (_, message) => queue.push_back(message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dspark_protocol::TextDelta;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn delta(message: i64, text: &str) -> Msg {
        Msg::Chat(ChatMsg::Event {
            message,
            event: Event::Delta(TextDelta {
                text: text.into(),
                tokens: Vec::new(),
            }),
        })
    }

    #[test]
    fn one_wake_a_frame_and_text_in_order() {
        let inbox = Inbox::default();
        let wakes = Arc::new(AtomicUsize::new(0));
        let count = wakes.clone();
        inbox.on_wake(move |delay| {
            assert!(!delay.is_zero() && delay <= FRAME);
            count.fetch_add(1, Ordering::Relaxed);
        });
        for _ in 0..400 {
            inbox.push(delta(1, "a"));
        }
        inbox.push(delta(2, "b"));
        inbox.push(Msg::Snapshot(Arc::default()));
        inbox.push(Msg::Snapshot(Arc::default()));
        inbox.push(delta(1, "c"));
        assert_eq!(wakes.load(Ordering::Relaxed), 1);
        let texts: Vec<String> = inbox
            .drain()
            .into_iter()
            .map(|message| match message {
                Msg::Chat(ChatMsg::Event {
                    message,
                    event: Event::Delta(delta),
                }) => format!("{message}{}", delta.text.len()),
                _ => "s".into(),
            })
            .collect();
        assert_eq!(texts, ["1400", "21", "s", "11"]);
        inbox.push(delta(1, "d"));
        assert_eq!(wakes.load(Ordering::Relaxed), 2);
    }
}
