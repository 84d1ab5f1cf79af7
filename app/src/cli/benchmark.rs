//! `benchmark`: the same prompts by several ways of decoding. What is measured is kept with that of the window.

use super::{
    args::BenchmarkArgs,
    arms, chart, engine,
    exit::{self, Failure, Outcome},
    output::Output,
};
use comfy_table::{Table, presets::NOTHING};
use dspark_compare::{BENCHES, Bench, Figures, Plan, append_bench, measure, read_benches};
use dspark_engine::EngineOptions;
use jiff::{Timestamp, tz::TimeZone};
use serde_json::json;
use std::path::PathBuf;
use tokio_util::sync::CancellationToken;

pub(super) fn run(args: &BenchmarkArgs, output: &Output) -> Outcome {
    if args.history {
        return history(args, output);
    }
    let texts = arms::texts(&args.prompt, None)?;
    let runtime = engine::runtime()?;
    runtime.block_on(async {
        let options = EngineOptions {
            // Every prompt is computed.
            prefix_slots: 0,
            ..engine::options()
        };
        let session = engine::Session::open_with(options, &args.engine, &args.pair.wish(&args.rounds), output).await?;
        let speculation = session.handle.snapshot().speculation.clone();
        let (fit, skipped) = arms::fitting(dspark_compare::arms(&args.modes, &args.caps), speculation.as_deref())?;
        for arm in &skipped {
            output.warn(format!("{} is skipped: {}", label(&arm.run), arm.reason));
        }
        let plan = Plan {
            arms: fit,
            texts,
            max_tokens: args.max_new_tokens,
            trials: args.trials,
            version: crate::version(),
        };
        let never = CancellationToken::new();
        let mut told = (0, 0);
        let mut report = |at: dspark_compare::Progress| {
            // Once a prompt and turn, not once an arm.
            if at.turn > 0 && at.arm == dspark_compare::Arm::plain().name() {
                told = if told.0 == at.turn { (at.turn, told.1 + 1) } else { (at.turn, 1) };
                let (turns, prompts) = (plan.trials, plan.texts.len());
                output.note(format!("turn {} of {turns}, prompt {} of {prompts}: {}", at.turn, told.1, at.kind));
            }
        };
        let measured = arms::interruptible(measure(&session.handle, &plan, &never, &mut report)).await;
        session.close().await;
        let bench = Bench { skipped, ..measured? };
        if let Err(error) = kept(args).and_then(|path| append_bench(&path, &bench).map_err(|error| Failure::new(exit::FAILED, error))) {
            output.warn(format!("the history was not added to: {}", error.message));
        }
        if let Some(path) = &args.report {
            chart::write(path, &title(&bench), &bench)
                .map_err(|error| Failure::new(exit::FAILED, format!("the chart `{}` cannot be written: {error}", path.display())))?;
        }
        if output.json {
            let mut object = json!(bench);
            object["speculation"] = json!(speculation);
            output.object(&object);
        } else {
            output.result(&text(&bench));
        }
        Ok(())
    })
}

/// Where the window keeps its own.
fn kept(args: &BenchmarkArgs) -> Outcome<PathBuf> {
    let folder = match &args.data_dir {
        Some(folder) => folder.clone(),
        None => super::window::folders()?.0,
    };
    Ok(folder.join(BENCHES))
}

fn history(args: &BenchmarkArgs, output: &Output) -> Outcome {
    let path = kept(args)?;
    let all = read_benches(&path)
        .map_err(|error| Failure::new(exit::FAILED, format!("the history `{}` cannot be read: {error}", path.display())))?;
    if output.json {
        output.object(&json!({"benchmarks": all}));
        return Ok(());
    }
    if all.is_empty() {
        output.result("No benchmark has been run yet: `mlx-dspark benchmark --model starter` runs one, as does the Lab of the window.");
        return Ok(());
    }
    let mut table = Table::new();
    table
        .load_style(NOTHING)
        .set_header(["When", "Model", "Drafter", "Machine", "Version", "Plain tok/s", "Best", "Notes"]);
    for bench in &all {
        let stamp = &bench.stamp;
        let plain = bench.run(&dspark_compare::Arm::plain().name()).map_or(0.0, |run| run.decode_tok_s);
        table.add_row([
            date(stamp.at),
            stamp.target.clone(),
            stamp.drafter.clone().unwrap_or_default(),
            format!("{} ({})", stamp.device, stamp.backend),
            stamp.version.clone(),
            format!("{plain:.1}"),
            bench
                .best()
                .map_or_else(String::new, |run| format!("{} {:.2}×", label(&run.run), run.speedup)),
            bench.flags.join("; "),
        ]);
    }
    output.result(&table.to_string());
    Ok(())
}

/// By the clock on the wall.
fn date(at: u64) -> String {
    let stamp = i64::try_from(at).ok().and_then(|at| Timestamp::from_second(at).ok());
    stamp.map_or_else(String::new, |stamp| {
        TimeZone::system().to_datetime(stamp).strftime("%Y-%m-%d %H:%M").to_string()
    })
}

fn title(bench: &Bench) -> String {
    let stamp = &bench.stamp;
    let drafter = stamp.drafter.as_deref().unwrap_or("no drafter");
    format!(
        "{} · {drafter} · {} ({}) · MLX {} · {}",
        stamp.target, stamp.device, stamp.backend, stamp.mlx, stamp.version
    )
}

/// An arm's name with its cap said in full: of the mode `auto`, the name alone would say neither which one is meant.
fn label(name: &str) -> String {
    if name == dspark_compare::Arm::plain().name() || name.contains(" cap ") {
        return name.to_owned();
    }
    let (way, from) = match name.split_once(" from ") {
        Some((way, from)) => (way, format!(" from {from}")),
        None => (name, String::new()),
    };
    let (way, cap) = way.split_once(' ').unwrap_or((way, "derived"));
    format!("{way} cap {cap}{from}")
}

fn text(bench: &Bench) -> String {
    let mut table = Table::new();
    let mut header = vec![
        "How".to_owned(),
        "tok/s".into(),
        "decode tok/s".into(),
        "tok/CPU-s".into(),
        "accepted".into(),
        "× plain".into(),
    ];
    header.extend(bench.kinds.iter().cloned());
    table.load_style(NOTHING).set_header(header);
    for run in &bench.runs {
        let mut row = vec![
            label(&run.run),
            format!("{:.1}", run.tok_s),
            format!("{:.1}", run.decode_tok_s),
            format!("{:.1}", run.tok_cpu_s),
            format!("{:.2}", run.accept),
            format!("{:.2}", run.speedup),
        ];
        let cells = bench.kinds.iter().filter_map(|kind| run.per_kind.get(kind));
        row.extend(cells.map(|cell: &Figures| {
            let other = if cell.same_text { "" } else { " (other text)" };
            format!(
                "{:.2}× ({:.2}× CPU), {:.2} a round{other}",
                cell.speedup, cell.cpu_speedup, cell.accept
            )
        }));
        table.add_row(row);
    }
    let mut text = format!("{}\n\n{table}", title(bench));
    for run in &bench.runs {
        if let Some(reason) = &run.reason {
            text = format!("{text}\n{}: {reason}", label(&run.run));
        }
    }
    for flag in &bench.flags {
        text = format!("{text}\nNot to be quoted: {flag}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use dspark_compare::Run;

    #[test]
    fn the_table_says_what_wrote_another_text_and_what_is_not_to_be_quoted() {
        let mut run = Run {
            run: "dspark".into(),
            reason: Some("its drafter is another one".into()),
            ..Run::default()
        };
        run.per_kind.insert("chat".into(), Figures::default());
        let bench = Bench {
            kinds: vec!["chat".into()],
            runs: vec![run],
            flags: vec!["other requests ran".into()],
            ..Bench::default()
        };
        let text = text(&bench);
        for part in [
            "(other text)",
            "dspark cap derived: its drafter is another one",
            "Not to be quoted: other requests ran",
        ] {
            assert!(text.contains(part), "{text}");
        }
    }

    /// `auto` and `auto auto` were two rows of one table.
    #[test]
    fn every_row_says_its_cap() {
        let modes = ["auto", "dspark+lookup", "baseline"].map(|word| dspark_compare::shape(word).unwrap());
        let caps = ["derived", "auto", "full", "3"].map(|word| dspark_compare::cap(word).unwrap());
        let labels: Vec<String> = dspark_compare::arms(&modes, &caps).iter().map(|arm| label(&arm.name())).collect();
        for told in [
            "baseline",
            "auto cap derived",
            "auto cap auto",
            "auto cap full",
            "auto cap 3",
            "dspark+lookup cap derived",
        ] {
            assert!(labels.iter().any(|label| label == told), "{told}: {labels:?}");
        }
        assert_eq!(label("dspark auto from 0.5"), "dspark cap auto from 0.5");
        let runs = ["auto", "auto auto"].map(|name| Run {
            run: name.into(),
            ..Run::default()
        });
        let table = text(&Bench {
            runs: runs.into(),
            ..Bench::default()
        });
        assert!(table.contains("auto cap derived") && table.contains("auto cap auto"), "{table}");
    }

    #[test]
    fn the_object_has_the_keys_that_scripts_read() {
        let bench = json!(Bench {
            runs: vec![Run::default()],
            ..Bench::default()
        });
        for key in ["device", "backend", "mlx", "version", "target", "drafter", "runs", "skipped"] {
            assert!(!bench[key].is_null() || key == "drafter", "{key}: {bench}");
        }
        let run = &bench["runs"][0];
        for key in [
            "run",
            "reason",
            "tok_s",
            "decode_tok_s",
            "tok_cpu_s",
            "accept",
            "speedup",
            "per_kind",
        ] {
            assert!(run.get(key).is_some(), "{key}: {run}");
        }
    }
}
