//! Sessions as a person uses them: writing, forking, finding, deleting, and coming back after a crash.
#![allow(clippy::unwrap_used)]

use dspark_sessions::{Error, Finish, MessageState, Meta, NewMessage, Role, Store, Usage};
use std::{fs, path::Path};

fn open(folder: &Path) -> Store {
    Store::open(folder).unwrap().store
}

fn streaming(session: i64, parent: i64) -> NewMessage {
    NewMessage {
        state: MessageState::Streaming,
        ..NewMessage::new(session, Some(parent), Role::Assistant, "")
    }
}

#[cfg(unix)]
#[test]
fn a_folder_that_is_made_for_chats_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let made = folder.path().join("new/data");
    let store = open(&made);
    assert_eq!((mode(&made), mode(&made.join("chats.db"))), (0o700, 0o600));
    drop(store);
    // One that somebody shares on purpose stays shared.
    let shared = folder.path().join("shared");
    fs::create_dir(&shared).unwrap();
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o755)).unwrap();
    let _store = open(&shared);
    assert_eq!(mode(&shared), 0o755);
}

#[test]
fn a_turn_survives_a_restart_with_its_figures() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let session = store.create_session("Greedy");
    let question = store.add_message(NewMessage::new(session, None, Role::User, "why?"));
    let answer = store.add_message(streaming(session, question));
    store.append(answer, "because ");
    store.append(answer, "it is 最优");
    store.flush().unwrap();
    assert_eq!(
        store.messages(session).unwrap()[1].text,
        "because it is 最优",
        "readable while streaming"
    );
    let meta = Meta {
        model: Some("starter".into()),
        seed: Some(u64::MAX),
        usage: Some(Usage {
            prompt: 12,
            cached: 4,
            completion: 3,
            reasoning: 0,
        }),
        ttft: Some(0.25),
        finish: Some(Finish::Stop),
        ..Meta::default()
    };
    store.finish(answer, MessageState::Done, meta.clone());
    store.save_draft(session, "next quest");
    drop(store);

    let opened = Store::open(folder.path()).unwrap();
    assert_eq!(opened.recovery, dspark_sessions::Recovery::default());
    let tree = opened.store.tree(session).unwrap();
    assert_eq!(tree.path(), [question, answer]);
    let answer = tree.get(answer).unwrap();
    assert_eq!((answer.text.as_str(), answer.state), ("because it is 最优", MessageState::Done));
    assert_eq!(answer.meta, meta);
    assert_eq!(opened.store.draft(session).unwrap(), "next quest");
}

#[test]
fn alternatives_and_branches() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let session = store.create_session("s");
    let ask = store.add_message(NewMessage::new(session, None, Role::User, "a"));
    let first = store.add_message(NewMessage::new(session, Some(ask), Role::Assistant, "1"));
    let follow = store.add_message(NewMessage::new(session, Some(first), Role::User, "b"));
    let second = store.add_message(NewMessage::new(session, Some(ask), Role::Assistant, "2"));
    store.flush().unwrap();
    assert_eq!(store.tree(session).unwrap().path(), [ask, second]);
    store.activate(session, Some(ask), first);
    store.flush().unwrap();
    let tree = store.tree(session).unwrap();
    assert_eq!(tree.path(), [ask, first, follow], "the other branch kept its follow-up");
    assert_eq!(tree.alternatives(second).ids, [first, second]);
    let edited = store.add_message(NewMessage::new(session, None, Role::User, "a, edited"));
    store.flush().unwrap();
    assert_eq!(store.tree(session).unwrap().path(), [edited]);
    store.delete_message(edited);
    store.flush().unwrap();
    assert_eq!(store.tree(session).unwrap().path(), [ask, first, follow]);
    // What hangs below a deleted message goes and comes with it, for the search too.
    let deep = store.add_message(NewMessage::new(session, Some(follow), Role::Assistant, "xylophone"));
    store.flush().unwrap();
    assert_eq!(store.search("xylophone", 5).unwrap().len(), 1);
    store.delete_message(first);
    store.flush().unwrap();
    assert!(store.search("xylophone", 5).unwrap().is_empty());
    assert_eq!(store.tree(session).unwrap().path(), [ask, second]);
    store.restore_message(first);
    store.activate(session, Some(ask), first);
    store.flush().unwrap();
    assert_eq!(store.tree(session).unwrap().path(), [ask, first, follow, deep]);
    store.restore_message(edited);
    store.flush().unwrap();
    assert_eq!(store.tree(session).unwrap().path(), [edited]);
}

#[test]
fn deleting_can_be_undone_until_the_purge() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let session = store.create_session("keep me");
    store.add_message(NewMessage::new(session, None, Role::User, "findable words"));
    store.delete_session(session);
    store.flush().unwrap();
    assert!(store.sessions(None, 10).unwrap().is_empty());
    assert!(store.search("findable", 10).unwrap().is_empty());
    store.restore_session(session);
    store.flush().unwrap();
    assert_eq!(store.search("findable", 10).unwrap().len(), 1);
    store.delete_session(session);
    store.purge(i64::MAX);
    store.restore_session(session);
    store.flush().unwrap();
    assert!(store.sessions(None, 10).unwrap().is_empty());
    assert_eq!(store.count_messages().unwrap(), 0);
}

#[test]
fn titles_a_person_gave_stay() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let session = store.create_session("New chat");
    store.rename_auto(session, "From the first line");
    store.flush().unwrap();
    assert_eq!(store.session(session).unwrap().unwrap().title, "From the first line");
    store.rename(session, "Mine");
    store.rename_auto(session, "Not this");
    store.pin(session, true);
    store.flush().unwrap();
    let head = store.session(session).unwrap().unwrap();
    assert_eq!((head.title.as_str(), head.pinned), ("Mine", true));
    assert_eq!(store.pinned().unwrap(), [head]);
}

#[test]
fn search_finds_every_script_and_shows_where() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let add = |title: &str, text: &str| {
        let session = store.create_session(title);
        store.add_message(NewMessage::new(session, None, Role::User, text));
        session
    };
    let english = add(
        "Meetings",
        "Sort by END time, then walk once\nand keep every span that starts at or after the last kept end.",
    );
    let chinese = add("中文", "今天的世界很好，好世界也很好");
    let korean = add("한국어", "안녕하세요 세계");
    let marks = add("marks", "100% of snake_case isn't \"quoted\" AND (odd)");
    store.flush().unwrap();
    let found = |query: &str| -> Vec<i64> { store.search(query, 10).unwrap().iter().map(|hit| hit.session.id).collect() };
    assert_eq!(found("end time"), [english]);
    assert_eq!(found("好世界"), [chinese]);
    assert_eq!(found("世界"), [chinese], "two characters, under a trigram");
    assert_eq!(found("세계"), [korean]);
    assert_eq!(found("meet"), [english], "by title");
    assert_eq!(found("\"quoted\" AND (odd)"), [marks], "no query syntax leaks");
    assert_eq!(found("0%"), [marks]);
    assert_eq!(found("e_c"), [marks]);
    assert_eq!(found("x_y"), Vec::<i64>::new());
    assert_eq!(found("   "), Vec::<i64>::new());
    let hit = store.search("keep END", 10).unwrap().remove(0);
    let snippet = hit.snippet.unwrap();
    let marked: Vec<&str> = snippet.matches.iter().map(|range| &snippet.text[range.clone()]).collect();
    assert!(marked.contains(&"keep") && marked.contains(&"END"), "{snippet:?}");
    assert!(!snippet.text.contains('\n'));
}

#[test]
fn a_second_window_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let first = open(folder.path());
    assert!(matches!(Store::open(folder.path()).map(|_| ()), Err(Error::InUse(_))));
    drop(first);
    open(folder.path());
}

#[test]
fn a_newer_format_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    drop(open(folder.path()));
    let db = rusqlite::Connection::open(folder.path().join("chats.db")).unwrap();
    db.pragma_update(None, "user_version", 99).unwrap();
    drop(db);
    assert!(matches!(
        Store::open(folder.path()).map(|_| ()),
        Err(Error::TooNew { found: 99, .. })
    ));
    assert!(folder.path().join("chats.db").exists());
}

#[test]
fn rubbish_in_place_of_the_database_is_put_aside() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("chats.db"), "not a database at all ".repeat(500)).unwrap();
    let opened = Store::open(folder.path()).unwrap();
    let aside = opened.recovery.quarantined.unwrap();
    assert!(fs::read_to_string(aside).unwrap().starts_with("not a database"));
    let session = opened.store.create_session("fresh");
    opened.store.flush().unwrap();
    assert_eq!(opened.store.sessions(None, 5).unwrap()[0].id, session);
}

#[test]
fn a_damaged_page_costs_itself_and_the_other_chats_open() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    for number in 0..200 {
        let session = store.create_session(format!("chat {number}"));
        store.add_message(NewMessage::new(session, None, Role::User, format!("text {number} ").repeat(40)));
    }
    drop(store);
    let path = folder.path().join("chats.db");
    let mut bytes = fs::read(&path).unwrap();
    // Overwrites one page in the middle of the messages.
    let needle = b"text 100 text 100";
    let hit = bytes.windows(needle.len()).position(|window| window == needle).unwrap();
    let page = hit / 4096 * 4096;
    bytes[page..page + 4096].fill(0xA5);
    fs::write(&path, bytes).unwrap();

    let opened = Store::open(folder.path()).unwrap();
    assert!(opened.recovery.quarantined.is_some());
    let (sessions, messages) = opened.recovery.rescued;
    assert_eq!(sessions, 200);
    assert!((180..200).contains(&messages), "{messages} of 200 messages were saved");
    assert_eq!(opened.store.sessions(None, 500).unwrap().len(), 200);
    assert_eq!(opened.store.search("text 199", 5).unwrap().len(), 1, "the copy is searchable");
}

#[test]
fn ten_thousand_sessions_page_by_page() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    for number in 0..10_000 {
        let session = store.create_session(format!("chat {number}"));
        store.add_message(NewMessage::new(session, None, Role::User, format!("question number {number}")));
    }
    store.flush().unwrap();
    let mut seen = std::collections::BTreeSet::new();
    let mut last = None;
    loop {
        let page = store.sessions(last.as_ref(), 200).unwrap();
        let Some(end) = page.last() else { break };
        last = Some(end.clone());
        for head in page {
            assert!(seen.insert(head.id), "no session twice");
        }
    }
    assert_eq!(seen.len(), 10_000);
    assert_eq!(store.search("number 9876", 5).unwrap().len(), 1);
}

#[test]
fn a_write_that_cannot_work_is_reported_and_the_rest_is_saved() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let (tell, told) = std::sync::mpsc::channel();
    store.on_error(move |text| tell.send(text).unwrap());
    let session = store.create_session("s");
    store.add_message(NewMessage::new(session + 77, None, Role::User, "no such session"));
    let good = store.add_message(NewMessage::new(session, None, Role::User, "good"));
    assert!(store.flush().is_err());
    assert!(
        told.recv_timeout(std::time::Duration::from_secs(5))
            .unwrap()
            .contains("FOREIGN KEY")
    );
    assert_eq!(store.messages(session).unwrap()[0].id, good);
}

#[test]
fn a_chat_keeps_its_own_options_until_it_gives_them_up() {
    let folder = tempfile::tempdir().unwrap();
    let session = {
        let store = Store::open(folder.path()).unwrap().store;
        let session = store.create_session("mine");
        store.save_options(session, Some(r#"{"temperature":0.2}"#.into()));
        store.flush().unwrap();
        assert_eq!(store.options(session + 1).unwrap(), None);
        session
    };
    let store = Store::open(folder.path()).unwrap().store;
    assert_eq!(store.options(session).unwrap().as_deref(), Some(r#"{"temperature":0.2}"#));
    store.save_options(session, None);
    store.flush().unwrap();
    assert_eq!(store.options(session).unwrap(), None);
}

#[test]
fn all_sessions_go_and_come_back_but_not_those_that_had_gone_before() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let (before, a, b) = (store.create_session("before"), store.create_session("a"), store.create_session("b"));
    store.delete_session(before);
    store.delete_all(5_000_000_000_000);
    store.flush().unwrap();
    assert!(store.sessions(None, 10).unwrap().is_empty());
    let new = store.create_session("new");
    store.restore_all(5_000_000_000_000);
    store.flush().unwrap();
    let mut found: Vec<i64> = store.sessions(None, 10).unwrap().iter().map(|head| head.id).collect();
    found.sort_unstable();
    assert_eq!(found, [a, b, new]);
}
