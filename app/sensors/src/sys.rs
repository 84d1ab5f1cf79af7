//! Heat and clocks from Linux's `/sys`: `class/thermal` (Documentation/driver-api/thermal/sysfs-api.rst), `class/hwmon`
//! (hwmon/sysfs-interface.rst), `cpufreq` (admin-guide/pm/cpufreq.rst), the ACPI platform profile.

use crate::{Clock, Conditions, Heat, PowerMode};
use std::path::{Path, PathBuf};

/// Sensors of processors; other chips in a machine (disks, radios) slow nothing that computes.
const PROCESSORS: [&str; 5] = ["coretemp", "k10temp", "zenpower", "cpu_thermal", "scpi_sensors"];
/// Thermal zones of processors have one of these in their type.
const ZONES: [&str; 5] = ["x86_pkg_temp", "cpu", "soc", "core", "acpitz"];
/// Millidegrees: what a sensor that is not there tells lies outside.
const BELIEVABLE: std::ops::Range<i64> = 1_000..150_000;

/// A `/sys`, the real one or one of a test.
pub struct Sys(PathBuf);

/// Millidegrees below which a processor stays, by what it does there.
#[derive(Default, Clone, Copy)]
struct Limits {
    /// It is slowed.
    passive: Option<i64>,
    /// It is switched off, or slowed as far as it goes.
    critical: Option<i64>,
}

impl Sys {
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self(root.into())
    }

    pub fn read(&self) -> Conditions {
        let mut celsius: Option<i64> = None;
        let mut heat = None;
        for (now, limits) in self.sensors() {
            celsius = celsius.max(Some(now));
            heat = heat.max(judge(now, limits));
        }
        Conditions {
            heat,
            celsius: celsius.map(|celsius| celsius as f64 / 1000.0),
            clock: self.clock(),
            power_mode: self.power_mode(),
        }
    }

    /// Of every processor sensor: millidegrees now, and where its limits are.
    fn sensors(&self) -> Vec<(i64, Limits)> {
        let mut found = Vec::new();
        for chip in entries(&self.0.join("class/hwmon")) {
            if !text(&chip.join("name")).is_some_and(|name| PROCESSORS.contains(&name.as_str())) {
                continue;
            }
            for place in 1..=64 {
                let read = |what: &str| number(&chip.join(format!("temp{place}_{what}"))).filter(|value| BELIEVABLE.contains(value));
                let Some(now) = read("input") else {
                    // Sensors are numbered from 1, with gaps for cores that are not there.
                    continue;
                };
                // `max` is where fans should run, `crit` where the processor slows itself.
                let limits = Limits {
                    passive: None,
                    critical: read("crit").or_else(|| read("max")),
                };
                found.push((now, limits));
            }
        }
        for zone in entries(&self.0.join("class/thermal")) {
            let kind = text(&zone.join("type")).unwrap_or_default().to_lowercase();
            if !ZONES.iter().any(|known| kind.contains(known)) {
                continue;
            }
            let Some(now) = number(&zone.join("temp")).filter(|value| BELIEVABLE.contains(value)) else {
                continue;
            };
            found.push((now, trips(&zone)));
        }
        found
    }

    /// The slowest of all processors' limits against what the hardware could.
    fn clock(&self) -> Option<Clock> {
        let policies = entries(&self.0.join("devices/system/cpu/cpufreq"));
        let clocks = policies.iter().filter_map(|policy| {
            let gigahertz = |what: &str| Some(number(&policy.join(what)).filter(|value| *value > 0)? as f64 / 1e6);
            Some(Clock {
                allowed: gigahertz("scaling_max_freq")?,
                possible: gigahertz("cpuinfo_max_freq")?,
            })
        });
        // The fastest cores set the pace.
        let mut clock = clocks.max_by(|a, b| a.possible.total_cmp(&b.possible))?;
        // Without turbo the limit of the policy says nothing: the base frequency is what is left.
        let cpu = self.0.join("devices/system/cpu");
        let turbo_off = number(&cpu.join("intel_pstate/no_turbo")) == Some(1) || number(&cpu.join("cpufreq/boost")) == Some(0);
        let base = policies
            .iter()
            .filter_map(|policy| number(&policy.join("base_frequency")))
            .max()
            .map(|base| base as f64 / 1e6);
        if let Some(base) = base.filter(|_| turbo_off) {
            clock.allowed = clock.allowed.min(base);
        }
        Some(clock)
    }

    fn power_mode(&self) -> Option<PowerMode> {
        match text(&self.0.join("firmware/acpi/platform_profile"))?.as_str() {
            "low-power" | "quiet" | "cool" => Some(PowerMode::Saving),
            "balanced" => Some(PowerMode::Automatic),
            "performance" | "balanced-performance" | "max-power" => Some(PowerMode::Performance),
            _ => None,
        }
    }
}

/// The lowest trip points of a zone that a processor could reach.
fn trips(zone: &Path) -> Limits {
    let mut limits = Limits::default();
    let lower = |known: &mut Option<i64>, value: i64| *known = Some(known.map_or(value, |known| known.min(value)));
    for trip in 0..16 {
        let Some(kind) = text(&zone.join(format!("trip_point_{trip}_type"))) else {
            break;
        };
        // A trip that nobody has set is 0 or below, and a fan's or a user's own is no limit.
        let Some(value) = number(&zone.join(format!("trip_point_{trip}_temp"))).filter(|value| (40_000..150_000).contains(value)) else {
            continue;
        };
        match kind.as_str() {
            "passive" => lower(&mut limits.passive, value),
            "hot" | "critical" => lower(&mut limits.critical, value),
            _ => {}
        }
    }
    limits
}

/// How far a temperature is from its limits.
fn judge(now: i64, limits: Limits) -> Option<Heat> {
    let passive = limits.passive.map(|passive| match now {
        now if now >= passive => Heat::Serious,
        now if now >= passive - 10_000 => Heat::Fair,
        _ => Heat::Nominal,
    });
    let critical = limits.critical.map(|critical| match now {
        now if now >= critical => Heat::Critical,
        now if now >= critical - 4_000 => Heat::Serious,
        now if now >= critical - 15_000 => Heat::Fair,
        _ => Heat::Nominal,
    });
    passive.max(critical)
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let read = std::fs::read_dir(folder).into_iter().flatten().flatten();
    read.map(|entry| entry.path()).collect()
}

fn text(path: &Path) -> Option<String> {
    Some(std::fs::read_to_string(path).ok()?.trim().to_owned())
}

fn number(path: &Path) -> Option<i64> {
    text(path)?.parse().ok()
}
