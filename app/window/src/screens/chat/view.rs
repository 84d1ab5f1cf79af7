use crate::{
    markdown::{Blocks, Document},
    state::{State, split_reasoning},
};
use std::collections::HashMap;

/// What the chat screen remembers between frames: parsed text and measured heights.
#[derive(Default)]
pub struct ChatView {
    pub(super) messages: HashMap<i64, MessageView>,
    session: Option<i64>,
    /// Scroll to the end with the next frame.
    pub to_end: bool,
    /// Give the keyboard to the composer, or to the field of an edited message.
    pub focus_composer: bool,
    pub focus_edit: bool,
    /// Nothing had the keyboard when this frame began.
    pub free_keyboard: bool,
    /// Where the composer begins, in points from the top of the window.
    pub top: Option<f32>,
    /// Of the composer with what stands above it, in the last frame.
    pub(super) composer_height: Option<f32>,
    pub(super) options: super::options::OptionsView,
}

#[derive(Default)]
pub(super) struct MessageView {
    pub answer: Document,
    pub answer_blocks: Blocks,
    pub thoughts: Document,
    pub thoughts_blocks: Blocks,
    /// `None` until a person folds or unfolds it.
    pub thoughts_open: Option<bool>,
    /// Height and width it had when last drawn whole.
    pub measured: Option<(f32, f32)>,
    /// Length of the text that `answer` and `thoughts` were made from.
    length: Option<usize>,
}

impl ChatView {
    /// Forgets another session's messages.
    pub(super) fn sync(&mut self, state: &State) {
        if self.session != state.chat.session {
            // A chat that has just been created keeps what it shows.
            if self.session.is_some() || self.messages.len() > 2 {
                self.messages.clear();
            }
            self.session = state.chat.session;
        }
    }
}

impl MessageView {
    /// Brings the parsed text up to date. Text only ever grows, so its length tells.
    pub(super) fn update(&mut self, text: &str) {
        if self.length == Some(text.len()) {
            return;
        }
        self.length = Some(text.len());
        self.measured = None;
        let parts = split_reasoning(text);
        let changed = self.answer.update(parts.answer);
        self.answer_blocks.changed_from(changed);
        let changed = self.thoughts.update(parts.reasoning.unwrap_or(""));
        self.thoughts_blocks.changed_from(changed);
    }
}
