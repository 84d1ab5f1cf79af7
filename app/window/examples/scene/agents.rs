use super::{Actor, chats};
use dspark_agents::{Places, Serving, client};
use dspark_protocol::{EngineHandle, Message, Request};
use dspark_window::bridge::{
    Activity, CallEnd, CallState, ClientTotals, Difference, EndedCall, LiveCall, Receipt, ServerConfig, ServerControl, ServerFailure,
};
use std::{
    error::Error,
    fs,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::{Duration, SystemTime},
};

/// A server that is asked what the script says, and remembers what it was told to stop.
#[derive(Clone, Default)]
pub struct Desk {
    script: Arc<Mutex<Script>>,
}

#[derive(Default)]
struct Script {
    live: Vec<LiveCall>,
    /// With seconds since their end.
    ended: Vec<(u64, EndedCall)>,
    clients: Vec<(u64, ClientTotals)>,
    stopped: Vec<String>,
    /// Starting fails with this.
    failure: Option<ServerFailure>,
}

impl Desk {
    fn with(&self, change: impl FnOnce(&mut Script)) {
        change(&mut self.script.lock().unwrap_or_else(PoisonError::into_inner));
    }

    pub fn asks(&self, call: LiveCall) {
        self.with(|script| script.live.push(call));
    }

    /// `ago` seconds before now.
    pub fn ends(&self, ago: u64, call: EndedCall) {
        self.with(|script| {
            script.live.retain(|live| live.id != call.id);
            script.ended.push((ago, call));
        });
    }

    pub fn knows(&self, ago: u64, client: ClientTotals) {
        self.with(|script| script.clients.push((ago, client)));
    }

    pub fn fails(&self, failure: Option<ServerFailure>) {
        self.with(|script| script.failure = failure);
    }

    pub fn stopped(&self) -> Vec<String> {
        let mut all = Vec::new();
        self.with(|script| all.clone_from(&script.stopped));
        all
    }

    /// Two programs have asked lately.
    pub fn used() -> Self {
        let desk = Self::default();
        desk.knows(12, totals("claude-cli", [31, 0], [728_400, 698_200, 9800]));
        desk.ends(12, ended("req_0", "claude-cli", "POST /v1/messages", [24_120, 380], 23_552, LAST));
        desk.ends(700, cold());
        desk
    }

    /// A morning with an agent.
    pub fn busy() -> Self {
        let desk = Self::default();
        desk.asks(live(
            "req_9",
            "claude-cli",
            "POST /v1/messages",
            CallState::Generating { rate: Some(58.2) },
            4.2,
        ));
        desk.asks(live(
            "req_10",
            "codex_cli_rs",
            "POST /v1/responses",
            CallState::Prefilling {
                done: 12_288,
                total: 18_204,
            },
            9.6,
        ));
        desk.asks(live("req_11", "open-webui", "POST /v1/chat/completions", CallState::Waiting, 1.4));
        desk.knows(4, totals("claude-cli", [31, 0], [728_400, 698_200, 9800]));
        desk.knows(9, totals("codex_cli_rs", [12, 1], [201_340, 120_804, 4120]));
        desk.knows(2, totals("open-webui", [6, 0], [4210, 0, 1890]));
        desk.knows(95, totals("curl", [3, 3], [0, 0, 0]));
        desk.ends(22, ended("req_8", "claude-cli", "POST /v1/messages", [24_120, 380], 23_552, LAST));
        let mut changed = ended(
            "req_5d1",
            "codex_cli_rs",
            "POST /v1/responses",
            [18_112, 214],
            1024,
            "the system prompt is not what it was",
        );
        if let Some(receipt) = &mut changed.receipt {
            receipt.difference = Some(Difference {
                place: "the system prompt".into(),
                before: "Tuesday, 09:41. You are a coding agent running in the terminal".into(),
                now: "Tuesday, 09:42. You are a coding agent running in the terminal".into(),
            });
        }
        desk.ends(64, changed);
        let refusal = EndedCall {
            end: CallEnd::Refused {
                status: 401,
                reason: "this server asks for a key: send it as `Authorization: Bearer KEY`".into(),
            },
            receipt: None,
            seconds: 0.0,
            first_token: None,
            prefill_rate: None,
            decode_rate: None,
            times: 3,
            ..ended("req_4", "curl", "POST /v1/chat/completions", [0, 0], 0, "")
        };
        desk.ends(95, refusal);
        desk.ends(
            240,
            EndedCall {
                end: CallEnd::Left,
                ..ended("req_3", "open-webui", "POST /v1/chat/completions", [812, 31], 0, NEW)
            },
        );
        desk.ends(700, cold());
        desk
    }
}

const LAST: &str = "everything but the new turn was reused";
const NEW: &str = "nothing like this prompt was answered before";

fn cold() -> EndedCall {
    EndedCall {
        seconds: 41.0,
        first_token: Some(37.1),
        prefill_rate: Some(651.0),
        ..ended("req_1", "claude-cli", "POST /v1/messages", [24_112, 96], 0, NEW)
    }
}

pub fn live(id: &str, client: &str, route: &str, state: CallState, seconds: f64) -> LiveCall {
    let started = state != CallState::Waiting;
    LiveCall {
        id: id.into(),
        generation: id
            .strip_prefix("req_")
            .and_then(|number| number.parse().ok())
            .map_or(1, |number: u64| number - 8),
        client: client.into(),
        route: route.into(),
        prompt_tokens: match state {
            CallState::Prefilling { total, .. } => total,
            _ if started => 24_536,
            _ => 0,
        },
        cached_tokens: if matches!(state, CallState::Generating { .. }) { 24_480 } else { 0 },
        generated: if matches!(state, CallState::Generating { .. }) { 212 } else { 0 },
        state,
        seconds,
    }
}

pub fn ended(id: &str, client: &str, route: &str, tokens: [usize; 2], reused: usize, why: &str) -> EndedCall {
    EndedCall {
        id: id.into(),
        client: client.into(),
        route: route.into(),
        end: CallEnd::Done,
        prompt_tokens: tokens[0],
        generated: tokens[1],
        receipt: Some(Receipt {
            reused,
            recomputed: tokens[0] - reused,
            why: why.into(),
            difference: None,
        }),
        seconds: 7.4,
        first_token: Some(0.91),
        prefill_rate: Some(624.0),
        decode_rate: Some(58.6),
        at: SystemTime::now(),
        times: 1,
    }
}

/// Requests and errors; tokens in, reused, out.
pub fn totals(client: &str, [requests, failed]: [u64; 2], [input, cached, output]: [u64; 3]) -> ClientTotals {
    ClientTotals {
        client: client.into(),
        requests,
        failed,
        prompt_tokens: input,
        cached_tokens: cached,
        completion_tokens: output,
        last_error: (failed > 0).then(|| "this server asks for a key".into()),
        last_seen: SystemTime::now(),
    }
}

impl ServerControl for Desk {
    fn start(&self, config: &ServerConfig) -> Result<String, ServerFailure> {
        let mut failure = None;
        self.with(|script| failure.clone_from(&script.failure));
        failure.map_or_else(|| Ok(format!("http://127.0.0.1:{}", config.port)), Err)
    }

    fn stop(&self) {}

    fn activity(&self) -> Activity {
        let before = |seconds: u64| SystemTime::now() - Duration::from_secs(seconds);
        let mut activity = Activity::default();
        self.with(|script| {
            activity.live.clone_from(&script.live);
            let ended = script.ended.iter().map(|(ago, call)| EndedCall {
                at: before(*ago),
                ..call.clone()
            });
            activity.ended = ended.collect();
            let clients = script.clients.iter().map(|(ago, client)| ClientTotals {
                last_seen: before(*ago),
                ..client.clone()
            });
            activity.clients = clients.collect();
        });
        activity
    }

    fn cancel(&self, id: &str) -> bool {
        self.with(|script| script.stopped.push(id.to_owned()));
        true
    }
}

/// An engine in the middle of a reply to `claude-cli`.
pub fn busy() -> EngineHandle {
    let actor = Actor {
        pause_at: Some(60),
        answer: chats::ANSWER.into(),
        rate: 0.0,
        ..Actor::default()
    };
    let engine = actor.start();
    let asking = engine.clone();
    thread::spawn(move || {
        let request = Request::chat("claude-cli", vec![Message::user("Fix the off-by-one in totals.py")], 512);
        if let Ok(mut generation) = asking.submit(request) {
            while generation.next_blocking().is_some() {}
        }
    });
    engine
}

/// A home of its own below `data`.
pub fn places(data: &Path) -> Places {
    let home = data.join("home");
    Places {
        codex: home.join(".codex"),
        config: home.join(".config"),
        project: home.join("ledger"),
        records: data.join("agents"),
        programs: vec![home.join("bin")],
        applications: vec![home.join("Applications")],
        variables: Vec::new(),
        home,
    }
}

/// Programs in every state, as in the mock.
pub fn install(data: &Path) -> Result<(), Box<dyn Error + Send + Sync>> {
    let places = places(data);
    let programs = [
        ("claude", "2.1.36"),
        ("codex", "0.94.0"),
        ("opencode", "1.3.7"),
        ("pi", "0.31.2"),
        ("zed", "0.212.3"),
        ("crush", "0.19.1"),
        ("aider", "0.86.1"),
    ];
    fs::create_dir_all(places.home.join("bin"))?;
    fs::create_dir_all(&places.project)?;
    for (name, version) in programs {
        program(&places.home.join("bin").join(name), version)?;
    }
    let now = Serving {
        base_url: "http://127.0.0.1:8080".into(),
        model: "Qwen3-8B-8bit".into(),
        context_window: 40_960,
        max_output_tokens: 32_768,
        thinks: true,
        key: None,
    };
    let before = Serving {
        base_url: "http://127.0.0.1:8081".into(),
        ..now.clone()
    };
    let write = |id: &str, serving: &Serving| -> Result<(), Box<dyn Error + Send + Sync>> {
        let client = client(id).ok_or("no such client")?;
        dspark_agents::apply(&dspark_agents::plan(client, serving, &places)?, &places)?;
        Ok(())
    };
    write("codex", &before)?;
    write("opencode", &now)?;
    write("crush", &now)?;
    let crush = places.config.join("crush/crush.json");
    fs::write(&crush, fs::read_to_string(&crush)?.replace("Qwen3-8B-8bit (local)", "My model"))?;
    fs::create_dir_all(places.config.join("zed"))?;
    fs::write(
        places.config.join("zed/settings.json"),
        "{\n  \"vim_mode\": true,\n  \"theme\": [\n}\n",
    )?;
    Ok(())
}

#[cfg(unix)]
fn program(path: &Path, version: &str) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::write(path, format!("#!/bin/sh\necho {version}\n"))?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
}

#[cfg(not(unix))]
fn program(path: &Path, _: &str) -> std::io::Result<()> {
    fs::write(path, "")
}
