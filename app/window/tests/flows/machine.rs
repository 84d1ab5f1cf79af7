//! This machine in the Lab: what is asked for when, and what becomes of the answers.

use super::support::*;
use dspark_protocol::Bandwidth;
use dspark_window::state::{LabMsg, LabView, MachineMsg, Measured};

fn machine(state: &mut State, message: MachineMsg) -> Vec<Effect> {
    update(state, Msg::Machine(message))
}

fn open(state: &mut State) -> Vec<Effect> {
    update(state, Msg::Lab(LabMsg::View(LabView::Machine)))
}

fn bandwidth() -> Bandwidth {
    Bandwidth {
        gigabytes_per_second: 100.0,
        ..Bandwidth::default()
    }
}

#[test]
fn opening_it_asks_for_what_is_missing_once() {
    let mut state = ready();
    let path = PathBuf::from("/models/starter");
    assert_eq!(
        open(&mut state),
        [Effect::ReadMachine, Effect::ReadFootprint(path.clone()), Effect::MeasureBandwidth]
    );
    let footprint = dspark_window::machine::roofline::Footprint {
        total: 100_000_000,
        active: 100_000_000,
        estimate: false,
    };
    machine(
        &mut state,
        MachineMsg::Footprint {
            path,
            footprint: Ok(footprint),
        },
    );
    let saved = machine(&mut state, MachineMsg::Measured(Ok(bandwidth())));
    assert!(matches!(&saved[..], [Effect::SaveBandwidth(measured)] if !measured.degraded));
    assert_eq!(open(&mut state), [Effect::ReadMachine]);
    assert_eq!(state.ceiling(0), Some(1000.0));
    // A reply stands against it, until the model is another one.
    turn(&mut state, "a question", "an answer");
    assert_eq!(state.lab.machine.replies.len(), 1);
    update(&mut state, Msg::Lab(LabMsg::Forget(None)));
    assert!(state.lab.machine.replies.is_empty());
}

#[test]
fn a_measurement_of_another_machine_is_not_this_ones() {
    let mut state = ready();
    let other = Measured {
        device: "Apple M4 Pro".into(),
        ..Measured::default()
    };
    machine(&mut state, MachineMsg::Known(other));
    assert!(state.bandwidth().is_none());
    assert!(open(&mut state).contains(&Effect::MeasureBandwidth));
}

#[test]
fn it_fails_is_cancelled_and_waits_for_the_engine() {
    let mut state = ready();
    open(&mut state);
    assert_eq!(machine(&mut state, MachineMsg::Cancel), [Effect::CancelBandwidth]);
    machine(&mut state, MachineMsg::Measured(Err("cancelled".into())));
    assert!(!state.lab.machine.measuring);
    assert_eq!(state.lab.machine.failure.as_deref(), Some("cancelled"));
    assert_eq!(
        open(&mut state),
        [Effect::ReadMachine, Effect::ReadFootprint("/models/starter".into())],
        "not again unasked"
    );
    assert_eq!(machine(&mut state, MachineMsg::Measure), [Effect::MeasureBandwidth]);
    machine(&mut state, MachineMsg::Measured(Ok(bandwidth())));
    // While a client is being answered it would measure nothing true.
    let busy = Snapshot {
        state: EngineState::Generating { tokens_per_sec: 9.0 },
        model: Some(info("starter")),
        requests: vec![ActiveRequest {
            id: 1,
            client: "opencode".into(),
            prompt_tokens: 1,
            generated: 1,
            waiting: false,
        }],
        ..Snapshot::default()
    };
    update(&mut state, Msg::Snapshot(Arc::new(busy)));
    assert!(machine(&mut state, MachineMsg::Measure).is_empty());
    assert_eq!(state.toasts.latest().unwrap().title, "The engine is busy");
}

#[test]
fn swap_that_grows_in_a_reply_is_a_problem() {
    let mut state = ready();
    machine(
        &mut state,
        MachineMsg::Swap {
            begins: true,
            used: 1 << 30,
        },
    );
    turn(&mut state, "a", "b");
    machine(
        &mut state,
        MachineMsg::Swap {
            begins: false,
            used: (1 << 30) + (512 << 20),
        },
    );
    let judgement = state.judgement();
    assert!(judgement.findings[0].contains("512 MiB"), "{judgement:?}");
}
