//! `verify-lossless`: every text is scored again one token at a time, and must be the model's own.

use super::{
    args::ProofArgs,
    arms, engine,
    exit::{self, Failure, Outcome},
    output::Output,
};
use comfy_table::{Table, presets::NOTHING};
use dspark_compare::{Arm, Skipped, Text};
use dspark_protocol::{ForcingReport, Mode, Prompt, Verdict};
use serde_json::{Value, json};

const PROMPTS: &str = include_str!("../../../assets/prompts/probe.toml");

/// One arm on one prompt.
struct Proved {
    arm: String,
    kind: String,
    effective: Mode,
    accept_len: f64,
    ids: Vec<u32>,
    report: ForcingReport,
}

pub(super) fn run(args: &ProofArgs, output: &Output) -> Outcome {
    let texts = arms::texts(&args.prompt, Some(PROMPTS))?;
    let runtime = engine::runtime()?;
    runtime.block_on(async {
        let session = engine::Session::open(&args.engine, &args.pair.wish(&args.rounds), output).await?;
        let speculation = session.handle.snapshot().speculation.clone();
        let (all, skipped) = arms::fitting(dspark_compare::arms(&args.modes, &args.caps), speculation.as_deref())?;
        for arm in &skipped {
            output.warn(format!("{} is skipped: {}", arm.run, arm.reason));
        }
        let proved = prove(&session, &all, &texts, args.max_new_tokens, output).await;
        session.close().await;
        report(&proved?, &skipped, &session, output)
    })
}

async fn prove(session: &engine::Session, arms: &[Arm], texts: &[Text], max: usize, output: &Output) -> Outcome<Vec<Proved>> {
    let codec = session.handle.codec()?;
    let mut proved: Vec<Proved> = Vec::new();
    for text in texts {
        let prompt = codec.encode(&arms::prompt(&text.text))?;
        let already = proved.len();
        for arm in arms {
            let request = arm.request("cli", Prompt::Tokens(prompt.clone()), max);
            let ran = arms::run(&session.handle, request).await?;
            let ids = ran.summary.token_ids;
            // The same text needs no second proof.
            let known = proved[already..]
                .iter()
                .find(|proved| proved.ids == ids)
                .map(|proved| proved.report.clone());
            let report = match known {
                Some(report) => report,
                None => session
                    .handle
                    .force(prompt.clone(), ids.clone())?
                    .await
                    .map_err(|_| dspark_protocol::EngineError::Stopped)??,
            };
            output.note(format!("{:>8}  {:<22} {}", text.kind, arm.name(), word(report.verdict())));
            proved.push(Proved {
                arm: arm.name(),
                kind: text.kind.clone(),
                effective: ran.summary.effective_mode,
                accept_len: ran.summary.accept_len,
                ids,
                report,
            });
        }
    }
    Ok(proved)
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Identical => "identical",
        Verdict::NearTie => "near tie",
        Verdict::Defect => "DEFECT",
    }
}

fn report(proved: &[Proved], skipped: &[Skipped], session: &engine::Session, output: &Output) -> Outcome {
    if output.json {
        output.object(&object(proved, skipped, session));
    } else {
        output.result(&table(proved));
    }
    let defects = proved.iter().filter(|proved| proved.report.verdict() == Verdict::Defect).count();
    if defects > 0 {
        return Err(Failure::new(
            exit::FAILED,
            format!(
                "{defects} of {} texts are not the model's own: a token was kept that plain decoding would clearly not have chosen; please report this with the output of `--json`",
                proved.len()
            ),
        ));
    }
    Ok(())
}

fn table(proved: &[Proved]) -> String {
    let mut table = Table::new();
    table
        .load_style(NOTHING)
        .set_header(["Prompt", "How", "Tokens", "Accepted a round", "Verdict", "Differs"]);
    for row in proved {
        let differs: Vec<String> = row
            .report
            .divergences
            .iter()
            .map(|at| {
                format!(
                    "step {}: {} ({:.4}) for {} ({:.4}), {:.1} ulps",
                    at.step, at.emitted, at.emitted_logit, at.plain, at.plain_logit, at.ulps
                )
            })
            .collect();
        table.add_row([
            row.kind.clone(),
            row.arm.clone(),
            row.ids.len().to_string(),
            format!("{:.2}", row.accept_len),
            word(row.report.verdict()).to_owned(),
            differs.join("; "),
        ]);
    }
    let count = |verdict| proved.iter().filter(|proved| proved.report.verdict() == verdict).count();
    format!(
        "{table}\n\n{} texts: {} identical to plain decoding, {} with near ties only, {} defects.",
        proved.len(),
        count(Verdict::Identical),
        count(Verdict::NearTie),
        count(Verdict::Defect)
    )
}

fn object(proved: &[Proved], skipped: &[Skipped], session: &engine::Session) -> Value {
    let rows: Vec<Value> = proved
        .iter()
        .map(|row| {
            json!({
                "prompt": row.kind,
                "arm": row.arm,
                "mode": row.effective,
                "tokens": row.ids.len(),
                "accept_len": row.accept_len,
                "verdict": row.report.verdict(),
                "divergences": row.report.divergences,
            })
        })
        .collect();
    json!({
        "model": session.model.name,
        "drafter": session.model.drafter,
        "machine": *session.handle.snapshot().machine,
        "texts": rows,
        "skipped": skipped,
    })
}
