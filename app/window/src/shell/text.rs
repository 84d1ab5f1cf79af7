//! Numbers and states in words, the same everywhere.

use crate::state::{State, Status};
use dspark_look::{MemoryFoot, PillState};

/// `1,184`.
pub(crate) fn count(value: usize) -> String {
    let digits = value.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `98 MB`, `4.7 GB`, decimal units as disks and downloads are counted.
pub(crate) fn bytes(value: u64) -> String {
    let value = value as f64;
    match value {
        v if v < 1e3 => format!("{v:.0} B"),
        v if v < 1e6 => format!("{:.0} kB", v / 1e3),
        v if v < 1e9 => format!("{:.0} MB", v / 1e6),
        v if v < 1e12 => format!("{:.1} GB", v / 1e9),
        v => format!("{:.2} TB", v / 1e12),
    }
}

/// `0.42 s`, `3 min 5 s`.
pub(crate) fn seconds(value: f64) -> String {
    match value {
        v if v < 10.0 => format!("{v:.2} s"),
        v if v < 60.0 => format!("{v:.1} s"),
        v => format!("{} min {} s", v as u64 / 60, v as u64 % 60),
    }
}

/// `2nd`.
pub(crate) fn ordinal(value: usize) -> String {
    let suffix = match (value % 10, value % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{value}{suffix}")
}

pub(crate) fn pill(status: &Status) -> PillState<'_> {
    match status {
        Status::Stopped => PillState::Stopped,
        Status::Starting => PillState::Starting,
        Status::NoModel => PillState::NoModel,
        Status::Downloading(percent) => PillState::Downloading(percent.unwrap_or(0)),
        Status::Loading(what, _) => PillState::Loading((*what).into()),
        Status::Calibrating => PillState::Calibrating,
        Status::WarmingUp => PillState::WarmingUp,
        Status::Ready => PillState::Ready,
        Status::Prefilling { processed, total } => PillState::Prefilling(*processed as u64, *total as u64),
        Status::Generating(rate) => PillState::Generating { tokens_per_second: *rate },
        Status::Unloading => PillState::Unloading,
        Status::Error(_) => PillState::Error("Engine error".into()),
    }
}

/// The memory line at the foot of the sidebar.
pub(crate) struct Foot {
    note: &'static str,
    label: &'static str,
    used: String,
    of: String,
    short: String,
    part: f32,
    pub(crate) term: &'static str,
    pub(crate) definition: String,
}

pub(crate) fn memory_foot(state: &State) -> Foot {
    let memory = &state.engine.memory;
    let gigabytes = |bytes: u64| bytes as f64 / 1e9;
    let on_cpu = state.engine.machine.backend == "cpu" || state.engine.machine.backend.is_empty();
    let label = if on_cpu { "Model memory" } else { "GPU memory" };
    let used = format!("{:.1}", gigabytes(memory.active));
    Foot {
        note: if state.has_model() || state.models.loading.is_some() {
            ""
        } else {
            "No model loaded"
        },
        label,
        of: if memory.limit > 0 {
            format!("of {:.1} GB", gigabytes(memory.limit))
        } else {
            "GB".into()
        },
        short: format!("{used} GB"),
        used,
        part: if memory.limit > 0 {
            (memory.active as f64 / memory.limit as f64) as f32
        } else {
            0.0
        },
        term: label,
        definition: format!(
            "what MLX holds now for weights and caches. Peak {:.1} GB, kept for reuse {:.1} GB.",
            gigabytes(memory.peak),
            gigabytes(memory.cache)
        ),
    }
}

impl Foot {
    pub(crate) fn as_foot(&self) -> MemoryFoot<'_> {
        MemoryFoot {
            note: self.note,
            label: self.label,
            used: &self.used,
            of: &self.of,
            short: &self.short,
            part: self.part,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_for_people() {
        assert_eq!([count(7), count(1184), count(1_000_000)], ["7", "1,184", "1,000,000"]);
        assert_eq!([bytes(98_000_000), bytes(4_700_000_000), bytes(12)], ["98 MB", "4.7 GB", "12 B"]);
        assert_eq!([seconds(0.421), seconds(12.34), seconds(185.0)], ["0.42 s", "12.3 s", "3 min 5 s"]);
        assert_eq!([ordinal(1), ordinal(2), ordinal(12), ordinal(23)], ["1st", "2nd", "12th", "23rd"]);
    }
}
