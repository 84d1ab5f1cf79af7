//! Around the conversation: models, other chats, the server, the status.

use super::support::*;

#[test]
fn what_is_written_before_a_model_goes_out_when_it_is_ready() {
    let mut state = state();
    update(&mut state, snapshot(EngineState::NoModel, None));
    assert!(
        say(&mut state, "hello")
            .iter()
            .all(|effect| !matches!(effect, Effect::Submit { .. }))
    );
    let survey = Survey {
        offers: vec![Offer {
            id: "starter".into(),
            name: "Starter".into(),
            detail: String::new(),
            bytes: 98,
            fit: Fit::default(),
            starter: true,
            ..Offer::default()
        }],
        ..Survey::default()
    };
    update(&mut state, Msg::Models(ModelsMsg::Surveyed(survey)));
    assert_eq!(
        state.models.choice,
        Some(Choice::Offer("starter".into())),
        "a newcomer is led to the starter"
    );
    assert!(update(&mut state, Msg::Models(ModelsMsg::Start)).contains(&Effect::Fetch("starter".into())));
    assert_eq!(status(&state), Status::Downloading(Some(0)));
    let at = FetchProgress {
        done: 49,
        total: 98,
        ..FetchProgress::default()
    };
    update(&mut state, Msg::Models(ModelsMsg::Fetching(at)));
    assert_eq!(status(&state), Status::Downloading(Some(50)));
    chat(&mut state, ChatMsg::Send);
    assert!(state.chat.waiting);
    let entry = ModelEntry {
        name: "starter".into(),
        path: "/models/starter".into(),
        detail: String::new(),
        source: String::new(),
        bytes: 98,
        fit: Fit::default(),
        problem: None,
        ..ModelEntry::default()
    };
    let effects = update(&mut state, Msg::Models(ModelsMsg::Fetched(Ok(entry))));
    assert!(
        effects
            .iter()
            .any(|effect| matches!(effect, Effect::Load { request, .. } if request.name == "starter"))
    );
    let stage = LoadEvent::Stage {
        stage: LoadStage::Reading,
        done: 1,
        total: 4,
    };
    update(&mut state, Msg::Models(ModelsMsg::LoadEvent(stage)));
    assert_eq!(status(&state), Status::Loading("weights", Some(0.25)));
    let effects = update(&mut state, Msg::Models(ModelsMsg::LoadEvent(LoadEvent::Ready(info("starter")))));
    assert_eq!(messages(&submitted(&effects).1), [(EngineRole::User, "hello".into())]);
    assert!(!state.chat.waiting);
    assert_eq!(state.settings.models.last.as_ref().unwrap().name, "starter");
}

#[test]
fn a_failed_load_leaves_the_old_model_and_says_so() {
    let mut state = ready();
    update(
        &mut state,
        Msg::Models(ModelsMsg::Inspected {
            path: "/m/big".into(),
            found: Ok(entry("big")),
        }),
    );
    assert!(state.models.loading.is_some());
    let failed = EngineError::Load {
        model: "big".into(),
        reason: "it needs 43 GB".into(),
    };
    update(&mut state, Msg::Models(ModelsMsg::LoadEvent(LoadEvent::Failed(failed))));
    let failure = state.models.failure.as_ref().unwrap();
    assert!(
        failure.reason.contains("43 GB") && failure.reason.contains("starter is still loaded"),
        "{}",
        failure.reason
    );
    assert_eq!(status(&state), Status::Ready);
}

fn entry(name: &str) -> ModelEntry {
    ModelEntry {
        name: name.into(),
        path: format!("/m/{name}").into(),
        detail: String::new(),
        source: String::new(),
        bytes: 0,
        fit: Fit::default(),
        problem: None,
        ..ModelEntry::default()
    }
}

#[test]
fn cancelling_is_not_a_failure() {
    let mut state = ready();
    update(&mut state, Msg::Models(ModelsMsg::Load(entry("big"))));
    assert_eq!(update(&mut state, Msg::Models(ModelsMsg::CancelLoad)), [Effect::CancelLoad]);
    update(
        &mut state,
        Msg::Models(ModelsMsg::LoadEvent(LoadEvent::Failed(EngineError::Cancelled))),
    );
    assert!(state.models.failure.is_none() && state.models.loading.is_none());
    update(
        &mut state,
        Msg::Models(ModelsMsg::Fetch(Offer {
            id: "x".into(),
            name: "x".into(),
            detail: String::new(),
            bytes: 1,
            fit: Fit::default(),
            starter: false,
            ..Offer::default()
        })),
    );
    update(&mut state, Msg::Models(ModelsMsg::CancelFetch));
    update(&mut state, Msg::Models(ModelsMsg::Fetched(Err(FetchError::Cancelled))));
    assert!(state.models.failure.is_none() && state.models.fetching.is_none());
    update(&mut state, Msg::Models(ModelsMsg::Fetched(Err(FetchError::Failed("late".into())))));
    assert!(state.models.failure.is_none(), "an answer to nothing is nothing");
}

#[test]
fn an_answer_goes_on_while_another_chat_is_open() {
    let mut state = ready();
    let (id, _) = submitted(&say(&mut state, "slow"));
    let session = state.chat.session.unwrap();
    delta(&mut state, id, "one ");
    chat(&mut state, ChatMsg::New);
    assert!(state.live().is_none());
    delta(&mut state, id, "two ");
    chat(&mut state, ChatMsg::Open(session));
    // The disk is behind: it has only the first word.
    let mut stale = Tree::default();
    let mut question = dspark_sessions::Message {
        id: id - 1,
        session,
        parent: None,
        role: Role::User,
        text: "slow".into(),
        state: MessageState::Done,
        meta: Meta::default(),
        created_at: 0,
        active_child: None,
    };
    stale.add(question.clone());
    question.id = id;
    question.parent = Some(id - 1);
    question.role = Role::Assistant;
    question.text = "one ".into();
    stale.add(question);
    chat(
        &mut state,
        ChatMsg::Opened {
            session,
            tree: stale,
            draft: "unsent".into(),
            options: None,
        },
    );
    assert_eq!(shown(&state)[1], (Role::Assistant, "one two ".into(), MessageState::Streaming));
    assert_eq!(state.chat.draft.text, "unsent");
    delta(&mut state, id, "three");
    assert_eq!(shown(&state)[1].1, "one two three");
}

#[test]
fn late_counts_and_hits_are_ignored() {
    let mut state = ready();
    let first = chat(&mut state, ChatMsg::Compose("a".into()));
    let revision = first
        .iter()
        .find_map(|effect| match effect {
            Effect::CountTokens { revision, .. } => Some(*revision),
            _ => None,
        })
        .unwrap();
    chat(&mut state, ChatMsg::Compose("ab".into()));
    chat(&mut state, ChatMsg::Tokens { revision, tokens: Some(5) });
    assert_eq!(state.chat.draft.tokens, None);
    update(&mut state, Msg::Sidebar(SidebarMsg::Search("ab".into())));
    let old = SidebarMsg::Found {
        query: "a".into(),
        hits: Vec::new(),
    };
    update(&mut state, Msg::Sidebar(old));
    assert!(state.sidebar.hits.is_none());
}

#[test]
fn closing_hides_only_where_a_tray_brings_it_back() {
    let mut state = ready();
    assert_eq!(update(&mut state, Msg::CloseWindow), [Effect::Quit]);
    state.tray = true;
    assert_eq!(update(&mut state, Msg::CloseWindow), [Effect::HideWindow]);
    assert_eq!(update(&mut state, Msg::ShowWindow), [Effect::ShowWindow]);
    state.settings.general.keep_running = false;
    say(&mut state, "busy");
    assert!(update(&mut state, Msg::CloseWindow).is_empty(), "asks first");
    assert!(state.confirm_quit.is_some());
    assert_eq!(update(&mut state, Msg::QuitConfirmed), [Effect::Quit]);
}

#[test]
fn another_client_is_business_too() {
    let mut state = ready();
    let mut engine = (*state.engine).clone();
    engine.requests.push(ActiveRequest {
        id: 3,
        client: "Editor".into(),
        prompt_tokens: 5,
        generated: 1,
        waiting: false,
    });
    update(&mut state, Msg::Snapshot(Arc::new(engine)));
    update(&mut state, Msg::Quit);
    assert!(state.confirm_quit.as_deref().unwrap().contains("Editor"));
}

#[test]
fn the_server_follows_the_settings() {
    let mut state = ready();
    let mut settings = state.settings.clone();
    settings.server.port = 9001;
    let effects = update(&mut state, Msg::Settings(SettingsMsg::Changed(Box::new(settings))));
    assert!(
        effects
            .iter()
            .any(|effect| matches!(effect, Effect::StartServer(config) if config.port == 9001))
    );
    let failure = ServerFailure {
        reason: "`node` listens there".into(),
        next_free: Some(9002),
    };
    update(&mut state, Msg::Settings(SettingsMsg::ServerAnswer(Err(failure))));
    assert!(matches!(state.server, ServerState::Failed(_)));
    let toast = state.toasts.latest().unwrap().id;
    let effects = update(&mut state, Msg::ToastAction(toast));
    assert!(
        effects
            .iter()
            .any(|effect| matches!(effect, Effect::StartServer(config) if config.port == 9002))
    );
    update(
        &mut state,
        Msg::Settings(SettingsMsg::ServerAnswer(Ok("http://127.0.0.1:9002".into()))),
    );
    assert_eq!(update(&mut state, Msg::Settings(SettingsMsg::TogglePause)), [Effect::StopServer]);
    assert_eq!(state.server, ServerState::Paused);
    update(&mut state, Msg::Settings(SettingsMsg::ServerAnswer(Ok("late".into()))));
    assert_eq!(state.server, ServerState::Paused, "a late answer changes nothing");
    update(&mut state, Msg::Settings(SettingsMsg::TogglePause));
    assert_eq!(state.server, ServerState::Starting);
}

#[test]
fn every_engine_state_has_its_word_and_the_tray_its_figure() {
    let mut state = state();
    let mut seen = Vec::new();
    for engine in [
        EngineState::Starting,
        EngineState::NoModel,
        EngineState::Ready,
        EngineState::Prefilling { processed: 62, total: 100 },
        EngineState::Generating { tokens_per_sec: 41.7 },
        EngineState::Unloading,
        EngineState::Error {
            reason: "wrong sums".into(),
        },
        EngineState::Stopped,
    ] {
        update(&mut state, snapshot(engine, None));
        let status = status(&state);
        assert!(!seen.contains(&status));
        seen.push(status);
    }
    let titles: Vec<String> = seen.iter().map(|status| tray_title(status, None)).collect();
    assert_eq!(titles, ["", "", "", "62%", "42 t/s", "", "⚠", ""]);
}

#[test]
fn reasoning_is_timed() {
    let mut state = ready();
    let (id, _) = submitted(&say(&mut state, "think"));
    delta(&mut state, id, "<think>\nlong");
    state.clock.instant += Duration::from_secs(4);
    delta(&mut state, id, "\n</think>\n\nyes");
    state.clock.instant += Duration::from_secs(4);
    finish(&mut state, id, FinishReason::Length);
    let meta = &state.chat.tree.get(id).unwrap().meta;
    assert_eq!(meta.reasoning_seconds.map(f64::round), Some(4.0));
    assert_eq!(meta.finish, Some(Finish::Length));
}

#[test]
fn screens_and_new_chats() {
    let mut state = ready();
    turn(&mut state, "a", "b");
    update(&mut state, Msg::Show(Screen::Settings));
    chat(&mut state, ChatMsg::New);
    assert_eq!(state.screen, Screen::Chat);
    assert!(state.chat.session.is_none() && state.chat.tree.is_empty());
    assert!(!state.is_first_run(), "there is a model");
}

#[test]
fn a_hit_in_another_branch_is_brought_to_light() {
    let mut state = ready();
    let first = turn(&mut state, "a joke", "knock knock");
    let (second, _) = submitted(&chat(&mut state, ChatMsg::Regenerate(first)));
    finish(&mut state, second, FinishReason::Stop { matched: None });
    assert_eq!(shown(&state)[1].1, "");
    let session = state.chat.session.unwrap();
    let effects = chat(
        &mut state,
        ChatMsg::Reveal {
            session,
            message: Some(first),
        },
    );
    assert!(
        effects
            .iter()
            .any(|effect| matches!(effect, Effect::Store(StoreWrite::Activate { child, .. }) if *child == first))
    );
    assert_eq!(shown(&state)[1].1, "knock knock");
}

#[test]
fn unsent_text_of_the_new_chat_comes_back() {
    let mut state = ready();
    turn(&mut state, "a", "b");
    let session = state.chat.session.unwrap();
    chat(&mut state, ChatMsg::New);
    chat(&mut state, ChatMsg::Compose("half a thought".into()));
    chat(&mut state, ChatMsg::Open(session));
    let opened = ChatMsg::Opened {
        session,
        tree: Tree::default(),
        draft: String::new(),
        options: None,
    };
    chat(&mut state, opened);
    assert_eq!(state.chat.draft.text, "");
    chat(&mut state, ChatMsg::New);
    assert_eq!(state.chat.draft.text, "half a thought");
    chat(&mut state, ChatMsg::Send);
    chat(&mut state, ChatMsg::New);
    assert_eq!(state.chat.draft.text, "");
}
