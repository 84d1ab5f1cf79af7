//! Race: one prompt by several ways of decoding, one after another, then replayed side by side.

mod foot;
mod lane;
pub(crate) mod words;

use super::{beside, setup, states::centred};
use crate::{
    markdown::{Blocks, Document},
    state::{Comparing, LabMsg, LabView, Msg, PRESETS, RACE_TOKENS, RaceMsg, State, moment},
};
use dspark_compare::Race;
use dspark_look::{Button, ErrorCard, Icon, TextField, Theme, Type, card_flush, empty_state, list_heading, select};
use dspark_strings::t;
use egui::{Ui, vec2};
use lane::Shown;
use std::{sync::Arc, time::Duration};

/// What the page remembers between frames: parsed text of each lane.
#[derive(Default)]
pub(crate) struct RaceView {
    lanes: Vec<LaneView>,
}

#[derive(Default)]
struct LaneView {
    thoughts: (Document, Blocks),
    answer: (Document, Blocks),
}

/// Lanes are not lower than this; the page scrolls instead.
const LOWEST: f32 = 190.0;
/// A running replay is drawn thirty times a second.
const FRAME: Duration = Duration::from_millis(33);

pub(super) fn show(ui: &mut Ui, state: &State, view: &mut RaceView, height: f32, out: &mut Vec<Msg>) {
    let top = ui.cursor().top();
    controls(ui, state, out);
    setup::beside_others(ui, state);
    let lab = &state.lab.race;
    let used = ui.cursor().top() - top;
    if let Some(running) = &lab.running {
        let waiting = running.lanes.get(running.at).filter(|lane| lane.text.is_empty());
        let shown: Vec<Shown> = running
            .lanes
            .iter()
            .enumerate()
            .map(|(at, lane)| Shown::live(state, running, at, lane))
            .collect();
        let foot = foot::RUNNING;
        lanes(ui, view, &shown, height - used - foot - 12.0, out);
        foot::running(ui, state, running, waiting.is_some());
        return;
    }
    if let Some((race, replay)) = lab.shown.as_ref().zip(lab.replay.as_ref()) {
        let now = state.clock.instant;
        let at = replay.at(now);
        let order = finish_order(race);
        let shown: Vec<Shown> = (race.lanes.iter().enumerate())
            .map(|(index, lane)| Shown::replayed(race, lane, &moment(lane, at), order[index]))
            .collect();
        let foot = foot::height(ui, race);
        lanes(ui, view, &shown, height - used - foot - 30.0 - 24.0, out);
        foot::transport(ui, state, race, replay, out);
        foot::verdict(ui, race, out);
        if replay.is_running(now) {
            ui.ctx().request_repaint_after(FRAME);
        }
        return;
    }
    instead(ui, state, height - used, out);
}

/// Nothing is raced now.
fn instead(ui: &mut Ui, state: &State, height: f32, out: &mut Vec<Msg>) {
    let lab = &state.lab.race;
    if let Some(reason) = &lab.failure {
        ui.set_min_height(height);
        centred(ui, 560.0, |ui| {
            let card = ErrorCard {
                title: t!(race_not_run),
                cause: reason,
                primary: t!(try_again),
                details: "",
            };
            let action = card.show(ui);
            if action.primary {
                out.push(RaceMsg::Start.into());
            }
            if action.copy {
                out.push(Msg::Copy(reason.clone()));
            }
        });
        return;
    }
    let begin = |ui: &mut Ui, out: &mut Vec<Msg>| {
        let (title, line, action) = if state.comparing() == Some(Comparing::Benchmark) {
            (t!(benchmark_being_run), t!(one_at_a_time), t!(show_it))
        } else if lab.cancelled {
            (t!(cancelled), t!(no_lane_done), t!(race_again))
        } else {
            (t!(race_empty_title), t!(race_empty_line), t!(start_race))
        };
        if empty_state(ui, Icon::FlagCheckered, title, line, action) {
            out.push(if state.comparing().is_some() {
                Msg::Lab(LabMsg::View(LabView::Benchmark))
            } else {
                RaceMsg::Start.into()
            });
        }
    };
    if lab.races.is_empty() {
        ui.set_min_height(height);
        centred(ui, 480.0, |ui| begin(ui, out));
        return;
    }
    ui.add_space(32.0);
    begin(ui, out);
    ui.add_space(32.0);
    earlier(ui, &lab.races, out);
}

/// Races that were run before.
fn earlier(ui: &mut Ui, races: &[Arc<Race>], out: &mut Vec<Msg>) {
    card_flush(ui, |ui| {
        list_heading(ui, t!(earlier_races));
        for race in races {
            let line = format!("{} · {}", race.prompt, setup::about(&race.stamp));
            if setup::history_row(ui, &race.stamp, &words::outcome(race), &line, false).clicked() {
                out.push(RaceMsg::Show(race.clone()).into());
            }
        }
    });
}

/// Prompt, tokens, lanes, and the button that starts it.
fn controls(ui: &mut Ui, state: &State, out: &mut Vec<Msg>) {
    let lab = &state.lab.race;
    const PRESET: f32 = 104.0;
    const TOKENS: f32 = 120.0;
    const LANES: f32 = 124.0;
    const START: f32 = 118.0;
    let width = ui.available_width();
    dspark_look::controls(ui, |ui| {
        ui.spacing_mut().item_spacing.x = 8.0;
        let own = PRESETS.len();
        let mut chosen = PRESETS.iter().position(|(_, text)| *text == lab.prompt).unwrap_or(own);
        let mut choices: Vec<(usize, &str)> = PRESETS.iter().enumerate().map(|(at, (name, _))| (at, name.text())).collect();
        choices.push((own, t!(own_text)));
        if select(ui, t!(prompt), &mut chosen, &choices, PRESET) {
            let text = PRESETS.get(chosen).map(|(_, text)| text.clone());
            out.push(RaceMsg::Prompt(text.unwrap_or_default()).into());
        }
        let mut text = lab.prompt.clone();
        let field = TextField::new(&mut text, t!(prompt_of_race))
            .hint(t!(what_lanes_answer))
            .width(width - PRESET - TOKENS - LANES - START - 4.0 * 8.0);
        let field = ui.add(field);
        let entered = field.lost_focus() && ui.input(|input| input.key_pressed(egui::Key::Enter));
        if text != lab.prompt {
            out.push(RaceMsg::Prompt(text).into());
        }
        let mut tokens = lab.max_tokens;
        let words: Vec<String> = RACE_TOKENS.iter().map(|count| t!(tokens_choice, count = count)).collect();
        let choices: Vec<(usize, &str)> = RACE_TOKENS.into_iter().zip(words.iter().map(String::as_str)).collect();
        if select(ui, t!(length), &mut tokens, &choices, TOKENS) {
            out.push(RaceMsg::Tokens(tokens).into());
        }
        setup::lanes(ui, state, LANES, out);
        if lab.running.as_ref().is_some_and(|running| !running.stopping) {
            if ui.add(Button::secondary(t!(cancel)).icon(Icon::X).min_width(START)).clicked() {
                out.push(RaceMsg::Cancel.into());
            }
            return;
        }
        let ready = state.has_model() && state.models.loading.is_none() && state.comparing().is_none();
        let words = if lab.shown.is_some() { t!(race_again) } else { t!(race) };
        let start = Button::primary(words)
            .icon(Icon::FlagCheckered)
            .min_width(START)
            .enabled(ready && !lab.prompt.trim().is_empty());
        if ui.add(start).clicked() || (entered && ready) {
            out.push(RaceMsg::Start.into());
        }
    });
}

/// A race in the list of races: when, and what it came to.
pub(crate) fn line(race: &Race) -> (String, String) {
    (setup::date(race.stamp.at), words::outcome(race))
}

/// Places from 1, by when each lane was done; those of the same moment share theirs.
fn finish_order(race: &Race) -> Vec<usize> {
    let before = |own: f64| race.lanes.iter().filter(|lane| lane.seconds < own).count() + 1;
    race.lanes.iter().map(|lane| before(lane.seconds)).collect()
}

/// Up to three in a row, four as two by two.
fn lanes(ui: &mut Ui, view: &mut RaceView, shown: &[Shown], height: f32, out: &mut Vec<Msg>) {
    view.lanes.resize_with(shown.len(), LaneView::default);
    let rows = if shown.len() > 3 { 2 } else { 1 };
    let each = shown.len().div_ceil(rows).max(1);
    let height = ((height - 12.0 * (rows - 1) as f32) / rows as f32).max(LOWEST).floor();
    for (row, part) in shown.chunks(each).enumerate() {
        let shares = vec![1.0; part.len()];
        beside(ui, &shares, height, |ui, at| {
            let index = row * each + at;
            if let Some(view) = view.lanes.get_mut(index) {
                lane::show(ui, &part[at], view, index, height, out);
            }
        });
    }
}

/// A line of small text under the controls.
pub(super) fn remark(ui: &mut Ui, icon: Icon, words: &str) {
    let theme = Theme::of(ui);
    let text = Type::SMALL.wrapped(ui, words, theme.t2, ui.available_width() - 24.0);
    let (rect, response) = ui.allocate_exact_size(vec2(ui.available_width(), text.size().y), egui::Sense::hover());
    response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Status, true, words));
    icon.paint(ui.painter(), rect.left_top() + vec2(8.0, 9.0), 14.0, theme.t2);
    ui.painter().galley(rect.left_top() + vec2(24.0, 0.0), text, theme.t2);
}
