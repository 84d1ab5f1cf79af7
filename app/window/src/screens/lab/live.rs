//! Live: the last rounds, what became of their drafts, and how fast it goes.

use super::{
    beside,
    figures::{BARS, Doing, ENOUGH, Figures, WINDOW, doing, ribbon},
    panel, words,
};
use crate::{
    shell::text::{bytes, count},
    state::{ChatMsg, LabMsg, Msg, State},
};
use dspark_look::{
    Chip, Density, Icon, Stat, Theme, Type, card, card_title, empty_state, paint,
    plot::{Bar, BarPlot, LinePlot, Share, accept_ribbon, share_bar},
    stat_row, tip,
};
use dspark_speculate::cost::CostModel;
use dspark_strings::t;
use egui::{Rect, Sense, Ui, pos2, vec2};

/// Height of the page where nothing needs to scroll.
const PLOTS_MIN: f32 = 236.0;

pub(super) fn show(ui: &mut Ui, state: &State, height: f32, out: &mut Vec<Msg>) {
    let figures = Figures::of(state.lab.shown());
    let narrow = Density::of(ui.ctx()) == Density::Narrow;
    if figures.stats.rounds == 0 {
        return nothing(ui, state, height, out);
    }
    let speculation = state.engine.speculation.as_deref();
    let doing = doing(speculation, figures.last.as_ref());
    let top = ui.cursor().top();
    stats(ui, state, &figures, !narrow);
    if let Some(speculation) = speculation {
        strip(ui, doing, &words::state(speculation, doing));
    }
    // Without drafts in any of the rounds there is nothing to accept: the rate is all there is.
    let drafted = figures.stats.drafted > 0;
    if drafted {
        ribbon_card(ui, state);
    }
    let used = ui.cursor().top() - top;
    let sources = 48.0 + 12.0;
    let rest = (height - used - if drafted { sources } else { 0.0 }).max(PLOTS_MIN);
    if !drafted {
        panel(ui, rest, |ui| rate_plot(ui, state, &figures, rest));
    } else if narrow {
        let half = PLOTS_MIN;
        beside(ui, &[1.25, 1.0], half, |ui, at| {
            panel(ui, half, |ui| {
                if at == 0 {
                    rate_plot(ui, state, &figures, half);
                } else {
                    positions(ui, &figures, half);
                }
            });
        });
        sources_card(ui, &figures);
        panel(ui, half, |ui| histogram(ui, &figures, half));
        return;
    } else {
        beside(ui, &[2.05, 1.0, 1.0], rest, |ui, at| {
            panel(ui, rest, |ui| match at {
                0 => rate_plot(ui, state, &figures, rest),
                1 => positions(ui, &figures, rest),
                _ => histogram(ui, &figures, rest),
            });
        });
    }
    if drafted {
        sources_card(ui, &figures);
    }
}

/// No round of this model yet, or none of this client.
fn nothing(ui: &mut Ui, state: &State, height: f32, out: &mut Vec<Msg>) {
    ui.set_min_height(height);
    super::states::centred(ui, 480.0, |ui| {
        if let Some(client) = &state.lab.client {
            let line = t!(client_no_reply, client = client);
            if empty_state(ui, Icon::Waveform, t!(no_rounds_of_client), &line, t!(show_all_clients)) {
                out.push(Msg::Lab(LabMsg::Client(None)));
            }
            return;
        }
        let line = t!(live_empty_line);
        if empty_state(ui, Icon::Waveform, t!(nothing_decoded_yet), line, t!(write_a_message)) {
            out.push(Msg::Chat(ChatMsg::New));
        }
    });
}

fn stats(ui: &mut Ui, state: &State, figures: &Figures, notes: bool) {
    let speculation = state.engine.speculation.as_deref();
    let model = state.engine.model.as_deref();
    let plain = state.plain_rate();
    let rate = figures.rate.map_or_else(|| "–".into(), |rate| format!("{rate:.1}"));
    let against = match (figures.rate, plain) {
        (Some(rate), Some(plain)) => t!(
            times_plain_decoding,
            times = format!("{:.2}", rate / plain),
            plain = format!("{plain:.1}")
        ),
        _ => t!(over_last_rounds, n = WINDOW),
    };
    let mean = format!("{:.2}", figures.stats.mean_accept_len());
    let cap = figures.last.and_then(|round| round.cap);
    let possible = match cap {
        Some(cap) if cap > 0 => t!(of_possible, possible = cap + 1, cap = cap),
        _ => t!(one_without_drafts).into(),
    };
    let ms = figures.round_ms.map_or_else(|| "–".into(), |ms| format!("{ms:.1}"));
    let cost = speculation.and_then(|state| CostModel::new(state.curves.clone()?));
    let parts = speculation.zip(cost).map_or_else(String::new, |(speculation, cost)| {
        let verify = cost.verify_ms(speculation.cap + 1, state.engine.context_tokens);
        let drafter = cost.round_ms(speculation.cap, state.engine.context_tokens) - verify;
        if speculation.cap == 0 {
            t!(verify_ms, ms = format!("{verify:.1}"))
        } else {
            t!(
                verify_drafter_ms,
                verify = format!("{verify:.1}"),
                drafter = format!("{drafter:.1}")
            )
        }
    });
    let context = count(state.engine.context_tokens);
    let window = model.map_or_else(String::new, |model| {
        if notes {
            t!(of_most, most = count(model.context_window))
        } else {
            // Where there is no room for a third line there is none for five digits either.
            t!(of_k, k = model.context_window >> 10)
        }
    });
    let kv = model.map_or_else(String::new, |model| {
        t!(
            kv_cache,
            size = bytes(model.kv_bytes_per_token * state.engine.context_tokens as u64)
        )
    });
    let asker = figures.last.and_then(|round| state.lab.askers.get(&round.request));
    let who = asker.map_or("–", |asker| asker.client.as_str());
    let asked = asker
        .filter(|asker| asker.prompt_tokens > 0)
        .map_or_else(String::new, |asker| t!(prompt_tokens, count = count(asker.prompt_tokens)));
    let stats = [
        Stat {
            label: t!(decode),
            value: &rate,
            unit: "tok/s",
            note: &against,
            definition: t!(live_decode_definition),
        },
        Stat {
            label: t!(accepted_per_round),
            value: &mean,
            unit: t!(unit_tokens),
            note: &possible,
            definition: t!(live_accepted_definition),
        },
        Stat {
            label: t!(round),
            value: &ms,
            unit: "ms",
            note: &parts,
            definition: t!(live_round_definition),
        },
        Stat {
            label: t!(context),
            value: &context,
            unit: &window,
            note: &kv,
            definition: t!(live_context_definition),
        },
        Stat {
            label: t!(source),
            value: who,
            unit: "",
            note: &asked,
            definition: t!(live_source_definition),
        },
    ];
    stat_row(ui, &stats, notes);
}

/// What is done now, in a chip and a sentence.
fn strip(ui: &mut Ui, doing: Doing, sentence: &str) {
    let theme = Theme::of(ui);
    let (word, tone, icon) = words::chip(doing);
    let width = ui.available_width();
    let text = Type::NOTE.with_line(20.0).wrapped(ui, sentence, theme.t2, width - 124.0);
    let height = (text.size().y + 20.0).max(40.0);
    let (rect, response) = ui.allocate_exact_size(vec2(width, height), Sense::hover());
    response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Status, true, format!("{word}. {sentence}")));
    paint::boxed(ui.painter(), rect, dspark_look::space::radius::CARD, theme.panel, theme.line);
    let chip = Rect::from_min_max(rect.min + vec2(14.0, 0.0), pos2(rect.left() + 110.0, rect.bottom()));
    paint::over_left(ui, chip, |ui| {
        tip(ui.add(Chip::new(word).tone(tone).icon(icon)), word, meaning(doing))
    });
    let y = rect.center().y - text.size().y / 2.0;
    ui.painter().galley(pos2(rect.left() + 116.0, y), text, theme.t2);
}

fn meaning(doing: Doing) -> &'static str {
    match doing {
        Doing::Drafting => {
            t!(meaning_drafting)
        }
        Doing::Parked => t!(meaning_parked),
        Doing::Probing => t!(meaning_probing),
        Doing::Plain => t!(meaning_plain),
    }
}

fn ribbon_card(ui: &mut Ui, state: &State) {
    let (items, cap) = ribbon(state.lab.shown(), &state.lab.askers);
    card(ui, |ui| {
        ui.spacing_mut().item_spacing.y = 0.0;
        let top = ui.cursor().min;
        let paused = state.lab.paused.is_some();
        let note = if paused { t!(paused_small) } else { t!(ribbon_note) };
        card_title(ui, t!(accept_ribbon), note);
        let line = Rect::from_min_size(top, vec2(ui.available_width(), 20.0));
        legend(ui, line);
        ui.add_space(14.0);
        accept_ribbon(ui, &items, cap);
    });
}

fn legend(ui: &Ui, line: Rect) {
    let theme = Theme::of(ui);
    let series = &theme.series;
    let mut right = line.right();
    // Under the title there is no room for the rest.
    let entries: &[(&str, egui::Color32, bool)] = &[
        (t!(drafted_rejected), series.drafted.gamma_multiply(0.5), false),
        (t!(lookup_accepted), series.lookup, true),
        (t!(draft_accepted), series.accepted, false),
        (t!(target_token), series.plain, false),
    ];
    for (name, color, diamond) in entries {
        let text = Type::SMALL.galley(ui, *name, theme.t2);
        let left = right - text.size().x - 16.0;
        if left < line.left() + 290.0 {
            break;
        }
        let mark = pos2(left + 5.0, line.center().y);
        if *diamond {
            let corners = [vec2(0.0, -5.0), vec2(4.5, 0.0), vec2(0.0, 5.0), vec2(-4.5, 0.0)];
            let points = corners.iter().map(|corner| mark + *corner).collect();
            ui.painter().add(egui::Shape::convex_polygon(points, *color, egui::Stroke::NONE));
        } else {
            ui.painter().rect_filled(Rect::from_center_size(mark, vec2(10.0, 10.0)), 3, *color);
        }
        paint::text_left(ui.painter(), line, left + 16.0, text, theme.t2);
        right = left - 22.0;
    }
}

/// Height of a plot in a panel of `height`: padding, border and title off.
fn plot_height(height: f32) -> f32 {
    height - 30.0 - 28.0
}

fn rate_plot(ui: &mut Ui, state: &State, figures: &Figures, height: f32) {
    card_title(ui, t!(decode_rate), &t!(rolling_rounds, n = WINDOW));
    ui.add_space(8.0);
    let plain = state.plain_rate();
    let words = plain
        .map(|plain| t!(plain_decoding_rate, plain = format!("{plain:.1}")))
        .unwrap_or_default();
    let ago = |seconds: f64| {
        if seconds < 90.0 {
            t!(seconds_earlier, seconds = format!("{seconds:.0}"))
        } else {
            t!(minutes_earlier, minutes = format!("{:.0}", seconds / 60.0))
        }
    };
    let first = ago(figures.span);
    let labels = [(0.0, first.as_str()), (1.0, t!(last_round))];
    LinePlot {
        label: t!(decode_rate),
        unit: "tok/s",
        values: &figures.rates,
        reference: plain.map(|plain| (plain as f32, words.as_str())),
        x_labels: &labels,
        fade: true,
    }
    .show(ui, plot_height(height));
}

const POSITIONS: [&str; BARS] = ["d₀", "d₁", "d₂", "d₃", "d₄", "d₅", "d₆", "d₇"];

fn positions(ui: &mut Ui, figures: &Figures, height: f32) {
    let theme = Theme::of(ui);
    let positions = figures.positions();
    let drafted = figures.stats.positions.len();
    let note = match figures.stats.positions.first() {
        Some(_) if drafted > BARS => t!(first_of_drafted, bars = BARS, drafted = drafted),
        Some(first) => format!("n = {}", count(first.offered)),
        None => String::new(),
    };
    let title = card_title(ui, t!(kept_by_position), &note);
    tip(title, t!(kept_by_position), t!(kept_by_position_definition));
    ui.add_space(8.0);
    if positions.is_empty() {
        return few(ui, &t!(shown_from_drafts, n = ENOUGH), height);
    }
    let texts: Vec<String> = positions.iter().map(|(share, _)| format!("{:.0}%", 100.0 * share)).collect();
    let bars: Vec<Bar<'_>> = positions
        .iter()
        .zip(&texts)
        .enumerate()
        .map(|(at, ((share, _), text))| Bar {
            label: POSITIONS[at],
            value: 100.0 * *share as f32,
            text,
            color: theme.series.accepted,
        })
        .collect();
    BarPlot {
        top: Some(100.0),
        ghost: true,
        ..BarPlot::new(t!(kept_by_position), &bars)
    }
    .show(ui, plot_height(height));
}

fn histogram(ui: &mut Ui, figures: &Figures, height: f32) {
    let theme = Theme::of(ui);
    card_title(ui, t!(tokens_per_round), t!(rounds_unit));
    ui.add_space(8.0);
    let found = figures.histogram();
    let texts: Vec<(String, String)> = found
        .iter()
        .map(|(tokens, rounds)| {
            let more = *tokens == BARS && figures.stats.histogram.keys().next_back().is_some_and(|most| *most > BARS);
            (if more { format!("{tokens}+") } else { tokens.to_string() }, count(*rounds))
        })
        .collect();
    let bars: Vec<Bar<'_>> = found
        .iter()
        .zip(&texts)
        .map(|((tokens, rounds), (label, text))| Bar {
            label,
            value: *rounds as f32,
            text,
            color: if *tokens == 1 { theme.series.plain } else { theme.series.accepted },
        })
        .collect();
    BarPlot::new(t!(tokens_per_round), &bars).show(ui, plot_height(height));
}

fn few(ui: &mut Ui, line: &str, height: f32) {
    let theme = Theme::of(ui);
    ui.add_space(plot_height(height) / 2.0 - 20.0);
    ui.vertical_centered(|ui| ui.label(Type::NOTE.rich(line, theme.t3)));
}

fn sources_card(ui: &mut Ui, figures: &Figures) {
    let theme = Theme::of(ui);
    let series = &theme.series;
    let total = figures.tokens.iter().sum::<usize>().max(1) as f32;
    let names = [
        (t!(drafter), series.accepted),
        (t!(lookup), series.lookup),
        (t!(target), series.plain),
    ];
    let parts: Vec<(&str, f32, egui::Color32)> = names
        .iter()
        .zip(figures.tokens)
        .map(|((name, color), tokens)| (*name, tokens as f32 / total, *color))
        .collect();
    dspark_look::card_flush(ui, |ui| {
        let (rect, _) = ui.allocate_exact_size(vec2(ui.available_width(), 46.0), Sense::hover());
        let inner = rect.shrink2(vec2(16.0, 0.0));
        let title = Type::PANEL.galley(ui, t!(where_tokens_from), theme.t1);
        let left = paint::text_left(ui.painter(), inner, inner.left(), title, theme.t1).right() + 32.0;
        let mut right = inner.right();
        for (name, part, _) in parts.iter().rev() {
            let value = Type::NOTE.galley(ui, format!("{:.1}%", 100.0 * part), theme.t1);
            right = paint::text_right(ui.painter(), inner, right, value, theme.t1).left() - 4.0;
            let name = Type::NOTE.galley(ui, *name, theme.t2);
            right = paint::text_right(ui.painter(), inner, right, name, theme.t2).left() - 20.0;
        }
        let shares: Vec<Share<'_>> = parts
            .iter()
            .map(|(name, part, color)| Share {
                name,
                part: *part,
                color: *color,
            })
            .collect();
        let bar = Rect::from_min_max(pos2(left, rect.center().y - 5.0), pos2(right - 12.0, rect.center().y + 5.0));
        if bar.width() > 40.0 {
            paint::over_down(ui, bar, |ui| share_bar(ui, t!(where_tokens_from), &shares, bar.width()));
        }
    });
}
