//! All of a person's data at once.

use super::support::*;
use dspark_window::state::{DataMsg, Exported, Report};

fn data(state: &mut State, message: DataMsg) -> Vec<Effect> {
    update(state, message.into())
}

fn head(id: i64) -> dspark_sessions::SessionHead {
    dspark_sessions::SessionHead {
        id,
        title: format!("Chat {id}"),
        pinned: false,
        updated_at: id,
    }
}

#[test]
fn all_chats_are_deleted_after_a_question_and_come_back() {
    let mut state = ready();
    state.screen = Screen::Settings;
    let listed = SidebarMsg::Listed {
        sessions: vec![head(1), head(2)],
        end: true,
    };
    update(&mut state, Msg::Sidebar(listed));
    say(&mut state, "still being answered");
    state.screen = Screen::Settings;
    assert!(data(&mut state, DataMsg::AskDeleteAll(true)).is_empty());
    assert!(state.data.asking && !state.sidebar.sessions.is_empty(), "not before the answer");
    state.clock.millis = 1234;
    let effects = data(&mut state, DataMsg::DeleteAll);
    assert!(effects.contains(&Effect::Store(StoreWrite::DeleteAll { at: 1234 })));
    assert!(effects.iter().any(|effect| matches!(effect, Effect::CancelTurn(_))));
    assert!(state.sidebar.sessions.is_empty() && state.chat.session.is_none() && !state.data.asking);
    assert_eq!(state.screen, Screen::Settings);
    let undo = state.toasts.latest().unwrap().id;
    let effects = update(&mut state, Msg::ToastAction(undo));
    assert_eq!(effects[0], Effect::Store(StoreWrite::RestoreAll { at: 1234 }));
    assert!(effects.contains(&Effect::ListSessions { after: None }));
}

#[test]
fn an_export_ends_with_where_it_is_or_why_not() {
    let mut state = ready();
    assert!(matches!(&data(&mut state, DataMsg::ExportAll)[..], [Effect::ExportChats { .. }]));
    assert!(data(&mut state, DataMsg::ExportAll).is_empty(), "one at a time");
    let done = Exported {
        path: "/home/a/all.json".into(),
        chats: 12,
    };
    data(&mut state, DataMsg::Exported(Ok(Some(done))));
    assert_eq!(state.toasts.latest().unwrap().title, "12 chats exported");
    data(&mut state, DataMsg::ExportAll);
    data(&mut state, DataMsg::Exported(Ok(None)));
    assert_eq!(
        state.toasts.latest().unwrap().title,
        "12 chats exported",
        "thinking better of it is no news"
    );
    data(&mut state, DataMsg::ExportAll);
    data(&mut state, DataMsg::Exported(Err("the disk is full".into())));
    assert!(state.toasts.latest().unwrap().body.contains("disk is full"));
}

#[test]
fn a_report_is_seen_before_it_is_saved_and_holds_no_words_of_anybody() {
    let mut state = ready();
    state.settings.server.api_key = "sk-very-secret-key".into();
    state.settings.chat.system_prompt = "Maria likes tea".into();
    turn(&mut state, "my secret question", "a private answer");
    let effects = data(&mut state, DataMsg::Report);
    let [Effect::GatherReport(gathered)] = &effects[..] else {
        panic!("{effects:?}")
    };
    for gone in ["very-secret", "Maria", "secret question", "private answer"] {
        assert!(!gathered.text.contains(gone), "{gone} in {}", gathered.text);
    }
    assert!(gathered.text.contains("Model: starter"));
    assert!(gathered.secrets.contains(&"sk-very-secret-key".to_owned()));
    data(&mut state, DataMsg::Reported("all of it".into()));
    assert_eq!(state.data.report, Some(Report::Ready("all of it".into())));
    let saved = data(&mut state, DataMsg::SaveReport);
    assert!(matches!(&saved[..], [Effect::SaveFile { text, .. }] if text == "all of it"));
    assert_eq!(state.data.report, None);
    data(&mut state, DataMsg::Reported("too late".into()));
    assert_eq!(state.data.report, None);
}
