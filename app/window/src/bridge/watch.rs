//! The engine's pictures of itself, as they change.

use super::{FRAME, Inbox, thread};
use crate::state::Msg;
use dspark_protocol::{EngineHandle, EngineState, Snapshot};
use std::{sync::Arc, time::Duration};
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::sync::CancellationToken;

/// How often figures that only count on are shown. Each costs a frame, and the frames of a window that nobody works in would be
/// taken from the model's speed; a number that changes thirty times a second cannot be read anyway.
const FIGURES: Duration = Duration::from_millis(500);

/// Sends every new picture of the engine, until cancelled: what happened at once, figures that count on twice a second. The
/// heartbeat alone is no news.
pub(super) fn watch(engine: EngineHandle, inbox: Inbox, cancel: CancellationToken) {
    thread("watch", move || {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_time().build() else {
            return;
        };
        let _ = runtime.block_on(cancel.run_until_cancelled(follow(&engine, |snapshot| inbox.push(Msg::Snapshot(snapshot)))));
    });
}

/// Ends with the engine.
async fn follow(engine: &EngineHandle, mut show: impl FnMut(Arc<Snapshot>)) {
    let mut changes = engine.subscribe();
    let mut last = changes.borrow_and_update().clone();
    let mut shown = Instant::now();
    show(last.clone());
    while changes.changed().await.is_ok() {
        let mut now = changes.borrow_and_update().clone();
        while is_news(&last, &now) && only_counts(&last, &now) {
            // The next change, or the time for figures.
            match timeout_at(shown + FIGURES, changes.changed()).await {
                Ok(Ok(())) => now = changes.borrow_and_update().clone(),
                Ok(Err(_)) | Err(_) => break,
            }
            sleep(FRAME).await;
        }
        if is_news(&last, &now) {
            last = now;
            shown = Instant::now();
            show(last.clone());
        }
        sleep(FRAME).await;
    }
}

fn is_news(before: &Snapshot, after: &Snapshot) -> bool {
    let beat = |snapshot: &Snapshot| Snapshot {
        beat: before.started,
        started: before.started,
        ..snapshot.clone()
    };
    beat(before) != beat(after)
}

/// Whether nothing happened but that numbers of what was under way went on.
fn only_counts(before: &Snapshot, after: &Snapshot) -> bool {
    let state = match (&before.state, &after.state) {
        (EngineState::Generating { .. }, EngineState::Generating { .. })
        | (EngineState::Prefilling { .. }, EngineState::Prefilling { .. }) => before.state.clone(),
        _ => after.state.clone(),
    };
    let requests = after.requests.iter().map(|request| {
        let known = before.requests.iter().find(|known| known.id == request.id);
        let generated = known.map_or(request.generated, |known| known.generated);
        dspark_protocol::ActiveRequest {
            generated,
            ..request.clone()
        }
    });
    let still = Snapshot {
        state,
        requests: requests.collect(),
        memory: before.memory,
        totals: before.totals,
        context_tokens: before.context_tokens,
        speculation: before.speculation.clone(),
        ..after.clone()
    };
    !is_news(before, &still)
}

#[cfg(test)]
mod tests {
    use super::*;
    use dspark_protocol::{ActiveRequest, channel};
    use std::sync::Mutex;

    fn generating(tokens: usize) -> Snapshot {
        Snapshot {
            state: EngineState::Generating {
                tokens_per_sec: tokens as f64,
            },
            requests: vec![ActiveRequest {
                id: 1,
                client: "a".into(),
                prompt_tokens: 3,
                generated: tokens,
                waiting: false,
            }],
            context_tokens: tokens,
            ..Snapshot::default()
        }
    }

    #[test]
    fn counting_on_is_told_from_what_happens() {
        let before = generating(5);
        assert!(only_counts(&before, &generating(9)));
        let done = Snapshot {
            state: EngineState::Ready,
            ..generating(9)
        };
        assert!(!only_counts(&before, &done));
        let mut second = generating(9);
        second.requests.push(ActiveRequest {
            id: 2,
            waiting: true,
            ..second.requests[0].clone()
        });
        assert!(!only_counts(&before, &second));
        let mut guarded = generating(9);
        guarded.last_decode_rate = Some(1.0);
        assert!(!only_counts(&before, &guarded));
    }

    /// Two hundred tokens are a handful of pictures, and none of what happens is lost or late.
    #[test]
    fn figures_wait_and_events_do_not() {
        let (handle, worker) = channel();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let watcher = std::thread::spawn({
            let seen = seen.clone();
            move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
                runtime.block_on(follow(&handle, |snapshot| seen.lock().unwrap().push(snapshot)));
            }
        });
        let begin = std::time::Instant::now();
        for token in 1..=200 {
            worker.snapshot.send_replace(Arc::new(generating(token)));
            std::thread::sleep(Duration::from_millis(5));
        }
        let counted = seen.lock().unwrap().len();
        let most = 3 + begin.elapsed().as_millis() as usize / FIGURES.as_millis() as usize;
        assert!(counted <= most, "{counted} pictures, at most {most}");
        let ready = Snapshot {
            state: EngineState::Ready,
            ..Snapshot::default()
        };
        worker.snapshot.send_replace(Arc::new(ready));
        let until = std::time::Instant::now() + Duration::from_mins(1);
        let last = || seen.lock().unwrap().last().map(|snapshot| snapshot.state.clone());
        while last() != Some(EngineState::Ready) {
            assert!(std::time::Instant::now() < until, "{:?}", last());
            std::thread::sleep(Duration::from_millis(5));
        }
        drop(worker);
        watcher.join().unwrap();
    }
}
