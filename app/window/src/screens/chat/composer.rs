use super::{meter, options, view::ChatView};
use crate::{
    shell::{keys, text::count},
    state::{ChatMsg, DesktopMsg, FilesMsg, LONG_PASTE, Msg, Phase, Purpose, State},
};
use dspark_look::{Button, Composer, ComposerState, Icon, IconButton, SendKey};
use dspark_strings::t;
use egui::{Event, Id, Ui};

/// Where the text field is in the focus order.
pub const COMPOSER: &str = "composer field";

pub(super) fn show(ui: &mut Ui, state: &State, view: &mut ChatView, out: &mut Vec<Msg>) {
    let id = Id::unique(COMPOSER);
    let mut text = state.chat.draft.text.clone();
    let model = state.engine.model.as_ref();
    let coming = state.models.loading.is_some() || state.models.fetching.is_some();
    let hint = match model {
        Some(model) if state.chat.tree.is_empty() => t!(message_model, model = model.name),
        Some(model) => t!(reply_to_model, model = model.name),
        None if coming => t!(write_now).into(),
        None => t!(load_to_write).into(),
    };
    let note = note(state, coming);
    let mode = if state.live().is_some() || state.chat.waiting {
        ComposerState::Generating
    } else {
        // Without a model what is sent waits for one.
        ComposerState::Ready
    };
    // A field that gives up the keyboard in this frame, as one that is renamed does on Enter, has had this frame's letters.
    let unclaimed = view.free_keyboard && unclaimed(ui, state);
    if unclaimed
        && ui.input(|input| {
            input
                .events
                .iter()
                .any(|event| matches!(event, Event::Text(_) | Event::Paste(_) | Event::Ime(_)))
        })
    {
        ui.memory_mut(|memory| memory.request_focus(id));
    }
    let focused = unclaimed || ui.memory(|memory| memory.has_focus(id));
    if keys::edits_last(ui, state, focused) {
        out.push(Msg::Chat(ChatMsg::EditLast));
    }
    meter::show(ui, state, out);
    files(ui, state, out);
    if focused {
        long_paste(ui, out);
    }
    let window_height = ui.ctx().content_rect().height();
    let shown = Composer {
        text: &mut text,
        accompanied: !state.chat.draft.files.is_empty(),
        hint: &hint,
        note: &note,
        state: mode,
        send_key: SendKey::Enter,
        window_height,
        id,
    }
    .show(ui, |ui| tools(ui, state, view, out));
    view.top = Some(shown.frame.rect.top());
    if text != state.chat.draft.text {
        out.push(Msg::Chat(ChatMsg::Compose(text)));
    }
    if shown.send {
        out.push(Msg::Chat(ChatMsg::Send));
    }
    if shown.stop {
        out.push(Msg::Chat(ChatMsg::Stop));
    }
    if std::mem::take(&mut view.focus_composer) {
        shown.field.request_focus();
    }
}

/// The system's file dialog; what it brings takes the way of files that are dropped.
fn attach(ui: &mut Ui, out: &mut Vec<Msg>) {
    let button = ui.add(IconButton::new(Icon::Paperclip, t!(attach_files)).side(26.0));
    if button.on_hover_text(t!(attach_files_tip)).clicked() {
        out.push(DesktopMsg::Choose(Purpose::Attach).into());
    }
}

/// The files that go with the message.
fn files(ui: &mut Ui, state: &State, out: &mut Vec<Msg>) {
    let files = &state.chat.draft.files;
    if files.is_empty() {
        return;
    }
    ui.horizontal_wrapped(|ui| {
        ui.spacing_mut().item_spacing = egui::vec2(6.0, 6.0);
        for (at, file) in files.iter().enumerate() {
            let label = t!(remove_named, name = file.name);
            let detail = lines(file);
            let chip = Button::secondary(&file.name)
                .small()
                .icon(Icon::FileText)
                .detail(&detail)
                .label(&label);
            if ui.add(chip).on_hover_text(t!(click_take_out)).clicked() {
                out.push(Msg::Files(FilesMsg::Remove(at)));
            }
        }
    });
    ui.add_space(8.0);
}

/// `12 lines`.
pub(super) fn lines(file: &dspark_attach::Attachment) -> String {
    let n = file.lines();
    t!(count_lines, n = n, count = count(n))
}

/// A long paste becomes a file beside the text.
fn long_paste(ui: &Ui, out: &mut Vec<Msg>) {
    ui.input_mut(|input| {
        input.events.retain(|event| match event {
            Event::Paste(text) if text.len() > LONG_PASTE => {
                out.push(Msg::Files(FilesMsg::Pasted(text.clone())));
                false
            }
            _ => true,
        });
    });
}

/// Nothing else has the keyboard: a button was pressed, or Escape stopped an answer and left the field. What is typed then
/// is meant for the composer.
fn unclaimed(ui: &Ui, state: &State) -> bool {
    let asked = state.confirm_quit.is_some() || state.models.picker_open || state.chat.edit.is_some();
    !asked && !egui::Popup::is_any_open(ui.ctx()) && ui.memory(|memory| memory.focused().is_none())
}

/// `1,184 of 40,960`: the conversation with this text, of the context window.
fn note(state: &State, coming: bool) -> String {
    if state.chat.waiting {
        return t!(waiting_for_model).into();
    }
    let Some(model) = &state.engine.model else {
        return if coming { t!(model_on_way) } else { t!(no_model_yet) }.into();
    };
    let live = state.live().filter(|live| live.phase == Phase::Generating);
    let live_tokens = live.map(|live| live.prompt.0 + live.tokens);
    match live_tokens.or(state.chat.draft.tokens) {
        Some(tokens) if tokens > model.context_window => t!(too_long_of, tokens = count(tokens), window = count(model.context_window)),
        Some(tokens) => t!(done_of_total, done = count(tokens), total = count(model.context_window)),
        None => String::new(),
    }
}

fn tools(ui: &mut Ui, state: &State, view: &mut ChatView, out: &mut Vec<Msg>) {
    attach(ui, out);
    let button = ui.add(Button::quiet(t!(options_button)).small().icon(Icon::SlidersHorizontal));
    if button.clicked() {
        view.options.open = !view.options.open;
    }
    options::popup(&button, state, &mut view.options, out);
    if state.engine.model.as_ref().is_some_and(|model| model.supports_thinking) {
        let on = state.chat_settings().thinking;
        let think = Button::quiet(t!(think))
            .small()
            .icon(Icon::Brain)
            .detail(if on { t!(think_on) } else { t!(think_off) });
        if ui.add(think).clicked() {
            let mut edited = state.chat_settings().clone();
            edited.thinking = !on;
            options::keep(state, edited, out);
        }
    }
}
