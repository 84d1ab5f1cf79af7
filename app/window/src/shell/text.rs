//! Numbers and states in words, the same everywhere.

use crate::state::{State, Status};
use dspark_look::{MemoryFoot, PillState};
use dspark_sessions::GroupKind;
use dspark_strings::{Key, key, t};

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
        v if v < 10.0 => t!(seconds_short, n = format!("{v:.2}")),
        v if v < 60.0 => t!(seconds_short, n = format!("{v:.1}")),
        v => t!(duration_minutes, minutes = v as u64 / 60, seconds = v as u64 % 60),
    }
}

/// `2nd`.
pub(crate) fn ordinal(value: usize) -> String {
    let ending = match (value % 10, value % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    t!(ordinal, n = value, ending = ending)
}

const MONTHS: [Key; 12] = [
    key!(month_1),
    key!(month_2),
    key!(month_3),
    key!(month_4),
    key!(month_5),
    key!(month_6),
    key!(month_7),
    key!(month_8),
    key!(month_9),
    key!(month_10),
    key!(month_11),
    key!(month_12),
];

const SHORT_MONTHS: [Key; 12] = [
    key!(month_short_1),
    key!(month_short_2),
    key!(month_short_3),
    key!(month_short_4),
    key!(month_short_5),
    key!(month_short_6),
    key!(month_short_7),
    key!(month_short_8),
    key!(month_short_9),
    key!(month_short_10),
    key!(month_short_11),
    key!(month_short_12),
];

fn month(names: &[Key; 12], month: i8) -> &'static str {
    let at = usize::try_from(month - 1).unwrap_or(usize::MAX);
    names.get(at).map_or("", |name| name.text())
}

/// `28 Nov 2026, 14:02`; without the year where there is little room.
pub(crate) fn date_time(at: jiff::civil::DateTime, year: bool) -> String {
    let (day, month) = (at.day(), month(&SHORT_MONTHS, at.month()));
    let time = format!("{:02}:{:02}", at.hour(), at.minute());
    if year {
        t!(date_time_year, day = day, month = month, year = at.year(), time = time)
    } else {
        t!(date_time, day = day, month = month, time = time)
    }
}

/// Heading of a group of chats.
pub(crate) fn group(kind: GroupKind) -> String {
    match kind {
        GroupKind::Pinned => t!(group_pinned).into(),
        GroupKind::Today => t!(group_today).into(),
        GroupKind::Yesterday => t!(group_yesterday).into(),
        GroupKind::Week => t!(group_week).into(),
        GroupKind::Month => t!(group_month).into(),
        GroupKind::InYear { month } => self::month(&MONTHS, month).into(),
        GroupKind::Year(year) => t!(year_label, year = year),
    }
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
        Status::Error(_) => PillState::Error(t!(engine_error).into()),
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
    let label = if on_cpu { t!(model_memory) } else { t!(gpu_memory) };
    let used = format!("{:.1}", gigabytes(memory.active));
    Foot {
        note: if state.has_model() || state.models.loading.is_some() {
            ""
        } else {
            t!(no_model_loaded)
        },
        label,
        of: if memory.limit > 0 {
            t!(of_gb, total = format!("{:.1}", gigabytes(memory.limit)))
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
        definition: t!(
            memory_definition,
            peak = format!("{:.1}", gigabytes(memory.peak)),
            cache = format!("{:.1}", gigabytes(memory.cache))
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
