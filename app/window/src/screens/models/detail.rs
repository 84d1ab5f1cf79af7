//! An open row: the sum behind its verdict, a slider over the context, and what can be done with it.

use super::{line::Line, rows};
use crate::{
    bridge::{Drafter, FitAt, FitLevel, Kind, Offer, Part},
    shell::text::{bytes, count},
    state::{HubMsg, ModelsMsg, Msg, Preview, State, TokenMsg},
};
use dspark_look::{Button, Density, Icon, MemoryPart, Slider, Theme, Type, busy_ring, memory_bar, memory_legend, runs, tip};
use dspark_strings::t;
use egui::{Align, Color32, Frame, Layout, Margin, Rect, Ui, UiBuilder, vec2};

/// Of the budget: up to here a model sits well, and up to here it fits. Source: `spec/fit-and-roofline.md` §4.2.
const WELL: f64 = 0.75;
const FITS: f64 = 0.9;

pub(super) fn show(ui: &mut Ui, state: &State, line: &Line<'_>, out: &mut Vec<Msg>) {
    let theme = Theme::of(ui);
    let margin = Margin {
        left: 38,
        right: 19,
        top: 6,
        bottom: 18,
    };
    Frame::new().fill(theme.expanded).inner_margin(margin).show(ui, |ui| {
        ui.set_width(ui.available_width());
        ui.spacing_mut().item_spacing = vec2(8.0, 0.0);
        if let Some(problem) = line.problem {
            return broken(ui, state, line, problem, out);
        }
        let at = line.fit.near(context(state, line));
        if Density::of(ui.ctx()) == Density::Narrow {
            sum(ui, state, line, at);
            ui.add_space(16.0);
            choose(ui, state, line, at, out);
        } else {
            beside(ui, |ui, second| {
                if second {
                    choose(ui, state, line, at, out);
                } else {
                    sum(ui, state, line, at);
                }
            });
        }
    });
}

/// What is wrong with a folder, and what can be done about it.
fn broken(ui: &mut Ui, state: &State, line: &Line<'_>, problem: &str, out: &mut Vec<Msg>) {
    let theme = Theme::of(ui);
    ui.label(Type::PANEL.rich(t!(cannot_be_loaded), theme.t1));
    ui.add_space(4.0);
    ui.add(egui::Label::new(Type::NOTE.rich(problem, theme.t2)).wrap());
    path(ui, line);
    ui.add_space(12.0);
    ui.horizontal_wrapped(|ui| {
        let models = &state.models;
        let busy = models.fetching.as_ref().is_some_and(|fetching| fetching.id == line.name);
        if line.name.contains('/') && line.removal_is_ours() {
            let label = t!(download_named_again, name = line.name);
            let button = Button::primary(t!(download_again))
                .icon(Icon::DownloadSimple)
                .enabled(!busy)
                .label(&label);
            if ui.add(button).clicked() {
                let offer = Offer {
                    id: line.name.to_owned(),
                    name: crate::state::short(line.name).to_owned(),
                    ..Offer::default()
                };
                out.push(Msg::Models(ModelsMsg::Fetch(offer)));
            }
        }
        rows::files(ui, state, line, out);
    });
}

fn path(ui: &mut Ui, line: &Line<'_>) {
    if let Some(note) = line.entry.and_then(|entry| entry.note.as_ref()) {
        ui.add_space(8.0);
        ui.add(egui::Label::new(Type::SMALL.rich(note, Theme::of(ui).t3)).wrap());
    }
    if let Some(path) = line.path() {
        ui.add_space(8.0);
        let shown = dspark_look::middle_ellipsis(ui, Type::SMALL, &path.display().to_string(), ui.available_width());
        ui.label(Type::SMALL.rich(shown, Theme::of(ui).t3));
    }
}

/// Two columns as high as the higher one.
fn beside(ui: &mut Ui, mut add: impl FnMut(&mut Ui, bool)) {
    const GAP: f32 = 44.0;
    let top = ui.cursor().min;
    let width = ui.available_width();
    let first = ((width - GAP) * 0.626).round();
    let mut bottom = top.y;
    for (second, x, width) in [(false, top.x, first), (true, top.x + first + GAP, width - GAP - first)] {
        let place = Rect::from_min_size(egui::pos2(x, top.y), vec2(width, 0.0));
        let mut child = ui.new_child(
            UiBuilder::new()
                .max_rect(place)
                .id_salt(second)
                .layout(Layout::top_down(Align::Min)),
        );
        child.set_width(width);
        add(&mut child, second);
        bottom = bottom.max(child.min_rect().bottom());
    }
    ui.allocate_space(vec2(width, bottom - top.y));
}

/// Where the slider stands: where it was put, else the window that a load would serve, as far as it fits.
pub(super) fn context(state: &State, line: &Line<'_>) -> u64 {
    let open = state.models.open.as_ref().filter(|open| open.key == line.key);
    let set = state.settings.decoding.context_window.map(|window| window as u64);
    let most = line.fit.most().unwrap_or(line.fit.at.context);
    let wanted = open.and_then(|open| open.context).or(set).unwrap_or(most);
    wanted.min(most).min(line.fit.limit().unwrap_or(most))
}

/// `Memory at 128k context`, the bar, and its parts.
fn sum(ui: &mut Ui, state: &State, line: &Line<'_>, at: &FitAt) {
    let theme = Theme::of(ui);
    let width = ui.available_width();
    let (total, budget) = (at.total(), line.fit.budget);
    if at.parts.is_empty() || budget == 0 {
        ui.add(egui::Label::new(Type::NOTE.rich(t!(memory_not_known), theme.t2)).wrap());
        return;
    }
    ui.allocate_ui_with_layout(vec2(width, 20.0), Layout::left_to_right(Align::Center), |ui| {
        ui.label(Type::PANEL.rich(t!(memory_at_context, window = window(at.context)), theme.t1));
        dspark_look::from_right(ui, |ui| {
            let part = t!(
                of_budget_percent,
                budget = bytes(budget),
                part = format!("{:.0}", 100.0 * total as f64 / budget as f64)
            );
            let sum = bytes(total);
            ui.label(runs(&[
                (sum.as_str(), Type::PANEL, theme.t1),
                (part.as_str(), Type::BASE, theme.t2),
            ]));
        });
    });
    ui.add_space(10.0);
    let drafter_note = match line.drafter {
        Drafter::Here(name) | Drafter::Missing(name, _) => name.as_str(),
        Drafter::None => "",
    };
    let parts: Vec<MemoryPart<'_>> = at
        .parts
        .iter()
        .map(|(part, size)| MemoryPart {
            name: part.label(),
            gigabytes: *size as f64 / 1e9,
            color: color(theme, *part),
        })
        .collect();
    let all = budget as f64 / 1e9;
    let bar = memory_bar(ui, &parts, &[(WELL * all, t!(fits_well)), (FITS * all, t!(fits))], all, width);
    let words: Vec<String> = at
        .parts
        .iter()
        .map(|(part, _)| format!("{}: {}", part.label(), part.definition()))
        .collect();
    tip(bar, t!(sum_made_of), &words.join(" "));
    ui.add_space(10.0);
    memory_legend(ui, &parts, width);
    let note = if line.fit.context_unknown {
        t!(context_not_in_sum)
    } else if line.offer.is_some_and(|offer| !offer.exact && !offer.starter) {
        t!(estimate_from_bits)
    } else {
        ""
    };
    if !note.is_empty() {
        ui.add_space(8.0);
        ui.add(egui::Label::new(Type::SMALL.rich(note, theme.t3)).wrap());
    }
    if let Some(room) = state.room_now().filter(|room| total > *room && total <= budget) {
        ui.add_space(8.0);
        let words = t!(fits_not_beside, size = bytes(room));
        ui.add(egui::Label::new(Type::SMALL.rich(words, theme.warn)).wrap());
    }
    if !drafter_note.is_empty() {
        ui.add_space(8.0);
        let state = if matches!(line.drafter, Drafter::Here(_)) {
            t!(drafter_here)
        } else {
            t!(drafter_comes)
        };
        ui.add(egui::Label::new(Type::SMALL.rich(t!(drafter_line, name = drafter_note, state = state), theme.t3)).truncate());
    }
    path(ui, line);
}

/// Grey for what is fixed, blue for what the slider moves.
fn color(theme: &Theme, part: Part) -> Color32 {
    let ramp = &theme.memory;
    match part {
        Part::Weights => ramp.grey[0],
        Part::Drafter => ramp.grey[1],
        Part::Context => ramp.context,
        Part::DrafterContext => ramp.context_drafter,
        Part::Recurrent | Part::Kept => ramp.grey[2],
        Part::Working | Part::App => ramp.grey[3],
    }
}

/// `128k`, `40k`, `512`.
pub(super) fn window(tokens: u64) -> String {
    if tokens >= 1024 {
        format!("{}k", tokens / 1024)
    } else {
        tokens.to_string()
    }
}

fn choose(ui: &mut Ui, state: &State, line: &Line<'_>, at: &FitAt, out: &mut Vec<Msg>) {
    let theme = Theme::of(ui);
    let width = ui.available_width();
    if line.fit.most().is_some() {
        slider(ui, line, at, width, out);
    } else {
        asking(ui, state, line, out);
    }
    ui.add_space(14.0);
    ui.horizontal(|ui| buttons(ui, state, line, at, out));
    if line.entry.is_some() {
        ui.add_space(8.0);
        ui.horizontal_wrapped(|ui| {
            ui.spacing_mut().item_spacing = vec2(4.0, 4.0);
            rows::files(ui, state, line, out);
        });
    }
    if line.fit.level() == FitLevel::TooBig {
        ui.add_space(8.0);
        let words = t!(takes_too_much);
        ui.add(egui::Label::new(Type::SMALL.rich(words, theme.t3)).wrap());
    }
}

fn slider(ui: &mut Ui, line: &Line<'_>, at: &FitAt, width: f32, out: &mut Vec<Msg>) {
    let theme = Theme::of(ui);
    let fit = line.fit;
    let (first, most) = (fit.stops.first().map_or(0, |stop| stop.context), fit.most().unwrap_or(0));
    let limit = fit.limit().unwrap_or(most);
    ui.allocate_ui_with_layout(vec2(width, 20.0), Layout::left_to_right(Align::Center), |ui| {
        let title = ui.label(Type::PANEL.rich(t!(context_window), theme.t1));
        tip(title, t!(context_window), t!(context_window_definition));
        dspark_look::from_right(ui, |ui| {
            ui.label(Type::BASE.rich(t!(tokens_count, count = count(at.context as usize)), theme.t2));
        });
    });
    ui.add_space(6.0);
    let marks = marks(first, most, limit);
    let ticks: Vec<(f64, &str)> = marks.iter().map(|(at, label)| (*at as f64, label.as_str())).collect();
    let mut value = at.context as f64;
    let control = Slider::new(&mut value, first as f64..=most as f64, t!(context_window))
        .step(first as f64)
        .width(width)
        .surface(theme.expanded)
        .ticks(&ticks);
    let control = if limit < most { control.limit(limit as f64) } else { control };
    if ui.add(control).changed() {
        out.push(Msg::Models(ModelsMsg::Context(value.round() as u64)));
    }
    let words = match line.entry {
        Some(_) => t!(load_serves_window),
        None => t!(estimate_until_here),
    };
    ui.add_space(4.0);
    ui.add(egui::Label::new(Type::SMALL.rich(words, theme.t3)).wrap());
}

/// Labels under the slider: both ends, the limit, and round places that keep clear of those.
fn marks(first: u64, most: u64, limit: u64) -> Vec<(u64, String)> {
    let mut marks = vec![(first, window(first))];
    let room = (most - first) / 6;
    let far = |from: u64, to: u64| from.abs_diff(to) >= room;
    for at in [2, 4, 8, 16, 32, 64, 128, 256, 512, 1024].map(|at| at * 1024) {
        let clear = far(at, most) && (limit == most || far(at, limit));
        if at > first && at < most && clear && marks.last().is_none_or(|last| far(last.0, at)) {
            marks.push((at, window(at)));
        }
    }
    if limit < most && limit > first {
        marks.push((limit, t!(window_max, window = window(limit))));
    }
    if limit == most || far(limit, most) {
        marks.push((most, window(most)));
    }
    marks
}

/// The window is not known before the hub has said what the model is.
fn asking(ui: &mut Ui, state: &State, line: &Line<'_>, out: &mut Vec<Msg>) {
    let theme = Theme::of(ui);
    match state.models.hub.previews.get(&line.key) {
        Some(Preview::Asked) => {
            ui.horizontal(|ui| {
                busy_ring(ui, 14.0, theme.accent, t!(asking_hub));
                ui.label(Type::NOTE.rich(t!(asking_hub_sizes), theme.t2));
            });
        }
        Some(Preview::Failed(trouble)) => {
            ui.label(Type::PANEL.rich(t!(exact_sizes_need_hub), theme.t1));
            ui.add_space(4.0);
            ui.add(egui::Label::new(Type::NOTE.rich(&trouble.words, theme.t2)).wrap());
            ui.add_space(8.0);
            ui.horizontal(|ui| {
                if trouble.page.is_empty() {
                    if ui.add(Button::secondary(t!(ask_again)).small()).clicked() {
                        out.push(HubMsg::Preview(line.key.clone()).into());
                    }
                } else if ui
                    .add(Button::secondary(t!(open_its_page)).small().icon(Icon::ArrowSquareOut))
                    .clicked()
                {
                    out.push(Msg::Open(trouble.page.clone()));
                }
                if matches!(trouble.kind, Kind::Gated | Kind::Refused) && ui.add(Button::quiet(t!(enter_access_token)).small()).clicked() {
                    out.push(TokenMsg::Enter.into());
                }
            });
        }
        Some(Preview::Known(_)) | None => {
            ui.add(egui::Label::new(Type::NOTE.rich(t!(no_context_length), theme.t2)).wrap());
        }
    }
}

fn buttons(ui: &mut Ui, state: &State, line: &Line<'_>, at: &FitAt, out: &mut Vec<Msg>) {
    let models = &state.models;
    if let Some(entry) = line.entry {
        let loaded = line.is_loaded(state);
        let idle = entry.problem.is_none() && models.loading.is_none();
        let words = match (loaded, line.fit.most()) {
            (true, _) => t!(load_again).to_owned(),
            (false, Some(_)) => t!(load_with, window = window(at.context)),
            (false, None) => t!(load).into(),
        };
        let label = t!(words_name, words = words, name = entry.name);
        if ui.add(Button::primary(&words).enabled(idle).label(&label)).clicked() {
            let open = models.open.as_ref().and_then(|open| open.decoding.clone());
            let mut decoding = open.unwrap_or_else(|| Box::new(state.settings.decoding.clone()));
            if line.fit.most().is_some() {
                decoding.context_window = Some(at.context as usize);
            }
            let entry = entry.clone();
            out.push(Msg::Models(ModelsMsg::LoadWith { entry, decoding }));
        }
        let changed = models.open.as_ref().is_some_and(|open| open.decoding.is_some());
        let options = if changed { t!(load_options_changed) } else { t!(load_options) };
        if ui.add(Button::secondary(options).enabled(idle)).clicked() {
            out.push(Msg::Models(ModelsMsg::Sheet(true)));
        }
        return;
    }
    let Some(offer) = line.offer.filter(|_| line.gate.is_empty() && line.problem.is_none()) else {
        if !line.gate.is_empty() && ui.add(Button::primary(t!(accept_its_licence)).icon(Icon::ArrowSquareOut)).clicked() {
            out.push(Msg::Open(line.gate.to_owned()));
        }
        return;
    };
    let offer = models.known(offer);
    let under_way = models.fetching.as_ref().is_some_and(|fetching| fetching.id == offer.id);
    let waits = models.downloads.queue.iter().any(|waiting| waiting.id == offer.id);
    let whole = offer.whole();
    let words = match (under_way, waits, whole) {
        (true, ..) => t!(downloading).into(),
        (_, true, _) => t!(waiting).into(),
        (.., 0) => t!(get).into(),
        (.., whole) => t!(get_size, size = bytes(whole)),
    };
    let label = t!(verb_name, verb = words, name = line.name);
    let enabled = !under_way && !waits && line.fit.level() != FitLevel::TooBig;
    if ui
        .add(Button::primary(&words).icon(Icon::DownloadSimple).enabled(enabled).label(&label))
        .clicked()
    {
        out.push(Msg::Models(ModelsMsg::Fetch(offer.clone())));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_keep_clear_of_each_other_and_of_the_limit() {
        let labels = |first, most, limit| -> Vec<String> { marks(first, most, limit).into_iter().map(|mark| mark.1).collect() };
        assert_eq!(labels(4096, 262_144, 180_224), ["4k", "64k", "128k", "176k max", "256k"]);
        assert_eq!(labels(1024, 8192, 8192), ["1k", "4k", "8k"]);
        assert_eq!(labels(1024, 40_960, 40_960)[0], "1k");
        assert_eq!(labels(1024, 40_960, 40_960).last().map(String::as_str), Some("40k"));
        assert_eq!(labels(1024, 1024, 1024), ["1k", "1k"]);
    }
}
