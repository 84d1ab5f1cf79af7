//! Heat, clocks and graphics processors, as the system tells them: NVIDIA's driver through NVML and `/sys` on Linux,
//! `NSProcessInfo` on macOS. What a system does not tell is `None`; nothing is guessed.

mod conditions;
#[cfg(target_os = "linux")]
mod nvidia;
mod sys;

pub use conditions::{Clock, Conditions, Heat, PowerMode};
#[cfg(target_os = "linux")]
pub use nvidia::Driver;
pub use sys::Sys;

use serde::{Deserialize, Serialize};

/// Why a graphics processor runs slower than it could.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Slowdown {
    Heat,
    /// Its power limit.
    Power,
    /// The power supply asks it to.
    PowerBrake,
    /// Somebody has set its clocks.
    Clocks,
}

impl Slowdown {
    /// `slowed by heat`.
    pub fn words(self) -> &'static str {
        match self {
            Self::Heat => "slowed by heat",
            Self::Power => "at its power limit",
            Self::PowerBrake => "slowed by the power supply",
            Self::Clocks => "held to set clocks",
        }
    }
}

/// A graphics processor with memory of its own.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Gpu {
    pub name: String,
    /// Bytes, of every program on it.
    pub memory_used: u64,
    pub memory_total: u64,
    /// Percent of the last moment in which it computed.
    pub busy: Option<u32>,
    /// Degrees Celsius.
    pub celsius: Option<u32>,
    /// Watts now, and the most it may draw.
    pub watts: Option<(f64, Option<f64>)>,
    /// Empty: nothing holds it back.
    pub slowed: Vec<Slowdown>,
}

/// How this machine is now. Reads a few small files and asks the driver; a few milliseconds, the first time more.
pub fn read() -> (Conditions, Vec<Gpu>) {
    #[cfg(target_os = "linux")]
    {
        (Sys::new("/sys").read(), nvidia::gpus())
    }
    #[cfg(target_os = "macos")]
    {
        (macos(), Vec::new())
    }
    #[cfg(not(any(target_os = "linux", target_os = "macos")))]
    {
        (Conditions::default(), Vec::new())
    }
}

#[cfg(target_os = "macos")]
fn macos() -> Conditions {
    use objc2_foundation::{NSProcessInfo, NSProcessInfoThermalState as State};
    let info = NSProcessInfo::processInfo();
    Conditions {
        heat: match info.thermalState() {
            State::Nominal => Some(Heat::Nominal),
            State::Fair => Some(Heat::Fair),
            State::Serious => Some(Heat::Serious),
            State::Critical => Some(Heat::Critical),
            _ => None,
        },
        power_mode: Some(if info.isLowPowerModeEnabled() {
            PowerMode::Saving
        } else {
            PowerMode::Automatic
        }),
        ..Conditions::default()
    }
}
