//! Ways to decode for a command: its prompts, what to say where nothing can be run, and Ctrl-C. What is run is in
//! `dspark-compare`.

use super::exit::{self, Failure, Outcome};
use dspark_compare::{Arm, Ran, Skipped, Text};
use dspark_protocol::{EngineHandle, Message, Mode, Prompt, Request, SpeculationState, TemplateOptions};
use tokio_util::sync::CancellationToken;

/// The prompts given, or else those of a shipped file; `None` takes those of a benchmark.
pub(super) fn texts(given: &[String], shipped: Option<&str>) -> Outcome<Vec<Text>> {
    dspark_compare::texts(given, shipped).map_err(|error| Failure::new(exit::FAILED, error))
}

/// A text as a person's first message.
pub(super) fn prompt(text: &str) -> Prompt {
    Prompt::Chat {
        messages: vec![Message::user(text)],
        options: TemplateOptions::default(),
    }
}

/// Those that the loaded pair can run, and why the others cannot.
///
/// # Errors
/// Where none is left.
pub(super) fn fitting(all: Vec<Arm>, speculation: Option<&SpeculationState>) -> Outcome<(Vec<Arm>, Vec<Skipped>)> {
    let (fit, skipped) = dspark_compare::fitting(all, speculation);
    match skipped.first() {
        Some(Skipped { run, reason }) if fit.iter().all(|arm| arm.mode == Mode::Baseline) => Err(Failure::new(
            exit::USAGE,
            format!("nothing can be run: `{run}`: {reason}; name a drafter with `--drafter`, or its kind with `--mode`"),
        )),
        _ => Ok((fit, skipped)),
    }
}

/// Runs one generation to its end. Ctrl-C ends the command.
pub(super) async fn run(handle: &EngineHandle, request: Request) -> Outcome<Ran> {
    let never = CancellationToken::new();
    interruptible(dspark_compare::run(handle, request, &never, &mut |_, _| {})).await
}

/// Waits for work of the engine. Ctrl-C ends it, and with it what it runs.
pub(super) async fn interruptible<T>(work: impl Future<Output = dspark_protocol::Result<T>>) -> Outcome<T> {
    tokio::select! {
        result = work => Ok(result?),
        _ = tokio::signal::ctrl_c() => Err(Failure::interrupted()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dspark_compare::{Shape, arms, shape};
    use dspark_protocol::{Cap, DrafterInfo};

    #[test]
    fn what_cannot_be_run_is_named_and_a_command_with_nothing_left_fails() {
        let loaded = SpeculationState {
            drafter: Some(DrafterInfo {
                name: "head".into(),
                path: "head".into(),
                kind: "dspark".into(),
                weight_bytes: 0,
                max_draft: 7,
            }),
            ..SpeculationState::default()
        };
        let mixed = |words: &[&str]| {
            let shapes: Vec<Shape> = words.iter().map(|word| shape(word).unwrap()).collect();
            arms(&shapes, &[Cap::Auto])
        };
        let (fit, skipped) = fitting(mixed(&["dspark", "dflash", "lookup"]), Some(&loaded)).unwrap();
        assert_eq!((fit.len(), skipped[0].run.as_str()), (2, "dflash auto"));
        assert!(skipped[0].reason.contains("`head` is a dspark one"), "{}", skipped[0].reason);
        assert!(fitting(mixed(&["dflash"]), Some(&loaded)).is_err());
        assert!(fitting(mixed(&["dspark", "dflash"]), None).is_err());
    }
}
