//! The engine's pictures of itself, as they change.

use super::{FRAME, Inbox, thread};
use crate::state::Msg;
use dspark_protocol::{EngineHandle, Snapshot};
use tokio_util::sync::CancellationToken;

/// Sends every new picture of the engine, until cancelled. The heartbeat alone is no news.
pub(super) fn watch(engine: EngineHandle, inbox: Inbox, cancel: CancellationToken) {
    thread("watch", move || {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_time().build() else {
            return;
        };
        runtime.block_on(async move {
            let mut changes = engine.subscribe();
            let mut last = changes.borrow_and_update().clone();
            inbox.push(Msg::Snapshot(last.clone()));
            while let Some(Ok(())) = cancel.run_until_cancelled(changes.changed()).await {
                let snapshot = changes.borrow_and_update().clone();
                if is_news(&last, &snapshot) {
                    inbox.push(Msg::Snapshot(snapshot.clone()));
                    last = snapshot;
                }
                tokio::time::sleep(FRAME).await;
            }
        });
    });
}

fn is_news(before: &Snapshot, after: &Snapshot) -> bool {
    let beat = |snapshot: &Snapshot| Snapshot {
        beat: before.started,
        started: before.started,
        ..snapshot.clone()
    };
    beat(before) != beat(after)
}
