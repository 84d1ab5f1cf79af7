//! A conversation: sending, stopping, branching, failing, deleting.

use super::support::*;

#[test]
fn the_first_message_makes_a_session_with_a_title() {
    let mut state = ready();
    let effects = say(&mut state, "  Explain RoPE scaling.\nPlease. ");
    assert!(
        effects
            .iter()
            .any(|effect| matches!(effect, Effect::Store(StoreWrite::CreateSession { id: 1, title }) if title == "Explain RoPE scaling"))
    );
    let (id, request) = submitted(&effects);
    assert_eq!(messages(&request), [(EngineRole::User, "Explain RoPE scaling.\nPlease.".into())]);
    assert_eq!(state.chat.title, "Explain RoPE scaling");
    assert_eq!(state.sidebar.sessions[0].title, "Explain RoPE scaling");
    assert_eq!(state.chat.draft.text, "");
    assert_eq!(state.live().unwrap().message, id);

    let started = Event::Started {
        prompt_tokens: 20,
        cached_tokens: 5,
    };
    chat(
        &mut state,
        ChatMsg::Event {
            message: id,
            event: started,
        },
    );
    assert_eq!(state.live().unwrap().phase, Phase::Prefilling { processed: 5, total: 20 });
    delta(&mut state, id, "It ");
    delta(&mut state, id, "scales.");
    assert_eq!(state.live().unwrap().phase, Phase::Generating);
    let effects = finish(&mut state, id, FinishReason::Stop { matched: None });
    let meta = effects
        .iter()
        .find_map(|effect| match effect {
            Effect::Store(StoreWrite::Finish {
                state: MessageState::Done,
                meta,
                ..
            }) => Some(meta),
            _ => None,
        })
        .unwrap();
    assert_eq!(
        (meta.ttft, meta.decode_rate, meta.seed, meta.finish),
        (Some(0.5), Some(5.0), Some(42), Some(Finish::Stop))
    );
    assert_eq!(meta.model.as_deref(), Some("starter"));
    assert!(state.live().is_none());
    assert_eq!(shown(&state)[1].1, "It scales.");
}

#[test]
fn history_goes_along_without_thoughts_and_with_the_system_prompt() {
    let mut state = ready();
    state.settings.chat.system_prompt = "Be brief.".into();
    turn(&mut state, "one", "<think>\nhm\n</think>\n\nfirst");
    let (_, request) = submitted(&say(&mut state, "two"));
    assert_eq!(
        messages(&request),
        [
            (EngineRole::System, "Be brief.".into()),
            (EngineRole::User, "one".into()),
            (EngineRole::Assistant, "first".into()),
            (EngineRole::User, "two".into()),
        ]
    );
}

#[test]
fn stop_keeps_the_text_and_continue_goes_on_in_it() {
    let mut state = ready();
    let (id, _) = submitted(&say(&mut state, "count"));
    delta(&mut state, id, "one two");
    assert_eq!(chat(&mut state, ChatMsg::Stop), [Effect::CancelTurn(id)]);
    finish(&mut state, id, FinishReason::Cancelled);
    assert_eq!(shown(&state)[1], (Role::Assistant, "one two".into(), MessageState::Stopped));

    let effects = chat(&mut state, ChatMsg::Continue(id));
    assert!(effects.contains(&Effect::Store(StoreWrite::Resume(id))));
    let (again, request) = submitted(&effects);
    assert_eq!(again, id);
    let Prompt::Chat { options, .. } = &request.prompt else {
        panic!("not a chat")
    };
    assert!(options.continue_final_message);
    assert_eq!(messages(&request).last().unwrap(), &(EngineRole::Assistant, "one two".into()));
    delta(&mut state, id, " three");
    finish(&mut state, id, FinishReason::Stop { matched: None });
    assert_eq!(shown(&state)[1], (Role::Assistant, "one two three".into(), MessageState::Done));
}

#[test]
fn another_answer_stands_beside_the_first() {
    let mut state = ready();
    let first = turn(&mut state, "a joke", "knock knock");
    let (second, request) = submitted(&chat(&mut state, ChatMsg::Regenerate(first)));
    assert_ne!(first, second);
    assert_eq!(messages(&request), [(EngineRole::User, "a joke".into())]);
    delta(&mut state, second, "a horse walks in");
    finish(&mut state, second, FinishReason::Stop { matched: None });
    let alternatives = state.chat.tree.alternatives(second);
    assert_eq!((alternatives.index, alternatives.ids.len()), (1, 2));
    let effects = chat(&mut state, ChatMsg::Alternative { message: second, step: -1 });
    assert!(
        effects
            .iter()
            .any(|effect| matches!(effect, Effect::Store(StoreWrite::Activate { child, .. }) if *child == first))
    );
    assert_eq!(shown(&state)[1].1, "knock knock");
    chat(&mut state, ChatMsg::Alternative { message: first, step: -1 });
    assert_eq!(shown(&state)[1].1, "knock knock", "there is nothing before the first");
}

#[test]
fn editing_branches_and_keeps_what_was() {
    let mut state = ready();
    let first = turn(&mut state, "red", "apple");
    turn(&mut state, "more", "cherry");
    let question = state.chat.tree.get(first).unwrap().parent.unwrap();
    chat(&mut state, ChatMsg::StartEdit(question));
    chat(&mut state, ChatMsg::EditText("green".into()));
    let (id, request) = submitted(&chat(&mut state, ChatMsg::SendEdit));
    assert_eq!(messages(&request), [(EngineRole::User, "green".into())]);
    delta(&mut state, id, "pear");
    finish(&mut state, id, FinishReason::Stop { matched: None });
    assert_eq!(shown(&state).len(), 2);
    let edited = state.chat.tree.get(id).unwrap().parent.unwrap();
    chat(&mut state, ChatMsg::Alternative { message: edited, step: -1 });
    assert_eq!(shown(&state).len(), 4, "the first branch is whole");
}

#[test]
fn a_failure_keeps_the_text_and_says_why() {
    let mut state = ready();
    let (id, _) = submitted(&say(&mut state, "go"));
    delta(&mut state, id, "half");
    let event = Event::Failed(EngineError::Compute("out of memory".into()));
    chat(&mut state, ChatMsg::Event { message: id, event });
    let message = state.chat.tree.get(id).unwrap();
    assert_eq!((message.text.as_str(), message.state), ("half", MessageState::Failed));
    assert!(message.meta.error.as_deref().unwrap().contains("out of memory"));
    // Retry keeps the half answer as an alternative.
    let (second, _) = submitted(&chat(&mut state, ChatMsg::Regenerate(id)));
    assert_eq!(state.chat.tree.alternatives(second).ids, [id, second]);
}

#[test]
fn a_busy_engine_is_retried_in_place() {
    let mut state = ready();
    let (id, _) = submitted(&say(&mut state, "go"));
    let busy = EngineError::Busy {
        queued: 8,
        limit: 8,
        retry_after_s: 2,
    };
    chat(
        &mut state,
        ChatMsg::Event {
            message: id,
            event: Event::Failed(busy),
        },
    );
    let (again, _) = submitted(&chat(&mut state, ChatMsg::Regenerate(id)));
    assert_eq!(again, id, "an empty answer leaves no alternative behind");
    chat(
        &mut state,
        ChatMsg::Event {
            message: id,
            event: Event::Queued { position: 2 },
        },
    );
    assert_eq!(state.live().unwrap().phase, Phase::Queued(2));
}

#[test]
fn a_failed_question_and_the_next_are_asked_together() {
    let mut state = ready();
    let (id, _) = submitted(&say(&mut state, "one"));
    chat(
        &mut state,
        ChatMsg::Event {
            message: id,
            event: Event::Failed(EngineError::Stopped),
        },
    );
    let (_, request) = submitted(&say(&mut state, "two"));
    assert_eq!(
        messages(&request),
        [(EngineRole::User, "one\n\ntwo".into())],
        "templates want turns to alternate"
    );
}

#[test]
fn deleting_a_message_can_be_undone() {
    let mut state = ready();
    turn(&mut state, "a", "b");
    let last = turn(&mut state, "c", "d");
    let question = state.chat.tree.get(last).unwrap().parent.unwrap();
    let effects = chat(&mut state, ChatMsg::Delete(question));
    assert!(effects.contains(&Effect::Store(StoreWrite::DeleteMessage(question))));
    assert_eq!(shown(&state).len(), 2);
    let toast = state.toasts.latest().unwrap().id;
    let effects = update(&mut state, Msg::ToastAction(toast));
    assert!(effects.contains(&Effect::Store(StoreWrite::RestoreMessage(question))));
    assert_eq!(shown(&state).len(), 4);
    assert!(update(&mut state, Msg::ToastAction(toast)).is_empty(), "once");
}

#[test]
fn deleting_a_chat_stops_it_and_can_be_undone() {
    let mut state = ready();
    let (id, _) = submitted(&say(&mut state, "long story"));
    let session = state.chat.session.unwrap();
    let effects = update(&mut state, Msg::Sidebar(SidebarMsg::Delete(session)));
    assert!(effects.contains(&Effect::CancelTurn(id)));
    assert!(effects.contains(&Effect::Store(StoreWrite::DeleteSession(session))));
    assert!(state.sidebar.sessions.is_empty() && state.chat.session.is_none());
    let toast = state.toasts.latest().unwrap().id;
    let effects = update(&mut state, Msg::ToastAction(toast));
    assert!(effects.contains(&Effect::Store(StoreWrite::RestoreSession(session))));
    assert!(effects.contains(&Effect::OpenSession(session)));
    assert_eq!(state.sidebar.sessions.len(), 1);
}

fn count(state: &mut State, tokens: usize) {
    let revision = state.chat.draft.revision;
    chat(
        state,
        ChatMsg::Tokens {
            revision,
            tokens: Some(tokens),
        },
    );
}

/// Case: a full window is told, never cut silently.
#[test]
fn a_chat_that_is_too_long_is_not_sent_and_can_be_shortened() {
    let mut state = ready();
    turn(&mut state, "first", "one");
    turn(&mut state, "second", "two");
    assert_eq!(state.fill(), Fill::Roomy, "not counted yet");
    for (tokens, fill) in [
        (5000, Fill::Roomy),
        (5800, Fill::Filling),
        (7500, Fill::NearlyFull),
        (8193, Fill::Over),
    ] {
        count(&mut state, tokens);
        assert_eq!(state.fill(), fill, "{tokens} of 8192");
    }
    chat(&mut state, ChatMsg::Compose("third".into()));
    count(&mut state, 9000);
    assert!(chat(&mut state, ChatMsg::Send).is_empty());
    assert_eq!(state.chat.draft.text, "third", "nothing is lost");
    let effects = chat(&mut state, ChatMsg::LeaveOut(1));
    assert!(
        effects.iter().any(|effect| matches!(effect, Effect::CountTokens { .. })),
        "counted anew"
    );
    count(&mut state, 4000);
    let (_, request) = submitted(&chat(&mut state, ChatMsg::Send));
    let sent: Vec<String> = messages(&request).into_iter().map(|(_, text)| text).collect();
    assert_eq!(sent, ["second", "two", "third"]);
    assert_eq!(shown(&state).len(), 6, "and everything is still there");
}

#[test]
fn a_chat_with_its_own_options_keeps_them() {
    let mut state = ready();
    let own = Settings::default().chat;
    let own = dspark_window::settings::Chat {
        temperature: 0.1,
        system_prompt: "Be terse.".into(),
        ..own
    };
    chat(&mut state, ChatMsg::Options(Some(Box::new(own.clone()))));
    let effects = say(&mut state, "hello");
    assert!(effects.iter().any(
        |effect| matches!(effect, Effect::Store(StoreWrite::Options { session: 1, options: Some(json) }) if json.contains("Be terse."))
    ));
    let (id, request) = submitted(&effects);
    assert_eq!(request.sampling.temperature, 0.1);
    assert_eq!(messages(&request)[0], (EngineRole::System, "Be terse.".into()));
    finish(&mut state, id, FinishReason::Stop { matched: None });
    chat(&mut state, ChatMsg::New);
    assert_eq!(state.chat_settings(), &state.settings.chat, "others follow the app");
    chat(&mut state, ChatMsg::Open(1));
    chat(
        &mut state,
        ChatMsg::Opened {
            session: 1,
            tree: Tree::default(),
            draft: String::new(),
            options: Some(Box::new(own.clone())),
        },
    );
    assert_eq!(state.chat_settings(), &own);
    let effects = chat(&mut state, ChatMsg::Options(None));
    assert!(effects.contains(&Effect::Store(StoreWrite::Options { session: 1, options: None })));
}

#[test]
fn a_chat_is_exported_in_three_forms() {
    let mut state = ready();
    turn(&mut state, "Is 2 < 3?", "<think>\nhm\n</think>\n\n**Yes**, `2 < 3`.");
    let file = |state: &mut State, kind| match &chat(state, ChatMsg::Export(kind))[..] {
        [Effect::SaveFile { name, text }] => (name.clone(), text.clone()),
        other => panic!("{other:?}"),
    };
    let (name, text) = file(&mut state, ExportChat::Markdown);
    assert_eq!(name, "Is 2 3.md");
    assert!(
        text.contains("## You\n\nIs 2 < 3?") && text.contains("## starter\n\n**Yes**") && !text.contains("hm"),
        "{text}"
    );
    let (name, text) = file(&mut state, ExportChat::Json);
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(name, "Is 2 3.json");
    let reply = &json["messages"][1];
    assert_eq!(
        (&reply["reasoning"], &reply["role"], &reply["shown"]),
        (&"hm".into(), &"assistant".into(), &true.into())
    );
    let (name, text) = file(&mut state, ExportChat::Html);
    assert_eq!(name, "Is 2 3.html");
    assert!(
        text.contains("<div class=\"you\">Is 2 &lt; 3?</div>") && text.contains("<strong>Yes</strong>"),
        "{text}"
    );
}

#[test]
fn a_question_whose_answer_was_deleted_can_be_answered() {
    let mut state = ready();
    let (id, _) = submitted(&say(&mut state, "Why?"));
    delta(&mut state, id, "Because.");
    finish(&mut state, id, FinishReason::Stop { matched: None });
    chat(&mut state, ChatMsg::Delete(id));
    assert_eq!(shown(&state).len(), 1);
    let (again, request) = submitted(&chat(&mut state, ChatMsg::RegenerateLast));
    assert_ne!(again, id);
    assert_eq!(messages(&request).len(), 1);
    // One answer at a time.
    assert!(chat(&mut state, ChatMsg::RegenerateLast).is_empty());
}
