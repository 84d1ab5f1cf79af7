use super::{Effect, Focus, Msg, Screen, State, StoreWrite, Toast, chat};
use dspark_sessions::{Hit, SessionHead, Tree};
use dspark_strings::t;

#[derive(Debug, Clone, Default)]
pub struct Sidebar {
    /// Pinned first, each part newest first.
    pub sessions: Vec<SessionHead>,
    /// Every session is in `sessions`.
    pub complete: bool,
    pub(crate) asked: bool,
    pub search: String,
    /// `None` while nothing is searched for.
    pub hits: Option<Vec<Hit>>,
    pub searching: bool,
    pub search_open: bool,
    pub rename: Option<Rename>,
    /// The list as a popover, where the window has no room for the sidebar.
    pub popover: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rename {
    pub session: i64,
    pub title: String,
}

#[derive(Debug, Clone)]
pub enum SidebarMsg {
    /// A page of the list, after what is there.
    Listed {
        sessions: Vec<SessionHead>,
        end: bool,
    },
    /// The end of the list came into view.
    More,
    Search(String),
    OpenSearch(bool),
    Found {
        query: String,
        hits: Vec<Hit>,
    },
    StartRename(i64),
    RenameText(String),
    CommitRename,
    CancelRename,
    Pin {
        session: i64,
        pinned: bool,
    },
    Delete(i64),
    Undelete(SessionHead),
    Popover(bool),
}

impl Sidebar {
    pub fn head(&self, session: i64) -> Option<&SessionHead> {
        self.sessions.iter().find(|head| head.id == session)
    }

    pub(crate) fn insert(&mut self, head: SessionHead) {
        self.sessions.retain(|known| known.id != head.id);
        let key = |head: &SessionHead| (!head.pinned, std::cmp::Reverse((head.updated_at, head.id)));
        let at = self.sessions.partition_point(|known| key(known) < key(&head));
        self.sessions.insert(at, head);
    }

    /// Moves a session to its new place after something was written in it.
    pub(crate) fn touch(&mut self, session: i64, at: i64) {
        if let Some(mut head) = self.head(session).cloned() {
            head.updated_at = at;
            self.insert(head);
        }
    }
}

pub(super) fn update(state: &mut State, message: SidebarMsg, out: &mut Vec<Effect>) {
    match message {
        SidebarMsg::Listed { sessions, end } => {
            state.sidebar.asked = false;
            state.sidebar.complete = end;
            for head in sessions {
                if state.sidebar.head(head.id).is_none() {
                    state.sidebar.insert(head);
                }
            }
        }
        SidebarMsg::More => {
            if !state.sidebar.complete && !state.sidebar.asked {
                state.sidebar.asked = true;
                let after = state.sidebar.sessions.iter().rev().find(|head| !head.pinned).cloned();
                out.push(Effect::ListSessions { after });
            }
        }
        SidebarMsg::OpenSearch(open) => {
            state.sidebar.search_open = open;
            if open {
                out.push(Effect::Focus(Focus::Search));
            } else {
                state.sidebar.search.clear();
                state.sidebar.hits = None;
            }
        }
        SidebarMsg::Search(query) => {
            state.sidebar.searching = !query.trim().is_empty();
            if state.sidebar.searching {
                out.push(Effect::Search(query.clone()));
            } else {
                state.sidebar.hits = None;
            }
            state.sidebar.search = query;
        }
        SidebarMsg::Found { query, hits } => {
            super::palette::found(state, &query, &hits);
            // An answer to what was typed before the last key is old news.
            if query == state.sidebar.search {
                state.sidebar.hits = Some(hits);
                state.sidebar.searching = false;
            }
        }
        SidebarMsg::StartRename(session) => {
            if let Some(head) = state.sidebar.head(session) {
                state.sidebar.rename = Some(Rename {
                    session,
                    title: head.title.clone(),
                });
                out.push(Effect::Focus(Focus::Rename));
            }
        }
        SidebarMsg::RenameText(title) => {
            if let Some(rename) = &mut state.sidebar.rename {
                rename.title = title;
            }
        }
        SidebarMsg::CancelRename => state.sidebar.rename = None,
        SidebarMsg::CommitRename => {
            let Some(Rename { session, title }) = state.sidebar.rename.take() else {
                return;
            };
            let title = title.split_whitespace().collect::<Vec<_>>().join(" ");
            if title.is_empty() {
                return;
            }
            if let Some(head) = state.sidebar.sessions.iter_mut().find(|head| head.id == session) {
                head.title.clone_from(&title);
            }
            if state.chat.session == Some(session) {
                state.chat.title.clone_from(&title);
            }
            out.push(Effect::Store(StoreWrite::Rename { session, title }));
        }
        SidebarMsg::Pin { session, pinned } => {
            if let Some(mut head) = state.sidebar.head(session).cloned() {
                head.pinned = pinned;
                state.sidebar.insert(head);
                out.push(Effect::Store(StoreWrite::Pin { session, pinned }));
            }
        }
        SidebarMsg::Delete(session) => delete(state, session, out),
        SidebarMsg::Undelete(head) => {
            out.push(Effect::Store(StoreWrite::RestoreSession(head.id)));
            out.push(Effect::OpenSession(head.id));
            state.sidebar.insert(head);
        }
        SidebarMsg::Popover(open) => state.sidebar.popover = open,
    }
}

fn delete(state: &mut State, session: i64, out: &mut Vec<Effect>) {
    let Some(head) = state.sidebar.head(session).cloned() else { return };
    for (message, live) in &mut state.lives {
        if live.session == session {
            live.cancelled = true;
            out.push(Effect::CancelTurn(*message));
        }
    }
    state.sidebar.sessions.retain(|known| known.id != session);
    if let Some(hits) = &mut state.sidebar.hits {
        hits.retain(|hit| hit.session.id != session);
    }
    out.push(Effect::Store(StoreWrite::DeleteSession(session)));
    if state.chat.session == Some(session) {
        state.chat.tree = Tree::default();
        chat::update(state, chat::ChatMsg::New, out);
        state.screen = Screen::Chat;
    }
    let undo = Msg::Sidebar(SidebarMsg::Undelete(head.clone()));
    let toast = Toast::info(t!(chat_deleted), head.title).action(t!(undo), vec![undo]);
    state.toasts.push(toast);
}
