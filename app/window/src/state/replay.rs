//! The clock of a replay: lanes that ran one after another are shown side by side, each token at its own moment.

use dspark_compare::Lane;
use std::time::Instant;

/// Where a replay stands, in seconds from the start of every lane.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Replay {
    /// Seconds until the last lane is done.
    length: f64,
    /// Where it stood when it last began to run, or stands.
    from: f64,
    /// Since when it runs.
    since: Option<Instant>,
}

impl Replay {
    /// Running from the start.
    pub fn begun(length: f64, now: Instant) -> Self {
        Self {
            length,
            from: 0.0,
            since: Some(now),
        }
    }

    /// Standing at the end.
    pub fn ended(length: f64) -> Self {
        Self {
            length,
            from: length,
            since: None,
        }
    }

    pub fn length(&self) -> f64 {
        self.length
    }

    pub fn at(&self, now: Instant) -> f64 {
        let run = self.since.map_or(0.0, |since| now.saturating_duration_since(since).as_secs_f64());
        (self.from + run).clamp(0.0, self.length)
    }

    pub fn is_over(&self, now: Instant) -> bool {
        self.at(now) >= self.length
    }

    /// Time moves it: the picture changes by itself.
    pub fn is_running(&self, now: Instant) -> bool {
        self.since.is_some() && !self.is_over(now)
    }

    pub fn pause(&mut self, now: Instant) {
        self.from = self.at(now);
        self.since = None;
    }

    /// Goes on, or once more from the start where it was over.
    pub fn play(&mut self, now: Instant) {
        self.from = if self.is_over(now) { 0.0 } else { self.at(now) };
        self.since = Some(now);
    }

    pub fn restart(&mut self, now: Instant) {
        *self = Self::begun(self.length, now);
    }

    pub fn skip(&mut self) {
        *self = Self::ended(self.length);
    }

    /// To a moment; it runs on from there if it ran.
    pub fn seek(&mut self, to: f64, now: Instant) {
        let running = self.is_running(now);
        self.from = to.clamp(0.0, self.length);
        self.since = running.then_some(now);
    }
}

/// What a lane shows at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Moment {
    pub text: String,
    pub tokens: usize,
    /// Tokens a second of decoding so far; `None` before the second token.
    pub rate: Option<f64>,
    pub done: bool,
}

/// `lane` as it was `at` seconds after its own start.
pub fn moment(lane: &Lane, at: f64) -> Moment {
    let shown = lane.pieces.partition_point(|piece| piece.at <= at);
    let shown = &lane.pieces[..shown];
    let done = shown.len() == lane.pieces.len();
    let tokens = shown.iter().map(|piece| piece.tokens).sum();
    // The first token belongs to the prompt.
    let first = shown.first().map(|piece| piece.at);
    let rate = first.zip(shown.last()).and_then(|(first, last)| {
        let seconds = last.at - first;
        let decoded = shown.iter().skip(1).map(|piece| piece.tokens).sum::<usize>();
        (seconds > 0.0 && decoded > 0).then(|| decoded as f64 / seconds)
    });
    Moment {
        text: shown.iter().map(|piece| piece.text.as_str()).collect(),
        tokens,
        rate: if done { Some(lane.decode_tok_s) } else { rate },
        done,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use dspark_compare::{Arm, Piece};
    use dspark_protocol::Mode;
    use std::time::Duration;

    fn later(start: Instant, seconds: f64) -> Instant {
        start + Duration::from_secs_f64(seconds)
    }

    #[test]
    fn it_runs_with_the_clock_and_ends() {
        let start = Instant::now();
        let replay = Replay::begun(8.0, start);
        assert_eq!(replay.at(start), 0.0);
        assert!((replay.at(later(start, 2.5)) - 2.5).abs() < 1e-6);
        assert!(replay.is_running(later(start, 7.9)) && !replay.is_over(later(start, 7.9)));
        assert_eq!(replay.at(later(start, 9.0)), 8.0);
        assert!(
            !replay.is_running(later(start, 9.0)) && replay.is_over(later(start, 9.0)),
            "no frame is asked for"
        );
        // A clock that is behind stands at the start.
        assert_eq!(Replay::begun(8.0, later(start, 1.0)).at(start), 0.0);
    }

    #[test]
    fn it_stands_where_it_was_paused_and_goes_on_from_there() {
        let start = Instant::now();
        let mut replay = Replay::begun(8.0, start);
        replay.pause(later(start, 3.0));
        assert!((replay.at(later(start, 60.0)) - 3.0).abs() < 1e-6);
        assert!(!replay.is_running(later(start, 60.0)));
        replay.play(later(start, 60.0));
        assert!((replay.at(later(start, 61.0)) - 4.0).abs() < 1e-6);
        replay.restart(later(start, 61.0));
        assert_eq!(replay.at(later(start, 61.0)), 0.0);
        replay.skip();
        assert!(replay.is_over(later(start, 61.0)));
        // Played once more, from the start.
        replay.play(later(start, 70.0));
        assert!((replay.at(later(start, 70.5)) - 0.5).abs() < 1e-6);
    }

    #[test]
    fn it_is_taken_to_any_moment_running_or_not() {
        let start = Instant::now();
        let mut replay = Replay::begun(8.0, start);
        replay.seek(5.0, later(start, 1.0));
        assert!((replay.at(later(start, 2.0)) - 6.0).abs() < 1e-6, "it runs on");
        replay.pause(later(start, 2.0));
        replay.seek(99.0, later(start, 2.0));
        assert_eq!(replay.at(later(start, 50.0)), 8.0);
        replay.seek(1.0, later(start, 50.0));
        assert_eq!(replay.at(later(start, 55.0)), 1.0, "it stands");
    }

    #[test]
    fn every_token_comes_at_its_own_moment() {
        let piece = |at, tokens, text: &str| Piece {
            at,
            tokens,
            text: text.into(),
        };
        let lane = Lane {
            arm: Arm::plain(),
            name: "baseline".into(),
            effective_mode: Mode::Baseline,
            reason: None,
            cap: None,
            tokens: 6,
            seconds: 1.5,
            prefill_seconds: 0.5,
            tok_s: 4.0,
            decode_tok_s: 5.5,
            accept: 2.0,
            target_forwards: 3,
            lookup_rounds: 0,
            verdict: None,
            ids: Vec::new(),
            pieces: vec![piece(0.5, 1, "a"), piece(1.0, 3, "bcd"), piece(1.5, 2, "ef")],
        };
        let at = |seconds| moment(&lane, seconds);
        assert_eq!((at(0.0).text.as_str(), at(0.0).rate, at(0.0).done), ("", None, false));
        assert_eq!((at(0.5).text.as_str(), at(0.5).tokens, at(0.5).rate), ("a", 1, None));
        // Three tokens in half a second after the first.
        assert_eq!((at(1.2).text.as_str(), at(1.2).tokens, at(1.2).rate), ("abcd", 4, Some(6.0)));
        assert_eq!((at(1.5).text.as_str(), at(1.5).rate, at(1.5).done), ("abcdef", Some(5.5), true));
    }
}
