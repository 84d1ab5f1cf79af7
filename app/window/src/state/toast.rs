use super::Msg;
use std::collections::VecDeque;

/// Actions of toasts that may still be on the screen.
const REMEMBERED: usize = 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToastTone {
    Good,
    Info,
    Warning,
    Error,
}

/// A button on a toast. More than one message is handled in order.
#[derive(Debug, Clone)]
pub struct ToastAction {
    pub label: &'static str,
    messages: Vec<Msg>,
}

impl ToastAction {
    pub fn new(label: &'static str, messages: Vec<Msg>) -> Self {
        Self { label, messages }
    }

    pub(crate) fn into_messages(self) -> Vec<Msg> {
        self.messages
    }
}

#[derive(Debug, Clone)]
pub struct Toast {
    pub id: u64,
    pub tone: ToastTone,
    pub title: String,
    pub body: String,
    pub action: Option<ToastAction>,
}

impl Toast {
    fn new(tone: ToastTone, title: impl Into<String>, body: impl Into<String>) -> Self {
        Self {
            id: 0,
            tone,
            title: title.into(),
            body: body.into(),
            action: None,
        }
    }

    pub fn good(title: impl Into<String>, body: impl Into<String>) -> Self {
        Self::new(ToastTone::Good, title, body)
    }

    pub fn info(title: impl Into<String>, body: impl Into<String>) -> Self {
        Self::new(ToastTone::Info, title, body)
    }

    pub fn warning(title: impl Into<String>, body: impl Into<String>) -> Self {
        Self::new(ToastTone::Warning, title, body)
    }

    pub fn error(title: impl Into<String>, body: impl Into<String>) -> Self {
        Self::new(ToastTone::Error, title, body)
    }

    #[must_use]
    pub fn action(mut self, label: &'static str, messages: Vec<Msg>) -> Self {
        self.action = Some(ToastAction::new(label, messages));
        self
    }
}

/// Notes for the lower right corner. The window draws them and decides when they go; the latest ones are remembered
/// here for their actions.
#[derive(Debug, Clone, Default)]
pub struct Toasts {
    latest: VecDeque<Toast>,
    next: u64,
    drawn: u64,
}

impl Toasts {
    pub(crate) fn push(&mut self, mut toast: Toast) {
        self.next += 1;
        toast.id = self.next;
        self.latest.push_back(toast);
        if self.latest.len() > REMEMBERED {
            self.latest.pop_front();
        }
    }

    pub(crate) fn take_action(&mut self, id: u64) -> Option<ToastAction> {
        self.latest.iter_mut().find(|toast| toast.id == id)?.action.take()
    }

    /// Those that have not been drawn yet.
    pub fn fresh(&mut self) -> Vec<Toast> {
        let drawn = std::mem::replace(&mut self.drawn, self.next);
        self.latest.iter().filter(|toast| toast.id > drawn).cloned().collect()
    }

    pub fn latest(&self) -> Option<&Toast> {
        self.latest.back()
    }
}
