//! Opening: the lock, damaged files, and answers that a crash cut off.

use crate::{
    Error, Millis, Result, Store, error, now,
    schema::{configure, migrate},
};
use rusqlite::{Connection, OpenFlags, params};
use std::{
    fs::File,
    io::{Read, Seek, Write},
    path::{Path, PathBuf},
};

const DATABASE: &str = "chats.db";
/// A full check of a larger file takes longer than a person waits for a window; then only an unclean end asks for it.
const ALWAYS_CHECK_BELOW: u64 = 32 << 20;
/// Deleted chats can be restored this long; after that the next start removes them.
const UNDO_WINDOW: Millis = 10 * 60 * 1000;

/// What opening had to repair.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Recovery {
    /// Answers that were being written when the app ended.
    pub interrupted: usize,
    /// Where the damaged database was put aside.
    pub quarantined: Option<PathBuf>,
    /// Sessions and messages read back out of the damaged database.
    pub rescued: (usize, usize),
}

/// An open store and what it took.
pub struct Opened {
    pub store: Store,
    pub recovery: Recovery,
}

/// Held while the store is open; says at the next start whether this one ended well.
pub(crate) struct Lock(File);

impl Lock {
    /// Takes the folder. Returns whether the last owner ended without closing.
    fn take(folder: &Path) -> Result<(Self, bool)> {
        let path = folder.join("chats.lock");
        let failed = |cause| Error::Folder {
            path: folder.into(),
            cause,
        };
        let mut file = File::options()
            .create(true)
            .read(true)
            .write(true)
            .truncate(false)
            .open(&path)
            .map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(std::fs::TryLockError::WouldBlock) => return Err(Error::InUse(folder.into())),
            Err(std::fs::TryLockError::Error(cause)) => return Err(failed(cause)),
        }
        let mut mark = String::new();
        // A mark that cannot be read means the same as a missing one: check the database.
        let _ = file.read_to_string(&mut mark);
        let unclean = !matches!(mark.trim(), "closed" | "");
        let lock = Self(file);
        lock.mark("open");
        Ok((lock, unclean))
    }

    fn mark(&self, word: &str) {
        let mut file = &self.0;
        let written = file.rewind().and_then(|()| file.set_len(0)).and_then(|()| writeln!(file, "{word}"));
        if let Err(error) = written {
            tracing::warn!("cannot mark the chat folder as {word}: {error}");
        }
    }

    pub(crate) fn close(&self) {
        self.mark("closed");
    }
}

pub(crate) fn open(folder: &Path) -> Result<Opened> {
    make(folder).map_err(|cause| Error::Folder {
        path: folder.into(),
        cause,
    })?;
    let (lock, unclean) = Lock::take(folder)?;
    let path = folder.join(DATABASE);
    private(&path);
    let mut recovery = Recovery::default();
    let mut db = match connect(&path, unclean) {
        Ok(db) => db,
        Err(Error::Database(cause)) if error::is_damage(&cause) => {
            let aside = quarantine(&path).map_err(|cause| Error::Folder { path: path.clone(), cause })?;
            tracing::warn!("the chat database was damaged ({cause}) and is kept as {}", aside.display());
            let mut db = connect(&path, false)?;
            recovery.rescued = rescue(&aside, &mut db);
            recovery.quarantined = Some(aside);
            db
        }
        Err(other) => return Err(other),
    };
    recovery.interrupted = settle_streams(&mut db)?;
    purge(&db, now() - UNDO_WINDOW)?;
    let reader = Connection::open_with_flags(&path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    reader.busy_timeout(std::time::Duration::from_secs(5))?;
    reader.pragma_update(None, "query_only", true)?;
    let store = Store::start(db, reader, lock)?;
    Ok(Opened { store, recovery })
}

/// A folder that is made here is its owner's alone; one that is there keeps the rights it was given.
fn make(folder: &Path) -> std::io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(folder)
}

/// Chats are nobody else's to read. SQLite gives its journal the rights of the database.
fn private(database: &Path) {
    #[cfg(unix)]
    {
        use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
        let made = std::fs::File::options().write(true).create_new(true).mode(0o600).open(database);
        if made.is_err()
            && let Err(error) = std::fs::set_permissions(database, std::fs::Permissions::from_mode(0o600))
        {
            tracing::warn!("{} may be readable by others: {error}", database.display());
        }
    }
}

fn connect(path: &Path, thorough: bool) -> Result<Connection> {
    let mut db = Connection::open(path)?;
    configure(&db)?;
    let small = std::fs::metadata(path).is_ok_and(|meta| meta.len() < ALWAYS_CHECK_BELOW);
    if thorough || small {
        let answer: String = db.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
        if answer != "ok" {
            let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT);
            return Err(rusqlite::Error::SqliteFailure(code, Some(answer)).into());
        }
    }
    migrate(&mut db)?;
    // Touches the pages that every screen needs, so that damage shows now and not at the first click.
    db.query_row("SELECT count(*) FROM session", [], |row| row.get::<_, i64>(0))?;
    Ok(db)
}

fn quarantine(path: &Path) -> std::io::Result<PathBuf> {
    let stamp = jiff::ZonedDateTime::now().strftime("%Y%m%d-%H%M%S").to_string();
    let mut aside = path.with_file_name(format!("chats-damaged-{stamp}.db"));
    let mut nth = 1;
    while aside.exists() {
        nth += 1;
        aside = path.with_file_name(format!("chats-damaged-{stamp}-{nth}.db"));
    }
    std::fs::rename(path, &aside)?;
    for suffix in ["-wal", "-shm"] {
        let from = PathBuf::from(format!("{}{suffix}", path.display()));
        if from.exists() {
            std::fs::rename(&from, format!("{}{suffix}", aside.display()))?;
        }
    }
    Ok(aside)
}

/// Copies what can still be read, row by row. Returns sessions and messages.
fn rescue(from: &Path, into: &mut Connection) -> (usize, usize) {
    let Ok(source) = Connection::open_with_flags(from, OpenFlags::SQLITE_OPEN_READ_WRITE) else {
        return (0, 0);
    };
    let sessions = copy_rows(
        &source,
        into,
        "session",
        "id, title, title_auto, pinned, created_at, updated_at, active_root, deleted_at",
    );
    let messages = copy_rows(
        &source,
        into,
        "message",
        "id, session_id, parent_id, role, text, state, meta, active_child, created_at, deleted_at",
    );
    copy_rows(&source, into, "chunk", "message_id, seq, text");
    copy_rows(&source, into, "draft", "session_id, text");
    copy_rows(&source, into, "session_options", "session_id, options");
    (sessions, messages)
}

/// Reads in both directions, because a broken page ends a scan: what lies on its two sides is saved.
fn copy_rows(source: &Connection, into: &mut Connection, table: &str, columns: &str) -> usize {
    let Ok(copy) = into.transaction() else { return 0 };
    let width = columns.split(',').count();
    let marks = vec!["?"; width].join(", ");
    let insert = format!("INSERT OR IGNORE INTO {table} ({columns}) VALUES ({marks})");
    let key = columns.split(',').next().unwrap_or("rowid");
    let mut copied = 0;
    for order in ["ASC", "DESC"] {
        let Ok(mut rows) = source.prepare(&format!("SELECT {columns} FROM {table} ORDER BY {key} {order}")) else {
            continue;
        };
        let Ok(mut rows) = rows.query([]) else { continue };
        while let Ok(Some(row)) = rows.next() {
            let values: Result<Vec<rusqlite::types::Value>, _> = (0..width).map(|column| row.get(column)).collect();
            if let Ok(values) = values
                && let Ok(added) = copy.execute(&insert, rusqlite::params_from_iter(values))
            {
                copied += added;
            }
        }
    }
    if copy.commit().is_ok() { copied } else { 0 }
}

/// Turns what was being written into interrupted messages with the text that was saved.
fn settle_streams(db: &mut Connection) -> Result<usize> {
    let step = db.transaction()?;
    let streaming: Vec<i64> = step
        .prepare("SELECT id FROM message WHERE state = 'streaming'")?
        .query_map([], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    for id in &streaming {
        settle(&step, *id)?;
        step.execute("UPDATE message SET state = 'interrupted' WHERE id = ?", [id])?;
    }
    step.commit()?;
    Ok(streaming.len())
}

/// Joins a message's chunks onto its text.
pub(crate) fn settle(db: &Connection, id: i64) -> rusqlite::Result<()> {
    let mut tail = String::new();
    {
        let mut chunks = db.prepare_cached("SELECT text FROM chunk WHERE message_id = ? ORDER BY seq")?;
        let mut rows = chunks.query([id])?;
        while let Some(row) = rows.next()? {
            tail.push_str(row.get_ref(0)?.as_str()?);
        }
    }
    if !tail.is_empty() {
        db.execute("UPDATE message SET text = text || ? WHERE id = ?", params![tail, id])?;
        db.execute("DELETE FROM chunk WHERE message_id = ?", [id])?;
    }
    Ok(())
}

/// Removes for good what was deleted before `before`.
pub(crate) fn purge(db: &Connection, before: Millis) -> rusqlite::Result<()> {
    db.execute("DELETE FROM session WHERE deleted_at < ?", [before])?;
    db.execute("DELETE FROM message WHERE deleted_at < ?", [before])?;
    db.execute(
        "DELETE FROM draft WHERE session_id <> 0 AND session_id NOT IN (SELECT id FROM session)",
        [],
    )?;
    Ok(())
}
