//! Whatever is typed in whatever order, the database and the tree in memory agree.
#![allow(clippy::unwrap_used)]

use dspark_sessions::{Message, MessageState, Meta, NewMessage, Role, Snippet, Store, Tree, snippet};
use proptest::prelude::*;

#[derive(Debug, Clone)]
enum Step {
    Add { parent: usize, text: String },
    Stream { parent: usize, pieces: Vec<String> },
    Activate { child: usize },
    Delete { message: usize },
    Restore { message: usize },
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (any::<usize>(), ".{0,40}").prop_map(|(parent, text)| Step::Add { parent, text }),
        3 => (any::<usize>(), prop::collection::vec(".{0,12}", 0..6)).prop_map(|(parent, pieces)| Step::Stream { parent, pieces }),
        2 => any::<usize>().prop_map(|child| Step::Activate { child }),
        1 => any::<usize>().prop_map(|message| Step::Delete { message }),
        1 => any::<usize>().prop_map(|message| Step::Restore { message }),
        1 => Just(Step::Reopen),
    ]
}

/// Both may carry the time of the same millisecond.
#[test]
fn what_was_deleted_before_its_question_stays_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap().store;
    let session = store.create_session("s");
    let question = store.add_message(NewMessage::new(session, None, Role::User, "Why?"));
    let kept = store.add_message(NewMessage::new(session, Some(question), Role::Assistant, "Because."));
    for _ in 0..20 {
        let gone = store.add_message(NewMessage::new(session, Some(question), Role::Assistant, "So."));
        store.delete_message(gone);
        store.delete_message(question);
        store.restore_message(question);
        store.flush().unwrap();
        let ids: Vec<i64> = store.messages(session).unwrap().iter().map(|message| message.id).collect();
        assert_eq!(ids, [question, kept]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_tree_in_memory_is_the_tree_on_disk(steps in prop::collection::vec(step(), 1..30)) {
        let folder = tempfile::tempdir().unwrap();
        let mut store = Store::open(folder.path()).unwrap().store;
        let session = store.create_session("s");
        let mut tree = Tree::default();
        let mut known: Vec<i64> = Vec::new();
        let mut removed = Vec::new();
        for step in steps {
            match step {
                Step::Add { parent, text } => {
                    let parent = (!known.is_empty()).then(|| parent % (known.len() + 1)).and_then(|at| known.get(at)).copied();
                    // A person cannot answer what is not shown.
                    let parent = parent.filter(|id| tree.get(*id).is_some());
                    let id = store.add_message(NewMessage::new(session, parent, Role::User, text));
                    store.flush().unwrap();
                    if let Some(message) = store.messages(session).unwrap().into_iter().find(|message| message.id == id) {
                        tree.add(message);
                        known.push(id);
                    }
                }
                Step::Stream { parent, pieces } => {
                    let parent = known.get(parent % known.len().max(1)).copied().filter(|id| tree.get(*id).is_some());
                    let new = NewMessage { state: MessageState::Streaming, ..NewMessage::new(session, parent, Role::Assistant, "") };
                    let id = store.add_message(new);
                    for piece in &pieces {
                        store.append(id, piece.as_str());
                    }
                    store.finish(id, MessageState::Done, Meta::default());
                    store.flush().unwrap();
                    let message = store.messages(session).unwrap().into_iter().find(|message| message.id == id).unwrap();
                    prop_assert_eq!(&message.text, &pieces.concat().replace('\0', "\u{FFFD}"));
                    tree.add(message);
                    known.push(id);
                }
                Step::Activate { child } if !known.is_empty() => {
                    let child = known[child % known.len()];
                    let Some(parent) = tree.get(child).map(|message| message.parent) else { continue };
                    if parent.is_some_and(|id| tree.get(id).is_none()) {
                        continue;
                    }
                    store.activate(session, parent, child);
                    tree.activate(parent, child);
                }
                Step::Delete { message } if !known.is_empty() => {
                    let id = known[message % known.len()];
                    if tree.path_to(id).first().is_none_or(|root| tree.get(*root).is_none_or(|root| root.parent.is_some())) {
                        continue;
                    }
                    store.delete_message(id);
                    removed.extend(tree.remove(id));
                }
                Step::Restore { message } if !removed.is_empty() => {
                    let message: Message = removed.remove(message % removed.len());
                    if message.parent.is_some_and(|id| tree.get(id).is_none()) {
                        removed.push(message);
                        continue;
                    }
                    store.restore_message(message.id);
                    store.activate(session, message.parent, message.id);
                    tree.restore(message);
                }
                Step::Reopen => {
                    drop(store);
                    store = Store::open(folder.path()).unwrap().store;
                }
                _ => {}
            }
            store.flush().unwrap();
            prop_assert_eq!(store.tree(session).unwrap().path(), tree.path());
        }
    }

    #[test]
    fn snippets_mark_what_was_asked(text in ".{0,400}", word in "[a-zA-Zß日本İ한é%_\"]{1,4}") {
        let Snippet { text: shown, matches } = snippet(&text, &[&word]);
        for range in matches {
            let marked: String = shown[range].chars().flat_map(char::to_lowercase).collect();
            let wanted: String = word.chars().flat_map(char::to_lowercase).collect();
            prop_assert_eq!(marked, wanted);
        }
        prop_assert!(shown.len() <= text.len() + 6);
    }

    #[test]
    fn any_query_is_safe(query in ".{0,30}") {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap().store;
        let session = store.create_session("title");
        store.add_message(NewMessage::new(session, None, Role::User, format!("before {query} after")));
        store.flush().unwrap();
        let hits = store.search(&query, 5).unwrap();
        let plain = query.chars().all(|c| c.is_ascii() && !c.is_ascii_control());
        if plain && !query.trim().is_empty() {
            prop_assert_eq!(hits.len(), 1);
        }
    }
}
