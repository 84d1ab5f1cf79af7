//! What heat, power and the graphics processor make of this machine, as chips at the right of its name.

use crate::{bridge::Reading, state::State};
use dspark_look::{Chip, Icon, Tone, tip};
use dspark_sensors::{Gpu, Heat, Slowdown};
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
        let words = format!("{:.1} of {:.1} GHz", clock.allowed, clock.possible);
        let chip = ui.add(Chip::new(&words).tone(Tone::Warn).icon(Icon::Warning));
        tip(
            chip,
            "Clock limit",
            "the fastest that the system lets the processor run now, of what it could. A power profile or the firmware sets it.",
        );
    }
    if let Some(mode) = conditions.power_mode {
        let words = format!("Power: {}", mode.name().to_lowercase());
        let chip = ui.add(Chip::new(&words));
        tip(chip, "Power mode", "what the system trades: speed, or power and quiet.");
    }
    let celsius = conditions.celsius.map(|celsius| format!("{celsius:.0} °C"));
    match conditions.heat {
        Some(heat) => {
            let (tone, icon) = match heat {
                Heat::Nominal => (Tone::Ok, Icon::Check),
                Heat::Fair => (Tone::Neutral, Icon::ThermometerSimple),
                Heat::Serious => (Tone::Warn, Icon::Warning),
                Heat::Critical => (Tone::Bad, Icon::WarningOctagonFill),
            };
            let words = match &celsius {
                Some(celsius) => format!("Heat: {}, {celsius}", heat.name().to_lowercase()),
                None => format!("Heat: {}", heat.name().to_lowercase()),
            };
            let chip = ui.add(Chip::new(&words).tone(tone).icon(icon));
            tip(chip, "Heat", &format!("{}.", heat.words()));
        }
        None => {
            if let Some(celsius) = celsius {
                let chip = ui.add(Chip::new(&celsius).icon(Icon::ThermometerSimple));
                tip(chip, "Heat", "of the processor, whose limits the system does not tell.");
            }
        }
    }
}

fn graphics(ui: &mut Ui, gpu: &Gpu, of: usize) {
    let held = gpu.slowed.iter().any(|kind| matches!(kind, Slowdown::Heat | Slowdown::PowerBrake));
    let mut parts = Vec::new();
    parts.extend(gpu.busy.map(|busy| format!("{busy}%")));
    parts.extend(gpu.celsius.map(|celsius| format!("{celsius} °C")));
    parts.push(format!(
        "{:.1} of {:.1} GB",
        gpu.memory_used as f64 / 1e9,
        gpu.memory_total as f64 / 1e9
    ));
    let words = format!("GPU {}", parts.join(", "));
    let chip = Chip::new(&words);
    let chip = if held { chip.tone(Tone::Warn).icon(Icon::Warning) } else { chip };
    let chip = ui.add(chip);
    let mut more = vec!["busy in the last moment, its heat, and its memory with every program on it".to_owned()];
    match gpu.watts {
        Some((now, Some(most))) => more.push(format!("{now:.0} of {most:.0} W")),
        Some((now, None)) => more.push(format!("{now:.0} W")),
        None => {}
    }
    more.extend(gpu.slowed.iter().map(|kind| kind.words().to_owned()));
    if of > 1 {
        more.push(format!("one of {of}"));
    }
    tip(chip, &gpu.name, &format!("{}.", more.join("; ")));
}
