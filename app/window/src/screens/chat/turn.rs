//! The conversation, message by message. Messages out of sight cost their measured height and nothing more.

use super::{
    message,
    view::{ChatView, MessageView},
};
use crate::state::{ChatMsg, Msg, State};
use dspark_sessions::{Message, Role};
use egui::{Ui, vec2};

const TURN_GAP: f32 = 28.0;
const REPLY_GAP: f32 = 16.0;
/// Drawn although out of sight, so that scrolling shows no gap.
const AHEAD: f32 = 600.0;

pub(super) fn show(ui: &mut Ui, state: &State, view: &mut ChatView, out: &mut Vec<Msg>) {
    let path = state.chat.tree.path();
    let visible = ui.clip_rect().y_range().expand(AHEAD);
    let width = ui.available_width();
    let last = path.len().saturating_sub(1);
    let mut before: Option<Role> = None;
    for (index, id) in path.iter().enumerate() {
        let Some(stored) = state.chat.tree.get(*id) else { continue };
        match (before, stored.role) {
            (None, _) => {}
            (Some(Role::User), Role::Assistant) => {
                ui.add_space(REPLY_GAP);
            }
            _ => {
                ui.add_space(TURN_GAP - 14.0);
            }
        }
        before = Some(stored.role);
        let entry = view.messages.entry(*id).or_default();
        let live = state.lives.get(id);
        let edited = state.chat.edit.as_ref().is_some_and(|edit| edit.message == *id);
        let reveal = state.chat.reveal == Some(*id);
        let top = ui.cursor().top();
        let height = height(entry, stored, width);
        let away = top > visible.max || top + height < visible.min;
        if away && live.is_none() && !edited && !reveal && index != last {
            ui.allocate_space(vec2(width, height));
            continue;
        }
        entry.update(&stored.text);
        ui.push_id(*id, |ui| match stored.role {
            Role::User => message::question(ui, state, stored, &mut view.focus_edit, out),
            _ => message::answer(ui, state, stored, entry, live, index == last, out),
        });
        if live.is_none() && !edited {
            entry.measured = Some((ui.cursor().top() - top, width));
        }
        if reveal {
            let rect = egui::Rect::from_min_max(egui::pos2(0.0, top), egui::pos2(width, ui.cursor().top()));
            ui.scroll_to_rect(rect, Some(egui::Align::Center));
            out.push(Msg::Chat(ChatMsg::Revealed));
        }
    }
}

/// The measured height, or a guess until the message has been in sight.
fn height(entry: &MessageView, stored: &Message, width: f32) -> f32 {
    match entry.measured {
        Some((height, at)) if at == width => height,
        _ => {
            let per_line = (width / 7.0).max(20.0);
            let lines: f32 = stored.text.lines().map(|line| (line.len() as f32 / per_line).ceil().max(1.0)).sum();
            46.0 + 22.0 * lines
        }
    }
}
