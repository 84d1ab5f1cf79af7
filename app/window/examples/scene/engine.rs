use dspark_protocol::{
    ActiveRequest, Command, EngineHandle, EngineState, Event, FinishReason, GenerateCommand, LoadEvent, LoadStage, MachineInfo, Memory,
    Message, Mode, ModelInfo, Prompt, PromptCodec, Snapshot, Source, Summary, TemplateOptions, TextDelta, Timings, TokenInfo, Usage,
    Worker, channel,
};
use std::{
    path::PathBuf,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

/// An engine that plays a part: a machine with a good graphics processor and an 8-bit model.
pub struct Actor {
    pub loaded: bool,
    /// Empty answers with a paragraph about the question.
    pub answer: String,
    /// Stop in mid-reply after this many bytes and hold still, for a picture.
    pub pause_at: Option<usize>,
    /// Thoughts before the answer.
    pub think: bool,
    /// Tokens a second; 0 is at once.
    pub rate: f64,
}

impl Default for Actor {
    fn default() -> Self {
        Self {
            loaded: true,
            answer: String::new(),
            pause_at: None,
            think: false,
            rate: 66.2,
        }
    }
}

/// Four characters a token: close enough for counts.
struct Quarter;

impl PromptCodec for Quarter {
    fn encode(&self, prompt: &Prompt) -> dspark_protocol::Result<Vec<u32>> {
        let length = match prompt {
            Prompt::Chat { messages, .. } => messages.iter().map(|message| message.content.len() + 24).sum(),
            Prompt::Text(text) => text.len(),
            Prompt::Tokens(ids) => 4 * ids.len(),
        };
        Ok((0..length as u32 / 4).collect())
    }

    fn render(&self, messages: &[Message], _: &TemplateOptions) -> dspark_protocol::Result<String> {
        Ok(messages.iter().map(|message| format!("{}\n", message.content)).collect())
    }

    fn decode(&self, _: &[u32]) -> String {
        String::new()
    }
}

impl Actor {
    pub fn start(self) -> EngineHandle {
        let (handle, worker) = channel();
        let play = Play {
            actor: self,
            worker,
            now: Snapshot::default(),
        };
        thread::spawn(move || play.run());
        handle
    }
}

struct Play {
    actor: Actor,
    worker: Worker,
    now: Snapshot,
}

impl Play {
    fn run(mut self) {
        self.now.machine = Arc::new(MachineInfo {
            backend: "metal".into(),
            device: "Apple M4 Pro".into(),
            cores: 14,
            ram: 48 << 30,
            mlx_version: "0.32.2".into(),
        });
        let first = self.actor.loaded.then(|| model("Qwen3-8B-8bit", "/models/Qwen3-8B-8bit".into()));
        self.set_model(first);
        while let Some(command) = self.worker.commands.blocking_recv() {
            match command {
                Command::Generate(command) => self.generate(&command),
                Command::Load(load) => {
                    let total = 8_700_000_000;
                    for done in 0..=20 {
                        if load.cancel.is_cancelled() {
                            let _ = load.events.send(LoadEvent::Failed(dspark_protocol::EngineError::Cancelled));
                            break;
                        }
                        let _ = load.events.send(LoadEvent::Stage {
                            stage: LoadStage::Reading,
                            done: total / 20 * done,
                            total,
                        });
                        thread::sleep(Duration::from_millis(60));
                    }
                    if !load.cancel.is_cancelled() {
                        let info = model(&load.request.name, load.request.path.clone());
                        self.set_model(Some(info.clone()));
                        let _ = load.events.send(LoadEvent::Ready(info));
                    }
                }
                Command::Force(force) => {
                    let _ = force.done.send(Ok(dspark_protocol::ForcingReport::default()));
                }
                Command::Unload { done } => {
                    self.set_model(None);
                    let _ = done.send(Ok(()));
                }
                Command::Shutdown => break,
            }
        }
    }

    fn set_model(&mut self, model: Option<Arc<ModelInfo>>) {
        self.worker
            .codec
            .store(model.as_ref().map(|_| Arc::new(Box::new(Quarter) as Box<dyn PromptCodec>)));
        let active = if model.is_some() { 10_100_000_000 } else { 300_000_000 };
        self.now.memory = Memory {
            active,
            cache: 900_000_000,
            peak: active + 1_400_000_000,
            limit: 38_700_000_000,
        };
        let state = if model.is_some() {
            EngineState::Ready
        } else {
            EngineState::NoModel
        };
        self.now.model = model;
        self.publish(state);
    }

    fn publish(&mut self, state: EngineState) {
        self.now.state = state;
        self.now.beat = Instant::now();
        self.worker.snapshot.send_replace(Arc::new(self.now.clone()));
    }

    fn generate(&mut self, command: &GenerateCommand) {
        let send = |event: Event| command.events.blocking_send(event).is_ok();
        let usage = Usage {
            prompt_tokens: 726,
            cached_tokens: 512,
            ..Usage::default()
        };
        self.now.requests = vec![ActiveRequest {
            id: command.id,
            client: command.request.client.clone(),
            prompt_tokens: usage.prompt_tokens,
            generated: 0,
            waiting: false,
        }];
        self.publish(EngineState::Prefilling {
            processed: 512,
            total: 726,
        });
        send(Event::Started {
            prompt_tokens: usage.prompt_tokens,
            cached_tokens: usage.cached_tokens,
        });
        thread::sleep(Duration::from_millis(420));
        send(Event::Prefill {
            processed: 726,
            total: 726,
        });
        let answer = if self.actor.answer.is_empty() {
            super::chats::PLAY.to_owned()
        } else {
            self.actor.answer.clone()
        };
        if self.actor.think {
            for (text, wait) in [(&super::chats::THOUGHT[..60], 1400), (&super::chats::THOUGHT[60..], 0)] {
                let token = |id| TokenInfo {
                    id,
                    text: String::new(),
                    bytes: Vec::new(),
                    source: Source::Target,
                    logprob: None,
                    top: Vec::new(),
                };
                send(Event::Delta(TextDelta {
                    text: text.into(),
                    tokens: (0..47).map(token).collect(),
                }));
                thread::sleep(Duration::from_millis(wait));
            }
        }
        let begin = Instant::now();
        let mut tokens = 0;
        let mut sent = 0;
        let mut finish = FinishReason::Stop { matched: None };
        for word in answer.split_inclusive(' ') {
            if self.actor.pause_at.is_some_and(|at| sent >= at) {
                self.publish(EngineState::Generating { tokens_per_sec: 66.2 });
                while !command.cancel.is_cancelled() {
                    thread::sleep(Duration::from_millis(50));
                }
            }
            if command.cancel.is_cancelled() {
                finish = FinishReason::Cancelled;
                break;
            }
            tokens += 1;
            sent += word.len();
            let token = TokenInfo {
                id: tokens,
                text: word.into(),
                bytes: word.into(),
                source: Source::Target,
                logprob: None,
                top: Vec::new(),
            };
            send(Event::Delta(TextDelta {
                text: word.into(),
                tokens: vec![token],
            }));
            let rate = f64::from(tokens) / begin.elapsed().as_secs_f64().max(1e-3);
            if self.actor.rate > 0.0 {
                self.publish(EngineState::Generating { tokens_per_sec: rate });
                let due = Duration::from_secs_f64(f64::from(tokens) / self.actor.rate);
                thread::sleep(due.saturating_sub(begin.elapsed()));
            }
        }
        let usage = Usage {
            completion_tokens: tokens as usize,
            ..usage
        };
        let timings = Timings {
            queue: 0.0,
            ttft: 0.42,
            prefill: 0.42,
            decode: begin.elapsed().as_secs_f64(),
        };
        self.now.requests.clear();
        self.now.last_decode_rate = Some(timings.decode_rate(&usage));
        send(Event::Finished(Box::new(Summary {
            finish,
            usage,
            timings,
            mode: Mode::Auto,
            effective_mode: Mode::Baseline,
            mode_reason: None,
            accept_len: 1.0,
            target_forwards: tokens as usize,
            speculation: None,
            seed: 7,
            warnings: Vec::new(),
            token_ids: Vec::new(),
        })));
        self.publish(EngineState::Ready);
    }
}

fn model(name: &str, path: PathBuf) -> Arc<ModelInfo> {
    Arc::new(ModelInfo {
        name: name.into(),
        path,
        model_type: "qwen3".into(),
        quantization: "8-bit g64".into(),
        drafter: None,
        mode: Mode::Baseline,
        parameters: 8_200_000_000,
        weight_bytes: 8_700_000_000,
        kv_bytes_per_token: 147_456,
        context_window: 40_960,
        max_context: 40_960,
        has_chat_template: true,
        supports_thinking: true,
        supports_tools: true,
        loaded_at: 0,
        load_seconds: 3.1,
        notes: Vec::new(),
    })
}
