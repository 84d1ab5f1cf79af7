//! Finds tool calls in an answer as it comes. Source: `spec/http-api.md` §8.

use super::{
    Piece,
    call::Seen,
    cursor::{Cursor, Stop, claim},
    forms::{Form, OPENERS},
    schema::{Tools, Typed},
};

/// Calls shorter than this, in bytes, are read again with every piece of text; longer ones when they have grown by a
/// part of their size or when a mark came, so that the work stays linear.
const SHORT: usize = 1024;

/// So many bytes of an opener at the very end are markup that was cut off, not text.
const TELLING: usize = 5;

pub(crate) struct Calls {
    tools: Tools,
    /// Pass arguments on while they are written.
    eager: bool,
    /// The model writes its calls as plain JSON, if its answer begins with one.
    plain_json: bool,
    /// Outside a call: what may become an opener. Inside: everything from the opener on.
    held: String,
    inside: Option<Inside>,
    /// Marks that may still follow the last call.
    trailing: &'static [&'static str],
    /// The last character of text that went out.
    last: Option<char>,
    /// Nothing but calls so far, or a call just ended: white space is dropped.
    fresh: bool,
    count: usize,
    ids: fn() -> String,
}

/// A call under way.
struct Inside {
    form: Form,
    opener: &'static str,
    /// White space before the call; text again if it is none.
    before: String,
    /// Read again from this size on.
    due: usize,
    /// The JSON passed on already, with the tool's name.
    sent: Option<(String, String)>,
}

impl Calls {
    pub(crate) fn new(tools: Tools, eager: bool, plain_json: bool, ids: fn() -> String) -> Self {
        Self {
            tools,
            eager,
            plain_json,
            held: String::new(),
            inside: None,
            trailing: &[],
            last: None,
            fresh: true,
            count: 0,
            ids,
        }
    }

    /// Is a call under way?
    pub(crate) fn is_inside(&self) -> bool {
        self.inside.is_some()
    }

    pub(crate) fn push(&mut self, text: &str, out: &mut Vec<Piece>) {
        if self.tools.is_empty() {
            emit(out, text);
            return;
        }
        self.held.push_str(text);
        let marked = text.contains(['>', '}', ']', ')']);
        self.run(marked, false, out);
    }

    /// A message to a tool begins.
    pub(crate) fn start_body(&mut self, name: &str, out: &mut Vec<Piece>) {
        self.finish(out);
        if !self.tools.is_empty() {
            self.inside = Some(Inside::new(Form::Body(name.to_owned()), "", String::new()));
        }
    }

    /// The answer, or a message of it, ends.
    pub(crate) fn finish(&mut self, out: &mut Vec<Piece>) {
        self.run(true, true, out);
        let rest = std::mem::take(&mut self.held);
        if let Some(inside) = self.inside.take() {
            if inside.sent.is_some() {
                out.push(Piece::ToolAborted { index: self.count });
                self.count += 1;
            }
            if !rest.is_empty() {
                out.push(Piece::Unfinished(inside.before + &rest));
            }
        } else if !rest.is_empty() {
            out.push(Piece::Unfinished(rest));
        }
        self.trailing = &[];
    }

    /// `marked`: the text just added holds a mark that may end a call.
    fn run(&mut self, mut marked: bool, end: bool, out: &mut Vec<Piece>) {
        loop {
            let went_on = match self.inside.take() {
                Some(inside) => self.inside(inside, marked, end, out),
                None => self.outside(end, out),
            };
            if !went_on {
                return;
            }
            // Text behind a call has not been looked at.
            marked = true;
        }
    }

    /// Looks for an opener; true when it found one.
    fn outside(&mut self, end: bool, out: &mut Vec<Piece>) -> bool {
        if !self.trailing.is_empty() && !self.swallow_trailing(end) {
            return false;
        }
        if self.fresh && self.plain_json && self.count == 0 {
            let ahead = self.held.trim_start();
            if ahead.is_empty() && !end {
                return false;
            }
            if ahead.starts_with('{') {
                let before = self.held.drain(..self.held.len() - ahead.len()).collect();
                self.fresh = false;
                self.inside = Some(Inside::new(Form::Answer, "", before));
                return true;
            }
        }
        let mut from = 0;
        while let Some((at, opener)) = next_opener(&self.held[from..]) {
            let at = from + at;
            let previous = self.held[..at].chars().next_back().or(self.last);
            if previous == Some('`') {
                // Quoted in prose.
                from = at + opener.len();
                continue;
            }
            let sure = self.held[..at].trim_end().len();
            let text: String = self.held.drain(..sure).collect();
            self.text(&text, out);
            let before = self.held.drain(..at - sure).collect();
            self.inside = Some(Inside::new(Form::of(opener), opener, before));
            return true;
        }
        let open = claim(&self.held[from..], OPENERS);
        let sure = if end && open < TELLING {
            self.held.len()
        } else {
            self.held[..self.held.len() - open].trim_end().len()
        };
        let text: String = self.held.drain(..sure).collect();
        self.text(&text, out);
        false
    }

    fn text(&mut self, text: &str, out: &mut Vec<Piece>) {
        let text = if self.fresh && self.count > 0 { text.trim_start() } else { text };
        if let Some(last) = text.chars().next_back() {
            self.last = Some(last);
            self.fresh = false;
            emit(out, text);
        }
    }

    /// Drops closing marks behind a call; false while more of one may come.
    fn swallow_trailing(&mut self, end: bool) -> bool {
        loop {
            let ahead = self.held.trim_start();
            if let Some(mark) = self.trailing.iter().find(|mark| ahead.starts_with(**mark)) {
                self.held = ahead[mark.len()..].to_owned();
            } else if self.trailing.iter().any(|mark| mark.starts_with(ahead)) {
                if !end {
                    return false;
                }
                // Even the closing mark was cut off.
                self.held.clear();
                self.trailing = &[];
                return true;
            } else {
                self.trailing = &[];
                return true;
            }
        }
    }

    /// Reads the call under way; true when it ended, or turned out to be none.
    fn inside(&mut self, mut inside: Inside, marked: bool, end: bool, out: &mut Vec<Piece>) -> bool {
        let size = self.held.len();
        if !(end || marked || size <= SHORT || size >= inside.due) {
            self.inside = Some(inside);
            return false;
        }
        inside.due = size + size / 16;
        let skip = inside.form.skip(inside.opener);
        let mut cursor = Cursor::new(&self.held[skip..], end);
        let mut seen = Seen::default();
        let parsed = inside.form.parse(&mut cursor, &mut seen);
        let used = skip + cursor.at;
        match parsed {
            Ok(calls) => {
                let typed: Option<Vec<Typed>> = calls.into_iter().map(|call| self.tools.typed(call)).collect();
                let Some(typed) = typed.filter(|typed| inside.form != Form::Answer || typed.iter().all(|call| call.declared)) else {
                    return self.release(inside, out);
                };
                self.held.drain(..used);
                let mut sent = inside.sent.take();
                for call in typed {
                    self.emit_call(call, sent.take(), out);
                }
                self.trailing = inside.form.closers();
                self.fresh = true;
                true
            }
            Err(Stop::Bad) => self.release(inside, out),
            Err(Stop::More) => {
                if self.eager && inside.form != Form::Answer {
                    self.emit_beginning(&mut inside, seen, out);
                }
                self.inside = Some(inside);
                false
            }
        }
    }

    /// No call after all: the opener is text, and what follows it is looked at again.
    fn release(&mut self, inside: Inside, out: &mut Vec<Piece>) -> bool {
        if inside.sent.is_some() {
            out.push(Piece::ToolAborted { index: self.count });
            self.count += 1;
        }
        self.text(&inside.before, out);
        // Bodies and plain answers have no opener.
        let first = self.held.chars().next().map_or(0, char::len_utf8);
        let length = inside.opener.len().max(first);
        let opener: String = self.held.drain(..length).collect();
        self.text(&opener, out);
        true
    }

    fn emit_beginning(&self, inside: &mut Inside, seen: Seen, out: &mut Vec<Piece>) {
        let Some((name, json)) = self.tools.beginning(seen) else { return };
        let index = self.count;
        let known = match &inside.sent {
            Some((_, known)) if json.starts_with(known.as_str()) => known.len(),
            Some(_) => return,
            None => {
                out.push(Piece::ToolStart {
                    index,
                    id: (self.ids)(),
                    name: name.clone(),
                    declared: true,
                });
                0
            }
        };
        if json.len() > known {
            let fragment = json[known..].to_owned();
            out.push(Piece::ToolArguments { index, fragment });
        }
        inside.sent = Some((name, json));
    }

    fn emit_call(&mut self, call: Typed, sent: Option<(String, String)>, out: &mut Vec<Piece>) {
        let known = match sent {
            Some((name, known)) if name == call.name && call.json.starts_with(known.as_str()) => Some(known.len()),
            Some(_) => {
                out.push(Piece::ToolAborted { index: self.count });
                self.count += 1;
                None
            }
            None => None,
        };
        let index = self.count;
        if known.is_none() {
            out.push(Piece::ToolStart {
                index,
                id: (self.ids)(),
                name: call.name,
                declared: call.declared,
            });
        }
        let fragment = call.json[known.unwrap_or(0)..].to_owned();
        if !fragment.is_empty() {
            out.push(Piece::ToolArguments { index, fragment });
        }
        out.push(Piece::ToolEnd { index });
        self.count += 1;
    }
}

impl Inside {
    fn new(form: Form, opener: &'static str, before: String) -> Self {
        Self {
            form,
            opener,
            before,
            due: 0,
            sent: None,
        }
    }
}

/// The first opener in a text; of several at one place the longest.
fn next_opener(text: &str) -> Option<(usize, &'static str)> {
    super::cursor::first_of(text, &OPENERS).map(|(at, number)| (at, OPENERS[number]))
}

fn emit(out: &mut Vec<Piece>, text: &str) {
    if text.is_empty() {
        return;
    }
    match out.last_mut() {
        Some(Piece::Text(last)) => last.push_str(text),
        _ => out.push(Piece::Text(text.to_owned())),
    }
}
