//! What a model folder may hold, and what is said when it is broken.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod support;

use dspark_protocol::{EngineError, Message, Prompt, PromptCodec, TemplateOptions, ToolCall};
use dspark_text::{TextError, Tokenizer};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::{fs, path::Path};
use support::{FAMILIES, Folder, data, family};

fn hello() -> [Message; 1] {
    [Message::user("Hi")]
}

fn plain() -> TemplateOptions {
    TemplateOptions::default()
}

#[test]
fn templates_are_found_wherever_they_are() {
    let render = |folder: Folder| folder.load().render_chat(&hello(), &plain()).unwrap();
    assert_eq!(
        render(Folder::with("byte").json("tokenizer_config.json", &json!({"chat_template": "config"}))),
        "config"
    );
    assert_eq!(
        render(Folder::with("byte").json("chat_template.json", &json!({"chat_template": "json"}))),
        "json"
    );
    let both = Folder::with("byte")
        .json("tokenizer_config.json", &json!({"chat_template": "config"}))
        .template("jinja");
    assert_eq!(render(both), "jinja");

    let named = json!({"chat_template": [{"name": "tool_use", "template": "tools"}, {"name": "default", "template": "default"}]});
    let tools = TemplateOptions {
        tools: vec![json!({"type": "function", "function": {"name": "f"}})],
        ..plain()
    };
    let more = Folder::with("byte")
        .template("default")
        .file("additional_chat_templates/tool_use.jinja", "tools");
    for folder in [Folder::with("byte").json("tokenizer_config.json", &named), more] {
        let tokenizer = folder.load();
        assert_eq!(tokenizer.render_chat(&hello(), &plain()).unwrap(), "default");
        assert_eq!(tokenizer.render_chat(&hello(), &tools).unwrap(), "tools");
    }
}

#[test]
fn a_model_without_a_template_still_completes_text() {
    let tokenizer = Folder::with("byte").load();
    assert!(!tokenizer.has_chat_template());
    assert_eq!(tokenizer.encode_chat(&hello(), &plain()), Err(TextError::NoTemplate));
    assert!(!tokenizer.encode_text("Hi").unwrap().is_empty());
}

#[test]
fn a_broken_template_is_named_when_it_is_used() {
    let tokenizer = Folder::with("byte").template("{% if %}").load();
    assert!(!tokenizer.encode_text("Hi").unwrap().is_empty());
    let Err(TextError::Template(words)) = tokenizer.encode_chat(&hello(), &plain()) else {
        panic!()
    };
    assert!(words.contains("syntax error") && words.contains("line 1"), "{words}");
}

#[test]
fn broken_folders_are_errors_with_a_way_out() {
    assert!(matches!(Tokenizer::load(Path::new("/nowhere")), Err(TextError::File { .. })));
    for text in [
        "",
        "{",
        "[]",
        "{\"model\": 1}",
        "{\"version\": \"1.0\", \"model\": {\"type\": \"X\"}}",
        "\u{0}",
    ] {
        let folder = Folder::with("byte").file("tokenizer.json", text);
        let error = Tokenizer::load(folder.0.path()).unwrap_err();
        assert!(
            matches!(&error, TextError::Invalid { .. }) && error.to_string().contains("download"),
            "{text}: {error}"
        );
        assert!(matches!(EngineError::from(error), EngineError::Load { .. }));
    }
    let folder = Folder::with("byte").file("generation_config.json", "{\"eos_token_id\": ");
    let error = Tokenizer::load(folder.0.path()).unwrap_err();
    assert!(error.to_string().contains("generation_config.json"), "{error}");
}

#[test]
fn the_beginning_of_text_comes_when_the_model_wants_it() {
    let bos = |folder: Folder| {
        let tokenizer = folder.load();
        let first = tokenizer.encode_text("Hi").unwrap()[0];
        (tokenizer.bos_id() == Some(first)).then(|| tokenizer.decode(&[first]))
    };
    assert_eq!(bos(Folder::with("llama2")), Some("<s>".into()), "by the post-processor");
    assert_eq!(bos(Folder::with("gemma")), Some("<bos>".into()));
    assert_eq!(bos(Folder::with("byte")), None);
    let config = |add: Value| json!({"bos_token": "<|begin_of_text|>", "add_bos_token": add});
    assert_eq!(
        bos(Folder::with("byte").json("tokenizer_config.json", &config(json!(true)))),
        Some("<|begin_of_text|>".into())
    );
    assert_eq!(bos(Folder::with("byte").json("tokenizer_config.json", &config(json!(null)))), None);
    assert_eq!(
        bos(Folder::with("llama2").json("tokenizer_config.json", &json!({"bos_token": "<s>", "add_bos_token": false}))),
        None
    );

    let tokenizer = Folder::with("llama2").load();
    let once = tokenizer.encode_text("<s>Hi").unwrap();
    assert_eq!(once.iter().filter(|id| Some(**id) == tokenizer.bos_id()).count(), 1, "not twice");
}

#[test]
fn tokens_of_the_configuration_are_added() {
    let json = fs::read_to_string(data("tokenizers/byte.json")).unwrap();
    let mut tokenizer: Value = serde_json::from_str(&json).unwrap();
    let next = tokenizer["added_tokens"].as_array().unwrap().last().unwrap()["id"]
        .as_u64()
        .unwrap()
        + 1;
    tokenizer["added_tokens"]
        .as_array_mut()
        .unwrap()
        .retain(|token| token["content"] != "<s>");
    let added = json!({next.to_string(): {"content": "<|new|>", "special": true}, "99999": {"content": "<|far|>", "special": true}});
    let tokenizer = Folder::with("byte")
        .json("tokenizer_config.json", &json!({"added_tokens_decoder": added}))
        .load();
    assert_eq!(u64::from(tokenizer.token_id("<|new|>").unwrap()), next);
    assert!(tokenizer.is_special(next as u32));
    assert_eq!(
        tokenizer.token_id("<|far|>"),
        None,
        "an id with a gap before it would shift the others"
    );
    assert_eq!(tokenizer.vocab_size(), next as usize + 1);
}

#[test]
fn recommended_sampling_counts_where_the_makers_sample() {
    let sampling = |config: Value| {
        Folder::with("byte")
            .json("generation_config.json", &config)
            .load()
            .recommended_sampling()
    };
    let full = sampling(json!({"temperature": 0.6, "top_p": 0.95, "top_k": 20}));
    assert_eq!((full.temperature, full.top_p, full.top_k), (Some(0.6), Some(0.95), Some(20)));
    assert_eq!(sampling(json!({"temperature": 0.6, "do_sample": false})).temperature, None);
    assert_eq!(sampling(json!({"top_p": 0.9})).top_p, None);
}

#[test]
fn facts_come_from_trying_the_template() {
    let facts = |name: &str| {
        let tokenizer = family(name);
        let facts = tokenizer.template_facts().clone();
        (
            facts.supports_thinking,
            facts.thinking_switch,
            facts.supports_tools,
            facts.reasoning_efforts.join(" "),
        )
    };
    assert_eq!(facts("chatml"), (false, false, false, String::new()));
    assert_eq!(facts("qwen3"), (true, true, true, String::new()));
    assert_eq!(facts("llama3"), (false, false, true, String::new()));
    assert_eq!(facts("deepseek"), (true, false, false, String::new()));
    assert_eq!(facts("prefill"), (true, false, false, String::new()));
    assert_eq!(facts("channels"), (true, false, true, "low medium high".into()));

    let efforts = |source: &str| {
        Folder::with("byte")
            .template(source)
            .load()
            .template_facts()
            .reasoning_efforts
            .clone()
    };
    assert_eq!(efforts("{{ reasoning_effort }}"), ["low", "medium", "high"], "prints anything");
    assert_eq!(
        efforts("{% if reasoning_effort == 'low' %}L{% elif reasoning_effort == 'high' %}H{% else %}M{% endif %}"),
        ["low", "medium", "high"]
    );
    assert_eq!(
        efforts(
            "{% if reasoning_effort is defined and reasoning_effort not in ['low', 'medium', 'xhigh'] %}{{ raise_exception('no') }}{% endif %}{{ reasoning_effort }}"
        ),
        ["low", "medium", "xhigh"]
    );
    assert!(efforts("x").is_empty());
}

#[test]
fn efforts_map_to_the_nearest_of_equals_the_lesser() {
    let source = "{% if reasoning_effort is defined and reasoning_effort not in ['low', 'medium', 'xhigh'] %}{{ raise_exception('no') }}{% endif %}[{{ reasoning_effort }}]";
    let tokenizer = Folder::with("byte").template(source).load();
    for (asked, used) in [
        ("high", "medium"),
        ("HIGH", "medium"),
        ("max", "xhigh"),
        ("minimal", "low"),
        ("low", "low"),
        ("none", ""),
    ] {
        let options = TemplateOptions {
            reasoning_effort: Some(asked.into()),
            ..plain()
        };
        // `none` is nearest to low; thinking goes off as well.
        let expected = if used.is_empty() { "[low]".to_owned() } else { format!("[{used}]") };
        assert_eq!(tokenizer.render_chat(&hello(), &options).unwrap(), expected, "{asked}");
    }
}

#[test]
fn an_option_that_the_template_refuses_is_left_out_and_reported() {
    let source = "{% if enable_thinking is defined %}{{ raise_exception('no thinking here') }}{% endif %}ok";
    let tokenizer = Folder::with("byte").template(source).load();
    let options = TemplateOptions {
        enable_thinking: Some(true),
        ..plain()
    };
    let prompt = tokenizer.chat_prompt(&hello(), &options).unwrap();
    assert_eq!(prompt.text, "ok");
    assert!(prompt.warnings[0].contains("no thinking here"));
    let always = Folder::with("byte").template("{{ raise_exception('never') }}").load();
    assert_eq!(always.render_chat(&hello(), &options), Err(TextError::Template("never".into())));
}

#[test]
fn a_last_answer_is_continued_where_it_stopped() {
    let options = TemplateOptions {
        continue_final_message: true,
        ..plain()
    };
    for name in FAMILIES {
        let tokenizer = family(name);
        for answer in ["The answer is", "The answer is ", "", "<|im_end|> is"] {
            let prompt = tokenizer
                .chat_prompt(&[Message::user("q"), Message::assistant(answer)], &options)
                .unwrap();
            assert!(prompt.text.ends_with(answer), "{name}: {:?}", prompt.text);
            assert_eq!(prompt.thinking, None);
        }
        assert_eq!(tokenizer.chat_prompt(&hello(), &options), Err(TextError::NothingToContinue));
    }
    let text = family("chatml")
        .render_chat(&[Message::user("q"), Message::assistant("A ")], &options)
        .unwrap();
    assert!(text.ends_with("<|im_start|>assistant\nA "));
}

/// A turn that says nothing and only calls is a turn.
#[test]
fn a_last_turn_of_calls_alone_is_no_empty_prompt() {
    let called = Message {
        tool_calls: vec![ToolCall {
            id: "c1".into(),
            name: "f".into(),
            arguments: json!({"x": 1}),
        }],
        ..Message::assistant("")
    };
    for name in FAMILIES {
        let tokenizer = family(name);
        let prompt = tokenizer.chat_prompt(&[Message::user("q"), called.clone()], &plain()).unwrap();
        assert!(prompt.ids.len() > 2 && prompt.text.contains('q'), "{name}: {:?}", prompt.text);
    }
}

#[test]
fn the_codec_answers_for_every_kind_of_prompt() {
    let codec: &dyn PromptCodec = &family("chatml");
    let chat = Prompt::Chat {
        messages: hello().to_vec(),
        options: plain(),
    };
    let ids = codec.encode(&chat).unwrap();
    assert_eq!(codec.decode(&ids), codec.render(&hello(), &plain()).unwrap());
    assert_eq!(codec.encode(&Prompt::Tokens(vec![1, 2])).unwrap(), [1, 2]);
    assert!(!codec.encode(&Prompt::Text("Hi".into())).unwrap().is_empty());
}

#[test]
fn a_tokenizer_is_shared_between_threads() {
    let tokenizer = family("qwen3");
    let expected = tokenizer.encode_chat(&hello(), &plain()).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| assert_eq!(tokenizer.clone().encode_chat(&hello(), &plain()).unwrap(), expected));
        }
    });
}

/// Rendered prompts with their tokens, for people to read.
#[test]
fn prompts_of_every_family() {
    let turns = [
        Message::system("Be brief."),
        Message::user("What does <|im_end|> mean?"),
        Message::assistant("A mark."),
        Message::user("Thanks 👍"),
    ];
    for name in FAMILIES {
        let tokenizer = family(name);
        let turns = if name == "mistral" { &turns[1..] } else { &turns[..] };
        let prompt = tokenizer.chat_prompt(turns, &plain()).unwrap();
        let text = if name == "channels" {
            prompt.text.replace(|c: char| c.is_ascii_digit(), "0")
        } else {
            prompt.text
        };
        let marks: Vec<String> = prompt
            .ids
            .iter()
            .filter(|id| tokenizer.is_special(**id))
            .map(|id| tokenizer.decode(&[*id]))
            .collect();
        insta::assert_snapshot!(format!("prompt_{name}"), format!("{text}\n---\n{}", marks.join(" ")));
    }
}

fn template_source() -> impl Strategy<Value = String> {
    let parts = prop_oneof![
        prop::sample::select(vec![
            "{{",
            "}}",
            "{%",
            "%}",
            "{#",
            "#}",
            "{%-",
            "-%}",
            " for m in messages ",
            " endfor ",
            " if ",
            " endif ",
            " else ",
            "m.content",
            "messages[0]",
            "'",
            "\"",
            "\\",
            "~",
            "|",
            "trim",
            "tojson",
            "raise_exception('x')",
            "(",
            ")",
            "[",
            "]",
            "{",
            "}",
            "range(9)",
            " set x = ",
            "raw",
            "endraw",
            "generation",
            "endgeneration",
            "<|im_start|>",
            "<|im_end|>",
            "\n",
            " ",
            "é",
            "😀",
            "\u{e000}",
        ])
        .prop_map(str::to_owned),
        "\\PC{0,4}",
    ];
    prop::collection::vec(parts, 0..20).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Whatever the template and the conversation: an answer or an error, never a panic.
    #[test]
    fn nothing_panics(source in template_source(), content in "\\PC{0,20}", reply in any::<String>(), go_on in any::<bool>()) {
        let tokenizer = Folder::with("byte").template(&source).load();
        let options = TemplateOptions { continue_final_message: go_on, enable_thinking: Some(false), ..plain() };
        if let Ok(prompt) = tokenizer.chat_prompt(&[Message::user(content), Message::assistant(reply)], &options) {
            let _ = tokenizer.decode(&prompt.ids);
        }
    }
}

/// Blanks and characters that compose are what tokenizers drop or join.
#[test]
fn no_text_has_fewer_tokens_than_its_length_says() {
    let plain = ["byte", "gemma", "llama2", "metaspace"].map(|name| Folder::with(name).load());
    let tokenizers: Vec<Tokenizer> = plain.into_iter().chain(FAMILIES.map(family)).collect();
    let texts = "([a-z]|[ \n\u{3000}]|[e\u{301}\u{308}]|[\u{1112}\u{1161}\u{11ab}]|\\PC){0,60}";
    proptest!(|(text in texts)| {
        for tokenizer in &tokenizers {
            prop_assert!(tokenizer.fewest_tokens(&text) <= tokenizer.encode_fragment(&text).unwrap().len());
        }
    });
    let long = "word ".repeat(4000);
    assert!(
        tokenizers.iter().any(|tokenizer| tokenizer.fewest_tokens(&long) > 0),
        "some are bounded"
    );
}
