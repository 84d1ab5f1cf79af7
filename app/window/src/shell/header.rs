//! The bar at the top: where one is, and how the engine is.

use super::{picker, sidebar, text};
use crate::state::{ChatMsg, Msg, Screen, SidebarMsg, State, Status, status};
use dspark_look::{Icon, IconButton, MenuItem, StatusPill, header, menu_below, tip};
use egui::Ui;

pub(super) fn show(ui: &mut Ui, state: &State, out: &mut Vec<Msg>) {
    let title = match state.screen {
        Screen::Chat if state.chat.title.is_empty() => "New chat",
        Screen::Chat => state.chat.title.as_str(),
        Screen::Models => "Models",
        Screen::Settings => "Settings",
    };
    let (bar, ()) = header(ui, title, |_| {}, |ui| right(ui, state, out));
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
            if let Some(head) = state.sidebar.head(session) {
                sidebar::session_menu(ui, head, out);
            }
        });
    }
    if !state.sidebar.sessions.is_empty() && ui.add(IconButton::new(Icon::MagnifyingGlass, "Search chats")).clicked() {
        out.push(Msg::Sidebar(SidebarMsg::OpenSearch(!state.sidebar.search_open)));
    }
}

fn term(status: &Status) -> &'static str {
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

fn explain(state: &State, status: &Status) -> String {
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
        Status::Generating(_) => "tokens per second after the first one. The time to read the prompt is not in it.".into(),
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
