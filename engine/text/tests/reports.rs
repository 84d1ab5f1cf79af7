//! One test per case of `data/reports.jsonl`: what went wrong in other servers, with what should happen. The cases
//! that are a template and its variables run beside the template engine (`src/template/parity.rs`).

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod support;

use dspark_protocol::{EngineError, Message, Role, TemplateOptions, ToolCall};
use dspark_text::{StopScanner, Tails, TextError, Tokenizer, normalize};
use serde_json::{Value, json};
use std::{fs, time::Instant};
use support::{FAMILIES, Folder, byte_level, data, family, sentence_pieces, spelled, vocabulary};

fn case(id: &str) -> Value {
    let lines = fs::read_to_string(data("reports.jsonl")).unwrap();
    let cases = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    cases
        .into_iter()
        .find(|case| case["id"] == id)
        .unwrap_or_else(|| panic!("no case {id}"))
}

fn strings(value: &Value) -> Vec<String> {
    value
        .as_array()
        .unwrap()
        .iter()
        .map(|text| text.as_str().unwrap().to_owned())
        .collect()
}

fn messages(value: &Value) -> Vec<Message> {
    let of = |message: &Value| {
        let text = |content: &Value| content.as_str().unwrap_or_default().to_owned();
        let content = match &message["content"] {
            Value::Array(parts) => parts.iter().map(|part| text(&part["text"])).collect(),
            other => text(other),
        };
        let role = match message["role"].as_str().unwrap() {
            "developer" => Role::System,
            role => serde_json::from_value(json!(role)).unwrap(),
        };
        Message {
            role,
            content,
            ..Message::user("")
        }
    };
    value.as_array().unwrap().iter().map(of).collect()
}

fn with_template(source: &str) -> Tokenizer {
    Folder::with("byte").template(source).load()
}

fn template_of(case: &Value) -> Tokenizer {
    with_template(case["given"]["template"].as_str().unwrap())
}

fn plain() -> TemplateOptions {
    TemplateOptions::default()
}

#[test]
fn ct_012_arguments_are_an_object() {
    let case = case("ct-012-arguments-string");
    let call = &case["given"]["openai_history_message"]["tool_calls"][0];
    let mut message = Message::assistant("");
    message.tool_calls.push(ToolCall {
        id: "c1".into(),
        name: call["function"]["name"].as_str().unwrap().into(),
        arguments: serde_json::from_str(call["function"]["arguments"].as_str().unwrap()).unwrap(),
    });
    let text = template_of(&case).render_chat(&[message], &plain()).unwrap();
    assert_eq!(text, case["expect"]["rendered"].as_str().unwrap());
}

#[test]
fn ct_013_content_is_text() {
    let case = case("ct-013-content-parts");
    let text = template_of(&case)
        .render_chat(&messages(&case["given"]["messages"]), &plain())
        .unwrap();
    assert_eq!(text, case["expect"]["rendered"].as_str().unwrap());
}

#[test]
fn ct_014_the_template_speaks_for_itself() {
    let case = case("ct-014-raise-exception");
    let tokenizer = template_of(&case);
    let error = tokenizer.encode_chat(&messages(&case["given"]["messages"]), &plain()).unwrap_err();
    let words = case["expect"]["error_message_contains"].as_str().unwrap();
    assert_eq!(error, TextError::Template(words.to_owned()));
    assert_eq!(EngineError::from(error), EngineError::Template(words.to_owned()));
    assert!(tokenizer.encode_chat(&[Message::user("a")], &plain()).is_ok());
}

#[test]
fn ct_015_the_date_is_local_and_padded() {
    let case = case("ct-015-strftime");
    let folder = Folder::with("byte").template(case["given"]["template"].as_str().unwrap());
    let tokenizer = Tokenizer::load_with_clock(folder.0.path(), || "2026-03-07T23:30:00[Pacific/Auckland]".parse().unwrap()).unwrap();
    assert_eq!(
        tokenizer.render_chat(&[], &plain()).unwrap(),
        case["expect"]["rendered"].as_str().unwrap()
    );
}

#[test]
fn ct_016_a_template_bomb_goes_off_harmlessly() {
    let case = case("ct-016-template-bomb");
    let doubling = "{% set ns = namespace(s='x') %}{% for i in range(60) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}{{ ns.s }}";
    let recursion = "{% macro f(x) %}{{ f(x ~ x) }}{% endmacro %}{{ f('xx') }}";
    let padding = "{% set x %}{% for i in range(100000) %}xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx{% endfor %}{% endset %}{{ x }}{{ x }}";
    let printed = "{% for i in range(90000) %}{{ 'x' * 100 }}{% endfor %}";
    for source in [case["given"]["template"].as_str().unwrap(), doubling, recursion, padding, printed] {
        let tokenizer = with_template(source);
        let start = Instant::now();
        let error = tokenizer.encode_chat(&messages(&case["given"]["messages"]), &plain()).unwrap_err();
        eprintln!("{:?} for {source:.60}", start.elapsed());
        assert!(
            matches!(EngineError::from(error.clone()), EngineError::Template(_)),
            "{source}: {error}"
        );
        assert!(EngineError::from(error).to_string().contains("chat template"));
    }
}

#[test]
fn st_001_to_004_characters_arrive_whole() {
    for id in [
        "st-001-emoji-split",
        "st-002-cjk-three-ways",
        "st-003-invalid-then-space",
        "st-004-space-token-then-rest",
    ] {
        let case = case(id);
        let tokens: Vec<String> = strings(&case["given"]["token_bytes_hex"])
            .iter()
            .map(|hex| {
                let bytes: Vec<u8> = (0..hex.len())
                    .step_by(2)
                    .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap())
                    .collect();
                spelled(&bytes)
            })
            .collect();
        assert_deltas(&case, &vocabulary(&tokens, byte_level()), tokens.len());
    }
}

#[test]
fn st_007_and_008_byte_fallback_pieces_become_characters() {
    for id in ["st-007-spm-byte-fallback", "st-008-spm-cjk-byte-fallback"] {
        let case = case(id);
        let tokens = strings(&case["given"]["tokens"]);
        assert_deltas(&case, &vocabulary(&tokens, sentence_pieces()), tokens.len());
    }
}

fn assert_deltas(case: &Value, tokenizer: &Tokenizer, tokens: usize) {
    let ids: Vec<u32> = (0..tokens as u32).collect();
    let mut detokenizer = tokenizer.detokenizer();
    let deltas: Vec<String> = ids.iter().map(|id| detokenizer.push(*id)).collect();
    assert_eq!(deltas, strings(&case["expect"]["deltas"]), "{}", case["id"]);
    assert_eq!(detokenizer.finish(), "");
    assert_eq!(tokenizer.decode(&ids), case["expect"]["text"].as_str().unwrap());
}

#[test]
fn st_009_a_special_token_in_a_question_is_text() {
    let case = case("st-009-special-token-name-in-text");
    let tokenizer = with_template(
        "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}{{ '<|im_start|>assistant\n' }}",
    );
    let prompt = tokenizer
        .chat_prompt(&[Message::user(case["given"]["user_text"].as_str().unwrap())], &plain())
        .unwrap();
    for (token, name) in [
        ("<|im_start|>", "count_of_id(<|im_start|>)"),
        ("<|im_end|>", "count_of_id(<|im_end|>)"),
    ] {
        let id = tokenizer.token_id(token).unwrap();
        assert_eq!(
            prompt.ids.iter().filter(|found| **found == id).count() as u64,
            case["expect"][name].as_u64().unwrap()
        );
    }
    assert_eq!(tokenizer.decode(&prompt.ids), prompt.text);
}

#[test]
fn ss_stop_strings_hold_back_no_more_than_needed() {
    for id in [
        "ss-001-split",
        "ss-003-minimal-hold",
        "ss-004-tail-release",
        "ss-005-earliest",
        "ss-006-inside-token",
        "ss-007-unicode",
    ] {
        let case = case(id);
        let mut scanner = StopScanner::new(strings(&case["given"]["stop"]));
        let mut deltas = Vec::new();
        for chunk in strings(&case["given"]["chunks"]) {
            deltas.push(scanner.push(&chunk).text);
            if scanner.matched().is_some() {
                break;
            }
        }
        if scanner.matched().is_none() {
            deltas.push(scanner.finish());
        }
        // The case lists an empty delta for what comes after the match or at the end.
        let mut expected = strings(&case["expect"]["deltas"]);
        expected.resize(deltas.len().max(expected.len()), String::new());
        deltas.resize(expected.len(), String::new());
        assert_eq!(deltas, expected, "{id}");
        assert_eq!(deltas.concat(), case["expect"]["text"].as_str().unwrap(), "{id}");
        assert_eq!(
            scanner.matched().is_some(),
            case["expect"]["matched_stop"].as_bool().unwrap(),
            "{id}"
        );
    }
}

#[test]
fn sp_007_a_stop_string_inside_a_block_of_tokens() {
    let case = case("sp-007-stop-inside-block");
    let mut scanner = StopScanner::new(strings(&case["given"]["stop"]));
    let scanned = scanner.push(&strings(&case["given"]["block_texts"]).concat());
    assert_eq!(scanned.text, case["expect"]["text"].as_str().unwrap());
    assert_eq!(scanned.matched.as_deref(), Some("STOP"));
}

#[test]
fn sa_007_every_source_of_end_tokens_counts() {
    let case = case("sa-007-eos-union");
    let tokens: Vec<String> = (0..107).map(|id| if id == 1 { "<eos>".into() } else { format!("t{id}") }).collect();
    let vocab: serde_json::Map<String, Value> = tokens.iter().enumerate().map(|(id, token)| (token.clone(), id.into())).collect();
    let tokenizer = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null, "pre_tokenizer": null,
        "post_processor": null, "decoder": byte_level(), "model": {"type": "WordLevel", "vocab": vocab, "unk_token": "t0"},
    });
    let folder = Folder::new(&tokenizer)
        .json("tokenizer_config.json", &json!({"eos_token": "<eos>"}))
        .json("generation_config.json", &case["given"]["generation_config.json"])
        .json("config.json", &case["given"]["config.json"]);
    assert_eq!(json!(folder.load().eos_ids()), case["expect"]["stop_ids"]);
}

#[test]
fn ag_002_a_late_system_message_stays_in_its_place() {
    let case = case("ag-002-system-role-in-messages");
    let mut conversation = vec![Message::system(case["given"]["body"]["system"].as_str().unwrap())];
    conversation.extend(messages(&case["given"]["body"]["messages"]));
    let text = family("gemma").render_chat(&normalize(&conversation)[..2], &plain()).unwrap();
    let places: Vec<usize> = strings(&case["expect"]["order"])[..3]
        .iter()
        .map(|part| text.find(part.as_str()).unwrap())
        .collect();
    assert!(places.is_sorted(), "{text}");
}

#[test]
fn ag_016_a_developer_is_a_system_message() {
    let case = case("ag-016-developer-role");
    let text = template_of(&case)
        .render_chat(&messages(&case["given"]["body"]["messages"]), &plain())
        .unwrap();
    assert!(text.starts_with(case["expect"]["rendered_starts_with"].as_str().unwrap()));
}

#[test]
fn pc_001_turns_share_their_beginning() {
    let case = case("pc-001-stable-boundary");
    let tokenizer = template_of(&case);
    let prompt = |turn: &str| {
        let turn = &case["given"][turn];
        let options = TemplateOptions {
            enable_thinking: turn["enable_thinking"].as_bool(),
            ..plain()
        };
        tokenizer.chat_prompt(&messages(&turn["messages"]), &options).unwrap()
    };
    let (first, second) = (prompt("turn1"), prompt("turn2"));
    assert_eq!(first.text, case["expect"]["render_turn1"].as_str().unwrap());
    assert_eq!(second.text, case["expect"]["render_turn2"].as_str().unwrap());
    let shared = first.ids.iter().zip(&second.ids).take_while(|(a, b)| a == b).count();
    assert!(tokenizer.decode(&first.ids[..shared]).len() <= case["expect"]["common_prefix_chars"].as_u64().unwrap() as usize);
    assert!(shared > 0);
    // What is kept of the first turn ends there, so that the second finds it.
    let boundary = first.ids.len() - Tails::of(&tokenizer).unstable(&first.ids);
    assert_eq!(boundary, shared);
    let kept = tokenizer.decode(&first.ids[..boundary]);
    assert!(case["expect"]["snapshot_must_be_at_or_before"].as_str().unwrap().starts_with(&kept));
}

/// The boundary that a template's own turns show is the one that its prompts get, whatever was said in them.
#[test]
fn every_template_has_its_stable_boundary() {
    for name in FAMILIES {
        let tokenizer = family(name);
        let tails = Tails::of(&tokenizer);
        for thinking in [None, Some(true), Some(false)] {
            let options = TemplateOptions {
                enable_thinking: thinking,
                ..plain()
            };
            let mut talk = vec![
                Message::user("How many?"),
                Message::assistant("Three."),
                Message::user("Why is it so?"),
            ];
            let prompt = tokenizer.encode_chat(&talk, &options).unwrap();
            talk.extend([Message::assistant("It was counted."), Message::user("Go on.")]);
            let next = tokenizer.encode_chat(&talk, &options).unwrap();
            let shared = prompt.iter().zip(&next).take_while(|(a, b)| a == b).count();
            let boundary = prompt.len() - tails.unstable(&prompt);
            assert!(
                boundary <= shared && boundary + 64 >= shared.min(prompt.len() - 1),
                "{name} {thinking:?}: {boundary}, {shared}"
            );
        }
    }
    assert_eq!(Tails::default().unstable(&[1, 2, 3]), 1);
}

#[test]
fn rp_005_thinking_off_means_off() {
    let case = case("rp-005-off-means-off");
    let tokenizer = template_of(&case);
    let extra = case["given"]["request"]["chat_template_kwargs"].as_object().unwrap().clone();
    for options in [
        TemplateOptions {
            enable_thinking: Some(false),
            ..plain()
        },
        TemplateOptions { extra, ..plain() },
    ] {
        let prompt = tokenizer.chat_prompt(&[Message::user("q")], &options).unwrap();
        assert!(
            prompt.text.ends_with("<|im_start|>assistant\n<think></think>\n\n") || prompt.text.ends_with("<think>\n</think>\n\n"),
            "{}",
            prompt.text
        );
        assert_eq!(prompt.thinking, None);
        let close = tokenizer.token_id("</think>").unwrap();
        assert!(prompt.ids.contains(&close));
    }
    assert_eq!(
        tokenizer
            .chat_prompt(&[Message::user("q")], &plain())
            .unwrap()
            .thinking
            .unwrap()
            .close,
        "</think>"
    );
}
