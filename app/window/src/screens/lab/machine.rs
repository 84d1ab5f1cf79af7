//! This machine: the ceiling that its memory sets, replies against it, and how the machine is, in words.

use super::{beside, conditions, panel};
use crate::{
    machine::verdict::{About, Level, Lever, Pressure},
    shell::text::{self, count},
    state::{ChatMsg, LabMsg, LabView, MachineMsg, ModelsMsg, Msg, Screen, SettingsMsg, SettingsPage, State},
};
use dspark_look::{
    Button, Chip, Density, Icon, Theme, Tone, Type, card_title, empty_state, key_value, paint, plot::RooflinePlot, stat_figure, tip,
};
use dspark_strings::t;
use egui::{Rect, Role, Ui, vec2};
use jiff::Timestamp;

const SIDE: f32 = 298.0;
const CARDS: f32 = 214.0;
const NARROW_PLOT: f32 = 300.0;

pub(super) fn show(ui: &mut Ui, state: &State, height: f32, out: &mut Vec<Msg>) {
    heading(ui, state);
    let top = 32.0 + 12.0;
    if Density::of(ui.ctx()) == Density::Narrow {
        panel(ui, 0.0, |ui| verdict(ui, state, 0.0, out));
        panel(ui, NARROW_PLOT, |ui| plot(ui, state, NARROW_PLOT, out));
        panel(ui, 0.0, |ui| bandwidth(ui, state));
        panel(ui, 0.0, |ui| memory(ui, state));
        panel(ui, 0.0, |ui| footprint(ui, state));
        return;
    }
    let upper = (height - top - CARDS - 12.0).max(300.0);
    let width = ui.available_width();
    beside(ui, &[width - SIDE - 12.0, SIDE], upper, |ui, at| {
        panel(ui, upper, |ui| {
            if at == 0 {
                plot(ui, state, upper, out);
            } else {
                verdict(ui, state, upper, out);
            }
        });
    });
    beside(ui, &[1.0, 1.0, 1.0], CARDS, |ui, at| {
        panel(ui, CARDS, |ui| match at {
            0 => bandwidth(ui, state),
            1 => memory(ui, state),
            _ => footprint(ui, state),
        });
    });
}

fn heading(ui: &mut Ui, state: &State) {
    let theme = Theme::of(ui);
    let machine = &state.engine.machine;
    let note = t!(
        cores_memory,
        cores = machine.cores,
        memory = format!("{:.0}", machine.ram as f64 / f64::from(1 << 30)),
        backend = backend(&machine.backend)
    );
    let mut job = dspark_look::runs(&[(machine.device.as_str(), Type::HEADING, theme.t1)]);
    job.append(&note, 12.0, Type::BASE.with_line(24.0).format(theme.t2));
    let (rect, response) = ui.allocate_exact_size(vec2(ui.available_width(), 32.0 - 12.0 + 4.0), egui::Sense::hover());
    response.widget_info(|| egui::WidgetInfo::labeled(Role::Heading, true, format!("{}, {note}", machine.device)));
    let galley = ui.fonts_mut(|fonts| fonts.layout_job(job));
    let right = rect.with_min_x((rect.left() + galley.size().x + 16.0).min(rect.right()));
    ui.painter().galley(rect.min, galley, theme.t1);
    if Density::of(ui.ctx()) != Density::Narrow {
        paint::over_right(ui, right, |ui| conditions::chips(ui, state));
        return;
    }
    let line = ui.cursor().min;
    let row = Rect::from_min_size(line, vec2(ui.available_width(), 24.0));
    if state.lab.machine.reading.is_some() {
        ui.add_space(30.0);
        paint::over_left(ui, row, |ui| conditions::chips(ui, state));
    }
}

fn backend(name: &str) -> &'static str {
    match name {
        "metal" => t!(backend_metal),
        "cuda" => t!(backend_cuda),
        "cpu" => t!(backend_cpu),
        _ => t!(backend_none),
    }
}

fn plot(ui: &mut Ui, state: &State, height: f32, out: &mut Vec<Msg>) {
    let title = card_title(ui, t!(rate_against_ceiling), t!(tok_s_by_context));
    tip(title, t!(plain_ceiling), t!(ceiling_definition));
    ui.add_space(8.0);
    let height = height - 30.0 - 28.0;
    let lab = &state.lab.machine;
    let Some((model, measured)) = state.engine.model.as_ref().zip(state.bandwidth()) else {
        return missing(ui, state, height, out);
    };
    if state.footprint().is_none() {
        let reason = match &lab.footprint {
            Some((_, Err(reason))) => reason.as_str(),
            _ => t!(reading_weight_sizes),
        };
        return placed(ui, height, |ui| {
            empty_state(ui, Icon::Database, t!(bytes_not_known), reason, "");
        });
    }
    let replies: Vec<(usize, f64)> = lab.replies.iter().map(|reply| (reply.context, reply.rate)).collect();
    // As far as there is something to see, not a window of which nothing is used.
    let furthest = replies.iter().map(|reply| reply.0).max().unwrap_or(0);
    let window = model.context_window.min((4 * furthest).next_multiple_of(8192).max(8192));
    let step = state.engine.speculation.as_ref().and_then(|known| known.curves.as_ref());
    let plain = step.and_then(|curves| Some((curves.context, 1e3 / curves.verify.get(&1)?)));
    let words = t!(ceiling_formula, rate = format!("{:.0}", measured.bandwidth.gigabytes_per_second));
    RooflinePlot {
        ceiling: &|context| state.ceiling(context).unwrap_or(0.0),
        window,
        words: &words,
        replies: &replies,
        plain,
    }
    .show(ui, height);
}

/// What stands there before everything is known.
fn missing(ui: &mut Ui, state: &State, height: f32, out: &mut Vec<Msg>) {
    let lab = &state.lab.machine;
    placed(ui, height, |ui| {
        if lab.measuring {
            empty_state(ui, Icon::Gauge, t!(measuring_memory), t!(measuring_memory_line), "");
        } else if let Some(reason) = &lab.failure {
            if empty_state(ui, Icon::Warning, t!(memory_not_measured), reason, t!(try_again)) {
                out.push(MachineMsg::Measure.into());
            }
        } else if state.bandwidth().is_none() {
            let line = t!(memory_sets_pace);
            if empty_state(ui, Icon::Gauge, t!(not_measured_yet), line, t!(measure_now)) {
                out.push(MachineMsg::Measure.into());
            }
        } else if empty_state(ui, Icon::Cube, t!(no_model_loaded_title), t!(bytes_and_memory), t!(choose_model)) {
            out.push(Msg::Models(ModelsMsg::Picker(true)));
        }
    });
}

fn placed(ui: &mut Ui, height: f32, add: impl FnOnce(&mut Ui)) {
    let (rect, _) = ui.allocate_exact_size(vec2(ui.available_width(), height), egui::Sense::hover());
    let inner = Rect::from_center_size(rect.center(), vec2(rect.width().min(460.0), 150.0));
    paint::over_down(ui, inner, add);
}

fn verdict(ui: &mut Ui, state: &State, height: f32, out: &mut Vec<Msg>) {
    let theme = Theme::of(ui);
    let judgement = state.judgement();
    let (word, icon, ink) = match judgement.level {
        Level::Info => (t!(not_judged_yet), Icon::InfoFill, theme.t2),
        Level::Healthy => (t!(healthy), Icon::CheckCircleFill, theme.ok),
        Level::Ok => (t!(in_order), Icon::CheckCircleFill, theme.ok),
        Level::Attention => (t!(needs_attention), Icon::WarningFill, theme.warn),
        Level::Problem => (t!(problem), Icon::WarningOctagonFill, theme.bad),
    };
    let top = ui.cursor().top();
    ui.horizontal(|ui| {
        ui.spacing_mut().item_spacing.x = 8.0;
        icon.show(ui, 18.0, ink);
        let label = ui.label(Type::HEADING.rich(word, theme.t1));
        label.widget_info(|| egui::WidgetInfo::labeled(Role::Heading, true, word));
    });
    ui.add_space(4.0);
    ui.add(egui::Label::new(Type::BASE.rich(format!("{}.", judgement.headline.trim_end_matches('.')), theme.t2)).wrap());
    ui.add_space(8.0);
    for finding in &judgement.findings {
        let text = Type::NOTE
            .with_line(18.0)
            .wrapped(ui, finding.words.as_str(), theme.t1, ui.available_width() - 26.0);
        let (rect, response) = ui.allocate_exact_size(vec2(ui.available_width(), text.size().y + 16.0), egui::Sense::hover());
        response.widget_info(|| egui::WidgetInfo::labeled(Role::ListItem, true, finding.words.as_str()));
        paint::hline(ui.painter(), rect.x_range(), rect.top(), theme.line);
        let icon = match finding.about {
            About::Memory => Icon::Database,
            About::Context => Icon::Clock,
            About::Speed => Icon::TrendUp,
        };
        icon.paint(ui.painter(), rect.left_top() + vec2(8.0, 17.0), 15.0, theme.t2);
        ui.painter().galley(rect.left_top() + vec2(26.0, 8.0), text, theme.t1);
    }
    let levers = levers(&judgement.levers);
    let rows = levers.len() as f32 * 38.0 + 24.0;
    let used = ui.cursor().top() - top;
    ui.add_space((height - 30.0 - used - rows).max(10.0));
    ui.label(Type::LABEL.rich(t!(what_moves_number), theme.t3));
    for (words, message) in levers {
        ui.add_space(8.0);
        let width = ui.available_width();
        if ui.add(Button::secondary(words).min_width(width)).clicked() {
            out.extend(message);
        }
    }
}

/// Each with what it does; what would fit is always worth a look.
fn levers(levers: &[Lever]) -> Vec<(&'static str, Vec<Msg>)> {
    let mut rows: Vec<(&'static str, Vec<Msg>)> = levers
        .iter()
        .map(|lever| match lever {
            Lever::FreeMemory => (t!(unload_the_model), vec![Msg::Models(ModelsMsg::Unload)]),
            Lever::MeasureAgain => (t!(measure_again), vec![MachineMsg::Measure.into()]),
            Lever::DraftLess => (
                t!(decoding_settings),
                vec![
                    Msg::Settings(SettingsMsg::Page(SettingsPage::Decoding)),
                    Msg::Show(Screen::Settings),
                ],
            ),
            Lever::Race => (t!(race_against_plain), vec![Msg::Lab(LabMsg::View(LabView::Race))]),
            Lever::NewChat => (t!(new_chat), vec![Msg::Chat(ChatMsg::New)]),
        })
        .collect();
    rows.push((t!(see_what_fits), vec![Msg::Show(Screen::Models)]));
    rows
}

fn figure(ui: &mut Ui, label: &str, value: &str, unit: &str) {
    let theme = Theme::of(ui);
    let figure = ui.label(stat_figure(value, unit, theme));
    figure.widget_info(|| egui::WidgetInfo::labeled(Role::Label, true, format!("{label} {value} {unit}")));
    ui.add_space(10.0);
}

/// 10 high, as what stands there is a part of something and no progress.
fn bar(ui: &mut Ui, part: Option<f32>, ink: egui::Color32) {
    let theme = Theme::of(ui);
    let (rect, _) = ui.allocate_exact_size(vec2(ui.available_width(), 10.0), egui::Sense::hover());
    ui.painter().rect_filled(rect, 3, theme.press);
    let width = rect.width() * part.unwrap_or(0.0).clamp(0.0, 1.0);
    if width > 0.0 {
        ui.painter()
            .rect_filled(Rect::from_min_size(rect.min, vec2(width.max(2.0), 10.0)), 3, ink);
    }
    ui.add_space(10.0);
}

fn bandwidth(ui: &mut Ui, state: &State) {
    let lab = &state.lab.machine;
    let measured = state.bandwidth();
    let spec = crate::machine::chips::bandwidth(&state.engine.machine.device);
    let note = match measured {
        _ if lab.measuring => t!(measuring).into(),
        Some(measured) if measured.degraded => t!(measured_memory_short).into(),
        Some(measured) => t!(measured_date, date = date(measured.at)),
        None => t!(not_measured).into(),
    };
    card_title(ui, t!(memory_bandwidth), &note);
    ui.add_space(2.0);
    let (value, unit, part) = match (measured, spec) {
        (Some(measured), Some(spec)) => {
            let rate = measured.bandwidth.gigabytes_per_second;
            (
                format!("{rate:.0}"),
                t!(
                    gbs_of_spec,
                    spec = format!("{spec:.0}"),
                    part = format!("{:.0}", 100.0 * rate / spec)
                ),
                Some((rate / spec) as f32),
            )
        }
        (Some(measured), None) => (format!("{:.1}", measured.bandwidth.gigabytes_per_second), "GB/s".into(), Some(1.0)),
        (None, Some(spec)) => (format!("{spec:.0}"), t!(gbs_spec_estimate).into(), None),
        (None, None) => ("–".into(), "GB/s".into(), None),
    };
    figure(ui, t!(memory_bandwidth), &value, &unit);
    bar(ui, part, Theme::of(ui).series.accepted);
    let step = state.plain_step().map_or_else(
        || t!(not_calibrated).into(),
        |(moved, part)| format!("{moved:.1} GB/s, {:.0}%", 100.0 * part),
    );
    let row = key_value(ui, t!(one_plain_step_uses), &step);
    tip(row, t!(one_plain_step), t!(one_plain_step_definition));
    key_value(ui, t!(method), measured.map_or("–", |measured| measured.bandwidth.method.as_str()));
}

fn date(at: u64) -> String {
    Timestamp::from_second(at as i64).map_or_else(
        |_| t!(unknown_time).into(),
        |at| text::date_time(jiff::tz::TimeZone::system().to_datetime(at), false),
    )
}

/// `12.3 of 24.0 GB`.
fn of_total(used: u64, total: u64) -> String {
    let gigabytes = |bytes: u64| format!("{:.1}", bytes as f64 / 1e9);
    t!(of_total_gb, used = gigabytes(used), total = gigabytes(total))
}

fn memory(ui: &mut Ui, state: &State) {
    let theme = Theme::of(ui);
    let engine = &state.engine.memory;
    let reading = state.lab.machine.reading.as_ref();
    let top = ui.cursor().min;
    card_title(ui, t!(memory_title), "");
    if let Some(reading) = reading {
        let (words, tone, icon) = match reading.pressure {
            Pressure::Normal => (t!(pressure_normal), Tone::Ok, Icon::Check),
            Pressure::Warning => (t!(pressure_high), Tone::Warn, Icon::Warning),
            Pressure::Critical => (t!(pressure_critical), Tone::Bad, Icon::WarningOctagonFill),
        };
        let line = Rect::from_min_size(top, vec2(ui.available_width(), 20.0));
        let chip = paint::over_right(ui, line, |ui| ui.add(Chip::new(words).tone(tone).icon(icon)));
        tip(chip, t!(memory_pressure), &reading.explain());
    }
    ui.add_space(2.0);
    let gigabytes = |bytes: u64| bytes as f64 / 1e9;
    figure(
        ui,
        t!(model_memory),
        &format!("{:.1}", gigabytes(engine.active)),
        &t!(gb_of_for_models, total = format!("{:.1}", gigabytes(engine.limit))),
    );
    bar(ui, Some(engine.active as f32 / engine.limit.max(1) as f32), theme.series.plain);
    key_value(
        ui,
        t!(peak_and_kept),
        &format!("{:.1}, {:.1} GB", gigabytes(engine.peak), gigabytes(engine.cache)),
    );
    let Some(reading) = reading else {
        ui.label(Type::NOTE.rich(t!(reading), theme.t3));
        return;
    };
    key_value(ui, t!(available), &of_total(reading.available, reading.total));
    let swap = if reading.swap_total == 0 {
        t!(swap_none).into()
    } else {
        of_total(reading.swap_used, reading.swap_total)
    };
    key_value(ui, t!(swap_in_use), &swap);
}

fn footprint(ui: &mut Ui, state: &State) {
    let Some(model) = &state.engine.model else {
        card_title(ui, t!(model_footprint), "");
        ui.add_space(2.0);
        figure(ui, t!(read_per_token), "–", t!(no_model_is_loaded));
        return;
    };
    card_title(ui, t!(model_footprint), &model.name);
    ui.add_space(2.0);
    let gigabytes = |bytes: u64| {
        if bytes < 10_000_000_000 {
            format!("{:.2}", bytes as f64 / 1e9)
        } else {
            format!("{:.1}", bytes as f64 / 1e9)
        }
    };
    let weights = state.footprint();
    let value = weights.map_or_else(|| "–".into(), |weights| gigabytes(weights.active));
    let estimate = if weights.is_some_and(|weights| weights.estimate) {
        t!(estimate_comma)
    } else {
        ""
    };
    figure(ui, t!(read_per_token), &value, &t!(gb_read_per_token, estimate = estimate));
    let part = weights.map(|weights| weights.active as f32 / weights.total.max(1) as f32);
    bar(ui, part, Theme::of(ui).series.plain);
    let drafter = state.engine.speculation.as_ref().and_then(|known| known.drafter.as_ref());
    let total = weights.map_or(model.weight_bytes, |weights| weights.total);
    let both = drafter.map_or_else(
        || t!(total_gb_none, total = gigabytes(total)),
        |drafter| format!("{}, {} GB", gigabytes(total), gigabytes(drafter.weight_bytes)),
    );
    key_value(ui, t!(total_drafter), &both);
    key_value(
        ui,
        t!(per_context_token),
        &format!("{:.0} KiB", model.kv_bytes_per_token as f64 / 1024.0),
    );
    let last = state.lab.machine.replies.back().map(|reply| reply.context);
    let at = |context| state.ceiling(context).map_or_else(|| "–".into(), |rate| format!("{rate:.1}"));
    let now = last.map_or_else(|| "–".into(), at);
    let row = key_value(ui, t!(ceiling_at), &format!("{}, {now}, {}", at(0), at(model.context_window)));
    let full = count(model.context_window);
    tip(row, t!(plain_ceiling), &t!(ceiling_at_definition, full = full));
}
