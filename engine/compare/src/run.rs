//! One generation to its end, with what it cost.

use dspark_protocol::{EngineError, EngineHandle, Event, FinishReason, Request, Result, Summary};
use std::time::Instant;
use tokio_util::sync::CancellationToken;

/// A finished generation.
#[derive(Debug, Clone)]
pub struct Ran {
    pub summary: Summary,
    /// Processor seconds of the whole process from the first token to the last.
    pub decode_cpu: f64,
    /// Wall seconds from the submission to the end.
    pub end_to_end: f64,
}

/// Runs `request`. `seen` gets every event with the seconds since the engine took the request up; what it returns is not
/// waited for.
///
/// # Errors
/// What the engine says, and [`EngineError::Cancelled`] after `cancel` or where somebody else has stopped it.
pub async fn run(handle: &EngineHandle, request: Request, cancel: &CancellationToken, seen: &mut dyn FnMut(&Event, f64)) -> Result<Ran> {
    let begun = Instant::now();
    let mut admitted = begun;
    let mut generation = handle.submit(request)?;
    let mut first = None;
    loop {
        let Some(event) = cancel.run_until_cancelled(generation.next()).await else {
            return Err(EngineError::Cancelled);
        };
        let event = event.ok_or(EngineError::Stopped)?;
        if matches!(event, Event::Started { .. }) {
            admitted = Instant::now();
        }
        seen(&event, admitted.elapsed().as_secs_f64());
        match event {
            Event::Delta(_) if first.is_none() => first = Some(cpu_seconds()),
            Event::Finished(summary) if summary.finish == FinishReason::Cancelled => return Err(EngineError::Cancelled),
            Event::Finished(summary) => {
                return Ok(Ran {
                    decode_cpu: first.map_or(0.0, |first| cpu_seconds() - first),
                    end_to_end: begun.elapsed().as_secs_f64(),
                    summary: *summary,
                });
            }
            Event::Failed(error) => return Err(error),
            _ => {}
        }
    }
}

/// Processor time of this process so far, all threads.
fn cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
