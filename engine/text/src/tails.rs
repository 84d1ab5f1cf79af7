//! How much of a prompt's end the next turn writes differently. A template opens the assistant's turn with words of its own
//! (`<think>`, an empty block of reasoning) that it leaves out again once the turn is part of the history, so what was
//! computed is good for the next turn up to there. Found by trying. Source: `spec/caching-batching.md` §1.3.

use crate::Tokenizer;
use dspark_protocol::{Message, TemplateOptions};

/// Longer tails are not the template's doing.
const LONGEST: usize = 64;

/// The unstable ends of a template's prompts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tails(Vec<Tail>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Tail {
    /// What a prompt of this kind ends with, whatever was said before.
    ending: Vec<u32>,
    /// How many tokens at the end of the prompt may be gone from the next.
    unstable: usize,
}

impl Tails {
    /// Tries the template with a turn and its continuation, under each setting of thinking. Empty where there is no
    /// template, or it refuses.
    pub fn of(tokenizer: &Tokenizer) -> Self {
        let mut tails: Vec<Tail> = [None, Some(true), Some(false)]
            .into_iter()
            .filter_map(|thinking| tail(tokenizer, thinking))
            .collect();
        tails.sort_by_key(|tail| std::cmp::Reverse((tail.ending.len(), tail.unstable)));
        tails.dedup_by(|later, first| later.ending == first.ending);
        Self(tails)
    }

    /// Tokens at the end of `prompt` that the next turn may write differently; at least the one that has to be computed
    /// for there to be an answer.
    pub fn unstable(&self, prompt: &[u32]) -> usize {
        let whole = self.0.iter().find(|tail| prompt.ends_with(&tail.ending));
        // After a tool's result the turn before ends otherwise; the assistant's opening is the same.
        let opening = || {
            let own = |tail: &&Tail| tail.unstable > 1 && prompt.ends_with(&tail.ending[tail.ending.len() - tail.unstable..]);
            self.0.iter().filter(own).max_by_key(|tail| tail.unstable)
        };
        whole.or_else(opening).map_or(1, |tail| tail.unstable.max(1))
    }
}

fn tail(tokenizer: &Tokenizer, thinking: Option<bool>) -> Option<Tail> {
    let options = TemplateOptions {
        enable_thinking: thinking,
        ..TemplateOptions::default()
    };
    let ids = |messages: &[Message]| tokenizer.encode_chat(messages, &options).ok();
    let (asked, other) = (ids(&[Message::user("a")])?, ids(&[Message::user("one more")])?);
    let alike = asked.iter().rev().zip(other.iter().rev()).take_while(|(a, b)| a == b).count();
    let reply = |text: &str, reasoning: Option<&str>| {
        let mut reply = Message::assistant(text);
        reply.reasoning = reasoning.map(str::to_owned);
        ids(&[Message::user("a"), reply, Message::user("c")])
    };
    let next = [reply("b", None), reply("b", Some("t"))];
    let kept = next
        .iter()
        .flatten()
        .map(|next| asked.iter().zip(next).take_while(|(a, b)| a == b).count())
        .min()?;
    let unstable = asked.len() - kept;
    (alike > 0 && unstable <= LONGEST).then(|| Tail {
        ending: asked[asked.len() - alike.min(LONGEST).max(unstable)..].to_vec(),
        unstable,
    })
}
