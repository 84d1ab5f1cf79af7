//! Connections: the requests of other programs as they are answered, what of their prompts was reused, and who sent them.

use super::words::{ago, since};
use crate::{
    bridge::{CallEnd, CallState, ClientTotals, EndedCall, LiveCall, dialect},
    shell::text::{count, seconds},
    state::{AgentsMsg, Msg, State},
};
use dspark_look::{
    Button, Columns, Density, Icon, IconButton, TableRow, Theme, Tone, Type, card_flush, command_strip, key_value, list_heading, paint,
    row_caret, table_head, tip, two_lines,
};
use dspark_protocol::ActiveRequest;
use dspark_strings::t;
use egui::{Align, Frame, Label, Margin, Role, Sense, Ui, WidgetInfo, vec2};

pub(super) fn show(ui: &mut Ui, state: &State, height: f32, out: &mut Vec<Msg>) {
    let activity = &state.agents.activity;
    if activity.is_empty() {
        return empty(ui, state, height, out);
    }
    now(ui, state, out);
    clients(ui, state, &activity.clients);
    recent(ui, state, &activity.ended, out);
}

/// How to get somebody to ask.
fn empty(ui: &mut Ui, state: &State, height: f32, out: &mut Vec<Msg>) {
    let base = format!("{}/v1", state.base_url());
    let key = state.settings.server.api_key.as_str();
    let curl = |key: &str| {
        let auth = if key.is_empty() {
            String::new()
        } else {
            format!(" -H \"Authorization: Bearer {key}\"")
        };
        format!(
            "curl {base}/chat/completions{auth} -H \"Content-Type: application/json\" -d '{{\"messages\":[{{\"role\":\"user\",\"content\":\"Hello\"}}]}}'"
        )
    };
    ui.add_space((height * 0.14).max(8.0));
    dspark_look::column(ui, 640.0, 0.0, |ui| {
        ui.spacing_mut().item_spacing.y = 0.0;
        let line = t!(connections_empty_line);
        dspark_look::empty_state(ui, Icon::PlugsConnected, t!(connections_empty_title), line, "");
        ui.add_space(18.0);
        if command_strip(ui, &base) {
            out.push(Msg::Copy(base.clone()));
        }
        ui.add_space(8.0);
        if command_strip(ui, &curl(if key.is_empty() { "" } else { "••••" })) {
            out.push(Msg::Copy(curl(key)));
        }
        ui.add_space(16.0);
        ui.vertical_centered(|ui| {
            if ui.add(Button::secondary(t!(set_up_program)).small()).clicked() {
                out.push(AgentsMsg::View(crate::state::AgentsView::SetUp).into());
            }
        });
    });
}

fn columns(ui: &Ui) -> Columns {
    match Density::of(ui.ctx()) {
        Density::Narrow => Columns::new([None, Some(176.0), Some(150.0), Some(78.0), Some(30.0)]),
        _ => Columns::new([None, Some(230.0), Some(180.0), Some(96.0), Some(30.0)]),
    }
}

fn now(ui: &mut Ui, state: &State, out: &mut Vec<Msg>) {
    let live = &state.agents.activity.live;
    let ours: Vec<&ActiveRequest> = state
        .engine
        .requests
        .iter()
        .filter(|request| !live.iter().any(|call| call.generation == request.id))
        .collect();
    let columns = columns(ui);
    card_flush(ui, |ui| {
        list_heading(ui, t!(now));
        if live.is_empty() && ours.is_empty() {
            let theme = Theme::of(ui);
            Frame::new()
                .inner_margin(Margin {
                    left: 18,
                    right: 18,
                    top: 0,
                    bottom: 16,
                })
                .show(ui, |ui| ui.label(Type::NOTE.rich(t!(nothing_answered), theme.t3)));
        }
        for call in live {
            live_row(ui, state, &columns, call, out);
        }
        for request in ours {
            own_row(ui, &columns, request);
        }
    });
}

/// A name over a quieter line; the name is the client's.
fn who(ui: &mut Ui, name: &str, line: &str) {
    let theme = Theme::of(ui);
    let name = dspark_look::runs(&[(name, Type::CONTROL, theme.t1)]);
    two_lines(ui, name, line, Align::Min);
}

/// An icon and words in a tone, over a quieter line.
fn status(ui: &mut Ui, icon: Icon, tone: Tone, words: &str, line: &str) {
    let theme = Theme::of(ui);
    ui.spacing_mut().item_spacing.x = 8.0;
    let (mark, _) = ui.allocate_exact_size(vec2(16.0, 38.0), Sense::hover());
    icon.paint(
        ui.painter(),
        egui::pos2(mark.center().x, mark.top() + 10.0),
        dspark_look::icon::size::SMALL,
        tone.ink(theme),
    );
    ui.add_space(-2.0);
    let ink = if tone == Tone::Neutral { theme.t1 } else { tone.ink(theme) };
    two_lines(ui, dspark_look::runs(&[(words, Type::BASE, ink)]), line, Align::Min);
}

fn tokens(ui: &mut Ui, prompt: usize, generated: usize, line: &str) {
    let theme = Theme::of(ui);
    let words = if prompt == 0 {
        "–".to_owned()
    } else {
        t!(tokens_in_out, prompt = count(prompt), generated = count(generated))
    };
    let shown = two_lines(ui, dspark_look::runs(&[(&words, Type::BASE, theme.t1)]), line, Align::Min);
    tip(shown, t!(tokens), t!(tokens_definition));
}

fn live_row(ui: &mut Ui, state: &State, columns: &Columns, call: &LiveCall, out: &mut Vec<Msg>) {
    let stopping = state.agents.stopping.contains(&call.id) || call.state == CallState::Stopping;
    let name = format!("{}, {}", call.client, dialect(&call.route));
    let mut row = TableRow::new(ui, columns, &name, 58.0, false);
    row.cell(ui, Align::Min, |ui| who(ui, &call.client, dialect(&call.route)));
    row.cell(ui, Align::Min, |ui| match call.state {
        _ if stopping => status(ui, Icon::StopFill, Tone::Neutral, t!(stopping), t!(end_of_round)),
        CallState::Waiting | CallState::Stopping => status(ui, Icon::Clock, Tone::Neutral, t!(waiting), &waits(state, call)),
        CallState::Prefilling { done, total } => prefilling(ui, done, total),
        CallState::Generating { rate } => {
            let rate = rate.map_or_else(String::new, |rate| format!("{rate:.1} tok/s"));
            status(ui, Icon::Waveform, Tone::Accent, t!(generating), &rate);
        }
    });
    row.cell(ui, Align::Min, |ui| {
        let reused = (call.cached_tokens > 0).then(|| t!(count_reused, count = count(call.cached_tokens)));
        tokens(ui, call.prompt_tokens, call.generated, &reused.unwrap_or_default());
    });
    row.cell(ui, Align::Max, |ui| {
        let theme = Theme::of(ui);
        ui.label(Type::SMALL.rich(seconds(call.seconds), theme.t3));
    });
    row.cell(ui, Align::Max, |ui| {
        let label = t!(stop_request_of, client = call.client);
        if ui.add(IconButton::new(Icon::X, &label).small().enabled(!stopping)).clicked() {
            out.push(AgentsMsg::Stop(call.id.clone()).into());
        }
    });
}

fn waits(state: &State, call: &LiveCall) -> String {
    let live = &state.agents.activity.live;
    let before = live
        .iter()
        .take_while(|other| other.id != call.id)
        .filter(|other| other.state == CallState::Waiting)
        .count();
    let busy = state
        .engine
        .requests
        .iter()
        .find(|request| !request.waiting && request.id != call.generation);
    match (before, busy) {
        (0, Some(request)) => t!(waits_for, client = request.client),
        (0, None) => t!(next_in_line).into(),
        (before, _) => t!(before_it, before = before),
    }
}

fn prefilling(ui: &mut Ui, done: usize, total: usize) {
    ui.vertical(|ui| {
        ui.spacing_mut().item_spacing.y = 0.0;
        ui.spacing_mut().interact_size.y = 20.0;
        ui.add_space(8.0);
        ui.horizontal(|ui| {
            let line = "";
            ui.spacing_mut().item_spacing.x = 8.0;
            let theme = Theme::of(ui);
            let (mark, _) = ui.allocate_exact_size(vec2(16.0, 20.0), Sense::hover());
            Icon::HourglassMedium.paint(ui.painter(), mark.center(), dspark_look::icon::size::SMALL, theme.accent);
            ui.add_space(-2.0);
            let words = if Density::of(ui.ctx()) == Density::Narrow {
                t!(
                    prefilling_percent,
                    percent = format!("{:.0}", 100.0 * done as f64 / total.max(1) as f64)
                )
            } else {
                t!(prefilling_of, done = count(done), total = count(total))
            };
            two_lines(ui, dspark_look::runs(&[(&words, Type::BASE, theme.accent)]), line, Align::Min);
        });
        ui.add_space(5.0);
        let part = (total > 0).then(|| done as f32 / total as f32);
        let theme = Theme::of(ui);
        let bar = dspark_look::progress_bar(ui, part, theme.accent);
        bar.widget_info(|| {
            let mut info = WidgetInfo::labeled(Role::ProgressIndicator, true, t!(prompt_read));
            info.value = part.map(f64::from);
            info
        });
    });
}

/// A chat of this window, which keeps the engine from others too.
fn own_row(ui: &mut Ui, columns: &Columns, request: &ActiveRequest) {
    let mut row = TableRow::new(ui, columns, &request.client, 58.0, false);
    row.cell(ui, Align::Min, |ui| who(ui, &request.client, t!(this_window)));
    row.cell(ui, Align::Min, |ui| {
        let (icon, tone, words) = match (request.waiting, request.generated) {
            (true, _) => (Icon::Clock, Tone::Neutral, t!(waiting)),
            (false, 0) => (Icon::HourglassMedium, Tone::Accent, t!(prefilling)),
            _ => (Icon::Waveform, Tone::Accent, t!(generating)),
        };
        status(ui, icon, tone, words, "");
    });
    row.cell(ui, Align::Min, |ui| tokens(ui, request.prompt_tokens, request.generated, ""));
}

fn recent(ui: &mut Ui, state: &State, ended: &[EndedCall], out: &mut Vec<Msg>) {
    if ended.is_empty() {
        return;
    }
    let columns = columns(ui);
    card_flush(ui, |ui| {
        list_heading(ui, t!(answered));
        for call in ended {
            let open = state.agents.open_call.as_deref() == Some(call.id.as_str());
            if ended_row(ui, state, &columns, call, open) {
                out.push(AgentsMsg::Unfold(call.id.clone()).into());
            }
            if open {
                receipt(ui, call, out);
            }
        }
    });
}

/// How it ended: icon, tone and words.
fn ending(end: &CallEnd) -> (Icon, Tone, String) {
    match end {
        CallEnd::Done => (Icon::CheckCircleFill, Tone::Ok, t!(done).into()),
        CallEnd::Length => (Icon::CheckCircle, Tone::Neutral, t!(cut_at_limit).into()),
        CallEnd::Cancelled => (Icon::StopFill, Tone::Neutral, t!(cancelled).into()),
        CallEnd::Left => (Icon::X, Tone::Neutral, t!(client_left).into()),
        CallEnd::Failed(_) => (Icon::WarningOctagonFill, Tone::Bad, t!(failed).into()),
        CallEnd::Refused { status, .. } => (Icon::ProhibitFill, Tone::Bad, t!(refused_status, status = status)),
    }
}

fn ended_row(ui: &mut Ui, state: &State, columns: &Columns, call: &EndedCall, open: bool) -> bool {
    let (icon, tone, words) = ending(&call.end);
    let name = format!("{}, {}, {words}", call.client, dialect(&call.route));
    let mut row = TableRow::new(ui, columns, &name, 58.0, open);
    row.cell(ui, Align::Min, |ui| {
        let why = call.end.reason().or(call.receipt.as_ref().map(|receipt| receipt.why.as_str()));
        let line = why.map_or_else(|| dialect(&call.route).to_owned(), |why| format!("{}: {why}", dialect(&call.route)));
        who(ui, &call.client, &line);
    });
    row.cell(ui, Align::Min, |ui| {
        let line = match (call.times, call.decode_rate) {
            (1, Some(rate)) => format!("{rate:.1} tok/s"),
            (1, None) => String::new(),
            (times, _) => t!(times_in_row, times = times),
        };
        status(ui, icon, tone, &words, &line);
    });
    row.cell(ui, Align::Min, |ui| {
        let reused = call.receipt.as_ref().filter(|_| call.prompt_tokens > 0).map(|receipt| {
            let part = 100.0 * receipt.reused as f64 / call.prompt_tokens.max(1) as f64;
            t!(part_reused, part = format!("{part:.0}"))
        });
        tokens(ui, call.prompt_tokens, call.generated, &reused.unwrap_or_default());
    });
    row.cell(ui, Align::Max, |ui| {
        let theme = Theme::of(ui);
        let took = if call.seconds > 0.0 { seconds(call.seconds) } else { String::new() };
        let when = dspark_look::runs(&[(&ago(since(state, call.at)), Type::SMALL, theme.t2)]);
        two_lines(ui, when, &took, Align::Max);
    });
    row.cell(ui, Align::Max, |ui| row_caret(ui, open));
    row.response().clicked()
}

/// What of the prompt was reused, why not more, and where it parts from what came before.
fn receipt(ui: &mut Ui, call: &EndedCall, out: &mut Vec<Msg>) {
    let theme = Theme::of(ui);
    let frame = Frame::new().fill(theme.expanded).inner_margin(Margin {
        left: 18,
        right: 18,
        top: 2,
        bottom: 14,
    });
    frame.show(ui, |ui| {
        ui.set_width(ui.available_width());
        ui.spacing_mut().item_spacing = vec2(8.0, 0.0);
        if let Some(reason) = call.end.reason() {
            dspark_look::field_error(ui, reason);
            ui.add_space(8.0);
        }
        if let Some(receipt) = &call.receipt {
            key_value(ui, t!(reused_from_cache), &t!(tokens_count, count = count(receipt.reused)));
            key_value(ui, t!(computed), &t!(tokens_count, count = count(receipt.recomputed)));
            let why = key_value(ui, t!(why), &receipt.why);
            tip(why, t!(why), &receipt.why);
            if let Some(difference) = &receipt.difference {
                let place = t!(first_difference, place = difference.place);
                key_value(ui, &place, "");
                for (label, text) in [(t!(passage_was), &difference.before), (t!(passage_is), &difference.now)] {
                    passage(ui, label, text);
                }
            }
        }
        if let Some(first) = call.first_token {
            let rate = call
                .prefill_rate
                .map_or_else(String::new, |rate| t!(prompt_rate, rate = format!("{rate:.0}")));
            key_value(ui, t!(to_first_token), &format!("{}{rate}", seconds(first)));
        }
        key_value(ui, t!(route), &call.route);
        ui.add_space(8.0);
        ui.horizontal(|ui| {
            ui.spacing_mut().interact_size.y = 26.0;
            ui.label(Type::CODE_SMALL.rich(&call.id, theme.t3));
            if ui.add(IconButton::new(Icon::Copy, t!(copy_request_id)).small()).clicked() {
                out.push(Msg::Copy(call.id.clone()));
            }
            if let Some(reason) = call.end.reason()
                && ui.add(Button::quiet(t!(copy_error)).small()).clicked()
            {
                out.push(Msg::Copy(reason.to_owned()));
            }
        });
    });
}

/// A piece of a prompt as it stands, cut to a line.
fn passage(ui: &mut Ui, label: &str, text: &str) {
    let theme = Theme::of(ui);
    let shown = if text.is_empty() {
        t!(ends_here).to_owned()
    } else {
        text.replace('\n', "⏎").replace('\t', "  ")
    };
    let (rect, response) = ui.allocate_exact_size(vec2(ui.available_width(), 24.0), Sense::hover());
    response.widget_info(|| WidgetInfo::labeled(Role::Label, true, format!("{label}: {shown}")));
    let name = Type::SMALL.galley(ui, label, theme.t3);
    paint::text_left(ui.painter(), rect, rect.left(), name, theme.t3);
    let ink = if text.is_empty() { theme.t3 } else { theme.t1 };
    let words = Type::CODE_SMALL.ellipsis(ui, shown, ink, rect.width() - 40.0);
    paint::text_left(ui.painter(), rect, rect.left() + 36.0, words, ink);
}

fn clients(ui: &mut Ui, state: &State, clients: &[ClientTotals]) {
    if clients.is_empty() {
        return;
    }
    let narrow = Density::of(ui.ctx()) == Density::Narrow;
    let columns = if narrow {
        Columns::new([None, Some(76.0), Some(150.0), Some(80.0), Some(96.0)])
    } else {
        Columns::new([None, Some(90.0), Some(200.0), Some(90.0), Some(90.0), Some(110.0)])
    };
    let labels: &[(&str, Align)] = if narrow {
        &[
            (t!(client_since_start), Align::Min),
            (t!(requests), Align::Max),
            (t!(tokens_in_out_head), Align::Max),
            (t!(reused), Align::Max),
            (t!(last), Align::Max),
        ]
    } else {
        &[
            (t!(client_since_start), Align::Min),
            (t!(requests), Align::Max),
            (t!(tokens_in_out_head), Align::Max),
            (t!(reused), Align::Max),
            (t!(errors), Align::Max),
            (t!(last), Align::Max),
        ]
    };
    card_flush(ui, |ui| {
        table_head(ui, &columns, labels);
        for totals in clients {
            let number = |value: u64| count(usize::try_from(value).unwrap_or(usize::MAX));
            let reused = totals.reused().map_or_else(|| "–".into(), |part| format!("{part:.0}%"));
            let name = t!(
                client_spoken,
                client = totals.client,
                requests = totals.requests,
                reused = reused,
                errors = totals.failed
            );
            let mut row = TableRow::new(ui, &columns, &name, 40.0, false);
            let theme = Theme::of(ui);
            let say = |ui: &mut Ui, words: &str, ink| ui.add(Label::new(Type::BASE.rich(words, ink)).truncate());
            row.cell(ui, Align::Min, |ui| {
                say(ui, &totals.client, theme.t1);
                // There is no room for their column.
                if narrow && totals.failed > 0 {
                    let shown = ui.label(Type::SMALL.rich(t!(count_errors, n = totals.failed), theme.bad));
                    if let Some(last) = &totals.last_error {
                        tip(shown, t!(last_error), last);
                    }
                }
            });
            row.cell(ui, Align::Max, |ui| say(ui, &number(totals.requests), theme.t1));
            let both = format!("{}, {}", number(totals.prompt_tokens), number(totals.completion_tokens));
            row.cell(ui, Align::Max, |ui| say(ui, &both, theme.t1));
            row.cell(ui, Align::Max, |ui| say(ui, &reused, theme.t1));
            let errors = |ui: &mut Ui| {
                let ink = if totals.failed > 0 { theme.bad } else { theme.t3 };
                let shown = say(ui, &number(totals.failed), ink);
                if let Some(last) = &totals.last_error {
                    tip(shown, t!(last_error), last);
                }
            };
            if !narrow {
                row.cell(ui, Align::Max, errors);
            }
            row.cell(ui, Align::Max, |ui| say(ui, &ago(since(state, totals.last_seen)), theme.t2));
        }
    });
}
