//! File dialogs through `org.freedesktop.portal.FileChooser`: the desktop's own dialog, without a toolkit in this process.
//! The call answers with a request at once; its `Response` signal comes when the person has chosen.

use super::{reason, session};
use crate::{Choice, Wish};
use std::{
    collections::HashMap,
    ffi::OsString,
    os::unix::ffi::OsStringExt,
    path::PathBuf,
    sync::atomic::{AtomicU32, Ordering},
};
use zbus::{
    MatchRule,
    blocking::{Connection, MessageIterator},
    zvariant::{OwnedObjectPath, OwnedValue, Value},
};

const NAME: &str = "org.freedesktop.portal.Desktop";
const PATH: &str = "/org/freedesktop/portal/desktop";
const CHOOSER: &str = "org.freedesktop.portal.FileChooser";
const REQUEST: &str = "org.freedesktop.portal.Request";

/// Waits for the person; the window does not.
pub(super) fn choose(wish: &Wish) -> Choice {
    match ask(wish) {
        Ok(choice) => choice,
        Err(error) => {
            tracing::info!("no file dialog: {error}");
            Choice::Unavailable(format!("This desktop has no file dialog to lend ({}).", reason(&error)))
        }
    }
}

fn ask(wish: &Wish) -> zbus::Result<Choice> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let bus = session()?;
    let token = format!("mlx_dspark_{}_{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    // Listened to before the call: a quick answer would come too early. Older portals use another path than the token
    // gives, so all requests of this connection are heard; it has only this one.
    let rule = MatchRule::builder()
        .msg_type(zbus::message::Type::Signal)
        .sender(NAME)?
        .interface(REQUEST)?
        .member("Response")?
        .build();
    let responses = MessageIterator::for_match_rule(rule, &bus, None)?;
    let gone = closed(&bus)?;
    let handle = call(&bus, wish, &token)?;
    tracing::debug!("file dialog {}", handle.as_str());
    for response in responses {
        let response = response?;
        if response.header().path().is_some_and(|path| path.as_str() == handle.as_str()) {
            drop(gone);
            return answer(&response);
        }
    }
    Err(zbus::Error::Failure("the portal has gone".into()))
}

/// Ends the connection, and so the wait, when the portal's process does.
fn closed(bus: &Connection) -> zbus::Result<Watch> {
    let rule = MatchRule::builder()
        .msg_type(zbus::message::Type::Signal)
        .interface("org.freedesktop.DBus")?
        .member("NameOwnerChanged")?
        .arg(0, NAME)?
        .build();
    let changes = MessageIterator::for_match_rule(rule, bus, None)?;
    let watched = bus.clone();
    crate::thread("portal watch", move || {
        for change in changes.map_while(Result::ok) {
            let now: Result<(String, String, String), _> = change.body().deserialize();
            if now.is_ok_and(|(_, before, now)| !before.is_empty() && now.is_empty()) {
                let _ = watched.clone().close();
                return;
            }
        }
    });
    Ok(Watch(bus.clone()))
}

/// Closes the connection when the dialog is over, which ends the thread that watches.
struct Watch(Connection);

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.0.clone().close();
    }
}

fn call(bus: &Connection, wish: &Wish, token: &str) -> zbus::Result<OwnedObjectPath> {
    let mut options: HashMap<&str, Value<'_>> = HashMap::from([("handle_token", Value::from(token)), ("modal", Value::from(true))]);
    let (method, title) = match wish {
        Wish::Files { title, endings } => {
            options.insert("multiple", Value::from(true));
            if !endings.is_empty() {
                // Kind 0 is a glob.
                let globs: Vec<(u32, String)> = endings.iter().map(|ending| (0u32, format!("*.{ending}"))).collect();
                options.insert("filters", Value::from(vec![(title.clone(), globs)]));
            }
            ("OpenFile", title)
        }
        Wish::Folder { title } => {
            options.insert("directory", Value::from(true));
            ("OpenFile", title)
        }
        Wish::Save { title, name } => {
            options.insert("current_name", Value::from(name.as_str()));
            ("SaveFile", title)
        }
    };
    // An empty window: the dialog stands for itself. The handle of this one is not known here, nor needed.
    bus.call_method(Some(NAME), PATH, Some(CHOOSER), method, &("", title.as_str(), options))?
        .body()
        .deserialize()
}

fn answer(response: &zbus::Message) -> zbus::Result<Choice> {
    let body = response.body();
    let (code, mut results): (u32, HashMap<String, OwnedValue>) = body.deserialize()?;
    match code {
        0 => {}
        1 => return Ok(Choice::Cancelled),
        _ => return Err(zbus::Error::Failure("it ended by itself".into())),
    }
    let uris: Vec<String> = match results.remove("uris") {
        Some(uris) => uris.try_into().map_err(zbus::Error::from)?,
        None => Vec::new(),
    };
    let paths: Vec<PathBuf> = uris.iter().filter_map(|uri| path(uri)).collect();
    Ok(if paths.is_empty() {
        Choice::Cancelled
    } else {
        Choice::Chosen(paths)
    })
}

/// `file:///home/a%20b` is `/home/a b`; what is not on this machine has no path.
fn path(uri: &str) -> Option<PathBuf> {
    let rest = uri.strip_prefix("file://")?;
    let at = rest.find('/')?;
    if !matches!(&rest[..at], "" | "localhost") {
        return None;
    }
    let mut bytes = Vec::new();
    let mut letters = rest[at..].bytes();
    while let Some(letter) = letters.next() {
        if letter == b'%' {
            let digit = |letter: Option<u8>| char::from(letter?).to_digit(16);
            bytes.push((digit(letters.next())? * 16 + digit(letters.next())?) as u8);
        } else {
            bytes.push(letter);
        }
    }
    Some(PathBuf::from(OsString::from_vec(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_files() {
        assert_eq!(path("file:///home/a%20b/%C3%A9.txt"), Some(PathBuf::from("/home/a b/é.txt")));
        assert_eq!(path("file://localhost/x"), Some(PathBuf::from("/x")));
        assert_eq!(path("file://elsewhere/x"), None);
        assert_eq!(path("https://x.org/y"), None);
        assert_eq!(path("file:///bad%2"), None);
    }
}
