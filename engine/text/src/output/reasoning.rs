//! Telling reasoning from the answer. Source: `spec/http-api.md` §7.

use super::cursor::{claim, first_of};
use crate::thinking::ThinkingMarks;

/// A stretch of output on its way to the tool parser.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Segment {
    Reasoning(String),
    Text(String),
    /// A message to a tool begins; its body is the arguments.
    CallStart(String),
    CallBody(String),
    CallEnd,
}

/// `<think>…</think>` in front of the answer.
#[derive(Debug, Clone)]
pub(crate) struct Block {
    marks: ThinkingMarks,
    state: BlockState,
    held: String,
    /// There has been a block.
    thought: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BlockState {
    /// Nothing but white space so far.
    Undecided,
    Opening,
    Inside,
    Closing,
    Outside,
}

impl Block {
    pub(crate) fn new(marks: ThinkingMarks, inside: bool) -> Self {
        Self {
            marks,
            state: if inside { BlockState::Opening } else { BlockState::Undecided },
            held: String::new(),
            thought: inside,
        }
    }

    pub(crate) fn is_inside(&self) -> bool {
        matches!(self.state, BlockState::Opening | BlockState::Inside)
    }

    pub(crate) fn push(&mut self, text: &str, out: &mut Vec<Segment>) {
        self.held.push_str(text);
        let ThinkingMarks { open, close } = self.marks;
        loop {
            match self.state {
                BlockState::Undecided => {
                    let ahead = self.held.trim_start();
                    if let Some(rest) = ahead.strip_prefix(open) {
                        self.held = rest.to_owned();
                        self.thought = true;
                        self.state = BlockState::Opening;
                    } else if open.starts_with(ahead) {
                        return;
                    } else {
                        self.state = BlockState::Outside;
                    }
                }
                BlockState::Opening | BlockState::Closing => {
                    self.held = self.held.trim_start().to_owned();
                    if self.held.is_empty() {
                        return;
                    }
                    self.state = if self.state == BlockState::Opening {
                        BlockState::Inside
                    } else {
                        BlockState::Outside
                    };
                }
                BlockState::Inside => {
                    if let Some(at) = self.held.find(close) {
                        emit(out, Segment::Reasoning(self.held[..at].trim_end().to_owned()));
                        self.held.drain(..at + close.len());
                        self.state = BlockState::Closing;
                        continue;
                    }
                    // White space waits too: before the closing mark it is not part of the reasoning.
                    let sure = self.held[..self.held.len() - claim(&self.held, [close])].trim_end().len();
                    emit(out, Segment::Reasoning(self.held.drain(..sure).collect()));
                    return;
                }
                BlockState::Outside if self.thought => {
                    emit(out, Segment::Text(std::mem::take(&mut self.held)));
                    return;
                }
                BlockState::Outside => {
                    let Some(at) = self.held.find(close) else {
                        let sure = self.held.len() - claim(&self.held, [close]);
                        emit(out, Segment::Text(self.held.drain(..sure).collect()));
                        return;
                    };
                    // A closing mark alone: the model left out the opening one. It is markup where it ends a line.
                    match self.held[at + close.len()..].chars().next() {
                        Some('\n' | '\r') => self.swallow(at, out),
                        Some(_) => emit(out, Segment::Text(self.held.drain(..at + close.len()).collect())),
                        None => {
                            emit(out, Segment::Text(self.held.drain(..at).collect()));
                            return;
                        }
                    }
                }
            }
        }
    }

    fn swallow(&mut self, at: usize, out: &mut Vec<Segment>) {
        emit(out, Segment::Text(self.held[..at].to_owned()));
        self.held.drain(..at + self.marks.close.len());
        self.thought = true;
        self.state = BlockState::Closing;
    }

    pub(crate) fn finish(&mut self, out: &mut Vec<Segment>) {
        match self.state {
            BlockState::Outside if self.held == self.marks.close => self.held.clear(),
            BlockState::Undecided | BlockState::Outside => emit(out, Segment::Text(std::mem::take(&mut self.held))),
            BlockState::Inside => emit(out, Segment::Reasoning(std::mem::take(&mut self.held))),
            BlockState::Opening | BlockState::Closing => self.held.clear(),
        }
    }
}

const START: &str = "<|start|>";
const MESSAGE: &str = "<|message|>";
/// What ends a message, and the mark that begins the next.
const MARKS: [&str; 6] = ["<|end|>", "<|call|>", "<|return|>", "<|eom|>", "<|eot|>", START];
/// No header is longer, in bytes.
const LONGEST_HEADER: usize = 256;

/// Output as a run of `[<|start|>]header<|message|>body<|end|>`.
#[derive(Debug, Clone)]
pub(crate) struct Channels {
    /// A message to a tool has the arguments as its body; otherwise its body holds marked-up calls.
    pub(crate) bodies_are_calls: bool,
    state: ChannelState,
    held: String,
    /// There has been a message.
    begun: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChannelState {
    Header,
    Reasoning,
    Text,
    Call,
    /// The model writes no messages at all.
    Plain,
}

impl Channels {
    /// `opened`: what the prompt has written of the message that the model goes on with.
    pub(crate) fn new(bodies_are_calls: bool, opened: &str) -> Self {
        let mut channels = Self {
            bodies_are_calls,
            state: ChannelState::Header,
            held: String::new(),
            begun: false,
        };
        channels.push(opened, &mut Vec::new());
        channels
    }

    pub(crate) fn is_inside(&self) -> bool {
        self.state == ChannelState::Reasoning
    }

    pub(crate) fn push(&mut self, text: &str, out: &mut Vec<Segment>) {
        self.held.push_str(text);
        loop {
            if self.state == ChannelState::Plain {
                emit(out, Segment::Text(std::mem::take(&mut self.held)));
                return;
            }
            if self.state == ChannelState::Header {
                if self.header(out) {
                    continue;
                }
                return;
            }
            let Some((at, _)) = first_of(&self.held, &MARKS) else {
                let sure = self.held.len() - claim(&self.held, MARKS);
                self.body(sure, out);
                return;
            };
            self.body(at, out);
            if self.state == ChannelState::Call {
                out.push(Segment::CallEnd);
            }
            self.state = ChannelState::Header;
            let mark = MARKS.iter().find(|mark| self.held.starts_with(**mark)).map_or(0, |mark| mark.len());
            self.held.drain(..mark);
        }
    }

    fn body(&mut self, length: usize, out: &mut Vec<Segment>) {
        let text: String = self.held.drain(..length).collect();
        emit(
            out,
            match self.state {
                ChannelState::Reasoning => Segment::Reasoning(text),
                ChannelState::Call => Segment::CallBody(text),
                _ => Segment::Text(text),
            },
        );
    }

    /// Reads a header; false while it is not complete.
    fn header(&mut self, out: &mut Vec<Segment>) -> bool {
        if !self.begun {
            let marks = [MESSAGE, START];
            let sure = first_of(&self.held, &marks).map_or_else(|| self.held.len() - claim(&self.held, marks), |(at, _)| at);
            let ahead = self.held[..sure].trim_start();
            if ahead.contains('\n') || ahead.len() > LONGEST_HEADER {
                self.state = ChannelState::Plain;
                return true;
            }
        }
        let Some(at) = self.held.find(MESSAGE) else { return false };
        let header: String = self.held.drain(..at + MESSAGE.len()).collect();
        let header = &header[..at];
        let header = header.rfind(START).map_or(header, |at| &header[at + START.len()..]);
        let field = |name: &str| {
            let value = header.rfind(name).map(|at| &header[at + name.len()..])?;
            let end = value
                .find(|character: char| character.is_whitespace() || character == '<')
                .unwrap_or(value.len());
            Some(&value[..end])
        };
        self.begun = true;
        self.state = match (field("to="), field("<|channel|>")) {
            (Some("self"), _) | (None, Some("analysis")) => ChannelState::Reasoning,
            (None | Some("user" | "assistant" | "all"), _) => ChannelState::Text,
            (Some(tool), _) if self.bodies_are_calls => {
                out.push(Segment::CallStart(tool.to_owned()));
                ChannelState::Call
            }
            _ => ChannelState::Text,
        };
        true
    }

    pub(crate) fn finish(&mut self, out: &mut Vec<Segment>) {
        if self.state == ChannelState::Header {
            // Without a single message all of it is the answer; a header that was cut off is nobody's text.
            if !self.begun && !self.held.contains("<|") {
                emit(out, Segment::Text(std::mem::take(&mut self.held)));
            }
            self.held.clear();
            return;
        }
        self.body(self.held.len(), out);
        if self.state == ChannelState::Call {
            out.push(Segment::CallEnd);
        }
        self.state = ChannelState::Header;
    }
}

fn emit(out: &mut Vec<Segment>, segment: Segment) {
    let empty = matches!(&segment, Segment::Reasoning(text) | Segment::Text(text) | Segment::CallBody(text) if text.is_empty());
    if !empty {
        out.push(segment);
    }
}
