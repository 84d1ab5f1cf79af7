//! This machine, as the fit arithmetic wants it.

use dspark_engine::{device::Device, machine::Machine};
use dspark_hub::fit;

/// Memory for models: the GPU's own where one computes, main memory otherwise.
pub(crate) fn for_fit() -> fit::Machine {
    let gpu = Device::choose().ok().and_then(|device| device.memory);
    fit::Machine {
        ram: Machine::detect().ram,
        working_set: gpu,
        available: None,
    }
}

/// The `model_type`s that can be loaded.
pub(crate) fn families() -> Vec<String> {
    dspark_engine::families::names().split(", ").map(str::to_owned).collect()
}
