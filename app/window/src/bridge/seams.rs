//! What the window needs from the rest of the program, as traits: the HTTP server behind [`ServerControl`], the machine
//! behind [`MachineSource`], and the hub behind [`super::Catalog`]. The binary fills them in; tests and screenshots bring
//! their own.

use super::Activity;
use crate::machine::{roofline::Footprint, verdict::Pressure};
use dspark_sensors::{Conditions, Gpu, Heat, PowerMode, Slowdown};
use dspark_strings::t;
use std::path::Path;

/// How the HTTP server is asked to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerConfig {
    pub port: u16,
    pub api_key: Option<String>,
}

/// Why the server did not start.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ServerFailure {
    /// What happened and who holds the port, if known.
    pub reason: String,
    pub next_free: Option<u16>,
}

/// The HTTP server. Called from a background thread; may block.
pub trait ServerControl: Send + Sync {
    /// Starts, or restarts with another configuration. Returns the base URL.
    ///
    /// # Errors
    /// [`ServerFailure`], such as a port in use.
    fn start(&self, config: &ServerConfig) -> Result<String, ServerFailure>;
    fn stop(&self);

    /// Who asks for what, also while it is stopped. Asked for by the window's own thread: answers at once.
    fn activity(&self) -> Activity {
        Activity::default()
    }

    /// Stops the request of this id at its next round; false where there is none. Answers at once.
    fn cancel(&self, _id: &str) -> bool {
        false
    }
}

/// A program without a server.
pub struct NoServer;

impl ServerControl for NoServer {
    fn start(&self, _: &ServerConfig) -> Result<String, ServerFailure> {
        Err(ServerFailure {
            reason: t!(no_server_build).into(),
            next_free: None,
        })
    }

    fn stop(&self) {}
}

/// How this machine is now; memory in bytes.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Reading {
    pub pressure: Pressure,
    /// What programs could still get without swapping.
    pub available: u64,
    pub total: u64,
    pub swap_used: u64,
    /// 0: there is none.
    pub swap_total: u64,
    /// Percent of the last ten seconds in which work waited for memory, where the system counts that.
    pub stalled: Option<f64>,
    pub conditions: Conditions,
    /// With memory of their own, as their driver tells.
    pub gpus: Vec<Gpu>,
}

impl Reading {
    pub fn is_pressed(&self) -> bool {
        self.pressure != Pressure::Normal
    }

    /// The one that computes, by the name that the engine has for it; else the first.
    pub fn gpu(&self, device: &str) -> Option<&Gpu> {
        self.gpus.iter().find(|gpu| device.contains(&gpu.name)).or(self.gpus.first())
    }

    /// What makes this machine slower than it could be, in words, and whether that is a fault.
    pub fn slowed(&self, device: &str) -> Option<(String, bool)> {
        let gpu = self.gpu(device).filter(|gpu| device.contains(&gpu.name));
        if let Some((gpu, kind)) = gpu.and_then(|gpu| Some((gpu, gpu.slowed.first()?))) {
            let fault = matches!(kind, Slowdown::Heat | Slowdown::PowerBrake);
            return Some((t!(device_is, name = gpu.name, what = slowdown(*kind)), fault));
        }
        let fault = self.conditions.heat >= Some(Heat::Serious);
        slows(&self.conditions).map(|words| (words, fault))
    }

    /// What the level means, with the figures it comes from.
    pub fn explain(&self) -> String {
        let part = 100.0 * self.available as f64 / self.total.max(1) as f64;
        let mut words = t!(memory_without_swap, part = format!("{part:.0}"));
        if let Some(stalled) = self.stalled {
            words.push_str(&t!(memory_stalled, stalled = format!("{stalled:.1}")));
        }
        words.push_str(t!(full_stop));
        words
    }
}

/// What holds a graphics processor back, in words.
pub(crate) fn slowdown(kind: Slowdown) -> &'static str {
    match kind {
        Slowdown::Heat => t!(slowed_heat),
        Slowdown::Power => t!(slowed_power),
        Slowdown::PowerBrake => t!(slowed_brake),
        Slowdown::Clocks => t!(slowed_clocks),
    }
}

/// What [`Conditions::slows`] says, in the window's language.
fn slows(conditions: &Conditions) -> Option<String> {
    match conditions.heat {
        Some(Heat::Serious) => return Some(t!(slow_hot).into()),
        Some(Heat::Critical) => return Some(t!(slow_too_hot).into()),
        _ => {}
    }
    if let Some(clock) = conditions.clock.filter(|clock| clock.is_held()) {
        let [allowed, possible] = [clock.allowed, clock.possible].map(|clock| format!("{clock:.1}"));
        return Some(t!(slow_clock, allowed = allowed, possible = possible));
    }
    (conditions.power_mode == Some(PowerMode::Saving)).then(|| t!(slow_saving).into())
}

/// The machine itself. Called from a background thread; may block.
pub trait MachineSource: Send + Sync {
    fn read(&self) -> Reading;

    /// Bytes of the weights in a model's folder.
    ///
    /// # Errors
    /// What cannot be read, in words for a person.
    fn footprint(&self, model: &Path) -> Result<Footprint, String>;
}

/// A machine that says nothing of itself.
pub struct NoMachine;

impl MachineSource for NoMachine {
    fn read(&self) -> Reading {
        Reading::default()
    }

    fn footprint(&self, _: &Path) -> Result<Footprint, String> {
        Err(t!(no_reading_build).into())
    }
}
