//! `serve`: the engine over HTTP, without a window.

use super::{
    args::ServeArgs,
    engine,
    exit::{self, Failure, Outcome},
    output::Output,
    window,
};
use crate::host::HubHost;
use dspark_engine::{DiskOptions, EngineOptions};
use dspark_hub::Hub;
use dspark_protocol::{LoadRequest, SamplingDefaults};
use dspark_serve::{ApiKey, ServeConfig, Server};
use serde_json::json;
use std::{sync::Arc, time::Duration};
use tokio::signal::unix::{SignalKind, signal};

pub(super) fn run(args: &ServeArgs, output: &Output) -> Outcome {
    let config = config(args)?;
    engine::runtime()?.block_on(serve(args, config, output))
}

async fn serve(args: &ServeArgs, config: ServeConfig, output: &Output) -> Outcome {
    // Whoever waits for the file should not wait for a load first, then for ever.
    if let Some(path) = &args.ready_file {
        dspark_serve::check_ready_file(path)
            .map_err(|error| Failure::usage(format!("`--ready-file {}` cannot be written: {error}", path.display())))?;
    }
    // Listen for the end before anything that takes long, so that it is never missed.
    let mut terminate = signal(SignalKind::terminate())?;
    let load = if args.no_model {
        None
    } else {
        let resolved = engine::find(&args.engine, output).await?;
        let request = engine::request(&args.engine, &resolved, &args.pair.wish(&args.rounds), output)?;
        Some(LoadRequest {
            warm_up: !args.no_warmup,
            ..request
        })
    };
    let handle = engine::start(EngineOptions {
        queue_limit: args.max_queue,
        prefix_disk: prompts_on_disk(args),
        ..engine::options()
    })
    .await?;
    // The port first: a busy one is better known before a minute of loading.
    let host = Arc::new(HubHost::new(tokio::runtime::Handle::current(), window::kept()));
    let server = Server::bind_with(config, handle.clone(), Some(host))
        .await
        .map_err(Failure::usage)?;
    if let Some(request) = load {
        let load = engine::load(&handle, request, output);
        tokio::select! {
            loaded = load => drop(loaded?),
            _ = terminate.recv() => return Ok(()),
        }
    }
    let url = server.url();
    if output.json {
        let model = handle.snapshot().model.as_ref().map(|model| model.name.clone());
        output.object(&json!({ "url": url, "pid": std::process::id(), "model": model }));
    } else {
        output.result(server.banner().trim_end());
    }
    let ready = args.ready_file.clone().map(|path| {
        let (url, handle, wait) = (url.clone(), handle.clone(), !args.no_model);
        tokio::spawn(async move { dspark_serve::write_ready_file(&path, &url, &handle, wait).await })
    });
    let end = async {
        tokio::select! {
            _ = tokio::signal::ctrl_c() => {}
            _ = terminate.recv() => {}
        }
    };
    server.serve(end).await;
    // What is kept of prompts may still have to be written.
    let patience = if args.prompt_cache_gb > 0 { 60 } else { 5 };
    engine::stop_within(&handle, Duration::from_secs(patience)).await;
    if let Some(ready) = ready {
        ready.abort();
        match ready.await {
            Ok(Err(error)) => return Err(Failure::new(exit::FAILED, format!("cannot write the ready file: {error}"))),
            // The file goes with this guard.
            Ok(Ok(_guard)) => {}
            Err(_) => {}
        }
    }
    Ok(())
}

/// Off unless asked for.
fn prompts_on_disk(args: &ServeArgs) -> Option<DiskOptions> {
    let folder = args.prompt_cache_dir.clone();
    (args.prompt_cache_gb > 0).then(|| DiskOptions {
        folder: folder.unwrap_or_else(|| Hub::from_env().places.cache.join("prompts")),
        limit: args.prompt_cache_gb.saturating_mul(1 << 30),
        patience: Duration::from_mins(1),
    })
}

fn config(args: &ServeArgs) -> Outcome<ServeConfig> {
    let base = ServeConfig::from_env().map_err(Failure::usage)?;
    let key = match &args.api_key_file {
        Some(file) => {
            let text = std::fs::read_to_string(file)
                .map_err(|error| Failure::usage(format!("cannot read `--api-key-file {}`: {error}", file.display())))?;
            Some(ApiKey::new(text.trim()).ok_or_else(|| Failure::usage(format!("`--api-key-file {}` is empty", file.display())))?)
        }
        None => args.api_key.clone().and_then(ApiKey::new),
    };
    Ok(ServeConfig {
        host: args.host.clone(),
        port: args.port,
        api_key: key,
        insecure_no_key: args.insecure_no_key,
        allowed_hosts: args.allowed_host.clone(),
        any_origin: args.cors_origin.iter().any(|origin| origin == "*"),
        allowed_origins: args.cors_origin.iter().filter(|origin| *origin != "*").cloned().collect(),
        max_queue: args.max_queue,
        default_max_tokens: args.default_max_tokens,
        max_tokens_cap: args.max_tokens_cap,
        ignore_attachments: args.ignore_attachments,
        sampling: SamplingDefaults {
            temperature: args.default_temperature,
            top_p: args.default_top_p,
            top_k: args.default_top_k,
        },
        ..base
    })
}
