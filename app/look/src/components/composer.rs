//! The composer: text that grows, a row of tools, send or stop.

use dspark_strings::t;
use std::sync::Arc;

use egui::{
    Event, Frame, ImeEvent, Key, KeyboardShortcut, Margin, Modifiers, Rect, Response, ScrollArea, Stroke, TextBuffer, TextEdit, Ui,
    text::LayoutJob, vec2,
};

use super::button::IconButton;
use crate::{Icon, Theme, Type, paint, space::radius};

/// Which key sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SendKey {
    /// Enter sends, Shift+Enter breaks the line.
    #[default]
    Enter,
    /// ⌘Enter (Ctrl+Enter) sends, Enter breaks the line.
    CommandEnter,
}

/// What the composer's button is for now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ComposerState {
    /// Send when there is text.
    Ready,
    /// A reply is running: the button stops it.
    Generating,
    /// Nothing can be sent (no model): the button is dim.
    Unavailable,
}

pub struct Composer<'a> {
    pub text: &'a mut String,
    /// Something goes out beside the text (files), so that an empty one may be sent.
    pub accompanied: bool,
    /// Placeholder: "Reply to Qwen3-8B…".
    pub hint: &'a str,
    /// At the right of the tools: "1,184 of 40,960".
    pub note: &'a str,
    pub state: ComposerState,
    pub send_key: SendKey,
    /// Height of the window: the text grows to 40 % of it.
    pub window_height: f32,
    pub id: egui::Id,
}

pub struct ComposerResponse {
    /// The text field: `has_focus`, `changed`.
    pub field: Response,
    /// The whole frame, for drops.
    pub frame: Response,
    pub send: bool,
    pub stop: bool,
}

impl Composer<'_> {
    /// `tools` adds the attach button, options and so on at the left of the lower row.
    pub fn show(self, ui: &mut Ui, tools: impl FnOnce(&mut Ui)) -> ComposerResponse {
        let theme = Theme::of(ui);
        let focused = ui.memory(|m| m.has_focus(self.id));
        let frame = Frame {
            inner_margin: Margin {
                left: 16,
                right: 12,
                top: 12,
                bottom: 10,
            },
            fill: theme.raised,
            stroke: Stroke::new(1.0, if focused { theme.t3 } else { theme.line2 }),
            corner_radius: radius::COMPOSER,
            ..Frame::NONE
        };
        // Before the text edit sees the key.
        let key = focused && takes_send_key(ui, self.id, self.send_key);
        let mut clicked = false;
        let has_text = self.accompanied || !self.text.trim().is_empty();
        let (state, note) = (self.state, self.note);
        let shown = frame.show(ui, |ui| {
            ui.set_width(ui.available_width());
            ui.spacing_mut().item_spacing.y = 0.0;
            let field = self.edit(ui);
            ui.add_space(8.0);
            let row = Rect::from_min_size(ui.cursor().min - vec2(8.0, 0.0), vec2(ui.available_width() + 8.0, 32.0));
            ui.allocate_rect(row.with_min_x(row.left() + 8.0), egui::Sense::hover());
            let end = paint::over_right(ui, row, |ui| {
                ui.spacing_mut().item_spacing.x = 2.0;
                clicked = ui.add(send_button(theme, state, has_text)).clicked();
                ui.add_space(12.0);
                ui.label(Type::SMALL.rich(note, theme.t3));
                ui.min_rect().left()
            });
            let left = row.with_max_x(end - 8.0);
            paint::over_left(ui, left, |ui| {
                ui.spacing_mut().item_spacing.x = 2.0;
                ui.set_clip_rect(ui.clip_rect().intersect(left.expand(4.0)));
                tools(ui);
            });
            field
        });
        ComposerResponse {
            field: shown.inner,
            frame: shown.response,
            send: (clicked || key) && state == ComposerState::Ready && has_text,
            stop: clicked && state == ComposerState::Generating,
        }
    }

    fn edit(self, ui: &mut Ui) -> Response {
        let theme = Theme::of(ui);
        let limit = (self.window_height * 0.4).max(66.0);
        let mut layout = |ui: &Ui, text: &dyn TextBuffer, width: f32| -> Arc<egui::Galley> {
            let mut job = LayoutJob::single_section(text.as_str().to_owned(), Type::PROSE.format(theme.t1));
            job.wrap.max_width = width;
            job.keep_trailing_whitespace = true;
            ui.fonts_mut(|f| f.layout_job(job))
        };
        let newline = match self.send_key {
            SendKey::Enter => KeyboardShortcut::new(Modifiers::SHIFT, Key::Enter),
            SendKey::CommandEnter => KeyboardShortcut::new(Modifiers::NONE, Key::Enter),
        };
        ScrollArea::vertical()
            .id_salt(self.id.with("scroll"))
            .max_height(limit)
            .show(ui, |ui| {
                ui.spacing_mut().interact_size.y = Type::PROSE.line;
                let edit = TextEdit::multiline(self.text)
                    .id(self.id)
                    .frame(Frame::NONE)
                    .desired_rows(1)
                    .desired_width(f32::INFINITY)
                    .font(Type::PROSE.font())
                    .text_color(theme.t1)
                    .hint_text(Type::PROSE.rich(self.hint, theme.t3))
                    .return_key(newline)
                    .min_size(vec2(0.0, Type::PROSE.line))
                    .layouter(&mut layout);
                ui.add(edit).accessible_name(t!(message))
            })
            .inner
    }
}

fn send_button(theme: &Theme, state: ComposerState, has_text: bool) -> IconButton<'static> {
    let clear = egui::Color32::TRANSPARENT;
    let button = match state {
        ComposerState::Generating => {
            IconButton::new(Icon::StopFill, t!(stop))
                .icon_size(14.0)
                .color(theme.t1)
                .filled(theme.raised, theme.line2, 9.into())
        }
        ComposerState::Ready if has_text => {
            IconButton::new(Icon::ArrowUp, t!(send))
                .color(theme.on_accent)
                .filled(theme.accent_fill, clear, 9.into())
        }
        _ => IconButton::new(Icon::ArrowUp, t!(send))
            .enabled(false)
            .filled(theme.hover, clear, 9.into()),
    };
    button.side(32.0)
}

/// True when this frame's Enter in the field `id` means "send". The key is consumed then, and what was typed after it waits
/// for the next frame, when the sent text is gone. Enter that ends or edits an IME composition never sends.
pub fn takes_send_key(ui: &Ui, id: egui::Id, send_key: SendKey) -> bool {
    let later_id = id.with("typed after Enter");
    if let Some(later) = ui.data_mut(|d| d.remove_temp::<Vec<Event>>(later_id)) {
        ui.input_mut(|i| {
            i.events.splice(..0, later);
        });
    }
    let composing_id = id.with("composing");
    let mut composing: bool = ui.data(|d| d.get_temp(composing_id)).unwrap_or(false);
    let mut touched = composing;
    ui.input(|i| {
        for event in &i.events {
            match event {
                Event::Ime(ImeEvent::Preedit { text, .. }) => {
                    composing = !text.is_empty();
                    touched = true;
                }
                Event::Ime(ImeEvent::Commit(_)) => {
                    composing = false;
                    touched = true;
                }
                _ => {}
            }
        }
    });
    ui.data_mut(|d| d.insert_temp(composing_id, composing));
    if touched {
        return false;
    }
    // Each key has modifiers of its own: those of the frame are what was held at its end, which a fast chord is not.
    let sends = |event: &Event| match event {
        Event::Key {
            key: Key::Enter,
            pressed: true,
            modifiers,
            ..
        } => match send_key {
            SendKey::Enter => !(modifiers.shift || modifiers.alt),
            SendKey::CommandEnter => modifiers.command && !modifiers.alt,
        },
        _ => false,
    };
    let later = ui.input_mut(|i| {
        let at = i.events.iter().position(sends)?;
        let later = i.events.split_off(at + 1);
        i.events.pop();
        Some(later)
    });
    let Some(later) = later else { return false };
    if !later.is_empty() {
        ui.data_mut(|d| d.insert_temp(later_id, later));
        ui.ctx().request_repaint();
    }
    true
}
