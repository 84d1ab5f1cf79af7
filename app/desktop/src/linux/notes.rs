//! Notifications through `org.freedesktop.Notifications` (Desktop Notifications Specification 1.2).

use super::{Voice, reason, session};
use crate::{Event, Note, thread};
use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, PoisonError},
};
use zbus::{
    MatchRule,
    blocking::{Connection, MessageIterator},
    zvariant::Value,
};

const NAME: &str = "org.freedesktop.Notifications";
const PATH: &str = "/org/freedesktop/Notifications";

pub(super) struct Notes {
    voice: Voice,
    service: Option<Service>,
}

struct Service {
    bus: Connection,
    /// The body may hold markup, so what is none must be escaped.
    markup: bool,
    actions: bool,
    /// Ours that may still be clicked.
    shown: Arc<Mutex<BTreeSet<u32>>>,
}

impl Notes {
    pub(super) fn new(voice: Voice) -> Self {
        Self { voice, service: None }
    }

    pub(super) fn show(&mut self, note: &Note) -> Result<(), String> {
        let shown = self.try_show(note);
        if shown.is_err() {
            // Whoever shows them may come back on another connection.
            self.service = None;
        }
        shown.map_err(|error| format!("Nothing here shows notifications ({}).", reason(&error)))
    }

    fn try_show(&mut self, note: &Note) -> zbus::Result<()> {
        let service = match &mut self.service {
            Some(service) => service,
            none => none.insert(Service::find(&self.voice)?),
        };
        let body = if service.markup { escaped(&note.body) } else { note.body.clone() };
        let actions: &[&str] = if service.actions { &["default", "Open"] } else { &[] };
        let hints = HashMap::from([("desktop-entry", Value::from("mlx-dspark"))]);
        let answer = service.bus.call_method(
            Some(NAME),
            PATH,
            Some(NAME),
            "Notify",
            &(
                "mlx-dspark",
                0u32,
                "mlx-dspark",
                note.title.as_str(),
                body.as_str(),
                actions,
                hints,
                -1i32,
            ),
        )?;
        let id: u32 = answer.body().deserialize()?;
        service.shown.lock().unwrap_or_else(PoisonError::into_inner).insert(id);
        Ok(())
    }
}

impl Service {
    fn find(voice: &Voice) -> zbus::Result<Self> {
        let bus = session()?;
        let answer = bus.call_method(Some(NAME), PATH, Some(NAME), "GetCapabilities", &())?;
        let abilities: Vec<String> = answer.body().deserialize()?;
        let can = |what: &str| abilities.iter().any(|ability| ability == what);
        let shown = Arc::new(Mutex::new(BTreeSet::new()));
        let service = Self {
            markup: can("body-markup"),
            actions: can("actions"),
            shown: shown.clone(),
            bus: bus.clone(),
        };
        if service.actions {
            // Two signals say that one has been clicked, or has gone.
            let rule = MatchRule::builder()
                .msg_type(zbus::message::Type::Signal)
                .interface(NAME)?
                .path(PATH)?
                .build();
            let signals = MessageIterator::for_match_rule(rule, &bus, None)?;
            let voice = voice.clone();
            thread("notification clicks", move || clicks(signals, &shown, &voice));
        }
        Ok(service)
    }
}

/// Until the connection ends.
fn clicks(signals: MessageIterator, shown: &Mutex<BTreeSet<u32>>, voice: &Voice) {
    for signal in signals.map_while(Result::ok) {
        let header = signal.header();
        let ours = |id: u32| shown.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
        let member = header.member().map(ToString::to_string).unwrap_or_default();
        match member.as_str() {
            "ActionInvoked" => {
                if let Ok((id, _)) = signal.body().deserialize::<(u32, String)>()
                    && ours(id)
                {
                    voice.say(Event::Clicked);
                }
            }
            "NotificationClosed" => {
                if let Ok((id, _)) = signal.body().deserialize::<(u32, u32)>() {
                    ours(id);
                }
            }
            _ => {}
        }
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
