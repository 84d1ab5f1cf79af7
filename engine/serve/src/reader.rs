//! From the engine's text to an answer: reasoning, prose and calls apart, the same for every dialect.
//!
//! The order is fixed: detokenize → stop (both in the engine) → reasoning → tools (here) → the dialect.

use dspark_protocol::{FinishReason, Summary, TextDelta, TokenInfo, Usage};
use dspark_text::output::{Piece, Splitter, SplitterOptions};

/// What to look for in an answer.
pub(crate) struct Plan {
    /// `None` for raw text, which is passed on as it is.
    pub(crate) split: Option<SplitterOptions>,
    /// Calls are looked for.
    pub(crate) calls: bool,
    pub(crate) hide_reasoning: bool,
    /// A call was demanded.
    pub(crate) demanded: bool,
}

/// A complete call.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Call {
    pub(crate) name: String,
    /// JSON text.
    pub(crate) arguments: String,
}

/// Reads one answer.
pub(crate) struct Reader {
    plan: Plan,
    splitter: Option<Splitter>,
    reasoning_tokens: usize,
    /// White space that waits for what follows it.
    blank: String,
    said: bool,
    /// Complete ones.
    calls: usize,
    /// A call has begun and not ended.
    open: bool,
    broken: bool,
    warnings: Vec<String>,
}

impl Reader {
    pub(crate) fn new(plan: Plan) -> Self {
        Self {
            splitter: plan.split.clone().map(Splitter::new),
            plan,
            reasoning_tokens: 0,
            blank: String::new(),
            said: false,
            calls: 0,
            open: false,
            broken: false,
            warnings: Vec::new(),
        }
    }

    pub(crate) fn read(&mut self, delta: &TextDelta) -> Vec<Piece> {
        let Some(splitter) = &mut self.splitter else {
            let text = (!delta.text.is_empty()).then(|| Piece::Text(delta.text.clone()));
            return text.into_iter().collect();
        };
        let before = splitter.is_reasoning();
        let pieces = if delta.text.is_empty() {
            Vec::new()
        } else {
            splitter.push(&delta.text)
        };
        let thought = pieces.iter().any(|piece| matches!(piece, Piece::Reasoning(_)));
        if splitter.is_reasoning() || (before && (thought || pieces.is_empty())) {
            self.reasoning_tokens += delta.tokens.len();
        }
        self.sort(pieces)
    }

    /// What was held back, once no more text comes.
    pub(crate) fn finish(&mut self, finish: &FinishReason) -> Vec<Piece> {
        let pieces = self.splitter.as_mut().map(Splitter::finish).unwrap_or_default();
        self.last(pieces, finish)
    }

    /// A whole answer at once, in place of what [`Reader::read`] and [`Reader::finish`] say of it. A closing mark of
    /// reasoning without an opening one shows only here, where nothing is out yet.
    pub(crate) fn whole(&mut self, text: &str, finish: &FinishReason) -> Vec<Piece> {
        let pieces = match &self.plan.split {
            Some(options) => Splitter::split(options.clone(), text),
            None => vec![Piece::Text(text.to_owned())],
        };
        (self.blank, self.said, self.calls, self.open, self.broken) = (String::new(), false, 0, false, false);
        self.warnings.clear();
        self.last(pieces, finish)
    }

    fn last(&mut self, pieces: Vec<Piece>, finish: &FinishReason) -> Vec<Piece> {
        // Half a call, cut off by the length, is dropped. One that the model itself broke off is shown as it stands, so
        // that its reader sees what was tried.
        let cut = matches!(finish, FinishReason::Length | FinishReason::Cancelled);
        let shown = pieces.into_iter().filter_map(|piece| match piece {
            Piece::Unfinished(_) => {
                self.broken = true;
                if cut { None } else { Some(piece) }
            }
            piece => Some(piece),
        });
        let pieces = shown
            .map(|piece| match piece {
                Piece::Unfinished(text) => Piece::Text(text),
                piece => piece,
            })
            .collect();
        let mut out = self.sort(pieces);
        // An answer of blanks is an answer; blanks after a call are not.
        if self.calls == 0 && !self.open && !self.blank.is_empty() {
            out.push(Piece::Text(std::mem::take(&mut self.blank)));
        }
        out
    }

    /// All the calls that are wanted are complete: the rest is of no use to anyone.
    pub(crate) fn is_done(&self) -> bool {
        self.splitter.as_ref().is_some_and(Splitter::is_done)
    }

    /// How the answer ended. After [`Reader::finish`].
    pub(crate) fn end(&self, summary: &Summary) -> End {
        let broken = self.broken || self.open;
        let mut usage = summary.usage;
        usage.reasoning_tokens = usage.reasoning_tokens.max(self.reasoning_tokens.min(usage.completion_tokens));
        let mut warnings = self.warnings.clone();
        if broken {
            warnings.push("the answer ended in the middle of a call; an incomplete call is never one to run".into());
        }
        if self.plan.demanded && self.calls == 0 {
            warnings.push("`tool_choice` demanded a call, and the model made none".into());
        }
        let finish = match &summary.finish {
            // Running a call that was cut off is worse than failing, whatever came before it.
            FinishReason::Length if broken || self.calls == 0 => Finish::Length,
            _ if self.calls > 0 => Finish::Calls,
            FinishReason::Stop { matched: Some(text) } => Finish::StopString(text.clone()),
            _ => Finish::Stop,
        };
        End { finish, usage, warnings }
    }

    fn sort(&mut self, pieces: Vec<Piece>) -> Vec<Piece> {
        let mut out = Vec::with_capacity(pieces.len());
        for piece in pieces {
            match piece {
                Piece::Reasoning(text) if self.plan.hide_reasoning || text.is_empty() => {}
                Piece::Text(text) | Piece::Unfinished(text) => self.text(text, &mut out),
                Piece::ToolArguments { ref fragment, .. } if fragment.is_empty() => {}
                Piece::ToolStart { ref name, declared, .. } => {
                    self.blank.clear();
                    self.open = true;
                    if !declared {
                        let name: String = name.chars().take(120).collect();
                        self.warnings.push(format!("the model called `{name}`, which was not offered"));
                    }
                    out.push(piece);
                }
                Piece::ToolEnd { .. } => {
                    self.open = false;
                    self.calls += 1;
                    out.push(piece);
                }
                Piece::ToolAborted { .. } => {
                    self.open = false;
                    self.broken = true;
                    out.push(piece);
                }
                Piece::Reasoning(_) | Piece::ToolArguments { .. } => out.push(piece),
            }
        }
        out
    }

    fn text(&mut self, text: String, out: &mut Vec<Piece>) {
        // Before the first word, and after a call, blanks wait for what follows them. Without tools nothing waits.
        let waits = self.plan.calls && (!self.said || self.calls > 0);
        if waits && text.trim().is_empty() {
            self.blank.push_str(&text);
        } else if !text.is_empty() {
            self.said = true;
            let text = std::mem::take(&mut self.blank) + &text;
            out.push(Piece::Text(text));
        }
    }
}

/// Why an answer ended, before any dialect has a word for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Finish {
    Stop,
    StopString(String),
    /// Cut off: in prose, in reasoning, or in a call.
    Length,
    /// With at least one complete call.
    Calls,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct End {
    pub(crate) finish: Finish,
    /// With the reasoning counted.
    pub(crate) usage: Usage,
    pub(crate) warnings: Vec<String>,
}

/// A whole answer.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Answer {
    pub(crate) reasoning: String,
    pub(crate) text: String,
    /// Complete ones only.
    pub(crate) calls: Vec<Call>,
    /// Empty unless log-probabilities were asked for.
    pub(crate) tokens: Vec<TokenInfo>,
    partial: Call,
}

impl Answer {
    pub(crate) fn add(&mut self, piece: Piece) {
        match piece {
            Piece::Text(text) | Piece::Unfinished(text) => self.text.push_str(&text),
            Piece::Reasoning(text) => self.reasoning.push_str(&text),
            Piece::ToolStart { name, .. } => {
                self.partial = Call {
                    name,
                    arguments: String::new(),
                };
            }
            Piece::ToolArguments { fragment, .. } => self.partial.arguments.push_str(&fragment),
            Piece::ToolEnd { .. } => self.calls.push(std::mem::take(&mut self.partial)),
            Piece::ToolAborted { .. } => self.partial = Call::default(),
        }
    }

    /// The prose beside calls: blanks around it belong to the markup.
    pub(crate) fn prose(&self) -> &str {
        if self.calls.is_empty() { &self.text } else { self.text.trim() }
    }
}

#[cfg(test)]
#[path = "reader_tests.rs"]
mod tests;
