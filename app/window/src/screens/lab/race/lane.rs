//! One lane: how fast, its text, its figures.

use super::{LaneView, words};
use crate::{
    markdown,
    screens::lab::words as speculation,
    shell::text::{ordinal, seconds},
    state::{LiveLane, Moment, Msg, Running, State, split_reasoning},
};
use dspark_compare::{Lane, Race};
use dspark_look::{Chip, Icon, Theme, Tone, Type, paint, space::radius, tip};
use dspark_protocol::EngineState;
use dspark_strings::t;
use egui::{Color32, CornerRadius, Rect, Role, ScrollArea, Sense, Ui, WidgetInfo, pos2, vec2};

/// Everything that is drawn of a lane at one moment.
pub(super) struct Shown {
    title: &'static str,
    note: String,
    chip: Option<(String, Tone, Option<Icon>)>,
    verdict: Option<(String, Tone, Icon, String)>,
    rate: Option<f64>,
    part: f32,
    plain: bool,
    text: String,
    writing: bool,
    foot: Vec<Figure>,
}

impl Shown {
    /// While it is run.
    pub(super) fn live(state: &State, running: &Running, at: usize, lane: &LiveLane) -> Self {
        let (title, mut note) = speculation::arm(&lane.arm);
        if lane.arm.options.is_none()
            && let Some(speculation) = &state.engine.speculation
        {
            note = speculation::mode(speculation.mode).into();
        }
        let most = running.max_tokens.max(1);
        let runs = at == running.at && lane.done.is_none();
        let chip = match &lane.done {
            Some(done) => (t!(done_in, time = seconds(done.seconds)), Tone::Neutral, Some(Icon::Check)),
            None if runs && lane.text.is_empty() => (t!(begins).into(), Tone::Accent, None),
            None if runs => (t!(tokens_of_most, tokens = lane.tokens, most = most), Tone::Accent, None),
            None => (t!(waits_its_turn_lane).into(), Tone::Neutral, Some(Icon::Clock)),
        };
        Self {
            title,
            note,
            chip: Some(chip),
            verdict: None,
            rate: match (&lane.done, &state.engine.state) {
                (Some(done), _) => Some(done.decode_tok_s),
                (None, EngineState::Generating { tokens_per_sec }) if runs && lane.tokens > 1 => Some(*tokens_per_sec),
                _ => None,
            },
            part: if lane.done.is_some() {
                1.0
            } else {
                lane.tokens as f32 / most as f32
            },
            plain: lane.arm.is_plain(),
            text: lane.text.clone(),
            writing: runs && !running.judging,
            foot: lane.done.as_ref().map_or_else(Vec::new, |done| figures(done)),
        }
    }

    /// In a replay.
    pub(super) fn replayed(race: &Race, lane: &Lane, moment: &Moment, place: usize) -> Self {
        let (title, note) = speculation::arm(&lane.arm);
        let note = match lane.cap {
            Some(0) if lane.arm.options.is_none() => t!(note_parked, note = speculation::mode(lane.effective_mode)),
            Some(0) if !lane.arm.is_plain() => t!(note_parked, note = note),
            Some(cap) if lane.arm.options.is_none() => t!(note_cap, note = speculation::mode(lane.effective_mode), cap = cap),
            Some(cap) if note == t!(best_cap) => t!(cap_n, cap = cap),
            None if lane.arm.options.is_none() => speculation::mode(lane.effective_mode).into(),
            _ => note,
        };
        let chip = if moment.done {
            let first = place == 1 && race.lanes.len() > 1;
            let tone = if first { Tone::Accent } else { Tone::Neutral };
            (
                t!(place_time, ordinal = ordinal(place), time = seconds(lane.seconds)),
                tone,
                first.then_some(Icon::FlagCheckered),
            )
        } else {
            (t!(tokens_of_most, tokens = moment.tokens, most = lane.tokens), Tone::Neutral, None)
        };
        let verdict = lane.verdict.as_ref().filter(|_| moment.done).map(|verdict| {
            let (word, tone, icon) = words::chip(verdict);
            (word, tone, icon, words::explain(verdict))
        });
        Self {
            title,
            note,
            chip: Some(chip),
            verdict,
            rate: moment.rate,
            part: moment.tokens as f32 / lane.tokens.max(1) as f32,
            plain: lane.arm.is_plain(),
            text: moment.text.clone(),
            writing: !moment.done,
            foot: figures(lane),
        }
    }
}

/// One figure of a lane.
struct Figure {
    label: &'static str,
    value: String,
    /// The same in a line with others.
    short: String,
    definition: &'static str,
}

fn figures(lane: &Lane) -> Vec<Figure> {
    let took = seconds(lane.seconds);
    let accepted = t!(n_a_pass, n = format!("{:.2}", lane.accept));
    vec![
        Figure {
            label: t!(time),
            short: took.clone(),
            value: took,
            definition: t!(time_definition),
        },
        Figure {
            label: t!(tokens),
            value: lane.tokens.to_string(),
            short: t!(count_tokens_lower, count = lane.tokens),
            definition: t!(lane_tokens_definition),
        },
        Figure {
            label: t!(lane_accepted),
            short: accepted.clone(),
            value: accepted,
            definition: t!(lane_accepted_definition),
        },
        Figure {
            label: t!(passes),
            value: lane.target_forwards.to_string(),
            short: t!(count_passes_lower, count = lane.target_forwards),
            definition: t!(passes_definition),
        },
    ]
}

const HEAD: f32 = 108.0;
const FOOT: f32 = 57.0;
/// Lower lanes have their figures on one line.
const LOW: f32 = 280.0;
const LOW_FOOT: f32 = 31.0;

pub(super) fn show(ui: &mut Ui, shown: &Shown, view: &mut LaneView, index: usize, height: f32, out: &mut Vec<Msg>) {
    let theme = Theme::of(ui);
    let (rect, response) = ui.allocate_exact_size(vec2(ui.available_width(), height), Sense::hover());
    response.widget_info(|| {
        WidgetInfo::labeled(
            Role::Group,
            true,
            t!(lane_label, nth = index + 1, title = shown.title, note = shown.note),
        )
    });
    paint::boxed(ui.painter(), rect, radius::CARD, theme.panel, theme.line);
    let head = Rect::from_min_size(rect.min, vec2(rect.width(), HEAD));
    let foot = Rect::from_min_max(
        pos2(rect.left(), rect.bottom() - if height < LOW { LOW_FOOT } else { FOOT }),
        rect.max,
    );
    let body = Rect::from_min_max(head.left_bottom(), foot.right_top());
    ui.painter()
        .rect_filled(body.shrink2(vec2(1.0, 0.0)), CornerRadius::ZERO, theme.code);
    paint::hline(ui.painter(), rect.x_range(), body.top(), theme.line);
    paint::hline(ui.painter(), rect.x_range(), body.bottom(), theme.line);
    draw_head(ui, theme, head, shown);
    text(ui, body, shown, view, index, out);
    draw_foot(ui, theme, foot, shown);
}

fn draw_head(ui: &mut Ui, theme: &Theme, head: Rect, shown: &Shown) {
    let inner = head.shrink2(vec2(16.0, 14.0));
    let line = Rect::from_min_size(inner.min, vec2(inner.width(), 20.0));
    let mut end = line.right();
    if let Some((words, tone, icon)) = &shown.chip {
        let mut chip = Chip::new(words).tone(*tone);
        if let Some(icon) = icon {
            chip = chip.icon(*icon);
        }
        end = paint::over_right(ui, line, |ui| ui.add(chip)).rect.left() - 8.0;
    }
    let title = Type::PANEL.galley(ui, shown.title, theme.t1);
    let after = line.left() + title.size().x + 8.0;
    ui.painter().galley(line.min, title, theme.t1);
    let note = Type::SMALL.with_line(20.0).ellipsis(ui, shown.note.as_str(), theme.t3, end - after);
    ui.painter().galley(pos2(after, line.top()), note, theme.t3);

    let row = Rect::from_min_size(pos2(inner.left(), inner.top() + 24.0), vec2(inner.width(), 40.0));
    let rate = shown.rate.map_or_else(|| "–".to_owned(), |rate| format!("{rate:.1}"));
    let ink = match shown.rate {
        None => theme.t3,
        Some(_) if shown.plain => theme.t2,
        Some(_) => theme.t1,
    };
    let figure = Type::DISPLAY.galley(ui, rate.as_str(), ink);
    let width = figure.size().x;
    ui.painter().galley(pos2(row.left(), row.top() + 1.0), figure, ink);
    let unit = Type::BASE.galley(ui, "tok/s", theme.t2);
    let unit_width = unit.size().x;
    ui.painter()
        .galley(pos2(row.left() + width + 6.0, row.top() + 15.0), unit, theme.t2);
    let place = Rect::from_min_size(row.min, vec2(width + 6.0 + unit_width, row.height()));
    let response = ui.interact(place, ui.scope_id().with(("rate", shown.title)), Sense::hover());
    response.widget_info(|| WidgetInfo::labeled(Role::Label, true, t!(title_decode_rate, title = shown.title, rate = rate)));
    tip(response, t!(decode_rate), t!(decode_definition));
    if let Some((word, tone, icon, explained)) = &shown.verdict {
        let place = row.with_min_x(place.right() + 8.0).translate(vec2(0.0, 4.0));
        let chip = paint::over_right(ui, place, |ui| ui.add(Chip::new(word).tone(*tone).icon(*icon)));
        tip(chip, t!(beside_plain), explained);
    }
    let bar = Rect::from_min_size(pos2(inner.left(), inner.bottom() - 8.0), vec2(inner.width(), 4.0));
    let fill: Color32 = if shown.plain { theme.series.plain } else { theme.series.accepted };
    paint::bar(ui.painter(), bar, shown.part, theme.press, fill);
}

fn text(ui: &mut Ui, body: Rect, shown: &Shown, view: &mut LaneView, index: usize, out: &mut Vec<Msg>) {
    let parts = split_reasoning(&shown.text);
    for (part, (document, blocks)) in [
        (parts.reasoning.unwrap_or_default(), &mut view.thoughts),
        (parts.answer, &mut view.answer),
    ] {
        let changed = document.update(part);
        blocks.changed_from(changed);
    }
    let inner = body.shrink2(vec2(1.0, 1.0));
    let mut child = ui.new_child(egui::UiBuilder::new().max_rect(inner).id_salt(("lane", index)));
    child.set_clip_rect(child.clip_rect().intersect(inner));
    let mut events = Vec::new();
    ScrollArea::vertical()
        .id_salt(("lane text", index))
        .auto_shrink([false, false])
        .stick_to_bottom(true)
        .show(&mut child, |ui| {
            egui::Frame::new().inner_margin(egui::Margin::symmetric(15, 12)).show(ui, |ui| {
                ui.set_width(ui.available_width());
                let thinks = !view.thoughts.0.is_empty();
                let answers = !view.answer.0.is_empty();
                if thinks {
                    let (document, blocks) = &mut view.thoughts;
                    events.extend(markdown::show(ui, document, blocks, &[], true, shown.writing && !answers));
                    ui.add_space(if answers { 12.0 } else { 0.0 });
                }
                if answers {
                    let (document, blocks) = &mut view.answer;
                    events.extend(markdown::show(ui, document, blocks, &[], false, shown.writing));
                }
            });
        });
    out.extend(events.into_iter().map(Msg::from));
}

fn draw_foot(ui: &mut Ui, theme: &Theme, foot: Rect, shown: &Shown) {
    let inner = foot.shrink2(vec2(16.0, 0.0));
    if foot.height() < FOOT {
        let parts: Vec<&str> = shown.foot.iter().map(|figure| figure.short.as_str()).collect();
        let line = parts.join(" · ");
        let response = ui.interact(foot, ui.scope_id().with((shown.title, "figures")), Sense::hover());
        response.widget_info(|| WidgetInfo::labeled(Role::Label, true, line.as_str()));
        let text = Type::SMALL.ellipsis(ui, line.as_str(), theme.t2, inner.width());
        paint::text_left(ui.painter(), foot, inner.left(), text, theme.t2);
        return;
    }
    // As many as there is room for.
    let count = shown.foot.len().min((inner.width() / 84.0) as usize).max(1);
    let width = inner.width() / count as f32;
    for (
        at,
        Figure {
            label, value, definition, ..
        },
    ) in shown.foot.iter().take(count).enumerate()
    {
        let cell = Rect::from_min_size(pos2(inner.left() + width * at as f32, foot.top()), vec2(width, foot.height()));
        let response = ui.interact(cell, ui.scope_id().with((shown.title, *label)), Sense::hover());
        response.widget_info(|| WidgetInfo::labeled(Role::Label, true, format!("{label} {value}")));
        let name = Type::LABEL.ellipsis(ui, *label, theme.t3, width - 8.0);
        let figure = Type::CONTROL.ellipsis(ui, value.as_str(), theme.t1, width - 8.0);
        ui.painter().galley(cell.min + vec2(0.0, 10.0), name, theme.t3);
        ui.painter().galley(cell.min + vec2(0.0, 27.0), figure, theme.t1);
        tip(response, label, definition);
    }
}
