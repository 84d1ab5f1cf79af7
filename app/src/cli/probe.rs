//! `probe`: what a drafter gets accepted, and the proof that the text stays the target's own.

use super::{
    args::{ProbeArgs, RoundArgs},
    engine,
    exit::{self, Failure, Outcome},
    output::Output,
};
use crate::pairing;
use comfy_table::{Table, presets::NOTHING};
use dspark_engine::{
    device::Device,
    drafters::{Drafter, DrafterOptions, ProbeOptions, ProbeReport, PromptProbe, Verdict, probe},
    load::{LoadOptions, LoadedModel, load},
    text::Tokenizer,
};
use dspark_hub::{Hub, Resolved};
use dspark_protocol::{Message, TemplateOptions};
use serde::Deserialize;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use tokio_util::sync::CancellationToken;

const PROMPTS: &str = include_str!("../../../assets/prompts/probe.toml");

#[derive(Deserialize)]
struct Prompts {
    prompt: Vec<Prompt>,
}

#[derive(Deserialize)]
struct Prompt {
    kind: String,
    text: String,
}

pub(super) fn run(args: &ProbeArgs, output: &Output) -> Outcome {
    let prompts = prompts(args)?;
    let resolved = engine::runtime()?.block_on(engine::find(&args.engine, output))?;
    let drafter_path = drafter_folder(args, &resolved)?;
    Device::choose().map_err(|error| Failure::new(exit::FAILED, error))?;
    let tokenizer = Tokenizer::load(&resolved.path).map_err(|error| Failure::new(exit::LOAD, error))?;
    let model = target(&resolved, output)?;
    let options = DrafterOptions {
        bits: args.pair.drafter_bits.or(DrafterOptions::default().bits),
        ..DrafterOptions::default()
    };
    let mut drafter = Drafter::load(&drafter_path, &options).map_err(|error| Failure::new(exit::LOAD, error))?;
    drafter.bind(&model.decoder).map_err(|error| Failure::new(exit::LOAD, error))?;

    let ids = prompts
        .iter()
        .map(|prompt| tokenizer.encode_chat(&[Message::user(&prompt.text)], &TemplateOptions::default()))
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| Failure::new(exit::FAILED, error))?;
    let options = ProbeOptions {
        max_new: args.max_new_tokens,
        cap: args.max_draft,
        eos: ends(&model, &tokenizer),
        near_tie: None,
    };
    let mut done = |at: usize, outcome: &PromptProbe| {
        output.note(format!(
            "{:>8}  {:.2} a round, {}",
            prompts[at].kind,
            outcome.mean_accepted(),
            word(outcome.verdict)
        ));
    };
    let report = probe(&model.decoder, &drafter, &ids, &options, &mut done).map_err(|error| Failure::new(exit::FAILED, error))?;

    if output.json {
        output.object(&object(&report, &prompts, &resolved, &drafter_path));
    } else {
        output.result(&text(&report, &prompts));
    }
    match report.verdict() {
        Verdict::Defect => Err(Failure::new(
            exit::FAILED,
            "the text is not the target's own: a token was kept that plain decoding would clearly not have chosen",
        )),
        Verdict::Identical | Verdict::NearTie => Ok(()),
    }
}

fn prompts(args: &ProbeArgs) -> Outcome<Vec<Prompt>> {
    if !args.prompt.is_empty() {
        let own = |text: &String| Prompt {
            kind: "prompt".into(),
            text: text.clone(),
        };
        return Ok(args.prompt.iter().map(own).collect());
    }
    let all: Prompts = toml::from_str(PROMPTS).map_err(|error| Failure::new(exit::FAILED, error))?;
    Ok(all.prompt)
}

/// The drafter named, or the one that belongs to the model.
fn drafter_folder(args: &ProbeArgs, target: &Resolved) -> Outcome<PathBuf> {
    let found = pairing::pair(
        &Hub::from_env(),
        pairing::Target {
            name: &target.name,
            path: &target.path,
        },
        &args.pair.wish(&RoundArgs::default()),
    )?;
    found.drafter.map(|drafter| drafter.path).ok_or_else(|| {
        let reason = found.note.unwrap_or_else(|| "no drafter is known for this model".into());
        Failure::usage(format!("{reason}; name one with `--drafter`"))
    })
}

fn target(resolved: &Resolved, output: &Output) -> Outcome<LoadedModel> {
    let mut bar = output.progress(&format!("Reading {}", resolved.name));
    let mut report = |done, total| bar.set(&format!("Reading {}", resolved.name), done, total);
    let model = load(&resolved.path, &LoadOptions::default(), &mut report, &CancellationToken::new());
    bar.finish();
    model.map_err(|error| error.into_engine(&resolved.name).into())
}

fn ends(model: &LoadedModel, tokenizer: &Tokenizer) -> Vec<u32> {
    let mut ends = model.facts.eos.clone();
    ends.extend(tokenizer.eos_ids());
    ends.sort_unstable();
    ends.dedup();
    ends
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Identical => "identical",
        Verdict::NearTie => "near tie",
        Verdict::Defect => "DEFECT",
    }
}

fn text(report: &ProbeReport, prompts: &[Prompt]) -> String {
    let mut table = Table::new();
    table
        .load_style(NOTHING)
        .set_header(["Prompt", "Tokens", "Rounds", "Accepted a round", "Against plain"]);
    for (prompt, outcome) in prompts.iter().zip(&report.prompts) {
        table.add_row([
            prompt.kind.clone(),
            outcome.tokens.len().to_string(),
            outcome.rounds.to_string(),
            format!("{:.2}", outcome.mean_accepted()),
            word(outcome.verdict).to_owned(),
        ]);
    }
    let positions: Vec<String> = report
        .positions()
        .iter()
        .map(|at| format!("{:.0} %", at.accepted as f64 / at.offered.max(1) as f64 * 100.0))
        .collect();
    format!(
        "{table}\n\n{:.2} tokens a round over all, the target's own included. By position: {}.",
        report.mean_accepted(),
        positions.join(", ")
    )
}

fn object(report: &ProbeReport, prompts: &[Prompt], target: &Resolved, drafter: &Path) -> Value {
    let rows = prompts.iter().zip(&report.prompts).map(|(prompt, outcome)| {
        let divergences = outcome.divergences.iter().map(|at| {
            json!({
                "step": at.step, "emitted": at.emitted, "plain": at.plain,
                "emitted_logit": at.emitted_logit, "plain_logit": at.plain_logit, "near_tie": at.near_tie,
            })
        });
        json!({
            "kind": prompt.kind,
            "token_ids": outcome.tokens,
            "rounds": outcome.rounds,
            "drafted": outcome.drafted,
            "accepted": outcome.accepted,
            "mean_accepted": outcome.mean_accepted(),
            "verdict": word(outcome.verdict),
            "divergences": divergences.collect::<Vec<_>>(),
        })
    });
    json!({
        "target": target.name,
        "drafter": drafter,
        "mean_accepted": report.mean_accepted(),
        "verdict": word(report.verdict()),
        "prompts": rows.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prompts_parse_and_are_of_different_kinds() {
        let all: Prompts = toml::from_str(PROMPTS).unwrap();
        let mut kinds: Vec<_> = all.prompt.iter().map(|prompt| &prompt.kind).collect();
        kinds.dedup();
        assert!(kinds.len() >= 5 && all.prompt.iter().all(|prompt| !prompt.text.is_empty()));
    }
}
