//! The bar at the top: where one is, and how the engine is.

use super::{picker, sidebar, text};
use crate::screens::lab::race::line as race_line;
use crate::screens::models;
use crate::state::{
    AgentsMsg, AgentsView, ChatMsg, ExportAs, ExportChat, LabMsg, LabView, MachineMsg, Msg, RaceMsg, Screen, SidebarMsg, State, Status,
    status,
};
use dspark_look::{Button, Icon, IconButton, MenuItem, StatusPill, header, menu_below, menu_separator, select, tabs, tip};
use egui::Ui;

pub(crate) fn show(ui: &mut Ui, state: &State, out: &mut Vec<Msg>) {
    let title = match state.screen {
        Screen::Chat if state.chat.title.is_empty() => "New chat",
        Screen::Chat => state.chat.title.as_str(),
        Screen::Lab => "Lab",
        Screen::Models => "Models",
        Screen::Agents => "Agents",
        Screen::Settings => "Settings",
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
        let again = ui.add(IconButton::new(Icon::ArrowsClockwise, "Look again").enabled(!state.agents.looking));
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
        let more = ui.add(IconButton::new(Icon::DotsThree, "Chat actions"));
        menu_below(&more, 236.0, |ui| {
            if ui.add(MenuItem::new("Copy as Markdown").icon(Icon::Copy)).clicked() {
                out.push(Msg::Chat(ChatMsg::CopyAll));
                ui.close();
            }
            for kind in ExportChat::ALL {
                let words = format!("Export as {}", kind.name());
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
    if !state.sidebar.sessions.is_empty() && ui.add(IconButton::new(Icon::MagnifyingGlass, "Search chats")).clicked() {
        out.push(Msg::Sidebar(SidebarMsg::OpenSearch(!state.sidebar.search_open)));
    }
}

/// Width of the Lab's tabs, in points.
const TABS: f32 = 380.0;

fn lab_tabs(ui: &mut Ui, state: &State, out: &mut Vec<Msg>) {
    let mut view = state.lab.view;
    let views = [
        (LabView::Live, "Live"),
        (LabView::Curves, "Curves"),
        (LabView::Machine, "This machine"),
        (LabView::Race, "Race"),
        (LabView::Benchmark, "Benchmark"),
    ];
    // Where title, tabs and state do not fit, the tabs are a list.
    let changed = if ui.available_width() < TABS {
        select(ui, "View of the Lab", &mut view, &views, 130.0)
    } else {
        tabs(ui, &mut view, &views).changed()
    };
    if changed {
        out.push(Msg::Lab(LabMsg::View(view)));
    }
}

fn agents_tabs(ui: &mut Ui, state: &State, out: &mut Vec<Msg>) {
    let mut view = state.agents.view;
    let views = [(AgentsView::SetUp, "Set up"), (AgentsView::Connections, "Connections")];
    if tabs(ui, &mut view, &views).changed() {
        out.push(AgentsMsg::View(view).into());
    }
}

fn machine_tools(ui: &mut Ui, state: &State, out: &mut Vec<Msg>) {
    let measuring = state.lab.machine.measuring;
    let (words, icon, message) = if measuring {
        ("Cancel", Icon::X, MachineMsg::Cancel)
    } else {
        ("Measure again", Icon::ArrowsClockwise, MachineMsg::Measure)
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
    let button = ui.add(IconButton::new(Icon::ClockCounterClockwise, "Earlier races").enabled(some));
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
    let export = ui.add(IconButton::new(Icon::Export, "Export rounds").enabled(some));
    menu_below(&export, 200.0, |ui| {
        for (words, kind) in [("Rounds as CSV", ExportAs::Csv), ("Rounds and sums as JSON", ExportAs::Json)] {
            if ui.add(MenuItem::new(words)).clicked() {
                out.push(Msg::Lab(LabMsg::Export(kind)));
                ui.close();
            }
        }
    });
    let paused = lab.paused.is_some();
    let (icon, words) = if paused {
        (Icon::Play, "Go on")
    } else {
        (Icon::Pause, "Hold the picture")
    };
    if ui
        .add(IconButton::new(icon, words).enabled(some || paused).selected(paused))
        .clicked()
    {
        out.push(Msg::Lab(LabMsg::Pause(!paused)));
    }
    let clients = lab.clients();
    if clients.len() > 1 || lab.client.is_some() {
        let name = lab.client.as_deref().unwrap_or("All clients");
        let button = ui.add(
            Button::quiet(name)
                .icon(Icon::FunnelSimple)
                .caret()
                .max_width(160.0)
                .label("Client"),
        );
        menu_below(&button, 200.0, |ui| {
            let choices = std::iter::once(None).chain(clients.iter().map(|name| Some((*name).to_owned())));
            for client in choices {
                let words = client.as_deref().unwrap_or("All clients");
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
        Status::Stopped => "Stopped",
        Status::Starting => "Starting",
        Status::NoModel => "No model",
        Status::Downloading(_) => "Downloading",
        Status::Loading(..) => "Loading",
        Status::Calibrating => "Calibrating",
        Status::WarmingUp => "Warming up",
        Status::Ready => "Ready",
        Status::Prefilling { .. } => "Prefilling",
        Status::Generating(_) => "Decode rate",
        Status::Unloading => "Unloading",
        Status::Error(_) => "The engine cannot work",
    }
}

pub(crate) fn explain(state: &State, status: &Status) -> String {
    match status {
        Status::Stopped => "the engine has ended. Restart the app.".into(),
        Status::Starting => "the engine checks that this machine computes correctly.".into(),
        Status::NoModel => "choose one to begin.".into(),
        Status::Downloading(_) => state
            .models
            .fetching
            .as_ref()
            .map_or_else(String::new, |fetching| format!("{}, {}.", fetching.name, fetching_words(fetching))),
        Status::Loading(what, _) => format!("reading {what} into memory."),
        Status::Calibrating => "measuring what is fastest on this machine; once per model.".into(),
        Status::WarmingUp => "one short run, so that the first reply is not the slow one.".into(),
        Status::Ready => state.engine.last_decode_rate.map_or_else(
            || "waiting for a message.".into(),
            |rate| format!("waiting. The last reply ran at {rate:.1} tok/s."),
        ),
        Status::Prefilling { processed, total } => {
            format!("reading the prompt, {} of {} tokens.", text::count(*processed), text::count(*total))
        }
        Status::Generating(_) => {
            let words = "tokens per second after the first one. The time to read the prompt is not in it.";
            match state.multiple() {
                Some(multiple) => format!("{words} {multiple:.1} times plain decoding."),
                None => words.into(),
            }
        }
        Status::Unloading => "giving the memory back.".into(),
        Status::Error(reason) => format!("{reason} Click to copy."),
    }
}

/// `36 of 98 MB, 4 MB/s, 12 s left`.
pub(crate) fn fetching_words(fetching: &crate::state::Fetching) -> String {
    let at = &fetching.progress;
    let amount = match (at.done, at.total) {
        (0, 0) => "starting".to_owned(),
        (done, 0) => text::bytes(done),
        (done, total) => format!("{} of {}", text::bytes(done), text::bytes(total)),
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
                format!("{left:.0} s")
            } else {
                format!("{:.0} min", left / 60.0)
            };
            parts.push(format!("about {left} left"));
        }
    }
    parts.join(", ")
}
