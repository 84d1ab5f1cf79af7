//! Files: beside a message, and chats of other programs.

use super::support::*;
use dspark_sessions::import::{self, Import};
use dspark_window::state::{FilesMsg, Intake};

fn files(state: &mut State, message: FilesMsg) -> Vec<Effect> {
    update(state, Msg::Files(message))
}

fn attach(state: &mut State, name: &str, text: &str) -> Vec<Effect> {
    let file = dspark_attach::read(name, text.as_bytes()).unwrap();
    files(state, FilesMsg::Read(vec![Intake::Text(file)]))
}

#[test]
fn files_go_out_before_the_words() {
    let mut state = ready();
    state.screen = Screen::Models;
    let effects = attach(&mut state, "sum.py", "print(1 + 1)");
    assert_eq!(state.screen, Screen::Chat);
    let counted = effects.iter().find_map(|effect| match effect {
        Effect::CountTokens { prompt, .. } => Some(format!("{prompt:?}")),
        _ => None,
    });
    assert!(counted.unwrap().contains("print(1 + 1)"), "the meter knows of it");
    attach(&mut state, "b.txt", "two");
    files(&mut state, FilesMsg::Remove(1));
    let effects = say(&mut state, "What does it print?");
    let (_, request) = submitted(&effects);
    let said = &messages(&request)[0].1;
    assert_eq!(said, "File `sum.py`:\n\n```python\nprint(1 + 1)\n```\n\nWhat does it print?");
    assert!(state.chat.draft.files.is_empty());
    assert_eq!(state.chat.title, "What does it print?", "the words name the chat");
}

#[test]
fn a_file_alone_is_a_message() {
    let mut state = ready();
    attach(&mut state, "notes.txt", "buy milk");
    let effects = chat(&mut state, ChatMsg::Send);
    assert!(messages(&submitted(&effects).1)[0].1.contains("buy milk"));
    assert_eq!(state.chat.title, "notes.txt");
}

#[test]
fn a_long_paste_is_a_file() {
    let mut state = ready();
    files(&mut state, FilesMsg::Pasted("x\n".repeat(5000)));
    assert_eq!(state.chat.draft.files[0].lines(), 5000);
    assert_eq!(state.chat.draft.text, "");
}

#[test]
fn unsent_files_are_kept_when_another_chat_is_opened() {
    let mut state = ready();
    attach(&mut state, "a.txt", "important");
    chat(&mut state, ChatMsg::Compose("see".into()));
    let head = dspark_sessions::SessionHead {
        id: 7,
        title: "Other".into(),
        pinned: false,
        updated_at: 1,
    };
    update(
        &mut state,
        Msg::Sidebar(SidebarMsg::Listed {
            sessions: vec![head],
            end: true,
        }),
    );
    chat(&mut state, ChatMsg::Open(7));
    let effects = chat(
        &mut state,
        ChatMsg::Opened {
            session: 7,
            tree: Tree::default(),
            draft: String::new(),
            options: None,
        },
    );
    assert!(
        effects
            .iter()
            .any(|effect| matches!(effect, Effect::Store(StoreWrite::Draft { session: 0, text }) if text.contains("important")))
    );
    chat(&mut state, ChatMsg::New);
    let draft = &state.chat.draft;
    assert_eq!((draft.text.as_str(), draft.files.len()), ("see", 1));
    assert_eq!(draft.files[0].text, "important");
}

#[test]
fn a_kept_draft_has_its_files_after_a_start_too() {
    let mut state = ready();
    let effects = attach(&mut state, "a.txt", "important");
    let kept = effects
        .iter()
        .find_map(|effect| match effect {
            Effect::Store(StoreWrite::Draft { session: 0, text }) => Some(text.clone()),
            _ => None,
        })
        .unwrap();
    let mut state = ready();
    chat(&mut state, ChatMsg::Draft(kept));
    assert_eq!((state.chat.draft.text.as_str(), state.chat.draft.files.len()), ("", 1));
}

#[test]
fn an_edited_question_keeps_its_files() {
    let mut state = ready();
    attach(&mut state, "sum.py", "print(1 + 1)");
    let (id, _) = submitted(&say(&mut state, "What does it print?"));
    finish(&mut state, id, FinishReason::Stop { matched: None });
    chat(&mut state, ChatMsg::EditLast);
    let edit = state.chat.edit.clone().unwrap();
    assert_eq!((edit.text.as_str(), edit.files.len()), ("What does it print?", 1));
    chat(&mut state, ChatMsg::EditText("And why?".into()));
    let (_, request) = submitted(&chat(&mut state, ChatMsg::SendEdit));
    assert_eq!(
        messages(&request)[0].1,
        "File `sum.py`:\n\n```python\nprint(1 + 1)\n```\n\nAnd why?"
    );
}

#[test]
fn what_cannot_be_read_is_said() {
    let mut state = ready();
    let refused = Intake::Refused {
        title: "“a.png” was not added".into(),
        body: "it is a picture".into(),
    };
    files(&mut state, FilesMsg::Read(vec![refused]));
    assert!(state.chat.draft.files.is_empty());
    assert_eq!(state.toasts.latest().unwrap().title, "“a.png” was not added");
}

fn export() -> Import {
    let chat = r#"{"name":"Trip","createdAt":1700000000000,"messages":[
        {"versions":[{"role":"user","content":[{"type":"text","text":"Where to?"}]}],"currentlySelected":0},
        {"versions":[{"role":"assistant","content":[{"type":"text","text":"Lisbon"}]},{"role":"assistant","content":[{"type":"text","text":"Porto"}]}],"currentlySelected":0}]}"#;
    import::read(chat.as_bytes()).unwrap()
}

#[test]
fn imported_chats_are_stored_listed_and_taken_out_again() {
    let mut state = ready();
    let effects = files(&mut state, FilesMsg::Read(vec![Intake::Chats(export())]));
    assert!(matches!(&effects[0], Effect::Store(StoreWrite::ImportSession { id: 1, title, at: 1_700_000_000_000 }) if title == "Trip"));
    let texts: Vec<(String, Option<i64>)> = effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Store(StoreWrite::Add(message)) => Some((message.text.clone(), message.parent)),
            _ => None,
        })
        .collect();
    // The shown alternative is stored last, and so is the one that is shown.
    assert_eq!(
        texts,
        [("Where to?".into(), None), ("Porto".into(), Some(1)), ("Lisbon".into(), Some(1))]
    );
    assert_eq!(state.sidebar.sessions[0].title, "Trip");
    let toast = state.toasts.latest().unwrap();
    assert_eq!(toast.title, "1 chat imported from LM Studio");
    let undo = toast.id;
    let effects = update(&mut state, Msg::ToastAction(undo));
    assert!(
        effects
            .iter()
            .any(|effect| matches!(effect, Effect::Store(StoreWrite::DeleteSession(1))))
    );
    assert!(state.sidebar.sessions.is_empty());
}
