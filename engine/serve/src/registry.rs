//! The requests in flight and those just answered, and who sent them: the queue bound, the stall watchdog, and what the
//! app shows.

use crate::receipt::CacheReceipt;
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// Names a hostile client may invent before old ones are forgotten.
const MAX_CLIENTS: usize = 64;
/// Answered requests that are remembered.
const MAX_ENDED: usize = 64;
/// Characters of an error that are remembered.
const MAX_REASON: usize = 400;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Accepted, not yet started by the engine.
    Waiting,
    Prefilling,
    Generating,
    /// Its client has gone, or it was cancelled; the engine has not reached a round boundary yet.
    Stopping,
}

/// A request under way.
#[derive(Debug, Clone)]
pub struct LiveRequest {
    /// `req_…`, as the reply's `x-request-id` says.
    pub request_id: String,
    /// What [`dspark_protocol::EngineHandle::cancel`] takes.
    pub generation: u64,
    pub client: String,
    /// `POST /v1/chat/completions`, say.
    pub route: &'static str,
    pub phase: Phase,
    pub prompt_tokens: usize,
    /// Tokens of the prompt that are computed or were kept from before.
    pub prefilled: usize,
    /// Tokens of the prompt that were kept from before.
    pub cached_tokens: usize,
    pub generated: usize,
    pub since: Instant,
    /// When the engine last delivered something for it.
    pub delivered: Instant,
    /// When its first token came.
    pub first_token: Option<Instant>,
}

impl LiveRequest {
    /// Tokens a second since the first one; `None` before there are two.
    pub fn rate(&self) -> Option<f64> {
        let seconds = self.first_token?.elapsed().as_secs_f64();
        (self.generated > 1 && seconds > 0.0).then(|| (self.generated - 1) as f64 / seconds)
    }
}

/// How a request ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Answered to its end.
    Done,
    /// Answered up to its limit of tokens.
    Length,
    /// Stopped here, or by the API.
    Cancelled,
    /// Its client hung up first.
    Left,
    /// The engine could not answer.
    Failed(String),
    /// It was turned away before the engine saw it.
    Refused { status: u16, reason: String },
}

impl Outcome {
    /// As `/admin/requests` says it.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Length => "length",
            Self::Cancelled => "cancelled",
            Self::Left => "left",
            Self::Failed(_) => "failed",
            Self::Refused { .. } => "refused",
        }
    }

    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Failed(reason) | Self::Refused { reason, .. } => Some(reason),
            _ => None,
        }
    }
}

/// A request that is over.
#[derive(Debug, Clone, PartialEq)]
pub struct EndedRequest {
    pub request_id: String,
    pub client: String,
    pub route: String,
    pub outcome: Outcome,
    pub prompt_tokens: usize,
    pub generated: usize,
    /// What of the prompt was reused, and why not more; `None` where it never got that far.
    pub receipt: Option<CacheReceipt>,
    /// Seconds from the request to its end.
    pub seconds: f64,
    /// Seconds from the request to its first token.
    pub first_token: Option<f64>,
    /// Computed prompt tokens a second, and generated tokens a second.
    pub prefill_rate: Option<f64>,
    pub decode_rate: Option<f64>,
    pub at: SystemTime,
    /// How often the same came in a row (refusals only; 1 otherwise).
    pub times: u32,
}

/// What one client (by its User-Agent) has asked for so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientStats {
    pub client: String,
    /// Those that were taken.
    pub requests: u64,
    /// Of these, and those that were turned away.
    pub failed: u64,
    pub prompt_tokens: u64,
    /// Of the prompt's tokens, those that were not computed again.
    pub cached_tokens: u64,
    pub completion_tokens: u64,
    /// The last thing that went wrong.
    pub last_error: Option<String>,
    pub last_seen: SystemTime,
}

#[derive(Default)]
struct Inner {
    next: u64,
    live: BTreeMap<u64, LiveRequest>,
    /// Oldest first.
    ended: VecDeque<EndedRequest>,
    clients: BTreeMap<String, ClientStats>,
}

/// Who asks for what. Cheap to clone; a program that restarts its server hands it on, so that nothing is forgotten.
#[derive(Clone, Default)]
pub struct Activity(Arc<Mutex<Inner>>);

impl std::fmt::Debug for Activity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Activity")
    }
}

/// The place is taken: this many wait.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct QueueFull(pub(crate) usize);

impl Activity {
    /// Takes a place for `places` generations of one request, if the queue has one.
    pub(crate) fn admit(&self, request: &LiveRequest, max_queue: usize) -> Result<Ticket, QueueFull> {
        let mut inner = self.lock();
        let waiting = inner.live.values().filter(|live| live.phase == Phase::Waiting).count();
        // An idle engine takes one at once, before it has had time to say so.
        let idle = usize::from(waiting == inner.live.len());
        if waiting >= max_queue + idle {
            // Of those, it will take one.
            return Err(QueueFull(waiting - idle));
        }
        inner.next += 1;
        let key = inner.next;
        inner.live.insert(key, request.clone());
        let stats = inner.client(&request.client);
        stats.requests += 1;
        Ok(Ticket {
            registry: self.clone(),
            key,
            ending: None,
        })
    }

    /// Notes a request that was answered with an error. One that the engine had begun is noted already.
    pub(crate) fn refused(&self, request_id: &str, client: &str, route: &str, status: u16, reason: &str) {
        let mut inner = self.lock();
        if inner.ended.iter().rev().take(8).any(|ended| ended.request_id == request_id) {
            return;
        }
        let reason: String = reason.chars().take(MAX_REASON).collect();
        let route: String = route.chars().take(80).collect();
        // Who was never let in is no client, whatever name it gives.
        if let Some(stats) = inner.clients.get_mut(client) {
            stats.failed += 1;
            stats.last_error = Some(reason.clone());
            stats.last_seen = SystemTime::now();
        }
        let outcome = Outcome::Refused { status, reason };
        // A client that asks every second would drown everything else.
        if let Some(last) = inner.ended.back_mut()
            && (last.client.as_str(), last.route.as_str(), &last.outcome) == (client, route.as_str(), &outcome)
        {
            last.times += 1;
            last.at = SystemTime::now();
            return;
        }
        inner.end(EndedRequest {
            request_id: request_id.to_owned(),
            client: client.to_owned(),
            route,
            outcome,
            prompt_tokens: 0,
            generated: 0,
            receipt: None,
            seconds: 0.0,
            first_token: None,
            prefill_rate: None,
            decode_rate: None,
            at: SystemTime::now(),
            times: 1,
        });
    }

    /// The requests in flight.
    pub fn live(&self) -> Vec<LiveRequest> {
        self.lock().live.values().cloned().collect()
    }

    /// The last requests that are over, oldest first.
    pub fn ended(&self) -> Vec<EndedRequest> {
        self.lock().ended.iter().cloned().collect()
    }

    /// Who has asked for what.
    pub fn clients(&self) -> Vec<ClientStats> {
        self.lock().clients.values().cloned().collect()
    }

    /// How long the request that has waited longest for its next event, among those the engine has started, has
    /// waited. Delivery counts, not liveness: a worker that loops without producing is stalled.
    pub(crate) fn longest_silence(&self) -> Option<Duration> {
        let inner = self.lock();
        let started = inner.live.values().filter(|live| live.phase != Phase::Waiting);
        started.map(|live| live.delivered.elapsed()).max()
    }

    /// As `/admin/requests` lists it.
    pub(crate) fn report(&self) -> Value {
        let seen = |at: SystemTime| at.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let inner = self.lock();
        let live: Vec<Value> = inner
            .live
            .values()
            .map(|live| {
                json!({
                    "request_id": live.request_id,
                    "client": live.client,
                    "route": live.route,
                    "phase": format!("{:?}", live.phase).to_lowercase(),
                    "prompt_tokens": live.prompt_tokens,
                    "prefilled": live.prefilled,
                    "cached_tokens": live.cached_tokens,
                    "generated": live.generated,
                    "seconds": live.since.elapsed().as_secs_f64(),
                })
            })
            .collect();
        let recent: Vec<Value> = inner
            .ended
            .iter()
            .rev()
            .map(|ended| {
                json!({
                    "request_id": ended.request_id,
                    "client": ended.client,
                    "route": ended.route,
                    "outcome": ended.outcome.word(),
                    "error": ended.outcome.reason(),
                    "prompt_tokens": ended.prompt_tokens,
                    "generated": ended.generated,
                    "cache": ended.receipt,
                    "seconds": ended.seconds,
                    "at": seen(ended.at),
                    "times": ended.times,
                })
            })
            .collect();
        let clients: Vec<Value> = inner
            .clients
            .values()
            .map(|client| {
                json!({
                    "client": client.client,
                    "requests": client.requests,
                    "failed": client.failed,
                    "prompt_tokens": client.prompt_tokens,
                    "cached_tokens": client.cached_tokens,
                    "completion_tokens": client.completion_tokens,
                    "last_error": client.last_error,
                    "last_seen": seen(client.last_seen),
                })
            })
            .collect();
        json!({"requests": live, "recent": recent, "clients": clients})
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn client(&mut self, name: &str) -> &mut ClientStats {
        if !self.clients.contains_key(name) && self.clients.len() >= MAX_CLIENTS {
            let oldest = self
                .clients
                .values()
                .min_by_key(|stats| stats.last_seen)
                .map(|stats| stats.client.clone());
            oldest.and_then(|oldest| self.clients.remove(&oldest));
        }
        let stats = self.clients.entry(name.to_owned()).or_insert_with(|| ClientStats {
            client: name.to_owned(),
            requests: 0,
            failed: 0,
            prompt_tokens: 0,
            cached_tokens: 0,
            completion_tokens: 0,
            last_error: None,
            last_seen: SystemTime::now(),
        });
        stats.last_seen = SystemTime::now();
        stats
    }

    fn end(&mut self, ended: EndedRequest) {
        if self.ended.len() == MAX_ENDED {
            self.ended.pop_front();
        }
        self.ended.push_back(ended);
    }
}

/// What is known of an answer at its end.
#[derive(Debug)]
pub(crate) struct Ending {
    pub(crate) outcome: Outcome,
    pub(crate) receipt: Option<CacheReceipt>,
    pub(crate) prefill_rate: Option<f64>,
    pub(crate) decode_rate: Option<f64>,
}

impl From<Outcome> for Ending {
    fn from(outcome: Outcome) -> Self {
        Self {
            outcome,
            receipt: None,
            prefill_rate: None,
            decode_rate: None,
        }
    }
}

/// A request's place; leaves when dropped.
pub(crate) struct Ticket {
    registry: Activity,
    key: u64,
    ending: Option<Ending>,
}

impl Ticket {
    pub(crate) fn update(&self, change: impl FnOnce(&mut LiveRequest)) {
        if let Some(live) = self.registry.lock().live.get_mut(&self.key) {
            change(live);
        }
    }

    /// How it ends; without a word its client has left.
    pub(crate) fn ends(&mut self, ending: impl Into<Ending>) {
        self.ending = Some(ending.into());
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut inner = self.registry.lock();
        let Some(live) = inner.live.remove(&self.key) else { return };
        let ending = self.ending.take().unwrap_or_else(|| Outcome::Left.into());
        let reason = match &ending.outcome {
            Outcome::Failed(reason) => Some(reason.chars().take(MAX_REASON).collect::<String>()),
            _ => None,
        };
        let stats = inner.client(&live.client);
        stats.prompt_tokens += live.prompt_tokens as u64;
        stats.cached_tokens += live.cached_tokens as u64;
        stats.completion_tokens += live.generated as u64;
        if reason.is_some() {
            stats.failed += 1;
            stats.last_error.clone_from(&reason);
        }
        inner.end(EndedRequest {
            request_id: live.request_id,
            client: live.client,
            route: live.route.to_owned(),
            outcome: reason.map_or(ending.outcome, Outcome::Failed),
            prompt_tokens: live.prompt_tokens,
            generated: live.generated,
            receipt: ending.receipt,
            seconds: live.since.elapsed().as_secs_f64(),
            first_token: live.first_token.map(|at| at.duration_since(live.since).as_secs_f64()),
            prefill_rate: ending.prefill_rate,
            decode_rate: ending.decode_rate,
            at: SystemTime::now(),
            times: 1,
        });
    }
}

/// A client's name from its User-Agent: `OpenAI/Python 2.8.1` is `OpenAI/Python`, `curl/8.4.0` is `curl`.
pub(crate) fn client_name(user_agent: Option<&str>) -> String {
    let agent = user_agent.unwrap_or_default().split('(').next().unwrap_or_default().trim();
    let is_version = |part: &str| part.trim_start_matches('v').starts_with(|c: char| c.is_ascii_digit());
    let mut name: &str = agent.split_whitespace().next().unwrap_or_default();
    while let Some((head, tail)) = name.rsplit_once('/')
        && is_version(tail)
    {
        name = head;
    }
    let name: String = name.chars().filter(|c| !c.is_control()).take(48).collect();
    if name.is_empty() { "http".into() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(client: &str) -> LiveRequest {
        LiveRequest {
            request_id: "req_0".into(),
            generation: 0,
            client: client.into(),
            route: "POST /v1/chat/completions",
            phase: Phase::Waiting,
            prompt_tokens: 0,
            prefilled: 0,
            cached_tokens: 0,
            generated: 0,
            since: Instant::now(),
            delivered: Instant::now(),
            first_token: None,
        }
    }

    #[test]
    fn the_queue_holds_as_many_as_it_says_besides_the_running_one() {
        let registry = Activity::default();
        let first = registry.admit(&request("a"), 1).unwrap();
        first.update(|live| live.phase = Phase::Generating);
        let second = registry.admit(&request("a"), 1).unwrap();
        assert_eq!(registry.admit(&request("a"), 1).err(), Some(QueueFull(1)));
        drop(first);
        second.update(|live| live.phase = Phase::Prefilling);
        assert!(registry.admit(&request("a"), 1).is_ok());
    }

    #[test]
    fn a_burst_into_an_idle_engine_fits_one_more_than_the_queue() {
        let registry = Activity::default();
        let _one = registry.admit(&request("a"), 0).unwrap();
        assert_eq!(registry.admit(&request("a"), 0).err(), Some(QueueFull(0)), "the one is not waiting");
    }

    #[test]
    fn invented_names_do_not_grow_the_table() {
        let registry = Activity::default();
        for i in 0..500 {
            drop(registry.admit(&request(&format!("client {i}")), 8).unwrap());
        }
        assert_eq!(registry.clients().len(), MAX_CLIENTS);
    }

    #[test]
    fn what_is_over_is_remembered_with_how_it_ended() {
        let activity = Activity::default();
        let mut done = activity.admit(&request("a"), 8).unwrap();
        done.update(|live| (live.prompt_tokens, live.cached_tokens, live.generated) = (900, 700, 31));
        done.ends(Outcome::Done);
        drop(done);
        drop(activity.admit(&request("a"), 8).unwrap());
        let mut failed = activity.admit(&request("a"), 8).unwrap();
        failed.ends(Outcome::Failed("x".repeat(5000)));
        drop(failed);
        let outcomes: Vec<&str> = activity.ended().iter().map(|ended| ended.outcome.word()).collect();
        assert_eq!(outcomes, ["done", "left", "failed"]);
        let stats = activity.clients().remove(0);
        assert_eq!(
            (stats.requests, stats.failed, stats.prompt_tokens, stats.cached_tokens),
            (3, 1, 900, 700)
        );
        assert_eq!(stats.last_error.map(|reason| reason.len()), Some(MAX_REASON));
        for _ in 0..2 * MAX_ENDED {
            drop(activity.admit(&request("a"), 8).unwrap());
        }
        assert_eq!(activity.ended().len(), MAX_ENDED);
    }

    #[test]
    fn refusals_in_a_row_are_one_line_and_begun_requests_are_not_told_twice() {
        let activity = Activity::default();
        for id in ["req_1", "req_2", "req_3"] {
            activity.refused(id, "curl", "/v1/embeddings", 501, "not supported");
        }
        activity.refused("req_4", "curl", "/v1/chat/completions", 400, "bad");
        let ended = activity.ended();
        assert_eq!(ended.iter().map(|ended| ended.times).collect::<Vec<_>>(), [3, 1]);
        assert_eq!(activity.clients(), [], "nobody was let in");
        let mut begun = activity.admit(&request("curl"), 8).unwrap();
        begun.ends(Outcome::Failed("too long".into()));
        drop(begun);
        activity.refused("req_0", "curl", "/v1/chat/completions", 400, "too long");
        assert_eq!((activity.ended().len(), activity.clients()[0].failed), (3, 1));
        activity.refused("req_9", "curl", "/v1/chat/completions", 429, "busy");
        let stats = activity.clients().remove(0);
        assert_eq!((stats.requests, stats.failed, stats.last_error.as_deref()), (1, 2, Some("busy")));
    }

    #[test]
    fn user_agents_become_short_names() {
        for (agent, name) in [
            ("OpenAI/Python 2.8.1", "OpenAI/Python"),
            ("curl/8.4.0", "curl"),
            ("claude-cli/2.1.36 (external, cli)", "claude-cli"),
            ("codex_cli_rs/0.60.0 (Mac OS 15; arm64)", "codex_cli_rs"),
            ("ai-sdk/openai-compatible/1.0", "ai-sdk/openai-compatible"),
            ("", "http"),
            ("(x)", "http"),
        ] {
            assert_eq!(client_name(Some(agent)), name);
        }
        assert_eq!(client_name(None), "http");
    }
}
