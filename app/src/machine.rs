//! This machine: for the fit arithmetic, and for the Lab.

use dspark_engine::{
    device::Device,
    machine::{Machine, pressure},
};
use dspark_hub::fit;
use dspark_window::{
    bridge::{MachineSource, Reading},
    machine::roofline::Footprint,
};
use serde_json::{Map, Value};
use std::{fs::File, io::Read as _, path::Path};
use sysinfo::{MemoryRefreshKind, RefreshKind, System};

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

/// What the system says of itself, and a model's files of their weights.
pub(crate) struct ThisMachine;

impl MachineSource for ThisMachine {
    fn read(&self) -> Reading {
        let kinds = RefreshKind::nothing().with_memory(MemoryRefreshKind::everything());
        let pressure = pressure();
        let (conditions, gpus) = dspark_sensors::read();
        let Ok(system) = System::new_with_specifics(kinds) else {
            return Reading {
                pressure,
                conditions,
                gpus,
                ..Reading::default()
            };
        };
        let (mut available, mut total) = (system.available_memory(), system.total_memory());
        // A container has less than the machine.
        if let Some(limits) = system.cgroup_limits().filter(|limits| limits.total_memory < total) {
            (available, total) = (limits.free_memory.min(available), limits.total_memory);
        }
        Reading {
            pressure,
            available,
            total,
            swap_used: system.used_swap(),
            swap_total: system.total_swap(),
            stalled: std::fs::read_to_string("/proc/pressure/memory")
                .ok()
                .and_then(|text| stalled(&text)),
            conditions,
            gpus,
        }
    }

    fn footprint(&self, model: &Path) -> Result<Footprint, String> {
        footprint(model)
    }
}

/// Percent of the last ten seconds in which some work waited for memory: Linux's pressure stall information.
fn stalled(text: &str) -> Option<f64> {
    let line = text.lines().find(|line| line.starts_with("some "))?;
    line.split_whitespace().find_map(|word| word.strip_prefix("avg10="))?.parse().ok()
}

/// From the headers of the safetensors files; no weights are read.
pub(crate) fn footprint(model: &Path) -> Result<Footprint, String> {
    let unreadable = |path: &Path, error: &dyn std::fmt::Display| format!("`{}` cannot be read: {error}", path.display());
    let config: Value = std::fs::read(model.join("config.json"))
        .map_err(|error| unreadable(&model.join("config.json"), &error))
        .and_then(|text| serde_json::from_slice(&text).map_err(|error| unreadable(&model.join("config.json"), &error)))?;
    let number = |keys: &[&str], least: u64| {
        let places = [&config["text_config"], &config];
        places
            .iter()
            .find_map(|place| keys.iter().find_map(|key| place[*key].as_u64().filter(|value| *value >= least)))
    };
    let experts = number(&["num_experts", "num_local_experts", "n_routed_experts"], 2);
    let top_k = number(&["num_experts_per_tok", "experts_per_token", "top_k_experts"], 1);
    let files = std::fs::read_dir(model).map_err(|error| unreadable(model, &error))?;
    let mut tensors = Vec::new();
    for path in files.flatten().map(|file| file.path()) {
        if path.extension().is_some_and(|extension| extension == "safetensors") {
            sizes(&path, &mut tensors).map_err(|error| unreadable(&path, &error))?;
        }
    }
    if tensors.is_empty() {
        return Err(format!("there are no safetensors files in `{}`", model.display()));
    }
    Ok(Footprint::of(
        tensors.iter().map(|(name, bytes)| (name.as_str(), *bytes)),
        experts,
        top_k,
    ))
}

/// Names and bytes of the tensors in one file.
fn sizes(path: &Path, tensors: &mut Vec<(String, u64)>) -> std::io::Result<()> {
    let mut file = File::open(path)?;
    let mut size = [0; 8];
    file.read_exact(&mut size)?;
    let size = u64::from_le_bytes(size);
    if size > file.metadata()?.len() {
        return Err(std::io::Error::other("its header is longer than the file"));
    }
    let mut text = vec![0; size as usize];
    file.read_exact(&mut text)?;
    let header: Map<String, Value> = serde_json::from_slice(&text)?;
    for (name, tensor) in header {
        let place = |at: usize| tensor["data_offsets"][at].as_u64();
        if let Some((from, to)) = place(0).zip(place(1)) {
            tensors.push((name, to.saturating_sub(from)));
        }
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn stalls_are_read_from_the_kernels_line() {
        let text = "some avg10=1.25 avg60=0.40 avg300=0.10 total=123\nfull avg10=0.50 avg60=0.00 avg300=0.00 total=9\n";
        assert_eq!(stalled(text), Some(1.25));
        assert_eq!(stalled(""), None);
    }

    #[test]
    fn this_machine_is_read() {
        let reading = ThisMachine.read();
        assert!(
            reading.total > 256 << 20 && reading.available > 0 && reading.available <= reading.total,
            "{reading:?}"
        );
        assert!(reading.swap_used <= reading.swap_total);
    }

    #[test]
    fn weights_are_counted_from_headers() {
        let folder = tempfile::tempdir().unwrap();
        let header = r#"{"__metadata__":{"format":"mlx"},"model.embed_tokens.weight":{"dtype":"U8","shape":[10],"data_offsets":[0,10]},"model.layers.0.mlp.switch_mlp.up_proj.weight":{"dtype":"U8","shape":[80],"data_offsets":[10,90]},"lm_head.weight":{"dtype":"U8","shape":[10],"data_offsets":[90,100]}}"#;
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend_from_slice(header.as_bytes());
        bytes.extend_from_slice(&[0; 100]);
        std::fs::write(folder.path().join("model.safetensors"), &bytes).unwrap();
        std::fs::write(
            folder.path().join("config.json"),
            r#"{"text_config":{"num_experts":8,"num_experts_per_tok":2}}"#,
        )
        .unwrap();
        let found = footprint(folder.path()).unwrap();
        assert_eq!((found.total, found.active, found.estimate), (100, 30, false));
        std::fs::write(folder.path().join("model.safetensors"), [255; 16]).unwrap();
        assert!(footprint(folder.path()).unwrap_err().contains("model.safetensors"));
        assert!(footprint(&folder.path().join("none")).unwrap_err().contains("config.json"));
    }
}
