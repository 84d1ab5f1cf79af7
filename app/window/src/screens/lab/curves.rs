//! Curves: what a round costs on this machine by how much it drafts, and the cap that follows.

use super::{beside, figures::measured, panel, words};
use crate::shell::text;
use crate::state::{Depth, LabMsg, Msg, Screen, SettingsMsg, SettingsPage, State};
use dspark_look::{
    Button, Density, Icon, Theme, Type, card_title, empty_state, key_value, paint,
    plot::{Bar, BarPlot, CurvePlot},
    segmented_sized, stat_figure, tip,
};
use dspark_protocol::{Mode, SpeculationState};
use dspark_speculate::cost::CostModel;
use dspark_strings::t;
use egui::{Rect, Role, Ui, vec2};
use jiff::{Timestamp, tz::TimeZone};

const SIDE: f32 = 286.0;
const NARROW_PLOT: f32 = 300.0;

pub(super) fn show(ui: &mut Ui, state: &State, height: f32, out: &mut Vec<Msg>) {
    let speculation = state.engine.speculation.as_deref();
    let Some((speculation, cost)) = speculation.and_then(|known| Some((known, CostModel::new(known.curves.clone()?)?))) else {
        return nothing(ui, state, speculation, height, out);
    };
    if Density::of(ui.ctx()) == Density::Narrow {
        panel(ui, 0.0, |ui| chosen(ui, state, speculation, &cost));
        panel(ui, NARROW_PLOT, |ui| verify(ui, state, speculation, &cost, NARROW_PLOT, out));
        panel(ui, NARROW_PLOT, |ui| rates(ui, state, speculation, &cost, NARROW_PLOT));
        panel(ui, 0.0, |ui| provenance(ui, state, speculation, &cost, out));
        return;
    }
    let width = ui.available_width();
    let half = ((height - 12.0) / 2.0).max(280.0);
    beside(ui, &[width - SIDE - 12.0, SIDE], 2.0 * half + 12.0, |ui, at| {
        ui.spacing_mut().item_spacing.y = 12.0;
        if at == 0 {
            panel(ui, half, |ui| verify(ui, state, speculation, &cost, half, out));
            panel(ui, half, |ui| rates(ui, state, speculation, &cost, half));
        } else {
            panel(ui, 0.0, |ui| chosen(ui, state, speculation, &cost));
            panel(ui, 0.0, |ui| provenance(ui, state, speculation, &cost, out));
        }
    });
}

/// Nothing has been measured: why, and one thing to do about it.
fn nothing(ui: &mut Ui, state: &State, speculation: Option<&SpeculationState>, height: f32, out: &mut Vec<Msg>) {
    ui.set_min_height(height);
    let reason = speculation.and_then(|known| known.reason.clone());
    let drafts = speculation.is_some_and(|known| known.drafter.is_some());
    super::states::centred(ui, 520.0, |ui| {
        if drafts {
            let line = t!(curves_empty_line);
            if empty_state(ui, Icon::Gauge, t!(not_measured_yet), line, t!(measure_now)) {
                out.push(Msg::Lab(LabMsg::Measure));
            }
            return;
        }
        let name = state.engine.model.as_ref().map_or(t!(this_model), |model| model.name.as_str());
        let line = match reason {
            Some(reason) => t!(one_token_because, name = name, reason = reason.trim_end_matches('.')),
            None => t!(one_token_no_cost, name = name),
        };
        if empty_state(ui, Icon::Gauge, t!(no_drafter_no_curves), &line, t!(decoding_settings)) {
            out.push(Msg::Settings(SettingsMsg::Page(SettingsPage::Decoding)));
            out.push(Msg::Show(Screen::Settings));
        }
    });
}

fn chosen(ui: &mut Ui, state: &State, speculation: &SpeculationState, cost: &CostModel) {
    let theme = Theme::of(ui);
    ui.label(Type::LABEL.rich(t!(chosen_cap), theme.t3));
    let most = speculation.drafter.as_ref().map_or(speculation.cap, |drafter| drafter.max_draft);
    let (value, unit) = if speculation.cap == 0 {
        (t!(think_parked).to_owned(), String::new())
    } else {
        (speculation.cap.to_string(), t!(of_most, most = most))
    };
    let figure = ui.label(stat_figure(&value, &unit, theme));
    figure.widget_info(|| egui::WidgetInfo::labeled(Role::Label, true, t!(chosen_cap_spoken, value = value, unit = unit)));
    ui.add_space(4.0);
    let depth = state.engine.context_tokens.max(cost.curves().context);
    let text = words::cap(speculation, cost, depth);
    ui.add(egui::Label::new(Type::NOTE.with_line(20.0).rich(text, theme.t2)).wrap());
}

fn points(curve: &std::collections::BTreeMap<usize, f64>, shift: usize) -> Vec<(usize, f32)> {
    curve.iter().map(|(at, ms)| (at + shift, *ms as f32)).collect()
}

fn verify(ui: &mut Ui, state: &State, speculation: &SpeculationState, cost: &CostModel, height: f32, out: &mut Vec<Msg>) {
    let theme = Theme::of(ui);
    let curves = cost.curves();
    let top = ui.cursor().min;
    let widest = curves.verify.keys().next_back().copied().unwrap_or(1);
    let title = card_title(ui, t!(verify_by_width), &t!(verify_by_width_note, widest = widest));
    tip(title, t!(verify_time), t!(verify_time_definition));
    let deep = curves.slope.values().any(|slope| *slope > 0.0);
    if deep {
        let line = Rect::from_min_size(top - vec2(0.0, 4.0), vec2(ui.available_width(), 28.0));
        paint::over_right(ui, line, |ui| {
            ui.spacing_mut().item_spacing.x = 10.0;
            let mut depth = state.lab.depth;
            let choices = [(Depth::None, t!(overlay_none)), (Depth::Tokens8k, "8k"), (Depth::Tokens32k, "32k")];
            if segmented_sized(ui, &mut depth, &choices, 26.0, Role::RadioButton).changed() {
                out.push(Msg::Lab(LabMsg::Depth(depth)));
            }
            if ui.available_width() > 420.0 {
                ui.label(Type::SMALL.rich(t!(overlay_context), theme.t2));
            }
        });
    }
    ui.add_space(12.0);
    let verify = points(&curves.verify, 0);
    // The drafter of a round with c drafts stands at the c + 1 rows that the round verifies.
    let drafter = points(&curves.drafter, 1);
    let overlay = state.lab.depth.tokens().filter(|_| deep).map(|tokens| {
        let at_depth: Vec<(usize, f32)> = curves
            .verify
            .keys()
            .map(|width| (*width, cost.verify_ms(*width, tokens) as f32))
            .collect();
        (at_depth, t!(at_k, k = tokens >> 10))
    });
    // At the widest there is nothing dear to be seen.
    let knee = Some(cost.knee()).filter(|knee| *knee < widest);
    let knee_words = knee.map(|knee| t!(knee_at, knee = knee)).unwrap_or_default();
    CurvePlot {
        label: t!(verify_time),
        unit: "ms",
        axis: t!(rows),
        points: &verify,
        chosen: Some(speculation.cap + 1),
        knee: knee.map(|knee| (knee, knee_words.as_str())),
        overlay: overlay.as_ref().map(|(points, words)| (points.as_slice(), words.as_str())),
        second: (!drafter.is_empty()).then_some((drafter.as_slice(), t!(drafter_small))),
    }
    .show(ui, height - 30.0 - 32.0);
}

fn rates(ui: &mut Ui, state: &State, speculation: &SpeculationState, cost: &CostModel, height: f32) {
    let theme = Theme::of(ui);
    let series = &theme.series;
    let known = measured(&state.lab, speculation.cap);
    let line = if known.is_some() { t!(bar_and_line) } else { "" };
    let note = t!(at_acceptance, part = format!("{:.0}", 100.0 * speculation.acceptance), line = line);
    let title = card_title(ui, t!(predicted_by_cap), &note);
    tip(title, t!(predicted_rate), t!(predicted_definition));
    ui.add_space(12.0);
    let rates = if speculation.predicted.is_empty() {
        let most = speculation.drafter.as_ref().map_or(speculation.cap, |drafter| drafter.max_draft);
        cost.predicted(speculation.acceptance, state.engine.context_tokens, most)
    } else {
        speculation.predicted.clone()
    };
    let texts: Vec<(String, String)> = rates
        .iter()
        .map(|(cap, rate)| {
            let label = if *cap == 0 { t!(cap_off).to_owned() } else { cap.to_string() };
            (
                label,
                if *rate < 100.0 {
                    format!("{rate:.1}")
                } else {
                    format!("{rate:.0}")
                },
            )
        })
        .collect();
    let bars: Vec<Bar<'_>> = rates
        .iter()
        .zip(&texts)
        .map(|((cap, rate), (label, text))| Bar {
            label,
            value: *rate as f32,
            text,
            color: match *cap {
                cap if cap == speculation.cap => series.accepted,
                0 => series.plain,
                _ => series.drafted,
            },
        })
        .collect();
    let at = rates.keys().position(|cap| *cap == speculation.cap);
    let measured_words = known.map(|rate| t!(rate_measured, rate = format!("{rate:.1}"))).unwrap_or_default();
    let plain = rates.get(&0).map(|plain| *plain as f32);
    BarPlot {
        axis: true,
        inside: true,
        measured: at.zip(known).map(|(at, rate)| (at, rate as f32, measured_words.as_str())),
        // The line stands for the grey bar, which is named.
        reference: plain.map(|plain| (plain, "")),
        ..BarPlot::new(t!(predicted_by_cap), &bars)
    }
    .show(ui, height - 30.0 - 32.0);
}

fn provenance(ui: &mut Ui, state: &State, speculation: &SpeculationState, cost: &CostModel, out: &mut Vec<Msg>) {
    let theme = Theme::of(ui);
    let machine = &state.engine.machine;
    let quantization = state.engine.model.as_ref().map_or("", |model| model.quantization.as_str());
    card_title(ui, t!(calibration), "");
    ui.add_space(8.0);
    let or_dash = |text: &str| if text.is_empty() { "–".to_owned() } else { text.to_owned() };
    let kind = if machine.backend == "cpu" { t!(processor) } else { t!(graphics) };
    let drafter = speculation.drafter.as_ref();
    let chosen = speculation.cap.max(1);
    let curves = cost.curves();
    let pass = cost.round_ms(chosen, curves.context) - cost.verify_ms(chosen + 1, curves.context) - curves.overhead;
    let rows = [
        (kind, or_dash(&machine.device)),
        (
            t!(runtime),
            if machine.mlx_version.is_empty() {
                "–".into()
            } else {
                format!("MLX {}", machine.mlx_version)
            },
        ),
        (t!(weights), or_dash(quantization)),
        (t!(drafter), drafter.map_or_else(|| "–".into(), |drafter| drafter.name.clone())),
        (
            t!(kind),
            words::mode(if speculation.mode == Mode::Auto {
                Mode::Baseline
            } else {
                speculation.mode
            })
            .into(),
        ),
        (t!(drafter_pass), format!("{pass:.1} ms")),
        (t!(overhead), format!("{:.1} ms", curves.overhead)),
        (t!(context), t!(tokens_count, count = crate::shell::text::count(curves.context))),
        (
            t!(measured),
            if curves.unsteady {
                t!(measured_while_busy).into()
            } else {
                when(curves.measured_at)
            },
        ),
    ];
    let width = ui.available_width();
    for (key, value) in rows {
        let shown = dspark_look::middle_ellipsis(ui, Type::NOTE, &value, width - 100.0);
        key_value(ui, key, &shown);
    }
    ui.add_space(12.0);
    dspark_look::controls(ui, |ui| {
        ui.spacing_mut().item_spacing.x = 8.0;
        let busy = !state.engine.requests.is_empty() || state.models.loading.is_some();
        let again = Button::secondary(t!(measure_again))
            .small()
            .icon(Icon::ArrowsClockwise)
            .enabled(!busy);
        if ui.add(again).clicked() {
            out.push(Msg::Lab(LabMsg::Measure));
        }
        ui.label(Type::SMALL.rich(if busy { t!(when_idle) } else { t!(reloads_model) }, theme.t3));
    });
}

/// `28 Nov 2026, 14:02`, by the clock on the wall.
fn when(seconds: u64) -> String {
    let stamp = i64::try_from(seconds).ok().and_then(|seconds| Timestamp::from_second(seconds).ok());
    match stamp {
        Some(stamp) if seconds > 0 => text::date_time(TimeZone::system().to_datetime(stamp), true),
        _ => "–".into(),
    }
}
