//! The chat, model and server flows as messages in and effects out: no window, no engine, no disk.
#![allow(clippy::unwrap_used)]

use dspark_protocol::{
    ActiveRequest, EngineError, EngineState, Event, FinishReason, LoadEvent, LoadStage, Message, Mode, ModelInfo, Prompt, Request,
    Role as EngineRole, Snapshot, Source, Summary, TextDelta, Timings, TokenInfo, Usage,
};
use dspark_sessions::{Finish, MessageState, Meta, Role, Tree};
use dspark_window::{
    bridge::{FetchError, FetchProgress, Fit, ModelEntry, Offer, ServerFailure, Survey},
    settings::Settings,
    state::{
        ChatMsg, Choice, Clock, Effect, ModelsMsg, Msg, Phase, Screen, ServerState, SettingsMsg, SidebarMsg, State, Status, StoreWrite,
        status, tray_title, update,
    },
};
use std::{path::PathBuf, sync::Arc, time::Duration};

fn state() -> State {
    State::new(Settings::default(), PathBuf::from("/data"), (1, 1), Clock::now())
}

fn info(name: &str) -> Arc<ModelInfo> {
    Arc::new(ModelInfo {
        name: name.into(),
        path: format!("/models/{name}").into(),
        model_type: "llama".into(),
        quantization: "4-bit g32".into(),
        drafter: None,
        mode: Mode::Baseline,
        parameters: 135_000_000,
        weight_bytes: 98_000_000,
        kv_bytes_per_token: 23_040,
        context_window: 8192,
        max_context: 8192,
        has_chat_template: true,
        supports_thinking: false,
        supports_tools: false,
        loaded_at: 0,
        load_seconds: 0.1,
    })
}

fn snapshot(state: EngineState, model: Option<&str>) -> Msg {
    Msg::Snapshot(Arc::new(Snapshot {
        state,
        model: model.map(info),
        ..Snapshot::default()
    }))
}

fn ready() -> State {
    let mut state = state();
    update(&mut state, snapshot(EngineState::Ready, Some("starter")));
    state
}

fn chat(state: &mut State, message: ChatMsg) -> Vec<Effect> {
    update(state, Msg::Chat(message))
}

fn say(state: &mut State, text: &str) -> Vec<Effect> {
    chat(state, ChatMsg::Compose(text.into()));
    chat(state, ChatMsg::Send)
}

fn submitted(effects: &[Effect]) -> (i64, Request) {
    effects
        .iter()
        .find_map(|effect| match effect {
            Effect::Submit { message, request } => Some((*message, (**request).clone())),
            _ => None,
        })
        .expect("something was submitted")
}

fn delta(state: &mut State, message: i64, text: &str) {
    let token = TokenInfo {
        id: 1,
        text: text.into(),
        bytes: text.into(),
        source: Source::Target,
        logprob: None,
        top: Vec::new(),
    };
    let event = Event::Delta(TextDelta {
        text: text.into(),
        tokens: vec![token],
    });
    chat(state, ChatMsg::Event { message, event });
}

fn summary(finish: FinishReason) -> Event {
    Event::Finished(Box::new(Summary {
        finish,
        usage: Usage {
            prompt_tokens: 20,
            cached_tokens: 5,
            completion_tokens: 11,
            reasoning_tokens: 0,
        },
        timings: Timings {
            queue: 0.0,
            ttft: 0.5,
            prefill: 0.5,
            decode: 2.0,
        },
        mode: Mode::Auto,
        effective_mode: Mode::Baseline,
        mode_reason: None,
        accept_len: 1.0,
        target_forwards: 11,
        seed: 42,
        warnings: Vec::new(),
        token_ids: Vec::new(),
    }))
}

fn finish(state: &mut State, message: i64, reason: FinishReason) -> Vec<Effect> {
    chat(
        state,
        ChatMsg::Event {
            message,
            event: summary(reason),
        },
    )
}

/// A question and its finished answer; the answer's id.
fn turn(state: &mut State, question: &str, answer: &str) -> i64 {
    let (id, _) = submitted(&say(state, question));
    delta(state, id, answer);
    finish(state, id, FinishReason::Stop { matched: None });
    id
}

fn messages(request: &Request) -> Vec<(EngineRole, String)> {
    let Prompt::Chat { messages, .. } = &request.prompt else {
        panic!("not a chat")
    };
    messages
        .iter()
        .map(|Message { role, content, .. }| (*role, content.clone()))
        .collect()
}

fn shown(state: &State) -> Vec<(Role, String, MessageState)> {
    let tree = &state.chat.tree;
    tree.path()
        .into_iter()
        .map(|id| {
            let message = tree.get(id).unwrap();
            (message.role, message.text.clone(), message.state)
        })
        .collect()
}

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
        }],
        ..Survey::default()
    };
    update(&mut state, Msg::Models(ModelsMsg::Surveyed(survey)));
    assert_eq!(
        state.models.choice,
        Some(Choice::Offer("starter".into())),
        "a newcomer is led to the starter"
    );
    assert_eq!(update(&mut state, Msg::Models(ModelsMsg::Start)), [Effect::Fetch("starter".into())]);
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
    };
    let effects = update(&mut state, Msg::Models(ModelsMsg::Fetched(Ok(entry))));
    assert!(
        effects
            .iter()
            .any(|effect| matches!(effect, Effect::Load(request) if request.name == "starter"))
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
    let titles: Vec<String> = seen.iter().map(tray_title).collect();
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
    };
    chat(&mut state, opened);
    assert_eq!(state.chat.draft.text, "");
    chat(&mut state, ChatMsg::New);
    assert_eq!(state.chat.draft.text, "half a thought");
    chat(&mut state, ChatMsg::Send);
    chat(&mut state, ChatMsg::New);
    assert_eq!(state.chat.draft.text, "");
}
