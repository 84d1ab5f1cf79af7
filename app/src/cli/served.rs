//! A server that runs already: what it serves, for commands that point others at it.

use super::{
    args::ServerArgs,
    exit::{self, Failure, Outcome},
    output::Output,
};
use dspark_agents::Serving;
use serde_json::Value;
use std::time::Duration;

/// How long `/health` may take.
const PATIENCE: Duration = Duration::from_secs(3);
/// How often a loading server is asked again.
const AGAIN: Duration = Duration::from_millis(500);

/// Asks the server what it serves; waits while it loads.
pub(super) async fn ask(args: &ServerArgs, output: &Output) -> Outcome<Serving> {
    let base = args.url.trim().trim_end_matches('/').trim_end_matches("/v1").to_owned();
    let client = reqwest::Client::builder()
        .timeout(PATIENCE)
        .no_proxy()
        .build()
        .map_err(|error| Failure::new(exit::FAILED, error))?;
    let mut told = false;
    loop {
        let health = health(&client, &base, args).await?;
        let text = |name: &str| health.get(name).and_then(Value::as_str);
        match text("status") {
            Some("ok" | "stalled" | "paused") => {}
            Some("loading") => {
                if !told {
                    output.note(format!("{base} is loading a model; waiting for it"));
                    told = true;
                }
                tokio::select! {
                    () = tokio::time::sleep(AGAIN) => continue,
                    _ = tokio::signal::ctrl_c() => return Err(Failure::interrupted()),
                }
            }
            Some("no_model") => {
                return Err(Failure::usage(format!(
                    "{base} has no model loaded: load one in the app, or start it with `mlx-dspark serve --model NAME`"
                )));
            }
            other => {
                return Err(Failure::usage(format!(
                    "{base} is not an mlx-dspark server that can answer (it says {}): check `--url`",
                    other.unwrap_or("nothing")
                )));
            }
        }
        let number = |name: &str| health.get(name).and_then(Value::as_u64).map_or(0, |number| number as usize);
        check_key(&client, &base, args).await?;
        return Ok(Serving {
            model: text("model").unwrap_or_default().to_owned(),
            context_window: number("context_window"),
            max_output_tokens: number("max_output_tokens"),
            thinks: health.get("supports_thinking") == Some(&Value::Bool(true)),
            key: args.api_key.clone().filter(|key| !key.trim().is_empty()),
            base_url: base,
        });
    }
}

fn with_key(request: reqwest::RequestBuilder, args: &ServerArgs) -> reqwest::RequestBuilder {
    match &args.api_key {
        Some(key) => request.bearer_auth(key),
        None => request,
    }
}

async fn health(client: &reqwest::Client, base: &str, args: &ServerArgs) -> Outcome<Value> {
    let reply = with_key(client.get(format!("{base}/health")), args).send().await.map_err(|error| {
        let cause = if error.is_timeout() {
            "it does not answer"
        } else {
            "nothing listens there"
        };
        Failure::usage(format!(
            "no server at {base}: {cause}. Start one with `mlx-dspark serve`, or say where it is with `--url`"
        ))
    })?;
    let status = reply.status();
    if status == reqwest::StatusCode::UNAUTHORIZED {
        return Err(wrong_key(base));
    }
    reply.json().await.map_err(|_| {
        Failure::usage(format!(
            "{base} answered {status} without the status of an mlx-dspark server: check `--url`"
        ))
    })
}

/// `/health` is open to everyone: whether the key is right shows elsewhere.
async fn check_key(client: &reqwest::Client, base: &str, args: &ServerArgs) -> Outcome {
    let reply = with_key(client.get(format!("{base}/v1/models")), args).send().await;
    match reply {
        Ok(reply) if reply.status() == reqwest::StatusCode::UNAUTHORIZED => Err(wrong_key(base)),
        _ => Ok(()),
    }
}

fn wrong_key(base: &str) -> Failure {
    Failure::usage(format!(
        "{base} asks for a key: pass it with `--api-key`, or set MLX_DSPARK_API_KEY"
    ))
}
