//! The whole program, killed in the middle of an answer, twenty times: the next start has every chat, and of the
//! interrupted answer all but the last second.
//!
//! A real window on a virtual screen, the starter model, keys typed by xdotool. (Downloads are killed in
//! `engine/hub/tests/download.rs`, settings in `app/window/tests/settings_kill.rs`.) `MLX_DSPARK_KILLS` asks for more rounds.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

use dspark_hub::{Hub, Job};
use dspark_sessions::{Message, MessageState, Role, Store};
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant, SystemTime},
};

/// How often it is killed.
fn kills() -> u32 {
    std::env::var("MLX_DSPARK_KILLS").map_or(20, |kills| kills.parse().unwrap())
}

/// What may be lost, and how late a busy machine may run the writer.
const LOSS: Duration = Duration::from_millis(1000 + 500);

struct Screen(Child, String);

impl Screen {
    fn open() -> Self {
        let mut server = Command::new("Xvfb")
            .args(["-displayfd", "1", "-screen", "0", "1280x800x24", "+extension", "GLX"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("Xvfb is needed (`packaging/setup.sh test` installs it)");
        let mut number = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut number).unwrap();
        Self(server, format!(":{}", number.trim()))
    }

    fn xdotool(&self, args: &[&str]) -> String {
        let output = Command::new("xdotool")
            .args(args)
            .env("DISPLAY", &self.1)
            .output()
            .expect("xdotool is needed");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn health(port: u16) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    write!(stream, "GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").ok()?;
    let mut reply = String::new();
    stream.read_to_string(&mut reply).ok()?;
    Some(reply)
}

fn wait_for(what: &str, mut seen: impl FnMut() -> bool) {
    let start = Instant::now();
    while !seen() {
        assert!(start.elapsed() < Duration::from_mins(1), "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// When the chats were last written.
fn last_write(folder: &Path) -> SystemTime {
    let written = |file: &str| std::fs::metadata(folder.join(file)).and_then(|meta| meta.modified()).ok();
    ["chats.db", "chats.db-wal"].into_iter().filter_map(written).max().unwrap()
}

/// Every message on disk, by conversation.
fn everything(folder: &Path) -> Vec<Vec<Message>> {
    let opened = Store::open(folder).unwrap();
    assert_eq!(opened.recovery.quarantined, None, "the database did not open as it was");
    let mut sessions = opened.store.sessions(None, 100).unwrap();
    sessions.sort_by_key(|session| session.id);
    sessions.iter().map(|session| opened.store.messages(session.id).unwrap()).collect()
}

#[test]
fn a_killed_chat_loses_at_most_a_second() {
    dspark_hub::block_on(Hub::from_env().starter(&Job::silent()))
        .unwrap()
        .expect("this test needs the starter model");
    let folder = tempfile::tempdir().unwrap();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let settings = format!("[server]\nenabled = true\nport = {port}\n[chat]\ntemperature = 0.0\nmax_tokens = 4000\n");
    std::fs::write(folder.path().join("settings.toml"), settings).unwrap();
    let screen = Screen::open();
    let mut before: Vec<Vec<Message>> = Vec::new();

    for round in 0..kills() {
        let mut app = Command::new(env!("CARGO_BIN_EXE_mlx-dspark"))
            .args(["app", "--model", "starter", "--data-dir"])
            .arg(folder.path())
            .env("DISPLAY", &screen.1)
            .env("LIBGL_ALWAYS_SOFTWARE", "1")
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        wait_for("a loaded model", || {
            health(port).is_some_and(|reply| reply.contains("\"state\":\"ready\""))
        });
        let window = screen.xdotool(&["search", "--name", "mlx-dspark"]);
        screen.xdotool(&["windowfocus", window.lines().next().unwrap_or_default()]);
        // The composer has the keyboard from the start; the window needs a frame to learn that it has it itself.
        std::thread::sleep(Duration::from_millis(400));
        screen.xdotool(&[
            "type",
            "--delay",
            "12",
            &format!("Number {round}: write a very long story about the sea."),
        ]);
        screen.xdotool(&["key", "Return"]);
        wait_for("an answer", || {
            health(port).is_some_and(|reply| reply.contains("\"state\":\"generating\""))
        });
        let begun = Instant::now();
        // Another moment each time: in the first words, between two writes, much later.
        std::thread::sleep(Duration::from_millis(u64::from(round * 37 % 20) * 110));
        let streaming = health(port).is_some_and(|reply| reply.contains("\"state\":\"generating\""));
        let (killed, killed_after) = (SystemTime::now(), begun.elapsed());
        app.kill().unwrap();
        app.wait().unwrap();

        let age = killed.duration_since(last_write(folder.path())).unwrap_or_default();
        let now = everything(folder.path());
        assert_eq!(now.len(), before.len() + 1, "round {round}: a chat is missing or one too many");
        assert_eq!(now[..before.len()], before[..], "round {round}: an older chat has changed");
        let [question, answer] = &now[before.len()][..] else {
            panic!("round {round}: {:?}", now[before.len()]);
        };
        assert_eq!((question.role, answer.role), (Role::User, Role::Assistant));
        assert!(question.text.starts_with(&format!("Number {round}")), "{:?}", question.text);
        if streaming {
            assert_eq!(answer.state, MessageState::Interrupted, "round {round}");
            // Nothing can be lost that was not there yet.
            let lost = age.min(killed_after);
            assert!(
                lost < LOSS,
                "round {round}: the last write was {age:?} before the kill, the answer {killed_after:?} old"
            );
        }
        before = now;
    }
    assert!(
        before.iter().any(|chat| chat[1].text.len() > 40),
        "no answer was ever cut in the middle"
    );
}
