//! Where the grammar begins: after the reasoning, or where a call is opened. Before, the model writes what it likes; only
//! the end of the text has to wait. Source: `spec/http-api.md` §7.

use crate::{Start, Vocabulary, vocabulary::BLANKS};
use dspark_protocol::ReasoningSyntax;
use toktrie::SimpleVob;

/// When the grammar holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// For the whole answer.
    Whole,
    /// From an opening mark to the end of a call; around that the text is free.
    Opened { open: &'static str, many: bool },
}

/// What opens and closes a block of reasoning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Block {
    open: &'static str,
    close: &'static [&'static str],
}

const THINK: Block = Block {
    open: "<think>",
    close: &["</think>"],
};
const CHANNEL: Block = Block {
    open: "<|channel>thought",
    close: &["<channel|>"],
};
/// Messages with headers: where one ends.
const ENDS: &[&str] = &["<|end|>", "<|call|>", "<|return|>", "<|eom|>", "<|eot|>", "<|start|>"];
const MESSAGE: &str = "<|message|>";
const START: &str = "<|start|>";
/// No header is longer, in bytes.
const LONGEST_HEADER: usize = 256;

/// Where an answer stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It may still turn out as reasoning: bytes of the opening mark so far, and tokens of the grammar so far where that
    /// could begin like this too.
    Undecided {
        held: usize,
        fed: Option<Vec<u32>>,
    },
    /// In the reasoning; the end of it that may be the beginning of a closing mark.
    Thinking(Vec<u8>),
    /// In the header of a message.
    Header {
        text: String,
        begun: bool,
    },
    /// Behind a mark: so many bytes of white space may still come.
    Blank(usize),
    /// In free text; its end that may be the beginning of an opening mark.
    Text(Vec<u8>),
    Grammar,
    /// Nothing more may come.
    Done,
}

/// The rules of one answer.
#[derive(Debug, Clone)]
pub(crate) struct Gate {
    pub(crate) mode: Mode,
    block: Block,
    channels: bool,
    pub(crate) phase: Phase,
}

/// What a token does outside of the grammar.
pub(crate) enum Step {
    To(Phase),
    /// It does not fit, or brings text that belongs to the grammar with it.
    Refused,
}

impl Gate {
    pub(crate) fn new(mode: &Mode, start: &Start<'_>) -> Self {
        let mut gate = Self {
            mode: *mode,
            block: THINK,
            channels: false,
            phase: Phase::Grammar,
        };
        let prompt = start.prompt.trim_end();
        match start.reasoning {
            None | Some(ReasoningSyntax::None | ReasoningSyntax::Think) => {}
            Some(ReasoningSyntax::ThoughtChannel) => gate.block = CHANNEL,
            Some(ReasoningSyntax::Recipients | ReasoningSyntax::Harmony) => gate.channels = true,
        }
        let blocks = matches!(start.reasoning, Some(ReasoningSyntax::Think | ReasoningSyntax::ThoughtChannel));
        gate.phase = if gate.channels && start.begun.is_empty() && *mode == Mode::Whole {
            gate.block = Block { open: "", close: ENDS };
            let text = prompt.rfind(START).map_or("", |at| &prompt[at..]).to_owned();
            gate.header(text, false)
        } else if blocks && prompt.ends_with(gate.block.open) {
            Phase::Thinking(Vec::new())
        } else if blocks && start.may_think && start.begun.is_empty() && !gate.block.close.iter().any(|close| prompt.ends_with(close)) {
            Phase::Undecided {
                held: 0,
                fed: (*mode == Mode::Whole).then(Vec::new),
            }
        } else {
            gate.answer()
        };
        gate
    }

    /// The phase in which the answer proper begins.
    fn answer(&self) -> Phase {
        match self.mode {
            Mode::Whole => Phase::Grammar,
            Mode::Opened { .. } => Phase::Text(Vec::new()),
        }
    }

    /// The same, behind a mark with `rest` after it.
    fn behind(&self, rest: &[u8]) -> Option<Phase> {
        if self.mode != Mode::Whole {
            return Some(Phase::Text(rest.to_vec()));
        }
        blank(rest)
    }

    /// A header as far as it is known.
    fn header(&self, text: String, begun: bool) -> Phase {
        let Some(at) = text.find(MESSAGE) else {
            let plain = !begun && (text.trim_start().contains('\n') || text.len() > LONGEST_HEADER);
            return if plain { Phase::Grammar } else { Phase::Header { text, begun } };
        };
        let header = &text[..at];
        let header = header.rfind(START).map_or(header, |at| &header[at + START.len()..]);
        let field = |name: &str| {
            let value = header.rfind(name).map(|at| &header[at + name.len()..])?;
            let end = value.find(|letter: char| letter.is_whitespace() || letter == '<');
            Some(&value[..end.unwrap_or(value.len())])
        };
        match (field("to="), field("<|channel|>")) {
            (Some("self"), _) | (None, Some("analysis")) => Phase::Thinking(text.as_bytes()[at + MESSAGE.len()..].to_vec()),
            _ => self.behind(&text.as_bytes()[at + MESSAGE.len()..]).unwrap_or(Phase::Grammar),
        }
    }

    /// What `bytes` lead to, for the phases that know no grammar.
    pub(crate) fn step(&self, phase: &Phase, bytes: &[u8]) -> Step {
        let next = match phase {
            Phase::Thinking(tail) => match seek(tail, bytes, self.block.close) {
                Sought::Open(tail) => Phase::Thinking(tail),
                Sought::Found { rest, mark } if self.channels => {
                    let text = if mark == START { START.to_owned() } else { String::new() };
                    self.header(text + &String::from_utf8_lossy(&rest), true)
                }
                Sought::Found { rest, .. } => match self.behind(&rest) {
                    Some(phase) => phase,
                    None => return Step::Refused,
                },
            },
            Phase::Header { text, begun } => self.header(text.clone() + &String::from_utf8_lossy(bytes), *begun),
            Phase::Text(tail) => {
                let Mode::Opened { open, .. } = self.mode else {
                    return Step::Refused;
                };
                match seek(tail, bytes, &[open]) {
                    Sought::Open(tail) => Phase::Text(tail),
                    Sought::Found { rest, .. } => match blank(&rest) {
                        Some(phase) => phase,
                        None => return Step::Refused,
                    },
                }
            }
            Phase::Undecided { .. } | Phase::Blank(_) | Phase::Grammar | Phase::Done => return Step::Refused,
        };
        Step::To(next)
    }

    /// The opening mark of reasoning after `held` of its bytes: where these bytes lead, if they go on with it.
    pub(crate) fn opens(&self, held: usize, bytes: &[u8]) -> Option<Phase> {
        let rest = self.block.open.as_bytes().get(held..)?;
        if bytes.is_empty() {
            None
        } else if let Some(thought) = bytes.strip_prefix(rest) {
            match seek(&[], thought, self.block.close) {
                Sought::Open(tail) => Some(Phase::Thinking(tail)),
                Sought::Found { .. } => None,
            }
        } else if rest.starts_with(bytes) {
            Some(Phase::Undecided {
                held: held + bytes.len(),
                fed: None,
            })
        } else {
            None
        }
    }

    /// The opening mark of reasoning.
    pub(crate) fn opening(&self) -> &'static [u8] {
        self.block.open.as_bytes()
    }

    /// Tokens that go on with the opening mark of reasoning.
    pub(crate) fn openers(&self, vocabulary: &Vocabulary, held: usize) -> SimpleVob {
        let mut set = vocabulary.trie.alloc_token_set();
        let Some(rest) = self.block.open.as_bytes().get(held..) else {
            return set;
        };
        let whole = vocabulary.exactly(rest).first().copied().or_else(|| vocabulary.special(rest));
        if let Some(id) = whole.filter(|_| held == 0) {
            // The mark is a token: no model that knows it spells it out.
            set.allow_token(id);
            return set;
        }
        vocabulary.beginning(rest).iter().for_each(|&id| set.allow_token(id));
        for end in 1..rest.len() {
            vocabulary.exactly(&rest[..end]).iter().for_each(|&id| set.allow_token(id));
        }
        set
    }

    /// Tokens that would carry text of the grammar over a mark, where they cannot be held to it.
    pub(crate) fn straddlers(&self, vocabulary: &Vocabulary) -> Vec<u32> {
        let (tail, marks): (&[u8], &[&str]) = match (&self.phase, &self.mode) {
            (Phase::Thinking(tail), Mode::Whole) if !self.channels => (tail, self.block.close),
            (Phase::Text(tail), Mode::Opened { open, .. }) => (tail, &[*open]),
            _ => return Vec::new(),
        };
        let mut found = Vec::new();
        for mark in marks {
            for held in (0..mark.len()).filter(|&held| tail.ends_with(&mark.as_bytes()[..held])) {
                let rest = &mark.as_bytes()[held..];
                let carries = |id: &&u32| blank(&vocabulary.bytes(**id)[rest.len()..]).is_none();
                found.extend(vocabulary.beginning(rest).iter().filter(carries));
            }
        }
        found
    }
}

/// The phase behind a mark that `rest` followed in the same token; `None` where that is more than white space.
fn blank(rest: &[u8]) -> Option<Phase> {
    let fits = rest.len() <= BLANKS && rest.iter().all(u8::is_ascii_whitespace);
    fits.then(|| Phase::Blank(BLANKS - rest.len()))
}

enum Sought {
    /// Not yet; what of the end may belong to a mark.
    Open(Vec<u8>),
    Found {
        mark: &'static str,
        rest: Vec<u8>,
    },
}

/// Looks for the first mark in a text that goes on with `bytes` after `tail`.
fn seek(tail: &[u8], bytes: &[u8], marks: &[&'static str]) -> Sought {
    let text = [tail, bytes].concat();
    let at = |mark: &&'static str| {
        let place = text.windows(mark.len()).position(|window| window == mark.as_bytes());
        place.map(|place| (place, *mark))
    };
    if let Some((place, mark)) = marks.iter().filter_map(at).min() {
        return Sought::Found {
            mark,
            rest: text[place + mark.len()..].to_vec(),
        };
    }
    let longest = marks.iter().map(|mark| mark.len()).max().unwrap_or(0);
    let claim = (1..longest.min(text.len() + 1)).rev().find(|&length| {
        let end = &text[text.len() - length..];
        marks.iter().any(|mark| mark.as_bytes().starts_with(end))
    });
    Sought::Open(text[text.len() - claim.unwrap_or(0)..].to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(reasoning: ReasoningSyntax, may_think: bool, prompt: &str) -> Start<'_> {
        Start {
            reasoning: Some(reasoning),
            may_think,
            prompt,
            begun: "",
        }
    }

    /// The phase after each piece.
    fn run(gate: &Gate, pieces: &[&str]) -> Vec<Option<Phase>> {
        let mut phase = gate.phase.clone();
        let step = |piece: &&str| match gate.step(&phase, piece.as_bytes()) {
            Step::To(next) => {
                phase = next;
                Some(phase.clone())
            }
            Step::Refused => None,
        };
        pieces.iter().map(step).collect()
    }

    #[test]
    fn the_prompt_says_where_an_answer_begins() {
        let whole = |start: &Start<'_>| Gate::new(&Mode::Whole, start).phase;
        use ReasoningSyntax::{None as Never, Think, ThoughtChannel};
        assert_eq!(
            whole(&start(Think, true, "<|im_start|>assistant\n<think>\n")),
            Phase::Thinking(vec![])
        );
        assert!(matches!(whole(&start(Think, true, "assistant\n")), Phase::Undecided { .. }));
        assert_eq!(whole(&start(Think, true, "<think>\n\n</think>\n\n")), Phase::Grammar);
        assert_eq!(whole(&start(Think, false, "assistant\n")), Phase::Grammar);
        assert_eq!(whole(&start(Never, true, "<think>")), Phase::Grammar);
        assert_eq!(
            whole(&start(ThoughtChannel, true, "<|turn>model\n<|channel>thought\n")),
            Phase::Thinking(vec![])
        );
        assert_eq!(whole(&start(ThoughtChannel, true, "<|channel>thought\n<channel|>")), Phase::Grammar);
    }

    #[test]
    fn reasoning_ends_at_its_mark_however_it_is_cut() {
        let gate = Gate::new(&Mode::Whole, &start(ReasoningSyntax::Think, true, "<think>"));
        let phases = run(&gate, &["So <", "/th", "ink>\n\n"]);
        assert_eq!(phases[0], Some(Phase::Thinking(b"<".to_vec())));
        assert_eq!(phases[1], Some(Phase::Thinking(b"</th".to_vec())));
        assert_eq!(phases[2], Some(Phase::Blank(BLANKS - 2)));
        // Text of the answer that comes with the mark cannot be held to the grammar.
        assert_eq!(run(&gate, &["</think>{"]), [None]);
        assert_eq!(run(&gate, &["</thinks></think>"]), [Some(Phase::Blank(BLANKS))]);
    }

    #[test]
    fn messages_say_whom_they_are_for() {
        let gate = Gate::new(&Mode::Whole, &start(ReasoningSyntax::Recipients, true, "<|start|>assistant"));
        let phases = run(
            &gate,
            &[
                " to=self",
                "<|message|>",
                "hm",
                "<|eom|>",
                "<|start|>",
                "assistant to=user",
                "<|message|>",
            ],
        );
        assert_eq!(phases[2], Some(Phase::Thinking(vec![])));
        assert_eq!(phases[6], Some(Phase::Blank(BLANKS)));
        let gate = Gate::new(&Mode::Whole, &start(ReasoningSyntax::Harmony, true, "<|start|>assistant"));
        let phases = run(
            &gate,
            &[
                "<|channel|>",
                "analysis",
                "<|message|>",
                "x",
                "<|end|><|start|>assistant<|channel|>final<|message|>",
            ],
        );
        assert_eq!(phases[4], Some(Phase::Blank(BLANKS)));
    }

    #[test]
    fn free_text_ends_where_a_call_is_opened() {
        let mode = Mode::Opened {
            open: "<tool_call>",
            many: true,
        };
        let gate = Gate::new(&mode, &start(ReasoningSyntax::Think, false, ""));
        let phases = run(&gate, &["Let me <b", "look.<tool", "_call>\n"]);
        assert_eq!(phases[0], Some(Phase::Text(vec![])));
        assert_eq!(phases[1], Some(Phase::Text(b"<tool".to_vec())));
        assert_eq!(phases[2], Some(Phase::Blank(BLANKS - 1)));
        assert_eq!(run(&gate, &["<tool_call>{"]), [None]);
    }
}
