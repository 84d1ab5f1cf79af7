//! From the chat settings to what the engine is asked.

use super::{State, split_reasoning};
use dspark_protocol::{Message, Mode, Prompt, Request, Role as EngineRole, Sampling, TemplateOptions};
use dspark_sessions::{Message as Stored, Role};
use dspark_strings::t;

/// How full the context window is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fill {
    Roomy,
    /// Above 70 %.
    Filling,
    /// Above 90 %.
    NearlyFull,
    Over,
}

impl State {
    /// How the open chat's replies are drawn.
    pub fn chat_settings(&self) -> &crate::settings::Chat {
        self.chat.options.as_deref().unwrap_or(&self.settings.chat)
    }

    /// Questions in the shown conversation.
    pub fn turns(&self) -> usize {
        let path = self.chat.tree.path();
        path.iter()
            .filter(|id| self.chat.tree.get(**id).is_some_and(|message| message.role == Role::User))
            .count()
    }

    /// By the conversation with what stands in the composer, once it has been counted.
    pub fn fill(&self) -> Fill {
        let window = self.engine.model.as_ref().map_or(0, |model| model.context_window);
        match self.chat.draft.tokens {
            Some(tokens) if window > 0 && tokens > window => Fill::Over,
            Some(tokens) if window > 0 && 10 * tokens > 9 * window => Fill::NearlyFull,
            Some(tokens) if window > 0 && 10 * tokens > 7 * window => Fill::Filling,
            _ => Fill::Roomy,
        }
    }

    pub(super) fn sampling(&self) -> Sampling {
        let chat = self.chat_settings();
        Sampling {
            temperature: chat.temperature,
            top_p: chat.top_p,
            top_k: chat.top_k,
            min_p: chat.min_p,
            repetition_penalty: chat.repetition_penalty,
            seed: chat.seed,
            ..Sampling::default()
        }
    }

    fn template(&self, continued: bool) -> TemplateOptions {
        let thinks = self.engine.model.as_ref().is_some_and(|model| model.supports_thinking);
        TemplateOptions {
            enable_thinking: thinks.then_some(self.chat_settings().thinking),
            continue_final_message: continued,
            ..TemplateOptions::default()
        }
    }

    /// The conversation up to `last` as the engine reads it. `continued` asks it to go on with the last message.
    pub(super) fn prompt(&self, last: Option<i64>, continued: bool, more: &str) -> Prompt {
        let mut messages: Vec<Message> = Vec::new();
        let system = self.chat_settings().system_prompt.trim();
        if !system.is_empty() {
            messages.push(Message::system(system));
        }
        let path = last.map(|id| self.chat.tree.path_to(id)).unwrap_or_default();
        let mut turn = 0;
        for stored in path.iter().filter_map(|id| self.chat.tree.get(*id)) {
            turn += usize::from(stored.role == Role::User);
            if turn <= self.chat.left_out && Some(stored.id) != last {
                continue;
            }
            push(&mut messages, stored, continued && Some(stored.id) == last);
        }
        if !more.trim().is_empty() {
            push_user(&mut messages, more.trim());
        }
        Prompt::Chat {
            messages,
            options: self.template(continued),
        }
    }

    pub(super) fn request(&self, last: i64, continued: bool) -> Request {
        Request {
            client: t!(chat).into(),
            prompt: self.prompt(Some(last), continued, ""),
            sampling: self.sampling(),
            mode: Mode::Auto,
            speculation: None,
            max_tokens: self.chat_settings().max_tokens,
            stop: Vec::new(),
            logprobs: None,
            ignore_eos: false,
            constraint: None,
            return_token_ids: false,
            fresh: false,
        }
    }
}

fn push(messages: &mut Vec<Message>, stored: &Stored, as_written: bool) {
    match stored.role {
        Role::User => push_user(messages, &stored.text),
        Role::System => messages.push(Message::system(stored.text.clone())),
        // An answer that never came is not part of the conversation.
        Role::Assistant if stored.text.trim().is_empty() => {}
        Role::Assistant if as_written => messages.push(Message::assistant(stored.text.clone())),
        Role::Assistant => {
            let parts = split_reasoning(&stored.text);
            messages.push(Message {
                reasoning: parts.reasoning.map(str::to_owned),
                ..Message::assistant(parts.answer)
            });
        }
    }
}

/// Templates want turns to alternate; two questions in a row (the first one's answer failed) become one.
fn push_user(messages: &mut Vec<Message>, text: &str) {
    match messages.last_mut() {
        Some(last) if last.role == EngineRole::User => {
            last.content.push_str("\n\n");
            last.content.push_str(text);
        }
        _ => messages.push(Message::user(text)),
    }
}
