//! Linux: an XDG autostart entry, and D-Bus for the rest. Every call of the bus has its time limit and none is made on a
//! thread of the caller.

mod awake;
mod notes;
mod portal;

use crate::{Answer, Desktop, Event, Listener, Login, Note, Program, Wish, login::xdg::Autostart, thread};
use std::{
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError, mpsc},
    time::Duration,
};
use zbus::blocking::{Connection, connection::Builder};

/// A service that does not answer within this is as good as absent.
const PATIENCE: Duration = Duration::from_secs(8);

enum Command {
    Awake(Option<String>),
    Note(Note),
}

#[derive(Clone, Default)]
pub(crate) struct Voice(Arc<Mutex<Option<Listener>>>);

impl Voice {
    fn say(&self, event: Event) {
        let listener = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(listener) = listener {
            listener(event);
        }
    }
}

pub(crate) struct Linux {
    autostart: Option<Autostart>,
    voice: Voice,
    commands: mpsc::Sender<Command>,
}

impl Linux {
    pub(crate) fn new(program: Program) -> Self {
        let voice = Voice::default();
        let (commands, asked) = mpsc::channel();
        let speaker = voice.clone();
        thread("desktop", move || {
            let mut holder = awake::Holder::default();
            let mut notes = notes::Notes::new(speaker.clone());
            while let Ok(command) = asked.recv() {
                match command {
                    Command::Awake(why) => speaker.say(Event::Awake(holder.hold(why.as_deref()))),
                    Command::Note(note) => speaker.say(Event::Noted(notes.show(&note))),
                }
            }
        });
        Self {
            autostart: config().map(|config| Autostart::new(&config, program)),
            voice,
            commands,
        }
    }

    fn ask(&self, command: Command) {
        if self.commands.send(command).is_err() {
            tracing::error!("the thread `desktop` has ended early");
        }
    }
}

impl Desktop for Linux {
    fn listen(&self, listener: Listener) {
        *self.voice.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(listener);
    }

    fn login(&self) -> Login {
        match &self.autostart {
            Some(entry) => entry.read(),
            None => Login::Unavailable("No home folder is known to keep an entry in.".into()),
        }
    }

    fn set_login(&self, on: bool) -> Result<Login, String> {
        match &self.autostart {
            Some(entry) => entry.set(on),
            None => Err("No home folder is known to keep an entry in.".into()),
        }
    }

    fn stay_awake(&self, why: Option<String>) {
        self.ask(Command::Awake(why));
    }

    fn notify(&self, note: Note) {
        self.ask(Command::Note(note));
    }

    fn choose(&self, wish: Wish, answer: Answer) {
        thread("file dialog", move || answer(portal::choose(&wish)));
    }
}

/// The user's settings folder (XDG Base Directory).
fn config() -> Option<PathBuf> {
    let set = std::env::var_os("XDG_CONFIG_HOME")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute());
    set.or_else(|| Some(std::env::home_dir()?.join(".config")))
}

fn session() -> zbus::Result<Connection> {
    Builder::session()?.method_timeout(PATIENCE).build()
}

fn system() -> zbus::Result<Connection> {
    Builder::system()?.method_timeout(PATIENCE).build()
}

/// The reason in an error of the bus, in words for a person where it is one of the usual ones.
fn reason(error: &zbus::Error) -> String {
    match error {
        zbus::Error::MethodError(name, words, _) => match name.as_str() {
            "org.freedesktop.DBus.Error.ServiceUnknown" | "org.freedesktop.DBus.Error.NameHasNoOwner" => "nothing here offers it".into(),
            other => words.clone().unwrap_or_else(|| other.to_owned()),
        },
        zbus::Error::InputOutput(_) | zbus::Error::Address(_) | zbus::Error::Connection(..) => "no D-Bus is running here".into(),
        other => other.to_string(),
    }
}
