//! The starter's tokenizer against what transformers made of the same texts (`scripts/starter_golden.py`).
//!
//! The starter is fetched where it is not installed yet.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod support;

use dspark_hub::{Hub, Job};
use dspark_protocol::{Message, TemplateOptions};
use dspark_text::{StopScanner, Tokenizer};
use serde_json::Value;
use std::{fs, time::Instant};

#[test]
fn the_starter_reads_and_writes_as_transformers_does() {
    let starter = dspark_hub::block_on(Hub::from_env().starter(&Job::silent())).unwrap();
    let folder = starter.expect("this test needs the starter model").path;
    let start = Instant::now();
    let tokenizer = Tokenizer::load(&folder).unwrap();
    eprintln!("loaded in {:?}", start.elapsed());
    let golden: Value = serde_json::from_str(&fs::read_to_string(support::data("starter.json")).unwrap()).unwrap();
    let ids = |value: &Value| -> Vec<u32> { serde_json::from_value(value.clone()).unwrap() };
    for case in golden["texts"].as_array().unwrap() {
        let text = case["text"].as_str().unwrap();
        assert_eq!(tokenizer.encode_text(text).unwrap(), ids(&case["ids"]), "{text:?}");
        assert_eq!(tokenizer.decode(&ids(&case["ids"])), text);
        let mut detokenizer = tokenizer.detokenizer();
        let kept: Vec<u32> = ids(&case["ids"])
            .into_iter()
            .filter(|id| !tokenizer.eos_ids().contains(id))
            .collect();
        let streamed: String = kept.iter().map(|id| detokenizer.push(*id)).collect();
        assert_eq!(streamed + &detokenizer.finish(), tokenizer.decode(&kept));
    }
    for case in golden["chats"].as_array().unwrap() {
        let messages: Vec<Message> = serde_json::from_value(case["messages"].clone()).unwrap();
        let prompt = tokenizer.chat_prompt(&messages, &TemplateOptions::default()).unwrap();
        assert_eq!(prompt.text, case["text"].as_str().unwrap());
        assert_eq!(prompt.ids, ids(&case["ids"]));
    }
    assert_eq!(tokenizer.eos_ids(), [2]);
    assert_eq!((tokenizer.vocab_size(), tokenizer.bos_id()), (49152, None));
    let bytes: Vec<u8> = (0..tokenizer.vocab_size() as u32)
        .flat_map(|id| tokenizer.token_bytes(id))
        .collect();
    assert!(bytes.len() > 49152);

    let long = "The quick brown fox, über 2 Zäune; 你好!\n".repeat(4000);
    let start = Instant::now();
    let prompt = tokenizer
        .chat_prompt(&[Message::user(long.clone())], &TemplateOptions::default())
        .unwrap();
    let took = start.elapsed();
    eprintln!(
        "{} tokens, {} KiB in {took:?}: {:.0} ns a token",
        prompt.ids.len(),
        long.len() >> 10,
        took.as_nanos() as f64 / prompt.ids.len() as f64
    );
    let start = Instant::now();
    let (mut detokenizer, mut scanner) = (tokenizer.detokenizer(), StopScanner::new(["<stop>", "\n\nUser:"]));
    let text: String = prompt.ids.iter().map(|id| scanner.push(&detokenizer.push(*id)).text).collect();
    eprintln!(
        "detokenized {} bytes: {:.0} ns a token",
        text.len(),
        start.elapsed().as_nanos() as f64 / prompt.ids.len() as f64
    );
}
