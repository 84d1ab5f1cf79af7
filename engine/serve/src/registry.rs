//! The requests in flight and who sent them: the queue bound, the stall watchdog, and what the app shows.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant, SystemTime},
};

/// Names a hostile client may invent before old ones are forgotten.
const MAX_CLIENTS: usize = 64;

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
    pub generated: usize,
    pub since: Instant,
    /// When the engine last delivered something for it.
    pub delivered: Instant,
}

/// What one client (by its User-Agent) has asked for so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientStats {
    pub client: String,
    pub requests: u64,
    pub failed: u64,
    pub prompt_tokens: u64,
    pub completion_tokens: u64,
    pub last_seen: SystemTime,
}

#[derive(Default)]
struct Inner {
    next: u64,
    live: BTreeMap<u64, LiveRequest>,
    clients: BTreeMap<String, ClientStats>,
}

#[derive(Clone, Default)]
pub(crate) struct Registry(Arc<Mutex<Inner>>);

/// The place is taken: this many wait.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct QueueFull(pub(crate) usize);

impl Registry {
    /// Takes a place for `places` generations of one request, if the queue has one.
    pub(crate) fn admit(&self, request: &LiveRequest, max_queue: usize) -> Result<Ticket, QueueFull> {
        let mut inner = self.lock();
        let waiting = inner.live.values().filter(|live| live.phase == Phase::Waiting).count();
        // An idle engine takes one at once, before it has had time to say so.
        let idle = usize::from(waiting == inner.live.len());
        if waiting >= max_queue + idle {
            return Err(QueueFull(waiting));
        }
        inner.next += 1;
        let key = inner.next;
        inner.live.insert(key, request.clone());
        let stats = inner.client(&request.client);
        stats.requests += 1;
        Ok(Ticket {
            registry: self.clone(),
            key,
        })
    }

    pub(crate) fn live(&self) -> Vec<LiveRequest> {
        self.lock().live.values().cloned().collect()
    }

    pub(crate) fn clients(&self) -> Vec<ClientStats> {
        self.lock().clients.values().cloned().collect()
    }

    /// How long the request that has waited longest for its next event, among those the engine has started, has
    /// waited. Delivery counts, not liveness: a worker that loops without producing is stalled.
    pub(crate) fn longest_silence(&self) -> Option<Duration> {
        let inner = self.lock();
        let started = inner.live.values().filter(|live| live.phase != Phase::Waiting);
        started.map(|live| live.delivered.elapsed()).max()
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
            completion_tokens: 0,
            last_seen: SystemTime::now(),
        });
        stats.last_seen = SystemTime::now();
        stats
    }
}

/// A request's place; leaves when dropped.
pub(crate) struct Ticket {
    registry: Registry,
    key: u64,
}

impl Ticket {
    pub(crate) fn update(&self, change: impl FnOnce(&mut LiveRequest)) {
        if let Some(live) = self.registry.lock().live.get_mut(&self.key) {
            change(live);
        }
    }

    pub(crate) fn failed(&self) {
        let mut inner = self.registry.lock();
        if let Some(client) = inner.live.get(&self.key).map(|live| live.client.clone()) {
            inner.client(&client).failed += 1;
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut inner = self.registry.lock();
        if let Some(live) = inner.live.remove(&self.key) {
            let stats = inner.client(&live.client);
            stats.prompt_tokens += live.prompt_tokens as u64;
            stats.completion_tokens += live.generated as u64;
        }
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
            generated: 0,
            since: Instant::now(),
            delivered: Instant::now(),
        }
    }

    #[test]
    fn the_queue_holds_as_many_as_it_says_besides_the_running_one() {
        let registry = Registry::default();
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
        let registry = Registry::default();
        let _one = registry.admit(&request("a"), 0).unwrap();
        assert!(registry.admit(&request("a"), 0).is_err());
    }

    #[test]
    fn invented_names_do_not_grow_the_table() {
        let registry = Registry::default();
        for i in 0..500 {
            drop(registry.admit(&request(&format!("client {i}")), 8).unwrap());
        }
        assert_eq!(registry.clients().len(), MAX_CLIENTS);
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
