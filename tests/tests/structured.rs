//! Answers held to a schema by the shipped pair, through the engine's own door: a small model that would ramble writes valid
//! JSON, in every mode, and speculation changes nothing but speed.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod common;

use common::folder;
use dspark_engine::{
    EngineOptions,
    model::{FolderLoader, Loaded, ModelLoader},
    protocol::{
        AnswerRule, CallRule, Cap, Constraint, EngineError, EngineHandle, Event, FinishReason, LoadEvent, LoadRequest, LoadStage, Message,
        Mode, Prompt, Request, Result, Sampling, SpeculationOptions, Summary, TemplateOptions, ToolRule, TreeSetting, Verdict,
    },
    start,
    target::{Cache, Logits, Output, Rows, Target},
};
use dspark_grammar::testing::fault;
use mlx_rs::{Array, error::Exception, ops};
use serde_json::{Value, json};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};
use tokio_util::sync::CancellationToken;

const DSPARK: &str = "smollm2-135m-dspark";
const DFLASH: &str = "smollm2-135m-dflash";

fn assets(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../assets/drafters").join(name)
}

fn engine(loader: Box<dyn ModelLoader>, drafter: &str) -> EngineHandle {
    let engine = start(EngineOptions {
        loader,
        ..EngineOptions::default()
    });
    let mut loading = engine
        .load(LoadRequest {
            name: "starter".into(),
            path: folder(),
            drafter: Some(assets(drafter)),
            drafter_required: true,
            ..LoadRequest::default()
        })
        .unwrap();
    while let Some(event) = loading.next_blocking() {
        match event {
            LoadEvent::Stage { .. } => {}
            LoadEvent::Ready(_) => return engine,
            LoadEvent::Failed(error) => panic!("{error}"),
        }
    }
    panic!("the load said nothing");
}

struct Answer {
    text: String,
    ids: Vec<u32>,
    summary: Box<Summary>,
}

fn ask(engine: &EngineHandle, request: Request) -> Result<Answer> {
    let mut generation = engine.submit(request).unwrap();
    let (mut text, mut ids) = (String::new(), Vec::new());
    while let Some(event) = generation.next_blocking() {
        match event {
            Event::Delta(delta) => {
                text.push_str(&delta.text);
                ids.extend(delta.tokens.iter().map(|token| token.id));
            }
            Event::Finished(summary) => return Ok(Answer { text, ids, summary }),
            Event::Failed(error) => return Err(error),
            _ => {}
        }
    }
    panic!("the generation said nothing at its end");
}

fn request(text: &str, constraint: Constraint, mode: Mode, tree: TreeSetting) -> Request {
    Request {
        prompt: Prompt::Chat {
            messages: vec![Message::user(text)],
            options: TemplateOptions::default(),
        },
        mode,
        speculation: Some(SpeculationOptions {
            cap: Cap::Full,
            tree,
            ..SpeculationOptions::default()
        }),
        constraint: Some(Arc::new(constraint)),
        return_token_ids: true,
        ..Request::chat("test", Vec::new(), 220)
    }
}

/// What people ask for, with strings that end: the model is too small to end them by itself.
fn schemas() -> Vec<(&'static str, Value)> {
    let text = |most: usize| json!({"type": "string", "minLength": 1, "maxLength": most});
    vec![
        (
            "Is 7 prime? Write an essay.",
            json!({"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"], "additionalProperties": false}),
        ),
        (
            "Describe the city of Paris.",
            json!({"type": "object", "properties": {"name": text(16), "country": {"enum": ["France", "日本", "Österreich"]}, "population": {"type": "integer", "minimum": 1000, "maximum": 99_999_999},
                   "tags": {"type": "array", "items": text(12), "minItems": 2, "maxItems": 4}}, "required": ["name", "country", "population", "tags"], "additionalProperties": false}),
        ),
        (
            "List two recipes with their steps.",
            json!({"type": "array", "minItems": 2, "maxItems": 2, "items": {"$ref": "#/$defs/recipe"},
                   "$defs": {"recipe": {"type": "object", "properties": {"title": text(20), "steps": {"type": "array", "items": text(24), "minItems": 1, "maxItems": 3}, "minutes": {"type": ["integer", "null"], "maximum": 600}},
                             "required": ["title", "steps", "minutes"], "additionalProperties": false}}}),
        ),
        (
            "Give me a shape: a circle or a square.",
            json!({"anyOf": [{"type": "object", "properties": {"kind": {"const": "circle"}, "radius": {"type": "number", "exclusiveMinimum": 0, "maximum": 100}}, "required": ["kind", "radius"], "additionalProperties": false},
                             {"type": "object", "properties": {"kind": {"const": "square"}, "side": {"type": "integer", "multipleOf": 5, "minimum": 5, "maximum": 50}}, "required": ["kind", "side"], "additionalProperties": false}]}),
        ),
        (
            "When was the moon landing? Answer with a date and a code.",
            json!({"type": "object", "properties": {"date": {"type": "string", "format": "date"}, "code": {"type": "string", "pattern": "^[A-Z]{3}-[0-9]{2}$"}}, "required": ["date", "code"], "additionalProperties": false}),
        ),
        (
            "Draw a small family tree.",
            json!({"type": "object", "properties": {"root": {"$ref": "#/$defs/node"}}, "required": ["root"], "additionalProperties": false,
                   "$defs": {"node": {"type": "object", "properties": {"name": text(10), "born": {"type": "integer", "minimum": 1900, "maximum": 1999}, "children": {"type": "array", "maxItems": 2, "items": {"$ref": "#/$defs/leaf"}}}, "required": ["name", "born", "children"], "additionalProperties": false},
                             "leaf": {"type": "object", "properties": {"name": text(10)}, "required": ["name"], "additionalProperties": false}}}),
        ),
    ]
}

/// Values of any kind, whose text need not end: what may follow depends most on how the text was read so far.
fn open_schemas() -> Vec<(&'static str, Value)> {
    let of = |value: Value| json!({"type": "object", "properties": {"a": value}, "required": ["a"]});
    vec![
        ("List the planets with their moons", of(json!({}))),
        ("Is 7 prime? Write an essay.", of(json!({"type": ["number", "array", "object"]}))),
        ("Draw a small family tree.", json!({"type": "object"})),
    ]
}

fn valid(answer: &Answer, schema: &Value) {
    assert_eq!(answer.summary.finish, FinishReason::Stop { matched: None }, "{}", answer.text);
    let value: Value = serde_json::from_str(&answer.text).unwrap_or_else(|error| panic!("{error}: {}", answer.text));
    assert_eq!(fault(&value, schema, schema), None, "{}", answer.text);
}

/// Every mode writes what plain decoding under the same masks writes, and each token is the masked target's best.
fn check(drafter: &str, modes: &[(Mode, TreeSetting)]) {
    let engine = engine(Box::new(FolderLoader), drafter);
    let closed = schemas().into_iter().map(|(text, schema)| (text, schema, true));
    for (text, schema, ends) in closed.chain(open_schemas().into_iter().map(|(text, schema)| (text, schema, false))) {
        let valid = |answer: &Answer| {
            if ends {
                valid(answer, &schema);
            }
        };
        let of = |mode, tree| {
            let mut request = request(text, Constraint::schema(schema.clone()), mode, tree);
            request.max_tokens = if ends { request.max_tokens } else { 48 };
            ask(&engine, request).unwrap()
        };
        let plain = of(Mode::Baseline, TreeSetting::Off);
        valid(&plain);
        println!("{}", plain.text);
        let codec = engine.codec().unwrap();
        let prompt = codec
            .encode(&request(text, Constraint::object(), Mode::Auto, TreeSetting::Off).prompt)
            .unwrap();
        for &(mode, tree) in modes {
            let answer = of(mode, tree);
            valid(&answer);
            assert_eq!(answer.summary.effective_mode, mode);
            assert_eq!(answer.summary.warnings, [""; 0]);
            let told = answer.summary.speculation.as_ref().unwrap();
            println!(
                "  {mode:?} {tree:?}: {:.2} tokens a round, {} of {} drafts accepted",
                answer.summary.accept_len, told.stats.accepted, told.stats.drafted
            );
            let held = Some(Arc::new(Constraint::schema(schema.clone())));
            let report = engine.force_held(prompt.clone(), answer.ids.clone(), held).unwrap();
            let report = report.blocking_recv().unwrap().unwrap();
            assert_ne!(report.verdict(), Verdict::Defect, "{mode:?} {text}: {:?}", report.divergences);
            if report.divergences.is_empty() {
                assert_eq!(answer.ids, plain.ids, "{mode:?} {tree:?}");
            }
        }
    }
}

#[test]
fn dspark_chains_and_trees_follow_schemas() {
    check(DSPARK, &[(Mode::Dspark, TreeSetting::Off), (Mode::Dspark, TreeSetting::On)]);
}

#[test]
fn dflash_and_lookup_follow_schemas() {
    check(DFLASH, &[(Mode::Dflash, TreeSetting::Off), (Mode::Lookup, TreeSetting::Off)]);
}

/// Sampled, with every option: valid always, and the same text as plain decoding where nothing is drawn by the drafter.
#[test]
fn sampled_answers_follow_schemas() {
    let engine = engine(Box::new(FolderLoader), DSPARK);
    let hot = Sampling {
        temperature: 1.0,
        seed: Some(5),
        ..Sampling::default()
    };
    let shaped = Sampling {
        top_p: 0.9,
        top_k: 30,
        min_p: 0.02,
        repetition_penalty: 1.1,
        presence_penalty: 0.2,
        logit_bias: [(28, -2.0)].into(),
        ..hot.clone()
    };
    let penalized = Sampling {
        temperature: 0.0,
        ..shaped.clone()
    };
    for (number, (text, schema)) in schemas().into_iter().enumerate() {
        for (sampling, logprobs) in [(&hot, None), (&shaped, Some(2)), (&penalized, Some(0))] {
            // Not every pair of a schema and an option: they are independent.
            if sampling != &hot && number % 2 == 1 {
                continue;
            }
            let of = |mode, tree| {
                let request = Request {
                    sampling: sampling.clone(),
                    logprobs,
                    ..request(text, Constraint::schema(schema.clone()), mode, tree)
                };
                ask(&engine, request).unwrap()
            };
            let plain = of(Mode::Baseline, TreeSetting::Off);
            valid(&plain, &schema);
            let lookup = of(Mode::Lookup, TreeSetting::Off);
            assert_eq!(lookup.text, plain.text, "{sampling:?}");
            let drafted = of(Mode::Dspark, TreeSetting::On);
            valid(&drafted, &schema);
            if sampling.temperature == 0.0 {
                assert_eq!(drafted.text, plain.text);
            }
        }
    }
}

/// `max_tokens` stays exact, an answer that is complete ends at once, and what cannot be is refused.
#[test]
fn bounds_ends_and_refusals() {
    let engine = engine(Box::new(FolderLoader), DSPARK);
    let (text, schema) = schemas().swap_remove(1);
    let whole = ask(
        &engine,
        request(text, Constraint::schema(schema.clone()), Mode::Dspark, TreeSetting::Off),
    )
    .unwrap();
    for most in [1, 2, 7, 20] {
        let short = Request {
            max_tokens: most,
            ..request(text, Constraint::schema(schema.clone()), Mode::Dspark, TreeSetting::Off)
        };
        let short = ask(&engine, short).unwrap();
        assert_eq!(short.ids, whole.ids[..most]);
        assert_eq!(short.summary.finish, FinishReason::Length);
    }
    // As many tokens as it takes are enough to be complete.
    let exact = Request {
        max_tokens: whole.ids.len(),
        ..request(text, Constraint::schema(schema), Mode::Dspark, TreeSetting::Off)
    };
    assert_eq!(ask(&engine, exact).unwrap().summary.finish, FinishReason::Stop { matched: None });
    let refused = |constraint| match ask(&engine, request(text, constraint, Mode::Auto, TreeSetting::Off)) {
        Err(EngineError::BadRequest(text)) => text,
        other => panic!("{:?}", other.map(|answer| answer.text)),
    };
    let said = refused(Constraint::schema(
        json!({"type": "object", "properties": {"a": {"type": "strnig"}}}),
    ));
    assert!(said.contains("`/properties/a/type`"), "{said}");
    assert!(refused(Constraint::schema(json!(false))).contains("no JSON value can follow"));
    let loose = json!({"type": "object", "properties": {"a": {"type": "integer", "maximum": 9}}, "required": ["a"], "additionalProperties": false, "not": {"required": ["b"]}});
    let told = ask(
        &engine,
        request(text, Constraint::schema(loose.clone()), Mode::Auto, TreeSetting::Off),
    )
    .unwrap();
    assert!(
        told.summary.warnings.iter().any(|warning| warning.contains("`/not`")),
        "{:?}",
        told.summary.warnings
    );
}

/// A call that is demanded comes, from a model whose template knows no tools.
#[test]
fn demanded_calls_come() {
    let engine = engine(Box::new(FolderLoader), DSPARK);
    let parameters = json!({"type": "object", "properties": {"city": {"type": "string", "minLength": 1, "maxLength": 12}, "unit": {"enum": ["C", "F"]}}, "required": ["city", "unit"], "additionalProperties": false});
    let constraint = Constraint {
        answer: AnswerRule::Call,
        calls: Some(CallRule {
            tools: vec![ToolRule {
                name: "get_weather".into(),
                parameters: parameters.clone(),
            }],
            many: false,
        }),
    };
    for (mode, tree) in [
        (Mode::Baseline, TreeSetting::Off),
        (Mode::Dspark, TreeSetting::On),
        (Mode::Lookup, TreeSetting::Off),
    ] {
        let answer = ask(&engine, request("What is the weather in Paris?", constraint.clone(), mode, tree)).unwrap();
        let body = answer
            .text
            .trim()
            .strip_prefix("<tool_call>")
            .unwrap()
            .strip_suffix("</tool_call>")
            .unwrap();
        let call: Value = serde_json::from_str(body).unwrap();
        assert_eq!(call["name"], "get_weather");
        assert_eq!(fault(&call["arguments"], &parameters, &parameters), None, "{body}");
    }
}

/// A target whose verifies of several rows are wrong.
struct Planted(Box<dyn Target>);

impl Target for Planted {
    fn vocab(&self) -> usize {
        self.0.vocab()
    }
    fn max_context(&self) -> usize {
        self.0.max_context()
    }
    fn layers(&self) -> usize {
        self.0.layers()
    }
    fn new_cache(&self) -> Box<dyn Cache> {
        self.0.new_cache()
    }
    fn ends(&self) -> Option<dspark_engine::drafters::Ends> {
        self.0.ends()
    }
    fn forward(&self, rows: &Rows<'_>, cache: &mut dyn Cache) -> std::result::Result<Output, Exception> {
        let mut output = self.0.forward(rows, cache)?;
        if rows.logits == Logits::All && rows.tokens.dim(1) >= 3 {
            // Every second token id is pushed: other choices, which the masks still bound.
            let logits = output.logits.take().unwrap();
            let vocab = logits.dim(-1);
            let push: Vec<f32> = (0..vocab).map(|id| if id % 2 == 0 { 6.0 } else { 0.0 }).collect();
            output.logits = Some(ops::add(&logits, Array::from_slice(&push, &[1, 1, vocab]))?);
        }
        Ok(output)
    }
}

struct PlantedLoader;

impl ModelLoader for PlantedLoader {
    fn load(&mut self, request: &LoadRequest, report: &mut dyn FnMut(LoadStage, u64, u64), cancel: &CancellationToken) -> Result<Loaded> {
        let loaded = FolderLoader.load(request, report, cancel)?;
        Ok(Loaded {
            target: Box::new(Planted(loaded.target)),
            ..loaded
        })
    }
}

/// The proof by feeding the text again finds a defect that valid JSON would hide.
#[test]
fn a_planted_defect_is_found_under_masks() {
    let engine = engine(Box::new(PlantedLoader), DSPARK);
    let found = schemas().into_iter().skip(1).take(3).any(|(text, schema)| {
        let held = Constraint::schema(schema.clone());
        let answer = ask(&engine, request(text, held.clone(), Mode::Dspark, TreeSetting::Off)).unwrap();
        valid(&answer, &schema);
        let codec = engine.codec().unwrap();
        let prompt = codec
            .encode(&request(text, held.clone(), Mode::Auto, TreeSetting::Off).prompt)
            .unwrap();
        let report = engine.force_held(prompt, answer.ids, Some(Arc::new(held))).unwrap();
        report.blocking_recv().unwrap().unwrap().verdict() == Verdict::Defect
    });
    assert!(found);
}
