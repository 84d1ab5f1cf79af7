//! `POST /admin/race`: the same prompt through two to four ways of decoding, one after another, as server-sent events; then
//! whether they said the same, and where they did not, by how much. Source: `spec/http-api.md` §13.10.

use super::body;
use crate::{
    App,
    dialect::{
        Dialect, effort,
        fields::{Fields, integer, wrong},
    },
    error::ApiError,
    generate::{Asker, Running},
    receipt::Receipt,
    sse::named,
};
use axum::{
    Extension,
    body::Body,
    extract::{Request, State},
    http::header,
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use dspark_compare::{Arm, Verdict, judge, rounded};
use dspark_protocol::{Cap, EngineError, Event, Message, Mode, Prompt, SpeculationOptions, Summary, TemplateOptions, TreeSetting};
use futures_util::stream;
use serde_json::{Value, json};
use std::{convert::Infallible, time::Instant};
use tokio::sync::mpsc;

const ARMS: std::ops::RangeInclusive<usize> = 2..=4;
const CAPS: std::ops::RangeInclusive<i64> = 1..=64;
const MAX_TOKENS: usize = 200;
/// Events that a reader may lag behind before the race waits for it.
const LAG: usize = 256;

/// What was asked for.
#[derive(Debug, Clone, PartialEq)]
struct Race {
    prompt: Vec<Message>,
    options: TemplateOptions,
    arms: Vec<Arm>,
    max_tokens: usize,
}

/// As the request names it: whatever it does not say follows the pair.
fn arm_of(mode: Mode, cap: Cap, confidence: f32) -> Arm {
    Arm {
        mode,
        options: Some(SpeculationOptions {
            cap,
            confidence,
            tree: TreeSetting::Auto,
            lookup: None,
        }),
    }
}

fn usual(mode: Mode) -> Arm {
    arm_of(mode, Cap::Derived, 0.0)
}

fn cap(arm: Arm) -> Value {
    match arm.options.map(|options| options.cap) {
        Some(Cap::Fixed(cap)) => json!(cap),
        Some(Cap::Auto) => json!("auto"),
        Some(Cap::Derived | Cap::Full) | None => Value::Null,
    }
}

/// # Errors
/// A 400 naming the field.
fn parse(value: &Value, loaded: Mode) -> Result<Race, ApiError> {
    let map = value
        .as_object()
        .ok_or_else(|| ApiError::bad_body("the body must be a JSON object with `prompt`"))?;
    let mut fields = Fields::new(map);
    let prompt = fields.text("prompt")?.filter(|prompt| !prompt.is_empty());
    let prompt = prompt.ok_or_else(|| ApiError::invalid("prompt", "`prompt` is required: the text that every arm answers"))?;
    let arms = match fields.array("arms")? {
        None => match loaded {
            Mode::Baseline => vec![usual(Mode::Lookup), usual(Mode::Baseline)],
            mode => vec![usual(mode), usual(Mode::Baseline)],
        },
        Some(arms) => arms.iter().map(arm).collect::<Result<_, _>>()?,
    };
    if !ARMS.contains(&arms.len()) {
        return Err(ApiError::invalid(
            "arms",
            format!("`arms` has {} ways to decode: name two to four", arms.len()),
        ));
    }
    let max_tokens = match fields.get("max_tokens") {
        None => MAX_TOKENS,
        Some(value) => value
            .is_number()
            .then(|| integer(value))
            .flatten()
            .filter(|count| *count >= 1)
            .ok_or_else(|| wrong("max_tokens", "a whole number of at least 1", value))? as usize,
    };
    let level = match fields.text("reasoning_effort")? {
        None => None,
        Some(word) => Some((
            word.to_lowercase(),
            effort::parse(word).ok_or_else(|| ApiError::invalid("reasoning_effort", "`reasoning_effort` is unknown"))?,
        )),
    };
    let off = level.as_ref().is_some_and(|(_, level)| *level == effort::Effort::Off);
    Ok(Race {
        prompt: vec![Message::user(prompt)],
        options: TemplateOptions {
            enable_thinking: fields.bool("thinking")?.or(off.then_some(false)),
            reasoning_effort: level.map(|(word, _)| word).filter(|_| !off),
            ..TemplateOptions::default()
        },
        arms,
        max_tokens,
    })
}

fn arm(value: &Value) -> Result<Arm, ApiError> {
    let mode = |word: &Value| {
        serde_json::from_value::<Mode>(word.clone()).map_err(|_| {
            wrong(
                "arms",
                "`auto`, `dspark`, `dflash`, `lookup` or `baseline`, or an object with `mode`",
                word,
            )
        })
    };
    let Some(map) = value.as_object() else {
        return mode(value).map(usual);
    };
    let mode = mode(map.get("mode").unwrap_or(&Value::Null))?;
    let cap = match map.get("cap").filter(|cap| !cap.is_null()) {
        None => Cap::Derived,
        Some(Value::String(word)) if word == "auto" => Cap::Auto,
        Some(value) => match value.is_number().then(|| integer(value)).flatten() {
            Some(cap) if CAPS.contains(&cap) => Cap::Fixed(cap as usize),
            _ => return Err(wrong("arms.cap", "a whole number from 1 to 64, or `auto`", value)),
        },
    };
    let confidence = match map.get("confidence").filter(|confidence| !confidence.is_null()) {
        None => 0.0,
        Some(value) => value
            .as_f64()
            .filter(|confidence| (0.0..=1.0).contains(confidence))
            .ok_or_else(|| wrong("arms.confidence", "a number from 0 to 1", value))? as f32,
    };
    if confidence > 0.0 && mode != Mode::Dspark {
        return Err(ApiError::invalid(
            "arms.confidence",
            format!(
                "`confidence` cuts the drafts of mode `dspark`; mode `{}` has no such estimate",
                mode.name()
            ),
        ));
    }
    Ok(arm_of(mode, cap, confidence))
}

pub(crate) async fn race(State(app): State<App>, Extension(asker): Extension<Asker>, request: Request) -> Result<Response, ApiError> {
    let model = app.ready(&app.engine.snapshot())?;
    let mut race = parse(&body::json(&app, request).await?, model.mode)?;
    race.max_tokens = race.max_tokens.min(app.config.max_tokens_cap);
    if race.options.enable_thinking.is_none() {
        race.options.enable_thinking = app.enable_thinking();
    }
    let prompt = Prompt::Chat {
        messages: race.prompt.clone(),
        options: race.options.clone(),
    };
    // What is wrong with the prompt is a status code, as elsewhere.
    let codec = app.engine.codec()?;
    let ids = tokio::task::spawn_blocking(move || codec.encode(&prompt))
        .await
        .unwrap_or(Err(EngineError::Stopped))?;
    let (sender, receiver) = mpsc::channel(LAG);
    let name = model.name.clone();
    tokio::spawn(async move {
        let mut track = Track { app, asker, sender };
        // A reader that has left ends it: there is nobody to tell.
        let _ = track.run(&race, &ids, &name).await;
    });
    let body = stream::unfold(receiver, |mut receiver: mpsc::Receiver<Bytes>| async {
        let frame = receiver.recv().await?;
        Some((Ok::<Bytes, Infallible>(frame), receiver))
    });
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-cache"),
        (header::HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    Ok((headers, Body::from_stream(body)).into_response())
}

/// The reader has left.
struct Gone;

struct Track {
    app: App,
    asker: Asker,
    sender: mpsc::Sender<Bytes>,
}

/// One arm's run.
struct Ran {
    label: String,
    ids: Vec<u32>,
}

impl Track {
    async fn tell(&self, name: &str, event: &Value) -> Result<(), Gone> {
        let mut frame = String::new();
        named(&mut frame, name, event);
        self.sender.send(frame.into()).await.map_err(|_| Gone)
    }

    async fn run(&mut self, race: &Race, prompt: &[u32], model: &str) -> Result<(), Gone> {
        let mut start = json!({
            "arms": race.arms.iter().map(Arm::name).collect::<Vec<_>>(),
            "max_tokens": race.max_tokens,
            "model": model,
        });
        if let Some(thinking) = race.options.enable_thinking {
            start["thinking"] = json!(thinking);
        }
        if let Some(effort) = &race.options.reasoning_effort {
            start["reasoning_effort"] = json!(effort);
        }
        self.tell("start", &start).await?;
        let mut ran = Vec::new();
        for (index, arm) in race.arms.iter().enumerate() {
            let confidence = arm.options.map_or(0.0, |options| options.confidence);
            let about = json!({"index": index, "mode": arm.mode, "cap": cap(*arm), "confidence": confidence, "label": arm.name()});
            self.tell("arm_start", &about).await?;
            match self.arm(index, *arm, prompt, race.max_tokens).await? {
                Ok(ids) => ran.push(Ran { label: arm.name(), ids }),
                Err(error) => return self.fail(&error).await,
            }
        }
        let reference = race.arms.iter().position(|arm| arm.mode == Mode::Baseline).unwrap_or(0);
        match self.judge(&ran, reference, prompt).await {
            Ok(verdict) => self.tell("verdict", &verdict).await?,
            Err(error) => return self.fail(&error).await,
        }
        self.tell("done", &json!({})).await
    }

    async fn fail(&self, error: &ApiError) -> Result<(), Gone> {
        self.tell("error", &Dialect::OpenAi.error(error, &self.asker.request_id)).await?;
        self.tell("done", &json!({})).await
    }

    /// One generation, on an empty cache.
    async fn arm(&mut self, index: usize, arm: Arm, prompt: &[u32], max_tokens: usize) -> Result<Result<Vec<u32>, ApiError>, Gone> {
        let request = arm.request(&self.asker.client, Prompt::Tokens(prompt.to_vec()), max_tokens);
        let started = Running::start(
            &self.app,
            &self.asker,
            "POST /admin/race",
            request,
            None,
            Vec::new(),
            Receipt::default(),
        );
        let mut running = match started {
            Ok(running) => running,
            Err(error) => return Ok(Err(error)),
        };
        let began = Instant::now();
        loop {
            let event = tokio::select! {
                biased;
                () = self.sender.closed() => {
                    running.abandon("client disconnected");
                    return Err(Gone);
                }
                event = running.next() => event,
            };
            match event {
                Ok(Event::Delta(delta)) if !delta.text.is_empty() => {
                    let token = json!({"index": index, "text": delta.text, "t_ms": rounded(began.elapsed().as_secs_f64() * 1e3, 1)});
                    self.tell("token", &token).await?;
                }
                Ok(Event::Finished(summary)) => {
                    self.tell("arm_done", &done(index, arm, &summary)).await?;
                    return Ok(Ok(summary.token_ids));
                }
                Ok(_) => {}
                Err(error) => return Ok(Err(error)),
            }
        }
    }

    /// Compares every arm with the reference.
    async fn judge(&self, ran: &[Ran], reference: usize, prompt: &[u32]) -> Result<Value, ApiError> {
        let own = &ran[reference];
        let mut verdicts = Vec::new();
        for (index, other) in ran.iter().enumerate().filter(|(index, _)| *index != reference) {
            let verdict = judge(&self.app.engine, prompt, &own.ids, &other.ids).await?;
            verdicts.push((index, other.label.as_str(), verdict));
        }
        Ok(told(&own.label, &verdicts))
    }
}

/// What all arms come to, as the clients of the route read it.
fn told(reference: &str, verdicts: &[(usize, &str, Verdict)]) -> Value {
    let differing = verdicts.iter().filter(|(_, _, verdict)| !verdict.is_identical());
    let divergences: Vec<Value> = differing
        .map(|(index, label, verdict)| {
            let mut told = json!({"arm": index, "label": label});
            match verdict {
                Verdict::Identical => {}
                Verdict::Shorter { at } => {
                    told["first_diff"] = json!(at);
                    told["length_only"] = json!(true);
                }
                Verdict::NearTie(at) | Verdict::Differs(at) => {
                    told["first_diff"] = json!(at.at);
                    told["length_only"] = json!(false);
                    told["reference_token"] = json!(at.reference_token);
                    told["arm_token"] = json!(at.token);
                    told["margin"] = json!(at.margin);
                    told["ulps"] = json!(at.ulps);
                    if let Some((plain, arm)) = at.logits {
                        told["logits"] = json!({"plain": plain, "arm": arm});
                    }
                    told["approximate"] = json!(matches!(verdict, Verdict::NearTie(_)));
                }
            }
            told
        })
        .collect();
    let overlap = verdicts.iter().all(|(_, _, verdict)| verdict.difference().is_none());
    let defects = verdicts
        .iter()
        .filter(|(_, _, verdict)| matches!(verdict, Verdict::Differs(_)))
        .count();
    let detail = if divergences.is_empty() {
        "every arm said the same, token by token".to_owned()
    } else if overlap {
        "the arms agree as far as the shorter one goes".to_owned()
    } else if defects == 0 {
        "the arms part where two tokens are as good as tied: the kernels of one row and of several round differently".to_owned()
    } else {
        format!("{defects} of the arms said something that plain decoding would clearly not have said")
    };
    json!({
        "comparable": true,
        "identical": divergences.is_empty(),
        "identical_where_overlapping": overlap,
        "reference": reference,
        "divergences": divergences,
        "detail": detail,
    })
}

fn done(index: usize, arm: Arm, summary: &Summary) -> Value {
    let seconds = summary.timings.prefill + summary.timings.decode;
    json!({
        "index": index,
        "label": arm.name(),
        "mode": arm.mode,
        "effective_mode": summary.effective_mode,
        "mode_reason": summary.mode_reason,
        "cap": summary.speculation.as_ref().map_or_else(|| cap(arm), |told| json!(told.cap)),
        "tokens": summary.usage.completion_tokens,
        "seconds": rounded(seconds, 3),
        "tokens_per_sec": rounded(summary.timings.end_to_end_rate(&summary.usage), 1),
        "decode_tokens_per_sec": rounded(summary.timings.decode_rate(&summary.usage), 1),
        "accept_len": rounded(summary.accept_len, 3),
        "target_forwards": summary.target_forwards,
        "lookup_rounds": summary.speculation.as_ref().map_or(0, |told| told.stats.lookup_rounds),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arms_are_names_or_objects() {
        let race = parse(
            &json!({"prompt": "hi", "arms": ["baseline", {"mode": "dspark", "cap": 4, "confidence": 0.5}, {"mode": "lookup", "cap": "auto"}],
                "max_tokens": 9, "thinking": false, "reasoning_effort": "High"}),
            Mode::Dspark,
        )
        .unwrap();
        let labels: Vec<String> = race.arms.iter().map(Arm::name).collect();
        assert_eq!(labels, ["baseline", "dspark cap 4 from 0.5", "lookup auto"]);
        assert_eq!((race.max_tokens, race.options.enable_thinking), (9, Some(false)));
        assert_eq!(race.options.reasoning_effort.as_deref(), Some("high"));
        let modes = |loaded| {
            parse(&json!({"prompt": "hi"}), loaded)
                .unwrap()
                .arms
                .iter()
                .map(|arm| arm.mode)
                .collect::<Vec<_>>()
        };
        assert_eq!(modes(Mode::Dspark), [Mode::Dspark, Mode::Baseline]);
        assert_eq!(modes(Mode::Baseline), [Mode::Lookup, Mode::Baseline]);
    }

    #[test]
    fn a_difference_is_told_with_its_margin() {
        let at = dspark_compare::Difference {
            at: 37,
            reference_token: 5,
            token: 6,
            reference_text: "a".into(),
            text: "b".into(),
            margin: 0.0625,
            ulps: 1.0,
            logits: Some((20.0, 19.9375)),
        };
        let verdicts = [
            (0, "dspark", Verdict::NearTie(at.clone())),
            (2, "lookup", Verdict::Shorter { at: 3 }),
            (3, "auto", Verdict::Identical),
        ];
        let verdict = told("baseline", &verdicts);
        let first = &verdict["divergences"][0];
        assert_eq!((&first["first_diff"], &first["ulps"]), (&json!(37), &json!(1.0)));
        assert_eq!((&first["approximate"], &first["arm_token"]), (&json!(true), &json!(6)));
        assert_eq!(
            (&verdict["identical"], &verdict["identical_where_overlapping"]),
            (&json!(false), &json!(false))
        );
        assert_eq!(verdict["divergences"].as_array().unwrap().len(), 2);
        assert!(verdict["detail"].as_str().unwrap().contains("as good as tied"));
        let clear = told("baseline", &[(0, "dspark", Verdict::Differs(at))]);
        assert!(clear["detail"].as_str().unwrap().starts_with("1 of the arms"));
    }

    #[test]
    fn mistakes_are_named() {
        for (body, param) in [
            (json!({}), "prompt"),
            (json!({"prompt": ""}), "prompt"),
            (json!({"prompt": "x", "arms": ["baseline"]}), "arms"),
            (json!({"prompt": "x", "arms": ["a", "b"]}), "arms"),
            (json!({"prompt": "x", "arms": [1, 2]}), "arms"),
            (json!({"prompt": "x", "arms": vec!["baseline"; 5]}), "arms"),
            (json!({"prompt": "x", "arms": ["auto", {"mode": "dspark", "cap": 65}]}), "arms.cap"),
            (
                json!({"prompt": "x", "arms": ["auto", {"mode": "dspark", "cap": true}]}),
                "arms.cap",
            ),
            (
                json!({"prompt": "x", "arms": ["auto", {"mode": "dspark", "confidence": 2}]}),
                "arms.confidence",
            ),
            (
                json!({"prompt": "x", "arms": ["auto", {"mode": "lookup", "confidence": 0.5}]}),
                "arms.confidence",
            ),
            (json!({"prompt": "x", "max_tokens": 0}), "max_tokens"),
            (json!({"prompt": "x", "reasoning_effort": "very"}), "reasoning_effort"),
        ] {
            let error = parse(&body, Mode::Auto).unwrap_err();
            assert_eq!((error.status.as_u16(), error.param.as_deref()), (400, Some(param)), "{body}");
        }
    }
}
