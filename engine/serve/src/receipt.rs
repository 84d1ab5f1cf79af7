//! The cache receipt: how much of a prompt was reused, and if not all of it, where it parts from what came before.
//!
//! The engine says how many tokens it took from its cache. Why it was not more is told by comparing the conversation
//! with the recent ones, turn by turn: a changed system prompt, a tool that came or went, an edited message.

use dspark_protocol::{Message, Prompt, TemplateOptions, Usage};
use serde::Serialize;
use serde_json::{Value, json};
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
};

/// Conversations that are remembered, and bytes of them.
const KEPT: usize = 16;
const KEPT_BYTES: usize = 16 << 20;

/// Characters of the first differing text that are shown.
const SHOWN: usize = 80;

/// Tokens that a prompt may be short of full reuse: the end of a turn is written anew, and one token is always computed.
const SLACK: usize = 64;

const OPTIONS: &str = "the template's options";
/// A prompt without turns.
const WHOLE: &str = "the prompt";

#[derive(Debug, Clone, PartialEq, Eq)]
struct Part {
    label: String,
    text: Arc<str>,
}

type Parts = Vec<Part>;

/// The recent prompts of a server.
#[derive(Default)]
pub(crate) struct Ledger(Mutex<VecDeque<Parts>>);

/// How a prompt compares with the nearest one before it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Receipt {
    /// Whether any earlier prompt begins like this one.
    relation: Relation,
    /// The first text that differs: where, what it was, what it is.
    differs: Option<Difference>,
}

/// The first text in which a prompt differs from the nearest one before it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// `the system prompt`, `message 3 (user)`.
    #[serde(rename = "in")]
    pub label: String,
    /// From the first differing character on.
    pub before: String,
    pub now: String,
}

/// What of a prompt was taken from the cache, and why not more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CacheReceipt {
    /// Tokens.
    pub reused: usize,
    pub recomputed: usize,
    pub why: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_difference: Option<Difference>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Relation {
    /// Nothing like it was seen.
    #[default]
    New,
    /// All of an earlier prompt, and more.
    Continues,
    /// The same as an earlier prompt.
    Repeats,
    /// It shares a beginning with an earlier one.
    Differs,
}

impl Ledger {
    /// Compares a prompt with those before it, and remembers it.
    pub(crate) fn compare(&self, prompt: &Prompt) -> Receipt {
        let parts = parts(prompt);
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let nearest = known
            .iter()
            .enumerate()
            .map(|(index, earlier)| (shared(earlier, &parts), index))
            .filter(|(shared, _)| *shared > 0)
            .max();
        let receipt = nearest
            .and_then(|(_, index)| known.get(index))
            .map_or_else(Receipt::default, |earlier| Receipt::of(earlier, &parts));
        if receipt.relation == Relation::Continues
            && let Some((_, index)) = nearest
        {
            known.remove(index);
        }
        if receipt.relation != Relation::Repeats {
            known.push_back(parts);
        }
        let bytes = |known: &VecDeque<Parts>| known.iter().flatten().map(|part| part.text.len()).sum::<usize>();
        while known.len() > KEPT || (known.len() > 1 && bytes(&known) > KEPT_BYTES) {
            known.pop_front();
        }
        receipt
    }

    /// What was remembered belonged to a model that is gone.
    pub(crate) fn forget(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// Characters of whole and partial parts that two prompts share from the start.
fn shared(a: &Parts, b: &Parts) -> usize {
    let mut sum = 0;
    for (a, b) in a.iter().zip(b) {
        if a == b {
            // Options are alike in conversations that have nothing else in common.
            sum += if a.label == OPTIONS { 0 } else { a.text.len() };
            continue;
        }
        if a.label == b.label {
            sum += common(&a.text, &b.text);
        }
        break;
    }
    sum
}

fn common(a: &str, b: &str) -> usize {
    let bytes = a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
    (0..=bytes)
        .rev()
        .find(|at| a.is_char_boundary(*at) && b.is_char_boundary(*at))
        .unwrap_or(0)
}

impl Receipt {
    fn of(earlier: &Parts, now: &Parts) -> Self {
        let same = earlier.iter().zip(now).take_while(|(a, b)| a == b).count();
        match (earlier.get(same), now.get(same)) {
            (None, None) => Self {
                relation: Relation::Repeats,
                differs: None,
            },
            (None, Some(_)) => Self {
                relation: Relation::Continues,
                differs: None,
            },
            (before, after) => {
                let text = |part: Option<&Part>| part.map_or("", |part| &part.text).to_owned();
                let (before_text, after_text) = (text(before), text(after));
                let at = common(&before_text, &after_text);
                let clip = |text: &str| text[at..].chars().take(SHOWN).collect::<String>();
                Self {
                    relation: Relation::Differs,
                    differs: Some(Difference {
                        label: after.or(before).map(|part| part.label.clone()).unwrap_or_default(),
                        before: clip(&before_text),
                        now: clip(&after_text),
                    }),
                }
            }
        }
    }

    /// All of an earlier prompt stands at its beginning. A short one that differs early has little to compute, and is not
    /// the same for it.
    fn goes_on(&self, cached_tokens: usize) -> bool {
        match self.relation {
            Relation::Continues | Relation::Repeats => true,
            // A text that was written on.
            Relation::Differs => self
                .differs
                .as_ref()
                .is_some_and(|differs| differs.label == WHOLE && differs.before.is_empty()),
            // It is no longer remembered; a template's head alone would be short.
            Relation::New => cached_tokens > SLACK,
        }
    }

    /// `{reused, recomputed, why, first_difference?}`, in tokens and words.
    pub(crate) fn report(&self, usage: &Usage) -> Value {
        json!(self.told(usage))
    }

    pub(crate) fn told(&self, usage: &Usage) -> CacheReceipt {
        let recomputed = usage.prompt_tokens.saturating_sub(usage.cached_tokens);
        let why = match self.relation {
            _ if self.goes_on(usage.cached_tokens) && usage.cached_tokens > 0 && recomputed <= SLACK => {
                "everything but the new turn was reused".to_owned()
            }
            Relation::New if usage.cached_tokens == 0 => "nothing like this prompt was answered before".to_owned(),
            Relation::New => "it shares its beginning with a conversation that was answered earlier".to_owned(),
            Relation::Continues if usage.cached_tokens > 0 => "the conversation goes on; what is new was computed".to_owned(),
            Relation::Repeats if usage.cached_tokens > 0 => "the same prompt came before".to_owned(),
            Relation::Continues | Relation::Repeats => {
                "its beginning was computed before, but is no longer kept (it was too short, or other conversations took its place)"
                    .to_owned()
            }
            Relation::Differs => match &self.differs {
                Some(difference) => format!("{} is not what it was", difference.label),
                None => "it differs from what came before".to_owned(),
            },
        };
        CacheReceipt {
            reused: usage.cached_tokens,
            recomputed,
            why,
            first_difference: self.differs.clone(),
        }
    }
}

/// A prompt in the order in which templates write it: tools, options, turns.
fn parts(prompt: &Prompt) -> Parts {
    match prompt {
        Prompt::Text(text) => vec![part(WHOLE, text.as_str())],
        Prompt::Tokens(ids) => vec![part(WHOLE, format!("{ids:?}"))],
        Prompt::Chat { messages, options } => {
            let mut parts = vec![part("the tools", tools(options)), part(OPTIONS, flags(options))];
            parts.extend(messages.iter().enumerate().map(|(index, message)| turn(index, message)));
            parts
        }
    }
}

fn part(label: impl Into<String>, text: impl Into<Arc<str>>) -> Part {
    Part {
        label: label.into(),
        text: text.into(),
    }
}

fn tools(options: &TemplateOptions) -> String {
    options.tools.iter().map(Value::to_string).collect::<Vec<_>>().join("\n")
}

fn flags(options: &TemplateOptions) -> String {
    format!(
        "{:?} {:?} {}",
        options.enable_thinking,
        options.reasoning_effort,
        json!(options.extra)
    )
}

fn turn(index: usize, message: &Message) -> Part {
    let role = match message.role {
        dspark_protocol::Role::System => "the system prompt".to_owned(),
        role => format!("message {} ({})", index + 1, format!("{role:?}").to_lowercase()),
    };
    let calls: Vec<String> = message
        .tool_calls
        .iter()
        .map(|call| format!("{}{}", call.name, call.arguments))
        .collect();
    part(role, format!("{}{}", message.content, calls.join("\n")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chat(messages: Vec<Message>) -> Prompt {
        Prompt::Chat {
            messages,
            options: TemplateOptions::default(),
        }
    }

    fn usage(prompt_tokens: usize, cached_tokens: usize) -> Usage {
        Usage {
            prompt_tokens,
            cached_tokens,
            ..Usage::default()
        }
    }

    #[test]
    fn a_conversation_that_goes_on_is_told_from_one_that_changed() {
        let ledger = Ledger::default();
        let first = vec![Message::system("Be brief."), Message::user("Hello")];
        assert_eq!(ledger.compare(&chat(first.clone())).relation, Relation::New);
        assert_eq!(ledger.compare(&chat(first.clone())).relation, Relation::Repeats);
        let mut second = first.clone();
        second.extend([Message::assistant("Hi"), Message::user("More")]);
        let receipt = ledger.compare(&chat(second.clone()));
        assert_eq!(receipt.relation, Relation::Continues);
        assert_eq!(receipt.report(&usage(900, 100))["recomputed"], 800);

        second[0].content = "Be brief. cch=9f31c".into();
        let report = ledger.compare(&chat(second)).report(&usage(900, 0));
        assert_eq!(report["why"], "the system prompt is not what it was");
        assert_eq!(report["first_difference"]["now"], " cch=9f31c");
        assert_eq!(report["first_difference"]["before"], "");
    }

    #[test]
    fn a_short_prompt_that_differs_says_so() {
        let ledger = Ledger::default();
        let talk = |time: &str| chat(vec![Message::system(format!("It is {time}. Be brief.")), Message::user("Hello")]);
        ledger.compare(&talk("09:41"));
        let report = ledger.compare(&talk("09:42")).report(&usage(41, 18));
        assert_eq!(report["why"], "the system prompt is not what it was");
        assert_eq!(report["first_difference"]["now"], "2. Be brief.");
        // A template's head alone is no conversation.
        let other = ledger.compare(&chat(vec![Message::user("x")])).report(&usage(49, 24));
        assert_eq!(
            other["why"],
            "it shares its beginning with a conversation that was answered earlier"
        );
        // A text that is written on goes on.
        ledger.compare(&Prompt::Text("once upon".into()));
        let more = ledger.compare(&Prompt::Text("once upon a time".into())).report(&usage(40, 30));
        assert_eq!(more["why"], "everything but the new turn was reused");
    }

    #[test]
    fn the_nearest_of_several_is_the_one_compared_with() {
        let ledger = Ledger::default();
        let talk = |text: &str, last: &str| chat(vec![Message::system(text), Message::user(last)]);
        ledger.compare(&talk("You write titles.", "a"));
        ledger.compare(&talk("You write code.", "b"));
        assert_eq!(ledger.compare(&talk("Be brief.", "x")).relation, Relation::New, "nothing in common");
        let receipt = ledger.compare(&talk("You write code.", "c"));
        assert_eq!(receipt.differs.unwrap().label, "message 2 (user)");
    }

    #[test]
    fn tools_and_a_lost_cache_are_named() {
        let ledger = Ledger::default();
        let talk = vec![Message::user("Hello")];
        ledger.compare(&chat(talk.clone()));
        let report = ledger.compare(&chat(talk.clone())).report(&usage(900, 0));
        assert!(report["why"].as_str().unwrap().contains("no longer kept"), "{report}");
        let with_tools = Prompt::Chat {
            messages: talk,
            options: TemplateOptions {
                tools: vec![json!({"name": "f"})],
                ..TemplateOptions::default()
            },
        };
        // The tools come first: what differs from the start shares nothing.
        assert_eq!(ledger.compare(&with_tools).relation, Relation::New);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let ledger = Ledger::default();
        for index in 0..100 {
            ledger.compare(&Prompt::Text(format!("{index} {}", "x".repeat(1 << 20))));
        }
        let known = ledger.0.lock().unwrap();
        assert!(known.len() <= KEPT, "{}", known.len());
        assert!(known.iter().flatten().map(|part| part.text.len()).sum::<usize>() <= KEPT_BYTES + (1 << 20));
    }

    #[test]
    fn characters_are_never_cut() {
        assert_eq!(common("aé", "aè"), 1);
        assert_eq!(common("日本", "日木"), 3);
        let receipt = Receipt::of(&vec![part("x", "日本")], &vec![part("x", "日木")]);
        assert_eq!(receipt.differs.unwrap().now, "木");
    }
}
