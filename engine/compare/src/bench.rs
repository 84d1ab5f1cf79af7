//! Many prompts by several arms in turns, so that a machine that gets slower meanwhile slows all alike. Medians; wall
//! and processor time.

use crate::{Arm, Ran, Skipped, Stamp, Text, race::still, rounded, run, stamp::others};
use dspark_protocol::{EngineError, EngineHandle, Message, Prompt, Result, TemplateOptions};
use dspark_speculate::calibration::median;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fmt::Write};
use tokio_util::sync::CancellationToken;

/// What to measure. Plain decoding always runs first and need not be named.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    pub arms: Vec<Arm>,
    pub texts: Vec<Text>,
    pub max_tokens: usize,
    /// Turns; medians count.
    pub trials: usize,
    /// Of this program, for the stamp.
    pub version: String,
}

impl Plan {
    /// Plain decoding, then the others, each once.
    fn all(&self) -> Vec<Arm> {
        let mut all = vec![Arm::plain()];
        all.extend(self.arms.iter().filter(|arm| !arm.is_plain()));
        all
    }

    /// Generations, the short ones that warm up included.
    pub fn generations(&self) -> usize {
        self.all().len() * (1 + self.texts.len() * self.trials.max(1))
    }
}

/// Before each generation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    pub done: usize,
    pub of: usize,
    pub arm: String,
    /// 0 while it warms up, then from 1.
    pub turn: usize,
    pub kind: String,
}

/// What an arm came to on the prompts of one kind: medians over prompts and turns.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Figures {
    pub tok_s: f64,
    pub decode_tok_s: f64,
    /// Tokens a processor-second.
    pub tok_cpu_s: f64,
    /// Tokens a target forward.
    pub accept: f64,
    /// Decode rate over that of plain decoding, of the same prompt and turn.
    pub speedup: f64,
    pub cpu_speedup: f64,
    /// The same text as plain decoding wrote.
    pub same_text: bool,
}

/// One arm: means over the kinds.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Run {
    pub run: String,
    /// Why it was something else than asked.
    pub reason: Option<String>,
    pub tok_s: f64,
    pub decode_tok_s: f64,
    pub tok_cpu_s: f64,
    pub accept: f64,
    pub speedup: f64,
    /// How far the turns lie apart, as a part of their median; `None` of one turn.
    #[serde(default)]
    pub spread: Option<f64>,
    pub per_kind: BTreeMap<String, Figures>,
}

/// All of it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Bench {
    #[serde(flatten)]
    pub stamp: Stamp,
    #[serde(default)]
    pub prompts: usize,
    #[serde(default)]
    pub max_tokens: usize,
    #[serde(default)]
    pub trials: usize,
    /// Kinds of text in the order in which they came.
    #[serde(default)]
    pub kinds: Vec<String>,
    pub runs: Vec<Run>,
    #[serde(default)]
    pub skipped: Vec<Skipped>,
    /// Why its figures should not be quoted.
    #[serde(default)]
    pub flags: Vec<String>,
}

impl Bench {
    pub fn best(&self) -> Option<&Run> {
        self.runs.iter().max_by(|a, b| a.speedup.total_cmp(&b.speedup))
    }

    pub fn run(&self, name: &str) -> Option<&Run> {
        self.runs.iter().find(|run| run.run == name)
    }

    /// How `run` of this one stands against the same of `before`.
    pub fn change(&self, before: &Self, run: &str) -> Option<Change> {
        let (now, then) = (self.run(run)?, before.run(run)?);
        if then.decode_tok_s <= 0.0 {
            return None;
        }
        let ratio = now.decode_tok_s / then.decode_tok_s;
        let noise = [now.spread, then.spread].into_iter().flatten().fold(NOISE, f64::max);
        Some(Change {
            ratio,
            clear: (ratio - 1.0).abs() > noise,
        })
    }
}

/// Decode rate over that of another benchmark.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Change {
    pub ratio: f64,
    /// More than the turns of either differ among themselves, and more than 5 %.
    pub clear: bool,
}

const NOISE: f64 = 0.05;
/// Turns further apart than this are not quoted. Source: `spec/cli.md` §5.
const QUOTABLE: f64 = 0.10;
/// Tokens of the short run before.
const WARM_UP: usize = 100;
const CLIENT: &str = "benchmark";

#[derive(Debug, Clone, Copy, Default)]
struct Trial {
    end_to_end: f64,
    decode: f64,
    cpu: f64,
    accept: f64,
}

impl Trial {
    fn of(ran: &Ran) -> Self {
        let usage = &ran.summary.usage;
        let tokens = usage.completion_tokens;
        let per = |count: usize, seconds: f64| if seconds > 0.0 { count as f64 / seconds } else { 0.0 };
        Self {
            end_to_end: per(tokens, ran.end_to_end),
            decode: ran.summary.timings.decode_rate(usage),
            cpu: per(tokens.saturating_sub(1), ran.decode_cpu),
            accept: ran.summary.accept_len,
        }
    }
}

/// Trials of an arm, by text.
#[derive(Default, Clone)]
struct Kept {
    trials: Vec<Vec<Trial>>,
    same: Vec<bool>,
    reason: Option<String>,
}

/// Runs the plan on the loaded model.
///
/// # Errors
/// What the engine says, [`EngineError::Cancelled`] after `cancel`: nothing is kept of half a benchmark.
pub async fn measure(handle: &EngineHandle, plan: &Plan, cancel: &CancellationToken, report: &mut dyn FnMut(Progress)) -> Result<Bench> {
    let snapshot = handle.snapshot();
    let model = snapshot.model.clone().ok_or(EngineError::NoModel)?;
    let all = plan.all();
    let Some(first) = plan.texts.first() else {
        return Err(EngineError::BadRequest(
            "a benchmark needs at least one prompt: name one or take the shipped ones".into(),
        ));
    };
    let mut beside: Vec<String> = Vec::new();
    let mut done = 0;
    let mut before = |arm: &Arm, turn: usize, kind: &str| {
        report(Progress {
            done,
            of: plan.generations(),
            arm: arm.name(),
            turn,
            kind: kind.into(),
        });
        done += 1;
    };
    let mut one = async |arm: &Arm, text: &Text, max_tokens: usize| {
        still(handle, &model)?;
        let prompt = Prompt::Chat {
            messages: vec![Message::user(text.text.as_str())],
            options: TemplateOptions::default(),
        };
        let request = arm.request(CLIENT, prompt, max_tokens);
        let mut seen = |_: &_, _| beside.extend(others(&handle.snapshot(), CLIENT));
        let ran = run(handle, request, cancel, &mut seen).await?;
        beside.sort_unstable();
        beside.dedup();
        Ok::<_, EngineError>(ran)
    };
    for arm in &all {
        before(arm, 0, &first.kind);
        one(arm, first, WARM_UP.min(plan.max_tokens)).await?;
    }
    let empty = Kept {
        trials: vec![Vec::new(); plan.texts.len()],
        same: vec![true; plan.texts.len()],
        reason: None,
    };
    let mut kept = vec![empty; all.len()];
    for turn in 1..=plan.trials.max(1) {
        for (at, text) in plan.texts.iter().enumerate() {
            let mut plain: Vec<u32> = Vec::new();
            for (index, arm) in all.iter().enumerate() {
                before(arm, turn, &text.kind);
                let ran = one(arm, text, plan.max_tokens).await?;
                let arm = &mut kept[index];
                arm.trials[at].push(Trial::of(&ran));
                if index == 0 {
                    plain = ran.summary.token_ids;
                } else {
                    arm.same[at] &= ran.summary.token_ids == plain;
                }
                arm.reason = ran.summary.mode_reason;
            }
        }
    }
    let kinds = kinds(&plan.texts);
    let runs: Vec<Run> = all.iter().zip(&kept).map(|(arm, own)| sum(arm, own, &kept[0], &kinds)).collect();
    Ok(Bench {
        stamp: Stamp::of(&snapshot, &model, &plan.version),
        prompts: plan.texts.len(),
        max_tokens: plan.max_tokens,
        trials: plan.trials.max(1),
        kinds: kinds.into_iter().map(|(kind, _)| kind).collect(),
        flags: flags(&runs, &beside),
        runs,
        skipped: Vec::new(),
    })
}

fn flags(runs: &[Run], beside: &[String]) -> Vec<String> {
    let mut flags = Vec::new();
    if !beside.is_empty() {
        flags.push(format!("other requests ran or waited meanwhile ({})", beside.join(", ")));
    }
    let apart = runs.iter().filter(|run| run.spread.is_some_and(|spread| spread > QUOTABLE));
    for run in apart {
        flags.push(format!(
            "the turns of {} lie {:.0} % apart",
            run.run,
            100.0 * run.spread.unwrap_or_default()
        ));
    }
    flags
}

/// The kinds of text, in the order in which they come, and the prompts of each.
fn kinds(texts: &[Text]) -> Vec<(String, Vec<usize>)> {
    let mut kinds: Vec<(String, Vec<usize>)> = Vec::new();
    for (at, text) in texts.iter().enumerate() {
        match kinds.iter_mut().find(|(kind, _)| *kind == text.kind) {
            Some((_, prompts)) => prompts.push(at),
            None => kinds.push((text.kind.clone(), vec![at])),
        }
    }
    kinds
}

fn sum(arm: &Arm, own: &Kept, plain: &Kept, kinds: &[(String, Vec<usize>)]) -> Run {
    let per_kind: BTreeMap<String, Figures> = kinds
        .iter()
        .map(|(kind, prompts)| {
            let of = |kept: &Kept| prompts.iter().flat_map(|at| kept.trials[*at].clone()).collect::<Vec<_>>();
            (kind.clone(), figures(&of(own), &of(plain), prompts.iter().all(|at| own.same[*at])))
        })
        .collect();
    let all = |value: fn(&Figures) -> f64| rounded(mean(per_kind.values().map(value)), 4);
    Run {
        run: arm.name(),
        reason: own.reason.clone(),
        tok_s: all(|figures| figures.tok_s),
        decode_tok_s: all(|figures| figures.decode_tok_s),
        tok_cpu_s: all(|figures| figures.tok_cpu_s),
        accept: all(|figures| figures.accept),
        speedup: all(|figures| figures.speedup),
        spread: spread(&own.trials).map(|spread| rounded(spread, 4)),
        per_kind,
    }
}

/// Of the same prompt from turn to turn, as a part of its median: the typical prompt's.
fn spread(trials: &[Vec<Trial>]) -> Option<f64> {
    let of = |trials: &Vec<Trial>| {
        let rates: Vec<f64> = trials.iter().map(|trial| trial.decode).collect();
        let (least, most) = rates
            .iter()
            .fold((f64::INFINITY, 0.0_f64), |(least, most), rate| (least.min(*rate), most.max(*rate)));
        let middle = median(&rates).filter(|middle| *middle > 0.0)?;
        (rates.len() > 1).then(|| (most - least) / middle)
    };
    let apart: Vec<f64> = trials.iter().filter_map(of).collect();
    median(&apart)
}

fn figures(trials: &[Trial], plain: &[Trial], same: bool) -> Figures {
    let middle = |values: Vec<f64>| rounded(median(&values).unwrap_or(0.0), 4);
    let of = |value: fn(&Trial) -> f64| middle(trials.iter().map(value).collect());
    let against = |value: fn(&Trial) -> f64| {
        let pairs = trials.iter().zip(plain).filter(|(_, plain)| value(plain) > 0.0);
        middle(pairs.map(|(trial, plain)| value(trial) / value(plain)).collect())
    };
    Figures {
        tok_s: of(|trial| trial.end_to_end),
        decode_tok_s: of(|trial| trial.decode),
        tok_cpu_s: of(|trial| trial.cpu),
        accept: of(|trial| trial.accept),
        speedup: against(|trial| trial.decode),
        cpu_speedup: against(|trial| trial.cpu),
        same_text: same,
    }
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, n) = values.fold((0.0, 0), |(sum, n), value| (sum + value, n + 1));
    if n == 0 { 0.0 } else { sum / f64::from(n) }
}

/// One line a run and kind, names on top.
pub fn csv(benches: &[Bench]) -> String {
    let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
    let mut text = String::from(
        "at,version,target,quantization,drafter,device,backend,mlx,run,kind,tok_s,decode_tok_s,tok_cpu_s,accept,speedup,cpu_speedup,same_text\n",
    );
    for bench in benches {
        let stamp = &bench.stamp;
        let drafter = stamp.drafter.as_deref().unwrap_or_default();
        let names = [
            &stamp.version,
            &stamp.target,
            &stamp.quantization,
            drafter,
            &stamp.device,
            &stamp.backend,
            &stamp.mlx,
        ];
        let names: Vec<String> = names.into_iter().map(quoted).collect();
        for run in &bench.runs {
            for (kind, at) in &run.per_kind {
                let _ = writeln!(
                    text,
                    "{},{},{},{},{:.3},{:.3},{:.3},{:.3},{:.3},{:.3},{}",
                    stamp.at,
                    names.join(","),
                    quoted(&run.run),
                    quoted(kind),
                    at.tok_s,
                    at.decode_tok_s,
                    at.tok_cpu_s,
                    at.accept,
                    at.speedup,
                    at.cpu_speedup,
                    at.same_text
                );
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn trial(decode: f64) -> Trial {
        Trial {
            decode,
            cpu: decode,
            ..Trial::default()
        }
    }

    #[test]
    fn prompts_of_a_kind_count_together() {
        let text = |kind: &str| Text {
            kind: kind.into(),
            text: String::new(),
        };
        let found = kinds(&[text("chat"), text("list"), text("chat")]);
        assert_eq!(found, [("chat".to_owned(), vec![0, 2]), ("list".to_owned(), vec![1])]);
        // Each against plain decoding of its own prompt and turn.
        let cell = figures(
            &[trial(20.0), trial(60.0), trial(30.0)],
            &[trial(10.0), trial(20.0), trial(30.0)],
            true,
        );
        assert!((cell.speedup - 2.0).abs() < 1e-9 && (cell.decode_tok_s - 30.0).abs() < 1e-9);
    }

    #[test]
    fn turns_that_lie_apart_are_not_quotable() {
        let steady = [vec![trial(100.0), trial(102.0)], vec![trial(50.0), trial(51.0)]];
        assert!(spread(&steady).unwrap() < 0.03);
        assert_eq!(spread(&[vec![trial(100.0)]]), None);
        let run = Run {
            run: "dspark".into(),
            spread: spread(&[vec![trial(100.0), trial(140.0), trial(120.0)]]),
            ..Run::default()
        };
        assert_eq!(flags(&[run], &[]), ["the turns of dspark lie 33 % apart"]);
        assert_eq!(flags(&[], &["opencode".into()]).len(), 1);
    }

    #[test]
    fn a_change_is_clear_beyond_the_noise_of_both() {
        let bench = |rate: f64, spread| Bench {
            runs: vec![Run {
                run: "auto".into(),
                decode_tok_s: rate,
                spread,
                ..Run::default()
            }],
            ..Bench::default()
        };
        let change = bench(80.0, None).change(&bench(100.0, None), "auto").unwrap();
        assert!(change.clear && (change.ratio - 0.8).abs() < 1e-9);
        assert!(!bench(80.0, Some(0.3)).change(&bench(100.0, None), "auto").unwrap().clear);
        assert!(!bench(97.0, None).change(&bench(100.0, None), "auto").unwrap().clear);
        assert_eq!(bench(80.0, None).change(&bench(100.0, None), "lookup"), None);
    }

    #[test]
    fn a_table_has_a_line_for_each_run_and_kind() {
        let mut run = Run {
            run: "dspark+lookup".into(),
            ..Run::default()
        };
        run.per_kind.insert("chat".into(), Figures::default());
        run.per_kind.insert("code".into(), Figures::default());
        let mut bench = Bench {
            runs: vec![run],
            ..Bench::default()
        };
        bench.stamp.device = "A \"B\", C".into();
        let text = csv(&[bench]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3);
        assert!(lines[1].contains("\"A \"\"B\"\", C\"") && lines[2].contains(",\"code\","), "{text}");
        assert_eq!(lines[0].split(',').count(), 17);
    }
}
