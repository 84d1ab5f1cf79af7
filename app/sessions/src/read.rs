use crate::{Message, MessageState, Millis, Result, Role, SessionHead, Store, Tree};
use rusqlite::{OptionalExtension, Row, params};

impl Store {
    /// Sessions by last change, newest first, `limit` of those older than `after` (the last line already read).
    pub fn sessions(&self, after: Option<&SessionHead>, limit: usize) -> Result<Vec<SessionHead>> {
        let (at, id) = after.map_or((Millis::MAX, i64::MAX), |head| (head.updated_at, head.id));
        let db = self.reader();
        let mut rows = db.prepare_cached(
            "SELECT id, title, pinned, updated_at FROM session
             WHERE deleted_at IS NULL AND (updated_at, id) < (?, ?)
             ORDER BY updated_at DESC, id DESC LIMIT ?",
        )?;
        let heads = rows.query_map(params![at, id, limit as i64], head)?;
        Ok(heads.collect::<Result<_, _>>()?)
    }

    /// Pinned sessions; they are few and shown first.
    pub fn pinned(&self) -> Result<Vec<SessionHead>> {
        let db = self.reader();
        let mut rows = db.prepare_cached(
            "SELECT id, title, pinned, updated_at FROM session
             WHERE deleted_at IS NULL AND pinned = 1 ORDER BY updated_at DESC, id DESC LIMIT 200",
        )?;
        let heads = rows.query_map([], head)?;
        Ok(heads.collect::<Result<_, _>>()?)
    }

    pub fn session(&self, id: i64) -> Result<Option<SessionHead>> {
        let db = self.reader();
        let found = db
            .prepare_cached("SELECT id, title, pinned, updated_at FROM session WHERE id = ? AND deleted_at IS NULL")?
            .query_row([id], head)
            .optional()?;
        Ok(found)
    }

    /// Every message of a session that is not deleted, oldest first.
    pub fn messages(&self, session: i64) -> Result<Vec<Message>> {
        let db = self.reader();
        let mut rows = db.prepare_cached(
            "SELECT id, session_id, parent_id, role,
                    text || coalesce((SELECT group_concat(text, '') FROM
                        (SELECT text FROM chunk WHERE message_id = message.id ORDER BY seq)), ''),
                    state, meta, created_at, active_child
             FROM message WHERE session_id = ? AND deleted_at IS NULL ORDER BY id",
        )?;
        let messages = rows.query_map([session], message)?;
        Ok(messages.collect::<Result<_, _>>()?)
    }

    /// The same as a tree, with the alternative that was last chosen at each fork.
    pub fn tree(&self, session: i64) -> Result<Tree> {
        let root = self
            .reader()
            .query_row("SELECT active_root FROM session WHERE id = ?", [session], |row| row.get(0))
            .optional()?
            .flatten();
        Ok(Tree::new(self.messages(session)?, root))
    }

    /// What stood unsent in a session's composer.
    pub fn draft(&self, session: i64) -> Result<String> {
        let found = self
            .reader()
            .prepare_cached("SELECT text FROM draft WHERE session_id = ?")?
            .query_row([session], |row| row.get(0))
            .optional()?;
        Ok(found.unwrap_or_default())
    }

    /// What [`Store::save_options`] saved.
    pub fn options(&self, session: i64) -> Result<Option<String>> {
        let found = self
            .reader()
            .prepare_cached("SELECT options FROM session_options WHERE session_id = ?")?
            .query_row([session], |row| row.get(0))
            .optional()?;
        Ok(found)
    }
}

fn head(row: &Row<'_>) -> rusqlite::Result<SessionHead> {
    Ok(SessionHead {
        id: row.get(0)?,
        title: row.get(1)?,
        pinned: row.get(2)?,
        updated_at: row.get(3)?,
    })
}

fn message(row: &Row<'_>) -> rusqlite::Result<Message> {
    Ok(Message {
        id: row.get(0)?,
        session: row.get(1)?,
        parent: row.get(2)?,
        role: Role::parse(row.get_ref(3)?.as_str()?),
        text: row.get(4)?,
        state: MessageState::parse(row.get_ref(5)?.as_str()?),
        // Figures that cannot be read cost the figures, not the message.
        meta: serde_json::from_str(row.get_ref(6)?.as_str()?).unwrap_or_default(),
        created_at: row.get(7)?,
        active_child: row.get(8)?,
    })
}
