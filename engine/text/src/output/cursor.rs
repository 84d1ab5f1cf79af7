//! A place in text that may still grow.

/// Why a parser stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The text so far may become a call.
    More,
    /// Nothing that follows can make this a call.
    Bad,
}

pub(crate) type Parsed<T> = Result<T, Stop>;

/// A parser over a `Cursor` is stable: what it says of a text that goes on (`end` is false), other than
/// [`Stop::More`], it says of every longer text too. So it does not matter when it is run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cursor<'a> {
    text: &'a str,
    pub(crate) at: usize,
    /// Nothing follows.
    pub(crate) end: bool,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(text: &'a str, end: bool) -> Self {
        Self { text, at: 0, end }
    }

    pub(crate) fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    pub(crate) fn peek(&self) -> Parsed<char> {
        self.rest().chars().next().ok_or(Stop::More)
    }

    pub(crate) fn next(&mut self) -> Parsed<char> {
        let character = self.peek()?;
        self.at += character.len_utf8();
        Ok(character)
    }

    pub(crate) fn skip_space(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start().len();
    }

    /// The next character that is no white space.
    pub(crate) fn peek_word(&mut self) -> Parsed<char> {
        self.skip_space();
        self.peek()
    }

    /// Takes `mark` if it comes next. `More` while it still may, or if the end cut it off.
    pub(crate) fn eat(&mut self, mark: &str) -> Parsed<bool> {
        let rest = self.rest();
        if rest.starts_with(mark) {
            self.at += mark.len();
            return Ok(true);
        }
        if mark.starts_with(rest) && !(self.end && rest.is_empty()) {
            return Err(Stop::More);
        }
        Ok(false)
    }

    /// Takes `mark` if it comes next behind white space, or what the end left of it. `More` while it still may come.
    pub(crate) fn eat_closing(&mut self, mark: &str) -> Parsed<()> {
        let mut ahead = *self;
        ahead.skip_space();
        match ahead.eat(mark) {
            Ok(true) => *self = ahead,
            Ok(false) => {}
            Err(_) if self.end => self.at = self.text.len(),
            Err(stop) => return Err(stop),
        }
        Ok(())
    }

    /// The first of `marks` that comes next, taken.
    pub(crate) fn eat_any(&mut self, marks: &[&'static str]) -> Parsed<Option<&'static str>> {
        for mark in marks {
            if self.eat(mark)? {
                return Ok(Some(mark));
            }
        }
        Ok(None)
    }

    pub(crate) fn expect(&mut self, mark: &str) -> Parsed<()> {
        if self.rest().is_empty() {
            return Err(Stop::More);
        }
        if self.eat(mark)? { Ok(()) } else { Err(Stop::Bad) }
    }

    /// Takes the text up to `stop`, which is not taken. At most `limit` bytes.
    pub(crate) fn until(&mut self, stop: impl Fn(char) -> bool, limit: usize) -> Parsed<&'a str> {
        let rest = self.rest();
        match rest.find(stop) {
            Some(length) if length <= limit => {
                self.at += length;
                Ok(&rest[..length])
            }
            None if rest.len() <= limit => Err(Stop::More),
            _ => Err(Stop::Bad),
        }
    }
}

/// Bytes at the end of `text` that may become one of `marks`: the longest end that is a proper prefix of one.
pub(crate) fn claim<'m>(text: &str, marks: impl IntoIterator<Item = &'m str>) -> usize {
    let bytes = text.as_bytes();
    let longest = |mark: &str| {
        let most = text.len().min(mark.len() - 1);
        (1..=most)
            .rev()
            .find(|&length| mark.is_char_boundary(length) && bytes.ends_with(&mark.as_bytes()[..length]))
    };
    marks.into_iter().filter_map(longest).max().unwrap_or(0)
}

/// The first of `marks` in `text`; of several at one place the longest. Its place and its number.
pub(crate) fn first_of(text: &str, marks: &[&str]) -> Option<(usize, usize)> {
    marks
        .iter()
        .enumerate()
        .filter_map(|(number, mark)| text.find(mark).map(|at| (at, std::cmp::Reverse(mark.len()), number)))
        .min()
        .map(|(at, _, number)| (at, number))
}
