//! Files that a person drops on the window, names or pastes: models, chats of other programs, text for a message.

use super::{Effect, Focus, Msg, Screen, State, StoreWrite, Toast, chat};
use dspark_attach::Attachment;
use dspark_sessions::{Message, SessionHead, auto_title, import::Import};
use dspark_strings::t;
use std::path::PathBuf;

/// A paste longer than this becomes a file of its own, so that the composer stays a place to write in.
pub const LONG_PASTE: usize = 4096;

/// What a file turned out to be.
#[derive(Debug, Clone, PartialEq)]
pub enum Intake {
    Model(PathBuf),
    Chats(Import),
    Text(Attachment),
    Refused { title: String, body: String },
}

#[derive(Debug, Clone)]
pub enum FilesMsg {
    /// Onto the window.
    Dropped(Vec<PathBuf>),
    /// A file with chats of another program, or a folder of such files.
    Import(PathBuf),
    Read(Vec<Intake>),
    Pasted(String),
    /// Takes a file out of the message.
    Remove(usize),
    /// Takes imported chats out again.
    Undo(Vec<SessionHead>),
    Redo(Vec<SessionHead>),
}

pub(super) fn update(state: &mut State, message: FilesMsg, out: &mut Vec<Effect>) {
    match message {
        FilesMsg::Dropped(paths) => out.push(Effect::ReadFiles { paths, chats: false }),
        FilesMsg::Import(path) => out.push(Effect::ReadFiles {
            paths: vec![path],
            chats: true,
        }),
        FilesMsg::Read(files) => {
            for file in files {
                take(state, file, out);
            }
        }
        FilesMsg::Pasted(text) => attach(state, Attachment::pasted(text), out),
        FilesMsg::Remove(at) => {
            if at < state.chat.draft.files.len() {
                state.chat.draft.files.remove(at);
                chat::keep_draft(state, out);
                chat::count_tokens(state, out);
            }
            out.push(Effect::Focus(Focus::Composer));
        }
        FilesMsg::Undo(heads) => {
            for head in &heads {
                state.sidebar.sessions.retain(|known| known.id != head.id);
                out.push(Effect::Store(StoreWrite::DeleteSession(head.id)));
            }
            if state.chat.session.is_some_and(|open| heads.iter().any(|head| head.id == open)) {
                chat::update(state, super::ChatMsg::New, out);
            }
            let words = t!(taken_out_again, chats = chats(heads.len()));
            state
                .toasts
                .push(Toast::info(words, "").action(t!(redo), vec![Msg::Files(FilesMsg::Redo(heads))]));
        }
        FilesMsg::Redo(heads) => {
            for head in heads {
                out.push(Effect::Store(StoreWrite::RestoreSession(head.id)));
                state.sidebar.insert(head);
            }
        }
    }
}

fn take(state: &mut State, file: Intake, out: &mut Vec<Effect>) {
    match file {
        Intake::Model(path) => out.extend(super::update(state, Msg::Models(super::ModelsMsg::LoadPath(path)))),
        Intake::Chats(import) => keep(state, &import, out),
        Intake::Text(file) => attach(state, file, out),
        Intake::Refused { title, body } => state.toasts.push(Toast::warning(title, body)),
    }
}

fn attach(state: &mut State, file: Attachment, out: &mut Vec<Effect>) {
    state.screen = Screen::Chat;
    state.chat.draft.files.push(file);
    chat::keep_draft(state, out);
    chat::count_tokens(state, out);
    out.push(Effect::Focus(Focus::Composer));
}

/// Gives the chats their numbers and stores them.
fn keep(state: &mut State, import: &Import, out: &mut Vec<Effect>) {
    let mut heads = Vec::new();
    for chat in &import.chats {
        let session = state.next_session_id();
        let first = chat.messages.first().map_or("", |message| message.text.as_str());
        let title = if chat.title.is_empty() {
            auto_title(first)
        } else {
            chat.title.clone()
        };
        out.push(Effect::Store(StoreWrite::ImportSession {
            id: session,
            title: title.clone(),
            at: chat.created_at,
        }));
        let mut ids = Vec::with_capacity(chat.messages.len());
        for message in &chat.messages {
            let id = state.next_message_id();
            out.push(Effect::Store(StoreWrite::Add(Box::new(Message {
                id,
                session,
                parent: message.parent.and_then(|parent| ids.get(parent).copied()),
                role: message.role,
                text: message.text.clone(),
                state: message.state,
                meta: message.meta.clone(),
                created_at: message.created_at,
                active_child: None,
            }))));
            ids.push(id);
        }
        // As the database has it: when the last message was written.
        let updated_at = chat.messages.last().map_or(chat.created_at, |message| message.created_at);
        let head = SessionHead {
            id: session,
            title,
            pinned: false,
            updated_at,
        };
        state.sidebar.insert(head.clone());
        heads.push(head);
    }
    let left = if import.skipped > 0 {
        t!(held_nothing, chats = chats(import.skipped))
    } else {
        String::new()
    };
    let toast = match (heads.as_slice(), import.chats.len()) {
        ([], _) => Toast::warning(t!(no_chats_in_export, origin = import.origin.to_string()), left),
        (_, n) => {
            let undo = vec![Msg::Files(FilesMsg::Undo(heads))];
            Toast::good(t!(imported_from, chats = chats(n), origin = import.origin.to_string()), left).action(t!(undo), undo)
        }
    };
    state.toasts.push(toast);
}

fn chats(n: usize) -> String {
    t!(count_chats, n = n)
}
