//! The manners of a desktop app: launch at login, a machine that stays awake while it works, notifications, and the
//! system's file dialogs.
//!
//! One trait, [`Desktop`], with a Linux implementation over files and D-Bus, a macOS one over files and Apple's
//! frameworks, and [`Recorded`] for tests. Nothing here knows windows or models.

pub mod login;

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "macos")]
mod macos;
mod recorded;

pub use login::Login;
pub use recorded::{Asked, Recorded};

use std::{path::PathBuf, sync::Arc};

/// The program as the system is told to start it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Program {
    pub path: PathBuf,
    /// At login, after the path.
    pub arguments: Vec<String>,
}

/// A notification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    pub title: String,
    pub body: String,
}

/// What a file dialog is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wish {
    /// Files that are there already. `endings` without dots; none of them: every file.
    Files {
        title: String,
        endings: Vec<String>,
    },
    Folder {
        title: String,
    },
    /// A place for a new file of this name.
    Save {
        title: String,
        name: String,
    },
}

/// How a file dialog ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice {
    /// At least one; exactly one for a folder or a new file.
    Chosen(Vec<PathBuf>),
    Cancelled,
    /// There is no dialog here: why, in a sentence for a person.
    Unavailable(String),
}

/// Whether the system is kept from sleeping by itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Awake {
    /// It may sleep.
    #[default]
    Free,
    /// Something has promised not to: what.
    Held(String),
    /// Nothing here could be asked, or all refused: why, in a sentence for a person.
    Refused(String),
}

/// What the desktop says, on a thread of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    Awake(Awake),
    /// A notification was taken, or why not, in a sentence for a person.
    Noted(Result<(), String>),
    /// A notification of ours was clicked.
    Clicked,
}

/// Hears of [`Event`]s; must not block.
pub type Listener = Arc<dyn Fn(Event) + Send + Sync>;

/// Called once, on a thread of its own.
pub type Answer = Box<dyn FnOnce(Choice) + Send>;

/// The desktop around the program.
pub trait Desktop: Send + Sync {
    /// Who hears what the desktop says; replaces the one before.
    fn listen(&self, listener: Listener);

    /// Whether the program is started at login. Reads a file.
    fn login(&self) -> Login;

    /// Has the program started at login from now on, or no more. Writes a file.
    ///
    /// # Errors
    /// Why that cannot be, in a sentence for a person.
    fn set_login(&self, on: bool) -> Result<Login, String>;

    /// Keeps the system from sleeping by itself while there is a reason; `None` lets it. A lid that is closed or a person
    /// who asks for sleep still gets it. Returns at once; [`Event::Awake`] follows.
    fn stay_awake(&self, why: Option<String>);

    /// Returns at once; [`Event::Noted`] follows.
    fn notify(&self, note: Note);

    /// Opens a file dialog. Call it from the thread of the window (macOS insists); returns at once.
    fn choose(&self, wish: Wish, answer: Answer);
}

/// This system's desktop. `program` is what is started at login.
pub fn of_this_system(program: Program) -> Arc<dyn Desktop> {
    #[cfg(target_os = "linux")]
    {
        Arc::new(linux::Linux::new(program))
    }
    #[cfg(target_os = "macos")]
    {
        Arc::new(macos::Mac::new(program))
    }
    #[cfg(not(any(target_os = "linux", target_os = "macos")))]
    {
        let _ = program;
        Arc::new(NoDesktop)
    }
}

/// A desktop that can do none of it, and says so.
pub struct NoDesktop;

/// What [`NoDesktop`] answers.
const NOT_HERE: &str = "This build does not know how to ask this system.";

impl Desktop for NoDesktop {
    fn listen(&self, _: Listener) {}

    fn login(&self) -> Login {
        Login::Unavailable(NOT_HERE.into())
    }

    fn set_login(&self, _: bool) -> Result<Login, String> {
        Err(NOT_HERE.into())
    }

    fn stay_awake(&self, _: Option<String>) {}

    fn notify(&self, _: Note) {}

    fn choose(&self, _: Wish, answer: Answer) {
        answer(Choice::Unavailable(NOT_HERE.into()));
    }
}

/// Starts a thread; one that cannot be started is only logged, since nothing waits for it.
#[cfg(any(target_os = "linux", target_os = "macos"))]
fn thread(name: &str, work: impl FnOnce() + Send + 'static) {
    if let Err(error) = std::thread::Builder::new().name(name.into()).spawn(work) {
        tracing::error!("cannot start the thread `{name}`: {error}");
    }
}
