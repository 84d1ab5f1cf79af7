//! Benchmark: fixed prompts by several ways of decoding, what came of it, and of those before.

use super::{race::words::sentence, setup, states::centred, words};
use crate::state::{BenchAs, BenchMsg, Comparing, Extent, LabMsg, LabView, Measuring, Msg, State};
use dspark_compare::{Arm, Bench, Run};
use dspark_look::{
    Button, Chip, Columns, Density, ErrorCard, Icon, MenuItem, Progress, TableRow, Theme, Tone, Type, card_flush, empty_state,
    list_heading, menu_below, paint, progress_row, select, table_head, tip, two_lines,
};
use dspark_strings::{Key, key, t};
use egui::{Align, Rect, Role, Ui, WidgetInfo, vec2};
use std::sync::Arc;

const EXTENT: f32 = 236.0;
const WAYS: f32 = 150.0;
const START: f32 = 118.0;
const EXTENTS: [(Extent, Key); 2] = [(Extent::Quick, key!(bench_quick)), (Extent::Full, key!(bench_full))];

pub(super) fn show(ui: &mut Ui, state: &State, height: f32, out: &mut Vec<Msg>) {
    let top = ui.cursor().top();
    controls(ui, state, out);
    setup::beside_others(ui, state);
    let lab = &state.lab.bench;
    if let Some(running) = &lab.running {
        progress(ui, state, running, out);
    }
    if let Some(reason) = &lab.failure {
        let card = ErrorCard {
            title: t!(bench_not_run),
            cause: reason,
            primary: t!(try_again),
            details: "",
        };
        let action = card.show(ui);
        if action.primary {
            out.push(BenchMsg::Start.into());
        }
        if action.copy {
            out.push(Msg::Copy(reason.clone()));
        }
    }
    if lab.cancelled && lab.running.is_none() {
        super::race::remark(ui, Icon::StopFill, t!(bench_cancelled));
    }
    let Some(shown) = &lab.shown else {
        if lab.running.is_none() && lab.failure.is_none() {
            ui.set_min_height(height - (ui.cursor().top() - top));
            centred(ui, 480.0, |ui| nothing(ui, state, out));
        }
        return;
    };
    result(ui, state, shown, lab.against.as_ref(), out);
    card_flush(ui, |ui| {
        list_heading(ui, t!(benchmarks_here));
        for bench in &lab.all {
            let best = bench.best().map_or_else(String::new, |run| {
                let plain = bench.run(&Arm::plain().name()).map_or(0.0, |plain| plain.decode_tok_s);
                t!(
                    bench_best,
                    name = name(state, &run.run),
                    speedup = format!("{:.2}", run.speedup),
                    plain = format!("{plain:.1}")
                )
            });
            let about = setup::about(&bench.stamp);
            let line = match bench.flags.first() {
                Some(flag) => t!(not_quoted_line, about = about, flag = flag),
                None => about,
            };
            if setup::history_row(ui, &bench.stamp, &best, &line, Arc::ptr_eq(bench, shown)).clicked() {
                out.push(BenchMsg::Show(bench.clone()).into());
            }
        }
    });
}

fn nothing(ui: &mut Ui, state: &State, out: &mut Vec<Msg>) {
    if state.comparing() == Some(Comparing::Race) {
        if empty_state(ui, Icon::FlagCheckered, t!(race_being_run), t!(one_at_a_time), t!(show_it)) {
            out.push(Msg::Lab(LabMsg::View(LabView::Race)));
        }
        return;
    }
    let line = t!(bench_empty_line);
    if empty_state(ui, Icon::Gauge, t!(nothing_measured_yet), line, t!(measure_now)) {
        out.push(BenchMsg::Start.into());
    }
}

fn controls(ui: &mut Ui, state: &State, out: &mut Vec<Msg>) {
    let lab = &state.lab.bench;
    dspark_look::controls(ui, |ui| {
        ui.spacing_mut().item_spacing.x = 8.0;
        let mut extent = lab.extent;
        if select(
            ui,
            t!(how_much),
            &mut extent,
            &EXTENTS.map(|(extent, words)| (extent, words.text())),
            EXTENT,
        ) {
            out.push(BenchMsg::Extent(extent).into());
        }
        setup::measured(ui, state, WAYS, out);
        dspark_look::from_right(ui, |ui| {
            let ready = state.has_model() && state.models.loading.is_none() && state.comparing().is_none();
            let start = Button::primary(t!(measure)).icon(Icon::Gauge).min_width(START).enabled(ready);
            if ui.add(start).clicked() {
                out.push(BenchMsg::Start.into());
            }
        });
    });
}

fn progress(ui: &mut Ui, state: &State, running: &Measuring, out: &mut Vec<Msg>) {
    let (title, detail, part) = match &running.at {
        _ if running.stopping => (t!(cancelling).to_owned(), String::new(), None),
        None => (t!(begins).to_owned(), String::new(), None),
        Some(at) => {
            let way = name(state, &at.arm);
            let title = if at.turn == 0 {
                t!(warming_up_way, way = way)
            } else {
                t!(measuring_way, way = way, kind = at.kind)
            };
            let mut detail = t!(generations_of, done = at.done, total = at.of);
            if let Some(left) = running.left(state.clock.instant) {
                detail = t!(detail_left, detail = detail, left = rough(left));
            }
            (title, detail, Some(at.done as f32 / at.of.max(1) as f32))
        }
    };
    let row = Progress {
        name: &title,
        detail: &detail,
        part,
        paused: false,
        pausable: false,
    };
    if progress_row(ui, &row).cancel && !running.stopping {
        out.push(BenchMsg::Cancel.into());
    }
}

fn rough(left: f64) -> String {
    if left < 90.0 {
        t!(seconds_short, n = format!("{:.0}", left.max(1.0)))
    } else {
        t!(minutes_short, n = format!("{:.0}", left / 60.0))
    }
}

/// A run's name as people read it, where it is one of the ways that are offered.
fn name(state: &State, run: &str) -> String {
    if run == Arm::plain().name() {
        return words::mode(dspark_protocol::Mode::Baseline).into();
    }
    let ways = state.ways();
    let known = ways.iter().find(|way| way.arm.name() == run);
    known.map_or_else(|| run.to_owned(), |way| words::arm_line(&way.arm))
}

fn result(ui: &mut Ui, state: &State, bench: &Bench, against: Option<&Arc<Bench>>, out: &mut Vec<Msg>) {
    let narrow = Density::of(ui.ctx()) == Density::Narrow;
    let kind_width = if narrow { 58.0 } else { 72.0 };
    let gap = if narrow { 8.0 } else { 12.0 };
    let mut widths = vec![None, Some(if narrow { 84.0 } else { 104.0 }), Some(64.0)];
    if !narrow {
        widths.push(Some(84.0));
    }
    widths.extend(bench.kinds.iter().take(6).map(|_| Some(kind_width)));
    let columns = Columns::new(widths).gap(gap);
    card_flush(ui, |ui| {
        title(ui, state, bench, against, out);
        let mut labels = vec![
            (t!(way), Align::Min),
            (t!(decode_tok_s), Align::Max),
            (t!(times_plain_head), Align::Max),
        ];
        if !narrow {
            labels.push((t!(a_pass), Align::Max));
        }
        let kinds: Vec<String> = bench.kinds.iter().take(6).map(|kind| sentence(kind)).collect();
        labels.extend(kinds.iter().map(|kind| (kind.as_str(), Align::Max)));
        table_head(ui, &columns, &labels);
        for run in &bench.runs {
            row(ui, state, &columns, bench, run, against, narrow);
        }
        notes(ui, state, bench);
    });
}

/// What it is of, what it stands beside, and out to a file.
fn title(ui: &mut Ui, state: &State, bench: &Bench, against: Option<&Arc<Bench>>, out: &mut Vec<Msg>) {
    let theme = Theme::of(ui);
    let stamp = &bench.stamp;
    let (rect, _) = ui.allocate_exact_size(vec2(ui.available_width(), 62.0), egui::Sense::hover());
    let inner = rect.shrink2(vec2(18.0, 0.0));
    let others: Vec<&Arc<Bench>> = state.lab.bench.all.iter().filter(|other| ***other != *bench).collect();
    let labels: Vec<String> = others
        .iter()
        .map(|other| {
            let when = setup::short_date(other.stamp.at);
            if other.stamp.is_alike(stamp) {
                t!(beside_when, when = when)
            } else {
                t!(beside_when_target, when = when, target = other.stamp.target)
            }
        })
        .collect();
    let end = paint::over_right(ui, inner, |ui| {
        ui.spacing_mut().item_spacing.x = 8.0;
        let export = ui.add(Button::secondary(t!(export)).small().icon(Icon::Export).caret());
        menu_below(&export, 180.0, |ui| {
            for (words, kind) in [(t!(table_csv), BenchAs::Csv), (t!(figures_json), BenchAs::Json)] {
                if ui.add(MenuItem::new(words)).clicked() {
                    out.push(BenchMsg::Export(kind).into());
                    ui.close();
                }
            }
        });
        if !others.is_empty() {
            let mut chosen = against.and_then(|against| others.iter().position(|other| Arc::ptr_eq(other, against)));
            let mut choices: Vec<(Option<usize>, &str)> = vec![(None, t!(beside_none))];
            choices.extend(labels.iter().enumerate().map(|(at, label)| (Some(at), label.as_str())));
            if select(ui, t!(compare_with), &mut chosen, &choices, 204.0) {
                let other = chosen.and_then(|at| others.get(at)).map(|other| Arc::clone(other));
                out.push(BenchMsg::Against(other).into());
            }
        }
        ui.min_rect().left()
    });
    let room = end - inner.left() - 16.0;
    let name = match &stamp.drafter {
        Some(drafter) => t!(target_with_drafter, target = stamp.target, drafter = drafter),
        None => stamp.target.clone(),
    };
    let name = Type::PANEL.ellipsis(ui, name, theme.t1, room);
    let heading = Rect::from_min_size(inner.min + vec2(0.0, 11.0), name.size());
    let response = ui.interact(heading, ui.scope_id().with("benchmark of"), egui::Sense::hover());
    response.widget_info(|| WidgetInfo::labeled(Role::Heading, true, t!(benchmark_of, target = stamp.target)));
    ui.painter().galley(heading.min, name, theme.t1);
    let about = t!(
        bench_about,
        n = bench.trials,
        date = setup::date(stamp.at),
        device = stamp.device,
        mlx = stamp.mlx,
        version = stamp.version,
        prompts = bench.prompts
    );
    let about = Type::SMALL.ellipsis(ui, about, theme.t3, room);
    ui.painter().galley(inner.min + vec2(0.0, 32.0), about, theme.t3);
}

fn row(ui: &mut Ui, state: &State, columns: &Columns, bench: &Bench, run: &Run, against: Option<&Arc<Bench>>, narrow: bool) {
    let theme = Theme::of(ui);
    let before = against.and_then(|against| against.run(&run.run));
    let change = against.and_then(|against| bench.change(against, &run.run));
    let label = name(state, &run.run);
    let spoken = t!(
        bench_spoken,
        label = label,
        rate = format!("{:.1}", run.decode_tok_s),
        speedup = format!("{:.2}", run.speedup)
    );
    let mut row = TableRow::new(ui, columns, &spoken, 58.0, false);
    let figure = |text: String| dspark_look::runs(&[(text.as_str(), Type::BASE, theme.t1)]);
    let was = |value: Option<String>| value.map(|value| t!(was_value, value = value)).unwrap_or_default();
    row.cell(ui, Align::Min, |ui| {
        let other = run.per_kind.values().any(|kind| !kind.same_text);
        let line = Type::CONTROL.ellipsis(ui, label.as_str(), theme.t1, ui.available_width());
        let chips = change.is_some() || other;
        let size = vec2(ui.available_width(), if chips { 40.0 } else { 20.0 });
        let (place, _) = ui.allocate_exact_size(size, egui::Sense::hover());
        ui.painter().galley(place.min, line, theme.t1);
        let below = Rect::from_min_max(place.min + vec2(0.0, 21.0), place.max);
        if let Some(change) = change {
            paint::over_left(ui, below, |ui| badge(ui, change.ratio, change.clear));
        } else if other {
            paint::over_left(ui, below, |ui| {
                let chip = ui.add(Chip::new(t!(another_text)).icon(Icon::Info).tight());
                tip(chip, t!(another_text), t!(another_text_definition));
            });
        }
    });
    row.cell(ui, Align::Max, |ui| {
        let below = was(before.map(|before| format!("{:.1}", before.decode_tok_s)));
        two_lines(ui, figure(format!("{:.1}", run.decode_tok_s)), &below, Align::Max)
    });
    row.cell(ui, Align::Max, |ui| {
        let below = was(before.map(|before| format!("{:.2}", before.speedup)));
        two_lines(ui, figure(format!("{:.2}×", run.speedup)), &below, Align::Max)
    });
    if !narrow {
        row.cell(ui, Align::Max, |ui| {
            let below = was(before.map(|before| format!("{:.2}", before.accept)));
            two_lines(ui, figure(format!("{:.2}", run.accept)), &below, Align::Max)
        });
    }
    for kind in bench.kinds.iter().take(6) {
        let Some(at) = run.per_kind.get(kind) else {
            row.skip();
            continue;
        };
        row.cell(ui, Align::Max, |ui| {
            let below = match before.and_then(|before| before.per_kind.get(kind)) {
                Some(before) => t!(was_value, value = format!("{:.2}", before.speedup)),
                None if narrow => String::new(),
                None => t!(n_a_pass, n = format!("{:.2}", at.accept)),
            };
            two_lines(ui, figure(format!("{:.2}×", at.speedup)), &below, Align::Max)
        });
    }
}

/// Whether it has become slower since.
fn badge(ui: &mut Ui, ratio: f64, clear: bool) {
    let (words, tone, icon) = if !clear {
        (t!(as_before, ratio = format!("{ratio:.2}")), Tone::Neutral, Icon::Minus)
    } else if ratio < 1.0 {
        (t!(slower, ratio = format!("{ratio:.2}")), Tone::Warn, Icon::Warning)
    } else {
        (t!(faster, ratio = format!("{ratio:.2}")), Tone::Ok, Icon::TrendUp)
    };
    let chip = ui.add(Chip::new(&words).tone(tone).icon(icon).tight());
    tip(chip, t!(beside_other), t!(beside_other_definition));
}

fn notes(ui: &mut Ui, state: &State, bench: &Bench) {
    let theme = Theme::of(ui);
    let mut lines: Vec<(Icon, String, bool)> = Vec::new();
    lines.extend(bench.flags.iter().map(|flag| (Icon::Warning, t!(not_quoted, flag = flag), true)));
    let changed = bench.runs.iter().filter_map(|run| Some((&run.run, run.reason.as_ref()?)));
    lines.extend(changed.map(|(run, reason)| {
        let line = format!("{}: {}.", name(state, run), reason.trim_end_matches('.'));
        (Icon::Info, line, false)
    }));
    let skipped = bench.skipped.iter();
    lines.extend(skipped.map(|skipped| {
        (
            Icon::Info,
            t!(was_not_run, name = name(state, &skipped.run), reason = skipped.reason),
            false,
        )
    }));
    if lines.is_empty() {
        return;
    }
    ui.add_space(6.0);
    for (icon, words, warns) in lines {
        let ink = if warns { theme.warn } else { theme.t2 };
        let text = Type::SMALL.wrapped(ui, words.as_str(), theme.t2, ui.available_width() - 60.0);
        let (rect, response) = ui.allocate_exact_size(vec2(ui.available_width(), text.size().y + 6.0), egui::Sense::hover());
        response.widget_info(|| WidgetInfo::labeled(Role::Note, true, words.as_str()));
        icon.paint(ui.painter(), rect.left_top() + vec2(25.0, 9.0), 14.0, ink);
        ui.painter().galley(rect.left_top() + vec2(42.0, 0.0), text, theme.t2);
    }
    ui.add_space(8.0);
}
