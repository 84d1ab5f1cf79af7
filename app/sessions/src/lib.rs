//! Chats in SQLite: sessions, trees of messages with alternatives, drafts, and full-text search.
//!
//! One process owns the database (a lock file says so). Every change goes through one writer thread and returns at
//! once; reads use a second connection (write-ahead log), so a reader never waits for a writer. A streaming answer is
//! appended in chunks at most [`STREAM_INTERVAL`] apart: what a crash can lose is less than one second of text, and
//! the next [`Store::open`] marks the message as interrupted.
//!
//! ```
//! # let folder = tempfile::tempdir().unwrap();
//! use dspark_sessions::{NewMessage, Role, Store};
//! let opened = Store::open(folder.path()).unwrap();
//! let store = opened.store;
//! let session = store.create_session("Interval scheduling");
//! let question = store.add_message(NewMessage::new(session, None, Role::User, "Pick the most meetings"));
//! store.flush().unwrap();
//! assert_eq!(store.messages(session).unwrap()[0].id, question);
//! ```

mod error;
mod group;
pub mod import;
mod model;
mod open;
mod read;
mod schema;
mod search;
mod store;
mod title;
mod tree;
mod writer;

pub use error::{Error, Result};
pub use group::{Group, GroupKind, group};
pub use model::{Finish, Message, MessageState, Meta, NewMessage, Role, SessionHead, Usage};
pub use open::{Opened, Recovery};
pub use search::{Hit, Snippet, snippet};
pub use store::Store;
pub use title::auto_title;
pub use tree::{Alternatives, Tree};
pub use writer::STREAM_INTERVAL;

/// Milliseconds since the Unix epoch.
pub type Millis = i64;

/// The time now.
pub fn now() -> Millis {
    jiff::Timestamp::now().as_millisecond()
}
