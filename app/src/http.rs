//! The HTTP server as the window's settings start and stop it.

use crate::host::{HubHost, Kept};
use dspark_protocol::EngineHandle;
use dspark_serve::{ApiKey, BindError, ClientStats, EndedRequest, LiveRequest, Outcome, Phase, ServeConfig, Server};
use dspark_window::bridge::{
    Activity, CallEnd, CallState, ClientTotals, Difference, EndedCall, LiveCall, Receipt, ServerConfig, ServerControl, ServerFailure,
};
use std::{
    net::TcpListener,
    sync::{Arc, Mutex, PoisonError},
};
use tokio::{runtime::Handle, task::JoinHandle};

/// Runs at most one server on the program's runtime.
pub struct HttpServer {
    engine: EngineHandle,
    runtime: Handle,
    host: Arc<HubHost>,
    /// Outlives a server that is restarted with another port or key.
    activity: dspark_serve::Activity,
    running: Mutex<Option<(dspark_serve::ServerControl, JoinHandle<()>)>>,
}

impl HttpServer {
    pub fn new(engine: EngineHandle, runtime: Handle, kept: Kept) -> Self {
        Self {
            engine,
            host: Arc::new(HubHost::new(runtime.clone(), kept)),
            runtime,
            activity: dspark_serve::Activity::default(),
            running: Mutex::new(None),
        }
    }
}

impl ServerControl for HttpServer {
    fn start(&self, config: &ServerConfig) -> Result<String, ServerFailure> {
        self.stop();
        let base = ServeConfig::from_env().map_err(|error| ServerFailure {
            reason: error.to_string(),
            next_free: None,
        })?;
        let config = ServeConfig {
            port: config.port,
            api_key: config.api_key.clone().and_then(ApiKey::new),
            ..base
        };
        let wanted = config.port;
        let server = self
            .runtime
            .block_on(Server::bind_again(
                config,
                self.engine.clone(),
                Some(self.host.clone()),
                self.activity.clone(),
            ))
            .map_err(|error| ServerFailure {
                next_free: matches!(error, BindError::PortTaken { .. }).then(|| free_after(wanted)).flatten(),
                reason: error.to_string(),
            })?;
        let (url, control) = (server.url(), server.control());
        let task = self.runtime.spawn(server.serve(std::future::pending()));
        *self.running.lock().unwrap_or_else(PoisonError::into_inner) = Some((control, task));
        Ok(url)
    }

    fn stop(&self) {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((control, task)) = running {
            control.shutdown();
            // Until it has ended the port is not free for the next one.
            let _ = self.runtime.block_on(task);
        }
    }

    fn activity(&self) -> Activity {
        let mut clients: Vec<ClientTotals> = self.activity.clients().into_iter().map(totals).collect();
        clients.sort_by_key(|client| std::cmp::Reverse(client.last_seen));
        Activity {
            live: self.activity.live().into_iter().map(live).collect(),
            ended: self.activity.ended().into_iter().rev().map(ended).collect(),
            clients,
        }
    }

    fn cancel(&self, id: &str) -> bool {
        let live = self.activity.live();
        let generations = live.iter().filter(|live| live.request_id == id).map(|live| live.generation);
        // A request for several answers has several.
        generations
            .map(|generation| self.engine.cancel(generation))
            .fold(false, |any, found| any | found)
    }
}

fn live(live: LiveRequest) -> LiveCall {
    let state = match live.phase {
        Phase::Waiting => CallState::Waiting,
        Phase::Prefilling => CallState::Prefilling {
            done: live.prefilled,
            total: live.prompt_tokens,
        },
        Phase::Generating => CallState::Generating { rate: live.rate() },
        Phase::Stopping => CallState::Stopping,
    };
    LiveCall {
        state,
        generation: live.generation,
        route: live.route.to_owned(),
        prompt_tokens: live.prompt_tokens,
        cached_tokens: live.cached_tokens,
        generated: live.generated,
        seconds: live.since.elapsed().as_secs_f64(),
        id: live.request_id,
        client: live.client,
    }
}

fn ended(ended: EndedRequest) -> EndedCall {
    let end = match ended.outcome {
        Outcome::Done => CallEnd::Done,
        Outcome::Length => CallEnd::Length,
        Outcome::Cancelled => CallEnd::Cancelled,
        Outcome::Left => CallEnd::Left,
        Outcome::Failed(reason) => CallEnd::Failed(reason),
        Outcome::Refused { status, reason } => CallEnd::Refused { status, reason },
    };
    let receipt = ended.receipt.map(|receipt| Receipt {
        reused: receipt.reused,
        recomputed: receipt.recomputed,
        why: receipt.why,
        difference: receipt.first_difference.map(|difference| Difference {
            place: difference.label,
            before: difference.before,
            now: difference.now,
        }),
    });
    EndedCall {
        id: ended.request_id,
        client: ended.client,
        route: ended.route,
        end,
        prompt_tokens: ended.prompt_tokens,
        generated: ended.generated,
        receipt,
        seconds: ended.seconds,
        first_token: ended.first_token,
        prefill_rate: ended.prefill_rate,
        decode_rate: ended.decode_rate,
        at: ended.at,
        times: ended.times,
    }
}

fn totals(stats: ClientStats) -> ClientTotals {
    ClientTotals {
        client: stats.client,
        requests: stats.requests,
        failed: stats.failed,
        prompt_tokens: stats.prompt_tokens,
        cached_tokens: stats.cached_tokens,
        completion_tokens: stats.completion_tokens,
        last_error: stats.last_error,
        last_seen: stats.last_seen,
    }
}

/// The next port that could be had.
fn free_after(port: u16) -> Option<u16> {
    (1..=20)
        .filter_map(|step| port.checked_add(step))
        .find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok())
}
