//! What races and benchmarks have in common: the choice of ways to decode, the warning of others, rows of what was
//! measured before.

use super::{race, words};
use crate::shell::text::date_time;
use crate::state::{BENCH_ARMS, BenchMsg, LANES, Msg, RaceMsg, State};
use dspark_compare::{Arm, Stamp};
use dspark_look::{Button, Icon, MenuItem, Theme, Type, choices_below, menu_separator, paint};
use dspark_strings::t;
use egui::{Response, Role, Sense, Ui, WidgetInfo, pos2, vec2};
use jiff::{Timestamp, tz::TimeZone};

const MENU: f32 = 380.0;

/// The lanes of a race.
pub(super) fn lanes(ui: &mut Ui, state: &State, width: f32, out: &mut Vec<Msg>) {
    let chosen = state.race_arms();
    let count = [t!(lanes_1), t!(lanes_2), t!(lanes_3), t!(lanes_4)];
    let words = count.get(chosen.len()).copied().unwrap_or(t!(lanes));
    let button = Button::secondary(words)
        .caret()
        .min_width(width)
        .label(t!(lanes))
        .enabled(state.comparing().is_none());
    let button = ui.add(button);
    choices_below(&button, MENU, |ui| {
        let full = chosen.len() + 1 >= LANES;
        for arm in ways(ui, state, &chosen, full, t!(four_lanes_most)) {
            out.push(RaceMsg::Toggle(arm).into());
        }
        if state.engine.model.as_ref().is_some_and(|model| model.supports_thinking) {
            menu_separator(ui);
            let on = state.lab.race.thinking;
            let item = MenuItem::new(t!(think_first)).checked(on).role(Role::MenuItemCheckBox);
            if ui.add(item).clicked() {
                out.push(RaceMsg::Thinking(!on).into());
            }
        }
    });
}

/// The ways of a benchmark.
pub(super) fn measured(ui: &mut Ui, state: &State, width: f32, out: &mut Vec<Msg>) {
    let chosen = state.bench_arms();
    let words = t!(plain_and_more, n = chosen.len());
    let button = Button::secondary(&words)
        .caret()
        .min_width(width)
        .label(t!(ways_to_measure))
        .enabled(state.comparing().is_none());
    let button = ui.add(button);
    choices_below(&button, MENU, |ui| {
        let full = chosen.len() >= BENCH_ARMS;
        for arm in ways(ui, state, &chosen, full, t!(six_at_most)) {
            out.push(BenchMsg::Toggle(arm).into());
        }
    });
}

/// A row for each way: those of the pair to choose from, the others with what they lack. Returns those that were
/// clicked.
fn ways(ui: &mut Ui, state: &State, chosen: &[Arm], full: bool, limit: &str) -> Vec<Arm> {
    let plain = MenuItem::new(t!(plain)).detail(t!(plain_always_runs));
    ui.add(plain.checked(true).enabled(false).role(Role::MenuItemCheckBox));
    let mut clicked = Vec::new();
    for way in state.ways() {
        let (name, note) = words::arm(&way.arm);
        let on = chosen.contains(&way.arm);
        let detail = match &way.unfit {
            Some(reason) => reason.as_str(),
            None if full && !on => limit,
            None => note.as_str(),
        };
        let item = MenuItem::new(name)
            .detail(detail)
            .checked(on)
            .enabled(way.unfit.is_none() && (on || !full))
            .role(Role::MenuItemCheckBox);
        let response = ui.add(item);
        response.widget_info(|| {
            let enabled = way.unfit.is_none() && (on || !full);
            WidgetInfo::selected(Role::MenuItemCheckBox, enabled, on, format!("{name}, {detail}"))
        });
        if response.clicked() {
            clicked.push(way.arm);
        }
    }
    clicked
}

/// Says who else is being answered before something is measured.
pub(super) fn beside_others(ui: &mut Ui, state: &State) {
    let others = state.others();
    if state.comparing().is_none() && !others.is_empty() {
        let words = t!(beside_others, others = others.join(", "));
        race::remark(ui, Icon::Info, &words);
    }
}

/// `28 Nov 2026, 14:02`, by the clock on the wall.
pub(super) fn date(at: u64) -> String {
    dated(at, true)
}

fn dated(at: u64, year: bool) -> String {
    let stamp = i64::try_from(at).ok().and_then(|at| Timestamp::from_second(at).ok());
    stamp.map_or_else(String::new, |stamp| date_time(TimeZone::system().to_datetime(stamp), year))
}

/// Which pair, on which machine.
pub(super) fn about(stamp: &Stamp) -> String {
    match &stamp.drafter {
        Some(drafter) => t!(
            target_with_drafter_on,
            target = stamp.target,
            drafter = drafter,
            device = stamp.device
        ),
        None => t!(target_on, target = stamp.target, device = stamp.device),
    }
}

/// The same without the year, where there is little room.
pub(super) fn short_date(at: u64) -> String {
    dated(at, false)
}

/// Something that was measured: when, of what, and what it came to.
pub(super) fn history_row(ui: &mut Ui, stamp: &Stamp, outcome: &str, line: &str, selected: bool) -> Response {
    let theme = Theme::of(ui);
    let (rect, response) = ui.allocate_exact_size(vec2(ui.available_width(), 54.0), Sense::click());
    let date = date(stamp.at);
    let name = format!("{date}, {}, {outcome}", stamp.target);
    response.widget_info(|| WidgetInfo::selected(Role::ListItem, true, selected, &name));
    let rest = if selected { theme.accent_soft } else { egui::Color32::TRANSPARENT };
    let hover = if selected { theme.accent_soft2 } else { theme.hover };
    let fill = paint::state_fill(ui, &response, rest, hover, theme.press);
    ui.painter()
        .rect_filled(rect.with_min_y(rect.top() + 1.0).shrink2(vec2(1.0, 0.0)), 2, fill);
    paint::hline(ui.painter(), rect.x_range(), rect.top(), theme.line);
    if response.has_focus() {
        paint::ring(ui, rect.shrink(4.0), egui::CornerRadius::same(6));
    }
    let (left, right) = (rect.left() + 16.0, rect.right() - 16.0);
    let middle = rect.center().y + 0.5;
    let when = Type::SMALL.galley(ui, date, theme.t3);
    let when_left = right - when.size().x;
    ui.painter().galley(pos2(when_left, middle - 18.0), when, theme.t3);
    let outcome = Type::CONTROL.ellipsis(ui, outcome, theme.t1, when_left - left - 16.0);
    ui.painter().galley(pos2(left, middle - 19.0), outcome, theme.t1);
    let version = Type::SMALL.galley(ui, stamp.version.as_str(), theme.t3);
    let version_left = right - version.size().x;
    ui.painter().galley(pos2(version_left, middle + 1.0), version, theme.t3);
    let line = Type::SMALL.ellipsis(ui, line.replace('\n', " "), theme.t3, version_left - left - 16.0);
    ui.painter().galley(pos2(left, middle + 1.0), line, theme.t3);
    response
}
