//! The bar at the top: where one is, and how the engine is.

use super::{picker, sidebar, text};
use crate::screens::lab::race::line as race_line;
use crate::screens::models;
use crate::state::{
    AgentsMsg, AgentsView, ChatMsg, ExportAs, ExportChat, LabMsg, LabView, MachineMsg, Msg, RaceMsg, Screen, SidebarMsg, State, Status,
    status,
};
use dspark_look::{Button, Icon, IconButton, MenuItem, StatusPill, Type, header, menu_below, menu_separator, select, tabs, tip};
use dspark_strings::t;
use egui::Ui;

pub(crate) fn show(ui: &mut Ui, state: &State, out: &mut Vec<Msg>) {
    let title = match state.screen {
        Screen::Chat if state.chat.title.is_empty() => t!(new_chat),
        Screen::Chat => state.chat.title.as_str(),
        Screen::Lab => t!(lab),
        Screen::Models => t!(models),
        Screen::Agents => t!(agents),
        Screen::Settings => t!(settings),
    };
    let mut asked = Vec::new();
    let (bar, ()) = header(
        ui,
        title,
        |ui| {
            if state.screen == Screen::Lab {
                lab_tabs(ui, state, &mut asked);
            }
            if state.screen == Screen::Models {
                models::choose_tab(ui, state, &mut asked);
            }
            if state.screen == Screen::Agents {
                agents_tabs(ui, state, &mut asked);
            }
        },
        |ui| right(ui, state, out),
    );
    out.append(&mut asked);
    if cfg!(target_os = "macos") {
        if bar.double_clicked() {
            let maximized = ui.input(|input| input.viewport().maximized.unwrap_or(false));
            ui.ctx().send_viewport_cmd(egui::ViewportCommand::Maximized(!maximized));
        } else if bar.drag_started() {
            ui.ctx().send_viewport_cmd(egui::ViewportCommand::StartDrag);
        }
    }
}

fn right(ui: &mut Ui, state: &State, out: &mut Vec<Msg>) {
    let status = status(state);
    let response = ui.add(StatusPill::new(&text::pill(&status)).live());
    let response = tip(response, term(&status), &explain(state, &status));
    if response.clicked()
        && let Status::Error(reason) = &status
    {
        out.push(Msg::Copy(reason.clone()));
    }
    picker::show(ui, state, out);
    if state.screen == Screen::Lab && state.lab.view == LabView::Live {
        lab_tools(ui, state, out);
    }
    if state.screen == Screen::Lab && state.lab.view == LabView::Machine {
        machine_tools(ui, state, out);
    }
    if state.screen == Screen::Lab && state.lab.view == LabView::Race {
        race_tools(ui, state, out);
    }
    if state.screen == Screen::Agents && state.agents.view == AgentsView::SetUp {
        let again = ui.add(IconButton::new(Icon::ArrowsClockwise, t!(look_again)).enabled(!state.agents.looking));
        if again.clicked() {
            out.push(AgentsMsg::Look.into());
        }
    }
    if state.screen != Screen::Chat {
        return;
    }
    ui.spacing_mut().item_spacing.x = 4.0;
    if let Some(session) = state.chat.session {
        ui.add_space(2.0);
        let more = ui.add(IconButton::new(Icon::DotsThree, t!(chat_actions)));
        menu_below(&more, 236.0, |ui| {
            if ui.add(MenuItem::new(t!(copy_markdown)).icon(Icon::Copy)).clicked() {
                out.push(Msg::Chat(ChatMsg::CopyAll));
                ui.close();
            }
            for kind in ExportChat::ALL {
                let words = t!(export_as, kind = kind.name());
                if ui.add(MenuItem::new(&words).icon(Icon::Export)).clicked() {
                    out.push(Msg::Chat(ChatMsg::Export(kind)));
                    ui.close();
                }
            }
            menu_separator(ui);
            if let Some(head) = state.sidebar.head(session) {
                sidebar::session_menu(ui, head, out);
            }
        });
    }
    if !state.sidebar.sessions.is_empty() && ui.add(IconButton::new(Icon::MagnifyingGlass, t!(search_chats))).clicked() {
        out.push(Msg::Sidebar(SidebarMsg::OpenSearch(!state.sidebar.search_open)));
    }
}

/// Width that the Lab's tabs have at least, in points.
const TABS: f32 = 380.0;
/// Around the words of a tab.
const TAB_PADDING: f32 = 26.0;

fn lab_tabs(ui: &mut Ui, state: &State, out: &mut Vec<Msg>) {
    let mut view = state.lab.view;
    let views = [
        (LabView::Live, t!(live)),
        (LabView::Curves, t!(curves)),
        (LabView::Machine, t!(this_machine)),
        (LabView::Race, t!(race)),
        (LabView::Benchmark, t!(benchmark)),
    ];
    // Where title, tabs and state do not fit, the tabs are a list.
    let theme = dspark_look::Theme::of(ui);
    let words = views
        .iter()
        .map(|(_, words)| Type::CONTROL.galley(ui, *words, theme.t1).size().x + TAB_PADDING);
    let changed = if ui.available_width() < words.sum::<f32>().max(TABS) {
        select(ui, t!(view_of_lab), &mut view, &views, 130.0)
    } else {
        tabs(ui, &mut view, &views).changed()
    };
    if changed {
        out.push(Msg::Lab(LabMsg::View(view)));
    }
}

fn agents_tabs(ui: &mut Ui, state: &State, out: &mut Vec<Msg>) {
    let mut view = state.agents.view;
    let views = [(AgentsView::SetUp, t!(set_up)), (AgentsView::Connections, t!(connections))];
    if tabs(ui, &mut view, &views).changed() {
        out.push(AgentsMsg::View(view).into());
    }
}

fn machine_tools(ui: &mut Ui, state: &State, out: &mut Vec<Msg>) {
    let measuring = state.lab.machine.measuring;
    let (words, icon, message) = if measuring {
        (t!(cancel), Icon::X, MachineMsg::Cancel)
    } else {
        (t!(measure_again), Icon::ArrowsClockwise, MachineMsg::Measure)
    };
    if ui
        .add(Button::quiet(words).icon(icon).enabled(measuring || state.bandwidth().is_some()))
        .clicked()
    {
        out.push(message.into());
    }
}

/// Races that were run before.
fn race_tools(ui: &mut Ui, state: &State, out: &mut Vec<Msg>) {
    let lab = &state.lab.race;
    ui.spacing_mut().item_spacing.x = 4.0;
    ui.add_space(2.0);
    let some = !lab.races.is_empty() && lab.running.is_none();
    let button = ui.add(IconButton::new(Icon::ClockCounterClockwise, t!(earlier_races)).enabled(some));
    menu_below(&button, 380.0, |ui| {
        for race in &lab.races {
            let shown = lab.shown.as_ref().is_some_and(|shown| std::sync::Arc::ptr_eq(shown, race));
            let (when, what) = race_line(race);
            if ui.add(MenuItem::new(&when).detail(&what).checked(shown)).clicked() {
                out.push(RaceMsg::Show(race.clone()).into());
                ui.close();
            }
        }
    });
}

/// Whose rounds, standing still or not, and out to a file.
fn lab_tools(ui: &mut Ui, state: &State, out: &mut Vec<Msg>) {
    let lab = &state.lab;
    ui.spacing_mut().item_spacing.x = 4.0;
    ui.add_space(2.0);
    let some = !lab.rounds.is_empty();
    let export = ui.add(IconButton::new(Icon::Export, t!(export_rounds)).enabled(some));
    menu_below(&export, 200.0, |ui| {
        for (words, kind) in [(t!(rounds_csv), ExportAs::Csv), (t!(rounds_json), ExportAs::Json)] {
            if ui.add(MenuItem::new(words)).clicked() {
                out.push(Msg::Lab(LabMsg::Export(kind)));
                ui.close();
            }
        }
    });
    let paused = lab.paused.is_some();
    let (icon, words) = if paused {
        (Icon::Play, t!(go_on))
    } else {
        (Icon::Pause, t!(hold_picture))
    };
    if ui
        .add(IconButton::new(icon, words).enabled(some || paused).selected(paused))
        .clicked()
    {
        out.push(Msg::Lab(LabMsg::Pause(!paused)));
    }
    let clients = lab.clients();
    if clients.len() > 1 || lab.client.is_some() {
        let name = lab.client.as_deref().unwrap_or(t!(all_clients));
        let button = ui.add(
            Button::quiet(name)
                .icon(Icon::FunnelSimple)
                .caret()
                .max_width(160.0)
                .label(t!(client)),
        );
        menu_below(&button, 200.0, |ui| {
            let choices = std::iter::once(None).chain(clients.iter().map(|name| Some((*name).to_owned())));
            for client in choices {
                let words = client.as_deref().unwrap_or(t!(all_clients));
                if ui.add(MenuItem::new(words).checked(lab.client == client)).clicked() {
                    out.push(Msg::Lab(LabMsg::Client(client.clone())));
                    ui.close();
                }
            }
        });
    }
}

pub(crate) fn term(status: &Status) -> &'static str {
    match status {
        Status::Stopped => t!(stopped),
        Status::Starting => t!(starting),
        Status::NoModel => t!(no_model),
        Status::Downloading(_) => t!(downloading),
        Status::Loading(..) => t!(loading),
        Status::Calibrating => t!(calibrating),
        Status::WarmingUp => t!(warming_up),
        Status::Ready => t!(ready),
        Status::Prefilling { .. } => t!(prefilling),
        Status::Generating(_) => t!(decode_rate),
        Status::Unloading => t!(unloading),
        Status::Error(_) => t!(engine_cannot_work),
    }
}

pub(crate) fn explain(state: &State, status: &Status) -> String {
    match status {
        Status::Stopped => t!(explain_stopped).into(),
        Status::Starting => t!(explain_starting).into(),
        Status::NoModel => t!(explain_no_model).into(),
        Status::Downloading(_) => state
            .models
            .fetching
            .as_ref()
            .map_or_else(String::new, |fetching| format!("{}, {}.", fetching.name, fetching_words(fetching))),
        Status::Loading(what, _) => t!(explain_loading, what = what),
        Status::Calibrating => t!(explain_calibrating).into(),
        Status::WarmingUp => t!(explain_warming_up).into(),
        Status::Ready => state.engine.last_decode_rate.map_or_else(
            || t!(explain_ready).into(),
            |rate| t!(explain_ready_rate, rate = format!("{rate:.1}")),
        ),
        Status::Prefilling { processed, total } => {
            t!(explain_prefilling, done = text::count(*processed), total = text::count(*total))
        }
        Status::Generating(_) => {
            let words = t!(decode_definition);
            match state.multiple() {
                Some(multiple) => t!(explain_times_plain, words = words, multiple = format!("{multiple:.1}")),
                None => words.into(),
            }
        }
        Status::Unloading => t!(explain_unloading).into(),
        Status::Error(reason) => t!(click_to_copy, reason = reason),
    }
}

/// `36 of 98 MB, 4 MB/s, 12 s left`.
pub(crate) fn fetching_words(fetching: &crate::state::Fetching) -> String {
    let at = &fetching.progress;
    let amount = match (at.done, at.total) {
        (0, 0) => t!(fetch_starting).to_owned(),
        (done, 0) => text::bytes(done),
        (done, total) => t!(done_of_total, done = text::bytes(done), total = text::bytes(total)),
    };
    let mut parts = vec![if at.stage.is_empty() {
        amount
    } else {
        format!("{}: {amount}", at.stage)
    }];
    if at.bytes_per_sec > 1.0 {
        parts.push(format!("{}/s", text::bytes(at.bytes_per_sec as u64)));
        let left = at.total.saturating_sub(at.done) as f64 / at.bytes_per_sec;
        if at.total > 0 && left >= 1.0 {
            let left = if left < 90.0 {
                t!(seconds_short, n = format!("{left:.0}"))
            } else {
                t!(minutes_short, n = format!("{:.0}", left / 60.0))
            };
            parts.push(t!(about_left, left = left));
        }
    }
    parts.join(", ")
}
