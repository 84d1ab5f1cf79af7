//! A `/sys` of machines that are not this one.
#![allow(clippy::unwrap_used)]

use dspark_sensors::{Clock, Conditions, Heat, PowerMode, Sys};
use std::path::Path;

fn write(root: &Path, files: &[(&str, &str)]) {
    for (path, text) in files {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, format!("{text}\n")).unwrap();
    }
}

fn read(files: &[(&str, &str)]) -> Conditions {
    let root = tempfile::tempdir().unwrap();
    write(root.path(), files);
    Sys::new(root.path()).read()
}

#[test]
fn a_laptop_under_load() {
    let found = |package: &str| {
        read(&[
            ("class/hwmon/hwmon0/name", "nvme"),
            ("class/hwmon/hwmon0/temp1_input", "99000"),
            ("class/hwmon/hwmon0/temp1_crit", "85000"),
            ("class/hwmon/hwmon3/name", "coretemp"),
            ("class/hwmon/hwmon3/temp1_input", package),
            ("class/hwmon/hwmon3/temp1_crit", "100000"),
            ("class/hwmon/hwmon3/temp4_input", "51000"),
            ("class/hwmon/hwmon3/temp4_crit", "100000"),
            ("devices/system/cpu/cpufreq/policy0/cpuinfo_max_freq", "4700000"),
            ("devices/system/cpu/cpufreq/policy0/scaling_max_freq", "4700000"),
            ("devices/system/cpu/cpufreq/policy8/cpuinfo_max_freq", "3500000"),
            ("devices/system/cpu/cpufreq/policy8/scaling_max_freq", "3500000"),
            ("firmware/acpi/platform_profile", "balanced"),
        ])
    };
    let cool = found("56000");
    let clock = Clock {
        allowed: 4.7,
        possible: 4.7,
    };
    assert_eq!(
        cool,
        Conditions {
            heat: Some(Heat::Nominal),
            celsius: Some(56.0),
            clock: Some(clock),
            power_mode: Some(PowerMode::Automatic),
        },
        "the hot disk is not the processor"
    );
    assert_eq!(cool.slows(), None);
    assert_eq!(found("88000").heat, Some(Heat::Fair));
    assert_eq!(found("97000").heat, Some(Heat::Serious));
    let hot = found("101000");
    assert_eq!(hot.heat, Some(Heat::Critical));
    assert!(hot.slows().unwrap().contains("too hot"));
}

#[test]
fn a_board_with_thermal_zones() {
    let found = |now: &str| {
        read(&[
            ("class/thermal/cooling_device0/type", "Processor"),
            ("class/thermal/thermal_zone0/type", "cpu-thermal"),
            ("class/thermal/thermal_zone0/temp", now),
            ("class/thermal/thermal_zone0/trip_point_0_type", "passive"),
            ("class/thermal/thermal_zone0/trip_point_0_temp", "75000"),
            ("class/thermal/thermal_zone0/trip_point_1_type", "critical"),
            ("class/thermal/thermal_zone0/trip_point_1_temp", "95000"),
            // A radio, and a zone whose sensor is asleep.
            ("class/thermal/thermal_zone1/type", "iwlwifi_1"),
            ("class/thermal/thermal_zone1/temp", "97000"),
            ("class/thermal/thermal_zone2/type", "cpu-thermal"),
            ("class/thermal/thermal_zone2/temp", "-274000"),
        ])
    };
    assert_eq!((found("50000").heat, found("50000").celsius), (Some(Heat::Nominal), Some(50.0)));
    assert_eq!(found("68000").heat, Some(Heat::Fair));
    assert_eq!(found("80000").heat, Some(Heat::Serious));
    assert_eq!(found("96000").heat, Some(Heat::Critical));
}

#[test]
fn what_holds_a_processor_back_is_said() {
    let policy = [
        ("devices/system/cpu/cpufreq/policy0/cpuinfo_max_freq", "4700000"),
        ("devices/system/cpu/cpufreq/policy0/scaling_max_freq", "2400000"),
    ];
    let held = read(&policy);
    assert_eq!(held.slows().unwrap(), "The processor is held to 2.4 of its 4.7 GHz");
    let mut turbo = vec![policy[0], ("devices/system/cpu/cpufreq/policy0/scaling_max_freq", "4700000")];
    turbo.push(("devices/system/cpu/cpufreq/policy0/base_frequency", "2800000"));
    assert_eq!(read(&turbo).slows(), None);
    turbo.push(("devices/system/cpu/intel_pstate/no_turbo", "1"));
    assert!(read(&turbo).slows().unwrap().contains("2.8 of its 4.7"));
    let saving = read(&[("firmware/acpi/platform_profile", "low-power")]);
    assert_eq!(saving.power_mode, Some(PowerMode::Saving));
    assert!(saving.slows().unwrap().contains("saves power"));
}

#[test]
fn a_machine_that_tells_nothing_is_told_nothing_of() {
    assert_eq!(read(&[]), Conditions::default());
    // What is there makes no sense.
    let odd = read(&[
        ("class/thermal/thermal_zone0/type", "x86_pkg_temp"),
        ("class/thermal/thermal_zone0/temp", "hot"),
        ("class/thermal/thermal_zone1/type", "x86_pkg_temp"),
        ("class/thermal/thermal_zone1/temp", "60000"),
        ("class/thermal/thermal_zone1/trip_point_0_type", "passive"),
        ("class/thermal/thermal_zone1/trip_point_0_temp", "0"),
        ("devices/system/cpu/cpufreq/policy0/cpuinfo_max_freq", "0"),
    ]);
    assert_eq!((odd.heat, odd.celsius, odd.clock), (None, Some(60.0), None));
    // And the machine that runs this is read without a fault, whatever it is.
    let (_, gpus) = dspark_sensors::read();
    assert!(gpus.iter().all(|gpu| gpu.memory_used <= gpu.memory_total));
}
