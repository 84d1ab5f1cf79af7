use crate::{Answer, Awake, Choice, Desktop, Event, Listener, Login, Note, Wish};
use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// What [`Recorded`] was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asked {
    Login(bool),
    Awake(Option<String>),
    Note(Note),
    Choose(Wish),
}

/// A desktop for tests: does nothing, and remembers what it was asked.
#[derive(Default)]
pub struct Recorded(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    asked: Vec<Asked>,
    login: Login,
    choices: VecDeque<Choice>,
    listener: Option<Listener>,
}

impl Recorded {
    /// Everything so far, in order.
    pub fn asked(&self) -> Vec<Asked> {
        self.lock().asked.clone()
    }

    /// What the next file dialogs end with; without, they are cancelled.
    pub fn will_choose(&self, choice: Choice) {
        self.lock().choices.push_back(choice);
    }

    /// As if the system had said it.
    pub fn say(&self, event: Event) {
        let listener = self.lock().listener.clone();
        if let Some(listener) = listener {
            listener(event);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Desktop for Recorded {
    fn listen(&self, listener: Listener) {
        self.lock().listener = Some(listener);
    }

    fn login(&self) -> Login {
        self.lock().login.clone()
    }

    fn set_login(&self, on: bool) -> Result<Login, String> {
        let mut inner = self.lock();
        inner.asked.push(Asked::Login(on));
        inner.login = if on { Login::On } else { Login::Off };
        Ok(inner.login.clone())
    }

    fn stay_awake(&self, why: Option<String>) {
        self.lock().asked.push(Asked::Awake(why.clone()));
        self.say(Event::Awake(why.map_or(Awake::Free, |_| Awake::Held("a test".into()))));
    }

    fn notify(&self, note: Note) {
        self.lock().asked.push(Asked::Note(note));
        self.say(Event::Noted(Ok(())));
    }

    fn choose(&self, wish: Wish, answer: Answer) {
        let choice = {
            let mut inner = self.lock();
            inner.asked.push(Asked::Choose(wish));
            inner.choices.pop_front().unwrap_or(Choice::Cancelled)
        };
        answer(choice);
    }
}
