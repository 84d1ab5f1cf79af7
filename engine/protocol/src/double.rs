//! A scripted engine behind a real [`EngineHandle`]: for tests of faces, and for measuring a face without a model.

pub mod speculation;

use crate::{
    ActiveRequest, Bandwidth, Command, EngineError, EngineHandle, EngineState, Event, FinishReason, ForcingReport, GenerateCommand,
    LastReply, LoadEvent, Message, Mode, ModelInfo, Prompt, PromptCodec, Result, RoundRecord, RoundStats, Snapshot, SpeculationState,
    SpeculationSummary, Summary, TemplateOptions, TextDelta, Timings, TokenInfo, Usage, Worker, channel,
};
use speculation::{Rounds, record};
use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};
use tokio::sync::mpsc::error::TrySendError;

type Answer = dyn Fn(&crate::Request) -> Result<String> + Send + Sync;

/// What the double says. Text is split into words, one token each.
#[derive(Clone)]
pub struct Script {
    /// The answer to a request; an `Err` becomes [`Event::Failed`].
    pub answer: Arc<Answer>,
    /// Tokens a second; 0 is as fast as the reader reads.
    pub rate: f64,
    /// Wait before the first token.
    pub prefill: Duration,
    /// Start with a model loaded.
    pub loaded: bool,
    /// How the loaded model speculates.
    pub speculation: SpeculationState,
    /// Why no reply speculates, although the model could.
    pub refuses: Option<String>,
}

impl Script {
    /// Always the same text, at once.
    pub fn saying(text: impl Into<String>) -> Self {
        let text = text.into();
        Self {
            answer: Arc::new(move |_| Ok(text.clone())),
            rate: 0.0,
            prefill: Duration::ZERO,
            loaded: true,
            speculation: speculation::plain(),
            refuses: None,
        }
    }

    /// The same with a drafter: see [`speculation::drafting`].
    #[must_use]
    pub fn drafting(mut self) -> Self {
        self.speculation = speculation::drafting();
        self
    }

    #[must_use]
    pub fn at(mut self, tokens_per_sec: f64) -> Self {
        self.rate = tokens_per_sec;
        self
    }
}

/// Words as tokens: enough for counts and previews in tests.
struct Words;

impl PromptCodec for Words {
    fn encode(&self, prompt: &Prompt) -> Result<Vec<u32>> {
        let text = match prompt {
            Prompt::Chat { messages, options } => self.render(messages, options)?,
            Prompt::Text(text) => text.clone(),
            Prompt::Tokens(ids) => return Ok(ids.clone()),
        };
        Ok((0..text.split_whitespace().count() as u32).collect())
    }

    fn render(&self, messages: &[Message], _options: &TemplateOptions) -> Result<String> {
        let lines = messages
            .iter()
            .map(|message| [&format!("{:?}", message.role), ": ", &message.content, "\n"].concat());
        Ok(lines.collect())
    }

    fn decode(&self, ids: &[u32]) -> String {
        let words: Vec<String> = ids.iter().map(|id| format!("w{id}")).collect();
        words.join(" ")
    }
}

/// Starts the double on its own thread.
pub fn start(script: Script) -> EngineHandle {
    let (handle, worker) = channel();
    thread::spawn(move || {
        Double {
            script,
            worker,
            state: Snapshot::default(),
            seq: 0,
        }
        .run();
    });
    handle
}

struct Double {
    script: Script,
    worker: Worker,
    state: Snapshot,
    seq: u64,
}

impl Double {
    fn run(mut self) {
        self.set_model(self.script.loaded.then(|| self.model("double")));
        while let Some(command) = self.worker.commands.blocking_recv() {
            match command {
                Command::Generate(command) => self.generate(*command),
                Command::Load(load) => {
                    let info = self.model(&load.request.name);
                    self.set_model(Some(info.clone()));
                    let _ = load.events.send(LoadEvent::Ready(info));
                }
                Command::Unload { done } => {
                    self.set_model(None);
                    let _ = done.send(Ok(()));
                }
                Command::Force(force) => {
                    let report = ForcingReport {
                        tokens: force.emitted.len(),
                        ..ForcingReport::default()
                    };
                    let _ = force.done.send(Ok(report));
                }
                Command::Bandwidth { done } => {
                    let _ = done.send(Ok(Bandwidth {
                        gigabytes_per_second: 226.0,
                        bytes: 512 << 20,
                        samples: 10,
                        method: "512 MiB matvec, median of 10".into(),
                    }));
                }
                Command::Shutdown => break,
            }
        }
        self.publish(EngineState::Stopped);
    }

    fn set_model(&mut self, model: Option<Arc<ModelInfo>>) {
        let state = if model.is_some() {
            EngineState::Ready
        } else {
            EngineState::NoModel
        };
        self.worker
            .codec
            .store(model.as_ref().map(|_| Arc::new(Box::new(Words) as Box<dyn PromptCodec>)));
        self.worker.rounds.clear();
        self.state.last_reply = None;
        self.state.speculation = model.as_ref().map(|_| Arc::new(self.script.speculation.clone()));
        self.state.model = model;
        self.publish(state);
    }

    fn model(&self, name: &str) -> Arc<ModelInfo> {
        let state = &self.script.speculation;
        Arc::new(ModelInfo {
            drafter: state.drafter.as_ref().map(|drafter| drafter.name.clone()),
            mode: state.mode,
            ..model_info(name)
        })
    }

    fn publish(&mut self, state: EngineState) {
        self.state.state = state;
        self.state.beat = Instant::now();
        self.worker.snapshot.send_replace(Arc::new(self.state.clone()));
    }

    fn generate(&mut self, command: GenerateCommand) {
        let start = Instant::now();
        self.state.totals.requests += 1;
        let prompt_tokens = Words.encode(&command.request.prompt).map_or(0, |ids| ids.len());
        let answer = if self.state.model.is_none() {
            Err(EngineError::NoModel)
        } else {
            (self.script.answer)(&command.request)
        };
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => {
                self.state.totals.failed += 1;
                let _ = deliver(&command, Event::Failed(error));
                return;
            }
        };
        let active = ActiveRequest {
            id: command.id,
            client: command.request.client.clone(),
            prompt_tokens,
            generated: 0,
            waiting: false,
        };
        self.state.requests = vec![active];
        self.publish(EngineState::Prefilling {
            processed: 0,
            total: prompt_tokens,
        });
        let _ = deliver(
            &command,
            Event::Started {
                prompt_tokens,
                cached_tokens: 0,
            },
        );
        thread::sleep(self.script.prefill);
        let _ = deliver(
            &command,
            Event::Prefill {
                processed: prompt_tokens,
                total: prompt_tokens,
            },
        );
        let ttft = start.elapsed();

        let decode = Instant::now();
        let speculates = command.request.mode != Mode::Baseline && self.script.refuses.is_none();
        let state = if speculates {
            self.script.speculation.clone()
        } else {
            speculation::plain()
        };
        let Spoken { finish, token_ids, stats } = self.speak(&command, &answer, &state);
        let usage = Usage {
            prompt_tokens,
            completion_tokens: token_ids.len(),
            ..Usage::default()
        };
        let timings = Timings {
            queue: 0.0,
            ttft: ttft.as_secs_f64(),
            prefill: ttft.as_secs_f64(),
            decode: decode.elapsed().as_secs_f64(),
        };
        self.state.requests.clear();
        let effective_mode = if speculates { state.mode } else { Mode::Baseline };
        let summary = Summary {
            finish,
            usage,
            timings,
            mode: command.request.mode,
            effective_mode,
            mode_reason: self.script.refuses.clone().filter(|_| command.request.mode != Mode::Baseline),
            accept_len: if stats.rounds > 0 { stats.mean_accept_len() } else { 1.0 },
            target_forwards: stats.rounds,
            speculation: (effective_mode != Mode::Baseline).then(|| Box::new(summarise(&state, stats))),
            seed: Some(command.request.sampling.seed.unwrap_or(0)),
            warnings: Vec::new(),
            token_ids: if command.request.return_token_ids { token_ids } else { Vec::new() },
        };
        self.state.totals.add(&summary);
        self.state.last_decode_rate = Some(timings.decode_rate(&usage));
        self.state.last_reply = Some(LastReply {
            context: usage.prompt_tokens + usage.completion_tokens,
            rate: timings.decode_rate(&usage),
            accept: summary.speculation.as_ref().map(|_| summary.accept_len),
            decay: summary.speculation.as_ref().and_then(|speculation| speculation.decay),
            cold: self.state.last_reply.is_none(),
            swap_growth: None,
        });
        let _ = deliver(&command, Event::Finished(Box::new(summary)));
        self.publish(EngineState::Ready);
    }

    fn speak(&mut self, command: &GenerateCommand, answer: &str, state: &SpeculationState) -> Spoken {
        let stop = command
            .request
            .stop
            .iter()
            .filter(|stop| !stop.is_empty())
            .filter_map(|stop| answer.find(stop.as_str()).map(|at| (at, stop.clone())))
            .min();
        let text = stop.as_ref().map_or(answer, |(at, _)| &answer[..*at]);
        let mut words = text.split_inclusive(' ').peekable();
        let mut spoken = Spoken {
            finish: FinishReason::Stop {
                matched: stop.map(|(_, stop)| stop),
            },
            token_ids: Vec::new(),
            stats: RoundStats::default(),
        };
        let begin = Instant::now();
        let mut rounds = Rounds::new(state);
        while let (Some(_), Some(round)) = (words.peek(), rounds.next()) {
            let left = command.request.max_tokens.saturating_sub(spoken.token_ids.len());
            if left == 0 {
                spoken.finish = FinishReason::Length;
                break;
            }
            if command.cancel.is_cancelled() {
                spoken.finish = FinishReason::Cancelled;
                break;
            }
            let mut delta = TextDelta::default();
            for (word, source) in words.by_ref().zip(round.sources().take(left)) {
                let id = spoken.token_ids.len() as u32;
                spoken.token_ids.push(id);
                delta.text.push_str(word);
                delta.tokens.push(TokenInfo {
                    id,
                    text: word.into(),
                    bytes: word.into(),
                    source,
                    logprob: command.request.logprobs.map(|_| -0.5),
                    top: Vec::new(),
                });
                if delta.tokens.len() == round.accepted + 1 {
                    break;
                }
            }
            let committed = delta.tokens.len();
            if deliver(command, Event::Delta(delta)).is_err() {
                spoken.finish = FinishReason::Cancelled;
                break;
            }
            self.seq += 1;
            let written = RoundRecord {
                seq: self.seq,
                t_ms: self.state.started.elapsed().as_secs_f64() * 1e3,
                request: command.id,
                index: spoken.stats.rounds as u32,
                ..record(state, round, committed)
            };
            spoken.stats.add(&written);
            self.worker.rounds.push(written);
            let count = spoken.token_ids.len();
            if let Some(active) = self.state.requests.first_mut() {
                active.generated = count;
            }
            self.publish(EngineState::Generating {
                tokens_per_sec: count as f64 / begin.elapsed().as_secs_f64().max(1e-6),
            });
            if self.script.rate > 0.0 {
                let due = Duration::from_secs_f64(count as f64 / self.script.rate);
                thread::sleep(due.saturating_sub(begin.elapsed()));
            }
        }
        spoken
    }
}

struct Spoken {
    finish: FinishReason,
    token_ids: Vec<u32>,
    stats: RoundStats,
}

/// By the curves, not by the clock: the double's words cost nothing.
fn summarise(state: &SpeculationState, stats: RoundStats) -> SpeculationSummary {
    let rate = state
        .curves
        .as_ref()
        .and_then(|curves| Some(1e3 * stats.mean_accept_len() / speculation::round_ms(curves, state.cap)?));
    SpeculationSummary {
        cap: state.cap,
        tree_nodes: 0,
        multiple: rate.zip(state.predicted.get(&0)).map(|(rate, plain)| rate / plain),
        decay: (stats.rounds >= 32).then_some(0.98),
        stats,
    }
}

/// Waits for a slow reader, gives up on a gone or cancelled one.
fn deliver(command: &GenerateCommand, event: Event) -> std::result::Result<(), ()> {
    let last = matches!(event, Event::Finished(_) | Event::Failed(_));
    let mut event = event;
    loop {
        match command.events.try_send(event) {
            Ok(()) => return Ok(()),
            Err(TrySendError::Closed(_)) => return Err(()),
            Err(TrySendError::Full(_)) if command.cancel.is_cancelled() && !last => return Err(()),
            Err(TrySendError::Full(back)) => event = back,
        }
        thread::sleep(Duration::from_millis(1));
    }
}

fn model_info(name: &str) -> ModelInfo {
    ModelInfo {
        name: name.into(),
        path: "double".into(),
        model_type: "llama".into(),
        quantization: "4-bit g32".into(),
        drafter: None,
        mode: Mode::Baseline,
        parameters: 135_000_000,
        weight_bytes: 98_000_000,
        kv_bytes_per_token: 23_040,
        context_window: 8192,
        max_context: 8192,
        has_chat_template: true,
        supports_thinking: false,
        supports_tools: true,
        loaded_at: 0,
        load_seconds: 0.1,
        notes: Vec::new(),
    }
}
