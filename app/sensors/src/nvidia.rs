//! NVIDIA's graphics processors through NVML, the driver's own library, which is looked for at run time.

use crate::{Gpu, Slowdown};
use nvml_wrapper::{Device, Nvml, bitmasks::device::ThrottleReasons, enum_wrappers::device::TemperatureSensor};
use std::{ffi::OsStr, sync::LazyLock};

/// What a driver installs; the name without a number comes with development files only.
const LIBRARY: &str = "libnvidia-ml.so.1";

/// A driver that answers.
pub struct Driver(Nvml);

impl Driver {
    /// The driver behind this library; `None` where there is none, or it has no device.
    pub fn load(library: &OsStr) -> Option<Self> {
        Nvml::builder().lib_path(library).init().ok().map(Self)
    }

    /// All of its devices that can be asked.
    pub fn gpus(&self) -> Vec<Gpu> {
        let count = self.0.device_count().unwrap_or(0);
        (0..count).filter_map(|at| gpu(&self.0.device_by_index(at).ok()?)).collect()
    }
}

/// Of this machine. The driver is asked for once: where there is none at the first look, there is none.
pub(crate) fn gpus() -> Vec<Gpu> {
    static DRIVER: LazyLock<Option<Driver>> = LazyLock::new(|| Driver::load(OsStr::new(LIBRARY)));
    DRIVER.as_ref().map(Driver::gpus).unwrap_or_default()
}

/// A device that does not even tell its memory is not there; the rest some devices do not have.
fn gpu(device: &Device<'_>) -> Option<Gpu> {
    let memory = device.memory_info().ok()?;
    let watts = |milliwatts: u32| f64::from(milliwatts) / 1000.0;
    let power = device.power_usage().ok().map(watts);
    Some(Gpu {
        name: device.name().ok()?,
        memory_used: memory.used,
        memory_total: memory.total,
        busy: device.utilization_rates().ok().map(|rates| rates.gpu),
        celsius: device.temperature(TemperatureSensor::Gpu).ok(),
        watts: power.map(|now| (now, device.enforced_power_limit().ok().map(watts))),
        slowed: device.current_throttle_reasons().map(slowed).unwrap_or_default(),
    })
}

/// Being idle is no slowdown.
fn slowed(reasons: ThrottleReasons) -> Vec<Slowdown> {
    use ThrottleReasons as Of;
    let heat = Of::SW_THERMAL_SLOWDOWN | Of::HW_THERMAL_SLOWDOWN;
    let kinds = [
        // Hardware says `slowdown` for heat and power alike, with the reason beside it where it knows.
        (heat, Slowdown::Heat),
        (Of::SW_POWER_CAP, Slowdown::Power),
        (Of::HW_POWER_BRAKE_SLOWDOWN, Slowdown::PowerBrake),
        (Of::APPLICATIONS_CLOCKS_SETTING | Of::SYNC_BOOST, Slowdown::Clocks),
    ];
    let mut slowed: Vec<Slowdown> = kinds
        .into_iter()
        .filter(|(bits, _)| reasons.intersects(*bits))
        .map(|(_, kind)| kind)
        .collect();
    if slowed.is_empty() && reasons.contains(Of::HW_SLOWDOWN) {
        slowed.push(Slowdown::Power);
    }
    slowed
}
