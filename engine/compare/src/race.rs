//! One prompt by several arms, one after another, with the moment of every token, so that they can be replayed side by
//! side. Source: `spec/app.md` §5.4.

use crate::{Arm, Stamp, Verdict, judge, rounded, run};
use dspark_protocol::{EngineError, EngineHandle, Event, Message, Mode, ModelInfo, Prompt, Result, Summary, TemplateOptions, TreeSetting};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// What to run.
#[derive(Debug, Clone, PartialEq)]
pub struct Wish {
    pub prompt: String,
    pub options: TemplateOptions,
    pub max_tokens: usize,
    /// In this order. Plain decoding, where it is among them, is what the others are judged by.
    pub arms: Vec<Arm>,
    /// Of this program, for the stamp.
    pub version: String,
}

/// Text that came at one moment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Piece {
    /// Seconds since the engine took the request up.
    pub at: f64,
    pub tokens: usize,
    pub text: String,
}

/// One arm's run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Lane {
    pub arm: Arm,
    /// As the command line writes it.
    pub name: String,
    /// What ran, and why where that is something else than asked.
    pub effective_mode: Mode,
    pub reason: Option<String>,
    /// Drafts of a round at the end.
    pub cap: Option<usize>,
    pub tokens: usize,
    /// From the admission to the last token, and until the first.
    pub seconds: f64,
    pub prefill_seconds: f64,
    pub tok_s: f64,
    pub decode_tok_s: f64,
    /// Tokens a target forward.
    pub accept: f64,
    pub target_forwards: usize,
    pub lookup_rounds: usize,
    /// `None` for the reference itself, and where there is none.
    pub verdict: Option<Verdict>,
    pub ids: Vec<u32>,
    pub pieces: Vec<Piece>,
}

impl Lane {
    fn of(arm: Arm, summary: Summary, pieces: Vec<Piece>) -> Self {
        let told = summary.speculation.as_deref();
        // A drafter without second guesses drafts a chain, whatever was asked for.
        let treeless = arm.options.is_some_and(|options| options.tree == TreeSetting::On) && told.is_none_or(|told| told.tree_nodes == 0);
        let treeless = treeless.then(|| "this drafter gives no side branches: it drafted a chain".to_owned());
        Self {
            arm,
            name: arm.name(),
            effective_mode: summary.effective_mode,
            reason: summary.mode_reason.or(treeless),
            cap: told.map(|told| told.cap),
            tokens: summary.usage.completion_tokens,
            seconds: pieces
                .last()
                .map_or(rounded(summary.timings.prefill + summary.timings.decode, 4), |piece| piece.at),
            prefill_seconds: rounded(summary.timings.prefill, 4),
            tok_s: rounded(summary.timings.end_to_end_rate(&summary.usage), 3),
            decode_tok_s: rounded(summary.timings.decode_rate(&summary.usage), 3),
            accept: rounded(summary.accept_len, 4),
            target_forwards: summary.target_forwards,
            lookup_rounds: told.map_or(0, |told| told.stats.lookup_rounds),
            verdict: None,
            ids: summary.token_ids,
            pieces,
        }
    }

    pub fn text(&self) -> String {
        self.pieces.iter().map(|piece| piece.text.as_str()).collect()
    }
}

/// A race that was run, as far as it got.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Race {
    #[serde(flatten)]
    pub stamp: Stamp,
    pub prompt: String,
    pub max_tokens: usize,
    #[serde(default)]
    pub thinking: Option<bool>,
    /// Who else was being answered or waited meanwhile: figures may suffer.
    #[serde(default)]
    pub beside: Vec<String>,
    /// Why it ended early.
    #[serde(default)]
    pub stopped: Option<String>,
    pub lanes: Vec<Lane>,
}

impl Race {
    /// Plain decoding, which the others are measured against and judged by.
    pub fn reference(&self) -> Option<&Lane> {
        self.lanes.iter().find(|lane| lane.arm.is_plain())
    }

    /// Decode rate over that of plain decoding.
    pub fn multiple(&self, lane: &Lane) -> Option<f64> {
        let plain = self.reference()?.decode_tok_s;
        (plain > 0.0).then(|| lane.decode_tok_s / plain)
    }

    /// The lane that decoded fastest; of equals the first.
    pub fn winner(&self) -> Option<usize> {
        let mut best: Option<usize> = None;
        for (at, lane) in self.lanes.iter().enumerate() {
            if best.is_none_or(|best| lane.decode_tok_s > self.lanes[best].decode_tok_s) {
                best = Some(at);
            }
        }
        best
    }

    /// Seconds until the last lane is done.
    pub fn length(&self) -> f64 {
        self.lanes.iter().map(|lane| lane.seconds).fold(0.0, f64::max)
    }
}

/// How far a race is.
#[derive(Debug, Clone, PartialEq)]
pub enum News {
    /// Another arm begins.
    Begun(usize),
    Piece {
        lane: usize,
        piece: Piece,
    },
    Done(Box<Lane>),
    /// Texts are set side by side.
    Judging,
}

/// Runs the arms in order and judges them. What is done when `cancel` comes, or an arm fails, is kept.
///
/// # Errors
/// Where nothing was finished: what the engine says, [`EngineError::Cancelled`] after `cancel`.
pub async fn race(handle: &EngineHandle, wish: &Wish, cancel: &CancellationToken, report: &mut dyn FnMut(News)) -> Result<Race> {
    let snapshot = handle.snapshot();
    let model = snapshot.model.clone().ok_or(EngineError::NoModel)?;
    let mut race = Race {
        stamp: Stamp::of(&snapshot, &model, &wish.version),
        prompt: wish.prompt.clone(),
        max_tokens: wish.max_tokens,
        thinking: wish.options.enable_thinking,
        beside: Vec::new(),
        stopped: None,
        lanes: Vec::new(),
    };
    if let Err(error) = lanes(handle, wish, &model, cancel, &mut race, report).await {
        if race.lanes.is_empty() {
            return Err(error);
        }
        race.stopped = Some(error.to_string());
    }
    Ok(race)
}

async fn lanes(
    handle: &EngineHandle,
    wish: &Wish,
    model: &Arc<ModelInfo>,
    cancel: &CancellationToken,
    race: &mut Race,
    report: &mut dyn FnMut(News),
) -> Result<()> {
    let prompt = handle.codec()?.encode(&Prompt::Chat {
        messages: vec![Message::user(wish.prompt.as_str())],
        options: wish.options.clone(),
    })?;
    for (index, arm) in wish.arms.iter().enumerate() {
        still(handle, model)?;
        report(News::Begun(index));
        let mut pieces: Vec<Piece> = Vec::new();
        let request = arm.request(CLIENT, Prompt::Tokens(prompt.clone()), wish.max_tokens);
        let mut others: Vec<String> = Vec::new();
        let ran = run(handle, request, cancel, &mut |event, at| {
            others.extend(crate::stamp::others(&handle.snapshot(), CLIENT));
            if let Event::Delta(delta) = event
                && (!delta.text.is_empty() || !delta.tokens.is_empty())
            {
                let piece = Piece {
                    at: rounded(at, 4),
                    tokens: delta.tokens.len(),
                    text: delta.text.clone(),
                };
                report(News::Piece {
                    lane: index,
                    piece: piece.clone(),
                });
                pieces.push(piece);
            }
        })
        .await;
        for other in others {
            if !race.beside.contains(&other) {
                race.beside.push(other);
            }
        }
        let lane = Lane::of(*arm, ran?.summary, pieces);
        report(News::Done(Box::new(lane.clone())));
        race.lanes.push(lane);
    }
    still(handle, model)?;
    report(News::Judging);
    let Some(reference) = race.reference().map(|lane| lane.ids.clone()) else {
        return Ok(());
    };
    for lane in race.lanes.iter_mut().filter(|lane| !lane.arm.is_plain()) {
        let verdict = cancel
            .run_until_cancelled(judge(handle, &prompt, &reference, &lane.ids))
            .await
            .ok_or(EngineError::Cancelled)??;
        lane.verdict = Some(verdict);
    }
    Ok(())
}

/// Who asks, in the engine's list of requests.
const CLIENT: &str = "race";

fn is_same(one: &ModelInfo, other: &ModelInfo) -> bool {
    one.path == other.path && one.loaded_at == other.loaded_at && one.load_seconds == other.load_seconds
}

/// The model that it began with is the one that is loaded.
pub(crate) fn still(handle: &EngineHandle, model: &Arc<ModelInfo>) -> Result<()> {
    match &handle.snapshot().model {
        Some(now) if is_same(now, model) => Ok(()),
        Some(_) => Err(EngineError::BadRequest(
            "another model was loaded meanwhile: its figures cannot stand beside those of the one before; start again".into(),
        )),
        None => Err(EngineError::NoModel),
    }
}
