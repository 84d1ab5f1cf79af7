//! The test program starts itself as a child that streams an answer, kills it with SIGKILL, and counts what is left.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use dspark_sessions::{MessageState, NewMessage, Role, Store};
use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

const CHILD: &str = "DSPARK_CRASH_CHILD";

/// Streams numbered words forever, and says on standard output when each was handed over.
fn child(folder: &Path) {
    let store = Store::open(folder).unwrap().store;
    let session = store.create_session("crash");
    let question = store.add_message(NewMessage::new(session, None, Role::User, "count"));
    let answer = store.add_message(NewMessage {
        state: MessageState::Streaming,
        ..NewMessage::new(session, Some(question), Role::Assistant, "")
    });
    store.save_draft(session, "half a question");
    store.flush().unwrap();
    for word in 0.. {
        store.append(answer, format!("{word} "));
        println!("{session} {answer} {word}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn killed_while_streaming() {
    if let Some(folder) = std::env::var_os(CHILD) {
        return child(Path::new(&folder));
    }
    for round in 0..6 {
        let folder = tempfile::tempdir().unwrap();
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["killed_while_streaming", "--exact", "--nocapture"])
            .env(CHILD, folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let life = Duration::from_millis(700 + 137 * round);
        let mut handed: Vec<(Instant, i64)> = Vec::new();
        let mut ids = (0, 0);
        let begin = Instant::now();
        for line in BufReader::new(process.stdout.take().unwrap()).lines() {
            let line = line.unwrap();
            let fields: Vec<i64> = line.split(' ').filter_map(|field| field.parse().ok()).collect();
            if let [session, answer, word] = fields[..] {
                ids = (session, answer);
                handed.push((Instant::now(), word));
            }
            if begin.elapsed() > life && handed.len() > 20 {
                break;
            }
        }
        process.kill().unwrap();
        let killed = Instant::now();
        process.wait().unwrap();

        let opened = Store::open(folder.path()).unwrap();
        assert_eq!(opened.recovery.interrupted, 1);
        assert_eq!(opened.recovery.quarantined, None);
        let tree = opened.store.tree(ids.0).unwrap();
        let answer = tree.get(ids.1).unwrap();
        assert_eq!(answer.state, MessageState::Interrupted);
        let kept: Vec<i64> = answer.text.split_whitespace().map(|word| word.parse().unwrap()).collect();
        assert!(
            kept.iter().enumerate().all(|(at, word)| at as i64 == *word),
            "no gap, nothing twice"
        );
        let kept = kept.last().copied().unwrap_or(-1);
        // A second ago, every word handed over by then must be on disk.
        let due = handed
            .iter()
            .filter(|(at, _)| killed.duration_since(*at) > Duration::from_secs(1))
            .map(|(_, word)| *word);
        assert!(
            due.max().unwrap_or(-1) <= kept,
            "lost more than one second: {kept} of {:?}",
            handed.last()
        );
        assert_eq!(opened.store.draft(ids.0).unwrap(), "half a question");
        assert_eq!(
            opened.store.search("98 99", 5).unwrap().len(),
            usize::from(kept >= 99),
            "what was kept is searchable"
        );
    }
}
