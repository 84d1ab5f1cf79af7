//! Starting the engine: one thread behind an [`EngineHandle`].

use crate::{
    device::{Device, memory},
    machine::{Machine, Pressure, pressure},
    model::{FolderLoader, ModelLoader},
    prefix::DiskOptions,
    sample::Place,
    selftest,
    speculate::calibrate::Calibration,
    worker::{Engine, panic_text},
};
use dspark_protocol::{EngineHandle, EngineState, MachineInfo, Snapshot, Worker, channel};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    thread,
};

/// MLX walks its graphs recursively in places; deep models want room.
const STACK: usize = 16 << 20;

/// How the engine runs. [`Default`] is what the application uses.
pub struct EngineOptions {
    /// Where models come from.
    pub loader: Box<dyn ModelLoader>,
    /// Requests that may wait; one more is told that the engine is busy.
    pub queue_limit: usize,
    /// Finished prompt caches to keep for later turns, and four short ones for each beside them; 0 keeps none.
    pub prefix_slots: usize,
    /// Where prompts are kept between runs; `None` keeps them in memory alone.
    pub prefix_disk: Option<DiskOptions>,
    /// Prompt tokens computed between two looks at the commands; `None` chooses by device.
    pub prefill_chunk: Option<usize>,
    /// Where tokens are drawn; `None` chooses by device.
    pub place: Option<Place>,
    /// Where what is measured of a model on this machine is kept.
    pub calibration: Calibration,
    /// How short memory is, asked every few seconds while there is something to give back.
    pub pressure: fn() -> Pressure,
    /// Run before anything else; what it says keeps the engine from serving.
    pub self_test: fn() -> Result<(), String>,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self {
            loader: Box::new(FolderLoader),
            queue_limit: 32,
            prefix_slots: 2,
            prefix_disk: None,
            prefill_chunk: None,
            place: None,
            calibration: Calibration::default(),
            pressure,
            self_test: || selftest::run().map(|_| ()).map_err(|error| error.to_string()),
        }
    }
}

/// Starts the engine's thread. It ends after [`EngineHandle::shutdown`], or when the last handle is
/// gone and what was asked for is done.
pub fn start(options: EngineOptions) -> EngineHandle {
    let (handle, worker) = channel();
    let failed = worker.snapshot.clone();
    let spawned = thread::Builder::new()
        .name("engine".into())
        .stack_size(STACK)
        .spawn(move || live(worker, options));
    if let Err(error) = spawned {
        let snapshot = Snapshot {
            state: EngineState::Error {
                reason: format!("the engine thread did not start: {error}; close other programs and start again"),
            },
            ..Snapshot::default()
        };
        failed.send_replace(Arc::new(snapshot));
    }
    handle
}

/// The thread's life: look at the machine, test it, work.
fn live(worker: Worker, options: EngineOptions) {
    let snapshot = worker.snapshot.clone();
    let self_test = options.self_test;
    let looked = catch_unwind(|| -> Result<_, String> {
        let found = survey()?;
        self_test()?;
        Ok(found)
    });
    crate::exit::skip_destructors();
    let ready = looked.unwrap_or_else(|panic| Err(panic_text(&*panic)));
    let engine = ready.and_then(|(device, now)| Engine::new(worker, options, device, now).map_err(|error| error.to_string()));
    let mut engine = match engine {
        Ok(engine) => engine,
        Err(reason) => {
            tracing::error!(%reason, "the engine does not start");
            let now = Snapshot {
                state: EngineState::Error { reason },
                ..Snapshot::clone(&snapshot.borrow())
            };
            snapshot.send_replace(Arc::new(now));
            return;
        }
    };
    // Requests and loads catch their own panics; this is for the loop itself.
    while let Err(panic) = catch_unwind(AssertUnwindSafe(|| engine.run())) {
        tracing::error!(panic = panic_text(&*panic), "the engine loop panicked; it goes on");
    }
}

/// Chooses the device; the first snapshot says which machine this is.
fn survey() -> Result<(Device, Snapshot), String> {
    let machine = Machine::detect();
    let device = Device::choose().map_err(|error| error.what().to_owned())?;
    let snapshot = Snapshot {
        memory: memory(&device, machine.ram),
        machine: Arc::new(MachineInfo {
            backend: device.backend.into(),
            device: device.name.clone().unwrap_or(machine.chip),
            cores: machine.cores,
            ram: machine.ram,
            mlx_version: device.mlx_version.clone(),
        }),
        ..Snapshot::default()
    };
    Ok((device, snapshot))
}
