use crate::{Error, Result};
use rusqlite::Connection;

/// One entry per format version; `user_version` counts how many have run. Never edit an entry: add one.
const MIGRATIONS: [&str; 2] = [include_str!("schema_1.sql"), include_str!("schema_2.sql")];

/// Brings the database to this version's format, each step in one transaction.
///
/// # Errors
/// [`Error::TooNew`] when a later version wrote the file.
pub(crate) fn migrate(db: &mut Connection) -> Result<()> {
    let known = MIGRATIONS.len() as i64;
    let found: i64 = db.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    if found > known {
        return Err(Error::TooNew { found, known });
    }
    for (index, migration) in MIGRATIONS.iter().enumerate().skip(found as usize) {
        let step = db.transaction()?;
        step.execute_batch(migration)?;
        step.pragma_update(None, "user_version", index as i64 + 1)?;
        step.commit()?;
    }
    Ok(())
}

/// Write-ahead log: a killed process loses nothing that was committed, and readers never wait.
pub(crate) fn configure(db: &Connection) -> Result<()> {
    db.busy_timeout(std::time::Duration::from_secs(5))?;
    db.execute_batch(
        "PRAGMA journal_mode = WAL;
         PRAGMA synchronous = NORMAL;
         PRAGMA foreign_keys = ON;
         PRAGMA secure_delete = FAST;
         PRAGMA temp_store = MEMORY;
         PRAGMA journal_size_limit = 8388608;",
    )?;
    Ok(())
}
