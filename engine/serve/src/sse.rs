//! Server-sent events towards one client: a bounded buffer, and a pump that keeps the line alive.

use crate::{
    error::ApiError,
    generate::{Closing, Opening, Running},
    reader::Reader,
};
use axum::body::Body;
use bytes::Bytes;
use dspark_protocol::{Event, TokenInfo};
use dspark_text::output::Piece;
use futures_util::Stream;
use std::{
    fmt::Write,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};
use tokio::{sync::mpsc, time::Instant};

/// Bytes a reader may lag behind before it counts as gone: a stalled client must not stall the engine.
const MAX_PENDING: usize = 1 << 20;

/// How a dialect writes a stream. Everything goes to `out` as complete frames, so frames never interleave.
pub(crate) trait Frames: Send + 'static {
    /// Before anything has been computed.
    fn open(&mut self, opening: Opening, out: &mut String);
    /// Tokens as they come, for dialects that show log-probabilities. The pieces that they make follow.
    fn tokens(&mut self, _tokens: &[TokenInfo]) {}
    fn piece(&mut self, piece: Piece, out: &mut String);
    /// The pieces of one step are written.
    fn settle(&mut self, _out: &mut String) {}
    /// After the last piece.
    fn finish(&mut self, closing: &Closing, out: &mut String);
    /// A real event that says nothing: clients' idle timers ignore comments.
    fn keep_alive(&mut self, out: &mut String);
    /// The status line is out already; this is how the dialect says that it went wrong.
    fn fail(&mut self, error: &ApiError, out: &mut String);
}

/// Appends `data: <json>` and the blank line.
pub(crate) fn data(out: &mut String, json: &impl serde::Serialize) {
    // Our own structures always serialise; a failure would be a bug that must not end the stream.
    let json = serde_json::to_string(json).unwrap_or_else(|_| "{}".into());
    let _ = write!(out, "data: {json}\n\n");
}

/// Appends `event: <name>` and its data.
pub(crate) fn named(out: &mut String, name: &str, json: &impl serde::Serialize) {
    let _ = writeln!(out, "event: {name}");
    data(out, json);
}

/// Runs a generation into a response body. The body's end (client gone, or reader too slow) cancels it.
pub(crate) fn stream(mut running: Running, mut reader: Reader, mut frames: impl Frames, opening: Opening, keep_alive: Duration) -> Body {
    let (sender, body) = channel();
    tokio::spawn(async move {
        let mut out = String::new();
        frames.open(opening, &mut out);
        if sender.send(&mut out).is_err() {
            return;
        }
        let mut quiet_until = Instant::now() + keep_alive;
        loop {
            let event = tokio::select! {
                biased;
                () = sender.closed() => return running.abandon("client disconnected"),
                event = running.next() => event,
                () = tokio::time::sleep_until(quiet_until) => {
                    frames.keep_alive(&mut out);
                    quiet_until = Instant::now() + keep_alive;
                    if sender.send(&mut out).is_err() {
                        return running.abandon("client stopped reading");
                    }
                    continue;
                }
            };
            let last = match event {
                Ok(Event::Finished(summary)) => {
                    reader
                        .finish(&summary.finish)
                        .into_iter()
                        .for_each(|piece| frames.piece(piece, &mut out));
                    frames.settle(&mut out);
                    frames.finish(&Closing::new(summary, &reader, &mut running), &mut out);
                    true
                }
                Ok(Event::Delta(delta)) => {
                    frames.tokens(&delta.tokens);
                    reader.read(&delta).into_iter().for_each(|piece| frames.piece(piece, &mut out));
                    frames.settle(&mut out);
                    if reader.is_done() {
                        running.enough();
                    }
                    false
                }
                Ok(_) => false,
                Err(error) => {
                    frames.fail(&error, &mut out);
                    true
                }
            };
            if !out.is_empty() {
                quiet_until = Instant::now() + keep_alive;
                if sender.send(&mut out).is_err() {
                    return running.abandon("client stopped reading");
                }
            }
            if last {
                return;
            }
        }
    });
    Body::from_stream(body)
}

fn channel() -> (Sender, Frame) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let pending = Arc::new(AtomicUsize::new(0));
    (
        Sender {
            sender,
            pending: pending.clone(),
        },
        Frame { receiver, pending },
    )
}

struct Sender {
    sender: mpsc::UnboundedSender<Bytes>,
    pending: Arc<AtomicUsize>,
}

/// Nobody reads any more.
#[derive(Debug)]
struct Gone;

impl Sender {
    /// Takes what is in `out`.
    fn send(&self, out: &mut String) -> Result<(), Gone> {
        if self.pending.fetch_add(out.len(), Ordering::Relaxed) + out.len() > MAX_PENDING {
            return Err(Gone);
        }
        self.sender.send(std::mem::take(out).into()).map_err(|_| Gone)
    }

    async fn closed(&self) {
        self.sender.closed().await;
    }
}

struct Frame {
    receiver: mpsc::UnboundedReceiver<Bytes>,
    pending: Arc<AtomicUsize>,
}

impl Stream for Frame {
    type Item = Result<Bytes, std::convert::Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.receiver.poll_recv(context).map(|frame| {
            frame.map(|frame| {
                self.pending.fetch_sub(frame.len(), Ordering::Relaxed);
                Ok(frame)
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_lags_a_mebibyte_is_gone() {
        let (sender, _body) = channel();
        let frame = "x".repeat(300 << 10);
        for _ in 0..3 {
            sender.send(&mut frame.clone()).unwrap();
        }
        assert!(sender.send(&mut frame.clone()).is_err());
    }

    #[tokio::test]
    async fn what_is_read_makes_room() {
        use futures_util::StreamExt;
        let (sender, mut body) = channel();
        for _ in 0..20 {
            sender.send(&mut "x".repeat(300 << 10)).unwrap();
            body.next().await.unwrap().unwrap();
        }
        drop(body);
        assert!(sender.send(&mut "x".into()).is_err());
        sender.closed().await;
    }
}
