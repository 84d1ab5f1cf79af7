//! One window for one data folder: a second start asks the first one to come forward, with its model if it names one.
//!
//! The first listens on a socket that only its owner can write to. What comes over it is one line, `focus` or
//! `load`, a tab, a name, a tab, and a path.

use super::StartModel;
use crate::{
    bridge::Inbox,
    state::{ModelsMsg, Msg},
};
use std::path::Path;

/// Asks the window of `data_dir` to come forward. False when there is none.
#[cfg(unix)]
pub fn focus_running(data_dir: &Path, model: Option<&StartModel>) -> bool {
    use std::{io::Write, os::unix::net::UnixStream, time::Duration};
    let Ok(mut socket) = UnixStream::connect(place(data_dir)) else {
        return false;
    };
    let line = match model {
        Some(model) => format!("load\t{}\t{}\n", model.name, model.path.display()),
        None => "focus\n".into(),
    };
    let _ = socket.set_write_timeout(Some(Duration::from_secs(2)));
    socket.write_all(line.as_bytes()).is_ok()
}

#[cfg(not(unix))]
pub fn focus_running(_: &Path, _: Option<&StartModel>) -> bool {
    false
}

/// Answers later starts, for as long as the process lives. The caller holds the data folder's lock, so an older socket
/// there belongs to nobody.
#[cfg(unix)]
pub(super) fn listen(data_dir: &Path, inbox: Inbox) {
    use std::{
        io::{BufRead, BufReader, Read},
        os::unix::net::UnixListener,
        time::Duration,
    };
    let path = place(data_dir);
    let _ = std::fs::remove_file(&path);
    let listener = match UnixListener::bind(&path) {
        Ok(listener) => listener,
        Err(error) => {
            tracing::warn!("a second start will not find this window: {}: {error}", path.display());
            return;
        }
    };
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let _ = std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600));
    }
    let serve = move || {
        for socket in listener.incoming().flatten() {
            let _ = socket.set_read_timeout(Some(Duration::from_secs(2)));
            let mut line = String::new();
            // Longer than any path: nobody may fill the memory.
            if BufReader::new(socket.take(16 << 10)).read_line(&mut line).is_ok() {
                for message in messages(line.trim_end_matches('\n')) {
                    inbox.push(message);
                }
            }
        }
    };
    if let Err(error) = std::thread::Builder::new().name("instance".into()).spawn(serve) {
        tracing::error!("cannot start the thread `instance`: {error}");
    }
}

#[cfg(not(unix))]
pub(super) fn listen(_: &Path, _: Inbox) {}

/// In the data folder, or beside other temporary files where its path is too long for a socket.
#[cfg(unix)]
fn place(data_dir: &Path) -> std::path::PathBuf {
    use std::hash::{DefaultHasher, Hash, Hasher};
    const LONGEST: usize = 100;
    let near = data_dir.join("window.sock");
    if near.as_os_str().len() <= LONGEST {
        return near;
    }
    let mut hasher = DefaultHasher::new();
    data_dir.hash(&mut hasher);
    std::env::temp_dir().join(format!("mlx-dspark-{:016x}.sock", hasher.finish()))
}

/// What a line from a later start means.
fn messages(line: &str) -> Vec<Msg> {
    let mut parts = line.splitn(3, '\t');
    match (parts.next(), parts.next(), parts.next()) {
        (Some("focus"), None, _) => vec![Msg::ShowWindow],
        (Some("load"), Some(_), Some(path)) => vec![Msg::ShowWindow, Msg::Models(ModelsMsg::LoadPath(path.into()))],
        _ => Vec::new(),
    }
}

#[cfg(all(test, unix))]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::time::{Duration, Instant};

    fn received(inbox: &Inbox) -> Vec<Msg> {
        let begin = Instant::now();
        loop {
            let messages: Vec<Msg> = inbox.drain().into();
            if !messages.is_empty() || begin.elapsed() > Duration::from_secs(10) {
                return messages;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn a_second_start_brings_the_first_window_forward() {
        let folder = tempfile::tempdir().unwrap();
        assert!(!focus_running(folder.path(), None), "nobody is there");
        let inbox = Inbox::default();
        listen(folder.path(), inbox.clone());
        assert!(focus_running(folder.path(), None));
        assert!(matches!(received(&inbox)[..], [Msg::ShowWindow]));
        let model = StartModel {
            name: "big".into(),
            path: "/models/big one".into(),
        };
        assert!(focus_running(folder.path(), Some(&model)));
        let mut got = received(&inbox);
        if got.len() < 2 {
            got.extend(received(&inbox));
        }
        assert!(matches!(&got[..], [Msg::ShowWindow, Msg::Models(ModelsMsg::LoadPath(path))] if path == Path::new("/models/big one")));
    }

    #[test]
    fn a_socket_left_behind_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        drop(std::os::unix::net::UnixListener::bind(place(folder.path())).unwrap());
        assert!(!focus_running(folder.path(), None), "the file is there, its owner is not");
        let inbox = Inbox::default();
        listen(folder.path(), inbox.clone());
        assert!(focus_running(folder.path(), None));
        assert_eq!(received(&inbox).len(), 1);
    }

    #[test]
    fn anything_else_means_nothing() {
        for line in ["", "quit", "load\tonly a name", "focus\tmore", "load"] {
            assert!(messages(line).is_empty(), "{line}");
        }
        let long = Path::new("/").join("x".repeat(200));
        assert!(place(&long).as_os_str().len() < 104);
    }
}
