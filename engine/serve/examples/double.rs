//! Serves a scripted engine, to try clients against without a model:
//!
//! ```text
//! cargo run -p dspark-serve --example double -- --port 8080 --say "Hello there" --rate 40 --prefill-ms 300
//! ```
//! `--key K` asks for a key, `--no-model` starts without one, `--echo` answers with the last user message.
//!
//! `--shell COMMAND` is for coding agents: where they offer a tool that runs commands, the double thinks, says so and
//! calls it; told what came of it, it says `--say` and what it was told. Its text goes the whole way of a model's:
//! through the splitter, the tool parser and the dialect.

#![allow(clippy::print_stdout)]

use dspark_protocol::{
    EngineError, Prompt, Request, Role,
    double::{Script, start},
};
use dspark_serve::{ApiKey, ServeConfig, Server};
use std::{error::Error, sync::Arc, time::Duration};

/// What the double says of its context window; its words are its tokens.
const WINDOW: usize = 8192;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut config = ServeConfig::from_env()?;
    let mut script = Script::saying("Hello from the scripted double, one word a token.");
    let mut shell = None;
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("`{argument}` needs a value"));
        match argument.as_str() {
            "--port" => config.port = value()?.parse()?,
            "--host" => config.host = value()?,
            "--key" => config.api_key = ApiKey::new(value()?),
            "--rate" => script.rate = value()?.parse()?,
            "--prefill-ms" => script.prefill = Duration::from_millis(value()?.parse()?),
            "--say" => script.answer = Script::saying(value()?).answer,
            "--echo" => {
                script.answer = Arc::new(|request| {
                    Ok(match &request.prompt {
                        Prompt::Chat { messages, .. } => messages.last().map(|last| last.content.clone()).unwrap_or_default(),
                        other => format!("{other:?}"),
                    })
                });
            }
            "--shell" => shell = Some(value()?),
            "--no-model" => script.loaded = false,
            other => return Err(format!("unknown argument `{other}`").into()),
        }
    }
    let answer = script.answer.clone();
    script.answer = Arc::new(move |request| {
        let words = match &request.prompt {
            Prompt::Chat { messages, .. } => messages.iter().map(|message| message.content.split_whitespace().count()).sum(),
            _ => 0,
        };
        if words >= WINDOW {
            return Err(EngineError::ContextOverflow {
                prompt: words,
                window: WINDOW,
            });
        }
        match shell.as_deref().and_then(|command| call(request, command)) {
            Some(call) => Ok(call),
            None => answer(request).map(|answer| answer + &told(request)),
        }
    });
    let server = Server::bind(config, start(script)).await?;
    println!("{}", server.banner());
    server
        .serve(async {
            let _ = tokio::signal::ctrl_c().await;
        })
        .await;
    Ok(())
}

/// Tools of agents that run a shell's command, and the argument that takes it.
const SHELLS: [&str; 6] = ["Bash", "bash", "exec_command", "shell_command", "shell", "local_shell"];

/// A call of the agent's own shell, as a model of the Hermes kind writes it; `None` once it has been made, and where
/// there is none.
fn call(request: &Request, command: &str) -> Option<String> {
    let Prompt::Chat { messages, options } = &request.prompt else {
        return None;
    };
    if messages.iter().any(|message| message.role == Role::Tool) {
        return None;
    }
    let functions = options.tools.iter().filter_map(|tool| tool.get("function"));
    let function = functions
        .into_iter()
        .find(|function| SHELLS.iter().any(|name| function.get("name").is_some_and(|known| known == name)))?;
    let properties = function.get("parameters")?.get("properties")?;
    let (name, schema) = ["command", "cmd"]
        .into_iter()
        .find_map(|name| Some((name, properties.get(name)?)))?;
    let argument = if schema.get("type").is_some_and(|kind| kind == "array") {
        serde_json::json!(["sh", "-c", command])
    } else {
        serde_json::json!(command)
    };
    let mut arguments = serde_json::json!({ name: argument });
    if properties.get("description").is_some() {
        arguments["description"] = serde_json::json!("Does what was asked");
    }
    let call = serde_json::json!({"name": function.get("name"), "arguments": arguments});
    Some(format!(
        "<think>This needs the shell.</think>\n\nRunning it.\n<tool_call>\n{call}\n</tool_call>"
    ))
}

/// What the last tool said.
fn told(request: &Request) -> String {
    match &request.prompt {
        Prompt::Chat { messages, .. } => messages
            .last()
            .filter(|last| last.role == Role::Tool)
            .map_or_else(String::new, |last| format!(" [{}]", last.content.trim())),
        _ => String::new(),
    }
}
