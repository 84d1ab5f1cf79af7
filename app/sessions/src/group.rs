//! Sidebar headings: Today, Yesterday, and so on, by the person's own calendar.

use crate::{Millis, SessionHead};
use jiff::{Timestamp, ToSpan, civil::Date, tz::TimeZone};
use std::ops::Range;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GroupKind {
    Pinned,
    Today,
    Yesterday,
    Week,
    Month,
    /// A calendar month of this year.
    InYear {
        month: i8,
    },
    Year(i16),
}

impl GroupKind {
    pub fn label(self) -> String {
        match self {
            Self::Pinned => "Pinned".into(),
            Self::Today => "Today".into(),
            Self::Yesterday => "Yesterday".into(),
            Self::Week => "Previous 7 days".into(),
            Self::Month => "Previous 30 days".into(),
            Self::InYear { month } => Date::new(2000, month, 1)
                .map(|date| date.strftime("%B").to_string())
                .unwrap_or_default(),
            Self::Year(year) => year.to_string(),
        }
    }
}

/// A heading and which of the sessions stand under it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    pub kind: GroupKind,
    pub range: Range<usize>,
}

/// Cuts a list into groups. The list holds pinned sessions first, each part newest first, as the sidebar keeps it.
pub fn group(sessions: &[SessionHead], now: Millis, zone: &TimeZone) -> Vec<Group> {
    let today = date(now, zone);
    let mut groups: Vec<Group> = Vec::new();
    for (index, session) in sessions.iter().enumerate() {
        let kind = if session.pinned {
            GroupKind::Pinned
        } else {
            kind(date(session.updated_at, zone), today)
        };
        match groups.last_mut() {
            Some(last) if last.kind == kind => last.range.end = index + 1,
            _ => groups.push(Group {
                kind,
                range: index..index + 1,
            }),
        }
    }
    groups
}

fn date(at: Millis, zone: &TimeZone) -> Date {
    Timestamp::from_millisecond(at)
        .unwrap_or(Timestamp::UNIX_EPOCH)
        .to_zoned_datetime(zone.clone())
        .date()
}

fn kind(date: Date, today: Date) -> GroupKind {
    let before = |days: i32| today.checked_sub(days.days()).unwrap_or(Date::MIN);
    if date >= today {
        GroupKind::Today
    } else if date == before(1) {
        GroupKind::Yesterday
    } else if date >= before(7) {
        GroupKind::Week
    } else if date >= before(30) {
        GroupKind::Month
    } else if date.year() == today.year() {
        GroupKind::InYear { month: date.month() }
    } else {
        GroupKind::Year(date.year())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(id: i64, at: &str, pinned: bool) -> SessionHead {
        SessionHead {
            id,
            title: String::new(),
            pinned,
            updated_at: at.parse::<Timestamp>().map(Timestamp::as_millisecond).unwrap_or_default(),
        }
    }

    #[test]
    fn by_the_persons_calendar() {
        let sessions = [
            head(1, "2025-01-01T12:00:00Z", true),
            head(2, "2026-11-30T00:10:00Z", false),
            head(3, "2026-11-29T23:50:00Z", false),
            head(4, "2026-11-24T12:00:00Z", false),
            head(5, "2026-11-03T12:00:00Z", false),
            head(6, "2026-03-03T12:00:00Z", false),
            head(7, "2025-12-31T12:00:00Z", false),
        ];
        let now = head(0, "2026-11-30T09:00:00Z", false).updated_at;
        let labels = |zone: &TimeZone| -> Vec<String> { group(&sessions, now, zone).into_iter().map(|group| group.kind.label()).collect() };
        assert_eq!(
            labels(&TimeZone::UTC),
            [
                "Pinned",
                "Today",
                "Yesterday",
                "Previous 7 days",
                "Previous 30 days",
                "March",
                "2025"
            ]
        );
        // One hour east, the late evening of the 29th is already today.
        let east = TimeZone::fixed(jiff::tz::offset(1));
        assert_eq!(labels(&east)[1..3], ["Today", "Previous 7 days"]);
        assert_eq!(group(&sessions, now, &east)[1].range, 1..3);
    }
}
