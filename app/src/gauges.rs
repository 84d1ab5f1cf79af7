//! This machine as `/machine` and `/metrics` tell it. Nothing is measured here: memory's pace is what the Lab measured, else
//! what the chip's maker says. Source: `spec/http-api.md` §13.3, `spec/fit-and-roofline.md` §9, §10.

use crate::machine::{self, ThisMachine};
use dspark_engine::machine::Machine;
use dspark_protocol::{MachineInfo, Snapshot};
use dspark_serve::Gauges;
use dspark_strings::Language;
use dspark_window::{
    bridge::{MachineSource, Reading},
    machine::{
        chips,
        limits::Limits,
        roofline::{Footprint, bytes_per_token},
        verdict::{Figures, Lever, judge},
    },
    state::Measured,
};
use serde_json::{Value, json};
use std::{
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

/// GB a second of the chip that published figures are of.
const REFERENCE: f64 = 273.0;

/// Reads this machine again and again.
pub(crate) struct Meter {
    /// Where the Lab keeps its measurement of memory.
    measured: PathBuf,
    /// Of the model in this folder; its headers are read once.
    footprint: Mutex<Option<(PathBuf, Option<Footprint>)>>,
}

impl Meter {
    pub(crate) fn new(measured: PathBuf) -> Self {
        Self {
            measured,
            footprint: Mutex::default(),
        }
    }

    pub(crate) fn read(&self, snapshot: &Snapshot) -> Gauges {
        let reading = ThisMachine.read();
        let machine = &snapshot.machine;
        let spec = chips::bandwidth(&machine.device);
        let measured = Measured::read(&self.measured).filter(|known| known.is_of(machine));
        let limits = Limits {
            engine: snapshot,
            footprint: snapshot.model.as_ref().and_then(|model| self.footprint(&model.path)),
            bandwidth: measured.as_ref().map(|known| known.bandwidth.gigabytes_per_second).or(spec),
        };
        Gauges {
            chip: chip(machine, spec),
            memory: memory(&reading),
            bandwidth: bandwidth(measured.as_ref(), spec),
            roofline: roofline(&limits),
            baseline: baseline(&limits),
            verdict: verdict(&limits, &reading),
        }
    }

    fn footprint(&self, model: &Path) -> Option<Footprint> {
        let mut known = self.footprint.lock().unwrap_or_else(PoisonError::into_inner);
        match &*known {
            Some((path, footprint)) if path == model => *footprint,
            _ => {
                let footprint = ThisMachine.footprint(model).ok();
                *known = Some((model.to_owned(), footprint));
                footprint
            }
        }
    }
}

/// `Apple M4 Pro` is generation 4 of the family `Pro`.
fn chip(machine: &MachineInfo, spec: Option<f64>) -> Value {
    let name = if machine.device.is_empty() {
        Machine::detect().chip
    } else {
        machine.device.clone()
    };
    let mut words = name.strip_prefix("Apple M").into_iter().flat_map(str::split_whitespace);
    let generation: Option<u32> = words.next().and_then(|number| number.parse().ok());
    let family = generation.map(|_| words.next().unwrap_or("base").to_lowercase());
    json!({
        "name": name,
        "generation": generation,
        "family": family,
        "cores": machine.cores,
        "gpu_cores": Value::Null,
        "bandwidth_gb_s": spec,
        "bandwidth_source": spec.map(|_| "table"),
    })
}

/// The whole machine's, bytes.
fn memory(reading: &Reading) -> Value {
    let free = 100.0 * reading.available as f64 / reading.total.max(1) as f64;
    json!({
        "total_bytes": reading.total,
        "available_bytes": reading.available,
        "model_budget_bytes": machine::for_fit().budget(),
        "pressure": reading.pressure,
        "pressure_level": reading.pressure.level(),
        "free_percent": free.round(),
        "swap_used_bytes": reading.swap_used,
        "swap_total_bytes": reading.swap_total,
        "wired_limit_mb": dspark_engine::machine::wired_limit_mb(),
    })
}

fn bandwidth(measured: Option<&Measured>, spec: Option<f64>) -> Value {
    match (measured, spec) {
        (Some(known), _) => json!({
            "gb_s": rounded(known.bandwidth.gigabytes_per_second, 1),
            "source": "measured",
            "measured_at": known.at,
            "method": known.bandwidth.method,
            "degraded": known.degraded,
            "reference_gb_s": REFERENCE,
        }),
        (None, Some(spec)) => json!({"gb_s": spec, "source": "theoretical", "reference_gb_s": REFERENCE}),
        (None, None) => Value::Null,
    }
}

fn roofline(limits: &Limits<'_>) -> Value {
    let (Some(footprint), Some(model)) = (limits.footprint, limits.engine.model.as_ref()) else {
        return Value::Null;
    };
    let at = |context: usize| {
        limits.ceiling(context).map(|ceiling| {
            json!({
                "context": context,
                "bytes_per_token": bytes_per_token(footprint.active, model.kv_bytes_per_token, context),
                "ceiling_tps": rounded(ceiling, 3),
            })
        })
    };
    match at(0) {
        None => Value::Null,
        zero => json!({
            "at_zero": zero,
            "at_last_request": limits.engine.last_reply.and_then(|reply| at(reply.context)),
            "at_context_window": at(model.context_window),
        }),
    }
}

fn baseline(limits: &Limits<'_>) -> Value {
    let (Some(step), Some((moved, part))) = (limits.step_ms(), limits.plain_step()) else {
        return Value::Null;
    };
    json!({"step_ms": rounded(step, 3), "achieved_gb_s": rounded(moved, 1), "mbu": rounded(part, 4)})
}

/// As the Lab judges, over the last reply of any face.
fn verdict(limits: &Limits<'_>, reading: &Reading) -> Value {
    let (engine, last) = (limits.engine, limits.engine.last_reply);
    // Programs read this: it stays English whatever the window speaks.
    let judgement = dspark_strings::speaking(Language::English, || {
        judge(&Figures {
            ratio: last.and_then(|reply| Some(reply.rate / limits.ceiling(reply.context)?)),
            accept: last.and_then(|reply| reply.accept),
            rate: last.map(|reply| reply.rate),
            context: last
                .zip(engine.model.as_ref())
                .map(|(reply, model)| (reply.context, model.context_window)),
            pressure: reading.pressure,
            swap_growth: last.and_then(|reply| reply.swap_growth),
            slowed: reading.slowed(&engine.machine.device),
            decay: last.and_then(|reply| reply.decay),
            cold: last.is_some_and(|reply| reply.cold),
            ..limits.figures()
        })
    });
    json!({
        "level": judgement.level,
        "headline": judgement.headline,
        "findings": judgement.findings.into_iter().map(|finding| finding.words).collect::<Vec<_>>(),
        "levers": judgement.levers.into_iter().map(Lever::advice).collect::<Vec<_>>(),
    })
}

fn rounded(value: f64, decimals: i32) -> f64 {
    let scale = 10f64.powi(decimals);
    (value * scale).round() / scale
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use dspark_protocol::{Bandwidth, LastReply, double::speculation::drafting};
    use std::sync::Arc;

    /// A model of 4.3 GB whose calibrated step moves most of what memory gives.
    fn snapshot() -> Snapshot {
        let double = dspark_protocol::double::start(dspark_protocol::double::Script::saying(""));
        while double.snapshot().model.is_none() {
            std::thread::yield_now();
        }
        Snapshot {
            model: double.snapshot().model.clone(),
            machine: Arc::new(MachineInfo {
                backend: "metal".into(),
                device: "Apple M4 Pro".into(),
                mlx_version: "1".into(),
                ..MachineInfo::default()
            }),
            speculation: Some(Arc::new(drafting())),
            last_reply: Some(LastReply {
                context: 8000,
                rate: 90.0,
                accept: Some(3.2),
                ..LastReply::default()
            }),
            ..Snapshot::default()
        }
    }

    #[test]
    fn the_chips_figure_counts_until_memory_is_measured() {
        let home = tempfile::tempdir().unwrap();
        let meter = Meter::new(home.path().join("bandwidth.json"));
        let snapshot = snapshot();
        let model = snapshot.model.as_ref().unwrap();
        *meter.footprint.lock().unwrap() = Some((
            model.path.clone(),
            Some(Footprint {
                total: 4_300_000_000,
                active: 4_300_000_000,
                estimate: false,
            }),
        ));
        let gauges = meter.read(&snapshot);
        assert_eq!(
            (&gauges.bandwidth["source"], &gauges.bandwidth["gb_s"]),
            (&json!("theoretical"), &json!(273.0))
        );
        assert_eq!((&gauges.chip["generation"], &gauges.chip["family"]), (&json!(4), &json!("pro")));
        assert_eq!(gauges.roofline["at_zero"]["ceiling_tps"], 63.488);
        assert_eq!(gauges.roofline["at_last_request"]["context"], 8000);
        assert!(gauges.baseline["mbu"].as_f64().unwrap() > 0.0);
        let said = gauges.verdict["findings"].to_string();
        assert!(said.contains("plain ceiling") && said.contains("98%"), "{said}");
        assert!(gauges.verdict["levers"].to_string().contains("new conversation"));
        let memory = &gauges.memory;
        assert!(memory["available_bytes"].as_u64().unwrap() <= memory["total_bytes"].as_u64().unwrap());
        assert!([1, 2, 4].contains(&memory["pressure_level"].as_u64().unwrap()));

        let measured = Measured {
            device: "Apple M4 Pro".into(),
            mlx_version: "1".into(),
            bandwidth: Bandwidth {
                gigabytes_per_second: 226.0,
                ..Bandwidth::default()
            },
            ..Measured::default()
        };
        let write = |measured: &Measured| std::fs::write(&meter.measured, serde_json::to_vec(measured).unwrap()).unwrap();
        write(&measured);
        assert_eq!(meter.read(&snapshot).bandwidth["gb_s"], 226.0);
        // Of another machine it says nothing.
        write(&Measured {
            device: "Apple M1".into(),
            ..measured
        });
        assert_eq!(meter.read(&snapshot).bandwidth["source"], "theoretical");
    }

    #[test]
    fn without_a_model_there_is_a_machine_and_no_ceiling() {
        let gauges = Meter::new("nowhere".into()).read(&Snapshot::default());
        assert!(gauges.chip["name"].as_str().is_some_and(|name| !name.is_empty()));
        assert_eq!((&gauges.roofline, &gauges.baseline), (&Value::Null, &Value::Null));
        assert_eq!(gauges.verdict["level"], "info");
    }
}
