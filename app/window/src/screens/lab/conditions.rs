//! What heat, power and the graphics processor make of this machine, as chips at the right of its name.

use crate::{
    bridge::{Reading, slowdown},
    state::State,
};
use dspark_look::{Chip, Icon, Tone, tip};
use dspark_sensors::{Gpu, Heat, PowerMode, Slowdown};
use dspark_strings::t;
use egui::Ui;

/// From the right edge.
pub(super) fn chips(ui: &mut Ui, state: &State) {
    let Some(reading) = &state.lab.machine.reading else { return };
    ui.spacing_mut().item_spacing.x = 6.0;
    if let Some(gpu) = reading.gpu(&state.engine.machine.device) {
        graphics(ui, gpu, reading.gpus.len());
    }
    processor(ui, reading);
}

fn processor(ui: &mut Ui, reading: &Reading) {
    let conditions = &reading.conditions;
    if let Some(clock) = conditions.clock.filter(|clock| clock.is_held()) {
        let words = t!(
            ghz_of,
            allowed = format!("{:.1}", clock.allowed),
            possible = format!("{:.1}", clock.possible)
        );
        let chip = ui.add(Chip::new(&words).tone(Tone::Warn).icon(Icon::Warning));
        tip(chip, t!(clock_limit), t!(clock_limit_explain));
    }
    if let Some(mode) = conditions.power_mode {
        let mode = match mode {
            PowerMode::Saving => t!(power_saving),
            PowerMode::Automatic => t!(power_automatic),
            PowerMode::Performance => t!(power_performance),
        };
        let words = t!(power_line, mode = mode);
        let chip = ui.add(Chip::new(&words));
        tip(chip, t!(power_mode), t!(power_mode_explain));
    }
    let celsius = conditions.celsius.map(|celsius| format!("{celsius:.0} °C"));
    match conditions.heat {
        Some(heat) => {
            let (tone, icon, level, explain) = match heat {
                Heat::Nominal => (Tone::Ok, Icon::Check, t!(heat_nominal), t!(heat_nominal_explain)),
                Heat::Fair => (Tone::Neutral, Icon::ThermometerSimple, t!(heat_fair), t!(heat_fair_explain)),
                Heat::Serious => (Tone::Warn, Icon::Warning, t!(heat_serious), t!(heat_serious_explain)),
                Heat::Critical => (Tone::Bad, Icon::WarningOctagonFill, t!(heat_critical), t!(heat_critical_explain)),
            };
            let words = match &celsius {
                Some(celsius) => t!(heat_line_celsius, level = level, celsius = celsius),
                None => t!(heat_line, level = level),
            };
            let chip = ui.add(Chip::new(&words).tone(tone).icon(icon));
            tip(chip, t!(heat), explain);
        }
        None => {
            if let Some(celsius) = celsius {
                let chip = ui.add(Chip::new(&celsius).icon(Icon::ThermometerSimple));
                tip(chip, t!(heat), t!(heat_unlimited_explain));
            }
        }
    }
}

fn graphics(ui: &mut Ui, gpu: &Gpu, of: usize) {
    let held = gpu.slowed.iter().any(|kind| matches!(kind, Slowdown::Heat | Slowdown::PowerBrake));
    let mut parts = Vec::new();
    parts.extend(gpu.busy.map(|busy| format!("{busy}%")));
    parts.extend(gpu.celsius.map(|celsius| format!("{celsius} °C")));
    parts.push(t!(
        of_total_gb,
        used = format!("{:.1}", gpu.memory_used as f64 / 1e9),
        total = format!("{:.1}", gpu.memory_total as f64 / 1e9)
    ));
    let words = format!("GPU {}", parts.join(", "));
    let chip = Chip::new(&words);
    let chip = if held { chip.tone(Tone::Warn).icon(Icon::Warning) } else { chip };
    let chip = ui.add(chip);
    let mut more = vec![t!(gpu_explain).to_owned()];
    match gpu.watts {
        Some((now, Some(most))) => more.push(t!(watts_of, now = format!("{now:.0}"), most = format!("{most:.0}"))),
        Some((now, None)) => more.push(format!("{now:.0} W")),
        None => {}
    }
    more.extend(gpu.slowed.iter().map(|kind| slowdown(*kind).to_owned()));
    if of > 1 {
        more.push(t!(one_of_gpus, of = of));
    }
    tip(chip, &gpu.name, &format!("{}{}", more.join(t!(semicolon_between)), t!(full_stop)));
}
