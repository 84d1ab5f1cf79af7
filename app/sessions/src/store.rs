use crate::{
    Error, Message, MessageState, Meta, Millis, NewMessage, Opened, Result, now,
    open::{self, Lock},
    writer::{OnError, Write, Writer},
};
use rusqlite::Connection;
use std::{
    collections::BTreeMap,
    path::Path,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicI64, Ordering},
        mpsc,
    },
    thread::JoinHandle,
};

/// The door to the chats. Cheap to clone. Changes return at once and are applied in order by the writer thread;
/// dropping the last clone waits until everything is saved.
#[derive(Clone)]
pub struct Store(pub(crate) Arc<Shared>);

pub(crate) struct Shared {
    reader: Mutex<Connection>,
    writes: mpsc::Sender<Write>,
    thread: Mutex<Option<JoinHandle<()>>>,
    next_session: AtomicI64,
    next_message: AtomicI64,
    on_error: OnError,
}

impl Store {
    /// Opens the chats in `folder`, creating them where there are none. Takes milliseconds; a damaged database is put
    /// aside and what can be read of it is copied.
    ///
    /// # Errors
    /// [`Error::InUse`], [`Error::Folder`], [`Error::TooNew`], or [`Error::Database`].
    pub fn open(folder: &Path) -> Result<Opened> {
        open::open(folder)
    }

    pub(crate) fn start(db: Connection, reader: Connection, lock: Lock) -> Result<Self> {
        let last = |sql| db.query_row(sql, [], |row| row.get::<_, i64>(0));
        let next_session = AtomicI64::new(last("SELECT coalesce(max(id), 0) FROM session")? + 1);
        let next_message = AtomicI64::new(last("SELECT coalesce(max(id), 0) FROM message")? + 1);
        let (writes, inbox) = mpsc::channel();
        let on_error = OnError::default();
        let writer = Writer {
            db,
            inbox,
            on_error: on_error.clone(),
            lock,
            streams: BTreeMap::new(),
            drafts: BTreeMap::new(),
            dirty_since: None,
            backlog: Vec::new(),
        };
        let thread = std::thread::Builder::new()
            .name("chats".into())
            .spawn(move || writer.run())
            .map_err(|_| Error::Stopped)?;
        Ok(Self(Arc::new(Shared {
            reader: Mutex::new(reader),
            writes,
            thread: Mutex::new(Some(thread)),
            next_session,
            next_message,
            on_error,
        })))
    }

    /// Who is told when a change could not be saved (a full disk, say). Called on the writer thread.
    pub fn on_error(&self, tell: impl Fn(String) + Send + 'static) {
        *self.0.on_error.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(Box::new(tell));
    }

    /// A new, empty session; its id.
    pub fn create_session(&self, title: impl Into<String>) -> i64 {
        let id = self.0.next_session.fetch_add(1, Ordering::Relaxed);
        self.write(Write::CreateSession {
            id,
            title: clean(title.into()),
            at: now(),
        });
        id
    }

    /// The next free session and message ids, for a caller that names its rows itself ([`Store::insert_session`],
    /// [`Store::insert_message`]).
    pub fn next_ids(&self) -> (i64, i64) {
        let load = |next: &AtomicI64| next.load(Ordering::Relaxed);
        (load(&self.0.next_session), load(&self.0.next_message))
    }

    /// [`Store::create_session`] under an id from [`Store::next_ids`].
    pub fn insert_session(&self, id: i64, title: impl Into<String>) {
        self.insert_session_at(id, title, now());
    }

    /// [`Store::insert_session`] for a chat that began elsewhere, at another time.
    pub fn insert_session_at(&self, id: i64, title: impl Into<String>, at: Millis) {
        self.0.next_session.fetch_max(id + 1, Ordering::Relaxed);
        self.write(Write::CreateSession {
            id,
            title: clean(title.into()),
            at,
        });
    }

    /// [`Store::add_message`] under an id from [`Store::next_ids`].
    pub fn insert_message(&self, mut message: Message) {
        self.0.next_message.fetch_max(message.id + 1, Ordering::Relaxed);
        message.text = clean(message.text);
        self.write(Write::Add(message));
    }

    /// A person's own title; automatic ones never replace it.
    pub fn rename(&self, session: i64, title: impl Into<String>) {
        self.write(Write::Rename {
            id: session,
            title: clean(title.into()),
            auto: false,
        });
    }

    /// A title made by the app, ignored where a person gave one.
    pub fn rename_auto(&self, session: i64, title: impl Into<String>) {
        self.write(Write::Rename {
            id: session,
            title: clean(title.into()),
            auto: true,
        });
    }

    pub fn pin(&self, session: i64, pinned: bool) {
        self.write(Write::Pin { id: session, pinned });
    }

    /// Hides a session. [`Store::restore_session`] brings it back until a purge.
    pub fn delete_session(&self, session: i64) {
        self.write(Write::DeleteSession {
            id: session,
            at: Some(now()),
        });
    }

    pub fn restore_session(&self, session: i64) {
        self.write(Write::DeleteSession { id: session, at: None });
    }

    /// Hides every session, with `at` as the time: [`Store::restore_all`] of the same time brings back these and no others.
    pub fn delete_all(&self, at: Millis) {
        self.write(Write::DeleteAll { at });
    }

    pub fn restore_all(&self, at: Millis) {
        self.write(Write::RestoreAll { at });
    }

    /// Adds a message and makes it the one its parent goes on with; its id.
    pub fn add_message(&self, new: NewMessage) -> i64 {
        let id = self.0.next_message.fetch_add(1, Ordering::Relaxed);
        self.write(Write::Add(Message {
            id,
            session: new.session,
            parent: new.parent,
            role: new.role,
            text: clean(new.text),
            state: new.state,
            meta: new.meta,
            created_at: now(),
            active_child: None,
        }));
        id
    }

    /// More text of a streaming message. Saved within [`crate::STREAM_INTERVAL`].
    pub fn append(&self, message: i64, text: impl Into<String>) {
        self.write(Write::Append {
            message,
            text: clean(text.into()),
        });
    }

    /// Ends a streaming message.
    pub fn finish(&self, message: i64, state: MessageState, meta: Meta) {
        self.write(Write::Finish { message, state, meta });
    }

    /// Opens an ended message for more text (Continue).
    pub fn resume(&self, message: i64) {
        self.write(Write::Resume { message });
    }

    /// Chooses which alternative the conversation goes on with.
    pub fn activate(&self, session: i64, parent: Option<i64>, child: i64) {
        self.write(Write::Activate { session, parent, child });
    }

    /// Hides a message and with it everything below. [`Store::restore_message`] brings it back until a purge.
    pub fn delete_message(&self, id: i64) {
        self.write(Write::DeleteMessage { id, at: Some(now()) });
    }

    pub fn restore_message(&self, id: i64) {
        self.write(Write::DeleteMessage { id, at: None });
    }

    /// What stands unsent in a session's composer; session 0 is the chat that does not exist yet.
    pub fn save_draft(&self, session: i64, text: impl Into<String>) {
        self.write(Write::Draft {
            session,
            text: clean(text.into()),
        });
    }

    /// A session's own settings, JSON of the caller's making; `None` follows the app's again.
    pub fn save_options(&self, session: i64, options: Option<String>) {
        self.write(Write::Options { session, options });
    }

    /// Removes for good what was deleted before `before`.
    pub fn purge(&self, before: Millis) {
        self.write(Write::Purge { before });
    }

    /// Waits until everything so far is in the database.
    ///
    /// # Errors
    /// [`Error::Database`] when it could not be saved, [`Error::Stopped`] when the writer is gone.
    pub fn flush(&self) -> Result<()> {
        let (done, answer) = mpsc::channel();
        self.write(Write::Flush(done));
        answer.recv().map_err(|_| Error::Stopped)?
    }

    /// Saves everything, ends the writer and gives the folder free, whatever clones are left. Later changes are lost.
    pub fn close(&self) {
        self.0.end();
    }

    fn write(&self, write: Write) {
        if self.0.writes.send(write).is_err() {
            tracing::error!("a change to the chats was lost: the writer thread has stopped");
        }
    }

    pub(crate) fn reader(&self) -> MutexGuard<'_, Connection> {
        self.0.reader.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// SQLite reads text up to the first NUL; models do emit them.
fn clean(text: String) -> String {
    if text.contains('\0') {
        text.replace('\0', "\u{FFFD}")
    } else {
        text
    }
}

impl Shared {
    fn end(&self) {
        let _ = self.writes.send(Write::Close);
        let thread = self.thread.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.end();
    }
}
