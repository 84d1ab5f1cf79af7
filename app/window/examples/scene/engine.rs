use dspark_protocol::{
    ActiveRequest, CapOrigin, Command, Curves, DrafterInfo, EngineHandle, EngineState, Event, FinishReason, GenerateCommand, LoadEvent,
    LoadStage, MachineInfo, Memory, Message, Mode, ModelInfo, Prompt, PromptCodec, RoundRecord, RoundStats, Snapshot, Source,
    SpeculationState, SpeculationSummary, Summary, TemplateOptions, TextDelta, Timings, TokenInfo, Usage, Worker, channel,
    double::speculation::{Rounds, parked, plain, rates, record},
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
    pub pair: Pair,
    /// A load stays in the calibration until it is cancelled, for a picture.
    pub calibrates: bool,
    /// Rounds of earlier replies that are in the ring already.
    pub past: usize,
}

/// How the model speculates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pair {
    Drafting,
    Parked,
    Plain,
    /// A drafter that nobody has measured yet.
    Unmeasured,
}

impl Default for Actor {
    fn default() -> Self {
        Self {
            loaded: true,
            answer: String::new(),
            pause_at: None,
            think: false,
            rate: 66.2,
            pair: Pair::Drafting,
            calibrates: false,
            past: 0,
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
            seq: 0,
        };
        thread::spawn(move || play.run());
        handle
    }
}

struct Play {
    actor: Actor,
    worker: Worker,
    now: Snapshot,
    seq: u64,
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
        self.remember();
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
                    if self.actor.calibrates {
                        let _ = load.events.send(LoadEvent::Stage {
                            stage: LoadStage::Calibrating,
                            done: 0,
                            total: 0,
                        });
                        while !load.cancel.is_cancelled() {
                            thread::sleep(Duration::from_millis(20));
                        }
                        let _ = load.events.send(LoadEvent::Failed(dspark_protocol::EngineError::Cancelled));
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
                Command::Bandwidth { done } => {
                    let _ = done.send(Ok(dspark_protocol::Bandwidth {
                        gigabytes_per_second: 226.0,
                        bytes: 512 << 20,
                        samples: 10,
                        method: "512 MiB matvec, median of 10".into(),
                    }));
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
        self.now.speculation = model.as_ref().map(|_| Arc::new(self.actor.pair.state()));
        self.now.context_tokens = if model.is_some() { 1184 } else { 0 };
        self.now.model = model.map(|model| {
            Arc::new(ModelInfo {
                drafter: self
                    .now
                    .speculation
                    .as_ref()
                    .and_then(|state| state.drafter.as_ref())
                    .map(|drafter| drafter.name.clone()),
                mode: self.actor.pair.state().mode,
                ..(*model).clone()
            })
        });
        self.publish(state);
    }

    fn write(&mut self, round: RoundRecord) {
        self.seq += 1;
        self.worker.rounds.push(RoundRecord { seq: self.seq, ..round });
    }

    /// Rounds of two replies from before, a few seconds apart.
    fn remember(&mut self) {
        let state = self.actor.pair.state();
        let mut t_ms = 0.0;
        for (request, part) in [(900, self.actor.past * 2 / 5), (901, self.actor.past * 3 / 5)] {
            for (index, round) in Rounds::new(&state).skip(request % 7).take(part).enumerate() {
                let written = record(&state, round, round.accepted + 1);
                // The machine is not a clockwork.
                let ms = written.ms * (1.0 + 0.06 * (index as f32 * 0.7).sin());
                t_ms += f64::from(ms);
                self.write(RoundRecord {
                    request: request as u64,
                    index: index as u32,
                    t_ms,
                    ms,
                    ..written
                });
            }
            t_ms += 1400.0;
        }
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
                // All of the text on the first token: where it came from is told by bytes.
                let token = |id| TokenInfo {
                    id,
                    text: String::new(),
                    bytes: if id == 0 { text.into() } else { Vec::new() },
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
        let asked_plain = command.request.mode == Mode::Baseline;
        let state = if asked_plain { plain() } else { self.actor.pair.state() };
        // What drafts are worth on this machine.
        let speed = if asked_plain { self.actor.rate / 2.6 } else { self.actor.rate };
        let mut rounds = Rounds::new(&state);
        let mut stats = RoundStats::default();
        let mut words = answer.split_inclusive(' ').peekable();
        let (mut tokens, mut sent) = (0u32, 0);
        let mut finish = FinishReason::Stop { matched: None };
        while let (Some(_), Some(round)) = (words.peek(), rounds.next()) {
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
            let mut delta = TextDelta::default();
            let left = command.request.max_tokens.saturating_sub(tokens as usize);
            if left == 0 {
                finish = FinishReason::Length;
                break;
            }
            for source in round.sources().take(left) {
                let Some(word) = words.next() else { break };
                tokens += 1;
                sent += word.len();
                delta.text.push_str(word);
                delta.tokens.push(TokenInfo {
                    id: tokens,
                    text: word.into(),
                    bytes: word.into(),
                    source,
                    logprob: None,
                    top: Vec::new(),
                });
            }
            let written = record(&state, round, delta.tokens.len());
            stats.add(&written);
            self.write(RoundRecord {
                request: command.id,
                index: stats.rounds as u32 - 1,
                t_ms: self.now.started.elapsed().as_secs_f64() * 1e3,
                ..written
            });
            send(Event::Delta(delta));
            let rate = f64::from(tokens) / begin.elapsed().as_secs_f64().max(1e-3);
            if self.actor.rate > 0.0 {
                self.now.context_tokens = 726 + tokens as usize;
                self.publish(EngineState::Generating { tokens_per_sec: rate });
                let due = Duration::from_secs_f64(f64::from(tokens) / speed);
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
            effective_mode: state.mode,
            mode_reason: state.reason.clone(),
            accept_len: stats.mean_accept_len(),
            target_forwards: stats.rounds,
            speculation: (state.mode != Mode::Baseline).then(|| {
                Box::new(SpeculationSummary {
                    cap: state.cap,
                    multiple: Some(2.41),
                    stats: stats.clone(),
                    ..SpeculationSummary::default()
                })
            }),
            seed: Some(7),
            warnings: Vec::new(),
            token_ids: if command.request.return_token_ids {
                (1..=tokens).collect()
            } else {
                Vec::new()
            },
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

impl Pair {
    pub fn state(self) -> SpeculationState {
        let from = |first: usize, values: &[f64]| values.iter().enumerate().map(|(i, ms)| (i + first, *ms)).collect();
        let mut curves = Curves {
            verify: from(1, &[38.6, 39.2, 39.9, 40.8, 42.0, 50.6, 55.9, 60.2]),
            drafter: from(1, &[2.6, 2.8, 2.9, 3.1, 3.4, 3.6, 3.9]),
            ..Curves::default()
        };
        curves.slope = [(1, 0.000_18), (8, 0.000_28)].into();
        (curves.overhead, curves.context, curves.measured_at) = (0.6, 512, 1_795_874_520);
        let drafting = SpeculationState {
            mode: Mode::Dspark,
            reason: None,
            drafter: Some(DrafterInfo {
                name: "Qwen3-8B-DSpark".into(),
                path: "/models/Qwen3-8B-DSpark".into(),
                kind: "dspark".into(),
                weight_bytes: 780_000_000,
                max_draft: 7,
            }),
            lookup: true,
            cap: 4,
            cap_origin: CapOrigin::Derived,
            tree: "off".into(),
            acceptance: 0.70,
            rounds: 96,
            predicted: rates(&curves, 0.70),
            curves: Some(curves),
        };
        match self {
            Self::Drafting => drafting,
            Self::Parked => SpeculationState {
                cap: 0,
                cap_origin: CapOrigin::Auto,
                acceptance: 0.06,
                reason: parked().reason,
                predicted: drafting.curves.as_ref().map(|curves| rates(curves, 0.06)).unwrap_or_default(),
                ..drafting
            },
            Self::Plain => plain(),
            Self::Unmeasured => SpeculationState {
                curves: None,
                predicted: std::collections::BTreeMap::default(),
                ..drafting
            },
        }
    }
}
