//! Where words go: results to standard output, progress and notes to standard error, colour only on a terminal.

use super::{
    args::GlobalArgs,
    exit::{self, Failure, Outcome},
};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::{
    io::{self, ErrorKind, IsTerminal, Write},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

/// How this run speaks.
#[derive(Debug, Clone)]
pub(super) struct Output {
    pub(super) json: bool,
    quiet: bool,
    verbose: u8,
    colour: bool,
    /// The first write to standard output that failed; nothing is written after it.
    broken: Arc<OnceLock<io::Error>>,
    /// The one object of `--json` is out.
    told: Arc<AtomicBool>,
}

impl Output {
    pub(super) fn new(global: &GlobalArgs) -> Self {
        let colour =
            !global.no_color && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()) && std::io::stderr().is_terminal();
        Self {
            json: global.json,
            quiet: global.quiet,
            verbose: global.verbose,
            colour,
            broken: Arc::default(),
            told: Arc::default(),
        }
    }

    /// Logs go to standard error; `RUST_LOG` overrides the flags.
    pub(super) fn start_log(&self) {
        let level = match (self.quiet, self.verbose) {
            (true, _) => "error",
            (_, 0) => "warn",
            (_, 1) => "info",
            _ => "debug",
        };
        let filter = tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| level.into());
        let _ = tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_writer(std::io::stderr)
            .with_ansi(self.colour)
            .try_init();
        std::panic::set_hook(Box::new(|panic| {
            let thread = std::thread::current();
            // On these two every panic is caught and told as an error. Elsewhere the log is the only one to tell.
            if !matches!(thread.name(), Some("engine" | "main")) {
                tracing::error!(thread = thread.name(), "an internal fault: {panic}; `-vv` traces it");
            }
            let trace = std::backtrace::Backtrace::capture();
            tracing::debug!(thread = thread.name(), "{panic}\n{trace}");
        }));
    }

    /// A result.
    pub(super) fn result(&self, text: &str) {
        self.stream(&format!("{text}\n"));
    }

    /// Part of a result, at once. A write that fails is remembered for [`Output::written`].
    pub(super) fn stream(&self, text: &str) {
        if self.is_broken() {
            return;
        }
        let mut out = io::stdout().lock();
        if let Err(error) = out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
            let _ = self.broken.set(error);
        }
    }

    /// The one object of `--json`.
    pub(super) fn object(&self, value: &serde_json::Value) {
        self.told.store(true, Ordering::Relaxed);
        self.result(&value.to_string());
    }

    /// Nobody can read what is still to come.
    pub(super) fn is_broken(&self) -> bool {
        self.broken.get().is_some()
    }

    /// Whether the results reached standard output. A reader that went away (`| head`) has had enough: no failure.
    pub(super) fn written(&self) -> Outcome {
        match self.broken.get() {
            Some(error) if error.kind() != ErrorKind::BrokenPipe => Err(Failure::new(
                exit::FAILED,
                format!("cannot write the result to standard output: {error}; make room or write it elsewhere"),
            )),
            _ => Ok(()),
        }
    }

    pub(super) fn note(&self, text: impl AsRef<str>) {
        if !self.quiet && !self.json {
            eprintln!("{}", text.as_ref());
        }
    }

    pub(super) fn warn(&self, text: impl AsRef<str>) {
        let label = if self.colour { "\x1b[33mwarning:\x1b[0m" } else { "warning:" };
        eprintln!("{label} {}", text.as_ref());
    }

    pub(super) fn failure(&self, failure: &Failure) {
        // A second object would not parse: after a result, or where none can be written, the reason goes to people only.
        if self.json && !self.told.load(Ordering::Relaxed) && !self.is_broken() {
            self.object(&serde_json::json!({ "error": { "message": failure.message, "code": failure.code } }));
        } else {
            let label = if self.colour { "\x1b[31merror:\x1b[0m" } else { "error:" };
            eprintln!("{label} {}", failure.message);
        }
    }

    /// A bar on a terminal, one line every 5 % elsewhere, nothing with `--quiet` or `--json`.
    pub(super) fn progress(&self, what: &str) -> Progress {
        let silent = self.quiet || self.json;
        let terminal = std::io::stderr().is_terminal();
        let bar = ProgressBar::with_draw_target(
            None,
            if silent || !terminal {
                ProgressDrawTarget::hidden()
            } else {
                ProgressDrawTarget::stderr()
            },
        );
        if let Ok(style) = ProgressStyle::with_template("{msg:28!} {bar:32} {bytes}/{total_bytes} {bytes_per_sec} {eta}") {
            bar.set_style(style);
        }
        bar.set_message(what.to_owned());
        Progress {
            bar,
            lines: !silent && !terminal,
            what: what.to_owned(),
            last: None,
        }
    }
}

/// Progress in bytes.
pub(super) struct Progress {
    bar: ProgressBar,
    lines: bool,
    what: String,
    last: Option<u64>,
}

impl Progress {
    pub(super) fn set(&mut self, what: &str, done: u64, total: u64) {
        // In a log a line for each stage and twentieth is enough: the hundreds of tensors of a stage are none of its business.
        let stage = |what: &str| what.split(' ').next().map(str::to_owned);
        if what != self.what {
            if stage(what) != stage(&self.what) {
                self.last = None;
            }
            what.clone_into(&mut self.what);
            self.bar.set_message(what.to_owned());
        }
        if total > 0 {
            self.bar.set_length(total);
            self.bar.set_position(done);
        }
        let step = (done * 20).checked_div(total).unwrap_or(0);
        if self.lines && self.last.is_none_or(|last| step != last) {
            self.last = Some(step);
            if total > 0 {
                eprintln!("{what} {} %", step * 5);
            } else {
                eprintln!("{what}");
            }
        }
    }

    pub(super) fn finish(&mut self) {
        self.bar.finish_and_clear();
    }
}
