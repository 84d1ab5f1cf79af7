//! The first run: look at this machine, pick a model, go. Every step can be skipped; at the end stands one line of truth
//! about the speed, taken from a short reply on this machine.

use super::{Effect, Msg, Screen, State, chat, settings};
use dspark_protocol::{EngineError, Message, Mode, Prompt, Request, Summary, TemplateOptions};
use dspark_strings::t;

/// What the first run asks the model for. Prose and code, so that it is neither the best nor the worst case.
const TRIAL: &str = "Write a short Python function that returns the n-th Fibonacci number, then explain it in two sentences.";
/// Tokens of the trial: enough for a rate, a few seconds on a large model.
const TRIAL_TOKENS: usize = 96;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Step {
    #[default]
    Check,
    Pick,
    /// Download, load, measure.
    Go,
}

/// How fast the model answered here.
#[derive(Debug, Clone, PartialEq)]
pub struct Truth {
    pub model: String,
    /// Decoded tokens a second.
    pub rate: f64,
    /// Times plain decoding; `None` where nothing was drafted or the pair is not calibrated.
    pub multiple: Option<f64>,
    pub tokens: usize,
}

#[derive(Debug, Clone, Default)]
pub struct FirstRun {
    /// `Check` or `Pick`; [`State::first_step`] adds `Go`.
    pub step: Step,
    /// Asked for again although there is a model.
    pub again: bool,
    /// A model was chosen here and is on its way.
    pub going: bool,
    /// It is downloaded first.
    pub fetches: bool,
    /// The short reply is being written.
    pub trial: bool,
    pub truth: Option<Truth>,
}

#[derive(Debug, Clone)]
pub enum FirstRunMsg {
    Next,
    /// Leaves the first run at any step; what is under way goes on.
    Skip,
    /// From the palette, whatever is loaded.
    Again,
    /// The short reply is there, or was not to be had.
    Measured(Result<Box<Summary>, EngineError>),
}

pub(super) fn update(state: &mut State, message: FirstRunMsg, out: &mut Vec<Effect>) {
    match message {
        FirstRunMsg::Next => {
            state.first_run.step = Step::Pick;
            welcomed(state, out);
        }
        FirstRunMsg::Skip => {
            if state.first_run.trial {
                out.push(Effect::CancelMeasure);
            }
            let truth = state.first_run.truth.take();
            state.first_run = FirstRun {
                step: Step::Pick,
                truth,
                ..FirstRun::default()
            };
            state.models.skipped = true;
            welcomed(state, out);
        }
        FirstRunMsg::Again => {
            state.screen = Screen::Chat;
            chat::update(state, chat::ChatMsg::New, out);
            state.models.skipped = false;
            state.first_run = FirstRun {
                again: true,
                ..FirstRun::default()
            };
            out.push(Effect::Survey {
                folders: state.settings.models.folders.clone(),
            });
        }
        FirstRunMsg::Measured(result) => measured(state, result),
    }
}

/// The machine has been looked at: later starts begin with the models.
fn welcomed(state: &mut State, out: &mut Vec<Effect>) {
    if !state.settings.general.welcomed {
        state.settings.general.welcomed = true;
        settings::save(state, out);
    }
}

/// A model was chosen on the page.
pub(super) fn going(state: &mut State, fetches: bool, out: &mut Vec<Effect>) {
    if state.is_first_run() {
        state.first_run.going = true;
        state.first_run.fetches = fetches;
        welcomed(state, out);
    }
}

/// It did not come to anything: back to the choice.
pub(super) fn stopped(state: &mut State) {
    state.first_run.going = false;
    state.first_run.trial = false;
}

/// The model is ready. What a person has written goes first; otherwise a short reply shows how fast it is here.
pub(super) fn ready(state: &mut State, writes: bool, out: &mut Vec<Effect>) {
    if !std::mem::take(&mut state.first_run.going) {
        return;
    }
    state.first_run.again = false;
    let chats = state.engine.model.as_ref().is_some_and(|model| model.has_chat_template);
    if !chats || writes {
        return;
    }
    state.first_run.trial = true;
    out.push(Effect::Measure(Box::new(Request {
        prompt: Prompt::Chat {
            messages: vec![Message::user(TRIAL)],
            options: TemplateOptions::default(),
        },
        ..Request::chat(t!(first_run), Vec::new(), TRIAL_TOKENS)
    })));
}

fn measured(state: &mut State, result: Result<Box<Summary>, EngineError>) {
    if !std::mem::take(&mut state.first_run.trial) {
        return;
    }
    // Without a figure the chat begins all the same; a reply will have one.
    let (Ok(summary), Some(model)) = (result, &state.engine.model) else {
        return;
    };
    let rate = summary.timings.decode_rate(&summary.usage);
    if !rate.is_finite() || rate <= 0.0 || summary.usage.completion_tokens < 8 {
        return;
    }
    let drafted = summary.effective_mode != Mode::Baseline;
    state.first_run.truth = Some(Truth {
        model: model.name.clone(),
        rate,
        multiple: summary
            .speculation
            .as_ref()
            .and_then(|speculation| speculation.multiple)
            .filter(|multiple| drafted && multiple.is_finite() && *multiple > 0.0),
        tokens: summary.usage.completion_tokens,
    });
}

impl State {
    /// The page of the first run that is open.
    pub fn first_step(&self) -> Step {
        let busy = self.models.fetching.is_some() || self.models.loading.is_some();
        if self.first_run.trial || (busy && (self.first_run.going || !self.first_run.again)) {
            Step::Go
        } else {
            self.first_run.step
        }
    }

    /// How fast the loaded model was when it was set up.
    pub fn truth(&self) -> Option<&Truth> {
        let model = self.engine.model.as_ref()?;
        self.first_run.truth.as_ref().filter(|truth| truth.model == model.name)
    }
}

impl Truth {
    /// `42 tok/s, 2.1× plain decoding`.
    pub fn words(&self) -> String {
        match self.multiple {
            Some(multiple) => t!(truth_times, rate = format!("{:.0}", self.rate), multiple = format!("{multiple:.1}")),
            None => t!(truth_plain, rate = format!("{:.0}", self.rate)),
        }
    }

    pub fn explain(&self) -> String {
        let tokens = self.tokens;
        match self.multiple {
            Some(_) => t!(truth_explain_times, tokens = tokens),
            None => t!(truth_explain_plain, tokens = tokens),
        }
    }
}

impl From<FirstRunMsg> for Msg {
    fn from(message: FirstRunMsg) -> Self {
        Self::FirstRun(message)
    }
}
