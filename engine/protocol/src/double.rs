//! A scripted engine behind a real [`EngineHandle`]: for tests of faces, and for measuring a face without a model.

use crate::{
    ActiveRequest, Command, EngineError, EngineHandle, EngineState, Event, FinishReason, ForcingReport, GenerateCommand, LoadEvent,
    Message, Mode, ModelInfo, Prompt, PromptCodec, Result, RoundRecord, Snapshot, Source, Summary, TemplateOptions, TextDelta, Timings,
    TokenInfo, Usage, Worker, channel,
};
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
        }
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
        self.set_model(self.script.loaded.then(|| model_info("double")));
        while let Some(command) = self.worker.commands.blocking_recv() {
            match command {
                Command::Generate(command) => self.generate(*command),
                Command::Load(load) => {
                    let info = model_info(&load.request.name);
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
        self.state.model = model;
        self.publish(state);
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
        let (finish, token_ids) = self.speak(&command, &answer);
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
        self.state.totals.prompt_tokens += prompt_tokens as u64;
        self.state.totals.completion_tokens += token_ids.len() as u64;
        self.state.totals.cancelled += u64::from(finish == FinishReason::Cancelled);
        self.state.last_decode_rate = Some(timings.decode_rate(&usage));
        self.state.requests.clear();
        let summary = Summary {
            finish,
            usage,
            timings,
            mode: command.request.mode,
            effective_mode: Mode::Baseline,
            mode_reason: None,
            accept_len: 1.0,
            target_forwards: token_ids.len(),
            speculation: None,
            seed: command.request.sampling.seed.unwrap_or(0),
            warnings: Vec::new(),
            token_ids: if command.request.return_token_ids { token_ids } else { Vec::new() },
        };
        let _ = deliver(&command, Event::Finished(Box::new(summary)));
        self.publish(EngineState::Ready);
    }

    fn speak(&mut self, command: &GenerateCommand, answer: &str) -> (FinishReason, Vec<u32>) {
        let stop = command
            .request
            .stop
            .iter()
            .filter(|stop| !stop.is_empty())
            .filter_map(|stop| answer.find(stop.as_str()).map(|at| (at, stop.clone())))
            .min();
        let text = stop.as_ref().map_or(answer, |(at, _)| &answer[..*at]);
        let mut ids = Vec::new();
        let begin = Instant::now();
        for word in text.split_inclusive(' ') {
            if ids.len() == command.request.max_tokens {
                return (FinishReason::Length, ids);
            }
            if command.cancel.is_cancelled() {
                return (FinishReason::Cancelled, ids);
            }
            let id = ids.len() as u32;
            ids.push(id);
            let logprob = command.request.logprobs.map(|_| -0.5);
            let token = TokenInfo {
                id,
                text: word.into(),
                bytes: word.into(),
                source: Source::Target,
                logprob,
                top: Vec::new(),
            };
            if deliver(
                command,
                Event::Delta(TextDelta {
                    text: word.into(),
                    tokens: vec![token],
                }),
            )
            .is_err()
            {
                return (FinishReason::Cancelled, ids);
            }
            self.seq += 1;
            let t_ms = self.state.started.elapsed().as_secs_f64() * 1e3;
            self.worker.rounds.push(RoundRecord {
                seq: self.seq,
                t_ms,
                request: command.id,
                mode: Mode::Baseline,
                index: ids.len() as u32 - 1,
                drafted: 0,
                tree_depth: 0,
                accepted: 0,
                committed: 1,
                cap: None,
                source: Source::Target,
                ms: 1.0,
            });
            if let Some(active) = self.state.requests.first_mut() {
                active.generated = ids.len();
            }
            self.publish(EngineState::Generating {
                tokens_per_sec: ids.len() as f64 / begin.elapsed().as_secs_f64().max(1e-6),
            });
            if self.script.rate > 0.0 {
                let due = Duration::from_secs_f64(ids.len() as f64 / self.script.rate);
                thread::sleep(due.saturating_sub(begin.elapsed()));
            }
        }
        (
            FinishReason::Stop {
                matched: stop.map(|(_, stop)| stop),
            },
            ids,
        )
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

fn model_info(name: &str) -> Arc<ModelInfo> {
    Arc::new(ModelInfo {
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
        supports_tools: false,
        loaded_at: 0,
        load_seconds: 0.1,
        notes: Vec::new(),
    })
}
