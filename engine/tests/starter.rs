//! The engine on the starter model: recorded texts, turns of a chat, seeds. It is fetched where it is not installed yet.
#![allow(clippy::unwrap_used)]

#[allow(unused)]
mod toy;

use dspark_engine::{
    EngineOptions,
    hub::{self, Hub, Job},
    protocol::{EngineHandle, FinishReason, LoadEvent, LoadRequest, Message, Prompt, Request, Sampling, TemplateOptions},
    start,
};
use serde_json::Value;
use std::{path::Path, sync::Mutex};
use toy::read;

/// One model at a time: two engines would share the processor and double the memory.
static ALONE: Mutex<()> = Mutex::new(());

/// Below this margin, in logits, another order of summation may turn a choice.
const NEAR_TIE: f64 = 0.02;

fn engine(prefix_slots: usize) -> EngineHandle {
    let starter = hub::block_on(Hub::from_env().starter(&Job::silent())).unwrap().unwrap();
    let engine = start(EngineOptions {
        prefix_slots,
        ..EngineOptions::default()
    });
    let mut loading = engine
        .load(LoadRequest {
            name: "starter".into(),
            path: starter.path,
            warm_up: true,
            ..LoadRequest::default()
        })
        .unwrap();
    loop {
        match loading.next_blocking().unwrap() {
            LoadEvent::Stage { .. } => {}
            LoadEvent::Ready(_) => return engine,
            LoadEvent::Failed(error) => panic!("{error}"),
        }
    }
}

fn chat(messages: Vec<Message>, max_tokens: usize) -> Request {
    Request {
        return_token_ids: true,
        prompt: Prompt::Chat {
            messages,
            options: TemplateOptions::default(),
        },
        ..Request::chat("test", Vec::new(), max_tokens)
    }
}

#[test]
fn greedy_texts_are_the_recorded_ones() {
    let _alone = ALONE.lock();
    let engine = engine(2);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/models/golden-exact.json");
    let golden: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let ids = |value: &Value| -> Vec<u32> { value.as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect() };
    let (mut whole, mut texts) = (0, 0);
    for recorded in golden["prompts"].as_array().unwrap() {
        let expected = ids(&recorded["ids"]);
        let answer = read(engine.submit(toy::request(ids(&recorded["prompt_ids"]), expected.len())).unwrap());
        texts += 1;
        match answer.ids().iter().zip(&expected).position(|(a, b)| a != b) {
            None => whole += 1,
            Some(step) => {
                let margin = recorded["margins"][step].as_f64().unwrap();
                assert!(
                    margin < NEAR_TIE,
                    "{}: differs at {step} by a margin of {margin}",
                    recorded["prompt"]
                );
            }
        }
    }
    assert!(texts >= 3 && whole * 2 > texts, "{whole} of {texts} texts are whole");
    engine.shutdown();
}

#[test]
fn a_chat_answers_reuses_its_turns_and_stops_by_itself() {
    let _alone = ALONE.lock();
    let (warm, cold) = (engine(2), engine(0));
    let first = vec![Message::user("What is the capital of France? Answer in one sentence.")];
    let answer = read(warm.submit(chat(first.clone(), 60)).unwrap());
    assert!(answer.text.contains("Paris"), "{}", answer.text);
    assert_eq!(answer.summary().finish, FinishReason::Stop { matched: None });
    assert!(!answer.text.contains("<|im_end|>"));

    let mut turns = first;
    turns.extend([Message::assistant(answer.text.clone()), Message::user("And of Italy?")]);
    let second = read(warm.submit(chat(turns.clone(), 40)).unwrap());
    let usage = second.summary().usage;
    let before = answer.summary().usage;
    // The end-of-turn token was fed too.
    assert!(
        usage.cached_tokens >= before.prompt_tokens + before.completion_tokens,
        "{usage:?} after {before:?}"
    );
    let alone = read(cold.submit(chat(turns, 40)).unwrap());
    assert_eq!(alone.summary().usage.cached_tokens, 0);
    assert_eq!(second.ids(), alone.ids());
    warm.shutdown();
    cold.shutdown();
}

#[test]
fn sampled_texts_follow_their_seed() {
    let _alone = ALONE.lock();
    let engine = engine(2);
    let ask = |seed| {
        let request = Request {
            sampling: Sampling {
                temperature: 0.8,
                top_p: 0.95,
                top_k: 40,
                min_p: 0.02,
                repetition_penalty: 1.05,
                seed,
                ..Sampling::default()
            },
            ..chat(vec![Message::user("Tell me about a small town by the sea.")], 40)
        };
        read(engine.submit(request).unwrap())
    };
    let (first, second, other) = (ask(Some(7)), ask(Some(7)), ask(Some(8)));
    assert_eq!(first.text, second.text);
    assert_ne!(first.text, other.text);
    assert!(first.text.split_whitespace().count() > 10, "{}", first.text);
    engine.shutdown();
}

/// The window's worth of text takes the starter a while to encode and to compute; twenty times of it is refused unread.
#[test]
fn a_prompt_far_beyond_the_window_is_refused_by_its_length() {
    let _alone = ALONE.lock();
    let engine = engine(2);
    let window = engine.snapshot().model.as_ref().unwrap().context_window;
    let text = "All work and no play. ".repeat(1_000_000);
    let answer = read(engine.submit(chat(vec![Message::user(text.clone())], 4)).unwrap());
    match answer.end {
        Err(dspark_engine::protocol::EngineError::ContextOverflow { prompt, window: told }) => {
            eprintln!("at least {prompt} of {window}");
            assert!(told == window && prompt >= window && prompt < text.len() / 7, "{prompt}");
        }
        other => panic!("{other:?}"),
    }
    engine.shutdown();
}
