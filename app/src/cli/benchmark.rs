//! `benchmark`: the same prompts by several ways of decoding, in turns, so that a machine that gets slower meanwhile slows
//! all alike. Medians; wall and processor time.

use super::{
    args::BenchmarkArgs,
    arms::{self, Arm, Text},
    chart, engine,
    exit::{self, Failure, Outcome},
    output::Output,
};
use comfy_table::{Table, presets::NOTHING};
use dspark_engine::EngineOptions;
use serde_json::{Value, json};

const PROMPTS: &str = include_str!("../../../assets/prompts/benchmark.toml");
const WARM_UP: usize = 100;

/// One generation.
#[derive(Debug, Clone, Default)]
struct Trial {
    end_to_end: f64,
    decode: f64,
    /// Tokens a processor-second.
    cpu: f64,
    accept: f64,
}

/// What one arm came to on the prompts of one kind: medians over prompts and turns.
#[derive(Debug, Clone, Default)]
pub(super) struct Cell {
    pub(super) end_to_end: f64,
    pub(super) decode: f64,
    pub(super) cpu: f64,
    pub(super) accept: f64,
    /// The same text as plain decoding wrote.
    same: bool,
    /// Decode rate over that of plain decoding, of the same turn: the median.
    pub(super) ratio: f64,
    cpu_ratio: f64,
}

/// All of it.
pub(super) struct Report {
    pub(super) arms: Vec<String>,
    /// Why an arm was something else than asked.
    reasons: Vec<Option<String>>,
    /// Arms that the loaded pair cannot run, and why.
    skipped: Vec<(String, String)>,
    pub(super) kinds: Vec<String>,
    /// By arm, by kind.
    pub(super) cells: Vec<Vec<Cell>>,
}

pub(super) fn run(args: &BenchmarkArgs, output: &Output) -> Outcome {
    let texts = arms::texts(&args.prompt, PROMPTS)?;
    let runtime = engine::runtime()?;
    runtime.block_on(async {
        let options = EngineOptions {
            // Every prompt is computed.
            prefix_slots: 0,
            ..engine::options()
        };
        let session = engine::Session::open_with(options, &args.engine, &args.pair.wish(&args.rounds), output).await?;
        let mut all = vec![Arm::baseline()];
        let speculation = session.handle.snapshot().speculation.clone();
        let (fit, skipped) = arms::fitting(arms::arms(&args.modes, &args.caps), speculation.as_deref())?;
        all.extend(fit.into_iter().filter(|arm| *arm != Arm::baseline()));
        for (arm, why) in &skipped {
            output.warn(format!("{arm} is skipped: {why}"));
        }
        let report = measure(&session, &all, &texts, args, output).await;
        session.close().await;
        let report = Report { skipped, ..report? };
        if let Some(path) = &args.report {
            chart::write(path, &title(&session), &report)
                .map_err(|error| Failure::new(exit::FAILED, format!("the chart `{}` cannot be written: {error}", path.display())))?;
        }
        if output.json {
            output.object(&object(&report, &session));
        } else {
            output.result(&text(&report, &session));
        }
        Ok(())
    })
}

async fn measure(session: &engine::Session, all: &[Arm], texts: &[Text], args: &BenchmarkArgs, output: &Output) -> Outcome<Report> {
    let handle = &session.handle;
    for arm in all {
        arms::run(handle, arm.request(&texts[0].text, WARM_UP.min(args.max_new_tokens))).await?;
    }
    let mut trials = vec![vec![Vec::<Trial>::new(); texts.len()]; all.len()];
    let mut same = vec![vec![true; texts.len()]; all.len()];
    let mut reasons = vec![None; all.len()];
    for trial in 0..args.trials.max(1) {
        for (at, text) in texts.iter().enumerate() {
            let mut plain: Vec<u32> = Vec::new();
            for (index, arm) in all.iter().enumerate() {
                let ran = arms::run(handle, arm.request(&text.text, args.max_new_tokens)).await?;
                let summary = ran.summary;
                let tokens = summary.usage.completion_tokens;
                let rate = |seconds: f64| {
                    if seconds > 0.0 {
                        tokens.saturating_sub(1) as f64 / seconds
                    } else {
                        0.0
                    }
                };
                trials[index][at].push(Trial {
                    end_to_end: if ran.end_to_end > 0.0 {
                        tokens as f64 / ran.end_to_end
                    } else {
                        0.0
                    },
                    decode: summary.timings.decode_rate(&summary.usage),
                    cpu: rate(ran.decode_cpu),
                    accept: summary.accept_len,
                });
                if index == 0 {
                    plain = summary.token_ids;
                } else {
                    same[index][at] &= summary.token_ids == plain;
                }
                reasons[index] = summary.mode_reason;
            }
            output.note(format!("turn {} of {}: {}", trial + 1, args.trials.max(1), text.kind));
        }
    }
    let kinds = kinds(texts);
    let cells = (0..all.len())
        .map(|arm| {
            (kinds.iter())
                .map(|(_, prompts)| {
                    let of = |arm: usize| prompts.iter().flat_map(|at| &trials[arm][*at]).cloned().collect::<Vec<_>>();
                    cell(&of(arm), &of(0), prompts.iter().all(|at| same[arm][*at]))
                })
                .collect()
        })
        .collect();
    Ok(Report {
        arms: all.iter().map(|arm| arm.name.clone()).collect(),
        reasons,
        skipped: Vec::new(),
        kinds: kinds.into_iter().map(|(kind, _)| kind).collect(),
        cells,
    })
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

fn cell(trials: &[Trial], plain: &[Trial], same: bool) -> Cell {
    let of = |value: fn(&Trial) -> f64| median(trials.iter().map(value));
    let against = |value: fn(&Trial) -> f64| {
        let pairs = trials.iter().zip(plain).filter(|(_, plain)| value(plain) > 0.0);
        median(pairs.map(|(trial, plain)| value(trial) / value(plain)))
    };
    Cell {
        end_to_end: of(|trial| trial.end_to_end),
        decode: of(|trial| trial.decode),
        cpu: of(|trial| trial.cpu),
        accept: of(|trial| trial.accept),
        ratio: against(|trial| trial.decode),
        cpu_ratio: against(|trial| trial.cpu),
        same,
    }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let values: Vec<f64> = values.collect();
    dspark_engine::speculate::median(&values).unwrap_or(0.0)
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, n) = values.fold((0.0, 0), |(sum, n), value| (sum + value, n + 1));
    if n == 0 { 0.0 } else { sum / f64::from(n) }
}

fn title(session: &engine::Session) -> String {
    let snapshot = session.handle.snapshot();
    let machine = &snapshot.machine;
    let drafter = session.model.drafter.as_deref().unwrap_or("no drafter");
    format!(
        "{} · {drafter} · {} ({}) · MLX {} · {}",
        session.model.name,
        machine.device,
        machine.backend,
        machine.mlx_version,
        env!("CARGO_PKG_VERSION")
    )
}

fn text(report: &Report, session: &engine::Session) -> String {
    let mut table = Table::new();
    let mut header = vec![
        "How".to_owned(),
        "tok/s".into(),
        "decode tok/s".into(),
        "tok/CPU-s".into(),
        "accepted".into(),
        "× plain".into(),
    ];
    header.extend(report.kinds.iter().cloned());
    table.load_style(NOTHING).set_header(header);
    for (arm, cells) in report.arms.iter().zip(&report.cells) {
        let all = |value: fn(&Cell) -> f64| mean(cells.iter().map(value));
        let mut row = vec![
            arm.clone(),
            format!("{:.1}", all(|cell| cell.end_to_end)),
            format!("{:.1}", all(|cell| cell.decode)),
            format!("{:.1}", all(|cell| cell.cpu)),
            format!("{:.2}", all(|cell| cell.accept)),
            format!("{:.2}", all(|cell| cell.ratio)),
        ];
        row.extend(cells.iter().map(|cell| {
            let other = if cell.same { "" } else { " (other text)" };
            format!("{:.2}× ({:.2}× CPU), {:.2} a round{other}", cell.ratio, cell.cpu_ratio, cell.accept)
        }));
        table.add_row(row);
    }
    let mut text = format!("{}\n\n{table}", title(session));
    for (arm, reason) in report.arms.iter().zip(&report.reasons) {
        if let Some(reason) = reason {
            text = format!("{text}\n{arm}: {reason}");
        }
    }
    text
}

fn object(report: &Report, session: &engine::Session) -> Value {
    let runs: Vec<Value> = report
        .arms
        .iter()
        .zip(&report.cells)
        .zip(&report.reasons)
        .map(|((arm, cells), reason)| {
            let all = |value: fn(&Cell) -> f64| mean(cells.iter().map(value));
            let per: serde_json::Map<String, Value> = report
                .kinds
                .iter()
                .zip(cells)
                .map(|(kind, cell)| {
                    let value = json!({
                        "tok_s": cell.end_to_end, "decode_tok_s": cell.decode, "tok_cpu_s": cell.cpu, "accept": cell.accept,
                        "speedup": cell.ratio, "cpu_speedup": cell.cpu_ratio, "same_text": cell.same,
                    });
                    (kind.clone(), value)
                })
                .collect();
            json!({
                "run": arm,
                "reason": reason,
                "tok_s": all(|cell| cell.end_to_end),
                "decode_tok_s": all(|cell| cell.decode),
                "tok_cpu_s": all(|cell| cell.cpu),
                "accept": all(|cell| cell.accept),
                "speedup": all(|cell| cell.ratio),
                "per_kind": per,
            })
        })
        .collect();
    let snapshot = session.handle.snapshot();
    json!({
        "device": snapshot.machine.device,
        "backend": snapshot.machine.backend,
        "mlx": snapshot.machine.mlx_version,
        "version": env!("CARGO_PKG_VERSION"),
        "target": session.model.name,
        "drafter": session.model.drafter,
        "speculation": snapshot.speculation,
        "runs": runs,
        "skipped": arms::skipped(&report.skipped),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_of_a_kind_count_together() {
        let text = |kind: &str| Text {
            kind: kind.into(),
            text: String::new(),
        };
        let found = kinds(&[text("chat"), text("list"), text("chat")]);
        assert_eq!(found, [("chat".to_owned(), vec![0, 2]), ("list".to_owned(), vec![1])]);
        let trial = |decode: f64| Trial {
            decode,
            cpu: decode,
            ..Trial::default()
        };
        // Each against plain decoding of its own prompt and turn.
        let cell = cell(
            &[trial(20.0), trial(60.0), trial(30.0)],
            &[trial(10.0), trial(20.0), trial(30.0)],
            true,
        );
        assert!((cell.ratio - 2.0).abs() < 1e-9 && (cell.decode - 30.0).abs() < 1e-9);
    }

    #[test]
    fn the_shipped_prompts_hold_several_of_the_common_kinds() {
        let texts = arms::texts(&[], PROMPTS).unwrap();
        for (kind, prompts) in kinds(&texts) {
            assert!(prompts.len() >= if kind == "copy" { 1 } else { 3 }, "{kind}");
        }
    }
}
