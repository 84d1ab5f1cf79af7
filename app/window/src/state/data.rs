//! What a person may do with all of their data at once: take it along, delete it, look at what a report would say.

use super::{ChatMsg, Effect, Msg, SidebarMsg, State, StoreWrite, Toast, chat, report};
use dspark_sessions::Millis;
use dspark_strings::t;
use std::path::PathBuf;

#[derive(Debug, Clone, Default)]
pub struct DataState {
    /// The question before all chats are deleted.
    pub asking: bool,
    pub exporting: bool,
    /// The report that stands over the screen.
    pub report: Option<Report>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Report {
    Gathering,
    /// As it would be saved.
    Ready(String),
}

#[derive(Debug, Clone)]
pub enum DataMsg {
    ExportAll,
    Exported(Result<Option<Exported>, String>),
    AskDeleteAll(bool),
    DeleteAll,
    /// Those that went at this time come back.
    RestoreAll(Millis),
    Report,
    Reported(String),
    SaveReport,
    CloseReport,
}

/// Chats in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exported {
    pub path: PathBuf,
    pub chats: usize,
}

impl From<DataMsg> for Msg {
    fn from(message: DataMsg) -> Self {
        Self::Data(message)
    }
}

pub(super) fn update(state: &mut State, message: DataMsg, out: &mut Vec<Effect>) {
    match message {
        DataMsg::ExportAll => {
            if !state.data.exporting {
                state.data.exporting = true;
                out.push(Effect::ExportChats {
                    system_prompt: state.settings.chat.system_prompt.clone(),
                });
            }
        }
        DataMsg::Exported(result) => exported(state, result),
        DataMsg::AskDeleteAll(asking) => state.data.asking = asking,
        DataMsg::DeleteAll => delete_all(state, out),
        DataMsg::RestoreAll(at) => {
            out.push(Effect::Store(StoreWrite::RestoreAll { at }));
            relist(state, out);
        }
        DataMsg::Report => {
            state.data.report = Some(Report::Gathering);
            out.push(Effect::GatherReport(Box::new(report::gathered(state))));
        }
        DataMsg::Reported(text) => {
            // Closed in the meantime: nobody waits for it.
            if state.data.report.is_some() {
                state.data.report = Some(Report::Ready(text));
            }
        }
        DataMsg::SaveReport => {
            if let Some(Report::Ready(text)) = state.data.report.take() {
                out.push(Effect::SaveFile {
                    name: "mlx-dspark-diagnostics.txt".into(),
                    text,
                });
            }
        }
        DataMsg::CloseReport => state.data.report = None,
    }
}

fn exported(state: &mut State, result: Result<Option<Exported>, String>) {
    state.data.exporting = false;
    let toast = match result {
        // A person thought better of it.
        Ok(None) => return,
        Ok(Some(Exported { path, chats })) => {
            let words = t!(chats_exported, n = chats);
            let copy = vec![Msg::Copy(path.display().to_string())];
            Toast::good(words, path.display().to_string()).action(t!(copy_path), copy)
        }
        Err(reason) => Toast::error(t!(chats_not_exported), reason),
    };
    state.toasts.push(toast);
}

/// Hidden, as one deleted chat is: they come back with a click, until a later start clears away what has been gone for long.
fn delete_all(state: &mut State, out: &mut Vec<Effect>) {
    state.data.asking = false;
    for (message, live) in &mut state.lives {
        live.cancelled = true;
        out.push(Effect::CancelTurn(*message));
    }
    let at = state.clock.millis;
    out.push(Effect::Store(StoreWrite::DeleteAll { at }));
    state.chat.tree = dspark_sessions::Tree::default();
    let screen = state.screen;
    chat::update(state, ChatMsg::New, out);
    // The person is in the middle of the settings.
    state.screen = screen;
    state.sidebar.sessions.clear();
    state.sidebar.hits = None;
    state.sidebar.complete = true;
    let back = vec![DataMsg::RestoreAll(at).into()];
    state.toasts.push(Toast::info(t!(all_chats_deleted), "").action(t!(undo), back));
}

fn relist(state: &mut State, out: &mut Vec<Effect>) {
    state.sidebar.sessions.clear();
    state.sidebar.complete = false;
    state.sidebar.asked = false;
    out.extend(super::update(state, SidebarMsg::More.into_msg()));
}

impl SidebarMsg {
    fn into_msg(self) -> Msg {
        Msg::Sidebar(self)
    }
}
