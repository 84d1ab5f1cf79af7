//! Under the lanes: the clock of the replay, and what the texts are beside each other.

use super::words;
use crate::{
    shell::text::seconds,
    state::{Msg, RaceMsg, Replay, Running, ShareAs, State},
};
use dspark_compare::Race;
use dspark_look::{Button, Icon, IconButton, MenuItem, Slider, Theme, Tone, Type, menu_above, paint, space::radius};
use dspark_strings::t;
use egui::{Color32, Rect, Role, Sense, Ui, WidgetInfo, pos2, vec2};

/// Height of what stands there while a race is run.
pub(super) const RUNNING: f32 = 40.0;
const SHARE: f32 = 116.0;
const PAD: f32 = 16.0;
const MARK: f32 = 38.0;
const LINE: f32 = 19.0;

/// How far it is, and what it keeps waiting.
pub(super) fn running(ui: &mut Ui, state: &State, running: &Running, begins: bool) {
    let others = state.others();
    let arm = running.lanes.get(running.at).map(|lane| super::super::words::arm_line(&lane.arm));
    let arm = arm.unwrap_or_default();
    let mut words = if running.stopping {
        t!(race_cancelling).to_owned()
    } else if running.judging {
        t!(comparing_texts).to_owned()
    } else if begins && !others.is_empty() {
        t!(lane_waits_until, arm = arm, others = others.join(", "))
    } else {
        t!(lane_of, at = running.at + 1, total = running.lanes.len(), arm = arm)
    };
    if !begins && !others.is_empty() {
        words = t!(waits_meanwhile, words = words, others = others.join(", "));
    }
    let theme = Theme::of(ui);
    let (rect, response) = ui.allocate_exact_size(vec2(ui.available_width(), RUNNING), Sense::hover());
    response.widget_info(|| WidgetInfo::labeled(Role::Status, true, words.as_str()));
    paint::boxed(ui.painter(), rect, radius::CARD, theme.panel, theme.line);
    let text = Type::NOTE.ellipsis(ui, words.as_str(), theme.t2, rect.width() - 2.0 * PAD);
    paint::text_left(ui.painter(), rect, rect.left() + PAD, text, theme.t2);
}

/// Play, pause, again, to the end, and to any moment.
pub(super) fn transport(ui: &mut Ui, state: &State, race: &Race, replay: &Replay, out: &mut Vec<Msg>) {
    let theme = Theme::of(ui);
    let now = state.clock.instant;
    let at = replay.at(now);
    dspark_look::controls(ui, |ui| {
        ui.spacing_mut().item_spacing.x = 8.0;
        let (icon, word, message) = if replay.is_running(now) {
            (Icon::PauseFill, t!(pause_replay), RaceMsg::Pause)
        } else if replay.is_over(now) {
            (Icon::PlayFill, t!(replay), RaceMsg::Play)
        } else {
            (Icon::PlayFill, t!(go_on), RaceMsg::Play)
        };
        let play = IconButton::new(icon, word).filled(theme.raised, theme.line2, radius::CONTROL);
        if ui.add(play).clicked() {
            out.push(message.into());
        }
        if ui.add(IconButton::new(Icon::ArrowCounterClockwise, t!(from_start))).clicked() {
            out.push(RaceMsg::Restart.into());
        }
        let skip = Button::quiet(t!(skip)).label(t!(skip_to_end)).enabled(!replay.is_over(now));
        if ui.add(skip).clicked() {
            out.push(RaceMsg::Skip.into());
        }
        let clock = t!(clock_of, at = format!("{at:.2}"), length = seconds(replay.length()));
        let clock = Type::NOTE.galley(ui, clock, theme.t1);
        let said = t!(measured_one_after_another);
        let said = Type::SMALL.galley(ui, said, theme.t3);
        let room = ui.available_width();
        let aside = if room > 700.0 { said.size().x + 24.0 } else { 0.0 };
        // The widest clock of this race, so that nothing moves under it.
        let clock_width = 130.0;
        let mut value = at;
        let length = replay.length().max(0.01);
        let slider = Slider::new(&mut value, 0.0..=length, t!(moment_of_replay))
            .step(length / 200.0)
            .width(room - clock_width - aside - 16.0);
        let slider = ui.add(slider);
        if slider.changed() {
            out.push(RaceMsg::Seek(value).into());
        }
        finishes(ui, race, length, at, slider.rect);
        let (place, response) = ui.allocate_exact_size(vec2(clock_width, 30.0), Sense::hover());
        response.widget_info(|| WidgetInfo::labeled(Role::Label, true, clock.text()));
        paint::text_left(ui.painter(), place, place.left() + 4.0, clock, theme.t1);
        if aside > 0.0 {
            let (place, response) = ui.allocate_exact_size(vec2(aside - 8.0, 30.0), Sense::hover());
            response.widget_info(|| WidgetInfo::labeled(Role::Label, true, said.text()));
            paint::text_right(ui.painter(), place, place.right(), said, theme.t3);
        }
    });
}

/// Where each lane was done, on the track.
fn finishes(ui: &Ui, race: &Race, length: f64, at: f64, track: Rect) {
    let theme = Theme::of(ui);
    let place = |seconds: f64| track.left() + track.width() * (seconds / length).clamp(0.0, 1.0) as f32;
    for lane in &race.lanes {
        let x = place(lane.seconds);
        // The knob is not drawn over.
        if (x - place(at)).abs() < 9.0 {
            continue;
        }
        let ink: Color32 = if lane.arm.is_plain() {
            theme.series.plain
        } else {
            theme.series.accepted
        };
        let mark = Rect::from_center_size(pos2(x.min(track.right() - 1.0), track.center().y), vec2(2.0, 14.0));
        ui.painter().rect_filled(mark, 1, ink);
    }
}

/// The lines of a verdict, wrapped to the width.
fn laid_out(ui: &Ui, race: &Race, width: f32) -> (words::Judgement, Vec<std::sync::Arc<egui::Galley>>) {
    let theme = Theme::of(ui);
    let judgement = words::judgement(race);
    let room = width - PAD - MARK - SHARE - 2.0 * PAD;
    let lines = judgement
        .lines
        .iter()
        .map(|line| Type::NOTE.with_line(LINE).wrapped(ui, line.as_str(), theme.t2, room))
        .collect();
    (judgement, lines)
}

/// Height of the verdict on this page.
pub(super) fn height(ui: &Ui, race: &Race) -> f32 {
    let (_, lines) = laid_out(ui, race, ui.available_width());
    22.0 + lines.iter().map(|line| line.size().y).sum::<f32>() + 24.0
}

pub(super) fn verdict(ui: &mut Ui, race: &Race, out: &mut Vec<Msg>) {
    let theme = Theme::of(ui);
    let (judgement, lines) = laid_out(ui, race, ui.available_width());
    let size = vec2(ui.available_width(), height(ui, race));
    let (rect, response) = ui.allocate_exact_size(size, Sense::hover());
    response.widget_info(|| WidgetInfo::labeled(Role::Status, true, format!("{}. {}", judgement.title, judgement.lines.join(" "))));
    let (fill, border) = match judgement.tone {
        Tone::Neutral => (theme.panel, theme.line),
        tone => (tone.soft(theme), Color32::TRANSPARENT),
    };
    paint::boxed(ui.painter(), rect, radius::CARD, fill, border);
    let ink = judgement.tone.ink(theme);
    judgement
        .icon
        .paint(ui.painter(), pos2(rect.left() + PAD + 11.0, rect.center().y), 22.0, ink);
    let left = rect.left() + PAD + MARK;
    let title = Type::SCREEN.ellipsis(ui, judgement.title.as_str(), theme.t1, rect.width() - MARK - SHARE - 3.0 * PAD);
    let mut at = pos2(left, rect.top() + 12.0);
    ui.painter().galley(at, title, theme.t1);
    at.y += 22.0;
    for line in lines {
        let height = line.size().y;
        ui.painter().galley(at, line, theme.t2);
        at.y += height;
    }
    let place = Rect::from_min_max(
        pos2(rect.right() - PAD - SHARE, rect.top()),
        pos2(rect.right() - PAD, rect.bottom()),
    );
    paint::over_right(ui, place, |ui| share(ui, out));
}

fn share(ui: &mut Ui, out: &mut Vec<Msg>) {
    let button = ui.add(Button::secondary(t!(share_card)).small().icon(Icon::Export).caret());
    menu_above(&button, 200.0, |ui| {
        for kind in ShareAs::ALL {
            if ui.add(MenuItem::new(kind.name())).clicked() {
                out.push(RaceMsg::Share(kind).into());
                ui.close();
            }
        }
    });
}
