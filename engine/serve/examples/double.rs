//! Serves a scripted engine, to try clients against without a model:
//!
//! ```text
//! cargo run -p dspark-serve --example double -- --port 8080 --say "Hello there" --rate 40 --prefill-ms 300
//! ```
//! `--key K` asks for a key, `--no-model` starts without one, `--echo` answers with the last user message.

#![allow(clippy::print_stdout)]

use dspark_protocol::{
    EngineError, Prompt,
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
        answer(request)
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
