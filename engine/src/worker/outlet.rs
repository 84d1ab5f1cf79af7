//! The events of one generation, with back-pressure: a slow reader is waited for while commands are still taken in;
//! a gone or cancelling one ends the generation within a round.

use super::inbox::Inbox;
use crate::telemetry::Board;
use dspark_protocol::{Event, GenerateCommand};
use tokio::sync::mpsc::error::TrySendError;

/// The reader is gone or has cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Gone;

/// Whether nobody waits for this generation any more.
pub(crate) fn gone(command: &GenerateCommand) -> bool {
    command.cancel.is_cancelled() || command.events.is_closed()
}

/// Delivers an event, waiting for room.
///
/// # Errors
/// [`Gone`] when the reader has left or cancelled before there was room, or the engine is told to stop.
pub(crate) fn deliver(command: &GenerateCommand, event: Event, inbox: &mut Inbox, board: &mut Board) -> Result<(), Gone> {
    let mut event = event;
    loop {
        event = match command.events.try_send(event) {
            Ok(()) => return Ok(()),
            Err(TrySendError::Closed(_)) => return Err(Gone),
            Err(TrySendError::Full(event)) => event,
        };
        if gone(command) || inbox.stopped() {
            return Err(Gone);
        }
        board.catch_up();
        inbox.wait_for_reader(command, board);
    }
}
