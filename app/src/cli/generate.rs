//! `generate`: one prompt, one answer.

use super::{
    args::GenerateArgs,
    engine,
    exit::{Failure, Outcome},
    output::Output,
};
use dspark_protocol::{Constraint, Event, FinishReason, Generation, Message, Prompt, Request, Summary, TemplateOptions, TokenInfo};
use serde_json::{Value, json};
use std::{
    io::{IsTerminal, Read},
    path::Path,
    sync::Arc,
};

pub(super) const SAMPLE_PROMPT: &str = "Explain in two sentences why the sky is blue.";

pub(super) fn run(args: &GenerateArgs, output: &Output) -> Outcome {
    let request = request(args, output)?;
    let wish = args.pair.wish(&args.rounds);
    let runtime = engine::runtime()?;
    runtime.block_on(async {
        let session = engine::Session::open(&args.engine, &wish, output).await?;
        let answer = session.handle.submit(request)?;
        let answer = read(answer, args.no_stream, output).await;
        session.close().await;
        report(&answer?, &session.model, output)
    })
}

fn request(args: &GenerateArgs, output: &Output) -> Outcome<Request> {
    let text = prompt_text(args, output)?;
    let prompt = if args.no_chat_template {
        if args.system.is_some() {
            return Err(Failure::usage("`--system` needs the chat template: drop `--no-chat-template`"));
        }
        Prompt::Text(text)
    } else {
        let options = TemplateOptions {
            enable_thinking: args.no_thinking.then_some(false),
            reasoning_effort: args.reasoning_effort.clone(),
            ..TemplateOptions::default()
        };
        let messages = args.system.iter().map(Message::system).chain([Message::user(text)]).collect();
        Prompt::Chat { messages, options }
    };
    Ok(Request {
        client: "cli".into(),
        prompt,
        sampling: args.sampling.sampling(),
        mode: args.pair.mode.into(),
        speculation: None,
        max_tokens: args.max_new_tokens,
        stop: args.stop.clone(),
        logprobs: args.logprobs,
        ignore_eos: false,
        constraint: args.json_schema.as_deref().map(constraint).transpose()?,
        return_token_ids: true,
        fresh: false,
    })
}

/// The schema in a file; what is wrong with it as a schema the engine says.
fn constraint(file: &Path) -> Outcome<Arc<Constraint>> {
    let name = file.display();
    let text = std::fs::read_to_string(file).map_err(|error| Failure::usage(format!("cannot read the schema `{name}`: {error}")))?;
    let schema = serde_json::from_str(&text).map_err(|error| Failure::usage(format!("the schema `{name}` is not JSON: {error}")))?;
    Ok(Arc::new(Constraint::schema(schema)))
}

fn prompt_text(args: &GenerateArgs, output: &Output) -> Outcome<String> {
    // An answer to a question that nobody sees would be a riddle.
    let sample = || {
        output.note(format!("No prompt was given, so this one is answered:\n> {SAMPLE_PROMPT}\n"));
        SAMPLE_PROMPT.to_owned()
    };
    let piped = || {
        let mut text = String::new();
        std::io::stdin()
            .read_to_string(&mut text)
            .map_err(|error| Failure::usage(format!("cannot read the prompt from standard input: {error}")))?;
        Ok(text)
    };
    match (&args.prompt, &args.prompt_file) {
        (Some(dash), _) if dash == "-" => piped(),
        (Some(text), _) => Ok(text.clone()),
        (None, Some(file)) => std::fs::read_to_string(file)
            .map_err(|error| Failure::usage(format!("cannot read the prompt from `{}`: {error}", file.display()))),
        (None, None) if !std::io::stdin().is_terminal() => {
            let text = piped()?;
            Ok(if text.trim().is_empty() { sample() } else { text })
        }
        (None, None) => Ok(sample()),
    }
}

/// A finished generation.
pub(super) struct Answer {
    text: String,
    tokens: Vec<TokenInfo>,
    summary: Summary,
}

/// Reads to the end, printing as it comes. Ctrl-C stops at the next round and still gives what there is.
pub(super) async fn read(mut generation: Generation, whole: bool, output: &Output) -> Outcome<Answer> {
    let streams = !whole && !output.json;
    let (mut text, mut tokens) = (String::new(), Vec::new());
    loop {
        let event = tokio::select! {
            event = generation.next() => event,
            _ = tokio::signal::ctrl_c() => {
                generation.cancel();
                continue;
            }
        };
        match event {
            Some(Event::Delta(delta)) => {
                if streams {
                    output.stream(&delta.text);
                    if output.is_broken() {
                        generation.cancel();
                    }
                }
                text.push_str(&delta.text);
                tokens.extend(delta.tokens);
            }
            Some(Event::Finished(summary)) => {
                if streams {
                    output.stream("\n");
                } else if !output.json {
                    output.result(&text);
                }
                return Ok(Answer {
                    text,
                    tokens,
                    summary: *summary,
                });
            }
            Some(Event::Failed(error)) => {
                if streams && !text.is_empty() {
                    output.stream("\n");
                }
                return Err(error.into());
            }
            Some(Event::Queued { .. } | Event::Started { .. } | Event::Prefill { .. }) => {}
            None => return Err(Failure::from(dspark_protocol::EngineError::Stopped)),
        }
    }
}

pub(super) fn report(answer: &Answer, model: &dspark_protocol::ModelInfo, output: &Output) -> Outcome {
    let summary = &answer.summary;
    if output.json {
        output.object(&object(answer, model));
    } else {
        output.note(format!("\n{}", speed_line(summary)));
        if let Some(reason) = &summary.mode_reason {
            output.note(format!("mode: {:?} ({reason})", summary.effective_mode).to_lowercase());
        }
        summary.warnings.iter().for_each(|warning| output.warn(warning));
    }
    if summary.finish == FinishReason::Cancelled && !output.is_broken() {
        Err(Failure::interrupted())
    } else {
        Ok(())
    }
}

/// `42 tokens · 61.3 tok/s decode · 48.0 end to end · prompt 12 in 0.05 s`
pub(super) fn speed_line(summary: &Summary) -> String {
    let (usage, timings) = (&summary.usage, &summary.timings);
    let cached = if usage.cached_tokens > 0 {
        format!(" ({} cached)", usage.cached_tokens)
    } else {
        String::new()
    };
    format!(
        "{} tokens · {:.1} tok/s decode · {:.1} tok/s end to end · prompt {}{cached} in {:.2} s · {:.2} accepted/round · {} target forwards",
        usage.completion_tokens,
        timings.decode_rate(usage),
        timings.end_to_end_rate(usage),
        usage.prompt_tokens,
        timings.prefill,
        summary.accept_len,
        summary.target_forwards,
    )
}

fn object(answer: &Answer, model: &dspark_protocol::ModelInfo) -> Value {
    let summary = &answer.summary;
    let finish = match &summary.finish {
        FinishReason::Stop { .. } => "stop",
        FinishReason::Length => "length",
        FinishReason::Cancelled => "cancelled",
    };
    let mut object = json!({
        "model": model.name,
        "text": answer.text,
        "token_ids": summary.token_ids,
        "finish_reason": finish,
        "usage": summary.usage,
        "x_mlx_dspark": {
            "mode": summary.effective_mode,
            "requested_mode": summary.mode,
            "mode_reason": summary.mode_reason,
            "accept_len": summary.accept_len,
            "target_forwards": summary.target_forwards,
            "decode_tokens_per_sec": summary.timings.decode_rate(&summary.usage),
            "tokens_per_sec": summary.timings.end_to_end_rate(&summary.usage),
            "ttft_seconds": summary.timings.ttft,
            "prefill_seconds": summary.timings.prefill,
            "decode_seconds": summary.timings.decode,
            "seed": summary.seed,
            "warnings": summary.warnings,
        },
    });
    if answer.tokens.iter().any(|token| token.logprob.is_some()) {
        object["logprobs"] = answer
            .tokens
            .iter()
            .map(|token| json!({ "id": token.id, "token": token.text, "logprob": token.logprob, "top": token.top }))
            .collect();
    }
    object
}
