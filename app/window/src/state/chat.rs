//! The conversation: sending, streaming, stopping, and going another way.

mod shape;

pub use shape::{Chat, ChatMsg, Draft, Edit, Live, Phase};

use super::{Effect, Focus, Msg, Screen, Sources, State, StoreWrite, Toast, events, split_reasoning};
use dspark_sessions::{Message, MessageState, Meta, Role, SessionHead, Tree, auto_title};
use dspark_strings::t;

pub(super) fn update(state: &mut State, message: ChatMsg, out: &mut Vec<Effect>) {
    match message {
        ChatMsg::New => new(state, out),
        ChatMsg::Open(session) => open(state, session, out),
        ChatMsg::Reveal { session, message } => {
            open(state, session, out);
            state.chat.reveal = message;
            if state.chat.session == Some(session) {
                show_branch(state, out);
            }
        }
        ChatMsg::Revealed => state.chat.reveal = None,
        ChatMsg::Opened {
            session,
            tree,
            draft,
            options,
        } => opened(state, session, tree, (draft, options), out),
        ChatMsg::Options(options) => {
            if state.chat.options == options {
                return;
            }
            state.chat.options = options;
            if state.chat.session.is_some() {
                save_options(state, out);
            }
            count_tokens(state, out);
        }
        ChatMsg::LeaveOut(turns) => {
            state.chat.left_out = turns.min(state.turns());
            count_tokens(state, out);
        }
        ChatMsg::Draft(text) => {
            if state.chat.session.is_none() && state.chat.draft.message().is_empty() {
                state.chat.draft = Draft::of(&text, state.chat.draft.revision);
                count_tokens(state, out);
            }
        }
        ChatMsg::Compose(text) => {
            compose(state, text, out);
            keep_draft(state, out);
        }
        ChatMsg::Tokens { revision, tokens } => {
            if revision == state.chat.draft.revision {
                state.chat.draft.tokens = tokens;
                state.chat.draft.counted = revision;
            }
        }
        ChatMsg::Send => send(state, out),
        ChatMsg::Unwait => state.chat.waiting = false,
        ChatMsg::Stop => stop(state, out),
        ChatMsg::Continue(id) => go_on(state, id, out),
        ChatMsg::Regenerate(id) => regenerate(state, id, out),
        ChatMsg::RegenerateLast => {
            let last = state.chat.tree.leaf().map(|leaf| (leaf.id, leaf.session, leaf.role));
            match last {
                Some((id, _, Role::Assistant)) => regenerate(state, id, out),
                // Its answer was deleted, or never came.
                Some((id, session, Role::User)) if state.has_model() && state.live().is_none() => answer(state, session, id, out),
                _ => {}
            }
        }
        ChatMsg::Alternative { message, step } => alternative(state, message, step, out),
        ChatMsg::StartEdit(id) => start_edit(state, id, out),
        ChatMsg::EditLast => {
            let path = state.chat.tree.path();
            let is_user = |id: &&i64| state.chat.tree.get(**id).is_some_and(|message| message.role == Role::User);
            if let Some(id) = path.iter().rev().find(is_user).copied() {
                start_edit(state, id, out);
            }
        }
        ChatMsg::EditText(text) => {
            if let Some(edit) = &mut state.chat.edit {
                edit.text = text;
            }
        }
        ChatMsg::CancelEdit => {
            state.chat.edit = None;
            out.push(Effect::Focus(Focus::Composer));
        }
        ChatMsg::SendEdit => send_edit(state, out),
        ChatMsg::Delete(id) => delete(state, id, out),
        ChatMsg::Undelete(message) => {
            if state.chat.session == Some(message.session) {
                state.chat.tree.restore((*message).clone());
            }
            out.push(Effect::Store(StoreWrite::RestoreMessage(message.id)));
            out.push(Effect::Store(StoreWrite::Activate {
                session: message.session,
                parent: message.parent,
                child: message.id,
            }));
            count_tokens(state, out);
        }
        ChatMsg::CopyMessage(id) => {
            if let Some(message) = state.chat.tree.get(id) {
                let text = split_reasoning(&message.text).answer.to_owned();
                super::copy(state, text, out);
            }
        }
        ChatMsg::CopyAll => {
            let text = super::export::markdown(state);
            super::copy(state, text, out);
        }
        ChatMsg::Export(kind) => {
            let (name, text) = super::export::export(state, kind);
            out.push(Effect::SaveFile { name, text });
        }
        ChatMsg::Event { message, event } => events::event(state, message, event, out),
    }
}

fn new(state: &mut State, out: &mut Vec<Effect>) {
    state.screen = Screen::Chat;
    keep_unsent(state, out);
    state.chat = Chat {
        draft: Draft::of(&state.unsent, state.chat.draft.revision),
        ..Chat::default()
    };
    count_tokens(state, out);
    out.push(Effect::Focus(Focus::Composer));
}

fn open(state: &mut State, session: i64, out: &mut Vec<Effect>) {
    state.screen = Screen::Chat;
    state.sidebar.popover = false;
    if state.chat.session == Some(session) {
        return;
    }
    state.chat.opening = Some(session);
    out.push(Effect::OpenSession(session));
}

/// What stands unsent is there again when the person comes back to it, files too.
fn keep_unsent(state: &mut State, out: &mut Vec<Effect>) {
    if !state.chat.draft.files.is_empty() {
        keep_draft(state, out);
    }
    if state.chat.session.is_none() {
        state.unsent = state.chat.draft.message();
    }
}

/// Writes down what stands in the composer, files before the words.
pub(super) fn keep_draft(state: &State, out: &mut Vec<Effect>) {
    out.push(Effect::Store(StoreWrite::Draft {
        session: state.chat.session.unwrap_or(0),
        text: state.chat.draft.message(),
    }));
}

fn save_options(state: &State, out: &mut Vec<Effect>) {
    let Some(session) = state.chat.session else { return };
    let options = state.chat.options.as_ref().and_then(|options| serde_json::to_string(options).ok());
    out.push(Effect::Store(StoreWrite::Options { session, options }));
}

type Kept = (String, Option<Box<crate::settings::Chat>>);

fn opened(state: &mut State, session: i64, mut tree: Tree, (draft, options): Kept, out: &mut Vec<Effect>) {
    // The last click wins.
    if state.chat.opening != Some(session) && state.chat.session.is_some() {
        return;
    }
    // What is being written is ahead of what is on disk.
    for live in state.lives.values().filter(|live| live.session == session) {
        if let Some(message) = tree.get_mut(live.message) {
            message.text.clone_from(&live.text);
            message.state = MessageState::Streaming;
        }
    }
    keep_unsent(state, out);
    let revision = state.chat.draft.revision;
    let title = state.sidebar.head(session).map(|head| head.title.clone());
    let reveal = state.chat.reveal.take();
    state.chat = Chat {
        session: Some(session),
        title: title.unwrap_or_else(|| t!(chat).into()),
        tree,
        reveal,
        options,
        draft: Draft::of(&draft, revision),
        ..Chat::default()
    };
    if reveal.is_none() {
        out.push(Effect::ScrollToEnd);
    }
    show_branch(state, out);
    count_tokens(state, out);
    out.push(Effect::Focus(Focus::Composer));
}

/// Chooses the alternatives that lead to the message to be revealed.
fn show_branch(state: &mut State, out: &mut Vec<Effect>) {
    let Some(target) = state.chat.reveal else { return };
    if state.chat.tree.path().contains(&target) {
        return;
    }
    let path = state.chat.tree.path_to(target);
    let mut parent = None;
    for id in path {
        state.chat.tree.activate(parent, id);
        if let Some(session) = state.chat.session {
            out.push(Effect::Store(StoreWrite::Activate {
                session,
                parent,
                child: id,
            }));
        }
        parent = Some(id);
    }
    if !state.chat.tree.path().contains(&target) {
        state.chat.reveal = None;
    }
}

fn compose(state: &mut State, text: String, out: &mut Vec<Effect>) {
    state.chat.draft.text = text;
    count_tokens(state, out);
}

/// Asks how long the conversation is with what stands in the composer.
pub(super) fn count_tokens(state: &mut State, out: &mut Vec<Effect>) {
    state.chat.draft.revision += 1;
    if !state.has_model() {
        state.chat.draft.tokens = None;
        state.chat.draft.counted = state.chat.draft.revision;
        return;
    }
    let leaf = state.chat.tree.leaf().map(|leaf| leaf.id);
    let prompt = state.prompt(leaf, false, &state.chat.draft.message());
    out.push(Effect::CountTokens {
        revision: state.chat.draft.revision,
        prompt,
    });
}

/// The loaded model is another one: counts are in another tokenizer.
pub(super) fn model_changed(state: &mut State, out: &mut Vec<Effect>) {
    count_tokens(state, out);
}

pub(super) fn model_ready(state: &mut State, out: &mut Vec<Effect>) {
    if std::mem::take(&mut state.chat.waiting) {
        send(state, out);
    }
    out.push(Effect::Focus(Focus::Composer));
}

fn send(state: &mut State, out: &mut Vec<Effect>) {
    let text = state.chat.draft.message().trim().to_owned();
    if text.is_empty() || state.live().is_some() || state.chat.opening.is_some() {
        return;
    }
    if std::mem::take(&mut state.first_run.trial) {
        // The person goes first.
        out.push(Effect::CancelMeasure);
    }
    if state.fill() == super::Fill::Over {
        // What is too long is said above the composer, with what can be done.
        return;
    }
    if !state.has_model() {
        state.chat.waiting = true;
        let coming = state.models.loading.is_some() || state.models.fetching.is_some();
        if !coming && !state.is_first_run() {
            state.models.picker_open = true;
            out.push(Effect::Survey {
                folders: state.settings.models.folders.clone(),
            });
        }
        return;
    }
    let parent = state.chat.tree.leaf().map(|leaf| leaf.id);
    out.push(Effect::Store(StoreWrite::Draft {
        session: state.chat.session.unwrap_or(0),
        text: String::new(),
    }));
    state.chat.draft.text.clear();
    state.chat.draft.files.clear();
    if state.chat.session.is_none() {
        state.unsent.clear();
    }
    ask(state, parent, text, out);
}

/// A question below `parent` and an answer to it.
fn ask(state: &mut State, parent: Option<i64>, text: String, out: &mut Vec<Effect>) {
    let session = match state.chat.session {
        Some(session) => session,
        None => create_session(state, &text, out),
    };
    let question = add(state, session, parent, Role::User, text, out);
    answer(state, session, question, out);
}

fn create_session(state: &mut State, text: &str, out: &mut Vec<Effect>) -> i64 {
    let id = state.next_session_id();
    let (files, words) = dspark_attach::split(text);
    let title = match (words.trim(), files.first()) {
        ("", Some(file)) => file.name.clone(),
        (words, _) => auto_title(words),
    };
    out.push(Effect::Store(StoreWrite::CreateSession { id, title: title.clone() }));
    state.sidebar.insert(SessionHead {
        id,
        title: title.clone(),
        pinned: false,
        updated_at: state.clock.millis,
    });
    state.chat.session = Some(id);
    state.chat.title = title;
    if state.chat.options.is_some() {
        save_options(state, out);
    }
    id
}

fn add(state: &mut State, session: i64, parent: Option<i64>, role: Role, text: String, out: &mut Vec<Effect>) -> i64 {
    let id = state.next_message_id();
    let message = Message {
        id,
        session,
        parent,
        role,
        text,
        state: if role == Role::Assistant {
            MessageState::Streaming
        } else {
            MessageState::Done
        },
        meta: Meta::default(),
        created_at: state.clock.millis,
        active_child: None,
    };
    out.push(Effect::Store(StoreWrite::Add(Box::new(message.clone()))));
    state.chat.tree.add(message);
    state.sidebar.touch(session, state.clock.millis);
    id
}

fn answer(state: &mut State, session: i64, question: i64, out: &mut Vec<Effect>) {
    let id = add(state, session, Some(question), Role::Assistant, String::new(), out);
    let request = state.request(question, false);
    start(state, session, id, String::new(), Meta::default(), request, out);
}

fn start(state: &mut State, session: i64, message: i64, text: String, old: Meta, request: dspark_protocol::Request, out: &mut Vec<Effect>) {
    let model = state.engine.model.clone();
    let meta = Meta {
        model: model.as_ref().map(|model| model.name.clone()),
        quantization: model.as_ref().map(|model| model.quantization.clone()),
        engine_version: Some(env!("CARGO_PKG_VERSION").into()),
        sampling: serde_json::to_value(&request.sampling).unwrap_or_default(),
        reasoning_seconds: old.reasoning_seconds,
        ..Meta::default()
    };
    let sources = Sources::after(&old.sources, text.len());
    state.lives.insert(
        message,
        Live {
            session,
            message,
            phase: Phase::Submitted,
            text,
            tokens: 0,
            cancelled: false,
            since: state.clock.instant,
            first_token: None,
            thought: None,
            thought_tokens: 0,
            prompt: (0, 0),
            sources,
            meta,
        },
    );
    out.push(Effect::ScrollToEnd);
    out.push(Effect::Submit {
        message,
        request: Box::new(request),
    });
    count_tokens(state, out);
}

fn stop(state: &mut State, out: &mut Vec<Effect>) {
    if state.chat.waiting {
        state.chat.waiting = false;
        return;
    }
    let session = state.chat.session;
    if let Some(live) = state.lives.values_mut().find(|live| Some(live.session) == session) {
        live.cancelled = true;
        out.push(Effect::CancelTurn(live.message));
    }
}

fn go_on(state: &mut State, id: i64, out: &mut Vec<Effect>) {
    if !state.has_model() || state.live().is_some() {
        return;
    }
    let Some(message) = state.chat.tree.get_mut(id).filter(|message| message.role == Role::Assistant) else {
        return;
    };
    if message.text.trim().is_empty() {
        return retry(state, id, out);
    }
    message.state = MessageState::Streaming;
    let (session, text, old) = (message.session, message.text.clone(), message.meta.clone());
    let request = state.request(id, true);
    out.push(Effect::Store(StoreWrite::Resume(id)));
    start(state, session, id, text, old, request, out);
}

/// An empty answer is written anew in its own place.
fn retry(state: &mut State, id: i64, out: &mut Vec<Effect>) {
    let Some(message) = state.chat.tree.get_mut(id) else { return };
    let (session, Some(question)) = (message.session, message.parent) else {
        return;
    };
    message.state = MessageState::Streaming;
    message.meta = Meta::default();
    let request = state.request(question, false);
    out.push(Effect::Store(StoreWrite::Resume(id)));
    start(state, session, id, String::new(), Meta::default(), request, out);
}

fn regenerate(state: &mut State, id: i64, out: &mut Vec<Effect>) {
    if !state.has_model() || state.live().is_some() {
        return;
    }
    let Some(message) = state.chat.tree.get(id).filter(|message| message.role == Role::Assistant) else {
        return;
    };
    if message.text.is_empty() {
        return retry(state, id, out);
    }
    if let (session, Some(question)) = (message.session, message.parent) {
        answer(state, session, question, out);
    }
}

fn alternative(state: &mut State, id: i64, step: isize, out: &mut Vec<Effect>) {
    let alternatives = state.chat.tree.alternatives(id);
    let Some(next) = alternatives
        .index
        .checked_add_signed(step)
        .and_then(|index| alternatives.ids.get(index).copied())
    else {
        return;
    };
    let Some(message) = state.chat.tree.get(next) else { return };
    let (session, parent) = (message.session, message.parent);
    state.chat.tree.activate(parent, next);
    state.chat.edit = None;
    out.push(Effect::Store(StoreWrite::Activate {
        session,
        parent,
        child: next,
    }));
    count_tokens(state, out);
}

fn start_edit(state: &mut State, id: i64, out: &mut Vec<Effect>) {
    if state.live().is_some() {
        return;
    }
    if let Some(message) = state.chat.tree.get(id).filter(|message| message.role == Role::User) {
        let (files, words) = dspark_attach::split(&message.text);
        state.chat.edit = Some(Edit {
            message: id,
            files,
            text: words.into(),
        });
        out.push(Effect::Focus(Focus::Edit));
    }
}

fn send_edit(state: &mut State, out: &mut Vec<Effect>) {
    if !state.has_model() || state.live().is_some() {
        return;
    }
    let Some(edit) = state.chat.edit.take() else { return };
    let text = dspark_attach::message(&edit.files, edit.text.trim());
    if text.is_empty() {
        return;
    }
    if let Some(message) = state.chat.tree.get(edit.message) {
        let parent = message.parent;
        ask(state, parent, text, out);
    }
}

fn delete(state: &mut State, id: i64, out: &mut Vec<Effect>) {
    if let Some(live) = state.lives.get_mut(&id) {
        live.cancelled = true;
        out.push(Effect::CancelTurn(id));
    }
    let Some(mut message) = state.chat.tree.remove(id) else { return };
    if message.state == MessageState::Streaming {
        message.state = MessageState::Stopped;
    }
    out.push(Effect::Store(StoreWrite::DeleteMessage(id)));
    let undo = Msg::Chat(ChatMsg::Undelete(Box::new(message)));
    let toast = Toast::info(t!(message_deleted), t!(with_all_after)).action(t!(undo), vec![undo]);
    state.toasts.push(toast);
    count_tokens(state, out);
}
