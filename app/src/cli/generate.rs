//! `generate`: one prompt, one answer.

use super::{
    args::GenerateArgs,
    engine,
    exit::{Failure, Outcome},
    output::Output,
};
use dspark_protocol::{
    Constraint, EngineHandle, Event, FinishReason, Generation, Message, ModelInfo, OutputSyntax, Prompt, Request, Summary, TemplateOptions,
    TextDelta,
};
use serde_json::{Value, json};
use std::{
    io::{IsTerminal, Read},
    path::Path,
    sync::Arc,
};

pub(super) const SAMPLE_PROMPT: &str = "Explain in two sentences why the sky is blue.";

pub(super) fn run(args: &GenerateArgs, output: &Output) -> Outcome {
    if args.logprobs.is_some() && !output.json {
        return Err(Failure::usage(
            "`--logprobs` has no place in plain text: add `--json` to get them, or leave it out",
        ));
    }
    let request = request(args, output)?;
    let wish = args.pair.wish(&args.rounds);
    let runtime = engine::runtime()?;
    runtime.block_on(async {
        let session = engine::Session::open(&args.engine, &wish, output).await?;
        let shape = Shape::of(&session.handle, &request.prompt)?;
        let answer = session.handle.submit(request)?;
        let answer = read(answer, args.no_stream, output).await;
        session.close().await;
        report(&answer?, &shape, &session.model, output)
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
    let bytes = std::fs::read(file).map_err(|error| Failure::usage(format!("cannot read the schema `{name}`: {error}")))?;
    let text = dspark_attach::decode(&bytes).ok_or_else(|| Failure::usage(format!("the schema `{name}` is not text")))?;
    let schema = serde_json::from_str(&text).map_err(|error| Failure::usage(format!("the schema `{name}` is not JSON: {error}")))?;
    Ok(Arc::new(Constraint::schema(schema)))
}

fn prompt_text(args: &GenerateArgs, output: &Output) -> Outcome<String> {
    let piped = || {
        let mut bytes = Vec::new();
        std::io::stdin()
            .read_to_end(&mut bytes)
            .map_err(|error| Failure::usage(format!("cannot read the prompt from standard input: {error}")))?;
        text_of(&bytes, "standard input")
    };
    match (&args.prompt, &args.prompt_file) {
        (Some(dash), _) if dash == "-" => piped(),
        (Some(text), _) => Ok(text.clone()),
        (None, Some(file)) => {
            let name = format!("`{}`", file.display());
            let bytes = std::fs::read(file).map_err(|error| Failure::usage(format!("cannot read the prompt from {name}: {error}")))?;
            text_of(&bytes, &name)
        }
        (None, None) if !std::io::stdin().is_terminal() => piped(),
        (None, None) => {
            // An answer to a question that nobody sees would be a riddle.
            output.note(format!("No prompt was given, so this one is answered:\n> {SAMPLE_PROMPT}\n"));
            Ok(SAMPLE_PROMPT.to_owned())
        }
    }
}

/// A prompt that was read from somewhere. Nothing there is a mistake of whoever wrote it there, not a wish for a sample.
fn text_of(bytes: &[u8], place: &str) -> Outcome<String> {
    let text = dspark_attach::decode(bytes).ok_or_else(|| {
        Failure::usage(format!(
            "{place} holds no text: a prompt is UTF-8, or UTF-16 that begins with its mark"
        ))
    })?;
    if text.trim().is_empty() {
        return Err(Failure::usage(format!(
            "{place} is empty, so there is nothing to answer: write the prompt there, or say it with `--prompt`"
        )));
    }
    Ok(text)
}

/// How an answer to a prompt is taken apart.
#[derive(Default)]
pub(super) struct Shape {
    syntax: OutputSyntax,
    /// As rendered; `None` where there is no template.
    prompt: Option<String>,
}

impl Shape {
    fn of(engine: &EngineHandle, prompt: &Prompt) -> Outcome<Self> {
        let codec = engine.codec()?;
        Ok(Self {
            syntax: codec.output_syntax(),
            prompt: match prompt {
                // What is wrong with it, the generation says.
                Prompt::Chat { messages, options } => codec.render(messages, options).ok(),
                Prompt::Text(_) | Prompt::Tokens(_) => None,
            },
        })
    }
}

/// A finished generation.
pub(super) struct Answer {
    deltas: Vec<TextDelta>,
    summary: Summary,
}

/// Reads to the end, printing as it comes. Ctrl-C stops at the next round and still gives what there is.
pub(super) async fn read(mut generation: Generation, whole: bool, output: &Output) -> Outcome<Answer> {
    let streams = !whole && !output.json;
    let mut deltas: Vec<TextDelta> = Vec::new();
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
                deltas.push(delta);
            }
            Some(Event::Finished(summary)) => {
                if streams {
                    output.stream("\n");
                } else if !output.json {
                    output.result(&deltas.iter().map(|delta| delta.text.as_str()).collect::<String>());
                }
                return Ok(Answer { deltas, summary: *summary });
            }
            Some(Event::Failed(error)) => {
                if streams && !deltas.is_empty() {
                    output.stream("\n");
                }
                return Err(error.into());
            }
            Some(Event::Queued { .. } | Event::Started { .. } | Event::Prefill { .. }) => {}
            None => return Err(Failure::from(dspark_protocol::EngineError::Stopped)),
        }
    }
}

pub(super) fn report(answer: &Answer, shape: &Shape, model: &ModelInfo, output: &Output) -> Outcome {
    let summary = &answer.summary;
    if output.json {
        output.object(&object(answer, shape, model));
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

/// Source: `spec/cli.md` §2.
fn object(answer: &Answer, shape: &Shape, model: &ModelInfo) -> Value {
    let summary = &answer.summary;
    let told = dspark_serve::told(shape.syntax, shape.prompt.clone(), &answer.deltas, summary);
    let finish = match &summary.finish {
        FinishReason::Stop { .. } => "stop",
        FinishReason::Length => "length",
        FinishReason::Cancelled => "cancelled",
    };
    let mut block = told.block;
    block.remove("token_ids");
    // There whatever they say, as scripts expect them.
    block.entry("requested_mode").or_insert_with(|| json!(summary.mode));
    block.entry("mode_reason").or_insert(Value::Null);
    block.entry("warnings").or_insert_with(|| json!([]));
    let mut object = json!({
        "model": model.name,
        "text": told.text,
        "reasoning": Some(told.reasoning).filter(|text| !text.is_empty()),
        "token_ids": summary.token_ids,
        "finish_reason": finish,
        "usage": told.usage,
        // Of the load: a cap or a window that could not be had.
        "notes": model.notes,
        "x_mlx_dspark": block,
    });
    let tokens = || answer.deltas.iter().flat_map(|delta| &delta.tokens);
    if tokens().any(|token| token.logprob.is_some()) {
        object["logprobs"] = tokens()
            .map(|token| json!({ "id": token.id, "token": token.text, "logprob": token.logprob, "top": token.top }))
            .collect();
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_are_read_as_editors_write_them() {
        for bytes in [&b"h\xc3\xa9"[..], b"\xef\xbb\xbfh\xc3\xa9", b"\xff\xfeh\0\xe9\0"] {
            assert_eq!(text_of(bytes, "`p`").ok().as_deref(), Some("h\u{e9}"));
        }
        assert_eq!(text_of(b"a\r\nb\n", "`p`").ok().as_deref(), Some("a\r\nb\n"), "as it is");
        for (bytes, words) in [(&b" \n"[..], "`p` is empty"), (b"\0\x01", "`p` holds no text")] {
            let failure = text_of(bytes, "`p`").err().map(|failure| (failure.code, failure.message));
            assert!(
                failure
                    .as_ref()
                    .is_some_and(|(code, message)| *code == 2 && message.contains(words)),
                "{failure:?}"
            );
        }
    }
}
