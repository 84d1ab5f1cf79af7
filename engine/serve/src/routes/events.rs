//! `GET /events`: rounds as they happen, as server-sent events. Source: `spec/http-api.md` §13.4.
//!
//! The task behind it wakes at snapshots and copies what is new in the ring: the worker knows nothing of its readers.

use super::rounds::{request_id, round, stats};
use crate::{App, error::ApiError};
use axum::{
    body::Body,
    extract::State,
    http::header,
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use dspark_protocol::{EngineState, ModelInfo, RoundStats, Snapshot};
use futures_util::stream;
use serde_json::{Value, json};
use std::{convert::Infallible, sync::Arc, time::Duration};
use tokio::{
    sync::mpsc::{self, error::TrySendError},
    time::Instant,
};

/// Rounds that a new reader gets to begin with.
const REPLAY: usize = 32;
/// Events that a reader may lag behind before it is let go.
const LAG: usize = 256;
const KEEP_ALIVE: Duration = Duration::from_secs(1);
/// Without a round for this long, the sums are sent once more.
const IDLE_STATS: Duration = Duration::from_secs(15);

pub(crate) async fn events(State(app): State<App>) -> Result<Response, ApiError> {
    app.ready(&app.engine.snapshot())?;
    let (sender, receiver) = mpsc::channel::<Bytes>(LAG + REPLAY + 1);
    tokio::spawn(async move {
        let mut feed = Feed {
            app,
            sender,
            after: None,
            prefill: None,
        };
        match feed.run().await {
            Err(Ended::Lagging) => tracing::info!("a reader of /events lags by {LAG} events: dropped"),
            Err(Ended::Gone) | Ok(()) => {}
        }
    });
    let body = stream::unfold(receiver, |mut receiver| async {
        let frame = receiver.recv().await?;
        Some((Ok::<Bytes, Infallible>(frame), receiver))
    });
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-cache"),
        (header::HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    Ok((headers, Body::from_stream(body)).into_response())
}

enum Ended {
    /// The reader has left.
    Gone,
    /// The reader reads too slowly.
    Lagging,
}

struct Feed {
    app: App,
    sender: mpsc::Sender<Bytes>,
    /// The last round sent.
    after: Option<u64>,
    /// The prompt that was being read in the last snapshot: request, read, total.
    prefill: Option<(u64, usize, usize)>,
}

impl Feed {
    /// Until the reader leaves, the model changes, or the server stops.
    async fn run(&mut self) -> Result<(), Ended> {
        let stopping = self.app.stopping.clone();
        let mut changes = self.app.engine.subscribe();
        let mut snapshot = changes.borrow_and_update().clone();
        let model = snapshot.model.clone();
        for past in self.app.engine.rounds().last(REPLAY) {
            self.after = Some(past.seq);
            self.send("round", &round(&past))?;
        }
        self.send_stats()?;
        let mut quiet_since = Instant::now();
        loop {
            if !same(model.as_ref(), snapshot.model.as_ref()) {
                return Ok(());
            }
            let before = self.after;
            self.catch_up(&snapshot)?;
            if self.after != before {
                quiet_since = Instant::now();
            }
            tokio::select! {
                () = self.sender.closed() => return Ok(()),
                () = stopping.cancelled() => return Ok(()),
                changed = changes.changed() => {
                    if changed.is_err() {
                        return Ok(());
                    }
                    snapshot = changes.borrow_and_update().clone();
                }
                () = tokio::time::sleep(KEEP_ALIVE) => {
                    self.push(Bytes::from_static(b": keep-alive\n\n"))?;
                    if quiet_since.elapsed() >= IDLE_STATS {
                        quiet_since = Instant::now();
                        self.send_stats()?;
                    }
                }
            }
        }
    }

    /// What has happened since the last call.
    fn catch_up(&mut self, snapshot: &Snapshot) -> Result<(), Ended> {
        let now = match snapshot.state {
            EngineState::Prefilling { processed, total } => {
                let request = snapshot.requests.iter().find(|request| !request.waiting);
                request.map(|request| (request.id, processed, total))
            }
            _ => None,
        };
        let t = snapshot.started.elapsed().as_secs_f64() * 1e3;
        let mode = snapshot.speculation.as_ref().map(|state| state.mode);
        let prefill = |(request, processed, total): (u64, usize, usize), done: bool| {
            let mut event = json!({
                "type": "prefill",
                "req": request_id(request),
                "mode": mode,
                "processed": processed,
                "total": total,
                "t": super::rounds::rounded(t, 1),
            });
            if done {
                event["done"] = json!(true);
            }
            event
        };
        if self.prefill != now {
            // The last chunk, or a request that went away in the middle of its prompt.
            if let Some(last) = self.prefill.filter(|last| now.is_none_or(|now| now.0 != last.0)) {
                self.send("prefill", &prefill(last, true))?;
            }
            if let Some(now) = now {
                self.send("prefill", &prefill(now, false))?;
            }
            self.prefill = now;
        }
        for new in self.app.engine.rounds().since(self.after) {
            self.after = Some(new.seq);
            self.send("round", &round(&new))?;
        }
        Ok(())
    }

    fn send_stats(&self) -> Result<(), Ended> {
        self.send("stats", &stats(&RoundStats::of(&self.app.engine.rounds().since(None))))
    }

    fn send(&self, event: &str, data: &Value) -> Result<(), Ended> {
        self.push(format!("event: {event}\ndata: {data}\n\n").into())
    }

    fn push(&self, frame: Bytes) -> Result<(), Ended> {
        self.sender.try_send(frame).map_err(|error| match error {
            TrySendError::Closed(_) => Ended::Gone,
            TrySendError::Full(_) => Ended::Lagging,
        })
    }
}

fn same(a: Option<&Arc<ModelInfo>>, b: Option<&Arc<ModelInfo>>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => Arc::ptr_eq(a, b) || (a.path == b.path && a.loaded_at == b.loaded_at && a.name == b.name),
        (None, None) => true,
        _ => false,
    }
}
