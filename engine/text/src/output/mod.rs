//! A model's output taken apart: reasoning, answer, tool calls. Source: `spec/http-api.md` §7 and §8.
//!
//! This comes last of the fixed order detokenize → stop strings → reasoning → tools. Text goes in as it comes,
//! [`Piece`]s come out; joined, they are the same however the text was cut.

mod call;
mod calls;
mod cursor;
mod forms;
mod reasoning;
mod schema;
mod syntax;
mod tagged;
mod value;

pub use dspark_protocol::{OutputSyntax, ReasoningSyntax, ToolSyntax};
pub use schema::ToolSchema;

use crate::thinking::THINKING;
use calls::Calls;
use reasoning::{Block, Channels, Segment};
use schema::Tools;
use std::hash::{BuildHasher, RandomState};
pub(crate) use syntax::of_template;

/// A part of a model's output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    Reasoning(String),
    /// The answer, without any markup.
    Text(String),
    /// A tool call begins.
    ToolStart {
        /// Counts the calls of an answer from 0.
        index: usize,
        /// `call_` and 24 hexadecimal digits, different for each call ever made.
        id: String,
        /// The tool's name as declared; as written where no declared tool has it.
        name: String,
        /// Is it the name of a declared tool?
        declared: bool,
    },
    /// More of the arguments' JSON text; joined they are one JSON object.
    ToolArguments {
        index: usize,
        fragment: String,
    },
    /// The call is complete. Only now may it be executed.
    ToolEnd {
        index: usize,
    },
    /// A call that was passed on while it was written ([`SplitterOptions::eager`]) has no end: it is none.
    ToolAborted {
        index: usize,
    },
    /// Markup of a call that the end cut off, with the white space before it. It is no call: after a generation that ran into its length it is best
    /// dropped, otherwise shown as text so that the client sees what the model tried.
    Unfinished(String),
}

/// How to take output apart.
#[derive(Debug, Clone, Default)]
pub struct SplitterOptions {
    pub syntax: OutputSyntax,
    /// The rendered prompt, or its tail: tells whether the model starts inside its reasoning.
    pub prompt: String,
    /// The tools that the request declares. Without any, markup of calls is plain text.
    pub tools: Vec<ToolSchema>,
    /// Pass arguments on while they are written, for clients that can take back a call that is never completed. Off,
    /// a call comes out as a whole once it is complete.
    pub eager: bool,
    /// Calls beyond this many, and everything after them, are dropped (`parallel_tool_calls: false` is 1).
    pub max_calls: Option<usize>,
}

/// Takes output apart as it comes.
///
/// ```
/// use dspark_text::output::{Piece, Splitter, SplitterOptions, ToolSchema};
///
/// let mut splitter = Splitter::new(SplitterOptions {
///     tools: vec![ToolSchema::new("add", serde_json::json!({"properties": {"a": {"type": "integer"}}}))],
///     ..SplitterOptions::default()
/// });
/// let mut pieces = splitter.push("<think>Sum it.</think>One moment.<tool_");
/// pieces.extend(splitter.push("call>{\"name\": \"add\", \"arguments\": {\"a\": \"5\"}}</tool_call>"));
/// pieces.extend(splitter.finish());
/// assert_eq!(pieces[0], Piece::Reasoning("Sum it.".into()));
/// assert_eq!(pieces[1], Piece::Text("One moment.".into()));
/// assert_eq!(pieces[3], Piece::ToolArguments { index: 0, fragment: "{\"a\":5}".into() });
/// ```
pub struct Splitter {
    reasoning: Reasoning,
    calls: Calls,
    max_calls: usize,
    completed: usize,
    done: bool,
}

enum Reasoning {
    None,
    Block(Block),
    Channels(Channels),
}

impl Splitter {
    pub fn new(options: SplitterOptions) -> Self {
        let ids = || {
            // Every state has keys of its own.
            let [first, second] = [0, 1].map(|half: u64| RandomState::new().hash_one(half));
            format!("call_{first:016x}{:08x}", second as u32)
        };
        Self::with_ids(options, ids)
    }

    fn with_ids(options: SplitterOptions, ids: fn() -> String) -> Self {
        let syntax = options.syntax;
        let block = |number: usize| {
            let marks = THINKING[number];
            Reasoning::Block(Block::new(marks, options.prompt.trim_end().ends_with(marks.open)))
        };
        let channels = |bodies_are_calls| {
            let opened = options.prompt.rfind("<|start|>").map_or("", |at| &options.prompt[at..]);
            Reasoning::Channels(Channels::new(bodies_are_calls, opened))
        };
        let reasoning = match syntax.reasoning {
            ReasoningSyntax::None => Reasoning::None,
            ReasoningSyntax::Think => block(0),
            ReasoningSyntax::ThoughtChannel => block(1),
            ReasoningSyntax::Recipients => channels(false),
            ReasoningSyntax::Harmony => channels(true),
        };
        let plain_json = syntax.tools == Some(ToolSyntax::PlainJson);
        Self {
            reasoning,
            calls: Calls::new(Tools::new(options.tools), options.eager, plain_json, ids),
            max_calls: options.max_calls.unwrap_or(usize::MAX),
            completed: 0,
            done: false,
        }
    }

    /// A whole output at once. Other than in a stream, a closing mark of reasoning without an opening one can be told
    /// before anything went out: what stands before it is reasoning.
    pub fn split(mut options: SplitterOptions, text: &str) -> Vec<Piece> {
        let marks = match options.syntax.reasoning {
            ReasoningSyntax::Think => Some(THINKING[0]),
            ReasoningSyntax::ThoughtChannel => Some(THINKING[1]),
            _ => None,
        };
        if let Some(marks) = marks
            && let Some(at) = text.find(marks.close)
            && !text[..at].contains(marks.open)
            && text[at + marks.close.len()..]
                .chars()
                .next()
                .is_none_or(|next| next == '\n' || next == '\r')
        {
            marks.open.clone_into(&mut options.prompt);
        }
        let mut splitter = Self::new(options);
        let mut pieces = splitter.push(text);
        pieces.extend(splitter.finish());
        pieces
    }

    /// Is the model inside its reasoning?
    pub fn is_reasoning(&self) -> bool {
        match &self.reasoning {
            Reasoning::None => false,
            Reasoning::Block(block) => block.is_inside(),
            Reasoning::Channels(channels) => channels.is_inside(),
        }
    }

    /// Is a tool call being written?
    pub fn is_calling(&self) -> bool {
        self.calls.is_inside()
    }

    /// Complete calls so far.
    pub fn calls(&self) -> usize {
        self.completed
    }

    /// [`SplitterOptions::max_calls`] is reached: the generation may end.
    pub fn is_done(&self) -> bool {
        self.done
    }

    /// Takes the next piece of text.
    pub fn push(&mut self, text: &str) -> Vec<Piece> {
        let mut segments = Vec::new();
        match &mut self.reasoning {
            Reasoning::None => segments.push(Segment::Text(text.to_owned())),
            Reasoning::Block(block) => block.push(text, &mut segments),
            Reasoning::Channels(channels) => channels.push(text, &mut segments),
        }
        self.sort(segments)
    }

    /// The output has ended: whatever was held back.
    pub fn finish(&mut self) -> Vec<Piece> {
        let mut segments = Vec::new();
        match &mut self.reasoning {
            Reasoning::None => {}
            Reasoning::Block(block) => block.finish(&mut segments),
            Reasoning::Channels(channels) => channels.finish(&mut segments),
        }
        let mut pieces = self.sort(segments);
        if !self.done {
            let mut last = Vec::new();
            self.calls.finish(&mut last);
            self.take(last, &mut pieces);
        }
        pieces
    }

    fn sort(&mut self, segments: Vec<Segment>) -> Vec<Piece> {
        let mut pieces = Vec::new();
        for segment in segments {
            if self.done {
                break;
            }
            let mut new = Vec::new();
            match segment {
                Segment::Reasoning(text) => {
                    self.calls.finish(&mut new);
                    new.push(Piece::Reasoning(text));
                }
                Segment::Text(text) | Segment::CallBody(text) => self.calls.push(&text, &mut new),
                Segment::CallStart(name) => self.calls.start_body(&name, &mut new),
                Segment::CallEnd => self.calls.finish(&mut new),
            }
            self.take(new, &mut pieces);
        }
        pieces
    }

    /// Passes pieces on up to the last call that is wanted.
    fn take(&mut self, new: Vec<Piece>, pieces: &mut Vec<Piece>) {
        for piece in new {
            let was_end = matches!(piece, Piece::ToolEnd { .. });
            self.completed += usize::from(was_end);
            pieces.push(piece);
            if was_end && self.completed >= self.max_calls {
                self.done = true;
                return;
            }
        }
    }
}
