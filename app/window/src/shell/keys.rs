//! The keyboard map: one table for the window, the tooltips, and the help page.

use crate::state::{ChatMsg, ModelsMsg, Msg, PaletteMsg, Screen, SettingsMsg, SettingsPage, SidebarMsg, State};
use dspark_sessions::Role;
use dspark_strings::{Key as Words, key, t};
use egui::{Event, InputState, Key, KeyboardShortcut, Modifiers, Ui};

/// A command with a key of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    NewChat,
    Chat,
    Lab,
    Models,
    Agents,
    Settings,
    Preferences,
    Picker,
    Palette,
    SearchChats,
    Regenerate,
    Rename,
    DeleteChat,
    CloseWindow,
    Quit,
    Bigger,
    Smaller,
    NormalSize,
}

const SHIFT: Modifiers = Modifiers {
    shift: true,
    ..Modifiers::COMMAND
};

pub const MAP: &[(Action, Modifiers, Key, Option<Words>)] = &[
    (Action::NewChat, Modifiers::COMMAND, Key::N, Some(key!(new_chat))),
    (Action::Chat, Modifiers::COMMAND, Key::Num1, Some(key!(chat))),
    (Action::Lab, Modifiers::COMMAND, Key::Num2, Some(key!(lab))),
    (Action::Models, Modifiers::COMMAND, Key::Num3, Some(key!(models))),
    (Action::Agents, Modifiers::COMMAND, Key::Num4, Some(key!(agents))),
    (Action::Settings, Modifiers::COMMAND, Key::Num5, Some(key!(settings))),
    (Action::Preferences, Modifiers::COMMAND, Key::Comma, Some(key!(settings))),
    (Action::Palette, Modifiers::COMMAND, Key::K, Some(key!(find_command))),
    (Action::Picker, Modifiers::COMMAND, Key::L, Some(key!(choose_model))),
    (Action::SearchChats, SHIFT, Key::F, Some(key!(search_chats))),
    (Action::Regenerate, Modifiers::COMMAND, Key::R, Some(key!(another_answer))),
    (Action::Rename, SHIFT, Key::R, Some(key!(rename_chat))),
    (Action::DeleteChat, SHIFT, Key::Backspace, Some(key!(delete_chat))),
    (Action::Bigger, Modifiers::COMMAND, Key::Plus, Some(key!(larger_text))),
    (Action::Bigger, Modifiers::COMMAND, Key::Equals, None),
    (Action::Smaller, Modifiers::COMMAND, Key::Minus, Some(key!(smaller_text))),
    (Action::NormalSize, Modifiers::COMMAND, Key::Num0, Some(key!(normal_text))),
    (Action::CloseWindow, Modifiers::COMMAND, Key::W, Some(key!(close_window))),
    (Action::Quit, Modifiers::COMMAND, Key::Q, Some(key!(quit))),
];

/// How a key is written here: `⌘1`, `⇧⌘F`; elsewhere `Ctrl 1`, `Ctrl ⇧ F`.
pub fn label(modifiers: Modifiers, key: Key) -> String {
    label_parts(modifiers, key).join(if cfg!(target_os = "macos") { "" } else { " " })
}

/// The same key by key.
pub fn label_parts(modifiers: Modifiers, key: Key) -> Vec<String> {
    let name = match key {
        Key::Backspace => "⌫",
        Key::Comma => ",",
        Key::Plus => "+",
        Key::Minus => "−",
        other => other.symbol_or_name(),
    };
    let shift = modifiers.shift.then_some("⇧");
    let parts = if cfg!(target_os = "macos") {
        [shift, Some("⌘"), Some(name)]
    } else {
        [Some(t!(key_ctrl)), shift, Some(name)]
    };
    parts.into_iter().flatten().map(str::to_owned).collect()
}

pub fn label_of(action: Action) -> String {
    MAP.iter()
        .find(|entry| entry.0 == action)
        .map_or_else(String::new, |(_, modifiers, key, _)| label(*modifiers, *key))
}

/// Reads this frame's keys.
pub(crate) fn read(ui: &Ui, state: &State, out: &mut Vec<Msg>) {
    if state.confirm_quit.is_some() || state.agents.sheet.is_some() || state.data.asking || state.data.report.is_some() {
        return;
    }
    if state.palette.is_some() {
        // Everything else is for the palette.
        if ui.input_mut(|input| input.consume_shortcut(&KeyboardShortcut::new(Modifiers::COMMAND, Key::K))) {
            out.push(Msg::Palette(PaletteMsg::Open(false)));
        }
        return;
    }
    for (action, modifiers, key, _) in MAP {
        if ui.input_mut(|input| takes(input, *modifiers, *key)) {
            act(*action, state, out);
        }
    }
    // An open menu takes Escape for itself.
    let menu = egui::Popup::is_any_open(ui.ctx()) && !state.models.picker_open;
    if !menu && ui.input(|input| input.key_pressed(Key::Escape)) {
        escape(state, out);
    }
}

/// Consumes a press of the key with these modifiers. Those of the key itself count: at the end of a frame a fast chord is no
/// longer held. Shift is part of what some layouts need for a plus.
fn takes(input: &mut InputState, wanted: Modifiers, key: Key) -> bool {
    let free = matches!(key, Key::Plus | Key::Equals);
    let count = input.events.len();
    input.events.retain(|event| match event {
        Event::Key {
            key: pressed_key,
            pressed: true,
            modifiers,
            ..
        } => *pressed_key != key || !modifiers.matches_logically(wanted) || (modifiers.shift != wanted.shift && !free),
        _ => true,
    });
    input.events.len() < count
}

/// What a command does now.
pub(super) fn act(action: Action, state: &State, out: &mut Vec<Msg>) {
    match action {
        Action::NewChat => out.push(Msg::Chat(ChatMsg::New)),
        Action::Chat => out.push(Msg::Show(Screen::Chat)),
        Action::Lab => out.push(Msg::Show(Screen::Lab)),
        Action::Models => out.push(Msg::Show(Screen::Models)),
        Action::Agents => out.push(Msg::Show(Screen::Agents)),
        Action::Settings => out.push(Msg::Show(Screen::Settings)),
        Action::Preferences => {
            out.push(Msg::Settings(SettingsMsg::Page(SettingsPage::General)));
            out.push(Msg::Show(Screen::Settings));
        }
        Action::Picker => out.push(Msg::Models(ModelsMsg::Picker(!state.models.picker_open))),
        Action::Palette => out.push(Msg::Palette(PaletteMsg::Open(true))),
        Action::SearchChats => out.push(Msg::Sidebar(SidebarMsg::OpenSearch(!state.sidebar.search_open))),
        Action::Regenerate => out.push(Msg::Chat(ChatMsg::RegenerateLast)),
        Action::Rename => out.extend(state.chat.session.map(|id| Msg::Sidebar(SidebarMsg::StartRename(id)))),
        Action::DeleteChat => out.extend(state.chat.session.map(|id| Msg::Sidebar(SidebarMsg::Delete(id)))),
        Action::CloseWindow => out.push(Msg::CloseWindow),
        Action::Quit => out.push(Msg::Quit),
        Action::Bigger => scale(state, |percent| percent + 10, out),
        Action::Smaller => scale(state, |percent| percent.saturating_sub(10), out),
        Action::NormalSize => scale(state, |_| 100, out),
    }
}

fn scale(state: &State, change: impl Fn(u32) -> u32, out: &mut Vec<Msg>) {
    let mut settings = state.settings.clone();
    settings.appearance.text_scale = change(settings.appearance.text_scale).clamp(80, 200);
    out.push(Msg::Settings(SettingsMsg::Changed(Box::new(settings))));
}

/// Closes what is open, innermost first; then stops.
fn escape(state: &State, out: &mut Vec<Msg>) {
    if state.models.picker_open {
        out.push(Msg::Models(ModelsMsg::Picker(false)));
    } else if state.sidebar.rename.is_some() {
        // The field itself answers.
    } else if state.chat.edit.is_some() {
        out.push(Msg::Chat(ChatMsg::CancelEdit));
    } else if state.sidebar.popover {
        out.push(Msg::Sidebar(SidebarMsg::Popover(false)));
    } else if state.live().is_some() || state.chat.waiting {
        out.push(Msg::Chat(ChatMsg::Stop));
    } else if state.sidebar.search_open {
        out.push(Msg::Sidebar(SidebarMsg::OpenSearch(false)));
    }
}

/// Up in an empty composer edits the last question.
pub(crate) fn edits_last(ui: &Ui, state: &State, composer_focused: bool) -> bool {
    composer_focused
        && state.chat.draft.text.is_empty()
        && state.chat.tree.messages().any(|message| message.role == Role::User)
        && ui.input(|input| input.key_pressed(Key::ArrowUp) && input.modifiers.is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_key_twice() {
        for (at, (_, modifiers, key, _)) in MAP.iter().enumerate() {
            assert!(!MAP[..at].iter().any(|other| (&other.1, &other.2) == (modifiers, key)), "{key:?}");
        }
    }
}
