//! A driver's library as NVIDIA's looks from outside, asked through the real wrapper.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

use dspark_sensors::{Driver, Gpu, Slowdown};
use std::{ffi::OsStr, process::Command};

/// Two devices: one at work and held back, one that tells nothing but its name and memory.
const LIBRARY: &str = r#"
#include <string.h>
typedef struct { int at; } Device;
static Device devices[2] = {{0}, {1}};
typedef struct { unsigned gpu, memory; } Rates;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } Memory;
int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
int nvmlSystemGetDriverVersion(char *text, unsigned length) { strncpy(text, "570.00", length); return 0; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = 2; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned at, Device **device) { *device = &devices[at]; return 0; }
int nvmlDeviceGetName(Device *device, char *text, unsigned length) {
    strncpy(text, device->at ? "NVIDIA Small" : "NVIDIA H200", length);
    return 0;
}
int nvmlDeviceGetMemoryInfo_v2(Device *device, Memory *memory) {
    memory->total = 150000000000ULL; memory->reserved = 0; memory->used = 40000000000ULL; memory->free = 110000000000ULL;
    return 0;
}
int nvmlDeviceGetUtilizationRates(Device *device, Rates *rates) { rates->gpu = 87; rates->memory = 60; return device->at ? 3 : 0; }
int nvmlDeviceGetTemperature(Device *device, int sensor, unsigned *celsius) { *celsius = 71; return device->at ? 3 : 0; }
int nvmlDeviceGetPowerUsage(Device *device, unsigned *milliwatts) { *milliwatts = 512300; return device->at ? 3 : 0; }
int nvmlDeviceGetEnforcedPowerLimit(Device *device, unsigned *milliwatts) { *milliwatts = 700000; return device->at ? 3 : 0; }
int nvmlDeviceGetCurrentClocksThrottleReasons(Device *device, unsigned long long *reasons) {
    *reasons = 0x4 | 0x20;  /* power cap, software thermal slowdown */
    return device->at ? 3 : 0;
}
"#;

#[test]
fn what_a_driver_tells_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let (source, library) = (folder.path().join("nvml.c"), folder.path().join("libnvidia-ml.so.1"));
    std::fs::write(&source, LIBRARY).unwrap();
    // Whatever links this test compiles C.
    let compiled = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .arg(&library)
        .arg(&source)
        .status();
    assert!(compiled.unwrap().success());
    let gpus = Driver::load(library.as_os_str()).unwrap().gpus();
    assert_eq!(
        gpus[0],
        Gpu {
            name: "NVIDIA H200".into(),
            memory_used: 40_000_000_000,
            memory_total: 150_000_000_000,
            busy: Some(87),
            celsius: Some(71),
            watts: Some((512.3, Some(700.0))),
            slowed: vec![Slowdown::Heat, Slowdown::Power],
        }
    );
    let small = &gpus[1];
    assert_eq!(
        (small.name.as_str(), small.busy, small.celsius, small.watts),
        ("NVIDIA Small", None, None, None)
    );
    assert!(small.slowed.is_empty());
}

#[test]
fn without_a_driver_there_is_nothing_to_tell() {
    assert!(Driver::load(OsStr::new("libnvidia-ml-that-is-not-there.so")).is_none());
    let folder = tempfile::tempdir().unwrap();
    let broken = folder.path().join("libnvidia-ml.so.1");
    std::fs::write(&broken, "no library").unwrap();
    assert!(Driver::load(broken.as_os_str()).is_none());
}
