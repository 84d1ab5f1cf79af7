use std::path::PathBuf;

/// Why a chat could not be read or saved: what happened, the likely cause, what to do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the chats in `{}` are open in another window of this app: use that one, or quit it first", .0.display())]
    InUse(PathBuf),
    #[error("cannot use the folder `{}`: {cause}; check that it exists and that you may write to it", path.display())]
    Folder { path: PathBuf, cause: std::io::Error },
    #[error("the chats were written by a newer version of this app (format {found}, this one reads up to {known}): update the app")]
    TooNew { found: i64, known: i64 },
    #[error("the chat database answered: {0}")]
    Database(#[from] rusqlite::Error),
    #[error("the thread that saves chats has stopped: restart the app")]
    Stopped,
}

pub type Result<T, E = Error> = std::result::Result<T, E>;

/// True when the file itself is damaged, so that opening it again cannot help.
pub(crate) fn is_damage(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
    matches!(error.sqlite_error_code(), Some(DatabaseCorrupt | NotADatabase))
}

/// True when the same write may work later: the disk is full, or somebody holds the file.
pub(crate) fn is_passing(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{DatabaseBusy, DatabaseLocked, DiskFull, SystemIoFailure};
    matches!(
        error.sqlite_error_code(),
        Some(DatabaseBusy | DatabaseLocked | DiskFull | SystemIoFailure)
    )
}
