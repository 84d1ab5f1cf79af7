//! States to start from, and what the engine would say.

pub(super) use dspark_protocol::{
    ActiveRequest, EngineError, EngineState, Event, FinishReason, LoadEvent, LoadStage, Message, Mode, ModelInfo, Prompt, Request,
    Role as EngineRole, Snapshot, Source, Summary, TextDelta, Timings, TokenInfo, Usage,
};
pub(super) use dspark_sessions::{Finish, MessageState, Meta, Role, Tree};
pub(super) use dspark_window::{
    bridge::{FetchError, FetchProgress, Fit, ModelEntry, Offer, ServerFailure, Survey},
    settings::Settings,
    state::{
        ChatMsg, Choice, Clock, Effect, ExportChat, Fill, ModelsMsg, Msg, Phase, Screen, ServerState, SettingsMsg, SidebarMsg, State,
        Status, StoreWrite, status, tray_title,
    },
};
pub(super) use std::{path::PathBuf, sync::Arc, time::Duration};

/// What is to be done, without what the desktop is told on the way: `desktop.rs` is about that.
pub(super) fn update(state: &mut State, message: Msg) -> Vec<Effect> {
    let mut effects = dspark_window::state::update(state, message);
    effects.retain(|effect| !matches!(effect, Effect::Desktop(_)));
    effects
}

pub(super) fn state() -> State {
    State::new(Settings::default(), PathBuf::from("/data"), (1, 1), Clock::now())
}

pub(super) fn info(name: &str) -> Arc<ModelInfo> {
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
        notes: Vec::new(),
    })
}

pub(super) fn snapshot(state: EngineState, model: Option<&str>) -> Msg {
    Msg::Snapshot(Arc::new(Snapshot {
        state,
        model: model.map(info),
        ..Snapshot::default()
    }))
}

pub(super) fn ready() -> State {
    let mut state = state();
    update(&mut state, snapshot(EngineState::Ready, Some("starter")));
    state
}

pub(super) fn chat(state: &mut State, message: ChatMsg) -> Vec<Effect> {
    dspark_window::state::update(state, Msg::Chat(message))
}

pub(super) fn say(state: &mut State, text: &str) -> Vec<Effect> {
    chat(state, ChatMsg::Compose(text.into()));
    chat(state, ChatMsg::Send)
}

pub(super) fn submitted(effects: &[Effect]) -> (i64, Request) {
    effects
        .iter()
        .find_map(|effect| match effect {
            Effect::Submit { message, request } => Some((*message, (**request).clone())),
            _ => None,
        })
        .expect("something was submitted")
}

pub(super) fn delta(state: &mut State, message: i64, text: &str) {
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

pub(super) fn summary(finish: FinishReason) -> Event {
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
        speculation: None,
        seed: Some(42),
        warnings: Vec::new(),
        token_ids: Vec::new(),
    }))
}

pub(super) fn finish(state: &mut State, message: i64, reason: FinishReason) -> Vec<Effect> {
    chat(
        state,
        ChatMsg::Event {
            message,
            event: summary(reason),
        },
    )
}

/// A question and its finished answer; the answer's id.
pub(super) fn turn(state: &mut State, question: &str, answer: &str) -> i64 {
    let (id, _) = submitted(&say(state, question));
    delta(state, id, answer);
    finish(state, id, FinishReason::Stop { matched: None });
    id
}

pub(super) fn messages(request: &Request) -> Vec<(EngineRole, String)> {
    let Prompt::Chat { messages, .. } = &request.prompt else {
        panic!("not a chat")
    };
    messages
        .iter()
        .map(|Message { role, content, .. }| (*role, content.clone()))
        .collect()
}

pub(super) fn shown(state: &State) -> Vec<(Role, String, MessageState)> {
    let tree = &state.chat.tree;
    tree.path()
        .into_iter()
        .map(|id| {
            let message = tree.get(id).unwrap();
            (message.role, message.text.clone(), message.state)
        })
        .collect()
}
