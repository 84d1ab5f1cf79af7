//! The one thread that changes the database.

use crate::{
    Message, MessageState, Meta, Millis, Result,
    error::{Error, is_passing},
    now,
    open::{Lock, purge, settle},
};
use rusqlite::{Connection, params};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, mpsc},
    time::{Duration, Instant},
};

/// New text of a streaming answer waits at most this long before it is committed.
pub const STREAM_INTERVAL: Duration = Duration::from_millis(400);
/// After a write that failed for a passing reason.
const RETRY: Duration = Duration::from_secs(1);

pub(crate) enum Write {
    CreateSession { id: i64, title: String, at: Millis },
    Rename { id: i64, title: String, auto: bool },
    Pin { id: i64, pinned: bool },
    DeleteSession { id: i64, at: Option<Millis> },
    DeleteAll { at: Millis },
    RestoreAll { at: Millis },
    Add(Message),
    Append { message: i64, text: String },
    Finish { message: i64, state: MessageState, meta: Meta },
    Resume { message: i64 },
    Activate { session: i64, parent: Option<i64>, child: i64 },
    DeleteMessage { id: i64, at: Option<Millis> },
    Draft { session: i64, text: String },
    Options { session: i64, options: Option<String> },
    Purge { before: Millis },
    Flush(mpsc::Sender<Result<()>>),
    Close,
}

/// What went wrong, for whoever shows it.
pub(crate) type OnError = Arc<Mutex<Option<Box<dyn Fn(String) + Send>>>>;

pub(crate) struct Writer {
    pub db: Connection,
    pub inbox: mpsc::Receiver<Write>,
    pub on_error: OnError,
    pub lock: Lock,
    /// Text and drafts not yet committed, with the time of the oldest.
    pub streams: BTreeMap<i64, String>,
    pub drafts: BTreeMap<i64, String>,
    pub dirty_since: Option<Instant>,
    /// Writes that failed for a passing reason, to be tried again in order.
    pub backlog: Vec<Write>,
}

impl Writer {
    pub(crate) fn run(mut self) {
        loop {
            let wait = if self.backlog.is_empty() {
                self.dirty_since
                    .map(|since| (since + STREAM_INTERVAL).saturating_duration_since(Instant::now()))
            } else {
                Some(RETRY)
            };
            let first = match wait {
                Some(wait) => match self.inbox.recv_timeout(wait) {
                    Ok(write) => Some(write),
                    Err(mpsc::RecvTimeoutError::Timeout) => None,
                    Err(mpsc::RecvTimeoutError::Disconnected) => break,
                },
                None => match self.inbox.recv() {
                    Ok(write) => Some(write),
                    Err(_) => break,
                },
            };
            let mut closing = false;
            let mut waiting = Vec::new();
            let mut batch = std::mem::take(&mut self.backlog);
            for write in first.into_iter().chain(self.inbox.try_iter()) {
                match write {
                    Write::Append { message, text } => {
                        self.streams.entry(message).or_default().push_str(&text);
                        self.dirty_since.get_or_insert_with(Instant::now);
                    }
                    Write::Draft { session, text } => {
                        self.drafts.insert(session, text);
                        self.dirty_since.get_or_insert_with(Instant::now);
                    }
                    Write::Flush(done) => waiting.push(done),
                    Write::Close => closing = true,
                    // Text that came before the end of its message must be in before it.
                    Write::Finish { message, state, meta } => {
                        if let Some(text) = self.streams.remove(&message) {
                            batch.push(Write::Append { message, text });
                        }
                        batch.push(Write::Finish { message, state, meta });
                    }
                    other => batch.push(other),
                }
            }
            let due = self.dirty_since.is_some_and(|since| since.elapsed() >= STREAM_INTERVAL);
            if due || closing || !waiting.is_empty() {
                let streams = std::mem::take(&mut self.streams).into_iter();
                batch.extend(streams.map(|(message, text)| Write::Append { message, text }));
                let drafts = std::mem::take(&mut self.drafts).into_iter();
                batch.extend(drafts.map(|(session, text)| Write::Draft { session, text }));
                self.dirty_since = None;
            }
            let outcome = self.commit(batch);
            let failed = outcome.as_ref().err().map(ToString::to_string);
            for done in waiting {
                let answer = match &failed {
                    Some(_) if self.backlog.is_empty() => Err(Error::Stopped),
                    Some(_) => Err(Error::Database(rusqlite::Error::SqliteFailure(
                        rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_FULL),
                        failed.clone(),
                    ))),
                    None => Ok(()),
                };
                let _ = done.send(answer);
            }
            if let Some(text) = failed {
                self.report(text);
            }
            if closing {
                break;
            }
        }
        let _ = self.db.execute_batch("PRAGMA optimize; PRAGMA wal_checkpoint(TRUNCATE);");
        self.lock.close();
    }

    fn report(&self, text: String) {
        tracing::error!("saving chats: {text}");
        let listener = self.on_error.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(tell) = listener.as_ref() {
            tell(text);
        }
    }

    /// One transaction for the whole batch. A passing failure keeps the batch; another one drops only its write.
    fn commit(&mut self, batch: Vec<Write>) -> rusqlite::Result<()> {
        if batch.is_empty() {
            return Ok(());
        }
        match apply_all(&mut self.db, &batch) {
            Ok(()) => Ok(()),
            Err(error) if is_passing(&error) => {
                self.backlog = batch;
                Err(error)
            }
            Err(first) => {
                let mut last = first;
                for write in &batch {
                    if let Err(error) = apply_all(&mut self.db, std::slice::from_ref(write)) {
                        last = error;
                    }
                }
                Err(last)
            }
        }
    }
}

/// A message and everything that follows it, in all branches.
const BELOW: &str = "WITH RECURSIVE below (id) AS (
    SELECT ?1 UNION ALL SELECT message.id FROM message JOIN below ON message.parent_id = below.id
) SELECT id FROM below";

fn apply_all(db: &mut Connection, batch: &[Write]) -> rusqlite::Result<()> {
    let step = db.transaction()?;
    for write in batch {
        apply(&step, write)?;
    }
    step.commit()
}

fn apply(db: &Connection, write: &Write) -> rusqlite::Result<()> {
    match write {
        Write::CreateSession { id, title, at } => {
            db.prepare_cached("INSERT INTO session (id, title, created_at, updated_at) VALUES (?1, ?2, ?3, ?3)")?
                .execute(params![id, title, at])?;
        }
        Write::Rename { id, title, auto: true } => {
            db.execute("UPDATE session SET title = ?2 WHERE id = ?1 AND title_auto = 1", params![id, title])?;
        }
        Write::Rename { id, title, auto: false } => {
            db.execute("UPDATE session SET title = ?2, title_auto = 0 WHERE id = ?1", params![id, title])?;
        }
        Write::Pin { id, pinned } => {
            db.execute("UPDATE session SET pinned = ?2 WHERE id = ?1", params![id, pinned])?;
        }
        Write::DeleteSession { id, at } => {
            db.execute("UPDATE session SET deleted_at = ?2 WHERE id = ?1", params![id, at])?;
        }
        Write::DeleteAll { at } => {
            db.execute("UPDATE session SET deleted_at = ?1 WHERE deleted_at IS NULL", [at])?;
        }
        Write::RestoreAll { at } => {
            db.execute("UPDATE session SET deleted_at = NULL WHERE deleted_at = ?1", [at])?;
        }
        Write::Add(message) => add(db, message)?,
        Write::Append { message, text } => {
            db.prepare_cached(
                "INSERT INTO chunk (message_id, seq, text)
                 SELECT ?1, coalesce(max(seq), 0) + 1, ?2 FROM chunk WHERE message_id = ?1",
            )?
            .execute(params![message, text])?;
        }
        Write::Finish { message, state, meta } => {
            settle(db, *message)?;
            db.prepare_cached("UPDATE message SET state = ?2, meta = ?3 WHERE id = ?1")?
                .execute(params![message, state.as_str(), json(meta)])?;
            touch_session_of(db, *message)?;
        }
        Write::Resume { message } => {
            db.execute("UPDATE message SET state = 'streaming' WHERE id = ?", [message])?;
        }
        Write::Activate { session, parent, child } => activate(db, *session, *parent, *child)?,
        Write::DeleteMessage { id, at: Some(at) } => {
            // Later than all that is gone below, also within one millisecond: by its time it is known what went with it.
            let sql = format!(
                "UPDATE message
                 SET deleted_at = max(?2, 1 + coalesce((SELECT max(deleted_at) FROM message WHERE id IN ({BELOW})), 0))
                 WHERE deleted_at IS NULL AND id IN ({BELOW})"
            );
            db.execute(&sql, params![id, at])?;
        }
        // What went with it comes back with it; what had been deleted before stays deleted.
        Write::DeleteMessage { id, at: None } => {
            let sql = format!(
                "UPDATE message SET deleted_at = NULL
                 WHERE deleted_at = (SELECT deleted_at FROM message WHERE id = ?1) AND id IN ({BELOW})"
            );
            db.execute(&sql, [id])?;
        }
        Write::Draft { session, text } if text.is_empty() => {
            db.execute("DELETE FROM draft WHERE session_id = ?", [session])?;
        }
        Write::Draft { session, text } => {
            db.prepare_cached("INSERT OR REPLACE INTO draft (session_id, text) VALUES (?, ?)")?
                .execute(params![session, text])?;
        }
        Write::Options { session, options: None } => {
            db.execute("DELETE FROM session_options WHERE session_id = ?", [session])?;
        }
        Write::Options {
            session,
            options: Some(options),
        } => {
            db.prepare_cached("INSERT OR REPLACE INTO session_options (session_id, options) VALUES (?, ?)")?
                .execute(params![session, options])?;
        }
        Write::Purge { before } => purge(db, *before)?,
        Write::Flush(_) | Write::Close => {}
    }
    Ok(())
}

fn add(db: &Connection, message: &Message) -> rusqlite::Result<()> {
    db.prepare_cached(
        "INSERT INTO message (id, session_id, parent_id, role, text, state, meta, created_at)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
    )?
    .execute(params![
        message.id,
        message.session,
        message.parent,
        message.role.as_str(),
        message.text,
        message.state.as_str(),
        json(&message.meta),
        message.created_at
    ])?;
    activate(db, message.session, message.parent, message.id)?;
    db.prepare_cached("UPDATE session SET updated_at = ?2 WHERE id = ?1")?
        .execute(params![message.session, message.created_at])?;
    Ok(())
}

fn activate(db: &Connection, session: i64, parent: Option<i64>, child: i64) -> rusqlite::Result<()> {
    match parent {
        Some(parent) => db
            .prepare_cached("UPDATE message SET active_child = ?2 WHERE id = ?1")?
            .execute(params![parent, child])?,
        None => db
            .prepare_cached("UPDATE session SET active_root = ?2 WHERE id = ?1")?
            .execute(params![session, child])?,
    };
    Ok(())
}

fn touch_session_of(db: &Connection, message: i64) -> rusqlite::Result<()> {
    db.prepare_cached("UPDATE session SET updated_at = ?2 WHERE id = (SELECT session_id FROM message WHERE id = ?1)")?
        .execute(params![message, now()])?;
    Ok(())
}

fn json(meta: &Meta) -> String {
    serde_json::to_string(meta).unwrap_or_else(|_| "{}".into())
}
